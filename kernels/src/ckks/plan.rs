//! An operation as a plan: steps on ciphertexts, grouped into levels. A slot of the arena holds one residue
//! polynomial.
//!
//! A [`PlanBuilder`] collects the computation and tracks the level and the exact scale of every value. A device runs
//! the finished [`Plan`]. A matrix product or a bootstrap is a plan of many levels, so it takes turns with other work
//! and can be cancelled or restarted between levels.

mod builder;
pub mod gains;
mod part;

use std::sync::Arc;

use super::noise::Noise;
use super::params::{Params, PartKind};
use super::weights::Weights;
use builder::{Node, PlainNode};
pub use builder::{PlanBuilder, drift, same_scale};

/// Scales whose relative difference is below this tolerance are treated as equal, because rounding causes such
/// differences.
pub const SCALE_TOLERANCE: f64 = 1.0 / (1u64 << 32) as f64;
/// Terms of a sum have scales with a relative difference below this one. The difference counts as an error of the sum.
pub const SCALE_DRIFT_MAX: f64 = 1.0 / (1u64 << 10) as f64;

/// A handle of a ciphertext in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Value(usize);

/// A handle of a plaintext in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Plain(usize);

/// A ciphertext and the plaintext that multiplies it in a sum ([`Step::WeightedSum`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    /// The ciphertext.
    pub value: Value,
    /// The plaintext. `None` in a plan that no device runs.
    pub weights: Option<Arc<Weights>>,
}

/// The computation of a step, on values of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// `a + b`.
    Add(Value, Value),
    /// `a - b`.
    Sub(Value, Value),
    /// `a + plain`.
    AddPlain(Value, Plain),
    /// `a plain`.
    MultiplyPlain(Value, Plain),
    /// The sum of each ciphertext times its plaintext. There is at least one term.
    WeightedSum(Arc<[Term]>),
    /// The ciphertext times a whole number.
    MultiplyInteger(Value, i128),
    /// The ciphertext plus a whole number `c`. This adds the number `c / scale` to every slot, where `scale` is the
    /// ciphertext's scale.
    AddInteger(Value, i128),
    /// `a` times `factor`, divided by the primes of [`super::Chain::divided`] on the way from the level of `a` to the
    /// level `to`.
    Divide {
        /// The dividend.
        a: Value,
        /// The level of the result.
        to: usize,
        /// The whole number by which `a` is multiplied before the division.
        factor: u128,
    },
    /// `a b`, relinearized. If `to` is the level below, the same division rescales.
    Multiply {
        /// The first factor.
        a: Value,
        /// The second factor.
        b: Value,
        /// Level of the result: the level of the factors, or the level below.
        to: usize,
    },
    /// The sum of `a b` over all pairs, plus a ciphertext if there is one, relinearized and rescaled once to the level below.
    SumOfProducts {
        /// The factors.
        pairs: Arc<[(Value, Value)]>,
        /// A ciphertext of the factors' level and the products' scale.
        plus: Option<Value>,
    },
    /// A ciphertext of level 0, raised to the highest level of the chain: its residues are read as the whole numbers
    /// nearest to 0.
    Raise(Value),
    /// `a` switched to another secret.
    Switch {
        /// The ciphertext to switch.
        a: Value,
        /// The part of the key that performs the switch.
        kind: PartKind,
    },
    /// `a(X^element)`.
    Automorphism {
        /// The ciphertext to permute.
        a: Value,
        /// The Galois element, an odd number below `2N`.
        element: u32,
    },
    /// The sum of `a` and of `a(X^element)` for each element. All images share the decomposition of `a`, and one division
    /// by the special primes (hoisting, eprint 2018/244; one division, eprint 2020/1203).
    AddImages {
        /// The ciphertext.
        a: Value,
        /// The Galois elements, odd numbers below `2N`.
        elements: Arc<[u32]>,
    },
}

