//! Lockouts after too many wrong credentials (specification, Authentication 8; readings A20, A21).
//!
//! A failure counts against the digest of the whole text that was sent, and against the sender's network. Failures do
//! not count against a part of a key, because a stranger who knows that part could lock the owner out. A wrong password
//! also counts against the user, from all networks together, whether the user exists or not. The user's wait grows with
//! each failure and stays short, so that a stranger slows a user down but does not shut them out. All decisions are
//! made in memory. Nodes exchange failures through the database once a second, or at once if a cache store or a fleet's
//! broker carries the news.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

use api::Code;
use parking_lot::Mutex;
use store::{Lockout, LockoutKind, Store};
use tokio::sync::Mutex as AsyncMutex;

use super::Subject;
use crate::clock::Timestamp;
use crate::secrets::{Digest, Pepper, Purpose, Secrets};
use crate::web::error::ApiError;
use crate::web::peer::ClientAddress;

/// A credential is locked after this many failures with it within the window.
const KEY_FAILURES_MAX: usize = 10;
/// A network is locked after this many failures from it within the window.
const ADDRESS_FAILURES_MAX: usize = 20;
/// Length of the sliding window.
const WINDOW: Duration = Duration::from_secs(5 * 60);
/// Length of a lock.
const LOCK: Duration = Duration::from_secs(15 * 60);
/// Number of wrong passwords that a user may send before the first wait.
const USER_FAILURES_FREE: usize = 5;
/// The first wait. Each further failure doubles the wait.
const USER_WAIT_MIN: Duration = Duration::from_secs(1);
/// The longest wait. All networks together then get at most 288 attempts a day for one user.
const USER_WAIT_MAX: Duration = Duration::from_secs(5 * 60);
/// A user's failures are cleared after a day without a wrong password, or when the user signs in.
const USER_WINDOW: Duration = Duration::from_secs(24 * 3600);
/// Largest number of wrong passwords of one user that are stored. With this many, the user's wait is the longest one.
const USER_FAILURES_KEPT: usize = 16;
/// A network may not sign up further users after this many sign-ups within the window.
const SIGN_UPS_MAX: usize = 10;
/// Largest number of subjects in memory.
const SUBJECTS_MAX: usize = 100_000;
/// Largest number of subjects that one transaction writes.
const TOLD_MAX: usize = 1000;

/// Keyed digests of addresses, credentials and e-mails. The database stores the digests in place of these texts.
pub struct Digests {
    shown: Pepper,
    addresses: Pepper,
    emails: Pepper,
}

impl Digests {
    /// Creates the digests, with keys derived from the server's secret.
    pub fn new(secrets: &Secrets) -> Digests {
        let of = |purpose| Pepper(secrets.key(purpose));
        Digests { shown: secrets.pepper(), addresses: of(Purpose::Addresses), emails: of(Purpose::Emails) }
    }

    /// Computes the digest of a credential. An API key has the same digest here as in its record.
    pub fn shown(&self, text: &str) -> Digest {
        self.shown.digest(text)
    }

    /// Computes the digest of a caller's network: the address, or the /64 of an IPv6 address (readings A22).
    pub fn address(&self, address: IpAddr) -> Digest {
        self.addresses.digest(&ClientAddress(address).network().to_string())
    }

    /// Computes the digest under which sign-ups from a caller's network are counted.
    pub fn sign_ups(&self, address: IpAddr) -> Digest {
        self.addresses.digest(&format!("sign-ups {}", ClientAddress(address).network()))
    }

    /// Computes the digest of the e-mail in an attempt to sign in, whether a user has this e-mail or not.
    pub fn user(&self, email: &str) -> Digest {
        self.emails.digest(&email.trim().to_lowercase())
    }

    /// Returns the subject under which requests from a caller's network are counted.
    pub fn address_subject(&self, address: IpAddr) -> Subject {
        let digest = self.address(address);
        format!("addr_{}", hex::encode(&digest[..16])).into()
    }
}

