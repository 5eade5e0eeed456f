//! Noise: the variance that each step of a gate adds, and how these variances determine the gate's failure probability.
//!
//! Variances are in squared turns (fractions of the torus, squared). The formulas are those of eprint 2018/421
//! (external product, key switch, gate bootstrap) for the average case as in eprint 2022/704 and 2021/729, with
//! balanced digits and rounding terms. `tests/compute/noise` checks them by measurement. When a commit changes a
//! kernel's digits or roundings, the commit must also change the kernel's function here.
//!
//! Failure probabilities hold for gates with independent operands. The operands of every gate that reaches a bootstrap
//! are independent, for three reasons. First, equal, opposite and constant operands are folded before the bootstrap
//! ([`super::fold`]). Second, every result is one sample of one rotation and a key switch, so no two results share a
//! sample: MUX is refreshed, and no output of a circuit is a sum of samples. Third, different samples have independent
//! noise even if their bits depend on one another, because the digits that multiply the key's noise are as good as
//! random. The formulas include the only remaining dependence: results under one key share the [`key_constant`].

mod sum;

pub use sum::{InputNoise, Load, SumNoise};

use super::params::{ModSwitch, ParamsLiteral, RING_MODULUS};

/// Statistics of a secret key. The noise under this key depends on them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Secret {
    /// Fraction of ones among the bits of the small key, 0 to 1.
    pub ones: f64,
    /// Mean square of the ring key's coefficients. Expected values: 2/3 for ternary keys, 1/2 for the binary keys of
    /// tfhe-rs.
    pub ring_square: f64,
}

impl Secret {
    /// The expected statistics of Ango's keys: uniform binary bits, coefficients uniform in {-1, 0, 1}.
    pub const OURS: Secret = Secret { ones: 1.0 / 2.0, ring_square: 2.0 / 3.0 };
}

/// `E[d^2]` of a balanced digit in base `B`. The digit is uniform on `-B/2 ..= B/2 - 1`, or symmetric around 0 when B
/// is odd.
fn digit_square(base: f64) -> f64 {
    if base % 2.0 == 0.0 { (base * base + 2.0) / 12.0 } else { (base * base - 1.0) / 12.0 }
}

/// `E[d]^2` of a balanced digit. The mean of the digit is -1/2, or 0 when B is odd.
fn digit_mean_square(base: f64) -> f64 {
    if base % 2.0 == 0.0 { 1.0 / 4.0 } else { 0.0 }
}

/// Variance of the remainder that is dropped in a decomposition into `levels` digits of base `B`.
fn dropped(base: f64, levels: usize) -> f64 {
    base.powi(-2 * levels as i32) / 12.0
}

/// Variance of a blind rotation: `n` external products.
///
/// Each product adds the noise of its RGSW rows times the digits. If the key bit is one, the product also adds the
/// part that the digits drop, multiplied by the ring key.
pub fn blind_rotate(p: &ParamsLiteral, secret: Secret) -> f64 {
    let (n, l, dimension) = (p.lwe_dimension as f64, p.bootstrap_level_count, p.extracted_dimension() as f64);
    let base = (p.bootstrap_base_log as f64).exp2();
    let rows = (l * (p.glwe_dimension + 1) * p.polynomial_size) as f64;
    let gadget = rows * digit_square(base) * p.glwe_noise_std.powi(2);
    let drop = (1.0 + dimension * secret.ring_square) * dropped(base, l);
    n * gadget + n * secret.ones * drop
}

/// The words of an imported key are rounded from the torus to q. This is the variance that the rounding adds to each
/// bootstrapping row of the key.
pub fn import_rounding(p: &ParamsLiteral, secret: Secret) -> f64 {
    (1.0 + p.extracted_dimension() as f64 * secret.ring_square) / 12.0 / (RING_MODULUS as f64).powi(2)
}

