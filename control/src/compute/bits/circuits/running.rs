//! A circuit's run from its submission to its charge.
//!
//! The holder of a [`Submitted`] must finish or abandon it, because otherwise the session keeps the run's record in
//! memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::circuits::{CircuitOperation, CircuitOutputs, OperationStatus};
use api::{Code, MilliYen};
use axum::response::{IntoResponse, Response};
use store::{CircuitOperationEnd, KeptAnswer, NewCircuitOperation, SessionEnd, Unit};

use super::prepare::{Prepared, RunRequest, prepare};
use crate::billing::charge::{self, Charge, ChargeTo, milliseconds};
use crate::billing::ledger::{PaidBy, Reservation};
use crate::billing::tariff::{self, Price};
use crate::caller::Caller;
use crate::clock::Timestamp;
use crate::compute::Compute;
use crate::compute::bits::sessions;
use crate::compute::bits::workbench::{EncryptedValue, Output, Room, Run, Workbench};
use crate::compute::operation::life::{self, Asked};
use crate::compute::operation::running::{Counted, Running, TooMany};
use crate::ids;
use crate::in_flight::Guard;
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;
use crate::web::prefer::PREFERENCE_APPLIED;
use crate::work::{self, Ending, Figures, Form, Gate, LweList, OpenKey, PlanFacts, RunError, WorkEnd};

/// The form in which the client wants its answer.
pub struct Reply {
    /// Stores the answer in one unit with the run's end, or with the run's record if the client does not wait.
    pub claim: Claim,
    /// Whether the answer is an octet-stream.
    pub octets: bool,
    /// Whether the client waits for the run's end. Otherwise the results are kept until the client fetches them.
    pub waits: bool,
}

/// Runs a circuit.
pub async fn run(
    compute: &Arc<Compute>,
    caller: Caller,
    given: RunRequest,
    deadline: Instant,
    reply: Reply,
) -> Result<Response, ApiError> {
    life::answer(submit(compute, caller, given, reply, deadline).await?).await
}

/// Checks a request and submits its circuit. No await stands between the submission and the return.
async fn submit(
    compute: &Arc<Compute>,
    caller: Caller,
    given: RunRequest,
    reply: Reply,
    deadline: Instant,
) -> Result<Submitted, ApiError> {
    let outputs = given.request.outputs.unwrap_or_default();
    let quota = given.quota.clone();
    let session = compute.sessions.find(&caller.account, &given.request.session_id).await?;
    let prepared = prepare(compute, &caller, &session, given).await?;
    let (key, bench) = (*session.key, session.bench.clone());
    let charge_to = ChargeTo { digest: session.digest, paid_by: PaidBy::from(&caller) };
    // release the session before the gates run, so that the session can end meanwhile
    drop(session);

    let Prepared { circuit, inputs, output_widths, form, inputs_room, outputs_room, record_room, reserved } = prepared;
    let (created_at, counts) = (compute.clock.now(), circuit.gate_counts.clone());
    let (levels, plan) = (circuit.levels, circuit.facts);
    let by_gate = charge::by_gate(&counts)?;
    let gates = charge::total(&counts);
    compute.limits.count_gates(&quota, gates, created_at).await?;
    // reserve the whole price before the first gate, so that no cap stops a run halfway
    let price = tariff::price_of(counts.iter().copied());
    let reservation = compute.ledger.reserve_gates(&charge_to.paid_by, gates, &price, created_at).await?;
    let op_id = ids::operation(created_at);
    let most = compute.circuits.running_max;
    let counted = Some(Counted::Session(charge_to.digest));
    let running = compute.operations.begin(op_id.clone(), counted, most).map_err(|TooMany| {
        let message = format!("the session already runs {most} circuits: wait until one has ended");
        ApiError::new(Code::RateLimited, message).retry_after(Duration::from_secs(1))
    })?;
    let run = Arc::new(Run::new(op_id, record_room));
    if !bench.begin(run.clone()) {
        return Err(gone(&bench));
    }
    let shape = [output_widths.iter().sum(), inputs.dimension() + 1];
    let asked = work::ask(&compute.worker, key.work(run.op_id.clone(), circuit.question(inputs), deadline), shape);
    drop(reserved);
    let end = match asked {
        Ok(end) => end,
        Err(error) => {
            bench.forget_run(&run.op_id);
            return Err(match error.into() {
                RunError::Api(error) => error,
                RunError::Gone => gone(&bench),
            });
        }
    };
    let job = RunContext {
        reservation,
        price,
        _unfinished: compute.unfinished.enter(),
        _running: running,
        compute: compute.clone(),
        charge_to,
        key,
        bench,
        run,
        created_at,
        counts,
        by_gate,
        levels,
        plan,
        output_widths,
        form,
        outputs,
        reply,
        started: Instant::now(),
    };
    Ok(Submitted { job, end, inputs_room, outputs_room })
}

/// A circuit that was submitted to the worker.
struct Submitted {
    job: RunContext,
    end: Ending,
    inputs_room: Room,
    outputs_room: Room,
}