/// Returns how long a failure of this kind counts.
fn window(kind: LockoutKind) -> Duration {
    match kind {
        LockoutKind::User => USER_WINDOW,
        LockoutKind::Key | LockoutKind::Address | LockoutKind::SignUp => WINDOW,
    }
}

/// Returns the length of the longest lock of this kind.
fn lock_max(kind: LockoutKind) -> Duration {
    match kind {
        LockoutKind::User => USER_WAIT_MAX,
        LockoutKind::Key | LockoutKind::Address | LockoutKind::SignUp => LOCK,
    }
}

/// Returns the length of the lock after this many failures within the window. `None`: no lock yet.
fn lock(kind: LockoutKind, failures: usize) -> Option<Duration> {
    let max = match kind {
        LockoutKind::Key => KEY_FAILURES_MAX,
        LockoutKind::Address => ADDRESS_FAILURES_MAX,
        LockoutKind::SignUp => SIGN_UPS_MAX,
        LockoutKind::User => {
            let doublings = u32::try_from(failures.checked_sub(USER_FAILURES_FREE + 1)?).unwrap_or(u32::MAX);
            let wait = USER_WAIT_MIN.saturating_mul(2_u32.saturating_pow(doublings));
            return Some(wait.min(USER_WAIT_MAX));
        }
    };
    (failures >= max).then_some(LOCK)
}

/// The lockouts that this node knows.
pub struct Lockouts {
    store: Store,
    known: Mutex<LockoutTable>,
    /// Held during an exchange, so that a stale read cannot overwrite a newer one.
    exchanging: AsyncMutex<()>,
}

#[derive(Default)]
struct LockoutTable {
    subjects: HashMap<Digest, LockoutEntry>,
    /// Subjects with failures that are not written to the database yet.
    untold: HashSet<Digest>,
    /// The version of the last change that was read from the database.
    version: i64,
}

struct LockoutEntry {
    lockout: Lockout,
    untold: Vec<i64>,
}

impl Lockouts {
    /// Creates an empty table of lockouts.
    pub fn new(store: Store) -> Lockouts {
        Lockouts { store, known: Mutex::default(), exchanging: AsyncMutex::default() }
    }

    /// Refuses a request whose network or credential is locked.
    pub fn check(&self, subjects: impl IntoIterator<Item = Option<Digest>>, now: Timestamp) -> Result<(), ApiError> {
        let mut known = self.known.lock();
        let ends = subjects.into_iter().flatten().filter_map(|subject| {
            let lockout = &mut known.subjects.get_mut(&subject)?.lockout;
            let longest = now.plus(lock_max(lockout.kind)).0;
            let until = lockout.locked_until.as_mut()?;
            // after the clock was set back, a lock must not last longer than the longest lock of its kind
            *until = (*until).min(longest);
            (*until > now.0).then_some(Timestamp(*until))
        });
        match ends.max() {
            None => Ok(()),
            Some(end) => {
                let message = "too many invalid attempts with this API key, for this user or from this IP address";
                Err(ApiError::new(Code::BruteForceLockout, message).retry_after(end.since(now)))
            }
        }
    }

    /// Returns the number of locked subjects of each kind.
    pub fn locked(&self, now: Timestamp) -> HashMap<LockoutKind, u64> {
        let mut locked = HashMap::new();
        for LockoutEntry { lockout, .. } in self.known.lock().subjects.values() {
            if lockout.locked_until.is_some_and(|until| until > now.0) {
                *locked.entry(lockout.kind).or_default() += 1;
            }
        }
        locked
    }

    /// Counts a failed attempt against the network that it came from and against its credential.
    pub fn failed(&self, address: Option<Digest>, shown: Option<Digest>, now: Timestamp) {
        for (subject, kind) in [(address, LockoutKind::Address), (shown, LockoutKind::Key)] {
            if let Some(subject) = subject {
                self.count(subject, kind, now);
            }
        }
    }

    /// Counts a failure of one subject.
    pub fn count(&self, subject: Digest, kind: LockoutKind, now: Timestamp) {
        self.known.lock().add(subject, kind, now);
    }

