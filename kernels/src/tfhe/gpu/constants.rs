//! The constants that a kernel gets from the parameters of a gate key.

use crate::gpu::source::{Constant, ring_constants};
use crate::tfhe::cpu::Decomposition;
use crate::tfhe::torus::TORUS_CORRECTION;
use crate::tfhe::{ModSwitch, Params, RING_MODULUS, ring};

/// Constants of all stems.
pub fn constants(p: &Params) -> Vec<Constant> {
    let ring = ring(p.polynomial_size);
    let digits = Decomposition::new(p);
    let covered = u64::from(p.key_switch_base).pow(p.key_switch_level_count as u32);
    let mut constants = ring_constants(&ring);
    constants.extend([
        ("TORUS_CORRECTION", TORUS_CORRECTION),
        ("EIGHTH_Q", (RING_MODULUS + 4) / 8),
        ("QUARTER_Q", (RING_MODULUS + 2) / 4),
        // a primitive 64th root of unity: psi^(N / 32)
        ("ROOT_64", ring.roots[16].value),
        ("K", p.glwe_dimension as u32),
        ("LEVELS", p.bootstrap_level_count as u32),
        ("BASE_LOG", p.bootstrap_base_log as u32),
        ("DIGIT_OFFSET", digits.offset),
        ("DIGIT_SHIFT", digits.shift),
        ("LWE_DIMENSION", p.lwe_dimension as u32),
        ("CENTRED", u32::from(p.mod_switch == ModSwitch::Centred)),
        ("EXTRACTED_DIMENSION", p.extracted_dimension() as u32),
        ("KS_BASE", p.key_switch_base),
        ("KS_LEVELS", p.key_switch_level_count as u32),
        // D^t is at most 2^32; as a 32-bit word, 2^32 is 0
        ("KS_COVERED", covered as u32),
    ]);
    constants
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tfhe::params::POLYNOMIAL_SIZES;

    #[test]
    fn the_64th_root_of_unity_is_the_same_in_every_ring() {
        let roots = [64, 128, 256, 512, 1024, 2048].map(|n| ring(n).roots[16].value);
        assert_eq!(roots, [roots[0]; 6]);
        assert_eq!(POLYNOMIAL_SIZES, 64..=2048);
    }
}
