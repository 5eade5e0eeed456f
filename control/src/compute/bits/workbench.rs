//! A session's memory besides its key: values under handles, and the session's runs of circuits. They are in the node's
//! memory, or, for a session of a fleet, in the database and the bucket ([`shared`]).
//!
//! When the session ends, no new values and runs are accepted. Ciphertexts are overwritten as soon as their last reader
//! has ended.

mod shared;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use api::{Code, HandleId, OperationId};
use parking_lot::Mutex;
use store::{NewSessionValue, SessionEnd};

use crate::resource::{self, Grant, Payer, Resource};
use crate::web::error::ApiError;
use crate::work::{Form, LweList};

use self::shared::SharedShelf;
pub use self::shared::{SharedSession, SharedValues};

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

/// A result that is to be kept: under its handle, and as an output of its run.
pub struct Made {
    /// The handle, if the request wants one.
    pub handle: Option<HandleId>,
    /// The ciphertexts.
    pub value: Arc<EncryptedValue>,
}

impl Made {
    /// Returns the result as an output of a run.
    pub fn output(&self) -> Output {
        match &self.handle {
            Some(handle) => Output::Handle(handle.clone()),
            None => Output::Value(self.value.clone()),
        }
    }
}

/// Results that a session keeps once their charge is written. Dropping this value drops them, unless [`Keeping::stay`] was
/// called before. So no results stay if their gates were not charged.
pub struct Keeping {
    bench: Arc<Workbench>,
    handles: Vec<HandleId>,
    rows: Vec<NewSessionValue>,
    stays: bool,
}

impl Keeping {
    /// Returns the rows that the unit of the charge must write.
    pub fn rows(&self) -> Vec<NewSessionValue> {
        self.rows.clone()
    }

    /// Notes that the charge is written.
    pub fn stay(mut self) {
        self.stays = true;
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        if let Place::Here(shelf) = &self.bench.place {
            let mut shelf = shelf.lock();
            self.handles.iter().for_each(|handle| drop(shelf.values.remove(handle)));
        }
        if !self.rows.is_empty() {
            let (bench, rows) = (self.bench.clone(), std::mem::take(&mut self.rows));
            tokio::spawn(async move {
                if let Place::Shared(shelf) = &bench.place {
                    shelf.take_back(&rows).await;
                }
            });
        }
    }
}

/// A session's values and runs.
pub struct Workbench {
    /// The session's memory for values.
    pub memory: ValueMemory,
    place: Place,
}