    /// Clears the failures of a subject on every node. Returns whether the subject had failures.
    pub async fn forgive(&self, subject: Digest, now: Timestamp) -> bool {
        let _alone = self.exchanging.lock().await;
        if !self.known.lock().forgive(&subject) {
            return false;
        }
        if let Err(error) = self.store.clear_lockouts(Some(&subject), now.0).await {
            tracing::warn!(cause = %error, "failed attempts were cleared on this node only: the database failed");
        }
        true
    }

    /// Writes new failures to the database and reads the failures of other nodes. While the database does not answer,
    /// the node uses the failures that it knows (readings L10). Returns whether the node had failures to write.
    pub async fn exchange(&self, now: Timestamp) -> bool {
        let _alone = self.exchanging.lock().await;
        let (news, version) = {
            let mut known = self.known.lock();
            (known.news(), known.version)
        };
        let has_news = !news.is_empty();
        if has_news
            && let Err(error) =
                self.store.add_lockout_failures(&news, |lockout, new| add(lockout, &new.failures, now)).await
        {
            tracing::error!(cause = %error, "lockouts could not be written for the other nodes: the database failed");
            let mut known = self.known.lock();
            for new in news {
                known.untell(new);
            }
            return false;
        }
        // the answer contains the subjects that were just written, because they changed too
        match self.store.lockouts_since(version).await {
            Ok((changed, version)) => {
                let mut known = self.known.lock();
                for lockout in changed {
                    known.learn(lockout, now);
                }
                known.version = version;
            }
            Err(error) => tracing::error!(cause = %error, "lockouts of other nodes could not be read"),
        }
        has_news
    }

    /// Removes expired entries.
    pub async fn sweep(&self, now: Timestamp) {
        self.known.lock().forget(now);
        if let Err(error) = self.store.forget_lockouts(now.0).await {
            tracing::error!(cause = %error, "expired lockouts could not be removed");
        }
    }
}

impl LockoutTable {
    fn add(&mut self, subject: Digest, kind: LockoutKind, now: Timestamp) {
        if self.subjects.len() >= SUBJECTS_MAX && !self.subjects.contains_key(&subject) {
            self.make_room(now);
        }
        let entry = self.subjects.entry(subject).or_insert_with(|| LockoutEntry {
            lockout: Lockout { subject, kind, failures: Vec::new(), locked_until: None, expires_at: 0 },
            untold: Vec::new(),
        });
        if kind != LockoutKind::User && entry.lockout.locked_until.is_some_and(|until| until > now.0) {
            return;
        }
        add(&mut entry.lockout, &[now.0], now);
        if entry.lockout.locked_until.is_some_and(|until| until > now.0) {
            tracing::warn!(target: "security", kind = entry.lockout.kind.as_str(), "locked out after too many failed attempts");
        }
        entry.untold.push(now.0);
        self.untold.insert(subject);
    }

    /// Clears the failures of a subject. Returns whether the subject had failures.
    fn forgive(&mut self, subject: &Digest) -> bool {
        self.untold.remove(subject);
        let Some(entry) = self.subjects.get_mut(subject) else { return false };
        let had_any = !entry.lockout.failures.is_empty() || entry.lockout.locked_until.is_some();
        entry.untold.clear();
        entry.lockout.failures.clear();
        entry.lockout.locked_until = None;
        had_any
    }

    /// Takes unwritten failures of at most `TOLD_MAX` subjects, to be written to the database. From then on they count
    /// as written.
    fn news(&mut self) -> Vec<Lockout> {
        let chosen: Vec<Digest> = self.untold.iter().take(TOLD_MAX).copied().collect();
        let tell = |subject: Digest| {
            self.untold.remove(&subject);
            let entry = self.subjects.get_mut(&subject)?;
            let failures = std::mem::take(&mut entry.untold);
            Some(Lockout { failures, ..entry.lockout.clone() })
        };
        chosen.into_iter().filter_map(tell).collect()
    }

