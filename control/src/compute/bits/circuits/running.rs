//! The run of a circuit: the parts of its life that other kinds of operations do not have.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::circuits::{CircuitOperation, CircuitOutputs, OperationStatus};
use api::{HandleId, MilliYen};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use store::{CircuitOutcome, NewCircuitRun, NewOperationOf, NewSessionValue, Outcome, RecordedOf, SessionEnd, Unit};

use super::prepare::{Prepared, RunRequest, prepare};
use crate::billing::charge::{self, Charge, ChargeTo, milliseconds};
use crate::billing::ledger::{PaidBy, wanted_gates};
use crate::billing::tariff::{self, Price};
use crate::caller::Caller;
use crate::compute::Compute;
use crate::compute::bits::sessions;
use crate::compute::bits::workbench::{EncryptedValue, Keeping, Made, Output, Room, Run, Workbench, no_room};
use crate::compute::operation::life::line::{self, Booking, Taken};
use crate::compute::operation::life::{self, Begun, Kind, Reply};
use crate::compute::operation::running::Counted;
use crate::ids;
use crate::web::error::ApiError;
use crate::work::{self, Figures, Form, Gate, LweList, NamedResult, OpenKey, PlanFacts, Rows, Work};

/// Runs a circuit. If no client waits, the results are kept until the client fetches them.
pub async fn run(
    compute: &Arc<Compute>,
    caller: Caller,
    given: RunRequest,
    deadline: Instant,
    reply: Reply,
) -> Result<Response, ApiError> {
    let outputs = given.request.outputs.unwrap_or_default();
    let quota = given.quota.clone();
    let session = compute.sessions.find(&caller.account, &given.request.session_id).await?;
    let prepared = prepare(compute, &caller, &session, given).await?;
    let (key, bench) = (*session.key, session.bench.clone());
    let charge_to = ChargeTo { digest: session.record.digest, paid_by: PaidBy::from(&caller) };
    // release the session before the gates run, so that the session can end meanwhile
    drop(session);

    if !reply.waits || outputs == CircuitOutputs::Handles {
        bench.check_room(super::value_bytes(&key, prepared.output_widths.iter().sum()))?;
    }
    let Prepared { circuit, inputs, output_widths, form, inputs_room, outputs_room, record_room, reserved } = prepared;
    let counts = circuit.gate_counts.clone();
    let (by_gate, gates) = (charge::by_gate(&counts)?, charge::total(&counts));
    compute.limits.count_gates(&quota, gates, compute.clock.now()).await?;
    // reserve the whole price before the first gate, so that no cap stops a run halfway
    let price = tariff::price_of(counts.iter().copied());
    let wanted = wanted_gates(&charge_to.paid_by, gates, &price);
    let counted = (Some(Counted::Session(charge_to.digest)), compute.circuits.running_max);
    let begun = life::begin(compute, &charge_to.paid_by, reply, counted, wanted).await?;
    let run = CircuitRun {
        on_bench: OnBench::begin(bench, Run::new(begun.op_id.clone(), record_room))?,
        charge_to,
        key,
        price,
        counts,
        by_gate,
        levels: circuit.levels,
        plan: circuit.facts,
        handles: handles(outputs, output_widths.len()),
        output_widths,
        form,
        outputs,
        inputs_room: Some(inputs_room),
        outputs_room: Some(outputs_room),
    };
    let shape = [run.output_widths.iter().sum(), inputs.dimension() + 1];
    let work = Work { results: run.names(), ..key.work(begun.op_id.clone(), circuit.question(inputs), deadline) };
    drop(reserved);
    life::run(begun, run, work, shape).await
}

/// A circuit that is estimated to take longer enters the waiting line of a fleet even if its client waits.
const LONG: Duration = Duration::from_secs(5);

/// Makes a handle for each output, if the outputs stay under handles.
fn handles(outputs: CircuitOutputs, count: usize) -> Vec<HandleId> {
    if outputs == CircuitOutputs::Handles { (0..count).map(|_| ids::handle()).collect() } else { Vec::new() }
}

/// The facts with which another node of a fleet books a run, besides the run's record.
#[derive(Serialize, Deserialize)]
struct CircuitBooking {
    by_gate: BTreeMap<String, u64>,
    levels: u64,
    plan: PlanFacts,
    output_widths: Vec<usize>,
    is_tfhe_rs: bool,
    handles: bool,
}

