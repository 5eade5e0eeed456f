//! From a request's gates to charged results: check, run, charge (readings G9, G10, G14, P24).

use std::sync::Arc;

use api::Code;
use api::gates::{BatchGate, Seed};
use axum::response::Response;

use crate::app::Node;
use crate::auth::Caller;
use crate::billing::tariff;
use crate::billing::usage::{self, Charge, ChargeTo};
use crate::body::Reserved;
use crate::budget::Payer;
use crate::compute::{self, Gate, GateText, OpenKey, Outcome, Program, RunError};
use crate::edge::Deadline;
use crate::error::ApiError;
use crate::idempotency::Claim;
use crate::limits::trial::Counted;
use crate::octets::Words;
use crate::seeds::Seeds;

/// Gates as a request has them, all known and with all their operands.
pub struct Work {
    gates: Vec<Gate>,
    operands: Operands,
}

/// Where operands stand.
enum Operands {
    /// In the gates' own members; the function says where gate `i` stands, with a dot at the end.
    Text(Vec<BatchGate>, fn(usize) -> String),
    /// Behind the head of an octet-stream, which may name their key and the seeds of their masks.
    Words(Words, Option<String>, Option<Seeds>),
}

impl Work {
    /// Gates in JSON. `place` is the path of gate `i`, with a dot at the end.
    pub fn from_text(gates: Vec<BatchGate>, place: fn(usize) -> String) -> Result<Work, ApiError> {
        Ok(Work { gates: gate_names(&gates, place)?, operands: Operands::Text(gates, place) })
    }

    /// Gates' names in the head of an octet-stream, and what stands behind it.
    pub fn from_words(
        names: &[String],
        words: Words,
        fingerprint: Option<String>,
        seeds: Option<&[Seed]>,
    ) -> Result<Work, ApiError> {
        let gate = |(i, name): (usize, &String)| gate(name, || format!("gates[{i}]"));
        let gates = names.iter().enumerate().map(gate).collect::<Result<_, _>>()?;
        let seeds = seeds.map(Seeds::of).transpose()?;
        Ok(Work { gates, operands: Operands::Words(words, fingerprint, seeds) })
    }

    /// How many gates.
    pub fn gates(&self) -> u64 {
        self.gates.len() as u64
    }

    /// Gates whose operands have to be decoded, or their masks made.
    fn texts(&self) -> usize {
        match &self.operands {
            Operands::Text(texts, _) => texts.len(),
            Operands::Words(_, _, Some(_)) => self.gates.len(),
            Operands::Words(_, _, None) => 0,
        }
    }

    /// Reads the operands for a key. CPU work for large batches.
    fn read(self, key: &OpenKey) -> Result<Program, ApiError> {
        match self.operands {
            Operands::Text(texts, place) => {
                let gates = self.gates.iter().zip(&texts);
                let gates: Vec<GateText<'_>> = gates.map(|(gate, text)| operands(*gate, text)).collect();
                compute::read_program(key, &gates, place)
            }
            Operands::Words(words, fingerprint, seeds) => {
                fingerprint.iter().try_for_each(|digits| compute::check_fingerprint(key, digits))?;
                compute::read_program_words(key, &self.gates, words, seeds.as_ref())
            }
        }
    }
}

/// Gates that were run.
pub struct Ran {
    /// The gates.
    pub gates: Vec<Gate>,
    /// The key they were run with.
    pub key: OpenKey,
    /// What came of them.
    pub outcome: Outcome,
    /// What they cost.
    pub price: tariff::Price,
}

/// What a request asks for.
pub struct Asked {
    /// The session it names.
    pub session_id: String,
    /// Its gates.
    pub work: Work,
    /// Memory of the request's data.
    pub reserved: Reserved,
    /// How it wants its answer.
    pub answer: AnswerForm,
}

