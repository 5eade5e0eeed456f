//! The worker of this process: the engine, with names for its keys and operations. No other file names the engine's
//! sessions and operations.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use api::{AccountId, OperationId};
use engine::{Error, Failed, GateList, KeySource, OPERATION_ROWS_MAX, OnErased, Params, Task};
use parking_lot::{Mutex, RwLock};
use tokio::sync::oneshot;

use super::bits::PlanCache;
use super::key::{AccountDigests, KeyName, Share};
use super::numbers::NumbersShape;
use super::question::{Ending, Figures, GatesQuestion, Question, Work, WorkEnd, WorkError, Worker};
use super::{BackendChoice, ComputeConfig, DeviceFacts, EngineDevice, Usage, bounds, driver_trial, refused};
use crate::caller::Plan;
use crate::secrets::Key;
use crate::web::error::ApiError;

/// The worker of this process. A clone shares the same worker.
#[derive(Clone)]
pub struct Here {
    shared: Arc<Shared>,
}

struct Shared {
    engine: engine::Engine,
    accounts: AccountDigests,
    plans: Arc<PlanCache>,
    /// The open keys. A key is removed when its memory is overwritten.
    keys: RwLock<HashMap<KeyName, OpenedKey>>,
    /// The work that has not ended. `None`: about to be submitted.
    running: Mutex<HashMap<OperationId, Option<engine::OperationId>>>,
}

/// A key that is open in the engine.
#[derive(Clone)]
struct OpenedKey {
    session: engine::SessionId,
    shape: KeyShape,
}

/// Everything of a key that the plan of a question depends on.
#[derive(Clone)]
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
        let (plans, keys, running) = Default::default();
        Here { shared: Arc::new(Shared { engine, accounts: AccountDigests::new(accounts), plans, keys, running }) }
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

    /// Opens a key of an account.
    pub(super) fn open_key(&self, key: impl KeySource, shape: KeyShape, share: Share) -> Result<KeyName, ApiError> {
        let account = engine::AccountId(share.account.0);
        let session = self.shared.engine.open(key, account, share.weight).map_err(refused)?;
        let name = KeyName::fresh(share.account);
        self.shared.keys.write().insert(name, OpenedKey { session, shape });
        Ok(name)
    }

    /// Closes a key and calls `erased` when the key's memory is overwritten. A key may be closed more than once.
    pub(super) fn close_key(&self, name: KeyName, erased: OnErased) {
        let session = self.shared.keys.read().get(&name).map(|key| key.session);
        let Some(session) = session else { return erased() };
        let shared = Arc::downgrade(&self.shared);
        let forget = move || {
            if let Some(shared) = shared.upgrade() {
                shared.keys.write().remove(&name);
            }
            erased();
        };
        self.shared.engine.close(session, Box::new(forget));
    }

    fn running(&self, id: &OperationId) -> Option<engine::OperationId> {
        self.shared.running.lock().get(id).copied().flatten()
    }

    /// Makes the engine's task of a question under a key of this shape.
    fn task(&self, question: Question, shape: &KeyShape) -> Result<Task, WorkError> {
        match (question, shape) {
            (Question::Gates(GatesQuestion { list }), KeyShape::Bits(params)) => {
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
    fn ask(&self, Work { id, key, question, deadline }: Work) -> Result<Ending, WorkError> {
        let OpenedKey { session, shape } = self.shared.keys.read().get(&key).cloned().ok_or(Error::Gone)?;
        let task = self.task(question, &shape)?;
        let (tell, hears) = oneshot::channel();
        let (shared, ended) = (Arc::downgrade(&self.shared), id.clone());
        let done = move |outcome| {
            if let Some(shared) = shared.upgrade() {
                shared.running.lock().remove(&ended);
            }
            // the receiver may have been dropped
            drop(tell.send(outcome));
        };
        // on the list before the submission, because the work may end before its submission returns
        self.shared.running.lock().insert(id.clone(), None);
        let submitted = self.shared.engine.submit(session, task, Some(deadline), Box::new(done));
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

    fn done(&self, id: &OperationId) -> Option<u64> {
        let operation = self.running(id)?;
        self.shared.engine.progress(operation).map(|progress| progress.done)
    }

    fn cancel(&self, id: &OperationId) {
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
