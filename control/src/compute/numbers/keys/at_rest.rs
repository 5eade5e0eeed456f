//! Finds stored keys by name for the worker, and closes open keys that were deleted or are idle.
//!
//! The first operation with a key opens the key. A key is closed when it is deleted, or was not used for some minutes.
//! The engine bounds the memory of open keys on devices. New work with a deleted key is refused at once, because every
//! request looks up the key's record. A node closes the key within two seconds after another node has deleted it
//! (readings K15).

use std::collections::HashMap;
use std::sync::Arc;

use api::{AccountId, Environment};
use store::{EncryptionKey, Store};
use tokio::runtime::Handle;
use zeroize::Zeroizing;

use super::material::{Material, Owner, all_rows, read_recorded_params, read_row, stored_row};
use super::params_and_fingerprint;
use crate::caller::Plan;
use crate::compute::Compute;
use crate::compute::numbers::vault::Vault;
use crate::resource::Payer;
use crate::web::error::ApiError;
use crate::web::offload::Offload;
use crate::work::fleet::access::{KeyAccess, RowAccess, SealedRows};
use crate::work::numbers::{StoredNumbersKey, StoredRow};
use crate::work::{AccountDigests, KeyName};

/// The records of a stored key.
pub struct Rows {
    record: EncryptionKey,
    owner: Owner,
    material: Material,
    stored: Vec<StoredRow>,
    /// The objects of the rows, by the rows' indices.
    objects: HashMap<i64, String>,
}

/// Reads the records of a stored key. `None`: no account has a key of this name.
pub async fn rows_of(
    store: &Store,
    vault: &Vault,
    accounts: &AccountDigests,
    name: KeyName,
) -> Result<Option<Rows>, ApiError> {
    let Some(key_id) = name.numbers_key_id() else { return Ok(None) };
    let Some(account) = store.account_of_encryption_key(key_id.as_str()).await? else { return Ok(None) };
    let account: AccountId = account.parse().map_err(ApiError::internal)?;
    // the plan changes the weight alone
    if !name.is_of(accounts.share(&account, Plan::Free)) {
        return Ok(None);
    }
    let Some(record) = store.encryption_key(account.as_str(), key_id.as_str()).await? else { return Ok(None) };
    vault.check_place(&record.node_id)?;
    let rows = all_rows(store, &record.material_id).await?;
    let payer = match record.environment {
        Environment::Trial => Payer::trial(account.clone()),
        Environment::Live | Environment::Test | Environment::Dev => Payer::account(account.clone()),
    };
    Ok(Some(Rows {
        stored: rows.iter().map(stored_row).collect(),
        objects: rows.into_iter().map(|row| (row.row_index, row.object)).collect(),
        owner: Owner { account, payer },
        material: Material::on_record(vault, &record.material_id, record.key_secret.as_deref())?,
        record,
    }))
}

impl Rows {
    /// Reads the container of a row. `None`: the row was deleted.
    pub async fn read(&self, vault: &Vault, row_index: i64) -> Result<Option<Zeroizing<Vec<u8>>>, ApiError> {
        let Some(object) = self.objects.get(&row_index) else { return Ok(None) };
        read_row(vault, &self.owner, &self.material, row_index, (&self.record.node_id, object)).await
    }

    /// Whether workers of a fleet read the rows from the bucket.
    pub fn are_for_workers(&self) -> bool {
        self.record.key_secret.is_some()
    }

    /// Says how a worker of a fleet gets the key.
    pub fn access(&self) -> Result<KeyAccess, ApiError> {
        let sealed = self
            .record
            .key_secret
            .as_ref()
            .map(|secret| SealedRows { material_id: self.record.material_id.clone(), secret: hex::encode(secret) });
        let rows = self.stored.iter().map(|row| RowAccess {
            kind: row.kind.clone(),
            element: row.element,
            level: row.level,
            row_index: row.row_index,
            object: sealed.as_ref().and_then(|_| self.objects.get(&row.row_index).cloned()),
        });
        Ok(KeyAccess::Numbers {
            params: read_recorded_params(&self.record.params, &self.record.scheme)?,
            fingerprint: hex::encode(&self.record.fingerprint),
            rows: rows.collect(),
            sealed,
        })
    }
}

/// Reads the records of a stored key. The key's rows stay in the vault until a device needs them. `None`: no account
/// has a key of this name.
pub async fn find(
    store: Store,
    vault: Arc<Vault>,
    offload: Offload,
    accounts: Arc<AccountDigests>,
    name: KeyName,
) -> Result<Option<StoredNumbersKey>, ApiError> {
    let Some(mut rows) = rows_of(&store, &vault, &accounts, name).await? else { return Ok(None) };
    let (stored, payer, runtime) = (std::mem::take(&mut rows.stored), rows.owner.payer.clone(), Handle::current());
    let rows = Arc::new(rows);
    let made = offload.run(payer, move || {
        let (params, fingerprint) = params_and_fingerprint(&rows.record)?;
        let read = move |row_index: i64| {
            // blocks a thread of the engine, not of the runtime
            let read = runtime.block_on(rows.read(&vault, row_index)).map_err(|error| error.message)?;
            read.ok_or_else(|| "a row was deleted".to_owned())
        };
        StoredNumbersKey::of_rows(&params, fingerprint, stored, Box::new(read))
    });
    made.await?.map(Some)
}

/// Closes keys that are deleted or idle. A job calls this every second or two.
pub async fn look_after(compute: &Compute) {
    let Some(here) = compute.workers.own() else { return };
    here.close_idle();
    for name in here.open_numbers_keys() {
        let Some(key_id) = name.numbers_key_id() else { continue };
        match compute.store.account_of_encryption_key(key_id.as_str()).await {
            Ok(Some(_)) => {}
            Ok(None) => here.release(name),
            Err(error) => {
                tracing::warn!(%error, "whether an encryption key was deleted could not be read from the database")
            }
        }
    }
}
