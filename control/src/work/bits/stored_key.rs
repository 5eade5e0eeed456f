//! Stores the evaluation keys of open sessions: one object for each key in this node's data folder, never in a bucket.
//!
//! Each object is sealed under a random secret that exists only in this process's memory. So a file that remains on
//! disk after its session is closed, or after the process ends, can no longer be decrypted (readings G3). The node
//! removes such files when it starts.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use anyhow::Context;
use api::gates::EVALUATION_KEY_BYTES_MAX;
use api::{AccountId, Code};
use engine::container;
use engine::{KeyParams, KeyPart, KeySource, Params, PartId};
use futures_executor::block_on;
use parking_lot::Mutex;
use zeroize::Zeroizing;

use super::{ComputeConfig, EvaluationKey, KeyName, OpenKey, Preset, Share, too_large_key};
use crate::blobs::{Blobs, Missing, ObjectKind, SealedObject, folder_of};
use crate::ids;
use crate::resource::{Grant, NotGranted, Payer, Resource};
use crate::sealing::AccountSeals;
use crate::secrets::Key;
use crate::web::error::ApiError;
use crate::web::json::secret_key_rejected;

/// Time after which a client should try again when there is no room for a key.
const RETRY: Duration = Duration::from_secs(30);
/// The label of a key within its account. The label is the same for all keys, because each key has its own secret.
const LABEL: &[u8] = b"evaluation key";

/// The storage of evaluation keys. Clones share the same storage.
#[derive(Clone)]
pub struct KeyStore {
    blobs: Blobs,
    /// The budget of disk space.
    space: Resource,
    /// The budget of memory for keys that no device has loaded yet.
    memory: Resource,
    /// The keys at rest by name. A key is removed when its session ends. The key's file is removed when the engine has
    /// dropped the key as well.
    resting: Arc<Mutex<HashMap<KeyName, Arc<StoredKey>>>>,
}

/// A key that was read and sealed, but is not on disk yet.
pub struct SealedKey {
    key: Arc<EvaluationKey>,
    /// Memory for `key`. `None`: the budget has no room, so the key is stored only as a file.
    memory: Option<Grant>,
    object: SealedObject,
    account: AccountId,
    blobs: Blobs,
    space: Grant,
}

/// A key on disk. The file is removed on drop.
pub struct StoredKey {
    pub(super) preset: Preset,
    pub(super) imported: bool,
    pub(super) fingerprint: Option<[u8; 8]>,
    params: KeyParams,
    /// The key in memory, until a device loads the key for the first time. In most sessions that is soon after the
    /// upload.
    unfetched: Mutex<Option<(Arc<EvaluationKey>, Grant)>>,
    /// The objects that are sealed under the secret of this key alone.
    blobs: Blobs,
    account: AccountId,
    name: String,
    _space: Grant,
}

impl KeyStore {
    /// Opens the storage in a folder within `data_dir`. Removes all files of that folder, because they belong to an
    /// earlier process.
    ///
    /// # Errors
    /// When the folder cannot be made or emptied.
    pub fn open(data_dir: &Path, config: &ComputeConfig) -> anyhow::Result<KeyStore> {
        let blobs = Blobs::in_folder(data_dir, ObjectKind::Keys, new_secret())
            .context("ANGO_DATA_DIR: cannot make a folder for keys")?;
        empty(&folder_of(data_dir, ObjectKind::Keys))
            .context("ANGO_DATA_DIR: cannot remove evaluation keys of an earlier process")?;
        let largest = EVALUATION_KEY_BYTES_MAX as u64;
        let space = Resource::memory(config.key_storage_bytes_max, largest);
        let memory = Resource::memory(config.key_bytes_max, largest);
        Ok(KeyStore { blobs, space, memory, resting: Arc::default() })
    }

    /// Puts the key of a session at rest under a name, where a worker finds it.
    pub fn keep(&self, name: KeyName, share: Share, key: StoredKey) -> OpenKey {
        let StoredKey { preset, imported, fingerprint, .. } = key;
        let params = key.gate_params();
        self.resting.lock().insert(name, Arc::new(key));
        OpenKey { name, weight: share.weight, preset, imported, params, fingerprint }
    }

    /// Finds a key at rest.
    pub fn find(&self, name: &KeyName) -> Option<Arc<StoredKey>> {
        self.resting.lock().get(name).cloned()
    }

    /// Ends a name: the key is no longer found, and its file is removed when the engine does not need it any more.
    pub fn end(&self, name: &KeyName) {
        let ended = self.resting.lock().remove(name);
        // outside the lock, because the drop may remove the file
        drop(ended);
    }

    /// Returns the size in bytes of all stored keys together.
    pub fn used(&self) -> u64 {
        self.space.used()
    }

    /// Returns the largest size in bytes that all stored keys may have together.
    pub fn total(&self) -> u64 {
        self.space.total()
    }

