//! Bytes that outlive a request, as objects: in the data folder of a node, or in a bucket that the nodes of a database share.
//!
//! An object's name is the SHA-256 of its bytes. Callers seal the bytes before they come here, so a name is never met twice,
//! and a bucket's owner can read nothing. A record in the database names an object; objects without a record are swept.

mod bucket;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt};
use sha2::{Digest as _, Sha256};

pub use bucket::BucketConfig;

/// An object without a record is left alone this long: its record may be about to be written.
const UNNAMED: Duration = Duration::from_secs(3600);

/// Objects of one kind. Clones share them.
#[derive(Clone, Debug)]
pub struct Blobs {
    objects: Arc<dyn ObjectStore>,
    /// Where those of the kind are.
    prefix: ObjectPath,
    shared: bool,
}

/// Why an object was not read.
#[derive(Debug)]
pub enum Missing {
    /// This node does not have it; another node may.
    NotHere,
    /// The object store did not give it.
    Failed(String),
}

impl Blobs {
    /// Objects in a folder, which is made (mode 0700) if it is not there.
    pub fn in_folder(folder: PathBuf) -> io::Result<Blobs> {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&folder)?;
        // an object is on the disk before a record names it
        let objects = LocalFileSystem::new_with_prefix(folder).map_err(io::Error::other)?.with_fsync(true);
        Ok(Blobs { objects: Arc::new(objects), prefix: ObjectPath::default(), shared: false })
    }

    /// Objects of a kind in a bucket. Nothing is asked of the bucket yet.
    pub fn in_bucket(bucket: &BucketConfig, kind: &str) -> anyhow::Result<Blobs> {
        let (objects, prefix) = bucket.open()?;
        Ok(Blobs { objects, prefix: prefix.join(kind), shared: true })
    }

    /// Whether all nodes of the database have the same objects.
    pub fn are_shared(&self) -> bool {
        self.shared
    }

    /// Keeps bytes, durably; the name to find them by.
    ///
    /// # Errors
    /// What the object store says.
    pub async fn put(&self, bytes: Vec<u8>) -> Result<String, String> {
        let bytes = Bytes::from(bytes);
        let name = name_of(bytes.clone()).await.map_err(|error| error.to_string())?;
        let path = self.path(&name);
        let put = self.objects.put(&path, bytes.into()).await;
        put.map(|_| name).map_err(|error| error.to_string())
    }

    /// The bytes of this name, unchanged.
    pub async fn get(&self, name: &str) -> Result<Vec<u8>, Missing> {
        let failed = |error: object_store::Error| match error {
            object_store::Error::NotFound { .. } => Missing::NotHere,
            error => Missing::Failed(error.to_string()),
        };
        if !is_name(name) {
            return Err(Missing::Failed("a record names no object".to_owned()));
        }
        let object = self.objects.get(&self.path(name)).await.map_err(failed)?;
        let bytes = object.bytes().await.map_err(failed)?;
        let found = name_of(bytes.clone()).await.map_err(|error| Missing::Failed(error.to_string()))?;
        if found != name {
            return Err(Missing::Failed("an object was changed where it is kept".to_owned()));
        }
        Ok(bytes.into())
    }

    /// Removes objects whose names are not among these and that are not new.
    ///
    /// # Errors
    /// What the object store says.
    pub async fn sweep(&self, named: &[String]) -> Result<(), String> {
        self.sweep_older_than(named, UNNAMED).await
    }

    async fn sweep_older_than(&self, named: &[String], age: Duration) -> Result<(), String> {
        let named: HashSet<&str> = named.iter().map(String::as_str).collect();
        let mut objects = self.objects.list(Some(&self.prefix));
        while let Some(object) = objects.try_next().await.map_err(|error| error.to_string())? {
            let name = object.location.filename().unwrap_or_default();
            // an object of the future is not old
            let old = SystemTime::now().duration_since(object.last_modified.into()).is_ok_and(|since| since >= age);
            if old && is_name(name) && !named.contains(name) {
                self.objects.delete(&object.location).await.map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    fn path(&self, name: &str) -> ObjectPath {
        self.prefix.clone().join(name)
    }
}

/// Writes an object to a bucket, reads it and removes it, to see that the settings work.
///
/// # Errors
/// What the object store says.
pub async fn try_once(bucket: &BucketConfig) -> anyhow::Result<()> {
    let blobs = Blobs::in_bucket(bucket, "tried")?;
    let name = blobs.put(b"ango".to_vec()).await.map_err(anyhow::Error::msg)?;
    blobs.get(&name).await.map_err(|missing| anyhow::anyhow!("what was written is not there: {missing:?}"))?;
    Ok(blobs.objects.delete(&blobs.path(&name)).await?)
}

/// The name of an object of these bytes. Some milliseconds a megabyte, so off the async threads.
async fn name_of(bytes: Bytes) -> Result<String, tokio::task::JoinError> {
    tokio::task::spawn_blocking(move || hex::encode(Sha256::digest(&bytes))).await
}

/// Whether it is the name of an object: 64 hexadecimal digits.
fn is_name(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|c| c.is_ascii_hexdigit())
}

/// A file that was not there and only its owner may read.
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

    fn objects_in(folder: &Path) -> usize {
        std::fs::read_dir(folder).unwrap().count()
    }

    #[tokio::test]
    async fn bytes_are_found_by_name_until_no_record_names_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("answers");
        let blobs = Blobs::in_folder(path.clone()).unwrap();
        let [kept, dropped] = [&b"kept"[..], b"dropped"].map(<[u8]>::to_vec);
        let (kept, dropped) = (blobs.put(kept).await.unwrap(), blobs.put(dropped).await.unwrap());
        assert_eq!(blobs.put(b"kept".to_vec()).await.unwrap(), kept);
        assert_eq!(blobs.get(&dropped).await.unwrap(), b"dropped");
        // new objects stay: their record may be on its way
        blobs.sweep(&[]).await.unwrap();
        assert_eq!(blobs.get(&kept).await.unwrap(), b"kept");
        blobs.sweep_older_than(std::slice::from_ref(&kept), Duration::ZERO).await.unwrap();
        assert_eq!(blobs.get(&kept).await.unwrap(), b"kept");
        assert!(matches!(blobs.get(&dropped).await, Err(Missing::NotHere)));
        assert_eq!(objects_in(&path), 1);
    }

    #[tokio::test]
    async fn a_name_is_never_a_path_and_changed_bytes_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("pepper"), "secret").unwrap();
        let blobs = Blobs::in_folder(folder.path().join("answers")).unwrap();
        for name in ["../pepper", "", "pepper", &"g".repeat(64)] {
            assert!(matches!(blobs.get(name).await, Err(Missing::Failed(_))), "{name}");
        }
        let name = blobs.put(b"true".to_vec()).await.unwrap();
        std::fs::write(folder.path().join("answers").join(&name), "false").unwrap();
        assert!(matches!(blobs.get(&name).await, Err(Missing::Failed(_))));
    }

    #[tokio::test]
    async fn other_files_of_the_folder_are_not_swept() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::in_folder(folder.path().to_owned()).unwrap();
        std::fs::write(folder.path().join("a note"), "of an operator").unwrap();
        blobs.sweep_older_than(&[], Duration::ZERO).await.unwrap();
        assert_eq!(objects_in(folder.path()), 1);
    }
}
