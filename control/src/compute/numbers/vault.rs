//! Stores the encryption keys and ciphertexts of accounts as sealed objects to which records refer (readings K4, K14,
//! K15).
//!
//! An object is written before the record that refers to it. When a change of records leaves an object without a
//! record, the same transaction notes the object (`store::dropped_objects`). The object is removed right afterwards, or
//! at the latest by the next [`Vault::look_after`].
//!
//! A node without a bucket stores objects in its own folder. On PostgreSQL other nodes then see the records but not the
//! objects, so such a record contains the id of the node that has the object.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api::AccountId;
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use store::{CIPHERTEXT_OBJECTS, DroppedObject, KEY_OBJECTS, Store};
use zeroize::Zeroizing;

use crate::blobs::{Blobs, Missing, SealedObject};
use crate::clock::Timestamp;
use crate::parsers::{megabytes, seconds};
use crate::resource::Payer;
use crate::web::error::ApiError;
use crate::web::offload::Offload;
use crate::work::fleet::{FleetSeal, RowsKey};

/// Settings for the storage of arithmetic on encrypted numbers.
#[derive(Clone, Debug, clap::Args)]
pub struct VaultConfig {
    /// Space in MB for the encryption keys of all accounts together, in the data folder or in the bucket, encrypted.
    /// When this space is full, new keys are answered 503. The plans limit the space of one account.
    #[arg(env = "ANGO_ENCRYPTION_KEY_STORAGE_MB", default_value = "20480", value_parser = megabytes(16..=1 << 30))]
    pub stored_key_bytes_max: u64,
    /// Space in MB for the ciphertexts of all accounts together, in the data folder or in the bucket, encrypted. When
    /// this space is full, new ciphertexts are answered 503. Health shows how much of the space is used.
    #[arg(env = "ANGO_CIPHERTEXT_STORAGE_MB", default_value = "20480", value_parser = megabytes(16..=1 << 30))]
    pub ciphertext_bytes_max: u64,
    // the default follows readings K14 and readings section 16
    /// Time in seconds for which a ciphertext is kept after its last use.
    #[arg(env = "ANGO_CIPHERTEXT_TTL_S", default_value = "86400", value_parser = seconds(60..=365 * 24 * 3600))]
    pub ciphertext_ttl: Duration,
}

/// If the vault is in a bucket, an account's ciphertexts may have this many times the bytes of the plan's cache.
/// Ciphertexts beyond the cache stay in the bucket until they expire (readings K14).
const BUCKET_FACTOR: u64 = 10;
/// Largest number of objects to remove that one query reads. `REMOVED_AT_ONCE` of these objects are removed at the same
/// time.
const REMOVED_MAX: i64 = 1000;
const REMOVED_AT_ONCE: usize = 8;
/// Time after which a client should try again when there is no room.
const RETRY: Duration = Duration::from_secs(60);
/// Time after which a client should try again when the object is on another node. The load balancer may then choose the
/// right node.
const OTHER_NODE_WAIT: Duration = Duration::from_secs(1);

/// The two shelves of the vault: keys and ciphertexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shelf {
    /// Public keys, and rows of evaluation keys.
    Keys,
    /// Ciphertexts.
    Ciphertexts,
}

impl Shelf {
    /// Returns the kind under which the database notes dropped objects of this shelf.
    fn kind(self) -> &'static str {
        match self {
            Shelf::Keys => KEY_OBJECTS,
            Shelf::Ciphertexts => CIPHERTEXT_OBJECTS,
        }
    }
}

/// Keys and ciphertexts of accounts, as a node reads and writes them.
pub struct Vault {
    store: Store,
    offload: Offload,
    keys: Blobs,
    ciphertexts: Blobs,
    data_keys: DataKeys,
    /// The value of `node_id` in records: this node's id, or empty if all nodes share the objects.
    place: String,
    /// The vault's settings.
    pub config: VaultConfig,
    /// Size of all keys in bytes: the size at the last count, plus the objects that were put since then.
    /// `ciphertext_bytes` is the same for all ciphertexts.
    key_bytes: AtomicU64,
    ciphertext_bytes: AtomicU64,
    pinned: Arc<Mutex<HashMap<String, usize>>>,
    erasing: tokio::sync::Mutex<()>,
}

/// The data keys of materials, under which the rows of keys are sealed in a fleet.
pub struct DataKeys {
    /// Seals data keys.
    pub seal: FleetSeal,
    /// Whether new materials get a data key, because the node is a member of a fleet. Rows of other materials are sealed under
    /// the key of their account.
    pub are_made: bool,
}

/// Ciphertexts that must not be evicted until this value is dropped.
pub struct Pinned {
    ids: Vec<String>,
    pinned: Arc<Mutex<HashMap<String, usize>>>,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let mut pinned = self.pinned.lock();
        for id in &self.ids {
            if let Some(count) = pinned.get_mut(id) {
                *count -= 1;
                if *count == 0 {
                    pinned.remove(id);
                }
            }
        }
    }
}

