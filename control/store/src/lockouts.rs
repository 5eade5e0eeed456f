//! Failed attempts with credentials, and the locks that follow (readings A20, A21).

use crate::database::{from_row, values};
use crate::{Result, Store};

/// The kinds of subjects whose failures are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockoutKind {
    /// A text that was sent as an API key.
    Key,
    /// A caller's network.
    Address,
    /// A user. An attempt with a wrong password names the user by e-mail.
    User,
    /// A network from which users sign up. Each sign-up is counted like a failure.
    SignUp,
}

api::words!(LockoutKind, "kind of lockout", {
    Key = "key",
    Address = "address",
    User = "user",
    SignUp = "sign_up",
});

/// The failures and the lock of one subject. Times in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lockout {
    /// Keyed digest of the sent text, of the network, or of a user's e-mail.
    pub subject: [u8; 32],
    /// The kind of the subject.
    pub kind: LockoutKind,
    /// Times of the failures that still count, the oldest first.
    pub failures: Vec<i64>,
    /// When the lock ends. `None`: not locked.
    pub locked_until: Option<i64>,
    /// When the failures and the lock no longer count.
    pub expires_at: i64,
}

/// A locked subject, as shown to an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locked {
    /// Keyed digest.
    pub subject: Vec<u8>,
    /// The kind of the subject.
    pub kind: LockoutKind,
    /// When the lock ends.
    pub locked_until: i64,
    /// The API key's id, if the sent text is an API key or was an API key earlier.
    pub key_id: Option<String>,
    /// The key's account.
    pub account_id: Option<String>,
}

from_row!(Locked { subject, kind as word, locked_until, key_id, account_id });

struct Row {
    subject: Vec<u8>,
    kind: LockoutKind,
    failures: Vec<u8>,
    locked_until: Option<i64>,
    expires_at: i64,
    version: i64,
}

from_row!(Row { subject, kind as word, failures, locked_until, expires_at, version });

impl Row {
    fn lockout(self) -> Option<Lockout> {
        let failures = self.failures.as_chunks().0.iter().map(|bytes| i64::from_be_bytes(*bytes)).collect();
        Some(Lockout {
            subject: self.subject.try_into().ok()?,
            kind: self.kind,
            failures,
            locked_until: self.locked_until,
            expires_at: self.expires_at,
        })
    }
}

impl Store {
    /// Adds new failures to the recorded failures, in one transaction. `add` gets the row (a new row has no failures)
    /// and the entry of `news` with the same subject. Returns the changed rows, in the order of `news`.
    pub async fn add_lockout_failures(
        &self,
        news: &[Lockout],
        add: impl Fn(&mut Lockout, &Lockout) + Send,
    ) -> Result<Vec<Lockout>> {
        let mut tx = self.db.begin().await?;
        let (version,): (i64,) = tx.fetch_one(NEXT_VERSION, values![]).await?;
        let mut known = Vec::with_capacity(news.len());
        for new in news {
            let row: Option<Row> = tx
                .fetch_optional(
                    "SELECT subject, kind, failures, locked_until, expires_at, version FROM lockouts WHERE subject = $1",
                    values![&new.subject],
                )
                .await?;
            let mut lockout = row.and_then(Row::lockout).unwrap_or_else(|| Lockout {
                failures: Vec::new(),
                locked_until: None,
                ..new.clone()
            });
            add(&mut lockout, new);
            let failures: Vec<u8> = lockout.failures.iter().flat_map(|at| at.to_be_bytes()).collect();
            tx.execute(
                "INSERT INTO lockouts (subject, kind, failures, locked_until, expires_at, version) \
                 VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (subject) DO UPDATE SET failures = excluded.failures, \
                 locked_until = excluded.locked_until, expires_at = excluded.expires_at, version = excluded.version",
                values![
                    &lockout.subject,
                    lockout.kind.as_str(),
                    &failures,
                    lockout.locked_until,
                    lockout.expires_at,
                    version
                ],
            )
            .await?;
            known.push(lockout);
        }
        tx.commit().await?;
        Ok(known)
    }

    /// Returns the rows that changed after this version, and the version for the next call.
    pub async fn lockouts_since(&self, version: i64) -> Result<(Vec<Lockout>, i64)> {
        let rows: Vec<Row> = self
            .db
            .fetch_all(
                "SELECT subject, kind, failures, locked_until, expires_at, version FROM lockouts WHERE version > $1",
                values![version],
            )
            .await?;
        let next = rows.iter().map(|row| row.version).max().unwrap_or(version);
        Ok((rows.into_iter().filter_map(Row::lockout).collect(), next))
    }

    /// Returns the subjects that are locked now. The subject whose lock ends last is first.
    pub async fn locked(&self, now: i64) -> Result<Vec<Locked>> {
        let sql = "SELECT subject, kind, locked_until, key_id, account_id FROM lockouts \
                   LEFT JOIN api_keys ON kind = 'key' AND digest = subject \
                   WHERE locked_until > $1 ORDER BY locked_until DESC, subject";
        self.db.fetch_all(sql, values![now]).await
    }

    /// Clears the failures and the lock of this subject. `None`: of all subjects. Returns the number of subjects that
    /// were locked or had failures that still counted.
    pub async fn clear_lockouts(&self, subject: Option<&[u8; 32]>, now: i64) -> Result<u64> {
        let mut tx = self.db.begin().await?;
        let (version,): (i64,) = tx.fetch_one(NEXT_VERSION, values![]).await?;
        let none: &[u8] = &[];
        // the row stays until it expires, so that other nodes notice the change by the row's new version
        let cleared = tx
            .execute(
                "UPDATE lockouts SET failures = $1, locked_until = NULL, version = $2 \
                 WHERE expires_at > $3 AND length(failures) + COALESCE(locked_until, 0) > 0 \
                 AND (subject = $4 OR $5)",
                values![none, version, now, subject.map(|subject| &subject[..]), subject.is_none()],
            )
            .await?;
        tx.commit().await?;
        Ok(cleared)
    }

    /// Deletes expired rows.
    pub async fn forget_lockouts(&self, now: i64) -> Result<u64> {
        self.db.execute("DELETE FROM lockouts WHERE expires_at <= $1", values![now]).await
    }
}

/// Increases the version and locks it, so that the second of two transactions waits for the first.
const NEXT_VERSION: &str = "UPDATE lockout_version SET version = version + 1 WHERE id = 1 RETURNING version";
