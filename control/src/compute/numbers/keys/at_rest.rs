//! Finds stored keys by name for the worker, and closes open keys that were deleted or are idle.
//!
//! The first operation with a key opens the key. A key is closed when it is deleted, or was not used for some minutes.
//! The engine bounds the memory of open keys on devices. New work with a deleted key is refused at once, because every
//! request looks up the key's record. A node closes the key within two seconds after another node has deleted it
//! (readings K15).

use std::collections::HashMap;
use std::sync::Arc;

use api::Environment;
use store::Store;
use tokio::runtime::Handle;

use super::material::{Owner, all_rows, read_row, stored_row};
use super::params_and_fingerprint;
use crate::caller::Plan;
use crate::compute::Compute;
use crate::compute::numbers::vault::Vault;
use crate::resource::Payer;
use crate::web::error::ApiError;
use crate::web::offload::Offload;
use crate::work::numbers::{StoredNumbersKey, StoredRow};
use crate::work::{AccountDigests, KeyName};

/// Reads the records of a stored key. The key's rows stay in the vault until a device needs them. `None`: no account
/// has a key of this name.
pub async fn find(
    store: Store,
    vault: Arc<Vault>,
    offload: Offload,
    accounts: Arc<AccountDigests>,
    name: KeyName,
) -> Result<Option<StoredNumbersKey>, ApiError> {
    let Some(key_id) = name.numbers_key_id() else { return Ok(None) };
    let Some(account) = store.account_of_encryption_key(key_id.as_str()).await? else { return Ok(None) };
    let account = account.parse().map_err(ApiError::internal)?;
    // the plan changes the weight alone
    if !name.is_of(accounts.share(&account, Plan::Free)) {
        return Ok(None);
    }
    let Some(record) = store.encryption_key(account.as_str(), key_id.as_str()).await? else { return Ok(None) };
    vault.check_place(&record.node_id)?;
    let rows = all_rows(&store, &record.material_id).await?;
    let stored: Vec<StoredRow> = rows.iter().map(stored_row).collect();
    let payer = match record.environment {
        Environment::Trial => Payer::trial(account.clone()),
        Environment::Live | Environment::Test | Environment::Dev => Payer::account(account.clone()),
    };
    let (owner, runtime) = (Owner { account, payer: payer.clone() }, Handle::current());
    let (material_id, place) = (record.material_id.clone(), record.node_id.clone());
    let objects: HashMap<i64, String> = rows.into_iter().map(|row| (row.row_index, row.object)).collect();
    let read = move |row_index: i64| {
        let object = objects.get(&row_index).ok_or("a row has no record")?;
        let reading = read_row(&vault, &owner, &material_id, row_index, (&place, object));
        // blocks a thread of the engine, not of the runtime
        let read = runtime.block_on(reading).map_err(|error| error.message)?;
        read.ok_or_else(|| "a row was deleted".to_owned())
    };
    let made = offload.run(payer, move || {
        let (params, fingerprint) = params_and_fingerprint(&record)?;
        StoredNumbersKey::of_rows(&params, fingerprint, stored, Box::new(read))
    });
    made.await?.map(Some)
}

/// Closes keys that are deleted or idle. A job calls this every second or two.
pub async fn look_after(compute: &Compute) {
    compute.here.close_idle();
    for name in compute.here.open_numbers_keys() {
        let Some(key_id) = name.numbers_key_id() else { continue };
        match compute.store.account_of_encryption_key(key_id.as_str()).await {
            Ok(Some(_)) => {}
            Ok(None) => compute.here.release(name),
            Err(error) => {
                tracing::warn!(%error, "whether an encryption key was deleted could not be read from the database")
            }
        }
    }
}
