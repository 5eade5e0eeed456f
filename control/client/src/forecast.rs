//! Forecasts an evaluation without a node: the number of bootstraps, their levels, and the probability of a wrong bit.

use kernels::tfhe::fold::Bit;
use kernels::tfhe::mapping;
use kernels::tfhe::network::Network;
use kernels::tfhe::noise::InputNoise;
use kernels::tfhe::{Circuit, Preset};

/// Origin of a circuit's inputs, which determines their noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inputs {
    /// Ciphertexts that were encrypted for this circuit.
    Fresh,
    /// Results of earlier gates of the node.
    Results,
}

impl Inputs {
    /// Both origins.
    pub const ALL: [Inputs; 2] = [Inputs::Fresh, Inputs::Results];

    /// `fresh` or `results`.
    pub fn name(self) -> &'static str {
        match self {
            Inputs::Fresh => "fresh",
            Inputs::Results => "results",
        }
    }

    fn noise(self) -> InputNoise {
        match self {
            Inputs::Fresh => InputNoise::Fresh,
            Inputs::Results => InputNoise::Any,
        }
    }
}

/// The work of a node for a circuit whose inputs are all different ciphertexts, and the probability of a wrong result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Bootstraps.
    pub bootstraps: usize,
    /// Levels of bootstraps.
    pub levels: usize,
    /// log2 of the probability that any bit is wrong, by the noise model, for keys that this client makes.
    pub failure_log2: f64,
}

impl Forecast {
    /// The forecast for a node that maps the circuit to cells.
    pub fn of_cells(circuit: &Circuit, preset: Preset, inputs: Inputs) -> Forecast {
        let params = preset.params();
        let network = mapping::map(circuit, &different(circuit), &params, inputs.noise());
        Forecast::of(&network, network.failure_log2(&params, inputs.noise()))
    }

    /// The forecast for a node that runs the circuit gate by gate. Equal gates are computed once, and gates whose
    /// output nothing reads are left out.
    pub fn of_gates(circuit: &Circuit, preset: Preset, inputs: Inputs) -> Forecast {
        let network = mapping::map_plainly(circuit, &different(circuit));
        Forecast::of(&network, network.failure_log2_as_gates(&preset.params(), inputs.noise()))
    }

    fn of(network: &Network, failure_log2: f64) -> Forecast {
        Forecast { bootstraps: network.bootstraps(), levels: network.depth(), failure_log2 }
    }
}

/// Gives each input bit of the circuit a different name.
fn different(circuit: &Circuit) -> Vec<Bit> {
    (0..circuit.input_widths().iter().sum::<usize>() as u32).map(Bit::value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlists::ADDER64;

    #[test]
    fn the_adder_s_376_gates_become_127_bootstraps_in_64_levels() {
        let adder = Circuit::parse(ADDER64).unwrap();
        let cells = Forecast::of_cells(&adder, Preset::Fast128K2, Inputs::Fresh);
        assert_eq!((cells.bootstraps, cells.levels), (127, 64));
        let gates = Forecast::of_gates(&adder, Preset::Fast128K2, Inputs::Fresh);
        assert!(gates.bootstraps > 300 && gates.levels > 120, "{gates:?}");
        assert!((-160.0..-150.0).contains(&cells.failure_log2), "{cells:?}");
        assert!((-100.0..-80.0).contains(&gates.failure_log2), "{gates:?}");
        let noisy = Forecast::of_gates(&adder, Preset::Fast128K2, Inputs::Results);
        assert!((noisy.bootstraps, noisy.levels) == (gates.bootstraps, gates.levels));
        assert!(noisy.failure_log2 > gates.failure_log2);
    }
}
