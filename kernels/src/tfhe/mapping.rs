//! Mapping: a circuit of XOR, AND and NOT becomes a [`Network`] of far fewer bootstraps, each over a sum.
//!
//! A gate by itself is a bootstrap and a key switch. Here results stay under the extraction key, sums of them are key
//! switched once, and a sum may be more than a gate's: a majority, a parity of many bits, a parity with an AND in it
//! (`cells.rs`). Which sums are allowed is a matter of noise (`budget.rs`): no bootstrap of a network fails more often than
//! the preset's ordinary gate, except that a sum of an ordinary gate's two operands is allowed whatever they are.
//!
//! The way of a circuit: equal values are one (`circuit/values.rs`, `graph.rs`); every node becomes a cell of one of its
//! small cuts (`cuts.rs`, `covering.rs`); XORs become sums (`forms.rs`); what the outputs need is written as bootstraps
//! (`emit.rs`); and the network is compared with the circuit (`check.rs`). No step looks at a clock, at threads or at
//! chance: the same circuit gives the same network.

mod budget;
mod cells;
mod check;
mod covering;
mod cuts;
mod emit;
mod forms;
mod graph;
mod network;
mod offers;
mod pairs;
mod plain;

#[cfg(test)]
mod tests;

pub use budget::{Budget, Margin};
pub use network::{Amplitude, Network, Source, Sum, Term};
pub use offers::Offers;

use std::cmp::Ordering;

use super::circuit::{Circuit, Numbered, Signal, numbered};
use super::fold::Bit;
use super::noise::InputNoise;
use super::params::Params;
use covering::Covering;
use forms::{Forms, Splitting};
use graph::Graph;

/// Gates of a circuit beyond which one way of splitting sums is tried, not all.
const TRY_ALL_GATES: usize = 1 << 17;

/// The ways of splitting sums that are tried.
const SPLITTINGS: [Splitting; 4] = [
    Splitting { bootstrapped: 4, shared: 12, earliest: false },
    Splitting { bootstrapped: 8, shared: 8, earliest: false },
    Splitting { bootstrapped: 8, shared: 12, earliest: true },
    Splitting { bootstrapped: 4, shared: usize::MAX, earliest: false },
];

/// The network of a circuit on inputs of these names, an input bit each: equal inputs are one value, opposite ones its
/// negation, and constants are folded.
///
/// Of several networks the one with fewer bootstraps is taken; where they differ by at most 1 in 64, the one with fewer
/// levels.
///
/// # Panics
/// When there are not as many inputs as input bits.
pub fn map(circuit: &Circuit, inputs: &[Bit], params: &Params, noise: InputNoise) -> Network {
    let numbered = numbered(circuit, inputs);
    let budget = Budget::of(params, noise);
    let graph = Graph::of(&numbered.circuit, inputs);
    let covering = Covering::of(&graph, &budget);
    let tries = if circuit.gates().len() > TRY_ALL_GATES { 1 } else { SPLITTINGS.len() };
    let networks = SPLITTINGS[..tries].iter().filter_map(|&splitting| {
        let forms = Forms::of(&graph, &covering, &budget, splitting);
        let emitted = emit::emitted(&graph, &covering, &forms, &budget, circuit.gates().len() as u64);
        emitted.map(|(network, values)| {
            let (network, moved) = pairs::paired(&network, &budget);
            let owners: Vec<Option<u32>> =
                values.iter().map(|value| value.bootstrap().map(|old| moved[old as usize])).collect();
            (network.levels().len(), network, owners)
        })
    });
    let best = networks.reduce(|best, next| if is_better((&next.1, next.0), (&best.1, best.0)) { next } else { best });
    match best {
        Some((_, mut network, owners)) if check::agrees(&network, circuit, inputs) => {
            cover(&mut network, &numbered, &graph, &owners);
            network
        }
        _ => plain::network(&numbered, inputs, circuit.gates().len() as u64),
    }
}

/// The network in which every gate that has to be computed is a bootstrap of its own.
///
/// # Panics
/// As [`map`].
pub fn map_plainly(circuit: &Circuit, inputs: &[Bit]) -> Network {
    plain::network(&numbered(circuit, inputs), inputs, circuit.gates().len() as u64)
}

/// Whether a network with its levels is better than another.
fn is_better((a, a_levels): (&Network, usize), (b, b_levels): (&Network, usize)) -> bool {
    let near = a.bootstraps().abs_diff(b.bootstraps()) <= a.bootstraps().min(b.bootstraps()) / 64;
    let by_bootstraps = a.bootstraps().cmp(&b.bootstraps());
    let order = if near { a_levels.cmp(&b_levels).then(by_bootstraps) } else { by_bootstraps };
    order == Ordering::Less
}

/// Says for every gate which bootstrap stands for it: its own, or else that of the first gate that reads it.
fn cover(network: &mut Network, numbered: &Numbered, graph: &Graph, owners: &[Option<u32>]) {
    let gates = numbered.circuit.gates();
    let mut covers = vec![None; gates.len()];
    for (at, gate) in gates.iter().enumerate().rev() {
        let own = owners[graph.gates()[at].node() as usize];
        covers[at] = own.or(covers[at]);
        if let Some(bootstrap) = covers[at] {
            network.cover(bootstrap, numbered.kinds[at]);
            for signal in gate.operands() {
                if let Signal::Gate(operand) = *signal {
                    covers[operand] = Some(bootstrap);
                }
            }
        }
    }
}
