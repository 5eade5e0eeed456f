//! Asks several workers for the independent parts of a circuit, and makes one end of their ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::OperationId;
use engine::{Gate, Rows};
use fleet::broker::{Heard, Queue, Topic};
use fleet::lanes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::Fleet;
use crate::work::fleet::access::Checkpoints;
use crate::work::fleet::member::POOL;
use crate::work::fleet::parts::{InParts, PARTS_MAX, PartState, read_checkpoint};
use crate::work::fleet::split::{Part, PartWorker, in_order, may_be_split, split, split_again};
use crate::work::key::KeyName;
use crate::work::question::{Ending, Figures, Question, Work, WorkEnd, WorkError};

/// Workers are told again after this time to cancel the parts that run. A part may have begun after the last word.
const CANCEL_AGAIN: Duration = Duration::from_secs(1);
/// Number of circuits that are split at the same time. A netlist of a million gates takes a second of a core.
static SPLITTING: Semaphore = Semaphore::const_new(2);

/// How a circuit was computed before.
enum Before {
    /// Not at all.
    New,
    /// On one worker.
    Whole,
    /// In these parts.
    Parts(Vec<PartState>),
}

impl Fleet {
    /// Asks one worker, or several for the parts of a circuit.
    pub(super) fn ask_one_or_several(&self, queue: Queue, work: Work) -> Ending {
        let flow = work.key.label();
        let is_large = matches!(&work.question, Question::Circuit(circuit) if may_be_split(&circuit.netlist));
        if !is_large {
            return self.ask_in(queue, flow, work);
        }
        let fleet = self.clone();
        Box::pin(async move {
            let before = match queue {
                Queue::Run => Before::New,
                Queue::Operations => match fleet.before(&work.id).await {
                    Ok(before) => before,
                    Err(error) => return WorkEnd::Failed(error),
                },
            };
            let workers = fleet.part_workers(&flow);
            match split_work(work, workers.clone(), before).await {
                Ok(Split::Not(work)) => fleet.ask_in(queue, flow, *work).await,
                Ok(Split::Parts(whole, parts)) => fleet.ask_parts(queue, whole, parts, workers).await,
                Err(error) => WorkEnd::Failed(error),
            }
        })
    }

    /// Finds out how an operation was computed by the node that had it before.
    async fn before(&self, id: &OperationId) -> Result<Before, WorkError> {
        let Some(checkpoints) = self.shared.internal.checkpoints.get() else { return Ok(Before::New) };
        match checkpoints.read(id.as_str().to_owned()).await {
            Ok(None) => Ok(Before::New),
            Ok(Some(bytes)) => Ok(read_checkpoint(&bytes).map_or(Before::Whole, Before::Parts)),
            Err(error) => {
                tracing::warn!(error = error.message, "a checkpoint could not be read");
                Err(WorkError::Away)
            }
        }
    }

    /// Returns the workers for parts of this flow's work, the owner of the flow first. All compute as the owner does,
    /// because the sizes of batches of cards and of processors do not compare.
    fn part_workers(&self, flow: &str) -> Vec<PartWorker> {
        let now = Instant::now();
        let ready: Vec<(String, PartWorker)> = {
            let workers = self.shared.ears.workers.lock();
            let version = workers.version(POOL, now);
            let facts = workers.ready(POOL, version, now).map(|presence| {
                let has_cards = presence.load.devices.iter().any(|device| !device.starts_with("cpu"));
                let worker = PartWorker { flow: String::new(), batch_rows: presence.weight, has_cards };
                (presence.worker.clone(), worker)
            });
            facts.collect()
        };
        let weights: Vec<(&str, u32)> = ready.iter().map(|(name, worker)| (name.as_str(), worker.batch_rows)).collect();
        let named = lanes::apart(flow, &weights, PARTS_MAX).into_iter().filter_map(|(flow, owner)| {
            let (_, worker) = ready.iter().find(|(name, _)| name == owner)?;
            Some(PartWorker { flow, ..worker.clone() })
        });
        let mut found: Vec<PartWorker> = named.collect();
        let has_cards = found.first().is_some_and(|owner| owner.has_cards);
        found.retain(|worker| worker.has_cards == has_cards);
        found
    }

