//! Cuts. A cut of a node is a small set of leaves that determines the node, together with the truth table of the node's
//! function of the leaves.

use std::sync::LazyLock;

use super::LARGE;
use super::edge::Edge;

/// Up to three leaves, and the node's function of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    leaves: [u32; 3],
    len: u8,
    /// Truth table: bit `x0 + 2 x1 + 4 x2` is the value at leaves `x0`, `x1`, `x2` in order. If a cut has fewer than
    /// three leaves, the table does not depend on the missing leaves.
    pub table: u8,
}

impl Cut {
    pub fn leaves(&self) -> &[u32] {
        &self.leaves[..usize::from(self.len)]
    }

    /// A set of bits: for each leaf, the bit whose place is the leaf's number modulo 64. Two leaves may share a bit, so
    /// the set never has more bits than the cut has leaves.
    fn low_bits(&self) -> u64 {
        self.leaves().iter().fold(0, |bits, leaf| bits | 1 << (leaf % 64))
    }

    /// The trivial cut: the node is its only leaf.
    fn trivial(node: u32) -> Cut {
        Cut { leaves: [node, 0, 0], len: 1, table: VARIABLES[0] }
    }

    /// Removes the leaves that the function does not depend on.
    fn reduced(mut self) -> Cut {
        let kept = SUPPORT[usize::from(self.table)];
        if kept.count_ones() == u32::from(self.len) {
            return self;
        }
        let old = self;
        (self.leaves, self.len, self.table) = ([0; 3], 0, 0);
        let mut places = [0; 3];
        for at in (0..3).filter(|at| kept >> at & 1 == 1) {
            self.leaves[usize::from(self.len)] = old.leaves[at];
            places[usize::from(self.len)] = at;
            self.len += 1;
        }
        for row in 0..8 {
            let old_row: usize = (0..usize::from(self.len)).map(|at| (row >> at & 1) << places[at]).sum();
            self.table |= (old.table >> old_row & 1) << row;
        }
        self
    }
}

/// Truth tables of the functions `x0`, `x1` and `x2`.
const VARIABLES: [u8; 3] = [0b1010_1010, 0b1100_1100, 0b1111_0000];

/// For each truth table, a bit mask of the leaves that the table depends on.
const SUPPORT: [u8; 256] = {
    let mut support = [0; 256];
    let mut table = 0;
    while table < 256 {
        let mut at = 0;
        while at < 3 {
            if (table >> (1 << at) ^ table) as u8 & !VARIABLES[at] != 0 {
                support[table] |= 1 << at;
            }
            at += 1;
        }
        table += 1;
    }
    support
};

/// Largest number of cuts that are kept for a node in an ordinary graph, and in a large graph. The trivial cut does not
/// count.
const KEPT: [usize; 2] = [7, 4];

/// The cuts of all nodes, in the order of the nodes.
pub(super) struct Cuts {
    cuts: Vec<Cut>,
    ends: Vec<u32>,
    kept: usize,
    /// Merged cuts of up to two leaves, and merged cuts of three leaves.
    merged: [Vec<Cut>; 2],
}

impl Cuts {
    /// An empty list with room for the cuts of `nodes` nodes.
    pub fn with_capacity(nodes: usize) -> Cuts {
        let kept = KEPT[usize::from(nodes > LARGE)];
        Cuts { kept, cuts: Vec::with_capacity(4 * nodes), ends: Vec::with_capacity(nodes), merged: Default::default() }
    }

    /// The cuts of a node without the trivial cut, ordered by the number of leaves.
    pub fn of(&self, node: u32) -> &[Cut] {
        let start = if node == 0 { 0 } else { self.ends[node as usize - 1] as usize };
        &self.cuts[start..self.ends[node as usize] as usize]
    }

    /// Appends a node whose only cut is the trivial cut.
    pub fn push_leaf(&mut self) {
        self.ends.push(self.cuts.len() as u32);
    }

    /// Appends a node with the cuts of the last [`Cuts::merge`].
    pub fn push_merged(&mut self) {
        let [of_two, of_three] = &self.merged;
        self.cuts.extend(of_two.iter().chain(of_three).take(self.kept));
        self.ends.push(self.cuts.len() as u32);
    }

