//! A batch as one device call: its parts side by side over the slots of the session's arena.

use std::borrow::Cow;
use std::ops::Range;

use kernels::Schemes;
use kernels::ckks::{KeyedSteps, PartKind, PlannedSteps};
use kernels::tfhe::{GateList, KeyedGates, LevelEnd, Lwe, LweList, NO_CELLS, SlotCells, SlotGate};

use super::{EVALUATION_KEY, PartOnDevice, PlannedCircuit, PlannedNumbers, Task};
use crate::batch::{Batch, BatchPart};
use crate::ids::{PartId, Prepared};
use crate::rows::Rows;

/// A batch, and the task of each of its parts.
pub(crate) struct BatchTasks {
    pub(crate) batch: Batch,
    pub(crate) tasks: Vec<Task>,
}

/// Everything that a device must do for a batch: writes, evaluations and reads.
pub(crate) struct Assembly<'a> {
    pub(crate) row_words: usize,
    /// Each write has a slot, and whole rows of words for this slot and the slots that follow it. Words are copied only
    /// where short runs are joined.
    pub(crate) writes: Vec<(u32, Cow<'a, [u32]>)>,
    /// Gates and cells, level after level. A level holds the next level of each circuit; the rows of lists are in the
    /// first level.
    gates: Vec<SlotGate>,
    cells: SlotCells,
    /// The end of each level but the last.
    ends: Vec<LevelEnd>,
    /// Steps of arithmetic on encrypted numbers (CKKS).
    plans: Vec<PlannedSteps<'a>>,
    parts: Vec<(PartKind, PartId)>,
    /// Slots to read, part by part.
    reads: Vec<u32>,
}