impl Step {
    /// The ciphertexts that the step reads.
    pub fn reads(&self) -> impl Iterator<Item = Value> {
        let none: &[Term] = &[];
        let pairs = if let Step::SumOfProducts { pairs, .. } = self { &pairs[..] } else { &[] };
        let (first, second, terms) = match self {
            Step::Add(a, b) | Step::Sub(a, b) | Step::Multiply { a, b, .. } => (Some(*a), Some(*b), none),
            Step::AddPlain(a, _) | Step::MultiplyPlain(a, _) => (Some(*a), None, none),
            Step::MultiplyInteger(a, _) | Step::AddInteger(a, _) => (Some(*a), None, none),
            Step::Divide { a, .. } | Step::Automorphism { a, .. } | Step::Switch { a, .. } => (Some(*a), None, none),
            Step::Raise(a) | Step::AddImages { a, .. } => (Some(*a), None, none),
            Step::WeightedSum(terms) => (None, None, &terms[..]),
            Step::SumOfProducts { plus, .. } => (None, *plus, none),
        };
        let factors = pairs.iter().flat_map(|(a, b)| [*a, *b]);
        factors.chain(first).chain(second).chain(terms.iter().map(|term| term.value))
    }

    /// The plaintext that the step reads.
    pub fn plain(&self) -> Option<Plain> {
        match *self {
            Step::AddPlain(_, plain) | Step::MultiplyPlain(_, plain) => Some(plain),
            _ => None,
        }
    }

    /// The parts of the key that the step needs.
    pub fn parts(&self) -> impl Iterator<Item = PartKind> {
        let none: &[u32] = &[];
        let (part, elements) = match self {
            Step::Multiply { .. } | Step::SumOfProducts { .. } => (Some(PartKind::Relinearization), none),
            Step::Automorphism { element, .. } => (Some(PartKind::Galois(*element)), none),
            Step::Switch { kind, .. } => (Some(*kind), none),
            Step::AddImages { elements, .. } => (None, &elements[..]),
            _ => (None, none),
        };
        part.into_iter().chain(elements.iter().map(|&element| PartKind::Galois(element)))
    }
}

/// A value of a plan with its slots.
#[derive(Clone, Debug)]
pub struct PlannedValue {
    /// Level of the value.
    pub level: usize,
    /// Exact scale of the value.
    pub scale: f64,
    /// Bounds on the numbers and the error.
    pub noise: Noise,
    /// Slots of the value's rows, `[2][primes of the level]`. There are none if the value is no input and no output
    /// depends on it.
    pub slots: Vec<u32>,
}

/// A step with its result.
#[derive(Clone, Debug)]
pub struct PlannedStep {
    /// The computation.
    pub step: Step,
    /// The value that the step produces.
    pub result: Value,
    /// Cost in units of [`BUTTERFLIES_OF_UNIT`] butterflies.
    pub units: u32,
}

/// Butterflies in a unit of work: about a sixteenth of the cheapest gate's bootstrap.
pub const BUTTERFLIES_OF_UNIT: u64 = 1 << 20;

/// Steps ordered by level, over as few slots as the lifetimes of the values allow. A slot is reused only in levels
/// after the last level that reads it, so the steps of one level may run in any order. Inputs and plaintexts keep their
/// slots to the end.
#[derive(Clone, Debug)]
pub struct Plan {
    params: Params,
    values: Vec<PlannedValue>,
    steps: Vec<PlannedStep>,
    level_ends: Vec<usize>,
    inputs: Vec<Value>,
    /// Slots and words of each plaintext.
    plains: Vec<(Vec<u32>, Vec<u32>)>,
    outputs: Vec<Value>,
    slots: usize,
}

