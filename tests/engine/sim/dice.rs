//! Random numbers from a seed.

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

/// Runs the seeds of a suite, or only the seed in `SIM_SEED`. Each seed is printed before its run, so the last printed
/// seed is the failing one.
pub fn for_each_seed(count: u64, mut run: impl FnMut(u64)) {
    let named = std::env::var("SIM_SEED").ok().map(|seed| seed.parse().expect("SIM_SEED is a number"));
    let seeds = named.map_or(0..count, |seed| seed..seed + 1);
    for seed in seeds {
        println!("seed {seed}");
        run(seed);
    }
}