/// Computes a run that this node has released from the waiting line, and books its end.
pub async fn resume(compute: &Arc<Compute>, taken: &Taken, record: &store::CircuitRun) -> Result<(), ApiError> {
    let booking: CircuitBooking = taken.of()?;
    let session = compute.sessions.by_digest(&taken.by.account, &record.session_digest).await?;
    let session = session.ok_or_else(|| sessions::ended(SessionEnd::Deleted))?;
    let gate = |(name, count): (&String, &u64)| Some((Gate::from_name(name)?, *count));
    let counts: Option<Vec<_>> = booking.by_gate.iter().map(gate).collect();
    let counts = counts.ok_or_else(|| ApiError::internal("the booking of a run names an unknown gate"))?;
    let (key, bench) = (*session.key, session.bench.clone());
    let bytes = super::value_bytes(&key, booking.output_widths.iter().sum());
    let busy = |_| ApiError::unavailable("values", "the node has no memory left for results");
    let [room, record_room] = [bytes, 0].map(|bytes| bench.memory.reserve(bytes).map_err(busy));
    let op_id = taken.released.op_id.parse().map_err(ApiError::internal)?;
    let outputs = if booking.handles { CircuitOutputs::Handles } else { CircuitOutputs::Ciphertexts };
    let run = CircuitRun {
        on_bench: OnBench::begin(bench, Run::new(op_id, record_room?))?,
        charge_to: ChargeTo { digest: session.record.digest, paid_by: taken.by.clone() },
        key,
        price: tariff::price_of(counts.iter().copied()),
        by_gate: charge::by_gate(&counts)?,
        counts,
        levels: booking.levels,
        plan: booking.plan,
        handles: handles(outputs, booking.output_widths.len()),
        output_widths: booking.output_widths,
        form: if booking.is_tfhe_rs { Form::TfheRs } else { Form::Ango },
        outputs,
        inputs_room: None,
        outputs_room: Some(room?),
    };
    drop(session);
    let shape = [run.output_widths.iter().sum(), work::words_bytes(&key) / 4];
    let work = Work { results: run.names(), ..line::read_object(compute, taken).await? };
    line::compute_and_book(compute, taken, run, work, shape).await
}

/// A run in its session's memory. Dropping this value drops the run, unless `stays` is set because the client will fetch
/// the results.
struct OnBench {
    bench: Arc<Workbench>,
    run: Arc<Run>,
    stays: bool,
}

impl OnBench {
    fn begin(bench: Arc<Workbench>, run: Run) -> Result<OnBench, ApiError> {
        let run = Arc::new(run);
        if bench.begin(run.clone()) { Ok(OnBench { bench, run, stays: false }) } else { Err(gone(&bench)) }
    }
}

impl Drop for OnBench {
    fn drop(&mut self) {
        if !self.stays {
            self.bench.drop_run(&self.run.op_id);
        }
    }
}

/// Returns the error for a session that ended during the run. The workbench says how the session ended, because the
/// session's record may not show this yet.
fn gone(bench: &Workbench) -> ApiError {
    sessions::ended(bench.closed().unwrap_or(SessionEnd::Deleted))
}

/// A run from its start to its end.
struct CircuitRun {
    on_bench: OnBench,
    charge_to: ChargeTo,
    key: OpenKey,
    price: Price,
    /// Number of the circuit's gates of each kind. `by_gate` has the same numbers as JSON for the database.
    counts: Vec<(Gate, u64)>,
    by_gate: String,
    levels: u64,
    plan: PlanFacts,
    output_widths: Vec<usize>,
    form: Form,
    outputs: CircuitOutputs,
    /// A handle for each output that stays under one.
    handles: Vec<HandleId>,
    /// Memory for the inputs, until the gates have run.
    inputs_room: Option<Room>,
    /// Memory for the results, until they are stored.
    outputs_room: Option<Room>,
}

impl Kind for CircuitRun {
    fn as_new(&self) -> NewOperationOf {
        NewOperationOf::Circuit(NewCircuitRun {
            session_digest: self.charge_to.digest,
            gates_total: charge::total(&self.counts) as i64,
            by_gate: self.by_gate.clone(),
            levels: self.levels as i64,
            plan: serde_json::to_string(&self.plan).expect("numbers are JSON"),
        })
    }

    fn pending(&self, begun: &Begun) -> Result<Response, ApiError> {
        super::without_results(&self.described(begun, None), begun.reply.octets)
    }

    async fn complete(&mut self, begun: &Begun, results: Rows, figures: Figures) -> Result<Option<Response>, ApiError> {
        self.inputs_room = None;
        let room = self.outputs_room.take().ok_or_else(|| ApiError::internal("a run was completed twice"))?;
        let waits = begun.reply.waits;
        // store the results before the record: a client that reads `completed` in the record must find the results
        let (made, room) = self.make(&results.into(), room, waits);
        let OnBench { bench, run, .. } = &self.on_bench;
        let kept = !waits || self.outputs == CircuitOutputs::Handles;
        let keeping = match kept {
            true => Some(bench.keep(&made, (!waits).then_some(&**run)).await?.ok_or_else(|| self.gone())?),
            false => None,
        };
        let values = keeping.as_ref().map(Keeping::rows).unwrap_or_default();
        let answer = self.book(begun, made.iter().map(Made::output).collect(), room, values, figures).await?;
        if let Some(keeping) = keeping {
            keeping.stay();
        }
        self.on_bench.stays = !waits;
        Ok(answer)
    }

    fn uncharged(&self, done: &[(Gate, u64)]) -> Outcome {
        Outcome::Circuit(CircuitOutcome { gates_done: charge::total(done) as i64, ..CircuitOutcome::default() })
    }

    fn gone(&self) -> ApiError {
        gone(&self.on_bench.bench)
    }

