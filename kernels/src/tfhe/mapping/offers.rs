//! The cells that a parameter set offers. A test compares `docs/circuits.md` with this list.

use super::budget::Budget;
use super::forms::LEAVES_MAX;
use crate::tfhe::network::Margin;
use crate::tfhe::noise::{InputNoise, Load};
use crate::tfhe::params::ParamsLiteral;

/// Which functions a network's bootstraps may compute under a parameter set, in addition to the gates of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offers {
    /// XOR of three samples at an eighth.
    pub xor3: bool,
    /// Majority of three samples, and "not all equal" of three samples.
    pub majority: bool,
    /// `c xor (a and b)`, with c at an eighth.
    pub xor_and_of_eighth: bool,
    /// `c xor (a and b)`, with c at a quarter.
    pub xor_and_of_quarter: bool,
    /// AND and XOR of the same two samples from one rotation, and a bootstrap that computes the AND of this XOR and
    /// another sample.
    pub pair: bool,
    /// Largest number of samples at a quarter in a parity, limited by the noise and by the length of a form.
    pub widest_parity: u32,
}

impl Offers {
    /// The cells that this parameter set offers.
    pub fn of(p: &ParamsLiteral) -> Offers {
        let budget = Budget::of(p, InputNoise::Fresh);
        let allows = |samples, margin| budget.allows(&Load { samples, ..Load::default() }, margin);
        let widest = (1..=LEAVES_MAX as u32).take_while(|&samples| allows(samples, Margin::Quarter)).last();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tfhe::Preset;

    #[test]
    fn what_each_preset_offers() {
        let all = Offers {
            xor3: true,
            majority: true,
            xor_and_of_eighth: false,
            xor_and_of_quarter: true,
            pair: true,
            widest_parity: 22,
        };
        let standard = Offers { majority: false, xor_and_of_quarter: false, pair: false, widest_parity: 12, ..all };
        for (preset, expected) in [
            (Preset::Fast128, all),
            (Preset::Standard128, standard),
            (Preset::Conservative128, Offers { widest_parity: 40, ..all }),
            (Preset::Fast128K2, Offers { widest_parity: 27, ..all }),
            (Preset::Standard128K2, Offers { widest_parity: 15, ..standard }),
        ] {
            assert_eq!(Offers::of(&preset.params()), expected, "{preset:?}");
        }
    }
}
