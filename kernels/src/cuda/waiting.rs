//! Waiting for a card with a time limit, because the driver itself would wait for a hanging kernel until the process ends.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use cudarc::driver::CudaEvent;

use super::failed::failed;
use crate::error::{Error, Result};

/// A card that does not reach an event within this time is lost. The work before an event is bounded. The waves of
/// groups in one launch (`tfhe/gpu/limits.rs`) take at most half a second on the smallest supported card. At most 32
/// uploads of tables for launches are queued, because further uploads wait for blocks (`staging.rs`).
pub const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Number of polls of an event before the thread sleeps between polls. A single gate finishes during these polls.
const QUESTIONS_AWAKE: usize = 4096;
/// A sleep lasts as long as the time already waited, divided by this number. So a finished batch is noticed late by at
/// most a fiftieth of its time.
const NAP_PART: u32 = 50;
/// The shortest and the longest allowed sleep. The shortest is as short as an operating system can make it.
const NAP: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(2)];

/// Whether a card still works. All objects of the card share one value; a lost card stays lost.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<OnceLock<String>>);

impl Health {
    /// Returns [`Error::Lost`] if the card is lost.
    pub fn alive(&self) -> Result<()> {
        self.0.get().map_or(Ok(()), |why| Err(Error::Lost(why.clone())))
    }

    /// Marks the card as lost and returns the error to report.
    pub fn lose(&self, why: impl Into<String>) -> Error {
        Error::Lost(self.0.get_or_init(|| why.into()).clone())
    }
}

/// The operations of a wait. They use the driver's event and the system's clock, or a simulated event and clock in tests.
trait Awaited {
    /// Whether the card has reached the event.
    fn is_done(&self) -> Result<bool>;
    /// Time since the wait began.
    fn waited(&self) -> Duration;
    /// Sleeps for a time and lets other threads run.
    fn nap(&self, time: Duration);
}

struct Asked<'a> {
    event: &'a CudaEvent,
    since: Instant,
}

impl Awaited for Asked<'_> {
    fn is_done(&self) -> Result<bool> {
        self.event.try_is_complete().map_err(|error| failed("waiting for the card", error))
    }

    fn waited(&self) -> Duration {
        self.since.elapsed()
    }

    fn nap(&self, time: Duration) {
        if time.is_zero() { std::thread::yield_now() } else { std::thread::sleep(time) }
    }
}

/// Waits for an event: first by polling, because a gate takes less than a millisecond, then with sleeps between polls.
///
/// # Errors
/// [`Error::Lost`] after [`SILENCE_MAX`], and for every later use of the card. Also the driver's errors.
pub fn wait(event: &CudaEvent, health: &Health) -> Result<()> {
    wait_unless(event, health, &mut || false).map(drop)
}

/// Like [`wait`], but also ends when `wanted` returns true. Returns whether the card has reached the event.
///
/// # Errors
/// The errors of [`wait`].
pub fn wait_unless(event: &CudaEvent, health: &Health, wanted: &mut dyn FnMut() -> bool) -> Result<bool> {
    health.alive()?;
    event.context().bind_to_thread().map_err(|error| failed("choosing the card", error))?;
    wait_for(&Asked { event, since: Instant::now() }, health, wanted)
}

