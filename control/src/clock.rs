//! The time, as the service reads it. Tests move the clock instead of waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

/// RFC 3339, in UTC with milliseconds.
const RFC3339: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// A moment in UTC, in microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Returns the moment that is later by `duration`.
    pub fn plus(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }

    /// Returns the moment that is later by so many microseconds, or earlier if the number is negative.
    fn shifted(self, by_us: i64) -> Timestamp {
        Timestamp(self.0.saturating_add(by_us))
    }

    /// Returns the time since an earlier moment. Zero if `earlier` is later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Whether two moments are less than `within` apart, in either order. A value that was cached at a moment far in
    /// the future was cached before the clock was set back, so it counts as old.
    pub fn is_near(self, other: Timestamp, within: Duration) -> bool {
        u128::from(self.0.abs_diff(other.0)) < within.as_micros()
    }

    /// Returns the number of whole seconds since 1970.
    pub fn seconds(self) -> u64 {
        u64::try_from(self.0 / 1_000_000).unwrap_or(0)
    }

    /// Writes the moment in the form of RFC 3339, in UTC with milliseconds: `2026-01-31T23:59:59.123Z` (readings X3).
    pub fn rfc3339(self) -> String {
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1000)
            .ok()
            .and_then(|moment| moment.format(RFC3339).ok())
            .expect("the clock shows a year of four digits")
    }

    /// Reads what [`Timestamp::rfc3339`] writes.
    pub fn read(text: &str) -> Option<Timestamp> {
        let moment = PrimitiveDateTime::parse(text, RFC3339).ok()?.assume_utc();
        i64::try_from(moment.unix_timestamp_nanos() / 1000).ok().map(Timestamp)
    }
}

/// A clock that differs from the database's by no more than this is not corrected.
const TOLERATED: Duration = Duration::from_secs(1);

/// A clock. Clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// Microseconds by which a test has moved this clock ahead.
    ahead_us: Arc<AtomicI64>,
    /// Microseconds by which the system's clock is corrected.
    corrected_us: Arc<AtomicI64>,
}

impl Clock {
    /// Returns the system's clock.
    pub fn system() -> Clock {
        Clock::default()
    }

    /// The present moment.
    pub fn now(&self) -> Timestamp {
        self.unmoved().shifted(self.ahead_us.load(Ordering::Relaxed))
    }

    /// The present moment, as if no test had moved the clock. See [`Clock::correct`].
    pub fn unmoved(&self) -> Timestamp {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(0).plus(since_1970).shifted(self.corrected_us.load(Ordering::Relaxed))
    }

    /// Compares this clock with another one, which is right. Corrects this clock and its clones if they are more than a second off.
    /// `told`: the answer of the right clock. `asked`: when it was asked, by [`Clock::unmoved`]. Call this when the answer has come.
    /// Returns whether this clock was corrected.
    pub fn correct(&self, asked: Timestamp, told: Timestamp) -> bool {
        let heard = self.unmoved();
        // a process that stood still meanwhile makes the time between longer, and no clock wrong
        let is_off = told.plus(TOLERATED) < asked || told > heard.plus(TOLERATED);
        if is_off {
            let middle = asked.plus(heard.since(asked) / 2);
            self.corrected_us.fetch_add(told.0.saturating_sub(middle.0), Ordering::Relaxed);
        }
        is_off
    }

    /// Returns the seconds by which the system's clock is corrected. Positive: the system's clock is behind.
    pub fn correction_s(&self) -> f64 {
        self.corrected_us.load(Ordering::Relaxed) as f64 / 1e6
    }

    /// Moves this clock and its clones ahead.
    pub fn advance(&self, by: Duration) {
        self.ahead_us.fetch_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// Sets this clock and its clones back.
    pub fn set_back(&self, by: Duration) {
        self.ahead_us.fetch_sub(i64::try_from(by.as_micros()).unwrap_or(i64::MAX), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc_with_milliseconds() {
        assert_eq!(Timestamp(1_769_903_999_123_456).rfc3339(), "2026-01-31T23:59:59.123Z");
        assert_eq!(Timestamp(0).rfc3339(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp::read("2026-01-31T23:59:59.123Z"), Some(Timestamp(1_769_903_999_123_000)));
        assert_eq!(Timestamp::read("2026-01-31"), None);
    }

    #[test]
    fn an_advanced_clock_takes_its_clones_along() {
        let clock = Clock::system();
        let clone = clock.clone();
        let before = clone.now();
        clock.advance(Duration::from_secs(3600));
        assert!(clone.now().since(before) >= Duration::from_secs(3600));
        clock.set_back(Duration::from_secs(2 * 3600));
        assert!(clone.now() < before);
    }

    #[test]
    fn a_clock_is_corrected_if_it_is_more_than_a_second_off_and_a_test_may_still_move_it() {
        let (clock, second) = (Clock::system(), Duration::from_secs(1));
        let told = |ahead_s: i64| Timestamp(Clock::system().now().0 + ahead_s * 1_000_000);
        let is_ahead = |seconds| clock.now().is_near(told(seconds), second / 2);
        assert!(!clock.correct(clock.unmoved(), told(0)) && is_ahead(0));
        // the answer took ten seconds
        assert!(!clock.correct(told(-10), told(-10)) && !clock.correct(told(-10), told(-5)) && is_ahead(0));
        assert!(clock.correct(clock.unmoved(), told(3600)) && is_ahead(3600));
        assert!(!clock.correct(clock.unmoved(), told(3600)));
        assert!(clock.correct(told(3590), told(-3600)) && is_ahead(-3595));
        assert!((clock.correction_s() + 3595.0).abs() < 0.5);
        clock.advance(60 * second);
        assert!(!clock.correct(clock.unmoved(), told(-3595)) && is_ahead(-3535));
    }

    #[test]
    fn what_is_near_is_so_in_both_directions() {
        let second = Duration::from_secs(1);
        for (moment, near) in [(0, false), (1, true), (1_000_000, true), (1_999_999, true), (2_000_000, false)] {
            assert_eq!(Timestamp(1_000_000).is_near(Timestamp(moment), second), near, "{moment}");
        }
        assert!(!Timestamp(i64::MIN).is_near(Timestamp(i64::MAX), Duration::MAX / 2_000_000_000));
    }
}
