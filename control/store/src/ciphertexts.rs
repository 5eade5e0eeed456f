//! Stored ciphertexts of accounts, within a budget of bytes (readings K13, K14).
//!
//! A transaction that adds a ciphertext does not let the account exceed its budget. The caller first reads which
//! ciphertexts to evict ([`Store::eviction_plan`]) and lists them in [`NewCiphertext::evicted`]. The transaction fails
//! if evicting these ciphertexts is no longer enough. So the caller can store the answer, which lists the evicted
//! ciphertexts, in the same transaction. Every transaction that adds or removes ciphertexts locks the account's row in
//! `ciphertext_caches`.

use std::collections::BTreeMap;

use api::Environment;

use crate::database::{Tx, from_row, values};
use crate::pages::{PageRows, page};
use crate::{Error, Result, Seeded, Store};

/// The kind that the objects of ciphertexts have in the list of dropped objects.
pub const CIPHERTEXT_OBJECTS: &str = "ciphertexts";
/// Largest number of ciphertexts that one query for an eviction plan reads.
const BATCH: i64 = 64;

/// A ciphertext to store.
#[derive(Clone, Debug)]
pub struct NewCiphertext {
    /// `ct_...`
    pub ciphertext_id: String,
    /// The owner's account.
    pub account_id: String,
    /// The key's id. The key belongs to the same account.
    pub key_id: String,
    /// The environment of the API key.
    pub environment: Environment,
    /// `upload`, or the name of the operation whose result this is.
    pub origin: String,
    /// Number of slots.
    pub slot_count: i64,
    /// The level.
    pub level: i64,
    /// The exact scale.
    pub scale: f64,
    /// Upper bound of the absolute values in the slots.
    pub value_bound: f64,
    /// Variance of the noise.
    pub variance: f64,
    /// Whether an operation may have put numbers behind the first slots, which a matrix product takes for zeros.
    pub mixed: bool,
    /// Names of the fresh encryptions from which the ciphertext was computed, 4 bytes each. `None`: unknown.
    pub sources: Option<Vec<u8>>,
    /// The name of the object with the bytes.
    pub object: String,
    /// The node in whose folder the object is. Empty: all nodes share the objects.
    pub node_id: String,
    /// Size of the object in bytes.
    pub bytes: i64,
    /// The seed, if the ciphertext has one.
    pub seeded: Option<Seeded>,
    /// Limit of the account's ciphertexts together, in bytes. `None`: no limit.
    pub bytes_max: Option<i64>,
    /// Ids of the ciphertexts to evict.
    pub evicted: Vec<String>,
    /// Now, in microseconds since 1970.
    pub now: i64,
}

/// A ciphertext's row. Times in microseconds since 1970.
#[derive(Clone, Debug, PartialEq)]
pub struct CiphertextRecord {
    /// `ct_...`
    pub ciphertext_id: String,
    /// The key's id.
    pub key_id: String,
    /// `upload`, or the name of the operation whose result this is.
    pub origin: String,
    /// Number of slots.
    pub slot_count: i64,
    /// The level.
    pub level: i64,
    /// The exact scale.
    pub scale: f64,
    /// Upper bound of the absolute values in the slots.
    pub value_bound: f64,
    /// Variance of the noise.
    pub variance: f64,
    /// Whether an operation may have put numbers behind the first slots, which a matrix product takes for zeros.
    pub mixed: bool,
    /// Names of the fresh encryptions from which the ciphertext was computed, 4 bytes each. `None`: unknown.
    pub sources: Option<Vec<u8>>,
    /// The name of the object with the bytes.
    pub object: String,
    /// The node in whose folder the object is. Empty: all nodes share the objects.
    pub node_id: String,
    /// Size of the object in bytes.
    pub bytes: i64,
    /// When the ciphertext was created.
    pub created_at: i64,
    /// When the ciphertext was last read or used in an operation.
    pub last_used_at: i64,
}

/// The columns of a row. Floating-point numbers are stored as their bits.
struct Stored {
    ciphertext_id: String,
    key_id: String,
    origin: String,
    slot_count: i64,
    level: i64,
    scale: i64,
    value_bound: i64,
    variance: i64,
    mixed: bool,
    sources: Option<Vec<u8>>,
    object: String,
    node_id: String,
    bytes: i64,
    created_at: i64,
    last_used_at: i64,
}

