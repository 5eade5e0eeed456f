//! Batches of several keys in one sequence of launches: how batches are split, and the tables that give the places of
//! each row's key and ciphertexts.

use std::ops::Range;

use super::Batch;
use crate::gpu::space::{Place, place_of};
use crate::gpu::{Gpu, Shares, Table, Touched, shares};
use crate::tfhe::backend::SlotGate;
use crate::tfhe::gates::{self, Gate, REFRESH};
use crate::tfhe::gpu::key::Key;
use crate::tfhe::gpu::linear;
use crate::tfhe::gpu::sample_extract::NO_ROW;

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

/// Splits the gates of all batches into consecutive parts, each with at most `rows` bootstraps that read operands. A
/// part lists indices of batches, each with some of the batch's gates. `rows` is at least 2, the number of such
/// bootstraps of a MUX.
pub fn parts<'a>(batches: &[&'a [SlotGate]], rows: usize) -> Vec<Vec<(usize, &'a [SlotGate])>> {
    let (mut parts, mut part, mut room) = (Vec::new(), Vec::new(), rows);
    for (batch, gates) in batches.iter().enumerate() {
        let mut rest = *gates;
        while !rest.is_empty() {
            let fit = rest.iter().take_while(|gate| match room.checked_sub(gates::sums(gate.gate).len()) {
                Some(left) => {
                    room = left;
                    true
                }
                None => false,
            });
            let (some, left) = rest.split_at(fit.count());
            if !some.is_empty() {
                part.push((batch, some));
            }
            if !left.is_empty() {
                parts.push(std::mem::take(&mut part));
                room = rows;
            }
            rest = left;
        }
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}

/// The tables of gates for the kernels, batch after batch.
#[derive(Default)]
pub struct Lists {
    /// Rows of the table of `linear`.
    pub sums: Vec<u32>,
    /// Rows of the table of `sample_extract`.
    pub extractions: Vec<u32>,
    /// The place of each result that a key switch writes.
    pub results: Vec<Place>,
    /// Rows of the table of `negate`.
    pub negations: Vec<u32>,
    /// For each batch, the number of bootstraps and the place of the batch's key.
    pub rotated: Vec<(usize, Place)>,
    /// For each batch, the number of key switches and the place of the batch's key.
    pub switched: Vec<(usize, Place)>,
}

/// What a sequence of launches does with its gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Evaluates every gate but for the last bootstrap of a MUX.
    Operands,
    /// Bootstraps the result of every MUX.
    Refresh,
}

impl Lists {
    /// Adds gates of another batch. `row` returns the place of a slot of this batch.
    pub fn add(&mut self, step: Step, gates: &[SlotGate], key: KeyPlaces, row: impl Fn(u32) -> Place) {
        let (rows, results) = (self.rows(), self.results.len());
        for gate in gates {
            let first = self.rows() as u32;
            match (step, gate.gate) {
                (Step::Operands, Gate::Not) => {
                    self.negations.extend([row(gate.operands[0]), row(gate.result)]);
                }
                (Step::Operands, kind) => {
                    self.extractions.extend([first, if kind == Gate::Mux { first + 1 } else { NO_ROW }]);
                    for (operands, sum) in gates::sums(kind) {
                        self.sums.extend(linear::add_row(*sum, operands.map(|operand| row(gate.operands[operand]))));
                    }
                    self.results.push(row(gate.result));
                }
                (Step::Refresh, Gate::Mux) => {
                    self.extractions.extend([first, NO_ROW]);
                    self.sums.extend(linear::add_row(REFRESH, [row(gate.result); 2]));
                    self.results.push(row(gate.result));
                }
                (Step::Refresh, _) => {}
            }
        }
        self.rotated.push((self.rows() - rows, key.bootstrap));
        self.switched.push((self.results.len() - results, key.key_switch));
    }

    /// The number of bootstraps of all gates that were added, in this step.
    pub fn rows(&self) -> usize {
        self.sums.len() / linear::ADD_WORDS
    }
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

