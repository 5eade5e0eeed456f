//! Trials: accounts that have one API key. A trial ends after a fixed time, and everything that it owns is erased
//! (readings A12-A15).

use crate::api_keys::{NewApiKey, insert};
use crate::database::{Tx, from_row, locking, values};
use crate::{Result, Store};

/// A trial that is not erased yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// When the trial ends, in microseconds since 1970.
    pub expires_at: i64,
    /// Number of operations that are completed or running.
    pub operations_used: i64,
}

from_row!(Trial { expires_at, operations_used });

/// A key of a trial that is neither revoked nor expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialKey {
    /// The owner's account.
    pub account_id: String,
    /// The lineage's id. A key and its rotated successors have the same lineage.
    pub lineage_id: String,
    /// Tags of longer prefixes of the key (`prefix_tags`), if the key has such tags.
    pub prefix_tags: Option<Vec<u8>>,
}

from_row!(TrialKey { account_id, lineage_id, prefix_tags });

/// A network's limit on trial keys within a sliding window of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrialWindow<'a> {
    /// Keyed digest of the network's address.
    pub network: &'a [u8; 32],
    /// Largest number of keys within the window.
    pub keys_max: usize,
    /// Length of the window in microseconds.
    pub length: i64,
}

/// The result of making a trial key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialKeyMade {
    /// The key was made and counted.
    Made,
    /// The network already has as many keys as the window allows. Nothing was changed.
    TooMany {
        /// When the oldest of these keys was made, in microseconds since 1970.
        oldest_at: i64,
    },
}

impl Store {
    /// Writes a trial key and begins its trial, if the network may have one more trial key. `prefix_tags` distinguish
    /// keys with the same display prefix.
    pub async fn insert_trial_key(
        &self,
        key: &NewApiKey<'_>,
        prefix_tags: &[u8],
        window: TrialWindow<'_>,
    ) -> Result<TrialKeyMade> {
        let mut tx = self.db.begin().await?;
        if let Some(oldest_at) = count(&mut tx, window, key.created_at).await? {
            return Ok(TrialKeyMade::TooMany { oldest_at });
        }
        insert(&mut tx, key).await?;
        let sql = "UPDATE api_keys SET prefix_tags = $2 WHERE key_id = $1";
        tx.execute(sql, values![key.key_id, prefix_tags]).await?;
        tx.commit().await?;
        Ok(TrialKeyMade::Made)
    }

    /// Deletes the windows in which no trial key counts any more.
    pub async fn forget_trial_windows(&self, now: i64) -> Result<u64> {
        self.db.execute("DELETE FROM trial_windows WHERE expires_at <= $1", values![now]).await
    }

    /// Deletes the accounts of trials that were erased before this time. Returns the number of accounts.
    pub async fn forget_erased_accounts(&self, erased_before: i64) -> Result<u64> {
        self.db.execute("DELETE FROM accounts WHERE erased_at < $1", values![erased_before]).await
    }

    /// Returns the valid trial keys with this display prefix.
    pub async fn trial_keys(&self, key_prefix: &str, now: i64) -> Result<Vec<TrialKey>> {
        let sql = "SELECT account_id, lineage_id, prefix_tags FROM api_keys WHERE environment = 'trial' AND key_prefix = $1 \
             AND revoked_at IS NULL AND expires_at > $2";
        self.db.fetch_all(sql, values![key_prefix, now]).await
    }

    /// Returns the trial of this account.
    pub async fn trial(&self, account_id: &str) -> Result<Option<Trial>> {
        let sql = "SELECT expires_at, operations_used FROM trials WHERE account_id = $1";
        self.db.fetch_optional(sql, values![account_id]).await
    }

