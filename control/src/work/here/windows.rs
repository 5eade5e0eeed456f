//! A long operation on encrypted numbers, computed in windows: consecutive levels of its plan, that take about as long as the
//! wanted period. The ciphertexts that live between two windows are a checkpoint. Another worker goes on from it, and gets
//! the same words.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use api::OperationId;
use bytes::Bytes;
use engine::ckks::Plan;
use engine::{PlannedNumbers, Task};

use super::checkpoint::{CHECKPOINT_BYTES_MAX, Head, Keep};
use super::listed::ListedParts;
use super::{EngineKey, Here};
use crate::work::numbers::NumbersShape;
use crate::work::question::{Figures, NumbersQuestion, WorkEnd, WorkError};

/// Largest number of units of the first window, whose time tells how fast the worker is. A shorter operation has one window.
const FIRST_UNITS: u64 = 1024;

/// An operation that is computed in windows.
pub(super) struct Windows {
    planned: Arc<PlannedNumbers>,
    fingerprint: OnceLock<u64>,
    /// For each level, the rows of the values that live before it ([`Plan::live_rows`]).
    live_rows: Vec<usize>,
    /// Units of the steps before each level.
    units: Vec<u64>,
    /// The most rows that a checkpoint has room for.
    rows_max: usize,
}

/// An operation between two of its levels.
struct At {
    /// The number of levels that are done.
    level: usize,
    /// Figures of these levels.
    figures: Figures,
    /// The words of the ciphertexts that live before the next level.
    values: Vec<Arc<Vec<u32>>>,
}

impl Windows {
    /// Plans an operation, outside the async threads.
    ///
    /// # Errors
    /// [`WorkError::Unfit`] when the operands do not fit the key.
    pub(super) async fn of_question(
        mut question: NumbersQuestion,
        shape: Arc<NumbersShape>,
    ) -> Result<Arc<Windows>, WorkError> {
        let planning = tokio::task::spawn_blocking(move || match question.task(&shape) {
            Ok(Task::Numbers(planned)) => Ok(Arc::new(Windows::of(planned))),
            Ok(_) => Err(WorkError::Unfit("a task of gates".to_owned())),
            Err(fault) => Err(WorkError::Unfit(fault)),
        });
        planning.await.unwrap_or(Err(WorkError::Dropped))
    }

    fn of(planned: Arc<PlannedNumbers>) -> Windows {
        let plan = planned.plan();
        let before = |end: usize| plan.steps()[..end].iter().map(|step| u64::from(step.units)).sum();
        let units = std::iter::once(0).chain(plan.level_ends().iter().copied()).map(before).collect();
        let live_rows = plan.live_rows();
        let rows_max = (CHECKPOINT_BYTES_MAX - Head::BYTES) / (4 * plan.params().n());
        Windows { planned, fingerprint: OnceLock::new(), live_rows, units, rows_max }
    }

    fn plan(&self) -> &Plan {
        self.planned.plan()
    }

    fn levels(&self) -> usize {
        self.plan().level_ends().len()
    }

    /// Tells the plan. Reads all plaintexts of the plan, which takes a tenth of a second for the matrices of bootstrapping.
    fn fingerprint(&self) -> u64 {
        *self.fingerprint.get_or_init(|| self.planned.fingerprint())
    }

    fn begin(&self) -> At {
        let figures = Figures { compute: Duration::ZERO, units: 0 };
        At { level: 0, figures, values: self.planned.inputs().to_vec() }
    }

    /// Returns the number of steps before this level.
    fn steps_before(&self, level: usize) -> u64 {
        if level == 0 { 0 } else { self.plan().level_ends()[level - 1] as u64 }
    }

    /// Makes the task of a window.
    fn task(&self, from: usize, end: usize, values: Vec<Arc<Vec<u32>>>) -> Task {
        match (from, end == self.levels()) {
            (0, true) => Task::Numbers(self.planned.clone()),
            _ => self.planned.part(from..end, values),
        }
    }

