//! Everything of a session that any node of the database can read: the session's record, and how answers tell it.

use std::borrow::Cow;
use std::time::Duration;

use api::gates::{SecurityClaim, Session, SessionState};
use api::{AccountId, Code, MilliYen, SessionId};
use sha2::{Digest as _, Sha256};
use store::{FleetKey, GateSession, NewGateSession, RecordedState, SessionEnd};

use crate::caller::Environment;
use crate::clock::Timestamp;
use crate::web::error::ApiError;

/// Length of the idle phase, the end of a session's life (readings G2).
const IDLE: Duration = Duration::from_secs(5 * 60);
/// How long the error for an ended session says how the session ended. After this time the error is the same as for an
/// unknown session (readings G1).
pub const TOMBSTONE: Duration = Duration::from_secs(24 * 3600);

/// SHA-256 of a session's id. The digest identifies the session in the database.
pub type SessionDigest = [u8; 32];

/// Returns the digest of a session's id.
pub fn digest(id: &SessionId) -> SessionDigest {
    Sha256::digest(id.as_str().as_bytes()).into()
}

/// The part of a session's record that never changes.
pub struct SessionRecord {
    /// The digest of the session's id.
    pub digest: SessionDigest,
    /// The account that owns the session.
    pub account: AccountId,
    /// The preset's name.
    pub preset: Cow<'static, str>,
    /// Whether the server does not hold the secret key.
    pub is_blind: bool,
    /// Whether another library made the key.
    pub imported: bool,
    /// When the session was created.
    pub created_at: Timestamp,
    /// When the session expires.
    pub expires_at: Timestamp,
}

impl SessionRecord {
    /// Takes the record out of a row of the account. `None`: the row's digest is none.
    pub fn of_row(account: &AccountId, row: &GateSession) -> Option<SessionRecord> {
        Some(SessionRecord {
            digest: row.digest.as_slice().try_into().ok()?,
            account: account.clone(),
            preset: row.preset.clone().into(),
            is_blind: row.is_blind,
            imported: row.imported,
            created_at: Timestamp(row.created_at),
            expires_at: Timestamp(row.expires_at),
        })
    }

    /// Makes the row of a new session, whose key is on this node. `open_max`: the largest number of open sessions of
    /// the account. `None`: no limit.
    pub fn new_row<'a>(
        &'a self,
        environment: Environment,
        node_id: &'a str,
        sealed_id: &'a [u8],
        open_max: Option<i64>,
        key: Option<&'a FleetKey>,
    ) -> NewGateSession<'a> {
        NewGateSession {
            digest: &self.digest,
            account_id: self.account.as_str(),
            environment,
            node_id,
            preset: &self.preset,
            is_blind: self.is_blind,
            imported: self.imported,
            created_at: self.created_at.0,
            expires_at: self.expires_at.0,
            sealed_id,
            open_max,
            key,
        }
    }

    /// Returns the phase of the session's life at this time.
    pub fn state(&self, now: Timestamp) -> SessionState {
        let has_idle_phase = self.expires_at.since(self.created_at) > IDLE;
        match has_idle_phase && self.expires_at.since(now) <= IDLE {
            true => SessionState::Idle,
            false => SessionState::Active,
        }
    }

    /// Refuses to keep results for a session in its idle phase.
    pub fn may_keep(&self, now: Timestamp) -> Result<(), ApiError> {
        if self.state(now) != SessionState::Idle {
            return Ok(());
        }
        let message = "in a session's last five minutes the node keeps no new results: ask for the outputs as ciphertexts instead";
        Err(ApiError::new(Code::Conflict, message).at("outputs", "not in the idle phase"))
    }

    /// Returns the source of the claim that the key is secure: the key's maker if the key was imported, otherwise the
    /// preset.
    pub fn security_claim(&self) -> SecurityClaim {
        if self.imported { SecurityClaim::Maker } else { SecurityClaim::Preset }
    }

    /// Makes the description of an open session for answers, with the totals in the session's row.
    pub fn described(&self, session_id: SessionId, row: &GateSession, now: Timestamp) -> Session {
        Session {
            session_id,
            preset: self.preset.clone().into_owned(),
            gates_used: row.gates_used.unsigned_abs(),
            total_cost_jpy: MilliYen(row.total_cost_milli_yen),
            age_s: now.since(self.created_at).as_secs(),
            is_blind: self.is_blind,
            imported: self.imported,
            security_claim: self.security_claim(),
            state: self.state(now),
            expires_at: self.expires_at.rfc3339(),
        }
    }
}

/// Where the key of a session is that this process does not have, as the session's row tells.
pub enum Elsewhere {
    /// On another node.
    OtherNode,
    /// On another node whose lease has expired.
    LostNode,
    /// The session is ending on this node right now, or ended long ago.
    Nowhere,
    /// The session has ended in this way.
    Ended(SessionEnd),
}

