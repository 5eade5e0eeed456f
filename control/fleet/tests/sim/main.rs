//! The fleet under faults: the parts of this crate that are pure (the life of asked work, what a worker remembers, the
//! workers that are there, the lanes) in a made-up world with a made-up clock and a made-up broker. The broker drops,
//! doubles, delays, reorders and forgets what passes it. Workers and API nodes die, sleep, join and leave.
//!
//! `SEEDS=100000` runs so many seeds. `SIM_SEED=17` runs one seed and prints its events.

mod broker;
mod dice;
mod faults;
mod node;
mod plan;
mod task;
mod warm;
mod work;
mod worker;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use world::{Counts, Trace, World};

/// Number of seeds, unless `SEEDS` names another.
const SEEDS: u64 = 2000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("the variable is a number"))
}

/// Runs a seed again and prints its last events and why it failed.
fn report(seed: u64) -> ! {
    let mut trace = Trace::on();
    let failed = catch_unwind(AssertUnwindSafe(|| World::run(seed, &mut trace)));
    trace.print();
    match failed {
        Ok(_) => panic!("seed {seed} did not fail again"),
        Err(_) => panic!("seed {seed} failed, see its events and the message before them"),
    }
}

#[test]
fn all_work_ends_once_and_with_the_right_answer_whatever_the_broker_forgets() {
    if let Some(seed) = number("SIM_SEED") {
        let mut trace = Trace::on();
        let counts = catch_unwind(AssertUnwindSafe(|| World::run(seed, &mut trace)));
        trace.print();
        println!("{:?}", counts.expect("the seed passes"));
        return;
    }
    let seeds = number("SEEDS").unwrap_or(SEEDS);
    let (left, total, failed) = (Mutex::new(0..seeds), Mutex::new(Counts::default()), Mutex::new(None::<u64>));
    let next = || {
        let has_failed = failed.lock().unwrap().is_some();
        left.lock().unwrap().next().filter(|_| !has_failed)
    };
    let run_some = || {
        let mut counts = Counts::default();
        while let Some(seed) = next() {
            match catch_unwind(AssertUnwindSafe(|| World::run(seed, &mut Trace::off()))) {
                Ok(of_seed) => counts.add(&of_seed),
                Err(_) => *failed.lock().unwrap() = Some(seed),
            }
        }
        total.lock().unwrap().add(&counts);
    };
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(run_some))));
    if let Some(seed) = failed.into_inner().unwrap() {
        report(seed);
    }
    let counts = total.into_inner().unwrap();
    println!("{seeds} seeds: {counts:#?}");
    if seeds >= SEEDS {
        counts.check_that_all_was_met();
    }
}
