//! The rows of a part, gates and cells together: their tables, and the order of their kernels. A gate is a cell that
//! adds inputs alone, and whose samples are key-switched to a result.

use super::Batch;
use super::bootstrap::BootstrapScratch;
use super::together::{KeyPlaces, Segments, Tables, counts, of_keys};
use crate::error::Result;
use crate::gpu::space::Place;
use crate::gpu::{Device, Gpu, Table};
use crate::tfhe::cells::{Amplitude, CellKind, CellView, slots_of_wire};
use crate::tfhe::gates::{self, Gate, Linear, REFRESH};
use crate::tfhe::gpu::cells::{ONTO_ROW, SumRow, TO_ROW};
use crate::tfhe::gpu::lwe_key_switch::Results;
use crate::tfhe::gpu::sample_extract::NO_ROW;
use crate::tfhe::lwe::EIGHTH;
use crate::tfhe::{LevelRows, Params, SlotGate};

/// The work of a sequence of launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Evaluates every row but for the last bootstrap of a MUX.
    Operands,
    /// Bootstraps the result of every MUX.
    Refresh,
}

/// The tables of rows for the kernels, batch after batch.
#[derive(Default)]
struct Lists {
    /// The terms of all sums.
    terms: Vec<u32>,
    /// The sums of wires that cells bootstrap, and the sums of wires that are results.
    wire_sums: [Vec<SumRow>; 2],
    /// The sums that are bootstrapped.
    input_sums: Vec<SumRow>,
    /// The sums that are results as they are.
    copies: Vec<SumRow>,
    /// Rows whose rotation starts with amplitude 1/4.
    quarters: Vec<u32>,
    /// Rows of the table of `extract_wires`.
    wires: Vec<u32>,
    /// Rows of the table of `sample_extract`.
    samples: Vec<[u32; 2]>,
    /// The rows that key switches write: for each bootstrapped sum of wires, the first word of a row of exponents; for
    /// each other sum of wires, then for each sample, the place of a result.
    switched_to: [Vec<u32>; 3],
    /// For each batch, the number of bootstraps and the place of the bootstrapping key.
    rotated: Vec<(usize, Place)>,
    /// Like `switched_to`: for each batch, the number of key switches and the place of the key-switching key.
    switched: [Vec<(usize, Place)>; 3],
}

impl Lists {
    /// Adds rows of another batch. `place` returns the place of a slot of this batch.
    fn add<'c>(
        &mut self,
        step: Step,
        (cells, gates): (impl Iterator<Item = CellView<'c>>, &[SlotGate]),
        (params, key): (&Params, KeyPlaces),
        place: impl Fn(u32) -> Place,
    ) {
        let (rows, switched) = (self.input_sums.len(), self.switched_to.each_ref().map(Vec::len));
        if step == Step::Operands {
            cells.for_each(|cell| self.add_cell(cell, params, &place));
        }
        gates.iter().for_each(|gate| self.add_gate(step, gate, &place));
        self.rotated.push((self.input_sums.len() - rows, key.bootstrap));
        for (i, before) in switched.into_iter().enumerate() {
            self.switched[i].push((self.switched_to[i].len() - before, key.key_switch));
        }
    }

    fn add_cell(&mut self, cell: CellView<'_>, params: &Params, place: &impl Fn(u32) -> Place) {
        let wires = cell.wires().map(|(factor, slots)| (factor, slots.iter().map(|&slot| place(slot))));
        let CellKind::Bootstrap(amplitude) = cell.kind() else {
            let sum = self.sum(cell.constant(), wires, TO_ROW);
            self.wire_sums[1].push(sum);
            self.switched_to[1].extend(cell.results().map(|slots| place(slots[0])));
            return;
        };
        let (row, has_wires) = (self.input_sums.len() as u32, wires.len() > 0);
        if has_wires {
            let sum = self.sum(0, wires, TO_ROW);
            self.wire_sums[0].push(sum);
            self.switched_to[0].push(row * (params.lwe_dimension as u32 + 1));
        }
        let inputs = cell.inputs().map(|(factor, slot)| (factor, [place(slot)]));
        let sum = self.sum(cell.constant(), inputs, if has_wires { ONTO_ROW } else { TO_ROW });
        self.input_sums.push(sum);
        if amplitude == Amplitude::Quarter {
            self.quarters.push(row);
        }
        // the second sample is a quarter turn after the first, at coefficient N / 2
        for (slots, coefficient) in cell.results().zip([0, params.polynomial_size as u32 / 2]) {
            self.wires.extend([row, coefficient]);
            self.wires.extend(slots.iter().map(|&slot| place(slot)));
        }
    }

