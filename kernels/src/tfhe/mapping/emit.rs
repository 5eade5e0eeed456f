//! Emission: writes bootstraps over sums, for the part of a covering that the outputs need.

use super::budget::{Budget, parity_factor};
use super::cells::{Cell, Kind};
use super::covering::Covering;
use super::edge::Edge;
use super::forms::{Forms, amplitude};
use super::graph::{Graph, Node};
use crate::tfhe::cells::Amplitude;
use crate::tfhe::circuit::Table;
use crate::tfhe::network::{Margin, Network, Source, Sum, Term, load};

/// Writes the network of a covering. `None` if a sum would be noisier than the budget allows. This is rare, because the
/// bounds of the forms prevent it except for some equal operands.
pub(super) fn emitted(
    graph: &Graph,
    covering: &Covering,
    forms: &Forms,
    budget: &Budget,
    gates_asked: u64,
) -> Option<(Network, Vec<Value>)> {
    let sums = Sums { graph, covering, forms, budget };
    let absorbed = sums.absorbed();
    let needed = sums.needed(&absorbed);
    let bootstraps = needed.iter().filter(|&&needed| needed).count();
    let mut writer = Writer::new(gates_asked, bootstraps, budget);
    let mut values = vec![Value::Constant(false); graph.len()];
    let mut sum = NodeSum::default();
    for node in 0..graph.len() as u32 {
        if let Node::Input(input) = graph.node(node) {
            let input = Source::Input(input);
            let refreshes = graph.refreshes_inputs && needed[node as usize];
            values[node as usize] = if refreshes { writer.refreshed(input) } else { Value::Bit(input, false) };
        } else if needed[node as usize] && covering.cell(node).is_some() {
            sums.put(node, absorbed[node as usize], &mut sum);
            values[node as usize] = writer.bootstrap(&sum, &values, amplitude(graph, covering, node))?;
        }
    }
    for edge in graph.outputs() {
        let value = match graph.node(edge.node()) {
            Node::Input(input) => Value::Bit(Source::Input(input), false),
            _ => values[edge.node() as usize],
        };
        writer.output(value.negated_if(edge.negated()));
    }
    Some((writer.network, values))
}

/// The value of a node in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Constant(bool),
    /// A source. The bit is negated if the flag is true.
    Bit(Source, bool),
}

impl Value {
    fn negated_if(self, negate: bool) -> Value {
        match self {
            Value::Constant(bit) => Value::Constant(bit != negate),
            Value::Bit(source, negated) => Value::Bit(source, negated != negate),
        }
    }

    /// The bootstrap that computes the value, if any.
    pub fn bootstrap(self) -> Option<u32> {
        match self {
            Value::Bit(Source::Sample(sample), _) => Some(sample / 2),
            _ => None,
        }
    }
}

/// The number that stands for no node.
const NONE: u32 = u32::MAX;

/// A sum over nodes, in eighths.
#[derive(Default)]
struct NodeSum {
    constant: i8,
    terms: Vec<(u32, NodeFactor)>,
}

/// How a sum reads a node.
#[derive(Clone, Copy)]
enum NodeFactor {
    /// The node's bit at an eighth, with this sign.
    Eighth(i8),
    /// The node's bit at a quarter.
    Parity,
}

/// Builds the sums that the nodes' bootstraps read.
struct Sums<'a> {
    graph: &'a Graph,
    covering: &'a Covering,
    forms: &'a Forms,
    budget: &'a Budget,
}

