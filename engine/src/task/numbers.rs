//! An operation on encrypted numbers (CKKS) as a task: a plan of arithmetic and its inputs. A task may be run part by part.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use kernels::ckks;
use kernels::ckks::PartKind;

use super::{NumbersKey, Task};
use crate::ids::{PartId, ValueId};
use crate::rows::Rows;
use crate::work::{Form, Levels, NamedInput, NamedSlots, Work};

/// A plan of arithmetic and its inputs. The inputs are kept until the plan's end, because the plan may have to restart.
#[derive(Clone)]
pub struct PlannedNumbers {
    pub(super) plan: ckks::Plan,
    pub(super) inputs: Vec<Arc<Vec<u32>>>,
    /// The parts of the key that the plan needs, each with its index.
    pub(super) parts: Vec<(PartKind, PartId)>,
    /// The names of inputs and outputs.
    names: Names,
}

/// The names of a plan's inputs and outputs. A ciphertext with a name stays on a device as long as there is room, so
/// that later operations of the session with the same name move no words to the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// For each input its name, if it has one. Inputs beyond the end have none.
    pub inputs: Vec<Option<ValueId>>,
    /// The same for each output.
    pub outputs: Vec<Option<ValueId>>,
}

impl Task {
    /// Makes a task that runs an operation on encrypted numbers (CKKS). The words of each input are `[2][primes of its
    /// level][N]`.
    ///
    /// # Errors
    /// The kind of a part that the plan needs, if `key` lacks this part or has it only for a lower level.
    ///
    /// # Panics
    /// When there are not as many inputs as the plan has, or when the number of words of an input does not fit the
    /// input's level.
    pub fn numbers(plan: ckks::Plan, inputs: Vec<Arc<Vec<u32>>>, key: &NumbersKey) -> Result<Task, PartKind> {
        let parts = plan.parts().into_iter().map(|(kind, level)| Ok((kind, key.part(kind, level).ok_or(kind)?)));
        let parts = parts.collect::<Result<_, _>>()?;
        Ok(PlannedNumbers { plan, inputs, parts, names: Names::default() }.checked())
    }

    /// Gives names to the inputs and outputs of an operation on encrypted numbers. Other tasks have no names, and stay
    /// as they are. Within a session, a name must always stand for the same words.
    #[must_use]
    pub fn with_names(self, names: Names) -> Task {
        match self {
            Task::Numbers(numbers) => {
                Task::Numbers(Arc::new(PlannedNumbers { names, ..Arc::unwrap_or_clone(numbers) }))
            }
            other => other,
        }
    }
}

impl PlannedNumbers {
    /// The plan.
    pub fn plan(&self) -> &ckks::Plan {
        &self.plan
    }

    /// The words of the plan's inputs.
    pub fn inputs(&self) -> &[Arc<Vec<u32>>] {
        &self.inputs
    }

    /// Makes a task that runs these levels of the plan ([`ckks::Plan::part`]) on the words of the part's inputs.
    ///
    /// # Panics
    /// As [`Task::numbers`], and when the range is outside the plan.
    pub fn part(&self, levels: Range<usize>, inputs: Vec<Arc<Vec<u32>>>) -> Task {
        let plan = self.plan.part(levels);
        // the key may have the same kind for a lower level too, which would give other words
        let needed = plan.parts();
        let is_needed = |kind: PartKind| needed.iter().any(|&(of, _)| of == kind);
        let parts = self.parts.iter().copied().filter(|&(kind, _)| is_needed(kind)).collect();
        PlannedNumbers { plan, inputs, parts, names: Names::default() }.checked()
    }

    /// Returns a number that tells plans apart ([`ckks::Plan::fingerprint`]), and the parts of the key that they use.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.plan.fingerprint().hash(&mut hasher);
        self.parts.iter().for_each(|(kind, part)| (kind, part.0).hash(&mut hasher));
        hasher.finish()
    }

    /// Makes the task.
    fn checked(self) -> Task {
        let (n, PlannedNumbers { plan, inputs, .. }) = (self.plan.params().n(), &self);
        let fits = plan.inputs().len() == inputs.len()
            && plan.inputs().zip(inputs).all(|(planned, words)| planned.slots.len() * n == words.len());
        assert!(fits, "a ciphertext of its level for each input");
        Task::Numbers(Arc::new(self))
    }

    /// The scheduler's description of the plan.
    pub(super) fn work(&self) -> Work {
        let PlannedNumbers { plan, inputs, parts, names } = self;
        let words: usize = inputs.iter().map(|words| words.len()).sum();
        let rows: usize = plan.outputs().map(|output| output.slots.len()).sum();
        let levels = Levels {
            ends: plan.level_ends().to_vec(),
            slots: plan.slots(),
            host_bytes: 4 * (words + rows * plan.params().n()) as u64,
            inputs: self.named_inputs(),
            results: named(plan.outputs(), &names.outputs).map(|(_, named)| named).collect(),
        };
        let units = plan.steps().iter().map(|step| step.units).collect();
        let mut key = vec![PartId::TABLES];
        parts.iter().for_each(|&(_, part)| key.push(part));
        Work { units, key, form: Form::Circuit(levels) }
    }

    /// The inputs with names whose slots no step writes to. A part of a plan may write to the slots of its inputs.
    fn named_inputs(&self) -> Vec<NamedInput> {
        let PlannedNumbers { plan, names, .. } = self;
        let mut is_written = vec![false; plan.slots()];
        let results = plan.steps().iter().flat_map(|step| &plan.value(step.result).slots);
        results.for_each(|&slot| is_written[slot as usize] = true);
        let named = named(plan.inputs(), &names.inputs).map(|(input, named)| NamedInput { input, named });
        named.filter(|input| input.named.slots.iter().all(|&slot| !is_written[slot as usize])).collect()
    }

    /// Returns the outputs of a plan without steps: each output is an input.
    pub(super) fn outputs_without_steps(&self) -> Rows {
        let PlannedNumbers { plan, inputs, .. } = self;
        let words_of = |slots: &[u32]| {
            let at = plan.inputs().position(|input| input.slots == slots).expect("an output is an input or a result");
            &inputs[at][..]
        };
        let words = plan.outputs().flat_map(|output| words_of(&output.slots)).copied().collect();
        Rows { row_words: plan.params().n(), words }
    }
}

/// The values that have names, each with its place among all values.
fn named<'a>(
    values: impl Iterator<Item = &'a ckks::PlannedValue>,
    names: &[Option<ValueId>],
) -> impl Iterator<Item = (usize, NamedSlots)> {
    let named = values.zip(names).enumerate();
    named.filter_map(|(at, (value, name))| Some((at, NamedSlots { value: (*name)?, slots: value.slots.clone() })))
}
