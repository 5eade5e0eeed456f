//! An operation on numbers: the parts of its life that other kinds of operations do not have.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::CiphertextId;
use api::compute::ComputeOperation;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::{
    ArithmeticOutcome, ArithmeticUsage, NewArithmetic, NewCiphertext, NewEvent, NewOperationOf, Outcome, RecordedOf,
    Unit,
};

use super::prepare::Prepared;
use crate::billing::charge::{microseconds, milliseconds};
use crate::billing::compute_units::{OperationPrice, UsdRate};
use crate::billing::ledger::{PaidBy, wanted_units};
use crate::caller::Caller;
use crate::clock::Timestamp;
use crate::compute::Compute;
use crate::compute::numbers::ciphertexts::{ROOM_ATTEMPTS, no_room, unknown_ciphertext};
use crate::compute::numbers::keys::{or_deleted, unknown_key};
use crate::compute::numbers::vault::{Pinned, Shelf};
use crate::compute::operation::life::line::{self, Booking, Taken};
use crate::compute::operation::life::{self, Begun, Kind, Reply};
use crate::compute::operation::running::Counted;
use crate::events::{EventType, event};
use crate::ids;
use crate::resource::Payer;
use crate::web::base64_text;
use crate::web::body::Reserved;
use crate::web::error::ApiError;
use crate::web::octets;
use crate::work::numbers::{OpenNumbersKey, Operation, ResultFacts, Tail};
use crate::work::{Figures, Gate, KeyName, Rows, Work};

/// Largest number of operations that one account may run in the background at the same time.
const BACKGROUND_MAX: usize = 64;
/// If less than this percentage of the noise budget is left, the answer has a warning (specification, Compute).
const WARNING_PERCENT: f64 = 50.0;
const BUDGET_REMAINING: HeaderName = HeaderName::from_static("x-noise-budget-remaining");
const BUDGET_WARNING: HeaderName = HeaderName::from_static("x-noise-budget-warning");
const BUDGET_RECOVERY: HeaderName = HeaderName::from_static("x-noise-budget-recovery");

/// Computes a request. `with_result`: the answer contains the result's bytes.
pub async fn run(
    compute: &Arc<Compute>,
    caller: Caller,
    Prepared { operation, record, key, planned, pinned, reserved }: Prepared,
    deadline: Instant,
    reply: Reply,
    with_result: bool,
) -> Result<Response, ApiError> {
    let facts = planned.result;
    let by = PaidBy::from(&caller);
    check_room(compute, &by, key.result_bytes(&facts), compute.vault.pinned()).await?;
    let price = OperationPrice::of(operation, compute.ledger.rate());
    let counted = ((!reply.waits).then(|| Counted::Background(caller.account.clone())), BACKGROUND_MAX);
    let begun = life::begin(compute, &by, reply, counted, wanted_units(&by, &price)).await?;
    let result_id = ids::ciphertext(compute.clock.now());
    let results = vec![key.named(&facts, &result_id)];
    let work = Work { results, ..key.work(begun.op_id.clone(), planned, deadline) };
    let shape = key.result_shape(&facts);
    let (key_id, _reserved) = (record.key_id, Some(reserved));
    let kind =
        Arithmetic { by, key_id, key, operation, price, facts, result_id, with_result, _pinned: pinned, _reserved };
    life::run(begun, kind, work, shape).await
}

/// The facts with which another node of a fleet books an operation, besides the operation's record.
#[derive(Serialize, Deserialize)]
struct ArithmeticBooking {
    usd_milli_jpy: i64,
}