    /// Asks for all parts, and waits for all of them. The first part that fails ends the whole.
    async fn ask_parts(&self, queue: Queue, whole: Whole, parts: Vec<Part>, workers: Vec<PartWorker>) -> WorkEnd {
        let Whole { id, key, weight, deadline, row_words, kept } = whole;
        let state = |part: &Part| {
            let kept = kept.iter().find(|state| state.id == part.id);
            let checkpoint = kept.map(|state| state.checkpoint.clone()).unwrap_or_default();
            let gates = part.gates.iter().map(|(_, count)| count).sum();
            (PartState { id: part.id.clone(), share: part.share, checkpoint }, gates)
        };
        let listed = self.shared.parts.begin(id, parts.iter().map(state).collect());
        if queue == Queue::Operations
            && kept.is_empty()
            && let Some(checkpoints) = self.shared.internal.checkpoints.get()
            && let Err(error) = checkpoints.keep_all(listed.of.clone()).await
        {
            tracing::warn!(error = error.message, "the parts of a circuit were not kept");
        }
        let ends = FuturesUnordered::new();
        let mut ended = Vec::with_capacity(parts.len());
        for (at, part) in parts.into_iter().enumerate() {
            let flow = match workers.get(at) {
                Some(worker) => worker.flow.clone(),
                // fewer workers are there than the circuit has parts
                None => format!("{}-again-{at}", key.label()),
            };
            let results = Vec::new();
            let work = Work { id: part.id, key, weight, question: Question::Circuit(part.question), deadline, results };
            let end = self.ask_in(queue, flow, work);
            ends.push(async move { (at, end.await) });
            ended.push(EndedPart { outputs: part.outputs, gates: part.gates, end: None });
        }
        self.end_of_parts(queue, &listed.of, ends, ended, row_words).await
    }

    async fn end_of_parts(
        &self,
        queue: Queue,
        of: &InParts,
        mut ends: FuturesUnordered<impl Future<Output = (usize, WorkEnd)>>,
        mut parts: Vec<EndedPart>,
        row_words: usize,
    ) -> WorkEnd {
        let mut cancelled: Option<Vec<(Gate, u64)>> = None;
        loop {
            let (at, end) = tokio::select! {
                end = ends.next() => match end {
                    Some(end) => end,
                    None => break,
                },
                () = tokio::time::sleep(CANCEL_AGAIN), if cancelled.is_some() => {
                    self.cancel_parts(of).await;
                    continue;
                }
            };
            of.ended(at);
            match end {
                WorkEnd::Completed { results, figures } => parts[at].end = Some((results, figures)),
                WorkEnd::Cancelled(done) => {
                    if cancelled.is_none() {
                        self.cancel_parts(of).await;
                    }
                    add(cancelled.get_or_insert_default(), &done);
                    // a worker does not answer for a cancelled request that it had not begun
                    if queue == Queue::Run {
                        break;
                    }
                }
                WorkEnd::Failed(_) if cancelled.is_some() => {}
                WorkEnd::Failed(error) => {
                    self.cancel_parts(of).await;
                    return WorkEnd::Failed(error);
                }
            }
        }
        if let Some(mut done) = cancelled {
            parts.iter().filter(|part| part.end.is_some()).for_each(|part| add(&mut done, &part.gates));
            return WorkEnd::Cancelled(done);
        }
        let mut all = Figures { compute: Duration::ZERO, units: 0 };
        let mut results = Vec::with_capacity(parts.len());
        for EndedPart { outputs, end, .. } in parts {
            let Some((rows, Figures { compute, units })) = end else { return WorkEnd::Failed(WorkError::Dropped) };
            // the parts were computed at the same time
            all = Figures { compute: all.compute.max(compute), units: all.units + units };
            results.push((outputs, rows));
        }
        match in_order(&results, row_words) {
            Some(results) => WorkEnd::Completed { results, figures: all },
            None => WorkEnd::Failed(WorkError::Unfit("the results of a part have another shape".to_owned())),
        }
    }

