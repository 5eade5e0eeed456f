//! A key opened for work.

use std::sync::Arc;

use crate::task::KeySource;

/// The callback for the end of a session, called once when the session's key is erased everywhere.
pub type OnErased = Box<dyn FnOnce() + Send>;

/// The host's record of a session.
pub(crate) struct Session {
    /// Number of words of a row of operands or results.
    pub(crate) row_words: usize,
    /// The source of the key. It is dropped when the session closes, so that no device loads from it afterwards. A
    /// device that is loading then keeps the source until the load has ended.
    pub(crate) key: Option<Arc<dyn KeySource>>,
    pub(crate) on_erased: Vec<OnErased>,
}

impl Session {
    pub(crate) fn new(key: Arc<dyn KeySource>) -> Self {
        Self { row_words: key.params().row_words(), key: Some(key), on_erased: Vec::new() }
    }
}
