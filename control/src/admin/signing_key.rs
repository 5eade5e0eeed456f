//! The operator's rotation of the key that signs session tokens.

use anyhow::bail;
use serde::Serialize;

use super::{Operator, checked_secrets};
use crate::access::issuer;
use crate::clock::Timestamp;
use crate::config::Config;

/// A new signing key, as shown to an operator.
#[derive(Debug, Serialize)]
pub struct SigningKeyFacts {
    /// The new key's id in the key set.
    pub kid: String,
    /// When the last token of the old key expires.
    pub old_key_ends_at: String,
}

impl Operator {
    /// Makes a new key that signs session tokens. Running nodes use it within a minute. Tokens of the old key stay valid until
    /// they expire.
    ///
    /// # Errors
    /// When no node has made a key yet, or an external issuer signs users in.
    pub async fn rotate_signing_key(&self, config: &Config) -> anyhow::Result<SigningKeyFacts> {
        if config.auth.external_issuer.is_some() {
            bail!("users of this node sign in at ANGO_OIDC_ISSUER: rotate the signing key there");
        }
        let secrets = checked_secrets(config, &self.store).await?;
        let now = self.clock.now();
        match issuer::rotate(&self.store, &secrets, now).await? {
            Some((kid, ends)) => {
                tracing::info!(target: "security", kid, "signing key rotated by the operator");
                Ok(SigningKeyFacts { kid, old_key_ends_at: Timestamp::rfc3339(ends) })
            }
            None => bail!("there is no signing key yet: a node makes the signing key at startup"),
        }
    }
}
