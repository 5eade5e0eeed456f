//! Work as a value: the question that a worker is asked, and the end of the work. A question is a request that was
//! parsed and checked. The worker plans the question again, unless the plan is still remembered.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::OperationId;
use engine::{Error, Gate, GateList, LweList, Params, Plan, Rows, Task};

use super::bits::{InputNoise, Mapping, PlanCache, PlannedCircuit, plan_again};
use super::key::{KeyName, Operand};
use super::named::{NamedBytes, NamedResult, bytes_of_words};
use super::numbers::{Asked, NumbersShape, StoredOperand};

/// Work for a worker.
pub struct Work {
    /// The id under which the work is cancelled and asked about. Work that was sent twice has the same id.
    pub id: OperationId,
    /// The key under which the worker computes. The worker opens the key at rest, if it is not open.
    pub key: KeyName,
    /// The weight of the key's account among the accounts that compute ([`engine::WEIGHTS`]).
    pub weight: u32,
    /// The computation.
    pub question: Question,
    /// Work that is not completed by then fails. In bytes, this is the time that is left, because clocks of machines
    /// differ and may jump.
    pub deadline: Instant,
    /// The names that the results will have as operands, in order. A worker that remembers them need not be sent them again.
    pub results: Vec<NamedResult>,
}

/// A computation. The ciphertexts of all operands stand in the question, each with its name ([`Operand`]).
pub enum Question {
    /// Independent gates.
    Gates(GatesQuestion),
    /// A circuit of gates.
    Circuit(CircuitQuestion),
    /// An operation on encrypted numbers.
    Numbers(NumbersQuestion),
}

/// Independent gates, folded ([`GateList::folded`]), with their operands.
pub struct GatesQuestion {
    pub(super) list: GateList,
    /// The name of each block of the list. Blocks behind the last name were made by folding.
    pub(super) operands: Vec<Operand>,
}

/// A circuit and its inputs.
pub struct CircuitQuestion {
    /// The netlist's text.
    pub(super) netlist: Arc<String>,
    pub(super) mapping: Mapping,
    pub(super) noise: InputNoise,
    /// One ciphertext for each input bit, one input after another.
    pub(super) inputs: LweList,
    /// The name of each input, with the input's number of bits.
    pub(super) operands: Vec<(usize, Operand)>,
    /// The plan, if this process has made one already. Not a part of the value.
    pub(super) planned: Option<Arc<Plan>>,
}

/// An operation on encrypted numbers, with the containers of its ciphertexts.
pub struct NumbersQuestion {
    pub(super) asked: Asked,
    pub(super) operands: Vec<StoredOperand>,
    /// The plan with its operands' words, if this process has made one already. Not a part of the value.
    pub(super) planned: Option<Task>,
}

impl PlannedCircuit {
    /// Asks for the circuit with these inputs, the same for which the plan was made.
    pub fn question(self, inputs: LweList) -> Question {
        let PlannedCircuit { plan, netlist, mapping, noise, operands, .. } = self;
        Question::Circuit(CircuitQuestion { netlist, mapping, noise, inputs, operands, planned: Some(plan) })
    }
}

impl Question {
    /// Returns the names of the operands: of each block of gates that has any, of each input of a circuit, of each
    /// ciphertext of an operation on numbers.
    pub fn operands(&self) -> Vec<&Operand> {
        match self {
            Question::Gates(gates) => gates.blocks().map(|(operand, _)| operand).collect(),
            Question::Circuit(circuit) => circuit.operands.iter().map(|(_, operand)| operand).collect(),
            Question::Numbers(numbers) => numbers.operands.iter().map(|stored| &stored.operand).collect(),
        }
    }
}

impl Question {
    /// Calls `each` with the bytes of each operand that has a name: words or a container, as in [`write_work`](super::write_work).
    pub(super) fn each_named(&self, mut each: impl FnMut(&Operand, NamedBytes)) {
        match self {
            Question::Gates(gates) => {
                for (operand, rows) in gates.blocks().filter(|(operand, _)| operand.is_named()) {
                    each(operand, bytes_of_words(rows.words()));
                }
            }
            Question::Circuit(circuit) => {
                let mut from = 0;
                for (rows, operand) in &circuit.operands {
                    if operand.is_named() {
                        each(operand, bytes_of_words(circuit.inputs.rows(from..from + rows)));
                    }
                    from += rows;
                }
            }
            Question::Numbers(numbers) => {
                for stored in numbers.operands.iter().filter(|stored| stored.operand.is_named()) {
                    each(&stored.operand, stored.bytes.clone());
                }
            }
        }
    }

    /// Returns the ids of the stored ciphertexts among the operands.
    pub fn ciphertext_ids(&self) -> Vec<String> {
        let id = |operand: &Operand| match operand {
            Operand::Object(id) => Some(id.as_str().to_owned()),
            Operand::Words | Operand::Value(_) => None,
        };
        self.operands().into_iter().filter_map(id).collect()
    }
}

