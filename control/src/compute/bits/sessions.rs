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

mod local;
mod record;
mod shared;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::gates::Session;
use api::pages::Page;
use api::{AccountId, Code, SessionId};
use parking_lot::Mutex;
use store::{FLEET, FleetKey, GateSession, KeptAnswer, SessionEnd, SessionOpened, Store};
use tokio::sync::oneshot;

use self::local::LocalSessions;
use self::record::{Elsewhere, SessionDigest, SessionRecord, digest};
use super::{CircuitsConfig, SessionsConfig};
use crate::access::api_key::invalid_key;
use crate::caller::{Caller, Plan, UNLIMITED};
use crate::clock::{Clock, Timestamp};
use crate::compute::bits::workbench::{VALUES_BYTES_MAX, ValueMemory, Workbench};
use crate::compute::held_keys::HeldKey;
use crate::ids;
use crate::resource::Resource;
use crate::sealing::Seal;
use crate::telemetry::Telemetry;
use crate::web::error::ApiError;
use crate::web::pagination::{PageQuery, Position};
use crate::work::{KeyName, KeyStore, StoredKey, Workers};

pub use self::local::OpenSession;
pub use self::record::ended;
pub use self::shared::SharedKeys;

/// How long the record of an ended session without charges is kept: twice as long as requests are told how the session
/// ended.
const FORGOTTEN: Duration = Duration::from_secs(2 * record::TOMBSTONE.as_secs());
/// Longest time that the deletion of a session waits until the key is overwritten (specification: within 5 seconds).
const ERASE_WAIT: Duration = Duration::from_secs(5);
/// Time after which a client should try again when its session is on another node. The load balancer may then choose
/// the right node.
const OTHER_NODE_WAIT: Duration = Duration::from_secs(1);

/// The place of a session that has not ended.
enum SessionPlace {
    Here(Arc<OpenSession>),
    /// In the fleet whose member this node is.
    Shared(Arc<OpenSession>),
    /// On another node of this database.
    Elsewhere {
        digest: [u8; 32],
        /// Whether the lease of the session's node has expired.
        lost: bool,
    },
}

/// The gate sessions of this node.
pub struct Sessions {
    store: Store,
    /// This node's id. Changes with each start.
    pub node_id: String,
    workers: Arc<Workers>,
    clock: Clock,
    pub config: SessionsConfig,
    circuits: CircuitsConfig,
    /// Where the keys and values of the sessions of the fleet are, if the node is a member of one.
    shared: Option<Arc<SharedKeys>>,
    /// Seals the ids of sessions in their records, each to its account.
    seal: Seal,
    /// The memory for the values of all sessions.
    pub values: Resource,
    open: LocalSessions,
    /// The sessions that this process ended because they expired, while their records still show them as active, and
    /// when they expired.
    unrecorded: Mutex<HashMap<SessionDigest, Timestamp>>,
}

impl Sessions {
    /// Starts with no session. The sessions of an earlier process of this node are recorded as lost, because their keys
    /// no longer exist (readings G13).
    pub async fn start(
        store: Store,
        node_id: String,
        workers: Arc<Workers>,
        clock: Clock,
        telemetry: Arc<Telemetry>,
        (config, circuits): (SessionsConfig, CircuitsConfig),
        seal: Seal,
        shared: Option<Arc<SharedKeys>>,
    ) -> Result<Self, store::Error> {
        let lost = store.lose_gate_sessions(&node_id, clock.now().0).await?;
        if lost > 0 {
            tracing::info!(lost, "the sessions of this node's earlier process were recorded as lost");
        }
        let values = Resource::memory(circuits.value_bytes_max, VALUES_BYTES_MAX as u64);
        let (open, unrecorded) = (LocalSessions::new(telemetry), Mutex::default());
        Ok(Self { store, node_id, workers, clock, config, circuits, seal, shared, values, open, unrecorded })
    }

