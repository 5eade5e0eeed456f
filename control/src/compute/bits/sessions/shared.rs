//! Sessions of a fleet: any API node serves any session. The key is an object in the bucket, and the session's row says where
//! and how it is opened. An API node remembers a session's row for a second.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::{AccountId, SessionId};
use store::{FLEET, FleetKey, GateSession, KeptAnswer, SessionEnd};
use zeroize::Zeroizing;

use super::Sessions;
use super::local::OpenSession;
use super::record::{SessionDigest, SessionRecord, digest, ended};
use crate::blobs::{Blobs, SealedObject};
use crate::caller::{Caller, Environment, Plan};
use crate::clock::Timestamp;
use crate::compute::bits::workbench::{SharedSession, SharedValues, ValueMemory, Workbench};
use crate::ids;
use crate::resource::Payer;
use crate::web::error::ApiError;
use crate::web::offload::Offload;
use crate::work::fleet::{FleetSeal, KeyFacts};
use crate::work::{self, KeyName, OwnedKey};

/// How long an API node believes a session's row without reading it again.
pub const BELIEVED: Duration = Duration::from_secs(1);
/// Time after which a client should try again when the bucket takes no key.
const RETRY: Duration = Duration::from_secs(30);
/// Number of objects of ended sessions that one round removes.
const REMOVED_MAX: i64 = 256;

/// Where the keys of a fleet's sessions are.
pub struct SharedKeys {
    /// Seals data keys.
    pub seal: Arc<FleetSeal>,
    /// The keys in the bucket.
    pub objects: Blobs,
    /// Bound on the bytes of the keys of all open sessions.
    pub bytes_max: u64,
    /// The values that sessions keep.
    pub values: Arc<SharedValues>,
}

/// Returns the error for a key for which there is no room at the moment.
fn no_room() -> ApiError {
    ApiError::unavailable("keys", "the fleet has no room for more keys at the moment").retry_after(RETRY)
}

impl OpenSession {
    /// Whether the session belongs to the fleet, and its row was read a moment ago.
    pub(super) fn is_believed(&self, now: Timestamp) -> bool {
        self.key.is_shared() && self.read_at.elapsed() < BELIEVED && now < self.record.expires_at
    }
}

impl Sessions {
    /// Opens a session of the fleet on an uploaded key: puts the key into the bucket, and writes the session's row with the
    /// request's stored answer.
    pub async fn open_shared(
        &self,
        caller: &Caller,
        shared: &SharedKeys,
        offload: &Offload,
        bytes: Zeroizing<Vec<u8>>,
    ) -> Result<(Arc<OpenSession>, FleetKey), ApiError> {
        let id = ids::session();
        let (digest, share) = (digest(&id), self.workers.share(&caller.account, caller.plan));
        let (name, seal) = (KeyName::of_session(share, &digest), shared.seal.clone());
        let sealed = offload.run(Payer::from(caller), move || seal.read(name, share, &bytes)).await??;
        let (facts, size) = (sealed.facts.write(), sealed.object.len() as i64);
        let used = self.store.fleet_key_bytes().await?;
        if used.saturating_add(size).unsigned_abs() > shared.bytes_max {
            return Err(no_room());
        }
        let object = shared.objects.put(SealedObject::of_sealed(sealed.object)).await.map_err(|error| {
            tracing::error!(error, "an evaluation key could not be written to the bucket");
            ApiError::unavailable("keys", "the node cannot store the key at the moment").retry_after(RETRY)
        })?;
        let key = KeyFacts::open_key(&facts, name)?;
        let created_at = self.clock.now();
        let record = SessionRecord {
            digest,
            account: caller.account.clone(),
            preset: key.preset.name().into(),
            is_blind: true,
            imported: key.imported,
            created_at,
            expires_at: self.expires_at(caller, created_at).await?,
        };
        let (key, payer) = (OwnedKey::of_fleet(key), Payer::from(caller));
        let session = self.shared_session(shared, record, id, key, payer, (&sealed.secret, 0))?;
        Ok((session, FleetKey { object, bytes: size, secret: sealed.secret, facts }))
    }

    /// `secret`: the sealed data key. `value_bytes`: the size of the session's values.
    fn shared_session(
        &self,
        shared: &SharedKeys,
        record: SessionRecord,
        id: SessionId,
        key: OwnedKey,
        payer: Payer,
        (secret, value_bytes): (&[u8], i64),
    ) -> Result<Arc<OpenSession>, ApiError> {
        let bytes_max = self.circuits.session_value_bytes_max;
        let memory = ValueMemory::of_session(self.values.clone(), payer.clone(), bytes_max);
        let data_key = shared.seal.open(key.name(), secret);
        let session = SharedSession {
            digest: record.digest,
            data_key: Arc::new(data_key.ok_or_else(|| ApiError::internal("a data key of another fleet"))?),
            label: key.name().label(),
            lwe_dimension: work::words_bytes(&key) / 4 - 1,
            bytes: value_bytes.unsigned_abs(),
            bytes_max,
            payer,
        };
        let bench = Arc::new(Workbench::shared(memory, shared.values.clone(), session));
        Ok(Arc::new(OpenSession { record, id, key, held: None, bench, read_at: Instant::now() }))
    }

