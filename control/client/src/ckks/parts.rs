//! Which parts a key needs beside the usual ones. Apart from what touches secrets, which may hold no division (scripts/constant-time).

use kernels::ckks::{Params, PartKind, matmul};

use super::key_rows::rotations;

/// The parts for those rotations of a matrix product (readings C10) that are no powers of two, at the level of each. Without them a
/// product composes each of several others and takes about three times as long.
pub fn matrix_product_parts(params: &Params) -> Vec<(PartKind, usize)> {
    let special = matmul::rotations(params.slots()).into_iter().filter(|(steps, _)| !(*steps as u64).is_power_of_two());
    let of = special.filter_map(|(steps, down)| Some((steps, params.level_max().checked_sub(down)?)));
    of.flat_map(|(steps, level)| rotations(params, &[steps], level)).collect()
}