impl GatesQuestion {
    /// Returns the blocks up to the last one that has an operand, each with its name.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (&Operand, &LweList)> {
        let places = self.list.places_of(0..self.list.gates().len());
        let count = places.iter().map(|place| place.block + 1).max().unwrap_or(0);
        let name = |block: u32| self.operands.get(block as usize).unwrap_or(&Operand::Words);
        (0..count).map(move |block| (name(block), self.list.block(block)))
    }
}

impl CircuitQuestion {
    /// Returns the plan: the remembered one, or a new one.
    ///
    /// # Errors
    /// The fault of the netlist, or inputs that do not fit it.
    pub(super) fn plan(&mut self, params: &Params, remembered: &PlanCache) -> Result<Arc<Plan>, String> {
        match self.planned.take() {
            Some(plan) => Ok(plan),
            None => plan_again(&self.netlist, params, &self.inputs, (self.mapping, self.noise), remembered),
        }
    }
}

impl NumbersQuestion {
    /// Returns the plan: the remembered one, or a new one.
    ///
    /// # Errors
    /// The fault that [`NumbersShape::plan`] finds.
    pub(super) fn task(&mut self, shape: &NumbersShape) -> Result<Task, String> {
        match self.planned.take() {
            Some(task) => Ok(task),
            None => shape.plan(&self.asked, &self.operands).map(|(task, _)| task).map_err(|error| error.message),
        }
    }
}

/// How work ended.
#[derive(Debug, PartialEq, Eq)]
pub enum WorkEnd {
    /// The work is completed.
    Completed {
        /// The results, in the order that [`Task`] tells.
        results: Rows,
        /// Figures of the computation.
        figures: Figures,
    },
    /// The work was cancelled after these gates were completed.
    Cancelled(Vec<(Gate, u64)>),
    /// The work failed without results.
    Failed(WorkError),
}

/// Figures of completed work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Wall time of the computation.
    pub compute: Duration,
    /// Units of work: bootstraps for gates.
    pub units: u64,
}

/// Why work has no results.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkError {
    /// The engine refused the work, or failed.
    #[error(transparent)]
    Engine(#[from] Error),
    /// The work does not fit its key, or its bytes are no work.
    #[error("not work for this key: {0}")]
    Unfit(String),
    /// The worker dropped the work.
    #[error("the worker dropped the work")]
    Dropped,
    /// No worker of the fleet can be reached.
    #[error("no worker can be reached")]
    Away,
}

impl WorkError {
    /// Whether the same work may succeed on another worker, or later.
    pub fn is_passing(&self) -> bool {
        let of_engine = |error: &Error| matches!(error, Error::Busy { .. } | Error::ShuttingDown | Error::Gone);
        match self {
            WorkError::Away | WorkError::Dropped => true,
            WorkError::Engine(error) => of_engine(error),
            WorkError::Unfit(_) => false,
        }
    }

    /// The error of work whose deadline has passed.
    pub fn deadline_passed() -> WorkError {
        Error::DeadlinePassed.into()
    }
}

/// The end of work, once the work has ended.
pub type Ending = Pin<Box<dyn Future<Output = WorkEnd> + Send>>;

/// How long an answer may come after its deadline. A worker that is silent for longer is no longer waited for.
const GRACE: Duration = Duration::from_secs(1);

/// Asks a worker and waits for the end, until shortly after the deadline. Work that has not ended by then fails and is
/// cancelled. Results of another shape than `[rows][row_words]` are refused.
///
/// # Errors
/// As [`Worker::ask`].
pub fn ask(worker: &Arc<dyn Worker>, work: Work, [rows, row_words]: [usize; 2]) -> Result<Ending, WorkError> {
    let (id, last, worker) = (work.id.clone(), work.deadline + GRACE, worker.clone());
    let ending = worker.ask(work)?;
    Ok(Box::pin(async move {
        match tokio::time::timeout_at(last.into(), ending).await {
            Ok(WorkEnd::Completed { results, .. }) if (results.len(), results.row_words) != (rows, row_words) => {
                let found = format!("results [{}][{}], not [{rows}][{row_words}]", results.len(), results.row_words);
                WorkEnd::Failed(WorkError::Unfit(found))
            }
            Ok(end) => end,
            Err(_) => {
                worker.cancel(&id);
                WorkEnd::Failed(Error::DeadlinePassed.into())
            }
        }
    }))
}

/// Computes the answers to questions.
pub trait Worker: Send + Sync {
    /// Takes work. Plans the question, if no plan is remembered: up to seconds of CPU time for a large circuit, and
    /// milliseconds for an operation on numbers. If the key is not open, the worker first opens the key at rest that
    /// the work names. If that fails, the work ends as failed.
    ///
    /// # Errors
    /// When the worker refuses the work: nothing of it runs.
    fn ask(&self, work: Work) -> Result<Ending, WorkError>;

    /// Returns how much of some work is done: gates of a circuit, or steps of an operation on numbers. `None`: the work
    /// is not running.
    fn done(&self, id: &OperationId) -> Option<u64>;

    /// Cancels work, unless the work has ended.
    fn cancel(&self, id: &OperationId);
}
