//! What an operation is to the scheduler: rows, what each takes in units that its scheme counts, and in which form.

use crate::fair;
use crate::ids::PartId;

/// Rows of the largest list (specification, Limits: gates per batch).
pub const OPERATION_ROWS_MAX: usize = 1024;

/// Slots for each unit of a list's rows at most; a row without units counts as one with one.
pub(crate) const LIST_SLOTS_OF_A_UNIT_MAX: usize = 3;

/// Slots of a single row that exceeds a batch at most.
pub(crate) const LIST_SLOTS_OF_A_ROW_MAX: usize = 4;

/// What an operation asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// Units of each row, in which its scheme counts work; 0: next to none. In a circuit level after level.
    pub units: Vec<u32>,
    /// Parts of the session's key that its rows need; each once.
    pub key: Vec<PartId>,
    /// How the rows depend on each other, and where their words are.
    pub form: Form,
}

impl Work {
    /// Checks that the numbers of rows and slots agree.
    ///
    /// # Panics
    /// When they do not agree.
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
            }
        }
    }
}

/// How the rows of an operation depend on each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// 1 to 1024 rows that do not. They run on any device, each with slots of its own while it does.
    List {
        /// Slots of each row's operands and results: at most three a unit (one unit for a row without), and four for a row.
        slots: Vec<u32>,
    },
    /// A circuit: rows in levels, all on one device.
    Circuit(Levels),
}

/// The levels of a circuit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels {
    /// Where each level ends. Its rows run when those of the level before have.
    pub ends: Vec<usize>,
    /// Slots that the circuit has from its first row to its end.
    pub slots: usize,
    /// Its inputs and outputs on the host, in bytes.
    pub host_bytes: u64,
}

/// What these rows take of [`crate::scheduler::DeviceLimits::batch_units_max`].
pub(crate) fn size_of(units: &[u32]) -> usize {
    units.iter().map(|&units| size_of_row(units)).sum()
}

/// How many of these rows, from the first on, take at most `room`.
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

/// The units of these rows.
pub(crate) fn units_of(units: &[u32]) -> u64 {
    units.iter().map(|&units| u64::from(units)).sum()
}

/// What these rows count against their account's share, where a unit costs `unit_cost`.
pub(crate) fn cost_of(units: &[u32], unit_cost: u32) -> u64 {
    units.iter().map(|&units| fair::cost_of_row(units, unit_cost)).sum()
}
