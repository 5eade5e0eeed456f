//! A race that finds the instruction set with the fastest blind rotation on this CPU. Longer vectors do not always win,
//! because some CPUs process them in halves or lower their clock for them.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::cpu::simd::Isa;
use crate::error::Result;
use crate::tfhe::cpu::blind_rotate::{reals, start};
use crate::tfhe::{Params, ParamsLiteral, Preset};

/// Number of steps of blind rotation in a run: 0.1 to 0.2 ms with [`ROWS`] rows.
const STEPS: usize = 8;
/// Number of rows in a run.
const ROWS: usize = 4;
/// Number of runs of a contestant in a turn. These runs take some milliseconds, which is long enough for a CPU to
/// change its clock for an instruction set.
const RUNS: usize = 12;
/// Number of turns of each contestant.
const TURNS: usize = 3;

/// The fastest instruction set with vectors of doubles. If the CPU has fewer than two such sets, or memory for the race
/// is missing, the result is the best set by rank. The first call takes some tens of milliseconds. Results do not
/// depend on the choice, because all instruction sets compute the same words.
pub fn fastest() -> Isa {
    static FASTEST: OnceLock<Isa> = OnceLock::new();
    *FASTEST.get_or_init(|| {
        let contestants: Vec<Isa> = Isa::available().into_iter().filter(|isa| isa.reals().is_some()).collect();
        if contestants.len() < 2 {
            return Isa::detect();
        }
        let literal = ParamsLiteral { lwe_dimension: STEPS, ..*Preset::Fast128.params() };
        let params = Params::try_from(literal).expect("a shorter preset");
        let runs: Result<Vec<Run>> = contestants.iter().map(|&isa| Run::new(isa, params)).collect();
        runs.map_or(Isa::detect(), |mut runs| contestants[first_of(&mut runs, Run::time)])
    })
}

/// The index of the contestant with the fastest run.
fn first_of<T>(contestants: &mut [T], run: impl Fn(&mut T) -> Duration) -> usize {
    let mut fastest = vec![Duration::MAX; contestants.len()];
    for _ in 0..TURNS {
        for (contestant, fastest) in contestants.iter_mut().zip(&mut fastest) {
            for _ in 0..RUNS {
                *fastest = run(contestant).min(*fastest);
            }
        }
    }
    (0..fastest.len()).min_by_key(|&i| fastest[i]).expect("contestants")
}

/// A rotation to measure. Its key is all zeros; a rotation with any other key takes as long.
struct Run {
    key: reals::RealsKey,
    scratch: reals::Scratch,
    exponents: Vec<u32>,
    accumulators: Vec<u32>,
}

impl Run {
    fn new(isa: Isa, params: Params) -> Result<Run> {
        let mut accumulators = vec![0; ROWS * params.accumulator_words()];
        for (row, accumulator) in accumulators.chunks_exact_mut(params.accumulator_words()).enumerate() {
            start(&params, row as u32, accumulator);
        }
        Ok(Run {
            key: reals::RealsKey::of_zeros(isa, params)?,
            scratch: reals::Scratch::new(&params)?,
            exponents: (0..ROWS * (params.lwe_dimension + 1)).map(|i| 37 * i as u32 % 2048).collect(),
            accumulators,
        })
    }

    fn time(&mut self) -> Duration {
        let since = Instant::now();
        reals::rotate_group(self.key.isa(), &self.key, &self.exponents, &mut self.accumulators, &mut self.scratch);
        since.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_with_the_fastest_run_wins_however_slow_its_others() {
        // the times of both contestants' runs. The second has the fastest run, although other work on the CPU slows all
        // its other runs
        let times = [vec![50; RUNS * TURNS], (0..RUNS * TURNS).map(|i| if i == 20 { 40 } else { 90 }).collect()];
        let mut contestants: Vec<_> = times.iter().map(|times: &Vec<u64>| times.iter()).collect();
        let run = |times: &mut std::slice::Iter<u64>| Duration::from_micros(*times.next().expect("a run"));
        assert_eq!(first_of(&mut contestants, run), 1);
        assert!(contestants.iter().all(|rest| rest.len() == 0), "all runs of all");
    }

    #[test]
    fn the_fastest_is_one_of_this_processors_and_stays() {
        assert!(Isa::available().contains(&fastest()));
        assert_eq!(fastest(), fastest());
    }
}
