//! Parts of a key that few clients need. This file is separate from the code that handles secrets, because that code
//! must not contain a division (scripts/constant-time).

use kernels::ckks::{Params, PartKind, matmul};

use super::key_rows::rotations;

/// The parts for those rotations of a matrix product (readings C10) whose steps are not powers of two. Rotations that run
/// together with rotations by powers of two have parts of the same level as these; each other part is listed with the level
/// at which the product needs it. Without these parts, a matrix product composes each of these rotations from several
/// others, and takes about three times as long.
pub fn matrix_product_parts(params: &Params) -> Vec<(PartKind, usize)> {
    let special = matmul::rotations(params.slots()).into_iter().filter(|(steps, _)| !(*steps as u64).is_power_of_two());
    let level = |(steps, down): (i64, usize)| {
        let of_powers = steps % 3 == 0 && (steps as u64 / 3).is_power_of_two();
        Some((steps, params.level_max().checked_sub(if of_powers { 0 } else { down })?))
    };
    let of = special.filter_map(level);
    let mut parts: Vec<(PartKind, usize)> = Vec::new();
    for (kind, level) in of.flat_map(|(steps, level)| rotations(params, &[steps], level)) {
        // a rotation may serve two steps of the product
        match parts.iter_mut().find(|(of, _)| *of == kind) {
            Some((_, highest)) => *highest = level.max(*highest),
            None => parts.push((kind, level)),
        }
    }
    parts
}
