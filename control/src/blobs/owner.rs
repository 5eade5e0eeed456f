//! Whose objects a bucket holds under a prefix: those of one database, whose id is in an object there.
//!
//! Nodes remove objects that no record of their database names, so the nodes of a second database would remove the first
//! one's.

use std::fmt;

use anyhow::bail;
use object_store::path::Path as ObjectPath;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode};

use super::BucketConfig;

/// The object that holds the id.
const MARK: &str = "database-id";

/// Why a prefix is not known to be of a database.
#[derive(Debug)]
pub enum Unclaimed {
    /// It is of another one.
    OtherDatabase,
    /// The bucket did not answer as it should.
    Failed(String),
}

impl fmt::Display for Unclaimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unclaimed::OtherDatabase => write!(
                f,
                "ANGO_OBJECTS_URL: the objects under this prefix are of another database: give each database a prefix of its \
                 own, or remove the object {MARK} there if that database is gone"
            ),
            Unclaimed::Failed(error) => write!(f, "ANGO_OBJECTS_URL: {error}"),
        }
    }
}

impl std::error::Error for Unclaimed {}

/// Makes a prefix that of a database, unless it is: the first one to come writes the mark.
///
/// # Errors
/// When it is another one's, or the bucket does not answer.
pub async fn claim(bucket: &BucketConfig, database_id: &str) -> Result<(), Unclaimed> {
    let (objects, prefix) = bucket.open().map_err(|error| Unclaimed::Failed(error.to_string()))?;
    let mark = prefix.join(MARK);
    if owner(&*objects, &mark).await?.is_none() {
        let put = objects.put_opts(&mark, database_id.to_owned().into(), PutMode::Create.into()).await;
        match put {
            // another node may have been quicker
            Ok(_) | Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {}
            Err(error) => return Err(Unclaimed::Failed(error.to_string())),
        }
    }
    match owner(&*objects, &mark).await? {
        Some(owner) if owner == database_id.as_bytes() => Ok(()),
        Some(_) => Err(Unclaimed::OtherDatabase),
        None => Err(Unclaimed::Failed(format!("the object {MARK} was written and is not there"))),
    }
}

/// Writes an object to a bucket, reads it and removes it, to see that the settings work, and looks whose the prefix is.
/// `database_id`: of the database that the settings name, if it has one yet.
///
/// # Errors
/// When the bucket does not do as asked, or the prefix is another database's.
pub async fn try_once(bucket: &BucketConfig, database_id: Option<&str>) -> anyhow::Result<()> {
    let (objects, prefix) = bucket.open()?;
    let path = prefix.clone().join("tried");
    objects.put(&path, "ango".into()).await?;
    if objects.get(&path).await?.bytes().await? != "ango" {
        bail!("the bucket does not give back what was written");
    }
    objects.delete(&path).await?;
    match owner(&*objects, &prefix.join(MARK)).await? {
        Some(owner) if Some(&*owner) != database_id.map(str::as_bytes) => Err(Unclaimed::OtherDatabase.into()),
        _ => Ok(()),
    }
}

/// The id in a mark; `None`: there is no mark.
async fn owner(objects: &dyn ObjectStore, mark: &ObjectPath) -> Result<Option<Vec<u8>>, Unclaimed> {
    let read = async { objects.get(mark).await?.bytes().await };
    match read.await {
        Ok(bytes) => Ok(Some(bytes.into())),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(Unclaimed::Failed(error.to_string())),
    }
}