/// Variance of a key switch from the ring key to the small key.
pub fn lwe_key_switch(p: &ParamsLiteral, secret: Secret) -> f64 {
    let (dimension, l, base) = (p.extracted_dimension() as f64, p.key_switch_level_count, p.key_switch_base as f64);
    dimension * l as f64 * digit_square(base) * p.lwe_noise_std.powi(2)
        + dimension * secret.ring_square * dropped(base, l)
}

/// The part of [`lwe_key_switch`] that all results under one key share. Digits of an even base have mean -1/2, so each
/// result contains half the sum of the key's errors. The figure is an average over keys, and 0 for odd bases.
pub fn key_constant(p: &ParamsLiteral) -> f64 {
    let rows = (p.extracted_dimension() * p.key_switch_level_count) as f64;
    rows * digit_mean_square(p.key_switch_base as f64) * p.lwe_noise_std.powi(2)
}

/// Variance of the mod switch of a mask and a body to `2N`.
///
/// With the nearest switch, the rounding error of a mask word counts only if its key bit is one. The centred switch
/// always subtracts half of the error, so `+-1/2` of the error remains for either key bit.
pub fn mod_switch(p: &ParamsLiteral, secret: Secret) -> f64 {
    let of_mask_word = match p.mod_switch {
        ModSwitch::Nearest => secret.ones,
        ModSwitch::Centred => 1.0 / 4.0,
    };
    (1.0 + p.lwe_dimension as f64 * of_mask_word) / (12.0 * (2.0 * p.polynomial_size as f64).powi(2))
}

/// Variance of the output of a gate of one bootstrap.
pub fn gate_output(p: &ParamsLiteral, secret: Secret) -> f64 {
    blind_rotate(p, secret) + lwe_key_switch(p, secret)
}

/// Variance of the sum that the last bootstrap of a MUX refreshes: two blind rotations, one key switch.
pub fn mux_sum(p: &ParamsLiteral, secret: Secret) -> f64 {
    2.0 * blind_rotate(p, secret) + lwe_key_switch(p, secret)
}

/// log2 of the probability that a gate's result (or a decryption) is wrong, for several kinds of inputs. The inputs are
/// independent except for the [`key_constant`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailureLog2 {
    /// NAND, AND, OR or NOR of gate outputs.
    pub gate: f64,
    /// XOR or XNOR of gate outputs.
    pub xor: f64,
    /// MUX of gate outputs, the worst gate.
    pub mux: f64,
    /// Decryption of a gate's output.
    pub decrypt: f64,
}

/// Failure probabilities of a parameter set under Ango's keys, counting both sides of the margin.
pub fn failure_log2(p: &ParamsLiteral) -> FailureLog2 {
    let output = gate_output(p, Secret::OURS);
    let (switch, constant) = (mod_switch(p, Secret::OURS), key_constant(p));
    // the variance of x + y is twice the variance of an operand plus twice the covariance
    let sum = 2.0 * output + 2.0 * constant;
    let gate = beyond(1.0 / 8.0, sum + switch);
    let refresh = beyond(1.0 / 8.0, mux_sum(p, Secret::OURS) + switch);
    FailureLog2 {
        gate,
        xor: beyond(1.0 / 4.0, 4.0 * sum + switch),
        // three bootstraps, each of which may fail
        mux: gate + (2.0 + (refresh - gate).exp2()).log2(),
        decrypt: beyond(1.0 / 8.0, output),
    }
}

