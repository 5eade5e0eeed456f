//! Requests that carry an `Idempotency-Key` (readings I1-I6): claimed while they run, then their kept answers.
//!
//! Transactions with effects take an optional [`KeptAnswer`] and write it with their effect: both or neither. Of two
//! requests with one claim the second finds the claim taken; a request that has lost its claim (its node was thought dead)
//! has no effect, since its answer finds no row.

use crate::database::{Tx, values};
use crate::{Error, Result, Store};

/// A request that wants to run.
#[derive(Clone, Debug)]
pub struct NewClaim<'a> {
    /// SHA-256 over account, method, path and key.
    pub digest: &'a [u8; 32],
    /// Whose request it is.
    pub account_id: &'a str,
    /// Random: names this attempt.
    pub claim: &'a [u8; 16],
    /// The node it runs on.
    pub node_id: &'a str,
    /// Until when it runs at most, in microseconds since 1970.
    pub held_until: i64,
}

/// What became of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The request may run, and must end its claim.
    Mine,
    /// Another request has it, and runs.
    Running,
    /// An earlier request has ended.
    Kept {
        /// Its answer, as it was given.
        answer: Vec<u8>,
        /// Name of the file that holds the answer's body, if that is large.
        blob: Option<String>,
    },
}

/// An answer to keep in place of its claim.
#[derive(Clone, Debug)]
pub struct KeptAnswer {
    /// The claim's.
    pub digest: [u8; 32],
    /// The claim's.
    pub claim: [u8; 16],
    /// The answer, encrypted: it is not looked into here.
    pub answer: Vec<u8>,
    /// Name of the file that holds the answer's body, if that is large.
    pub blob: Option<String>,
    /// Until when it is kept, in microseconds since 1970.
    pub held_until: i64,
}

/// Times that a claim is tried again when the one in its way has just been released.
const CLAIM_ATTEMPTS: u32 = 5;

impl Store {
    /// Claims a request unless somebody holds it.
    pub async fn claim(&self, claim: &NewClaim<'_>, now: i64) -> Result<Claimed> {
        for _ in 0..CLAIM_ATTEMPTS {
            let held: Option<(Option<Vec<u8>>, Option<String>)> = self
                .db
                .fetch_optional(
                    "SELECT answer, blob FROM kept_answers WHERE digest = $1 AND held_until > $2",
                    values![claim.digest, now],
                )
                .await?;
            match held {
                Some((Some(answer), blob)) => return Ok(Claimed::Kept { answer, blob }),
                Some((None, _)) => return Ok(Claimed::Running),
                None => {}
            }
            let sql = "INSERT INTO kept_answers (digest, account_id, claim, node_id, held_until) \
                 VALUES ($1, $2, $3, $4, $5) ON CONFLICT (digest) DO UPDATE SET account_id = excluded.account_id, \
                 claim = excluded.claim, node_id = excluded.node_id, held_until = excluded.held_until, answer = NULL, \
                 blob = NULL WHERE kept_answers.held_until <= $6";
            let of = values![claim.digest, claim.account_id, &claim.claim[..], claim.node_id, claim.held_until, now];
            if self.db.execute(sql, of).await? == 1 {
                return Ok(Claimed::Mine);
            }
        }
        Ok(Claimed::Running)
    }

    /// Ends a claim without an answer. Kept answers and others' claims stay.
    pub async fn release_claim(&self, digest: &[u8; 32], claim: &[u8; 16]) -> Result<()> {
        let sql = "DELETE FROM kept_answers WHERE digest = $1 AND claim = $2 AND answer IS NULL";
        self.db.execute(sql, values![digest, &claim[..]]).await.map(drop)
    }

    /// Ends all claims of a node, which has just started: its requests are gone. Returns how many.
    pub async fn release_claims_of(&self, node_id: &str) -> Result<u64> {
        self.db.execute("DELETE FROM kept_answers WHERE node_id = $1 AND answer IS NULL", values![node_id]).await
    }

    /// Keeps the answer to a request that had no effect here.
    pub async fn keep_answer(&self, kept: &KeptAnswer) -> Result<()> {
        let mut tx = self.db.begin().await?;
        keep(&mut tx, Some(kept)).await?;
        tx.commit().await
    }

    /// Forgets answers, and claims of lost nodes, whose time is over. Returns how many.
    pub async fn forget_kept_answers(&self, now: i64) -> Result<u64> {
        self.db.execute("DELETE FROM kept_answers WHERE held_until <= $1", values![now]).await
    }

    /// The names of all files that hold answers' bodies.
    pub async fn kept_blobs(&self) -> Result<Vec<String>> {
        let rows: Vec<(String,)> =
            self.db.fetch_all("SELECT blob FROM kept_answers WHERE blob IS NOT NULL", values![]).await?;
        Ok(rows.into_iter().map(|(blob,)| blob).collect())
    }
}

/// Puts an answer in place of its claim, within the transaction of its effect.
pub(crate) async fn keep(tx: &mut Tx, kept: Option<&KeptAnswer>) -> Result<()> {
    let Some(kept) = kept else { return Ok(()) };
    let sql = "UPDATE kept_answers SET answer = $3, blob = $4, held_until = $5 \
         WHERE digest = $1 AND claim = $2 AND answer IS NULL";
    let of = values![&kept.digest, &kept.claim[..], &kept.answer, kept.blob.as_deref(), kept.held_until];
    match tx.execute(sql, of).await? {
        1 => Ok(()),
        _ => Err(Error::ClaimLost),
    }
}