/// Computes an operation that this node has released from the waiting line, and books its end.
pub async fn resume(compute: &Arc<Compute>, taken: &Taken, record: &store::Arithmetic) -> Result<(), ApiError> {
    let ArithmeticBooking { usd_milli_jpy } = taken.of()?;
    let operation = Operation::from_name(&record.operation);
    let operation = operation.ok_or_else(|| ApiError::internal("an operation of an unknown name"))?;
    let by = taken.by.clone();
    // this node may remember the shape of a key that was deleted through another node
    let exists = ApiError::unavailable("key", "the key exists");
    let checked = or_deleted(compute, &by.account, &record.key_id, exists).await;
    if checked.code == unknown_key().code {
        return Err(checked);
    }
    let share = compute.workers.share(&by.account, by.plan);
    let key_id = record.key_id.parse().map_err(ApiError::internal)?;
    let work = line::read_object(compute, taken).await?;
    let pinned = compute.vault.pin(work.question.ciphertext_ids());
    let opened = compute.workers.open_numbers(KeyName::of_numbers_key(share, &key_id), share).await;
    let key = match opened {
        Ok(key) => Arc::new(key),
        Err(error) => return Err(or_deleted(compute, &by.account, &record.key_id, error).await),
    };
    let planning = key.clone();
    let planned = compute.offload.finish(Payer::from(&by), move || planning.plan_again(work));
    let (work, facts) = planned.await??;
    let (shape, result_id) = (key.result_shape(&facts), ids::ciphertext(compute.clock.now()));
    let work = Work { results: vec![key.named(&facts, &result_id)], ..work };
    let kind = Arithmetic {
        by,
        key_id: record.key_id.clone(),
        key,
        operation,
        price: OperationPrice::of(operation, UsdRate(usd_milli_jpy)),
        facts,
        result_id,
        with_result: false,
        _pinned: pinned,
        _reserved: None,
    };
    line::compute_and_book(compute, taken, kind, work, shape).await
}

/// Lists the ciphertexts that would be evicted for a result of `bytes` bytes, none of them pinned. Refuses an operation
/// if there is no room.
pub async fn check_room(
    compute: &Compute,
    by: &PaidBy,
    bytes: u64,
    pinned: Vec<String>,
) -> Result<Vec<String>, ApiError> {
    compute.vault.check_room(Shelf::Ciphertexts, bytes)?;
    let (bytes, bytes_max) = (bytes as i64, ciphertext_bytes_max(compute, by));
    let plan = compute.store.eviction_plan(by.account.as_str(), bytes, bytes_max, &pinned).await?;
    plan.ok_or_else(no_room)
}

/// Returns the largest size in bytes that the account's ciphertexts may have together. `None`: no limit.
fn ciphertext_bytes_max(compute: &Compute, by: &PaidBy) -> Option<i64> {
    let cache = compute.limits.of(by.plan).ciphertext_cache_bytes();
    compute.vault.ciphertext_bytes_of(cache).map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX))
}

/// An operation from its start to its end.
struct Arithmetic {
    by: PaidBy,
    key_id: String,
    key: Arc<OpenNumbersKey>,
    operation: Operation,
    price: OperationPrice,
    facts: ResultFacts,
    /// The id that the result gets.
    result_id: CiphertextId,
    with_result: bool,
    _pinned: Pinned,
    _reserved: Option<Reserved>,
}

/// A result that was stored in the vault.
struct PutResult {
    id: CiphertextId,
    object: String,
    bytes: Vec<u8>,
    compute: Duration,
}

impl Kind for Arithmetic {
    fn as_new(&self) -> NewOperationOf {
        NewOperationOf::Arithmetic(NewArithmetic {
            key_id: self.key_id.clone(),
            environment: self.by.environment,
            operation: self.operation.name().to_owned(),
        })
    }

    fn pending(&self, begun: &Begun) -> Result<Response, ApiError> {
        self.answer(begun, "pending", None, &[])
    }