    fn booking(&self) -> Booking {
        let booking = CircuitBooking {
            by_gate: self.counts.iter().map(|(gate, count)| (gate.name().to_owned(), *count)).collect(),
            levels: self.levels,
            plan: self.plan,
            output_widths: self.output_widths.clone(),
            is_tfhe_rs: self.form == Form::TfheRs,
            handles: self.outputs == CircuitOutputs::Handles,
        };
        Booking::of(&self.charge_to.paid_by, booking)
    }

    fn cost(&self) -> u64 {
        self.plan.bootstraps
    }

    fn is_long(&self, time_of: &dyn Fn(u64) -> Duration) -> bool {
        time_of(self.plan.bootstraps) > LONG
    }

    fn let_go(&mut self) {
        self.inputs_room = None;
        self.outputs_room = None;
    }

    async fn answer_of_line(&mut self, begun: &Begun, _: RecordedOf, took: Duration) -> Result<Response, ApiError> {
        let (compute, bench) = (&begun.compute, self.on_bench.bench.clone());
        let outputs = bench.outputs_of(&begun.op_id).await?.ok_or_else(|| self.gone())?;
        let room = bench.memory.reserve(super::bytes_of(&self.key, &outputs)).map_err(no_room)?;
        let told = self.described(begun, Some(took));
        let answer = super::answer(compute, self.key, told, outputs, room, begun.reply.octets).await?;
        // the client has the results, so the session keeps none but those under handles
        bench.forget_run(&begun.op_id).await?;
        Ok(answer)
    }
}

impl CircuitRun {
    /// Makes the answer for a client that waits. Writes the run's end, its charge and the stored answer: all or none.
    /// `room` is the memory of the outputs that are in the answer and nowhere else.
    async fn book(
        &self,
        begun: &Begun,
        outputs: Vec<Output>,
        room: Room,
        values: Vec<NewSessionValue>,
        Figures { compute: took, units }: Figures,
    ) -> Result<Option<Response>, ApiError> {
        let (compute, reply) = (&begun.compute, &begun.reply);
        let (answer, keep) = if reply.waits {
            let told = self.described(begun, Some(took));
            let answer = super::answer(compute, self.key, told, outputs, room, reply.octets).await?;
            let (answer, keep) = reply.claim.keep(answer).await?;
            (Some(answer), keep)
        } else {
            (None, None)
        };
        let outcome = Outcome::Circuit(CircuitOutcome {
            gates_done: charge::total(&self.counts) as i64,
            bootstrap_ops: self.price.bootstrap_ops as i64,
            cost_milli_yen: self.price.cost.0,
            discounted: self.price.discounted,
        });
        let unit = Unit { keep, values, ..begun.completed(self, outcome, took) };
        let charge = Charge { counts: &self.counts, price: &self.price, bootstraps: units, compute: took };
        let now = compute.clock.now();
        charge.book(now, &compute.telemetry, &self.charge_to, &begun.reservation, unit).await?;
        Ok(answer)
    }

    /// Names the results that stay under handles.
    fn names(&self) -> Vec<NamedResult> {
        self.output_widths.iter().zip(&self.handles).map(|(&width, handle)| NamedResult::value(width, handle)).collect()
    }

    /// Makes the outputs from the results. Returns the outputs, and the memory of outputs that are kept nowhere.
    fn make(&self, results: &LweList, mut room: Room, waits: bool) -> (Vec<Made>, Room) {
        let mut made = Vec::with_capacity(self.output_widths.len());
        let mut at = 0;
        for (place, &width) in self.output_widths.iter().enumerate() {
            let handle = self.handles.get(place).cloned();
            let bytes = if handle.is_some() || !waits { super::value_bytes(&self.key, width) } else { 0 };
            let bits = LweList::from_words(results.dimension(), results.rows(at..at + width).to_vec());
            at += width;
            let value = Arc::new(EncryptedValue::new(bits, self.form, room.part(bytes)));
            made.push(Made { handle, value });
        }
        (made, room)
    }

    /// Describes the run for answers, without its outputs: the completed run, whose computation took this long, or the
    /// pending one.
    fn described(&self, begun: &Begun, took: Option<Duration>) -> CircuitOperation {
        let price = took.map(|_| &self.price);
        let gates_total = charge::total(&self.counts);
        CircuitOperation {
            op_id: begun.op_id.clone(),
            status: if took.is_some() { OperationStatus::Completed } else { OperationStatus::Pending },
            gates_done: if took.is_some() { gates_total } else { 0 },
            gates_total,
            gates: self.counts.iter().map(|(gate, count)| (gate.name().to_owned(), *count)).collect(),
            levels: self.levels,
            bootstraps: Some(self.plan.bootstraps),
            bootstrap_levels: Some(self.plan.bootstrap_levels),
            failure_log2: self.plan.failure_log2,
            outputs: None,
            bootstrap_ops: price.map(|price| price.bootstrap_ops),
            cost_jpy: price.map(|price| MilliYen(price.cost.0)),
            batch_discount_applied: price.map(|price| price.discounted),
            compute_ms: took.map(milliseconds),
            error: None,
        }
    }
}
