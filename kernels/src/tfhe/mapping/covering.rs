//! Covering: the choice of a cell for each node of the graph.
//!
//! XOR nodes start as parities and AND nodes as ANDs. Then every node is visited after its operands. A node takes the
//! cell of one of its cuts if this cell saves bootstraps, or if it saves levels without further bootstraps. A bit is
//! read in one of two ways: cells and outputs read it at an eighth, parities at any amplitude. A parity needs a
//! bootstrap only if it is read at an eighth.

use super::LARGE;
use super::budget::Budget;
use super::cells::{Cell, Kind, cell_of};
use super::edge::Edge;
use super::graph::{Graph, Node};
use crate::tfhe::network::Margin;
use crate::tfhe::noise::Load;

/// Number of passes over the nodes of an ordinary graph, and of a large graph.
const PASSES: [usize; 2] = [2, 1];

/// Largest number of nodes that are visited to estimate the cost of a change.
const VISITS: usize = 24;

/// A cell for every node, and how often each node is read.
pub(super) struct Covering {
    cells: Vec<Option<Cell>>,
    reads: Vec<Reads>,
}

/// The number of reads of a node at an eighth, and the number of reads by parities.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(super) struct Reads {
    pub eighth: u32,
    pub parity: u32,
}

impl Reads {
    pub fn any(self) -> bool {
        self.eighth + self.parity > 0
    }
}

impl Covering {
    /// Chooses the covering of a graph within a budget.
    pub fn of(graph: &Graph, budget: &Budget) -> Covering {
        let cells = (0..graph.len() as u32).map(|node| match graph.node(node) {
            Node::False | Node::Input(_) => None,
            Node::Xor(nodes) => Some(Cell::new(Kind::Parity, false, &nodes.map(|node| Edge::new(node, false)))),
            // the sign of S + 1/4 is NAND, so its negation is AND
            Node::And(edges) => Some(Cell::new(Kind::Turned, true, &edges)),
        });
        let mut covering = Covering { cells: cells.collect(), reads: vec![Reads::default(); graph.len()] };
        let outputs = graph.outputs().iter().map(|edge| (edge.node(), true));
        covering.reads.change(&covering.cells, outputs.collect(), true, usize::MAX);
        for _ in 0..PASSES[usize::from(graph.len() > LARGE)] {
            covering.improve(graph, &Allowed::of(budget));
        }
        covering
    }

    /// The cell of a node; `None` for constants and inputs.
    pub fn cell(&self, node: u32) -> Option<&Cell> {
        self.cells[node as usize].as_ref()
    }

    pub fn reads(&self, node: u32) -> Reads {
        self.reads[node as usize]
    }

    fn improve(&mut self, graph: &Graph, allowed: &Allowed) {
        // for each node, the first level at which parities may read it
        let mut levels = vec![0; graph.len()];
        for node in 0..graph.len() as u32 {
            let Some(mut best) = self.cells[node as usize] else { continue };
            if self.reads(node).any() {
                let before = best;
                // among cells with equal cost, a parity is the last choice, because it costs one more bootstrap if a
                // cell that is chosen later reads it at an eighth
                let mut best_key = (0, self.level(node, &best, &levels), best.is_parity());
                for cut in graph.cuts(node) {
                    let Some(cell) = cell_of(cut.table) else { continue };
                    let operands = cell
                        .operands()
                        .iter()
                        .map(|leaf| Edge::new(cut.leaves()[leaf.node() as usize], leaf.negated()));
                    let cell = Cell::new(cell.kind, cell.negated, &operands.collect::<Vec<_>>());
                    // a parity is not replaced by another parity, because `Forms` expands the operands of parities
                    // anyway
                    let both_parities = cell.is_parity() && before.is_parity();
                    if both_parities || same(&cell, &before) || !allowed.allows(graph, &cell) {
                        continue;
                    }
                    let key = (self.cost(node, &before, &cell), self.level(node, &cell, &levels), cell.is_parity());
                    if key < best_key {
                        (best, best_key) = (cell, key);
                    }
                }
                if best != before {
                    self.replace(node, best);
                }
            }
            levels[node as usize] = self.level_of(&best, &levels);
        }
    }

    /// The first level at which readers may read the node, if `cell` is its cell.
    fn level(&self, node: u32, cell: &Cell, levels: &[u32]) -> u32 {
        let bootstrapped = cell.is_parity() && self.reads(node).eighth > 0;
        self.level_of(cell, levels) + u32::from(bootstrapped)
    }

    /// The level at which a cell's result is available. A parity adds no level, because its own bootstrap is not included.
    fn level_of(&self, cell: &Cell, levels: &[u32]) -> u32 {
        let level = |edge: &Edge| {
            let node = edge.node();
            let parity = self.cell(node).is_some_and(Cell::is_parity);
            levels[node as usize] + u32::from(parity && !cell.is_parity())
        };
        cell.operands().iter().map(level).max().unwrap_or(0) + u32::from(!cell.is_parity())
    }

