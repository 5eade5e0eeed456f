//! Converts residues of the ring to words of the 32-bit torus, and words of the torus to residues.

use super::params::MODULUS;

/// `q` as a 64-bit word.
const Q: u64 = MODULUS.q() as u64;

/// `(2^30 - q) / q` in units of 2^-32, rounded down. This factor corrects a word modulo `q` that was converted to the
/// torus by a shift of two bits.
pub const TORUS_CORRECTION: u32 = ((((1u64 << 30) - Q) << 32) / Q) as u32;

/// Maps `x` in `[0, q)` to the 32-bit torus: `x 2^32 / q`, at most two units too low. This code defines the exact result.
#[inline(always)]
pub fn to_torus_lazy(x: u32) -> u32 {
    let x = x << 2;
    x.wrapping_add(((x as u64 * TORUS_CORRECTION as u64) >> 32) as u32)
}

/// Maps `x` in `[0, q)` to the 32-bit torus, rounded to nearest: `round(x 2^32 / q)`. Only for public words, because
/// the function contains a division.
#[inline(always)]
pub fn to_torus(x: u32) -> u32 {
    ((((x as u64) << 32) + Q / 2) / Q) as u32
}

/// Maps a torus word to a residue modulo `q`, rounded to nearest: `round(u q / 2^32) mod q`.
#[inline(always)]
pub fn from_torus(u: u32) -> u32 {
    MODULUS.reduce_once(((u as u64 * Q + (1 << 31)) >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn torus_words_are_nearest(x in 0..MODULUS.q()) {
            let exact = (x as f64) * 4294967296.0 / Q as f64;
            prop_assert!((to_torus(x) as f64 - exact).abs() <= 0.500001 || to_torus(x) == 0);
            let low = to_torus(x).wrapping_sub(to_torus_lazy(x));
            prop_assert!(low <= 2, "{low}");
            prop_assert_eq!(from_torus(to_torus(x)), x);
        }
    }
}
