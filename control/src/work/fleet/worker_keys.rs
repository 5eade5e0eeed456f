//! Keys on a worker: the API node that asks says where a key is, and the worker reads it from there.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use engine::EvaluationKey;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::access::{KeyAccess, RowAccess, SealedRows};
use super::caller::{Caller, NoAnswer};
use super::content::Callback;
use super::rows_key::RowsKey;
use super::session_key::{FleetSeal, open_object};
use crate::blobs::{Blobs, Missing};
use crate::resource::{Payer, Resource};
use crate::secrets::Key;
use crate::web::error::ApiError;
use crate::web::offload::Offload;
use crate::work::at_rest::{Finding, KeysAtRest, RestingKey};
use crate::work::bits::FetchedKey;
use crate::work::key::KeyName;
use crate::work::numbers::{ReadRow, StoredNumbersKey, StoredRow, params_on_record};

/// How long the end of a key is remembered, so that a late message does not open the key again. Longer than any request.
const ENDED: Duration = Duration::from_secs(2 * 3600);
/// Largest number of callbacks that are remembered. Only the last one of each key is of use.
const CALLBACKS_MAX: usize = 1 << 16;
/// A key that could not be read is tried again after this time.
const RETRY: Duration = Duration::from_secs(1);

/// The keys of a worker of a fleet. Clones share them.
#[derive(Clone)]
pub struct WorkerKeys {
    shared: Arc<Shared>,
}

struct Shared {
    caller: Caller,
    seal: FleetSeal,
    /// In the bucket: keys of sessions, and rows of stored keys.
    objects: Blobs,
    rows: Blobs,
    offload: Offload,
    /// Memory for the bytes of keys that are open, so that a device that dropped a key gets it again without the bucket.
    memory: Resource,
    /// The API node that asked last for work under a key.
    callbacks: Mutex<HashMap<KeyName, Callback>>,
    ended: Mutex<HashMap<KeyName, Instant>>,
    /// Keys that were looked for, because they were not open.
    missed: AtomicU64,
    /// Keys that are being opened before there is work for them.
    warms: Mutex<HashSet<KeyName>>,
    /// When the sessions of open keys expire.
    expires: Mutex<HashMap<KeyName, Instant>>,
}

impl WorkerKeys {
    /// Makes the keys of a worker. `objects` and `rows`: the keys of sessions and the rows of stored keys in the bucket.
    /// `memory`: bound on the bytes of keys in host memory.
    pub fn new(
        caller: Caller,
        seal: FleetSeal,
        [objects, rows]: [Blobs; 2],
        offload: Offload,
        memory: Resource,
    ) -> WorkerKeys {
        let (callbacks, ended, expires, missed, warms) = Default::default();
        let shared = Shared { caller, seal, objects, rows, offload, memory, callbacks, ended, expires, missed, warms };
        WorkerKeys { shared: Arc::new(shared) }
    }

    /// Notes which API node asks for work under a key.
    pub fn know(&self, name: KeyName, callback: Callback) {
        let mut callbacks = self.shared.callbacks.lock();
        if callbacks.len() >= CALLBACKS_MAX && !callbacks.contains_key(&name) {
            callbacks.clear();
        }
        callbacks.insert(name, callback);
    }

    /// Whether keys may still be opened before there is work for them: they take at most half of the memory of keys.
    pub fn have_room_to_warm(&self) -> bool {
        self.shared.memory.used() <= self.shared.memory.total() / 2
    }

    /// Notes that a key will be opened before there is work for it, with this access.
    pub fn begin_to_warm(&self, name: KeyName, callback: Callback) {
        self.shared.warms.lock().insert(name);
        // the access of work lasts longer
        self.shared.callbacks.lock().entry(name).or_insert(callback);
    }

    /// Notes that a key was opened before there was work for it.
    pub fn end_to_warm(&self, name: &KeyName) {
        self.shared.warms.lock().remove(name);
    }

    /// Whether the key of a session was read, and the session has not expired.
    pub fn was_open(&self, name: &KeyName) -> bool {
        self.shared.expires.lock().contains_key(name)
    }

    /// Whether a key has ended, so that no work under it can be computed.
    pub fn has_ended(&self, name: &KeyName) -> bool {
        self.shared.ended.lock().contains_key(name)
    }

    /// Returns how often a key was not open when its work came.
    pub fn missed(&self) -> u64 {
        self.shared.missed.load(Ordering::Relaxed)
    }

    /// Returns the names of keys whose sessions have expired, once.
    pub fn expired(&self, now: Instant) -> Vec<KeyName> {
        self.shared.expires.lock().extract_if(|_, at| *at <= now).map(|(name, _)| name).collect()
    }

    /// Returns the names of the keys of sessions that were opened and have not ended.
    pub fn sessions(&self) -> Vec<KeyName> {
        self.shared.expires.lock().keys().copied().collect()
    }
}

impl KeysAtRest for WorkerKeys {
    fn find(&self, name: KeyName) -> Finding {
        let shared = self.shared.clone();
        Box::pin(async move { shared.find(name).await })
    }

    fn end(&self, name: KeyName) {
        let now = Instant::now();
        let mut ended = self.shared.ended.lock();
        ended.retain(|_, at| now.duration_since(*at) < ENDED);
        ended.insert(name, now);
        drop(ended);
        self.shared.callbacks.lock().remove(&name);
        self.shared.expires.lock().remove(&name);
    }
}

