//! Evaluates a circuit on encrypted bits over HTTP: in one request, or as a run that is polled if it takes longer.

use std::time::Duration;

use api::circuits::{CircuitMapping, CircuitOperation, CircuitRequest, CircuitValue, OperationStatus};
use api::gates::BatchGate;
use api::seeds::Seed;
use api::{MilliYen, OperationId, SessionId};
use kernels::container::{self, Form, Tag};
use kernels::tfhe::{Gate, Lwe, Preset, SeededLweList};

use crate::bundle;
use crate::http::circuits::CircuitAnswer;
use crate::http::{Client, Error};
use crate::netlists::Netlist;

/// The client polls for the result of a circuit of at least this many gates, because such a circuit takes seconds on a
/// few cores. A single request that waited so long would lose the result if the connection broke.
pub const POLLED_GATES_MIN: usize = 1024;
/// Pauses between polls: the first, and the longest.
const POLL_PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];
/// Largest number of consecutive polls without an answer.
const POLLS_LOST_MAX: u32 = 5;

/// The session and the options of an evaluation.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The session whose key evaluates the circuit.
    pub session: &'a SessionId,
    /// Preset of the session's key.
    pub preset: Preset,
    /// How the node runs the gates; `None`: the node decides.
    pub mapping: Option<CircuitMapping>,
}

/// Progress of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Gates evaluated.
    pub gates_done: usize,
    /// Gates of the circuit.
    pub gates_total: usize,
}

/// A circuit's encrypted outputs and their cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// One value per output, one ciphertext per bit, bit 0 first.
    pub outputs: Vec<Vec<Vec<u8>>>,
    /// Gates evaluated.
    pub gates: usize,
    /// Number of bootstraps that the node ran, if the node states it.
    pub bootstraps: Option<u64>,
    /// Number of levels of the bootstraps, if the node states it.
    pub bootstrap_levels: Option<u64>,
    /// log2 of the probability that any bootstrap gave a wrong bit, if the node states it.
    pub failure_log2: Option<f64>,
    /// Bootstrap operations that the node charged.
    pub bootstrap_ops: u64,
    /// The charge.
    pub cost: MilliYen,
    /// Time that the node spent computing, in milliseconds.
    pub compute_ms: f64,
}

/// Evaluates a netlist on `inputs`: one value per input, bit 0 first, all under one key. Each container holds one bit
/// or all bits of a seed. If all containers are seeded, only seeds and bodies are sent. If `interrupted` is ready
/// first, a polled run is cancelled.
///
/// # Errors
/// [`Error::Settings`] for inputs under several keys or of another preset; [`Error::Interrupted`]; the errors of all
/// requests.
///
/// # Panics
/// When `inputs` have other widths than the circuit.
pub async fn evaluate(
    client: &Client,
    target: Target<'_>,
    netlist: &Netlist,
    inputs: &[Vec<Vec<u8>>],
    mut progress: impl FnMut(Progress),
    interrupted: impl Future<Output = ()>,
) -> Result<Evaluation, Error> {
    let Target { session, preset, mapping } = target;
    let circuit = netlist.circuit();
    let widths: Vec<usize> = inputs.iter().map(|value| bundle::width(value)).collect();
    assert_eq!(widths, circuit.input_widths(), "inputs have the circuit's widths");
    let Bare { words, fingerprint, seeds } = bare(preset, inputs)?;
    let request = CircuitRequest {
        session_id: session.as_str().to_owned(),
        circuit: netlist.text().to_owned(),
        inputs: widths.iter().map(|&width| CircuitValue::Bits(width as u64)).collect(),
        outputs: None,
        mapping,
        fingerprint: fingerprint.map(|bytes| hexadecimal(&bytes)),
        seeds,
    };
    let answer = if circuit.gates().len() < POLLED_GATES_MIN {
        tokio::select! {
            answer = client.run_circuit(&request, &words) => answer?,
            () = interrupted => return Err(Error::Interrupted),
        }
    } else {
        let begun = client.begin_circuit(&request, &words).await?;
        drop((request, words));
        let answer = polled(client, &begun.op_id, &mut progress, interrupted).await?;
        // the client has the results, so the node may drop them now; a failure does not matter, because the node also
        // drops them with the session
        let _ = client.cancel_circuit(&begun.op_id).await;
        answer
    };
    progress(Progress { gates_done: circuit.gates().len(), gates_total: circuit.gates().len() });
    evaluation(answer, preset, fingerprint, circuit.output_widths())
}

/// A gate's request. Operands are in the order a, b, sel, as many as the gate has.
pub fn request(gate: Gate, operands: impl IntoIterator<Item = String>) -> BatchGate {
    let mut operands = operands.into_iter();
    BatchGate {
        op: gate.name().to_owned(),
        a: operands.next().expect("every gate has an operand"),
        b: operands.next(),
        sel: operands.next(),
    }
}

