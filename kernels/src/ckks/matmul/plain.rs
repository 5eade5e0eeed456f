//! A matrix that is not encrypted times an encrypted vector.
//!
//! The matrix has `n` rows and `n` columns, where `n` is a power of two. The vector is in the first `n` slots, and all other
//! slots are 0, as for [`super::multiply`]. The result is in every run of `n` slots. The product takes one level:
//!
//! ```text
//! (1) repeat     the vector is copied to every run of n slots                             log2(slots / n) rotations
//! (2) diagonals  diagonal k times the vector rotated by k, in baby steps and giant steps  about 2 sqrt(n) rotations
//! ```
//!
//! Diagonal `k` has the entry of row `i` and column `i + k` modulo `n` in slot `i` (Halevi, Shoup, eprint 2014/106; baby steps
//! and giant steps: eprint 2018/244). A diagonal repeats after `n` slots, so its plaintext has only `2 n` coefficients.

use std::sync::Arc;

use super::{Turns, sum_of_rotations};
use crate::ckks::encode::{Complex, EncodeError, Encoder};
use crate::ckks::matrices::Matrix;
use crate::ckks::noise::{Noise, encoding_variance};
use crate::ckks::params::{Params, PartKind};
use crate::ckks::plan::{PlanBuilder, Value};
use crate::ckks::weights::{STORED_MIN, Weights};

/// Number of levels that a product takes.
pub const LEVELS: usize = 1;

/// Largest `n`: the matrix has as many numbers as the largest ciphertext has slots.
pub const DIMENSION_MAX: usize = 128;

/// Returns `n` of a matrix with this many numbers; `None` if `n` is no power of two from 2 up to [`DIMENSION_MAX`] and the
/// number of slots.
pub fn dimension(numbers: usize, slots: usize) -> Option<usize> {
    let n = numbers.isqrt();
    (n * n == numbers && n.is_power_of_two() && (2..=DIMENSION_MAX.min(slots)).contains(&n)).then_some(n)
}

/// Number of baby steps.
fn babies(n: usize) -> usize {
    1 << n.ilog2().div_ceil(2)
}

/// Lists the rotations of a product, as numbers of slots to the left: those that repeat the vector, then a baby step and a
/// giant step.
pub fn rotations(n: usize, slots: usize) -> Vec<i64> {
    let repeat = (0..(slots / n).ilog2()).map(|i| (n << i) as i64);
    repeat.chain([1]).chain((babies(n) < n).then_some(babies(n) as i64)).collect()
}

/// A matrix as plaintexts for one level and one scale.
pub struct Diagonals {
    matrix: Matrix,
    n: usize,
    /// The largest sum of magnitudes in a row.
    row_sum: f64,
}

impl Diagonals {
    /// Encodes a matrix, row after row, for vectors of this level.
    ///
    /// # Errors
    /// When a number is not finite, or a coefficient reaches half the modulus of the level or 2^62.
    ///
    /// # Panics
    /// When the matrix has no [`dimension`].
    pub fn new(params: &Params, numbers: &[f64], level: usize, scale: f64) -> Result<Diagonals, EncodeError> {
        let n = dimension(numbers.len(), params.slots()).expect("a square of a power of two");
        let (babies, period) = (babies(n), n.max(STORED_MIN / 2));
        let (encoder, log_modulus) = (Encoder::new(2 * period), params.level(level).log_modulus);
        let gap = params.slots() / period;
        let plaintext = |k: usize| {
            // the rotation by the giant step of this diagonal, which follows the product, is undone in advance
            let back = n - k / babies * babies;
            let entry = |slot: usize| {
                let row = (slot + back) % n;
                Complex::from(numbers[row * n + (row + k) % n])
            };
            let values: Vec<Complex> = (0..period).map(entry).collect();
            let rounded = encoder.encode(&values, scale, log_modulus)?;
            let is_small = rounded.coefficients().iter().all(|c| c.abs() < (1u64 << 62) as f64);
            if is_small { Ok(Some(Arc::new(Weights::new(&rounded, gap)))) } else { Err(EncodeError::TooLarge) }
        };
        let plaintexts = (0..n).map(plaintext).collect::<Result<Vec<_>, EncodeError>>()?;
        let of_rows = |with: fn(f64) -> f64| {
            numbers.chunks_exact(n).map(|row| row.iter().map(|&x| with(x)).sum::<f64>()).fold(0.0f64, f64::max)
        };
        let matrix = Matrix {
            level,
            scale,
            row_square: of_rows(|x| x * x),
            entry_bound: numbers.iter().fold(0.0f64, |bound, x| bound.max(x.abs())),
            lowest: 0,
            step: 1,
            giant: babies as i64,
            giants: plaintexts.chunks(babies).map(<[_]>::to_vec).collect(),
            gap,
        };
        Ok(Diagonals { matrix, n, row_sum: of_rows(f64::abs) })
    }

