//! Parts of a key that few clients need. This file is separate from the code that handles secrets, because that code
//! must not contain a division (scripts/constant-time).

use kernels::ckks::{Params, PartKind, matmul};

use super::key_rows::rotations;

/// The parts for those rotations of a matrix product (readings C10) whose steps are not powers of two. Each part is
/// listed with the level at which the product needs it. Without these parts, a matrix product composes each of these
/// rotations from several others, and takes about three times as long.
pub fn matrix_product_parts(params: &Params) -> Vec<(PartKind, usize)> {
    let special = matmul::rotations(params.slots()).into_iter().filter(|(steps, _)| !(*steps as u64).is_power_of_two());
    let of = special.filter_map(|(steps, down)| Some((steps, params.level_max().checked_sub(down)?)));
    of.flat_map(|(steps, level)| rotations(params, &[steps], level)).collect()
}
