//! Edges of the graph: twice the number of a node, and 1 more for its negation.

/// A node, or its negation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Edge(pub u32);

impl Edge {
    /// The constant false is node 0.
    pub const FALSE: Edge = Edge(0);

    pub fn new(node: u32, negated: bool) -> Edge {
        Edge(2 * node + u32::from(negated))
    }

    pub fn node(self) -> u32 {
        self.0 / 2
    }

    pub fn negated(self) -> bool {
        self.0 % 2 == 1
    }

    /// The edge or its negation.
    pub fn negated_if(self, negate: bool) -> Edge {
        Edge(self.0 ^ u32::from(negate))
    }
}
