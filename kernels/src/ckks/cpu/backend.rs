//! The CPU as a device for arithmetic.

use std::sync::Arc;

use super::{Evaluator, LoadedPart, Rows};
use crate::ckks::backend::{Arithmetic, KeyedSteps, PartShape, PlannedSteps, SeededRow};
use crate::ckks::params::{Params, PartKind};
use crate::ckks::plan::{Plan, PlannedStep, Step, Term, Value};
use crate::ckks::weights::Weights;
use crate::cpu::{Arena, Cpu};
use crate::error::Result;
use crate::xof::{DOMAIN_SWITCHING_KEY, fill_residues};

/// Units of a plan's steps that take as long as a gate: a unit is about a sixteenth of the cheapest gate's bootstrap.
const UNITS_OF_A_GATE: u32 = 16;

impl Arithmetic for Cpu {
    type Tables = Evaluator;
    type Part = LoadedPart;

    fn tables_bytes(&self, params: &Params) -> Option<u64> {
        Some(Evaluator::tables_bytes(params))
    }

    fn make_tables(&self, params: &Params) -> Result<Evaluator> {
        Ok(Evaluator::new(params, self.isa, self.threads))
    }

    fn part_bytes(&self, shape: &PartShape) -> u64 {
        (8 * shape.digits().len() * shape.body_words()) as u64
    }

    fn units_of_a_gate(&self) -> u32 {
        UNITS_OF_A_GATE
    }

    fn room_for_part(&self, tables: &Evaluator, shape: &PartShape) -> Result<LoadedPart> {
        tables.room_for_part(&shape.digits(), &shape.primes())
    }

    fn load_row(&self, tables: &Evaluator, into: &mut LoadedPart, row: &SeededRow<'_>) -> Result<()> {
        let n = tables.params().n();
        let mut mask = vec![0; row.body.len()];
        for (&prime, mask) in into.primes().iter().zip(mask.chunks_exact_mut(n)) {
            let modulus = tables.params().primes()[prime];
            fill_residues(row.seed, DOMAIN_SWITCHING_KEY, prime as u64, modulus, mask);
        }
        tables.load_row(into, row.digit, [row.body, &mask]);
        Ok(())
    }

    fn run(&self, batches: &mut [KeyedSteps<'_, Cpu>]) -> Result<Vec<u32>> {
        let mut words = Vec::new();
        for KeyedSteps { tables, parts, arena, plans } in batches {
            for planned in plans.iter() {
                if planned.begins {
                    swap_inputs(tables, planned, arena);
                }
                for step in &planned.plan.steps()[planned.steps.clone()] {
                    run_step(tables, planned, parts, arena, step)?;
                }
            }
            for planned in plans.iter().filter(|planned| planned.completes) {
                read_outputs(tables, planned, arena, &mut words);
            }
        }
        Ok(words)
    }
}

/// Translates slots of a plan to slots of the arena: slot `i` of the plan is slot `slots[i]` of the arena.
fn placed(slots: &[u32], of_plan: &[u32]) -> Vec<u32> {
    of_plan.iter().map(|&slot| slots[slot as usize]).collect()
}

/// Reorders the rows of a plan's written inputs and plaintexts to reading order, in place.
fn swap_inputs(evaluator: &Evaluator, planned: &PlannedSteps<'_>, arena: &mut Arena) {
    let plan = planned.plan;
    let written = plan.inputs().enumerate().filter(|(at, _)| !planned.there.contains(at));
    let inputs = written.flat_map(|(_, input)| &input.slots);
    let given = inputs.chain(plan.plains().iter().flat_map(|(slots, _)| slots));
    let mut swapped = vec![0; plan.params().n()];
    for &slot in given {
        let row = arena.row_mut(planned.slots[slot as usize]);
        evaluator.swap_order(row, &mut swapped);
        row.copy_from_slice(&swapped);
    }
}

/// Appends the words of a plan's outputs to `words`, in the order of the plain transform.
fn read_outputs(evaluator: &Evaluator, planned: &PlannedSteps<'_>, arena: &Arena, words: &mut Vec<u32>) {
    let n = planned.plan.params().n();
    for &slot in planned.plan.outputs().flat_map(|output| &output.slots) {
        let first = words.len();
        words.resize(first + n, 0);
        evaluator.swap_order(arena.row(planned.slots[slot as usize]), &mut words[first..]);
    }
}

fn part<'a>(parts: &[(PartKind, &'a LoadedPart)], kind: PartKind) -> &'a LoadedPart {
    let found = parts.iter().find(|(of, _)| *of == kind);
    found.expect("a batch has the parts that its steps need").1
}