impl Plan {
    fn of(builder: PlanBuilder, outputs: &[Value]) -> Plan {
        let PlanBuilder { params, nodes, inputs, plains, .. } = builder;
        let needed = needed(&nodes, outputs);
        // for each value, the level of steps that computes the value; inputs have level 0
        let mut depths = vec![0; nodes.len()];
        for (at, node) in nodes.iter().enumerate() {
            if let Some(step) = &node.step {
                depths[at] = 1 + step.reads().map(|value| depths[value.0]).max().unwrap_or(0);
            }
        }
        let mut order: Vec<usize> = (0..nodes.len()).filter(|&at| needed[at] && nodes[at].step.is_some()).collect();
        order.sort_by_key(|&at| depths[at]);
        // for each value, the depth of the last step that reads the value
        let mut last_read = depths.clone();
        for &at in &order {
            for value in nodes[at].step.iter().flat_map(Step::reads) {
                last_read[value.0] = last_read[value.0].max(depths[at]);
            }
        }
        for output in outputs {
            last_read[output.0] = usize::MAX;
        }
        let mut pool = SlotPool::default();
        let rows = |at: usize| 2 * params.level(nodes[at].level).primes.len();
        let mut slots: Vec<Vec<u32>> = vec![Vec::new(); nodes.len()];
        // every input gets slots, even if no step reads the input, because callers write all inputs in order
        for &Value(at) in &inputs {
            slots[at] = pool.take(rows(at));
        }
        let place = |plain: PlainNode, pool: &mut SlotPool| {
            let slots = pool.take(params.level(plain.level).primes.len());
            (slots, plain.words)
        };
        let plains: Vec<(Vec<u32>, Vec<u32>)> = plains.into_iter().map(|plain| place(plain, &mut pool)).collect();
        let mut steps = Vec::with_capacity(order.len());
        let mut level_ends = Vec::new();
        // the slots of inputs are never reused, so that an input may stay in its slots for another plan
        let mut living: Vec<usize> = Vec::new();
        for level in order.chunk_by(|&a, &b| depths[a] == depths[b]) {
            let depth = depths[level[0]];
            living.retain(|&at| {
                let lives = last_read[at] >= depth;
                if !lives {
                    pool.give_back(&slots[at]);
                }
                lives
            });
            for &at in level {
                slots[at] = pool.take(rows(at));
                living.push(at);
                let step = nodes[at].step.clone().expect("an input is no step");
                let units = units(&params, &nodes, &step);
                steps.push(PlannedStep { step, result: Value(at), units });
            }
            level_ends.push(steps.len());
        }
        let values = nodes.iter().zip(slots);
        let values = values
            .map(|(node, slots)| PlannedValue { level: node.level, scale: node.scale, noise: node.noise, slots })
            .collect();
        Plan {
            params,
            values,
            steps,
            level_ends,
            inputs,
            plains,
            outputs: outputs.to_vec(),
            slots: pool.count as usize,
        }
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// A value of the plan.
    pub fn value(&self, value: Value) -> &PlannedValue {
        &self.values[value.0]
    }

    /// All steps, level after level.
    pub fn steps(&self) -> &[PlannedStep] {
        &self.steps
    }

    /// For each level of steps, the index in [`Plan::steps`] at which the level ends.
    pub fn level_ends(&self) -> &[usize] {
        &self.level_ends
    }

    /// The input ciphertexts, in order.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = &PlannedValue> {
        self.inputs.iter().map(|value| self.value(*value))
    }

    /// Slots and words of the plaintexts, `[primes of the level]` and `[primes of the level][N]`.
    pub fn plains(&self) -> &[(Vec<u32>, Vec<u32>)] {
        &self.plains
    }

    /// Slots of a plaintext.
    pub fn plain_slots(&self, plain: Plain) -> &[u32] {
        &self.plains[plain.0].0
    }

