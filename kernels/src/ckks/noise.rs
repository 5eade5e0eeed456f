//! The error of ciphertexts, operation by operation, from public data alone.
//!
//! The formulas are average-case forms of Lemmas 1 to 3 of Cheon, Kim, Kim, Song (eprint 2016/421), for the hybrid key
//! switching of Han and Ki (eprint 2019/688). They use variances instead of bounds (Costache et al., eprint 2022/162).
//! Secrets are uniform ternary.

use super::params::{Params, PartKind};
use super::room;
use super::sources::Sources;
use crate::security::ERROR_STD;

/// Variance of a coefficient of a uniform ternary secret.
const SECRET_VARIANCE: f64 = 2.0 / 3.0;
/// Variance of a rounding to the nearest integer.
const ROUNDING: f64 = 1.0 / 12.0;
/// Standard deviation of the error that a transform between coefficients and slots causes in a slot: the roundings of
/// its double-precision arithmetic. Relative to the bound on the slots.
const DOUBLE: f64 = 1.5 / (1u64 << 53) as f64;
/// Bound on the error that decoding causes in each slot, relative to the bound on the slots: eight deviations of the
/// transform, and the roundings of coefficients and scales.
const DECODING: f64 = 16.0 / (1u64 << 53) as f64;
/// `log2` of the probability with which some slot of a vector has a larger error than [`Noise::error_bound`].
const LOG_FAILURE: f64 = -40.0;
/// A result with this many bits of precision, or fewer, has a noise budget of 0. [`Noise::budget`] takes a smaller
/// limit if fresh ciphertexts have fewer than 9 bits.
const PRECISION_MIN: f64 = 8.0;

/// The slots of a ciphertext behind the first `d`, where `d` is the dimension of [`super::matmul`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tail {
    /// The slots hold the numbers that the client put there: zeros, if the ciphertext is a vector for `matmul`.
    #[default]
    AsSent,
    /// An operation may have put other numbers there.
    Mixed,
}

/// Public knowledge about a ciphertext: a bound on its numbers, and the variance of its error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Bound on the magnitude of each slot: declared when the slots are encrypted, updated by operations.
    pub value_bound: f64,
    /// Variance of a coefficient's error, in units of 1 (not divided by the scale).
    pub variance: f64,
    /// The slots that `matmul` takes for zeros. Only whole operations know their effect on it, so the functions of a
    /// step leave [`Tail::AsSent`].
    pub tail: Tail,
    /// The fresh encryptions from which the ciphertext was computed. Only whole operations tell them, so the functions
    /// of a step leave [`Sources::UNKNOWN`].
    pub sources: Sources,
}

impl Noise {
    /// Noise of this bound and this variance.
    pub const fn new(value_bound: f64, variance: f64) -> Noise {
        Noise { value_bound, variance, tail: Tail::AsSent, sources: Sources::UNKNOWN }
    }

    /// The same record with figures that a container holds: amounts too small for a normal double are raised to the
    /// smallest normal double.
    pub fn normal(self) -> Noise {
        let raised = |amount: f64| if amount.is_subnormal() { f64::MIN_POSITIVE } else { amount };
        Noise { value_bound: raised(self.value_bound), variance: raised(self.variance), ..self }
    }

    /// The noise of the same ciphertext after its owner has promised bounds: on the numbers, and on the error of each
    /// number. A promise above what is known changes nothing.
    pub fn promised(self, n: usize, scale: f64, value_bound: Option<f64>, error_bound: Option<f64>) -> Noise {
        let value_bound = value_bound.unwrap_or(f64::INFINITY).min(self.value_bound);
        let of_error = |bound: f64| {
            let deviation = (bound - DECODING * value_bound).max(0.0) * scale / deviations(n);
            2.0 * square(deviation) / n as f64
        };
        let variance = error_bound.map_or(f64::INFINITY, of_error).min(self.variance);
        Noise { value_bound, variance, ..self }.normal()
    }

    /// The noise of a fresh encryption by the secret key.
    pub fn encrypt_secret(value_bound: f64) -> Noise {
        Noise::new(value_bound, ERROR_STD * ERROR_STD + ROUNDING)
    }

    /// The noise of a fresh encryption by a public key of degree `n`.
    pub fn encrypt_public(n: usize, value_bound: f64) -> Noise {
        let variance = ERROR_STD * ERROR_STD * (1.0 + 2.0 * SECRET_VARIANCE * n as f64) + ROUNDING;
        Noise::new(value_bound, variance)
    }

