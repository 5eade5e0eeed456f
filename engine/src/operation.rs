//! What may be asked of the engine: up to 1024 gates under one key, or a circuit. Here operands wait and results gather.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use kernels::tfhe::{Gate, GateList, Lwe, LweList, Plan};

use crate::error::Error;
use crate::scheduler::{Form, Levels, Work};

/// Rows of the largest list of gates (specification, Limits: gates per batch).
pub const OPERATION_ROWS_MAX: usize = 1024;

/// A submitted operation; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationId(pub u64);

/// What an operation came to.
#[derive(Debug)]
pub struct Done {
    /// One ciphertext a row, or a circuit's outputs, in order.
    pub results: LweList,
    /// Wall time from the first row's start to the last row's end (readings G12).
    pub compute: Duration,
    /// Units of work of its rows (gates: bootstraps; an internal figure, the tariff is the service's, readings P29).
    pub units: u64,
}

/// Why an operation gave no results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// What happened.
    pub error: Error,
    /// Gates that had been completed by then, of each kind, those of a circuit that they stand for counted along: what a
    /// client who cancels has had done.
    pub gates_done: Vec<(Gate, u64)>,
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Gates completed, of a circuit also those that need no computing. Goes back when a device fails a circuit.
    pub gates_done: u64,
    /// Gates altogether, as they were asked for.
    pub gates_total: u64,
}

/// Told once how an operation ended.
pub type OnDone = Box<dyn FnOnce(Result<Done, Failed>) + Send>;

/// An accepted operation: operands until they run, results until all are there.
pub(crate) struct Operation {
    task: Task,
    /// Gates completed, by their place in [`Gate::ALL`].
    done: [u64; Gate::ALL.len()],
    on_done: OnDone,
}

enum Task {
    /// `results`: the rows that have run and what they gave, in the order in which that came.
    Gates {
        list: Arc<GateList>,
        results: Vec<(Range<usize>, LweList)>,
    },
    Circuit {
        job: Arc<Job>,
        outputs: Option<LweList>,
    },
}

/// A circuit and its inputs, which are kept until its end: it may have to begin anew.
pub(crate) struct Job {
    pub(crate) plan: Arc<Plan>,
    pub(crate) inputs: LweList,
}

/// What a device needs for a part of a batch, shared: a failed batch leaves it where it was.
pub(crate) enum Load {
    Gates(Arc<GateList>),
    Circuit(Arc<Job>),
}

impl Operation {
    pub(crate) fn gates(list: GateList, on_done: OnDone) -> Self {
        let task = Task::Gates { list: Arc::new(list), results: Vec::new() };
        Self { task, done: Default::default(), on_done }
    }

    /// Copies the outputs of a circuit without gates: that may be some megabytes, and is the caller's time.
    pub(crate) fn circuit(plan: Arc<Plan>, inputs: LweList, on_done: OnDone) -> Self {
        let job = Job { plan, inputs };
        let outputs = job.plan.gates().is_empty().then(|| job.outputs_without_gates());
        let task = Task::Circuit { job: Arc::new(job), outputs };
        Self { task, done: Default::default(), on_done }
    }

    /// What the scheduler must know of it; nothing of it has run.
    pub(crate) fn work(&self) -> Work {
        match &self.task {
            Task::Gates { list, .. } => {
                let units: Vec<u32> = list.gates().iter().map(|gate| gate.bootstraps() as u32).collect();
                // a gate has one operand more than bootstraps, and a result
                let slots = units.iter().map(|bootstraps| bootstraps + 2).collect();
                Work { units, form: Form::List { slots } }
            }
            Task::Circuit { job, .. } => {
                let Job { plan, inputs } = &**job;
                let row_bytes = 4 * (inputs.dimension() + 1);
                let levels = Levels {
                    ends: plan.levels().map(|level| level.end).collect(),
                    slots: plan.slots(),
                    host_bytes: ((inputs.len() + plan.outputs().len()) * row_bytes) as u64,
                };
                let units = plan.gates().iter().map(|gate| gate.gate.bootstraps() as u32).collect();
                Work { units, form: Form::Circuit(levels) }
            }
        }
    }

