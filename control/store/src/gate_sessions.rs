//! Gate sessions, and the usage rows of their gates.

use std::collections::BTreeMap;

use api::Environment;

use crate::database::{Tx, from_row, locking, values};
use crate::pages::{PageRows, page};
use crate::{Result, Store};

/// A session to write.
#[derive(Clone, Debug)]
pub struct NewGateSession<'a> {
    /// SHA-256 of the session id (readings X16: ids are secrets).
    pub digest: &'a [u8; 32],
    /// The owner's account.
    pub account_id: &'a str,
    /// Environment of the API key that opened the session (readings X15).
    pub environment: Environment,
    /// The node that holds the session's key.
    pub node_id: &'a str,
    /// The preset's name in the specification.
    pub preset: &'a str,
    /// Whether the session is blind: the server does not hold the secret key.
    pub is_blind: bool,
    /// Whether the key was imported: another library made the key.
    pub imported: bool,
    /// Now, in microseconds since 1970.
    pub created_at: i64,
    /// When the session expires. This time never changes (readings G2).
    pub expires_at: i64,
    /// The session's id, sealed, so that every node of the database can list the session.
    pub sealed_id: &'a [u8],
    /// Largest number of open sessions of the account, including this one. `None`: no limit.
    pub open_max: Option<i64>,
    /// The key at rest, if all members of a fleet share it.
    pub key: Option<&'a FleetKey>,
}

/// The node of all sessions of a fleet, whose keys all members share.
pub const FLEET: &str = "fleet";

/// A session's evaluation key, as an object that all members of a fleet share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetKey {
    /// The object's name.
    pub object: String,
    /// The object's size in bytes.
    pub bytes: i64,
    /// The data key under which the object is sealed, itself sealed.
    pub secret: Vec<u8>,
    /// JSON: the key's parameters and fingerprint.
    pub facts: String,
}

/// The key of an open session of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFleetKey {
    /// The object's name.
    pub object: String,
    /// The sealed data key.
    pub secret: Vec<u8>,
    /// JSON: the key's parameters and fingerprint.
    pub facts: String,
    /// When the session expires, in microseconds since 1970.
    pub expires_at: i64,
    /// The size in bytes of the values that the session keeps.
    pub value_bytes: i64,
}

from_row!(OpenFleetKey { object, secret, facts, expires_at, value_bytes });

/// A session's row. Times in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateSession {
    /// SHA-256 of the session id.
    pub digest: Vec<u8>,
    /// The session's id, sealed. `None` after the session's end.
    pub sealed_id: Option<Vec<u8>>,
    /// The node that holds the session's key.
    pub node_id: Option<String>,
    /// When the lease of this node ends. `None` if the node was shut down normally.
    pub lease_until: Option<i64>,
    /// Environment of the API key that opened the session.
    pub environment: Environment,
    /// The preset's name in the specification.
    pub preset: String,
    /// Whether the session is blind: the server does not hold the secret key.
    pub is_blind: bool,
    /// Whether the key was imported: another library made the key.
    pub imported: bool,
    /// Whether the session is open, or how it ended.
    pub state: RecordedState,
    /// When the session was opened.
    pub created_at: i64,
    /// When the session expires.
    pub expires_at: i64,
    /// When the session ended.
    pub ended_at: Option<i64>,
    /// Number of gates that were evaluated.
    pub gates_used: i64,
    /// The price of all gates of the session, in thousandths of a yen.
    pub total_cost_milli_yen: i64,
}

from_row!(GateSession {
    digest,
    sealed_id,
    node_id,
    lease_until,
    environment as word,
    preset,
    is_blind,
    imported,
    state as word,
    created_at,
    expires_at,
    ended_at,
    gates_used,
    total_cost_milli_yen
});

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// The owner deleted the session.
    Deleted,
    /// The session expired.
    Expired,
    /// The node that held the session's key stopped (readings G13).
    Lost,
}

