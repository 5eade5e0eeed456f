//! The moments around every commit, for tests that kill the process there. Only in debug builds: a release has neither
//! the watcher nor the calls.

#[cfg(debug_assertions)]
use std::sync::OnceLock;

/// A moment around a write: around a transaction's commit, or around a statement outside of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before the write is visible.
    Before,
    /// The write is durable, but its caller does not know yet.
    After,
}

#[cfg(debug_assertions)]
static WATCHER: OnceLock<Box<dyn Fn(Moment) + Send + Sync>> = OnceLock::new();

/// Calls the watcher at every write of the process from now on. Only the first call counts.
#[cfg(debug_assertions)]
pub fn watch(watcher: impl Fn(Moment) + Send + Sync + 'static) {
    let _ = WATCHER.set(Box::new(watcher));
}

/// Calls the watcher for this moment.
pub(crate) fn reach(moment: Moment) {
    #[cfg(debug_assertions)]
    if let Some(watcher) = WATCHER.get() {
        watcher(moment);
    }
    #[cfg(not(debug_assertions))]
    let _ = moment;
}
