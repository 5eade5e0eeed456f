//! An encrypted matrix times an encrypted vector (readings C10).
//!
//! The matrix is `d` by `d`, row after row in the first `d^2` slots, where `d` is the largest power of two with
//! `d^2 <= slots`. The vector is in the first `d` slots, and so is the result. All other slots of the vector are 0: the
//! client puts zeros there, or the operation multiplies by them first, at the cost of one more level, if another
//! operation may have put numbers there ([`super::noise::Tail`]). The product takes two levels:
//!
//! ```text
//! (1) repeat   the vector is copied to every run of d slots          log2(slots / d) rotations
//! (2) product  slot r d + j holds M_rj v_j                            one level
//! (3) sum      slot r d holds the sum of its run                      log2(d) rotations
//! (4) mask     all other slots become 0                               one level
//! (5) gather   result r is copied from slot r d to slots r d - c (d - 1), c < d;
//!              the copy with c = r is in slot r                       log2(d) rotations
//! ```
//!
//! Example for `d = 2` and 4 slots: matrix `1 2 3 4`, vector `5 6 0 0`. Then (1) `5 6 5 6`, (2) `5 12 15 24`, (3)
//! `17 27 39 29`, (4) `17 0 39 0`, (5) `17 39 39 17`: the result is `17 39`, and the slots after it hold numbers of no use.

pub mod plain;

use super::noise::Noise;
use super::params::Params;
use super::plan::{Plain, PlanBuilder, Value};

/// Number of levels that a product takes.
pub const LEVELS: usize = 2;

/// Returns the dimension `d`: the matrix has `d` rows and `d` columns.
pub fn dimension(slots: usize) -> usize {
    1 << (slots.ilog2() / 2)
}

/// Lists the rotations of a product, in order: each doubles the number of added slots. Each entry has the number of slots by
/// which a rotation moves to the left, and the number of levels from the operands down to the rotation.
pub fn doublings(slots: usize) -> Vec<(i64, usize)> {
    let d = dimension(slots);
    let doublings = |from: usize, to: usize| (0..(to / from).ilog2()).map(move |i| (from << i) as i64);
    let repeat = doublings(d, slots).map(|steps| (steps, 0));
    let sum = doublings(1, d).map(|steps| (steps, 1));
    let gather = doublings(1, d).map(move |bit| (bit * (d as i64 - 1), LEVELS));
    repeat.chain(sum).chain(gather).collect()
}

/// Lists the rotations by `3 s` for every two doublings by `s` and `2 s` of a product. With a key for it, both doublings become
/// one step ([`PlanBuilder::add_images`]).
pub fn thirds(slots: usize) -> Vec<(i64, usize)> {
    let all = doublings(slots);
    let of_stage = |down: usize| {
        let steps: Vec<i64> = all.iter().filter(|(_, of)| *of == down).map(|(steps, _)| *steps).collect();
        steps.chunks_exact(2).map(|pair| (3 * pair[0], down)).collect::<Vec<_>>()
    };
    (0..=LEVELS).flat_map(of_stage).collect()
}

/// The rotations of a key.
pub trait Turns {
    /// Rotates to the left.
    fn rotate(&mut self, builder: &mut PlanBuilder, value: Value, steps: i64) -> Value;

    /// Returns the Galois elements of these rotations, if the key has each of them and they can share a decomposition at
    /// this level.
    fn together(&self, params: &Params, steps: &[i64], level: usize) -> Option<Vec<u32>>;
}

/// Adds a value and its rotations: each of `doublings` adds the rotated sum to the sum. Errors of different slots are
/// independent, so they add up as variances. `value_bound` is the bound on the result.
fn sum_of_rotations(
    builder: &mut PlanBuilder,
    mut value: Value,
    doublings: &[i64],
    value_bound: f64,
    turns: &mut impl Turns,
) -> Value {
    let (n, level) = (builder.params().n(), builder.level(value));
    for pair in doublings.chunks(2) {
        let all: Vec<i64> = if pair.len() == 2 { vec![pair[0], pair[1], 3 * pair[0]] } else { vec![] };
        if let Some(elements) = turns.together(builder.params(), &all, level).filter(|elements| !elements.is_empty()) {
            let before = builder.noise(value).variance;
            let sum = builder.add_images(value, &elements);
            let terms = 1.0 + elements.len() as f64;
            let noise = builder.noise(sum);
            let variance = noise.variance - (terms * terms - terms) * before;
            builder.set_noise(sum, Noise { variance, ..noise });
            value = sum;
            continue;
        }
        for &steps in pair {
            let rotated = turns.rotate(builder, value, steps);
            let sum = builder.add(value, rotated);
            let scales = [value, rotated].map(|term| builder.scale(term));
            let noise = builder.noise(value).add_independent(builder.noise(rotated), scales, n);
            builder.set_noise(sum, noise);
            value = sum;
        }
    }
    // the caller's bound is tighter than the bound of the sums, because many added slots are 0 where the result is read
    let noise = Noise { value_bound, ..builder.noise(value) };
    builder.set_noise(value, noise);
    value
}

