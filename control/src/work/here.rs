//! The worker of this process: the engine, with names for its keys and operations. No other file names the engine's
//! sessions and operations.

mod checkpoint;
mod listed;
mod parts;
mod windows;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use api::{AccountId, OperationId};
use engine::{Error, Failed, GateList, Names, OPERATION_ROWS_MAX, OnErased, Params, Task, ValueId};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Semaphore, oneshot};

pub use self::checkpoint::CHECKPOINT_BYTES_MAX;
use self::listed::{ListedParts, Parts};
use super::at_rest::{KeysAtRest, RestingKey};
use super::bits::PlanCache;
use super::key::{AccountDigests, KeyName, Operand, Share};
use super::named::{NamedResult, ResultHead};
use super::numbers::{NumbersShape, SharedPlaintexts};
use super::open_keys::{NotOpen, OpenKeys, OpenedKey};
use super::question::{Ending, Figures, GatesQuestion, Question, Work, WorkEnd, WorkError, Worker};
use super::{
    BackendChoice, ComputeConfig, DeviceFacts, EngineDevice, Usage, bounds, driver_trial, memory_bytes, refused,
};
use crate::caller::Plan;
use crate::secrets::Key;
use crate::web::error::ApiError;

/// Time after which an unused key for numbers is closed.
const IDLE: Duration = Duration::from_secs(10 * 60);
/// For each time that the process's memory has this many bytes, one key for numbers may be open. The tables that keys of
/// the same parameters share have up to 17 MB. If a further key is opened, the key that was unused for longest is closed.
const MEMORY_OF_KEY: u64 = 128 << 20;
/// The matrices of bootstrapping may take this part of the process's memory. The matrices of a parameter set of degree 32768
/// take 200 MB.
const MATRICES_SHARE: u64 = 16;
/// Number of keys for numbers that may be open on any machine, however small its memory is.
const NUMBERS_KEYS_MIN: u64 = 64;

/// The worker of this process. A clone shares the same worker.
#[derive(Clone)]
pub struct Here {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Arc<engine::Engine>,
    accounts: Arc<AccountDigests>,
    plans: Arc<PlanCache>,
    at_rest: OnceLock<Arc<dyn KeysAtRest>>,
    keys: Arc<OpenKeys<EngineKey>>,
    plaintexts: Arc<SharedPlaintexts>,
    /// Largest number of open keys for numbers.
    numbers_keys_max: usize,
    /// As many keys are opened at the same time as the machine has cores.
    openings: Arc<Semaphore>,
    /// The work that waits until its key is open, and how often it was sent. Work that is cancelled meanwhile is
    /// removed.
    waiting: Mutex<HashMap<OperationId, usize>>,
    /// The submitted work that has not ended. `None`: about to be submitted.
    running: Mutex<HashMap<OperationId, Option<engine::OperationId>>>,
    /// The work that is computed in parts.
    parts: Parts,
}

/// A key that is open in the engine. Work that runs under the key holds a reference.
pub(super) struct EngineKey {
    engine: Weak<engine::Engine>,
    session: engine::SessionId,
    pub(super) shape: KeyShape,
    used: Mutex<Instant>,
}

impl OpenedKey for EngineKey {
    fn close(&self, erased: OnErased) {
        match self.engine.upgrade() {
            Some(engine) => engine.close(self.session, erased),
            // an engine that has stopped has overwritten all keys
            None => erased(),
        }
    }
}

impl EngineKey {
    fn is_of_numbers(&self) -> bool {
        matches!(self.shape, KeyShape::Numbers(_))
    }
}

impl From<NotOpen> for ApiError {
    fn from(error: NotOpen) -> ApiError {
        match error {
            NotOpen::Refused(error) => refused(error),
            NotOpen::NotFound(error) => error,
        }
    }
}

impl From<NotOpen> for WorkError {
    fn from(error: NotOpen) -> WorkError {
        WorkError::Engine(match error {
            NotOpen::Refused(error) => error,
            NotOpen::NotFound(error) => Error::Key(error.message),
        })
    }
}

/// Everything of a key that the plan of a question depends on.
pub(super) enum KeyShape {
    /// A key for gates and circuits.
    Bits(Params),
    /// A key for encrypted numbers.
    Numbers(Arc<NumbersShape>),
}

