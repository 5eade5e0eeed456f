//! Cells of a batch's circuits on a GPU: how they are split into parts, their tables, and the order of their kernels.

use std::ops::Range;

use super::Batch;
use super::bootstrap::BootstrapScratch;
use super::together::{KeyPlaces, Segments, SharesPlace, Tables, counts};
use crate::error::Result;
use crate::gpu::space::Place;
use crate::gpu::{Device, Gpu, Table};
use crate::tfhe::cells::{Amplitude, CellKind, CellView};
use crate::tfhe::gpu::cells::{INPUT_SUM_WORDS, WIRE_SUM_WORDS};
use crate::tfhe::gpu::lwe_key_switch::Results;
use crate::tfhe::lwe::EIGHTH;

/// Splits these cells of all batches into consecutive parts of at most `rows` each. A part lists indices of batches,
/// each with a range of the batch's cells.
pub fn parts(batches: &[Range<usize>], rows: usize) -> Vec<Vec<(usize, Range<usize>)>> {
    let (mut parts, mut part, mut room) = (Vec::new(), Vec::new(), rows);
    for (batch, cells) in batches.iter().enumerate() {
        let mut first = cells.start;
        while first < cells.end {
            let end = cells.end.min(first + room);
            part.push((batch, first..end));
            room -= end - first;
            first = end;
            if room == 0 {
                parts.push(std::mem::take(&mut part));
                room = rows;
            }
        }
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}

/// The tables of cells for the kernels, batch after batch. The start of a cell's terms is an index into `terms`.
#[derive(Default)]
struct Lists {
    terms: Vec<u32>,
    /// Rows of the table of `wire_sum` for bootstrapped cells.
    bootstrapped: Vec<[u32; WIRE_SUM_WORDS]>,
    /// For each bootstrapped cell, the row of exponents that its key switch writes.
    switched_to: Vec<usize>,
    /// Rows of the table of `input_sum`.
    inputs: Vec<[u32; INPUT_SUM_WORDS]>,
    /// Rows whose rotation starts with amplitude 1/4.
    quarters: Vec<u32>,
    /// Rows of the table of `extract_wires`.
    wires: Vec<u32>,
    wire_count: usize,
    /// Rows of the table of `wire_sum` for cells that are key-switched to results.
    results: Vec<[u32; WIRE_SUM_WORDS]>,
    /// The place of each result that a key switch writes.
    results_to: Vec<Place>,
    /// For each batch, the number of bootstraps and the place of the batch's bootstrapping key. `switched` has the number
    /// of key switches and the place of the key-switching key: first for the key switches before bootstraps,
    /// then for the key switches to results.
    rotated: Vec<(usize, Place)>,
    switched: [Vec<(usize, Place)>; 2],
}

impl Lists {
    /// Adds cells of another batch. `slot` returns the place of a slot of this batch.
    fn add<'c>(
        &mut self,
        cells: impl Iterator<Item = CellView<'c>>,
        half_turn: u32,
        key: KeyPlaces,
        slot: impl Fn(u32) -> Place,
    ) {
        let before = [self.inputs.len(), self.bootstrapped.len(), self.results.len()];
        for cell in cells {
            let constant = EIGHTH.wrapping_mul(cell.constant() as u32);
            let (at, count) = (self.terms.len() as u32, cell.wires().len() as u32);
            for (factor, slots) in cell.wires() {
                self.terms.push(factor as u32);
                self.terms.extend(slots.iter().map(|&of| slot(of)));
            }
            let CellKind::Bootstrap(amplitude) = cell.kind() else {
                self.results.push([constant, at, count]);
                self.results_to.extend(cell.results().map(|slots| slot(slots[0])));
                continue;
            };
            let row = self.inputs.len();
            if count > 0 {
                self.bootstrapped.push([0, at, count]);
                self.switched_to.push(row);
            }
            let at = self.terms.len() as u32;
            for (factor, of) in cell.inputs() {
                self.terms.push(factor as u32);
                self.terms.push(slot(of));
            }
            self.inputs.push([constant, at, cell.inputs().len() as u32, u32::from(count > 0)]);
            if amplitude == Amplitude::Quarter {
                self.quarters.push(row as u32);
            }
            // the second sample is a quarter turn after the first, at coefficient N / 2
            for (slots, coefficient) in cell.results().zip([0, half_turn / 2]) {
                self.wires.extend([row as u32, coefficient]);
                self.wires.extend(slots.iter().map(|&of| slot(of)));
                self.wire_count += 1;
            }
        }
        let added =
            [self.inputs.len() - before[0], self.bootstrapped.len() - before[1], self.results.len() - before[2]];
        self.rotated.push((added[0], key.bootstrap));
        self.switched[0].push((added[1], key.key_switch));
        self.switched[1].push((added[2], key.key_switch));
    }

    /// Joins the rows of a table. The start of each row's terms, which is an index into the list of terms, becomes an
    /// index into the words of all tables, where the list begins at `terms`.
    fn placed<const WORDS: usize>(rows: &[[u32; WORDS]], terms: usize) -> Vec<u32> {
        let place = |row: &[u32; WORDS]| {
            let mut row = *row;
            row[1] += terms as u32;
            row
        };
        rows.iter().flat_map(place).collect()
    }
}

