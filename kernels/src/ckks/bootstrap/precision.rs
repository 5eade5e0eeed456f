//! The error of a bootstrap, from the variances of its steps. The error in a slot has four parts, which are independent
//! of each other:
//!
//! - The sine of the argument `t` is off by at most `t^3 / 6`. The coefficients `m` of numbers up to `v` have
//!   `sum m^2 <= v^2`, so the errors of all coefficients add up to at most `v t^2 / 6` in a slot; equal numbers in all
//!   slots reach this bound.
//! - The errors of all steps up to the remainder are relative to the modulus of level 0.
//! - The plaintexts of the last matrices are rounded, which causes an error relative to the numbers.
//! - The rotations and the roundings of the last matrices cause an error of a fixed size.
//!
//! A variance below is that of the complex number in a slot, in the unit of the numbers that the slots hold, unless the
//! text says otherwise. A coefficient's error of variance `v` at the scale `s` causes the variance `N v / s^2` in a slot,
//! half of it in the real part.

use super::{COSINE, DOUBLINGS, Matrices, Matrix, RANGE, remainder, sparse_weight};
use crate::ckks::noise::{Noise, encoding_variance, key_switch_variance, rounding_variance};
use crate::ckks::params::{Params, PartKind};
use crate::ckks::plan::{PlanBuilder, gains};

/// Variance of the rounding of a coefficient to a whole number.
const ROUNDING: f64 = 1.0 / 12.0;

/// The error of the bootstraps of a parameter set by matrices for one scale.
pub(super) struct Precision {
    n: usize,
    /// Variance of the real part, in multiples of the modulus of level 0 divided by the scale of the message.
    relative: f64,
    /// Variance of the real part for numbers up to 1.
    of_numbers: f64,
    /// Variance of the real part that every bootstrap has.
    fixed: f64,
}

impl Precision {
    /// `relative`: as [`relative`] returns it. `shift`: for which the matrices are made.
    pub(super) fn new(params: &Params, relative: f64, shift: u32) -> Precision {
        let Matrices { numbers_scale: scale, to_coefficients: matrices, .. } = Matrices::new(params, shift, false);
        // the squares of a message's coefficients add up to at most the square of its largest number
        let of_numbers = after(params, &matrices, scale, 0.0, Squares::Total(1.0), [true, false]) / 2.0;
        let fixed = after(params, &matrices, scale, 0.0, Squares::Total(0.0), [false, true]) / 2.0;
        Precision { n: params.n(), relative, of_numbers, fixed }
    }

    /// The standard deviation of the real part of a slot's error, but for the error of the sine, for numbers up to
    /// `value_bound`. `ratio` is the modulus of level 0, in multiples of the message's scale.
    pub(super) fn deviation(&self, value_bound: f64, ratio: f64) -> f64 {
        (self.relative * ratio * ratio + self.of_numbers * value_bound * value_bound + self.fixed).sqrt()
    }

    /// Bound on the error in each slot.
    pub(super) fn error_bound(&self, value_bound: f64, ratio: f64) -> f64 {
        let deviation = self.deviation(value_bound, ratio);
        let noise = Noise::new(0.0, deviation * deviation * 2.0 / self.n as f64);
        noise.error_bound(self.n, 1.0) + of_sine(value_bound, ratio)
    }
}

/// Variance of the real part from all steps up to the remainder, in multiples of the modulus of level 0 divided by the
/// scale of the message.
pub(super) fn relative(params: &Params) -> f64 {
    // the forward matrices multiply the variance by the number of slots
    params.slots() as f64 * of_sine_steps(params, &Matrices::new(params, 0, false))
        / (2.0 * std::f64::consts::PI).powi(2)
}

/// `2 pi x / q0` for a message `x` of the largest number. `ratio` is `q0` in multiples of the message's scale.
pub(super) fn argument(value_bound: f64, ratio: f64) -> f64 {
    2.0 * std::f64::consts::PI * value_bound / ratio
}

/// Bound on the error that the sine causes in each slot.
pub(super) fn of_sine(value_bound: f64, ratio: f64) -> f64 {
    value_bound * argument(value_bound, ratio).powi(2) / 6.0
}

