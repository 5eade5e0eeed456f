//! A worker computes the work that it took from a lane.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::OperationId;
use bytes::Bytes;
use engine::Error;
use fleet::broker::Queue;
use fleet::presence::{Load, Presence, SPEAKS};
use fleet::serving::{Handled, Handler, Handling, Taken};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use zeroize::Zeroizing;

use super::caller::{Caller, NoAnswer};
use super::content::{self, Callback, INLINE_BYTES_MAX};
use super::values::RememberedValues;
use super::warmth::Warmth;
use super::worker_keys::WorkerKeys;
use crate::web::openapi::VERSION;
use crate::work::here::Here;
use crate::work::key::{KeyName, Operand};
use crate::work::named::{NamedResult, bytes_of_words};
use crate::work::octets::read_short_work;
use crate::work::question::{Question, Work, WorkEnd, WorkError, Worker};
use crate::work::{DeviceState, Rows, read_work, write_end};

/// Work that the engine cannot take now is delivered again after this time.
const BUSY: Duration = Duration::from_millis(100);
/// Work whose key or device is away is delivered again after this time.
const AWAY: Duration = Duration::from_millis(500);

/// Largest number of callbacks that are remembered for work that another member asked for again.
const CALLBACKS_MAX: usize = 1024;

/// Computes with the engine of this process.
pub struct Computes {
    here: Here,
    keys: WorkerKeys,
    warmth: Arc<Warmth>,
    caller: Caller,
    worker: String,
    pool: String,
    /// How to answer the member that asked last, for work that more than one member asked for.
    callbacks: Arc<Mutex<HashMap<String, Callback>>>,
    /// About how much of an operation is lost if the worker dies.
    checkpoint_period: Duration,
    values: RememberedValues,
}

impl Computes {
    /// Makes the handler of a worker with this name in this pool.
    pub fn new(
        here: Here,
        (keys, warmth): (WorkerKeys, Arc<Warmth>),
        caller: Caller,
        (worker, pool): (String, String),
        checkpoint_period: Duration,
        values: RememberedValues,
    ) -> Arc<Computes> {
        let callbacks = Arc::default();
        Arc::new(Computes { here, keys, warmth, caller, worker, pool, callbacks, checkpoint_period, values })
    }
}

