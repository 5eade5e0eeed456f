//! A matrix that is not encrypted times an encrypted vector.
//!
//! The matrix has `n` rows and `n` columns, where `n` is a power of two. The vector is in the first `n` slots, and all other
//! slots are 0, as for [`super::multiply`]. The result is in the first `n` slots. The product takes one level:
//!
//! ```text
//! (1) repeat     the vector is copied to every run of n slots                                log2(slots / n) rotations
//! (2) diagonals  diagonal k times the vector rotated by k, in baby steps and giant steps     about 2 sqrt(n / C) rotations
//! (3) sum        C blocks of slots hold different diagonals of the product, and are added    log2(C) rotations
//! ```
//!
//! Diagonal `k` has the entry of row `i` and column `i + k` modulo `n` (Halevi, Shoup, eprint 2014/106; baby steps and giant
//! steps: eprint 2018/244). With `k = g C B + c B + b`, for giant step `g`, block `c` and baby step `b`, its entry of row `i`
//! stands in slot `i + c (n + B)`: there, the vector that is repeated and rotated by `b + g C B` has its element
//! `i + k`. If the slots are too few for two blocks, each plaintext repeats after `n` slots and has only `2 n` coefficients.

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

/// How the diagonals are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Split {
    /// `C`: number of blocks.
    blocks: usize,
    /// `B`: number of baby steps.
    babies: usize,
    /// Number of giant steps.
    giants: usize,
}

impl Split {
    /// Makes as many blocks as the slots allow.
    fn new(n: usize, slots: usize) -> Split {
        let of = |blocks: usize| {
            let left = n / blocks;
            let babies = 1 << left.ilog2().div_ceil(2);
            Split { blocks, babies, giants: left / babies }
        };
        let all = (0..=n.ilog2()).rev().map(|bits| of(1 << bits));
        all.into_iter().find(|split| split.blocks * (n + split.babies) <= slots).unwrap_or(of(1))
    }

    /// How many slots the blocks are apart.
    fn apart(self, n: usize) -> usize {
        n + self.babies
    }

    /// The rotations of step (3).
    fn sums(self, n: usize) -> Vec<i64> {
        (0..self.blocks.ilog2()).map(|bit| (self.apart(n) << bit) as i64).collect()
    }

    /// The rotation of a giant step.
    fn giant(self) -> usize {
        self.blocks * self.babies
    }
}

/// The rotations of step (1).
fn repeats(n: usize, slots: usize) -> Vec<i64> {
    (0..(slots / n).ilog2()).map(|i| (n << i) as i64).collect()
}

/// Lists the rotations of a product, as numbers of slots to the left.
pub fn rotations(n: usize, slots: usize) -> Vec<i64> {
    let split = Split::new(n, slots);
    let baby = (split.babies > 1).then_some(1);
    let giant = (split.giants > 1).then_some(split.giant() as i64);
    repeats(n, slots).into_iter().chain(baby).chain(giant).chain(split.sums(n)).collect()
}