    /// Returns the accounts of trials that have expired or have no valid key, the oldest first, at most `limit`.
    pub async fn ended_trials(&self, now: i64, limit: i64) -> Result<Vec<String>> {
        let sql = "SELECT account_id FROM trials t WHERE t.expires_at <= $1 OR NOT EXISTS (SELECT 1 FROM api_keys k \
             WHERE k.account_id = t.account_id AND k.revoked_at IS NULL AND k.expires_at > $1) \
             ORDER BY t.expires_at, account_id LIMIT $2";
        let rows: Vec<(String,)> = self.db.fetch_all(sql, values![now, limit]).await?;
        Ok(rows.into_iter().map(|(account_id,)| account_id).collect())
    }

    /// Erases everything that an ended trial owns: sessions, usage, circuits and their runs, encryption keys and
    /// ciphertexts, stored answers, counts, keys. The account's row stays, with the time of the erasure. False: a
    /// session was open after `quiet_since`, so running work may still be recorded, and nothing was erased.
    pub async fn erase_trial(&self, account_id: &str, quiet_since: i64, now: i64) -> Result<bool> {
        let mut tx = self.db.begin().await?;
        tx.lock_account(account_id).await?;
        // lock the trial before its sessions, as transactions that count operations do
        let sql = locking!("SELECT account_id FROM trials WHERE account_id = $1");
        tx.fetch_optional::<(String,)>(sql, values![account_id]).await?;
        let sql = "SELECT COUNT(*) FROM gate_sessions WHERE account_id = $1 \
             AND (ended_at > $2 OR (state = 'active' AND expires_at > $2))";
        let (open,): (i64,) = tx.fetch_one(sql, values![account_id, quiet_since]).await?;
        if open > 0 {
            return Ok(false);
        }
        tx.erase_keys_of(account_id, now).await?;
        for sql in [
            "DELETE FROM gate_usage WHERE account_id = $1",
            "DELETE FROM operations WHERE account_id = $1",
            "DELETE FROM gate_sessions WHERE account_id = $1",
            "DELETE FROM circuits WHERE account_id = $1",
            "DELETE FROM open_reservations WHERE account_id = $1",
            "DELETE FROM transfers WHERE account_id = $1",
            "DELETE FROM operation_counts WHERE account_id = $1",
            "DELETE FROM ledger_accounts WHERE account_id = $1",
            "DELETE FROM webhooks WHERE account_id = $1",
            "DELETE FROM deliveries WHERE account_id = $1",
            "DELETE FROM kept_answers WHERE account_id = $1",
            "DELETE FROM request_counts WHERE subject = $1",
            "DELETE FROM api_keys WHERE account_id = $1",
            "DELETE FROM trials WHERE account_id = $1",
        ] {
            tx.execute(sql, values![account_id]).await?;
        }
        tx.execute("UPDATE accounts SET erased_at = $2 WHERE account_id = $1", values![account_id, now]).await?;
        tx.commit().await?;
        Ok(true)
    }
}

/// Counts a new key, unless the window is full. If the window is full, returns the time of the oldest key in the
/// window.
async fn count(tx: &mut Tx, window: TrialWindow<'_>, now: i64) -> Result<Option<i64>> {
    let none: &[u8] = &[];
    // the update changes nothing, but it locks the row and returns it
    let sql = "INSERT INTO trial_windows (network, given, expires_at) VALUES ($1, $2, 0) \
         ON CONFLICT (network) DO UPDATE SET network = excluded.network RETURNING given";
    let (given,): (Vec<u8>,) = tx.fetch_one(sql, values![window.network, none]).await?;
    let given = given.as_chunks().0.iter().map(|bytes| i64::from_be_bytes(*bytes));
    // do not count keys that are older than the window; do not count keys whose time is far in the future either,
    // because they were made before the clock was set back
    let mut given: Vec<i64> = given.filter(|at| (now - at).abs() < window.length).collect();
    if given.len() >= window.keys_max {
        return Ok(given.first().copied());
    }
    given.push(now);
    let given: Vec<u8> = given.iter().flat_map(|at| at.to_be_bytes()).collect();
    let sql = "UPDATE trial_windows SET given = $2, expires_at = $3 WHERE network = $1";
    tx.execute(sql, values![window.network, &given, now + window.length]).await?;
    Ok(None)
}