    /// Stores the result and charges the operation, both or neither.
    async fn complete(&mut self, begun: &Begun, results: Rows, figures: Figures) -> Result<Option<Response>, ApiError> {
        let (key, facts, payer, took) = (self.key.clone(), self.facts, Payer::from(&self.by), figures.compute);
        let compute = &begun.compute;
        let bytes = compute.offload.finish(payer.clone(), move || key.write(&facts, results.words)).await?;
        let id = self.result_id.clone();
        let label = id.as_str().to_owned();
        let vault = &compute.vault;
        let object = vault.put(Shelf::Ciphertexts, &payer, &self.by.account, label, bytes.clone()).await?;
        let result = PutResult { id, object, bytes, compute: took };
        let booked = self.book(begun, &result).await;
        match &booked {
            Ok(_) => compute.telemetry.operation_charged(self.operation.name(), self.price.units, took),
            Err(_) => vault.take_back(Shelf::Ciphertexts, [result.object]).await,
        }
        if let Err(error) = vault.erase_dropped().await {
            tracing::warn!(%error, "evicted ciphertexts could not be erased and will be erased later");
        }
        booked.map(|answer| begun.reply.waits.then_some(answer))
    }

    fn uncharged(&self, _: &[(Gate, u64)]) -> Outcome {
        Outcome::Arithmetic(ArithmeticOutcome::default())
    }

    fn gone(&self) -> ApiError {
        unknown_key()
    }

    fn booking(&self) -> Booking {
        Booking::of(&self.by, ArithmeticBooking { usd_milli_jpy: self.price.rate.0 })
    }

    fn cost(&self) -> u64 {
        self.price.units
    }

    fn is_long(&self, _: &dyn Fn(u64) -> Duration) -> bool {
        self.operation == Operation::Bootstrap
    }

    fn let_go(&mut self) {
        self._reserved = None;
    }

    async fn answer_of_line(&mut self, begun: &Begun, of: RecordedOf, took: Duration) -> Result<Response, ApiError> {
        let (compute, account) = (&begun.compute, &self.by.account);
        let completed = of.arithmetic().and_then(|done| done.result_ciphertext_id.zip(Some(done.evicted_ids)));
        let (id, evicted) = completed.ok_or_else(|| ApiError::internal("a completed operation has no result"))?;
        let evicted: Vec<String> = evicted.iter().flat_map(|ids| ids.split(' ')).map(str::to_owned).collect();
        let record = compute.store.ciphertext(account.as_str(), &id).await?.ok_or_else(unknown_ciphertext)?;
        let bytes = match self.with_result {
            true => {
                let (payer, at) = (Payer::from(&self.by), (record.node_id.as_str(), record.object.as_str()));
                let read = compute.vault.read(Shelf::Ciphertexts, &payer, account, id.clone(), at).await?;
                std::mem::take(&mut *read.ok_or_else(unknown_ciphertext)?)
            }
            false => Vec::new(),
        };
        let (id, object) = (id.parse().map_err(ApiError::internal)?, record.object);
        self.answer(begun, "COMPLETED", Some(&PutResult { id, object, bytes, compute: took }), &evicted)
    }

    async fn failure(&self, begun: &Begun, error: ApiError) -> ApiError {
        or_deleted(&begun.compute, &self.by.account, &self.key_id, error).await
    }
}