impl Here {
    /// Starts the engine on the devices that the settings choose. `kernel_cache`: the folder of kernels compiled at
    /// earlier starts; without it, compiling for a GPU takes seconds. `accounts`: the key of the accounts' digests.
    /// Backends that are passed over are logged.
    pub fn start(config: &ComputeConfig, kernel_cache: PathBuf, accounts: Key) -> anyhow::Result<Here> {
        let trial = |kind| driver_trial::run(config, Some(&kernel_cache), kind);
        let bounds = engine::Config { kernel_cache: Some(kernel_cache.clone()), ..bounds(config) };
        let engine = engine::Engine::start(bounds, config.backend, &trial)?;
        for passed in engine.passed_over() {
            let (backend, reason) = (passed.backend, &passed.reason);
            match config.backend {
                BackendChoice::Auto => tracing::info!(backend, reason, "backend passed over"),
                _ => tracing::warn!(
                    backend,
                    reason,
                    "the backend that the settings name does not work, so another one computes"
                ),
            }
        }
        Ok(Here::with(engine, accounts))
    }

    /// Starts the engine on these devices. The backend in the settings is ignored. Panics if the list is empty.
    pub fn start_on(config: &ComputeConfig, devices: Vec<EngineDevice>, accounts: Key) -> anyhow::Result<Here> {
        Ok(Here::with(engine::Engine::with_devices(bounds(config), devices)?, accounts))
    }

    fn with(engine: engine::Engine, accounts: Key) -> Here {
        let (plans, at_rest, waiting, running, parts) = Default::default();
        let cores = thread::available_parallelism().map_or(1, Into::into);
        Here {
            shared: Arc::new(Shared {
                engine: Arc::new(engine),
                accounts: Arc::new(AccountDigests::new(accounts)),
                plans,
                at_rest,
                keys: OpenKeys::new(),
                plaintexts: Arc::new(SharedPlaintexts::new(memory_bytes() / MATRICES_SHARE)),
                numbers_keys_max: (memory_bytes() / MEMORY_OF_KEY).max(NUMBERS_KEYS_MIN) as usize,
                openings: Arc::new(Semaphore::new(cores)),
                waiting,
                running,
                parts,
            }),
        }
    }

    /// Chooses where the worker finds keys at rest. Until then, no name means a key. Only the first call counts.
    pub fn find_keys_in(&self, at_rest: Arc<dyn KeysAtRest>) {
        self.shared.at_rest.get_or_init(|| at_rest);
    }

    /// Returns what makes the names of accounts.
    pub fn accounts(&self) -> Arc<AccountDigests> {
        self.shared.accounts.clone()
    }

    /// Returns the build string of the backend (readings O7).
    pub fn backend(&self) -> &str {
        &self.shared.engine.device().backend
    }

    /// Returns the name of the first device.
    pub fn device_name(&self) -> &str {
        &self.shared.engine.device().name
    }

    /// Returns all devices, including the devices that were taken out of service.
    pub fn devices(&self) -> Vec<DeviceFacts> {
        self.shared.engine.devices().into_iter().map(DeviceFacts::from).collect()
    }

    /// Returns the number of rows of the largest batches of all devices that take work, together.
    pub fn batch_rows(&self) -> u64 {
        let devices = self.shared.engine.devices();
        devices.iter().filter(|device| device.in_service).map(|device| device.info.rows_max as u64).sum()
    }

    /// Returns the engine's present figures.
    pub fn usage(&self) -> Usage {
        self.shared.engine.usage()
    }

    /// Returns the share of an account with this plan.
    pub fn share(&self, account: &AccountId, plan: Plan) -> Share {
        self.shared.accounts.share(account, plan)
    }

    /// Returns the plans of circuits that the worker remembers.
    pub fn plans(&self) -> Arc<PlanCache> {
        self.shared.plans.clone()
    }

    /// Finishes the queued work, overwrites all keys and stops the engine. Blocks the calling thread until all this is
    /// done.
    pub fn shutdown(&self) {
        self.shared.engine.shutdown();
    }

    /// Finds the open key of a name, or opens the key at rest. `weight`: the weight of the key's account.
    pub(super) async fn opened(&self, name: KeyName, weight: u32) -> Result<Arc<EngineKey>, NotOpen> {
        if let Some(key) = self.open_now(&name) {
            return Ok(key);
        }
        if name.numbers_key_id().is_some() {
            self.make_room();
        }
        let (engine, openings) = (self.shared.engine.clone(), self.shared.openings.clone());
        let plaintexts = self.shared.plaintexts.clone();
        let at_rest = self.shared.at_rest.get().cloned().ok_or(Error::Gone)?;
        self.shared.keys.get_or_open(name, || open(engine, openings, at_rest, plaintexts, name, weight)).await
    }