    /// The noise of the same ciphertext with the error of its encoding: numbers up to the bound were transformed to
    /// coefficients in double precision at the scale `scale`.
    // not inlined, because this function divides, and the functions that call it on a client must not
    #[inline(never)]
    pub fn encoded(self, n: usize, scale: f64) -> Noise {
        Noise { variance: self.variance + encoding_variance(n, scale, self.value_bound), ..self }
    }

    /// The noise of a sum or difference of ciphertexts whose errors may be correlated. The scales may differ by
    /// rounding; this difference is treated as an error of the second operand.
    pub fn add(self, other: Noise, [scale, other_scale]: [f64; 2], n: usize) -> Noise {
        let deviation = libm::sqrt(self.variance) + libm::sqrt(other.variance);
        let sum = Noise::new(self.value_bound + other.value_bound, square(deviation));
        sum.deviate(other.value_bound * (scale - other_scale).abs(), n)
    }

    /// The noise of a sum or difference of ciphertexts with independent errors, such as fresh ciphertexts, or results
    /// computed from different ciphertexts.
    pub fn add_independent(self, other: Noise, scales: [f64; 2], n: usize) -> Noise {
        let sum = Noise::new(self.value_bound + other.value_bound, self.variance + other.variance);
        sum.deviate(other.value_bound * (scales[0] - scales[1]).abs(), n)
    }

    /// The noise of a sum with a plaintext of scale `scale` and values up to `value_bound`.
    pub fn add_plain(self, n: usize, scale: f64, value_bound: f64) -> Noise {
        let more = ROUNDING + encoding_variance(n, scale, value_bound);
        Noise::new(self.value_bound + value_bound, self.variance + more)
    }

    /// The noise of a product of a ciphertext of scale `scale` with a plaintext of scale `plain_scale` and values up
    /// to `value_bound`.
    pub fn multiply_plain(self, n: usize, [scale, plain_scale]: [f64; 2], value_bound: f64) -> Noise {
        let of_plain = ROUNDING + encoding_variance(n, plain_scale, value_bound);
        let variance = self.variance * square(plain_scale * value_bound) + square(scale * self.value_bound) * of_plain;
        Noise::new(self.value_bound * value_bound, variance)
    }

    /// The noise of a product with a whole number.
    pub fn multiply_number(self, factor: f64) -> Noise {
        Noise::new(self.value_bound * factor.abs(), self.variance * square(factor))
    }

    /// The noise after every slot has changed by at most `by`, in units of 1 (not divided by the scale). The change may
    /// be the same in all slots, so [`Noise::error_bound`] grows by the whole change.
    pub fn deviate(self, by: f64, n: usize) -> Noise {
        let deviation = by / deviations(n) * libm::sqrt(2.0 / n as f64);
        Noise { variance: square(libm::sqrt(self.variance) + deviation), ..self }
    }

    /// The noise of the negated ciphertext.
    pub fn negate(self) -> Noise {
        self
    }

    /// The noise of a product of two ciphertexts with independent errors, before relinearization.
    pub fn multiply(self, other: Noise, [scale, other_scale]: [f64; 2], n: usize) -> Noise {
        let crossed =
            self.variance * square(other_scale * other.value_bound) + other.variance * square(scale * self.value_bound);
        let variance = crossed + n as f64 * self.variance * other.variance;
        Noise::new(self.value_bound * other.value_bound, variance)
    }

    /// The noise of a product of ciphertexts that may be equal or correlated, before relinearization.
    pub fn multiply_dependent(self, other: Noise, [scale, other_scale]: [f64; 2], n: usize) -> Noise {
        let crossed = libm::sqrt(self.variance) * other_scale * other.value_bound
            + libm::sqrt(other.variance) * scale * self.value_bound;
        let variance = square(crossed) + 2.0 * n as f64 * self.variance * other.variance;
        Noise::new(self.value_bound * other.value_bound, variance)
    }

    /// The noise of a square, before relinearization.
    pub fn square(self, scale: f64, n: usize) -> Noise {
        self.multiply_dependent(self, [scale; 2], n)
    }

