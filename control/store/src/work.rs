//! A kind of work that a writer does for its callers, many of them in one transaction (`writers.rs`).

use crate::Result;
use crate::database::Tx;

/// A kind of work that a writer does for a caller.
pub(crate) trait Work: Send + Sync + Sized + 'static {
    /// The answer that the caller gets after the commit.
    type Answer: Send + 'static;

    /// Returns the key that chooses the writer. Works with equal shards run in the order of their arrival.
    fn shard(&self) -> &[u8];

    /// Runs all works, or fails at the first work that cannot be done. If `run` fails, the transaction is undone.
    fn run(tx: &mut Tx, works: &[&Self]) -> impl Future<Output = Result<Vec<Self::Answer>>> + Send;
}
