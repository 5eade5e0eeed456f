//! The moments around whatever becomes durable, for tests that let the process die there. Debug builds only: a release has
//! neither the watcher nor the calls.

#[cfg(debug_assertions)]
use std::sync::OnceLock;

/// A moment of a write: of a transaction's commit, or of a statement that is a transaction by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Nothing of it can be seen.
    Before,
    /// It is durable, and no caller knows yet.
    After,
}

#[cfg(debug_assertions)]
static WATCHER: OnceLock<Box<dyn Fn(Moment) + Send + Sync>> = OnceLock::new();

/// Calls this at every write of the process from now on. The first watcher stays.
#[cfg(debug_assertions)]
pub fn watch(watcher: impl Fn(Moment) + Send + Sync + 'static) {
    let _ = WATCHER.set(Box::new(watcher));
}

/// A transaction is at this moment.
pub(crate) fn reach(moment: Moment) {
    #[cfg(debug_assertions)]
    if let Some(watcher) = WATCHER.get() {
        watcher(moment);
    }
    #[cfg(not(debug_assertions))]
    let _ = moment;
}
