//! The map between coefficients and slots as a product of sparse matrices (Chen, Chillotti, Song, eprint 2018/1043;
//! Han, Hhan, Cheon, eprint 2018/1073). Each matrix merges some stages of the transform of [`crate::ckks::encode`].
//! The bit reversal is left out in both directions, because the remainder is computed in each slot separately. For this
//! computation, the order of the slots does not matter.

use std::collections::BTreeMap;
use std::f64::consts::PI;

use crate::ckks::encode::Complex;

/// A matrix by its nonzero diagonals: entry `i` of diagonal `o` is the factor by which slot `i + o` contributes to
/// slot `i`.
pub type Diagonals = BTreeMap<usize, Vec<Complex>>;

/// A matrix before its entries are computed: the stages that it merges, of which each joins halves of a length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factor {
    slots: usize,
    /// The length of the halves of each stage, a power of two. The first stage in the list is applied first.
    halves: Vec<usize>,
    inverse: bool,
}

/// Returns the transform from bit-reversed coefficients to slots, or the inverse of this transform, as a product of at
/// most `count` matrices. The first matrix in the list is applied first.
pub fn factors(slots: usize, count: usize, inverse: bool) -> Vec<Factor> {
    let stages = slots.ilog2() as usize;
    let count = count.min(stages);
    let mut halves: Vec<usize> = (0..stages).map(|stage| 1 << stage).collect();
    let mut sizes: Vec<usize> = (0..count).map(|at| stages / count + usize::from(at < stages % count)).collect();
    if inverse {
        halves.reverse();
        sizes.reverse();
    }
    let mut rest = &halves[..];
    let merged = sizes.into_iter().map(|size| {
        let (now, later) = rest.split_at(size);
        rest = later;
        Factor { slots, halves: now.to_vec(), inverse }
    });
    merged.collect()
}

impl Factor {
    /// The offsets of the matrix's diagonals, ascending. An offset above half of the slots counts as a negative one, a
    /// rotation in the other direction.
    pub fn offsets(&self) -> Vec<i64> {
        let slots = self.slots as i64;
        let step = *self.halves.iter().min().expect("a stage") as i64;
        let reach = (1i64 << self.halves.len()) - 1;
        let centred = |offset: i64| if 2 * offset <= slots { offset } else { offset - slots };
        let mut offsets: Vec<i64> = (-reach..=reach).map(|k| centred((k * step).rem_euclid(slots))).collect();
        offsets.sort_unstable();
        offsets.dedup();
        offsets
    }

    /// Number of slots after which the entries of every diagonal repeat.
    pub fn period(&self) -> usize {
        2 * self.halves.iter().max().expect("a stage")
    }

    /// The sum of the squared magnitudes of each row's entries. All rows of a stage have the same sum. Each entry of the
    /// matrix is a product of one entry of each stage.
    pub fn row_square(&self) -> f64 {
        let of_stage: f64 = if self.inverse { 0.5 } else { 2.0 };
        of_stage.powi(self.halves.len() as i32)
    }

    /// Bound on the magnitudes of the entries.
    pub fn entry_bound(&self) -> f64 {
        let of_stage: f64 = if self.inverse { 0.5 } else { 1.0 };
        of_stage.powi(self.halves.len() as i32)
    }

    /// Computes the entries.
    pub fn diagonals(&self) -> Diagonals {
        let identity = Diagonals::from([(0, vec![Complex::from(1.0); self.slots])]);
        let with = |product: Diagonals, &half: &usize| compose(&stage(self.slots, half, self.inverse), &product);
        self.halves.iter().fold(identity, with)
    }
}

/// Returns one stage of the transform as a matrix: the stage that joins halves of length `half`.
fn stage(slots: usize, half: usize, inverse: bool) -> Diagonals {
    let mut out = Diagonals::new();
    let mut add = |offset: usize, at: usize, value: Complex| {
        let diagonal = out.entry(offset % slots).or_insert_with(|| vec![Complex::default(); slots]);
        diagonal[at] = diagonal[at] + value;
    };
    let mut power = 1;
    for j in 0..half {
        let angle = PI * power as f64 / (4 * half) as f64;
        power = power * 5 % (8 * half);
        let root = Complex::new(angle.cos(), angle.sin());
        for block in (0..slots).step_by(2 * half) {
            let (low, high) = (block + j, block + j + half);
            if inverse {
                // low becomes (low + high) / 2; high becomes (low - high) / 2 times the conjugate root
                let back = root.conjugate() * 0.5;
                add(0, low, 0.5.into());
                add(half, low, 0.5.into());
                add(slots - half, high, back);
                add(0, high, back * -1.0);
            } else {
                add(0, low, 1.0.into());
                add(half, low, root);
                add(slots - half, high, 1.0.into());
                add(0, high, root * -1.0);
            }
        }
    }
    out
}