    /// Returns the account's session of the fleet with this id and this row.
    pub(super) async fn read_shared(
        &self,
        account: &AccountId,
        id: &SessionId,
        digest: &SessionDigest,
        row: &GateSession,
    ) -> Result<Arc<OpenSession>, ApiError> {
        let gone = || ended(SessionEnd::Deleted);
        let shared = self.shared.as_ref().ok_or_else(|| ApiError::internal("this node is in no fleet"))?;
        let found = self.store.fleet_key(&digest[..16]).await?.ok_or_else(gone)?;
        let record = SessionRecord::of_row(account, row).ok_or_else(gone)?;
        let trial = row.environment == Environment::Trial;
        let payer = if trial { Payer::trial(account.clone()) } else { Payer::account(account.clone()) };
        // the names of accounts do not depend on the plan, and the weight is on record
        let share = self.workers.share(account, Plan::Free);
        let key = OwnedKey::of_fleet(KeyFacts::open_key(&found.facts, KeyName::of_session(share, digest))?);
        let stored = (&found.secret[..], found.value_bytes);
        let session = self.shared_session(shared, record, id.clone(), key, payer, stored)?;
        self.open.add(session.clone());
        Ok(session)
    }

    /// Ends a session of the fleet: its row first, which erases its data key, then its key on all workers. Returns when all
    /// workers have overwritten the key, after 5 seconds at the latest.
    pub(super) async fn end_shared(&self, digest: &SessionDigest, name: KeyName) -> Result<(), ApiError> {
        self.store.end_gate_session(digest, SessionEnd::Deleted, self.clock.now().0).await?;
        self.open.forget(digest);
        if let Some(fleet) = self.workers.fleet() {
            let ended_at = Instant::now();
            match fleet.end_key(name).await {
                true => self.open.erased(ended_at.elapsed()),
                false => tracing::warn!("not all workers have told that a deleted session's key is overwritten"),
            }
        }
        Ok(())
    }

    /// Ends the sessions of an account in the fleet, and tells the workers.
    pub(super) async fn end_all_shared_of(&self, account: &str) -> Result<(), store::Error> {
        let Some(fleet) = self.workers.fleet() else { return Ok(()) };
        let digests = self.store.fleet_sessions_of(account).await?;
        if digests.is_empty() {
            return Ok(());
        }
        self.store.end_gate_sessions_of(account, FLEET, self.clock.now().0).await?;
        let Ok(id) = account.parse() else { return Ok(()) };
        let share = self.workers.share(&id, Plan::Free);
        for digest in digests.iter().filter_map(|digest| digest.as_slice().try_into().ok()) {
            self.open.forget(digest);
            fleet.tell_end(KeyName::of_session(share, digest)).await;
        }
        Ok(())
    }

    /// Records the ends of expired sessions of the fleet, and removes the keys of ended sessions from the bucket. Every API
    /// node does this.
    pub async fn look_after_shared(&self, shared: &SharedKeys) -> Result<(), store::Error> {
        self.open.forget_unread(BELIEVED);
        self.store.expire_gate_sessions(FLEET, self.clock.now().0).await?;
        for (digest, object) in self.store.ended_fleet_keys(REMOVED_MAX).await? {
            shared.values.forget_values_of(&digest).await?;
            shared.objects.remove(&object).await;
            self.store.forget_fleet_key(&digest).await?;
        }
        Ok(())
    }

    /// Removes objects of keys that no row names. A request that ended between the object and the row left them.
    pub async fn sweep_shared(&self, shared: &SharedKeys) {
        let swept = match self.store.fleet_key_objects().await {
            Ok(named) => shared.objects.sweep(&named).await,
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = swept {
            tracing::warn!(error, "keys in the bucket that no session names could not be removed");
        }
        shared.values.sweep().await;
    }

    /// Writes the row of a session of the fleet, and lets requests find it.
    pub async fn record_shared(
        &self,
        caller: &Caller,
        session: Arc<OpenSession>,
        key: &FleetKey,
        open_max: u64,
        kept: Option<&KeptAnswer>,
    ) -> Result<(), ApiError> {
        self.write_row(caller, &session, open_max, kept, Some(key)).await?;
        self.open.add(session);
        Ok(())
    }

    pub(super) async fn expires_at(&self, caller: &Caller, created_at: Timestamp) -> Result<Timestamp, ApiError> {
        let expires_at = created_at.plus(self.config.ttl);
        if caller.environment != Environment::Trial {
            return Ok(expires_at);
        }
        // a trial's sessions end with the trial, on every node
        let trial = self.store.trial(caller.account.as_str()).await?;
        let trial = trial.ok_or_else(crate::access::api_key::invalid_key)?;
        Ok(expires_at.min(Timestamp(trial.expires_at)))
    }
}
