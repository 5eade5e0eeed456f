//! Materials of encryption keys. A material is a public key and the rows of an evaluation key. The public key is stored
//! as an object, and so is each row.
//!
//! A material is received row by row and then completed. Materials of one account with equal contents become one
//! material, which several keys use (readings K19). Dropped objects have the kind [`KEY_OBJECTS`].

use std::collections::HashMap;

use crate::database::{Tx, from_row, values};
use crate::{Result, Seeded, Store};

/// The kind that the objects of keys have in the list of dropped objects.
pub const KEY_OBJECTS: &str = "encryption-keys";

/// A material to begin.
#[derive(Clone, Debug)]
pub struct NewKeyMaterial<'a> {
    /// `mat_...`
    pub material_id: &'a str,
    /// The owner's account.
    pub account_id: &'a str,
    /// The node in whose folder the objects are. Empty: all nodes share the objects.
    pub node_id: &'a str,
    /// The sealed data key of the rows. `None`: the rows are sealed under the account's key.
    pub key_secret: Option<&'a [u8]>,
    /// Now, in microseconds since 1970.
    pub now: i64,
}

/// A material's row, complete or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyMaterial {
    /// `mat_...`
    pub material_id: String,
    /// The node in whose folder the objects are. Empty: all nodes share the objects.
    pub node_id: String,
    /// The sealed data key of the rows. `None`: the rows are sealed under the account's key.
    pub key_secret: Option<Vec<u8>>,
    /// JSON object: the parameters in the containers. `None`: no container has arrived.
    pub params: Option<String>,
    /// A fingerprint that identifies the secret key. `None`: no container has arrived.
    pub fingerprint: Option<Vec<u8>>,
    /// The name of the object with the public key. `None`: the public key has not arrived.
    pub public_key_object: Option<String>,
    /// Size of the public key in bytes.
    pub public_key_bytes: i64,
    /// SHA-256 of the public key.
    pub public_key_sha256: Option<Vec<u8>>,
    /// Number of rows of the evaluation key. `None`: the head of the evaluation key has not arrived.
    pub rows_announced: Option<i64>,
    /// Number of bytes of the evaluation key that have arrived, including the head.
    pub eval_key_bytes: i64,
    /// SHA-256 of the whole material. `None`: the material is not complete.
    pub digest: Option<Vec<u8>>,
}

from_row!(KeyMaterial {
    material_id,
    node_id,
    key_secret,
    params,
    fingerprint,
    public_key_object,
    public_key_bytes,
    public_key_sha256,
    rows_announced,
    eval_key_bytes,
    digest
});

/// The public key of a material.
#[derive(Clone, Debug)]
pub struct NewPublicKey<'a> {
    /// JSON object: the parameters in the key.
    pub params: &'a str,
    /// A fingerprint that identifies the secret key.
    pub fingerprint: &'a [u8],
    /// The name of the object with the bytes.
    pub object: &'a str,
    /// Size of the object in bytes.
    pub bytes: i64,
    /// The seed of the mask, and SHA-256 of the bytes.
    pub seeded: Seeded,
}

/// The head of an evaluation key.
#[derive(Clone, Debug)]
pub struct NewKeyHead<'a> {
    /// JSON object: the parameters in the head.
    pub params: &'a str,
    /// A fingerprint that identifies the secret key.
    pub fingerprint: &'a [u8],
    /// Number of rows that the head announces.
    pub rows: i64,
    /// Size of the head in bytes.
    pub bytes: i64,
}

/// A row of an evaluation key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRowRecord {
    /// Index of the row in the container, from 0.
    pub row_index: i64,
    /// Kind of the part to which the row belongs.
    pub kind: String,
    /// Galois element of the part. For parts of bootstrapping's sparse secret: its tag. 0 for parts of other kinds.
    pub element: i64,
    /// Level of the part.
    pub level: i64,
    /// Index of the row in the part, from 0.
    pub digit: i64,
    /// Number of rows of the part.
    pub digits: i64,
    /// The name of the object with the bytes.
    pub object: String,
    /// Size of the object in bytes.
    pub bytes: i64,
    /// SHA-256 of the bytes.
    pub sha256: Vec<u8>,
    /// The seed of the row's masks. `None`: an older release stored the row.
    pub seed: Option<Vec<u8>>,
}

from_row!(KeyRowRecord { row_index, kind, element, level, digit, digits, object, bytes, sha256, seed });

/// The result of adding a public key, a head or rows to a material.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Added {
    /// The public key, the head or the rows were added.
    Done,
    /// Nothing was added, because the material was not in the expected state: the material is complete or deleted, or
    /// has other parameters, or the number of bytes that have arrived is not the expected number.
    NotAsExpected,
    /// The seed of the public key, or of the row with this place in the given rows, has another content already: in
    /// the object that `other` names. The rows before that row were added.
    SeedUsed {
        /// Number of the added rows.
        rows: usize,
        /// The object that has the seed.
        other: String,
    },
}

