//! The list of work that is computed in parts, for questions about its progress and for words to cancel it.

use std::collections::HashMap;
use std::sync::Arc;

use api::OperationId;
use parking_lot::Mutex;

/// The list of work that is computed in parts, with the gates or steps that its earlier parts have done.
pub type Parts = Arc<Mutex<HashMap<OperationId, u64>>>;

/// Work in the list. Dropping this value takes it out.
pub struct ListedParts {
    pub parts: Parts,
    pub id: OperationId,
}

impl ListedParts {
    /// Notes how much is done. False: the work was cancelled.
    pub(super) fn set_done(&self, done: u64) -> bool {
        self.parts.lock().get_mut(&self.id).map(|listed| *listed = done).is_some()
    }
}

impl Drop for ListedParts {
    fn drop(&mut self) {
        self.parts.lock().remove(&self.id);
    }
}