impl Shared {
    fn callback(&self, name: &KeyName) -> Option<Callback> {
        self.callbacks.lock().get(name).cloned()
    }

    async fn find(self: Arc<Self>, name: KeyName) -> Result<Option<RestingKey>, ApiError> {
        if self.ended.lock().contains_key(&name) {
            return Ok(None);
        }
        if !self.warms.lock().contains(&name) {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
        let callback = self.callback(&name).ok_or_else(away)?;
        match self.caller.key(&callback).await {
            Ok(KeyAccess::Session { object, secret, left_ms }) => {
                let secret = hex::decode(secret).map_err(ApiError::internal)?;
                let data_key = self.seal.open(name, &secret);
                let data_key = data_key.ok_or_else(|| ApiError::internal("a data key of another fleet"))?;
                let key = self.clone().read(name, object, data_key).await?;
                self.expires.lock().insert(name, Instant::now() + Duration::from_millis(left_ms));
                Ok(Some(RestingKey::Fetched(Arc::new(key))))
            }
            Ok(KeyAccess::Numbers { params, fingerprint, rows, sealed }) => {
                let fingerprint = hex::decode(fingerprint).map_err(ApiError::internal)?;
                let fingerprint = fingerprint.as_slice().try_into().map_err(ApiError::internal)?;
                let read = match sealed {
                    Some(sealed) => self.clone().rows_in_bucket(&sealed, &rows)?,
                    None => self.clone().rows_at_api_node(name),
                };
                let stored = rows.into_iter().map(|row| StoredRow {
                    kind: row.kind,
                    element: row.element,
                    level: row.level,
                    row_index: row.row_index,
                });
                let stored = stored.collect();
                let made = self.offload.run(Payer::without_key(), move || {
                    StoredNumbersKey::of_rows(&params_on_record(&params)?, fingerprint, stored, read)
                });
                made.await?.map(|key| Some(RestingKey::Numbers(key)))
            }
            Err(NoAnswer::Gone) => Ok(None),
            // the request with this token has ended, and another one may wait for the key with its own
            Err(NoAnswer::Token) => Err(away()),
            Err(NoAnswer::Away(error)) => {
                tracing::warn!(error, "where a key is could not be read");
                Err(away())
            }
        }
    }

    /// Returns the function that reads the rows of a stored key from the bucket.
    fn rows_in_bucket(self: Arc<Self>, sealed: &SealedRows, rows: &[RowAccess]) -> Result<ReadRow, ApiError> {
        let secret = hex::decode(&sealed.secret).map_err(ApiError::internal)?;
        let key = RowsKey::open(&self.seal, &sealed.material_id, &secret);
        let key = key.ok_or_else(|| ApiError::internal("a data key of another fleet"))?;
        let object = |row: &RowAccess| Some((row.row_index, row.object.clone()?));
        let objects: HashMap<i64, String> = rows.iter().filter_map(object).collect();
        let runtime = Handle::current();
        Ok(Box::new(move |row_index| {
            let object = objects.get(&row_index).ok_or("a row without an object")?;
            // blocks a thread of the engine, not of the runtime
            let sealed = runtime.block_on(self.rows.get(object)).map_err(|missing| match missing {
                Missing::NotHere => "a row was deleted".to_owned(),
                Missing::Failed(error) => error,
            })?;
            let row = key.open_row(row_index, &sealed.into_bytes());
            row.ok_or_else(|| "a row was changed, or belongs to another key".to_owned())
        }))
    }

    /// Returns the function that reads the rows of a stored key from the API node that asked last for work under the key.
    fn rows_at_api_node(self: Arc<Self>, name: KeyName) -> ReadRow {
        let runtime = Handle::current();
        Box::new(move |row_index| {
            let callback = self.callback(&name).ok_or("the key has ended")?;
            // blocks a thread of the engine, not of the runtime
            let row = runtime.block_on(self.caller.row(&callback, row_index));
            row.map_err(|error| error.to_string())
        })
    }

    /// Reads the key of a session. The key is read again when a device needs it again and host memory has no room for it.
    async fn read(self: Arc<Self>, name: KeyName, object: String, data_key: Key) -> Result<FetchedKey, ApiError> {
        let key = self.fetch(&name, &object, &data_key).await.map_err(|error| {
            tracing::warn!(error, "a key could not be read from the bucket");
            away()
        })?;
        let memory = self.memory.try_take(&Payer::without_key(), key.memory_bytes() as u64).ok();
        let runtime = Handle::current();
        // blocks a thread of the engine, not of the runtime
        let read = move || runtime.block_on(self.fetch(&name, &object, &data_key));
        Ok(FetchedKey::new(key, memory, Box::new(read)))
    }

    async fn fetch(&self, name: &KeyName, object: &str, data_key: &Key) -> Result<EvaluationKey, String> {
        let bytes = self.objects.get(object).await.map_err(|missing| format!("{missing:?}"))?.into_bytes();
        let (name, data_key) = (*name, data_key.clone());
        let opened = self.offload.run(Payer::without_key(), move || open_object(&data_key, name, &bytes));
        opened.await.map_err(|error| error.message)?
    }
}

fn away() -> ApiError {
    ApiError::unavailable("key", "the key cannot be read at the moment; nothing was charged").retry_after(RETRY)
}
