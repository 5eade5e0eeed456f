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
use super::plan::{Plain, PlanBuilder, Value};

/// Number of levels that a product takes.
pub const LEVELS: usize = 2;

/// Returns the dimension `d`: the matrix has `d` rows and `d` columns.
pub fn dimension(slots: usize) -> usize {
    1 << (slots.ilog2() / 2)
}

/// Lists the rotations of a product, in order. Each entry has the number of slots by which a rotation moves to the
/// left, and the number of levels from the operands down to the rotation. Clients make keys for exactly these
/// rotations; other rotations are composed of rotations by powers of two.
pub fn rotations(slots: usize) -> Vec<(i64, usize)> {
    let d = dimension(slots);
    let doublings = |from: usize, to: usize| (0..(to / from).ilog2()).map(move |i| (from << i) as i64);
    let repeat = doublings(d, slots).map(|steps| (steps, 0));
    let sum = doublings(1, d).map(|steps| (steps, 1));
    let gather = doublings(1, d).map(move |bit| (bit * (d as i64 - 1), LEVELS));
    repeat.chain(sum).chain(gather).collect()
}

/// Returns the mask of step (4), one number for each slot.
pub fn mask(slots: usize) -> Vec<f64> {
    let d = dimension(slots);
    (0..slots).map(|slot| if slot < d * d && slot.is_multiple_of(d) { 1.0 } else { 0.0 }).collect()
}

/// Computes the product, [`LEVELS`] levels below the operands and at the default scale of that level. `rotate` rotates
/// to the left; `mask` is the plaintext of the function [`mask`], at one level below the operands.
///
/// # Panics
/// When the operands have different levels, or levels below [`LEVELS`].
pub fn multiply(
    builder: &mut PlanBuilder,
    [matrix, vector]: [Value; 2],
    mask: Plain,
    mut rotate: impl FnMut(&mut PlanBuilder, Value, i64) -> Value,
) -> Value {
    let slots = builder.params().slots();
    let d = dimension(slots);
    let (bound, products) = (builder.noise(vector).value_bound, d as f64 * builder.noise(matrix).value_bound);
    let mut rotated_sums = |builder: &mut PlanBuilder, value: Value, down: usize, value_bound: f64| {
        let of_stage = rotations(slots).into_iter().filter(|(_, of)| *of == down);
        let sums = of_stage.fold(value, |value, (steps, _)| {
            let rotated = rotate(builder, value, steps);
            let sum = builder.add(value, rotated);
            // the sum adds different slots of one ciphertext to each other; errors of different slots are independent
            let scales = [value, rotated].map(|term| builder.scale(term));
            let noise = builder.noise(value).add_independent(builder.noise(rotated), scales, builder.params().n());
            builder.set_noise(sum, noise);
            sum
        });
        // the caller's bound is tighter than the bound of the sums, because many added slots are 0 where the result is
        // read
        let noise = Noise { value_bound, ..builder.noise(sums) };
        builder.set_noise(sums, noise);
        sums
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
                rotations(slots)
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