impl Sums<'_> {
    /// Writes to `into` the sum that a node's bootstrap reads. `absorbed` is the node that this node absorbs, or [`NONE`].
    fn put(&self, node: u32, absorbed: u32, into: &mut NodeSum) {
        into.terms.clear();
        let cell = self.covering.cell(node).expect("inputs and constants have no bootstrap");
        if !cell.is_parity() {
            into.constant = cell.constant();
            into.terms.extend(core_terms(cell));
            return;
        }
        let (leaves, negated) = self.forms.form(node);
        into.terms.extend(leaves.iter().filter(|&&leaf| leaf != absorbed).map(|&leaf| (leaf, NodeFactor::Parity)));
        // the sum of k bits of +-1/4 and a constant of 2 k - 2 eighths is +1/4 if the XOR of the bits is true, else -1/4
        into.constant = (2 * into.terms.len() as i32 - 2).rem_euclid(8) as i8;
        let negates = match self.covering.cell(absorbed.min(node)).filter(|_| absorbed != NONE) {
            None => negated,
            Some(inner) => {
                into.constant += inner.core_constant();
                into.terms.extend(core_terms(inner));
                // the sign of S + 1/4 is the turned cell, and the sign of S - 1/4 is its negation
                inner.negated == negated
            }
        };
        into.constant += if negates { 4 } else { 0 };
    }

    /// For each parity, the turned cell that it absorbs, or [`NONE`]. The parity then reads the operands of that cell
    /// directly. This saves the cell's level, and also its bootstrap if nothing else reads the cell.
    fn absorbed(&self) -> Vec<u32> {
        let ands = self.ands();
        let mut absorbed = vec![NONE; self.graph.len()];
        let mut levels = vec![0u32; self.graph.len()];
        let (mut sum, mut terms) = (NodeSum::default(), Vec::new());
        for node in 0..self.graph.len() as u32 {
            let Some(cell) = self.covering.cell(node).filter(|_| self.forms.is_bootstrap(self.covering, node)) else {
                continue;
            };
            let level =
                |nodes: &mut dyn Iterator<Item = u32>| nodes.map(|node| levels[node as usize]).max().unwrap_or(0);
            let level = if !cell.is_parity() {
                level(&mut cell.operands().iter().map(|edge| edge.node()))
            } else {
                let leaves = self.forms.form(node).0;
                let turned = |&&leaf: &&u32| self.covering.cell(leaf).is_some_and(|cell| cell.kind == Kind::Turned);
                let latest = leaves.iter().filter(turned).max_by_key(|&&leaf| (levels[leaf as usize], leaf));
                if leaves.len() > 1
                    && (leaves.len() > 2
                        || ands.find(leaves, |and| self.and_operands(and).is_some_and(|of| of == leaves)).is_none())
                    && let Some(&latest) = latest
                    && {
                        self.put(node, latest, &mut sum);
                        self.allows(&sum, &mut terms)
                    }
                {
                    absorbed[node as usize] = latest;
                    let inner = self.covering.cell(latest).map_or(&[][..], Cell::operands);
                    let rest = leaves.iter().copied().filter(|&leaf| leaf != latest);
                    level(&mut rest.chain(inner.iter().map(|edge| edge.node())))
                } else {
                    level(&mut leaves.iter().copied())
                }
            };
            levels[node as usize] = level + 1;
        }
        absorbed
    }

    /// The cells with two operands, found by the nodes of the operands. The rotation of such a cell may also give the
    /// XOR of its operands (`pairs.rs`).
    fn ands(&self) -> Table {
        let pairs = (0..self.graph.len() as u32).filter(|&node| self.forms.is_bootstrap(self.covering, node));
        let pairs = pairs.filter_map(|node| self.and_operands(node).map(|pair| (node, pair)));
        let mut ands = Table::new(pairs.clone().count(), self.graph.len());
        pairs.for_each(|(node, pair)| ands.insert(&pair, node));
        ands
    }

    /// If the node's cell has two operands and is not a parity, the nodes of these operands, ascending.
    fn and_operands(&self, node: u32) -> Option<[u32; 2]> {
        match *self.covering.cell(node).filter(|cell| !cell.is_parity())?.operands() {
            [a, b] => Some([a.node().min(b.node()), a.node().max(b.node())]),
            _ => None,
        }
    }

    /// Whether a sum over nodes is within the budget at margin 1/8. Overwrites `terms`.
    fn allows(&self, sum: &NodeSum, terms: &mut Vec<Term>) -> bool {
        let of_nodes = sum.terms.iter().map(|&(node, factor)| {
            let factor = match factor {
                NodeFactor::Eighth(factor) => factor,
                NodeFactor::Parity => parity_factor(amplitude(self.graph, self.covering, node)),
            };
            let source = if self.graph.is_input(node) { Source::Input(node) } else { Source::Sample(node) };
            // a sum that reads the same node both at an eighth and as a parity is so rare that the signs of the two
            // factors are not compared: their magnitudes are added, which is the worst case
            Term { source, factor: factor.abs() }
        });
        terms.clear();
        terms.extend(of_nodes);
        Term::combine(terms);
        self.budget.allows(&load(terms), Margin::Eighth)
    }

    /// For each node, whether the outputs need its bootstrap.
    fn needed(&self, absorbed: &[u32]) -> Vec<bool> {
        let mut needed = vec![false; self.graph.len()];
        for edge in self.graph.outputs() {
            // if an output is an input, it needs no bootstrap
            needed[edge.node() as usize] = !matches!(self.graph.node(edge.node()), Node::Input(_));
        }
        for node in (0..self.graph.len() as u32).rev() {
            let Some(cell) = self.covering.cell(node).filter(|_| needed[node as usize]) else { continue };
            let absorbed = absorbed[node as usize];
            let inner = if absorbed == NONE { None } else { self.covering.cell(absorbed) };
            let cell = if cell.is_parity() { inner } else { Some(cell) };
            for edge in cell.map_or(&[][..], Cell::operands) {
                needed[edge.node() as usize] = true;
            }
            for &leaf in self.forms.form(node).0.iter().filter(|&&leaf| leaf != absorbed) {
                needed[leaf as usize] = true;
            }
        }
        needed
    }
}