    /// Returns the level with which a window ends that begins with level `from` and has about `least` to `most` units: the
    /// last level of these after which the fewest values live. No window ends where more values live than a checkpoint has
    /// room for.
    fn end(&self, from: usize, [least, most]: [u64; 2]) -> usize {
        let mut best: Option<usize> = None;
        for end in from + 1..=self.levels() {
            let (units, rows) = (self.units[end] - self.units[from], self.live_rows[end]);
            let is_better = best.is_none_or(|best| rows <= self.live_rows[best]);
            // where no level has so many units, the first with more
            if rows <= self.rows_max && units >= least && is_better && (units <= most || best.is_none()) {
                best = Some(end);
            }
            if let (true, Some(best)) = (units >= most, best) {
                return best;
            }
        }
        self.levels()
    }

    fn write(&self, At { level, figures, values }: &At) -> Vec<u8> {
        let width = self.plan().params().n();
        let head = Head { plan: self.fingerprint(), level: *level, figures: *figures, width };
        head.write(values.iter().map(|words| &words[..]))
    }

    /// Reads a checkpoint of this operation. `None`: the bytes are none.
    fn read(&self, bytes: &[u8]) -> Option<At> {
        let (Head { plan, level, figures, width }, words) = Head::read(bytes)?;
        let n = self.plan().params().n();
        let fits = (1..self.levels()).contains(&level) && width == n && words.len() == self.live_rows[level] * n;
        if !fits || plan != self.fingerprint() {
            return None;
        }
        let params = self.plan().params();
        let mut rows = words.chunks_exact(n);
        let mut values = Vec::new();
        for value in self.plan().part(level..level + 1).inputs() {
            let mut words = Vec::with_capacity(value.slots.len() * n);
            let primes = &params.level(value.level).primes;
            for (&prime, row) in primes.iter().chain(primes).zip(&mut rows) {
                words.extend(row.iter().map(|word| u32::from_le_bytes(*word)));
                if words[words.len() - n..].iter().any(|&word| word >= params.primes()[prime].q()) {
                    return None;
                }
            }
            values.push(Arc::new(words));
        }
        Some(At { level, figures, values })
    }

    /// Splits the words of a window's results into ciphertexts.
    fn split(&self, from: usize, end: usize, words: &[u32]) -> Vec<Arc<Vec<u32>>> {
        let (part, n, mut rest) = (self.plan().part(from..end), self.plan().params().n(), words);
        let outputs = part.outputs().map(|output| {
            let (words, more) = rest.split_at(output.slots.len() * n);
            rest = more;
            Arc::new(words.to_vec())
        });
        outputs.collect()
    }
}

impl Here {
    /// Computes an operation on numbers in windows, from a checkpoint if there is one. `keep` is called with each checkpoint,
    /// about once in every `period`.
    pub(super) async fn compute_in_windows(
        &self,
        (id, deadline): (OperationId, Instant),
        (windows, key): (Arc<Windows>, &Arc<EngineKey>),
        checkpoint: Option<Bytes>,
        (period, keep): (Duration, &Keep),
        listed: &ListedParts,
    ) -> WorkEnd {
        let found = match checkpoint {
            Some(bytes) => in_background(&windows, move |windows| windows.read(&bytes)).await.flatten(),
            None => None,
        };
        let mut at = found.unwrap_or_else(|| windows.begin());
        let mut units = if period.is_zero() { [1, 1] } else { [1, FIRST_UNITS] };
        let mut kept = Instant::now();
        loop {
            if !listed.set_done(windows.steps_before(at.level)) {
                return WorkEnd::Cancelled(Vec::new());
            }
            let (from, end, begun) = (at.level, windows.end(at.level, units), Instant::now());
            let task = windows.task(from, end, at.values);
            let ended = match self.submit_task(id.clone(), task, deadline, key) {
                Ok(ending) => ending.await,
                Err(error) => WorkEnd::Failed(error),
            };
            let WorkEnd::Completed { results, figures } = ended else { return ended };
            let before = at.figures;
            let figures = Figures { compute: before.compute + figures.compute, units: before.units + figures.units };
            if end == windows.levels() {
                return WorkEnd::Completed { results, figures };
            }
            at = At { level: end, figures, values: windows.split(from, end, &results.words) };
            let pace = (windows.units[end] - windows.units[from]) as f64 / begun.elapsed().as_secs_f64().max(1e-6);
            if 2 * kept.elapsed() >= period {
                let writing = in_background(&windows, move |windows| (windows.write(&at), at)).await;
                let Some((bytes, written)) = writing else { return WorkEnd::Failed(WorkError::Dropped) };
                at = written;
                keep(bytes).await;
                kept = Instant::now();
            }
            let most = units_in(period.saturating_sub(kept.elapsed()), pace);
            units = [most / 2, most];
        }
    }
}

