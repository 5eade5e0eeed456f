//! The map between coefficients and slots as a product of sparse matrices (Chen, Chillotti, Song, eprint 2018/1043;
//! Han, Hhan, Cheon, eprint 2018/1073). Each matrix merges some stages of the transform of [`super::super::encode`].
//! The bit reversal is left out in both directions, because the remainder is computed in each slot separately. For this
//! computation, the order of the slots does not matter.

use std::collections::BTreeMap;
use std::f64::consts::PI;

use crate::ckks::encode::Complex;

/// A matrix by its nonzero diagonals: entry `i` of diagonal `o` is the factor by which slot `i + o` contributes to
/// slot `i`.
pub type Diagonals = BTreeMap<usize, Vec<Complex>>;

/// Returns the transform from bit-reversed coefficients to slots, or the inverse of this transform, as a product of at
/// most `count` matrices. The first matrix in the list is applied first.
pub fn factors(slots: usize, count: usize, inverse: bool) -> Vec<Diagonals> {
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
        let identity = Diagonals::from([(0, vec![Complex::from(1.0); slots])]);
        now.iter().fold(identity, |product, &half| compose(&stage(slots, half, inverse), &product))
    });
    merged.collect()
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
                let found = applied(&factors(slots, count, false), &reversed);
                let near = |a: &[Complex], b: &[Complex]| {
                    a.iter().zip(b).all(|(a, b)| (*a - *b).re.abs() + (*a - *b).im.abs() < 1e-10)
                };
                assert!(near(&found, &expected), "{slots} slots, {count} factors");
                assert!(
                    near(&applied(&factors(slots, count, true), &expected), &reversed),
                    "{slots} slots, {count} factors"
                );
            }
        }
    }
}
