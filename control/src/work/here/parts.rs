//! A long circuit, computed in parts: so many levels that a part takes about as long as the wanted period. The values that
//! live between two parts are a checkpoint. Another worker goes on from it, and gets the same bytes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use engine::{Gate, LweList, Plan};

use super::checkpoint::{Head, Keep};
use super::windows::Windows;
use super::{Here, KeyShape};
use crate::work::question::{CircuitQuestion, Figures, Question, Work, WorkEnd, WorkError};

/// Number of bootstraps of the first part, whose time tells how fast the worker is. A shorter circuit has one part.
const FIRST_BOOTSTRAPS: u64 = 2048;

/// A circuit between two of its levels.
struct Checkpoint {
    /// Tells the plan. A worker with another plan begins again.
    plan: u64,
    /// The number of levels that are done.
    level: usize,
    /// Figures of these levels.
    figures: Figures,
    /// The values that live before the next level.
    values: LweList,
}

impl Checkpoint {
    fn write(&self) -> Vec<u8> {
        let Checkpoint { plan, level, figures, values } = self;
        let head = Head { plan: *plan, level: *level, figures: *figures, width: values.dimension() };
        head.write(std::iter::once(values.rows(0..values.len())))
    }

    /// Reads a checkpoint of this plan. `None`: the bytes are none.
    fn read(bytes: &[u8], plan: &Plan, dimension: usize) -> Option<Checkpoint> {
        let (Head { plan: of_plan, level, figures, width }, words) = Head::read(bytes)?;
        let fits = of_plan == plan.fingerprint() && width == dimension && (1..plan.levels().len()).contains(&level);
        let wanted = fits.then(|| plan.part(level..level + 1).inputs().len() * (dimension + 1))?;
        if words.len() != wanted {
            return None;
        }
        let values = LweList::from_words(dimension, words.iter().copied().map(u32::from_le_bytes).collect());
        Some(Checkpoint { plan: of_plan, level, figures, values })
    }
}

impl Here {
    /// Computes a circuit or an operation on numbers in parts, from a checkpoint if there is one. `keep` is called with each
    /// checkpoint, about once in every `period`. Other work is refused.
    pub async fn compute_in_parts(
        &self,
        work: Work,
        checkpoint: Option<Bytes>,
        period: Duration,
        keep: &Keep,
    ) -> WorkEnd {
        // in the list before the key opens, so that a word to cancel is heard
        let listed = self.begin_parts(&work.id);
        let key = match self.opened(work.key, work.weight).await {
            Ok(key) => key,
            Err(error) => return WorkEnd::Failed(error.into()),
        };
        let Work { id, key: name, weight, question, deadline, .. } = work;
        let asked = |question| Work { id: id.clone(), key: name, weight, question, deadline, results: Vec::new() };
        let (params, mut circuit) = match (&key.shape, question) {
            (KeyShape::Bits(params), Question::Circuit(circuit)) => (params, circuit),
            (KeyShape::Numbers(shape), Question::Numbers(numbers)) => {
                let windows = match Windows::of_question(numbers, shape.clone()).await {
                    Ok(windows) => windows,
                    Err(error) => return WorkEnd::Failed(error),
                };
                let asked = (id.clone(), deadline);
                return self.compute_in_windows(asked, (windows, &key), checkpoint, (period, keep), &listed).await;
            }
            _ => return WorkEnd::Failed(WorkError::Unfit("this work has no parts".to_owned())),
        };
        let plan = match circuit.plan(params, &self.plans()) {
            Ok(plan) => plan,
            Err(fault) => return WorkEnd::Failed(WorkError::Unfit(fault)),
        };
        let dimension = params.lwe_dimension;
        let found = checkpoint.and_then(|bytes| Checkpoint::read(&bytes, &plan, dimension));
        let mut at = found.unwrap_or_else(|| Checkpoint {
            plan: plan.fingerprint(),
            level: 0,
            figures: Figures { compute: Duration::ZERO, units: 0 },
            values: circuit.inputs.clone(),
        });
        let (levels, mut most) = (plan.levels().len(), if period.is_zero() { 1 } else { FIRST_BOOTSTRAPS });
        loop {
            if !listed.set_done(done_before(&plan, at.level)) {
                return WorkEnd::Cancelled(stands_for(&plan, at.level, Vec::new()));
            }
            let end = end_of_part(&plan, at.level, most);
            let (part, inputs) = (Arc::new(plan.part(at.level..end)), at.values);
            let CircuitQuestion { netlist, mapping, noise, .. } = &circuit;
            let (netlist, mapping, noise, operands) = (netlist.clone(), *mapping, *noise, Vec::new());
            let question = CircuitQuestion { netlist, mapping, noise, inputs, operands, planned: Some(part) };
            let begun = Instant::now();
            let ended = match self.submit(asked(Question::Circuit(question)), &key) {
                Ok(ending) => ending.await,
                Err(error) => WorkEnd::Failed(error),
            };
            let (results, figures) = match ended {
                WorkEnd::Completed { results, figures } => (results, figures),
                WorkEnd::Cancelled(done) => return WorkEnd::Cancelled(stands_for(&plan, at.level, done)),
                failed => return failed,
            };
            let Figures { compute, units } = at.figures;
            let figures = Figures { compute: compute + figures.compute, units: units + figures.units };
            if end == levels {
                return WorkEnd::Completed { results, figures };
            }
            most = bootstraps_in(period, bootstraps_of(&plan, at.level, end), begun.elapsed());
            at = Checkpoint { plan: at.plan, level: end, figures, values: results.into() };
            keep(at.write()).await;
        }
    }
}