    /// Reads an uploaded key and seals the bytes in place. Takes tens of milliseconds of CPU time, so call this outside
    /// the async threads.
    ///
    /// # Errors
    /// The fault of the key; 503 if there is no room for it now.
    pub fn read(&self, bytes: Zeroizing<Vec<u8>>, account: &AccountId, payer: &Payer) -> Result<SealedKey, ApiError> {
        let key = container::read_evaluation_key(&bytes).map_err(|error| match error {
            container::Error::SecretKey => secret_key_rejected(),
            error => ApiError::new(Code::InvalidParams, format!("not a usable evaluation key: {error}"))
                .at("eval_key_b64", error.to_string()),
        })?;
        self.seal(key, bytes, account, payer)
    }

    /// Seals a key that the server made. Fails like [`KeyStore::read`] if there is no room for the key.
    pub fn take(&self, key: EvaluationKey, account: &AccountId, payer: &Payer) -> Result<SealedKey, ApiError> {
        let bytes = Zeroizing::new(container::write_evaluation_key(&key));
        self.seal(key, bytes, account, payer)
    }

    fn seal(
        &self,
        key: EvaluationKey,
        mut bytes: Zeroizing<Vec<u8>>,
        account: &AccountId,
        payer: &Payer,
    ) -> Result<SealedKey, ApiError> {
        let space = self.space.try_take(payer, bytes.len() as u64).map_err(|full| match full {
            NotGranted::NotNow => {
                ApiError::unavailable("keys", "the node has no room for more keys at the moment").retry_after(RETRY)
            }
            NotGranted::TooMuch => too_large_key(),
        })?;
        let memory = self.memory.try_take(payer, key.memory_bytes() as u64).ok();
        let blobs = self.blobs.sealed_by(new_secret());
        let object = blobs.seal(account, LABEL, std::mem::take(&mut *bytes));
        Ok(SealedKey { key: Arc::new(key), memory, object, account: account.clone(), blobs, space })
    }
}

impl SealedKey {
    /// Writes the key to disk. If the caller stops waiting, the key is removed again.
    ///
    /// # Errors
    /// 503 if the key cannot be written.
    pub async fn write(self) -> Result<StoredKey, ApiError> {
        let SealedKey { key, memory, object, account, blobs, space } = self;
        // a separate task: a write that was abandoned halfway would leave a file that nothing removes
        let written = tokio::spawn(async move {
            let name = blobs.put(object).await.map_err(|error| {
                tracing::error!(error, "an evaluation key could not be written to the data folder");
                ApiError::unavailable("keys", "the node cannot store the key at the moment").retry_after(RETRY)
            })?;
            Ok(StoredKey {
                preset: key.preset,
                imported: key.is_imported(),
                fingerprint: key.fingerprint,
                params: KeyParams::Gates(key.params),
                unfetched: Mutex::new(memory.map(|memory| (key, memory))),
                blobs,
                account,
                name,
                _space: space,
            })
        });
        written.await?
    }
}

impl StoredKey {
    /// Returns the key's parameters.
    pub(in crate::work) fn gate_params(&self) -> Params {
        let KeyParams::Gates(params) = &self.params else { unreachable!("only keys for gates rest here") };
        *params
    }
}

impl KeySource for StoredKey {
    fn params(&self) -> KeyParams {
        self.params.clone()
    }

    fn host_bytes(&self) -> u64 {
        // 0, because the key storage limits its memory itself
        0
    }

    fn fetch(&self, _part: PartId) -> Result<KeyPart, String> {
        if let Some((key, _memory)) = self.unfetched.lock().take() {
            return Ok(KeyPart::Gates(key));
        }
        let read = |missing| match missing {
            Missing::NotHere => "the key's file is missing in the data folder".to_owned(),
            Missing::Failed(error) => error,
        };
        let object = block_on(self.blobs.get(&self.name)).map_err(read)?;
        let bytes = self.blobs.open(&self.account, LABEL, object).map_err(read)?;
        let key = container::read_evaluation_key(&bytes).map_err(|error| error.to_string())?;
        Ok(KeyPart::Gates(Arc::new(key)))
    }
}

impl Drop for StoredKey {
    fn drop(&mut self) {
        let (blobs, name) = (self.blobs.clone(), std::mem::take(&mut self.name));
        let remove = async move { blobs.remove(&name).await };
        // without a runtime, remove the file before this returns: the engine drops keys on its own thread, which has no
        // runtime, and reports the keys as erased afterwards
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(remove)),
            Err(_) => block_on(remove),
        }
    }
}

/// Removes all files of a folder, half-written ones too. Folders stay, because a mounted disk may contain a folder such
/// as `lost+found`.
fn empty(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn new_secret() -> AccountSeals {
    AccountSeals::new(Key::new(ids::random()))
}
