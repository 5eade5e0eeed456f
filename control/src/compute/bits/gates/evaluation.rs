//! Evaluates a request's gates: checks, runs and charges them (readings G9, G10, G14, P24).

use std::sync::Arc;

use api::circuits::CircuitOutputs;
use api::gates::BatchGate;
use api::{Code, HandleId};
use axum::response::Response;
use store::Unit;

use crate::billing::charge::{self, Charge, ChargeTo};
use crate::billing::ledger::{PaidBy, wanted_gates};
use crate::billing::tariff;
use crate::caller::Caller;
use crate::compute::Compute;
use crate::compute::bits::workbench::{EncryptedValue, Keeping, Made, Room, Workbench, no_room};
use crate::ids;
use crate::resource::Payer;
use crate::web::body::Reserved;
use crate::web::edge::Deadline;
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;
use crate::work::{self, Gate, OpenKey, Outcome, RunError};

use super::operands::{OctetOperands, Operands};

/// The gates of a request. All names are known and all operands are present.
pub struct RequestedGates {
    gates: Vec<Gate>,
    operands: Operands,
}

impl RequestedGates {
    /// Reads gates from JSON. `place(i)` is the path of gate `i`, with a dot at the end.
    pub fn from_text(gates: Vec<BatchGate>, place: fn(usize) -> String) -> Result<RequestedGates, ApiError> {
        Ok(RequestedGates { gates: gate_names(&gates, place)?, operands: Operands::Text(gates, place) })
    }

    /// Reads gates from the names in the head of an octet-stream, with their operands.
    pub fn from_octets(names: &[String], octets: OctetOperands) -> Result<RequestedGates, ApiError> {
        let gate = |(i, name): (usize, &String)| gate(name, || format!("gates[{i}]"));
        let gates = names.iter().enumerate().map(gate).collect::<Result<_, _>>()?;
        Ok(RequestedGates { gates, operands: Operands::Octets(octets) })
    }

    /// Returns the number of gates.
    pub fn gates(&self) -> u64 {
        self.gates.len() as u64
    }
}

/// Gates that were evaluated.
pub struct EvaluatedGates {
    /// The gates.
    pub gates: Vec<Gate>,
    /// The key of the session.
    pub key: OpenKey,
    /// The results.
    pub outcome: Outcome,
    /// The price of the gates.
    pub price: tariff::Price,
    /// The handle of the results, if the results stay on the node. Then `outcome` has no results.
    pub handle: Option<HandleId>,
}

/// A request to evaluate gates.
pub struct EvaluationRequest {
    /// The session's id.
    pub session_id: String,
    /// The gates.
    pub work: RequestedGates,
    /// Whether the results are returned or stay under a handle.
    pub outputs: CircuitOutputs,
    /// Memory reserved for the request's data.
    pub reserved: Reserved,
    /// The form of the answer.
    pub answer: AnswerForm,
}

/// How evaluated gates become an answer.
pub struct AnswerForm {
    /// Whether the answer is an octet-stream, if the route has that form.
    pub octets: bool,
    /// Writes the answer. A large batch in JSON takes much CPU time, so call this outside the async threads.
    pub write: fn(EvaluatedGates, octets: bool) -> Result<Response, ApiError>,
}

