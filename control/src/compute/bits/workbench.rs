//! A session's memory besides its key: values under handles, and the session's runs of circuits.
//!
//! When the session ends, no new values and runs are accepted. Ciphertexts are overwritten as soon as their last reader
//! has ended.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use api::{Code, HandleId, OperationId};
use parking_lot::Mutex;
use store::SessionEnd;

use crate::resource::{self, Grant, Payer, Resource};
use crate::web::error::ApiError;
use crate::work::{Form, LweList};

/// Largest size in bytes of the ciphertexts in one request: 16,384 ciphertexts of the largest preset.
pub const VALUES_BYTES_MAX: usize = 56 << 20;

/// Counts a session's memory for values, within the share that the session's account has of the node's memory. Clones
/// share one count.
#[derive(Clone, Debug)]
pub struct ValueMemory {
    used: Arc<AtomicU64>,
    max: u64,
    node: Resource,
    payer: Payer,
}

/// Reserved bytes, given back on drop.
#[derive(Debug)]
pub struct Room {
    used: Arc<AtomicU64>,
    payer: Payer,
    grant: Grant,
}

/// Why there is no room for values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// The session's memory is full until the client deletes values, or the request is larger than the session's limit.
    Session,
    /// The node's memory is full at the moment.
    Node,
}

impl ValueMemory {
    /// Makes the memory of a session: at most `bytes_max` bytes, taken from `node` in the name of `payer`.
    pub fn of_session(node: Resource, payer: Payer, bytes_max: u64) -> ValueMemory {
        ValueMemory { used: Arc::default(), max: bytes_max, node, payer }
    }

    /// Returns the number of bytes that are reserved now.
    #[cfg(test)]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Reserves bytes. The error says which memory is full.
    pub fn reserve(&self, bytes: u64) -> Result<Room, NoRoom> {
        let fits = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= self.max);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).map_err(|_| NoRoom::Session)?;
        match self.node.try_take(&self.payer, bytes) {
            Ok(grant) => Ok(Room { used: self.used.clone(), payer: self.payer.clone(), grant }),
            Err(full) => {
                self.used.fetch_sub(bytes, Ordering::Relaxed);
                Err(match full {
                    resource::NotGranted::NotNow => NoRoom::Node,
                    resource::NotGranted::TooMuch => NoRoom::Session,
                })
            }
        }
    }
}

impl Room {
    /// Returns the account from whose share the bytes are taken.
    pub fn payer(&self) -> &Payer {
        &self.payer
    }

    /// Splits a room of `bytes` bytes off this room.
    pub fn part(&mut self, bytes: u64) -> Room {
        Room { used: self.used.clone(), payer: self.payer.clone(), grant: self.grant.split(bytes) }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.used.fetch_sub(self.grant.amount(), Ordering::Relaxed);
    }
}

/// An encrypted number, bit 0 first. Overwritten on drop.
pub struct EncryptedValue {
    /// The ciphertexts of the bits.
    pub bits: LweList,
    /// The form in which the ciphertexts are written.
    pub form: Form,
    _room: Room,
}

impl EncryptedValue {
    /// Makes a value with these bits. Dropping the value gives back `room`, the memory reserved for the value.
    pub fn new(bits: LweList, form: Form, room: Room) -> EncryptedValue {
        EncryptedValue { bits, form, _room: room }
    }
}

/// Gates read the value's bits in place.
impl AsRef<LweList> for EncryptedValue {
    fn as_ref(&self) -> &LweList {
        &self.bits
    }
}

impl Drop for EncryptedValue {
    fn drop(&mut self) {
        self.bits.overwrite();
    }
}

/// A result of a circuit.
#[derive(Clone)]
pub enum Output {
    /// Stored under a handle.
    Handle(HandleId),
    /// Stored with the run until the client fetches the value.
    Value(Arc<EncryptedValue>),
}

/// A circuit's run, while the node has it in memory.
pub struct Run {
    /// The run's id.
    pub op_id: OperationId,
    results: Mutex<Option<Vec<Output>>>,
    /// The memory of the run's record and results.
    _room: Room,
}

impl Run {
    /// Makes a run with this id. Dropping the run gives back `room`, the memory reserved for the run's record and
    /// results.
    pub fn new(op_id: OperationId, room: Room) -> Run {
        Run { op_id, results: Mutex::new(None), _room: room }
    }