impl From<SessionEnd> for RecordedState {
    fn from(end: SessionEnd) -> Self {
        match end {
            SessionEnd::Deleted => RecordedState::Deleted,
            SessionEnd::Expired => RecordedState::Expired,
            SessionEnd::Lost => RecordedState::Lost,
        }
    }
}

/// The recorded state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedState {
    /// No end of the session is recorded. The session may still have expired.
    Active,
    /// Like [`SessionEnd::Deleted`].
    Deleted,
    /// Like [`SessionEnd::Expired`].
    Expired,
    /// Like [`SessionEnd::Lost`].
    Lost,
}

api::words!(RecordedState, "state of a session", {
    Active = "active",
    Deleted = "deleted",
    Expired = "expired",
    Lost = "lost",
});

/// The result of opening a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionOpened {
    /// The session is written.
    Opened,
    /// The account already has as many open sessions as it may have.
    TooMany {
        /// When the first of the open sessions ends, in microseconds since 1970. `None`: the account may not have
        /// sessions.
        first_ends_at: Option<i64>,
    },
    /// The account does not exist or was erased.
    NoAccount,
}

/// The usage row of one operation of a session.
#[derive(Clone, Debug)]
pub struct GateUsage {
    /// `use_...`
    pub usage_id: String,
    /// The transfer that paid for the operation. `None`: the operation was free.
    pub transfer_id: Option<String>,
    /// SHA-256 of the session's id.
    pub session_digest: [u8; 32],
    /// The owner's account.
    pub account_id: String,
    /// Environment of the API key.
    pub environment: Environment,
    /// Number of gates.
    pub gates: i64,
    /// JSON object: the number of gates under each gate's name.
    pub by_gate: String,
    /// Number of bootstraps that the tariff charges.
    pub bootstrap_ops: i64,
    /// Number of bootstraps that were run.
    pub bootstraps_done: i64,
    /// The charge, in thousandths of a yen.
    pub cost_milli_yen: i64,
    /// Wall time of the evaluation.
    pub compute_us: i64,
    /// Now, in microseconds since 1970.
    pub created_at: i64,
}

/// Builds a query for all columns of [`GateSession`]s. `$rest` contains further columns and the rest of the statement,
/// from the table on.
macro_rules! select_sessions {
    ($($rest:tt)*) => {
        concat!(
            "SELECT digest, sealed_id, node_id, ",
            "(SELECT lease_until FROM nodes n WHERE n.node_id = gate_sessions.node_id) AS lease_until, ",
            "environment, preset, is_blind, imported, state, created_at, expires_at, ended_at, gates_used, total_cost_milli_yen",
            $($rest)*
        )
    };
}

/// Builds a statement that ends the active sessions that meet a condition. On PostgreSQL the statement first locks the
/// sessions' rows in the order of their digests. Charges of several sessions use the same order, because otherwise two
/// transactions can deadlock.
macro_rules! end_sessions {
    ($state:literal, $ended_at:literal, $condition:literal) => {
        $crate::database::Sql {
            sqlite: concat!(
                "UPDATE gate_sessions SET state = ",
                $state,
                ", ended_at = ",
                $ended_at,
                ", sealed_id = NULL, key_secret = NULL ",
                "WHERE state = 'active' AND ",
                $condition
            ),
            postgres: concat!(
                "UPDATE gate_sessions SET state = ",
                $state,
                ", ended_at = ",
                $ended_at,
                ", sealed_id = NULL, key_secret = NULL ",
                "WHERE digest IN (SELECT digest FROM gate_sessions WHERE state = 'active' AND ",
                $condition,
                " ORDER BY digest FOR NO KEY UPDATE)"
            ),
        }
    };
}
pub(crate) use end_sessions;

/// A condition for the sessions of account `$1` that are open at time `$2`, as node `$3` knows them: sessions of node
/// `$3`, and sessions of other nodes whose lease has not expired. All other active sessions are lost (readings G13).
macro_rules! open_of_account {
    () => {
        "account_id = $1 AND state = 'active' AND expires_at > $2 AND (node_id = $3 OR EXISTS \
         (SELECT 1 FROM nodes n WHERE n.node_id = gate_sessions.node_id AND n.lease_until > $2))"
    };
}