/// The terms of a cell's sum `S` (`cells.rs`).
fn core_terms(cell: &Cell) -> impl Iterator<Item = (u32, NodeFactor)> {
    let sign = |edge: &Edge| if edge.negated() { -1 } else { 1 };
    cell.operands().iter().map(move |edge| (edge.node(), NodeFactor::Eighth(sign(edge))))
}

/// Writes a network. If a sum, its negation or its quarter turn was already bootstrapped, that result is reused.
struct Writer<'a> {
    network: Network,
    budget: &'a Budget,
    /// The bootstraps, found by their amplitude and terms.
    known: Table,
    terms: Vec<Term>,
    words: Vec<u32>,
}

impl<'a> Writer<'a> {
    /// A writer for at most `bootstraps` bootstraps.
    fn new(gates_asked: u64, bootstraps: usize, budget: &'a Budget) -> Writer<'a> {
        let network = Network::new(gates_asked);
        Writer { network, budget, known: Table::new(bootstraps, bootstraps), terms: Vec::new(), words: Vec::new() }
    }

    /// Bootstraps a sum, or finds an equal bootstrap, and returns the resulting bit. `None` if the sum is too noisy.
    fn bootstrap(&mut self, sum: &NodeSum, values: &[Value], wanted: Amplitude) -> Option<Value> {
        let mut constant = self.gather(sum, values);
        if let Some(value) = self.folded(constant, wanted) {
            return Some(value);
        }
        // a sum and its negation share one bootstrap
        let negated = self.terms[0].factor < 0;
        if negated {
            self.terms.iter_mut().for_each(|term| term.factor = -term.factor);
            constant = -constant;
        }
        let constant = wrapped(i32::from(constant));
        self.spell(wanted);
        let known = self.known.find(&self.words, |at| {
            self.network.amplitude(at as usize) == wanted && self.network.sum(at as usize).terms == self.terms
        });
        if let Some(at) = known {
            let further = (constant - self.network.sum(at as usize).constant).rem_euclid(8);
            // if the constants differ by 0 or 4, the result is the first sample or its negation; if they differ by 2 or
            // 6, it is the second sample or its negation
            let second = further % 4 == 2;
            if second {
                self.network.want_second(at);
            }
            let sample = 2 * at + u32::from(second);
            return Some(Value::Bit(Source::Sample(sample), negated != (further >= 4)));
        }
        let sum = Sum { constant, terms: &self.terms };
        let odd = self.network.phase_of_zeros(sum) % 2 != 0;
        let margin = if odd { Margin::Eighth } else { Margin::Quarter };
        if !self.budget.allows_sum(&self.terms, margin) {
            return None;
        }
        let at = self.network.push(sum, wanted);
        self.known.insert(&self.words, at);
        Some(Value::Bit(Source::Sample(2 * at), negated))
    }

    /// Adds a bootstrap that refreshes an input, and returns the refreshed bit.
    fn refreshed(&mut self, input: Source) -> Value {
        let terms = &[Term { source: input, factor: 1 }];
        let at = self.network.push(Sum { constant: 0, terms }, Amplitude::Eighth);
        Value::Bit(Source::Sample(2 * at), false)
    }

    /// Writes a sum's terms over sources to `terms` and returns the sum's constant.
    fn gather(&mut self, sum: &NodeSum, values: &[Value]) -> i8 {
        let mut constant = i32::from(sum.constant);
        self.terms.clear();
        for &(node, factor) in &sum.terms {
            match (values[node as usize], factor) {
                (Value::Constant(bit), factor) => {
                    let eighths = if let NodeFactor::Eighth(sign) = factor { i32::from(sign) } else { 2 };
                    constant += if bit { eighths } else { -eighths };
                }
                (Value::Bit(source, negated), factor) => {
                    let factor = match factor {
                        NodeFactor::Eighth(sign) => sign,
                        NodeFactor::Parity => parity_factor(self.network.amplitude_of(source)),
                    };
                    self.terms.push(Term { source, factor: if negated { -factor } else { factor } });
                }
            }
        }
        Term::combine(&mut self.terms);
        let network = &self.network;
        self.terms.retain(|term| {
            // a term adds `eighths` or `-eighths`, depending on its bit. Both are the same phase if `eighths` is a
            // multiple of 4, so the term then becomes a constant
            let eighths = i32::from(term.factor) * i32::from(network.amplitude_of(term.source).eighths());
            let fixed = eighths % 4 == 0;
            if fixed {
                constant += eighths;
            }
            !fixed
        });
        wrapped(constant)
    }

    /// The bit of a sum that needs no bootstrap: a sum without terms is a constant, and a sum of one term may be a
    /// source at the wanted amplitude.
    fn folded(&self, constant: i8, wanted: Amplitude) -> Option<Value> {
        let sign = |phase: i32| phase.rem_euclid(8) < 4;
        match *self.terms.as_slice() {
            [] => Some(Value::Constant(sign(i32::from(constant)))),
            [term] => {
                let amplitude = self.network.amplitude_of(term.source);
                let eighths = i32::from(term.factor) * i32::from(amplitude.eighths());
                let [of_false, of_true] = [-1, 1].map(|bit| sign(i32::from(constant) + bit * eighths));
                match of_false == of_true {
                    true => Some(Value::Constant(of_true)),
                    false => (amplitude == wanted).then_some(Value::Bit(term.source, of_false)),
                }
            }
            _ => None,
        }
    }

    /// Writes the amplitude and the terms to `words`.
    fn spell(&mut self, amplitude: Amplitude) {
        self.words.clear();
        self.words.push(amplitude.eighths() as u32);
        for term in &self.terms {
            let (kind, index) = match term.source {
                Source::Input(input) => (0, input),
                Source::Sample(sample) => (1, sample),
            };
            self.words.extend([kind << 8 | u32::from(term.factor as u8), index]);
        }
    }

    fn output(&mut self, value: Value) {
        match value {
            Value::Constant(bit) => {
                self.network.push_output(Sum { constant: if bit { 1 } else { -1 }, terms: &[] });
            }
            Value::Bit(source, negated) => {
                let factor = if negated { -1 } else { 1 };
                self.network.push_output(Sum { constant: 0, terms: &[Term { source, factor }] });
            }
        }
    }
}

/// A number of eighths, wrapped to -4..=3.
fn wrapped(eighths: i32) -> i8 {
    ((eighths + 4).rem_euclid(8) - 4) as i8
}