/// How gates that were run become an answer.
pub struct AnswerForm {
    /// As an octet-stream, where there is that form.
    pub octets: bool,
    /// Writes it. CPU work for large batches in JSON.
    pub write: fn(Ran, octets: bool) -> Result<Response, ApiError>,
}

/// Checks, runs, charges; the answer is written before the charge and kept with it. The run and the charge go on if the
/// client disconnects: completed work is charged (readings P24).
pub async fn run(
    node: Arc<Node>,
    caller: Caller,
    claim: Claim,
    Asked { session_id, work, reserved, answer }: Asked,
    Deadline(deadline): Deadline,
) -> Result<Response, ApiError> {
    let session = node.sessions.find(&caller.account, &session_id).await?;
    let key = *session.key;
    let payer = Payer::from(&caller);
    // the session itself is not held while gates run: its end must not wait for them
    let charge_to = ChargeTo { digest: session.digest, account: caller.account, environment: caller.environment };
    drop(session);

    let (program, gates) = off_thread(&node, &payer, work.texts(), move || {
        let gates = work.gates.clone();
        let program = work.read(&key)?;
        drop(reserved);
        Ok::<_, ApiError>((program, gates))
    })
    .await??;

    let in_flight = node.in_flight.enter();
    let running = tokio::spawn(async move {
        let _in_flight = in_flight;
        let counted = Counted::take(&node, &charge_to, gates.len() as u64).await?;
        let outcome = match node.compute.run(&key, program, deadline).await {
            Ok(outcome) => outcome,
            Err(error) => {
                counted.give_back().await;
                return Err(match error {
                    RunError::Api(error) => error,
                    RunError::Gone => node.sessions.gone(&charge_to.account, &session_id).await,
                });
            }
        };
        let price = tariff::price(gates.iter().copied());
        node.telemetry.queued(outcome.waited);
        let (counts, bootstraps, compute) = (usage::count(&gates), outcome.bootstraps, outcome.compute);
        let texts = if answer.octets { 0 } else { gates.len() };
        let ran = Ran { gates, key, outcome, price };
        let write = move || (answer.write)(ran, answer.octets);
        let answer = if texts < OFF_THREAD_GATES_MIN { write() } else { node.offload.finish(payer, write).await? }?;
        let (answer, kept) = claim.keep(answer).await?;
        let charge = Charge { counts: &counts, price: &price, bootstraps, compute };
        charge.book(&node, &charge_to, async |row| node.store.charge_gates(row, kept.as_ref()).await).await?;
        counted.keep();
        Ok(answer)
    });
    running.await?
}

/// Gates from which reading and writing ciphertexts leaves the async threads.
const OFF_THREAD_GATES_MIN: usize = 16;

/// Runs CPU work for so many gates' texts where it disturbs nobody.
async fn off_thread<T: Send + 'static>(
    node: &Node,
    payer: &Payer,
    texts: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    match texts {
        0..OFF_THREAD_GATES_MIN => Ok(work()),
        _ => node.offload.run(payer.clone(), work).await,
    }
}

/// The gate of this name; `place` is the member that holds it.
fn gate(name: &str, place: impl Fn() -> String) -> Result<Gate, ApiError> {
    Gate::from_name(name).ok_or_else(|| {
        let names = Gate::ALL.map(Gate::name).join(", ");
        ApiError::new(Code::InvalidGateOp, format!("{} must be one of {names}", place())).at(place(), "not a gate")
    })
}

/// All gates and their operands' presence, before anything is decoded (readings G9, G10).
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

/// A gate's operands in the engine's order; those it does not take are ignored (readings G9).
fn operands(gate: Gate, text: &BatchGate) -> GateText<'_> {
    let all = [("a", Some(text.a.as_str())), ("b", text.b.as_deref()), ("sel", text.sel.as_deref())];
    let operands = all.into_iter().take(gate.arity()).filter_map(|(member, text)| Some((member, text?))).collect();
    GateText { gate, operands }
}