/// Computes something of an operation outside the async threads. `None`: the process ends.
async fn in_background<T: Send + 'static>(
    windows: &Arc<Windows>,
    compute: impl FnOnce(&Windows) -> T + Send + 'static,
) -> Option<T> {
    let windows = windows.clone();
    tokio::task::spawn_blocking(move || compute(&windows)).await.ok()
}

/// Returns the number of units that a worker with this pace, in units a second, computes in this time. At least 1.
fn units_in(time: Duration, pace: f64) -> u64 {
    ((pace * time.as_secs_f64()) as u64).max(1)
}

#[cfg(test)]
mod tests {
    use engine::NumbersKey;
    use engine::ckks::operation::{self, Operand, Operation, Request};
    use engine::ckks::plaintexts::Plaintexts;
    use engine::ckks::{Noise, Params, ParamsLiteral, PartKind, SecurityLevel};

    use super::*;

    /// A polynomial of an encrypted number whose words are all 0.
    fn polynomial(coefficients: &[f64]) -> Windows {
        let security = SecurityLevel::Testing;
        let literal = ParamsLiteral { poly_degree: 64, scale_bits: 40, max_depth: 5, security, bootstrap: false };
        let params = Params::new(literal).unwrap();
        let level = params.level_max();
        let key = NumbersKey { params: params.clone(), parts: vec![(PartKind::Relinearization, level)] };
        let operand = Operand { level, scale: params.level(level).scale, noise: Noise::encrypt_secret(1.0) };
        let request = Request {
            operation: Operation::PolyEval,
            operands: &[operand],
            plain: None,
            coefficients: Some(coefficients),
            steps: None,
            scale_stable: true,
            parts: &key.parts,
        };
        let plan = operation::plan(&Plaintexts::new(&params), &params, &request).unwrap();
        let words = vec![0; 2 * params.level(level).primes.len() * params.n()];
        match Task::numbers(plan, vec![Arc::new(words)], &key) {
            Ok(Task::Numbers(planned)) => Windows::of(planned),
            _ => panic!("the key has the part"),
        }
    }

    /// The values before a level: row `i` has the words `i + 1`.
    fn at(windows: &Windows, level: usize) -> At {
        let (plan, n) = (windows.plan().part(level..level + 1), windows.plan().params().n());
        let mut row = 0;
        let values = plan.inputs().map(|value| {
            let words = value.slots.iter().flat_map(|_| {
                row += 1;
                vec![row; n]
            });
            Arc::new(words.collect())
        });
        let figures = Figures { compute: Duration::from_nanos(7), units: u64::MAX };
        At { level, figures, values: values.collect() }
    }