impl Asked for Submitted {
    fn compute(&self) -> &Compute {
        &self.job.compute
    }

    fn client_waits(&self) -> bool {
        self.job.reply.waits
    }

    async fn put_on_record(&mut self) -> Result<Response, ApiError> {
        let job = &self.job;
        let operation = job.operation(OperationStatus::Pending, 0, None);
        let answer = super::without_results(&operation, job.reply.octets)?;
        let (answer, keep) = job.reply.claim.keep(([PREFERENCE_APPLIED], answer).into_response()).await?;
        job.compute.store.submit(Unit { operation: Some(job.as_new()), keep, ..Unit::default() }).await?;
        Ok(answer)
    }

    async fn finish(self) -> Result<Option<Response>, ApiError> {
        let Submitted { job, end, inputs_room, outputs_room } = self;
        let end = end.await;
        drop(inputs_room);
        let finished = match end {
            WorkEnd::Completed { results, figures: Figures { compute, units } } => {
                job.complete(results.into(), outputs_room, compute, units).await
            }
            WorkEnd::Cancelled(done) => Err(job.cancelled(done).await),
            WorkEnd::Failed(error) => Err(match error.into() {
                RunError::Api(error) => job.failed(error).await,
                RunError::Gone => job.failed(gone(&job.bench)).await,
            }),
        };
        if job.reply.waits || finished.is_err() {
            job.bench.forget_run(&job.run.op_id);
        }
        finished
    }

    fn abandon(self) {
        self.job.compute.worker.cancel(&self.job.run.op_id);
        self.job.bench.forget_run(&self.job.run.op_id);
    }
}

/// Returns the error for a session that ended during the run. The workbench says how the session ended, because the
/// session's record may not show this yet.
fn gone(bench: &Workbench) -> ApiError {
    sessions::ended(bench.closed().unwrap_or(SessionEnd::Deleted))
}

/// The state of a run from its start to its end.
struct RunContext {
    /// The reservation of the run's price. Dropped before `_unfinished`, so that a stopping node waits until the
    /// reservation is given back.
    reservation: Reservation,
    price: Price,
    /// Keeps a stopping node waiting for this run.
    _unfinished: Guard,
    _running: Running,
    compute: Arc<Compute>,
    charge_to: ChargeTo,
    key: OpenKey,
    bench: Arc<Workbench>,
    run: Arc<Run>,
    created_at: Timestamp,
    /// Number of the circuit's gates of each kind. `by_gate` has the same numbers as JSON for the database.
    counts: Vec<(Gate, u64)>,
    by_gate: String,
    levels: u64,
    plan: PlanFacts,
    output_widths: Vec<usize>,
    form: Form,
    outputs: CircuitOutputs,
    reply: Reply,
    started: Instant,
}

impl RunContext {
    async fn complete(
        &self,
        results: LweList,
        mut room: Room,
        compute: Duration,
        bootstraps: u64,
    ) -> Result<Option<Response>, ApiError> {
        let total = charge::total(&self.counts);
        // store the results before the record: a client that reads `completed` in the record must find the results
        let Some(outputs) = self.shelve(&results, &mut room) else {
            return Err(self.failed(gone(&self.bench)).await);
        };
        let charge = Charge { counts: &self.counts, price: &self.price, bootstraps, compute };
        let booked = async {
            let operation = self.operation(OperationStatus::Completed, total, Some((&self.price, compute)));
            let (answer, kept) = self.answer(operation, outputs.clone(), room).await?;
            self.book(&charge, kept).await?;
            Ok(answer)
        };
        let answer = booked.await;
        if answer.is_err() {
            self.take_back(&outputs);
        }
        answer
    }

    /// Makes the answer for a client that waits, and the copy of the answer to store. `room` is the memory of the
    /// outputs that are in the answer and nowhere else.
    async fn answer(
        &self,
        operation: CircuitOperation,
        outputs: Vec<Output>,
        room: Room,
    ) -> Result<(Option<Response>, Option<KeptAnswer>), ApiError> {
        let Reply { claim, octets, waits: true } = &self.reply else { return Ok((None, None)) };
        let answer = super::answer(&self.compute, self.key, operation, outputs, room, *octets).await?;
        let (answer, kept) = claim.keep(answer).await?;
        Ok((Some(answer), kept))
    }

    /// Records that the run was cancelled and how many gates it had completed. Nothing is charged (readings P24).
    /// Returns the error for a client that waits.
    async fn cancelled(&self, done: Vec<(Gate, u64)>) -> ApiError {
        self.reservation.give_back().await;
        self.end_uncharged(OperationStatus::Cancelled, charge::total(&done), None).await;
        ApiError::new(Code::Conflict, "the run was cancelled; nothing was charged")
    }

    /// Records a failure, and gives the reservation back. Returns the same error.
    async fn failed(&self, error: ApiError) -> ApiError {
        self.reservation.give_back().await;
        if !self.reply.waits {
            let cause = (error.code.as_str().to_owned(), error.message.clone());
            self.end_uncharged(OperationStatus::Failed, 0, Some(cause)).await;
        }
        error
    }

