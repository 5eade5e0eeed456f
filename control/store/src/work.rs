//! A kind of work that a writer does for its callers, many of them in one transaction (`writers.rs`).

use crate::Result;
use crate::database::Tx;

/// What a writer does for one caller.
pub(crate) trait Work: Send + Sync + Sized + 'static {
    /// What the caller is told after the commit.
    type Answer: Send + 'static;

    /// Works with equal shards are done in the order in which they came.
    fn shard(&self) -> &[u8];

    /// Runs all of them, or fails as soon as one cannot be done: then the transaction is undone.
    fn run(tx: &mut Tx, works: &[&Self]) -> impl Future<Output = Result<Vec<Self::Answer>>> + Send;
}