from_row!(Stored {
    ciphertext_id,
    key_id,
    origin,
    slot_count,
    level,
    scale,
    value_bound,
    variance,
    mixed,
    sources,
    object,
    node_id,
    bytes,
    created_at,
    last_used_at
});

impl From<Stored> for CiphertextRecord {
    fn from(stored: Stored) -> CiphertextRecord {
        let Stored { ciphertext_id, key_id, origin, slot_count, level, object, node_id, bytes, .. } = stored;
        let Stored { scale, value_bound, variance, mixed, sources, created_at, last_used_at, .. } = stored;
        CiphertextRecord {
            ciphertext_id,
            key_id,
            origin,
            slot_count,
            level,
            scale: from_bits(scale),
            value_bound: from_bits(value_bound),
            variance: from_bits(variance),
            mixed,
            sources,
            object,
            node_id,
            bytes,
            created_at,
            last_used_at,
        }
    }
}

fn bits(number: f64) -> i64 {
    number.to_bits() as i64
}

fn from_bits(bits: i64) -> f64 {
    f64::from_bits(bits as u64)
}

/// The names of the columns of [`Stored`], for a query.
macro_rules! columns {
    () => {
        "ciphertext_id, key_id, origin, slot_count, level, scale, value_bound, variance, mixed, sources, object, node_id, \
         bytes, created_at, last_used_at"
    };
}

impl Store {
    /// Returns the record of a ciphertext of this account.
    pub async fn ciphertext(&self, account_id: &str, ciphertext_id: &str) -> Result<Option<CiphertextRecord>> {
        let sql = concat!("SELECT ", columns!(), " FROM ciphertexts WHERE ciphertext_id = $1 AND account_id = $2");
        let found: Option<Stored> = self.db.fetch_optional(sql, values![ciphertext_id, account_id]).await?;
        Ok(found.map(CiphertextRecord::from))
    }

    /// Returns the record of a ciphertext of this account, and sets the time of the ciphertext's last use to `now`.
    pub async fn use_ciphertext(
        &self,
        account_id: &str,
        ciphertext_id: &str,
        now: i64,
    ) -> Result<Option<CiphertextRecord>> {
        let mut tx = self.db.begin().await?;
        let sql = concat!(
            "UPDATE ciphertexts SET last_used_at = $3 WHERE ciphertext_id = $1 AND account_id = $2 RETURNING ",
            columns!()
        );
        let found: Option<Stored> = tx.fetch_optional(sql, values![ciphertext_id, account_id, now]).await?;
        tx.commit().await?;
        Ok(found.map(CiphertextRecord::from))
    }

    /// Returns a page of this account's ciphertexts under one key.
    pub async fn ciphertexts_page(
        &self,
        account_id: &str,
        key_id: &str,
        after: Option<(i64, &str)>,
        rows_max: i64,
    ) -> Result<PageRows<CiphertextRecord>> {
        let (created_at, ciphertext_id) = after.unwrap_or((i64::MAX, ""));
        let found: PageRows<Stored> = page(
            &self.db,
            after.is_none(),
            (
                concat!(
                    "SELECT ",
                    columns!(),
                    ", (SELECT COUNT(*) FROM ciphertexts WHERE key_id = $2 AND account_id = $1) AS total_count ",
                    "FROM ciphertexts WHERE account_id = $1 AND key_id = $2 AND (created_at, ciphertext_id) < ($3, $4) ",
                    "ORDER BY created_at DESC, ciphertext_id DESC LIMIT $5"
                ),
                values![account_id, key_id, created_at, ciphertext_id, rows_max],
            ),
            ("SELECT COUNT(*) FROM ciphertexts WHERE key_id = $2 AND account_id = $1", values![account_id, key_id]),
        )
        .await?;
        Ok(PageRows { rows: found.rows.into_iter().map(CiphertextRecord::from).collect(), total: found.total })
    }

