//! An accepted operation: its task until its rows have run, results until all are there.

use std::ops::Range;
use std::time::Duration;

use crate::error::Error;
use crate::rows::Rows;
use crate::task::{Completed, Progress, Tally, Task};

/// The results and the figures of an operation.
#[derive(Debug)]
pub struct Done {
    /// The results of its task, in order.
    pub results: Rows,
    /// Wall time from the first row's start to the last row's end (readings G12).
    pub compute: Duration,
    /// Units of work of its rows (gates: bootstraps; an internal figure, the tariff is the service's, readings P29).
    pub units: u64,
}

/// Why an operation gave no results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// What happened.
    pub error: Error,
    /// What had been completed by then: the work that was done for a client that cancels.
    pub completed: Completed,
}

/// The callback that is called once, when an operation has ended.
pub type OnDone = Box<dyn FnOnce(Result<Done, Failed>) + Send>;

/// An accepted operation.
pub(crate) struct Operation {
    task: Task,
    tally: Tally,
    /// The results of its parts with their rows, in the order in which they ran.
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

    /// These rows have run. Keeps what was read after them.
    pub(crate) fn store(&mut self, rows: Range<usize>, given: Rows) {
        self.task.count(rows.clone(), &mut self.tally);
        if !given.is_empty() {
            self.results.push((rows, given));
        }
    }

    /// A circuit begins again: what was done does not count.
    pub(crate) fn restart(&mut self) {
        self.tally = Tally::default();
        self.results.clear();
    }

    /// The results, in order, and the callback.
    ///
    /// # Panics
    /// When something has not run.
    pub(crate) fn finish(self) -> (Rows, OnDone) {
        let results = in_order(self.task.row_words(), self.results);
        assert_eq!(results.len(), self.task.result_rows(), "an operation is done when each of its rows has run once");
        (results, self.on_done)
    }

    /// Drops operands and results, since nothing of a failed operation is delivered: what had been completed, and the
    /// callback.
    pub(crate) fn abort(self) -> (Completed, OnDone) {
        (self.tally.completed(), self.on_done)
    }
}

/// The results of all parts, in the order of their rows. Mostly one batch ran all rows, and nothing is copied.
fn in_order(row_words: usize, mut results: Vec<(Range<usize>, Rows)>) -> Rows {
    results.sort_unstable_by_key(|(range, _)| range.start);
    let mut results = results.into_iter().map(|(_, given)| given);
    let mut first = results.next().unwrap_or_else(|| Rows::none(row_words));
    results.for_each(|given| first.words.extend(given.words));
    first
}
