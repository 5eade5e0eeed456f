//! Parts of a plan: consecutive levels as a plan. A plan that is run part by part, each part with the results of the one
//! before, gives the same bytes as the whole plan. So a long circuit goes on from the values that live between two levels.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use super::plan::Plan;
use crate::tfhe::cells::SlotCells;

impl Plan {
    /// Returns these levels as a plan over the same slots.
    ///
    /// The inputs of a part are the values that live before it: a later row or an output reads them. From level 0 on they are
    /// the plan's inputs. The outputs of a part are the values that live after it, and those of the last part are the plan's
    /// outputs. Values are in the order of their slots.
    ///
    /// # Panics
    /// When the range is outside the plan.
    pub fn part(&self, levels: Range<usize>) -> Plan {
        let count = self.level_ends.len();
        let end_of = |level: usize| if level == 0 { 0 } else { self.level_ends[level - 1] };
        let rows = end_of(levels.start)..end_of(levels.end);
        let (gates, (all, cells)) = (self.gates_of(rows.clone()).to_vec(), self.cells_of(rows.clone()));
        let mut part_cells = SlotCells::new(all.wire_slots());
        part_cells.extend_from(all, cells.start.min(all.len())..cells.end.min(all.len()), |slot| slot);
        let (is_first, is_last) = (levels.start == 0, levels.end == count);
        let stands_for = self.stands_for[rows.start..rows.end].to_vec();
        let outputs = if is_last { self.outputs.clone() } else { self.live_before(levels.end) };
        Plan {
            gates,
            cells: part_cells,
            gates_asked: stands_for.iter().flatten().map(|&gates| u64::from(gates)).sum(),
            gates_free: 0,
            stands_for,
            level_ends: levels.clone().map(|level| self.level_ends[level] - rows.start).collect(),
            inputs: if is_first { self.inputs.clone() } else { self.live_before(levels.start) },
            constants: if is_first { self.constants.clone() } else { Vec::new() },
            negated: if is_last { self.negated.clone() } else { vec![false; outputs.len()] },
            outputs,
            slots: self.slots,
        }
    }

    /// Returns the slots that hold values before a level which a row of this or a later level, or an output, reads.
    fn live_before(&self, level: usize) -> Vec<u32> {
        let mut is_live = vec![false; self.slots];
        self.outputs.iter().for_each(|&slot| is_live[slot as usize] = true);
        let later: Vec<Range<usize>> = self.levels().skip(level).collect();
        for rows in later.into_iter().rev() {
            // the rows of a level are independent, so all of its writes come after all of its reads
            self.each_slot(rows.clone(), |_| (), |slot| is_live[slot as usize] = false);
            self.each_slot(rows, |slot| is_live[slot as usize] = true, |_| ());
        }
        (0..self.slots as u32).filter(|&slot| is_live[slot as usize]).collect()
    }

    fn each_slot(&self, rows: Range<usize>, mut read: impl FnMut(u32), mut written: impl FnMut(u32)) {
        for gate in self.gates_of(rows.clone()) {
            gate.operands[..gate.gate.arity()].iter().for_each(|&slot| read(slot));
            written(gate.result);
        }
        let (all, cells) = self.cells_of(rows);
        for cell in cells.start.min(all.len())..cells.end.min(all.len()) {
            let cell = all.cell(cell);
            cell.wires().for_each(|(_, slots)| slots.iter().for_each(|&slot| read(slot)));
            cell.inputs().for_each(|(_, slot)| read(slot));
            cell.results().for_each(|slots| slots.iter().for_each(|&slot| written(slot)));
        }
    }

    /// Returns a number that tells plans apart, for values that another process keeps. Another version of the program may give
    /// another number for the same plan.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}
