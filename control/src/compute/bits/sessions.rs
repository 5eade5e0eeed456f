//! Gate sessions of this node: the open keys, their owners and their ends (readings G1-G3, G8, G13, X14).
//!
//! A key cannot be read after the node's process has ended, so the key's session ends with the process. The store keeps
//! the data that must outlive sessions: their totals, and how they ended. The times of a session are fixed when it is
//! created. An expired session is ended by the next request for it, or by [`Sessions::erase_expired`]. A key is closed
//! before anything is written, so closing never waits for the database (readings G3).
//!
//! Every node of a database can list and delete every session, because the records contain the sealed ids. All other
//! requests need the key, so other nodes refuse them. The leases show which nodes are alive
//! ([`crate::compute::lease`]).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use api::gates::{CreatedSession, SecurityClaim, Session, SessionState};
use api::pages::Page;
use api::{AccountId, Code, MilliYen, SessionId};
use parking_lot::RwLock;
use sha2::{Digest as _, Sha256};
use store::{GateSession, KeptAnswer, NewGateSession, RecordedState, SessionEnd, SessionOpened, Store};
use tokio::sync::oneshot;

use super::{CircuitsConfig, SessionsConfig};
use crate::access::api_key::invalid_key;
use crate::caller::{Caller, Environment, Plan, UNLIMITED};
use crate::clock::{Clock, Timestamp};
use crate::compute::bits::workbench::{VALUES_BYTES_MAX, ValueMemory, Workbench};
use crate::compute::held_keys::HeldKey;
use crate::ids;
use crate::resource::Resource;
use crate::sealing::Seal;
use crate::telemetry::Telemetry;
use crate::web::error::ApiError;
use crate::web::pagination::{PageQuery, Position};
use crate::work::{Here, OpenKey, OwnedKey};

/// Length of the idle phase, the end of a session's life (readings G2).
const IDLE: Duration = Duration::from_secs(5 * 60);
/// How long the error for an ended session says how the session ended. After this time the error is the same as for an
/// unknown session (readings G1).
const TOMBSTONE: Duration = Duration::from_secs(24 * 3600);
/// How long the record of an ended session without charges is kept: twice `TOMBSTONE`.
const FORGOTTEN: Duration = Duration::from_secs(2 * 24 * 3600);
/// Longest time that the deletion of a session waits until the key is overwritten (specification: within 5 seconds).
const ERASE_WAIT: Duration = Duration::from_secs(5);
/// Time after which a client should try again when its session is on another node. The load balancer may then choose
/// the right node.
const OTHER_NODE_WAIT: Duration = Duration::from_secs(1);

/// SHA-256 of a session's id. The digest identifies the session in the database.
pub type SessionDigest = [u8; 32];

/// A session whose key is open.
pub struct OpenSession {
    /// The session's id. The id is a secret of the account, so it is never logged.
    pub id: SessionId,
    /// The digest of the id.
    pub digest: SessionDigest,
    /// The account that owns the session.
    pub account: AccountId,
    /// The session's key in the engine.
    pub key: OwnedKey,
    /// The session's secret key, if the server holds it (readings G8).
    pub held: Option<HeldKey>,
    /// The session's values and runs.
    pub bench: Arc<Workbench>,
    created_at: Timestamp,
    expires_at: Timestamp,
}

impl OpenSession {
    /// Whether the server does not hold the secret key.
    pub fn is_blind(&self) -> bool {
        self.held.is_none()
    }