    fn add_gate(&mut self, step: Step, gate: &SlotGate, place: &impl Fn(u32) -> Place) {
        let (row, result) = (self.input_sums.len() as u32, place(gate.result));
        let operand = |at: usize| place(gate.operands[at]);
        match (step, gate.gate) {
            (Step::Operands, Gate::Not) => self.add_copy(-1, operand(0), result),
            (Step::Operands, kind) => {
                for (operands, sum) in gates::sums(kind) {
                    self.add_linear(*sum, operands.map(operand));
                }
            }
            (Step::Refresh, Gate::Mux) => self.add_linear(REFRESH, [result; 2]),
            (Step::Refresh, _) => {}
        }
        let second = match self.input_sums.len() as u32 - row {
            0 => return,
            1 => NO_ROW,
            _ => row + 1,
        };
        self.samples.push([row, second]);
        self.switched_to[2].push(result);
    }

    /// Adds the sum of a gate's bootstrap.
    fn add_linear(&mut self, Linear { constant, factors }: Linear, places: [Place; 2]) {
        let sum = self.sum(constant, factors.into_iter().zip(places.map(|place| [place])), TO_ROW);
        self.input_sums.push(sum);
    }

    /// Adds a row that is a factor times another row. `to` is a place, or [`TO_ROW`].
    fn add_copy(&mut self, factor: i32, from: Place, to: u32) {
        let sum = self.sum(0, [(factor, [from])], to);
        self.copies.push(sum);
    }

    /// Adds terms, each with the places of its value's slots, and returns the row of their sum. The constant is in units
    /// of 1/8 of a turn.
    fn sum<P>(&mut self, constant: i32, terms: impl IntoIterator<Item = (i32, P)>, to: u32) -> SumRow
    where
        P: IntoIterator<Item = Place>,
    {
        let (first, mut count) = (self.terms.len() as u32, 0);
        for (factor, places) in terms {
            self.terms.push(factor as u32);
            self.terms.extend(places);
            count += 1;
        }
        [EIGHTH.wrapping_mul(constant as u32), first, count, to]
    }
}

