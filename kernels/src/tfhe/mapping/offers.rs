//! Which cells a parameter set offers, for documents and for users.

use super::budget::{Budget, Margin};
use crate::tfhe::noise::{InputNoise, Load};
use crate::tfhe::params::ParamsLiteral;

/// What a network's bootstraps may compute of samples under a parameter set, besides the gates of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offers {
    /// XOR of three samples at an eighth.
    pub xor3: bool,
    /// Majority of three samples, and "not all equal" of them.
    pub majority: bool,
    /// `c xor (a and b)`, c at an eighth.
    pub xor_and_of_eighth: bool,
    /// `c xor (a and b)`, c at a quarter.
    pub xor_and_of_quarter: bool,
    /// AND and XOR of the same two samples from one rotation, and an AND of that XOR and another sample.
    pub pair: bool,
    /// Samples at a quarter in a parity, at most.
    pub widest_parity: u32,
}

impl Offers {
    /// Of a parameter set.
    pub fn of(p: &ParamsLiteral) -> Offers {
        let budget = Budget::of(p, InputNoise::Fresh);
        let allows = |samples, margin| budget.allows(&Load { samples, ..Load::default() }, margin);
        let widest = (1..=1 << 16).take_while(|&samples| allows(samples, Margin::Quarter)).last();
        Offers {
            xor3: allows(12, Margin::Quarter),
            majority: allows(3, Margin::Eighth),
            xor_and_of_eighth: allows(6, Margin::Eighth),
            xor_and_of_quarter: allows(3, Margin::Eighth),
            pair: allows(3, Margin::Eighth),
            widest_parity: widest.unwrap_or(2),
        }
    }
}