    async fn end_uncharged(&self, status: OperationStatus, gates_done: u64, error: Option<(String, String)>) {
        let free = tariff::price_of(std::iter::empty());
        let end = CircuitOperationEnd { error, ..self.end(status, gates_done, &free, self.started.elapsed()) };
        // a run in the foreground has no row yet, so the unit also inserts the row
        let unit = Unit { operation: Some(self.as_new()), operation_end: Some(end), ..Unit::default() };
        match self.compute.store.submit(unit).await {
            Ok(()) | Err(store::Error::OperationEnded) => {}
            Err(cause) => tracing::error!(%cause, op_id = self.run.op_id.as_str(), "a run's end could not be recorded"),
        }
    }

    fn end(&self, status: OperationStatus, gates: u64, price: &Price, took: Duration) -> CircuitOperationEnd {
        CircuitOperationEnd {
            op_id: self.run.op_id.as_str().to_owned(),
            status,
            gates_done: gates as i64,
            bootstrap_ops: price.bootstrap_ops as i64,
            cost_milli_yen: price.cost.0,
            discounted: price.discounted,
            compute_us: charge::microseconds(took),
            error: None,
            ended_at: self.compute.clock.now().0,
        }
    }

    /// Writes the run's end, its charge and its answer: either all three or none of them.
    async fn book(&self, charge: &Charge<'_>, keep: Option<KeptAnswer>) -> Result<(), ApiError> {
        let (done, now) = (charge::total(charge.counts), self.compute.clock.now());
        let end = self.end(OperationStatus::Completed, done, charge.price, charge.compute);
        let unit = Unit { operation: Some(self.as_new()), operation_end: Some(end), keep, ..Unit::default() };
        match done {
            0 => Ok(self.compute.store.submit(unit).await?),
            _ => {
                let (telemetry, store) = (&self.compute.telemetry, &self.compute.store);
                charge.book(now, telemetry, store, &self.charge_to, &self.reservation, unit).await
            }
        }
    }

    /// Makes the outputs from the results. Stores the outputs in the session under handles, if the request wants
    /// handles, and with the run, if no client waits. `None`: the session has ended.
    fn shelve(&self, results: &LweList, room: &mut Room) -> Option<Vec<Output>> {
        let mut outputs = Vec::with_capacity(self.output_widths.len());
        let mut at = 0;
        let kept = !self.reply.waits || self.outputs == CircuitOutputs::Handles;
        for &width in &self.output_widths {
            let bytes = if kept { super::value_bytes(&self.key, width) } else { 0 };
            let bits = LweList::from_words(results.dimension(), results.rows(at..at + width).to_vec());
            at += width;
            let value = Arc::new(EncryptedValue::new(bits, self.form, room.part(bytes)));
            outputs.push(match self.outputs {
                CircuitOutputs::Ciphertexts => Output::Value(value),
                CircuitOutputs::Handles => {
                    let handle = ids::handle();
                    if !self.bench.keep(handle.clone(), value) {
                        return None;
                    }
                    Output::Handle(handle)
                }
            });
        }
        if !self.reply.waits {
            self.bench.complete(&self.run, outputs.clone());
        }
        Some(outputs)
    }

    /// Drops the handles that [`RunContext::shelve`] made, with the values under them. Results that are stored with the
    /// run are dropped with the run at its end.
    fn take_back(&self, outputs: &[Output]) {
        for output in outputs {
            if let Output::Handle(handle) = output {
                self.bench.forget(handle);
            }
        }
    }

    fn as_new(&self) -> NewCircuitOperation {
        NewCircuitOperation {
            op_id: self.run.op_id.as_str().to_owned(),
            account_id: self.charge_to.paid_by.account.as_str().to_owned(),
            session_digest: self.charge_to.digest,
            gates_total: charge::total(&self.counts) as i64,
            by_gate: self.by_gate.clone(),
            levels: self.levels as i64,
            plan: serde_json::to_string(&self.plan).expect("numbers are JSON"),
            created_at: self.created_at.0,
        }
    }

    fn operation(
        &self,
        status: OperationStatus,
        gates_done: u64,
        charged: Option<(&Price, Duration)>,
    ) -> CircuitOperation {
        CircuitOperation {
            op_id: self.run.op_id.clone(),
            status,
            gates_done,
            gates_total: charge::total(&self.counts),
            gates: self.counts.iter().map(|(gate, count)| (gate.name().to_owned(), *count)).collect(),
            levels: self.levels,
            bootstraps: Some(self.plan.bootstraps),
            bootstrap_levels: Some(self.plan.bootstrap_levels),
            failure_log2: self.plan.failure_log2,
            outputs: None,
            bootstrap_ops: charged.map(|(price, _)| price.bootstrap_ops),
            cost_jpy: charged.map(|(price, _)| MilliYen(price.cost.0)),
            batch_discount_applied: charged.map(|(price, _)| price.discounted),
            compute_ms: charged.map(|(_, compute)| milliseconds(compute)),
            error: None,
        }
    }
}
