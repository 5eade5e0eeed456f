//! A seeded crowd of clients in front of a scheduler, with slow, failing and dying devices behind it, and a simulated
//! clock. After every step, an independent and simple observer (`books`) checks all invariants.

mod books;
mod devices;
mod world;

use crate::dice::for_each_seed;
use world::{Tally, World};

#[test]
fn whatever_happens_the_books_are_right() {
    let mut all = Tally::default();
    for_each_seed(300, |seed| all.add(&World::new(seed).run()));
    println!("{all:?}");
    if std::env::var_os("SIM_SEED").is_none() {
        all.assert_everything_was_seen();
    }
}