    /// Makes a session with this key: puts the key at rest under the session's name and opens the key. Requests find
    /// the session only after [`Sessions::open`]. If the session is dropped before, its name ends.
    pub async fn make(
        &self,
        caller: &Caller,
        keys: &KeyStore,
        key: StoredKey,
        held: Option<HeldKey>,
    ) -> Result<Arc<OpenSession>, ApiError> {
        let id = ids::session();
        let (digest, share) = (digest(&id), self.workers.share(&caller.account, caller.plan));
        let here = self.workers.own().ok_or_else(|| ApiError::internal("this node does not compute"))?;
        let key = here.open(keys.keep(KeyName::of_session(share, &digest), share, key)).await?;
        let created_at = self.clock.now();
        let expires_at = self.expires_at(caller, created_at).await?;
        let record = SessionRecord {
            digest,
            account: caller.account.clone(),
            preset: key.preset.name().into(),
            is_blind: held.is_none(),
            imported: key.imported,
            created_at,
            expires_at,
        };
        let bytes_max = self.circuits.session_value_bytes_max;
        let memory = ValueMemory::of_session(self.values.clone(), caller.into(), bytes_max);
        let bench = Arc::new(Workbench::new(memory));
        Ok(Arc::new(OpenSession { record, id, key, held, bench, read_at: Instant::now() }))
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
        self.write_row(caller, &session, open_max, kept, None).await?;
        self.open.add(session);
        Ok(())
    }

    /// Writes the row of a session with the stored answer of its request. `key`: the key at rest, if all members of a fleet
    /// share it.
    async fn write_row(
        &self,
        caller: &Caller,
        session: &OpenSession,
        open_max: u64,
        kept: Option<&KeptAnswer>,
        key: Option<&FleetKey>,
    ) -> Result<(), ApiError> {
        let sealed_id = self.seal.seal(session.record.account.as_str(), session.id.as_str().as_bytes());
        let open_max = (open_max != UNLIMITED).then_some(open_max as i64);
        let node_id = if key.is_some() { FLEET } else { &self.node_id };
        let new = session.record.new_row(caller.environment, node_id, &sealed_id, open_max, key);
        self.store
            .write(async |tx| match tx.insert_gate_session(&new).await? {
                SessionOpened::Opened => Ok(tx.keep(kept).await?),
                SessionOpened::TooMany { first_ends_at } => Err(too_many(caller.plan, first_ends_at.map(Timestamp))),
                SessionOpened::NoAccount => Err(invalid_key()),
            })
            .await
    }

    /// Returns the account's open session with this id. If the session has ended, the error says how. Another account's
    /// session and an unknown id are treated in the same way, including the look-up in the database (readings X14).
    pub async fn find(&self, account: &AccountId, id: &str) -> Result<Arc<OpenSession>, ApiError> {
        match self.locate(account, id).await? {
            SessionPlace::Here(session) | SessionPlace::Shared(session) => Ok(session),
            SessionPlace::Elsewhere { lost: true, .. } => Err(ended(SessionEnd::Lost)),
            SessionPlace::Elsewhere { lost: false, .. } => Err(elsewhere()),
        }
    }

    /// Finds the place of the account's session with this id. If the session has ended, the error says how.
    async fn locate(&self, account: &AccountId, id: &str) -> Result<SessionPlace, ApiError> {
        let not_found = || ended(SessionEnd::Deleted);
        let id: SessionId = id.parse().map_err(|_| not_found())?;
        let digest = digest(&id);
        let now = self.clock.now();
        match self.open.get(account, &digest) {
            Some(session) if session.is_believed(now) => return Ok(SessionPlace::Shared(session)),
            Some(session) if session.key.is_shared() => {}
            Some(session) if now < session.record.expires_at => return Ok(SessionPlace::Here(session)),
            Some(session) => drop(self.end(&session, SessionEnd::Expired).await?),
            None => {}
        }
        let row = self.store.gate_session(account.as_str(), &digest).await?.ok_or_else(not_found)?;
        match Elsewhere::of_row(&row, &self.node_id, now) {
            Elsewhere::OtherNode if row.node_id.as_deref() == Some(FLEET) && self.workers.fleet().is_some() => {
                Ok(SessionPlace::Shared(self.read_shared(account, &id, &digest, &row).await?))
            }
            Elsewhere::OtherNode => Ok(SessionPlace::Elsewhere { digest, lost: false }),
            Elsewhere::LostNode => Ok(SessionPlace::Elsewhere { digest, lost: true }),
            Elsewhere::Ended(end) => Err(ended(end)),
            // the clock was set back before the end was recorded
            Elsewhere::Nowhere if self.unrecorded.lock().contains_key(&digest) => Err(ended(SessionEnd::Expired)),
            Elsewhere::Nowhere => Err(not_found()),
        }
    }

