//! The computation of an operation. Only this file and its folder know schemes. The rest of the engine knows rows of
//! words, slots, units of work, and keys by their sessions.

pub(crate) mod assembly;
mod key;
mod numbers;

use std::ops::Range;
use std::sync::Arc;

use kernels::tfhe::{Gate, GateList, Lwe, LweList, Plan};

pub(crate) use key::{DeviceNeeds, EVALUATION_KEY, LoadingPart, PartOnDevice};
pub use key::{KeyParams, KeyPart, KeySource, NumbersKey, NumbersPart, SwitchingKeyRow};
pub use numbers::{Names, PlannedNumbers};

use crate::batch::BatchPart;
use crate::rows::Rows;
use crate::work::{Form, Levels, Work, split_by_levels};

/// The requested computation, with its operands. Cheap to clone.
#[derive(Clone)]
pub enum Task {
    /// 1 to [`crate::OPERATION_ROWS_MAX`] independent gates. The caller must have folded the gates
    /// ([`GateList::folded`]), because the figures of [`kernels::tfhe::noise`] hold for gates with different operands.
    /// The result has one ciphertext for each gate.
    Gates(Arc<GateList>),
    /// A circuit of gates. The result has one ciphertext for each output bit, in order.
    Circuit(Arc<PlannedCircuit>),
    /// An operation on encrypted numbers. The results are the rows of the operation's outputs, in order: `[2][primes of
    /// the level]` rows of `[N]` words each.
    Numbers(Arc<PlannedNumbers>),
}

/// A circuit and its inputs. The inputs are kept until the circuit's end, because the circuit may have to restart.
pub struct PlannedCircuit {
    plan: Arc<Plan>,
    inputs: LweList,
}

/// The number of completed gates of each kind. If a gate of a plan stands for several gates of the circuit, all of
/// these gates count.
pub type Completed = Vec<(Gate, u64)>;

/// The progress of an operation, in gates of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Completed gates. For a circuit, gates that need no computation count too. The number falls when a circuit
    /// restarts after a failure of its device.
    pub done: u64,
    /// All gates.
    pub total: u64,
}

/// The completed work so far.
#[derive(Default)]
pub(crate) struct Tally {
    /// Completed gates in the order of [`Gate::ALL`].
    gates: [u64; Gate::ALL.len()],
    /// Completed steps of plans of arithmetic.
    steps: u64,
}

impl From<GateList> for Task {
    fn from(list: GateList) -> Task {
        Task::Gates(Arc::new(list))
    }
}

impl From<Rows> for LweList {
    fn from(rows: Rows) -> LweList {
        LweList::from_words(rows.row_words - 1, rows.words)
    }
}

impl From<LweList> for Rows {
    fn from(list: LweList) -> Rows {
        Rows { row_words: list.dimension() + 1, words: list.into_words() }
    }
}

impl Task {
    /// Makes a task that runs a circuit on `inputs`: one ciphertext for each input bit, in the order of
    /// [`Plan::inputs`].
    ///
    /// # Panics
    /// When there are not as many inputs as the plan has.
    pub fn circuit(plan: Arc<Plan>, inputs: LweList) -> Task {
        assert_eq!(inputs.len(), plan.inputs().len(), "a ciphertext an input bit");
        Task::Circuit(Arc::new(PlannedCircuit { plan, inputs }))
    }

    /// Whether the task computes gates rather than arithmetic on encrypted numbers.
    pub(crate) fn is_of_gates(&self) -> bool {
        !matches!(self, Task::Numbers(_))
    }

    /// Number of words of a row of operands or results.
    pub(crate) fn row_words(&self) -> usize {
        match self {
            Task::Gates(list) => list.dimension() + 1,
            Task::Circuit(circuit) => circuit.inputs.dimension() + 1,
            Task::Numbers(numbers) => numbers.plan.params().n(),
        }
    }

    /// The scheduler's description of the task.
    pub(crate) fn work(&self) -> Work {
        match self {
            Task::Gates(list) => {
                let units: Vec<u32> = list.gates().iter().map(|gate| gate.bootstraps() as u32).collect();
                // a slot for each operand, and one for the result
                let slots = list.gates().iter().map(|gate| gate.arity() as u32 + 1).collect();
                Work { units, key: vec![EVALUATION_KEY], form: Form::List { slots } }
            }
            Task::Circuit(circuit) => {
                let PlannedCircuit { plan, inputs } = &**circuit;
                let levels = Levels {
                    ends: plan.level_ends().to_vec(),
                    slots: plan.slots(),
                    host_bytes: ((inputs.len() + plan.outputs().len()) * 4 * self.row_words()) as u64,
                    ..Levels::default()
                };
                let units = (0..plan.rows()).map(|row| plan.bootstraps_of(row) as u32).collect();
                Work { units, key: vec![EVALUATION_KEY], form: Form::Circuit(levels) }
            }
            Task::Numbers(numbers) => numbers.work(),
        }
    }