    /// Computes the product, which is not rescaled. `hops` is the largest number of key switches that a rotation takes. `has_random_errors` means that the vector's errors in different slots are independent.
    ///
    /// # Panics
    /// When the vector has another level than the plaintexts.
    pub fn multiply(
        &self,
        builder: &mut PlanBuilder,
        vector: Value,
        (hops, has_random_errors): (usize, bool),
        turns: &mut impl Turns,
    ) -> Value {
        let (params, level, scale) = (builder.params().clone(), builder.level(vector), builder.scale(vector));
        let (size, slots, bound) = (params.n(), params.slots(), builder.noise(vector).value_bound);
        // (1)
        let repeat: Vec<i64> = (0..(slots / self.n).ilog2()).map(|i| (self.n << i) as i64).collect();
        let repeated = sum_of_rotations(builder, vector, &repeat, bound, turns);
        // (2)
        let mut rotate = |builder: &mut PlanBuilder, value: Value, steps: i64| match steps {
            0 => value,
            _ => turns.rotate(builder, value, steps),
        };
        let product = self.matrix.sum_of_diagonals(builder, repeated, &mut rotate);
        // the variances of a row's terms: of the vector, of the rotations, and of the rounded plaintexts
        let Matrix { scale: of_plain, row_square, entry_bound, .. } = self.matrix;
        let key_level = params.raised_level();
        let turn = Noise::new(0.0, 0.0).key_switch(&params, PartKind::Galois(5), key_level, level).variance;
        let [babies, giants] =
            [self.matrix.giants[0].len(), self.matrix.giants.len()].map(|count| (count * hops) as f64);
        let of_vector =
            builder.noise(repeated).variance * if has_random_errors { row_square } else { self.row_sum.powi(2) };
        let of_rotations = babies * turn * row_square;
        let rounding = 1.0 / 12.0 + encoding_variance(size, of_plain, entry_bound);
        let of_plaintexts = self.n as f64 * (scale * bound).powi(2) * rounding;
        let variance = (of_vector + of_rotations) * of_plain.powi(2) + of_plaintexts + giants * turn;
        builder.set_noise(product, Noise::new(self.row_sum * bound, variance));
        product
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_is_a_square_of_a_power_of_two() {
        for (numbers, slots, expected) in [
            (4, 32, Some(2)),
            (1024, 32, Some(32)),
            (16384, 8192, Some(128)),
            (16384, 64, None),
            (65536, 16384, None),
            (9, 32, None),
            (5, 32, None),
            (1, 32, None),
            (0, 32, None),
        ] {
            assert_eq!(dimension(numbers, slots), expected, "{numbers} numbers, {slots} slots");
        }
    }

    #[test]
    fn rotations_by_powers_of_two_are_enough() {
        for slots in [32, 128, 8192, 16384] {
            for n in (1..=7).map(|bits| 1 << bits).take_while(|&n| n <= slots) {
                assert!(
                    rotations(n, slots).iter().all(|&steps| (steps as u64).is_power_of_two() && steps < slots as i64)
                );
            }
        }
    }
}
