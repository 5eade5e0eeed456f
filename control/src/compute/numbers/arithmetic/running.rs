//! An operation from its submission to its charge.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::circuits::OperationStatus;
use api::compute::ComputeOperation;
use api::{CiphertextId, Code, OperationId};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use store::{
    ArithmeticOperationEnd, ArithmeticUsage, EncryptionKey, NewArithmeticOperation, NewCiphertext, NewEvent, Unit,
};

use super::prepare::Prepared;
use crate::billing::charge::{microseconds, milliseconds};
use crate::billing::compute_units::OperationPrice;
use crate::billing::ledger::{PaidBy, Reservation};
use crate::caller::Caller;
use crate::clock::Timestamp;
use crate::compute::Compute;
use crate::compute::numbers::ciphertexts::{ROOM_ATTEMPTS, no_room};
use crate::compute::numbers::keys::{or_deleted, unknown_key};
use crate::compute::numbers::vault::{Pinned, Shelf};
use crate::compute::operation::life::{self, Asked};
use crate::compute::operation::running::{Counted, Running, TooMany};
use crate::events::{EventType, event};
use crate::ids;
use crate::in_flight::Guard;
use crate::resource::Payer;
use crate::web::base64_text;
use crate::web::body::Reserved;
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;
use crate::web::octets;
use crate::web::prefer::PREFERENCE_APPLIED;
use crate::work::numbers::{OpenNumbersKey, Operation, ResultFacts, Tail};
use crate::work::{self, Ending, Figures, RunError, WorkEnd};

/// Largest number of operations that one account may run in the background at the same time.
const BACKGROUND_MAX: usize = 64;
/// If less than this percentage of the noise budget is left, the answer has a warning (specification, Compute).
const WARNING_PERCENT: f64 = 50.0;
const BUDGET_REMAINING: HeaderName = HeaderName::from_static("x-noise-budget-remaining");
const BUDGET_WARNING: HeaderName = HeaderName::from_static("x-noise-budget-warning");
const BUDGET_RECOVERY: HeaderName = HeaderName::from_static("x-noise-budget-recovery");

/// The form in which the client wants its answer.
pub struct Reply {
    /// Stores the answer in one unit with the operation's result.
    pub claim: Claim,
    /// Whether the answer is an octet-stream.
    pub octets: bool,
    /// Whether the answer contains the result's bytes.
    pub with_result: bool,
    /// Whether the client waits for the operation's end.
    pub waits: bool,
}

/// Computes a request.
pub async fn run(
    compute: Arc<Compute>,
    caller: Caller,
    prepared: Prepared,
    deadline: Instant,
    reply: Reply,
) -> Result<Response, ApiError> {
    life::answer(submit(compute, caller, prepared, deadline, reply).await?).await
}

/// Reserves the price of an operation and submits the operation to the worker. No await stands between the submission
/// and the return.
async fn submit(
    compute: Arc<Compute>,
    caller: Caller,
    Prepared { operation, record, key, planned, pinned, reserved }: Prepared,
    deadline: Instant,
    reply: Reply,
) -> Result<Submitted, ApiError> {
    let facts = planned.result;
    check_room(&compute, &caller, key.result_bytes(&facts), compute.vault.pinned()).await?;
    let created_at = compute.clock.now();
    let op_id = ids::operation(created_at);
    let counted = (!reply.waits).then(|| Counted::Background(caller.account.clone()));
    let running = compute.operations.begin(op_id.clone(), counted, BACKGROUND_MAX).map_err(|TooMany| {
        let message =
            format!("the account already runs {BACKGROUND_MAX} operations in the background: wait until one has ended");
        ApiError::new(Code::RateLimited, message).retry_after(Duration::from_secs(1))
    })?;
    let price = OperationPrice::of(operation, compute.ledger.rate());
    let reservation = compute.ledger.reserve_units(&PaidBy::from(&caller), &price, created_at).await?;
    let work = key.work(op_id.clone(), planned, deadline);
    let end = work::ask(&compute.worker, work, key.result_shape(&facts)).map_err(|error| match error.into() {
        RunError::Api(error) => error,
        RunError::Gone => unknown_key(),
    })?;
    let operation = OperationContext {
        reservation,
        _unfinished: compute.unfinished.enter(),
        _running: running,
        compute,
        caller,
        record,
        key,
        operation,
        price,
        facts,
        op_id,
        created_at,
        reply,
        started: Instant::now(),
        _pinned: pinned,
    };
    Ok(Submitted { operation, end, reserved })
}

