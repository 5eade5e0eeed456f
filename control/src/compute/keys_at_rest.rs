//! The keys at rest of this node, where its worker finds them: keys of its sessions in its folder, and stored keys in
//! the vault. Workers of a fleet find keys through the node's internal listener.

use std::future::ready;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use store::Store;
use zeroize::Zeroizing;

use super::Compute;
use super::numbers::keys::at_rest;
use super::numbers::vault::Vault;
use crate::clock::{Clock, Timestamp};
use crate::web::error::ApiError;
use crate::web::offload::Offload;
use crate::work::fleet::access::{FleetKeys, KeyAccess, Reading};
use crate::work::{AccountDigests, Finding, KeyName, KeyStore, KeysAtRest, RestingKey};

/// The keys at rest of a node.
pub struct KeysOfNode {
    accounts: Arc<AccountDigests>,
    keys: KeyStore,
    store: Store,
    vault: Arc<Vault>,
    offload: Offload,
    clock: Clock,
    /// The stored keys whose rows workers of the fleet read at the moment.
    opened: Mutex<Vec<(KeyName, Instant, Arc<at_rest::Rows>)>>,
}

/// How long the records of a stored key are remembered while workers read its rows, and how many keys are.
const ROWS_REMEMBERED: Duration = Duration::from_secs(30);
const KEYS_REMEMBERED: usize = 16;

impl KeysOfNode {
    /// Takes what finds keys. The worker of the process is not kept, because the worker keeps this.
    pub fn of(compute: &Compute) -> Arc<KeysOfNode> {
        Arc::new(KeysOfNode {
            accounts: compute.workers.accounts(),
            clock: compute.clock.clone(),
            opened: Mutex::default(),
            keys: compute.keys.clone(),
            store: compute.store.clone(),
            vault: compute.vault.clone(),
            offload: compute.offload.clone(),
        })
    }
}

impl KeysAtRest for KeysOfNode {
    fn find(&self, name: KeyName) -> Finding {
        if name.numbers_key_id().is_none() {
            return Box::pin(ready(Ok(self.keys.find(&name).map(RestingKey::Session))));
        }
        let (store, vault, offload) = (self.store.clone(), self.vault.clone(), self.offload.clone());
        let finding = at_rest::find(store, vault, offload, self.accounts.clone(), name);
        Box::pin(async { Ok(finding.await?.map(RestingKey::Numbers)) })
    }

    fn end(&self, name: KeyName) {
        self.keys.end(&name);
    }
}

impl KeysOfNode {
    /// Returns the records of a stored key. `None`: no account has a key of this name.
    async fn rows(&self, name: KeyName) -> Result<Option<Arc<at_rest::Rows>>, ApiError> {
        let known =
            |known: &&(KeyName, Instant, Arc<at_rest::Rows>)| known.0 == name && known.1.elapsed() < ROWS_REMEMBERED;
        if let Some((_, _, rows)) = self.opened.lock().iter().find(known) {
            return Ok(Some(rows.clone()));
        }
        let Some(rows) = at_rest::rows_of(&self.store, &self.vault, &self.accounts, name).await? else {
            return Ok(None);
        };
        let rows = Arc::new(rows);
        let mut opened = self.opened.lock();
        opened.retain(|(other, at, _)| *other != name && at.elapsed() < ROWS_REMEMBERED);
        if opened.len() >= KEYS_REMEMBERED {
            opened.remove(0);
        }
        opened.push((name, Instant::now(), rows.clone()));
        Ok(Some(rows))
    }
}

/// The keys of a fleet, for its workers. A clone is the same.
#[derive(Clone)]
pub struct KeysOfFleet(pub Arc<KeysOfNode>);

impl FleetKeys for KeysOfFleet {
    fn access(&self, name: KeyName) -> Reading<KeyAccess> {
        let KeysOfFleet(node) = self.clone();
        Box::pin(async move {
            match name.session_bits() {
                Some(first) => {
                    let Some(key) = node.store.fleet_key(&first).await? else { return Ok(None) };
                    let left_ms = Timestamp(key.expires_at).since(node.clock.now()).as_millis() as u64;
                    let secret = hex::encode(key.secret);
                    Ok((left_ms > 0).then_some(KeyAccess::Session { object: key.object, secret, left_ms }))
                }
                None => Ok(node.rows(name).await?.map(|rows| rows.access()).transpose()?),
            }
        })
    }

    fn row(&self, name: KeyName, row_index: i64) -> Reading<Zeroizing<Vec<u8>>> {
        let KeysOfFleet(node) = self.clone();
        Box::pin(async move {
            match node.rows(name).await? {
                Some(rows) if !rows.are_for_workers() => rows.read(&node.vault, row_index).await,
                Some(_) | None => Ok(None),
            }
        })
    }
}
