//! How fast the workers of a fleet compute circuits, as an API node has seen.

use std::time::Duration;

use parking_lot::Mutex;

use crate::work::question::Figures;

/// Time of a bootstrap before any circuit has ended: of one core.
const FIRST_GUESS: Duration = Duration::from_millis(10);
/// Share of the newest circuit in the mean.
const NEWEST: f64 = 0.2;
/// A circuit with fewer bootstraps says nothing about the pace, because its time is the time of its levels.
const BOOTSTRAPS_MIN: u64 = 64;

/// The mean time of a bootstrap in circuits, the newest circuits first.
#[derive(Default)]
pub struct Pace {
    seconds: Mutex<Option<f64>>,
}

impl Pace {
    /// Notes a circuit that was computed.
    pub fn note(&self, Figures { compute, units }: &Figures) {
        if *units < BOOTSTRAPS_MIN {
            return;
        }
        let newest = compute.as_secs_f64() / *units as f64;
        let mut seconds = self.seconds.lock();
        *seconds = Some(seconds.map_or(newest, |mean| mean + NEWEST * (newest - mean)));
    }

    /// Estimates the time of a circuit with so many bootstraps.
    pub fn of(&self, bootstraps: u64) -> Duration {
        let seconds = self.seconds.lock().unwrap_or(FIRST_GUESS.as_secs_f64());
        Duration::try_from_secs_f64(seconds * bootstraps as f64).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_follows_the_circuits_that_were_computed() {
        let pace = Pace::default();
        assert_eq!(pace.of(500), Duration::from_secs(5));
        pace.note(&Figures { compute: Duration::from_secs(9), units: 1 });
        assert_eq!(pace.of(500), Duration::from_secs(5));
        pace.note(&Figures { compute: Duration::from_secs(1), units: 1000 });
        assert_eq!(pace.of(1000), Duration::from_secs(1));
        for _ in 0..100 {
            pace.note(&Figures { compute: Duration::from_secs(2), units: 1000 });
        }
        assert!((1.99..2.01).contains(&pace.of(1000).as_secs_f64()));
        assert_eq!(pace.of(0), Duration::ZERO);
        assert!(pace.of(u64::MAX) > Duration::from_secs(1 << 40));
    }
}