/// log2 of the probability that a centred Gaussian of this variance is at least `margin` away from 0.
pub(in crate::tfhe) fn beyond(margin: f64, variance: f64) -> f64 {
    let z = margin / (2.0 * variance).sqrt();
    if z < 25.0 {
        libm::erfc(z).log2()
    } else {
        // erfc underflows here, so its asymptotic form is used
        (-z * z - (z * std::f64::consts::PI.sqrt()).ln()) / std::f64::consts::LN_2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tfhe::Preset;

    /// The published figures, for new keys and for keys of container version 1: log2 of standard deviations and of
    /// failure probabilities. The failure probabilities of `standard_128` include the constant of its even key-switch
    /// base. Without the constant, version 1 would have -142.7, -152.4, -141.7.
    #[test]
    fn the_model_gives_the_published_figures_of_every_preset() {
        use ModSwitch::{Centred, Nearest};
        for (preset, mod_switch, deviations, failures) in [
            (Preset::Fast128, Centred, [-7.773, -7.290, -9.132, -6.992, -6.782], [-92.8, -94.6, -91.8]),
            (Preset::Standard128, Centred, [-7.696, -8.068, -9.055, -7.358, -7.008], [-147.2, -152.3, -146.2]),
            (Preset::Conservative128, Centred, [-8.861, -8.047, -7.942, -7.845, -7.687], [-211.7, -273.1, -210.7]),
            (Preset::Fast128K2, Centred, [-7.934, -7.290, -8.132, -7.043, -6.859], [-92.0, -99.2, -91.0]),
            (Preset::Standard128K2, Centred, [-7.857, -8.068, -8.055, -7.455, -7.128], [-144.9, -166.4, -143.9]),
            (Preset::Fast128, Nearest, [-7.773, -7.290, -8.634, -6.992, -6.782], [-90.7, -94.0, -89.7]),
            (Preset::Standard128, Nearest, [-7.696, -8.068, -8.557, -7.358, -7.008], [-141.1, -150.6, -140.1]),
            (Preset::Conservative128, Nearest, [-8.861, -8.047, -7.444, -7.845, -7.687], [-163.4, -249.1, -162.4]),
        ] {
            let (p, secret) = (preset.params().with_mod_switch(mod_switch), Secret::OURS);
            let variances = [
                blind_rotate(&p, secret),
                lwe_key_switch(&p, secret),
                super::mod_switch(&p, secret),
                gate_output(&p, secret),
                mux_sum(&p, secret),
            ];
            for (variance, expected) in variances.into_iter().zip(deviations) {
                assert!((variance.log2() / 2.0 - expected).abs() < 0.001, "{preset:?} {mod_switch:?} {expected}");
            }
            let f = failure_log2(&p);
            for (failure, expected) in [f.gate, f.xor, f.mux].into_iter().zip(failures) {
                assert!((failure - expected).abs() < 0.051, "{preset:?} {mod_switch:?} {failure} {expected}");
            }
        }
    }

    /// If a ciphertext is added to itself, the sum has four times the ciphertext's variance. If two results contain one
    /// rotation with opposite signs, as XOR and AND of one rotation do, their sum has the variance of five rotations. If
    /// a MUX was not refreshed, two of them could add one rotation twice: six rotations. So such results would not keep
    /// what some presets promise.
    #[test]
    fn results_that_share_a_rotation_would_miss_what_the_presets_promise() {
        for (preset, promised, equal, five, six) in [
            (Preset::Fast128, -64.0, -48.4, -63.1, -57.1),
            (Preset::Standard128, -80.0, -77.8, -79.6, -69.2),
            (Preset::Conservative128, -128.0, -126.3, -169.4, -158.9),
            (Preset::Fast128K2, -64.0, -49.8, -66.9, -61.4),
            (Preset::Standard128K2, -80.0, -81.9, -86.7, -76.6),
        ] {
            let (p, secret) = (preset.params(), Secret::OURS);
            let switch = mod_switch(&p, secret);
            let found_equal = beyond(1.0 / 8.0, 4.0 * gate_output(&p, secret) + switch);
            let [found_five, found_six] = [5.0, 6.0].map(|rotations| {
                let sum = rotations * blind_rotate(&p, secret) + 2.0 * lwe_key_switch(&p, secret);
                beyond(1.0 / 8.0, sum + 2.0 * key_constant(&p) + switch)
            });
            let found = [found_equal, found_five, found_six];
            let fits = found.iter().zip([equal, five, six]).all(|(found, expected)| (found - expected).abs() < 0.1);
            assert!(fits, "{preset:?}: {found:.1?}");
            assert!(failure_log2(&p).mux < promised, "{preset:?}");
        }
    }
}