    fn open_now(&self, name: &KeyName) -> Option<Arc<EngineKey>> {
        let key = self.shared.keys.get(name)?;
        *key.used.lock() = Instant::now();
        Some(key)
    }

    /// Ends the name of a session's key, closes the key and calls `erased` when the key's memory is overwritten. A name
    /// may be closed more than once.
    pub(super) fn close_key(&self, name: KeyName, erased: OnErased) {
        // first the name: otherwise work could open the key again
        if let Some(at_rest) = self.shared.at_rest.get() {
            at_rest.end(name);
        }
        self.shared.keys.close(name, erased);
    }

    /// Closes a key for numbers, unless work runs under the key. A key that is still at rest is opened again by its
    /// next work.
    pub fn release(&self, name: KeyName) {
        match self.shared.keys.get(&name) {
            // one reference is that of the list, and one is here
            Some(key) if Arc::strong_count(&key) > 2 => {}
            _ => self.shared.keys.close(name, Box::new(|| {})),
        }
    }

    /// Writes the container of a result under an open key for numbers. `None`: the key is not open. Takes milliseconds of CPU
    /// time, so call this outside the async threads.
    pub(super) fn container_of(&self, name: &KeyName, head: &ResultHead, words: Vec<u32>) -> Option<Vec<u8>> {
        let key = self.shared.keys.get(name)?;
        match &key.shape {
            KeyShape::Numbers(shape) => shape.container_of(head, words),
            KeyShape::Bits(_) => None,
        }
    }

    /// Closes and overwrites a session's key, also if work runs under it. The name stays: the next work opens the key again.
    pub(super) fn overwrite(&self, name: KeyName) {
        self.shared.keys.close(name, Box::new(|| {}));
    }

    /// Returns the names of the keys for numbers that are open or being opened.
    pub fn open_numbers_keys(&self) -> Vec<KeyName> {
        let names = self.shared.keys.names();
        names.into_iter().filter(|name| name.numbers_key_id().is_some()).collect()
    }

    /// Closes the keys for numbers that were not used for some minutes. A job calls this.
    pub fn close_idle(&self) {
        let idle = |_: &KeyName, key: &Arc<EngineKey>| {
            key.is_of_numbers() && Arc::strong_count(key) == 1 && key.used.lock().elapsed() >= IDLE
        };
        self.shared.keys.close_those(idle);
    }

    /// Makes room for one more key for numbers: closes the key that was unused for longest.
    fn make_room(&self) {
        let names = self.open_numbers_keys();
        if names.len() < self.shared.numbers_keys_max {
            return;
        }
        let unused = names.into_iter().filter_map(|name| {
            let key = self.shared.keys.get(&name)?;
            (Arc::strong_count(&key) == 2).then(|| (*key.used.lock(), name))
        });
        if let Some((_, name)) = unused.min_by_key(|&(used, _)| used) {
            self.release(name);
        }
    }

    /// Takes work whose key is not open: opens the key, unless the work is cancelled meanwhile.
    fn ask_later(&self, work: Work) -> Ending {
        *self.shared.waiting.lock().entry(work.id.clone()).or_default() += 1;
        let here = self.clone();
        let answered = tokio::spawn(async move {
            let opened = here.opened(work.key, work.weight).await;
            if !here.still_waits(&work.id) {
                return WorkEnd::Cancelled(Vec::new());
            }
            match opened.map_err(WorkError::from).and_then(|key| here.submit(work, &key)) {
                Ok(ending) => ending.await,
                Err(error) => WorkEnd::Failed(error),
            }
        });
        Box::pin(async move { answered.await.unwrap_or(WorkEnd::Failed(WorkError::Dropped)) })
    }

    /// Ends the wait of some work. False: the work was cancelled.
    fn still_waits(&self, id: &OperationId) -> bool {
        let mut waiting = self.shared.waiting.lock();
        let Some(sent) = waiting.get_mut(id) else { return false };
        *sent -= 1;
        if *sent == 0 {
            waiting.remove(id);
        }
        true
    }

    /// Lists work that is computed in parts.
    fn begin_parts(&self, id: &OperationId) -> ListedParts {
        self.shared.parts.lock().insert(id.clone(), 0);
        ListedParts { parts: self.shared.parts.clone(), id: id.clone() }
    }