/// Variance of the sine's error in the real number of a slot, from all steps up to the remainder.
fn of_sine_steps(params: &Params, matrices: &Matrices) -> f64 {
    let (n, q0) = (params.n() as f64, params.level(0).log_modulus.exp2());
    let top = params.raised_level();
    let weight = sparse_weight(params.n()) as f64;
    // a coefficient of the raised ciphertext, relative to q0; under the sparse secret, a rounding costs less
    let to_sparse = key_switch_variance(params, PartKind::ToSparse, 0, 0) + (1.0 + weight) * ROUNDING;
    let from_sparse = key_switch_variance(params, PartKind::FromSparse, top, top) + rounding_variance(params.n());
    let raised_scale = q0 * matrices.raise;
    let raised = to_sparse / (q0 * q0) + from_sparse / (raised_scale * raised_scale);
    let overflow = n * overflow_variance(weight);
    let slots = after(params, &matrices.to_slots, raised_scale, n * raised, Squares::Mean(overflow), [true, true]);
    let last = matrices.to_slots.last().expect("a matrix");
    let (level, scale) = (last.level - 1, matrices.slots_scale);
    let conjugation = n * rotation_variance(params, level) / (scale * scale);
    // the doubled real part
    let y = 2.0 * slots + conjugation / 2.0;
    let mut builder = PlanBuilder::new(params);
    let input = builder.input(level, scale, Noise::new(1.0, 2.0 * scale * scale * y / n));
    let result = remainder(&mut builder, input);
    let variance = gains::mean_variance(&builder, input, result, &overflows(weight));
    let scale = builder.scale(result);
    n * variance / (2.0 * scale * scale) + series_variance(weight)
}

/// Variance of an overflow: the sum of `weight` residues and one more, each uniform in an interval of length 1.
fn overflow_variance(weight: f64) -> f64 {
    (1.0 + weight) * ROUNDING
}

/// The numbers of the remainder's input, which are overflows divided by the range, each with its probability.
fn overflows(weight: f64) -> Vec<(f64, f64)> {
    let share = |overflow: f64| (-overflow * overflow / (2.0 * overflow_variance(weight))).exp();
    let all: Vec<f64> = (1 - RANGE as i32..RANGE as i32).map(f64::from).collect();
    let sum: f64 = all.iter().copied().map(share).sum();
    all.into_iter().map(|overflow| (overflow / RANGE, share(overflow) / sum)).collect()
}

/// Mean square of the error of the sine that [`COSINE`] computes, for overflows as they occur and small messages.
fn series_variance(weight: f64) -> f64 {
    let of_message = |overflow: f64, message: f64| {
        let argument = overflow + message;
        // Clenshaw's recurrence
        let y = argument / RANGE;
        let [last, before] = COSINE.iter().skip(1).rev().fold([0.0, 0.0], |[b1, b2], c| [2.0 * y * b1 - b2 + c, b1]);
        let cosine = y * last - before + COSINE[0];
        let sine = (0..DOUBLINGS).fold(cosine, |cosine, _| 2.0 * cosine * cosine - 1.0);
        (sine - (2.0 * std::f64::consts::PI * message).sin()).powi(2)
    };
    let messages = [-1.0 / 256.0, 0.0, 1.0 / 256.0];
    let mean = |overflow: f64| messages.iter().map(|&message| of_message(overflow, message)).sum::<f64>() / 3.0;
    overflows(weight).into_iter().map(|(number, share)| share * mean((number * RANGE).round())).sum()
}

/// The squared magnitudes of the numbers in the slots of a ciphertext.
#[derive(Clone, Copy)]
enum Squares {
    /// The mean of all slots, which are alike.
    Mean(f64),
    /// Bound on the sum over the slots that a row multiplies, which may be one slot alone.
    ///
    /// On the slots that a row multiplies, a matrix is a multiple of a unitary matrix: as many rows multiply the same
    /// slots as a row has entries. The squares of the results are therefore as many times larger than those of the
    /// slots as there are results. So no such sum exceeds the largest square after the matrix, and by induction the
    /// largest square after all matrices.
    Total(f64),
}

impl Squares {
    /// Bound on the sum over the slots that a row with this many entries multiplies.
    fn in_row(self, entries: usize) -> f64 {
        match self {
            Squares::Mean(square) => square * entries as f64,
            Squares::Total(sum) => sum,
        }
    }

    /// After a matrix whose rows and columns have this sum of squares.
    fn after(self, row_square: f64) -> Squares {
        match self {
            Squares::Mean(square) => Squares::Mean(square * row_square),
            Squares::Total(sum) => Squares::Total(sum),
        }
    }
}

