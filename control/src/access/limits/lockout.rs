//! Lockouts after too many wrong credentials (specification, Authentication 8; readings A20, A21).
//!
//! Failures are counted by the digest of the whole text that was sent and by its network: never by a part of a key, with
//! which a stranger could lock its owner out. Wrong passwords count for the user too, known or not, whichever
//! network they come from: there the wait grows with each failure and stays short, so that a stranger slows a user down but
//! does not shut them out. All is decided in memory; nodes exchange failures through the database once a second, at once
//! where a cache store carries the news.

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

/// Failures of one text within the window that lock it.
const KEY_FAILURES_MAX: usize = 10;
/// Failures from one network within the window that lock it.
const ADDRESS_FAILURES_MAX: usize = 20;
/// The window slides.
const WINDOW: Duration = Duration::from_secs(5 * 60);
/// Length of a lock.
const LOCK: Duration = Duration::from_secs(15 * 60);
/// Wrong passwords of one user without a wait.
const USER_FAILURES_FREE: usize = 5;
/// The wait after the next one; each further one doubles it.
const USER_WAIT_MIN: Duration = Duration::from_secs(1);
/// Longest wait: 288 attempts a day from all addresses together.
const USER_WAIT_MAX: Duration = Duration::from_secs(5 * 60);
/// Wrong passwords of one user are forgotten after a day without any, and by signing in.
const USER_WINDOW: Duration = Duration::from_secs(24 * 3600);
/// Wrong passwords of one user that are remembered: with so many the wait is the longest.
const USER_FAILURES_KEPT: usize = 16;
/// Sign-ups from one network within the window that lock it for further ones.
const SIGN_UPS_MAX: usize = 10;
/// Subjects remembered at once.
const SUBJECTS_MAX: usize = 100_000;
/// Subjects told to the database in one transaction.
const TOLD_MAX: usize = 1000;

/// Digests of addresses and of what was shown. Neither is stored as it is.
pub struct Digests {
    shown: Pepper,
    addresses: Pepper,
    emails: Pepper,
}

impl Digests {
    /// Under the server's secret.
    pub fn new(secrets: &Secrets) -> Digests {
        let of = |purpose| Pepper(secrets.key(purpose));
        Digests { shown: secrets.pepper(), addresses: of(Purpose::Addresses), emails: of(Purpose::Emails) }
    }

    /// Of a text that was shown: for an API key the digest that it is found by.
    pub fn shown(&self, text: &str) -> Digest {
        self.shown.digest(text)
    }

    /// Of a caller's network: the address, or the /64 of an IPv6 one (readings A22).
    pub fn address(&self, address: IpAddr) -> Digest {
        self.addresses.digest(&ClientAddress(address).network().to_string())
    }

    /// A caller's network as one that users sign up from.
    pub fn sign_ups(&self, address: IpAddr) -> Digest {
        self.addresses.digest(&format!("sign-ups {}", ClientAddress(address).network()))
    }

    /// Of the e-mail of an attempt to sign in, whether a user has it or not.
    pub fn user(&self, email: &str) -> Digest {
        self.emails.digest(&email.trim().to_lowercase())
    }

    /// The network as a subject of counters.
    pub fn address_subject(&self, address: IpAddr) -> Subject {
        let digest = self.address(address);
        format!("addr_{}", hex::encode(&digest[..16])).into()
    }
}

/// How long a failure counts.
fn window(kind: LockoutKind) -> Duration {
    match kind {
        LockoutKind::User => USER_WINDOW,
        LockoutKind::Key | LockoutKind::Address | LockoutKind::SignUp => WINDOW,
    }
}

/// The longest lock.
fn lock_max(kind: LockoutKind) -> Duration {
    match kind {
        LockoutKind::User => USER_WAIT_MAX,
        LockoutKind::Key | LockoutKind::Address | LockoutKind::SignUp => LOCK,
    }
}

/// The lock that so many failures within the window are answered with.
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

/// The lockouts as a node knows them.
pub struct Lockouts {
    store: Store,
    known: Mutex<LockoutTable>,
    /// Held during an exchange, so that a stale read cannot overwrite a newer one.
    exchanging: AsyncMutex<()>,
}

#[derive(Default)]
struct LockoutTable {
    subjects: HashMap<Digest, LockoutEntry>,
    /// Subjects with failures that the database does not know.
    untold: HashSet<Digest>,
    /// The last change of the database that was read.
    version: i64,
}

struct LockoutEntry {
    lockout: Lockout,
    untold: Vec<i64>,
}

impl Lockouts {
    /// Nothing known yet.
    pub fn new(store: Store) -> Lockouts {
        Lockouts { store, known: Mutex::default(), exchanging: AsyncMutex::default() }
    }

