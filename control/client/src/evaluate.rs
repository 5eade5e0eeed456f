//! A circuit on encrypted bits, over HTTP: each level of the circuit is one batch.

use api::gates::BatchGate;
use api::{MilliYen, SessionId};
use kernels::tfhe::circuit::{self, Source};
use kernels::tfhe::{Circuit, Gate, Preset};

use crate::bundle;
use crate::http::{Client, Error, from_base64, to_base64};

/// How far an evaluation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Gates evaluated.
    pub gates_done: usize,
    /// Gates of the circuit.
    pub gates_total: usize,
    /// Levels evaluated.
    pub levels_done: usize,
    /// Levels of the circuit.
    pub levels_total: usize,
}

/// A circuit's encrypted outputs and what they cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// One value an output, one ciphertext a bit, bit 0 first.
    pub outputs: Vec<Vec<Vec<u8>>>,
    /// Gates evaluated.
    pub gates: usize,
    /// Bootstrap operations the node charged.
    pub bootstrap_ops: u64,
    /// The bill: the sum of what the batches cost.
    pub cost: MilliYen,
    /// Time the node computed.
    pub compute_ms: f64,
}

/// Evaluates `circuit` in a session of `preset` on `inputs`: one value an input, one ciphertext a bit, bit 0 first.
///
/// # Errors
/// As all requests; the levels before the one that failed were done and charged.
///
/// # Panics
/// When `inputs` have other widths than the circuit.
pub async fn evaluate(
    client: &Client,
    session: &SessionId,
    preset: Preset,
    circuit: &Circuit,
    inputs: &[Vec<Vec<u8>>],
    mut progress: impl FnMut(Progress),
) -> Result<Evaluation, Error> {
    assert!(inputs.iter().map(Vec::len).eq(circuit.input_widths().iter().copied()), "inputs have the circuit's widths");
    let levels = circuit.levels();
    let mut wires = Wires::new(circuit, preset, inputs);
    let (mut gates_done, mut bootstrap_ops, mut cost, mut compute_ms) = (0, 0, MilliYen(0), 0.0);
    for (index, level) in levels.iter().enumerate() {
        let gates: Vec<BatchGate> = level.iter().map(|&gate| wires.request(circuit, gate)).collect();
        let result = client.batch(session, &gates).await?;
        for (&gate, ciphertext) in level.iter().zip(result.results_b64) {
            wires.set(gate, ciphertext);
        }
        gates_done += level.len();
        bootstrap_ops += result.total_bootstrap_ops;
        cost = cost + result.total_cost_jpy;
        compute_ms += result.total_compute_ms;
        progress(Progress {
            gates_done,
            gates_total: circuit.gates().len(),
            levels_done: index + 1,
            levels_total: levels.len(),
        });
    }
    let outputs: Result<Vec<Vec<u8>>, Error> =
        circuit.outputs().iter().map(|&source| from_base64(&wires.take(source))).collect();
    Ok(Evaluation {
        outputs: circuit::split(&outputs?, circuit.output_widths()),
        gates: gates_done,
        bootstrap_ops,
        cost,
        compute_ms,
    })
}

/// A gate's request. Operands in the order a, b, sel, as many as the gate has.
pub fn request(gate: Gate, operands: impl IntoIterator<Item = String>) -> BatchGate {
    let mut operands = operands.into_iter();
    BatchGate {
        op: gate.name().to_owned(),
        a: operands.next().expect("every gate has an operand"),
        b: operands.next(),
        sel: operands.next(),
    }
}

/// Ciphertexts on their way through the circuit, in base64. A gate's result is forgotten after its last use, so that the
/// memory follows the circuit's width and not its size.
struct Wires {
    inputs: Vec<String>,
    /// `[false, true]`
    constants: [String; 2],
    results: Vec<Option<String>>,
    uses_left: Vec<u32>,
}

impl Wires {
    fn new(circuit: &Circuit, preset: Preset, inputs: &[Vec<Vec<u8>>]) -> Wires {
        let mut uses_left = vec![0; circuit.gates().len()];
        let operands = circuit.gates().iter().flat_map(|gate| gate.operands());
        for source in operands.chain(circuit.outputs()) {
            if let Source::Gate(gate) = *source {
                uses_left[gate] += 1;
            }
        }
        Wires {
            inputs: inputs.iter().flatten().map(|ciphertext| to_base64(ciphertext)).collect(),
            constants: [false, true].map(|bit| to_base64(&bundle::constant(preset, bit))),
            results: vec![None; circuit.gates().len()],
            uses_left,
        }
    }

    fn request(&mut self, circuit: &Circuit, gate: usize) -> BatchGate {
        let gate = &circuit.gates()[gate];
        request(gate.gate(), gate.operands().iter().map(|&source| self.take(source)))
    }

    fn set(&mut self, gate: usize, ciphertext: String) {
        if self.uses_left[gate] > 0 {
            self.results[gate] = Some(ciphertext);
        }
    }

    fn take(&mut self, source: Source) -> String {
        match source {
            Source::Input(bit) => self.inputs[bit].clone(),
            Source::Constant(bit) => self.constants[usize::from(bit)].clone(),
            Source::Gate(gate) => {
                self.uses_left[gate] -= 1;
                let result = &mut self.results[gate];
                let ciphertext = if self.uses_left[gate] == 0 { result.take() } else { result.clone() };
                ciphertext.expect("levels come in order, and uses were counted")
            }
        }
    }
}
