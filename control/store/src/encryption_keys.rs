//! Encryption keys of accounts, for arithmetic on encrypted numbers (readings section 8).
//!
//! Locks are taken in this order: the account, its cache of ciphertexts, its keys.

use api::Environment;

use crate::ciphertexts::{CIPHERTEXT_OBJECTS, lock_cache};
use crate::database::{Tx, from_row, locking, values};
use crate::pages::{PageRows, page};
use crate::{Result, Store};

/// A key to create. Creating the key completes its material.
#[derive(Clone, Debug)]
pub struct NewEncryptionKey<'a> {
    /// `key_...`
    pub key_id: &'a str,
    /// The owner's account.
    pub account_id: &'a str,
    /// Environment of the API key that made this key (readings X15).
    pub environment: Environment,
    /// The scheme, as the client named it (readings K8).
    pub scheme: &'a str,
    /// Where the key comes from: `upload` or `generate`.
    pub source: &'a str,
    /// The id of the material. Creating the key completes the material.
    pub material_id: &'a str,
    /// SHA-256 of the material.
    pub digest: &'a [u8; 32],
    /// The upload that received the material, if there was one.
    pub upload_id: Option<&'a str>,
    /// Largest number of keys and open uploads of the account, including this key (readings K19). `None`: no limit.
    pub keys_max: Option<i64>,
    /// Now, in microseconds since 1970.
    pub now: i64,
}

/// The result of creating a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyMade {
    /// The key is written.
    Made,
    /// The account already has as many keys and open uploads as it may have.
    TooMany,
    /// The account does not exist or was erased.
    NoAccount,
}

/// A key's row. Times in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptionKey {
    /// `key_...`
    pub key_id: String,
    /// Environment of the API key that made this key.
    pub environment: Environment,
    /// The scheme, as the client named it.
    pub scheme: String,
    /// Where the key comes from: `upload` or `generate`.
    pub source: String,
    /// The material's id.
    pub material_id: String,
    /// The node in whose folder the material's objects are. Empty: all nodes share the objects.
    pub node_id: String,
    /// The sealed data key of the material's rows. `None`: the rows are sealed under the account's key.
    pub key_secret: Option<Vec<u8>>,
    /// JSON object: the parameters.
    pub params: String,
    /// A fingerprint that identifies the secret key.
    pub fingerprint: Vec<u8>,
    /// Size of the public key in bytes.
    pub public_key_bytes: i64,
    /// Size of the evaluation key in bytes.
    pub eval_key_bytes: i64,
    /// Number of stored ciphertexts under the key.
    pub ciphertext_count: i64,
    /// Number of completed operations with the key.
    pub operation_count: i64,
    /// When the key was created.
    pub created_at: i64,
}

from_row!(EncryptionKey {
    key_id,
    environment as word,
    scheme,
    source,
    material_id,
    node_id,
    key_secret,
    params,
    fingerprint,
    public_key_bytes,
    eval_key_bytes,
    ciphertext_count,
    operation_count,
    created_at
});

/// A deleted key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletedKey {
    /// Number of ciphertexts that were deleted with the key.
    pub ciphertexts: i64,
}

/// Builds a query for all columns of [`EncryptionKey`]s. `$columns` are further columns, and `$rest` is the rest of the
/// statement, after the tables.
macro_rules! select_keys {
    ($columns:literal, $($rest:tt)*) => {
        concat!(
            "SELECT k.key_id, k.environment, k.scheme, k.source, k.material_id, m.node_id, m.key_secret, m.params, ",
            "m.fingerprint, m.public_key_bytes, m.eval_key_bytes, k.ciphertext_count, k.operation_count, k.created_at",
            $columns,
            " FROM encryption_keys k JOIN key_materials m ON m.material_id = k.material_id ",
            $($rest)*
        )
    };
}

impl Store {
    /// Returns a key of this account.
    pub async fn encryption_key(&self, account_id: &str, key_id: &str) -> Result<Option<EncryptionKey>> {
        let sql = select_keys!("", "WHERE k.key_id = $1 AND k.account_id = $2");
        self.db.fetch_optional(sql, values![key_id, account_id]).await
    }

    /// Returns the account that has a key with this id, if any account has one.
    pub async fn account_of_encryption_key(&self, key_id: &str) -> Result<Option<String>> {
        let sql = "SELECT account_id FROM encryption_keys WHERE key_id = $1";
        Ok(self.db.fetch_optional::<(String,)>(sql, values![key_id]).await?.map(|(account_id,)| account_id))
    }

    /// Returns a page of this account's keys.
    pub async fn encryption_keys_page(
        &self,
        account_id: &str,
        after: Option<(i64, &str)>,
        rows_max: i64,
    ) -> Result<PageRows<EncryptionKey>> {
        let (created_at, key_id) = after.unwrap_or((i64::MAX, ""));
        page(
            &self.db,
            after.is_none(),
            (
                select_keys!(
                    ", (SELECT COUNT(*) FROM encryption_keys WHERE account_id = $1) AS total_count",
                    "WHERE k.account_id = $1 AND (k.created_at, k.key_id) < ($2, $3) \
                     ORDER BY k.created_at DESC, k.key_id DESC LIMIT $4"
                ),
                values![account_id, created_at, key_id, rows_max],
            ),
            ("SELECT COUNT(*) FROM encryption_keys WHERE account_id = $1", values![account_id]),
        )
        .await
    }
}