/// Lists the ciphertexts that would be evicted for a result of `bytes` bytes, none of them pinned. Refuses an operation
/// if there is no room.
pub async fn check_room(
    compute: &Compute,
    caller: &Caller,
    bytes: u64,
    pinned: Vec<String>,
) -> Result<Vec<String>, ApiError> {
    compute.vault.check_room(Shelf::Ciphertexts, bytes)?;
    let (bytes, bytes_max) = (bytes as i64, ciphertext_bytes_max(compute, caller));
    let plan = compute.store.eviction_plan(caller.account.as_str(), bytes, bytes_max, &pinned).await?;
    plan.ok_or_else(no_room)
}

/// Returns the largest size in bytes that the account's ciphertexts may have together. `None`: no limit.
fn ciphertext_bytes_max(compute: &Compute, caller: &Caller) -> Option<i64> {
    let cache = compute.limits.of(caller.plan).ciphertext_cache_bytes();
    compute.vault.ciphertext_bytes_of(cache).map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX))
}

/// An operation that was submitted to the worker.
struct Submitted {
    operation: OperationContext,
    end: Ending,
    reserved: Reserved,
}

impl Asked for Submitted {
    fn compute(&self) -> &Compute {
        &self.operation.compute
    }

    fn client_waits(&self) -> bool {
        self.operation.reply.waits
    }

    async fn put_on_record(&mut self) -> Result<Response, ApiError> {
        let operation = &self.operation;
        let answer = operation.answer("pending", None, &[])?;
        let (answer, keep) = operation.reply.claim.keep(([PREFERENCE_APPLIED], answer).into_response()).await?;
        operation.compute.store.submit(Unit { arithmetic: Some(operation.as_new()), keep, ..Unit::default() }).await?;
        Ok(answer)
    }

    async fn finish(self) -> Result<Option<Response>, ApiError> {
        let Submitted { operation, end, reserved } = self;
        let finished = match end.await {
            WorkEnd::Completed { results, figures: Figures { compute, .. } } => {
                operation.complete(results.words, compute).await
            }
            WorkEnd::Cancelled(_) => {
                Err(ApiError::new(Code::Conflict, "the operation was cancelled; nothing was charged"))
            }
            WorkEnd::Failed(error) => Err(match error.into() {
                RunError::Api(error) => error,
                RunError::Gone => unknown_key(),
            }),
        };
        drop(reserved);
        let finished = match finished {
            Err(error) if error.code != Code::Conflict => Err(operation.or_deleted(error).await),
            finished => finished,
        };
        if let Err(error) = &finished {
            operation.reservation.give_back().await;
            if !operation.reply.waits {
                operation.end_uncharged(error).await;
            }
        }
        finished.map(|answer| operation.reply.waits.then_some(answer))
    }

    fn abandon(self) {
        self.operation.compute.worker.cancel(&self.operation.op_id);
    }
}

/// The state of an operation from its start to its end.
struct OperationContext {
    /// The reservation of the operation's price. Dropped before `_unfinished`, so that a stopping node waits until the
    /// reservation is given back.
    reservation: Reservation,
    /// Keeps a stopping node waiting for this operation.
    _unfinished: Guard,
    _running: Running,
    compute: Arc<Compute>,
    caller: Caller,
    record: EncryptionKey,
    key: Arc<OpenNumbersKey>,
    operation: Operation,
    price: OperationPrice,
    facts: ResultFacts,
    op_id: OperationId,
    created_at: Timestamp,
    reply: Reply,
    started: Instant,
    _pinned: Pinned,
}

/// A result that was stored in the vault.
struct PutResult {
    id: CiphertextId,
    object: String,
    bytes: Vec<u8>,
    compute: Duration,
}

impl OperationContext {
    async fn or_deleted(&self, error: ApiError) -> ApiError {
        or_deleted(&self.compute, &self.caller.account, &self.record.key_id, error).await
    }

    /// Stores the result and charges the operation, both or neither.
    async fn complete(&self, words: Vec<u32>, compute: Duration) -> Result<Response, ApiError> {
        let (key, facts, payer) = (self.key.clone(), self.facts, Payer::from(&self.caller));
        let bytes = self.compute.offload.finish(payer.clone(), move || key.write(&facts, words)).await?;
        let id = ids::ciphertext(self.compute.clock.now());
        let label = id.as_str().to_owned();
        let vault = &self.compute.vault;
        let object = vault.put(Shelf::Ciphertexts, &payer, &self.caller.account, label, bytes.clone()).await?;
        let result = PutResult { id, object, bytes, compute };
        let booked = self.book(&result).await;
        match &booked {
            Ok(_) => {
                self.reservation.keep();
                self.compute.telemetry.operation_charged(self.operation.name(), self.price.units, compute);
            }
            Err(_) => vault.take_back(Shelf::Ciphertexts, [result.object]).await,
        }
        if let Err(error) = vault.erase_dropped().await {
            tracing::warn!(%error, "evicted ciphertexts could not be erased and will be erased later");
        }
        booked
    }