/// Multiplies two matrices. The product `a b` applies `b` first.
fn compose(a: &Diagonals, b: &Diagonals) -> Diagonals {
    let mut out = Diagonals::new();
    for (&i, x) in a {
        for (&k, y) in b {
            let slots = x.len();
            let diagonal = out.entry((i + k) % slots).or_insert_with(|| vec![Complex::default(); slots]);
            for at in 0..slots {
                diagonal[at] = diagonal[at] + x[at] * y[(at + i) % slots];
            }
        }
    }
    out.retain(|_, diagonal| diagonal.iter().any(|value| value.re.abs().max(value.im.abs()) > 1e-14));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ckks::encode::Encoder;

    fn applied(matrices: &[Diagonals], values: &[Complex]) -> Vec<Complex> {
        matrices.iter().fold(values.to_vec(), |values, matrix| {
            let slots = values.len();
            let row = |at: usize| {
                matrix
                    .iter()
                    .map(|(offset, diagonal)| diagonal[at] * values[(at + offset) % slots])
                    .fold(Complex::default(), |a, b| a + b)
            };
            (0..slots).map(row).collect()
        })
    }

    #[test]
    fn the_factors_are_the_transform_of_bit_reversed_coefficients_and_its_inverse() {
        for slots in [8usize, 32, 128] {
            let coefficients: Vec<f64> = (0..2 * slots).map(|i| ((i * 29 % 31) as f64 - 15.0) / 16.0).collect();
            let reversed: Vec<Complex> = (0..slots)
                .map(|i| i.reverse_bits() >> (usize::BITS - slots.ilog2()))
                .map(|i| Complex::new(coefficients[i], coefficients[i + slots]))
                .collect();
            let expected = Encoder::new(2 * slots).to_slots(&coefficients);
            for count in 1..=3 {
                let [forward, back] = [false, true]
                    .map(|inverse| factors(slots, count, inverse).iter().map(Factor::diagonals).collect::<Vec<_>>());
                let found = applied(&forward, &reversed);
                let near = |a: &[Complex], b: &[Complex]| {
                    a.iter().zip(b).all(|(a, b)| (*a - *b).re.abs() + (*a - *b).im.abs() < 1e-10)
                };
                assert!(near(&found, &expected), "{slots} slots, {count} factors");
                assert!(near(&applied(&back, &expected), &reversed), "{slots} slots, {count} factors");
            }
        }
    }

    #[test]
    fn what_is_known_of_a_matrix_before_its_entries_is_true_of_them() {
        for slots in [32usize, 128, 512] {
            for (count, inverse) in [(1, false), (2, false), (2, true), (3, true)] {
                for factor in factors(slots, count, inverse) {
                    let diagonals = factor.diagonals();
                    let mut offsets: Vec<usize> =
                        factor.offsets().iter().map(|offset| offset.rem_euclid(slots as i64) as usize).collect();
                    offsets.sort_unstable();
                    assert_eq!(diagonals.keys().copied().collect::<Vec<_>>(), offsets, "{factor:?}");
                    let square = |value: Complex| value.re * value.re + value.im * value.im;
                    for (offset, diagonal) in &diagonals {
                        for (at, value) in diagonal.iter().enumerate() {
                            let repeated = diagonal[(at + factor.period()) % slots];
                            let difference = square(repeated + *value * -1.0);
                            assert!(difference < 1e-20, "{factor:?}: {offset}, {at}");
                            assert!(
                                square(*value).sqrt() <= factor.entry_bound() + 1e-12,
                                "{factor:?}: {offset}, {at}"
                            );
                        }
                    }
                    for at in 0..slots {
                        let found: f64 = diagonals.values().map(|diagonal| square(diagonal[at])).sum();
                        assert!((found / factor.row_square() - 1.0).abs() < 1e-9, "{factor:?}: {found}");
                    }
                }
            }
        }
    }
}
