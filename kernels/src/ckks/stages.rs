//! The levels of a chain that a bootstrap takes, stage by stage ([`super::bootstrap`]).

/// Number of levels of each of the two matrix stages.
pub(super) const FACTORS: usize = 2;
/// Number of levels of the remainder: five for the series, three for the doublings.
const REMAINDER_LEVELS: usize = 8;
/// Number of bits of each level of the remainder, and of each level of the first matrix stage.
pub(super) const STAGE_BITS: u32 = 56;
/// The least number of bits that level 0 has above its scale. The larger this number is, the smaller the error of the
/// sine is, and the larger the errors of all steps before the last are. For numbers up to 1, both errors are then
/// small.
pub(super) const HEADROOM: u32 = 13;

/// Lists the number of bits from each level to the next higher level, from level 0 on: first the application's levels,
/// then the stages from last to first.
pub(super) fn steps(scale_bits: u32, depth: u32) -> Vec<u32> {
    let application = vec![scale_bits; depth as usize + FACTORS];
    application.into_iter().chain([STAGE_BITS; REMAINDER_LEVELS + FACTORS]).collect()
}

/// Number of levels that bootstrapping adds to the levels of the application.
pub(super) const LEVELS: usize = 2 * FACTORS + REMAINDER_LEVELS;
