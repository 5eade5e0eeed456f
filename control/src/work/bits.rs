//! Gates and circuits in the engine: keys that are open for work, gates and netlists from outside, results.

mod ciphertexts;
mod fetched_key;
mod planning;
mod seeds;
mod stored_key;

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::params::PresetFacts;
use api::{HandleId, OperationId};
use engine::container::Form;
use engine::{Circuit, CircuitError, EvaluationKey, Gate, GateList, LweList, OperandBlock, Params, Preset};
use tokio::sync::oneshot;

use super::named::NamedResult;
use super::question::{Figures, GatesQuestion, Question, Work, WorkEnd, Worker, ask};
use super::{ComputeConfig, Here, KeyName, Operand, RunError, Share, too_large_key};
use crate::web::error::ApiError;

pub use ciphertexts::{
    check_fingerprint, empty_list, program, program_of_places, read_program, read_seeded_value, read_single,
    read_value, read_words, words_bytes, write_results, write_single, write_value,
};
pub use fetched_key::FetchedKey;
pub(super) use planning::plan_again;
pub use planning::{InputNoise, Mapping, PlanCache, PlanFacts, PlannedCircuit};
pub use seeds::Seeds;
pub use stored_key::{KeyStore, SealedKey, StoredKey};

/// A key for gates, with the properties that its ciphertexts must match.
#[derive(Clone, Copy, Debug)]
pub struct OpenKey {
    pub(super) name: KeyName,
    pub(super) weight: u32,
    /// The key's preset.
    pub preset: Preset,
    /// Whether another library made the key. Then the preset's figures for security and failure do not hold for the
    /// key.
    pub imported: bool,
    /// The key's parameters, for which plans of circuits are made.
    pub(super) params: Params,
    pub(super) fingerprint: Option<[u8; 8]>,
}

/// A session's key that is closed on drop, so that no key stays open when a request ends early.
pub struct OwnedKey {
    /// The worker of this process that has the key. `None`: the workers of a fleet have it, and it outlives this value.
    worker: Option<Here>,
    key: OpenKey,
}

impl OwnedKey {
    /// Whether the workers of a fleet open the key.
    pub fn is_shared(&self) -> bool {
        self.worker.is_none()
    }

    /// Names a key that the workers of a fleet open.
    pub fn of_fleet(key: OpenKey) -> OwnedKey {
        OwnedKey { worker: None, key }
    }
}

impl std::ops::Deref for OwnedKey {
    type Target = OpenKey;

    fn deref(&self) -> &OpenKey {
        &self.key
    }
}

impl OwnedKey {
    /// Closes the key and ends its name. The key accepts no new work, and its memory is overwritten. The receiver is
    /// ready when that is done (readings G3). A key may be closed more than once.
    pub fn close(&self) -> oneshot::Receiver<()> {
        let (erased, hears) = oneshot::channel();
        let tell = move || {
            // the receiver may have been dropped
            let _ = erased.send(());
        };
        match &self.worker {
            Some(worker) => worker.close_key(self.key.name, Box::new(tell)),
            None => tell(),
        }
        hears
    }
}

impl Drop for OwnedKey {
    fn drop(&mut self) {
        drop(self.close());
    }
}

/// A gate and its operands as base64, in the order a, b, sel.
#[derive(Clone)]
pub struct GateText<'a> {
    /// The gate.
    pub gate: Gate,
    /// Member names and operands, as many as the gate takes.
    pub operands: Vec<(&'static str, OperandText<'a>)>,
}

/// An operand in a member of a gate.
#[derive(Clone)]
pub enum OperandText<'a> {
    /// A ciphertext in base64.
    Text(&'a str),
    /// A bit of a value stored on the node.
    Kept {
        /// The value's name.
        name: Operand,
        /// The value's bits.
        value: OperandBlock,
        /// Index of the bit.
        bit: usize,
        /// The form for writing results.
        form: Form,
    },
}

/// Gates that are ready to run.
pub struct Program {
    /// The gates that remain to be computed after folding. The charge is for the requested gates.
    list: GateList,
    /// The name of each block of operands.
    operands: Vec<Operand>,
    /// The form of each gate's first operand. The gate's result is written in this form.
    forms: Vec<Form>,
}

/// The results of a program.
pub struct Outcome {
    results: LweList,
    forms: Vec<Form>,
    /// Wall time of the evaluation.
    pub compute: Duration,
    /// Wall time in the queue before the evaluation.
    pub waited: Duration,
    /// Number of bootstraps that the engine ran.
    pub bootstraps: u64,
}

impl Outcome {
    /// Returns the results' ciphertexts.
    pub fn into_results(self) -> LweList {
        self.results
    }

