//! Parts of a plan: consecutive levels of steps as a plan. A plan that is run part by part, each part with the results of the
//! one before, gives the same words as the whole plan. So a long operation goes on from the values that live between two
//! levels.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use super::{Plan, Step, Value};

impl Plan {
    /// Returns these levels of steps as a plan over the same slots.
    ///
    /// The inputs of a part are the values that live before it: a later step reads them, or they are outputs. From level 0 on
    /// they are the plan's inputs. Unlike those, inputs of a later part may lose their slots to other values. The outputs of a part are the values that live after it, and those of the last part are
    /// the plan's outputs.
    ///
    /// # Panics
    /// When the range is outside the plan.
    pub fn part(&self, levels: Range<usize>) -> Plan {
        let (first, end) = (self.end_of(levels.start), self.end_of(levels.end));
        let steps = self.steps[first..end].to_vec();
        // the other plaintexts need not be written
        let mut plains = vec![(Vec::new(), Vec::new()); self.plains.len()];
        for plain in steps.iter().filter_map(|planned| planned.step.plain()) {
            plains[plain.0].clone_from(&self.plains[plain.0]);
        }
        let (is_first, is_last) = (levels.start == 0, levels.end == self.level_ends.len());
        Plan {
            params: self.params.clone(),
            values: self.values.clone(),
            steps,
            inputs: if is_first { self.inputs.clone() } else { self.live_before(levels.start) },
            outputs: if is_last { self.outputs.clone() } else { self.live_before(levels.end) },
            level_ends: levels.map(|level| self.level_ends[level] - first).collect(),
            plains,
            slots: self.slots,
        }
    }

    /// Counts the rows of the values that live before each level of steps, and at last those of the outputs. A row has `N`
    /// words.
    pub fn live_rows(&self) -> Vec<usize> {
        let count = self.level_ends.len();
        // for each value, the level before which it is there, and the last level before which it lives
        let mut lives: Vec<Option<[usize; 2]>> = vec![None; self.values.len()];
        self.inputs.iter().for_each(|value| lives[value.0] = Some([0, 0]));
        for level in 0..count {
            for planned in &self.steps[self.end_of(level)..self.end_of(level + 1)] {
                planned.step.reads().for_each(|value| lives[value.0].iter_mut().for_each(|[_, last]| *last = level));
                lives[planned.result.0] = Some([level + 1, level + 1]);
            }
        }
        self.outputs.iter().for_each(|value| lives[value.0].iter_mut().for_each(|[_, last]| *last = count));
        let mut rows = vec![0; count + 1];
        for (value, lives) in self.values.iter().zip(lives) {
            let Some([first, last]) = lives else { continue };
            rows[first..=last].iter_mut().for_each(|rows| *rows += value.slots.len());
        }
        rows
    }

    /// Returns a number that tells plans apart, for values that another process keeps. Another version of the program may give
    /// another number for the same plan.
    pub fn fingerprint(&self) -> u64 {
        let Plan { params, values, steps, level_ends, inputs, plains, outputs, slots } = self;
        let mut hasher = DefaultHasher::new();
        params.literal().hash(&mut hasher);
        params.primes().iter().for_each(|prime| prime.q().hash(&mut hasher));
        for value in values {
            (value.level, value.scale.to_bits(), &value.slots).hash(&mut hasher);
        }
        steps.iter().for_each(|planned| (&planned.step, planned.result).hash(&mut hasher));
        (level_ends, inputs, plains, outputs, slots).hash(&mut hasher);
        hasher.finish()
    }

    /// Returns the values before this level of steps that a step of this or a later level reads, and the outputs that are
    /// there.
    fn live_before(&self, level: usize) -> Vec<Value> {
        let later = &self.steps[self.end_of(level)..];
        let mut is_live = vec![false; self.values.len()];
        let read = later.iter().map(|planned| &planned.step).flat_map(Step::reads);
        read.chain(self.outputs.iter().copied()).for_each(|value| is_live[value.0] = true);
        later.iter().for_each(|planned| is_live[planned.result.0] = false);
        (0..self.values.len()).filter(|&at| is_live[at]).map(Value).collect()
    }

    /// Returns the index of the step at which the levels before this one end.
    fn end_of(&self, level: usize) -> usize {
        if level == 0 { 0 } else { self.level_ends[level - 1] }
    }
}
