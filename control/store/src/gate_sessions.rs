//! Gate sessions and the usage record of their gates.

use crate::database::{Tx, from_row, values};
use crate::kept_answers::{KeptAnswer, keep};
use crate::pages::{Rows, page};
use crate::{Result, Store};

/// A session that was just opened.
#[derive(Clone, Debug)]
pub struct NewGateSession<'a> {
    /// SHA-256 of the session id (readings X16: ids are secrets).
    pub digest: &'a [u8; 32],
    /// Owner.
    pub account_id: &'a str,
    /// Environment of the key that opened it (readings X15).
    pub environment: &'a str,
    /// The node that holds its key.
    pub node_id: &'a str,
    /// The specification's name of its preset.
    pub preset: &'a str,
    /// The server holds no secret key of it.
    pub is_blind: bool,
    /// Another library made its key.
    pub imported: bool,
    /// Now, in microseconds since 1970.
    pub created_at: i64,
    /// When it ends (readings G2: fixed).
    pub expires_at: i64,
    /// Its id, encrypted: every node of the database lists it.
    pub sealed_id: &'a [u8],
    /// Open sessions that the account may have, with this one; `None`: any number.
    pub open_max: Option<i64>,
}

/// A session as remembered. Times in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateSession {
    /// SHA-256 of the session id.
    pub digest: Vec<u8>,
    /// The session id, encrypted; none once it has ended.
    pub sealed_id: Option<Vec<u8>>,
    /// The node that holds its key.
    pub node_id: Option<String>,
    /// Until when that node is surely there; none if it stopped in order.
    pub lease_until: Option<i64>,
    /// The specification's name of its preset.
    pub preset: String,
    /// The server holds no secret key of it.
    pub is_blind: bool,
    /// Another library made its key.
    pub imported: bool,
    /// `active`, `deleted`, `expired` or `lost`.
    pub state: String,
    /// When it was opened.
    pub created_at: i64,
    /// When it ends by itself.
    pub expires_at: i64,
    /// When it ended.
    pub ended_at: Option<i64>,
    /// Gates evaluated.
    pub gates_used: i64,
    /// What they cost.
    pub total_cost_milli_yen: i64,
}

from_row!(GateSession {
    digest,
    sealed_id,
    node_id,
    lease_until,
    preset,
    is_blind,
    imported,
    state,
    created_at,
    expires_at,
    ended_at,
    gates_used,
    total_cost_milli_yen
});

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// By its owner.
    Deleted,
    /// By time.
    Expired,
    /// The node that held its key stopped (readings G13).
    Lost,
}

impl SessionEnd {
    /// The word in the column `state`.
    pub fn as_str(self) -> &'static str {
        match self {
            SessionEnd::Deleted => "deleted",
            SessionEnd::Expired => "expired",
            SessionEnd::Lost => "lost",
        }
    }
}

/// How opening a session went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionOpened {
    /// It is on record.
    Opened,
    /// The account has as many open ones as it may.
    TooMany {
        /// When the first of them ends, in microseconds since 1970; `None`: it may have none at all.
        first_ends_at: Option<i64>,
    },
    /// There is no such account, or it was erased.
    NoAccount,
}

/// What one operation used and costs.
#[derive(Clone, Debug)]
pub struct GateUsage<'a> {
    /// `use_...`
    pub usage_id: &'a str,
    /// Its session.
    pub session_digest: &'a [u8; 32],
    /// Owner.
    pub account_id: &'a str,
    /// Environment of the key that asked.
    pub environment: &'a str,
    /// Gates of the operation.
    pub gates: i64,
    /// JSON object: gate name to count.
    pub by_gate: &'a str,
    /// Bootstrap operations by the tariff.
    pub bootstrap_ops: i64,
    /// Bootstraps really done.
    pub bootstraps_done: i64,
    /// What it costs.
    pub cost_milli_yen: i64,
    /// Wall time of the evaluation.
    pub compute_us: i64,
    /// Now, in microseconds since 1970.
    pub created_at: i64,
}

/// Selects whole [`GateSession`]s; more columns and what follows the table are given.
macro_rules! select_sessions {
    ($($rest:tt)*) => {
        concat!(
            "SELECT digest, sealed_id, node_id, ",
            "(SELECT lease_until FROM nodes n WHERE n.node_id = gate_sessions.node_id) AS lease_until, ",
            "preset, is_blind, imported, state, created_at, expires_at, ended_at, gates_used, total_cost_milli_yen",
            $($rest)*
        )
    };
}