    /// The output ciphertexts, in order.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = &PlannedValue> {
        self.outputs.iter().map(|value| self.value(*value))
    }

    /// Counts the key switches: a product, a rotation and a change of the secret have one each.
    pub fn key_switches(&self) -> usize {
        self.steps.iter().map(|planned| planned.step.parts().count()).sum()
    }

    /// The number of slots that the plan needs.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Lists the parts of the key that the steps need, each with the highest level at which it is needed.
    pub fn parts(&self) -> Vec<(PartKind, usize)> {
        let mut parts: Vec<(PartKind, usize)> = Vec::new();
        for PlannedStep { step, .. } in &self.steps {
            let level = step.reads().map(|value| self.value(value).level).max().unwrap_or(0);
            for kind in step.parts() {
                match parts.iter_mut().find(|(of, _)| *of == kind) {
                    Some((_, highest)) => *highest = level.max(*highest),
                    None => parts.push((kind, level)),
                }
            }
        }
        parts
    }
}

/// Finds out for each node whether an output depends on it.
fn needed(nodes: &[Node], outputs: &[Value]) -> Vec<bool> {
    let mut needed = vec![false; nodes.len()];
    outputs.iter().for_each(|value| needed[value.0] = true);
    for at in (0..nodes.len()).rev().filter(|&at| nodes[at].step.is_some()) {
        if needed[at] {
            nodes[at].step.iter().flat_map(Step::reads).for_each(|value| needed[value.0] = true);
        }
    }
    needed
}

/// Estimates the cost of a step, in units. A transform costs its number of stages, and a product with a row of the key
/// costs as much as a few stages.
fn units(params: &Params, nodes: &[Node], step: &Step) -> u32 {
    let n = params.n() as u64;
    let stages = u64::from(params.n().ilog2());
    let level = step.reads().map(|value| nodes[value.0].level).max().unwrap_or(0);
    let primes = |level: usize| params.level(level).primes.len() as u64;
    let of_level = primes(level);
    // transforms of the input, of each digit under all primes, and of both result polynomials; then the products with
    // the key
    let switch = |kind: PartKind| {
        let digits = params.digits(kind, level).len() as u64;
        let special = params.special_primes(kind).len() as u64;
        let transforms = of_level + digits * (of_level + special) + 2 * (of_level + special);
        transforms * stages + 4 * digits * (of_level + special)
    };
    let work = match step {
        Step::Multiply { .. } => switch(PartKind::Relinearization) + 8 * of_level,
        Step::SumOfProducts { pairs, .. } => switch(PartKind::Relinearization) + 8 * pairs.len() as u64 * of_level,
        Step::Automorphism { element, .. } => switch(PartKind::Galois(*element)) + 2 * of_level,
        Step::Switch { kind, .. } => switch(*kind) + 2 * of_level,
        Step::AddImages { elements, .. } => {
            let kind = PartKind::Galois(elements[0]);
            let (digits, special) = (params.digits(kind, level).len() as u64, params.special_primes(kind).len() as u64);
            // for each image, the products with the key, their permutation and their sum
            switch(kind) + elements.len() as u64 * (4 * digits + 4) * (of_level + special)
        }
        // for each term, a transform of the plaintext and two products
        Step::WeightedSum(terms) => terms.len() as u64 * of_level * (stages + 4),
        Step::Raise(_) => 2 * primes(params.raised_level()) * (stages + 4),
        Step::Divide { to, .. } => 2 * of_level.max(primes(*to)) * (stages + 4),
        _ => 2 * of_level,
    };
    (work * n / 2).div_ceil(BUTTERFLIES_OF_UNIT) as u32
}

/// Hands out slot numbers, and reuses numbers that were given back.
#[derive(Default)]
struct SlotPool {
    count: u32,
    free: Vec<u32>,
}

impl SlotPool {
    fn take(&mut self, count: usize) -> Vec<u32> {
        let reused = self.free.len().min(count);
        let mut taken = self.free.split_off(self.free.len() - reused);
        taken.extend(self.count..self.count + (count - reused) as u32);
        self.count += (count - reused) as u32;
        taken
    }