impl Tx {
    /// Writes an opened session if the account may have one more. Otherwise changes nothing.
    pub async fn insert_gate_session(&mut self, session: &NewGateSession<'_>) -> Result<SessionOpened> {
        // lock the account, so that the second of two concurrent requests counts the first one's session
        let sql = locking!("SELECT account_id FROM accounts WHERE account_id = $1 AND erased_at IS NULL");
        if self.fetch_optional::<(String,)>(sql, values![session.account_id]).await?.is_none() {
            return Ok(SessionOpened::NoAccount);
        }
        let sql = concat!("SELECT COUNT(*), MIN(expires_at) FROM gate_sessions WHERE ", open_of_account!());
        let (open, first_ends_at): (i64, Option<i64>) =
            self.fetch_one(sql, values![session.account_id, session.created_at, session.node_id]).await?;
        if session.open_max.is_some_and(|max| open >= max) {
            return Ok(SessionOpened::TooMany { first_ends_at });
        }
        let sql = "INSERT INTO gate_sessions (digest, account_id, environment, preset, is_blind, state, created_at, expires_at, \
             node_id, sealed_id, imported, key_object, key_bytes, key_secret, key_facts) \
             VALUES ($1, $2, $3, $4, $5, 'active', $6, $7, $8, $9, $10, $11, $12, $13, $14)";
        let values = values![
            session.digest,
            session.account_id,
            session.environment,
            session.preset,
            session.is_blind,
            session.created_at,
            session.expires_at,
            session.node_id,
            session.sealed_id,
            session.imported,
            session.key.map(|key| key.object.as_str()),
            session.key.map(|key| key.bytes),
            session.key.map(|key| key.secret.as_slice()),
            session.key.map(|key| key.facts.as_str())
        ];
        self.execute(sql, values).await?;
        Ok(SessionOpened::Opened)
    }
}

impl Store {
    /// Returns a session of this account, in any state.
    pub async fn gate_session(&self, account_id: &str, digest: &[u8; 32]) -> Result<Option<GateSession>> {
        let sql = select_sessions!(" FROM gate_sessions WHERE digest = $1 AND account_id = $2");
        self.db.fetch_optional(sql, values![digest, account_id]).await
    }

    /// Returns the key of an open session of a fleet. `None`: the session has ended, or its key is on one node alone.
    /// `first`: the first bytes of the session's digest, at least 16.
    pub async fn fleet_key(&self, first: &[u8]) -> Result<Option<OpenFleetKey>> {
        let sql = "SELECT key_object AS object, key_secret AS secret, key_facts AS facts, expires_at, value_bytes FROM gate_sessions \
             WHERE digest >= $1 AND digest <= $2 AND state = 'active' AND key_secret IS NOT NULL";
        let mut last = first.to_vec();
        last.resize(32, 0xff);
        self.db.fetch_optional(sql, values![first, last.as_slice()]).await
    }

    /// Returns the digests of an account's open sessions of the fleet.
    pub async fn fleet_sessions_of(&self, account_id: &str) -> Result<Vec<Vec<u8>>> {
        let sql = "SELECT digest FROM gate_sessions WHERE account_id = $1 AND node_id = $2 AND state = 'active'";
        let rows: Vec<(Vec<u8>,)> = self.db.fetch_all(sql, values![account_id, FLEET]).await?;
        Ok(rows.into_iter().map(|(digest,)| digest).collect())
    }

    /// Returns the objects of keys whose sessions have ended, with the sessions' digests.
    pub async fn ended_fleet_keys(&self, limit: i64) -> Result<Vec<(Vec<u8>, String)>> {
        let sql =
            "SELECT digest, key_object FROM gate_sessions WHERE key_object IS NOT NULL AND key_secret IS NULL LIMIT $1";
        self.db.fetch_all(sql, values![limit]).await
    }