/// The open sessions of account `$1` at `$2`, as node `$3` sees them: those of a node that does not answer any more are
/// lost (readings G13).
macro_rules! open_of_account {
    () => {
        "account_id = $1 AND state = 'active' AND expires_at > $2 AND (node_id = $3 OR EXISTS \
         (SELECT 1 FROM nodes n WHERE n.node_id = gate_sessions.node_id AND n.lease_until > $2))"
    };
}

impl Store {
    /// Remembers an opened session, and the answer that tells of it, if the account may have one more.
    pub async fn insert_gate_session(
        &self,
        session: &NewGateSession<'_>,
        kept: Option<&KeptAnswer>,
    ) -> Result<SessionOpened> {
        let mut tx = self.db.begin().await?;
        // of two sessions at once the second counts the first
        let lock = "UPDATE accounts SET created_at = created_at WHERE account_id = $1 AND erased_at IS NULL";
        if tx.execute(lock, values![session.account_id]).await? == 0 {
            return Ok(SessionOpened::NoAccount);
        }
        let sql = concat!("SELECT COUNT(*), MIN(expires_at) FROM gate_sessions WHERE ", open_of_account!());
        let (open, first_ends_at): (i64, Option<i64>) =
            tx.fetch_one(sql, values![session.account_id, session.created_at, session.node_id]).await?;
        if session.open_max.is_some_and(|max| open >= max) {
            return Ok(SessionOpened::TooMany { first_ends_at });
        }
        let sql = "INSERT INTO gate_sessions (digest, account_id, environment, preset, is_blind, state, created_at, expires_at, \
             node_id, sealed_id, imported) VALUES ($1, $2, $3, $4, $5, 'active', $6, $7, $8, $9, $10)";
        tx.execute(
            sql,
            values![
                session.digest,
                session.account_id,
                session.environment,
                session.preset,
                session.is_blind,
                session.created_at,
                session.expires_at,
                session.node_id,
                session.sealed_id,
                session.imported
            ],
        )
        .await?;
        keep(&mut tx, kept).await?;
        tx.commit().await?;
        Ok(SessionOpened::Opened)
    }

    /// A session of this account, in whatever state.
    pub async fn gate_session(&self, account_id: &str, digest: &[u8; 32]) -> Result<Option<GateSession>> {
        let sql = select_sessions!(" FROM gate_sessions WHERE digest = $1 AND account_id = $2");
        self.db.fetch_optional(sql, values![digest, account_id]).await
    }