impl Elsewhere {
    /// Reads from a row where the session's key is. `node_id`: this node, which does not have the key.
    pub fn of_row(row: &GateSession, node_id: &str, now: Timestamp) -> Elsewhere {
        let is_recent = |end: i64| now.since(Timestamp(end)) < TOMBSTONE;
        match row.state {
            RecordedState::Active if now < Timestamp(row.expires_at) => match &row.node_id {
                Some(of_row) if of_row == node_id => Elsewhere::Nowhere,
                _ if row.lease_until.is_none_or(|until| until <= now.0) => Elsewhere::LostNode,
                _ => Elsewhere::OtherNode,
            },
            // the end that is recorded is when a node noticed, which may be later
            RecordedState::Expired | RecordedState::Active if is_recent(row.expires_at) => {
                Elsewhere::Ended(SessionEnd::Expired)
            }
            RecordedState::Lost if is_recent(row.ended_at.unwrap_or(row.expires_at)) => {
                Elsewhere::Ended(SessionEnd::Lost)
            }
            _ => Elsewhere::Nowhere,
        }
    }
}

/// Returns the error for a session that ended in this way (readings G1, G13).
pub fn ended(end: SessionEnd) -> ApiError {
    match end {
        SessionEnd::Deleted => ApiError::new(Code::SessionNotFound, "there is no such session"),
        SessionEnd::Expired => ApiError::new(Code::SessionExpired, "the session has expired"),
        SessionEnd::Lost => ApiError::new(Code::SessionExpired, "session lost: its node stopped"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000_000;

    fn row(state: RecordedState, node_id: Option<&str>, lease_until: Option<i64>) -> GateSession {
        GateSession {
            digest: vec![7; 32],
            sealed_id: None,
            node_id: node_id.map(str::to_owned),
            lease_until,
            environment: Environment::Live,
            preset: "fast_128".to_owned(),
            is_blind: true,
            imported: false,
            state,
            created_at: 0,
            expires_at: 60 * MINUTE,
            ended_at: None,
            gates_used: 3,
            total_cost_milli_yen: 6,
        }
    }

    #[test]
    fn a_node_reads_from_the_row_of_a_session_where_its_key_is() {
        let place = |row: &GateSession, minutes| match Elsewhere::of_row(row, "here", Timestamp(minutes * MINUTE)) {
            Elsewhere::OtherNode => "other",
            Elsewhere::LostNode => "lost node",
            Elsewhere::Nowhere => "nowhere",
            Elsewhere::Ended(SessionEnd::Deleted) => "deleted",
            Elsewhere::Ended(SessionEnd::Expired) => "expired",
            Elsewhere::Ended(SessionEnd::Lost) => "lost",
        };
        let there = row(RecordedState::Active, Some("there"), Some(30 * MINUTE));
        assert_eq!((place(&there, 1), place(&there, 30), place(&there, 60)), ("other", "lost node", "expired"));
        assert_eq!(place(&there, 61 + 24 * 60), "nowhere");
        // G1: the day begins with the expiry, also if a node noticed the end hours later
        let noticed_late = GateSession { ended_at: Some(20 * 60 * MINUTE), ..row(RecordedState::Expired, None, None) };
        let (before, after) = (place(&noticed_late, 59 + 24 * 60), place(&noticed_late, 61 + 24 * 60));
        assert_eq!((before, after), ("expired", "nowhere"));
        assert_eq!(place(&row(RecordedState::Active, Some("there"), None), 1), "lost node");
        assert_eq!(place(&row(RecordedState::Active, None, None), 1), "lost node");
        assert_eq!(place(&row(RecordedState::Active, Some("here"), Some(30 * MINUTE)), 1), "nowhere");
        assert_eq!(place(&row(RecordedState::Lost, Some("there"), None), 1), "lost");
        assert_eq!(place(&row(RecordedState::Deleted, Some("there"), None), 1), "nowhere");
    }

    #[test]
    fn any_node_describes_a_session_from_its_row() {
        let (row, account) = (row(RecordedState::Active, Some("there"), None), AccountId::from_bits(1));
        let record = SessionRecord::of_row(&account, &row).unwrap();
        let told = record.described(SessionId::from_bits(9), &row, Timestamp(2 * MINUTE));
        assert_eq!((told.gates_used, told.total_cost_jpy, told.age_s, told.is_blind), (3, MilliYen(6), 120, true));
        assert_eq!(told.state, SessionState::Active);
        // readings G2
        assert!(record.may_keep(Timestamp(54 * MINUTE)).is_ok() && record.may_keep(Timestamp(55 * MINUTE)).is_err());
        assert!(SessionRecord::of_row(&account, &GateSession { digest: vec![7; 31], ..row }).is_none());
    }
}