    /// Chooses the ciphertexts to evict so that the result has room. Then writes the evictions, the result and the
    /// operation's charge as one unit (readings K14, P24).
    async fn book(&self, result: &PutResult) -> Result<Response, ApiError> {
        let (compute, account) = (&self.compute, self.caller.account.as_str());
        let (bytes, bytes_max) = (result.bytes.len() as i64, ciphertext_bytes_max(compute, &self.caller));
        for _ in 0..ROOM_ATTEMPTS {
            let pinned = compute.vault.pinned();
            let evicted = compute.store.eviction_plan(account, bytes, bytes_max, &pinned).await?.ok_or_else(no_room)?;
            let answer = self.answer("COMPLETED", Some(result), &evicted)?;
            let (answer, keep) = if self.reply.waits { self.reply.claim.keep(answer).await? } else { (answer, None) };
            let now = compute.clock.now();
            let unit = Unit {
                arithmetic: Some(self.as_new()),
                arithmetic_end: Some(ArithmeticOperationEnd {
                    result_ciphertext_id: Some(result.id.as_str().to_owned()),
                    cost_fcu: self.price.units as i64,
                    ..self.end(OperationStatus::Completed, result.compute, now)
                }),
                ciphertext: Some(self.new_ciphertext(result, bytes_max, evicted, now)),
                arithmetic_charge: Some(self.usage(result.compute, now)),
                posting: self.reservation.posting(now),
                event: Some(self.completed_event(result, now)),
                counts: self.reservation.counts(vec![(self.operation.name().to_owned(), 1)]),
                keep,
                ..Unit::default()
            };
            match compute.store.submit(unit).await {
                Ok(()) => return Ok(answer),
                // another ciphertext of the account has taken the room: choose again which ciphertexts to evict
                Err(store::Error::NoRoom) => {}
                // readings K15: the key was deleted, so the result is discarded
                Err(store::Error::KeyGone) => return Err(unknown_key()),
                Err(error) => return Err(error.into()),
            }
        }
        Err(ApiError::unavailable(
            "ciphertexts",
            "too many ciphertexts of this account are being stored right now; try again later",
        ))
    }

    /// Makes the event that announces the result to webhooks.
    fn completed_event(&self, result: &PutResult, now: Timestamp) -> NewEvent {
        let data = json!({
            "job_id": self.op_id.as_str(),
            "operation": self.operation.name(),
            "result_ciphertext_id": result.id.as_str(),
            "compute_time_ms": milliseconds(result.compute),
            "cost_jpy": self.price.cost_jpy(),
            "noise_budget_remaining": self.facts.budget_percent,
        });
        event(&self.caller.account, EventType::ComputeComplete, &data, now)
    }

    /// Records that an operation ended without a result. Nothing is charged (readings P24).
    async fn end_uncharged(&self, error: &ApiError) {
        let status = if error.code == Code::Conflict { OperationStatus::Cancelled } else { OperationStatus::Failed };
        let cause =
            (status == OperationStatus::Failed).then(|| (error.code.as_str().to_owned(), error.message.clone()));
        let end = ArithmeticOperationEnd {
            error: cause,
            ..self.end(status, self.started.elapsed(), self.compute.clock.now())
        };
        match self.compute.store.submit(Unit { arithmetic_end: Some(end), ..Unit::default() }).await {
            Ok(()) | Err(store::Error::OperationEnded) => {}
            Err(cause) => {
                tracing::error!(%cause, op_id = self.op_id.as_str(), "an operation's end could not be recorded")
            }
        }
    }

    /// Writes the answer, with the noise budget in its headers.
    fn answer(&self, status: &str, result: Option<&PutResult>, evicted: &[String]) -> Result<Response, ApiError> {
        let is_bootstrap = self.operation == Operation::Bootstrap;
        let evicted = evicted.iter().map(|id| id.parse()).collect::<Result<_, _>>().map_err(ApiError::internal)?;
        let shown = result.filter(|_| self.reply.with_result);
        let told = ComputeOperation {
            op_id: self.op_id.clone(),
            job_id: self.op_id.clone(),
            status: status.to_owned(),
            operation: self.operation.name().to_owned(),
            result_ciphertext_id: result.map(|result| result.id.clone()),
            result_ciphertext: shown.filter(|_| !self.reply.octets).map(|result| base64_text::encode(&result.bytes)),
            compute_time_ms: result.map(|result| milliseconds(result.compute)),
            noise_budget_remaining: self.facts.budget_percent,
            levels_remaining: self.facts.levels_remaining as u64,
            precision_bits: self.facts.precision_bits,
            evicted_ciphertext_ids: evicted,
            cost_units: self.price.units,
            cost_jpy: self.price.cost_jpy(),
            bootstrap_applied: is_bootstrap,
            bootstrap_effective_degree: is_bootstrap.then_some(self.facts.level as u64),
            bootstrap_degraded: self.facts.degraded,
        };
        let written = if self.reply.octets {
            octets::write_head_and_bytes(&told, shown.map(|result| result.bytes.clone()).unwrap_or_default())?
        } else {
            octets::write_json(&told)?
        };
        let mut answer = written.respond(StatusCode::OK);
        let bootstraps = !is_bootstrap && self.key.bootstraps();
        tell_noise_budget(answer.headers_mut(), self.facts.budget_percent, bootstraps)?;
        Ok(answer)
    }