    /// Returns the run's results, if the run was completed and its results are still in memory.
    pub fn results(&self) -> Option<Vec<Output>> {
        self.results.lock().clone()
    }
}

/// A session's values and runs.
pub struct Workbench {
    /// The session's memory for values.
    pub memory: ValueMemory,
    shelf: Mutex<Shelf>,
}

#[derive(Default)]
struct Shelf {
    closed: Option<SessionEnd>,
    values: HashMap<HandleId, Arc<EncryptedValue>>,
    runs: HashMap<OperationId, Arc<Run>>,
}

impl Workbench {
    /// Makes a workbench without values and runs.
    pub fn new(memory: ValueMemory) -> Workbench {
        Workbench { memory, shelf: Mutex::default() }
    }

    /// Accepts a run that is about to begin. False: the session has ended.
    pub fn begin(&self, run: Arc<Run>) -> bool {
        let mut shelf = self.shelf.lock();
        let open = shelf.closed.is_none();
        if open {
            shelf.runs.insert(run.op_id.clone(), run);
        }
        open
    }

    /// Stores a run's results for the client to fetch. If the session has ended, the results are dropped instead.
    pub fn complete(&self, run: &Run, results: Vec<Output>) {
        let shelf = self.shelf.lock();
        if shelf.closed.is_none() {
            *run.results.lock() = Some(results);
        }
    }

    /// Returns the run with this id, if the run is in memory.
    pub fn run(&self, op_id: &OperationId) -> Option<Arc<Run>> {
        self.shelf.lock().runs.get(op_id).cloned()
    }

    /// Drops a run and its results, but not values under handles.
    pub fn forget_run(&self, op_id: &OperationId) {
        self.shelf.lock().runs.remove(op_id);
    }

    /// Stores a value under a handle. False: the session has ended, and the value is dropped.
    pub fn keep(&self, handle: HandleId, value: Arc<EncryptedValue>) -> bool {
        let mut shelf = self.shelf.lock();
        let open = shelf.closed.is_none();
        if open {
            shelf.values.insert(handle, value);
        }
        open
    }

    /// Returns the value under a handle.
    pub fn value(&self, handle: &HandleId) -> Option<Arc<EncryptedValue>> {
        self.shelf.lock().values.get(handle).cloned()
    }

    /// Drops the value under a handle. False: no value has this handle.
    pub fn forget(&self, handle: &HandleId) -> bool {
        self.shelf.lock().values.remove(handle).is_some()
    }

    /// Returns how the session ended. `None`: the session is open.
    pub fn closed(&self) -> Option<SessionEnd> {
        self.shelf.lock().closed
    }

    /// Ends the session: drops all values. From then on, no values are accepted.
    pub fn close(&self, end: SessionEnd) {
        let closed = Some(self.closed().unwrap_or(end));
        let emptied = std::mem::replace(&mut *self.shelf.lock(), Shelf { closed, ..Shelf::default() });
        for run in emptied.runs.values() {
            *run.results.lock() = None;
        }
    }
}

/// Returns the error for a handle under which the session stores no value. Another session's handle gets the same error
/// as an unknown handle.
pub fn unknown_handle(place: Option<&str>) -> ApiError {
    let error = ApiError::new(Code::CiphertextNotFound, "there is no such handle in this session");
    match place {
        Some(place) => error.at(place, "unknown handle"),
        None => error,
    }
}

/// Returns the error for a request for whose inputs and results there is no memory.
pub fn no_room(full: NoRoom) -> ApiError {
    match full {
        NoRoom::Session => ApiError::new(
            Code::QuotaExceeded,
            "the session has no memory left for inputs and results: delete handles and results of runs",
        ),
        NoRoom::Node => ApiError::unavailable("values", "the node has no memory left for inputs and results"),
    }
}

#[cfg(test)]
mod tests {
    use api::AccountId;

    use super::*;

    fn payer(number: u128) -> Payer {
        Payer::account(AccountId::from_bits(number))
    }

    fn bench(session_bytes: u64, node_bytes: u64) -> (Resource, Workbench) {
        let node = Resource::memory(node_bytes, node_bytes);
        let bench = Workbench::new(ValueMemory::of_session(node.clone(), payer(1), session_bytes));
        (node, bench)
    }