/// Does a step of some rows of some batches, which fit into one part. Then copies the slots that the batches in `copied`
/// request to one range, and starts to read this range.
pub fn evaluate_rows<G: Gpu>(
    device: &Device<G>,
    batches: &[&Batch<'_, G>],
    step: Step,
    part: &[(usize, LevelRows)],
    copied: &[&Batch<'_, G>],
) -> Result<Option<G::Readback>> {
    let (gpu, key, groups_max) = (device.gpu(), batches[0].key, device.gpu().properties().groups_max[0]);
    let (stems, p) = (&key.stems, &key.params);
    let segments = Segments::of(batches[0], part.iter().map(|(batch, _)| batches[*batch]));
    let read = Segments::of(batches[0], copied.iter().copied());
    let mut lists = Lists::default();
    for (batch, rows) in part {
        let Batch { key, arena, gates, cells, .. } = batches[*batch];
        let rows = (rows.cells.clone().map(|at| cells.cell(at)), &gates[rows.gates.clone()]);
        lists.add(step, rows, (p, KeyPlaces::of(key)), |slot| arena.place(slot));
    }
    let to_slots = lists.copies.len();
    for batch in copied {
        batch.reads.iter().for_each(|&slot| lists.add_copy(1, batch.arena.place(slot), TO_ROW));
    }
    let (words, wire_words) = (p.lwe_dimension + 1, p.extracted_dimension() + 1);
    let (rows, wire_sums) = (lists.input_sums.len(), lists.wire_sums.concat());
    let [to_rows, sums, samples] = lists.switched;
    let to_results = of_keys(sums.into_iter().chain(samples));

    // all tables are uploaded together before the first kernel, so no kernel waits for the host. Terms are last, so that
    // the arguments of launches do not depend on the number of terms
    let mut tables = Tables::default();
    let (nots, reads) = lists.copies.split_at(to_slots);
    let [wires_at, inputs_at, nots_at, reads_at] =
        [&wire_sums, &lists.input_sums, nots, reads].map(|rows| tables.add(rows.as_flattened()));
    let quarters_at = tables.add(&lists.quarters);
    let extracted_at = tables.add(&lists.wires);
    let samples_at = tables.add(lists.samples.as_flattened());
    let switched_at = tables.add(&lists.switched_to.concat());
    let rotations = tables.add_shares(0, &lists.rotated, stems.blind_rotate.rows_of_a_share(&counts(&lists.rotated)));
    let switches = [(0, &to_rows), (lists.wire_sums[0].len(), &to_results)].map(|(first, batches)| {
        tables.add_shares(first, batches, stems.key_switch.gates_of_a_share(&counts(batches), groups_max))
    });
    let terms = tables.add(&lists.terms);

    let mut scratch = device.scratch();
    let [uploads, even, odd, wires] = &mut *scratch;
    let bootstrap = BootstrapScratch::take(gpu, key, [uploads, even], &tables, &rotations, rows)?;
    // at least one row, because a launch whose sums all go to places needs a range too
    let [exponents, gathered] = odd.take(gpu, [rows.max(1) * words, reads.len() * words])?;
    let switched = wire_sums.len() + lists.samples.len();
    let [switched] = wires.take(gpu, [switched * wire_words])?;
    let of_wires = switched.part(0..wire_sums.len() * wire_words);
    let (arenas, keys) = (segments.arenas(), segments.key_switch());
    let table = |first| Table { all: bootstrap.tables, first };
    let [to_exponents, to_places] = switches.map(|shares| shares.shares(table(shares.first)));
    let (cells, key_switch) = (&stems.cells, &stems.key_switch);

    let mut launches = Vec::new();
    launches.extend(cells.add_terms(arenas, (table(wires_at), wire_sums.len()), terms, (of_wires, wire_words)));
    let to = Results::Words(exponents);
    launches.extend(key_switch.run(keys, of_wires, table(switched_at), &to_exponents, to));
    if rows > 0 {
        launches.extend(cells.add_terms(arenas, (table(inputs_at), rows), terms, (exponents, words)));
        let marks = cells.mark_quarter(table(quarters_at), exponents, lists.quarters.len());
        launches.extend(bootstrap.rotation(key, segments.bootstrap(), &rotations, exponents, marks));
    }
    let (extract, of_rows) = (&stems.sample_extract, bootstrap.accumulators);
    let wire_count = lists.wires.len() / (2 + slots_of_wire(p));
    launches.extend(extract.run_wires(of_rows, table(extracted_at), arenas, wire_count));
    launches.extend(extract.run(of_rows, table(samples_at), (switched, wire_sums.len()), lists.samples.len()));
    launches.extend(key_switch.run(keys, switched, table(switched_at), &to_places, Results::Places(arenas)));
    // NOT may have its operand's slot as its result, so it comes after the bootstraps, which may run again
    launches.extend(cells.add_terms(arenas, (table(nots_at), nots.len()), terms, (exponents, words)));
    launches.extend(cells.add_terms(read.arenas(), (table(reads_at), reads.len()), terms, (gathered, words)));
    gpu.launch_all(&launches)?;
    if copied.is_empty() { Ok(None) } else { gpu.read(gathered.buf, &[gathered.range()]).map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tfhe::{Preset, SlotCells};

    fn gates(of: &[Gate]) -> Vec<SlotGate> {
        of.iter().zip(0..).map(|(&gate, result)| SlotGate { gate, operands: [10, 11, 12], result }).collect()
    }

    /// The lists of two batches with these gates. The second batch has its slots 500 places after those of the first.
    fn of_both(step: Step, batches: [(&SlotCells, &[Gate]); 2]) -> Lists {
        let (mut lists, params) = (Lists::default(), Preset::Fast128.params());
        for ((cells, of), at) in batches.into_iter().zip(0..) {
            let key = KeyPlaces { bootstrap: at, key_switch: 100 + at };
            lists.add(step, (cells.iter(), &gates(of)), (&params, key), |slot| 500 * at + slot);
        }
        lists
    }

    /// The terms of a sum of inputs: factors and places.
    fn inputs(lists: &Lists, [_, first, count, _]: SumRow) -> Vec<(i32, Place)> {
        let terms = lists.terms[first as usize..].chunks(2).take(count as usize);
        terms.map(|term| (term[0] as i32, term[1])).collect()
    }

    #[test]
    fn a_batch_s_rows_follow_those_of_the_batch_before() {
        let none = SlotCells::new(2);
        let batches = [(&none, &[Gate::And, Gate::Not][..]), (&none, &[Gate::Mux, Gate::Or])];
        let lists = of_both(Step::Operands, batches);
        assert_eq!(lists.samples, [[0, NO_ROW], [1, 2], [3, NO_ROW]]);
        assert_eq!(lists.rotated, [(1, 0), (3, 1)]);
        assert_eq!(lists.switched, [vec![(0, 100), (0, 101)], vec![(0, 100), (0, 101)], vec![(1, 100), (2, 101)]]);
        assert_eq!(lists.switched_to, [vec![], vec![], vec![0, 500, 501]]);
        let minus_eighth = EIGHTH.wrapping_neg();
        assert_eq!(lists.input_sums[0], [minus_eighth, 0, 2, TO_ROW]);
        let found: Vec<_> = lists.input_sums.iter().map(|&row| inputs(&lists, row)).collect();
        // two bootstraps of a MUX read operands, each the selector and one operand (a or b)
        let expected = [[(1, 10), (1, 11)], [(1, 512), (1, 510)], [(-1, 512), (1, 511)], [(1, 510), (1, 511)]];
        assert_eq!(found, expected);
        let [not] = lists.copies[..] else { panic!("one NOT: {:?}", lists.copies) };
        assert_eq!((not[0], not[3], inputs(&lists, not)), (0, 1, vec![(-1, 10)]));

        let refreshed = of_both(Step::Refresh, batches);
        assert_eq!((&refreshed.samples[..], &refreshed.switched_to[2][..]), (&[[0, NO_ROW]][..], &[500][..]));
        assert_eq!((&refreshed.rotated[..], refreshed.copies.len()), (&[(0, 0), (1, 1)][..], 0));
        assert_eq!(refreshed.input_sums, [[0, 0, 2, TO_ROW]]);
        assert_eq!(inputs(&refreshed, refreshed.input_sums[0]), [(1, 500), (0, 500)]);
    }

    #[test]
    fn gates_and_cells_are_rows_of_the_same_tables() {
        let mut cells = SlotCells::new(2);
        cells.push(CellKind::Switch, 3, [(-1, &[20, 21][..]), (2, &[22, 23])], [], &[30]);
        let two_wires = [31, 32, 33, 34];
        cells.push(CellKind::Bootstrap(Amplitude::Quarter), 2, [(1, &[20, 21][..])], [(-2, 24)], &two_wires);
        cells.push(CellKind::Bootstrap(Amplitude::Eighth), 1, [], [(1, 24), (1, 25)], &[35, 36]);
        let lists = of_both(Step::Operands, [(&SlotCells::new(2), &[Gate::And]), (&cells, &[Gate::Or])]);
        // rows: the AND, the two cells that are bootstrapped, the OR
        assert_eq!(lists.wire_sums, [vec![[0, 10, 1, TO_ROW]], vec![[3 * EIGHTH, 4, 2, TO_ROW]]]);
        assert_eq!(lists.terms[4..13], [u32::MAX, 520, 521, 2, 522, 523, 1, 520, 521]);
        let row_words = Preset::Fast128.params().lwe_dimension as u32 + 1;
        assert_eq!(lists.switched_to, [vec![row_words], vec![530], vec![0, 500]]);
        let to: Vec<u32> = lists.input_sums.iter().map(|row| row[3]).collect();
        assert_eq!(to, [TO_ROW, ONTO_ROW, TO_ROW, TO_ROW]);
        assert_eq!((lists.quarters, lists.samples), (vec![1], vec![[0, NO_ROW], [3, NO_ROW]]));
        let half = Preset::Fast128.params().polynomial_size as u32 / 2;
        assert_eq!(lists.wires, [[1, 0, 531, 532], [1, half, 533, 534], [2, 0, 535, 536]].concat());
        assert_eq!(lists.rotated, [(1, 0), (3, 1)]);
        assert_eq!(lists.switched, [vec![(0, 100), (1, 101)], vec![(0, 100), (1, 101)], vec![(1, 100), (1, 101)]]);
        // a MUX is refreshed without the cells of its batch
        assert!(of_both(Step::Refresh, [(&cells, &[]), (&cells, &[])]).input_sums.is_empty());
    }
}
