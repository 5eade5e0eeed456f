//! Mapping: a circuit of XOR, AND and NOT becomes a [`Network`] of far fewer bootstraps, each over a sum.
//!
//! A gate that runs alone takes a bootstrap and a key switch. In a network, results stay under the extraction key, and
//! only their sum is key-switched, once. A sum may also compute more than a gate: a majority, a parity of many bits, or
//! a parity that contains an AND (`cells.rs`). The noise decides which sums are allowed (`budget.rs`): no bootstrap of
//! a network fails more often than an ordinary gate of the preset. The only exception is the sum of an ordinary gate's
//! two operands, which is allowed for all operands.
//!
//! A circuit passes these stages: structural hashing merges equal values (`graph.rs`); every node becomes a cell of
//! one of its small cuts (`cuts.rs`, `covering.rs`); XORs become sums (`forms.rs`); the nodes that outputs need become
//! bootstraps (`emit.rs`); the network is compared with the circuit (`check.rs`). No stage depends on a clock, on
//! threads or on randomness, so the same circuit gives the same network.

mod budget;
mod cells;
mod check;
mod covering;
mod cuts;
mod edge;
mod emit;
mod forms;
mod graph;
mod offers;
mod pairs;
mod plain;

#[cfg(test)]
mod tests;

pub use budget::Budget;
pub use offers::Offers;

use std::rc::Rc;

use super::circuit::{Circuit, Plan, Signal, numbered};
use super::fold::Bit;
use super::network::Network;
use super::noise::InputNoise;
use super::params::Params;
use covering::Covering;
use forms::{Forms, Splitting};
use graph::{Graph, Node};

/// A circuit with more gates than this is large. For a large circuit, mapping saves time: nodes have fewer cuts, cells
/// are chosen in one pass, only one way of splitting sums is tried, and only the better way to read inputs is emitted.
const LARGE: usize = 1 << 17;

/// The ways of splitting sums that are tried, in this order.
const SPLITTINGS: [Splitting; 4] = [
    Splitting { bootstrapped: 4, shared: 12, earliest: false },
    Splitting { bootstrapped: 8, shared: 8, earliest: false },
    Splitting { bootstrapped: 8, shared: 12, earliest: true },
    Splitting { bootstrapped: 4, shared: usize::MAX, earliest: false },
];

/// Maps a circuit to a network. `inputs` has one name for each input bit: inputs with equal names are one value, an
/// input with the opposite name is the negation of that value, and constants are folded.
///
/// Among several networks, the network with the fewest bootstraps is chosen. If the numbers of bootstraps differ by at
/// most 1 in 64, the network with fewer levels is chosen.
///
/// # Panics
/// When the number of names is not the number of input bits.
pub fn map(circuit: &Circuit, inputs: &[Bit], params: &Params, noise: InputNoise) -> Network {
    assert_eq!(inputs.len(), circuit.input_widths().iter().sum::<usize>(), "a bit an input");
    let budget = Budget::of(params, noise);
    let mut graph = Graph::of(circuit, inputs);
    let large = circuit.gates().len() > LARGE;
    // if inputs are noisy, it may pay to bootstrap each input first
    let refreshing = if noise == InputNoise::Any { &[false, true][..] } else { &[false] };
    let mut ways = Vec::new();
    for &refreshes_inputs in refreshing {
        graph.refreshes_inputs = refreshes_inputs;
        let covering = Rc::new(Covering::of(&graph, &budget));
        for &splitting in &SPLITTINGS[..if large { 1 } else { SPLITTINGS.len() }] {
            let forms = Forms::of(&graph, &covering, &budget, splitting);
            ways.push(Way { refreshes_inputs, covering: covering.clone(), forms });
        }
    }
    if large {
        ways = ways.into_iter().min_by_key(|way| way.bootstraps_at_most(&graph)).into_iter().collect();
    }
    let mut best: Option<Mapped> = None;
    for Way { refreshes_inputs, covering, forms } in ways {
        graph.refreshes_inputs = refreshes_inputs;
        let next = Mapped::of(&graph, &covering, &forms, &budget, circuit.gates().len() as u64);
        if let Some(next) = next.filter(|next| best.as_ref().is_none_or(|best| next.is_better_than(best))) {
            best = Some(next);
        }
    }
    match best {
        Some(Mapped { mut network, owners, .. }) if check::agrees(&network, circuit, inputs) => {
            cover(&mut network, circuit, &graph, &owners);
            network
        }
        _ => map_plainly(circuit, inputs),
    }
}