    /// Notes that the object of an ended session's key was removed.
    pub async fn forget_fleet_key(&self, digest: &[u8]) -> Result<()> {
        let sql = "UPDATE gate_sessions SET key_object = NULL WHERE digest = $1 AND key_secret IS NULL";
        self.db.execute(sql, values![digest]).await.map(drop)
    }

    /// Returns the names of all objects of keys, for a sweep.
    pub async fn fleet_key_objects(&self) -> Result<Vec<String>> {
        let sql = "SELECT key_object FROM gate_sessions WHERE key_object IS NOT NULL";
        let rows: Vec<(String,)> = self.db.fetch_all(sql, values![]).await?;
        Ok(rows.into_iter().map(|(object,)| object).collect())
    }

    /// Returns the size in bytes of all keys of open sessions of the fleet.
    pub async fn fleet_key_bytes(&self) -> Result<i64> {
        let sql = "SELECT CAST(COALESCE(SUM(key_bytes), 0) AS BIGINT) FROM gate_sessions WHERE key_object IS NOT NULL";
        let (bytes,): (i64,) = self.db.fetch_one(sql, values![]).await?;
        Ok(bytes)
    }

    /// Returns a page of this account's open sessions on all nodes of the database, as the node `asking` knows them.
    pub async fn gate_sessions_page(
        &self,
        account_id: &str,
        asking: &str,
        now: i64,
        after: Option<(i64, &[u8])>,
        rows_max: i64,
    ) -> Result<PageRows<GateSession>> {
        let (created_at, digest) = after.unwrap_or((i64::MAX, &[]));
        page(
            &self.db,
            after.is_none(),
            (
                select_sessions!(
                    ", (SELECT COUNT(*) FROM gate_sessions WHERE ",
                    open_of_account!(),
                    ") AS total_count FROM gate_sessions WHERE ",
                    open_of_account!(),
                    " AND (created_at, digest) < ($4, $5) ORDER BY created_at DESC, digest DESC LIMIT $6"
                ),
                values![account_id, now, asking, created_at, digest, rows_max],
            ),
            (
                concat!("SELECT COUNT(*) FROM gate_sessions WHERE ", open_of_account!()),
                values![account_id, now, asking],
            ),
        )
        .await
    }

    /// Records the end of a session. False: the session was not active.
    pub async fn end_gate_session(&self, digest: &[u8; 32], end: SessionEnd, at: i64) -> Result<bool> {
        let done = self
            .db
            .execute(
                "UPDATE gate_sessions SET state = $2, ended_at = $3, sealed_id = NULL, key_secret = NULL \
                 WHERE digest = $1 AND state = 'active'",
                values![digest, RecordedState::from(end).as_str(), at],
            )
            .await?;
        Ok(done == 1)
    }

    /// Ends the expired sessions of this node in one statement. Returns the number of sessions.
    pub async fn expire_gate_sessions(&self, node_id: &str, now: i64) -> Result<u64> {
        let sql = end_sessions!("'expired'", "$2", "node_id = $1 AND expires_at <= $2");
        self.db.execute(sql, values![node_id, now]).await
    }

    /// Ends an account's sessions on this node and records them as deleted. Returns the number of sessions.
    pub async fn end_gate_sessions_of(&self, account_id: &str, node_id: &str, at: i64) -> Result<u64> {
        let sql = end_sessions!("'deleted'", "$3", "account_id = $1 AND node_id = $2");
        self.db.execute(sql, values![account_id, node_id, at]).await
    }

    /// Deletes the sessions that ended before this time, unless a usage row or a circuit's run refers to the session.
    /// Returns the number of sessions.
    pub async fn forget_gate_sessions(&self, ended_before: i64) -> Result<u64> {
        // no lock order needed: charges do not lock sessions that ended long ago
        let sql = "DELETE FROM gate_sessions WHERE COALESCE(ended_at, expires_at) < $1 AND expires_at < $1 \
             AND gates_used = 0 AND key_object IS NULL AND NOT EXISTS (SELECT 1 FROM gate_usage u WHERE u.session_digest = gate_sessions.digest) \
             AND NOT EXISTS (SELECT 1 FROM operations o WHERE o.session_digest = gate_sessions.digest)";
        self.db.execute(sql, values![ended_before]).await
    }