    fn give_back(&mut self, slots: &[u32]) {
        self.free.extend(slots.iter().rev());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ckks::{ParamsLiteral, SecurityLevel};

    const NOISE: Noise = Noise::new(1.0, 10.0);

    fn params() -> Params {
        let security = SecurityLevel::Testing;
        Params::new(ParamsLiteral { poly_degree: 64, scale_bits: 40, max_depth: 3, security, bootstrap: false })
            .unwrap()
    }

    #[test]
    fn no_step_writes_what_a_later_step_or_its_own_level_reads() {
        let params = params();
        let mut builder = PlanBuilder::new(&params);
        let scale = params.level(3).scale;
        let inputs: Vec<Value> = (0..4).map(|_| builder.input(3, scale, NOISE)).collect();
        let mut values = inputs.clone();
        // sums, rotations and differences of earlier values
        for i in 0..6 {
            let sum = builder.add(values[i], values[i + 1]);
            let turned = builder.automorphism(sum, 5);
            values.push(builder.sub(turned, values[i]));
        }
        let square = builder.multiply_rescaled(values[9], values[8]);
        let scale = builder.scale(square);
        let low = builder.lower(values[5], 2, scale);
        let end = builder.sub(square, low);
        let unused = builder.negate(end);
        let plan = builder.finish(&[end, values[6]]);
        assert!(plan.steps().iter().all(|step| step.result != unused), "what no output needs is left out");
        // four inputs, which keep their slots, and fewer than eight other values at a time
        assert!(plan.slots() < 12 * plan.value(inputs[0]).slots.len(), "slots are used again: {}", plan.slots());
        // for each slot, the value whose words the slot holds
        let mut held: Vec<Option<Value>> = vec![None; plan.slots()];
        let write = |held: &mut Vec<Option<Value>>, value: Value| {
            plan.value(value).slots.iter().for_each(|&slot| held[slot as usize] = Some(value));
        };
        inputs.iter().for_each(|&value| write(&mut held, value));
        let mut first = 0;
        for &end in plan.level_ends() {
            let level = &plan.steps()[first..end];
            let before = held.clone();
            for step in level {
                for read in step.step.reads() {
                    let slots = &plan.value(read).slots;
                    assert!(slots.iter().all(|&slot| before[slot as usize] == Some(read)), "{step:?}");
                }
                write(&mut held, step.result);
            }
            for step in level {
                let kept =
                    |value: Value| plan.value(value).slots.iter().all(|&slot| held[slot as usize] == Some(value));
                assert!(step.step.reads().chain([step.result]).all(kept), "{step:?} is overwritten by its own level");
            }
            first = end;
        }
        for output in inputs.into_iter().chain([end, values[6]]) {
            assert!(plan.value(output).slots.iter().all(|&slot| held[slot as usize] == Some(output)));
        }
    }

    #[test]
    fn a_plan_names_the_parts_of_the_key_it_needs_and_what_its_steps_cost() {
        let params = params();
        let mut builder = PlanBuilder::new(&params);
        let a = builder.input(2, params.level(2).scale, NOISE);
        let turned = builder.automorphism(a, 25);
        let product = builder.multiply_rescaled(a, turned);
        let plan = builder.finish(&[product]);
        assert_eq!(plan.parts(), [(PartKind::Galois(25), 2), (PartKind::Relinearization, 2)]);
        assert!(plan.steps().iter().all(|step| step.units >= 1));
        let scale = plan.outputs().next().unwrap().scale;
        assert!((scale / params.level(1).scale - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_value_is_lowered_to_the_scale_of_any_level_below() {
        let params = params();
        for to in 0..3 {
            let mut builder = PlanBuilder::new(&params);
            let a = builder.input(3, params.level(3).scale, NOISE);
            let low = builder.lower(a, to, params.level(to).scale);
            assert!((builder.scale(low) / params.level(to).scale - 1.0).abs() < 1e-11, "level {to}");
        }
    }

    #[test]
    #[should_panic(expected = "terms of one scale")]
    fn terms_of_different_scales_are_not_added() {
        let params = params();
        let mut builder = PlanBuilder::new(&params);
        let (a, b) = (builder.input(2, 1e12, NOISE), builder.input(2, 1.001e12, NOISE));
        builder.add(a, b);
    }
}