    /// Returns the error for a session that was found before but has ended since.
    pub async fn gone(&self, account: &AccountId, id: &str) -> ApiError {
        let found = self.find(account, id).await;
        found.err().unwrap_or_else(|| ended(SessionEnd::Deleted))
    }

    /// Returns where the keys and values of the sessions of the fleet are, if the node is a member of one.
    pub fn shared(&self) -> Option<&Arc<SharedKeys>> {
        self.shared.as_ref()
    }

    /// Returns the account's open session with this digest, if this node or the fleet has it.
    pub async fn by_digest(&self, account: &AccountId, digest: &[u8]) -> Result<Option<Arc<OpenSession>>, ApiError> {
        let Ok(digest) = digest.try_into() else { return Ok(None) };
        let (found, now) = (self.open.get(account, &digest), self.clock.now());
        if self.shared.is_none() || found.as_ref().is_some_and(|one| !one.key.is_shared() || one.is_believed(now)) {
            return Ok(found);
        }
        let Some(row) = self.store.gate_session(account.as_str(), &digest).await? else { return Ok(None) };
        let id = self.id_of(account, &row).filter(|_| row.node_id.as_deref() == Some(FLEET) && row.expires_at > now.0);
        match id {
            Some(id) => self.read_shared(account, &id, &digest, &row).await.map(Some),
            None => Ok(None),
        }
    }

    /// Makes the description of an open session of this node for answers, with the session's totals.
    pub async fn describe(&self, account: &AccountId, id: &str) -> Result<Session, ApiError> {
        let session = self.find(account, id).await?;
        let row = self.store.gate_session(account.as_str(), &session.record.digest).await?;
        let row = row.ok_or_else(|| ApiError::internal("an open session has no record"))?;
        Ok(session.record.described(session.id.clone(), &row, self.clock.now()))
    }

    /// Returns a page of an account's open sessions on all nodes, each with its totals.
    pub async fn list(&self, account: &AccountId, query: &PageQuery) -> Result<Page<Session>, ApiError> {
        let now = self.clock.now();
        let (after, wanted) = (query.after_bytes(), query.rows_wanted());
        let rows = self.store.gate_sessions_page(account.as_str(), &self.node_id, now.0, after, wanted).await?;
        let position = |row: &GateSession| Position { created_at: row.created_at, id: row.digest.clone() };
        let page = query.page(rows, position);
        // skip sessions of nodes of an older version, which did not seal ids
        let described = |row: &GateSession| {
            let record = SessionRecord::of_row(account, row)?;
            Some(record.described(self.id_of(account, row)?, row, now))
        };
        let sessions = page.items.iter().filter_map(described).collect();
        Ok(page.with(sessions))
    }

