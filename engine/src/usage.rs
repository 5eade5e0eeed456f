//! Figures for health and metrics, and the measured pace, from which waits are estimated.

use std::time::Duration;

/// Figures for health and metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Number of sessions that are open, or that are closed but not yet erased.
    pub sessions: u64,
    /// Number of operations that have not ended.
    pub operations: u64,
    /// Number of rows that wait.
    pub queued_rows: u64,
    /// Number of rows in the batches that devices run.
    pub running_rows: u64,
    /// Size of the prepared keys on all devices, in bytes.
    pub resident_bytes: u64,
    /// Bound on `resident_bytes`.
    pub resident_bytes_max: u64,
    /// Size of the arenas on all devices, in bytes. Arenas hold the slots of circuits and the operands of batches.
    pub arena_bytes: u64,
    /// The largest size in bytes that the arena of one circuit or operation may have, on the device with the most room.
    pub arena_bytes_max: u64,
    /// Number of circuits that have not ended.
    pub circuits: u64,
    /// Number of devices that take work.
    pub devices_in_service: u64,
    /// Number of devices that failed and were taken out of service.
    pub devices_lost: u64,
    /// Size of the seeded keys in host memory, in bytes.
    pub key_bytes: u64,
    /// Number of rows done since the start. Rows that ran after the end of their operation count too.
    pub rows_done: u64,
    /// Number of units of work done since the start (for gates: bootstraps), counted like `rows_done`.
    pub units_done: u64,
    /// Number of batches run since the start.
    pub batches_done: u64,
    /// Number of inputs of operations on numbers that the operation's device had from an earlier operation, since the start.
    pub inputs_found: u64,
    /// Number of inputs with names that were written to a device, since the start.
    pub inputs_written: u64,
    /// Time in which devices ran batches since the start, the times of all devices together.
    pub busy: Duration,
}

/// Weight of the newest batch in the measured pace.
const NEWEST: f64 = 0.2;

/// The shortest and the longest suggested wait. An estimate during a burst or a stall must not drive clients away.
const RETRY_AFTER: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// The device's pace: an exponential average over batches.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    cost_per_second: Option<f64>,
}

impl Pace {
    /// Records how long a batch of this cost took.
    pub(crate) fn observe(&mut self, cost: u64, elapsed: Duration) {
        let newest = cost as f64 / elapsed.max(Duration::from_micros(1)).as_secs_f64();
        let before = self.cost_per_second.unwrap_or(newest);
        self.cost_per_second = Some(before + NEWEST * (newest - before));
    }

    /// The expected duration of work of this cost on a device.
    pub(crate) fn expected(&self, cost: u64) -> Duration {
        let seconds = self.cost_per_second.map_or(0.0, |pace| cost as f64 / pace.max(f64::MIN_POSITIVE));
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// The wait to suggest to a refused client: the expected duration of work of this cost, in whole seconds.
    pub(crate) fn retry_after(&self, cost: u64) -> Duration {
        let [least, most] = RETRY_AFTER;
        let Some(pace) = self.cost_per_second else { return least };
        Duration::from_secs((cost as f64 / pace).ceil() as u64).clamp(least, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suggested_wait_is_the_work_over_the_pace() {
        let mut pace = Pace::default();
        pace.observe(1000, Duration::from_millis(100));
        assert_eq!(pace.retry_after(45_000), Duration::from_secs(5));
    }

    #[test]
    fn the_suggested_wait_stays_within_a_second_and_a_minute() {
        let mut pace = Pace::default();
        assert_eq!(pace.retry_after(u64::MAX), Duration::from_secs(1), "nothing measured yet");
        pace.observe(1000, Duration::from_secs(1));
        assert_eq!(pace.retry_after(0), Duration::from_secs(1));
        assert_eq!(pace.retry_after(u64::MAX), Duration::from_secs(60));
        pace.observe(1000, Duration::ZERO);
        assert_eq!(pace.retry_after(0), Duration::from_secs(1));
    }

    #[test]
    fn the_pace_follows_the_newest_batches() {
        let mut pace = Pace::default();
        pace.observe(1000, Duration::from_secs(1));
        for _ in 0..50 {
            pace.observe(100, Duration::from_secs(1));
        }
        assert_eq!(pace.retry_after(1000), Duration::from_secs(10));
    }
}