/// Maps a circuit gate by gate: every gate that remains after folding is one bootstrap.
///
/// # Panics
/// When the number of names is not the number of input bits.
pub fn map_plainly(circuit: &Circuit, inputs: &[Bit]) -> Network {
    plain::network(&numbered(circuit, inputs), inputs, circuit.gates().len() as u64)
}

/// The plan that runs a circuit gate by gate, and the network of [`map_plainly`], which gives the failure probability.
///
/// # Panics
/// When the number of names is not the number of input bits.
pub fn plan_plainly(circuit: &Circuit, inputs: &[Bit]) -> (Plan, Network) {
    let (numbered, gates) = (numbered(circuit, inputs), circuit.gates().len());
    (Plan::of(&numbered, gates), plain::network(&numbered, inputs, gates as u64))
}

/// The choices that turn a graph into a network.
struct Way {
    refreshes_inputs: bool,
    covering: Rc<Covering>,
    forms: Forms,
}

impl Way {
    /// An upper bound on the number of bootstraps in the network. The network has fewer if a parity absorbs a cell or
    /// if sums are equal.
    fn bootstraps_at_most(&self, graph: &Graph) -> usize {
        let of_nodes = (0..graph.len() as u32).filter(|&node| match graph.node(node) {
            Node::Input(_) => self.refreshes_inputs,
            _ => self.forms.is_bootstrap(&self.covering, node),
        });
        of_nodes.count()
    }
}

/// A network, and for each node of the graph the bootstrap that computes it.
struct Mapped {
    network: Network,
    owners: Vec<Option<u32>>,
    levels: usize,
}

impl Mapped {
    fn of(graph: &Graph, covering: &Covering, forms: &Forms, budget: &Budget, gates_asked: u64) -> Option<Mapped> {
        let (network, values) = emit::emitted(graph, covering, forms, budget, gates_asked)?;
        let owners = values.iter().map(|value| value.bootstrap());
        let (network, owners) = match pairs::paired(&network, budget) {
            Some((paired, moved)) => (paired, owners.map(|old| old.map(|old| moved[old as usize])).collect()),
            None => (network, owners.collect()),
        };
        Some(Mapped { levels: network.depth(), network, owners })
    }

    fn is_better_than(&self, other: &Mapped) -> bool {
        let (own, others) = (self.network.bootstraps(), other.network.bootstraps());
        if own.abs_diff(others) <= own.min(others) / 64 {
            (self.levels, own) < (other.levels, others)
        } else {
            own < others
        }
    }
}

/// Assigns every gate to a bootstrap. This is the bootstrap that computes the gate, or else the bootstrap of the first
/// gate that reads it.
fn cover(network: &mut Network, circuit: &Circuit, graph: &Graph, owners: &[Option<u32>]) {
    let gates = circuit.gates();
    let mut covers = vec![None; gates.len()];
    for (at, gate) in gates.iter().enumerate().rev() {
        let own = owners[graph.gates()[at].node() as usize];
        covers[at] = own.or(covers[at]);
        if let Some(bootstrap) = covers[at] {
            network.cover(bootstrap, gate.of_kind());
            for signal in gate.operands() {
                if let Signal::Gate(operand) = *signal {
                    covers[operand as usize] = Some(bootstrap);
                }
            }
        }
    }
}