    fn as_new(&self) -> NewArithmeticOperation {
        NewArithmeticOperation {
            op_id: self.op_id.as_str().to_owned(),
            account_id: self.caller.account.as_str().to_owned(),
            key_id: self.record.key_id.clone(),
            environment: self.caller.environment,
            node_id: self.compute.sessions.node_id.clone(),
            operation: self.operation.name().to_owned(),
            created_at: self.created_at.0,
        }
    }

    fn end(&self, status: OperationStatus, took: Duration, now: Timestamp) -> ArithmeticOperationEnd {
        ArithmeticOperationEnd {
            op_id: self.op_id.as_str().to_owned(),
            status,
            result_ciphertext_id: None,
            cost_fcu: 0,
            compute_us: microseconds(took),
            error: None,
            ended_at: now.0,
        }
    }

    fn new_ciphertext(
        &self,
        result: &PutResult,
        bytes_max: Option<i64>,
        evicted: Vec<String>,
        now: Timestamp,
    ) -> NewCiphertext {
        NewCiphertext {
            ciphertext_id: result.id.as_str().to_owned(),
            account_id: self.caller.account.as_str().to_owned(),
            key_id: self.record.key_id.clone(),
            environment: self.caller.environment,
            origin: self.operation.name().to_owned(),
            slot_count: self.key.params().slots() as i64,
            level: self.facts.level as i64,
            scale: self.facts.scale,
            value_bound: self.facts.value_bound,
            variance: self.facts.variance,
            mixed: self.facts.tail == Tail::Mixed,
            sources: self.facts.sources.to_bytes(),
            object: result.object.clone(),
            node_id: self.compute.vault.place().to_owned(),
            bytes: result.bytes.len() as i64,
            seeded: None,
            bytes_max,
            evicted,
            now: now.0,
        }
    }

    fn usage(&self, compute: Duration, now: Timestamp) -> ArithmeticUsage {
        ArithmeticUsage {
            usage_id: ids::usage(now).as_str().to_owned(),
            transfer_id: self.reservation.transfer_id(),
            account_id: self.caller.account.as_str().to_owned(),
            key_id: self.record.key_id.clone(),
            environment: self.caller.environment,
            operation: self.operation.name().to_owned(),
            fcu: self.price.units as i64,
            cost_nano_usd: self.price.cost.0,
            usd_milli_jpy: self.price.rate.0,
            compute_us: microseconds(compute),
            created_at: now.0,
        }
    }
}

/// Adds headers that tell the remaining noise budget (specification, Compute; readings C11). `bootstraps`: a bootstrap
/// under the key would give more budget.
fn tell_noise_budget(headers: &mut HeaderMap, percent: f64, bootstraps: bool) -> Result<(), ApiError> {
    let warning = percent < WARNING_PERCENT;
    let remaining = HeaderValue::from_str(&percent.to_string()).map_err(ApiError::internal)?;
    headers.insert(BUDGET_REMAINING, remaining);
    headers.insert(BUDGET_WARNING, HeaderValue::from_static(if warning { "true" } else { "false" }));
    if warning {
        let hint = if bootstraps {
            "bootstrap the ciphertext, or encrypt the numbers again, before many more operations"
        } else {
            "encrypt the numbers again before many more operations; a key with a larger max_depth allows more of them"
        };
        headers.insert(BUDGET_RECOVERY, HeaderValue::from_static(hint));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c11_less_than_half_of_the_noise_budget_is_warned_of() {
        for (percent, told, warning) in
            [(100.0, "100", false), (50.0, "50", false), (49.9, "49.9", true), (0.0, "0", true)]
        {
            let mut headers = HeaderMap::new();
            tell_noise_budget(&mut headers, percent, true).unwrap();
            assert_eq!(headers[BUDGET_REMAINING], told);
            assert_eq!(headers[BUDGET_WARNING], if warning { "true" } else { "false" });
            assert_eq!(headers.contains_key(BUDGET_RECOVERY), warning);
            // no bootstrap is advised where none can be had
            tell_noise_budget(&mut headers, percent, false).unwrap();
            let hint = headers.get(BUDGET_RECOVERY).map(|hint| hint.to_str().unwrap());
            assert!(hint.is_none_or(|hint| hint.contains("encrypt") && !hint.contains("bootstrap")), "{hint:?}");
        }
    }
}