    fn submit(&self, work: Work, key: &Arc<EngineKey>) -> Result<Ending, WorkError> {
        let Work { id, question, deadline, results, .. } = work;
        let names = names(&question, &results);
        self.submit_task(id, self.task(question, &key.shape)?.with_names(names), deadline, key)
    }

    fn submit_task(
        &self,
        id: OperationId,
        task: Task,
        deadline: Instant,
        key: &Arc<EngineKey>,
    ) -> Result<Ending, WorkError> {
        let (tell, hears) = oneshot::channel();
        let (shared, ended, used) = (Arc::downgrade(&self.shared), id.clone(), key.clone());
        let done = move |outcome| {
            if let Some(shared) = shared.upgrade() {
                shared.running.lock().remove(&ended);
            }
            drop(used);
            // the receiver may have been dropped
            drop(tell.send(outcome));
        };
        // on the list before the submission, because the work may end before its submission returns
        self.shared.running.lock().insert(id.clone(), None);
        let submitted = self.shared.engine.submit(key.session, task, Some(deadline), Box::new(done));
        let mut running = self.shared.running.lock();
        match submitted {
            Ok(operation) => {
                if let Some(listed) = running.get_mut(&id) {
                    *listed = Some(operation);
                }
                Ok(Box::pin(async move { hears.await.map_or(WorkEnd::Failed(WorkError::Dropped), end) }))
            }
            Err(error) => {
                running.remove(&id);
                Err(error.into())
            }
        }
    }

    fn running(&self, id: &OperationId) -> Option<engine::OperationId> {
        self.shared.running.lock().get(id).copied().flatten()
    }

    /// Makes the engine's task of a question under a key of this shape.
    fn task(&self, question: Question, shape: &KeyShape) -> Result<Task, WorkError> {
        match (question, shape) {
            (Question::Gates(GatesQuestion { list, .. }), KeyShape::Bits(params)) => {
                check_dimension(list.dimension(), params)?;
                check_gates(&list)?;
                Ok(list.into())
            }
            (Question::Circuit(mut circuit), KeyShape::Bits(params)) => {
                check_dimension(circuit.inputs.dimension(), params)?;
                let plan = circuit.plan(params, &self.shared.plans).map_err(WorkError::Unfit)?;
                Ok(Task::circuit(plan, circuit.inputs))
            }
            (Question::Numbers(mut numbers), KeyShape::Numbers(shape)) => numbers.task(shape).map_err(WorkError::Unfit),
            _ => Err(WorkError::Unfit("the question is of another kind than the key".to_owned())),
        }
    }
}

/// The engine's names of the stored ciphertexts that an operation on numbers takes and makes. By these names, a device
/// finds a ciphertext that an earlier operation has left there.
fn names(question: &Question, results: &[NamedResult]) -> Names {
    let Question::Numbers(numbers) = question else { return Names::default() };
    Names {
        inputs: numbers.operands.iter().map(|stored| value_of(&stored.operand)).collect(),
        outputs: results.iter().map(|result| value_of(&result.operand)).collect(),
    }
}

fn value_of(operand: &Operand) -> Option<ValueId> {
    let Operand::Object(id) = operand else { return None };
    let digest = Sha256::digest(id.as_str());
    Some(ValueId(u128::from_be_bytes(digest[..16].try_into().expect("a digest has 32 bytes"))))
}

/// Finds a key at rest and opens it in the engine. The first key of a shape waits until the kernels for this shape are
/// compiled, which takes some seconds on a GPU.
async fn open(
    engine: Arc<engine::Engine>,
    openings: Arc<Semaphore>,
    at_rest: Arc<dyn KeysAtRest>,
    plaintexts: Arc<SharedPlaintexts>,
    name: KeyName,
    weight: u32,
) -> Result<EngineKey, NotOpen> {
    let found = at_rest.find(name).await?.ok_or(Error::Gone)?;
    let turn = openings.acquire_owned().await.map_err(ApiError::internal)?;
    let opening = tokio::task::spawn_blocking(move || {
        let (_turn, account) = (turn, engine::AccountId(name.account.0));
        let (session, shape) = match found {
            RestingKey::Session(key) => {
                let shape = KeyShape::Bits(key.gate_params());
                (engine.open(key, account, weight)?, shape)
            }
            RestingKey::Fetched(key) => {
                let shape = KeyShape::Bits(key.gate_params());
                (engine.open(key, account, weight)?, shape)
            }
            RestingKey::Numbers(key) => {
                let shape = Arc::new(NumbersShape::of(&key, plaintexts));
                (engine.open(key, account, weight)?, KeyShape::Numbers(shape))
            }
        };
        Ok(EngineKey { engine: Arc::downgrade(&engine), session, shape, used: Mutex::new(Instant::now()) })
    });
    opening.await.map_err(ApiError::internal)?
}

