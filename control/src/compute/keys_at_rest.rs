//! The keys at rest of this node, where its worker finds them: keys of its sessions in its folder, and stored keys in
//! the vault.

use std::future::ready;
use std::sync::Arc;

use store::Store;

use super::Compute;
use super::numbers::keys::at_rest;
use super::numbers::vault::Vault;
use crate::web::offload::Offload;
use crate::work::{AccountDigests, Finding, KeyName, KeyStore, KeysAtRest, RestingKey};

/// The keys at rest of a node.
pub struct KeysOfNode {
    accounts: Arc<AccountDigests>,
    keys: KeyStore,
    store: Store,
    vault: Arc<Vault>,
    offload: Offload,
}

impl KeysOfNode {
    /// Takes what finds keys. The worker of the process is not kept, because the worker keeps this.
    pub fn of(compute: &Compute) -> Arc<KeysOfNode> {
        Arc::new(KeysOfNode {
            accounts: compute.here.accounts(),
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
