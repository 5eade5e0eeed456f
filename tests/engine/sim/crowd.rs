//! A seeded crowd of clients in front of a scheduler, with slow, failing and dying devices behind it, and a simulated
//! clock. After every step, an independent and simple observer (`books`) checks all invariants.

mod books;
mod devices;
mod operation;
mod world;

use std::sync::Mutex;

use crate::dice::for_each_seed_at_once;
use world::{Tally, World};

#[test]
fn whatever_happens_the_books_are_right() {
    let all = Mutex::new(Tally::default());
    for_each_seed_at_once(300, |seed| {
        let tally = World::new(seed).run();
        all.lock().expect("no seed failed").add(&tally);
    });
    let all = all.into_inner().expect("no seed failed");
    println!("{all:?}");
    if std::env::var_os("SIM_SEED").is_none() {
        all.assert_everything_was_seen();
    }
}
