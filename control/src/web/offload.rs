//! Runs the CPU work of requests (keys, ciphertexts, large JSON) outside the async threads, on at most as many threads
//! as the machine has cores. Accounts take turns ([`Resource::turns`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use docs_module::limit::Limit;

use crate::resource::{Grant, Payer, Resource};
use crate::web::edge::Deadline;
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

    /// Like [`Offload::run`], for work that stops when its limit is over: at the deadline, or when the request no longer
    /// waits. Fails with 503 at the deadline (readings E9).
    pub async fn run_within<T: Send + 'static>(
        &self,
        payer: Payer,
        Deadline(deadline): Deadline,
        work: impl FnOnce(Limit<'_>) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let late = || ApiError::unavailable("deadline", "the work did not finish in time; nothing was charged");
        if Instant::now() >= deadline {
            return Err(late());
        }
        let ending = SetOnDrop(Arc::default());
        let is_over = ending.0.clone();
        let running = self.run(payer, move || work(Limit::new(&is_over)));
        tokio::time::timeout_at(deadline.into(), running).await.map_err(|_| late())?
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

/// A flag that is set when the request no longer waits.
struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
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
    use tokio::sync::mpsc;

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

    /// Work that runs until its limit is over. Tells when it begins and when it ends.
    fn endless(told: mpsc::UnboundedSender<&'static str>) -> impl FnOnce(Limit<'_>) + Send + 'static {
        move |limit| {
            told.send("begun").unwrap();
            while !limit.is_over() {
                thread::yield_now();
            }
            told.send("stopped").unwrap();
        }
    }

    #[tokio::test]
    async fn a1_work_stops_when_its_request_is_gone() {
        let offload = Offload::new();
        let (told, mut heard) = mpsc::unbounded_channel();
        let deadline = Deadline(Instant::now() + Duration::from_secs(3600));
        let payer = Payer::account(AccountId::from_bits(1));
        let mut running = Box::pin(offload.run_within(payer.clone(), deadline, endless(told)));
        tokio::select! {
            _ = &mut running => panic!("the work ended before its request"),
            begun = heard.recv() => assert_eq!(begun, Some("begun")),
        }
        drop(running);
        assert_eq!(heard.recv().await, Some("stopped"));
        assert_eq!(heard.recv().await, None);
        // work that ends in time has its result
        assert!(!offload.run_within(payer, deadline, |limit| limit.is_over()).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn e9_work_stops_at_the_deadline_and_is_answered_503() {
        let offload = Offload::new();
        let payer = Payer::account(AccountId::from_bits(1));
        let (told, mut heard) = mpsc::unbounded_channel();
        let deadline = Deadline(Instant::now() + Duration::from_secs(3600));
        let mut running = Box::pin(offload.run_within(payer.clone(), deadline, endless(told)));
        tokio::select! {
            _ = &mut running => panic!("the deadline is not over"),
            begun = heard.recv() => assert_eq!(begun, Some("begun")),
        }
        tokio::time::advance(Duration::from_secs(3601)).await;
        let late = running.await.unwrap_err();
        assert_eq!((late.code, late.reason), (Code::ServiceUnavailable, "deadline"));
        assert_eq!(heard.recv().await, Some("stopped"));
        // after the deadline no work begins
        let never = |_: Limit<'_>| panic!("the deadline is over");
        let late = offload.run_within(payer, Deadline(Instant::now()), never).await.unwrap_err();
        assert_eq!((late.code, late.reason), (Code::ServiceUnavailable, "deadline"));
    }
}