/// Variance after all matrices, from the variance `before` of a ciphertext of scale `scale`. The flags tell whether to
/// count the rounding of the plaintexts, and all other errors of the matrices.
fn after(
    params: &Params,
    matrices: &[Matrix],
    scale: f64,
    before: f64,
    squares: Squares,
    [of_plaintexts, of_steps]: [bool; 2],
) -> f64 {
    let n = params.n() as f64;
    let each = |(variance, squares, scale): (f64, Squares, f64), matrix: &Matrix| {
        let product = scale * matrix.scale;
        let end = product / params.chain().divisor(matrix.level, matrix.level - 1);
        let rotation = rotation_variance(params, matrix.level);
        let babies = matrix.giants[0].len() as f64;
        // an error of a baby step is also one of all later baby steps
        let of_babies = matrix.row_square * n * rotation * (babies + 1.0) / (2.0 * scale * scale);
        let of_giants = (matrix.giants.len() - 1) as f64 * n * rotation / (product * product);
        let of_rescale = n * rounding_variance(params.n()) / (end * end);
        let stored = params.n() / matrix.gap;
        let rounded = ROUNDING + encoding_variance(stored, matrix.scale, matrix.entry_bound);
        let of_weights = squares.in_row(matrix.diagonals()) * stored as f64 * rounded / (matrix.scale * matrix.scale);
        let mut next = matrix.row_square * variance;
        next += if of_plaintexts { of_weights } else { 0.0 };
        next += if of_steps { of_babies + of_giants + of_rescale } else { 0.0 };
        (next, squares.after(matrix.row_square), end)
    };
    matrices.iter().fold((before, squares, scale), each).0
}

/// Variance of a coefficient's error that a rotation causes.
fn rotation_variance(params: &Params, level: usize) -> f64 {
    key_switch_variance(params, PartKind::Galois(5), params.raised_level(), level) + rounding_variance(params.n())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ckks::{ParamsLiteral, SecurityLevel};

    /// `log2` of the standard deviations that belong to the modulus of level 0, to numbers up to 1, and to all bootstraps.
    fn deviations(poly_degree: usize, scale_bits: u32, max_depth: u32, security: SecurityLevel) -> [f64; 3] {
        let literal = ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap: true };
        let params = Params::search(literal).unwrap();
        let Precision { relative, of_numbers, fixed, .. } = Precision::new(&params, relative(&params), 0);
        let ratio = super::super::ratio(&params, 0);
        [relative * ratio * ratio, of_numbers, fixed].map(|variance| variance.log2() / 2.0)
    }

    #[test]
    fn the_parts_of_the_error_are_those_of_the_sets() {
        use SecurityLevel::{Bits128, Testing};
        // the bits of each part for numbers up to 1, from a run of this model that agreed with measurements
        for (poly_degree, scale_bits, max_depth, security, wanted) in [
            (64, 40, 4, Testing, [28.1, 35.3, 36.4]),
            (256, 30, 4, Testing, [25.1, 19.7, 24.6]),
            (32768, 30, 4, Bits128, [16.4, 15.9, 17.5]),
            (32768, 40, 2, Bits128, [18.2, 19.6, 26.7]),
        ] {
            let found = deviations(poly_degree, scale_bits, max_depth, security);
            let near = found.iter().zip(wanted).all(|(found, wanted)| (found + wanted).abs() < 0.1);
            assert!(near, "N {poly_degree}, scale {scale_bits}: {found:.1?}");
        }
    }

    /// A level that is larger or smaller than planned must not move the scales of the levels below by more and more.
    #[test]
    fn every_secure_set_bootstraps_with_the_precision_of_its_stages() {
        for scale_bits in [25, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40] {
            for max_depth in 1..=4 {
                let security = SecurityLevel::Bits128;
                let literal = ParamsLiteral { poly_degree: 32768, scale_bits, max_depth, security, bootstrap: true };
                let params = Params::new(literal).unwrap();
                // of numbers up to 1
                let Precision { relative, of_numbers, fixed, .. } = Precision::new(&params, relative(&params), 0);
                let ratio = super::super::ratio(&params, 0);
                let bits = -(relative * ratio * ratio + of_numbers + fixed).log2() / 2.0;
                let least = match params.stages().unwrap().remainder {
                    49 => 11.0,
                    52 => 13.5,
                    _ => 15.5,
                };
                assert!(bits > least, "{params:?}: {bits:.1} bits");
            }
        }
    }

    #[test]
    fn overflows_are_as_likely_as_sums_of_uniform_residues() {
        // the sum of 33 uniform residues has the variance 33/12; counted in 20,000 draws
        let mut state = 7u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
        };
        let sums: Vec<f64> = (0..20_000).map(|_| (0..33).map(|_| draw()).sum::<f64>().round()).collect();
        for (number, share) in overflows(32.0) {
            let overflow = (number * RANGE).round();
            let counted = sums.iter().filter(|&&sum| sum == overflow).count() as f64 / sums.len() as f64;
            assert!((counted - share).abs() < 0.015, "{overflow}: {counted}, {share}");
        }
    }
}
