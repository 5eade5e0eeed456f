//! Shared parts of the benches: a measuring loop that is fair to both sides of a ratio, and the head of a table.

pub mod connection;
pub mod idle;
#[cfg(feature = "peer")]
pub mod peer;
pub mod rates;

use std::time::{Duration, Instant};

/// Whether the bench was started to run once, as a test (`cargo bench -- --test`).
pub fn only_once() -> bool {
    std::env::args().any(|arg| arg == "--test")
}

/// Median times of two pieces of work, measured in turns so that the machine is in the same state for both.
///
/// Measures `rounds` pairs after one unmeasured pair, or a single pair when [`only_once`].
pub fn in_turns(rounds: usize, mut ours: impl FnMut(), mut theirs: impl FnMut()) -> [Duration; 2] {
    let timed = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    if only_once() {
        return [timed(&mut ours), timed(&mut theirs)];
    }
    ours();
    theirs();
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        times[0].push(timed(&mut ours));
        times[1].push(timed(&mut theirs));
    }
    times.map(median)
}

/// The median of the samples.
pub fn median(mut samples: Vec<Duration>) -> Duration {
    samples.sort_unstable();
    samples[samples.len() / 2]
}

/// Milliseconds for each of `pieces` pieces.
pub fn ms_each(time: Duration, pieces: usize) -> f64 {
    time.as_secs_f64() * 1e3 / pieces as f64
}

/// CPU time of this process so far, to a hundredth of a second; zero if the system does not report it.
pub fn cpu_time() -> Duration {
    let times = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = times.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = fields.iter().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}