/// Checks, runs and charges a request. The answer is written before the charge and stored with it. If the client
/// disconnects, the run and the charge go on, because completed work is charged (readings P24).
pub async fn run(
    compute: Arc<Compute>,
    caller: Caller,
    claim: Claim,
    EvaluationRequest { session_id, work, outputs, reserved, answer }: EvaluationRequest,
    Deadline(deadline): Deadline,
) -> Result<Response, ApiError> {
    let session = compute.sessions.find(&caller.account, &session_id).await?;
    let key = *session.key;
    let payer = Payer::from(&caller);
    // release the session before the gates run, so that the session can end meanwhile
    let charge_to = ChargeTo { digest: session.record.digest, paid_by: PaidBy::from(&caller) };
    let shelf = match outputs {
        CircuitOutputs::Ciphertexts => None,
        CircuitOutputs::Handles => {
            session.record.may_keep(compute.clock.now())?;
            let bytes = (work.gates.len() * work::words_bytes(&key)) as u64;
            session.bench.check_room(bytes)?;
            let room = session.bench.memory.reserve(bytes).map_err(no_room)?;
            Some(Shelf { bench: session.bench.clone(), room, handle: ids::handle() })
        }
    };
    let RequestedGates { gates, operands } = work;
    let cpu_work = operands.cpu_work(gates.len());
    let operands = operands.find(&gates, &session.bench).await?;
    drop(session);

    let (program, gates) = off_thread(&compute, &payer, cpu_work, move || {
        let program = operands.read(&key, &gates)?;
        drop(reserved);
        Ok::<_, ApiError>((program, gates))
    })
    .await??;

    let in_flight = compute.in_flight.enter();
    let running = tokio::spawn(async move {
        let _in_flight = in_flight;
        let price = tariff::price(gates.iter().copied());
        let paid_by = &charge_to.paid_by;
        let wanted = wanted_gates(paid_by, gates.len() as u64, &price);
        let reservation = compute.ledger.reserve(paid_by, wanted, compute.clock.now()).await?;
        let id = ids::operation(compute.clock.now());
        let run = async {
            let handle = shelf.as_ref().map(|shelf| &shelf.handle);
            let mut outcome = program.run(&compute.worker, id, &key, deadline, handle).await?;
            let kept = keep_results(&mut outcome, shelf).await?;
            Ok((outcome, kept))
        };
        let (outcome, kept_results) = match run.await {
            Ok(done) => done,
            Err(error) => {
                reservation.give_back().await;
                return Err(match error {
                    RunError::Api(error) => error,
                    RunError::Gone => compute.sessions.gone(&paid_by.account, &session_id).await,
                });
            }
        };
        let (handle, keeping) = kept_results.unzip();
        compute.telemetry.queued(outcome.waited);
        let (counts, bootstraps, took) = (charge::count(&gates), outcome.bootstraps, outcome.compute);
        let texts = if answer.octets || handle.is_some() { 0 } else { gates.len() };
        let ran = EvaluatedGates { gates, key, outcome, price, handle };
        let write = move || (answer.write)(ran, answer.octets);
        let answer = if texts < OFF_THREAD_GATES_MIN { write() } else { compute.offload.finish(payer, write).await? }?;
        let (answer, keep) = claim.keep(answer).await?;
        let charge = Charge { counts: &counts, price: &price, bootstraps, compute: took };
        let values = keeping.as_ref().map(Keeping::rows).unwrap_or_default();
        let (now, unit) = (compute.clock.now(), Unit { keep, values, ..Unit::default() });
        charge.book(now, &compute.telemetry, &charge_to, &reservation, unit).await?;
        if let Some(keeping) = keeping {
            keeping.stay();
        }
        Ok(answer)
    });
    running.await?
}

/// Where the results stay.
struct Shelf {
    bench: Arc<Workbench>,
    room: Room,
    handle: HandleId,
}

/// Keeps the results under a handle, if the request wants that. Returns an error if the session has ended while the gates
/// ran.
async fn keep_results(outcome: &mut Outcome, shelf: Option<Shelf>) -> Result<Option<(HandleId, Keeping)>, RunError> {
    let Some(Shelf { bench, room, handle }) = shelf else { return Ok(None) };
    let (bits, form) = outcome.take_results();
    let value = Arc::new(EncryptedValue::new(bits, form, room));
    let keeping = bench.keep(&[Made { handle: Some(handle.clone()), value }], None).await.map_err(RunError::Api)?;
    Ok(Some((handle, keeping.ok_or(RunError::Gone)?)))
}

/// Smallest number of gates whose ciphertexts are read and written outside the async threads.
const OFF_THREAD_GATES_MIN: usize = 16;

/// Runs CPU work on the texts of `texts` gates. From [`OFF_THREAD_GATES_MIN`] gates on, the work runs outside the async
/// threads.
async fn off_thread<T: Send + 'static>(
    compute: &Compute,
    payer: &Payer,
    texts: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    match texts {
        0..OFF_THREAD_GATES_MIN => Ok(work()),
        _ => compute.offload.run(payer.clone(), work).await,
    }
}

/// Returns the gate with this name. `place`: the member that holds the name.
fn gate(name: &str, place: impl Fn() -> String) -> Result<Gate, ApiError> {
    Gate::from_name(name).ok_or_else(|| {
        let names = Gate::ALL.map(Gate::name).join(", ");
        ApiError::new(Code::InvalidGateOp, format!("{} must be one of {names}", place())).at(place(), "not a gate")
    })
}

/// Reads the gates' names and checks that their operands are present, before anything is decoded (readings G9, G10).
fn gate_names(texts: &[BatchGate], place: fn(usize) -> String) -> Result<Vec<Gate>, ApiError> {
    let mut gates = Vec::with_capacity(texts.len());
    for (i, text) in texts.iter().enumerate() {
        let gate = gate(&text.op, || format!("{}op", place(i)))?;
        let missing = match (gate.arity(), &text.b, &text.sel) {
            (2.., None, _) => Some("b"),
            (3.., _, None) => Some("sel"),
            _ => None,
        };
        if let Some(member) = missing {
            let field = format!("{}{member}", place(i));
            return Err(
                ApiError::new(Code::MissingOperand, format!("{} needs {field}", gate.name())).at(field, "missing")
            );
        }
        gates.push(gate);
    }
    Ok(gates)
}