    /// The noise after a key switch at `level` by a part of this kind and level `key_level`: a rotation, a
    /// conjugation, or a relinearization without a rescale.
    pub fn key_switch(self, params: &Params, kind: PartKind, key_level: usize, level: usize) -> Noise {
        let more = key_switch_variance(params, kind, key_level, level) + rounding_variance(params.n());
        Noise { variance: self.variance + more, ..self }
    }

    /// The noise after a multiplication by `factor` and a division to the lower level `to`
    /// ([`super::Chain::divisor`]).
    pub fn rescale(self, params: &Params, level: usize, to: usize, factor: f64) -> Noise {
        let factor = factor / params.chain().divisor(level, to);
        Noise { variance: self.variance * square(factor) + rounding_variance(params.n()), ..self }
    }

    /// The noise of a product after one division that both relinearizes and rescales it to the level `to`.
    pub fn relinearize_rescale(self, params: &Params, key_level: usize, level: usize, to: usize) -> Noise {
        let switched = key_switch_variance(params, PartKind::Relinearization, key_level, level);
        Noise { variance: self.variance + switched, ..self }.rescale(params, level, to, 1.0)
    }

    /// The noise after primes are dropped without a division. The level is then lower, and the scale is the same.
    pub fn drop_level(self) -> Noise {
        self
    }

    /// Bound on every slot's error after decryption, in the unit of the numbers. The probability that some slot's error
    /// exceeds this bound is 2^-40.
    pub fn error_bound(&self, n: usize, scale: f64) -> f64 {
        self.scheme_error(n, scale) + DECODING * self.value_bound
    }

    /// The part of [`Noise::error_bound`] that the ciphertext holds: all but the roundings of decoding.
    fn scheme_error(&self, n: usize, scale: f64) -> f64 {
        deviations(n) * libm::sqrt(self.variance * n as f64 / 2.0) / scale
    }

    /// Number of correct bits behind the binary point: `-log2` of [`Noise::error_bound`].
    pub fn precision_bits(&self, n: usize, scale: f64) -> f64 {
        -libm::log2(self.error_bound(n, scale))
    }

    /// Number of correct bits relative to the bound on the values.
    pub fn relative_precision_bits(&self, n: usize, scale: f64) -> f64 {
        libm::log2(self.value_bound / self.error_bound(n, scale))
    }

    /// Whether the numbers, with their errors, cannot wrap around the modulus of the level. False for NaN.
    pub fn fits(&self, params: &Params, level: usize, scale: f64) -> bool {
        room::fits(self.largest_coefficient(params.n(), scale), params.level(level).log_modulus)
    }

    /// Bound on the magnitude of every coefficient at the scale `scale`. A coefficient is a mean of rotated slots, and
    /// the error of a slot is a complex number, whose two parts have the bound [`Noise::error_bound`] each.
    pub fn largest_coefficient(&self, n: usize, scale: f64) -> f64 {
        scale * (self.value_bound + std::f64::consts::SQRT_2 * self.error_bound(n, scale))
    }

    /// Computes the remaining noise budget of a ciphertext.
    pub fn budget(&self, params: &Params, level: usize, scale: f64) -> NoiseBudget {
        let (n, top) = (params.n(), params.level_max());
        let fresh = Noise::encrypt_public(n, 1.0).precision_bits(n, params.level(top).scale);
        let least = PRECISION_MIN.min(fresh - 1.0);
        let precision = ((-libm::log2(self.scheme_error(n, scale)) - least) / (fresh - least)).clamp(0.0, 1.0);
        let levels_remaining = level - params.chain().owed(level, scale);
        let levels = levels_remaining as f64 / top as f64;
        // for NaN, `fits` is false, so the budget is 0
        let percent = if self.fits(params, level, scale) { levels.min(precision) * 100.0 } else { 0.0 };
        NoiseBudget {
            percent,
            levels_remaining,
            precision_bits: self.precision_bits(n, scale),
            value_bound: self.value_bound,
            scale_bits: libm::log2(scale),
        }
    }
}

/// The remaining budget of a ciphertext: an estimate from public data and declared bounds. The actual error is unknown,
/// because only the client can decrypt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoiseBudget {
    /// `noise_budget_remaining`: the smaller of the remaining levels and the remaining precision, in percent; 0 if the
    /// value may wrap around the modulus (readings C11).
    pub percent: f64,
    /// How many more multiplications are possible, one after another: the level, less the levels that a product owes
    /// which was not rescaled.
    pub levels_remaining: usize,
    /// Number of correct bits behind the binary point.
    pub precision_bits: f64,
    /// The bound on the magnitude of each slot.
    pub value_bound: f64,
    /// `log2` of the scale.
    pub scale_bits: f64,
}