impl Arithmetic {
    /// Chooses the ciphertexts to evict so that the result has room. Then writes the evictions, the result and the
    /// operation's charge as one unit (readings K14, P24).
    async fn book(&self, begun: &Begun, result: &PutResult) -> Result<Response, ApiError> {
        let (compute, account) = (&begun.compute, self.by.account.as_str());
        let (bytes, bytes_max) = (result.bytes.len() as i64, ciphertext_bytes_max(compute, &self.by));
        for _ in 0..ROOM_ATTEMPTS {
            let pinned = compute.vault.pinned();
            let evicted = compute.store.eviction_plan(account, bytes, bytes_max, &pinned).await?.ok_or_else(no_room)?;
            let answer = self.answer(begun, "COMPLETED", Some(result), &evicted)?;
            let (answer, keep) = if begun.reply.waits { begun.reply.claim.keep(answer).await? } else { (answer, None) };
            let now = compute.clock.now();
            let outcome = Outcome::Arithmetic(ArithmeticOutcome {
                result_ciphertext_id: Some(result.id.as_str().to_owned()),
                cost_fcu: self.price.units as i64,
                evicted_ids: (!evicted.is_empty()).then(|| evicted.join(" ")),
            });
            let unit = Unit {
                ciphertext: Some(self.new_ciphertext(compute, result, bytes_max, evicted, now)),
                arithmetic_charge: Some(self.usage(begun, result.compute, now)),
                event: Some(self.completed_event(begun, result, now)),
                keep,
                ..begun.completed(self, outcome, result.compute)
            };
            match begun.reservation.book(unit, vec![(self.operation.name().to_owned(), 1)], now).await {
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
    fn completed_event(&self, begun: &Begun, result: &PutResult, now: Timestamp) -> NewEvent {
        let data = json!({
            "job_id": begun.op_id.as_str(),
            "operation": self.operation.name(),
            "result_ciphertext_id": result.id.as_str(),
            "compute_time_ms": milliseconds(result.compute),
            "cost_jpy": self.price.cost_jpy(),
            "noise_budget_remaining": self.facts.budget_percent,
        });
        event(&self.by.account, EventType::ComputeComplete, &data, now)
    }

    /// Writes the answer, with the noise budget in its headers.
    fn answer(
        &self,
        begun: &Begun,
        status: &str,
        result: Option<&PutResult>,
        evicted: &[String],
    ) -> Result<Response, ApiError> {
        let octets = begun.reply.octets;
        let is_bootstrap = self.operation == Operation::Bootstrap;
        let evicted = evicted.iter().map(|id| id.parse()).collect::<Result<_, _>>().map_err(ApiError::internal)?;
        let shown = result.filter(|_| self.with_result);
        let told = ComputeOperation {
            op_id: begun.op_id.clone(),
            job_id: begun.op_id.clone(),
            status: status.to_owned(),
            operation: self.operation.name().to_owned(),
            result_ciphertext_id: result.map(|result| result.id.clone()),
            result_ciphertext: shown.filter(|_| !octets).map(|result| base64_text::encode(&result.bytes)),
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
        let written = if octets {
            octets::write_head_and_bytes(&told, shown.map(|result| result.bytes.clone()).unwrap_or_default())?
        } else {
            octets::write_json(&told)?
        };
        let mut answer = written.respond(StatusCode::OK);
        let bootstraps = !is_bootstrap && self.key.bootstraps();
        tell_noise_budget(answer.headers_mut(), self.facts.budget_percent, bootstraps)?;
        Ok(answer)
    }

    fn new_ciphertext(
        &self,
        compute: &Compute,
        result: &PutResult,
        bytes_max: Option<i64>,
        evicted: Vec<String>,
        now: Timestamp,
    ) -> NewCiphertext {
        NewCiphertext {
            ciphertext_id: result.id.as_str().to_owned(),
            account_id: self.by.account.as_str().to_owned(),
            key_id: self.key_id.clone(),
            environment: self.by.environment,
            origin: self.operation.name().to_owned(),
            slot_count: self.key.params().slots() as i64,
            level: self.facts.level as i64,
            scale: self.facts.scale,
            value_bound: self.facts.value_bound,
            variance: self.facts.variance,
            mixed: self.facts.tail == Tail::Mixed,
            sources: self.facts.sources.to_bytes(),
            object: result.object.clone(),
            node_id: compute.vault.place().to_owned(),
            bytes: result.bytes.len() as i64,
            seeded: None,
            bytes_max,
            evicted,
            now: now.0,
        }
    }

    fn usage(&self, begun: &Begun, took: Duration, now: Timestamp) -> ArithmeticUsage {
        ArithmeticUsage {
            usage_id: ids::usage(now).as_str().to_owned(),
            transfer_id: begun.reservation.transfer_id(),
            account_id: self.by.account.as_str().to_owned(),
            key_id: self.key_id.clone(),
            environment: self.by.environment,
            operation: self.operation.name().to_owned(),
            fcu: self.price.units as i64,
            cost_nano_usd: self.price.cost.0,
            usd_milli_jpy: self.price.rate.0,
            compute_us: microseconds(took),
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