    pub(crate) fn progress(&self) -> Progress {
        let done = self.done.iter().sum::<u64>();
        match &self.task {
            Task::Gates { list, .. } => Progress { gates_done: done, gates_total: list.gates().len() as u64 },
            Task::Circuit { job, .. } => {
                Progress { gates_done: job.plan.gates_free() + done, gates_total: job.plan.gates_asked() }
            }
        }
    }

    /// What a device needs to run rows of it.
    pub(crate) fn load(&self) -> Load {
        match &self.task {
            Task::Gates { list, .. } => Load::Gates(list.clone()),
            Task::Circuit { job, .. } => Load::Circuit(job.clone()),
        }
    }

    /// These rows have run. Keeps their results; of a circuit, its outputs if they were its last.
    pub(crate) fn store(&mut self, rows: Range<usize>, given: LweList) {
        match &mut self.task {
            Task::Gates { list, results } => {
                list.gates()[rows.clone()].iter().for_each(|&gate| count(&mut self.done, gate, 1));
                results.push((rows, given));
            }
            Task::Circuit { job, outputs } => {
                let gates = job.plan.gates()[rows.clone()].iter().zip(&job.plan.stands_for()[rows]);
                gates.for_each(|(gate, &stands_for)| count(&mut self.done, gate.gate, stands_for));
                *outputs = Some(given);
            }
        }
    }

    /// A circuit begins anew: what was done does not count.
    pub(crate) fn restart(&mut self) {
        self.done = Default::default();
    }

    /// The results, in order, and whom to tell.
    ///
    /// # Panics
    /// When something has not run.
    pub(crate) fn finish(self) -> (LweList, OnDone) {
        let results = match self.task {
            Task::Gates { list, results } => in_order(list.gates().len(), results),
            Task::Circuit { job, outputs } => {
                let outputs = outputs.expect("the last rows bring the outputs, or there are no rows");
                assert_eq!(outputs.len(), job.plan.outputs().len(), "a circuit is done when its outputs were read");
                outputs
            }
        };
        (results, self.on_done)
    }

    /// Drops operands and results: nothing of a failed operation is delivered. What had been done, and whom to tell.
    pub(crate) fn abort(self) -> (Vec<(Gate, u64)>, OnDone) {
        let counts = Gate::ALL.into_iter().zip(self.done).filter(|&(_, count)| count > 0);
        (counts.collect(), self.on_done)
    }
}

/// What all rows gave, in their order. Mostly they ran in one batch, and there is nothing to copy.
fn in_order(rows: usize, mut results: Vec<(Range<usize>, LweList)>) -> LweList {
    results.sort_unstable_by_key(|(range, _)| range.start);
    let all = results.iter().try_fold(0, |end, (range, _)| (range.start == end).then_some(range.end));
    assert_eq!(all, Some(rows), "an operation is done when each of its rows has run once");
    let mut results = results.into_iter().map(|(_, given)| given);
    let mut first = results.next().expect("an operation has rows");
    results.for_each(|given| first.append(&given));
    first
}

impl Job {
    /// The outputs of a circuit that hands inputs and constants through.
    fn outputs_without_gates(&self) -> LweList {
        let Job { plan, inputs } = self;
        let mut outputs = LweList::with_capacity(inputs.dimension(), plan.outputs().len());
        for &slot in plan.outputs() {
            // inputs have the first slots, in order
            match plan.constants().iter().find(|&&(of, _)| of == slot) {
                Some(&(_, bit)) => outputs.push(Lwe::trivial(inputs.dimension(), bit).words()),
                None => outputs.push(inputs.row(slot as usize)),
            }
        }
        outputs
    }
}

fn count(done: &mut [u64; Gate::ALL.len()], gate: Gate, gates: u32) {
    let at = Gate::ALL.iter().position(|&of| of == gate).expect("ALL is all");
    done[at] += u64::from(gates);
}
