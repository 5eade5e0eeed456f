//! Blobs: bytes that outlive a request, as objects in a node's data folder or in a bucket that the nodes of a database
//! share.
//!
//! An object is sealed under its account's key, to its kind and to a label from its record. It opens only with the same
//! key, kind and label. The object's name is the SHA-256 of the sealed bytes. Nonces never repeat, so two objects never
//! have the same name, and equal contents cannot be recognized. An object is written before the record that refers to
//! it, and removed after that record. A sweep removes objects to which no record refers.

mod bucket;
mod owner;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use api::AccountId;
use bytes::Bytes;
use futures_util::TryStreamExt;
use moka::sync::Cache;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::sealing::AccountSeals;

pub use bucket::{BucketConfig, BucketUrl};
pub use owner::{Unclaimed, claim, try_once};

/// A sweep removes an object without a record only after this time, because a record may be about to be written.
const UNNAMED: Duration = Duration::from_secs(3600);

/// The kind of an object. The kind's name is in the object's path and is authenticated with the bytes, so it never
/// changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// Bodies of stored answers (readings I6).
    Answers,
    /// Netlists of stored circuits.
    Circuits,
    /// Evaluation keys of open sessions. No record refers to these keys, and no key outlives its process.
    Keys,
    /// Public keys, and rows of evaluation keys, for arithmetic.
    EncryptionKeys,
    /// Stored ciphertexts of accounts.
    Ciphertexts,
    /// Values that sessions of a fleet keep.
    Values,
    /// Work of operations in the waiting line of a fleet.
    Operations,
}

api::words!(ObjectKind, "kind of object", {
    Answers = "answers",
    Circuits = "circuits",
    Keys = "keys",
    EncryptionKeys = "encryption-keys",
    Ciphertexts = "ciphertexts",
    Values = "values",
    Operations = "operations",
});

impl ObjectKind {
    /// The kinds of objects that outlive their process, because records refer to them.
    pub const LASTING: [ObjectKind; 4] =
        [ObjectKind::Answers, ObjectKind::Circuits, ObjectKind::EncryptionKeys, ObjectKind::Ciphertexts];
}

/// The objects of one kind. Clones share the objects.
#[derive(Clone)]
pub struct Blobs {
    objects: Arc<dyn ObjectStore>,
    /// The path of the kind's objects.
    prefix: ObjectPath,
    kind: ObjectKind,
    seals: AccountSeals,
    /// The bucket, and the id of the database whose nodes share it. `None`: a folder.
    bucket: Option<(BucketConfig, String)>,
    /// Objects that this process has written or read lately, still sealed. An object never changes, so only its record says
    /// whether it still counts.
    recent: Option<Cache<String, Bytes>>,
}

/// A sealed object, ready to be written.
pub struct SealedObject {
    name: String,
    bytes: Bytes,
}

impl SealedObject {
    /// Makes an object of bytes that are sealed under keys that [`Blobs`] does not have.
    pub fn of_sealed(bytes: Vec<u8>) -> SealedObject {
        let bytes = Bytes::from(bytes);
        SealedObject { name: name_of(&bytes), bytes }
    }

    /// Whether the object is unchanged since it was written: its name is the digest of its bytes.
    pub fn is_whole(&self) -> bool {
        name_of(&self.bytes) == self.name
    }