impl<'a> Assembly<'a> {
    pub(crate) fn of(batch: &'a Batch, tasks: &'a [Task]) -> Assembly<'a> {
        let row_words = tasks[0].row_words();
        let mut assembly = Assembly::empty(row_words, batch.rows());
        let levels: Vec<Vec<Range<usize>>> =
            batch.parts.iter().zip(tasks).map(|(part, task)| task.levels_of(part.rows.clone())).collect();
        for level in 0..levels.iter().map(Vec::len).max().unwrap_or(0) {
            if level > 0 {
                assembly.ends.push(LevelEnd { gates: assembly.gates.len(), cells: assembly.cells.len() });
            }
            for ((part, task), levels) in batch.parts.iter().zip(tasks).zip(&levels) {
                match (task, levels.get(level)) {
                    (Task::Gates(list), Some(_)) => assembly.add_gates(part, list),
                    (Task::Circuit(circuit), Some(rows)) => assembly.add_level(part, rows.clone(), circuit),
                    // a device finds the levels of a plan by itself
                    (Task::Numbers(numbers), Some(_)) if level == 0 => assembly.add_numbers(part, numbers),
                    (Task::Numbers(_), Some(_)) | (_, None) => {}
                }
            }
        }
        // the reads are in the order of the parts, not of the levels
        for (part, task) in batch.parts.iter().zip(tasks) {
            assembly.add_reads(part, task);
        }
        assembly
    }

    fn empty(row_words: usize, rows: usize) -> Assembly<'a> {
        Assembly {
            row_words,
            writes: Vec::new(),
            gates: Vec::with_capacity(rows),
            cells: NO_CELLS.clone(),
            ends: Vec::new(),
            plans: Vec::new(),
            parts: Vec::new(),
            reads: Vec::new(),
        }
    }

    fn add_reads(&mut self, part: &BatchPart, task: &Task) {
        match task {
            Task::Gates(_) => self.reads.extend_from_slice(&part.slots[part.slots.len() - part.rows.len()..]),
            Task::Circuit(circuit) if part.completes => {
                self.reads.extend(circuit.plan.outputs().iter().map(|&slot| part.slots[slot as usize]));
            }
            // the device reads the outputs of a plan by itself
            Task::Circuit(_) | Task::Numbers(_) => {}
        }
    }

    fn add_gates(&mut self, part: &BatchPart, list: &'a GateList) {
        let (operand_slots, result_slots) = part.slots.split_at(part.slots.len() - part.rows.len());
        // a ciphertext that several gates share is written once, so a few of the slots stay empty
        let needed = list.needed_by(part.rows.clone());
        let mut written = 0;
        for run in needed.chunk_by(|a, b| a.block == b.block && a.row + 1 == b.row) {
            let slots = &operand_slots[written..written + run.len()];
            self.write(slots, list.block(run[0].block), run[0].row as usize);
            written += run.len();
        }
        let slot_of = |place| operand_slots[needed.binary_search(place).expect("every operand is needed")];
        for (row, &result) in part.rows.clone().zip(result_slots) {
            let mut operands = [0; 3];
            for (slot, place) in operands.iter_mut().zip(list.places_of(row..row + 1)) {
                *slot = slot_of(place);
            }
            self.gates.push(SlotGate { gate: list.gates()[row], operands, result });
        }
    }

    /// Adds the rows of one level of a circuit, and with the first row also the circuit's inputs and constants.
    fn add_level(&mut self, part: &BatchPart, rows: Range<usize>, circuit: &'a PlannedCircuit) {
        let at = |slot: u32| part.slots[slot as usize];
        if rows.start == 0 {
            let inputs: Vec<u32> = circuit.plan.inputs().iter().map(|&slot| at(slot)).collect();
            self.write(&inputs, &circuit.inputs, 0);
            for &(slot, bit) in circuit.plan.constants() {
                self.write_run(at(slot), Lwe::trivial(self.row_words - 1, bit).into_words().into());
            }
        }
        self.gates.extend(circuit.plan.gates_of(rows.clone()).iter().map(|gate| SlotGate {
            gate: gate.gate,
            operands: std::array::from_fn(|i| if i < gate.gate.arity() { at(gate.operands[i]) } else { 0 }),
            result: at(gate.result),
        }));
        let (cells, of_part) = circuit.plan.cells_of(rows);
        if !of_part.is_empty() {
            if self.cells.is_empty() {
                self.cells = SlotCells::new(cells.wire_slots());
            }
            self.cells.extend_from(cells, of_part, at);
        }
    }

    fn add_numbers(&mut self, part: &'a BatchPart, numbers: &'a PlannedNumbers) {
        let PlannedNumbers { plan, inputs, parts, .. } = numbers;
        let begins = part.rows.start == 0;
        if begins {
            let given = plan.inputs().map(|input| &input.slots).zip(inputs.iter().map(|words| &words[..])).enumerate();
            let given = given.filter(|(at, _)| !part.there.contains(at)).map(|(_, given)| given);
            for (slots, words) in given.chain(plan.plains().iter().map(|(slots, words)| (slots, &words[..]))) {
                for (&slot, row) in slots.iter().zip(words.chunks_exact(self.row_words)) {
                    self.writes.push((part.slots[slot as usize], row.into()));
                }
            }
        }
        for &of in parts {
            if !self.parts.contains(&of) {
                self.parts.push(of);
            }
        }
        let BatchPart { slots, there, completes, .. } = part;
        self.plans.push(PlannedSteps { plan, steps: part.rows.clone(), slots, begins, there, completes: *completes });
    }

    /// Adds writes of ciphertexts of the list to these slots, beginning with ciphertext `first`.
    fn write(&mut self, slots: &[u32], list: &'a LweList, mut first: usize) {
        for run in slots.chunk_by(|a, b| a + 1 == *b) {
            self.write_run(run[0], list.rows(first..first + run.len()).into());
            first += run.len();
        }
    }

    /// Adds a write of whole rows of words to `slot` and the slots that follow it. A short run is joined with the run
    /// before it.
    fn write_run(&mut self, slot: u32, words: Cow<'a, [u32]>) {
        let row_words = self.row_words;
        let is_short = |words: &Cow<'_, [u32]>| words.len() < JOINED_ROWS_MAX * row_words;
        match self.writes.last_mut() {
            Some((first, run))
                if *first as usize + run.len() / row_words == slot as usize
                    && is_short(&words)
                    && (is_short(run) || matches!(run, Cow::Owned(_))) =>
            {
                run.to_mut().extend_from_slice(&words);
            }
            _ => self.writes.push((slot, words)),
        }
    }
}

/// A batch that is ready to start: its tasks, their assembly, and the arena that holds its operands.
pub(crate) type Ready<'a, A> = (&'a BatchTasks, &'a Assembly<'a>, &'a mut A);

/// Starts the batches of a call. All batches must be of the same scheme, and there must be at least one batch.
pub(crate) fn start<'a, B: Schemes>(
    backend: &B,
    batches: Vec<Ready<'a, B::Arena>>,
    part_of: impl Fn(Prepared) -> &'a PartOnDevice<B>,
) -> kernels::Result<B::Pending> {
    let part_of_key = |work: &BatchTasks, part: PartId| part_of(Prepared::Part(work.batch.session, part));
    let all = batches.into_iter();
    if all.as_slice()[0].0.tasks[0].is_of_gates() {
        let keyed = |(work, assembly, arena): Ready<'a, B::Arena>| KeyedGates {
            key: part_of_key(work, EVALUATION_KEY).gates(),
            arena,
            gates: &assembly.gates,
            cells: &assembly.cells,
            ends: &assembly.ends,
            reads: &assembly.reads,
        };
        backend.evaluate_together(&mut all.map(keyed).collect::<Vec<_>>())
    } else {
        let tables_of = |work: &BatchTasks| {
            let tables = work.batch.key.iter().find(|part| matches!(part, Prepared::Tables(_)));
            part_of(*tables.expect("a batch of arithmetic needs tables")).tables()
        };
        let keyed = |(work, assembly, arena): Ready<'a, B::Arena>| KeyedSteps {
            tables: tables_of(work),
            parts: assembly.parts.iter().map(|&(kind, part)| (kind, part_of_key(work, part).numbers())).collect(),
            arena,
            plans: &assembly.plans,
        };
        backend.run(&mut all.map(keyed).collect::<Vec<_>>())
    }
}

