//! Cells: the units of a mapped circuit ([`super::mapping`]). A cell adds wires and inputs. Then one bootstrap turns
//! the sum into a wire, or the sum is key-switched into a result.
//!
//! A *wire* is a sample under the extraction key, `[kN + 1]` torus words: the output of blind rotation and extraction
//! before any key switch. Wires are added first, and the sum is key-switched once (eprint 2018/421, 4.2, in another
//! order). An *input* is a row under the small key, `[n + 1]` words, as clients send it. Inputs are added to a sum
//! after its key switch.
//!
//! A wire is longer than a row of an arena, so a wire takes several slots. Each slot holds the next `n + 1` words of
//! the wire.

use std::ops::Range;

use super::params::ParamsLiteral;

/// The phase of a true bit after a bootstrap. A false bit has the negated phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Amplitude {
    /// 1/8 of a turn: the amplitude that gates and clients read.
    Eighth,
    /// 1/4 of a turn: two such wires add up to their XOR.
    Quarter,
}

impl Amplitude {
    /// The amplitude in units of 1/8 of a turn.
    pub fn eighths(self) -> i8 {
        match self {
            Amplitude::Eighth => 1,
            Amplitude::Quarter => 2,
        }
    }
}

/// The number of slots of a wire: `ceil((kN + 1) / (n + 1))`.
pub fn slots_of_wire(params: &ParamsLiteral) -> usize {
    (params.extracted_dimension() + 1).div_ceil(params.lwe_dimension + 1)
}

/// What a cell does with its sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CellKind {
    /// A bootstrap writes the sum's sign as a wire. If the cell has a second wire, that wire is the sign of the sum
    /// plus a quarter turn, from coefficient `N / 2` of the same accumulator.
    Bootstrap(Amplitude),
    /// A key switch writes the sum as a result, a row under the small key. Such a cell has no inputs.
    Switch,
}

/// A cell of a [`SlotCells`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Cell {
    kind: CellKind,
    /// The constant in the sum, in units of 1/8 of a turn.
    constant: i32,
    wires: Range<usize>,
    inputs: Range<usize>,
    /// Slots of the wires that the cell writes; for a key switch, the slot of its result.
    results: Range<usize>,
}

/// A term of a sum: `factor` times the value in the slots from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Term {
    factor: i32,
    first: usize,
}

/// Cells over the slots of an arena. Cells of one evaluation are independent: no cell reads a slot that another cell writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SlotCells {
    wire_slots: usize,
    cells: Vec<Cell>,
    terms: Vec<Term>,
    slots: Vec<u32>,
}

/// An empty list of cells.
pub static NO_CELLS: SlotCells = SlotCells::new(0);

/// A borrowed view of one cell.
#[derive(Clone, Copy)]
pub struct CellView<'a> {
    all: &'a SlotCells,
    cell: &'a Cell,
}

impl SlotCells {
    /// An empty list, for wires of `wire_slots` slots.
    pub const fn new(wire_slots: usize) -> SlotCells {
        SlotCells { wire_slots, cells: Vec::new(), terms: Vec::new(), slots: Vec::new() }
    }

    /// Adds a cell. `constant` is in units of 1/8 of a turn. `wires` has the factor and the slots of each wire that the
    /// cell adds, and `inputs` has the factor and the slot of each input. `results` are the slots of the written wires,
    /// one after another, or the slot of a key switch's result.
    ///
    /// # Panics
    /// When a wire does not have `wire_slots` slots, or a key switch has inputs or a result of more than one slot.
    pub fn push<'s>(
        &mut self,
        kind: CellKind,
        constant: i32,
        wires: impl IntoIterator<Item = (i32, &'s [u32])>,
        inputs: impl IntoIterator<Item = (i32, u32)>,
        results: &[u32],
    ) {
        let first = self.terms.len();
        for (factor, slots) in wires {
            assert_eq!(slots.len(), self.wire_slots, "slots of a wire");
            self.terms.push(Term { factor, first: self.slots.len() });
            self.slots.extend_from_slice(slots);
        }
        let middle = self.terms.len();
        for (factor, slot) in inputs {
            self.terms.push(Term { factor, first: self.slots.len() });
            self.slots.push(slot);
        }
        let (end, at) = (self.terms.len(), self.slots.len());
        match kind {
            CellKind::Bootstrap(_) => {
                assert!(
                    [1, 2].map(|wires| wires * self.wire_slots).contains(&results.len()),
                    "slots of one wire or two"
                );
            }
            CellKind::Switch => assert!(results.len() == 1 && middle == end, "a result is made of wires alone"),
        }
        self.slots.extend_from_slice(results);
        let (wires, inputs) = (first..middle, middle..end);
        self.cells.push(Cell { kind, constant, wires, inputs, results: at..self.slots.len() });
    }

