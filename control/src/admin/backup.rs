//! Copies a node's data folder with its embedded database to a backup folder, and back.
//!
//! A backup is a folder with a manifest that lists every file with its SHA-256. The folder is written under a temporary
//! name and renamed when all files are on disk, so a folder with the final name is complete. A restore works in the
//! same way. A backup contains the server's secret, with which one can read stored answers and sign session tokens.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::blobs::{self, ObjectKind, folder_of, is_name};
use crate::clock::Clock;
use crate::config::Config;
use crate::data_dir::{DataDir, OWN_DATABASE, PEPPER};
use crate::database;

/// The version of the manifest's format.
const FORMAT: u32 = 1;
const MANIFEST: &str = "manifest.json";
const NODE_ID: &str = "node-id";
/// Largest size of a manifest in bytes: enough for the entries of some hundred thousand stored answers.
const MANIFEST_BYTES_MAX: u64 = 64 << 20;

/// The file that describes a backup.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    format: u32,
    /// Version of the program that made the backup.
    pub version: String,
    /// When the backup was made.
    pub created_at: String,
    /// Whether the database is in the backup.
    pub database: bool,
    /// Whether the server's secret is in the backup. Otherwise it is in the settings (`ANGO_SECRET`).
    pub secret: bool,
    /// All other files, by their path in the backup's folder.
    files: BTreeMap<String, FileFacts>,
}

/// A file's entry in the manifest.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct FileFacts {
    bytes: u64,
    sha256: String,
}

/// Writes a backup to a new folder. Nodes may run at the same time. `without_database` is for a node on PostgreSQL,
/// whose database `pg_dump` copies.
///
/// # Errors
/// When `without_database` contradicts the node's database, the folder exists, or it cannot be written.
pub async fn backup(config: &Config, target: &Path, without_database: bool) -> anyhow::Result<Manifest> {
    let folder = DataDir::of_node(&config.data_dir)?;
    let store = database::open_as_is(config).await?;
    match (store.database(), without_database) {
        ("sqlite", true) => bail!(
            "--without-database is for PostgreSQL; the database of this node is a file, and every backup contains it"
        ),
        ("postgres", false) => bail!(
            "the database of this node is PostgreSQL: copy it with pg_dump, and run this command with \
             --without-database to copy the data folder; a restore needs both"
        ),
        _ => {}
    }
    ensure!(!target.exists(), "{} exists already: name a new folder", target.display());
    let staged = Staged::beside(target)?;
    let mut files = BTreeMap::new();
    // copy objects before the database and again after it: while the database is copied, nodes can write further
    // objects, and the copied rows can refer to them
    copy_objects(&folder, &staged, &mut files)?;
    if !without_database {
        store.copy_to(&staged.path.join(OWN_DATABASE)).await?;
        files.insert(OWN_DATABASE.to_owned(), facts_of(&staged.path.join(OWN_DATABASE))?);
    }
    copy_objects(&folder, &staged, &mut files)?;
    for name in [PEPPER, NODE_ID] {
        let source = folder.path().join(name);
        if source.is_file() {
            files.insert(name.to_owned(), copy(&source, &staged.path.join(name))?);
        }
    }
    let manifest = Manifest {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        created_at: Clock::system().now().rfc3339(),
        database: !without_database,
        secret: files.contains_key(PEPPER),
        files,
    };
    ensure!(
        manifest.secret || config.secret.is_some(),
        "there is no secret, neither in {} nor in ANGO_SECRET: API keys would not work after a restore",
        config.data_dir.display()
    );
    let mut file = blobs::new_file(&staged.path.join(MANIFEST))?;
    file.write_all(serde_json::to_string_pretty(&manifest)?.as_bytes())?;
    file.sync_all()?;
    staged.take(target)?;
    tracing::info!(target: "security", folder = %target.display(), "backup made by the operator");
    store.close().await;
    Ok(manifest)
}

/// Makes the data folder from a backup. The folder appears only when every file was copied and checked.
///
/// # Errors
/// When the backup is damaged or does not fit the settings, or the data folder is not empty.
pub fn restore(config: &Config, source: &Path) -> anyhow::Result<Manifest> {
    let manifest = read_manifest(source)?;
    if manifest.database && !config.has_own_database() {
        bail!(
            "ANGO_DATABASE_URL: remove this setting, because the backup contains the database as a file of the data folder"
        );
    }
    if !manifest.database && config.has_own_database() {
        bail!(
            "the backup contains no database: restore the dump of pg_dump first, then set ANGO_DATABASE_URL to that database"
        );
    }
    if !manifest.secret && config.secret.is_none() {
        bail!(
            "ANGO_SECRET: set the secret of the node that was backed up, because the backup does not contain it and \
             API keys do not work without it"
        );
    }
    let target = &config.data_dir;
    let taken = target.is_dir() && fs::read_dir(target)?.next().is_some();
    ensure!(!taken, "ANGO_DATA_DIR: {} is not empty: restore to a new folder", target.display());
    let staged = Staged::beside(target)?;
    for (name, known) in &manifest.files {
        let copied = copy(&source.join(name), &staged.path.join(name))?;
        ensure!(copied == *known, "{name} is damaged: it differs from the manifest");
    }
    staged.take(target)?;
    tracing::info!(target: "security", folder = %source.display(), "backup restored by the operator");
    Ok(manifest)
}