    /// Merges the cuts of a node's operands. If a truth table shows that the node is a constant or equals a leaf,
    /// returns the edge of the constant or leaf; the node is then not needed.
    pub fn merge(&mut self, operands: [Edge; 2], function: impl Fn(u8, u8) -> u8) -> Option<Edge> {
        let mut merged = std::mem::take(&mut self.merged);
        merged.iter_mut().for_each(Vec::clear);
        let [trivial_a, trivial_b] = operands.map(|edge| Cut::trivial(edge.node()));
        let [cuts_a, cuts_b] = operands.map(|edge| self.of(edge.node()));
        let [invert_a, invert_b] = operands.map(|edge| if edge.negated() { 0xff } else { 0 });
        let mut edge = None;
        for a in std::iter::once(&trivial_a).chain(cuts_a) {
            for b in std::iter::once(&trivial_b).chain(cuts_b) {
                // most pairs of cuts have more than three low bits together, and so more than three leaves
                if (a.low_bits() | b.low_bits()).count_ones() > 3 {
                    continue;
                }
                let Some((leaves, len, places)) = union(a.leaves(), b.leaves()) else { continue };
                let (x, y) = (spread(a.table, places[0]), spread(b.table, places[1]));
                let cut = Cut { leaves, len, table: function(x ^ invert_a, y ^ invert_b) }.reduced();
                match cut.len {
                    0 => edge = Some(Edge::FALSE.negated_if(cut.table != 0)),
                    1 => edge = Some(Edge::new(cut.leaves[0], cut.table != VARIABLES[0])),
                    len => {
                        // whole arrays can be compared, because unused places of leaves are 0 in every cut
                        let of_len = &mut merged[usize::from(len) - 2];
                        if of_len.len() < self.kept && !of_len.iter().any(|other| other.leaves == cut.leaves) {
                            of_len.push(cut);
                        }
                    }
                }
            }
        }
        self.merged = merged;
        edge
    }
}

/// For each leaf of a cut, its place in a union of leaves: two bits for each leaf.
type Places = u8;

/// The union of the leaves of two cuts, ascending, and the places of each cut's leaves in the union. `None` if the
/// union has more than three leaves.
fn union(a: &[u32], b: &[u32]) -> Option<([u32; 3], u8, [Places; 2])> {
    let (mut leaves, mut len, mut places) = ([0; 3], 0u8, [0; 2]);
    let (mut at_a, mut at_b) = (0, 0);
    while at_a < a.len() || at_b < b.len() {
        if len == 3 {
            return None;
        }
        let leaf = match (a.get(at_a), b.get(at_b)) {
            (Some(&x), Some(&y)) => x.min(y),
            (Some(&leaf), None) | (None, Some(&leaf)) => leaf,
            (None, None) => break,
        };
        if a.get(at_a) == Some(&leaf) {
            places[0] |= len << (2 * at_a);
            at_a += 1;
        }
        if b.get(at_b) == Some(&leaf) {
            places[1] |= len << (2 * at_b);
            at_b += 1;
        }
        leaves[usize::from(len)] = leaf;
        len += 1;
    }
    Some((leaves, len, places))
}

/// The truth table that results if the leaves move to these places.
fn spread(table: u8, places: Places) -> u8 {
    static SPREAD: LazyLock<Vec<[u8; 256]>> = LazyLock::new(|| {
        let of = |table: u8, places: u8| {
            let row_of = |row: u8| (0..3).map(|at| (row >> (places >> (2 * at) & 3) & 1) << at).sum::<u8>();
            (0..8).map(|row| (table >> row_of(row) & 1) << row).sum()
        };
        (0..64).map(|places| std::array::from_fn(|table| of(table as u8, places))).collect()
    });
    SPREAD[usize::from(places)][usize::from(table)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_union_has_three_leaves_at_most() {
        assert_eq!(union(&[1, 3], &[2, 3]), Some(([1, 2, 3], 3, [0b1000, 0b1001])));
        assert_eq!(union(&[1, 3], &[2, 4]), None);
    }

    #[test]
    fn a_spread_table_reads_its_leaves_at_their_new_places() {
        // `x0 and not x1`, with x0 moved to x2 and x1 moved to x0
        let moved = spread(0b0010_0010, 0b0010);
        assert_eq!(moved, VARIABLES[2] & !VARIABLES[0]);
    }

    #[test]
    fn a_leaf_that_the_function_does_not_depend_on_is_left_out() {
        let cut = Cut { leaves: [4, 5, 6], len: 3, table: VARIABLES[0] | !VARIABLES[2] }.reduced();
        assert_eq!((cut.leaves(), cut.table), (&[4, 6][..], VARIABLES[0] | !VARIABLES[1]));
        assert_eq!(Cut { leaves: [4, 5, 6], len: 3, table: 255 }.reduced().len, 0);
    }
}
