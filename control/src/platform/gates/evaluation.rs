//! From a request's gates to charged results: check, run, charge (readings G9, G10, G14, P24).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::gates::BatchGate;
use api::{AccountId, Code};
use store::GateUsage;

use crate::app::Node;
use crate::auth::{Caller, Environment};
use crate::billing::tariff;
use crate::body::Reserved;
use crate::compute::{self, Gate, GateText, Outcome, RunError};
use crate::edge::Deadline;
use crate::error::ApiError;
use crate::ids;
use crate::sessions::SessionDigest;

/// Gates as a request has them, and where in the request gate `i` stands.
pub struct Work {
    /// The gates, at least one.
    pub gates: Vec<BatchGate>,
    /// The path of gate `i`, with a dot at the end.
    pub place: fn(usize) -> String,
}

/// Gates that were run and charged.
pub struct Done {
    /// Ciphertexts as base64, in the order of the gates.
    pub results: Vec<String>,
    /// The gates.
    pub gates: Vec<Gate>,
    /// What they cost.
    pub price: tariff::Price,
    /// Wall time of the evaluation.
    pub compute: Duration,
}

/// Checks, runs, charges. The run and the charge go on if the client disconnects: completed work is charged (readings P24).
pub async fn run(
    node: Arc<Node>,
    caller: Caller,
    session_id: String,
    work: Work,
    Deadline(deadline): Deadline,
    reserved: Reserved,
) -> Result<Done, ApiError> {
    let gates = gate_names(&work)?;
    let session = node.sessions.find(&caller.account, &session_id).await?;
    let key = *session.key;
    // the session itself is not held while gates run: its end must not wait for them
    let charge_to = ChargeTo { digest: session.digest, account: caller.account, environment: caller.environment };
    drop(session);

    let (program, gates) = off_thread(&node, gates.len(), move || {
        let texts: Vec<GateText<'_>> =
            gates.iter().zip(&work.gates).map(|(gate, text)| operands(*gate, text)).collect();
        let program = compute::read_program(&key, &texts, work.place)?;
        drop(reserved);
        Ok::<_, ApiError>((program, gates))
    })
    .await??;

    let in_flight = node.in_flight.enter();
    let running = tokio::spawn(async move {
        let _in_flight = in_flight;
        let outcome = match node.compute.run(&key, program, deadline).await {
            Ok(outcome) => outcome,
            Err(RunError::Api(error)) => return Err(error),
            // expired, deleted or lost meanwhile: the session's record says which
            Err(RunError::Gone) => {
                node.sessions.find(&charge_to.account, &session_id).await?;
                return Err(ApiError::new(Code::SessionNotFound, "there is no such session"));
            }
        };
        let price = tariff::price(gates.iter().copied());
        charge(&node, &charge_to, &gates, &price, &outcome).await?;
        let compute = outcome.compute;
        let results = off_thread(&node, gates.len(), move || compute::write_results(&key, &outcome)).await?;
        Ok(Done { results, gates, price, compute })
    });
    running.await?
}

/// Gates from which reading and writing ciphertexts leaves the async threads.
const OFF_THREAD_GATES_MIN: usize = 16;

/// Runs CPU work for this many gates where it disturbs nobody.
async fn off_thread<T: Send + 'static>(
    node: &Node,
    gates: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    match gates {
        0..OFF_THREAD_GATES_MIN => Ok(work()),
        _ => node.offload.run(work).await,
    }
}

/// All gates and their operands' presence, before anything is decoded (readings G9, G10).
fn gate_names(work: &Work) -> Result<Vec<Gate>, ApiError> {
    let mut gates = Vec::with_capacity(work.gates.len());
    for (i, text) in work.gates.iter().enumerate() {
        let place = || (work.place)(i);
        let gate = Gate::from_name(&text.op).ok_or_else(|| {
            let names = Gate::ALL.map(Gate::name).join(", ");
            ApiError::new(Code::InvalidGateOp, format!("{}op must be one of {names}", place()))
                .at(format!("{}op", place()), "not a gate")
        })?;
        let missing = match (gate.arity(), &text.b, &text.sel) {
            (2.., None, _) => Some("b"),
            (3.., _, None) => Some("sel"),
            _ => None,
        };
        if let Some(member) = missing {
            let field = format!("{}{member}", place());
            return Err(
                ApiError::new(Code::MissingOperand, format!("{} needs {field}", gate.name())).at(field, "missing")
            );
        }
        gates.push(gate);
    }
    Ok(gates)
}

/// A gate's operands in the engine's order; those it does not take are ignored (readings G9).
fn operands(gate: Gate, text: &BatchGate) -> GateText<'_> {
    let all = [("a", Some(text.a.as_str())), ("b", text.b.as_deref()), ("sel", text.sel.as_deref())];
    let operands = all.into_iter().take(gate.arity()).filter_map(|(member, text)| Some((member, text?))).collect();
    GateText { gate, operands }
}

/// Whom an operation is charged to.
struct ChargeTo {
    digest: SessionDigest,
    account: AccountId,
    environment: Environment,
}

/// Charges completed gates: session totals and usage row in one transaction (readings G14, P3).
async fn charge(
    node: &Node,
    to: &ChargeTo,
    gates: &[Gate],
    price: &tariff::Price,
    outcome: &Outcome,
) -> Result<(), ApiError> {
    let mut counts: BTreeMap<&'static str, (Gate, u64)> = BTreeMap::new();
    for gate in gates {
        counts.entry(gate.name()).or_insert((*gate, 0)).1 += 1;
    }
    let by_gate: BTreeMap<_, _> = counts.iter().map(|(name, (_, count))| (name, count)).collect();
    let now = node.clock.now();
    node.store
        .charge_gates(&GateUsage {
            usage_id: ids::usage(now).as_str(),
            session_digest: &to.digest,
            account_id: to.account.as_str(),
            environment: to.environment.as_str(),
            gates: gates.len() as i64,
            by_gate: &serde_json::to_string(&by_gate).map_err(ApiError::internal)?,
            bootstrap_ops: price.bootstrap_ops as i64,
            bootstraps_done: outcome.bootstraps as i64,
            cost_milli_yen: price.cost.0,
            compute_us: i64::try_from(outcome.compute.as_micros()).unwrap_or(i64::MAX),
            created_at: now.0,
        })
        .await?;
    node.telemetry.gates_charged(counts.into_values());
    Ok(())
}
