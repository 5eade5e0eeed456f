//! Gate sessions and the usage record of their gates.

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
    /// The specification's name of its preset.
    pub preset: &'a str,
    /// The server holds no secret key of it.
    pub is_blind: bool,
    /// Now, in microseconds since 1970.
    pub created_at: i64,
    /// When it ends (readings G2: fixed).
    pub expires_at: i64,
}

/// A session as remembered. Times in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct GateSession {
    /// SHA-256 of the session id.
    pub digest: Vec<u8>,
    /// The specification's name of its preset.
    pub preset: String,
    /// The server holds no secret key of it.
    pub is_blind: bool,
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

impl Store {
    /// Remembers an opened session.
    pub async fn insert_gate_session(&self, session: &NewGateSession<'_>) -> Result<()> {
        sqlx::query(
            "INSERT INTO gate_sessions (digest, account_id, environment, preset, is_blind, state, created_at, expires_at) \
             VALUES ($1, $2, $3, $4, $5, 'active', $6, $7)",
        )
        .bind(&session.digest[..])
        .bind(session.account_id)
        .bind(session.environment)
        .bind(session.preset)
        .bind(session.is_blind)
        .bind(session.created_at)
        .bind(session.expires_at)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// A session of this account, in whatever state.
    pub async fn gate_session(&self, account_id: &str, digest: &[u8; 32]) -> Result<Option<GateSession>> {
        Ok(sqlx::query_as(
            "SELECT digest, preset, is_blind, state, created_at, expires_at, ended_at, gates_used, total_cost_milli_yen \
             FROM gate_sessions WHERE digest = $1 AND account_id = $2",
        )
        .bind(&digest[..])
        .bind(account_id)
        .fetch_optional(&self.pool)
        .await?)
    }

    /// The active sessions of this account, newest first.
    pub async fn active_gate_sessions(&self, account_id: &str) -> Result<Vec<GateSession>> {
        Ok(sqlx::query_as(
            "SELECT digest, preset, is_blind, state, created_at, expires_at, ended_at, gates_used, total_cost_milli_yen \
             FROM gate_sessions WHERE account_id = $1 AND state = 'active' ORDER BY created_at DESC, digest",
        )
        .bind(account_id)
        .fetch_all(&self.pool)
        .await?)
    }

    /// Ends a session. False: it was not active.
    pub async fn end_gate_session(&self, digest: &[u8; 32], end: SessionEnd, at: i64) -> Result<bool> {
        let done =
            sqlx::query("UPDATE gate_sessions SET state = $2, ended_at = $3 WHERE digest = $1 AND state = 'active'")
                .bind(&digest[..])
                .bind(end.as_str())
                .bind(at)
                .execute(&self.pool)
                .await?;
        Ok(done.rows_affected() == 1)
    }

    /// Ends every active session as lost (readings G13): their keys are in no process any more. Returns how many.
    pub async fn lose_gate_sessions(&self, at: i64) -> Result<u64> {
        let done = sqlx::query("UPDATE gate_sessions SET state = 'lost', ended_at = $1 WHERE state = 'active'")
            .bind(at)
            .execute(&self.pool)
            .await?;
        Ok(done.rows_affected())
    }

    /// Charges an operation: its usage row and its session's totals, both or neither. A session that ended while the
    /// operation ran is charged too: the work was completed (readings P24).
    pub async fn charge_gates(&self, usage: &GateUsage<'_>) -> Result<()> {
        let mut tx = self.pool.begin().await?;
        charge(&mut tx, usage).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Gates, tariff bootstraps and milli-yen of all usage rows of an account.
    pub async fn gate_usage_totals(&self, account_id: &str) -> Result<(i64, i64, i64)> {
        Ok(sqlx::query_as(
            "SELECT CAST(COALESCE(SUM(gates), 0) AS BIGINT), CAST(COALESCE(SUM(bootstrap_ops), 0) AS BIGINT), \
             CAST(COALESCE(SUM(cost_milli_yen), 0) AS BIGINT) FROM gate_usage WHERE account_id = $1",
        )
        .bind(account_id)
        .fetch_one(&self.pool)
        .await?)
    }
}

/// Adds to the session's totals and writes the usage row, within the caller's transaction.
pub(crate) async fn charge(connection: &mut sqlx::SqliteConnection, usage: &GateUsage<'_>) -> Result<()> {
    let session = sqlx::query(
        "UPDATE gate_sessions SET gates_used = gates_used + $2, \
         total_cost_milli_yen = total_cost_milli_yen + $3 WHERE digest = $1",
    )
    .bind(&usage.session_digest[..])
    .bind(usage.gates)
    .bind(usage.cost_milli_yen)
    .execute(&mut *connection)
    .await?;
    if session.rows_affected() != 1 {
        return Err(sqlx::Error::RowNotFound.into());
    }
    sqlx::query(
        "INSERT INTO gate_usage (usage_id, session_digest, account_id, environment, gates, by_gate, bootstrap_ops, \
         bootstraps_done, cost_milli_yen, compute_us, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
    )
    .bind(usage.usage_id)
    .bind(&usage.session_digest[..])
    .bind(usage.account_id)
    .bind(usage.environment)
    .bind(usage.gates)
    .bind(usage.by_gate)
    .bind(usage.bootstrap_ops)
    .bind(usage.bootstraps_done)
    .bind(usage.cost_milli_yen)
    .bind(usage.compute_us)
    .bind(usage.created_at)
    .execute(&mut *connection)
    .await?;
    Ok(())
}
