//! Lockouts in an operator's hands (readings A21).

use std::net::IpAddr;

use anyhow::bail;
use serde::Serialize;

use super::{Operator, checked_secrets};
use crate::access::limits::Digests;
use crate::cache_store::News;
use crate::clock::Timestamp;
use crate::config::Config;

/// Who is locked, as an operator sees it. Neither addresses nor e-mails nor what was shown is known, only digests of them.
#[derive(Debug, Serialize)]
pub struct LockoutFacts {
    /// The digest in hexadecimal.
    pub lockout_id: String,
    /// What the digest is of: `key`, `address`, `user` or `sign_up`.
    pub kind: &'static str,
    /// When it ends by itself.
    pub locked_until: String,
    /// The API key, if that is what was shown: one that was revoked or has expired.
    pub key_id: Option<String>,
    /// Its owner.
    pub account_id: Option<String>,
}

/// Whom to forgive.
#[derive(Clone, Debug)]
pub enum Forgiven {
    /// One of [`Operator::lockouts`], by its id.
    Lockout(String),
    /// A client's network.
    Address(IpAddr),
    /// A user, by the e-mail.
    User(String),
    /// Everybody.
    All,
}

impl Operator {
    /// Who is locked now, the longest lock first.
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

    /// Ends locks and forgets failed attempts; how many were locked or had some. Nodes that run see it within a second.
    ///
    /// # Errors
    /// When there is nothing to forgive.
    pub async fn clear_lockouts(&self, config: &Config, forgiven: &Forgiven) -> anyhow::Result<u64> {
        let subject = match forgiven {
            Forgiven::All => None,
            Forgiven::Lockout(id) => {
                let mut subject = [0; 32];
                if hex::decode_to_slice(id, &mut subject).is_err() {
                    bail!("{id} is no id of a lockout: `list-lockouts` shows them");
                }
                Some(subject)
            }
            Forgiven::Address(address) => Some(self.digests(config).await?.address(*address)),
            Forgiven::User(email) => Some(self.digests(config).await?.user(email)),
        };
        match self.store.clear_lockouts(subject.as_ref(), self.clock.now().0).await? {
            0 if subject.is_some() => bail!("nothing is known of it"),
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
