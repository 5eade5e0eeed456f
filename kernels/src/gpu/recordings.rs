//! Repeated sequences of launches. A card's implementation records a sequence at its second occurrence and replays it
//! afterwards.
//!
//! Two sequences are the same if their launches have the same kernels, buffers and arguments; the content of buffers
//! does not matter. All sessions share the buffers of rows and keys ([`super::space`]), and tables name their places. So
//! gates of other sessions are the same sequence, if their parameters and their numbers of rows are the same. A number that is never reused ([`new_id`]) identifies each buffer and each module. When a buffer or a module
//! is dropped, the sequences that contain it cannot occur again, so their recordings are dropped too
//! ([`Recordings::forget`]).

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Access, Bind, Launch};
use crate::error::{Error, Result};

/// Largest number of sequences that are kept. The least recently used sequence is dropped first.
const SEQUENCES_MAX: usize = 64;

/// Returns a unique number for a buffer or a module.
pub fn new_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A sequence of launches, described by all that distinguishes it from other sequences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence(Vec<Step>);

/// One launch of a sequence, described by all that distinguishes it from other launches.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    module: u64,
    entry: &'static str,
    groups: [u32; 3],
    threads: u32,
    shared_bytes: u32,
    cluster: u32,
    /// For each argument: its access, the buffer and the range.
    views: Vec<(Access, u64, Range<usize>)>,
    args: Vec<u32>,
}

impl Sequence {
    /// Describes the sequence of these launches. `module_id` and `buffer_id` return the numbers of modules and buffers.
    pub fn of<M, B>(launches: &[Launch<'_, M, B>], module_id: fn(&M) -> u64, buffer_id: fn(&B) -> u64) -> Sequence {
        let step = |launch: &Launch<'_, M, B>| {
            let named = |bind: &Bind<'_, B>| (bind.access, buffer_id(bind.view.buf), bind.view.range());
            Step {
                module: module_id(launch.module),
                entry: launch.entry,
                groups: launch.groups,
                threads: launch.threads,
                shared_bytes: launch.shared_bytes,
                cluster: launch.cluster,
                views: launch.bind.iter().map(named).collect(),
                args: launch.args.clone(),
            }
        };
        Sequence(launches.iter().map(step).collect())
    }

    /// Whether a launch of the sequence uses the buffer or module with this number.
    fn names(&self, id: u64) -> bool {
        self.0.iter().any(|step| step.module == id || step.views.iter().any(|(_, buffer, _)| *buffer == id))
    }
}

/// Recent sequences. A recording of a sequence has the type `R`.
pub struct Recordings<R> {
    /// The sequences, least recently used first.
    known: Mutex<VecDeque<(Sequence, State<R>)>>,
}

enum State<R> {
    /// The sequence occurred once.
    Seen,
    Recorded(Arc<R>),
    /// The driver failed to record the sequence.
    Refused,
}

impl<R> Default for Recordings<R> {
    fn default() -> Self {
        Recordings { known: Mutex::default() }
    }
}

impl<R> Recordings<R> {
    /// Starts a sequence: with `replay` if the sequence is recorded, else with `launch`, one launch after another. At
    /// the second occurrence of a sequence, `record` records it. After a failed recording, the sequence is never
    /// recorded.
    ///
    /// # Errors
    /// The errors of `replay` and `launch`. Of the errors of `record`, only [`Error::Lost`].
    pub fn start(
        &self,
        sequence: Sequence,
        record: impl FnOnce() -> Result<R>,
        replay: impl FnOnce(&R) -> Result<()>,
        launch: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let recording = match self.take(&sequence) {
            None => {
                self.put(sequence, State::Seen);
                return launch();
            }
            Some(State::Recorded(recording)) => recording,
            Some(State::Refused) => {
                self.put(sequence, State::Refused);
                return launch();
            }
            Some(State::Seen) => match record() {
                Ok(recording) => Arc::new(recording),
                Err(Error::Lost(why)) => return Err(Error::Lost(why)),
                Err(_) => {
                    self.put(sequence, State::Refused);
                    return launch();
                }
            },
        };
        self.put(sequence, State::Recorded(recording.clone()));
        replay(&recording)
    }

    /// Drops all sequences that use the buffer or module with this number. Called when the buffer or module is dropped.
    pub fn forget(&self, id: u64) {
        let mut known = self.known();
        let (gone, left) = std::mem::take(&mut *known).into_iter().partition(|(sequence, _)| sequence.names(id));
        *known = left;
        drop(known);
        // dropped after the lock is released, because dropping a recording may call this function again
        drop::<VecDeque<_>>(gone);
    }

    /// The number of recorded sequences.
    pub fn recorded(&self) -> usize {
        self.known().iter().filter(|(_, state)| matches!(state, State::Recorded(_))).count()
    }

