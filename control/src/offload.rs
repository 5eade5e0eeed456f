//! CPU work of requests (keys, ciphertexts, large JSON): off the async threads, and no more of it at once than there are
//! cores, so that a crowd of uploads takes turns instead of threads.

use std::sync::Arc;
use std::thread;

use tokio::sync::Semaphore;

use crate::error::ApiError;

/// Cores that requests' own work may use.
#[derive(Clone, Debug)]
pub struct Offload {
    cores: Arc<Semaphore>,
}

impl Offload {
    /// As many as the machine has.
    pub fn new() -> Self {
        let cores = thread::available_parallelism().map_or(1, Into::into);
        Self { cores: Arc::new(Semaphore::new(cores)) }
    }

    /// Runs work when a core is free. Work that has begun ends, whether or not anybody waits for it.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
        let core = self.cores.clone().acquire_owned().await.map_err(ApiError::internal)?;
        let result = tokio::task::spawn_blocking(move || {
            let _core = core;
            work()
        });
        Ok(result.await?)
    }
}
