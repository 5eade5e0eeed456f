//! Fail points: a test makes the process die at its n-th write, just before or just after the write becomes durable.
//!
//! `ANGO_FAIL_POINT` is the path of a file to which the test may write a command at any time. From then on writes are
//! counted: with the command `before 2 a` the process dies before the second write, with `after 1 b` after the first.
//! The third part only makes a command differ from the previous command. Writes are counted at the database, not at
//! places in the code, so that no write is missed. The variable is not a setting, because operators do not need it, and
//! release builds ignore it.

#[cfg(debug_assertions)]
use std::fs;

#[cfg(debug_assertions)]
use parking_lot::Mutex;
#[cfg(debug_assertions)]
use store::commits::{self, Moment};

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
}
