//! The end of the time that work may take.

use std::sync::atomic::{AtomicBool, Ordering};

/// Tells long work whether somebody still waits for its result. Who runs the work sets the flag, because this crate has
/// no clock. Work asks before each piece that takes up to about a millisecond.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limit<'a>(Option<&'a AtomicBool>);

/// The error of work that was stopped, because nobody waits for its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the work was stopped")
    }
}

impl std::error::Error for Stopped {}

impl<'a> Limit<'a> {
    /// Work that runs to its end.
    pub const NONE: Limit<'static> = Limit(None);

    /// Work that stops when the flag is set.
    pub fn new(is_over: &'a AtomicBool) -> Limit<'a> {
        Limit(Some(is_over))
    }

    /// Whether the work should stop.
    pub fn is_over(self) -> bool {
        self.0.is_some_and(|is_over| is_over.load(Ordering::Relaxed))
    }

    /// Checks whether the work may go on.
    ///
    /// # Errors
    /// When the work should stop.
    pub fn check(self) -> Result<(), Stopped> {
        if self.is_over() { Err(Stopped) } else { Ok(()) }
    }
}