    /// Records all active sessions of this node as lost, because no process has their keys any more (readings G13).
    /// Also does this for active sessions of earlier versions, in which nodes had no ids. Returns the number of
    /// sessions.
    pub async fn lose_gate_sessions(&self, node_id: &str, at: i64) -> Result<u64> {
        let sql = end_sessions!("'lost'", "$2", "(node_id = $1 OR node_id IS NULL)");
        self.db.execute(sql, values![node_id, at]).await
    }

    /// Returns the digests of this node's sessions whose recorded state is active. If the node has an open session
    /// whose digest is missing here, the session was deleted through another node.
    pub async fn active_sessions_of(&self, node_id: &str) -> Result<Vec<Vec<u8>>> {
        let sql = "SELECT digest FROM gate_sessions WHERE node_id = $1 AND state = 'active'";
        let rows: Vec<(Vec<u8>,)> = self.db.fetch_all(sql, values![node_id]).await?;
        Ok(rows.into_iter().map(|(digest,)| digest).collect())
    }

    /// Returns the sums of all usage rows of an account: number of gates, number of bootstraps that the tariff charges,
    /// and charge in thousandths of a yen.
    pub async fn gate_usage_totals(&self, account_id: &str) -> Result<(i64, i64, i64)> {
        self.db
            .fetch_one(
                "SELECT CAST(COALESCE(SUM(gates), 0) AS BIGINT), CAST(COALESCE(SUM(bootstrap_ops), 0) AS BIGINT), \
             CAST(COALESCE(SUM(cost_milli_yen), 0) AS BIGINT) FROM gate_usage WHERE account_id = $1",
                values![account_id],
            )
            .await
    }
}

/// An account's use in a span of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageTotals {
    /// Environment of the API keys.
    pub environment: Environment,
    /// Number of requests. A request evaluates a gate, a batch or a circuit.
    pub operations: i64,
    /// Number of gates.
    pub gates: i64,
    /// Number of bootstraps that the tariff charges.
    pub bootstrap_ops: i64,
    /// The charge, in thousandths of a yen.
    pub cost_milli_yen: i64,
    /// Computing time in microseconds.
    pub compute_us: i64,
}

from_row!(UsageTotals { environment as word, operations, gates, bootstrap_ops, cost_milli_yen, compute_us });

impl Store {
    /// Returns an account's use in the time from `from` to just before `to`, by environment.
    pub async fn usage_between(&self, account_id: &str, from: i64, to: i64) -> Result<Vec<UsageTotals>> {
        let sql = "SELECT environment, COUNT(*) AS operations, CAST(SUM(gates) AS BIGINT) AS gates, \
             CAST(SUM(bootstrap_ops) AS BIGINT) AS bootstrap_ops, \
             CAST(SUM(cost_milli_yen) AS BIGINT) AS cost_milli_yen, CAST(SUM(compute_us) AS BIGINT) AS compute_us \
             FROM gate_usage WHERE account_id = $1 AND created_at >= $2 AND created_at < $3 \
             GROUP BY environment ORDER BY environment";
        self.db.fetch_all(sql, values![account_id, from, to]).await
    }
}

/// Writes the usage rows and adds them to the sessions' totals.
pub(crate) async fn charge_all(tx: &mut Tx, charges: Vec<&GateUsage>) -> Result<()> {
    if charges.is_empty() {
        return Ok(());
    }
    let mut sums: BTreeMap<&[u8], (i64, i64)> = BTreeMap::new();
    for charge in &charges {
        let (gates, cost) = sums.entry(&charge.session_digest).or_default();
        *gates += charge.gates;
        *cost += charge.cost_milli_yen;
    }
    let charged = add_to_sessions(tx, &sums).await?;
    if charged != sums.len() as u64 {
        return Err(sqlx::Error::RowNotFound.into());
    }
    insert_usage(tx, &charges).await
}