    /// Refuses a locked network, and a locked text from wherever it comes.
    pub fn check(&self, subjects: impl IntoIterator<Item = Option<Digest>>, now: Timestamp) -> Result<(), ApiError> {
        let mut known = self.known.lock();
        let ends = subjects.into_iter().flatten().filter_map(|subject| {
            let lockout = &mut known.subjects.get_mut(&subject)?.lockout;
            let longest = now.plus(lock_max(lockout.kind)).0;
            let until = lockout.locked_until.as_mut()?;
            // a clock that was set back must not make the lock longer
            *until = (*until).min(longest);
            (*until > now.0).then_some(Timestamp(*until))
        });
        match ends.max() {
            None => Ok(()),
            Some(end) => {
                let message = "too many invalid attempts with this key, for this user or from this address";
                Err(ApiError::new(Code::BruteForceLockout, message).retry_after(end.since(now)))
            }
        }
    }

    /// How many subjects of each kind are locked.
    pub fn locked(&self, now: Timestamp) -> HashMap<LockoutKind, u64> {
        let mut locked = HashMap::new();
        for LockoutEntry { lockout, .. } in self.known.lock().subjects.values() {
            if lockout.locked_until.is_some_and(|until| until > now.0) {
                *locked.entry(lockout.kind).or_default() += 1;
            }
        }
        locked
    }

    /// Counts a failed attempt with this text and from this network.
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

    /// Forgets the failures of a subject, on every node. Whether there were any.
    pub async fn forgive(&self, subject: Digest, now: Timestamp) -> bool {
        let _alone = self.exchanging.lock().await;
        if !self.known.lock().forgive(&subject) {
            return false;
        }
        if let Err(error) = self.store.clear_lockouts(Some(&subject), now.0).await {
            tracing::warn!(cause = %error, "failures were forgiven on this node only: the database failed");
        }
        true
    }

    /// Writes new failures to the database and reads those of other nodes. While it does not answer, the node goes by what it
    /// knows (readings L10). Whether there was anything to write.
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
            tracing::error!(cause = %error, "lockouts were not told to the other nodes: the database failed");
            let mut known = self.known.lock();
            for new in news {
                known.untell(new);
            }
            return false;
        }
        // the subjects that were just told are among the changed ones
        match self.store.lockouts_since(version).await {
            Ok((changed, version)) => {
                let mut known = self.known.lock();
                for lockout in changed {
                    known.learn(lockout, now);
                }
                known.version = version;
            }
            Err(error) => tracing::error!(cause = %error, "lockouts of other nodes were not read"),
        }
        has_news
    }

    /// Removes expired entries.
    pub async fn sweep(&self, now: Timestamp) {
        self.known.lock().forget(now);
        if let Err(error) = self.store.forget_lockouts(now.0).await {
            tracing::error!(cause = %error, "old lockouts were not removed");
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
            tracing::warn!(target: "security", kind = entry.lockout.kind.as_str(), "locked after too many failures");
        }
        entry.untold.push(now.0);
        self.untold.insert(subject);
    }

    /// Forgets the failures of a subject; whether there were any.
    fn forgive(&mut self, subject: &Digest) -> bool {
        self.untold.remove(subject);
        let Some(entry) = self.subjects.get_mut(subject) else { return false };
        let had_any = !entry.lockout.failures.is_empty() || entry.lockout.locked_until.is_some();
        entry.untold.clear();
        entry.lockout.failures.clear();
        entry.lockout.locked_until = None;
        had_any
    }

    /// Some of the failures that the database does not know. They count as told from now on.
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

    /// Takes over the database's entry, with the failures here since.
    fn learn(&mut self, mut lockout: Lockout, now: Timestamp) {
        let room = self.subjects.len() < SUBJECTS_MAX;
        match self.subjects.get_mut(&lockout.subject) {
            Some(entry) => {
                add(&mut lockout, &entry.untold, now);
                // the clock may have been set back since the lock was made; then callers were told an earlier end here, which
                // stays unless there are failures that are not known here
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

    /// Removes expired entries, else the older half of those that are not locked. A flood of made-up keys removes its own
    /// entries; its networks stay, since they fail again and again.
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

/// Adds failures to what is known, and locks when they are too many within the window.
fn add(lockout: &mut Lockout, failures: &[i64], now: Timestamp) {
    let kind = lockout.kind;
    let is_locked = |lockout: &Lockout, at: i64| lockout.locked_until.is_some_and(|until| until > at);
    let mut failures = failures.to_vec();
    failures.sort_unstable();
    // those of a clock that has been set back since would push out what comes now
    lockout.failures.retain(|&known| known < now.plus(window(kind)).0);
    for at in failures {
        // another node may have locked it in the meantime: what came after that does not count, but that a user's wait grows
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