/// Returns a number of standard deviations that bounds the error in each of `N / 2` slots.
///
/// At a slot, the secret's value multiplies the error of a rounding, and a digit's value multiplies the error of a key.
/// In each case, the factors are two complex normal numbers. The real part of such a product has Laplace's
/// distribution: it exceeds `t` deviations with probability `exp(-sqrt(2) t)`. (Fresh encryptions by the secret key
/// have normal errors; for them, this bound is a bit and a half larger than needed.)
fn deviations(n: usize) -> f64 {
    (libm::log2(n as f64 / 2.0) - LOG_FAILURE) * std::f64::consts::LN_2 / std::f64::consts::SQRT_2
}

/// Variance of a coefficient's error after numbers up to `value_bound` were transformed to coefficients at the scale
/// `scale`, in double precision.
pub(super) fn encoding_variance(n: usize, scale: f64, value_bound: f64) -> f64 {
    2.0 * square(DOUBLE * scale * value_bound) / n as f64
}

/// Variance of the error that a division causes by rounding both polynomials.
pub(super) fn rounding_variance(n: usize) -> f64 {
    (1.0 + n as f64 * SECRET_VARIANCE) * ROUNDING
}

/// Variance of the error that the errors in a part's rows cause after the division by the special primes. This is the
/// sum over the part's digits of `N sigma^2 (Q_j / P)^2 / 12`, where `Q_j` is the product of the digit's primes at this
/// level.
pub(super) fn key_switch_variance(params: &Params, kind: PartKind, key_level: usize, level: usize) -> f64 {
    let of_level = &params.level(level).primes;
    let log = |&prime: &usize| libm::log2(f64::from(params.primes()[prime].q()));
    let digit = |primes: &Vec<usize>| {
        let present: Vec<usize> = primes.iter().copied().filter(|prime| of_level.contains(prime)).collect();
        let log_ratio: f64 = present.iter().map(log).sum::<f64>() - params.log_special(kind);
        if present.is_empty() { 0.0 } else { libm::exp2(2.0 * log_ratio) }
    };
    let digits: f64 = params.digits(kind, key_level).iter().map(digit).sum();
    params.n() as f64 * ERROR_STD * ERROR_STD * ROUNDING * digits
}