    /// Returns the sealed bytes.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

/// Why an object could not be read.
#[derive(Debug)]
pub enum Missing {
    /// This node does not have the object; another node may have it.
    NotHere,
    /// The object store failed, or the object is damaged.
    Failed(String),
}

impl Blobs {
    /// Gives access to the objects of a kind in a folder within `parent`, named after the kind. Makes the folder (mode
    /// 0700) if it does not exist.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn in_folder(parent: &Path, kind: ObjectKind, seals: AccountSeals) -> io::Result<Blobs> {
        let folder = folder_of(parent, kind);
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&folder)?;
        let objects = LocalFileSystem::new_with_prefix(folder).map_err(io::Error::other)?;
        // an object must be on disk before the record that refers to it is written
        let objects = objects.with_fsync(ObjectKind::LASTING.contains(&kind));
        Ok(Blobs { objects: Arc::new(objects), prefix: ObjectPath::default(), kind, seals, bucket: None, recent: None })
    }

    /// Gives access to the objects of a kind in a bucket, for the database with this id. Makes no request to the bucket
    /// yet.
    ///
    /// # Errors
    /// When the bucket's settings cannot be used.
    pub fn in_bucket(
        bucket: &BucketConfig,
        database_id: &str,
        kind: ObjectKind,
        seals: AccountSeals,
    ) -> anyhow::Result<Blobs> {
        let (objects, prefix) = bucket.open()?;
        let bucket = Some((bucket.clone(), database_id.to_owned()));
        Ok(Blobs { objects, prefix: prefix.join(kind.as_str()), kind, seals, bucket, recent: None })
    }

    /// Remembers objects of at most this size in bytes together, so that an object that was written or read lately is not
    /// fetched again.
    pub fn remembering(self, bytes_max: u64) -> Blobs {
        let size = |name: &String, bytes: &Bytes| u32::try_from(name.len() + bytes.len()).unwrap_or(u32::MAX);
        Blobs { recent: Some(Cache::builder().max_capacity(bytes_max).weigher(size).build()), ..self }
    }

    /// Whether all nodes of the database share the objects.
    pub fn are_shared(&self) -> bool {
        self.bucket.is_some()
    }

    /// Gives access to the same objects, sealed and opened with other keys.
    pub fn sealed_by(&self, seals: AccountSeals) -> Blobs {
        Blobs { seals, ..self.clone() }
    }

    /// Seals an object of an account in place. `label`: the label from the object's record. Takes some milliseconds of
    /// CPU time for each megabyte, so call this outside the async threads.
    pub fn seal(&self, account: &AccountId, label: &[u8], content: Vec<u8>) -> SealedObject {
        let bytes = Bytes::from(self.seals.of(account).seal_in_place(self.named(label), content));
        SealedObject { name: name_of(&bytes), bytes }
    }

    /// Opens an object that [`Blobs::seal`] sealed. Takes CPU time for every byte, so call this outside the async
    /// threads.
    ///
    /// # Errors
    /// [`Missing::Failed`] when the object was not sealed for this account and label.
    pub fn open(&self, account: &AccountId, label: &[u8], object: SealedObject) -> Result<Zeroizing<Vec<u8>>, Missing> {
        if !object.is_whole() {
            return Err(Missing::Failed("an object was changed in its storage".to_owned()));
        }
        let opened = self.seals.of(account).open_in_place(self.named(label), object.bytes.into());
        opened.ok_or_else(|| {
            Missing::Failed("an object belongs to another record or was sealed under another secret".to_owned())
        })
    }

    /// Writes an object: durably, unless it is in a folder and does not outlive its process. Returns the object's name.
    ///
    /// # Errors
    /// The object store's error.
    pub async fn put(&self, object: SealedObject) -> Result<String, String> {
        let SealedObject { name, bytes } = object;
        let put = self.objects.put(&self.path(&name), bytes.clone().into()).await;
        put.map_err(|error| error.to_string())?;
        if let Some(recent) = &self.recent {
            recent.insert(name.clone(), bytes);
        }
        Ok(name)
    }

    /// Reads the object with this name, still sealed.
    ///
    /// # Errors
    /// When the object could not be read.
    pub async fn get(&self, name: &str) -> Result<SealedObject, Missing> {
        let failed = |error: object_store::Error| match error {
            object_store::Error::NotFound { .. } => Missing::NotHere,
            error => Missing::Failed(error.to_string()),
        };
        if !is_name(name) {
            return Err(Missing::Failed("a record refers to an object by a name that no object can have".to_owned()));
        }
        if let Some(bytes) = self.recent.as_ref().and_then(|recent| recent.get(name)) {
            return Ok(SealedObject { name: name.to_owned(), bytes });
        }
        let object = self.objects.get(&self.path(name)).await.map_err(failed)?;
        let bytes = object.bytes().await.map_err(failed)?;
        if let Some(recent) = &self.recent {
            recent.insert(name.to_owned(), bytes.clone());
        }
        Ok(SealedObject { name: name.to_owned(), bytes })
    }

    /// Asks the object store for an object that does not exist.
    ///
    /// # Errors
    /// When the object store does not say that the object does not exist.
    pub async fn probe(&self) -> Result<(), String> {
        match self.objects.head(&self.path("probe")).await {
            Ok(_) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Removes an object to which no record refers any more. If the removal fails, the next sweep removes the object.
    pub async fn remove(&self, name: &str) {
        if let Some(recent) = &self.recent {
            recent.invalidate(name);
        }
        if let Err(error) = self.objects.delete(&self.path(name)).await {
            tracing::warn!(%error, kind = self.kind.as_str(), "an object could not be removed and stays until the next sweep");
        }
    }

    /// Removes objects that are not new and whose names are not in `named`.
    ///
    /// # Errors
    /// The object store's error. For a bucket, also when its prefix is not known to belong to this database. Nothing is
    /// removed in that case.
    pub async fn sweep(&self, named: &[String]) -> Result<(), String> {
        if let Some((bucket, database_id)) = &self.bucket {
            claim(bucket, database_id).await.map_err(|unclaimed| unclaimed.to_string())?;
        }
        self.sweep_older_than(named, UNNAMED).await
    }

    async fn sweep_older_than(&self, named: &[String], age: Duration) -> Result<(), String> {
        let named: HashSet<&str> = named.iter().map(String::as_str).collect();
        let mut objects = self.objects.list(Some(&self.prefix));
        while let Some(object) = objects.try_next().await.map_err(|error| error.to_string())? {
            let name = object.location.filename().unwrap_or_default();
            // an object whose time is in the future does not count as old
            let old = SystemTime::now().duration_since(object.last_modified.into()).is_ok_and(|since| since >= age);
            if old && is_name(name) && !named.contains(name) {
                self.objects.delete(&object.location).await.map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// Makes the name to which an object is sealed, from the object's kind and label.
    fn named(&self, label: &[u8]) -> Vec<u8> {
        [self.kind.as_str().as_bytes(), &[0], label].concat()
    }

    fn path(&self, name: &str) -> ObjectPath {
        self.prefix.clone().join(name)
    }
}

/// Returns the folder for objects of this kind within a node's folder.
pub fn folder_of(parent: &Path, kind: ObjectKind) -> PathBuf {
    parent.join(kind.as_str())
}

/// Computes the name of the object with these bytes.
fn name_of(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Whether a text is the name of an object: 64 hexadecimal digits.
pub fn is_name(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|c| c.is_ascii_hexdigit())
}

/// Creates a file with mode 0600. Fails if it exists.
pub fn new_file(path: &Path) -> io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.create_new(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::Key;

    fn blobs(folder: &Path) -> Blobs {
        Blobs::in_folder(folder, ObjectKind::Answers, AccountSeals::new(Key::new([1; 32]))).unwrap()
    }

    fn account(bits: u128) -> AccountId {
        AccountId::from_bits(bits)
    }

    async fn put(blobs: &Blobs, content: &[u8]) -> String {
        blobs.put(blobs.seal(&account(1), b"label", content.to_vec())).await.unwrap()
    }

    async fn read(blobs: &Blobs, name: &str) -> Result<Vec<u8>, Missing> {
        let object = blobs.get(name).await?;
        blobs.open(&account(1), b"label", object).map(|content| content.to_vec())
    }

    fn objects_in(folder: &Path) -> usize {
        std::fs::read_dir(folder).unwrap().count()
    }

    #[tokio::test]
    async fn objects_are_found_by_name_until_no_record_names_them() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = blobs(folder.path());
        let (kept, dropped) = (put(&blobs, b"kept").await, put(&blobs, b"dropped").await);
        assert_eq!(read(&blobs, &dropped).await.unwrap(), b"dropped");
        // a sweep leaves new objects, because their records may be about to be written
        blobs.sweep(&[]).await.unwrap();
        assert_eq!(read(&blobs, &kept).await.unwrap(), b"kept");
        blobs.sweep_older_than(std::slice::from_ref(&kept), Duration::ZERO).await.unwrap();
        assert_eq!(read(&blobs, &kept).await.unwrap(), b"kept");
        assert!(matches!(read(&blobs, &dropped).await, Err(Missing::NotHere)));
        assert_eq!(objects_in(&folder.path().join("answers")), 1);
        blobs.remove(&kept).await;
        assert_eq!(objects_in(&folder.path().join("answers")), 0);
    }

    #[tokio::test]
    async fn an_object_that_is_remembered_is_not_fetched_until_it_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = blobs(folder.path()).remembering(1 << 20);
        let name = put(&blobs, b"content").await;
        let other =
            Blobs::in_folder(folder.path(), ObjectKind::Answers, blobs.seals.clone()).unwrap().remembering(1 << 20);
        assert_eq!(read(&other, &name).await.unwrap(), b"content");
        std::fs::remove_file(folder.path().join("answers").join(&name)).unwrap();
        for blobs in [&blobs, &other] {
            assert_eq!(read(blobs, &name).await.unwrap(), b"content");
            blobs.remove(&name).await;
            assert!(matches!(read(blobs, &name).await, Err(Missing::NotHere)));
        }
    }

    #[tokio::test]
    async fn an_object_opens_for_its_account_its_label_and_its_kind_only() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = blobs(folder.path());
        let seal = |bits| blobs.seal(&account(bits), b"label", b"content".to_vec());
        let sealed = seal(1);
        // the same content sealed again, for this account and for another, gets another name and other bytes
        let others = [seal(1), seal(2)];
        assert!(others.iter().all(|other| other.name != sealed.name && other.bytes != sealed.bytes));
        assert!(!sealed.bytes.windows(7).any(|window| window == b"content"));
        let circuits = Blobs { kind: ObjectKind::Circuits, ..blobs.clone() };
        let elsewhere = blobs.sealed_by(AccountSeals::new(Key::new([2; 32])));
        for (blobs, bits, label, opens) in [
            (&blobs, 1, b"label", true),
            (&blobs, 2, b"label", false),
            (&blobs, 1, b"other", false),
            (&circuits, 1, b"label", false),
            (&elsewhere, 1, b"label", false),
        ] {
            let object = SealedObject { name: sealed.name.clone(), bytes: sealed.bytes.clone() };
            assert_eq!(blobs.open(&account(bits), label, object).is_ok(), opens, "{bits} {label:?}");
        }
    }

    #[tokio::test]
    async fn a_name_is_never_a_path_and_changed_bytes_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("pepper"), "secret").unwrap();
        let blobs = blobs(folder.path());
        for name in ["../pepper", "", "pepper", &"g".repeat(64)] {
            assert!(matches!(blobs.get(name).await, Err(Missing::Failed(_))), "{name}");
        }
        let [name, older] = [put(&blobs, b"true").await, put(&blobs, b"older").await];
        // copy another object, valid for the same record, over this object: reading must detect the replacement
        let path = |name: &str| folder.path().join("answers").join(name);
        std::fs::copy(path(&older), path(&name)).unwrap();
        assert!(matches!(read(&blobs, &name).await, Err(Missing::Failed(_))));
    }

    #[tokio::test]
    async fn other_files_of_the_folder_are_not_swept() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = blobs(folder.path());
        std::fs::write(folder.path().join("answers/a note"), "of an operator").unwrap();
        blobs.sweep_older_than(&[], Duration::ZERO).await.unwrap();
        assert_eq!(objects_in(&folder.path().join("answers")), 1);
    }
}
