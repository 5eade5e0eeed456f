//! The node's data folder: readable by its owner only, used by one node at a time, with the server's secret.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use zeroize::Zeroizing;

use crate::ids;

/// Length of the pepper in bytes. The pepper is the key under which API keys are digested (readings A3).
const PEPPER_BYTES: usize = 32;
/// Name of the file of the embedded database.
pub const OWN_DATABASE: &str = "ango.db";
/// Name of the file of the server's secret.
pub const PEPPER: &str = "pepper";
/// Length of a node's id in bytes.
const NODE_ID_BYTES: usize = 16;

/// A node's data folder.
#[derive(Clone, Debug)]
pub struct DataDir {
    path: PathBuf,
}

/// Held while a node serves this folder.
#[derive(Debug)]
pub struct NodeLock {
    file: File,
}

impl Drop for NodeLock {
    /// Ends the lock itself. Closing the file would not be enough, because a child process that has not started its
    /// program yet has the file open too.
    fn drop(&mut self) {
        if let Err(error) = self.file.unlock() {
            tracing::warn!(%error, "the data folder could not be unlocked");
        }
    }
}

impl DataDir {
    /// Opens the folder. Makes it (mode 0700) if it does not exist.
    pub fn open(path: &Path) -> anyhow::Result<DataDir> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path).with_context(|| format!("ANGO_DATA_DIR: cannot make the folder {}", path.display()))?;
        Ok(DataDir { path: path.to_owned() })
    }

    /// Opens the data folder of a node that was started before. Makes nothing.
    ///
    /// # Errors
    /// When the folder does not exist, or contains no file of a node.
    pub fn of_node(path: &Path) -> anyhow::Result<DataDir> {
        if !["node-id", OWN_DATABASE, PEPPER].iter().any(|name| path.join(name).is_file()) {
            bail!(
                "ANGO_DATA_DIR: {} is not the data folder of a node; name that folder (or, for PostgreSQL, give \
                 ANGO_DATABASE_URL and ANGO_SECRET), or make a new one with `ango serve` or `ango migrate`",
                path.display()
            );
        }
        Ok(DataDir { path: path.to_owned() })
    }

    /// Returns the data folder at this path, which need not exist. Makes nothing.
    pub fn at(path: &Path) -> DataDir {
        DataDir { path: path.to_owned() }
    }

    /// Returns the path of the folder for compiled kernels, which later starts use again. The first kernel makes the
    /// folder.
    pub fn kernel_cache(&self) -> PathBuf {
        self.path.join("kernels")
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the id of the node that uses this folder. The id is the same at every start. The caller must hold the
    /// lock.
    pub fn node_id(&self) -> anyhow::Result<String> {
        let path = self.path.join("node-id");
        let kept = fs::read_to_string(&path).unwrap_or_default();
        if kept.len() == 2 * NODE_ID_BYTES && kept.bytes().all(|c| c.is_ascii_hexdigit()) {
            return Ok(kept);
        }
        let id = hex::encode(ids::random::<NODE_ID_BYTES>());
        let mut options = OpenOptions::new();
        let mut file = private_file(options.create(true).write(true).truncate(true), &path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        file.write_all(id.as_bytes()).and_then(|()| file.sync_all())?;
        Ok(id)
    }

    /// Writes the setup link to a file, replacing an older link. Returns the file's path.
    pub fn keep_setup_link(&self, link: &str) -> anyhow::Result<PathBuf> {
        let path = self.path.join("setup-link");
        let mut options = OpenOptions::new();
        let written = private_file(options.create(true).write(true).truncate(true), &path)
            .and_then(|mut file| file.write_all(format!("{link}\n").as_bytes()));
        written.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// Locks the folder for one node. Fails if another node is running on it.
    pub fn lock(&self) -> anyhow::Result<NodeLock> {
        let path = self.path.join("node.lock");
        let file = private_file(OpenOptions::new().create(true).append(true), &path)
            .with_context(|| format!("ANGO_DATA_DIR: cannot open {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(NodeLock { file }),
            Err(fs::TryLockError::WouldBlock) => {
                bail!("ANGO_DATA_DIR: another node is running on {}", self.path.display())
            }
            Err(fs::TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("ANGO_DATA_DIR: cannot lock {}", path.display()))
            }
        }
    }

    /// Returns the server's secret, under which API keys are digested. The first start makes the secret. If API keys
    /// exist already, a missing secret is an error, because a new secret would silently invalidate all of them.
    pub fn pepper(&self, has_keys: bool) -> anyhow::Result<Zeroizing<[u8; PEPPER_BYTES]>> {
        let path = self.pepper_path();
        if !path.exists() {
            if has_keys {
                bail!(
                    "{} is missing: API keys of this database cannot be checked without it (nodes that share a database \
                     share ANGO_SECRET)",
                    path.display()
                );
            }
            self.make_pepper(&path).with_context(|| format!("cannot write {}", path.display()))?;
        }
        self.read_pepper(&path)
    }

    /// Returns the server's secret, if the folder has one.
    pub fn kept_pepper(&self) -> anyhow::Result<Option<Zeroizing<[u8; PEPPER_BYTES]>>> {
        let path = self.pepper_path();
        if path.exists() { self.read_pepper(&path).map(Some) } else { Ok(None) }
    }

    /// The path of the secret's file.
    pub fn pepper_path(&self) -> PathBuf {
        self.path.join(PEPPER)
    }

    fn read_pepper(&self, path: &Path) -> anyhow::Result<Zeroizing<[u8; PEPPER_BYTES]>> {
        let bytes = Zeroizing::new(fs::read(path).with_context(|| format!("cannot read {}", path.display()))?);
        let Ok(pepper) = <[u8; PEPPER_BYTES]>::try_from(bytes.as_slice()) else {
            bail!("{} is damaged: it must have {PEPPER_BYTES} bytes", path.display());
        };
        Ok(Zeroizing::new(pepper))
    }

    /// Writes a new secret to a temporary file and links the file into place. So no reader sees half a secret, and if
    /// two processes write at the same time, one secret stays.
    fn make_pepper(&self, path: &Path) -> std::io::Result<()> {
        let pepper = Zeroizing::new(ids::random::<PEPPER_BYTES>());
        let aside = self.path.join(format!("pepper.{}", std::process::id()));
        let mut file = private_file(OpenOptions::new().create(true).write(true).truncate(true), &aside)?;
        file.write_all(&*pepper)?;
        file.sync_all()?;
        let linked = fs::hard_link(&aside, path);
        fs::remove_file(&aside)?;
        match linked {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }
}

/// Opens a file. A new file gets mode 0600.
fn private_file(options: &mut OpenOptions, path: &Path) -> std::io::Result<File> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_taken_by_one_node_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(&folder.path().join("a/b")).unwrap();
        let lock = data.lock().unwrap();
        assert!(data.lock().unwrap_err().to_string().contains("another node"));
        // as a child process that has not started its program yet
        let _copy = lock.file.try_clone().unwrap();
        drop(lock);
        data.lock().unwrap();
    }

    #[test]
    fn the_pepper_is_made_once_and_never_replaced_under_existing_keys() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path()).unwrap();
        assert!(data.pepper(true).is_err());
        let first = data.pepper(false).unwrap();
        assert_eq!(*first, *data.pepper(true).unwrap());
        fs::write(folder.path().join("pepper"), b"short").unwrap();
        assert!(data.pepper(true).unwrap_err().to_string().contains("damaged"));
    }

    #[test]
    fn a_folder_without_anything_of_a_node_is_none_and_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let error = DataDir::of_node(&path).unwrap_err().to_string();
        assert!(error.starts_with("ANGO_DATA_DIR: ") && !path.exists(), "{error}");
        DataDir::open(&path).unwrap();
        assert!(DataDir::of_node(&path).is_err());
        DataDir::at(&path).node_id().unwrap();
        DataDir::of_node(&path).unwrap();
    }

    #[test]
    fn a_node_keeps_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path()).unwrap();
        let id = data.node_id().unwrap();
        assert_eq!((data.node_id().unwrap(), id.len()), (id, 32));
        // an id file that a power failure left incomplete is replaced
        fs::write(folder.path().join("node-id"), "0123").unwrap();
        assert_eq!(data.node_id().unwrap().len(), 32);
    }

    #[cfg(unix)]
    #[test]
    fn folder_and_secrets_are_private() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let data = DataDir::open(&path).unwrap();
        data.pepper(false).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o700);
        assert_eq!(mode(&path.join("pepper")), 0o600);
    }
}
