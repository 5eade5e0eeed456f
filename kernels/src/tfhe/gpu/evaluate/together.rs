//! Batches of several keys in one sequence of launches: how batches are split, and the tables that give the places of
//! each row's key and ciphertexts.

use std::ops::Range;

use super::Batch;
use crate::gpu::space::{Place, place_of};
use crate::gpu::{Gpu, Shares, Table, Touched, shares};
use crate::tfhe::gates;
use crate::tfhe::gpu::key::Key;
use crate::tfhe::{LevelRows, SlotGate};

/// The places of a batch's key.
#[derive(Clone, Copy)]
pub struct KeyPlaces {
    /// Place of the bootstrapping key.
    pub bootstrap: Place,
    /// Place of the key-switching key.
    pub key_switch: Place,
}

impl KeyPlaces {
    /// The places of this key.
    pub fn of<G: Gpu>(key: &Key<G>) -> KeyPlaces {
        let [bootstrap, key_switch] = [key.bootstrap(), key.key_switch()].map(|view| place_of(view.first));
        KeyPlaces { bootstrap, key_switch }
    }
}

/// The parts of the segments that some batches touch. All batches of a sequence have their keys, and their arenas, in the
/// same segments.
pub struct Segments<'a, G: Gpu> {
    bufs: [&'a G::Buf; 3],
    ranges: [Vec<Range<usize>>; 3],
}

impl<'a, G: Gpu> Segments<'a, G> {
    /// The segments of the sequence of `first`, and the parts that these batches touch.
    pub fn of<'b: 'a>(first: &'a Batch<'b, G>, batches: impl Iterator<Item = &'a Batch<'b, G>>) -> Self {
        let bufs = [first.key.bootstrap().buf, first.key.key_switch().buf, first.arena.pages().buf()];
        let mut ranges = [const { Vec::new() }; 3];
        for Batch { key, arena, .. } in batches {
            ranges[0].push(key.bootstrap().range());
            ranges[1].push(key.key_switch().range());
            ranges[2].extend(arena.pages().ranges());
        }
        Segments { bufs, ranges }
    }

    /// The bootstrapping keys.
    pub fn bootstrap(&self) -> Touched<'_, G::Buf> {
        self.touched(0)
    }

    /// The key-switching keys.
    pub fn key_switch(&self) -> Touched<'_, G::Buf> {
        self.touched(1)
    }

    /// The arenas.
    pub fn arenas(&self) -> Touched<'_, G::Buf> {
        self.touched(2)
    }

    fn touched(&self, at: usize) -> Touched<'_, G::Buf> {
        Touched { buf: self.bufs[at], ranges: &self.ranges[at] }
    }
}

/// The room of a part that a cell takes, in bootstraps of gates. A cell needs more table words than a gate, and also
/// memory for a sum of wires.
const ROOM_OF_A_CELL: usize = 2;

/// Splits the rows of all batches into consecutive parts with room for `room` bootstraps of gates that read operands. For
/// each batch, `batches` has all its gates, and the rows to split. A part lists indices of batches, each with some rows.
/// `room` is at least 2, the room of a MUX and of a cell.
pub fn parts(batches: &[(&[SlotGate], LevelRows)], room: usize) -> Vec<Vec<(usize, LevelRows)>> {
    let (mut parts, mut left) = (Vec::<Vec<(usize, LevelRows)>>::new(), 0);
    for (batch, (gates, rows)) in batches.iter().enumerate() {
        let of_cells = rows.cells.clone().map(|_| (true, ROOM_OF_A_CELL));
        let of_gates = gates[rows.gates.clone()].iter().map(|gate| (false, gates::sums(gate.gate).len()));
        let (mut cell, mut gate) = (rows.cells.start, rows.gates.start);
        for (is_cell, needed) in of_cells.chain(of_gates) {
            if parts.is_empty() || needed > left {
                parts.push(Vec::new());
                left = room;
            }
            left -= needed;
            let part = parts.last_mut().expect("there is a part");
            if part.last().is_none_or(|(of, _)| *of != batch) {
                part.push((batch, LevelRows { gates: gate..gate, cells: cell..cell }));
            }
            let (_, some) = part.last_mut().expect("the part has rows of the batch");
            if is_cell {
                cell += 1;
            } else {
                gate += 1;
            }
            (some.gates.end, some.cells.end) = (gate, cell);
        }
    }
    parts
}

/// Joins neighbours that have the same key.
pub fn of_keys(batches: impl Iterator<Item = (usize, Place)>) -> Vec<(usize, Place)> {
    let mut joined: Vec<(usize, Place)> = Vec::new();
    for (count, key) in batches {
        match joined.last_mut() {
            Some((before, of)) if *of == key => *before += count,
            _ => joined.push((count, key)),
        }
    }
    joined
}

/// Returns the number of rows or gates of each batch, which is the first entry.
pub fn counts<T>(batches: &[(usize, T)]) -> Vec<usize> {
    batches.iter().map(|(count, _)| *count).collect()
}

/// Collects tables one after another for a single upload.
#[derive(Default)]
pub struct Tables {
    /// The words of all tables.
    pub words: Vec<u32>,
}