    /// Takes the results' ciphertexts out of the outcome. Returns also the form of the first result.
    pub fn take_results(&mut self) -> (LweList, Form) {
        let none = LweList::with_capacity(self.results.dimension(), 0);
        (std::mem::replace(&mut self.results, none), self.forms.first().copied().unwrap_or(Form::Ango))
    }
}

/// A netlist that was read and checked.
pub struct Netlist {
    circuit: Circuit,
}

impl Netlist {
    /// Reads a netlist of at most `gates_max` gates. A header that announces more is refused before any gate is read.
    /// Takes a second of CPU time for a million gates, so call this outside the async threads.
    pub fn read(text: &str, gates_max: u64) -> Result<Netlist, CircuitError> {
        let gates_max = usize::try_from(gates_max).unwrap_or(usize::MAX);
        Circuit::parse_within(text, gates_max).map(|circuit| Netlist { circuit })
    }

    /// Returns the number of bits of each input value.
    pub fn input_widths(&self) -> &[usize] {
        self.circuit.input_widths()
    }

    /// Returns the number of bits of each output value.
    pub fn output_widths(&self) -> &[usize] {
        self.circuit.output_widths()
    }

    /// Returns the number of gates.
    pub fn gates(&self) -> u64 {
        self.circuit.gates().len() as u64
    }

    /// Returns the number of gates of each kind.
    pub fn gate_counts(&self) -> Vec<(Gate, u64)> {
        self.circuit.gate_counts()
    }

    /// Returns the number of levels.
    pub fn levels(&self) -> u64 {
        self.circuit.levels().len() as u64
    }
}

impl Program {
    /// Runs the program. If the result is not ready at the deadline, the program fails and is not counted (readings E9).
    /// `handle`: under which the results will stay.
    pub async fn run(
        self,
        worker: &Arc<dyn Worker>,
        id: OperationId,
        key: &OpenKey,
        deadline: Instant,
        handle: Option<&HandleId>,
    ) -> Result<Outcome, RunError> {
        let Program { list, operands, forms } = self;
        let (submitted, shape) = (Instant::now(), [list.gates().len(), list.dimension() + 1]);
        let question = Question::Gates(GatesQuestion { list, operands });
        let results = handle.map(|handle| NamedResult::value(shape[0], handle)).into_iter().collect();
        let work = Work { results, ..key.work(id, question, deadline) };
        match ask(worker, work, shape)?.await {
            WorkEnd::Completed { results, figures: Figures { compute, units } } => {
                let waited = submitted.elapsed().saturating_sub(compute);
                Ok(Outcome { results: results.into(), forms, compute, waited, bootstraps: units })
            }
            WorkEnd::Cancelled(_) => Err(engine::Error::Cancelled.into()),
            WorkEnd::Failed(error) => Err(error.into()),
        }
    }
}

impl OpenKey {
    /// Returns the key's name.
    pub fn name(&self) -> KeyName {
        self.name
    }

    /// Makes the work of a question under this key.
    pub fn work(&self, id: OperationId, question: Question, deadline: Instant) -> Work {
        Work { id, key: self.name, weight: self.weight, question, deadline, results: Vec::new() }
    }
}

impl Here {
    /// Opens a key that is at rest, so that gates can run under it. The first key of a shape waits until the kernels
    /// for this shape are compiled, which takes some seconds on a GPU. If this call does not come to its end, the name
    /// ends.
    ///
    /// # Errors
    /// When the worker has no room for the key.
    pub async fn open(&self, key: OpenKey) -> Result<OwnedKey, ApiError> {
        let owned = OwnedKey { worker: Some(self.clone()), key };
        self.opened(key.name, key.weight).await?;
        Ok(owned)
    }
}

/// Returns the properties and costs of a preset (readings section 14, `params/suggest`).
pub fn preset_facts(preset: Preset) -> PresetFacts {
    let params = preset.params();
    PresetFacts {
        preset: preset.name().to_owned(),
        security_bits: preset.security_bits(),
        n: params.lwe_dimension,
        big_n: params.polynomial_size,
        glwe_dimension: params.glwe_dimension,
        bootstrap_base_log: params.bootstrap_base_log,
        bootstrap_level_count: params.bootstrap_level_count,
        key_switch_base: params.key_switch_base,
        key_switch_level_count: params.key_switch_level_count,
        evaluation_key_bytes: params.seeded_bytes(),
        ciphertext_bytes: params.ciphertext_bytes(),
        failure_probability_log2: tenths(engine::noise::failure_log2(&params).gate),
        worst_failure_probability_log2: tenths(engine::noise::failure_log2(&params).mux),
    }
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