fn check_dimension(found: usize, params: &Params) -> Result<(), WorkError> {
    if found != params.lwe_dimension {
        return Err(WorkError::Unfit(format!("ciphertexts of dimension {found}, not {}", params.lwe_dimension)));
    }
    Ok(())
}

fn check_gates(list: &GateList) -> Result<(), WorkError> {
    let gates = list.gates().len();
    if !(1..=OPERATION_ROWS_MAX).contains(&gates) {
        return Err(WorkError::Unfit(format!("{gates} gates")));
    }
    Ok(())
}

impl Worker for Here {
    fn ask(&self, work: Work) -> Result<Ending, WorkError> {
        match self.open_now(&work.key) {
            Some(key) => self.submit(work, &key),
            None => Ok(self.ask_later(work)),
        }
    }

    fn done(&self, id: &OperationId) -> Option<u64> {
        let before = self.shared.parts.lock().get(id).copied();
        let running = self.running(id).and_then(|operation| self.shared.engine.progress(operation));
        match (before, running) {
            (None, None) => None,
            (before, running) => Some(before.unwrap_or(0) + running.map_or(0, |progress| progress.done)),
        }
    }

    fn cancel(&self, id: &OperationId) {
        self.shared.waiting.lock().remove(id);
        self.shared.parts.lock().remove(id);
        if let Some(operation) = self.running(id) {
            self.shared.engine.cancel(operation);
        }
    }
}