/// Evaluates some cells of some batches. There are at most as many cells as can run together.
pub fn evaluate_cells<G: Gpu>(
    device: &Device<G>,
    batches: &[&Batch<'_, G>],
    part: &[(usize, Range<usize>)],
) -> Result<()> {
    let (gpu, key, properties) = (device.gpu(), batches[0].key, device.gpu().properties());
    let (stems, p) = (&key.stems, &key.params);
    let segments = Segments::of(batches[0], part.iter().map(|(batch, _)| batches[*batch]));
    let arenas = segments.arenas();
    let mut lists = Lists::default();
    for (batch, cells) in part {
        let Batch { key, arena, cells: all, .. } = batches[*batch];
        let half_turn = p.polynomial_size as u32;
        let cells = cells.clone().map(|at| all.cell(at));
        lists.add(cells, half_turn, KeyPlaces::of(key), |slot| arena.place(slot));
    }
    let (rows, sums, results) = (lists.inputs.len(), lists.bootstrapped.len(), lists.results.len());
    let (words, wire_words) = (p.lwe_dimension + 1, p.extracted_dimension() + 1);

    let mut tables = Tables::default();
    let terms = tables.add(&lists.terms);
    let sums_at = tables.add(&Lists::placed(&lists.bootstrapped, terms));
    let results_at = tables.add(&Lists::placed(&lists.results, terms));
    let inputs_at = tables.add(&Lists::placed(&lists.inputs, terms));
    let quarters_at = tables.add(&lists.quarters);
    let wires_at = tables.add(&lists.wires);
    let to_exponents: Vec<u32> = lists.switched_to.iter().map(|&row| (row * words) as u32).collect();
    let switched_to = [tables.add(&to_exponents), tables.add(&lists.results_to)];
    let rotations = tables.add_shares(&lists.rotated, stems.blind_rotate.rows_of_a_share(&counts(&lists.rotated)));
    let switches: [SharesPlace; 2] = std::array::from_fn(|i| {
        let of_batches = &lists.switched[i];
        tables.add_shares(of_batches, stems.key_switch.gates_of_a_share(&counts(of_batches), properties.groups_max[0]))
    });

    let mut scratch = device.scratch();
    let [uploads, even, odd, wires] = &mut *scratch;
    let bootstrap = BootstrapScratch::take(gpu, key, [uploads, even], &tables, &rotations, rows)?;
    let [exponents] = odd.take(gpu, [rows * words])?;
    let [to_bootstrap, to_results] = wires.take(gpu, [sums * wire_words, results * wire_words])?;
    let table = |first| Table { all: bootstrap.tables, first };
    let mut launches = Vec::new();
    if sums > 0 {
        launches.extend(stems.cells.wire_sum(arenas, table(sums_at), to_bootstrap, sums));
        let shares = switches[0].shares(table(switches[0].first));
        let to = table(switched_to[0]);
        launches.extend(stems.key_switch.run(
            segments.key_switch(),
            to_bootstrap,
            to,
            &shares,
            Results::Words(exponents),
        ));
    }
    if rows > 0 {
        launches.extend(stems.cells.input_sum(arenas, table(inputs_at), exponents, rows));
        let marks = stems.cells.mark_quarter(table(quarters_at), exponents, lists.quarters.len());
        launches.extend(bootstrap.rotation(key, segments.bootstrap(), &rotations, exponents, marks));
        let wires = stems.sample_extract.run_wires(bootstrap.accumulators, table(wires_at), arenas, lists.wire_count);
        launches.extend(wires);
    }
    if results > 0 {
        launches.extend(stems.cells.wire_sum(arenas, table(results_at), to_results, results));
        let shares = switches[1].shares(table(switches[1].first));
        let to = table(switched_to[1]);
        launches.extend(stems.key_switch.run(segments.key_switch(), to_results, to, &shares, Results::Places(arenas)));
    }
    gpu.launch_all(&launches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_hold_every_cell_once_and_no_more_than_go_together() {
        let batches = [4..7, 0..0, 0..2];
        assert_eq!(parts(&batches, 2), [vec![(0, 4..6)], vec![(0, 6..7), (2, 0..1)], vec![(2, 1..2)]]);
        assert_eq!(parts(&batches, 5), [vec![(0, 4..7), (2, 0..2)]]);
        assert!(parts(&[3..3, 0..0], 2).is_empty());
    }
}
