//! Random numbers from a seed.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

pub struct Dice(ChaCha8Rng);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }

    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }
}

/// The seeds of a suite, or only the seed in `SIM_SEED`.
fn seeds(count: u64) -> Range<u64> {
    let named = std::env::var("SIM_SEED").ok().map(|seed| seed.parse().expect("SIM_SEED is a number"));
    named.map_or(0..count, |seed| seed..seed + 1)
}

/// Runs the seeds of a suite. Each seed is printed before its run, so the last printed seed is the failing one.
pub fn for_each_seed(count: u64, mut run: impl FnMut(u64)) {
    for seed in seeds(count) {
        println!("seed {seed}");
        run(seed);
    }
}

/// Runs the seeds of a suite on all processors. The seed of a failing run is printed.
pub fn for_each_seed_at_once(count: u64, run: impl Fn(u64) + Sync) {
    let left = Mutex::new(seeds(count));
    let next = || left.lock().expect("no thread panics here").next();
    let worker = || {
        while let Some(seed) = next() {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
                println!("seed {seed} failed");
                resume_unwind(panic);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(worker))));
}
