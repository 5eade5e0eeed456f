//! Uploads of encryption keys in parts (readings section 14).

use api::Environment;

use crate::database::{Tx, from_row, values};
use crate::{KeyMade, NewKeyMaterial, Result, Store};

/// An upload to begin.
#[derive(Clone, Debug)]
pub struct NewKeyUpload<'a> {
    /// `up_...`
    pub upload_id: &'a str,
    /// Environment of the API key that began the upload.
    pub environment: Environment,
    /// The scheme, as the client named it.
    pub scheme: &'a str,
    /// JSON object: the parameters of the request.
    pub params: &'a str,
    /// The material that the upload receives.
    pub material: NewKeyMaterial<'a>,
    /// When the upload expires.
    pub expires_at: i64,
    /// Largest number of keys and open uploads of the account, including this upload (readings K19). `None`: no limit.
    pub keys_max: Option<i64>,
}

/// An upload's row. Times in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUpload {
    /// `up_...`
    pub upload_id: String,
    /// Environment of the API key that began the upload.
    pub environment: Environment,
    /// The scheme, as the client named it.
    pub scheme: String,
    /// JSON object: the parameters of the request.
    pub params: String,
    /// The id of the material that the upload receives.
    pub material_id: String,
    /// The id of the key that the upload became. `None`: the upload has not become a key.
    pub key_id: Option<String>,
    /// When the upload began.
    pub created_at: i64,
    /// When the upload expires.
    pub expires_at: i64,
}

from_row!(KeyUpload {
    upload_id,
    environment as word,
    scheme,
    params,
    material_id,
    key_id,
    created_at,
    expires_at
});

impl Store {
    /// Returns an upload of this account, if the upload has not expired.
    pub async fn key_upload(&self, account_id: &str, upload_id: &str, now: i64) -> Result<Option<KeyUpload>> {
        let sql = "SELECT upload_id, environment, scheme, params, material_id, key_id, created_at, expires_at FROM key_uploads \
             WHERE upload_id = $1 AND account_id = $2 AND expires_at > $3";
        self.db.fetch_optional(sql, values![upload_id, account_id, now]).await
    }

    /// Ends an upload of this account and deletes its material. False: the upload does not exist or became a key.
    pub async fn delete_key_upload(&self, account_id: &str, upload_id: &str, now: i64) -> Result<bool> {
        let mut tx = self.db.begin().await?;
        tx.lock_account(account_id).await?;
        let sql = "DELETE FROM key_uploads WHERE upload_id = $1 AND account_id = $2 AND expires_at > $3 AND key_id IS NULL \
             RETURNING material_id";
        let gone: Option<(String,)> = tx.fetch_optional(sql, values![upload_id, account_id, now]).await?;
        if let Some((material_id,)) = &gone {
            tx.forget_key_material(material_id, now).await?;
        }
        tx.commit().await?;
        Ok(gone.is_some())
    }

    /// Deletes expired uploads. If an upload did not become a key, its material is deleted too. Returns the number of
    /// uploads. Some may remain for the next call.
    pub async fn forget_key_uploads(&self, now: i64) -> Result<u64> {
        let sql = "SELECT upload_id, account_id FROM key_uploads WHERE expires_at <= $1 ORDER BY expires_at LIMIT 100";
        let over: Vec<(String, String)> = self.db.fetch_all(sql, values![now]).await?;
        for (upload_id, account_id) in &over {
            let mut tx = self.db.begin().await?;
            tx.lock_account(account_id).await?;
            let sql = "DELETE FROM key_uploads WHERE upload_id = $1 RETURNING material_id, key_id";
            let gone: Option<(String, Option<String>)> = tx.fetch_optional(sql, values![upload_id]).await?;
            if let Some((material_id, None)) = gone {
                tx.forget_key_material(&material_id, now).await?;
            }
            tx.commit().await?;
        }
        Ok(over.len() as u64)
    }
}

impl Tx {
    /// Returns whether an upload exists and has not become a key. Locks the upload's account.
    pub async fn is_key_upload_open(&mut self, upload_id: &str) -> Result<bool> {
        let sql = "SELECT account_id FROM key_uploads WHERE upload_id = $1";
        let Some((account_id,)) = self.fetch_optional::<(String,)>(sql, values![upload_id]).await? else {
            return Ok(false);
        };
        self.lock_account(&account_id).await?;
        let sql = "SELECT key_id FROM key_uploads WHERE upload_id = $1";
        let found: Option<(Option<String>,)> = self.fetch_optional(sql, values![upload_id]).await?;
        Ok(matches!(found, Some((None,))))
    }

    /// Begins an upload if the account may have one more key. Otherwise changes nothing.
    pub async fn insert_key_upload(&mut self, new: &NewKeyUpload<'_>) -> Result<KeyMade> {
        let NewKeyMaterial { account_id, now, .. } = new.material;
        if !self.lock_live_account(account_id).await? {
            return Ok(KeyMade::NoAccount);
        }
        if !self.may_have_one_more_key(account_id, None, new.keys_max, now).await? {
            return Ok(KeyMade::TooMany);
        }
        self.insert_key_material(&new.material).await?;
        let sql = "INSERT INTO key_uploads (upload_id, account_id, environment, scheme, params, material_id, created_at, \
             expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        let of = values![
            new.upload_id,
            account_id,
            new.environment,
            new.scheme,
            new.params,
            new.material.material_id,
            now,
            new.expires_at
        ];
        self.execute(sql, of).await?;
        Ok(KeyMade::Made)
    }
}