    fn untell(&mut self, new: Lockout) {
        if let Some(entry) = self.subjects.get_mut(&new.subject) {
            entry.untold.extend(&new.failures);
            self.untold.insert(new.subject);
        }
    }

    /// Replaces this node's entry by the entry in the database, and adds the failures that this node has counted since
    /// it last wrote.
    fn learn(&mut self, mut lockout: Lockout, now: Timestamp) {
        let room = self.subjects.len() < SUBJECTS_MAX;
        match self.subjects.get_mut(&lockout.subject) {
            Some(entry) => {
                add(&mut lockout, &entry.untold, now);
                // After the clock was set back, this node has shown callers an earlier end of the lock than the
                // database has. Keep the earlier end, unless the database has failures that this node does not know.
                let longest = now.plus(lock_max(lockout.kind)).0;
                let too_long = lockout.locked_until.is_some_and(|until| until > longest);
                let nothing_new = lockout.failures == entry.lockout.failures;
                if (too_long || nothing_new) && entry.lockout.locked_until.is_some() {
                    lockout.locked_until = lockout.locked_until.min(entry.lockout.locked_until);
                }
                entry.lockout = lockout;
            }
            None if lockout.expires_at > now.0 && room => {
                self.subjects.insert(lockout.subject, LockoutEntry { lockout, untold: Vec::new() });
            }
            None => {}
        }
    }

    fn forget(&mut self, now: Timestamp) {
        self.subjects.retain(|_, entry| entry.lockout.expires_at > now.0 || !entry.untold.is_empty());
    }

    /// Removes expired entries. If memory is still full, removes the older half of the entries without a lock. So a
    /// flood of made-up keys removes its own entries. The entries of the flood's networks stay, because each new
    /// failure renews them.
    fn make_room(&mut self, now: Timestamp) {
        self.forget(now);
        if self.subjects.len() < SUBJECTS_MAX {
            return;
        }
        let rank = |entry: &LockoutEntry| (entry.lockout.locked_until.is_some(), entry.lockout.expires_at);
        let mut ranks: Vec<_> = self.subjects.values().map(rank).collect();
        let (_, &mut middle, _) = ranks.select_nth_unstable(SUBJECTS_MAX / 2);
        self.subjects.retain(|_, entry| rank(entry) > middle);
        self.untold.retain(|subject| self.subjects.contains_key(subject));
    }
}

/// Adds failures to an entry, and locks the entry's subject if the window has too many failures.
fn add(lockout: &mut Lockout, failures: &[i64], now: Timestamp) {
    let kind = lockout.kind;
    let is_locked = |lockout: &Lockout, at: i64| lockout.locked_until.is_some_and(|until| until > at);
    let mut failures = failures.to_vec();
    failures.sort_unstable();
    // drop failures with a time far ahead, from before the clock was set back: they would push out new failures
    lockout.failures.retain(|&known| known < now.plus(window(kind)).0);
    for at in failures {
        // Another node may have locked the subject already. Failures during the lock do not count, except for a user,
        // because a user's wait grows with each failure.
        if kind != LockoutKind::User && is_locked(lockout, at) {
            continue;
        }
        let place = lockout.failures.partition_point(|&known| known <= at);
        lockout.failures.insert(place, at);
        let newest = Timestamp(lockout.failures[lockout.failures.len() - 1]);
        lockout.failures.retain(|&known| newest.since(Timestamp(known)) < window(kind));
        if let Some(lock) = lock(kind, lockout.failures.len()) {
            lockout.locked_until = Some(newest.plus(lock).0);
            if kind == LockoutKind::User {
                let superfluous = lockout.failures.len().saturating_sub(USER_FAILURES_KEPT);
                lockout.failures.drain(..superfluous);
            } else {
                lockout.failures.clear();
            }
        }
    }
    if !is_locked(lockout, now.0) {
        lockout.locked_until = None;
    }
    let last_failure = lockout.failures.last().map(|&last| Timestamp(last).plus(window(kind)).0);
    lockout.expires_at = lockout.expires_at.max(last_failure.max(lockout.locked_until).unwrap_or(0));
}

#[cfg(test)]
mod tests;