    async fn cancel_parts(&self, of: &InParts) {
        for id in of.running() {
            self.shared.asker.cancel(id.as_str()).await;
        }
    }

    /// Cancels the parts of a circuit when another member tells that the circuit is cancelled: workers know only the
    /// parts.
    pub(super) fn hear_cancels(&self) {
        let (shared, runtime) = (Arc::downgrade(&self.shared), Handle::current());
        self.shared.ears.add(Box::new(move |heard| {
            let (Heard::Told(Topic::Cancel, bytes), Some(shared)) = (heard, shared.upgrade()) else { return };
            let Some(id) = std::str::from_utf8(bytes).ok().and_then(|id| id.parse().ok()) else { return };
            if let Some(of) = shared.parts.get(&id) {
                runtime.spawn(async move { Fleet { shared }.cancel_parts(&of).await });
            }
        }));
    }

    /// Returns the ids under which workers know some work: those of its parts, or its own.
    pub(super) fn ids_at_workers(&self, id: &OperationId) -> Vec<OperationId> {
        self.shared.parts.get(id).map_or_else(|| vec![id.clone()], |of| of.running())
    }

    /// Returns how much of some work is done.
    pub(super) fn done_of(&self, id: &OperationId) -> Option<u64> {
        let done = |id: &OperationId| self.shared.asker.done(id.as_str());
        self.shared.parts.get(id).map_or_else(|| done(id), |of| of.done(done))
    }
}

/// Work without its question, whose parts are asked for.
struct Whole {
    id: OperationId,
    key: KeyName,
    weight: u32,
    deadline: Instant,
    row_words: usize,
    /// The parts as the node had them that had the operation before.
    kept: Vec<PartState>,
}

/// Work after the attempt to split it.
enum Split {
    Not(Box<Work>),
    Parts(Whole, Vec<Part>),
}

/// Splits work if that gains, or as it was split before.
async fn split_work(work: Work, workers: Vec<PartWorker>, before: Before) -> Result<Split, WorkError> {
    let is_alone = match before {
        Before::New => workers.len() < 2,
        Before::Whole => true,
        Before::Parts(_) => false,
    };
    if is_alone {
        return Ok(Split::Not(Box::new(work)));
    }
    let turn = SPLITTING.acquire().await.map_err(|_| WorkError::Dropped)?;
    let splitting = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        split_now(work, &workers, before)
    });
    splitting.await.map_err(|_| WorkError::Dropped)
}

fn split_now(work: Work, workers: &[PartWorker], before: Before) -> Split {
    let Work { id, key, weight, question: Question::Circuit(circuit), deadline, .. } = &work else {
        return Split::Not(Box::new(work));
    };
    let (kept, parts) = match before {
        Before::New => (Vec::new(), split(id, circuit, workers)),
        Before::Whole => (Vec::new(), None),
        Before::Parts(kept) => {
            let shares: Vec<u32> = kept.iter().map(|state| state.share).collect();
            (kept, split_again(id, circuit, &shares))
        }
    };
    let Some(parts) = parts else { return Split::Not(Box::new(work)) };
    let row_words = circuit.inputs.dimension() + 1;
    Split::Parts(Whole { id: id.clone(), key: *key, weight: *weight, deadline: *deadline, row_words, kept }, parts)
}

/// A part whose end is waited for.
struct EndedPart {
    outputs: Vec<u32>,
    gates: Vec<(Gate, u64)>,
    end: Option<(Rows, Figures)>,
}

fn add(counts: &mut Vec<(Gate, u64)>, more: &[(Gate, u64)]) {
    for (gate, gates) in more {
        match counts.iter_mut().find(|(of, _)| of == gate) {
            Some((_, count)) => *count += gates,
            None => counts.push((*gate, *gates)),
        }
    }
}
