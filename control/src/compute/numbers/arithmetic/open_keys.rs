//! Encryption keys that are open in the engine. The first operation with a key opens the key. A key is closed when it
//! is deleted, or was not used for some minutes.
//!
//! The engine bounds the memory of open keys on devices. New work with a deleted key is refused at once, because every
//! request looks up the key's record. A node closes the key within two seconds after another node has deleted it
//! (readings K15).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use store::EncryptionKey;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

use crate::caller::Caller;
use crate::compute::Compute;
use crate::compute::numbers::keys::material::{Owner, all_rows, read_row, stored_row};
use crate::compute::numbers::keys::params_and_fingerprint;
use crate::web::error::ApiError;
use crate::work::memory_bytes;
use crate::work::numbers::{OpenNumbersKey, StoredNumbersKey, StoredRow};

/// Time after which an unused key is closed.
const IDLE: Duration = Duration::from_secs(10 * 60);
/// For each time that the process's memory has this many bytes, one key may be open. The tables of an open key have up
/// to 16 MB. If a further key is opened, the key that was unused for longest is closed.
const MEMORY_OF_KEY: u64 = 128 << 20;
/// Number of keys that may be open on any machine, however small its memory is.
const OPEN_MIN: u64 = 64;

/// The open keys of a node.
pub struct OpenKeys {
    open: Mutex<HashMap<String, Opened>>,
    open_max: usize,
}

/// A key that is open, or that a request is about to open.
struct Opened {
    key: Arc<OnceCell<Arc<OpenNumbersKey>>>,
    used: Instant,
}

impl OpenKeys {
    /// Starts with no open keys.
    pub fn new() -> OpenKeys {
        OpenKeys { open: Mutex::default(), open_max: (memory_bytes() / MEMORY_OF_KEY).max(OPEN_MIN) as usize }
    }

    /// Finds the open key of a record, or opens the key. The key stays open while the returned value is held.
    pub async fn find(
        &self,
        compute: &Compute,
        caller: &Caller,
        record: &EncryptionKey,
    ) -> Result<Arc<OpenNumbersKey>, ApiError> {
        let cell = {
            let mut open = self.open.lock();
            if open.len() >= self.open_max && !open.contains_key(&record.key_id) {
                let oldest = open.iter().min_by_key(|(_, opened)| opened.used).map(|(key_id, _)| key_id.clone());
                oldest.map(|key_id| open.remove(&key_id));
            }
            let opened = open
                .entry(record.key_id.clone())
                .or_insert_with(|| Opened { key: Arc::default(), used: Instant::now() });
            opened.used = Instant::now();
            opened.key.clone()
        };
        cell.get_or_try_init(|| open(compute, caller, record)).await.cloned()
    }

    /// Closes a key, at once or when the last running operation with the key has ended.
    pub fn close(&self, key_id: &str) {
        let closed = self.open.lock().remove(key_id);
        // outside the lock, because the drop may close the key in the engine
        drop(closed);
    }

    /// Closes keys that are deleted or idle. A job calls this every second or two.
    pub async fn look_after(&self, compute: &Compute) {
        let ids: Vec<(String, bool)> = {
            let open = self.open.lock();
            open.iter().map(|(key_id, opened)| (key_id.clone(), opened.used.elapsed() >= IDLE)).collect()
        };
        for (key_id, idle) in ids {
            match compute.store.is_encryption_key(&key_id).await {
                Ok(true) if !idle => {}
                Ok(_) => self.close(&key_id),
                Err(error) => {
                    tracing::warn!(%error, "whether an encryption key was deleted could not be read from the database")
                }
            }
        }
    }
}

/// Opens a key in the engine. The key's rows stay in the vault until a device needs the rows.
async fn open(compute: &Compute, caller: &Caller, record: &EncryptionKey) -> Result<Arc<OpenNumbersKey>, ApiError> {
    compute.vault.check_place(&record.node_id)?;
    let rows = all_rows(compute, &record.material_id).await?;
    let stored: Vec<StoredRow> = rows.iter().map(stored_row).collect();
    let (vault, owner, runtime) = (compute.vault.clone(), Owner::from(caller), Handle::current());
    let (material_id, place) = (record.material_id.clone(), record.node_id.clone());
    let objects: HashMap<i64, String> = rows.into_iter().map(|row| (row.row_index, row.object)).collect();
    let read = move |row_index: i64| {
        let object = objects.get(&row_index).ok_or("a row has no record")?;
        let reading = read_row(&vault, &owner, &material_id, row_index, (&place, object));
        // blocks a thread of the engine, not of the runtime
        let read = runtime.block_on(reading).map_err(|error| error.message)?;
        read.ok_or_else(|| "a row was deleted".to_owned())
    };
    let (record, here) = (record.clone(), compute.here.clone());
    let share = here.share(&caller.account, caller.plan);
    let opening = compute.offload.run(caller.into(), move || {
        let (params, fingerprint) = params_and_fingerprint(&record)?;
        let stored = StoredNumbersKey::of_rows(&params, fingerprint, stored, Box::new(read))?;
        here.open_numbers(stored, share).map(Arc::new)
    });
    opening.await?
}
