//! Matrices that are not encrypted. Those of bootstrapping ([`super::bootstrap`]) are made here. All bootstraps of a parameter set that have messages of the same
//! scale multiply by the same matrices, so these are made once.

mod factors;

use std::sync::Arc;

use super::encode::{Complex, Encoder};
use super::params::Params;
use super::plan::{PlanBuilder, Term, Value};
use super::stages::{FACTORS, REMAINDER_LEVELS, Stages};
use super::weights::{STORED_MIN, Weights};
use factors::{Factor, factors};

/// Bound on a coefficient of a raised ciphertext, in multiples of the modulus of level 0. Because the sparse secret has
/// at most 32 nonzero coefficients, an overflow is at most 16, and the message is a small part of the modulus.
pub(super) const RANGE: f64 = 17.0;

/// The matrices of a parameter set for messages of one scale.
pub(super) struct Matrices {
    /// The scale at which the message is bootstrapped. A message of a smaller scale is multiplied by a power of two on the
    /// way.
    pub(super) message_scale: f64,
    /// The whole number that multiplies a raised ciphertext, so that its scale fits the next stage.
    pub(super) raise: f64,
    /// From coefficients to slots, with the numbers divided by `2` [`RANGE`]. The first matrix is applied first.
    pub(super) to_slots: Vec<Matrix>,
    /// The scale after these matrices.
    pub(super) slots_scale: f64,
    /// The scale before the next matrices.
    pub(super) numbers_scale: f64,
    /// From slots to coefficients.
    pub(super) to_coefficients: Vec<Matrix>,
}

/// A matrix by its diagonals, in the order in which they are applied: by baby steps and giant steps (Horner's rule, the
/// idea of ARK, Kim et al., MICRO 2022).
pub(super) struct Matrix {
    /// Level of the ciphertexts that the matrix multiplies.
    pub(super) level: usize,
    /// Scale of the plaintexts.
    pub(super) scale: f64,
    /// The sum of the squared magnitudes of each row's entries.
    pub(super) row_square: f64,
    /// Bound on the magnitudes of the entries.
    pub(super) entry_bound: f64,
    /// Rotation of the first baby step.
    pub(super) lowest: i64,
    /// Rotation from a baby step to the next one.
    pub(super) step: i64,
    /// Rotation from a giant step to the next lower one.
    pub(super) giant: i64,
    /// For each giant step, the plaintext of each baby step. `None`: the matrices were made without words.
    pub(super) giants: Vec<Vec<Option<Arc<Weights>>>>,
    /// How far apart the coefficients of the plaintexts are.
    pub(super) gap: usize,
}

impl Matrices {
    /// Returns for which shift the matrices of a message are made, whose scale is `shift` bits smaller than the usual one.
    pub(super) fn made_for(params: &Params, shift: u32) -> u32 {
        shift - shift % stages(params).matrices_apart
    }

    /// Makes the matrices for messages at a scale that is `shift` bits smaller than the usual one, or, without words, what
    /// is known of the matrices before their entries are computed.
    ///
    /// # Panics
    /// When the parameters have no levels for bootstrapping.
    pub(super) fn new(params: &Params, shift: u32, has_words: bool) -> Matrices {
        let q0 = params.level(0).log_modulus.exp2();
        let message_scale = usual_scale(params) * (-f64::from(shift)).exp2();
        let remainder = RemainderScales::new(params);
        let raise = (remainder.first() / q0).log2().round().max(0.0).exp2();

        let inverse = factors(params.slots(), FACTORS, true);
        let share = (0.5 / RANGE).powf(1.0 / inverse.len() as f64);
        let to_slots = made(params, &inverse, share, params.raised_level(), [q0 * raise, remainder.first()], has_words);

        let forward = factors(params.slots(), FACTORS, false);
        let level_max = params.level_max();
        let end = level_max + forward.len();
        // at this scale, the slots of the sine hold the message's numbers
        let numbers = remainder.of(end) * 2.0 * std::f64::consts::PI * message_scale / q0;
        let scales = [numbers, params.level(level_max).scale];
        let to_coefficients = made(params, &forward, 1.0, end, scales, has_words);
        Matrices {
            message_scale,
            raise,
            to_slots,
            slots_scale: remainder.first(),
            numbers_scale: numbers,
            to_coefficients,
        }
    }

    /// Size of the plaintexts in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let matrices = self.to_slots.iter().chain(&self.to_coefficients);
        let plaintexts = matrices.flat_map(|matrix| matrix.giants.iter().flatten().flatten());
        plaintexts.map(|weights| weights.bytes() as u64).sum()
    }
}

/// The scales of the remainder's values, level by level. The product of two values of a level has the scale of the level
/// below, so a level that is larger or smaller than planned moves the scales of other levels by half as much or less.
pub(super) struct RemainderScales {
    /// The level of the sine.
    last: usize,
    /// The scales from this level up.
    scales: Vec<f64>,
}

