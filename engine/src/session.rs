//! A key opened for work.

use std::sync::Arc;

use crate::task::KeySource;

/// The callback that is called once, when a session's key is erased everywhere.
pub type OnErased = Box<dyn FnOnce() + Send>;

/// The host's side of a session.
pub(crate) struct Session {
    /// Words of a row of its operands and results.
    pub(crate) row_words: usize,
    /// Taken when the session closes: no device loads from it from then on. A device that loads holds it until it has.
    pub(crate) key: Option<Arc<dyn KeySource>>,
    pub(crate) on_erased: Vec<OnErased>,
}

impl Session {
    pub(crate) fn new(key: Arc<dyn KeySource>) -> Self {
        Self { row_words: key.params().row_words(), key: Some(key), on_erased: Vec::new() }
    }
}