/// Returns the number of bootstraps that this worker computes in a period, by what it has just computed. At least 1.
fn bootstraps_in(period: Duration, bootstraps: u64, took: Duration) -> u64 {
    let pace = bootstraps as f64 / took.as_secs_f64().max(1e-6);
    ((pace * period.as_secs_f64()) as u64).max(1)
}

/// Returns the level with which a part ends that begins with this level and has about so many bootstraps.
fn end_of_part(plan: &Plan, from: usize, most: u64) -> usize {
    let mut bootstraps = 0;
    for (level, rows) in plan.levels().enumerate().skip(from) {
        bootstraps += rows.map(|row| plan.bootstraps_of(row) as u64).sum::<u64>();
        if bootstraps >= most {
            return level + 1;
        }
    }
    plan.levels().len()
}

fn bootstraps_of(plan: &Plan, from: usize, to: usize) -> u64 {
    let rows = plan.levels().skip(from).take(to - from).flatten();
    rows.map(|row| plan.bootstraps_of(row) as u64).sum()
}

/// Returns the number of the circuit's gates that the levels before this one stand for.
fn done_before(plan: &Plan, level: usize) -> u64 {
    stands_for(plan, level, Vec::new()).iter().map(|(_, gates)| gates).sum()
}

/// Adds the gates of the levels before this one to these counts.
fn stands_for(plan: &Plan, level: usize, mut counts: Vec<(Gate, u64)>) -> Vec<(Gate, u64)> {
    for row in plan.levels().take(level).flatten() {
        for (gate, gates) in plan.stands_for(row) {
            match counts.iter_mut().find(|(of, _)| *of == gate) {
                Some((_, count)) => *count += u64::from(gates),
                None => counts.push((gate, u64::from(gates))),
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Circuit;

    fn plan() -> Plan {
        let text = "3 5\n1 2\n1 1\n\n2 1 0 1 2 AND\n2 1 1 2 3 XOR\n2 1 2 3 4 AND\n";
        Plan::new(&Circuit::parse(text).unwrap())
    }

    #[test]
    fn a_checkpoint_is_read_as_it_was_written_and_one_of_another_plan_is_refused() {
        let plan = plan();
        let rows = plan.part(1..2).inputs().len();
        let checkpoint = Checkpoint {
            plan: plan.fingerprint(),
            level: 1,
            figures: Figures { compute: Duration::from_nanos(7), units: u64::MAX },
            values: LweList::from_words(2, (0..3 * rows as u32).collect()),
        };
        let bytes = checkpoint.write();
        let read = Checkpoint::read(&bytes, &plan, 2).unwrap();
        assert_eq!((read.level, read.figures, &read.values), (1, checkpoint.figures, &checkpoint.values));
        for length in 0..bytes.len() {
            assert!(Checkpoint::read(&bytes[..length], &plan, 2).is_none(), "{length}");
        }
        assert!(Checkpoint::read(&bytes, &plan, 3).is_none());
        assert!(Checkpoint::read(&bytes, &plan.part(0..2), 2).is_none());
        for level in [0, 3, u64::MAX] {
            let mut other = bytes.clone();
            other[8..16].copy_from_slice(&level.to_le_bytes());
            assert!(Checkpoint::read(&other, &plan, 2).is_none(), "{level}");
        }
    }

    #[test]
    fn parts_end_with_levels_and_the_gates_before_them_are_counted() {
        let plan = plan();
        let levels = plan.levels().len();
        assert_eq!((end_of_part(&plan, 0, 1), end_of_part(&plan, 1, 1)), (1, 2));
        assert_eq!((end_of_part(&plan, 0, 2), end_of_part(&plan, 0, u64::MAX)), (2, levels));
        assert_eq!((done_before(&plan, 0), done_before(&plan, 2), done_before(&plan, levels)), (0, 2, 3));
        assert_eq!(stands_for(&plan, 2, vec![(Gate::And, 5)]), [(Gate::And, 6), (Gate::Xor, 1)]);
        assert_eq!(bootstraps_in(Duration::from_secs(30), 100, Duration::from_secs(2)), 1500);
        assert_eq!(bootstraps_in(Duration::ZERO, 100, Duration::ZERO), 1);
    }
}
