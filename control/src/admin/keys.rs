//! The operator's commands for API keys of an account or of a user.

use std::collections::HashMap;

use api::{AccountId, Environment, KeyStatus, Role};
use serde::Serialize;

use super::Operator;
use crate::cache_store::News;
use crate::clock::Timestamp;

/// A key, as shown to an operator.
#[derive(Debug, Serialize)]
pub struct KeyFacts {
    /// The key's id: `ak_...`.
    pub key_id: String,
    /// The account that owns the key.
    pub account_id: String,
    /// First 16 characters of the key.
    pub key_prefix: String,
    /// The key's role.
    pub role: Role,
    /// The key's environment.
    pub environment: Environment,
    /// Whether the key is valid.
    pub status: KeyStatus,
    /// When the key was last used, to the minute.
    pub last_used_at: Option<String>,
    /// The key's lineage: `lin_...`. A rotated key and its successors have the same lineage.
    pub lineage_id: String,
    /// The user who made the key, or its first predecessor, on the dashboard: `usr_...`. `None` for keys made by an
    /// operator or for a trial.
    pub made_by: Option<String>,
    /// The label that the administrator or the buyer gave the key.
    pub customer: Option<String>,
    /// When the key was made.
    pub created_at: String,
    /// When the key expires.
    pub expires_at: Option<String>,
    /// When a successor replaced the key.
    pub rotated_at: Option<String>,
    /// When the key was revoked.
    pub revoked_at: Option<String>,
}

impl Operator {
    /// Returns all keys, or the keys of one account, oldest first.
    pub async fn keys(&self, account: Option<&AccountId>) -> anyhow::Result<Vec<KeyFacts>> {
        let keys = self.store.api_keys().await?;
        let makers: HashMap<String, String> = self.store.key_makers().await?.into_iter().collect();
        let labels: HashMap<String, String> = self.store.key_labels().await?.into_iter().collect();
        let wanted = keys.into_iter().filter(|key| account.is_none_or(|account| key.account_id == account.as_str()));
        let (now, time) = (self.clock.now().0, |at: Option<i64>| at.map(|at| Timestamp(at).rfc3339()));
        let facts = wanted.map(|key| KeyFacts {
            status: key.status(now),
            made_by: makers.get(&key.lineage_id).cloned(),
            customer: labels.get(&key.lineage_id).cloned(),
            key_id: key.key_id,
            account_id: key.account_id,
            key_prefix: key.key_prefix,
            role: key.role,
            environment: key.environment,
            last_used_at: time(key.last_used_at),
            lineage_id: key.lineage_id,
            created_at: Timestamp(key.created_at).rfc3339(),
            expires_at: time(key.expires_at),
            rotated_at: time(key.rotated_at),
            revoked_at: time(key.revoked_at),
        });
        Ok(facts.collect())
    }

    /// Returns the keys that a user made, and the successors of these keys, oldest first.
    ///
    /// # Errors
    /// When the user does not exist.
    pub async fn keys_of_user(&self, email_or_id: &str) -> anyhow::Result<Vec<KeyFacts>> {
        let user = self.user(email_or_id).await?;
        let mut keys = self.keys(None).await?;
        keys.retain(|key| key.made_by.as_ref() == Some(&user.user_id));
        Ok(keys)
    }

    /// Revokes at once all keys of an account. Returns the number of lineages that had a valid key.
    ///
    /// # Errors
    /// When the account does not exist.
    pub async fn revoke_keys_of_account(&self, account: &AccountId) -> anyhow::Result<usize> {
        anyhow::ensure!(self.store.has_account(account.as_str()).await?, "there is no account {account}");
        let lineages = self.store.revoke_keys_of_account(account.as_str(), self.clock.now().0).await?;
        tracing::info!(target: "security", account_id = account.as_str(), keys = lineages.len(), "keys revoked by the operator");
        Ok(self.tell_revoked(lineages).await)
    }

    /// Revokes at once all keys that a user made. Returns the number of lineages that had a valid key.
    ///
    /// # Errors
    /// When the user does not exist.
    pub async fn revoke_keys_of_user(&self, email_or_id: &str) -> anyhow::Result<usize> {
        let user = self.user(email_or_id).await?;
        let lineages = self.store.revoke_keys_of_user(&user.user_id, self.clock.now().0).await?;
        tracing::info!(target: "security", user_id = user.user_id, keys = lineages.len(), "keys revoked by the operator");
        Ok(self.tell_revoked(lineages).await)
    }

    /// Tells the running nodes which lineages were revoked. Returns the number of lineages.
    pub(super) async fn tell_revoked(&self, lineages: Vec<String>) -> usize {
        let count = lineages.len();
        self.tell_nodes_all(lineages.into_iter().map(|lineage| News::Keys { lineage }).collect()).await;
        count
    }
}