impl Vault {
    /// Opens the vault of a database. `is_shared`: all nodes of the database share the objects.
    pub async fn open(
        store: Store,
        offload: Offload,
        [keys, ciphertexts]: [Blobs; 2],
        data_keys: DataKeys,
        (node_id, is_shared): (&str, bool),
        config: VaultConfig,
    ) -> Result<Vault, store::Error> {
        let place = if is_shared { String::new() } else { node_id.to_owned() };
        let vault = Vault {
            store,
            offload,
            keys,
            ciphertexts,
            data_keys,
            place,
            config,
            key_bytes: AtomicU64::new(0),
            ciphertext_bytes: AtomicU64::new(0),
            pinned: Arc::default(),
            erasing: tokio::sync::Mutex::default(),
        };
        vault.count().await?;
        Ok(vault)
    }

    /// Returns the value of `node_id` for records of objects that this vault puts.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Returns the largest size in bytes that an account's ciphertexts may have together, if the plan has a cache of
    /// `cache_bytes`. `None`: no limit.
    pub fn ciphertext_bytes_of(&self, cache_bytes: Option<u64>) -> Option<u64> {
        let factor = if self.ciphertexts.are_shared() { BUCKET_FACTOR } else { 1 };
        cache_bytes.map(|bytes| bytes.saturating_mul(factor))
    }

    /// Returns the size of all keys in bytes.
    pub fn key_bytes(&self) -> u64 {
        self.key_bytes.load(Ordering::Relaxed)
    }

    /// Returns the size of all ciphertexts in bytes.
    pub fn ciphertext_bytes(&self) -> u64 {
        self.ciphertext_bytes.load(Ordering::Relaxed)
    }

    /// Refuses an object for which the shelf has no room now.
    pub fn check_room(&self, shelf: Shelf, bytes: u64) -> Result<(), ApiError> {
        let (used, max, what) = match shelf {
            Shelf::Keys => (self.key_bytes(), self.config.stored_key_bytes_max, "encryption keys"),
            Shelf::Ciphertexts => (self.ciphertext_bytes(), self.config.ciphertext_bytes_max, "ciphertexts"),
        };
        if used.saturating_add(bytes) <= max {
            return Ok(());
        }
        let message = format!("the service has no room for more {what} at the moment");
        Err(ApiError::unavailable("storage", message).retry_after(RETRY))
    }

    /// Refuses an object in another node's folder.
    pub fn check_place(&self, place: &str) -> Result<(), ApiError> {
        if place == self.place {
            return Ok(());
        }
        let message = "the key or ciphertext is on another node: send the request again, through a balancer that keeps a \
             client on its node";
        Err(ApiError::unavailable("other_node", message).retry_after(OTHER_NODE_WAIT))
    }

    /// Makes the data key of a new material. Returns the key, and the sealed key for the material's record. `None`: the node is
    /// in no fleet.
    pub fn new_rows_key(&self, material_id: &str) -> Option<(RowsKey, Vec<u8>)> {
        self.data_keys.are_made.then(|| RowsKey::new(&self.data_keys.seal, material_id))
    }

    /// Opens the sealed data key of a material's record.
    pub fn rows_key(&self, material_id: &str, secret: &[u8]) -> Result<RowsKey, ApiError> {
        let key = RowsKey::open(&self.data_keys.seal, material_id, secret);
        key.ok_or_else(|| ApiError::internal("a data key of another server's secret"))
    }

    /// Seals and writes an object of an account, like [`Vault::put_sealed`].
    pub async fn put(
        &self,
        shelf: Shelf,
        payer: &Payer,
        account: &AccountId,
        label: String,
        content: Vec<u8>,
    ) -> Result<String, ApiError> {
        let (bytes, blobs, account) = (content.len() as u64, self.blobs(shelf).clone(), account.clone());
        self.put_sealed(shelf, payer, bytes, move || blobs.seal(&account, label.as_bytes(), content)).await
    }

    /// Seals with `seal` and writes an object with `bytes` bytes of content. The caller must then write a record that refers to
    /// the object: otherwise [`Vault::keep_house`] removes the object.
    pub async fn put_sealed(
        &self,
        shelf: Shelf,
        payer: &Payer,
        bytes: u64,
        seal: impl FnOnce() -> SealedObject + Send + 'static,
    ) -> Result<String, ApiError> {
        self.check_room(shelf, bytes)?;
        let (sealed, blobs) = (self.offload.run(payer.clone(), seal).await?, self.blobs(shelf));
        let name = blobs.put(sealed).await.map_err(|error| {
            tracing::error!(error, kind = shelf.kind(), "an object could not be written");
            ApiError::unavailable("objects", "the service cannot store the key or ciphertext at the moment")
        })?;
        self.bytes_of(shelf).fetch_add(bytes, Ordering::Relaxed);
        Ok(name)
    }

    /// Reads an object of an account. `None`: the object was removed, and its record should be gone too.
    pub async fn read(
        &self,
        shelf: Shelf,
        payer: &Payer,
        account: &AccountId,
        label: String,
        at: (&str, &str),
    ) -> Result<Option<Zeroizing<Vec<u8>>>, ApiError> {
        let (blobs, account) = (self.blobs(shelf).clone(), account.clone());
        self.read_sealed(shelf, payer, at, move |sealed| blobs.open(&account, label.as_bytes(), sealed)).await
    }