    /// Makes the answer to the request that created the session.
    pub fn created(&self) -> CreatedSession {
        let params = self.key.preset.params();
        CreatedSession {
            session_id: self.id.clone(),
            preset: self.key.preset.name().to_owned(),
            n: params.lwe_dimension,
            big_n: params.polynomial_size,
            is_blind: self.is_blind(),
            imported: self.key.imported,
            security_claim: security_claim(self.key.imported),
            expires_at: self.expires_at.rfc3339(),
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

    /// Returns the phase of the session's life at this time.
    fn state(&self, now: Timestamp) -> SessionState {
        state(self.created_at, self.expires_at, now)
    }
}

/// Returns the phase at `now` of the life of a session with these times.
fn state(created_at: Timestamp, expires_at: Timestamp, now: Timestamp) -> SessionState {
    let has_idle_phase = expires_at.since(created_at) > IDLE;
    if has_idle_phase && expires_at.since(now) <= IDLE { SessionState::Idle } else { SessionState::Active }
}

/// Returns the source of the claim that a key is secure: the key's maker if the key was imported, otherwise the preset.
fn security_claim(imported: bool) -> SecurityClaim {
    if imported { SecurityClaim::Maker } else { SecurityClaim::Preset }
}

/// Makes the description of an open session for answers, from the session's record.
fn described(record: &GateSession, session_id: SessionId, now: Timestamp) -> Session {
    let (created_at, expires_at) = (Timestamp(record.created_at), Timestamp(record.expires_at));
    Session {
        session_id,
        preset: record.preset.clone(),
        gates_used: record.gates_used.unsigned_abs(),
        total_cost_jpy: MilliYen(record.total_cost_milli_yen),
        age_s: now.since(created_at).as_secs(),
        is_blind: record.is_blind,
        imported: record.imported,
        security_claim: security_claim(record.imported),
        state: state(created_at, expires_at, now),
        expires_at: expires_at.rfc3339(),
    }
}

/// The place of a session that has not ended.
enum SessionPlace {
    Here(Arc<OpenSession>),
    /// On another node of this database.
    Elsewhere {
        digest: SessionDigest,
        /// Whether the lease of the session's node has expired.
        lost: bool,
    },
}

/// The gate sessions of this node.
pub struct Sessions {
    store: Store,
    /// This node's id. Changes with each start.
    pub node_id: String,
    here: Here,
    clock: Clock,
    telemetry: Arc<Telemetry>,
    pub config: SessionsConfig,
    circuits: CircuitsConfig,
    /// Seals the ids of sessions in their records, each to its account.
    seal: Seal,
    /// The memory for the values of all sessions.
    pub values: Resource,
    /// The open sessions. The engine's memory for keys bounds their number.
    open: RwLock<HashMap<SessionDigest, Arc<OpenSession>>>,
    /// Whether sessions of this node have expired while their records still show them as active.
    unrecorded: AtomicBool,
}

impl Sessions {
    /// Starts with no session. The sessions of an earlier process of this node are recorded as lost, because their keys
    /// no longer exist (readings G13).
    pub async fn start(
        store: Store,
        node_id: String,
        here: Here,
        clock: Clock,
        telemetry: Arc<Telemetry>,
        config: SessionsConfig,
        circuits: CircuitsConfig,
        seal: Seal,
    ) -> Result<Self, store::Error> {
        let lost = store.lose_gate_sessions(&node_id, clock.now().0).await?;
        if lost > 0 {
            tracing::info!(lost, "the sessions of this node's earlier process were recorded as lost");
        }
        let values = Resource::memory(circuits.value_bytes_max, VALUES_BYTES_MAX as u64);
        let (open, unrecorded) = Default::default();
        Ok(Self { store, node_id, here, clock, telemetry, config, circuits, seal, values, open, unrecorded })
    }

    /// Makes a session with a key that is in the engine. Requests find the session only after [`Sessions::open`].
    pub async fn make(
        &self,
        caller: &Caller,
        key: OwnedKey,
        held: Option<HeldKey>,
    ) -> Result<Arc<OpenSession>, ApiError> {
        let created_at = self.clock.now();
        let mut expires_at = created_at.plus(self.config.ttl);
        if caller.environment == Environment::Trial {
            // a trial's sessions end with the trial, on every node
            let trial = self.store.trial(caller.account.as_str()).await?.ok_or_else(invalid_key)?;
            expires_at = expires_at.min(Timestamp(trial.expires_at));
        }
        let id = ids::session();
        Ok(Arc::new(OpenSession {
            digest: digest(&id),
            id,
            account: caller.account.clone(),
            key,
            held,
            bench: Arc::new(Workbench::new(ValueMemory::of_session(
                self.values.clone(),
                caller.into(),
                self.circuits.session_value_bytes_max,
            ))),
            created_at,
            expires_at,
        }))
    }

    /// Opens a session that [`Sessions::make`] made, if the account has fewer than `open_max` open sessions. Also
    /// stores the answer of the request.
    pub async fn open(
        &self,
        caller: &Caller,
        session: Arc<OpenSession>,
        open_max: u64,
        kept: Option<&KeptAnswer>,
    ) -> Result<(), ApiError> {
        let new = NewGateSession {
            digest: &session.digest,
            account_id: session.account.as_str(),
            environment: caller.environment,
            node_id: &self.node_id,
            preset: session.key.preset.name(),
            is_blind: session.is_blind(),
            imported: session.key.imported,
            created_at: session.created_at.0,
            expires_at: session.expires_at.0,
            sealed_id: &self.seal.seal(session.account.as_str(), session.id.as_str().as_bytes()),
            open_max: (open_max != UNLIMITED).then_some(open_max as i64),
        };
        self.store
            .write(async |tx| match tx.insert_gate_session(&new).await? {
                SessionOpened::Opened => Ok(tx.keep(kept).await?),
                SessionOpened::TooMany { first_ends_at } => Err(too_many(caller.plan, first_ends_at.map(Timestamp))),
                SessionOpened::NoAccount => Err(invalid_key()),
            })
            .await?;
        self.open.write().insert(session.digest, session);
        Ok(())
    }

    /// Returns the account's open session with this id. If the session has ended, the error says how. Another account's
    /// session and an unknown id are treated in the same way, including the look-up in the database (readings X14).
    pub async fn find(&self, account: &AccountId, id: &str) -> Result<Arc<OpenSession>, ApiError> {
        match self.locate(account, id).await? {
            SessionPlace::Here(session) => Ok(session),
            SessionPlace::Elsewhere { lost: true, .. } => Err(ended(SessionEnd::Lost)),
            SessionPlace::Elsewhere { lost: false, .. } => Err(elsewhere()),
        }
    }

    /// Finds the place of the account's session with this id. If the session has ended, the error says how.
    async fn locate(&self, account: &AccountId, id: &str) -> Result<SessionPlace, ApiError> {
        let not_found = || ended(SessionEnd::Deleted);
        let id: SessionId = id.parse().map_err(|_| not_found())?;
        let digest = digest(&id);
        let found = self.open.read().get(&digest).cloned();
        let now = self.clock.now();
        match found.filter(|session| session.account == *account) {
            Some(session) if now < session.expires_at => return Ok(SessionPlace::Here(session)),
            Some(session) => drop(self.end(&session, SessionEnd::Expired).await?),
            None => {}
        }
        let record = self.store.gate_session(account.as_str(), &digest).await?.ok_or_else(not_found)?;
        let ended_recently = now.since(Timestamp(record.ended_at.unwrap_or(record.expires_at))) < TOMBSTONE;
        match record.state {
            RecordedState::Active if now < Timestamp(record.expires_at) => match record.node_id {
                // the session is ending right now
                Some(node_id) if node_id == self.node_id => Err(not_found()),
                _ => {
                    Ok(SessionPlace::Elsewhere { digest, lost: record.lease_until.is_none_or(|until| until <= now.0) })
                }
            },
            RecordedState::Expired | RecordedState::Active if ended_recently => Err(ended(SessionEnd::Expired)),
            RecordedState::Lost if ended_recently => Err(ended(SessionEnd::Lost)),
            _ => Err(not_found()),
        }
    }

    /// Returns the error for a session that was found before but has ended since.
    pub async fn gone(&self, account: &AccountId, id: &str) -> ApiError {
        let found = self.find(account, id).await;
        found.err().unwrap_or_else(|| ended(SessionEnd::Deleted))
    }

    /// Returns the account's open session with this digest, if this node has it.
    pub fn by_digest(&self, account: &AccountId, digest: &[u8]) -> Option<Arc<OpenSession>> {
        let digest: &SessionDigest = digest.try_into().ok()?;
        let open = self.open.read();
        open.get(digest).filter(|session| session.account == *account).cloned()
    }

    /// Makes the description of an open session of this node for answers, with the session's totals.
    pub async fn describe(&self, account: &AccountId, id: &str) -> Result<Session, ApiError> {
        let session = self.find(account, id).await?;
        let record = self.store.gate_session(account.as_str(), &session.digest).await?;
        let record = record.ok_or_else(|| ApiError::internal("an open session has no record"))?;
        Ok(described(&record, session.id.clone(), self.clock.now()))
    }

    /// Returns a page of an account's open sessions on all nodes, each with its totals.
    pub async fn list(&self, account: &AccountId, query: &PageQuery) -> Result<Page<Session>, ApiError> {
        let now = self.clock.now();
        let (after, wanted) = (query.after_bytes(), query.rows_wanted());
        let rows = self.store.gate_sessions_page(account.as_str(), &self.node_id, now.0, after, wanted).await?;
        let position = |row: &GateSession| Position { created_at: row.created_at, id: row.digest.clone() };
        let page = query.page(rows, position);
        // skip sessions of nodes of an older version, which did not seal ids
        let sessions =
            page.items.iter().filter_map(|record| Some(described(record, self.id_of(account, record)?, now)));
        let sessions = sessions.collect();
        Ok(page.with(sessions))
    }

    /// Deletes a session. Returns when its key is overwritten, or after 5 seconds if a batch still runs on it.
    pub async fn delete(&self, account: &AccountId, id: &str) -> Result<(), ApiError> {
        let session = match self.locate(account, id).await? {
            SessionPlace::Here(session) => session,
            SessionPlace::Elsewhere { digest, .. } => {
                // the session's node reads this within a second and overwrites the key
                self.store.end_gate_session(&digest, SessionEnd::Deleted, self.clock.now().0).await?;
                return Ok(());
            }
        };
        if let Some(erased) = self.end(&session, SessionEnd::Deleted).await?
            && tokio::time::timeout(ERASE_WAIT, erased).await.is_err()
        {
            tracing::warn!("a deleted session's key is not overwritten yet: a batch still runs on it");
        }
        Ok(())
    }

    /// Ends expired sessions. Their keys are overwritten without waiting for a request or for the database, which may
    /// hang (readings G3). [`Sessions::record_expired`] records the ends.
    pub fn erase_expired(&self) {
        let now = self.clock.now();
        if self.take_out(SessionEnd::Expired, |session| session.expires_at <= now) > 0 {
            self.unrecorded.store(true, Ordering::Relaxed);
        }
    }

    /// Records the ends of expired sessions. If the database does not answer, the next call tries again.
    pub async fn record_expired(&self) {
        if !self.unrecorded.swap(false, Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.store.expire_gate_sessions(&self.node_id, self.clock.now().0).await {
            tracing::error!(cause = %error, "expired sessions could not be recorded; the node tries again");
            self.unrecorded.store(true, Ordering::Relaxed);
        }
    }

    /// Ends the sessions of this node that were deleted through another node.
    pub async fn end_what_was_deleted_elsewhere(&self) -> Result<(), ApiError> {
        // read the local list before the database: a session that opens in between is then not in the local list, so it
        // is not ended by mistake
        let here = self.matching(|_| true);
        if here.is_empty() {
            return Ok(());
        }
        let active: HashSet<Vec<u8>> = self.store.active_sessions_of(&self.node_id).await?.into_iter().collect();
        for session in here.iter().filter(|session| !active.contains(&session.digest[..])) {
            self.end(session, SessionEnd::Deleted).await?;
        }
        Ok(())
    }

    /// Removes records of sessions that ended long ago without charges. Records with charges stay, because usage rows
    /// refer to them. A trial's records are erased together with the trial.
    pub async fn forget_old(&self) {
        let before = Timestamp(self.clock.now().0 - FORGOTTEN.as_micros() as i64);
        if let Err(error) = self.store.forget_gate_sessions(before.0).await {
            tracing::error!(cause = %error, "old records of ended sessions could not be removed");
        }
    }

    /// Opens the sealed id in a session's record.
    fn id_of(&self, account: &AccountId, record: &GateSession) -> Option<SessionId> {
        let id = self.seal.open(account.as_str(), record.sealed_id.as_ref()?)?;
        std::str::from_utf8(&id).ok()?.parse().ok()
    }

    /// Ends all sessions of an account that has ended.
    pub async fn end_all_of(&self, account: &str) {
        self.take_out(SessionEnd::Deleted, |session| session.account.as_str() == account);
        if let Err(error) = self.store.end_gate_sessions_of(account, &self.node_id, self.clock.now().0).await {
            tracing::error!(cause = %error, "an account has ended, but the ends of its sessions could not be recorded");
        }
    }

    /// Ends every session as lost, because the node stops (readings G13).
    pub async fn lose_all(&self) {
        self.take_out(SessionEnd::Lost, |_| true);
        if let Err(error) = self.store.lose_gate_sessions(&self.node_id, self.clock.now().0).await {
            tracing::error!(cause = %error, "the ends of lost sessions could not be recorded");
        }
    }

    fn matching(&self, wanted: impl Fn(&OpenSession) -> bool) -> Vec<Arc<OpenSession>> {
        let open = self.open.read();
        open.values().filter(|session| wanted(session)).cloned().collect()
    }

    /// Removes the wanted sessions from the list of open sessions and closes their keys. Writes nothing to the
    /// database. Returns the number of removed sessions.
    fn take_out(&self, end: SessionEnd, wanted: impl Fn(&OpenSession) -> bool) -> usize {
        let taken: Vec<_> = {
            let mut open = self.open.write();
            open.extract_if(|_, session| wanted(session)).map(|(_, session)| session).collect()
        };
        for session in &taken {
            session.bench.close(end);
            drop(self.close(&session.key));
        }
        taken.len()
    }

    /// Removes a session from the list of open sessions, closes the session's key and records the session's end. The
    /// receiver gets a message when the key is overwritten. `None`: another call removed the session before.
    async fn end(&self, session: &OpenSession, end: SessionEnd) -> Result<Option<oneshot::Receiver<()>>, ApiError> {
        let mine = self.open.write().remove(&session.digest).is_some();
        session.bench.close(end);
        let erased = mine.then(|| self.close(&session.key));
        self.store.end_gate_session(&session.digest, end, self.clock.now().0).await?;
        Ok(erased)
    }

    /// Closes a key and measures the time until the key is overwritten. The receiver then gets a message.
    fn close(&self, key: &OpenKey) -> oneshot::Receiver<()> {
        let (closed_at, telemetry) = (Instant::now(), self.telemetry.clone());
        let erased = self.here.close(key);
        let (tell, hears) = oneshot::channel();
        tokio::spawn(async move {
            if erased.await.is_ok() {
                telemetry.key_erased(closed_at.elapsed());
            }
            let _ = tell.send(());
        });
        hears
    }
}

/// Returns the error for an account that already has as many open sessions as the plan allows (readings L9).
fn too_many(plan: Plan, first_ends_at: Option<Timestamp>) -> ApiError {
    let plan = plan.as_str();
    let message = match first_ends_at.map(Timestamp::rfc3339) {
        Some(first_ends_at) => format!(
            "as many gate sessions are open as the plan {plan} allows: delete one, or wait until {first_ends_at}, when the \
             first of them ends"
        ),
        None => format!("the plan {plan} allows no gate sessions on this node"),
    };
    ApiError::new(Code::QuotaExceeded, message)
}

/// Returns the error for a request whose session is on another node.
fn elsewhere() -> ApiError {
    let message = "the session is on another node of this service: send its requests to that node, through a balancer that \
         keeps a session on its node";
    ApiError::unavailable("other_node", message).retry_after(OTHER_NODE_WAIT)
}

/// Returns the error for a session that ended in this way (readings G1, G13).
pub fn ended(end: SessionEnd) -> ApiError {
    match end {
        SessionEnd::Deleted => ApiError::new(Code::SessionNotFound, "there is no such session"),
        SessionEnd::Expired => ApiError::new(Code::SessionExpired, "the session has expired"),
        SessionEnd::Lost => ApiError::new(Code::SessionExpired, "session lost: its node stopped"),
    }
}

fn digest(id: &SessionId) -> SessionDigest {
    Sha256::digest(id.as_str().as_bytes()).into()
}

#[cfg(all(test, feature = "held-keys"))]
mod tests {
    use api::{KeyId, LineageId};

    use super::*;
    use crate::caller::{Credential, Role};
    use crate::config::Config;
    use crate::resource::Payer;
    use crate::secrets::Key;
    use crate::work::{KeyStore, Preset};

    #[tokio::test]
    async fn a_key_that_finds_no_session_does_not_stay_in_the_engine() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config::in_folder(folder.path());
        let store = Store::open(&config.database_url).await.unwrap();
        let here = Here::start(&config.compute, folder.path().join("kernels"), Key::default()).unwrap();
        let telemetry = Arc::new(Telemetry::new().unwrap());
        let clock = Clock::system();
        let sessions = Sessions::start(
            store.clone(),
            "node".to_owned(),
            here.clone(),
            clock,
            telemetry,
            config.sessions.clone(),
            config.circuits.clone(),
            Seal::new(&Key::default()),
        )
        .await
        .unwrap();
        let credential = Credential::Key { key_id: KeyId::from_bits(1), lineage_id: LineageId::from_bits(1) };
        let (account, plan) = (AccountId::from_bits(1), Plan::Free);
        let caller = Caller {
            account,
            environment: Environment::Test,
            role: Role::Developer,
            plan,
            is_suspended: false,
            credential,
        };
        let (held, key) = HeldKey::generate(Preset::Fast128).unwrap();
        let keys = KeyStore::open(folder.path(), &config.compute).unwrap();
        let stored = keys.take(key, &caller.account, &Payer::from(&caller)).unwrap().write().await.unwrap();
        assert!(keys.used() > 0);
        let (opening, share) = (here.clone(), here.share(&caller.account, caller.plan));
        let key = tokio::task::spawn_blocking(move || opening.open(stored, share));
        let key = key.await.unwrap().unwrap();
        assert_eq!(here.usage().sessions, 1);
        // the account does not exist, so the record cannot be written
        let session = sessions.make(&caller, key, Some(held)).await.unwrap();
        let refused = sessions.open(&caller, session, UNLIMITED, None).await.err().unwrap();
        assert_eq!(refused.code, Code::InvalidApiKey);
        let closed = async {
            while here.usage().sessions > 0 || keys.used() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), closed).await.expect("the key is closed");
        assert_eq!(std::fs::read_dir(folder.path().join("keys")).unwrap().count(), 0);
    }
}
