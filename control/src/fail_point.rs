//! What tests do to the process of a node: they make the process die at its n-th write, just before or just after the
//! write becomes durable, and they move the process's clock.
//!
//! `ANGO_FAIL_POINT` is the path of a file to which the test may write a command at any time. From then on writes are
//! counted: with the command `before 2 a` the process dies before the second write, with `after 1 b` after the first.
//! The third part only makes a command differ from the previous command. Writes are counted at the database, not at
//! places in the code, so that no write is missed.
//!
//! `ANGO_CLOCK_AHEAD` is the path of a file with a number of seconds. The node's clock is ahead of the system's clock by
//! this number, or behind it if the number is negative. The test may write another number at any time. The node reads
//! the file every 10 ms. A missing or unreadable file changes nothing.
//!
//! Both variables are not settings, because operators do not need them, and release builds ignore them.

#[cfg(debug_assertions)]
use std::{fs, path::Path, thread, time::Duration};

#[cfg(debug_assertions)]
use parking_lot::Mutex;
#[cfg(debug_assertions)]
use store::commits::{self, Moment};

use crate::clock::Clock;

/// Time between two reads of the clock's file.
#[cfg(debug_assertions)]
const CLOCK_PERIOD: Duration = Duration::from_millis(10);

/// Watches the writes of this process, if the variable is set.
pub fn watch() {
    #[cfg(debug_assertions)]
    if let Some(file) = std::env::var_os("ANGO_FAIL_POINT") {
        let orders = Mutex::new(Orders::default());
        commits::watch(move |moment| {
            let mut orders = orders.lock();
            if orders.reached(&fs::read_to_string(&file).unwrap_or_default(), moment) {
                // ends the process without any cleanup, like a power failure
                std::process::abort();
            }
        });
    }
}

/// Returns the system's clock, which a thread moves as the test demands, if the variable is set.
pub fn clock() -> Clock {
    let clock = Clock::system();
    #[cfg(debug_assertions)]
    if let Some(file) = std::env::var_os("ANGO_CLOCK_AHEAD") {
        let (moved, mut ahead_s) = (clock.clone(), 0);
        // the node starts at the time that the file says
        follow(&moved, &mut ahead_s, Path::new(&file));
        thread::spawn(move || {
            loop {
                thread::sleep(CLOCK_PERIOD);
                follow(&moved, &mut ahead_s, Path::new(&file));
            }
        });
    }
    clock
}

/// Moves the clock by the difference between `ahead_s` and the number in the file, and stores the number.
#[cfg(debug_assertions)]
fn follow(clock: &Clock, ahead_s: &mut i64, file: &Path) {
    let wanted = fs::read_to_string(file).ok().and_then(|text| text.trim().parse::<i64>().ok());
    let Some(wanted) = wanted else { return };
    let difference = Duration::from_secs(wanted.abs_diff(*ahead_s));
    if wanted > *ahead_s {
        clock.advance(difference)
    } else {
        clock.set_back(difference)
    }
    *ahead_s = wanted;
}

/// The present command, and how many writes have reached the command's moment (before or after) since the test gave it.
#[cfg(debug_assertions)]
#[derive(Default)]
struct Orders {
    order: String,
    reached: u32,
}

#[cfg(debug_assertions)]
impl Orders {
    /// Whether the process must die at this write.
    fn reached(&mut self, order: &str, moment: Moment) -> bool {
        if self.order != order {
            (self.order, self.reached) = (order.to_owned(), 0);
        }
        let mut words = order.split(' ');
        let meant = match words.next() {
            Some("before") => Moment::Before,
            Some("after") => Moment::After,
            _ => return false,
        };
        self.reached += u32::from(meant == moment);
        meant == moment && words.next().and_then(|count| count.parse().ok()) == Some(self.reached)
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_for_one_moment_of_the_write_of_its_number_from_then_on() {
        let mut orders = Orders::default();
        assert!(!orders.reached("", Moment::Before));
        assert!(!orders.reached("before 2 a", Moment::Before));
        assert!(!orders.reached("before 2 a", Moment::After));
        assert!(orders.reached("before 2 a", Moment::Before));
        assert!(!orders.reached("before 2 b", Moment::Before));
        assert!(!orders.reached("after 1 c", Moment::Before));
        assert!(orders.reached("after 1 c", Moment::After));
    }

    #[test]
    fn the_clock_is_ahead_as_the_file_says() {
        let folder = tempfile::tempdir().unwrap();
        let (file, clock) = (folder.path().join("ahead"), Clock::system());
        let mut ahead_s = 0;
        for (text, expected_s) in [("", 0), ("86400", 86_400), ("not a number", 86_400), ("-3600", -3600), ("0", 0)] {
            fs::write(&file, text).unwrap();
            follow(&clock, &mut ahead_s, &file);
            assert_eq!(ahead_s, expected_s);
            let difference_us = clock.now().0 - Clock::system().now().0 - expected_s * 1_000_000;
            assert!(difference_us.abs() < 60_000_000, "{text}: {difference_us}");
        }
    }
}