fn end(outcome: Result<engine::Done, Failed>) -> WorkEnd {
    match outcome {
        Ok(engine::Done { results, compute, units }) => {
            WorkEnd::Completed { results, figures: Figures { compute, units } }
        }
        Err(Failed { error: Error::Cancelled, completed }) => WorkEnd::Cancelled(completed),
        Err(Failed { error, .. }) => WorkEnd::Failed(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use api::params::SecurityLevel;
    use api::{EncryptionKeyId, OperationId};
    use engine::{Gate, LweList};

    use super::super::at_rest::Finding;
    use super::*;
    use crate::config::Config;
    use crate::work::numbers::{StoredNumbersKey, params_of};

    /// One key at rest, found when the test allows.
    struct OneKey {
        name: KeyName,
        found: AtomicUsize,
        may_find: Semaphore,
        ended: Mutex<Vec<KeyName>>,
    }

    struct AtRest(Arc<OneKey>);

    impl KeysAtRest for AtRest {
        fn find(&self, name: KeyName) -> Finding {
            let one = self.0.clone();
            Box::pin(async move {
                one.may_find.acquire().await.expect("open").forget();
                one.found.fetch_add(1, Ordering::Relaxed);
                if name != one.name || one.ended.lock().contains(&name) {
                    return Ok(None);
                }
                let params = params_of((64, 40, 1), SecurityLevel::Testing, false)?;
                let key = StoredNumbersKey::of_rows(&params, [7; 8], Vec::new(), Box::new(|_| Err("no rows".into())))?;
                Ok(Some(RestingKey::Numbers(key)))
            })
        }

        fn end(&self, name: KeyName) {
            self.0.ended.lock().push(name);
        }
    }

    fn start(folder: &tempfile::TempDir) -> (Here, Arc<OneKey>) {
        let config = Config::in_folder(folder.path());
        let here = Here::start(&config.compute, folder.path().join("kernels"), Key::default()).unwrap();
        let (found, ended) = Default::default();
        let one = Arc::new(OneKey { name: name(&here, 1), found, may_find: Semaphore::new(0), ended });
        here.find_keys_in(Arc::new(AtRest(one.clone())));
        (here, one)
    }

    fn name(here: &Here, number: u128) -> KeyName {
        KeyName::of_numbers_key(share(here), &EncryptionKeyId::from_bits(number))
    }

    fn share(here: &Here) -> Share {
        here.share(&AccountId::from_bits(1), Plan::Free)
    }

    /// Work that ends as soon as its key is open, because its question is of another kind.
    fn work(key: KeyName, id: u128) -> Work {
        let list = GateList::new(vec![Gate::Not], LweList::from_words(1, vec![1, 2]));
        let question = Question::Gates(GatesQuestion { list, operands: Vec::new() });
        let deadline = Instant::now() + Duration::from_secs(60);
        Work { id: OperationId::from_bits(id), key, weight: 1, question, deadline, results: Vec::new() }
    }

    fn was_open(end: &WorkEnd) -> bool {
        matches!(end, WorkEnd::Failed(WorkError::Unfit(_)))
    }

    fn is_gone(end: &WorkEnd) -> bool {
        *end == WorkEnd::Failed(WorkError::Engine(Error::Gone))
    }

    async fn closed(here: &Here) {
        let closed = async {
            while here.usage().sessions > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), closed).await.expect("the key is closed");
    }

    #[tokio::test]
    async fn work_opens_its_key_at_rest_once_and_an_unknown_name_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let (here, one) = start(&folder);
        // the second and the third are the same work, sent twice
        let [first, second, third] = [1, 2, 2].map(|id| here.ask(work(one.name, id)).unwrap());
        one.may_find.add_permits(1);
        let (first, second, third) = tokio::join!(first, second, third);
        assert!([&first, &second, &third].into_iter().all(was_open), "{first:?} {second:?} {third:?}");
        assert_eq!((one.found.load(Ordering::Relaxed), here.usage().sessions), (1, 1));
        // the key is open: the worker answers at once
        assert!(matches!(here.ask(work(one.name, 3)), Err(WorkError::Unfit(_))));
        one.may_find.add_permits(1);
        let unknown = here.ask(work(name(&here, 2), 4)).unwrap().await;
        assert!(is_gone(&unknown), "{unknown:?}");
        assert_eq!((here.usage().sessions, here.open_numbers_keys()), (1, vec![one.name]));
    }

    #[tokio::test]
    async fn g3_a_name_that_ends_while_its_key_opens_is_refused_and_the_key_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let (here, one) = start(&folder);
        let waits = here.ask(work(one.name, 1)).unwrap();
        while here.open_numbers_keys().is_empty() {
            tokio::task::yield_now().await;
        }
        // the source has found the key before the name ends
        let (tell, hears) = oneshot::channel();
        let erased = move || {
            let _ = tell.send(());
        };
        here.shared.keys.close(one.name, Box::new(erased));
        one.may_find.add_permits(1);
        let end = waits.await;
        assert!(is_gone(&end), "{end:?}");
        hears.await.expect("the worker reports that the key is overwritten");
        assert_eq!((one.found.load(Ordering::Relaxed), here.usage().sessions), (1, 0));
        // from now on, the name means no key
        here.close_key(one.name, Box::new(|| {}));
        one.may_find.add_permits(1);
        let end = here.ask(work(one.name, 2)).unwrap().await;
        assert!(is_gone(&end), "{end:?}");
        assert_eq!(here.usage().sessions, 0);
    }

    #[tokio::test]
    async fn work_that_is_cancelled_while_its_key_opens_does_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let (here, one) = start(&folder);
        let waits = here.ask(work(one.name, 1)).unwrap();
        here.cancel(&OperationId::from_bits(1));
        one.may_find.add_permits(1);
        assert_eq!(waits.await, WorkEnd::Cancelled(Vec::new()));
        assert!(here.shared.waiting.lock().is_empty());
    }

    #[tokio::test]
    async fn a_key_for_numbers_is_released_unless_work_runs_and_opened_again_by_its_next_work() {
        let folder = tempfile::tempdir().unwrap();
        let (here, one) = start(&folder);
        one.may_find.add_permits(2);
        here.open_numbers(one.name, share(&here)).await.unwrap();
        // work that runs holds the key
        let running = here.opened(one.name, 1).await.unwrap();
        here.release(one.name);
        here.close_idle();
        assert_eq!(here.open_numbers_keys(), [one.name]);
        drop(running);
        here.close_idle();
        assert_eq!(here.open_numbers_keys(), [one.name], "used a moment ago");
        here.release(one.name);
        assert!(here.open_numbers_keys().is_empty());
        closed(&here).await;
        let end = here.ask(work(one.name, 1)).unwrap().await;
        assert!(was_open(&end), "{end:?}");
        assert_eq!(one.found.load(Ordering::Relaxed), 2);
    }
}
