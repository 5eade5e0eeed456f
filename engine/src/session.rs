//! An account's key opened for work.

use std::sync::Arc;

use kernels::tfhe::EvaluationKey;

/// A session inside the engine; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u64);

/// Names an account to the engine, which knows nothing else of it: sessions of one account share its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccountId(pub u128);

/// Smallest and largest share of an account under contention (readings P31).
pub const WEIGHTS: std::ops::RangeInclusive<u32> = 1..=64;

/// Told once that a session's key is nowhere any more.
pub type OnErased = Box<dyn FnOnce() + Send>;

/// The host's side of a session. The key is overwritten when its last holder lets go: this one, or the device thread while
/// it loads.
pub(crate) struct Session {
    pub(crate) key: Arc<EvaluationKey>,
    pub(crate) on_erased: Vec<OnErased>,
}

impl Session {
    pub(crate) fn new(key: EvaluationKey) -> Self {
        Self { key: Arc::new(key), on_erased: Vec::new() }
    }

    /// Overwrites the key and returns whom to tell. Not to be done under a lock: a key is megabytes.
    pub(crate) fn erase(self) -> Vec<OnErased> {
        assert_eq!(Arc::strong_count(&self.key), 1, "another holder would keep the key alive");
        self.on_erased
    }
}
