//! The pace of the requests to a provider, which refuses more than so many a second.

use std::future::Future;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

tokio::task_local! {
    /// Set while a task does work that nobody waits for.
    static IN_BACKGROUND: ();
}

/// Does work that nobody waits for, such as the bills of months. Its calls give way to all others.
pub async fn in_background<T>(work: impl Future<Output = T>) -> T {
    IN_BACKGROUND.scope((), work).await
}

/// Spreads calls evenly, first come, first served: each call takes the next free moment and waits for it. A call of the
/// background waits until the next free moment is near, so other calls wait for at most one of them.
pub struct Pace {
    between: Duration,
    /// The earliest moment of the next call.
    next: Mutex<Option<Instant>>,
    /// The queue of the background's calls.
    background: tokio::sync::Mutex<()>,
}

impl Pace {
    /// Makes the pace of at most `calls_per_second` calls, at least 1.
    pub fn new(calls_per_second: u32) -> Pace {
        let between = Duration::from_secs(1) / calls_per_second.max(1);
        Pace { between, next: Mutex::new(None), background: tokio::sync::Mutex::new(()) }
    }

    /// Waits until the next call may begin. A caller that leaves while waiting leaves its moment unused.
    pub async fn wait(&self) {
        let moment = if IN_BACKGROUND.try_get().is_ok() {
            let _turn = self.background.lock().await;
            loop {
                let near = Instant::now() + self.between;
                match self.take(near) {
                    Ok(moment) => break moment,
                    Err(free) => tokio::time::sleep_until(free - self.between).await,
                }
            }
        } else {
            self.take_next()
        };
        tokio::time::sleep_until(moment).await;
    }

    fn take_next(&self) -> Instant {
        let mut next = self.next.lock();
        let moment = next.map_or_else(Instant::now, |next| next.max(Instant::now()));
        *next = Some(moment + self.between);
        moment
    }

    /// Takes the next free moment if it is at most `latest`. Otherwise returns it without taking it.
    fn take(&self, latest: Instant) -> Result<Instant, Instant> {
        let free = *self.next.lock();
        match free.filter(|free| *free > latest) {
            Some(free) => Err(free),
            None => Ok(self.take_next()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn calls_are_spread_over_the_second_and_served_in_the_order_of_their_arrival() {
        let pace = Arc::new(Pace::new(80));
        let begun = Instant::now();
        let mut calls = JoinSet::new();
        for number in 0..160_u32 {
            let pace = pace.clone();
            calls.spawn(async move {
                pace.wait().await;
                (Instant::now(), number)
            });
        }
        let mut served = calls.join_all().await;
        served.sort_unstable();
        let order: Vec<u32> = served.iter().map(|(_, number)| *number).collect();
        assert_eq!(order, (0..160).collect::<Vec<_>>());
        for second in 0..2 {
            let (from, to) = (Duration::from_secs(second), Duration::from_secs(second + 1));
            let within = served.iter().filter(|(at, _)| (from..to).contains(&(*at - begun))).count();
            // tokio's timer rounds to whole milliseconds
            assert!((79..=81).contains(&within), "{within}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_somebody_waits_for_does_not_queue_behind_calls_of_the_background() {
        let pace = Arc::new(Pace::new(80));
        let mut background = JoinSet::new();
        for _ in 0..160 {
            let pace = pace.clone();
            background.spawn(in_background(async move { pace.wait().await }));
        }
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let asked = Instant::now();
            pace.wait().await;
            // at most one call before, and one of the background
            assert!(asked.elapsed() <= Duration::from_millis(27), "{:?}", asked.elapsed());
        }
        let begun = Instant::now();
        background.join_all().await;
        // the background had the rest of the pace: 60 of 80 calls in the first second
        assert!(begun.elapsed() > Duration::from_millis(900), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_after_a_pause_begins_at_once_and_waits_only_for_those_before_it() {
        let pace = Pace::new(2);
        let begun = Instant::now();
        pace.wait().await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        pace.wait().await;
        assert_eq!(begun.elapsed(), Duration::from_millis(500));
        tokio::time::advance(Duration::from_secs(60)).await;
        let later = Instant::now();
        // the pause saves no calls up
        for expected in [0, 500, 1000] {
            pace.wait().await;
            assert_eq!(later.elapsed(), Duration::from_millis(expected));
        }
    }
}