    /// Chooses which ciphertexts of an account to evict so that `bytes` more bytes fit into `bytes_max`, and returns
    /// their ids. The least recently used ciphertexts are chosen first, and pinned ciphertexts never. `None`: evicting
    /// all other ciphertexts would not be enough.
    pub async fn eviction_plan(
        &self,
        account_id: &str,
        bytes: i64,
        bytes_max: Option<i64>,
        pinned: &[String],
    ) -> Result<Option<Vec<String>>> {
        let Some(bytes_max) = bytes_max else { return Ok(Some(Vec::new())) };
        let sql = "SELECT bytes FROM ciphertext_caches WHERE account_id = $1";
        let used: Option<(i64,)> = self.db.fetch_optional(sql, values![account_id]).await?;
        let mut over = used.map_or(0, |(used,)| used) + bytes - bytes_max;
        let (mut plan, mut after) = (Vec::new(), (i64::MIN, String::new()));
        while over > 0 {
            let sql = "SELECT ciphertext_id, bytes, last_used_at FROM ciphertexts \
                 WHERE account_id = $1 AND (last_used_at, ciphertext_id) > ($2, $3) ORDER BY last_used_at, ciphertext_id LIMIT $4";
            let oldest: Vec<(String, i64, i64)> =
                self.db.fetch_all(sql, values![account_id, after.0, &after.1, BATCH]).await?;
            let Some((last, _, used_at)) = oldest.last() else { return Ok(None) };
            after = (*used_at, last.clone());
            for (ciphertext_id, bytes, _) in oldest {
                if over > 0 && !pinned.contains(&ciphertext_id) {
                    over -= bytes;
                    plan.push(ciphertext_id);
                }
            }
        }
        Ok(Some(plan))
    }

    /// Deletes a ciphertext of this account. False: the ciphertext does not exist.
    pub async fn delete_ciphertext(&self, account_id: &str, ciphertext_id: &str, now: i64) -> Result<bool> {
        let mut tx = self.db.begin().await?;
        lock_cache(&mut tx, account_id).await?;
        let dropped = drop_ciphertexts(&mut tx, account_id, &[ciphertext_id.to_owned()], now).await?;
        tx.commit().await?;
        Ok(dropped.count > 0)
    }

    /// Deletes ciphertexts that were last used before this time, at most 256 in a call. Returns how many.
    pub async fn forget_ciphertexts(&self, used_before: i64, now: i64) -> Result<u64> {
        let sql =
            "SELECT account_id, ciphertext_id FROM ciphertexts WHERE last_used_at < $1 ORDER BY last_used_at LIMIT 256";
        let old: Vec<(String, String)> = self.db.fetch_all(sql, values![used_before]).await?;
        let mut of_accounts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (account_id, ciphertext_id) in old {
            of_accounts.entry(account_id).or_default().push(ciphertext_id);
        }
        let mut forgotten = 0;
        for (account_id, ciphertext_ids) in of_accounts {
            let mut tx = self.db.begin().await?;
            lock_cache(&mut tx, &account_id).await?;
            forgotten += drop_ciphertexts(&mut tx, &account_id, &ciphertext_ids, now).await?.count;
            tx.commit().await?;
        }
        Ok(forgotten)
    }

    /// Returns the total size of the ciphertexts of all accounts, in bytes.
    pub async fn ciphertext_bytes(&self) -> Result<i64> {
        let sql = "SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM ciphertext_caches";
        self.db.fetch_one::<(i64,)>(sql, values![]).await.map(|(bytes,)| bytes)
    }

    /// Returns the names of all objects that belong to ciphertexts.
    pub async fn ciphertext_objects(&self) -> Result<Vec<String>> {
        let rows: Vec<(String,)> = self.db.fetch_all("SELECT object FROM ciphertexts", values![]).await?;
        Ok(rows.into_iter().map(|(object,)| object).collect())
    }
}

impl Tx {
    /// Stores a ciphertext.
    ///
    /// # Errors
    /// [`Error::KeyGone`]: the account has no such key. [`Error::NoRoom`]: the ciphertext does not fit after the
    /// evictions. [`Error::SeedUsed`]: the ciphertext's seed has another content already.
    pub async fn insert_ciphertext(&mut self, new: &NewCiphertext) -> Result<()> {
        if let Some(seeded) = &new.seeded {
            self.check_seed(new, seeded).await?;
        }
        let used = lock_cache(self, &new.account_id).await?;
        let sql =
            "UPDATE encryption_keys SET ciphertext_count = ciphertext_count + 1 WHERE key_id = $1 AND account_id = $2";
        if self.execute(sql, values![&new.key_id, &new.account_id]).await? == 0 {
            return Err(Error::KeyGone);
        }
        let freed = drop_ciphertexts(self, &new.account_id, &new.evicted, new.now).await?.bytes;
        if new.bytes_max.is_some_and(|max| used - freed + new.bytes > max) {
            return Err(Error::NoRoom);
        }
        let sql = "INSERT INTO ciphertexts (ciphertext_id, account_id, key_id, environment, origin, slot_count, level, scale, \
             value_bound, variance, mixed, sources, object, node_id, bytes, created_at, last_used_at, seed, sha256) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $16, $17, $18)";
        let of = values![
            &new.ciphertext_id,
            &new.account_id,
            &new.key_id,
            new.environment,
            &new.origin,
            new.slot_count,
            new.level,
            bits(new.scale),
            bits(new.value_bound),
            bits(new.variance),
            new.mixed,
            new.sources.as_deref(),
            &new.object,
            &new.node_id,
            new.bytes,
            new.now,
            new.seeded.as_ref().map(|seeded| &seeded.seed[..]),
            new.seeded.as_ref().map(|seeded| &seeded.sha256[..])
        ];
        self.execute(sql, of).await?;
        let sql = "UPDATE ciphertext_caches SET bytes = bytes + $2 WHERE account_id = $1";
        self.execute(sql, values![&new.account_id, new.bytes]).await.map(drop)
    }

