//! What may be asked of the engine: up to 1024 gates under one key, or a circuit. Here operands wait and results gather.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use kernels::tfhe::{Gate, GateRow, Lwe, Plan};

use crate::error::Error;
use crate::scheduler::{Shape, Work};

/// Rows of the largest list of gates (specification, Limits: gates per batch).
pub const OPERATION_ROWS_MAX: usize = 1024;

/// A submitted operation; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationId(pub u64);

/// What an operation came to.
#[derive(Debug)]
pub struct Done {
    /// One ciphertext a row, or a circuit's outputs, in order.
    pub results: Vec<Lwe>,
    /// Wall time from the first row's start to the last row's end (readings G12).
    pub compute: Duration,
    /// Bootstraps of its gates (an internal figure; the tariff is the service's, readings P29).
    pub bootstraps: u64,
}

/// Why an operation gave no results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// What happened.
    pub error: Error,
    /// Gates that had been completed by then, of each kind: what a client who cancels has had done.
    pub gates_done: Vec<(Gate, u64)>,
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Gates completed. Begins again at 0 when a device fails a circuit.
    pub gates_done: u64,
    /// Gates altogether.
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
    Gates(Vec<Place>),
    Circuit { job: Arc<Job>, outputs: Vec<Lwe> },
}

/// One row's place. Operands and results are moved through it, never copied.
enum Place {
    Waiting(GateRow),
    Running,
    Finished(Lwe),
}

/// A circuit and its inputs, which are kept until its end: it may have to begin anew.
pub(crate) struct Job {
    pub(crate) plan: Arc<Plan>,
    pub(crate) inputs: Vec<Lwe>,
}

/// What a device needs for a part of a batch.
pub(crate) enum Load {
    Gates(Vec<GateRow>),
    Circuit(Arc<Job>),
}

impl Operation {
    pub(crate) fn gates(rows: Vec<GateRow>, on_done: OnDone) -> Self {
        let task = Task::Gates(rows.into_iter().map(Place::Waiting).collect());
        Self { task, done: Default::default(), on_done }
    }

    pub(crate) fn circuit(plan: Arc<Plan>, inputs: Vec<Lwe>, on_done: OnDone) -> Self {
        let task = Task::Circuit { job: Arc::new(Job { plan, inputs }), outputs: Vec::new() };
        Self { task, done: Default::default(), on_done }
    }

    /// What the scheduler must know of it; nothing of it has run.
    pub(crate) fn work(&self) -> Work {
        match &self.task {
            Task::Gates(places) => Work::Gates(places.iter().map(|place| place.waiting().bootstraps() as u8).collect()),
            Task::Circuit { job, .. } => {
                let Job { plan, inputs } = &**job;
                let row_bytes = inputs.first().map_or(0, |lwe| size_of_val(lwe.words()));
                Work::Circuit(Shape {
                    bootstraps: plan.gates().iter().map(|gate| gate.gate.bootstraps() as u8).collect(),
                    level_ends: plan.levels().map(|level| level.end).collect(),
                    slots: plan.slots(),
                    host_bytes: ((inputs.len() + plan.outputs().len()) * row_bytes) as u64,
                })
            }
        }
    }

    pub(crate) fn progress(&self) -> Progress {
        let gates_total = match &self.task {
            Task::Gates(places) => places.len(),
            Task::Circuit { job, .. } => job.plan.gates().len(),
        };
        Progress { gates_done: self.done.iter().sum(), gates_total: gates_total as u64 }
    }

    /// What a device needs to run these rows: operands of gates are moved.
    pub(crate) fn take(&mut self, rows: Range<usize>) -> Load {
        match &mut self.task {
            Task::Gates(places) => Load::Gates(places[rows].iter_mut().map(Place::start).collect()),
            Task::Circuit { job, .. } => Load::Circuit(job.clone()),
        }
    }

    /// Moves operands of a failed batch back, to be taken again.
    pub(crate) fn put_back(&mut self, rows: Range<usize>, load: Load) {
        if let (Task::Gates(places), Load::Gates(operands)) = (&mut self.task, load) {
            for (place, row) in places[rows].iter_mut().zip(operands) {
                *place = Place::Waiting(row);
            }
        }
    }

    /// These rows have run. Keeps their results; of a circuit, its outputs if they were its last.
    pub(crate) fn store(&mut self, rows: Range<usize>, load: &Load, results: Vec<Lwe>) {
        match (&mut self.task, load) {
            (Task::Gates(places), Load::Gates(operands)) => {
                for ((place, lwe), row) in places[rows].iter_mut().zip(results).zip(operands) {
                    *place = Place::Finished(lwe);
                    count(&mut self.done, row.gate);
                }
            }
            (Task::Circuit { job, outputs }, Load::Circuit(_)) => {
                job.plan.gates()[rows].iter().for_each(|gate| count(&mut self.done, gate.gate));
                *outputs = results;
            }
            _ => unreachable!("an operation gets back what it gave"),
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
    pub(crate) fn finish(self) -> (Vec<Lwe>, OnDone) {
        let results = match self.task {
            Task::Gates(places) => places.into_iter().map(Place::finished).collect(),
            Task::Circuit { job, .. } if job.plan.gates().is_empty() => job.outputs_without_gates(),
            Task::Circuit { job, outputs } => {
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

impl Place {
    fn waiting(&self) -> Gate {
        match self {
            Place::Waiting(row) => row.gate,
            Place::Running | Place::Finished(_) => panic!("nothing has run"),
        }
    }

    fn start(&mut self) -> GateRow {
        match std::mem::replace(self, Place::Running) {
            Place::Waiting(row) => row,
            Place::Running | Place::Finished(_) => panic!("a row runs once at a time"),
        }
    }

    fn finished(self) -> Lwe {
        match self {
            Place::Finished(lwe) => lwe,
            Place::Waiting(_) | Place::Running => panic!("an operation is done when all its rows are"),
        }
    }
}

impl Job {
    /// The outputs of a circuit that hands inputs and constants through.
    fn outputs_without_gates(&self) -> Vec<Lwe> {
        let plan = &self.plan;
        let output = |slot| match plan.inputs().iter().position(|&input| input == slot) {
            Some(bit) => self.inputs[bit].clone(),
            None => {
                let constant = plan.constants().iter().find(|&&(of, _)| of == slot);
                Lwe::trivial(self.inputs[0].dimension(), constant.expect("inputs and constants are all there is").1)
            }
        };
        plan.outputs().iter().map(|&slot| output(slot)).collect()
    }
}

fn count(done: &mut [u64; Gate::ALL.len()], gate: Gate) {
    let at = Gate::ALL.iter().position(|&of| of == gate).expect("ALL is all");
    done[at] += 1;
}