impl Tx {
    /// Creates a key and completes its material, if the account may have one more key. Otherwise changes nothing.
    pub async fn insert_encryption_key(&mut self, new: &NewEncryptionKey<'_>) -> Result<KeyMade> {
        if !self.lock_live_account(new.account_id).await? {
            return Ok(KeyMade::NoAccount);
        }
        if !self.may_have_one_more_key(new.account_id, new.upload_id, new.keys_max, new.now).await? {
            return Ok(KeyMade::TooMany);
        }
        let material_id = self.complete_key_material(new.account_id, new.material_id, new.digest, new.now).await?;
        let sql = "INSERT INTO encryption_keys (key_id, account_id, environment, scheme, source, material_id, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7)";
        let of = values![new.key_id, new.account_id, new.environment, new.scheme, new.source, &material_id, new.now];
        self.execute(sql, of).await?;
        if let Some(upload_id) = new.upload_id {
            let sql = "UPDATE key_uploads SET key_id = $2, material_id = $3 WHERE upload_id = $1";
            self.execute(sql, values![upload_id, new.key_id, &material_id]).await?;
        }
        Ok(KeyMade::Made)
    }

    /// Deletes a key of this account with the key's ciphertexts. Also deletes the key's material, unless another key
    /// uses it. `None`: the key does not exist.
    pub async fn delete_encryption_key(
        &mut self,
        account_id: &str,
        key_id: &str,
        now: i64,
    ) -> Result<Option<DeletedKey>> {
        self.lock_account(account_id).await?;
        lock_cache(self, account_id).await?;
        let sql = "DELETE FROM encryption_keys WHERE key_id = $1 AND account_id = $2 RETURNING material_id";
        let Some((material_id,)) = self.fetch_optional::<(String,)>(sql, values![key_id, account_id]).await? else {
            return Ok(None);
        };
        let sql = "INSERT INTO dropped_objects (object, kind, node_id, dropped_at) \
             SELECT object, CAST($2 AS TEXT), node_id, CAST($3 AS BIGINT) FROM ciphertexts WHERE key_id = $1 ON CONFLICT (object) DO NOTHING";
        self.execute(sql, values![key_id, CIPHERTEXT_OBJECTS, now]).await?;
        let sql = "UPDATE ciphertext_caches SET bytes = bytes - \
             (SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM ciphertexts WHERE key_id = $2) WHERE account_id = $1";
        self.execute(sql, values![account_id, key_id]).await?;
        let ciphertexts = self.execute("DELETE FROM ciphertexts WHERE key_id = $1", values![key_id]).await?;
        let sql = "SELECT COUNT(*) FROM encryption_keys WHERE material_id = $1";
        let (others,): (i64,) = self.fetch_one(sql, values![&material_id]).await?;
        if others == 0 {
            self.forget_key_material(&material_id, now).await?;
        }
        Ok(Some(DeletedKey { ciphertexts: ciphertexts as i64 }))
    }

    /// Locks an account. False: the account does not exist or was erased.
    pub(crate) async fn lock_live_account(&mut self, account_id: &str) -> Result<bool> {
        let sql = locking!("SELECT account_id FROM accounts WHERE account_id = $1 AND erased_at IS NULL");
        Ok(self.fetch_optional::<(String,)>(sql, values![account_id]).await?.is_some())
    }

    /// Returns whether an account may have one more key or upload. `besides`: the id of an upload that is not counted.
    pub(crate) async fn may_have_one_more_key(
        &mut self,
        account_id: &str,
        besides: Option<&str>,
        max: Option<i64>,
        now: i64,
    ) -> Result<bool> {
        let Some(max) = max else { return Ok(true) };
        let sql = "SELECT (SELECT COUNT(*) FROM encryption_keys WHERE account_id = $1) + (SELECT COUNT(*) FROM key_uploads \
             WHERE account_id = $1 AND key_id IS NULL AND expires_at > $2 AND upload_id <> $3)";
        let (had,): (i64,) = self.fetch_one(sql, values![account_id, now, besides.unwrap_or_default()]).await?;
        Ok(had < max)
    }

    /// Deletes the encryption keys, uploads, ciphertexts and usage of encrypted numbers of an ended trial (readings A12).
    /// Notes the objects of the deleted keys and ciphertexts as dropped. The caller has locked the account.
    pub(crate) async fn erase_keys_of(&mut self, account_id: &str, now: i64) -> Result<()> {
        lock_cache(self, account_id).await?;
        let sql = "INSERT INTO dropped_objects (object, kind, node_id, dropped_at) \
             SELECT object, CAST($2 AS TEXT), node_id, CAST($3 AS BIGINT) FROM ciphertexts WHERE account_id = $1 ON CONFLICT (object) DO NOTHING";
        self.execute(sql, values![account_id, CIPHERTEXT_OBJECTS, now]).await?;
        for sql in [
            "DELETE FROM ciphertexts WHERE account_id = $1",
            "DELETE FROM ciphertext_caches WHERE account_id = $1",
            "DELETE FROM encryption_keys WHERE account_id = $1",
            "DELETE FROM key_uploads WHERE account_id = $1",
            "DELETE FROM arithmetic_usage WHERE account_id = $1",
        ] {
            self.execute(sql, values![account_id]).await?;
        }
        let sql = "SELECT material_id FROM key_materials WHERE account_id = $1";
        for (material_id,) in self.fetch_all::<(String,)>(sql, values![account_id]).await? {
            self.forget_key_material(&material_id, now).await?;
        }
        Ok(())
    }
}