impl RemainderScales {
    /// The scales of a parameter set. The sine has a scale of as many bits as a level of the remainder.
    ///
    /// # Panics
    /// When the parameters have no levels for bootstrapping.
    pub(super) fn new(params: &Params) -> RemainderScales {
        let last = params.level_max() + FACTORS;
        let mut scales = vec![f64::from(stages(params).remainder).exp2()];
        for level in last + 1..=last + REMAINDER_LEVELS {
            let below = scales[scales.len() - 1];
            scales.push((below * params.chain().divisor(level, level - 1)).sqrt());
        }
        RemainderScales { last, scales }
    }

    /// The scale of the remainder's input.
    pub(super) fn first(&self) -> f64 {
        self.scales[self.scales.len() - 1]
    }

    /// The scale of values of this level.
    pub(super) fn of(&self, level: usize) -> f64 {
        self.scales[level - self.last]
    }
}

/// The scale at which a message is bootstrapped, unless the numbers need a smaller one.
pub(super) fn usual_scale(params: &Params) -> f64 {
    let scale = params.level(0).scale;
    let headroom = params.level(0).log_modulus - scale.log2();
    scale * (headroom.round() - f64::from(stages(params).ratio)).max(0.0).exp2()
}

fn stages(params: &Params) -> Stages {
    params.stages().expect("parameters with levels for bootstrapping")
}

/// Makes the matrices of `factors`, of which the first multiplies a ciphertext of level `top`. Each matrix is multiplied
/// by the number `share`, and takes one level. The ciphertext's scale changes by the same ratio at each level, from
/// `first` to `last`.
fn made(
    params: &Params,
    factors: &[Factor],
    share: f64,
    top: usize,
    [first, last]: [f64; 2],
    has_words: bool,
) -> Vec<Matrix> {
    let count = factors.len();
    let scale = |at: usize| first * (last / first).powf(at as f64 / count as f64);
    let matrix = |(at, factor): (usize, &Factor)| {
        let level = top - at;
        let scale = scale(at + 1) * params.chain().divisor(level, level - 1) / scale(at);
        Matrix::new(params, factor, share, level, scale, has_words)
    };
    factors.iter().enumerate().map(matrix).collect()
}

impl Matrix {
    fn new(params: &Params, factor: &Factor, share: f64, level: usize, scale: f64, has_words: bool) -> Matrix {
        let offsets = factor.offsets();
        let (lowest, step) = (offsets[0], offsets[1] - offsets[0]);
        let babies = 1usize << ((offsets.len() as f64).sqrt().log2().round() as u32);
        let period = factor.period().max(STORED_MIN / 2);
        let gap = params.slots() / period;
        let giants = match has_words {
            false => offsets.chunks(babies).map(|babies| vec![None; babies.len()]).collect(),
            true => {
                let (diagonals, encoder) = (factor.diagonals(), Encoder::new(2 * period));
                let plaintext = |giant: usize, offset: i64| {
                    let diagonal = &diagonals[&(offset.rem_euclid(params.slots() as i64) as usize)];
                    let mut values: Vec<Complex> = diagonal[..period].iter().map(|&value| value * share).collect();
                    // the giant step turns the product back
                    values.rotate_right((giant * babies * step as usize) % period);
                    let coefficients = encoder.encode(&values, scale, params.level(level).log_modulus);
                    Arc::new(Weights::new(&coefficients.expect("a matrix of small numbers"), gap))
                };
                let of_giant = |(giant, babies): (usize, &[i64])| {
                    babies.iter().map(|&offset| Some(plaintext(giant, offset))).collect()
                };
                offsets.chunks(babies).enumerate().map(of_giant).collect()
            }
        };
        Matrix {
            level,
            scale,
            row_square: factor.row_square() * share * share,
            entry_bound: factor.entry_bound() * share,
            lowest,
            step,
            giant: babies as i64 * step,
            giants,
            gap,
        }
    }

    /// Computes the sum of all diagonals, each times the rotated ciphertext, without a rescale. Each baby step rotates the
    /// result of the previous baby step, and the giant steps use Horner's rule, so three rotations are enough. `rotate`
    /// rotates to the left.
    pub(super) fn sum_of_diagonals(
        &self,
        builder: &mut PlanBuilder,
        value: Value,
        rotate: &mut impl FnMut(&mut PlanBuilder, Value, i64) -> Value,
    ) -> Value {
        assert_eq!(builder.level(value), self.level, "a ciphertext of the matrix's level");
        let mut turned = vec![rotate(builder, value, self.lowest)];
        for at in 1..self.giants[0].len() {
            let next = rotate(builder, turned[at - 1], self.step);
            turned.push(next);
        }
        let mut sum: Option<Value> = None;
        for plaintexts in self.giants.iter().rev() {
            let terms = turned.iter().zip(plaintexts).map(|(&value, weights)| Term { value, weights: weights.clone() });
            let of_giant = builder.weighted_sum(terms.collect(), self.scale, self.entry_bound);
            sum = Some(match sum {
                None => of_giant,
                Some(sum) => {
                    let turned = rotate(builder, sum, self.giant);
                    builder.add(turned, of_giant)
                }
            });
        }
        sum.expect("a matrix has a diagonal")
    }

    /// Number of diagonals.
    pub(super) fn diagonals(&self) -> usize {
        self.giants.iter().map(Vec::len).sum()
    }
}