fn wait_for(awaited: &impl Awaited, health: &Health, wanted: &mut dyn FnMut() -> bool) -> Result<bool> {
    for question in 0.. {
        match awaited.is_done() {
            Ok(true) => return Ok(true),
            Ok(false) if wanted() => return Ok(false),
            Ok(false) => {}
            Err(Error::Lost(why)) => return Err(health.lose(why)),
            Err(error) => return Err(error),
        }
        // another wait may have marked the card as lost
        health.alive()?;
        let waited = awaited.waited();
        if waited >= SILENCE_MAX {
            return Err(health.lose(format!("the card finished no work for {} s", SILENCE_MAX.as_secs())));
        }
        let [shortest, longest] = NAP;
        let nap =
            if question < QUESTIONS_AWAKE { Duration::ZERO } else { (waited / NAP_PART).clamp(shortest, longest) };
        awaited.nap(nap);
    }
    unreachable!("questions do not end")
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A simulated event that completes after a time or never, with a clock that advances by a microsecond for each
    /// poll and by each sleep.
    struct Fake {
        done_after: Option<Duration>,
        fails_after: Option<Duration>,
        now: Cell<Duration>,
        longest_nap: Cell<Duration>,
    }

    impl Fake {
        fn new(done_after: Option<Duration>, fails_after: Option<Duration>) -> Fake {
            Fake { done_after, fails_after, now: Cell::default(), longest_nap: Cell::default() }
        }
    }

    impl Awaited for Fake {
        fn is_done(&self) -> Result<bool> {
            self.now.set(self.now.get() + Duration::from_micros(1));
            if self.fails_after.is_some_and(|time| self.now.get() >= time) {
                return Err(Error::Lost("CUDA_ERROR_LAUNCH_FAILED".into()));
            }
            Ok(self.done_after.is_some_and(|time| self.now.get() >= time))
        }

        fn waited(&self) -> Duration {
            self.now.get()
        }

        fn nap(&self, time: Duration) {
            self.longest_nap.set(self.longest_nap.get().max(time));
            self.now.set(self.now.get() + time);
        }
    }

    #[test]
    fn a_card_that_never_completes_is_lost_after_the_bound_and_stays_lost() {
        let health = Health::default();
        let hangs = Fake::new(None, None);
        let error = wait_for(&hangs, &health, &mut || false).expect_err("it never completes");
        assert_eq!(error.to_string(), "device lost: the card finished no work for 60 s");
        assert!(hangs.now.get() >= SILENCE_MAX && hangs.now.get() < SILENCE_MAX + Duration::from_millis(10));
        // every clone of the card's health returns the error, and a further wait returns it at once
        assert_eq!(health.clone().alive(), Err(error.clone()));
        assert_eq!(wait_for(&Fake::new(None, None), &health, &mut || false), Err(error));
    }

    #[test]
    fn a_batch_is_noticed_within_a_fiftieth_of_its_time_and_a_lone_gate_without_sleep() {
        for time in [Duration::from_micros(900), Duration::from_millis(10), Duration::from_secs(20)] {
            let health = Health::default();
            let event = Fake::new(Some(time), None);
            assert_eq!(wait_for(&event, &health, &mut || false), Ok(true));
            let late = event.now.get() - time;
            assert!(late <= (time / 50).clamp(NAP[0], NAP[1]), "{time:?}: {late:?} late");
            assert_eq!(event.longest_nap.get().is_zero(), time < Duration::from_millis(1), "{time:?}");
            assert_eq!(health.alive(), Ok(()));
        }
    }

    #[test]
    fn a_wait_ends_when_the_caller_has_something_else_to_do() {
        let (event, mut questions) = (Fake::new(Some(Duration::from_secs(1)), None), 0);
        let mut wanted = || {
            questions += 1;
            questions == 10
        };
        assert_eq!(wait_for(&event, &Health::default(), &mut wanted), Ok(false));
        assert_eq!((event.now.get(), questions), (Duration::from_micros(10), 10));
        assert_eq!(wait_for(&event, &Health::default(), &mut || false), Ok(true));
        assert_eq!(wait_for(&event, &Health::default(), &mut || true), Ok(true), "it is done");
    }

    #[test]
    fn a_kernel_that_ends_in_an_error_ends_the_wait_and_the_card() {
        let health = Health::default();
        let fails = Fake::new(None, Some(Duration::from_secs(1)));
        let error = wait_for(&fails, &health, &mut || false).expect_err("it fails");
        assert_eq!(error.to_string(), "device lost: CUDA_ERROR_LAUNCH_FAILED");
        assert!(fails.now.get() < Duration::from_secs(2));
        assert_eq!(health.alive(), Err(error));
    }
}