    /// Appends some cells of another list. `slot` maps each slot of these cells to a new slot.
    ///
    /// # Panics
    /// When the wires of the two lists take different numbers of slots, or the range is outside the list.
    pub fn extend_from(&mut self, others: &SlotCells, cells: Range<usize>, slot: impl Fn(u32) -> u32) {
        assert_eq!(others.wire_slots, self.wire_slots, "slots of a wire");
        for cell in &others.cells[cells] {
            let at = cell.wires.start..cell.inputs.end;
            let (first, terms) = (others.first_slot(cell), self.terms.len());
            let moved = |place: usize| place - first + self.slots.len();
            self.terms.extend(others.terms[at.clone()].iter().map(|term| Term { first: moved(term.first), ..*term }));
            let shifted = |range: &Range<usize>| range.start - at.start + terms..range.end - at.start + terms;
            let results = moved(cell.results.start)..moved(cell.results.end);
            let (wires, inputs) = (shifted(&cell.wires), shifted(&cell.inputs));
            self.cells.push(Cell { wires, inputs, results, ..*cell });
            self.slots.extend(others.slots[first..cell.results.end].iter().map(|&of| slot(of)));
        }
    }

    /// The index in `slots` at which a cell's slots begin.
    fn first_slot(&self, cell: &Cell) -> usize {
        self.terms[cell.wires.start..cell.inputs.end].first().map_or(cell.results.start, |term| term.first)
    }

    /// The number of slots of a wire.
    pub fn wire_slots(&self) -> usize {
        self.wire_slots
    }

    /// The number of cells.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The cell at this index.
    ///
    /// # Panics
    /// When the index is out of range.
    pub fn cell(&self, at: usize) -> CellView<'_> {
        CellView { all: self, cell: &self.cells[at] }
    }

    /// All cells, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = CellView<'_>> {
        self.cells.iter().map(|cell| CellView { all: self, cell })
    }

    /// All slots that the cells read or write.
    pub fn slots(&self) -> &[u32] {
        &self.slots
    }
}

impl<'a> CellView<'a> {
    /// What the cell does with its sum.
    pub fn kind(self) -> CellKind {
        self.cell.kind
    }

    /// The number of bootstraps: 1 or 0.
    pub fn bootstraps(self) -> usize {
        usize::from(self.kind() != CellKind::Switch)
    }

    /// The constant in the sum, in units of 1/8 of a turn.
    pub fn constant(self) -> i32 {
        self.cell.constant
    }

    /// The factor and the slots of each wire in the sum.
    pub fn wires(self) -> impl ExactSizeIterator<Item = (i32, &'a [u32])> {
        let CellView { all, cell } = self;
        all.terms[cell.wires.clone()].iter().map(|term| (term.factor, &all.slots[term.first..][..all.wire_slots]))
    }

    /// The factor and the slot of each input in the sum.
    pub fn inputs(self) -> impl ExactSizeIterator<Item = (i32, u32)> + 'a {
        let CellView { all, cell } = self;
        all.terms[cell.inputs.clone()].iter().map(|term| (term.factor, all.slots[term.first]))
    }

    /// The slots of each wire that the cell writes; for a key switch, the slot of the result.
    pub fn results(self) -> impl ExactSizeIterator<Item = &'a [u32]> {
        let slots = &self.all.slots[self.cell.results.clone()];
        slots.chunks(if self.kind() == CellKind::Switch { 1 } else { self.all.wire_slots })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_that_are_moved_to_other_slots_stay_what_they_are() {
        let mut all = SlotCells::new(2);
        let quarter = CellKind::Bootstrap(Amplitude::Quarter);
        all.push(CellKind::Bootstrap(Amplitude::Eighth), 1, [], [(-1, 7), (1, 8)], &[0, 1]);
        all.push(quarter, -2, [(2, &[0, 1][..]), (-2, &[4, 3])], [(1, 9)], &[2, 5, 6, 10]);
        all.push(CellKind::Switch, 0, [(-1, &[6, 10][..])], [], &[11]);
        let mut moved = SlotCells::new(2);
        moved.extend_from(&all, 1..3, |slot| 100 + slot);
        moved.extend_from(&all, 0..1, |slot| slot);
        let [first, second, third] = [0, 1, 2].map(|at| moved.cell(at));
        assert_eq!((first.kind(), first.constant(), first.bootstraps()), (quarter, -2, 1));
        assert_eq!(first.wires().collect::<Vec<_>>(), [(2, &[100, 101][..]), (-2, &[104, 103])]);
        assert_eq!(first.inputs().collect::<Vec<_>>(), [(1, 109)]);
        assert_eq!(first.results().collect::<Vec<_>>(), [[102, 105], [106, 110]]);
        assert_eq!((second.bootstraps(), second.results().collect::<Vec<_>>()), (0, vec![&[111][..]]));
        assert_eq!(second.wires().collect::<Vec<_>>(), [(-1, &[106, 110][..])]);
        assert_eq!(third.inputs().collect::<Vec<_>>(), [(-1, 7), (1, 8)]);
        assert_eq!((third.wires().len(), third.results().collect::<Vec<_>>()), (0, vec![&[0, 1][..]]));
    }

    #[test]
    #[should_panic(expected = "slots of a wire")]
    fn a_wire_of_another_length_is_a_bug() {
        SlotCells::new(2).push(CellKind::Switch, 0, [(1, &[1][..])], [], &[2]);
    }
}