impl Handler for Computes {
    fn handle(&self, Taken { head, queue, content, deadline }: Taken) -> Handling {
        let (here, keys, caller) = (self.here.clone(), self.keys.clone(), self.caller.clone());
        let (callbacks, period, values) = (self.callbacks.clone(), self.checkpoint_period, self.values.clone());
        Box::pin(async move {
            let (callback, inline) = match content::read(&content) {
                Ok(read) => read,
                Err(error) => return unreadable(&head.id, &error),
            };
            let remembered = |key: &KeyName, operand: &Operand| values.find(key, operand);
            let read = inline.map_or(Ok(None), |inline| read_short_work(inline, &remembered));
            let read = match read {
                Ok(None) => match caller.operands(&callback).await {
                    Ok(bytes) => read_work(&bytes).inspect(|work| remember_operands(&values, work)),
                    // the API node publishes the work again, with another token, if it still waits
                    Err(NoAnswer::Token | NoAnswer::Gone) => return Handled::Again,
                    Err(NoAnswer::Away(error)) => {
                        tracing::warn!(error, "operands could not be fetched");
                        return Handled::GiveBack(AWAY);
                    }
                },
                Ok(Some(work)) => Ok(work),
                Err(error) => Err(error),
            };
            let mut work = match read {
                Ok(work) if work.id.as_str() == head.id => work,
                Ok(_) => return unreadable(&head.id, &"another id"),
                Err(error) => return unreadable(&head.id, &error),
            };
            let names = std::mem::take(&mut work.results);
            keys.know(work.key, callback.clone());
            let (id, key) = (work.id.clone(), work.key);
            // the message's deadline, because the operands may have been written for an earlier message
            let work = Work { deadline, ..work };
            let in_parts = queue == Queue::Operations && !matches!(work.question, Question::Gates(_));
            let end = if in_parts {
                let checkpoint = match caller.checkpoint(&callback).await {
                    Ok(checkpoint) => checkpoint,
                    Err(NoAnswer::Token | NoAnswer::Gone) => return Handled::Again,
                    Err(NoAnswer::Away(error)) => {
                        tracing::warn!(error, "a checkpoint could not be fetched");
                        return Handled::GiveBack(AWAY);
                    }
                };
                let keep = {
                    let (caller, callback, callbacks, id) =
                        (caller.clone(), callback.clone(), callbacks.clone(), head.id.clone());
                    move |values: Vec<u8>| -> BoxFuture<'static, ()> {
                        let callback = callbacks.lock().get(&id).cloned().unwrap_or_else(|| callback.clone());
                        let caller = caller.clone();
                        Box::pin(async move {
                            if let Err(error) = caller.keep_checkpoint(&callback, values).await {
                                tracing::warn!(%error, "a checkpoint was not kept");
                            }
                        })
                    }
                };
                here.compute_in_parts(work, checkpoint, period, &keep).await
            } else {
                match here.ask(work) {
                    Ok(ending) => ending.await,
                    Err(error) => WorkEnd::Failed(error),
                }
            };
            match &end {
                WorkEnd::Failed(WorkError::Engine(Error::Busy { .. })) => return Handled::GiveBack(BUSY),
                // the key was overwritten because the broker was silent, and its session goes on
                WorkEnd::Failed(WorkError::Engine(Error::Gone)) if here_lost(&keys, &key) => {
                    return Handled::GiveBack(BUSY);
                }
                WorkEnd::Failed(WorkError::Engine(Error::Device(_) | Error::Key(_) | Error::ShuttingDown)) => {
                    return Handled::GiveBack(AWAY);
                }
                _ => {}
            }
            let callback = callbacks.lock().remove(&head.id).unwrap_or(callback);
            let bytes = Bytes::from(write_end(&id, &end));
            if let WorkEnd::Completed { results, .. } = end
                && !names.is_empty()
            {
                // before the answer, because the next work of a chain follows the answer
                remember_results(&here, &values, key, names, results).await;
            }
            if bytes.len() <= INLINE_BYTES_MAX {
                return Handled::Answer(bytes);
            }
            match caller.end(&callback, bytes).await {
                Ok(()) => Handled::Delivered,
                Err(error) => {
                    tracing::warn!(%error, "the end of some work could not be returned");
                    Handled::Again
                }
            }
        })
    }

    fn poison(&self, id: &str) -> Bytes {
        let cause = "the work was not finished by several workers".to_owned();
        failed(id, WorkError::Engine(Error::Device(cause)))
    }

    fn asked_again(&self, id: &str, content: Bytes) {
        let Ok((callback, _)) = content::read(&content) else { return };
        let mut callbacks = self.callbacks.lock();
        if callbacks.len() < CALLBACKS_MAX {
            callbacks.insert(id.to_owned(), callback);
        }
    }

    fn done(&self, id: &str) -> u64 {
        id.parse::<OperationId>().ok().and_then(|id| self.here.done(&id)).unwrap_or_default()
    }

    fn cancel(&self, id: &str) {
        if let Ok(id) = id.parse::<OperationId>() {
            self.here.cancel(&id);
        }
    }

    fn presence(&self) -> Presence {
        let (usage, devices) = (self.here.usage(), self.here.devices());
        let in_service = devices.iter().filter(|device| device.state == DeviceState::InService);
        let devices: Vec<String> = in_service.map(|device| device.backend.clone()).collect();
        Presence {
            worker: self.worker.clone(),
            pool: self.pool.clone(),
            // batches are as large as a device is fast
            weight: u32::try_from(self.here.batch_rows()).unwrap_or(u32::MAX).max(1),
            speaks: SPEAKS,
            draining: false,
            warming: !self.warmth.is_over(),
            version: VERSION.to_owned(),
            load: Load { devices, taken: 0, keys: usage.sessions, resident_bytes: usage.resident_bytes },
        }
    }
}

/// Remembers the operands of work that have a name.
fn remember_operands(values: &RememberedValues, work: &Work) {
    work.question.each_named(|operand, bytes| values.remember(work.key, operand.clone(), bytes));
}

/// Remembers results under the names that they get. Names that do not fit the results are left out.
async fn remember_results(
    here: &Here,
    values: &RememberedValues,
    key: KeyName,
    names: Vec<NamedResult>,
    results: Rows,
) {
    let (here, values) = (here.clone(), values.clone());
    let remembered = tokio::task::spawn_blocking(move || {
        let mut rows = &results.words[..];
        for NamedResult { rows: count, operand, numbers } in names {
            let Some((own, rest)) = rows.split_at_checked(count * results.row_words) else { return };
            rows = rest;
            let bytes = match numbers {
                None => bytes_of_words(own),
                Some(head) => match here.container_of(&key, &head, own.to_vec()) {
                    Some(container) => Arc::new(Zeroizing::new(container)),
                    None => return,
                },
            };
            values.remember(key, operand, bytes);
        }
    });
    if remembered.await.is_err() {
        tracing::error!("the results of some work could not be remembered");
    }
}

/// Whether this worker has overwritten the key of a session that has not ended.
fn here_lost(keys: &WorkerKeys, key: &KeyName) -> bool {
    keys.was_open(key) && !keys.has_ended(key)
}

fn unreadable(id: &str, error: &dyn std::fmt::Display) -> Handled {
    tracing::error!(%error, "work is not readable");
    Handled::Answer(failed(id, WorkError::Unfit(error.to_string())))
}

fn failed(id: &str, error: WorkError) -> Bytes {
    // no member waits for an id that cannot be read
    id.parse().map(|id| write_end(&id, &WorkEnd::Failed(error)).into()).unwrap_or_default()
}
