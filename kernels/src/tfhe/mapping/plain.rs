//! The network that computes a circuit gate by gate.

use std::collections::HashMap;

use crate::tfhe::cells::Amplitude;
use crate::tfhe::circuit::{Numbered, Signal};
use crate::tfhe::fold::Bit;
use crate::tfhe::gates::{Gate, sums};
use crate::tfhe::network::{Network, Source, Sum, Term, log2_sum};
use crate::tfhe::noise::{InputNoise, Secret, beyond, gate_output, key_constant, mod_switch};
use crate::tfhe::params::ParamsLiteral;

/// Builds the network in which every remaining XOR and AND gate is a bootstrap, and every NOT is a sign.
pub(super) fn network(numbered: &Numbered, inputs: &[Bit], gates_asked: u64) -> Network {
    let mut network = Network::new(gates_asked);
    let inputs = first_of_their_names(inputs);
    let mut results: Vec<Term> = Vec::with_capacity(numbered.circuit.gates().len());
    let term = |signal: Signal, results: &[Term]| match signal {
        Signal::Input(bit) => Ok(inputs[bit as usize]),
        Signal::Gate(gate) => Ok(results[gate as usize]),
        Signal::Constant(bit) => Err(bit),
    };
    let scaled = |term: Term, factor: i32| Term { factor: term.factor * factor as i8, ..term };
    for (at, gate) in numbered.circuit.gates().iter().enumerate() {
        let operand = |at: usize| term(gate.operands()[at], &results).expect("constants are folded");
        if gate.gate() == Gate::Not {
            let result = scaled(operand(0), -1);
            if let Source::Sample(sample) = result.source {
                network.cover(sample / 2, numbered.kinds[at]);
            }
            results.push(result);
            continue;
        }
        let (places, linear) = sums(gate.gate())[0];
        let mut terms = [0, 1].map(|side| scaled(operand(places[side]), linear.factors[side]));
        terms.sort_unstable();
        let bootstrap = network.push(Sum { constant: linear.constant as i8, terms: &terms }, Amplitude::Eighth);
        network.cover(bootstrap, numbered.kinds[at]);
        results.push(Term { source: Source::Sample(2 * bootstrap), factor: 1 });
    }
    for &signal in numbered.circuit.outputs() {
        match term(signal, &results) {
            Ok(term) => network.push_output(Sum { constant: 0, terms: &[term] }),
            Err(bit) => network.push_output(Sum { constant: if bit { 1 } else { -1 }, terms: &[] }),
        }
    }
    network
}

impl Network {
    /// log2 of the probability that the result of any gate or the decryption of any output is wrong, if each bootstrap
    /// is a gate followed by a key switch. The probabilities of all these failures are added. The network must come
    /// from [`super::map_plainly`].
    pub fn failure_log2_as_gates(&self, p: &ParamsLiteral, inputs: InputNoise) -> f64 {
        let (result, constant) = (gate_output(p, Secret::OURS), key_constant(p));
        let (input, input_constant) = match inputs {
            InputNoise::Fresh => (p.lwe_noise_std.powi(2), 0.0),
            InputNoise::Any => (result, constant),
        };
        let variance = |terms: &[Term]| {
            let (mut own, mut shared) = (0.0, 0.0);
            for term in terms {
                let factor = f64::from(term.factor.unsigned_abs());
                let (all, constant) = match term.source {
                    Source::Input(_) => (input, input_constant),
                    Source::Sample(_) => (result, constant),
                };
                own += factor * factor * (all - constant);
                shared += factor * constant.sqrt();
            }
            own + shared * shared
        };
        let switch = mod_switch(p, Secret::OURS);
        let gates =
            (0..self.bootstraps()).map(|at| beyond(self.margin(at).turns(), variance(self.sum(at).terms) + switch));
        let outputs = (0..self.outputs())
            .map(|at| self.output(at).terms)
            .filter(|terms| !terms.is_empty())
            .map(|terms| beyond(1.0 / 8.0, variance(terms)));
        log2_sum(gates.chain(outputs))
    }
}

/// For each input, the first input with the same or the opposite name; the term is negated if the name is opposite.
fn first_of_their_names(inputs: &[Bit]) -> Vec<Term> {
    let mut known: HashMap<u32, (u32, bool)> = HashMap::new();
    let term = |(at, &bit): (usize, &Bit)| match bit {
        // any term will do, because no gate reads a constant input: constants are folded
        Bit::Constant(_) => Term { source: Source::Input(at as u32), factor: 1 },
        Bit::Value { id, negated } => {
            let &mut (first, of_first) = known.entry(id).or_insert((at as u32, negated));
            Term { source: Source::Input(first), factor: if of_first == negated { 1 } else { -1 } }
        }
    };
    inputs.iter().enumerate().map(term).collect()
}

#[cfg(test)]
mod tests {
    use super::super::map_plainly;
    use super::*;
    use crate::tfhe::noise::failure_log2;
    use crate::tfhe::{Circuit, Preset};

    #[test]
    fn a_circuit_of_gates_fails_as_often_as_its_gates_do() {
        let names: Vec<Bit> = (0..4).map(Bit::value).collect();
        let gates = "2 1 0 1 4 AND\n2 1 2 3 5 AND\n";
        let failures = |last: &str, preset: Preset, noise| {
            let text = format!("3 7\n1 4\n1 1\n{gates}2 1 4 5 6 {last}\n");
            map_plainly(&Circuit::parse(&text).unwrap(), &names).failure_log2_as_gates(&preset.params(), noise)
        };
        for preset in Preset::ALL {
            let published = failure_log2(&preset.params());
            // the last gate decides the failure probability, because only this gate reads the results of gates; the
            // gates that read fresh inputs, and the decryption, fail far less often
            let and = failures("AND", preset, InputNoise::Fresh);
            assert!((published.gate..published.gate + 0.1).contains(&and), "{preset:?}: {and}");
            let xor = failures("XOR", preset, InputNoise::Fresh);
            assert!(xor > published.xor - 1e-9 && xor < and, "{preset:?}: {xor}");
            // here all three gates read results
            let any = failures("AND", preset, InputNoise::Any);
            assert!((any - published.gate - 3f64.log2()).abs() < 0.1, "{preset:?}: {any}");
        }
    }
}
