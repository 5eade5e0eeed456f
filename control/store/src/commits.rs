//! The moments before and after every commit, for tests that kill the process at such a moment. Only in debug builds: a
//! release has neither the watcher nor the calls.

#[cfg(debug_assertions)]
use std::sync::OnceLock;

/// A moment before or after a write. A write is a transaction's commit, or a statement outside of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before the write is visible.
    Before,
    /// The write is durable, but the caller does not know this yet.
    After,
}

#[cfg(debug_assertions)]
static WATCHER: OnceLock<Box<dyn Fn(Moment) + Send + Sync>> = OnceLock::new();

/// Sets the function that is called before and after every later write of the process. Only the first call of `watch`
/// has an effect.
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
