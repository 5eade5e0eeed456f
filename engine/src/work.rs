//! The scheduler's view of an operation: its rows, their units of work, and its form.

use std::ops::Range;

use crate::fair;
use crate::ids::{PartId, ValueId};

/// Largest number of rows of a list (specification, Limits: gates per batch).
pub const OPERATION_ROWS_MAX: usize = 1024;

/// Largest number of slots for each unit of a list's rows. A row without units is taken as one unit.
pub(crate) const LIST_SLOTS_OF_A_UNIT_MAX: usize = 3;

/// Largest number of slots of one row of a list.
pub(crate) const LIST_SLOTS_OF_A_ROW_MAX: usize = 4;

/// The slots of a session's arenas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotKind {
    /// Size of a slot in bytes.
    pub bytes: u64,
    /// Whether the session may have lists. Then each of its arenas has room for the lists of running batches.
    pub for_lists: bool,
}

/// The work of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// For each row, its units of work, as the scheme counts them; 0 means almost no work. For a circuit, level after
    /// level.
    pub units: Vec<u32>,
    /// Parts of the session's key that the rows need, each once.
    pub key: Vec<PartId>,
    /// The dependencies of the rows, and their slots.
    pub form: Form,
}

impl Work {
    /// Checks that the numbers of rows and slots agree.
    ///
    /// # Panics
    /// When the numbers disagree.
    pub(crate) fn check(&self) {
        match &self.form {
            Form::List { slots } => {
                let rows = self.units.len();
                assert!(
                    (1..=OPERATION_ROWS_MAX).contains(&rows),
                    "an operation has 1 to {OPERATION_ROWS_MAX} rows, not {rows}"
                );
                let bounded = |(&units, &slots): (&u32, &u32)| {
                    slots as usize <= (LIST_SLOTS_OF_A_UNIT_MAX * size_of_row(units)).min(LIST_SLOTS_OF_A_ROW_MAX)
                };
                let all_bounded = self.units.iter().zip(slots).all(bounded);
                assert!(slots.len() == rows && all_bounded, "slots of a list's rows are bounded");
            }
            Form::Circuit(levels) => {
                assert_eq!(levels.ends.last().copied().unwrap_or(0), self.units.len(), "levels hold all rows");
                let inputs = levels.inputs.iter().map(|input| &input.named);
                let of_inputs: usize = inputs.clone().map(|named| named.slots.len()).sum();
                let has_own = of_inputs < levels.slots || self.units.is_empty();
                assert!(has_own, "a circuit has slots for what its rows compute");
                let mut named = inputs.chain(&levels.results).flat_map(|named| &named.slots);
                assert!(named.all(|&slot| (slot as usize) < levels.slots), "named slots are slots of the circuit");
            }
        }
    }
}

/// The dependencies between the rows of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// 1 to 1024 independent rows. They run on any device, and each has its own slots while it runs.
    List {
        /// For each row, the number of slots of its operands and results. A row has at most four slots, and at most
        /// three for each of its units, where a row without units counts as one unit.
        slots: Vec<u32>,
    },
    /// A circuit: rows in levels, all on one device.
    Circuit(Levels),
}

/// The levels of a circuit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// For each level, the index after the level's last row. A level runs after the level before.
    pub ends: Vec<usize>,
    /// Number of slots that the circuit holds from its first row to its end.
    pub slots: usize,
    /// Size of the inputs and outputs on the host, in bytes.
    pub host_bytes: u64,
    /// Inputs with names. No row of the circuit writes to the slots of an input.
    pub inputs: Vec<NamedInput>,
    /// Results with names. Their slots hold them at the circuit's end.
    pub results: Vec<NamedSlots>,
}

/// A value that outlives its circuit, if the device has room: later circuits of the session find the value there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSlots {
    /// The value.
    pub value: ValueId,
    /// Its slots, as indices into the slots of the circuit.
    pub slots: Vec<u32>,
}

/// An input with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedInput {
    /// Which input of the circuit this is.
    pub input: usize,
    /// The value and its slots.
    pub named: NamedSlots,
}

/// The size of these rows in the unit of [`crate::scheduler::DeviceLimits::batch_units_max`].
pub(crate) fn size_of(units: &[u32]) -> usize {
    units.iter().map(|&units| size_of_row(units)).sum()
}

/// How many of these rows, counted from the first one, fit in `room`.
pub(crate) fn rows_that_fit(units: &[u32], room: usize) -> usize {
    let sizes = units.iter().map(|&units| size_of_row(units));
    let ends = sizes.scan(0, |end, size| {
        *end += size;
        Some(*end)
    });
    ends.take_while(|&end| end <= room).count()
}

fn size_of_row(units: u32) -> usize {
    units.max(1) as usize
}

/// The sum of the units of these rows.
pub(crate) fn units_of(units: &[u32]) -> u64 {
    units.iter().map(|&units| u64::from(units)).sum()
}

/// The cost of these rows in the fair queue, if a unit costs `unit_cost`.
pub(crate) fn cost_of(units: &[u32], unit_cost: u32) -> u64 {
    units.iter().map(|&units| fair::cost_of_row(units, unit_cost)).sum()
}

/// Splits consecutive rows by levels, given the index after the last row of each level. Rows after the last of these
/// indices are one level, so rows of a list are one level.
pub(crate) fn split_by_levels(level_ends: &[usize], mut rows: Range<usize>) -> Vec<Range<usize>> {
    let first = level_ends.partition_point(|&end| end <= rows.start);
    let mut levels = Vec::new();
    for &end in level_ends[first..].iter().chain([&usize::MAX]) {
        if rows.is_empty() {
            break;
        }
        let end = end.min(rows.end);
        levels.push(rows.start..end);
        rows.start = end;
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_split_where_levels_end() {
        let ends = [3, 4, 9];
        let split = |ends: &[usize], rows| -> Vec<(usize, usize)> {
            split_by_levels(ends, rows).into_iter().map(|rows| (rows.start, rows.end)).collect()
        };
        assert_eq!(split(&ends, 0..9), [(0, 3), (3, 4), (4, 9)]);
        assert_eq!(split(&ends, 2..5), [(2, 3), (3, 4), (4, 5)]);
        assert_eq!(split(&ends, 5..7), [(5, 7)]);
        assert_eq!(split(&ends, 3..4), [(3, 4)]);
        assert_eq!(split(&ends, 4..4), []);
        assert_eq!(split(&[], 0..7), [(0, 7)], "a list");
    }
}