    /// Deletes a session. Returns when its key is overwritten, or after 5 seconds if a batch still runs on it.
    pub async fn delete(&self, account: &AccountId, id: &str) -> Result<(), ApiError> {
        let session = match self.locate(account, id).await? {
            SessionPlace::Here(session) => session,
            SessionPlace::Shared(session) => {
                return self.end_shared(&session.record.digest, session.key.name()).await;
            }
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
        let erased = self.open.remove_those(SessionEnd::Expired, |session| session.expires_at <= now);
        self.unrecorded.lock().extend(erased.iter().map(|session| (session.record.digest, session.record.expires_at)));
    }

    /// Records the ends of expired sessions. If the database does not answer, the next call tries again.
    pub async fn record_expired(&self) {
        let unrecorded = self.unrecorded.lock().clone();
        if unrecorded.is_empty() {
            return;
        }
        match self.record_ends(&unrecorded).await {
            Ok(()) => self.unrecorded.lock().retain(|digest, _| !unrecorded.contains_key(digest)),
            Err(error) => {
                tracing::error!(cause = %error, "expired sessions could not be recorded; the node tries again")
            }
        }
    }

    async fn record_ends(&self, expired: &HashMap<SessionDigest, Timestamp>) -> Result<(), store::Error> {
        let now = self.clock.now();
        self.store.expire_gate_sessions(&self.node_id, now.0).await?;
        // by a clock that was set back since, these sessions have not expired yet, but their keys are gone
        for (digest, _) in expired.iter().filter(|(_, expires_at)| **expires_at > now) {
            self.store.end_gate_session(digest, SessionEnd::Expired, now.0).await?;
        }
        Ok(())
    }

    /// Ends the sessions of this node that were deleted through another node.
    pub async fn end_what_was_deleted_elsewhere(&self) -> Result<(), ApiError> {
        // read the local list before the database: a session that opens in between is then not in the local list, so it
        // is not ended by mistake
        let here = self.open.all();
        if here.is_empty() {
            return Ok(());
        }
        let active: HashSet<Vec<u8>> = self.store.active_sessions_of(&self.node_id).await?.into_iter().collect();
        for session in here.iter().filter(|session| !active.contains(&session.record.digest[..])) {
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
        self.open.remove_those(SessionEnd::Deleted, |session| session.account.as_str() == account);
        if let Err(error) = self.store.end_gate_sessions_of(account, &self.node_id, self.clock.now().0).await {
            tracing::error!(cause = %error, "an account has ended, but the ends of its sessions could not be recorded");
        }
        if let Err(error) = self.end_all_shared_of(account).await {
            tracing::error!(cause = %error, "an account has ended, but its sessions of the fleet could not be ended");
        }
    }

    /// Ends every session as lost, because the node stops (readings G13).
    pub async fn lose_all(&self) {
        self.open.remove_those(SessionEnd::Lost, |_| true);
        if let Err(error) = self.store.lose_gate_sessions(&self.node_id, self.clock.now().0).await {
            tracing::error!(cause = %error, "the ends of lost sessions could not be recorded");
        }
    }

    /// Removes a session of this process, closes the session's key and records the session's end. The receiver gets a
    /// message when the key is overwritten. `None`: another call removed the session before.
    async fn end(&self, session: &OpenSession, end: SessionEnd) -> Result<Option<oneshot::Receiver<()>>, ApiError> {
        let erased = self.open.remove(session, end);
        self.store.end_gate_session(&session.record.digest, end, self.clock.now().0).await?;
        Ok(erased)
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

#[cfg(all(test, feature = "held-keys"))]
mod tests {
    use api::{KeyId, LineageId};

    use super::*;
    use crate::caller::{Credential, Environment, Role};
    use crate::config::Config;
    use crate::resource::Payer;
    use crate::secrets::Key;
    use crate::work::{Finding, Here, KeysAtRest, Preset, RestingKey};

    /// The keys of sessions alone.
    struct KeysInFolder(KeyStore);

    impl KeysAtRest for KeysInFolder {
        fn find(&self, name: KeyName) -> Finding {
            Box::pin(std::future::ready(Ok(self.0.find(&name).map(RestingKey::Session))))
        }

        fn end(&self, name: KeyName) {
            self.0.end(&name);
        }
    }

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
            Arc::new(Workers::here(here.clone())),
            clock,
            telemetry,
            (config.sessions.clone(), config.circuits.clone()),
            Seal::new(&Key::default()),
            None,
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
        here.find_keys_in(Arc::new(KeysInFolder(keys.clone())));
        let session = sessions.make(&caller, &keys, stored, Some(held)).await.unwrap();
        assert_eq!(here.usage().sessions, 1);
        // the account does not exist, so the record cannot be written
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