    /// A page of this account's open sessions, on whichever node of the database they are, as node `asking` sees them.
    pub async fn gate_sessions_page(
        &self,
        account_id: &str,
        asking: &str,
        now: i64,
        after: Option<(i64, &[u8])>,
        rows_max: i64,
    ) -> Result<Rows<GateSession>> {
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

    /// Ends a session. False: it was not active.
    pub async fn end_gate_session(&self, digest: &[u8; 32], end: SessionEnd, at: i64) -> Result<bool> {
        let done = self
            .db
            .execute(
                "UPDATE gate_sessions SET state = $2, ended_at = $3, sealed_id = NULL WHERE digest = $1 AND state = 'active'",
                values![digest, end.as_str(), at],
            )
            .await?;
        Ok(done == 1)
    }

    /// Ends the sessions of this node whose time is over, in one statement. Returns how many.
    pub async fn expire_gate_sessions(&self, node_id: &str, now: i64) -> Result<u64> {
        let sql = "UPDATE gate_sessions SET state = 'expired', ended_at = $2, sealed_id = NULL \
             WHERE state = 'active' AND node_id = $1 AND expires_at <= $2";
        self.db.execute(sql, values![node_id, now]).await
    }

    /// Ends the sessions of an account on this node as deleted. Returns how many.
    pub async fn end_gate_sessions_of(&self, account_id: &str, node_id: &str, at: i64) -> Result<u64> {
        let sql = "UPDATE gate_sessions SET state = 'deleted', ended_at = $3, sealed_id = NULL \
             WHERE state = 'active' AND account_id = $1 AND node_id = $2";
        self.db.execute(sql, values![account_id, node_id, at]).await
    }

    /// Removes sessions that ended before this time and that no usage and no run of a circuit names. Returns how many.
    pub async fn forget_gate_sessions(&self, ended_before: i64) -> Result<u64> {
        let sql = "DELETE FROM gate_sessions WHERE COALESCE(ended_at, expires_at) < $1 AND expires_at < $1 \
             AND gates_used = 0 AND NOT EXISTS (SELECT 1 FROM gate_usage u WHERE u.session_digest = gate_sessions.digest) \
             AND NOT EXISTS (SELECT 1 FROM circuit_operations o WHERE o.session_digest = gate_sessions.digest)";
        self.db.execute(sql, values![ended_before]).await
    }

    /// Ends every active session of this node as lost (readings G13): their keys are in no process any more. So are those
    /// from before nodes had names. Returns how many.
    pub async fn lose_gate_sessions(&self, node_id: &str, at: i64) -> Result<u64> {
        let sql = "UPDATE gate_sessions SET state = 'lost', ended_at = $2, sealed_id = NULL \
             WHERE state = 'active' AND (node_id = $1 OR node_id IS NULL)";
        self.db.execute(sql, values![node_id, at]).await
    }

    /// The digests of this node's sessions that have not ended. One that the node holds and that is not among them was
    /// deleted by way of another node.
    pub async fn active_sessions_of(&self, node_id: &str) -> Result<Vec<Vec<u8>>> {
        let sql = "SELECT digest FROM gate_sessions WHERE node_id = $1 AND state = 'active'";
        let rows: Vec<(Vec<u8>,)> = self.db.fetch_all(sql, values![node_id]).await?;
        Ok(rows.into_iter().map(|(digest,)| digest).collect())
    }

    /// Charges an operation: its usage row, its session's totals and the answer to keep, all or nothing. A session that
    /// ended while the operation ran is charged too: the work was completed (readings P24).
    pub async fn charge_gates(&self, usage: &GateUsage<'_>, kept: Option<&KeptAnswer>) -> Result<()> {
        let mut tx = self.db.begin().await?;
        charge(&mut tx, usage).await?;
        keep(&mut tx, kept).await?;
        tx.commit().await
    }

    /// Gates, tariff bootstraps and milli-yen of all usage rows of an account.
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

/// What an account used in a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageTotals {
    /// Environment of the keys.
    pub environment: String,
    /// Requests: gates, batches, circuits.
    pub operations: i64,
    /// Gates.
    pub gates: i64,
    /// Bootstrap operations, by the tariff.
    pub bootstrap_ops: i64,
    /// What was charged.
    pub cost_milli_yen: i64,
    /// Time of devices.
    pub compute_us: i64,
}

from_row!(UsageTotals { environment, operations, gates, bootstrap_ops, cost_milli_yen, compute_us });

impl Store {
    /// What an account used from one moment to before another, by environment.
    pub async fn usage_between(&self, account_id: &str, from: i64, to: i64) -> Result<Vec<UsageTotals>> {
        let sql = "SELECT environment, COUNT(*) AS operations, CAST(SUM(gates) AS BIGINT) AS gates, \
             CAST(SUM(bootstrap_ops) AS BIGINT) AS bootstrap_ops, \
             CAST(SUM(cost_milli_yen) AS BIGINT) AS cost_milli_yen, CAST(SUM(compute_us) AS BIGINT) AS compute_us \
             FROM gate_usage WHERE account_id = $1 AND created_at >= $2 AND created_at < $3 \
             GROUP BY environment ORDER BY environment";
        self.db.fetch_all(sql, values![account_id, from, to]).await
    }
}

/// Adds to the session's totals and writes the usage row, within the caller's transaction.
pub(crate) async fn charge(tx: &mut Tx, usage: &GateUsage<'_>) -> Result<()> {
    let session = tx
        .execute(
            "UPDATE gate_sessions SET gates_used = gates_used + $2, \
         total_cost_milli_yen = total_cost_milli_yen + $3 WHERE digest = $1",
            values![usage.session_digest, usage.gates, usage.cost_milli_yen],
        )
        .await?;
    if session != 1 {
        return Err(sqlx::Error::RowNotFound.into());
    }
    let sql = "INSERT INTO gate_usage (usage_id, session_digest, account_id, environment, gates, by_gate, bootstrap_ops, \
         bootstraps_done, cost_milli_yen, compute_us, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    tx.execute(
        sql,
        values![
            usage.usage_id,
            usage.session_digest,
            usage.account_id,
            usage.environment,
            usage.gates,
            usage.by_gate,
            usage.bootstrap_ops,
            usage.bootstraps_done,
            usage.cost_milli_yen,
            usage.compute_us,
            usage.created_at
        ],
    )
    .await?;
    Ok(())
}