fn read_manifest(folder: &Path) -> anyhow::Result<Manifest> {
    let path = folder.join(MANIFEST);
    let mut text = String::new();
    let file = File::open(&path)
        .with_context(|| format!("{} is not a backup: it has no readable {MANIFEST}", folder.display()))?;
    file.take(MANIFEST_BYTES_MAX).read_to_string(&mut text)?;
    let manifest: Manifest = serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))?;
    ensure!(
        manifest.format == FORMAT,
        "the backup is of format {}; this program reads format {FORMAT}",
        manifest.format
    );
    for name in manifest.files.keys() {
        let plain = [OWN_DATABASE, PEPPER, NODE_ID].contains(&name.as_str());
        let lasting = |kind| ObjectKind::from_name(kind).is_some_and(|kind| ObjectKind::LASTING.contains(&kind));
        let object = name.split_once('/').is_some_and(|(kind, name)| lasting(kind) && is_name(name));
        ensure!(plain || object, "{} is damaged: {name:?} is not a file of a backup", path.display());
    }
    let has = |name: &str| manifest.files.contains_key(name);
    let whole = manifest.database == has(OWN_DATABASE) && manifest.secret == has(PEPPER);
    ensure!(whole, "{} is damaged: files are missing", path.display());
    Ok(manifest)
}

/// Copies the objects of a node's folder, except objects that `files` already lists. Compiled kernels are not copied,
/// because nodes make them again.
fn copy_objects(folder: &DataDir, staged: &Staged, files: &mut BTreeMap<String, FileFacts>) -> anyhow::Result<()> {
    for kind in ObjectKind::LASTING {
        let Ok(objects) = fs::read_dir(folder_of(folder.path(), kind)) else { continue };
        for object in objects {
            let source = object?.path();
            // skip half-written objects, which have other names
            let Some(name) = source.file_name().and_then(|name| name.to_str()).filter(|name| is_name(name)) else {
                continue;
            };
            let name = format!("{}/{name}", kind.as_str());
            let target = staged.path.join(&name);
            if files.contains_key(&name) {
                continue;
            }
            match copy(&source, &target) {
                Ok(copied) => drop(files.insert(name, copied)),
                // the object was removed meanwhile: a node removes the row first, then the object
                Err(_) if !source.exists() => drop(fs::remove_file(&target)),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Copies a file to a new file with mode 0600, and syncs it.
fn copy(source: &Path, target: &Path) -> anyhow::Result<FileFacts> {
    let mut to = blobs::new_file(target).with_context(|| format!("cannot write {}", target.display()))?;
    let copied = stream(source, &mut to)?;
    to.sync_all()?;
    Ok(copied)
}

fn facts_of(path: &Path) -> anyhow::Result<FileFacts> {
    stream(path, &mut std::io::sink())
}

/// Writes a file's bytes to `to`. Returns the number of bytes and their digest.
fn stream(source: &Path, to: &mut impl Write) -> anyhow::Result<FileFacts> {
    let read = || format!("cannot read {}", source.display());
    let mut from = File::open(source).with_context(read)?;
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = from.read(&mut buffer).with_context(read)?;
        if count == 0 {
            return Ok(FileFacts { bytes, sha256: hex::encode(hash.finalize()) });
        }
        hash.update(&buffer[..count]);
        to.write_all(&buffer[..count])?;
        bytes += count as u64;
    }
}

/// A folder that is being filled. It has a temporary name until [`Staged::take`]. Dropping this value removes the
/// folder.
struct Staged {
    path: PathBuf,
}

impl Staged {
    /// Makes a folder with a temporary name next to `target`, so that a rename can put the folder at `target`.
    fn beside(target: &Path) -> anyhow::Result<Staged> {
        let name = target.file_name().with_context(|| format!("{} has no name", target.display()))?;
        let mut staged = name.to_owned();
        staged.push(format!(".{}.part", std::process::id()));
        let path = target.with_file_name(staged);
        for kind in ObjectKind::LASTING {
            // mode 0700
            DataDir::open(&folder_of(&path, kind))?;
        }
        #[cfg(unix)]
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
        Ok(Staged { path })
    }

    /// Renames the folder to `target`, which must not exist or must be an empty folder.
    fn take(self, target: &Path) -> anyhow::Result<()> {
        for kind in ObjectKind::LASTING {
            sync(&folder_of(&self.path, kind))?;
        }
        sync(&self.path)?;
        fs::rename(&self.path, target).with_context(|| format!("cannot make {}", target.display()))?;
        let above = target.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        sync(above)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // after `take` has renamed the folder, this path does not exist, and the error is ignored
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn sync(folder: &Path) -> anyhow::Result<()> {
    let opened = OpenOptions::new().read(true).open(folder);
    opened.and_then(|folder| folder.sync_all()).with_context(|| format!("cannot write {}", folder.display()))
}
