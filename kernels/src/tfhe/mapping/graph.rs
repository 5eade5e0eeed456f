//! The circuit as a graph of XOR and AND nodes. Negations belong to the edges, and every node has its small cuts.
//!
//! Structural hashing makes equal nodes one node: ANDs of the same edges, and XORs of equal expansions. The expansion
//! of an XOR is a list of nodes that are not XORs; the XOR of these nodes is the node. If a cut's truth table shows
//! that a node is a constant or equals a leaf, the constant or leaf replaces the node.

use std::collections::HashMap;

use super::cuts::{Cut, Cuts};
use super::edge::Edge;
use crate::tfhe::circuit::{Circuit, Signal, Table};
use crate::tfhe::fold::Bit;
use crate::tfhe::gates::Gate;

/// A node's function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    False,
    /// The circuit's input bit with this number.
    Input(u32),
    /// XOR of two nodes that are not constants.
    Xor([u32; 2]),
    /// AND of two edges that are not constants.
    And([Edge; 2]),
}

/// Largest number of leaves in an XOR's expansion.
const EXPANSION_MAX: usize = 12;

pub(super) struct Graph {
    nodes: Vec<Node>,
    cuts: Cuts,
    /// The edge of each gate of the circuit. Gates that the outputs do not need have the edge of the constant false.
    gates: Vec<Edge>,
    outputs: Vec<Edge>,
    /// Whether every input that is read is bootstrapped first.
    pub refreshes_inputs: bool,
}

impl Graph {
    /// Builds the graph of a circuit whose inputs have these names.
    pub fn of(circuit: &Circuit, inputs: &[Bit]) -> Graph {
        let mut builder = Builder::new(circuit);
        let inputs = builder.inputs(inputs);
        let mut gates: Vec<Edge> = Vec::with_capacity(circuit.gates().len());
        let edge = |signal: Signal, gates: &[Edge]| match signal {
            Signal::Input(bit) => inputs[bit as usize],
            Signal::Gate(gate) => gates[gate as usize],
            Signal::Constant(bit) => Edge::FALSE.negated_if(bit),
        };
        for (gate, needed) in circuit.gates().iter().zip(circuit.needed()) {
            if !needed {
                gates.push(Edge::FALSE);
                continue;
            }
            let operand = |at: usize| edge(gate.operands()[at], &gates);
            gates.push(match gate.gate() {
                Gate::Not => operand(0).negated_if(true),
                Gate::Xor => builder.xor(operand(0), operand(1)),
                Gate::Xnor => builder.xor(operand(0), operand(1)).negated_if(true),
                Gate::And => builder.and(operand(0), operand(1)),
                Gate::Nand => builder.and(operand(0), operand(1)).negated_if(true),
                Gate::Nor => builder.and(operand(0).negated_if(true), operand(1).negated_if(true)),
                Gate::Or => builder.and(operand(0).negated_if(true), operand(1).negated_if(true)).negated_if(true),
                Gate::Mux => unreachable!("a netlist has no MUX"),
            });
        }
        let outputs = circuit.outputs().iter().map(|&signal| edge(signal, &gates)).collect();
        Graph { nodes: builder.nodes, cuts: builder.cuts, gates, outputs, refreshes_inputs: false }
    }

    /// The number of nodes. Operands of a node have smaller numbers than the node.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn node(&self, node: u32) -> Node {
        self.nodes[node as usize]
    }

    /// Whether a node is read as an input of the circuit, with an input's noise.
    pub fn is_input(&self, node: u32) -> bool {
        matches!(self.node(node), Node::Input(_)) && !self.refreshes_inputs
    }

    pub fn cuts(&self, node: u32) -> &[Cut] {
        self.cuts.of(node)
    }

    pub fn gates(&self) -> &[Edge] {
        &self.gates
    }

    pub fn outputs(&self) -> &[Edge] {
        &self.outputs
    }
}

struct Builder {
    nodes: Vec<Node>,
    cuts: Cuts,
    /// AND nodes by their operands.
    ands: Table,
    /// XOR nodes by their expansions.
    xors: Table,
    expansions: Vec<u32>,
    /// For each node, the index at which its expansion ends. Only XORs have an expansion.
    expansion_ends: Vec<u32>,
    scratch: Vec<u32>,
}

impl Builder {
    fn new(circuit: &Circuit) -> Builder {
        let gates = circuit.gates().len();
        let [xors, ands] = circuit.gates().iter().fold([0; 2], |[xors, ands], gate| match gate.of_kind() {
            [xor, and, _] => [xors + xor as usize, ands + and as usize],
        });
        let nodes = 1 + circuit.input_widths().iter().sum::<usize>() + gates;
        let mut builder = Builder {
            nodes: Vec::with_capacity(gates),
            cuts: Cuts::with_capacity(gates),
            ands: Table::new(ands, nodes),
            xors: Table::new(xors, nodes),
            expansions: Vec::new(),
            expansion_ends: Vec::with_capacity(gates),
            scratch: Vec::new(),
        };
        builder.leaf(Node::False);
        builder
    }

    /// Adds a node for every new name. An input with a known name is the node of that name, or its negation.
    fn inputs(&mut self, inputs: &[Bit]) -> Vec<Edge> {
        let mut known: HashMap<u32, Edge> = HashMap::new();
        let edge = |(at, &bit): (usize, &Bit)| match bit {
            Bit::Constant(bit) => Edge::FALSE.negated_if(bit),
            Bit::Value { id, negated } => {
                let first = *known.entry(id).or_insert_with(|| {
                    let node = self.leaf(Node::Input(at as u32));
                    Edge::new(node, negated)
                });
                first.negated_if(negated)
            }
        };
        inputs.iter().enumerate().map(edge).collect()
    }