/// Returns the mask of step (4), one number for each slot.
pub fn mask(slots: usize) -> Vec<f64> {
    let d = dimension(slots);
    (0..slots).map(|slot| if slot < d * d && slot.is_multiple_of(d) { 1.0 } else { 0.0 }).collect()
}

/// Computes the product, [`LEVELS`] levels below the operands and at the default scale of that level. `mask` is the plaintext
/// of the function [`mask`], at one level below the operands.
///
/// # Panics
/// When the operands have different levels, or levels below [`LEVELS`].
pub fn multiply(builder: &mut PlanBuilder, [matrix, vector]: [Value; 2], mask: Plain, turns: &mut impl Turns) -> Value {
    let slots = builder.params().slots();
    let d = dimension(slots);
    let (bound, products) = (builder.noise(vector).value_bound, d as f64 * builder.noise(matrix).value_bound);
    let mut rotated_sums = |builder: &mut PlanBuilder, value: Value, down: usize, value_bound: f64| {
        let of_stage = doublings(slots).into_iter().filter(|(_, of)| *of == down);
        let steps: Vec<i64> = of_stage.map(|(steps, _)| steps).collect();
        sum_of_rotations(builder, value, &steps, value_bound, turns)
    };
    // (1) repeat
    let vector = rotated_sums(builder, vector, 0, bound);
    // (2) product
    let product = builder.multiply_rescaled(matrix, vector);
    // (3) sum
    let sums = rotated_sums(builder, product, 1, products * bound);
    // (4) mask: the errors of the sums are multiplied by 0 too, in all slots but one of each run
    let of_sums = builder.noise(sums);
    builder.set_noise(sums, Noise { variance: 0.0, ..of_sums });
    let masked = builder.multiply_plain(sums, mask);
    let masked = builder.rescale(masked);
    let kept = of_sums.variance * (builder.scale(masked) / builder.scale(sums)).powi(2);
    // (5) gather: every slot of the result gets one unmasked slot, and the errors that steps (4) and (5) add to all
    // slots
    let result = rotated_sums(builder, masked, LEVELS, products * bound);
    let noise = builder.noise(result);
    builder.set_noise(result, Noise { variance: noise.variance + kept, ..noise });
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_give_the_product_in_the_first_slots() {
        for slots in [4, 8, 32, 128, 512] {
            let d = dimension(slots);
            assert!(d * d <= slots && 4 * d * d > slots);
            let matrix: Vec<f64> = (0..slots).map(|i| if i < d * d { (i * 7 % 11) as f64 } else { 99.0 }).collect();
            let vector: Vec<f64> = (0..slots).map(|i| if i < d { (i * 5 % 13) as f64 - 6.0 } else { 0.0 }).collect();
            let rotated_sum = |values: Vec<f64>, steps: i64| -> Vec<f64> {
                (0..slots).map(|i| values[i] + values[(i + steps as usize) % slots]).collect()
            };
            let stage = |values: Vec<f64>, down: usize| {
                doublings(slots)
                    .into_iter()
                    .filter(|(_, of)| *of == down)
                    .fold(values, |values, (steps, _)| rotated_sum(values, steps))
            };
            let repeated = stage(vector.clone(), 0);
            let product: Vec<f64> = matrix.iter().zip(&repeated).map(|(m, v)| m * v).collect();
            let sums = stage(product, 1);
            let masked: Vec<f64> = sums.iter().zip(mask(slots)).map(|(sum, mask)| sum * mask).collect();
            let found = stage(masked, 2);
            for row in 0..d {
                let expected: f64 = (0..d).map(|j| matrix[row * d + j] * vector[j]).sum();
                assert_eq!(found[row], expected, "{slots} slots, row {row}");
            }
        }
    }
}
