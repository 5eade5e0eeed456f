//! An accepted operation: it holds its task until the rows have run, and results until all results have arrived.

use std::ops::Range;
use std::time::Duration;

use crate::error::Error;
use crate::rows::Rows;
use crate::task::{Completed, Progress, Tally, Task};

/// The results and the figures of an operation.
#[derive(Debug)]
pub struct Done {
    /// The results of the task, in order.
    pub results: Rows,
    /// Wall time from the first row's start to the last row's end (readings G12).
    pub compute: Duration,
    /// Units of work of the rows (for gates: bootstraps). This is an internal figure; the service sets prices (readings
    /// P29).
    pub units: u64,
}

/// Why an operation has no results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The error.
    pub error: Error,
    /// The gates completed before the end. A client that cancels an operation learns from this field which gates were
    /// computed nevertheless.
    pub completed: Completed,
}

/// The callback of an operation, called once when the operation has ended.
pub type OnDone = Box<dyn FnOnce(Result<Done, Failed>) + Send>;

/// An accepted operation.
pub(crate) struct Operation {
    task: Task,
    tally: Tally,
    /// Rows with their results, in the order in which the rows ran.
    results: Vec<(Range<usize>, Rows)>,
    on_done: OnDone,
}

impl Operation {
    pub(crate) fn new(task: Task, on_done: OnDone) -> Self {
        let results = task.results_without_rows().map(|rows| (0..0, rows)).into_iter().collect();
        Self { task, tally: Tally::default(), results, on_done }
    }

    pub(crate) fn task(&self) -> &Task {
        &self.task
    }

    pub(crate) fn progress(&self) -> Progress {
        self.task.progress(&self.tally)
    }

    /// Marks these rows as done and stores the results that were read after them.
    pub(crate) fn store(&mut self, rows: Range<usize>, given: Rows) {
        self.task.count(rows.clone(), &mut self.tally);
        if !given.is_empty() {
            self.results.push((rows, given));
        }
    }

    /// Restarts a circuit: completed rows no longer count.
    pub(crate) fn restart(&mut self) {
        self.tally = Tally::default();
        self.results.clear();
    }

    /// Returns the results, in order, and the callback.
    ///
    /// # Panics
    /// When a row has not run.
    pub(crate) fn finish(self) -> (Rows, OnDone) {
        let mut results = in_order(self.task.row_words(), self.results);
        assert_eq!(results.len(), self.task.result_rows(), "an operation is done when each of its rows has run once");
        self.task.complete(&mut results);
        (results, self.on_done)
    }

    /// Drops operands and results, because a failed operation delivers none. Returns the gates completed by then, and
    /// the callback.
    pub(crate) fn abort(self) -> (Completed, OnDone) {
        (self.tally.completed(), self.on_done)
    }
}

/// The results of all parts, in the order of their rows. Usually one batch ran all rows, and nothing is copied.
fn in_order(row_words: usize, mut results: Vec<(Range<usize>, Rows)>) -> Rows {
    results.sort_unstable_by_key(|(range, _)| range.start);
    let mut results = results.into_iter().map(|(_, given)| given);
    let mut first = results.next().unwrap_or_else(|| Rows::none(row_words));
    results.for_each(|given| first.words.extend(given.words));
    first
}
