//! The operator's commands for lockouts (readings A21).

use std::net::IpAddr;

use anyhow::bail;
use serde::Serialize;

use super::{Operator, checked_secrets};
use crate::access::limits::Digests;
use crate::cache_store::News;
use crate::clock::Timestamp;
use crate::config::Config;

/// A lockout, as shown to an operator. Only digests of addresses, e-mails and credentials are stored.
#[derive(Debug, Serialize)]
pub struct LockoutFacts {
    /// The digest in hexadecimal.
    pub lockout_id: String,
    /// The kind of the locked subject: `key`, `address`, `user` or `sign_up`.
    pub kind: &'static str,
    /// When the lockout ends.
    pub locked_until: String,
    /// The id of the locked API key, if the locked text is a key in the database. Such a key is revoked or expired.
    pub key_id: Option<String>,
    /// The account that owns the locked key.
    pub account_id: Option<String>,
}

/// An operator's choice of the lockouts to clear.
#[derive(Clone, Debug)]
pub enum LockoutChoice {
    /// The lockout with this id, which [`Operator::lockouts`] shows.
    Lockout(String),
    /// The lockout of a client's address, or of its /64 network.
    Address(IpAddr),
    /// The lockout of the user with this e-mail.
    User(String),
    /// All lockouts.
    All,
}

impl Operator {
    /// Returns the present lockouts. The lockout that ends last comes first.
    pub async fn lockouts(&self) -> anyhow::Result<Vec<LockoutFacts>> {
        let locked = self.store.locked(self.clock.now().0).await?;
        let facts = locked.into_iter().map(|locked| LockoutFacts {
            lockout_id: hex::encode(locked.subject),
            kind: locked.kind.as_str(),
            locked_until: Timestamp(locked.locked_until).rfc3339(),
            key_id: locked.key_id,
            account_id: locked.account_id,
        });
        Ok(facts.collect())
    }

    /// Ends lockouts and resets counts of failed attempts. Returns the number of records removed. Running nodes apply
    /// the change within a second.
    ///
    /// # Errors
    /// When the choice matches no lockout and no count of failed attempts.
    pub async fn clear_lockouts(&self, config: &Config, choice: &LockoutChoice) -> anyhow::Result<u64> {
        let subject = match choice {
            LockoutChoice::All => None,
            LockoutChoice::Lockout(id) => {
                let mut subject = [0; 32];
                if hex::decode_to_slice(id, &mut subject).is_err() {
                    bail!("{id} is not the id of a lockout: `ango admin list-lockouts` shows the ids");
                }
                Some(subject)
            }
            LockoutChoice::Address(address) => Some(self.digests(config).await?.address(*address)),
            LockoutChoice::User(email) => Some(self.digests(config).await?.user(email)),
        };
        match self.store.clear_lockouts(subject.as_ref(), self.clock.now().0).await? {
            0 if subject.is_some() => bail!("there is no lockout and no failed attempt to clear"),
            cleared => {
                tracing::info!(target: "security", cleared, "lockouts cleared by the operator");
                self.tell_nodes(News::Lockouts).await;
                Ok(cleared)
            }
        }
    }

    async fn digests(&self, config: &Config) -> anyhow::Result<Digests> {
        Ok(Digests::new(&checked_secrets(config, &self.store).await?))
    }
}
