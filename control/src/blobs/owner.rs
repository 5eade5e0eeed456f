//! Checks which database owns the objects under a bucket's prefix. The owner is the database whose id is in the object
//! `database-id` under the prefix.
//!
//! Nodes remove objects to which no record of their database refers. So the nodes of a second database would remove the
//! objects of the first.

use std::fmt;

use anyhow::bail;
use object_store::path::Path as ObjectPath;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode};

use super::BucketConfig;

/// The object that contains the owner's id.
const MARK: &str = "database-id";

/// Why a database could not claim a prefix.
#[derive(Debug)]
pub enum Unclaimed {
    /// The prefix belongs to another database.
    OtherDatabase,
    /// The bucket failed.
    Failed(String),
}

impl fmt::Display for Unclaimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unclaimed::OtherDatabase => write!(
                f,
                "ANGO_OBJECTS_URL: the objects under this prefix belong to another database: give each database its own \
                 prefix, or remove the object {MARK} there if that database no longer exists"
            ),
            Unclaimed::Failed(error) => write!(f, "ANGO_OBJECTS_URL: {error}"),
        }
    }
}

impl std::error::Error for Unclaimed {}

/// Claims a prefix for a database, unless the database owns the prefix already. The first database that claims a prefix
/// writes the mark.
///
/// # Errors
/// When the prefix belongs to another database, or the bucket does not answer.
pub async fn claim(bucket: &BucketConfig, database_id: &str) -> Result<(), Unclaimed> {
    let (objects, prefix) = bucket.open().map_err(|error| Unclaimed::Failed(error.to_string()))?;
    let mark = prefix.join(MARK);
    if owner(&*objects, &mark).await?.is_none() {
        let put = objects.put_opts(&mark, database_id.to_owned().into(), PutMode::Create.into()).await;
        match put {
            // another node may have written the mark first
            Ok(_) | Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {}
            Err(error) => return Err(Unclaimed::Failed(error.to_string())),
        }
    }
    match owner(&*objects, &mark).await? {
        Some(owner) if owner == database_id.as_bytes() => Ok(()),
        Some(_) => Err(Unclaimed::OtherDatabase),
        None => Err(Unclaimed::Failed(format!("the object {MARK} was written but cannot be found"))),
    }
}

/// Checks the settings: writes an object to the bucket, reads it and removes it, and checks the owner of the prefix.
/// `database_id`: the id of the database in the settings. `None`: that database has no id yet.
///
/// # Errors
/// When the bucket fails, or the prefix belongs to another database.
pub async fn try_once(bucket: &BucketConfig, database_id: Option<&str>) -> anyhow::Result<()> {
    let (objects, prefix) = bucket.open()?;
    let path = prefix.clone().join("tried");
    objects.put(&path, "ango".into()).await?;
    if objects.get(&path).await?.bytes().await? != "ango" {
        bail!("the bucket does not return the bytes that were written");
    }
    objects.delete(&path).await?;
    match owner(&*objects, &prefix.join(MARK)).await? {
        Some(owner) if Some(&*owner) != database_id.map(str::as_bytes) => Err(Unclaimed::OtherDatabase.into()),
        _ => Ok(()),
    }
}

/// Reads the id in a mark. `None`: the mark does not exist.
async fn owner(objects: &dyn ObjectStore, mark: &ObjectPath) -> Result<Option<Vec<u8>>, Unclaimed> {
    let read = async { objects.get(mark).await?.bytes().await };
    match read.await {
        Ok(bytes) => Ok(Some(bytes.into())),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(Unclaimed::Failed(error.to_string())),
    }
}