    /// The number of rows of all results.
    pub(crate) fn result_rows(&self) -> usize {
        match self {
            Task::Gates(list) => list.gates().len(),
            Task::Circuit(circuit) => circuit.plan.outputs().len(),
            Task::Numbers(numbers) => numbers.plan.outputs().map(|output| output.slots.len()).sum(),
        }
    }

    /// Splits consecutive rows by levels. A level's rows depend on rows of earlier levels only; the rows of a list are
    /// one level.
    pub(crate) fn levels_of(&self, rows: Range<usize>) -> Vec<Range<usize>> {
        match self {
            Task::Gates(_) => split_by_levels(&[], rows),
            Task::Circuit(circuit) => split_by_levels(circuit.plan.level_ends(), rows),
            Task::Numbers(numbers) => split_by_levels(numbers.plan.level_ends(), rows),
        }
    }

    /// The number of rows that a device reads for a part of the task.
    pub(crate) fn reads_of(&self, part: &BatchPart) -> usize {
        match self {
            Task::Gates(_) => part.rows.len(),
            Task::Circuit(_) | Task::Numbers(_) if part.completes => self.result_rows(),
            Task::Circuit(_) | Task::Numbers(_) => 0,
        }
    }

    /// The results of a task without rows; `None` for other tasks. The outputs are copied on the caller's thread and
    /// may have some megabytes.
    pub(crate) fn results_without_rows(&self) -> Option<Rows> {
        match self {
            Task::Circuit(circuit) if circuit.plan.rows() == 0 => Some(circuit.outputs_without_gates().into()),
            Task::Numbers(numbers) if numbers.plan.steps().is_empty() => Some(numbers.outputs_without_steps()),
            _ => None,
        }
    }

    /// Counts these rows as completed.
    pub(crate) fn count(&self, rows: Range<usize>, tally: &mut Tally) {
        match self {
            Task::Gates(list) => list.gates()[rows].iter().for_each(|&gate| tally.add(gate, 1)),
            Task::Circuit(circuit) => {
                let gates = rows.flat_map(|row| circuit.plan.stands_for(row));
                gates.for_each(|(gate, stands_for)| tally.add(gate, stands_for));
            }
            Task::Numbers(_) => tally.steps += rows.len() as u64,
        }
    }

    /// The progress after this much completed work.
    pub(crate) fn progress(&self, tally: &Tally) -> Progress {
        let done = tally.gates.iter().sum::<u64>() + tally.steps;
        match self {
            Task::Gates(list) => Progress { done, total: list.gates().len() as u64 },
            Task::Circuit(circuit) => {
                Progress { done: circuit.plan.gates_free() + done, total: circuit.plan.gates_asked() }
            }
            Task::Numbers(numbers) => Progress { done, total: numbers.plan.steps().len() as u64 },
        }
    }

    /// Makes the task's results of the rows that were read from the device.
    pub(crate) fn complete(&self, rows: &mut Rows) {
        if let Task::Circuit(circuit) = self {
            circuit.plan.negate_outputs(&mut rows.words);
        }
    }
}

impl PlannedCircuit {
    /// Returns the outputs of a circuit without gates to compute: each output is an input or a constant.
    fn outputs_without_gates(&self) -> LweList {
        let PlannedCircuit { plan, inputs } = self;
        let mut outputs = LweList::with_capacity(inputs.dimension(), plan.outputs().len());
        for &slot in plan.outputs() {
            // the inputs are in the first slots, so an input's slot is also the input's index
            match plan.constants().iter().find(|&&(of, _)| of == slot) {
                Some(&(_, bit)) => outputs.push(Lwe::trivial(inputs.dimension(), bit).words()),
                None => outputs.push(inputs.row(slot as usize)),
            }
        }
        outputs
    }
}

impl Tally {
    fn add(&mut self, gate: Gate, gates: u32) {
        let at = Gate::ALL.iter().position(|&of| of == gate).expect("ALL is all");
        self.gates[at] += u64::from(gates);
    }

    /// The completed gates, by kind.
    pub(crate) fn completed(&self) -> Completed {
        Gate::ALL.into_iter().zip(self.gates).filter(|&(_, count)| count > 0).collect()
    }
}