/// If a run has fewer rows than this, copying them to the end of another run costs less than a separate device call.
const JOINED_ROWS_MAX: usize = 32;

/// Splits the words that a call has read into the results of each batch's parts.
pub(crate) fn results(call: &[BatchTasks], words: Vec<u32>) -> Vec<Vec<Rows>> {
    // for each batch: the number of words in a row, and how many rows each part reads
    let counts = |BatchTasks { batch, tasks }: &BatchTasks| -> (usize, Vec<usize>) {
        (tasks[0].row_words(), batch.parts.iter().zip(tasks).map(|(part, task)| task.reads_of(part)).collect())
    };
    let batches: Vec<_> = call.iter().map(counts).collect();
    let expected: usize = batches.iter().map(|(row_words, counts)| row_words * counts.iter().sum::<usize>()).sum();
    assert_eq!(words.len(), expected, "a device reads what it was told to");
    if let [(row_words, counts)] = &batches[..]
        && counts.len() == 1
    {
        return vec![vec![Rows { row_words: *row_words, words }]];
    }
    let mut rest = &words[..];
    let mut take = |row_words: usize, rows: usize| {
        let (taken, left) = rest.split_at(rows * row_words);
        rest = left;
        Rows { row_words, words: taken.to_vec() }
    };
    batches.iter().map(|(row_words, counts)| counts.iter().map(|&rows| take(*row_words, rows)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kernels::tfhe::{Gate, OperandBlock, Place};

    use super::*;
    use crate::ids::OperationId;

    const DIMENSION: usize = 1;

    /// A block of ciphertexts that all have different words.
    fn block(first: u32, rows: u32) -> OperandBlock {
        Arc::new(LweList::from_words(DIMENSION, (2 * first..2 * (first + rows)).collect()))
    }

    fn part(gates: usize, slots: impl Iterator<Item = u32>) -> BatchPart {
        let slots = slots.collect();
        BatchPart {
            operation: OperationId(0),
            rows: 0..gates,
            retried: false,
            slots,
            there: [].into(),
            completes: false,
        }
    }

    fn assembly<'a>(list: &'a GateList, part: &BatchPart) -> Assembly<'a> {
        let mut assembly = Assembly::empty(DIMENSION + 1, 0);
        assembly.add_gates(part, list);
        assembly.add_reads(part, &list.clone().into());
        assembly
    }

    #[test]
    fn a_ciphertext_of_many_gates_is_written_once_and_every_gate_finds_its_operands() {
        let places = [(1, 2), (0, 0), (0, 0), (1, 1), (1, 2), (1, 1)].map(|(block, row)| Place { block, row });
        let list = GateList::of_places(vec![Gate::And; 3], vec![block(0, 1), block(10, 3)], places.to_vec());
        let found = assembly(&list, &part(3, [7, 3, 4, 5, 6, 8, 20, 21, 22].into_iter()));
        let writes: Vec<_> = found.writes.iter().map(|(slot, words)| (*slot, words.to_vec())).collect();
        assert_eq!(writes, [(7, vec![0, 1]), (3, vec![22, 23, 24, 25])]);
        let operands: Vec<_> = found.gates.iter().map(|gate| [gate.operands[0], gate.operands[1]]).collect();
        assert_eq!((operands, found.reads), (vec![[4, 7], [7, 3], [4, 3]], vec![20, 21, 22]));
    }

    #[test]
    fn long_runs_are_written_from_where_they_are_and_short_ones_are_joined() {
        let long = JOINED_ROWS_MAX as u32;
        let blocks = vec![block(0, 1), block(1, 1), block(100, long), block(200, long), block(300, 2)];
        let rows = [1, 1, long, long, 2];
        let places: Vec<_> =
            (0..).zip(rows).flat_map(|(block, rows)| (0..rows).map(move |row| Place { block, row })).collect();
        let count = places.len();
        let list = GateList::of_places(vec![Gate::Not; count], blocks, places);
        let found = assembly(&list, &part(count, 0..2 * count as u32));
        let is_owned = |run: &Cow<'_, [u32]>| matches!(run, Cow::Owned(_));
        let shape: Vec<_> = found.writes.iter().map(|(slot, run)| (*slot, run.len() / 2, is_owned(run))).collect();
        let long = JOINED_ROWS_MAX;
        assert_eq!(
            shape,
            [(0, 2, true), (2, long, false), (2 + long as u32, long, false), (2 + 2 * long as u32, 2, false)]
        );
    }
}
