//! The levels of a chain that a bootstrap takes, stage by stage ([`super::bootstrap`]).

/// Levels of each of the two matrix stages.
pub(super) const FACTORS: usize = 2;
/// Levels of the remainder: five for the series, three for the doublings.
const REMAINDER_LEVELS: usize = 8;
/// Bits of each level of the remainder, and of each level of the first matrix stage.
pub(super) const STAGE_BITS: u32 = 56;
/// Bits from each level to the one above, from level 0: the application's levels, then the stages from last to first.
pub(super) fn steps(scale_bits: u32, depth: u32) -> Vec<u32> {
    let application = vec![scale_bits; depth as usize + FACTORS];
    application.into_iter().chain([STAGE_BITS; REMAINDER_LEVELS + FACTORS]).collect()
}

/// Levels that bootstrapping adds to the levels of the application.
pub(super) const LEVELS: usize = 2 * FACTORS + REMAINDER_LEVELS;
