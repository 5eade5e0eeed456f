//! The pace of the requests to a provider, which refuses more than so many a second.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Spreads calls evenly, first come, first served: each call takes the next free moment and waits for it. So a caller
/// waits for the calls that came before, and for no others.
pub struct Pace {
    between: Duration,
    /// The earliest moment of the next call.
    next: Mutex<Option<Instant>>,
}

impl Pace {
    /// Makes the pace of at most `calls_per_second` calls, at least 1.
    pub fn new(calls_per_second: u32) -> Pace {
        Pace { between: Duration::from_secs(1) / calls_per_second.max(1), next: Mutex::new(None) }
    }

    /// Waits until the next call may begin. A caller that leaves while waiting leaves its moment unused.
    pub async fn wait(&self) {
        let moment = {
            let mut next = self.next.lock();
            let now = Instant::now();
            let moment = next.map_or(now, |next| next.max(now));
            *next = Some(moment + self.between);
            moment
        };
        tokio::time::sleep_until(moment).await;
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