/// Polls a run until it is completed, and returns the answer. If `interrupted` is ready first, cancels the run.
async fn polled(
    client: &Client,
    operation: &OperationId,
    progress: &mut impl FnMut(Progress),
    interrupted: impl Future<Output = ()>,
) -> Result<CircuitAnswer, Error> {
    let mut interrupted = std::pin::pin!(interrupted);
    let (mut pause, mut lost, mut gates_done) = (POLL_PAUSES[0], 0, 0);
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = &mut interrupted => {
                let _ = client.cancel_circuit(operation).await;
                return Err(Error::Interrupted);
            }
        }
        pause = (pause * 3 / 2).min(POLL_PAUSES[1]);
        let answer = match client.circuit_operation(operation).await {
            Err(Error::Transport(_)) if lost < POLLS_LOST_MAX => {
                lost += 1;
                continue;
            }
            answer => answer?,
        };
        lost = 0;
        let CircuitOperation { status, gates_done: done, gates_total, error, .. } = &answer.operation;
        match (status, error) {
            (OperationStatus::Completed, _) => return Ok(answer),
            (OperationStatus::Pending | OperationStatus::Running, _) => {}
            (_, Some(error)) => {
                let (code, message) = (error.code.clone(), format!("the run failed: {}", error.message));
                return Err(Error::Refused { status: 200, code, message, request_id: None });
            }
            (_, None) => return Err(Error::Interrupted),
        }
        if *done > gates_done && done < gates_total {
            gates_done = *done;
            progress(Progress { gates_done: *done as usize, gates_total: *gates_total as usize });
        }
    }
}

/// The words of a request, and the fields of the request's head that describe them.
struct Bare {
    words: Vec<u8>,
    /// Fingerprint of the key, as stated in the containers.
    fingerprint: Option<[u8; 8]>,
    /// The seeds, if `words` has only bodies.
    seeds: Option<Vec<Seed>>,
}

/// A container's contents.
enum Contents<'a> {
    Whole(&'a [u8]),
    Seeded(SeededLweList),
}

/// Joins the words of the containers for a request. If all containers are seeded and no seed repeats, only the bodies
/// are joined.
fn bare(preset: Preset, inputs: &[Vec<Vec<u8>>]) -> Result<Bare, Error> {
    let unusable = |why: &str| Error::Settings(format!("an input ciphertext cannot be sent: {why}"));
    let refused = |error| match error {
        container::Error::SecretKey => Error::SecretKey,
        error => unusable(&error.to_string()),
    };
    let dimension = preset.params().lwe_dimension;
    let (mut all, mut fingerprint) = (Vec::new(), None);
    for bytes in inputs.iter().flatten() {
        let (header, contents) = if container::is_seeded(bytes) {
            let (header, list) = container::unframe_seeded(bytes).map_err(refused)?;
            (header, Contents::Seeded(list))
        } else {
            let (header, payload) = container::unframe(bytes, Tag::Ciphertext).map_err(refused)?;
            (header, Contents::Whole(payload))
        };
        let of_another_length = matches!(&contents, Contents::Whole(words) if words.len() != 4 * (dimension + 1));
        if header.preset != preset || of_another_length {
            return Err(unusable(&format!(
                "it was not made for the session's preset, {}; encrypt the inputs under the session's key",
                preset.name()
            )));
        }
        if let Some(named) = header.fingerprint
            && *fingerprint.get_or_insert(named) != named
        {
            return Err(unusable("an earlier input was made under another key; encrypt all inputs under one key"));
        }
        all.push(contents);
    }
    let seeds: Option<Vec<Seed>> = all.iter().map(seed).collect();
    // a file that is given as input twice repeats its seed, and the node refuses repeated seeds; in this case the
    // inputs are sent whole, with their masks
    let seeds = seeds.filter(|seeds| seeds.iter().enumerate().all(|(at, seed)| !seeds[..at].contains(seed)));
    let mut words = Vec::new();
    for contents in all {
        match contents {
            Contents::Whole(payload) => words.extend_from_slice(payload),
            Contents::Seeded(list) if seeds.is_some() => put(&mut words, list.bodies()),
            Contents::Seeded(list) => put(&mut words, list.expand(dimension).words()),
        }
    }
    Ok(Bare { words, fingerprint, seeds })
}

fn put(bytes: &mut Vec<u8>, words: &[u32]) {
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

fn seed(contents: &Contents<'_>) -> Option<Seed> {
    match contents {
        Contents::Whole(_) => None,
        Contents::Seeded(list) => Some(Seed { seed: hexadecimal(list.seed()), ciphertexts: list.len() as u64 }),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Puts the words of an answer into containers.
fn evaluation(
    answer: CircuitAnswer,
    preset: Preset,
    fingerprint: Option<[u8; 8]>,
    widths: &[usize],
) -> Result<Evaluation, Error> {
    let CircuitAnswer { operation, words } = answer;
    let expected: Vec<_> = widths.iter().map(|&width| CircuitValue::Bits(width as u64)).collect();
    let ciphertext_bytes = 4 * (preset.params().lwe_dimension + 1);
    if operation.outputs.as_ref() != Some(&expected) || words.len() != widths.iter().sum::<usize>() * ciphertext_bytes {
        return Err(Error::Answer("the number of output bits differs from the circuit's".into()));
    }
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    let container = |bytes: &[u8]| {
        let lwe = Lwe::new(bytes.chunks_exact(4).map(word).collect());
        container::write_ciphertext(&lwe, preset, fingerprint, Form::Ango)
    };
    let mut containers = words.chunks_exact(ciphertext_bytes).map(container);
    Ok(Evaluation {
        outputs: widths.iter().map(|&width| containers.by_ref().take(width).collect()).collect(),
        gates: operation.gates_done as usize,
        bootstraps: operation.bootstraps,
        bootstrap_levels: operation.bootstrap_levels,
        failure_log2: operation.failure_log2,
        bootstrap_ops: operation.bootstrap_ops.unwrap_or_default(),
        cost: operation.cost_jpy.unwrap_or(MilliYen(0)),
        compute_ms: operation.compute_ms.unwrap_or_default(),
    })
}
