//! Edges of the graph. The number of an edge is twice a node's number, plus 1 if the edge is negated.

/// A node, or its negation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Edge(pub u32);

impl Edge {
    /// The constant false, which is node 0.
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

    /// The edge, negated if `negate` is true.
    pub fn negated_if(self, negate: bool) -> Edge {
        Edge(self.0 ^ u32::from(negate))
    }
}
