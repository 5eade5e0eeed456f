//! Runs the CPU work of requests (keys, ciphertexts, large JSON) outside the async threads, on at most as many threads
//! as the machine has cores. Accounts take turns ([`Resource::turns`]).

use std::thread;
use std::time::Duration;

use crate::resource::{Grant, Payer, Resource};
use crate::web::error::ApiError;

/// How long a request waits for a core before it is refused.
const PATIENCE: Duration = Duration::from_secs(30);

/// The cores for the CPU work of requests.
#[derive(Clone, Debug)]
pub struct Offload {
    cores: Resource,
}

impl Offload {
    /// Creates a budget with one turn for each core of the machine.
    pub fn new() -> Self {
        let cores = thread::available_parallelism().map_or(1, Into::into);
        Self { cores: Resource::turns(cores as u64) }
    }

    /// Runs work when a core is free. Fails with 503 if no core is free within `PATIENCE`. Work that has begun runs to
    /// its end, even if its request no longer waits.
    pub async fn run<T: Send + 'static>(
        &self,
        payer: Payer,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let turn = self.cores.take_within(&payer, 1, PATIENCE).await.map_err(|_| {
            ApiError::unavailable("cores", "the node is busy with other requests; try again later")
                .retry_after(Duration::from_secs(2))
        })?;
        on_core(turn, work).await
    }

    /// Like [`Offload::run`] but waits without a limit, for the last step of work that would be lost otherwise.
    pub async fn finish<T: Send + 'static>(
        &self,
        payer: Payer,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let turn = self
            .cores
            .take(&payer, 1)
            .await
            .map_err(|_| ApiError::internal("the budget of cores is less than one core"))?;
        on_core(turn, work).await
    }
}

async fn on_core<T: Send + 'static>(turn: Grant, work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    let result = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        work()
    });
    Ok(result.await?)
}

#[cfg(test)]
mod tests {
    use api::{AccountId, Code};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_that_gets_no_core_for_half_a_minute_is_told_to_come_back() {
        let offload = Offload { cores: Resource::turns(1) };
        let payer = Payer::account(AccountId::from_bits(1));
        let held = offload.cores.try_take(&payer, 1).unwrap();
        let refused = offload.run(payer.clone(), || ()).await.unwrap_err();
        assert_eq!((refused.code, refused.retry_after_s), (Code::ServiceUnavailable, Some(2)));
        drop(held);
        assert_eq!(offload.run(payer.clone(), || 7).await.unwrap(), 7);
        assert_eq!(offload.finish(payer.clone(), || 8).await.unwrap(), 8);
        assert_eq!(offload.cores.used(), 0);
    }
}
