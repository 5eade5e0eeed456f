//! Everything of a session that only the process with the session's key has: the open key, a secret key that the server
//! holds, values and runs.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::gates::CreatedSession;
use api::{AccountId, SessionId};
use parking_lot::RwLock;
use store::SessionEnd;
use tokio::sync::oneshot;

use super::record::{SessionDigest, SessionRecord};
use crate::compute::bits::workbench::Workbench;
use crate::compute::held_keys::HeldKey;
use crate::telemetry::Telemetry;
use crate::work::OwnedKey;

/// A session whose key this process has.
pub struct OpenSession {
    /// The part of the session that every node can read.
    pub record: SessionRecord,
    /// The session's id. The id is a secret of the account, so it is never logged.
    pub id: SessionId,
    /// The session's key.
    pub key: OwnedKey,
    /// The session's secret key, if the server holds it (readings G8).
    pub held: Option<HeldKey>,
    /// The session's values and runs.
    pub bench: Arc<Workbench>,
    /// When the session's row was written or read.
    pub read_at: Instant,
}

impl OpenSession {
    /// Makes the answer to the request that created the session.
    pub fn created(&self) -> CreatedSession {
        let (record, params) = (&self.record, self.key.preset.params());
        CreatedSession {
            session_id: self.id.clone(),
            preset: record.preset.clone().into_owned(),
            n: params.lwe_dimension,
            big_n: params.polynomial_size,
            is_blind: record.is_blind,
            imported: record.imported,
            security_claim: record.security_claim(),
            expires_at: record.expires_at.rfc3339(),
        }
    }

    /// Ends the values and runs, closes the key, and measures the time until the key is overwritten. The receiver then
    /// gets a message.
    fn close(&self, end: SessionEnd, telemetry: &Arc<Telemetry>) -> oneshot::Receiver<()> {
        self.bench.close(end);
        let (closed_at, telemetry) = (Instant::now(), telemetry.clone());
        let erased = self.key.close();
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

/// The sessions whose keys this process has, and those of the fleet whose rows it read a moment ago. The engine's memory for
/// keys bounds the number of the former.
pub struct LocalSessions {
    open: RwLock<HashMap<SessionDigest, Arc<OpenSession>>>,
    telemetry: Arc<Telemetry>,
}

impl LocalSessions {
    /// Starts with no session.
    pub fn new(telemetry: Arc<Telemetry>) -> LocalSessions {
        LocalSessions { open: RwLock::default(), telemetry }
    }

    /// Adds a session.
    pub fn add(&self, session: Arc<OpenSession>) {
        self.open.write().insert(session.record.digest, session);
    }

    /// Returns the account's session with this digest.
    pub fn get(&self, account: &AccountId, digest: &SessionDigest) -> Option<Arc<OpenSession>> {
        self.open.read().get(digest).filter(|session| session.record.account == *account).cloned()
    }

    /// Returns all sessions whose keys this process has.
    pub fn all(&self) -> Vec<Arc<OpenSession>> {
        self.open.read().values().filter(|session| !session.key.is_shared()).cloned().collect()
    }

    /// Notes how long it took until all workers of the fleet had overwritten a key.
    pub fn erased(&self, after: Duration) {
        self.telemetry.key_erased(after);
    }

    /// Drops what this process remembers of a session of the fleet.
    pub fn forget(&self, digest: &SessionDigest) {
        self.open.write().remove(digest);
    }

    /// Drops the sessions of the fleet whose rows were read longer ago.
    pub fn forget_unread(&self, than: Duration) {
        self.open.write().retain(|_, session| !session.key.is_shared() || session.read_at.elapsed() < than);
    }

    /// Removes a session and closes its key. The receiver gets a message when the key is overwritten. `None`: another
    /// call removed the session before.
    pub fn remove(&self, session: &OpenSession, end: SessionEnd) -> Option<oneshot::Receiver<()>> {
        let mine = self.open.write().remove(&session.record.digest).is_some();
        // the other call may not have come to the values yet
        session.bench.close(end);
        mine.then(|| session.close(end, &self.telemetry))
    }

    /// Removes the wanted sessions whose keys this process has, and closes the keys. Returns the removed sessions.
    pub fn remove_those(&self, end: SessionEnd, wanted: impl Fn(&SessionRecord) -> bool) -> Vec<Arc<OpenSession>> {
        let removed: Vec<_> = {
            let mut open = self.open.write();
            open.extract_if(|_, session| !session.key.is_shared() && wanted(&session.record))
                .map(|(_, session)| session)
                .collect()
        };
        for session in &removed {
            drop(session.close(end, &self.telemetry));
        }
        removed
    }
}
