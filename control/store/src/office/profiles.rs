//! Profiles of issuers by key, and the tokens in the addresses to which payment providers send events (readings B9,
//! B10, B13).

use api::Environment;

use crate::database::{Tx, from_row, values};
use crate::{Result, Store};

/// An issuer's profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerProfile {
    /// The key's lineage.
    pub lineage_id: String,
    /// The owner's account.
    pub account_id: String,
    /// Environment of the key that set the profile.
    pub environment: Environment,
    /// The contents for documents, encrypted.
    pub sealed_profile: Vec<u8>,
    /// Digest of the token.
    pub token_digest: Vec<u8>,
    /// The token, encrypted.
    pub sealed_token: Vec<u8>,
    /// When the profile was first set, in microseconds since 1970.
    pub created_at: i64,
    /// When the profile was last set.
    pub updated_at: i64,
}

from_row!(IssuerProfile {
    lineage_id,
    account_id,
    environment as word,
    sealed_profile,
    token_digest,
    sealed_token,
    created_at,
    updated_at
});

macro_rules! select_profile {
    ($rest:literal) => {
        concat!(
            "SELECT lineage_id, account_id, environment, sealed_profile, token_digest, sealed_token, created_at, updated_at \
             FROM issuer_profiles ",
            $rest
        )
    };
}

impl Store {
    /// Returns the profile of a key.
    pub async fn issuer_profile(&self, lineage_id: &str) -> Result<Option<IssuerProfile>> {
        self.db.fetch_optional(select_profile!("WHERE lineage_id = $1"), values![lineage_id]).await
    }

    /// Returns the profile whose token has this digest, if the profile's lineage has a valid key.
    pub async fn issuer_profile_of_token(&self, digest: &[u8; 32], now: i64) -> Result<Option<IssuerProfile>> {
        let sql = select_profile!(
            "WHERE token_digest = $1 AND EXISTS (SELECT 1 FROM api_keys k WHERE k.lineage_id = issuer_profiles.lineage_id \
             AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > $2))"
        );
        self.db.fetch_optional(sql, values![digest, now]).await
    }
}

impl Tx {
    /// Sets a profile. A new profile is stored with its token. An existing profile is replaced, but keeps its token
    /// unless `with_token` is true.
    pub async fn put_issuer_profile(&mut self, profile: &IssuerProfile, with_token: bool) -> Result<()> {
        let sql = "INSERT INTO issuer_profiles (lineage_id, account_id, environment, sealed_profile, token_digest, sealed_token, \
             created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $7) ON CONFLICT (lineage_id) DO UPDATE SET \
             environment = excluded.environment, sealed_profile = excluded.sealed_profile, updated_at = excluded.updated_at, \
             token_digest = CASE WHEN $8 THEN excluded.token_digest ELSE issuer_profiles.token_digest END, \
             sealed_token = CASE WHEN $8 THEN excluded.sealed_token ELSE issuer_profiles.sealed_token END";
        let of = values![
            &profile.lineage_id,
            &profile.account_id,
            profile.environment,
            &profile.sealed_profile,
            &profile.token_digest,
            &profile.sealed_token,
            profile.updated_at,
            with_token
        ];
        self.execute(sql, of).await.map(drop)
    }

    /// Returns the profile of a key. Locks the account, so that no other transaction changes the profile until this
    /// transaction ends.
    pub async fn lock_issuer_profile(&mut self, account_id: &str, lineage_id: &str) -> Result<Option<IssuerProfile>> {
        self.lock_account(account_id).await?;
        self.fetch_optional(select_profile!("WHERE lineage_id = $1"), values![lineage_id]).await
    }
}