    fn value(room: Room) -> Arc<EncryptedValue> {
        Arc::new(EncryptedValue::new(LweList::from_words(4, vec![0, 0, 0, 0, 7]), Form::Ango, room))
    }

    fn run(bench: &Workbench, number: u128) -> Arc<Run> {
        Arc::new(Run::new(OperationId::from_bits(number), bench.memory.reserve(1).unwrap()))
    }

    #[test]
    fn memory_is_bounded_by_session_and_by_node_and_given_back() {
        let node = Resource::memory(100, 100);
        let [first, second] = [1, 1].map(|owner| ValueMemory::of_session(node.clone(), payer(owner), 80));
        let mut held = first.reserve(80).unwrap();
        assert_eq!(first.reserve(1).unwrap_err(), NoRoom::Session);
        assert_eq!(second.reserve(21).unwrap_err(), NoRoom::Node);
        assert_eq!((second.used(), node.used()), (0, 80));
        let part = held.part(30);
        drop(held);
        assert_eq!((first.used(), node.used()), (30, 30));
        assert!(second.reserve(70).is_ok());
        drop(part);
        assert_eq!(node.used(), 0);
        assert_eq!(first.reserve(u64::MAX).unwrap_err(), NoRoom::Session);
    }

    #[test]
    fn all_trials_together_keep_a_tenth_of_the_memory_for_values() {
        let node = Resource::memory(1000, 50);
        let trials = (0..150).map(|number| Payer::trial(AccountId::from_bits(number)));
        let trials: Vec<_> = trials.map(|payer| ValueMemory::of_session(node.clone(), payer, 256)).collect();
        let held: Vec<_> = trials.iter().filter_map(|memory| memory.reserve(10).ok()).collect();
        assert_eq!((held.len(), node.used()), (10, 100));
        assert_eq!(trials[149].reserve(10).unwrap_err(), NoRoom::Node);
        // a request that is larger than the share of all trials together never fits, so the error is `Session`: `Node`
        // would ask the client to try again
        assert_eq!(trials[149].reserve(101).unwrap_err(), NoRoom::Session);
        assert!(ValueMemory::of_session(node.clone(), payer(200), 256).reserve(256).is_ok());
    }

    #[test]
    fn a_session_s_end_drops_values_and_results_and_takes_nothing_more() {
        let (node, bench) = bench(100, 100);
        let handle = HandleId::from_bits(1);
        assert!(bench.keep(handle.clone(), value(bench.memory.reserve(10).unwrap())));
        let done = run(&bench, 1);
        assert!(bench.begin(done.clone()));
        bench.complete(&done, vec![Output::Value(value(bench.memory.reserve(10).unwrap()))]);
        let running = run(&bench, 2);
        assert!(bench.begin(running.clone()));
        assert_eq!(node.used(), 22);
        bench.close(SessionEnd::Deleted);
        assert!(bench.value(&handle).is_none() && done.results().is_none());
        assert_eq!(bench.closed(), Some(SessionEnd::Deleted));
        bench.complete(&running, vec![Output::Value(value(bench.memory.reserve(10).unwrap()))]);
        assert!(running.results().is_none());
        assert!(!bench.keep(handle, value(bench.memory.reserve(10).unwrap())));
        assert!(!bench.begin(run(&bench, 3)));
        drop((done, running));
        assert_eq!(node.used(), 0);
    }

    #[test]
    fn a_run_stays_until_it_is_forgotten() {
        let (node, bench) = bench(100, 100);
        let runs: Vec<_> = (0..2).map(|number| run(&bench, number)).collect();
        assert!(runs.iter().all(|run| bench.begin(run.clone())));
        bench.forget_run(&runs[0].op_id);
        assert!(bench.run(&runs[0].op_id).is_none() && bench.run(&runs[1].op_id).is_some());
        drop(runs);
        assert_eq!(node.used(), 1);
    }

    #[test]
    fn a_value_that_is_read_while_it_is_deleted_stays_whole_for_its_reader() {
        let (node, bench) = bench(100, 100);
        let handle = HandleId::from_bits(1);
        bench.keep(handle.clone(), value(bench.memory.reserve(10).unwrap()));
        let reading = bench.value(&handle).unwrap();
        assert!(bench.forget(&handle) && !bench.forget(&handle));
        assert_eq!((reading.bits.row(0)[4], node.used()), (7, 10));
        drop(reading);
        assert_eq!(node.used(), 0);
    }
}