enum Place {
    /// In the memory of the process that has the session's key.
    Here(Mutex<Shelf>),
    /// In the database and the bucket.
    Shared(SharedShelf),
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
        Workbench { memory, place: Place::Here(Mutex::default()) }
    }

    /// Gives access to the values of a session of the fleet.
    pub fn shared(memory: ValueMemory, values: Arc<SharedValues>, session: SharedSession) -> Workbench {
        Workbench { memory, place: Place::Shared(SharedShelf { values, session }) }
    }

    /// Refuses results of this size, if the session has no room to keep them.
    pub fn check_room(&self, bytes: u64) -> Result<(), ApiError> {
        match &self.place {
            Place::Here(_) => Ok(()),
            Place::Shared(shelf) => shelf.check_room(bytes),
        }
    }

    /// Accepts a run that is about to begin. False: the session has ended.
    pub fn begin(&self, run: Arc<Run>) -> bool {
        let Place::Here(shelf) = &self.place else { return true };
        let mut shelf = shelf.lock();
        let open = shelf.closed.is_none();
        if open {
            shelf.runs.insert(run.op_id.clone(), run);
        }
        open
    }

    /// Keeps results: those with a handle under their handles, and all of them with their run, if a client will fetch the
    /// run's results. `None`: the session has ended.
    pub async fn keep(self: &Arc<Self>, made: &[Made], run: Option<&Run>) -> Result<Option<Keeping>, ApiError> {
        let handles: Vec<HandleId> = made.iter().filter_map(|made| made.handle.clone()).collect();
        let rows = match &self.place {
            Place::Here(shelf) => {
                let mut shelf = shelf.lock();
                if shelf.closed.is_some() {
                    return Ok(None);
                }
                for Made { handle, value } in made {
                    if let Some(handle) = handle {
                        shelf.values.insert(handle.clone(), value.clone());
                    }
                }
                if let Some(run) = run {
                    *run.results.lock() = Some(made.iter().map(Made::output).collect());
                }
                Vec::new()
            }
            Place::Shared(shelf) => shelf.put(made, run.map(|run| &run.op_id)).await?,
        };
        Ok(Some(Keeping { bench: self.clone(), handles, rows, stays: false }))
    }

    /// Returns the outputs of a completed run, if the session keeps them.
    pub async fn outputs_of(&self, op_id: &OperationId) -> Result<Option<Vec<Output>>, ApiError> {
        let shelf = match &self.place {
            Place::Here(shelf) => return Ok(shelf.lock().runs.get(op_id).and_then(|run| run.results())),
            Place::Shared(shelf) => shelf,
        };
        let Some(outputs) = shelf.outputs_of(op_id, &self.memory).await? else { return Ok(None) };
        let output = |(name, value): (String, Option<Arc<EncryptedValue>>)| match value {
            Some(value) => Ok(Output::Value(value)),
            None => name.parse().map(Output::Handle).map_err(ApiError::internal),
        };
        outputs.into_iter().map(output).collect::<Result<_, _>>().map(Some)
    }

    /// Drops a run and its results, but not values under handles.
    pub async fn forget_run(&self, op_id: &OperationId) -> Result<(), ApiError> {
        match &self.place {
            Place::Here(shelf) => drop(shelf.lock().runs.remove(op_id)),
            Place::Shared(shelf) => shelf.forget_run(op_id).await?,
        }
        Ok(())
    }

    /// Drops what this process has of a run that has no results.
    pub fn drop_run(&self, op_id: &OperationId) {
        if let Place::Here(shelf) = &self.place {
            shelf.lock().runs.remove(op_id);
        }
    }

    /// Returns the value under a handle.
    pub async fn value(&self, handle: &HandleId) -> Result<Option<Arc<EncryptedValue>>, ApiError> {
        match &self.place {
            Place::Here(shelf) => Ok(shelf.lock().values.get(handle).cloned()),
            Place::Shared(shelf) => shelf.read(handle.as_str(), &self.memory).await,
        }
    }

    /// Drops the value under a handle. False: no value has this handle.
    pub async fn forget(&self, handle: &HandleId) -> Result<bool, ApiError> {
        match &self.place {
            Place::Here(shelf) => Ok(shelf.lock().values.remove(handle).is_some()),
            Place::Shared(shelf) => shelf.forget(handle.as_str()).await,
        }
    }

    /// Returns how the session ended. `None`: the session is open, or its row tells how it ended.
    pub fn closed(&self) -> Option<SessionEnd> {
        match &self.place {
            Place::Here(shelf) => shelf.lock().closed,
            Place::Shared(_) => None,
        }
    }

    /// Ends the session: drops all values. From then on, no values are accepted.
    pub fn close(&self, end: SessionEnd) {
        let Place::Here(shelf) = &self.place else { return };
        let closed = Some(self.closed().unwrap_or(end));
        let emptied = std::mem::replace(&mut *shelf.lock(), Shelf { closed, ..Shelf::default() });
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

    fn bench(session_bytes: u64, node_bytes: u64) -> (Resource, Arc<Workbench>) {
        let node = Resource::memory(node_bytes, node_bytes);
        let bench = Workbench::new(ValueMemory::of_session(node.clone(), payer(1), session_bytes));
        (node, Arc::new(bench))
    }

    fn made(bench: &Workbench, handle: Option<&HandleId>) -> Vec<Made> {
        vec![Made { handle: handle.cloned(), value: value(bench.memory.reserve(10).unwrap()) }]
    }

    async fn kept(bench: &Arc<Workbench>, made: Vec<Made>, run: Option<&Arc<Run>>) -> bool {
        let keeping = bench.keep(&made, run.map(|run| &**run)).await.unwrap();
        keeping.map(Keeping::stay).is_some()
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

    #[tokio::test]
    async fn a_session_s_end_drops_values_and_results_and_takes_nothing_more() {
        let (node, bench) = bench(100, 100);
        let handle = HandleId::from_bits(1);
        assert!(kept(&bench, made(&bench, Some(&handle)), None).await);
        let done = run(&bench, 1);
        assert!(bench.begin(done.clone()));
        assert!(kept(&bench, made(&bench, None), Some(&done)).await);
        let running = run(&bench, 2);
        assert!(bench.begin(running.clone()));
        assert_eq!(node.used(), 22);
        bench.close(SessionEnd::Deleted);
        assert!(bench.value(&handle).await.unwrap().is_none() && done.results().is_none());
        assert_eq!(bench.closed(), Some(SessionEnd::Deleted));
        assert!(!kept(&bench, made(&bench, None), Some(&running)).await);
        assert!(running.results().is_none());
        assert!(!kept(&bench, made(&bench, Some(&handle)), None).await);
        assert!(!bench.begin(run(&bench, 3)));
        drop((done, running));
        assert_eq!(node.used(), 0);
    }

    #[tokio::test]
    async fn a_run_stays_until_it_is_forgotten() {
        let (node, bench) = bench(100, 100);
        let runs: Vec<_> = (0..2).map(|number| run(&bench, number)).collect();
        for run in &runs {
            assert!(bench.begin(run.clone()) && kept(&bench, Vec::new(), Some(run)).await);
        }
        bench.forget_run(&runs[0].op_id).await.unwrap();
        let outputs = async |run: &Arc<Run>| bench.outputs_of(&run.op_id).await;
        assert!(outputs(&runs[0]).await.unwrap().is_none() && outputs(&runs[1]).await.unwrap().is_some());
        drop(runs);
        assert_eq!(node.used(), 1);
    }

    #[tokio::test]
    async fn results_whose_charge_is_not_written_do_not_stay() {
        let (node, bench) = bench(100, 100);
        let handle = HandleId::from_bits(1);
        let keeping = bench.keep(&made(&bench, Some(&handle)), None).await.unwrap().unwrap();
        assert!(bench.value(&handle).await.unwrap().is_some());
        drop(keeping);
        assert!(bench.value(&handle).await.unwrap().is_none());
        assert_eq!(node.used(), 0);
    }

    #[tokio::test]
    async fn a_value_that_is_read_while_it_is_deleted_stays_whole_for_its_reader() {
        let (node, bench) = bench(100, 100);
        let handle = HandleId::from_bits(1);
        assert!(kept(&bench, made(&bench, Some(&handle)), None).await);
        let reading = bench.value(&handle).await.unwrap().unwrap();
        assert!(bench.forget(&handle).await.unwrap() && !bench.forget(&handle).await.unwrap());
        assert_eq!((reading.bits.row(0)[4], node.used()), (7, 10));
        drop(reading);
        assert_eq!(node.used(), 0);
    }
}
