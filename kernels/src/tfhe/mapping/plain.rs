//! The network of a circuit gate by gate.

use std::collections::HashMap;

use super::network::{Network, Source, Sum, Term};
use crate::tfhe::cells::Amplitude;
use crate::tfhe::circuit::{Numbered, Signal};
use crate::tfhe::fold::Bit;
use crate::tfhe::gates::{Gate, bootstraps};

/// Every XOR and AND that is left is a bootstrap; a NOT is a sign.
pub(super) fn network(numbered: &Numbered, inputs: &[Bit], gates_asked: u64) -> Network {
    let mut network = Network::new(gates_asked);
    let inputs = first_of_their_names(inputs);
    let mut results: Vec<Term> = Vec::with_capacity(numbered.circuit.gates().len());
    let term = |signal: Signal, results: &[Term]| match signal {
        Signal::Input(bit) => Ok(inputs[bit]),
        Signal::Gate(gate) => Ok(results[gate]),
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
        let (places, linear) = bootstraps(gate.gate())[0];
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

/// What each input is: the first input of its name, or that one's negation.
fn first_of_their_names(inputs: &[Bit]) -> Vec<Term> {
    let mut known: HashMap<u32, (u32, bool)> = HashMap::new();
    let term = |(at, &bit): (usize, &Bit)| match bit {
        // a constant is folded and read by no gate
        Bit::Constant(_) => Term { source: Source::Input(at as u32), factor: 1 },
        Bit::Value { id, negated } => {
            let &mut (first, of_first) = known.entry(id).or_insert((at as u32, negated));
            Term { source: Source::Input(first), factor: if of_first == negated { 1 } else { -1 } }
        }
    };
    inputs.iter().enumerate().map(term).collect()
}
