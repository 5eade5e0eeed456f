//! The cost of a gate, by which the time of a device is shared fairly. The work of a gate depends on the parameters, so
//! a gate under a key with more levels costs more.
//!
//! The cost is a weighted sum of three counts: stages of transforms, products with key polynomials (both for each
//! coefficient), and words of key-switching rows. The unit is the time of one stage. The weights are the best fit to
//! all times of the bench `cost`, those with AVX-512 and those with AVX2 (benches/results/2026-11-22-cost.md). A
//! product has twice the weight that its number of operations suggests.

use super::params::{ParamsLiteral, Preset};

/// The cost of a bootstrap and a key switch with `fast_128`. This cost defines the unit of [`ParamsLiteral::cost`].
pub const COST_OF_FAST_128: u32 = 32;

const OF_PRODUCT: u64 = 3;
const OF_KEY_SWITCH_WORD: u64 = 1;

impl ParamsLiteral {
    /// The cost of a bootstrap and a key switch with these parameters, rounded up and at least 1; [`COST_OF_FAST_128`]
    /// for `fast_128`. A MUX costs three times as much, and a NOT costs nothing.
    pub fn cost(&self) -> u32 {
        let of_unit = Preset::Fast128.params().operations();
        let cost = (self.operations() * u64::from(COST_OF_FAST_128)).div_ceil(of_unit);
        u32::try_from(cost).expect("bounded by the ranges of parameters").max(1)
    }

    /// The work of a bootstrap and a key switch, in stages of one coefficient. The result is below `2^40` for the
    /// largest parameters that [`super::Params`] allows.
    fn operations(&self) -> u64 {
        let [n, components, degree, levels] =
            [self.lwe_dimension, self.glwe_dimension + 1, self.polynomial_size, self.bootstrap_level_count]
                .map(|x| x as u64);
        // each component has a forward transform for each level of digits, and an inverse transform for its sum
        let transforms = components * (levels + 1);
        let products = levels * components * components;
        let stages = u64::from(degree.ilog2());
        let step = degree * (transforms * stages + products * OF_PRODUCT);
        let key_switch = (self.key_switch_body_words() as u64) * (n + 1);
        n * step + key_switch * OF_KEY_SWITCH_WORD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(preset: Preset, bootstrap: [usize; 2], key_switch: (u32, usize)) -> u32 {
        ParamsLiteral {
            bootstrap_base_log: bootstrap[0],
            bootstrap_level_count: bootstrap[1],
            key_switch_base: key_switch.0,
            key_switch_level_count: key_switch.1,
            ..*preset.params()
        }
        .cost()
    }

    #[test]
    fn presets_cost_what_their_dimensions_ask_in_units_of_fast_128() {
        assert_eq!(Preset::ALL.map(|preset| preset.params().cost()), [COST_OF_FAST_128, 35, 51, 27, 28]);
    }

    #[test]
    fn every_level_more_costs_more_whichever_decomposition_it_is_in() {
        for preset in Preset::ALL {
            let costs: Vec<u32> = (1..=7).map(|levels| with(preset, [4, levels], (4, 5))).collect();
            assert!(costs.is_sorted_by(|few, many| few < many), "{costs:?}");
            // seven levels take nearly three times the transforms of two
            assert!(2 * costs[6] > 5 * costs[1], "{costs:?}");
            assert!(with(preset, [8, 2], (2, 24)) > with(preset, [8, 2], (4, 5)));
        }
    }

    #[test]
    fn the_largest_parameters_have_a_cost_and_the_smallest_cost_something() {
        let largest = ParamsLiteral {
            lwe_dimension: 2048,
            glwe_dimension: 4,
            polynomial_size: 2048,
            bootstrap_base_log: 3,
            bootstrap_level_count: 8,
            key_switch_base: 2,
            key_switch_level_count: 24,
            ..*Preset::Fast128.params()
        };
        assert!(largest.cost() > 32 * COST_OF_FAST_128);
        let smallest = ParamsLiteral {
            lwe_dimension: 1,
            polynomial_size: 64,
            bootstrap_level_count: 1,
            key_switch_level_count: 1,
            ..*Preset::Fast128.params()
        };
        assert_eq!(smallest.cost(), 1);
    }
}