    fn take(&self, sequence: &Sequence) -> Option<State<R>> {
        let mut known = self.known();
        let at = known.iter().rposition(|(other, _)| other == sequence)?;
        known.remove(at).map(|(_, state)| state)
    }

    fn put(&self, sequence: Sequence, state: State<R>) {
        let mut known = self.known();
        let oldest = if known.len() == SEQUENCES_MAX { known.pop_front() } else { None };
        known.push_back((sequence, state));
        drop(known);
        drop(oldest);
    }

    fn known(&self) -> MutexGuard<'_, VecDeque<(Sequence, State<R>)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::gpu::View;

    /// Makes a sequence of one launch of module 0 that reads a buffer.
    fn sequence(buffer: u64, rows: u32) -> Sequence {
        let view = View { buf: &buffer, first: 0, words: 64 };
        let bind = vec![Bind { access: Access::Read, view, touched: None }];
        let (module, entry, args) = (&0, "entry", vec![rows]);
        let launch = Launch { module, entry, groups: [1; 3], threads: 64, shared_bytes: 0, cluster: 1, bind, args };
        Sequence::of(&[launch], |module| *module, |buffer| *buffer)
    }

    /// Starts a sequence, and lists the functions that [`Recordings::start`] called: `record`, `replay`, `launch`.
    fn started(recordings: &Recordings<u64>, sequence: Sequence, recorded: Result<u64>) -> Vec<&'static str> {
        let done = RefCell::new(Vec::new());
        let tell = |what| done.borrow_mut().push(what);
        let record = || {
            tell("record");
            recorded
        };
        let replay = |_: &u64| {
            tell("replay");
            Ok(())
        };
        let launch = || {
            tell("launch");
            Ok(())
        };
        recordings.start(sequence, record, replay, launch).expect("nothing is lost");
        done.into_inner()
    }

    #[test]
    fn a_sequence_is_recorded_when_it_comes_again_and_replayed_from_then_on() {
        let recordings = Recordings::default();
        assert_eq!(started(&recordings, sequence(1, 5), Ok(0)), ["launch"]);
        assert_eq!(started(&recordings, sequence(1, 5), Ok(0)), ["record", "replay"]);
        assert_eq!(started(&recordings, sequence(1, 5), Ok(0)), ["replay"]);
        // a sequence with other argument words, then one with another buffer
        assert_eq!(started(&recordings, sequence(1, 6), Ok(0)), ["launch"]);
        assert_eq!(started(&recordings, sequence(2, 5), Ok(0)), ["launch"]);
        assert_eq!(recordings.recorded(), 1);
    }

    #[test]
    fn what_a_driver_refuses_is_launched_one_by_one_and_not_tried_again() {
        let recordings = Recordings::default();
        let refused = || Err(Error::Device("no".into()));
        let turns: Vec<_> = (0..3).map(|_| started(&recordings, sequence(1, 5), refused())).collect();
        assert_eq!(turns, [vec!["launch"], vec!["record", "launch"], vec!["launch"]]);
        let lost = || Err(Error::Lost("gone".into()));
        assert_eq!(started(&recordings, sequence(2, 5), lost()), ["launch"]);
        let found = recordings.start(sequence(2, 5), lost, |_| Ok(()), || Ok(()));
        assert_eq!(found, Err(Error::Lost("gone".into())));
    }

    #[test]
    fn what_names_a_buffer_or_a_module_is_forgotten_with_it() {
        let recordings = Recordings::default();
        for buffer in [1, 2, 1, 2] {
            started(&recordings, sequence(buffer, 5), Ok(buffer));
        }
        assert_eq!(recordings.recorded(), 2);
        recordings.forget(1);
        assert_eq!(recordings.recorded(), 1);
        assert_eq!(started(&recordings, sequence(2, 5), Ok(2)), ["replay"]);
        assert_eq!(started(&recordings, sequence(1, 5), Ok(1)), ["launch"]);
        recordings.forget(0);
        assert_eq!((recordings.recorded(), recordings.known().len()), (0, 0));
    }

    #[test]
    fn the_sequences_that_came_last_are_known() {
        let recordings = Recordings::default();
        for rows in 0..SEQUENCES_MAX as u32 {
            started(&recordings, sequence(1, rows), Ok(0));
        }
        assert_eq!(started(&recordings, sequence(1, 0), Ok(0)), ["record", "replay"]);
        assert_eq!(started(&recordings, sequence(1, SEQUENCES_MAX as u32), Ok(0)), ["launch"]);
        // the sequence that was used longest ago is dropped, and the repeated sequence is kept
        assert_eq!(started(&recordings, sequence(1, 0), Ok(0)), ["replay"]);
        assert_eq!(started(&recordings, sequence(1, 1), Ok(0)), ["launch"]);
        assert_eq!(recordings.known().len(), SEQUENCES_MAX);
    }
}
