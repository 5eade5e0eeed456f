//! The database and the objects of a node, and the keys that seal both.

use anyhow::Context;
use store::Store;

use super::ground::Ground;
use crate::blobs::{self, Blobs, ObjectKind, Unclaimed};
use crate::clock::Timestamp;
use crate::compute::operation::record;
use crate::config::Config;
use crate::database;
use crate::sealing::AccountSeals;
use crate::secrets::{Purpose, Secrets};
use crate::work::memory_bytes;

/// An API node of a fleet remembers values, and as many ciphertexts, in this part of the process's memory.
const RECENT_SHARE: u64 = 64;

/// The database and the objects of a node, and the keys that seal both.
pub struct Storage {
    /// The database.
    pub store: Store,
    /// Whether the database has ever had an API key.
    pub has_api_keys: bool,
    /// The server's secret, which API keys of the database were made under.
    pub secrets: Secrets,
    /// Seals answers and objects, to each account.
    pub seals: AccountSeals,
    /// Large stored answers.
    pub answers: Blobs,
    /// Netlists of stored circuits. `None`: the nodes share the database but no objects, so netlists stay in the
    /// database.
    pub netlists: Option<Blobs>,
    /// Encryption keys, then ciphertexts.
    pub vault: [Blobs; 2],
    /// Keys of sessions of a fleet. `None`: the objects are in a folder.
    pub session_keys: Option<Blobs>,
    /// Values of sessions of a fleet. `None`: the objects are in a folder.
    pub session_values: Option<Blobs>,
    /// Work of operations in the waiting line of a fleet. `None`: the objects are in a folder.
    pub operations: Option<Blobs>,
    /// Whether every node of the database reads the objects.
    pub is_shared: bool,
}

impl Storage {
    /// Opens the database and checks that its API keys were made under this node's secret. Claims the bucket for the
    /// database.
    ///
    /// # Errors
    /// When the database does not answer or has another secret, when the bucket belongs to another database, or when a
    /// folder cannot be made.
    pub async fn open(config: &Config, ground: &Ground) -> anyhow::Result<Storage> {
        let store = database::open_to_serve(config).await?;
        let has_api_keys = store.has_api_keys().await?;
        let secrets = Secrets::load(config.secret.as_ref(), &ground.data_dir, has_api_keys)?;
        secrets.check(&store, has_api_keys).await?;
        let database_id = store.database_id().await?;
        if let Some(bucket) = &config.bucket {
            match blobs::claim(bucket, &database_id).await {
                Err(error @ Unclaimed::OtherDatabase) => return Err(error.into()),
                Err(error) => {
                    tracing::warn!(%error, "the bucket does not answer; the node removes no objects until the bucket answers")
                }
                Ok(()) => {}
            }
        }
        let seals = AccountSeals::new(secrets.key(Purpose::Accounts));
        let blobs = |kind| match &config.bucket {
            Some(bucket) => Blobs::in_bucket(bucket, &database_id, kind, seals.clone()),
            None => Blobs::in_folder(ground.data_dir.path(), kind, seals.clone())
                .context("ANGO_DATA_DIR: cannot make a folder for objects"),
        };
        // an API node of a fleet has no other copy of the values and ciphertexts that its clients name again and again
        let recent = |blobs: Blobs| {
            if config.fleet.is_member() { blobs.remembering(memory_bytes() / RECENT_SHARE) } else { blobs }
        };
        // only this node can read its folder, so objects in it need a database that only this node uses
        let is_shared = config.bucket.is_some() || store.database() == "sqlite";
        Ok(Storage {
            answers: blobs(ObjectKind::Answers)?,
            netlists: is_shared.then(|| blobs(ObjectKind::Circuits)).transpose()?,
            session_keys: config.bucket.is_some().then(|| blobs(ObjectKind::Keys)).transpose()?,
            session_values: config.bucket.is_some().then(|| blobs(ObjectKind::Values).map(recent)).transpose()?,
            operations: config.bucket.is_some().then(|| blobs(ObjectKind::Operations)).transpose()?,
            vault: [blobs(ObjectKind::EncryptionKeys)?, recent(blobs(ObjectKind::Ciphertexts)?)],
            store,
            has_api_keys,
            secrets,
            seals,
            is_shared,
        })
    }

    /// Records the operations of an earlier process of this node as failed, because they no longer run.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn end_earlier_process(&self, node_id: &str, now: Timestamp) -> Result<(), store::Error> {
        record::fail_unfinished(&self.store, node_id, now).await
    }
}