/// Adds a number of gates and a charge in thousandths of a yen to the totals of each session. Returns how many sessions
/// were found.
async fn add_to_sessions(tx: &mut Tx, sums: &BTreeMap<&[u8], (i64, i64)>) -> Result<u64> {
    if tx.has_arrays() && sums.len() > 1 {
        let digests: Vec<&[u8]> = sums.keys().copied().collect();
        let (gates, costs): (Vec<i64>, Vec<i64>) = sums.values().copied().unzip();
        // lock the rows in order first, because an UPDATE of many rows locks them in any order
        let sql = "SELECT 1 FROM gate_sessions WHERE digest = ANY($1) ORDER BY digest FOR NO KEY UPDATE";
        tx.execute(sql, values![digests.clone()]).await?;
        let sql = "UPDATE gate_sessions s SET gates_used = gates_used + a.gates, \
             total_cost_milli_yen = total_cost_milli_yen + a.cost \
             FROM unnest($1::bytea[], $2::bigint[], $3::bigint[]) AS a (digest, gates, cost) WHERE s.digest = a.digest";
        return tx.execute(sql, values![digests, gates, costs]).await;
    }
    let mut found = 0;
    for (digest, (gates, cost)) in sums {
        let sql = "UPDATE gate_sessions SET gates_used = gates_used + $2, \
             total_cost_milli_yen = total_cost_milli_yen + $3 WHERE digest = $1";
        found += tx.execute(sql, values![*digest, *gates, *cost]).await?;
    }
    Ok(found)
}

async fn insert_usage(tx: &mut Tx, charges: &[&GateUsage]) -> Result<()> {
    if tx.has_arrays() && charges.len() > 1 {
        let texts = |of: fn(&GateUsage) -> &str| charges.iter().map(|charge| Some(of(charge))).collect::<Vec<_>>();
        let integers = |of: fn(&GateUsage) -> i64| charges.iter().map(|charge| of(charge)).collect::<Vec<_>>();
        let sessions: Vec<&[u8]> = charges.iter().map(|charge| &charge.session_digest[..]).collect();
        let sql = "INSERT INTO gate_usage (usage_id, session_digest, account_id, environment, gates, by_gate, bootstrap_ops, \
             bootstraps_done, cost_milli_yen, compute_us, created_at, transfer_id) \
             SELECT * FROM unnest($1::text[], $2::bytea[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::bigint[], \
             $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::text[])";
        let values = values![
            texts(|charge| &charge.usage_id),
            sessions,
            texts(|charge| &charge.account_id),
            texts(|charge| charge.environment.as_str()),
            integers(|charge| charge.gates),
            texts(|charge| &charge.by_gate),
            integers(|charge| charge.bootstrap_ops),
            integers(|charge| charge.bootstraps_done),
            integers(|charge| charge.cost_milli_yen),
            integers(|charge| charge.compute_us),
            integers(|charge| charge.created_at),
            charges.iter().map(|charge| charge.transfer_id.as_deref()).collect::<Vec<_>>(),
        ];
        return tx.execute(sql, values).await.map(drop);
    }
    for charge in charges {
        let sql = "INSERT INTO gate_usage (usage_id, session_digest, account_id, environment, gates, by_gate, bootstrap_ops, \
             bootstraps_done, cost_milli_yen, compute_us, created_at, transfer_id) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
        let values = values![
            &charge.usage_id,
            &charge.session_digest,
            &charge.account_id,
            charge.environment,
            charge.gates,
            &charge.by_gate,
            charge.bootstrap_ops,
            charge.bootstraps_done,
            charge.cost_milli_yen,
            charge.compute_us,
            charge.created_at,
            charge.transfer_id.as_deref(),
        ];
        tx.execute(sql, values).await?;
    }
    Ok(())
}
