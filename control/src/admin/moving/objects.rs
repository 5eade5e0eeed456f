//! The objects of a move.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{anyhow, bail};
use futures_util::{StreamExt, TryStreamExt, stream};
use store::Store;

use super::Check;
use crate::blobs::{Blobs, BucketConfig, Missing, ObjectKind};
use crate::sealing::AccountSeals;

/// Number of objects that are copied at the same time. Each is in memory for that time.
const AT_ONCE: usize = 4;
/// Number of objects after which a line tells how far the copy has come.
const TOLD_OBJECTS: usize = 1000;
/// Number of missing objects whose names the error shows.
const SHOWN: usize = 5;

/// Copies the objects that the source's rows name from the node's folder to the bucket, under the same names. A name is the
/// SHA-256 of the bytes. An object that is whole in the bucket is not written again, and each written object is read back.
///
/// # Errors
/// When an object is missing in both places, or damaged in the folder, or the bucket fails.
pub async fn copy(
    source: &Store,
    folder: &Path,
    (bucket, database_id): (&BucketConfig, &str),
    seals: &AccountSeals,
    tell: &dyn Fn(String),
) -> anyhow::Result<Vec<Check>> {
    let mut checks = Vec::new();
    for kind in ObjectKind::LASTING {
        let names: BTreeSet<String> = named(source, kind).await?.into_iter().collect();
        let from = Blobs::in_folder(folder, kind, seals.clone())?;
        let to = Blobs::in_bucket(bucket, database_id, kind, seals.clone())?;
        let (seen, written) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let copies = stream::iter(&names).map(async |name| {
            let copied = copy_one(&from, &to, name).await.map_err(|why| anyhow!("{}/{name}: {why}", kind.as_str()))?;
            written.fetch_add(usize::from(copied == Copied::Written), Ordering::Relaxed);
            let seen = seen.fetch_add(1, Ordering::Relaxed) + 1;
            if seen % TOLD_OBJECTS == 0 {
                tell(format!("{}: {seen} of {} objects", kind.as_str(), names.len()));
            }
            anyhow::Ok((copied == Copied::Missing).then_some(name))
        });
        let missing: Vec<Option<&String>> = copies.buffer_unordered(AT_ONCE).try_collect().await?;
        let missing: Vec<&str> = missing.into_iter().flatten().map(String::as_str).collect();
        if !missing.is_empty() {
            bail!(
                "{} objects of the kind {} are neither in {} nor in the bucket, such as {}. If the node stored its objects \
                 in a bucket, name that bucket in ANGO_OBJECTS_URL",
                missing.len(),
                kind.as_str(),
                folder.display(),
                missing[..missing.len().min(SHOWN)].join(", ")
            );
        }
        let written = written.into_inner();
        if !names.is_empty() {
            tell(format!("{}: {} objects, {written} of them written now", kind.as_str(), names.len()));
        }
        checks.push(Check::new(format!("{}: whole objects", kind.as_str()), names.len(), seen.into_inner()));
    }
    Ok(checks)
}

/// Returns the names of the objects of this kind to which rows refer.
async fn named(source: &Store, kind: ObjectKind) -> Result<Vec<String>, store::Error> {
    match kind {
        ObjectKind::Answers => source.kept_blobs().await,
        ObjectKind::Circuits => source.circuit_blobs().await,
        ObjectKind::EncryptionKeys => source.key_objects().await,
        ObjectKind::Ciphertexts => source.ciphertext_objects().await,
        // keys of open sessions do not outlive the node's process
        ObjectKind::Keys => Ok(Vec::new()),
        // only fleets have these, and their objects are in a bucket already
        ObjectKind::Values | ObjectKind::Operations => Ok(Vec::new()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copied {
    Before,
    Written,
    Missing,
}

async fn copy_one(from: &Blobs, to: &Blobs, name: &str) -> Result<Copied, String> {
    if is_whole(to, name).await? {
        return Ok(Copied::Before);
    }
    let object = match from.get(name).await {
        Err(Missing::NotHere) => return Ok(Copied::Missing),
        Err(Missing::Failed(why)) => return Err(why),
        Ok(object) => object,
    };
    if !object.is_whole() {
        return Err("the object was changed in the folder".to_owned());
    }
    to.put(object).await?;
    match is_whole(to, name).await? {
        true => Ok(Copied::Written),
        false => Err("the bucket does not return the bytes that were written".to_owned()),
    }
}

async fn is_whole(to: &Blobs, name: &str) -> Result<bool, String> {
    match to.get(name).await {
        Ok(object) => Ok(object.is_whole()),
        Err(Missing::NotHere) => Ok(false),
        Err(Missing::Failed(why)) => Err(why),
    }
}
