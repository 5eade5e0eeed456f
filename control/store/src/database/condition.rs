//! The condition of the database, as the node's own calls show it: whether writes fail, and when a connection was
//! last found cut.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::faults;

/// How long a failed write counts, whatever other writes do: on a disk that is nearly full, small writes succeed
/// between large ones that fail.
const HELD_AGAINST: Duration = Duration::from_secs(5);

/// The condition of a database, as its last calls found it.
#[derive(Debug, Default)]
pub(crate) struct Condition(Mutex<Found>);

#[derive(Debug, Default)]
struct Found {
    /// Whether the last write failed, so that the connections are suspects.
    last_failed: bool,
    /// Whether a write has failed and no trial has succeeded since.
    untried: bool,
    /// When the database last refused a write, and another connection would not have helped.
    refused_at: Option<Instant>,
    cut_at: Option<Instant>,
}

/// Whether the database takes writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    /// No write has failed.
    Succeed,
    /// A write has failed a moment ago.
    Fail,
    /// A write has failed some time ago. Only a trial shows whether writes succeed again.
    Untried,
}

impl Condition {
    /// Whether the last write failed because the database took no writes.
    pub fn last_failed(&self) -> bool {
        self.found().last_failed
    }

    pub fn writes(&self) -> Writes {
        let found = self.found();
        match found.refused_at {
            _ if !found.untried => Writes::Succeed,
            Some(at) if at.elapsed() < HELD_AGAINST => Writes::Fail,
            _ => Writes::Untried,
        }
    }

    /// Records that the database has written something.
    pub fn wrote(&self) {
        self.found().last_failed = false;
    }

    /// Records that a trial has succeeded.
    pub fn tried(&self) {
        let mut found = self.found();
        (found.last_failed, found.untried) = (false, false);
    }

    /// Records the error of a call that writes. An error about one work says nothing about the database.
    pub fn failed(&self, error: &sqlx::Error) {
        let is_cut = faults::is_cut(error);
        if faults::fails_writes(error) {
            let mut found = self.found();
            (found.last_failed, found.untried) = (true, true);
            if !is_cut && !faults::is_read_only(error) {
                found.refused_at = Some(Instant::now());
            }
        }
        if is_cut {
            self.cut();
        }
    }

    /// Records that a connection leads to a read-only database. Another connection may lead elsewhere.
    pub fn read_only(&self) {
        let mut found = self.found();
        (found.last_failed, found.untried) = (true, true);
    }

    /// Records that a connection was cut. Connections that have been idle since are suspects, because a restart of the
    /// server cuts all of them.
    pub fn cut(&self) {
        self.found().cut_at = Some(Instant::now());
    }

    /// Whether a connection was cut within the last `idle_for`.
    pub fn was_cut_within(&self, idle_for: Duration) -> bool {
        self.found().cut_at.is_some_and(|at| at.elapsed() <= idle_for)
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o2_a_refused_write_counts_for_a_while_and_then_until_a_trial_succeeds() {
        let condition = Condition::default();
        assert_eq!(condition.writes(), Writes::Succeed);
        condition.failed(&sqlx::Error::WorkerCrashed);
        // a small write succeeds
        condition.wrote();
        assert_eq!((condition.writes(), condition.last_failed()), (Writes::Fail, false));
        condition.found().refused_at = Instant::now().checked_sub(HELD_AGAINST);
        assert_eq!(condition.writes(), Writes::Untried);
        condition.tried();
        assert_eq!(condition.writes(), Writes::Succeed);
    }

    #[test]
    fn a_cut_connection_is_tried_at_once_and_an_error_of_one_work_counts_nothing() {
        let condition = Condition::default();
        condition.failed(&sqlx::Error::RowNotFound);
        condition.failed(&sqlx::Error::PoolTimedOut);
        assert_eq!(condition.writes(), Writes::Succeed);
        condition.failed(&sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into()));
        assert_eq!(condition.writes(), Writes::Untried);
        assert!(condition.was_cut_within(Duration::from_secs(60)));
    }
}