    /// How many more bootstraps are needed if the node has the cell `after` instead of `before`.
    fn cost(&self, node: u32, before: &Cell, after: &Cell) -> i32 {
        let own = |cell: &Cell| i32::from(!cell.is_parity() || self.reads(node).eighth > 0);
        let mut trial = Trial { reads: &self.reads, changed: Vec::new() };
        let added = trial.change(&self.cells, operands(after), true, VISITS);
        let saved = trial.change(&self.cells, operands(before), false, VISITS);
        own(after) - own(before) + added + saved
    }

    fn replace(&mut self, node: u32, after: Cell) {
        let before = self.cells[node as usize].replace(after).expect("it had a cell");
        self.reads.change(&self.cells, operands(&after), true, usize::MAX);
        self.reads.change(&self.cells, operands(&before), false, usize::MAX);
    }
}

/// Whether two cells compute the same function of the same operands in the same form.
fn same(a: &Cell, b: &Cell) -> bool {
    let sorted = |cell: &Cell| {
        let mut operands = cell.operands().to_vec();
        operands.sort_unstable();
        operands
    };
    a.kind == b.kind && sorted(a) == sorted(b)
}

/// The node of each operand, and whether the cell reads this node at an eighth.
fn operands(cell: &Cell) -> Vec<(u32, bool)> {
    cell.operands().iter().map(|edge| (edge.node(), !cell.is_parity())).collect()
}

/// The counts of reads of all nodes: the real counts, or the counts of a [`Trial`].
trait Counts {
    fn at(&mut self, node: u32) -> &mut Reads;

    /// Adds or removes reads of nodes. When a node gains its first read or loses its last read, the reads of its
    /// operands change too. Returns the number of added bootstraps. The walk stops after `visits` nodes. After that,
    /// each unvisited node counts as one added bootstrap if reads are added, and as no bootstrap if reads are removed.
    fn change(&mut self, cells: &[Option<Cell>], mut open: Vec<(u32, bool)>, add: bool, visits: usize) -> i32 {
        let (mut bootstraps, mut visited) = (0, 0);
        while let Some((node, eighth)) = open.pop() {
            let Some(cell) = &cells[node as usize] else { continue };
            if visited == visits {
                return bootstraps + if add { 1 + open.len() as i32 } else { 0 };
            }
            visited += 1;
            let reads = self.at(node);
            let before = *reads;
            let count = if eighth { &mut reads.eighth } else { &mut reads.parity };
            *count = if add { *count + 1 } else { *count - 1 };
            let after = *reads;
            let is_bootstrap = |reads: Reads| if cell.is_parity() { reads.eighth > 0 } else { reads.any() };
            bootstraps += i32::from(is_bootstrap(after)) - i32::from(is_bootstrap(before));
            if before.any() != after.any() {
                open.extend(cell.operands().iter().map(|edge| (edge.node(), !cell.is_parity())));
            }
        }
        bootstraps
    }
}

impl Counts for Vec<Reads> {
    fn at(&mut self, node: u32) -> &mut Reads {
        &mut self[node as usize]
    }
}

/// The counts after a tentative change. The real counts stay as they are.
struct Trial<'a> {
    reads: &'a [Reads],
    changed: Vec<(u32, Reads)>,
}

impl Counts for Trial<'_> {
    fn at(&mut self, node: u32) -> &mut Reads {
        let place = self.changed.iter().position(|&(changed, _)| changed == node).unwrap_or_else(|| {
            self.changed.push((node, self.reads[node as usize]));
            self.changed.len() - 1
        });
        &mut self.changed[place].1
    }
}

/// Whether the budget allows cells of three operands. Entry i is for cells of which i operands are inputs.
struct Allowed {
    threshold: [bool; 4],
    parity: [bool; 4],
}

impl Allowed {
    fn of(budget: &Budget) -> Allowed {
        let allows = |inputs: usize, factor: i8, margin: Margin| {
            let mut load = Load::default();
            (0..3).for_each(|at| if at < inputs { load.add_input(factor) } else { load.add_sample(factor) });
            budget.allows(&load, margin)
        };
        Allowed {
            threshold: std::array::from_fn(|inputs| allows(inputs, 1, Margin::Eighth)),
            parity: std::array::from_fn(|inputs| allows(inputs, 2, Margin::Quarter)),
        }
    }

    fn allows(&self, graph: &Graph, cell: &Cell) -> bool {
        let is_input = |edge: &&Edge| graph.is_input(edge.node());
        let inputs = cell.operands().iter().filter(is_input).count();
        let by_inputs = if cell.is_parity() { &self.parity } else { &self.threshold };
        cell.operands().len() < 3 || by_inputs[inputs]
    }
}