    /// Adds the table of [`shares`] for these batches, with at most `rows_max` rows in each share.
    pub fn add_shares(&mut self, batches: &[(usize, Place)], rows_max: usize) -> SharesPlace {
        let table = shares(batches, rows_max);
        SharesPlace { first: self.add(table.as_flattened()), count: table.len(), rows_max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(of: &[Gate]) -> Vec<SlotGate> {
        of.iter().zip(0..).map(|(&gate, result)| SlotGate { gate, operands: [0; 3], result }).collect()
    }

    #[test]
    fn parts_keep_order_and_no_part_has_too_many_bootstraps() {
        let gates = gates(&[Gate::Mux, Gate::Not, Gate::And, Gate::Mux, Gate::Not, Gate::Mux, Gate::Or]);
        let found = parts(&[&gates], 3);
        let lengths: Vec<Vec<(usize, usize)>> =
            found.iter().map(|part| part.iter().map(|(batch, gates)| (*batch, gates.len())).collect()).collect();
        assert_eq!(lengths, [[(0, 3)], [(0, 2)], [(0, 2)]]);
        let together: Vec<SlotGate> = found.iter().flatten().flat_map(|(_, gates)| *gates).copied().collect();
        assert_eq!(together, gates);
        assert!(parts(&[], 3).is_empty() && parts(&[&[], &[]], 3).is_empty());
    }

    #[test]
    fn a_part_has_gates_of_as_many_batches_as_fit() {
        let [two, none, four] = [&[Gate::And; 2][..], &[], &[Gate::Mux, Gate::Mux]].map(gates);
        let nots = gates(&[Gate::Not; 2]);
        let lengths = |rows: usize| -> Vec<Vec<(usize, usize)>> {
            let parts = parts(&[&two, &none, &four, &nots], rows);
            parts.iter().map(|part| part.iter().map(|(batch, gates)| (*batch, gates.len())).collect()).collect()
        };
        assert_eq!(lengths(6), [[(0, 2), (2, 2), (3, 2)]]);
        assert_eq!(lengths(4), [vec![(0, 2), (2, 1)], vec![(2, 1), (3, 2)]]);
        assert_eq!(lengths(2), [vec![(0, 2)], vec![(2, 1)], vec![(2, 1), (3, 2)]]);
    }

    #[test]
    fn no_share_has_rows_of_two_batches() {
        let far = u32::MAX;
        let found = shares(&[(3, 7), (0, 8), (1, 9), (4, far)], 2);
        assert_eq!(found, [[0, 2, 7], [2, 1, 7], [3, 1, 9], [4, 2, far], [6, 2, far]]);
    }

    #[test]
    fn a_batch_s_rows_follow_those_of_the_batch_before() {
        let key = |i: u32| KeyPlaces { bootstrap: i, key_switch: 100 + i };
        let row = |i: u32| move |slot: u32| i + slot;
        let mut lists = Lists::default();
        let of_both = [&[Gate::And, Gate::Not], &[Gate::Mux, Gate::Or]].map(|kinds| {
            let mut gates = gates(kinds);
            gates.iter_mut().for_each(|gate| gate.operands = [10, 11, 12]);
            gates
        });
        lists.add(Step::Operands, &of_both[0], key(0), row(0));
        lists.add(Step::Operands, &of_both[1], key(5), row(500));
        assert_eq!(lists.extractions, [0, NO_ROW, 1, 2, 3, NO_ROW]);
        assert_eq!(lists.rotated, [(1, 0), (3, 5)]);
        assert_eq!(lists.switched, [(1, 100), (2, 105)]);
        assert_eq!((lists.results, lists.negations), (vec![0, 500, 501], vec![10, 1]));
        let operands = lists.sums.chunks_exact(linear::ADD_WORDS).map(|row| [row[2], row[4]]);
        // two bootstraps of a MUX read operands, each one operand (b or a) and the selector
        let of_mux = gates::sums(Gate::Mux).iter().map(|(operands, _)| operands.map(|at| 510 + at as u32));
        let expected = [[10, 11]].into_iter().chain(of_mux).chain([[510, 511]]);
        assert_eq!(operands.collect::<Vec<_>>(), expected.collect::<Vec<_>>());

        let mut refreshed = Lists::default();
        refreshed.add(Step::Refresh, &of_both[0], key(0), row(0));
        refreshed.add(Step::Refresh, &of_both[1], key(5), row(500));
        assert_eq!((refreshed.extractions, refreshed.results), (vec![0, NO_ROW], vec![500]));
        assert_eq!(refreshed.rotated, [(0, 0), (1, 5)]);
        assert_eq!(refreshed.sums, linear::add_row(REFRESH, [500; 2]));
        assert!(refreshed.negations.is_empty());
    }
}