    /// Locks the account, and refuses a new ciphertext whose seed has another content already.
    async fn check_seed(&mut self, new: &NewCiphertext, Seeded { seed, sha256 }: &Seeded) -> Result<()> {
        self.lock_account(&new.account_id).await?;
        let sql = "SELECT m.fingerprint FROM encryption_keys k JOIN key_materials m ON m.material_id = k.material_id \
             WHERE k.key_id = $1 AND k.account_id = $2";
        let key: Option<(Vec<u8>,)> = self.fetch_optional(sql, values![&new.key_id, &new.account_id]).await?;
        let (fingerprint,) = key.ok_or(Error::KeyGone)?;
        match self.other_with_seed(&new.account_id, &fingerprint, (seed, sha256)).await? {
            None => Ok(()),
            Some(other) => Err(Error::SeedUsed(other)),
        }
    }
}

/// Stores ciphertexts, sorted by their accounts.
pub(crate) async fn insert_all(tx: &mut Tx, mut ciphertexts: Vec<&NewCiphertext>) -> Result<()> {
    ciphertexts.sort_by_key(|new| &new.account_id);
    for new in ciphertexts {
        tx.insert_ciphertext(new).await?;
    }
    Ok(())
}

/// Locks an account's row in `ciphertext_caches`. Returns the total size of the account's ciphertexts, in bytes.
pub(crate) async fn lock_cache(tx: &mut Tx, account_id: &str) -> Result<i64> {
    // the update changes nothing, but it locks the row and returns it
    let sql = "INSERT INTO ciphertext_caches (account_id, bytes) VALUES ($1, 0) \
         ON CONFLICT (account_id) DO UPDATE SET account_id = excluded.account_id RETURNING bytes";
    tx.fetch_one::<(i64,)>(sql, values![account_id]).await.map(|(bytes,)| bytes)
}

/// Number of deleted ciphertexts, and their total size in bytes.
#[derive(Clone, Copy, Default)]
struct Dropped {
    count: u64,
    bytes: i64,
}

/// Deletes ciphertexts of an account, and notes their objects as dropped. Skips ciphertexts that are deleted already.
/// The caller has locked the account's cache.
async fn drop_ciphertexts(tx: &mut Tx, account_id: &str, ciphertext_ids: &[String], now: i64) -> Result<Dropped> {
    let mut dropped = Dropped::default();
    let mut of_keys: BTreeMap<String, i64> = BTreeMap::new();
    for ciphertext_id in ciphertext_ids {
        let sql = "DELETE FROM ciphertexts WHERE ciphertext_id = $1 AND account_id = $2 RETURNING key_id, object, node_id, bytes";
        let gone: Option<(String, String, String, i64)> =
            tx.fetch_optional(sql, values![ciphertext_id, account_id]).await?;
        let Some((key_id, object, node_id, bytes)) = gone else { continue };
        tx.drop_object(CIPHERTEXT_OBJECTS, &node_id, &object, now).await?;
        dropped.count += 1;
        dropped.bytes += bytes;
        *of_keys.entry(key_id).or_default() += 1;
    }
    for (key_id, count) in &of_keys {
        let sql = "UPDATE encryption_keys SET ciphertext_count = ciphertext_count - $2 WHERE key_id = $1";
        tx.execute(sql, values![key_id, *count]).await?;
    }
    if dropped.count > 0 {
        let sql = "UPDATE ciphertext_caches SET bytes = bytes - $2 WHERE account_id = $1";
        tx.execute(sql, values![account_id, dropped.bytes]).await?;
    }
    Ok(dropped)
}