fn square(x: f64) -> f64 {
    x * x
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ckks::{ParamsLiteral, SecurityLevel};

    fn params(poly_degree: usize, scale_bits: u32, max_depth: u32) -> Params {
        let security = SecurityLevel::Testing;
        Params::new(ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap: false }).unwrap()
    }

    #[test]
    fn fresh_ciphertexts_have_the_precision_of_the_tables() {
        // (degree, public, seeded): for public-key and for seeded encryption, log2 of the standard deviation of a
        // slot's error, where the error is multiplied by the scale
        for (n, public, seeded) in [(4096, 13.4, 7.2), (8192, 14.4, 7.7), (16384, 15.4, 8.2), (32768, 16.4, 8.7)] {
            let scale = 40f64.exp2();
            let lost = |noise: Noise| 40.0 - (noise.precision_bits(n, scale) + libm::log2(deviations(n)));
            assert!((lost(Noise::encrypt_public(n, 1.0)) - public).abs() < 0.06, "{n}");
            assert!((lost(Noise::encrypt_secret(1.0)) - seeded).abs() < 0.06, "{n}");
        }
    }

    #[test]
    fn a_fresh_ciphertext_has_its_whole_budget_and_one_without_levels_precision_or_room_none() {
        for n in crate::ckks::params::POLY_DEGREES {
            let params = params(n, 40, 3);
            let scale = |level: usize| params.level(level).scale;
            for fresh in [Noise::encrypt_secret(1.0), Noise::encrypt_public(n, 1.0)] {
                assert_eq!(fresh.budget(&params, 3, scale(3)).percent, 100.0);
                let lower = fresh.rescale(&params, 3, 1, 1.0).budget(&params, 1, scale(1));
                assert!(lower.percent < 34.0 && lower.percent > 30.0 && lower.levels_remaining == 1, "{lower:?}");
                assert_eq!(fresh.budget(&params, 0, scale(0)).percent, 0.0, "no further product");
                let bounded = |value_bound: f64| Noise { value_bound, ..fresh };
                assert!(bounded(1e15).budget(&params, 2, scale(2)).percent > 66.0);
                assert_eq!(bounded(1e40).budget(&params, 3, scale(3)).percent, 0.0);
                let noisy = Noise { variance: 76f64.exp2(), ..fresh };
                assert_eq!(noisy.budget(&params, 3, scale(3)).percent, 0.0);
                for broken in [f64::NAN, f64::INFINITY] {
                    assert_eq!(Noise { variance: broken, ..fresh }.budget(&params, 3, scale(3)).percent, 0.0);
                    assert_eq!(bounded(broken).budget(&params, 3, scale(3)).percent, 0.0);
                }
            }
        }
    }

    #[test]
    fn a_product_that_is_not_rescaled_owes_the_levels_that_its_rescales_take() {
        for scale_bits in [10, 25, 30, 40, 50] {
            let params = params(4096, scale_bits, 4);
            let squared = |level: usize, noise: Noise, scale: f64| {
                (noise.square(scale, 4096).budget(&params, level, scale * scale), scale * scale)
            };
            for level in 1..=4 {
                let (noise, scale) = (Noise::encrypt_secret(1.0), params.level(level).scale);
                let (unscaled, product_scale) = squared(level, noise, scale);
                let below = noise.square(scale, 4096).relinearize_rescale(&params, 4, level, level - 1);
                let rescaled = below.budget(&params, level - 1, params.level(level - 1).scale);
                assert_eq!(unscaled.levels_remaining, level - 1, "{scale_bits} bits, level {level}");
                assert!((unscaled.percent - rescaled.percent).abs() < 5.0, "{unscaled:?} {rescaled:?}");
                assert_eq!(params.chain().owed(level, scale), 0, "a fresh ciphertext owes nothing");
                // three factors owe two levels, four owe three, as far as there are levels
                let owed = [3, 4].map(|factors| params.chain().owed(level, scale.powi(factors)));
                assert_eq!(owed, [2.min(level), 3.min(level)], "{product_scale}");
            }
        }
    }

    #[test]
    fn squaring_loses_a_bit_a_level_and_a_product_of_others_half_a_bit() {
        let params = params(4096, 40, 5);
        let mut noise = Noise::encrypt_public(4096, 1.0);
        let at = |noise: Noise, level: usize| noise.precision_bits(4096, params.level(level).scale);
        for level in (1..=5).rev() {
            let scale = params.level(level).scale;
            let below = noise.square(scale, 4096).relinearize_rescale(&params, 5, level, level - 1);
            let product = noise.multiply(noise, [scale; 2], 4096).relinearize_rescale(&params, 5, level, level - 1);
            assert!((0.9..1.6).contains(&(at(noise, level) - at(below, level - 1))), "{level}");
            assert!((0.4..1.1).contains(&(at(noise, level) - at(product, level - 1))), "{level}");
            noise = below;
        }
    }

    #[test]
    fn a_rotation_costs_little_beside_a_public_encryption() {
        for n in [4096, 16384] {
            let params = params(n, 40, 3);
            let fresh = Noise::encrypt_public(n, 1.0);
            let rotated = fresh.key_switch(&params, PartKind::Galois(5), 3, 3);
            assert!(rotated.variance < 1.5 * fresh.variance, "{n}: {}", rotated.variance / fresh.variance);
            let lower = fresh.key_switch(&params, PartKind::Galois(5), 3, 0);
            assert!(lower.variance <= rotated.variance, "fewer primes, less error");
        }
    }

    #[test]
    fn scales_that_differ_count_as_an_error() {
        let fresh = Noise::encrypt_secret(1.0);
        let scale = 40f64.exp2();
        let equal = fresh.add(fresh, [scale; 2], 4096);
        assert_eq!((equal.value_bound, equal.variance), (2.0, 4.0 * fresh.variance));
        let independent = fresh.add_independent(fresh, [scale; 2], 4096).variance;
        assert!((independent / fresh.variance - 2.0).abs() < 1e-12);
        let drifted = fresh.add(fresh, [scale, scale * (1.0 + 1e-9)], 4096);
        let more = drifted.error_bound(4096, scale) - equal.error_bound(4096, scale);
        assert!(more > 1e-9 && more < 3e-8, "{more}");
    }
}