macro_rules! select_materials {
    ($($rest:tt)*) => {
        concat!(
            "SELECT m.material_id, m.node_id, m.key_secret, m.params, m.fingerprint, m.public_key_object, ",
            "m.public_key_bytes, m.public_key_sha256, m.rows_announced, m.eval_key_bytes, m.digest FROM key_materials m ",
            $($rest)*
        )
    };
}

impl Store {
    /// Returns the record of a material of this account.
    pub async fn key_material(&self, account_id: &str, material_id: &str) -> Result<Option<KeyMaterial>> {
        let sql = select_materials!("WHERE m.material_id = $1 AND m.account_id = $2");
        self.db.fetch_optional(sql, values![material_id, account_id]).await
    }

    /// Returns the rows of a material in order, from index `from` on.
    pub async fn key_rows(&self, material_id: &str, from: i64, limit: i64) -> Result<Vec<KeyRowRecord>> {
        let sql = "SELECT row_index, kind, element, level, digit, digits, object, bytes, sha256, seed FROM key_rows \
             WHERE material_id = $1 AND row_index >= $2 ORDER BY row_index LIMIT $3";
        self.db.fetch_all(sql, values![material_id, from, limit]).await
    }

    /// Returns the last row of a material.
    pub async fn last_key_row(&self, material_id: &str) -> Result<Option<KeyRowRecord>> {
        let sql = "SELECT row_index, kind, element, level, digit, digits, object, bytes, sha256, seed FROM key_rows \
             WHERE material_id = $1 ORDER BY row_index DESC LIMIT 1";
        self.db.fetch_optional(sql, values![material_id]).await
    }

    /// Returns the names of all objects that belong to keys.
    pub async fn key_objects(&self) -> Result<Vec<String>> {
        let sql = "SELECT object FROM key_rows UNION ALL \
             SELECT public_key_object FROM key_materials WHERE public_key_object IS NOT NULL";
        let rows: Vec<(String,)> = self.db.fetch_all(sql, values![]).await?;
        Ok(rows.into_iter().map(|(object,)| object).collect())
    }

    /// Returns the total size of all keys, complete or not, in bytes.
    pub async fn key_bytes(&self) -> Result<i64> {
        let sql = "SELECT CAST(COALESCE(SUM(public_key_bytes + eval_key_bytes), 0) AS BIGINT) FROM key_materials";
        self.db.fetch_one::<(i64,)>(sql, values![]).await.map(|(bytes,)| bytes)
    }
}

impl Tx {
    /// Begins a material.
    pub async fn insert_key_material(&mut self, new: &NewKeyMaterial<'_>) -> Result<()> {
        let sql = "INSERT INTO key_materials (material_id, account_id, node_id, key_secret, created_at) \
             VALUES ($1, $2, $3, $4, $5)";
        let of = values![new.material_id, new.account_id, new.node_id, new.key_secret, new.now];
        self.execute(sql, of).await.map(drop)
    }

    /// Sets the public key of an incomplete material. An earlier public key is replaced, and its object is noted as
    /// dropped. If the head of the evaluation key has arrived, the public key must have the same parameters and
    /// fingerprint as the head.
    pub async fn put_public_key(&mut self, material_id: &str, key: &NewPublicKey<'_>, now: i64) -> Result<Added> {
        let sql = "SELECT public_key_object, node_id, account_id FROM key_materials WHERE material_id = $1";
        let older: Option<(Option<String>, String, String)> = self.fetch_optional(sql, values![material_id]).await?;
        let Some((older, node_id, account_id)) = older else { return Ok(Added::NotAsExpected) };
        self.lock_account(&account_id).await?;
        let Seeded { seed, sha256 } = &key.seeded;
        if let Some(other) = self.other_with_seed(&account_id, key.fingerprint, (seed, sha256)).await? {
            return Ok(Added::SeedUsed { rows: 0, other });
        }
        let sql = "UPDATE key_materials SET params = $2, fingerprint = $3, public_key_object = $4, public_key_bytes = $5, \
             public_key_sha256 = $6, public_key_seed = $7 WHERE material_id = $1 AND digest IS NULL \
             AND (rows_announced IS NULL OR (params = $2 AND fingerprint = $3))";
        let of = values![material_id, key.params, key.fingerprint, key.object, key.bytes, sha256, seed];
        if self.execute(sql, of).await? == 0 {
            return Ok(Added::NotAsExpected);
        }
        if let Some(object) = older {
            self.drop_object(KEY_OBJECTS, &node_id, &object, now).await?;
        }
        Ok(Added::Done)
    }

    /// Sets the head of the evaluation key, if the material has no head. If the public key has arrived, the head must
    /// have the same parameters and fingerprint as the public key.
    pub async fn put_key_head(&mut self, material_id: &str, head: &NewKeyHead<'_>) -> Result<Added> {
        let sql = "UPDATE key_materials SET params = $2, fingerprint = $3, rows_announced = $4, eval_key_bytes = $5 \
             WHERE material_id = $1 AND digest IS NULL AND rows_announced IS NULL \
             AND (public_key_object IS NULL OR (params = $2 AND fingerprint = $3))";
        let done =
            self.execute(sql, values![material_id, head.params, head.fingerprint, head.rows, head.bytes]).await?;
        Ok(if done == 1 { Added::Done } else { Added::NotAsExpected })
    }