fn run_step(
    evaluator: &Evaluator,
    planned: &PlannedSteps<'_>,
    parts: &[(PartKind, &LoadedPart)],
    arena: &mut Arena,
    PlannedStep { step, result, .. }: &PlannedStep,
) -> Result<()> {
    let plan: &Plan = planned.plan;
    let of = |value: Value| placed(planned.slots, &plan.value(value).slots);
    let mut reads: Vec<Vec<u32>> = step.reads().map(of).collect();
    reads.extend(step.plain().map(|plain| placed(planned.slots, plan.plain_slots(plain))));
    let result = of(*result);
    let (reads, mut writes) = arena.rows(&reads, &result);
    let out = &mut writes[..];
    let level = |value: Value| plan.value(value).level;
    match *step {
        Step::WeightedSum(ref terms) => {
            let weights = |term: &Term| term.weights.clone().expect("a plan with plaintexts");
            let weights: Vec<Arc<Weights>> = terms.iter().map(weights).collect();
            let all: Vec<(Rows<'_>, &Weights)> =
                reads.iter().zip(&weights).map(|(rows, weights)| (&rows[..], &**weights)).collect();
            evaluator.weighted_sum(level(terms[0].value), &all, out)
        }
        Step::Add(a, _) => evaluator.add(level(a), &reads[0], &reads[1], out),
        Step::Sub(a, _) => evaluator.sub(level(a), &reads[0], &reads[1], out),
        Step::AddPlain(a, _) => evaluator.add_plain(level(a), &reads[0], &reads[1], out),
        Step::MultiplyPlain(a, _) => evaluator.multiply_plain(level(a), &reads[0], &reads[1], out),
        Step::MultiplyInteger(a, factor) => evaluator.multiply_integer(level(a), &reads[0], factor, out),
        Step::AddInteger(a, number) => evaluator.add_integer(level(a), &reads[0], number, out),
        Step::Divide { a, to, factor } => evaluator.rescale(level(a), to, factor, &reads[0], out),
        Step::Multiply { a, to, .. } => {
            let factors = [&reads[0][..], &reads[reads.len() - 1][..]];
            evaluator.multiply(level(a), to, factors, part(parts, PartKind::Relinearization), out)
        }
        Step::SumOfProducts { ref pairs, plus } => {
            let (factors, rest) = reads.split_at(2 * pairs.len());
            let factors: Vec<[Rows<'_>; 2]> =
                factors.chunks_exact(2).map(|pair| [&pair[0][..], &pair[1][..]]).collect();
            let relinearization = part(parts, PartKind::Relinearization);
            let plus = plus.map(|_| &rest[0][..]);
            let from = level(pairs[0].0);
            evaluator.sum_of_products(from, from - 1, &factors, plus, relinearization, out)
        }
        Step::Raise(_) => evaluator.raise(&reads[0], out),
        Step::Switch { a, kind } => evaluator.automorphism(level(a), 1, &reads[0], part(parts, kind), out),
        Step::AddImages { a, ref elements } => {
            let images: Vec<(u32, &LoadedPart)> =
                elements.iter().map(|&element| (element, part(parts, PartKind::Galois(element)))).collect();
            evaluator.add_images(level(a), &images, &reads[0], out)
        }
        Step::Automorphism { a, element } => {
            let key = part(parts, PartKind::Galois(element));
            evaluator.automorphism(level(a), element, &reads[0], key, out)
        }
    }
}

#[cfg(test)]
mod tests;
