//! Parts of a key that few clients need. This file is separate from the code that handles secrets, because that code
//! must not contain a division (scripts/constant-time).

use kernels::ckks::{Params, PartKind, matmul};

use super::key_rows::rotations;

/// The parts for those rotations of a matrix product (readings C10) whose steps are not powers of two. Each part is
/// listed with the level at which the product needs it. Without these parts, a matrix product composes each of these
/// rotations from several others, and takes about three times as long.
pub fn matrix_product_parts(params: &Params) -> Vec<(PartKind, usize)> {
    let special = matmul::doublings(params.slots()).into_iter().filter(|(steps, _)| !(*steps as u64).is_power_of_two());
    let of = special.filter_map(|(steps, down)| Some((steps, params.level_max().checked_sub(down)?)));
    of.flat_map(|(steps, level)| rotations(params, &[steps], level)).collect()
}

/// The parts with which two rotations of a matrix product become one step, for a key that also has
/// [`matrix_product_parts`]. With these parts, a matrix product takes a quarter to a third less time.
pub fn joint_rotation_parts(params: &Params) -> Vec<(PartKind, usize)> {
    let mut parts: Vec<(PartKind, usize)> = Vec::new();
    for (steps, down) in matmul::thirds(params.slots()) {
        // all three parts of a step have one level: powers of two have the highest
        let down = if (steps as u64 / 3).is_power_of_two() { 0 } else { down };
        let Some(level) = params.level_max().checked_sub(down) else { continue };
        for (kind, level) in rotations(params, &[steps], level) {
            match parts.iter_mut().find(|(of, _)| *of == kind) {
                Some((_, highest)) => *highest = level.max(*highest),
                None => parts.push((kind, level)),
            }
        }
    }
    parts
}
