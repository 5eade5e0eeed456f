//! Cells: the functions of up to three bits that one bootstrap computes.
//!
//! Let `S` be the sum of the operands at an eighth, each with its sign; if there are two operands, 1/8 is added. The
//! phases of `S` are odd eighths. The sign of `S` is the OR of two operands, or the majority of three. The sign of
//! `S + 1/4` is the NAND of two operands, or "not all equal" of three. A parity scales its operands so that the phase
//! of their sum is a quarter or three quarters.

use std::sync::LazyLock;

use super::edge::Edge;

/// The function that a cell computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// XOR of the operands.
    Parity,
    /// The sign of the sum `S` (see the module).
    Straight,
    /// The sign of `S + 1/4` (see the module).
    Turned,
}

/// A function of up to three nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub kind: Kind,
    pub negated: bool,
    len: u8,
    operands: [Edge; 3],
}

impl Cell {
    pub fn new(kind: Kind, negated: bool, operands: &[Edge]) -> Cell {
        let mut all = [Edge::FALSE; 3];
        all[..operands.len()].copy_from_slice(operands);
        Cell { kind, negated, len: operands.len() as u8, operands: all }
    }

    pub fn operands(&self) -> &[Edge] {
        &self.operands[..usize::from(self.len)]
    }

    pub fn is_parity(&self) -> bool {
        self.kind == Kind::Parity
    }

    /// The constant of the sum that the cell's bootstrap reads, in eighths. Not defined for a parity.
    pub fn constant(&self) -> i8 {
        let turned = if self.kind == Kind::Turned { 2 } else { 0 };
        let negated = if self.negated { 4 } else { 0 };
        self.core_constant() + turned + negated
    }

    /// The constant in `S`, in eighths.
    pub fn core_constant(&self) -> i8 {
        if self.len == 2 { 1 } else { 0 }
    }

    /// Evaluates the cell on plain bits by phases; `bits` maps an operand's node to its bit.
    fn plain(&self, bits: impl Fn(u32) -> bool) -> bool {
        let operand = |edge: &Edge| bits(edge.node()) != edge.negated();
        match self.kind {
            Kind::Parity => {
                self.operands().iter().filter(|edge| operand(edge)).count() % 2 == usize::from(!self.negated)
            }
            Kind::Straight | Kind::Turned => {
                let sum: i8 = self.operands().iter().map(|edge| if operand(edge) { 1 } else { -1 }).sum();
                (sum + self.constant()).rem_euclid(8) < 4
            }
        }
    }

    /// Truth table of the cell, if the operands' nodes are 0, 1 and 2.
    fn table(&self) -> u8 {
        let row = |row: u8| u8::from(self.plain(|node| row >> node & 1 == 1)) << row;
        (0..8).map(row).sum()
    }
}

/// The cell with this truth table over the leaves 0, 1 and 2; `None` if no cell has this table.
pub(super) fn cell_of(table: u8) -> Option<&'static Cell> {
    static CELLS: LazyLock<Vec<Option<Cell>>> = LazyLock::new(|| {
        let mut cells = vec![None; 256];
        for cell in all() {
            let place: &mut Option<Cell> = &mut cells[usize::from(cell.table())];
            // keep the first cell, because cells with fewer operands come first
            place.get_or_insert(cell);
        }
        cells
    });
    CELLS[usize::from(table)].as_ref()
}

/// Every cell over the leaves 0, 1 and 2.
fn all() -> Vec<Cell> {
    let mut subsets: Vec<Vec<u32>> =
        (0..8u32).map(|set| (0..3).filter(|leaf| set >> leaf & 1 == 1).collect()).collect();
    subsets.sort_by_key(Vec::len);
    let mut cells = Vec::new();
    for leaves in subsets {
        for signs in 0..8u32 {
            let operands: Vec<Edge> = leaves.iter().map(|&leaf| Edge::new(leaf, signs >> leaf & 1 == 1)).collect();
            let kinds: &[Kind] = match operands.len() {
                2 => &[Kind::Parity, Kind::Turned],
                3 => &[Kind::Parity, Kind::Straight, Kind::Turned],
                _ => &[Kind::Parity],
            };
            // for a parity, an operand's sign only negates the result, so operands without signs are enough
            let kinds = kinds.iter().filter(|&&kind| kind != Kind::Parity || signs == 0);
            cells.extend(kinds.flat_map(|&kind| [false, true].map(|negated| Cell::new(kind, negated, &operands))));
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gate_of_two_operands_is_a_cell_and_so_are_four_functions_of_three() {
        let found = |table: u8| cell_of(table).map(|cell| (cell.kind, cell.operands().len()));
        assert_eq!(found(0), Some((Kind::Parity, 0)));
        assert_eq!(found(0b1010_1010), Some((Kind::Parity, 1)));
        // the next two tables are `x0 and x1`, and `x1 or not x2`
        assert_eq!(found(0b1000_1000), Some((Kind::Turned, 2)));
        assert_eq!(found(0b1100_1111), Some((Kind::Turned, 2)));
        assert_eq!(found(0b0110_0110), Some((Kind::Parity, 2)));
        assert_eq!(found(0b1001_0110), Some((Kind::Parity, 3)));
        assert_eq!(found(0b1110_1000), Some((Kind::Straight, 3)));
        assert_eq!(found(0b0111_1110), Some((Kind::Turned, 3)));
        // no cell computes `x0 and x1 and x2` or `x2 ? x1 : x0`
        assert_eq!((found(0b1000_0000), found(0b1100_1010)), (None, None));
    }

    #[test]
    fn a_cell_s_phases_are_odd_and_the_table_is_the_one_it_was_asked_for() {
        for table in 0..=255 {
            if let Some(cell) = cell_of(table) {
                assert_eq!(cell.table(), table);
                assert!(cell.is_parity() || (cell.operands().len() as i8 + cell.constant()) % 2 != 0);
            }
        }
    }
}
