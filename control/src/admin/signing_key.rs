//! The key of the node's own session tokens in an operator's hands.

use anyhow::bail;
use serde::Serialize;

use super::{Operator, checked_secrets};
use crate::access::issuer;
use crate::clock::Timestamp;
use crate::config::Config;

/// A rotation as an operator sees it.
#[derive(Debug, Serialize)]
pub struct SigningKeyFacts {
    /// Names the new key in the key set.
    pub kid: String,
    /// When the last token of the old one has ended.
    pub old_key_ends_at: String,
}

impl Operator {
    /// Lets a new key sign session tokens. Nodes that run take it within a minute; tokens of the old one go on to their end.
    ///
    /// # Errors
    /// When no node has made a key yet, or users sign in elsewhere.
    pub async fn rotate_signing_key(&self, config: &Config) -> anyhow::Result<SigningKeyFacts> {
        if config.auth.external_issuer.is_some() {
            bail!("users of this node sign in with ANGO_OIDC_ISSUER");
        }
        let secrets = checked_secrets(config, &self.store).await?;
        let now = self.clock.now();
        match issuer::rotate(&self.store, &secrets, now).await? {
            Some((kid, ends)) => {
                tracing::info!(target: "security", kid, "signing key rotated by the operator");
                Ok(SigningKeyFacts { kid, old_key_ends_at: Timestamp::rfc3339(ends) })
            }
            None => bail!("there is no key yet: the first start of a node makes it"),
        }
    }
}
