//! Noise: a variance for every stem of a gate, and what it means for the gate.
//!
//! Variances are in squared turns (fractions of the torus, squared). Formulas of eprint 2018/421 (external product, key
//! switch, gate bootstrap) in the average case of eprint 2022/704 and 2021/729: balanced digits, rounding terms. They are
//! checked by measurement in `tests/noise`. When a kernel changes how digits or roundings fall, its function here changes
//! in the same commit.

use super::params::ParamsLiteral;
use crate::modular::RING_MODULUS;

/// `E[s^2]` of a coefficient of the ring key, uniform in {-1, 0, 1}.
const RING_SECRET_SQUARE: f64 = 2.0 / 3.0;

/// `E[d^2]` of a balanced digit in base `B`: uniform on `-B/2 .. B/2 - 1`, or symmetric when B is odd.
fn digit_square(base: f64) -> f64 {
    if base % 2.0 == 0.0 { (base * base + 2.0) / 12.0 } else { (base * base - 1.0) / 12.0 }
}

/// Variance of the part that a decomposition in `levels` digits of base `B` drops.
fn dropped(base: f64, levels: usize) -> f64 {
    base.powi(-2 * levels as i32) / 12.0
}

/// Blind rotation: `n` external products.
///
/// Each adds the noise of its RGSW rows times the digits, and, where the key bit is one (half of them), the part that
/// the digits drop, seen through the ring key.
pub fn blind_rotate(p: &ParamsLiteral) -> f64 {
    let (n, l, dimension) = (p.lwe_dimension as f64, p.bootstrap_level_count, p.extracted_dimension() as f64);
    let base = (p.bootstrap_base_log as f64).exp2();
    let rows = (l * (p.glwe_dimension + 1) * p.polynomial_size) as f64;
    let gadget = rows * digit_square(base) * p.glwe_noise_std.powi(2);
    let drop = (1.0 + dimension * RING_SECRET_SQUARE) * dropped(base, l);
    n * gadget + n / 2.0 * drop
}

/// What rounding an imported key's words from the torus to q adds to the variance of each of its bootstrapping rows.
/// `ring_secret_square`: 2/3 for a ternary ring key, 1/2 for the binary one of tfhe-rs.
pub fn import_rounding(p: &ParamsLiteral, ring_secret_square: f64) -> f64 {
    (1.0 + p.extracted_dimension() as f64 * ring_secret_square) / 12.0 / (RING_MODULUS as f64).powi(2)
}

/// Key switch from the ring key to the small key.
pub fn lwe_key_switch(p: &ParamsLiteral) -> f64 {
    let (dimension, l, base) = (p.extracted_dimension() as f64, p.key_switch_level_count, p.key_switch_base as f64);
    dimension * l as f64 * digit_square(base) * p.lwe_noise_std.powi(2)
        + dimension * RING_SECRET_SQUARE * dropped(base, l)
}

/// Modulus switch of a mask and a body to `2N`, for a binary key of the expected weight `n / 2`.
pub fn mod_switch(p: &ParamsLiteral) -> f64 {
    (1.0 + p.lwe_dimension as f64 / 2.0) / (12.0 * (2.0 * p.polynomial_size as f64).powi(2))
}

/// The output of a gate of one bootstrap.
pub fn gate_output(p: &ParamsLiteral) -> f64 {
    blind_rotate(p) + lwe_key_switch(p)
}

/// The output of MUX: two blind rotations, one key switch.
pub fn mux_output(p: &ParamsLiteral) -> f64 {
    2.0 * blind_rotate(p) + lwe_key_switch(p)
}

/// log2 of the probability that a gate's result (or a decryption) is wrong, by its inputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailureLog2 {
    /// NAND, AND, OR, NOR on gate outputs.
    pub gate: f64,
    /// XOR, XNOR on gate outputs.
    pub xor: f64,
    /// MUX on gate outputs.
    pub mux: f64,
    /// The worst gate: MUX of MUX outputs.
    pub worst: f64,
    /// Decryption of a gate's output.
    pub decrypt: f64,
}

/// Failure probabilities of a parameter set (both sides of the margin counted).
pub fn failure_log2(p: &ParamsLiteral) -> FailureLog2 {
    let (output, mux, switch) = (gate_output(p), mux_output(p), mod_switch(p));
    let gate = beyond(1.0 / 8.0, 2.0 * output + switch);
    FailureLog2 {
        gate,
        xor: beyond(1.0 / 4.0, 8.0 * output + switch),
        // two bootstraps, either of which may fail
        mux: gate + 1.0,
        worst: beyond(1.0 / 8.0, 2.0 * mux + switch) + 1.0,
        decrypt: beyond(1.0 / 8.0, output),
    }
}

/// log2 of the probability that a centred Gaussian of this variance is at least `margin` away from 0.
fn beyond(margin: f64, variance: f64) -> f64 {
    let z = margin / (2.0 * variance).sqrt();
    if z < 25.0 {
        libm::erfc(z).log2()
    } else {
        // erfc itself underflows: its asymptote
        (-z * z - (z * std::f64::consts::PI.sqrt()).ln()) / std::f64::consts::LN_2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tfhe::Preset;

    /// What was published when the presets were chosen: log2 of deviations, log2 of failures.
    #[test]
    fn the_model_gives_the_published_figures_of_every_preset() {
        for (preset, deviations, failures) in [
            (Preset::Fast128, [-7.773, -7.290, -8.634, -6.992, -6.782], [-90.7, -94.0, -89.7, -68.3]),
            (Preset::Standard128, [-7.696, -8.068, -8.557, -7.358, -7.008], [-142.7, -152.4, -141.7, -91.0]),
            (Preset::Conservative128, [-8.861, -8.047, -7.444, -7.845, -7.687], [-163.4, -249.0, -162.4, -143.9]),
        ] {
            let p = preset.params();
            let variances = [blind_rotate(&p), lwe_key_switch(&p), mod_switch(&p), gate_output(&p), mux_output(&p)];
            for (variance, expected) in variances.into_iter().zip(deviations) {
                assert!((variance.log2() / 2.0 - expected).abs() < 0.001, "{preset:?} {expected}");
            }
            let f = failure_log2(&p);
            for (failure, expected) in [f.gate, f.xor, f.mux, f.worst].into_iter().zip(failures) {
                assert!((failure - expected).abs() < 0.5, "{preset:?} {failure} {expected}");
            }
        }
    }
}