    /// Adds consecutive rows to a material, if exactly `offset` bytes of the evaluation key have arrived before. A row
    /// whose seed has another content already ends the work: only the rows before it are added.
    pub async fn add_key_rows(&mut self, material_id: &str, offset: i64, rows: &[KeyRowRecord]) -> Result<Added> {
        let sql = "SELECT account_id, fingerprint FROM key_materials WHERE material_id = $1";
        let material: Option<(String, Option<Vec<u8>>)> = self.fetch_optional(sql, values![material_id]).await?;
        let Some((account_id, Some(fingerprint))) = material else { return Ok(Added::NotAsExpected) };
        self.lock_account(&account_id).await?;
        let used = self.first_used_seed(&account_id, &fingerprint, rows).await?;
        let rows = used.as_ref().map_or(rows, |&(at, _)| &rows[..at]);
        let bytes: i64 = rows.iter().map(|row| row.bytes).sum();
        let sql = "UPDATE key_materials SET eval_key_bytes = eval_key_bytes + $3 \
             WHERE material_id = $1 AND digest IS NULL AND eval_key_bytes = $2 AND rows_announced IS NOT NULL";
        if self.execute(sql, values![material_id, offset, bytes]).await? == 0 {
            return Ok(Added::NotAsExpected);
        }
        for row in rows {
            let sql = "INSERT INTO key_rows (material_id, row_index, kind, element, level, digit, digits, object, bytes, sha256, seed) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
            let of = values![
                material_id,
                row.row_index,
                &row.kind,
                row.element,
                row.level,
                row.digit,
                row.digits,
                &row.object,
                row.bytes,
                &row.sha256,
                row.seed.as_deref()
            ];
            self.execute(sql, of).await?;
        }
        Ok(used.map_or(Added::Done, |(rows, other)| Added::SeedUsed { rows, other }))
    }

    /// Finds the first of these rows whose seed has another content already: in a stored object, or in a row before.
    /// Returns its place and a name of that object. The caller has locked the account.
    async fn first_used_seed(
        &mut self,
        account_id: &str,
        fingerprint: &[u8],
        rows: &[KeyRowRecord],
    ) -> Result<Option<(usize, String)>> {
        let mut before: HashMap<&[u8], i64> = HashMap::new();
        for (at, row) in rows.iter().enumerate() {
            let Some(seed) = row.seed.as_deref() else { continue };
            if let Some(index) = before.insert(seed, row.row_index) {
                return Ok(Some((at, format!("row {index} of this evaluation key"))));
            }
            if let Some(other) = self.other_with_seed(account_id, fingerprint, (seed, &row.sha256)).await? {
                return Ok(Some((at, other)));
            }
        }
        Ok(None)
    }

    /// Completes a material. If the account has another material with the same contents, deletes this material and uses
    /// the other material instead. Returns the id of the material that remains. The caller has locked the account.
    pub(crate) async fn complete_key_material(
        &mut self,
        account_id: &str,
        material_id: &str,
        digest: &[u8; 32],
        now: i64,
    ) -> Result<String> {
        let sql = "SELECT material_id FROM key_materials WHERE account_id = $1 AND digest = $2";
        if let Some((same,)) = self.fetch_optional::<(String,)>(sql, values![account_id, digest]).await? {
            if same != material_id {
                self.forget_key_material(material_id, now).await?;
            }
            return Ok(same);
        }
        let sql = "UPDATE key_materials SET digest = $2 WHERE material_id = $1";
        self.execute(sql, values![material_id, digest]).await?;
        Ok(material_id.to_owned())
    }

    /// Deletes a material that no key uses, and notes the material's objects as dropped.
    pub(crate) async fn forget_key_material(&mut self, material_id: &str, now: i64) -> Result<()> {
        for sql in [
            "INSERT INTO dropped_objects (object, kind, node_id, dropped_at) \
             SELECT r.object, CAST($2 AS TEXT), m.node_id, CAST($3 AS BIGINT) FROM key_rows r JOIN key_materials m ON m.material_id = r.material_id \
             WHERE r.material_id = $1 ON CONFLICT (object) DO NOTHING",
            "INSERT INTO dropped_objects (object, kind, node_id, dropped_at) \
             SELECT public_key_object, CAST($2 AS TEXT), node_id, CAST($3 AS BIGINT) FROM key_materials \
             WHERE material_id = $1 AND public_key_object IS NOT NULL ON CONFLICT (object) DO NOTHING",
        ] {
            self.execute(sql, values![material_id, KEY_OBJECTS, now]).await?;
        }
        self.execute("DELETE FROM key_rows WHERE material_id = $1", values![material_id]).await?;
        self.execute("DELETE FROM key_materials WHERE material_id = $1", values![material_id]).await.map(drop)
    }
}
