//! Forms: the leaves that each parity adds, within the noise budget.
//!
//! A parity's operands that are parities themselves are replaced by their leaves, so a net of XORs becomes one sum. If
//! the sum would be too noisy or too long, an operand is split off: the operand has its own bootstrap, and sums that
//! read it have it as one leaf.

use super::budget::{Budget, parity_factor};
use super::covering::Covering;
use super::edge::Edge;
use super::graph::{Graph, Node, differences};
use crate::tfhe::cells::Amplitude;
use crate::tfhe::network::Margin;
use crate::tfhe::noise::Load;

/// Largest number of leaves of a form.
pub(super) const LEAVES_MAX: usize = 48;

/// The thresholds that decide when sums are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Splitting {
    /// A parity that is bootstrapped at an eighth anyway becomes a leaf of other sums if it has more leaves than this
    /// number.
    pub bootstrapped: usize,
    /// Any other parity with several readers is split off if it has more leaves than this number.
    pub shared: usize,
    /// Whether to split off the operand at the lowest level, if a split costs a bootstrap.
    pub earliest: bool,
}

/// The forms of a covering's parities.
pub(super) struct Forms {
    leaves: Vec<u32>,
    /// For each node, the index at which its leaves end, and whether their XOR is negated.
    ends: Vec<(u32, bool)>,
    /// For each node, whether it is a parity that other sums read as a leaf.
    is_leaf: Vec<bool>,
    /// For each node, the level at which its sample is available. For a parity, the level at which all its leaves are
    /// available.
    levels: Vec<u32>,
}

impl Forms {
    pub fn of(graph: &Graph, covering: &Covering, budget: &Budget, splitting: Splitting) -> Forms {
        let mut forms = Forms {
            leaves: Vec::new(),
            ends: Vec::with_capacity(graph.len()),
            is_leaf: vec![false; graph.len()],
            levels: vec![0; graph.len()],
        };
        let mut lists = [Vec::new(), Vec::new()];
        for node in 0..graph.len() as u32 {
            let cell = covering.cell(node).filter(|cell| cell.is_parity() && covering.reads(node).any());
            let mut negated = false;
            if let Some(cell) = cell {
                forms.merge(graph, covering, budget, cell.operands(), splitting.earliest, &mut lists);
                let form = &lists[0];
                negated = cell.negated;
                for edge in cell.operands() {
                    let inner = forms.expands(covering, edge.node()) && forms.ends[edge.node() as usize].1;
                    negated ^= edge.negated() ^ inner;
                }
                let reads = covering.reads(node);
                let most = if reads.eighth > 0 { splitting.bootstrapped } else { splitting.shared };
                forms.is_leaf[node as usize] = form.len() > most && (reads.eighth > 0 || reads.parity > 1);
                forms.levels[node as usize] = forms.level(covering, form.iter().copied());
                forms.leaves.extend_from_slice(form);
            } else if let Some(cell) = covering.cell(node) {
                let operands = cell.operands().iter().map(|edge| edge.node());
                forms.levels[node as usize] = forms.level(covering, operands) + 1;
            }
            forms.ends.push((forms.leaves.len() as u32, negated));
        }
        forms
    }

    /// The leaves of a parity, ascending, and whether the parity is the negation of their XOR.
    pub fn form(&self, node: u32) -> (&[u32], bool) {
        let start = if node == 0 { 0 } else { self.ends[node as usize - 1].0 as usize };
        let (end, negated) = self.ends[node as usize];
        (&self.leaves[start..end as usize], negated)
    }

    /// Whether a node may need a bootstrap.
    pub fn is_bootstrap(&self, covering: &Covering, node: u32) -> bool {
        let reads = covering.reads(node);
        match covering.cell(node) {
            Some(cell) if cell.is_parity() => reads.eighth > 0 || (reads.any() && self.is_leaf[node as usize]),
            Some(_) => reads.any(),
            None => false,
        }
    }

    /// Writes the leaves of the operands' XOR to `form`, after as many splits as the budget needs. Overwrites
    /// `before`.
    fn merge(
        &mut self,
        graph: &Graph,
        covering: &Covering,
        budget: &Budget,
        operands: &[Edge],
        earliest: bool,
        [form, before]: &mut [Vec<u32>; 2],
    ) {
        loop {
            form.clear();
            for edge in operands {
                std::mem::swap(form, before);
                form.clear();
                differences(before, self.part(covering, &edge.node()), form);
            }
            if form.len() <= LEAVES_MAX && budget.allows(&parity_load(graph, covering, form), Margin::Quarter) {
                return;
            }
            let parts = operands.iter().map(|edge| edge.node()).filter(|&node| self.expands(covering, node));
            // prefer an operand that is bootstrapped anyway, then the one at the lowest level (if `earliest`), then the
            // one that the most parities read, then the one with the longest form
            let split = parts.max_by_key(|&node| {
                let reads = covering.reads(node);
                let early = if earliest { u32::MAX - self.levels[node as usize] } else { 0 };
                (reads.eighth > 0, early, reads.parity, self.form(node).0.len(), node)
            });
            match split {
                Some(node) => self.is_leaf[node as usize] = true,
                None => return,
            }
        }
    }

    /// The level at which the samples of all these nodes are available.
    fn level(&self, covering: &Covering, nodes: impl Iterator<Item = u32>) -> u32 {
        let parity = |node: u32| covering.cell(node).is_some_and(|cell| cell.is_parity());
        nodes.map(|node| self.levels[node as usize] + u32::from(parity(node))).max().unwrap_or(0)
    }

    /// Whether the readers of a node replace it by its leaves. They do if the node is a parity that is not split off.
    fn expands(&self, covering: &Covering, node: u32) -> bool {
        covering.cell(node).is_some_and(|cell| cell.is_parity()) && !self.is_leaf[node as usize]
    }

    /// The terms that a parity adds for a node: the leaves of an expanded parity, else the node itself.
    fn part<'a>(&'a self, covering: &Covering, node: &'a u32) -> &'a [u32] {
        if self.expands(covering, *node) { self.form(*node).0 } else { std::slice::from_ref(node) }
    }
}

/// Amplitude of a node's sample.
pub(super) fn amplitude(graph: &Graph, covering: &Covering, node: u32) -> Amplitude {
    match graph.node(node) {
        Node::False | Node::Input(_) => Amplitude::Eighth,
        _ if covering.reads(node).eighth > 0 => Amplitude::Eighth,
        _ => Amplitude::Quarter,
    }
}

/// The load of a parity of these nodes.
fn parity_load(graph: &Graph, covering: &Covering, leaves: &[u32]) -> Load {
    let mut load = Load::default();
    for &leaf in leaves {
        let factor = parity_factor(amplitude(graph, covering, leaf));
        if graph.is_input(leaf) { load.add_input(factor) } else { load.add_sample(factor) }
    }
    load
}