    fn leaf(&mut self, node: Node) -> u32 {
        self.nodes.push(node);
        self.cuts.push_leaf();
        self.expansion_ends.push(self.expansions.len() as u32);
        self.nodes.len() as u32 - 1
    }

    fn and(&mut self, a: Edge, b: Edge) -> Edge {
        let (a, b) = (a.min(b), a.max(b));
        if a == Edge::FALSE || a == b.negated_if(true) {
            return Edge::FALSE;
        }
        if a == Edge::FALSE.negated_if(true) || a == b {
            return b;
        }
        let known = self.ands.find(&[a.0, b.0], |node| self.nodes[node as usize] == Node::And([a, b]));
        if let Some(node) = known {
            return Edge::new(node, false);
        }
        if let Some(edge) = self.cuts.merge([a, b], |x, y| x & y) {
            return edge;
        }
        let node = self.nodes.len() as u32;
        self.ands.insert(&[a.0, b.0], node);
        self.nodes.push(Node::And([a, b]));
        self.cuts.push_merged();
        self.expansion_ends.push(self.expansions.len() as u32);
        Edge::new(node, false)
    }

    fn xor(&mut self, a: Edge, b: Edge) -> Edge {
        let negated = a.negated() != b.negated();
        let (a, b) = (a.node().min(b.node()), a.node().max(b.node()));
        if a == 0 || a == b {
            return Edge::new(if a == b { 0 } else { b }, negated);
        }
        let mut expansion = std::mem::take(&mut self.scratch);
        expansion.clear();
        differences(self.expansion(&a), self.expansion(&b), &mut expansion);
        if expansion.len() > EXPANSION_MAX {
            expansion.clear();
            expansion.extend([a, b]);
        }
        let edge = self.xor_of(a, b, &expansion);
        self.scratch = expansion;
        edge.negated_if(negated)
    }

    /// The XOR of two nodes. `expansion` is the expansion of the result.
    fn xor_of(&mut self, a: u32, b: u32, expansion: &[u32]) -> Edge {
        match *expansion {
            [] => return Edge::FALSE,
            [node] => return Edge::new(node, false),
            _ => {}
        }
        if let Some(node) = self.xors.find(expansion, |node| self.expansion(&node) == expansion) {
            return Edge::new(node, false);
        }
        if let Some(edge) = self.cuts.merge([Edge::new(a, false), Edge::new(b, false)], |x, y| x ^ y) {
            return edge;
        }
        let node = self.nodes.len() as u32;
        self.xors.insert(expansion, node);
        self.nodes.push(Node::Xor([a, b]));
        self.cuts.push_merged();
        self.expansions.extend_from_slice(expansion);
        self.expansion_ends.push(self.expansions.len() as u32);
        Edge::new(node, false)
    }

    /// The expansion of a node, ascending. The expansion of a node that is not an XOR is the node itself.
    fn expansion<'a>(&'a self, node: &'a u32) -> &'a [u32] {
        let start = match *node {
            0 => 0,
            _ => self.expansion_ends[*node as usize - 1] as usize,
        };
        match &self.expansions[start..self.expansion_ends[*node as usize] as usize] {
            [] => std::slice::from_ref(node),
            expansion => expansion,
        }
    }
}

/// Appends the symmetric difference of two ascending lists to `into`, ascending.
pub(super) fn differences(mut a: &[u32], mut b: &[u32], into: &mut Vec<u32>) {
    while let (Some((&x, after_x)), Some((&y, after_y))) = (a.split_first(), b.split_first()) {
        match x.cmp(&y) {
            std::cmp::Ordering::Less => {
                into.push(x);
                a = after_x;
            }
            std::cmp::Ordering::Greater => {
                into.push(y);
                b = after_y;
            }
            std::cmp::Ordering::Equal => (a, b) = (after_x, after_y),
        }
    }
    into.extend_from_slice(a);
    into.extend_from_slice(b);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(text: &str) -> Graph {
        let circuit = Circuit::parse(text).unwrap();
        let inputs: Vec<Bit> = (0..circuit.input_widths().iter().sum::<usize>() as u32).map(Bit::value).collect();
        Graph::of(&circuit, &inputs)
    }

    #[test]
    fn xors_of_the_same_nodes_are_one_node_however_they_are_added() {
        let graph = graph("4 7\n1 3\n1 2\n2 1 0 1 3 XOR\n2 1 3 2 5 XOR\n2 1 1 2 4 XOR\n2 1 0 4 6 XOR\n");
        assert_eq!(graph.outputs()[0], graph.outputs()[1]);
        assert_eq!(graph.len(), 7);
    }

    #[test]
    fn a_node_that_is_one_of_its_leaves_is_no_node() {
        // wire 4 is `a or b`, and `(a or b) and a` is `a`
        let graph = graph("5 7\n1 2\n1 1\n2 1 0 1 2 XOR\n2 1 0 1 3 AND\n2 1 2 3 4 XOR\n2 1 4 0 5 AND\n1 1 5 6 INV\n");
        assert_eq!(graph.outputs()[0], Edge::new(1, true));
    }

    #[test]
    fn inputs_of_one_name_are_one_node() {
        let circuit = Circuit::parse("1 4\n1 3\n1 1\n2 1 1 2 3 AND\n").unwrap();
        let a = Bit::value(0);
        let graph = Graph::of(&circuit, &[!a, a, Bit::value(1)]);
        assert_eq!(graph.node(1), Node::Input(0));
        let Node::And(operands) = graph.node(graph.outputs()[0].node()) else { panic!("an AND") };
        assert_eq!(operands, [Edge::new(1, true), Edge::new(2, false)]);
    }
}
