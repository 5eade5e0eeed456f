//! The thread of a device: carries out orders one after another and reports each. The only code here that is generic over
//! [`Backend`]; above it are plain words.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use kernels::Backend;
use kernels::tfhe::{EvaluationKey, GateRow, Lwe, Params, bootstrap};

use crate::batch::Batch;
use crate::session::SessionId;

/// What a device is told to do.
pub(crate) enum Order {
    Load { session: SessionId, key: Arc<EvaluationKey> },
    Evict(SessionId),
    Run { batch: Batch, rows: Vec<GateRow> },
}

/// What became of it.
pub(crate) enum Report {
    Loaded(SessionId),
    LoadFailed { session: SessionId, out_of_memory: bool, reason: String },
    Evicted(SessionId),
    BatchDone { batch: Batch, results: Vec<Lwe> },
    BatchFailed { batch: Batch, rows: Vec<GateRow>, reason: String },
}

/// Serves `orders` until there can be no more.
pub(crate) fn run<B: Backend>(backend: &B, orders: Receiver<Order>, report: impl Fn(Report)) {
    let mut device = Device { backend, keys: HashMap::new() };
    for order in orders {
        report(device.carry_out(order));
    }
}

/// A session's key in the form this device's kernels want; overwritten on drop.
struct Resident<K> {
    key: K,
    params: Params,
}

struct Device<'a, B: Backend> {
    backend: &'a B,
    keys: HashMap<SessionId, Resident<B::Key>>,
}

impl<B: Backend> Device<'_, B> {
    fn carry_out(&mut self, order: Order) -> Report {
        match order {
            Order::Load { session, key } => self.load(session, key),
            Order::Evict(session) => {
                self.keys.remove(&session);
                Report::Evicted(session)
            }
            Order::Run { batch, rows } => self.evaluate(batch, rows),
        }
    }

    fn load(&mut self, session: SessionId, key: Arc<EvaluationKey>) -> Report {
        let params = key.params;
        let loaded = unless_it_panics(|| self.backend.load_key(&key));
        drop(key); // before the report: whoever closes the session next is the key's last holder
        match loaded {
            Ok(key) => {
                self.keys.insert(session, Resident { key, params });
                Report::Loaded(session)
            }
            Err(error) => {
                let out_of_memory = matches!(error, kernels::Error::OutOfMemory(_));
                Report::LoadFailed { session, out_of_memory, reason: error.to_string() }
            }
        }
    }

    fn evaluate(&self, batch: Batch, rows: Vec<GateRow>) -> Report {
        let Resident { key, params } = self.keys.get(&batch.session).expect("a batch follows its key's load");
        match unless_it_panics(|| bootstrap::evaluate(self.backend, key, params, &rows)) {
            Ok(results) => Report::BatchDone { batch, results },
            Err(error) => Report::BatchFailed { batch, rows, reason: error.to_string() },
        }
    }
}

/// A panic of a backend is a failure of the device; the thread, and all other sessions, go on.
fn unless_it_panics<T>(call: impl FnOnce() -> kernels::Result<T>) -> kernels::Result<T> {
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|panic| Err(kernels::Error::Device(format!("panicked: {}", message_of(panic)))))
}

fn message_of(panic: Box<dyn Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => panic.downcast_ref::<&str>().copied().unwrap_or("without a message").to_owned(),
    }
}