/// A matrix as plaintexts for one level and one scale.
pub struct Diagonals {
    matrix: Matrix,
    n: usize,
    split: Split,
    /// The largest sum of magnitudes in a row.
    row_sum: f64,
    /// Bound on the magnitudes of all slots of the product, for numbers up to 1.
    slot_bound: f64,
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
        let slots = params.slots();
        let n = dimension(numbers.len(), slots).expect("a square of a power of two");
        let split = Split::new(n, slots);
        let (blocks, babies, giant) = (split.blocks, split.babies, split.giant());
        let period = if blocks == 1 { n.max(STORED_MIN / 2) } else { slots };
        let (encoder, log_modulus) = (Encoder::new(2 * period), params.level(level).log_modulus);
        let plaintext = |giants: usize, baby: usize| {
            let mut values = vec![Complex::default(); period];
            for (block, i) in (0..blocks).flat_map(|block| (0..n).map(move |i| (block, i))) {
                let column = (i + giants * giant + block * babies + baby) % n;
                // the rotation of the giant steps, which follows the product, is undone in advance
                let slot = i + block * split.apart(n) + giants * giant;
                let entry = Complex::from(numbers[i * n + column]);
                (slot % period..period).step_by(if blocks == 1 { n } else { period }).for_each(|at| values[at] = entry);
            }
            let rounded = encoder.encode(&values, scale, log_modulus)?;
            let is_small = rounded.coefficients().iter().all(|c| c.abs() < (1u64 << 62) as f64);
            match is_small {
                true => Ok(Some(Arc::new(Weights::new(&rounded, slots / period)))),
                false => Err(EncodeError::TooLarge),
            }
        };
        let of_giant = |giants: usize| (0..babies).map(|baby| plaintext(giants, baby)).collect();
        let giants = (0..split.giants).map(of_giant).collect::<Result<Vec<_>, EncodeError>>()?;
        let largest = |with: &dyn Fn(usize) -> f64| {
            (0..n).map(|i| (i * n..(i + 1) * n).map(with).sum::<f64>()).fold(0.0f64, f64::max)
        };
        // for each block, the largest sum of magnitudes of a row's entries there
        let mut of_blocks = vec![0.0f64; blocks];
        for i in 0..n {
            let mut sums = vec![0.0; blocks];
            (0..n).for_each(|k| sums[k % giant / babies] += numbers[i * n + (i + k) % n].abs());
            of_blocks.iter_mut().zip(sums).for_each(|(largest, sum)| *largest = largest.max(sum));
        }
        let matrix = Matrix {
            level,
            scale,
            row_square: largest(&|at| numbers[at] * numbers[at]),
            entry_bound: numbers.iter().fold(0.0f64, |bound, x| bound.max(x.abs())),
            lowest: 0,
            step: 1,
            giant: giant as i64,
            giants,
            gap: slots / period,
        };
        let (row_sum, slot_bound) = (largest(&|at| numbers[at].abs()), of_blocks.iter().sum());
        Ok(Diagonals { matrix, n, split, row_sum, slot_bound })
    }

    /// Computes the product, which is not rescaled. `hops` is the largest number of key switches that a rotation takes.
    /// `has_random_errors` means that the vector's errors in different slots are independent.
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
        let repeated = sum_of_rotations(builder, vector, &repeats(self.n, slots), bound, turns);
        // (2)
        let mut rotate = |builder: &mut PlanBuilder, value: Value, steps: i64| match steps {
            0 => value,
            _ => turns.rotate(builder, value, steps),
        };
        let product = self.matrix.sum_of_diagonals(builder, repeated, &mut rotate);
        // (3), at first without the errors of the product, because all blocks together have the errors of one row
        let value_bound = self.slot_bound * bound;
        builder.set_noise(product, Noise::new(value_bound, 0.0));
        let sum = sum_of_rotations(builder, product, &self.split.sums(self.n), value_bound, turns);
        // the variances of a row's terms: of the vector, of the rotations, and of the rounded plaintexts
        let Matrix { scale: of_plain, row_square, entry_bound, .. } = self.matrix;
        let key_level = params.raised_level();
        let turn = Noise::new(0.0, 0.0).key_switch(&params, PartKind::Galois(5), key_level, level).variance;
        let Split { blocks, babies, giants } = self.split;
        let [of_babies, of_giants] = [babies, blocks * giants].map(|count| (count * hops) as f64 * turn);
        let of_vector =
            builder.noise(repeated).variance * if has_random_errors { row_square } else { self.row_sum.powi(2) };
        let rounding = 1.0 / 12.0 + encoding_variance(size, of_plain, entry_bound);
        let of_plaintexts = self.n as f64 * (scale * bound).powi(2) * rounding;
        let of_products = (of_vector + of_babies * row_square) * of_plain.powi(2) + of_plaintexts + of_giants;
        let noise = builder.noise(sum);
        builder.set_noise(sum, Noise { variance: noise.variance + of_products, ..noise });
        sum
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
    fn the_steps_give_the_product_in_the_first_slots() {
        for slots in [32, 128, 512, 2048, 8192, 16384] {
            for n in (1..=7).map(|bits| 1 << bits).take_while(|&n| n <= slots) {
                let split = Split::new(n, slots);
                let Split { blocks, babies, giants } = split;
                assert_eq!(blocks * babies * giants, n);
                let vector: Vec<f64> =
                    (0..slots).map(|i| if i < n { (i * 5 % 13) as f64 - 6.0 } else { 0.0 }).collect();
                let matrix = |row: usize, column: usize| ((row * n + column) * 7 % 11) as f64 - 4.0;
                let turned = |values: &[f64], steps: usize| -> Vec<f64> {
                    (0..slots).map(|i| values[(i + steps) % slots]).collect()
                };
                let doubled = |mut values: Vec<f64>, doublings: Vec<i64>| {
                    for steps in doublings {
                        values = values.iter().zip(turned(&values, steps as usize)).map(|(a, b)| a + b).collect();
                    }
                    values
                };
                let repeated = doubled(vector.clone(), repeats(n, slots));
                let mut sum = vec![0.0; slots];
                for (g, b) in (0..giants).flat_map(|g| (0..babies).map(move |b| (g, b))) {
                    let turned = turned(&repeated, b + g * split.giant());
                    for (c, i) in (0..blocks).flat_map(|c| (0..n).map(move |i| (c, i))) {
                        let k = g * split.giant() + c * babies + b;
                        let slot = i + c * split.apart(n);
                        sum[slot % slots] += matrix(i, (i + k) % n) * turned[slot % slots];
                    }
                }
                let found = doubled(sum, split.sums(n));
                for (row, found) in found.iter().enumerate().take(n) {
                    let expected: f64 = (0..n).map(|j| matrix(row, j) * vector[j]).sum();
                    assert_eq!(*found, expected, "{slots} slots, {split:?}, row {row}");
                }
            }
        }
    }

    #[test]
    fn many_slots_take_few_rotations() {
        let count = |n: usize, slots: usize| {
            let Split { babies, giants, .. } = Split::new(n, slots);
            rotations(n, slots).len() + babies.saturating_sub(2) + giants.saturating_sub(2)
        };
        assert_eq!(
            [(128, 16384), (128, 8192), (128, 2048), (32, 32)].map(|(n, slots)| count(n, slots)),
            [14, 13, 13, 10]
        );
    }
}
