//! Evaluation keys of open sessions at rest: an object each in this node's data folder, never in a bucket.
//!
//! Each object is sealed under a random secret of its own, which is in this process's memory only. So a file that is left on
//! the disk when its session is closed, or when the process ends, can no longer be decrypted (readings G3). The node removes
//! such files when it starts.

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

use super::{ComputeConfig, EvaluationKey, Preset, too_large_key};
use crate::blobs::{Blobs, Missing, ObjectKind, SealedObject, folder_of};
use crate::ids;
use crate::resource::{Grant, NotGranted, Payer, Resource};
use crate::sealing::AccountSeals;
use crate::secrets::Key;
use crate::web::error::ApiError;
use crate::web::json::secret_key_rejected;

/// When a caller may ask again for room for a key.
const RETRY: Duration = Duration::from_secs(30);
/// What a key is called within its account: its secret is its own already.
const LABEL: &[u8] = b"evaluation key";

/// Where keys rest. Clones share it.
#[derive(Clone)]
pub struct KeyStore {
    blobs: Blobs,
    /// Disk space, shared out.
    space: Resource,
    /// Memory for keys that no device has loaded yet, shared out.
    memory: Resource,
}

/// A key that was read and sealed, and is not on the disk yet.
pub struct SealedKey {
    key: Arc<EvaluationKey>,
    /// Memory for `key`. None: there was not enough.
    memory: Option<Grant>,
    object: SealedObject,
    account: AccountId,
    blobs: Blobs,
    space: Grant,
}

/// A key on the disk. It is removed when this is dropped.
pub struct StoredKey {
    pub(super) preset: Preset,
    pub(super) imported: bool,
    pub(super) fingerprint: Option<[u8; 8]>,
    params: KeyParams,
    /// The key itself until a device fetches it for the first time, which is soon after its upload in most sessions.
    unfetched: Mutex<Option<(Arc<EvaluationKey>, Grant)>>,
    /// With the secret of this key alone.
    blobs: Blobs,
    account: AccountId,
    name: String,
    _space: Grant,
}

impl KeyStore {
    /// Keys in a folder within this one, which is emptied: they were an earlier process's.
    ///
    /// # Errors
    /// When the folder cannot be made or emptied.
    pub fn open(data_dir: &Path, config: &ComputeConfig) -> anyhow::Result<KeyStore> {
        let blobs = Blobs::in_folder(data_dir, ObjectKind::Keys, new_secret())
            .context("ANGO_DATA_DIR: cannot make a folder for keys")?;
        empty(&folder_of(data_dir, ObjectKind::Keys)).context("ANGO_DATA_DIR: cannot remove old keys")?;
        let largest = EVALUATION_KEY_BYTES_MAX as u64;
        let space = Resource::memory(config.key_storage_bytes_max, largest);
        let memory = Resource::memory(config.key_bytes_max, largest);
        Ok(KeyStore { blobs, space, memory })
    }

    /// Bytes of the keys that are there.
    pub fn used(&self) -> u64 {
        self.space.used()
    }

    /// Bytes of the keys that may be there.
    pub fn total(&self) -> u64 {
        self.space.total()
    }

    /// Reads an uploaded key and seals it in its own memory. CPU work of tens of milliseconds.
    ///
    /// # Errors
    /// What is wrong with the key; 503 when there is no room for it now.
    pub fn read(&self, bytes: Zeroizing<Vec<u8>>, account: &AccountId, payer: &Payer) -> Result<SealedKey, ApiError> {
        let key = container::read_evaluation_key(&bytes).map_err(|error| match error {
            container::Error::SecretKey => secret_key_rejected(),
            error => ApiError::new(Code::InvalidParams, format!("not a usable evaluation key: {error}"))
                .at("eval_key_b64", error.to_string()),
        })?;
        self.seal(key, bytes, account, payer)
    }

    /// The same of a key that was made here.
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
    /// Writes the key to the disk. If the caller does not wait for the end, the key is removed again.
    ///
    /// # Errors
    /// 503 when it cannot be written.
    pub async fn write(self) -> Result<StoredKey, ApiError> {
        let SealedKey { key, memory, object, account, blobs, space } = self;
        // a task of its own: one that was given up halfway would leave a file that nothing removes
        let written = tokio::spawn(async move {
            let name = blobs.put(object).await.map_err(|error| {
                tracing::error!(error, "an evaluation key was not written to the data folder");
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
    /// Its parameters.
    pub(super) fn gate_params(&self) -> Params {
        let KeyParams::Gates(params) = &self.params else { unreachable!("only keys for gates rest here") };
        *params
    }
}

impl KeySource for StoredKey {
    fn params(&self) -> KeyParams {
        self.params.clone()
    }

    fn host_bytes(&self) -> u64 {
        // the store has bounds of its own
        0
    }

    fn fetch(&self, _part: PartId) -> Result<KeyPart, String> {
        if let Some((key, _memory)) = self.unfetched.lock().take() {
            return Ok(KeyPart::Gates(key));
        }
        let read = |missing| match missing {
            Missing::NotHere => "its file is gone from the data folder".to_owned(),
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
        // the engine drops keys on a thread of its own and then says that they are erased
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(remove)),
            Err(_) => block_on(remove),
        }
    }
}

/// Removes all files of a folder, half-written ones too. Folders stay: a mounted disk may have one of its own.
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