    /// Reads an object and opens it with `open`. `None`: the object was removed.
    pub async fn read_sealed(
        &self,
        shelf: Shelf,
        payer: &Payer,
        (place, name): (&str, &str),
        open: impl FnOnce(SealedObject) -> Result<Zeroizing<Vec<u8>>, Missing> + Send + 'static,
    ) -> Result<Option<Zeroizing<Vec<u8>>>, ApiError> {
        self.check_place(place)?;
        let not_read = |missing: Missing| {
            tracing::error!(?missing, kind = shelf.kind(), "an object could not be read");
            ApiError::unavailable("objects", "the service cannot read the key or ciphertext at the moment")
        };
        let sealed = match self.blobs(shelf).get(name).await {
            Err(Missing::NotHere) => return Ok(None),
            sealed => sealed.map_err(not_read)?,
        };
        self.offload.run(payer.clone(), move || open(sealed)).await?.map(Some).map_err(not_read)
    }

    /// Removes objects that were put into the vault but got no record.
    pub async fn take_back(&self, shelf: Shelf, names: impl IntoIterator<Item = String>) {
        let names = stream::iter(names);
        names.for_each_concurrent(REMOVED_AT_ONCE, async |name| self.blobs(shelf).remove(&name).await).await;
        if let Err(error) = self.count().await {
            tracing::warn!(%error, "the bytes of keys and ciphertexts could not be counted");
        }
    }

    /// Keeps these ciphertexts from being evicted until the returned value is dropped.
    pub fn pin(&self, ids: Vec<String>) -> Pinned {
        let mut pinned = self.pinned.lock();
        ids.iter().for_each(|id| *pinned.entry(id.clone()).or_default() += 1);
        Pinned { ids, pinned: self.pinned.clone() }
    }

    /// Returns the ids of the pinned ciphertexts.
    pub fn pinned(&self) -> Vec<String> {
        self.pinned.lock().keys().cloned().collect()
    }

    /// Removes the objects that lost their records when records were changed (readings K15: within 5 seconds).
    pub async fn erase_dropped(&self) -> Result<(), store::Error> {
        // if two calls run at the same time, the second waits here, and then finds nothing to remove
        let _alone = self.erasing.lock().await;
        loop {
            let dropped = self.store.dropped_objects(&self.place, REMOVED_MAX).await?;
            if dropped.is_empty() {
                return Ok(());
            }
            let remove = async |DroppedObject { object, kind }: &DroppedObject| {
                let shelf = if kind == KEY_OBJECTS { Shelf::Keys } else { Shelf::Ciphertexts };
                self.blobs(shelf).remove(object).await;
            };
            stream::iter(&dropped).for_each_concurrent(REMOVED_AT_ONCE, remove).await;
            self.store.forget_dropped_objects(&dropped).await?;
            self.count().await?;
        }
    }

    /// Ends expired uploads, and deletes ciphertexts that were not used for long. A job calls this every second.
    pub async fn look_after(&self, now: Timestamp) {
        let ttl = i64::try_from(self.config.ciphertext_ttl.as_micros()).unwrap_or(i64::MAX);
        let looked = async {
            self.store.forget_key_uploads(now.0).await?;
            self.store.forget_ciphertexts(now.0.saturating_sub(ttl), now.0).await?;
            self.erase_dropped().await
        };
        if let Err(error) = looked.await {
            tracing::warn!(%error, "expired uploads and ciphertexts could not be removed");
        }
    }

    /// Removes objects to which no record refers, such as those of a killed process. A job calls this every hour.
    pub async fn keep_house(&self) {
        let swept = async {
            self.count().await?;
            let named = self.store.key_objects().await?;
            self.keys.sweep(&named).await.map_err(ApiError::internal)?;
            let named = self.store.ciphertext_objects().await?;
            self.ciphertexts.sweep(&named).await.map_err(ApiError::internal)
        };
        if let Err(error) = swept.await {
            tracing::error!(
                message = error.message,
                "stored objects that no encryption key or ciphertext uses could not be removed"
            );
        }
    }

    /// Reads from the database how many bytes all keys and all ciphertexts have.
    async fn count(&self) -> Result<(), store::Error> {
        self.key_bytes.store(self.store.key_bytes().await?.unsigned_abs(), Ordering::Relaxed);
        self.ciphertext_bytes.store(self.store.ciphertext_bytes().await?.unsigned_abs(), Ordering::Relaxed);
        Ok(())
    }

    fn bytes_of(&self, shelf: Shelf) -> &AtomicU64 {
        match shelf {
            Shelf::Keys => &self.key_bytes,
            Shelf::Ciphertexts => &self.ciphertext_bytes,
        }
    }

    fn blobs(&self, shelf: Shelf) -> &Blobs {
        match shelf {
            Shelf::Keys => &self.keys,
            Shelf::Ciphertexts => &self.ciphertexts,
        }
    }
}