/// The place of a table of [`shares`] among all tables.
pub struct SharesPlace {
    /// Index of the table's first word.
    pub first: usize,
    /// See [`crate::gpu::Shares`].
    pub count: usize,
    /// See [`crate::gpu::Shares`].
    pub rows_max: usize,
}

impl SharesPlace {
    /// Returns the shares for a launch. `table` is the place of their table after the upload.
    pub fn shares<'a, G: Gpu>(&self, table: Table<'a, G>) -> Shares<'a, G> {
        Shares { table, count: self.count, rows_max: self.rows_max }
    }
}

impl Tables {
    /// Adds a table and returns the index of its first word.
    pub fn add(&mut self, table: &[u32]) -> usize {
        let first = self.words.len();
        self.words.extend_from_slice(table);
        first
    }

    /// Adds the table of [`shares`] for these batches, with at most `rows_max` rows in each share. The rows of the
    /// first batch begin at row `first`.
    pub fn add_shares(&mut self, first: usize, batches: &[(usize, Place)], rows_max: usize) -> SharesPlace {
        let mut table = shares(batches, rows_max);
        table.iter_mut().for_each(|share| share[0] += first as u32);
        SharesPlace { first: self.add(table.as_flattened()), count: table.len(), rows_max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tfhe::Gate;

    fn gates(of: &[Gate]) -> Vec<SlotGate> {
        of.iter().zip(0..).map(|(&gate, result)| SlotGate { gate, operands: [0; 3], result }).collect()
    }

    /// The index of a batch, and the indices of some of its gates and cells.
    type Rows = (usize, Range<usize>, Range<usize>);

    /// The parts of batches with these gates and numbers of cells.
    fn found(batches: &[(&[Gate], usize)], room: usize) -> Vec<Vec<Rows>> {
        let gates: Vec<_> = batches.iter().map(|(of, _)| gates(of)).collect();
        let rows = gates.iter().zip(batches).map(|(of, (_, cells))| LevelRows { gates: 0..of.len(), cells: 0..*cells });
        let batches: Vec<_> = gates.iter().map(Vec::as_slice).zip(rows).collect();
        let parts = parts(&batches, room).into_iter();
        parts.map(|part| part.into_iter().map(|(of, rows)| (of, rows.gates, rows.cells)).collect()).collect()
    }

    #[test]
    fn parts_keep_order_and_no_part_has_too_many_bootstraps() {
        let gates = [Gate::Mux, Gate::Not, Gate::And, Gate::Mux, Gate::Not, Gate::Mux, Gate::Or];
        assert_eq!(found(&[(&gates, 0)], 3), [[(0, 0..3, 0..0)], [(0, 3..5, 0..0)], [(0, 5..7, 0..0)]]);
        assert!(found(&[], 3).is_empty() && found(&[(&[], 0), (&[], 0)], 3).is_empty());
    }

    #[test]
    fn a_part_has_rows_of_as_many_batches_as_fit() {
        let batches = [(&[Gate::And; 2][..], 0), (&[], 0), (&[Gate::Mux, Gate::Mux], 0), (&[Gate::Not; 2], 0)];
        let [first, both, nots] = [(0, 0..2, 0..0), (2, 0..2, 0..0), (3, 0..2, 0..0)];
        let [one, other] = [(2, 0..1, 0..0), (2, 1..2, 0..0)];
        assert_eq!(found(&batches, 6), [vec![first.clone(), both, nots.clone()]]);
        assert_eq!(found(&batches, 4), [vec![first.clone(), one.clone()], vec![other.clone(), nots.clone()]]);
        assert_eq!(found(&batches, 2), [vec![first], vec![one], vec![other, nots]]);
    }

    #[test]
    fn cells_and_gates_share_a_part_and_a_cell_has_the_room_of_two_bootstraps() {
        let batches = [(&[Gate::And; 3][..], 2), (&[Gate::Or], 1)];
        assert_eq!(found(&batches, 100), [[(0, 0..3, 0..2), (1, 0..1, 0..1)]]);
        assert_eq!(found(&batches, 5), [vec![(0, 0..1, 0..2)], vec![(0, 1..3, 2..2), (1, 0..1, 0..1)]]);
        assert_eq!(found(&batches, 4), [[(0, 0..0, 0..2)], [(0, 0..3, 2..2)], [(1, 0..1, 0..1)]]);
        assert_eq!(found(&[(&[], 3)], 3), [[(0, 0..0, 0..1)], [(0, 0..0, 1..2)], [(0, 0..0, 2..3)]]);
    }

    #[test]
    fn no_share_has_rows_of_two_keys() {
        let far = u32::MAX;
        let found = shares(&[(3, 7), (0, 8), (1, 9), (4, far)], 2);
        assert_eq!(found, [[0, 2, 7], [2, 1, 7], [3, 1, 9], [4, 2, far], [6, 2, far]]);
        assert_eq!(of_keys([(3, 7), (0, 7), (1, 9), (4, 9), (1, 7)].into_iter()), [(3, 7), (5, 9), (1, 7)]);
        let mut tables = Tables { words: vec![1, 2] };
        let after = tables.add_shares(10, &[(3, 7)], 2);
        assert_eq!((after.first, after.count, &tables.words[2..]), (2, 2, &[10, 2, 7, 12, 1, 7][..]));
    }
}