    #[test]
    fn a_checkpoint_is_read_as_it_was_written_at_every_level_and_no_other_bytes_are_one() {
        let windows = polynomial(&[0.1; 20]);
        let other = polynomial(&[0.2; 20]);
        assert!(windows.levels() > 5);
        for level in 1..windows.levels() {
            let before = at(&windows, level);
            let bytes = windows.write(&before);
            let read = windows.read(&bytes).unwrap();
            let found = (read.level, read.figures, read.values);
            assert!(found == (level, before.figures, before.values), "level {level}");
            assert!(other.read(&bytes).is_none(), "another plan");
            for length in [0, 8, Head::BYTES, bytes.len() - 4 * 64, bytes.len() - 4, bytes.len() - 1] {
                assert!(windows.read(&bytes[..length]).is_none(), "{length} of {}", bytes.len());
            }
            assert!(windows.read(&[&bytes[..], &[0; 4]].concat()).is_none());
            for wrong in [0, level as u64 + 1, windows.levels() as u64, 1 << 32 | level as u64, u64::MAX] {
                let mut changed = bytes.clone();
                changed[8..16].copy_from_slice(&wrong.to_le_bytes());
                let same_size = windows.live_rows.get(wrong as usize) == Some(&windows.live_rows[level]);
                assert!(windows.read(&changed).is_none() || same_size, "level {level} as {wrong}");
            }
            let mut changed = bytes.clone();
            *changed.last_mut().unwrap() = 0xff;
            assert!(windows.read(&changed).is_none(), "a word above its prime");
        }
    }

    #[test]
    fn bytes_that_were_changed_anywhere_are_refused_or_another_checkpoint() {
        let windows = polynomial(&[0.1; 20]);
        let bytes = windows.write(&at(&windows, 3));
        let mut state = 1u64;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let mut read = 0;
        for _ in 0..4000 {
            let mut changed = bytes.clone();
            for _ in 0..1 + next(3) {
                // half of the changes are in the head
                let place = if next(2) == 0 { next(Head::BYTES) } else { next(changed.len()) };
                changed[place] = next(256) as u8;
            }
            if next(8) == 0 {
                changed.truncate(next(bytes.len()));
            }
            if let Some(found) = windows.read(&changed) {
                assert!(windows.write(&found) == changed);
                read += 1;
            }
        }
        // changes of figures, and of words below their primes
        assert!((100..3900).contains(&read), "{read}");
    }

    #[test]
    fn windows_end_where_the_fewest_values_live_and_a_checkpoint_has_room() {
        let mut windows = polynomial(&[0.1; 32]);
        let levels = windows.levels();
        let all = windows.units[levels];
        let ends =
            [(0, [1, u64::MAX]), (0, [1, 1]), (levels - 1, [1, 1])].map(|(from, units)| windows.end(from, units));
        assert_eq!(ends[1..], [1, levels]);
        assert_eq!(ends[0], levels, "the rest is a window");
        let (rows, units) = (windows.live_rows.clone(), windows.units.clone());
        for most in 2..all {
            for least in [1, most / 2, most] {
                let end = windows.end(0, [least, most]);
                let within = (1..=levels).filter(|&end| (least..=most).contains(&units[end]));
                match within.min_by_key(|&end| (rows[end], levels - end)) {
                    Some(best) => assert_eq!(end, best, "{least} to {most} units"),
                    None => assert!(units[end] > most && units[end - 1] < least, "{least} to {most} units"),
                }
            }
        }
        let narrow = (1..levels).min_by_key(|&level| rows[level]).unwrap();
        let narrow_rows = rows[narrow];
        windows.rows_max = narrow_rows;
        let mut from = 0;
        while from < levels {
            from = windows.end(from, [1, 1]);
            assert!(from == levels || rows[from] == narrow_rows, "level {from}");
        }
        windows.rows_max = 0;
        assert_eq!(windows.end(0, [1, 1]), levels, "without room the operation has one window");
        assert_eq!(units_in(Duration::from_secs(30), 50.0), 1500);
        assert_eq!(units_in(Duration::ZERO, f64::INFINITY), 1);
    }
}
