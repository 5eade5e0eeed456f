//! Requests with an `Idempotency-Key` (readings I1-I6). A request has a claim while it runs, and a stored answer
//! afterwards.
//!
//! An answer is stored in the same transaction as the effect of the request ([`crate::Unit::keep`], [`Tx::keep`]), so
//! both are written or neither is. If two requests have the same idempotency key, the second finds the key claimed.
//!
//! A claim holds while the generation of its process is its node's present one and has a lease by the database's clock
//! ([`crate::nodes`]). After that, another request with the same key takes the claim. The request that lost its claim
//! has no effect if it ends later, because its answer no longer finds the claim's row.

use std::collections::HashSet;

use crate::database::{Sql, Tx, clock, values};
use crate::work::Work;
use crate::{Error, Result, Store};

/// A claim to write.
#[derive(Clone, Debug)]
pub struct NewClaim {
    /// SHA-256 over account, method, path and idempotency key.
    pub digest: [u8; 32],
    /// The account of the request.
    pub account_id: String,
    /// Random id of this attempt.
    pub claim: [u8; 16],
    /// The node on which the request runs.
    pub node_id: String,
    /// The generation of the node's process. The claim ends with the generation.
    pub generation: i64,
    /// When the claim ends in any case, in microseconds since 1970.
    pub held_until: i64,
    /// Now, in microseconds since 1970. Claims and answers that ended before this time are ignored.
    pub now: i64,
}

/// The result of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The claim is granted. The request may run and must end the claim.
    Mine,
    /// Another request holds the claim and is running.
    Running,
    /// An earlier request has ended, and its answer is stored.
    Kept {
        /// The stored answer.
        answer: Vec<u8>,
        /// Name of the object with the answer's body, if the body is large.
        blob: Option<String>,
    },
}

/// An answer to store in place of its claim.
#[derive(Clone, Debug)]
pub struct KeptAnswer {
    /// The digest of the claim.
    pub digest: [u8; 32],
    /// The random id of the attempt that holds the claim.
    pub claim: [u8; 16],
    /// The answer, encrypted.
    pub answer: Vec<u8>,
    /// Name of the object with the answer's body, if the body is large.
    pub blob: Option<String>,
    /// The time until which the answer is stored, in microseconds since 1970.
    pub held_until: i64,
    /// The answer only names an operation whose client still waits. The operation's own answer replaces it.
    pub provisional: bool,
}

/// Ends a claim without storing an answer.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    digest: [u8; 32],
    claim: [u8; 16],
}

/// Largest number of attempts at a claim. An attempt is repeated if another claim blocked it and has just been
/// released.
const CLAIM_ATTEMPTS: u32 = 5;

impl Store {
    /// Claims a request, unless another request holds the claim or an answer is stored. If the caller has stopped
    /// waiting, a granted claim stays until its time `held_until`.
    pub async fn claim(&self, claim: NewClaim) -> Result<Claimed> {
        self.writers.submit(claim).await
    }

    /// Ends a claim without storing an answer. Stored answers and other requests' claims stay.
    pub async fn release_claim(&self, digest: &[u8; 32], claim: &[u8; 16]) -> Result<()> {
        self.writers.submit(Release { digest: *digest, claim: *claim }).await
    }

    /// Deletes an answer that only names an operation, because the operation has ended without results. A request with the
    /// same key then begins anew.
    pub async fn drop_provisional_answer(&self, digest: &[u8; 32], claim: &[u8; 16]) -> Result<()> {
        let sql = "DELETE FROM kept_answers WHERE digest = $1 AND claim = $2 AND provisional";
        self.db.execute(sql, values![digest, &claim[..]]).await.map(drop)
    }

    /// Deletes expired answers, and expired claims of lost nodes. Returns the number of deleted rows.
    pub async fn forget_kept_answers(&self, now: i64) -> Result<u64> {
        // lock in the same order as when answers are stored, because otherwise two transactions can deadlock
        let sql = Sql {
            sqlite: "DELETE FROM kept_answers WHERE digest IN \
                 (SELECT digest FROM kept_answers WHERE held_until <= $1 LIMIT $2)",
            postgres: "DELETE FROM kept_answers WHERE digest IN \
                 (SELECT digest FROM kept_answers WHERE held_until <= $1 ORDER BY digest LIMIT $2 FOR UPDATE)",
        };
        self.db.delete_in_portions(sql, now).await
    }

    /// Returns the names of all objects that contain the bodies of answers.
    pub async fn kept_blobs(&self) -> Result<Vec<String>> {
        let rows: Vec<(String,)> =
            self.db.fetch_all("SELECT blob FROM kept_answers WHERE blob IS NOT NULL", values![]).await?;
        Ok(rows.into_iter().map(|(blob,)| blob).collect())
    }
}

impl Store {
    /// Ends all claims of a node whose process has ended.
    pub async fn end_claims_of_node(&self, node_id: &str) -> Result<()> {
        self.write(async |tx| tx.end_claims_of(node_id).await).await
    }
}

impl Tx {
    /// Ends all claims of a node, because the node's process that made them has ended or has lost its lease.
    pub(crate) async fn end_claims_of(&mut self, node_id: &str) -> Result<()> {
        let sql = Sql {
            sqlite: "DELETE FROM kept_answers WHERE node_id = $1 AND answer IS NULL",
            // lock in the same order as when answers are stored, because otherwise two transactions can deadlock
            postgres: "DELETE FROM kept_answers WHERE digest IN (SELECT digest FROM kept_answers \
                 WHERE node_id = $1 AND answer IS NULL ORDER BY digest FOR UPDATE)",
        };
        self.execute(sql, values![node_id]).await.map(drop)
    }

    /// Replaces a claim by its answer.
    ///
    /// # Errors
    /// [`Error::ClaimLost`]: the claim no longer exists. The caller must then undo the effect of the request.
    pub async fn keep(&mut self, kept: Option<&KeptAnswer>) -> Result<()> {
        keep_all(self, kept.into_iter().collect()).await
    }
}

/// Replaces claims by their answers.
pub(crate) async fn keep_all(tx: &mut Tx, mut answers: Vec<&KeptAnswer>) -> Result<()> {
    answers.sort_by_key(|kept| kept.digest);
    let kept = match &answers[..] {
        answers if tx.has_arrays() && answers.len() > 1 => keep_arrays(tx, answers).await?,
        answers => {
            let mut found = 0;
            for kept in answers {
                let sql = "UPDATE kept_answers SET answer = $3, blob = $4, held_until = $5, provisional = $6 \
                     WHERE digest = $1 AND claim = $2 AND (answer IS NULL OR provisional)";
                let KeptAnswer { digest, claim, answer, blob, held_until, provisional } = kept;
                let of = values![digest, &claim[..], answer, blob.as_deref(), *held_until, *provisional];
                found += tx.execute(sql, of).await?;
            }
            found
        }
    };
    if kept == answers.len() as u64 { Ok(()) } else { Err(Error::ClaimLost) }
}

async fn keep_arrays(tx: &mut Tx, answers: &[&KeptAnswer]) -> Result<u64> {
    let bytes = |of: fn(&KeptAnswer) -> &[u8]| answers.iter().map(|kept| of(kept)).collect::<Vec<_>>();
    let digests = bytes(|kept| &kept.digest);
    let blobs: Vec<Option<&str>> = answers.iter().map(|kept| kept.blob.as_deref()).collect();
    let ends: Vec<i64> = answers.iter().map(|kept| kept.held_until).collect();
    let provisional: Vec<i64> = answers.iter().map(|kept| kept.provisional.into()).collect();
    // lock the rows in order first, because an UPDATE of many rows locks them in any order
    let sql = "SELECT 1 FROM kept_answers WHERE digest = ANY($1) ORDER BY digest FOR NO KEY UPDATE";
    tx.execute(sql, values![digests.clone()]).await?;
    let sql = "UPDATE kept_answers k SET answer = a.answer, blob = a.blob, held_until = a.held_until, \
         provisional = a.provisional = 1 \
         FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::text[], $5::bigint[], $6::bigint[]) \
         AS a (digest, claim, answer, blob, held_until, provisional) \
         WHERE k.digest = a.digest AND k.claim = a.claim AND (k.answer IS NULL OR k.provisional)";
    let values = values![digests, bytes(|kept| &kept.claim), bytes(|kept| &kept.answer), blobs, ends, provisional];
    tx.execute(sql, values).await
}

impl Work for NewClaim {
    type Answer = Claimed;

    fn shard(&self) -> &[u8] {
        &self.digest
    }

    async fn run(tx: &mut Tx, claims: &[&Self]) -> Result<Vec<Claimed>> {
        let mut claimed = vec![None; claims.len()];
        for _ in 0..CLAIM_ATTEMPTS {
            let mut open: Vec<usize> = (0..claims.len()).filter(|&at| claimed[at].is_none()).collect();
            if open.is_empty() {
                break;
            }
            open.sort_by_key(|&at| claims[at].digest);
            let of_requests: Vec<&[usize]> = open.chunk_by(|&a, &b| claims[a].digest == claims[b].digest).collect();
            // if several claims are of the same request, only the first may be granted
            let firsts: Vec<&NewClaim> = of_requests.iter().map(|same| claims[same[0]]).collect();
            let granted = insert_claims(tx, &firsts).await?;
            for same in of_requests {
                for (rank, &at) in same.iter().enumerate() {
                    claimed[at] = match rank == 0 && granted.contains(&claims[at].digest) {
                        true => Some(Claimed::Mine),
                        false => held(tx, claims[at]).await?,
                    };
                }
            }
        }
        Ok(claimed.into_iter().map(|claimed| claimed.unwrap_or(Claimed::Running)).collect())
    }
}

/// Inserts claims, which are of different requests and sorted by digest. A claim is not granted if another claim that
/// holds or an answer exists for the same request. Returns the digests of the granted claims.
async fn insert_claims(tx: &mut Tx, claims: &[&NewClaim]) -> Result<HashSet<[u8; 32]>> {
    macro_rules! insert_claims {
        ($rows:literal, $now:literal, $clock:expr) => {
            concat!(
                "INSERT INTO kept_answers (digest, account_id, claim, node_id, generation, held_until) ",
                $rows,
                " ON CONFLICT (digest) DO UPDATE SET account_id = excluded.account_id, claim = excluded.claim, ",
                "node_id = excluded.node_id, generation = excluded.generation, held_until = excluded.held_until, ",
                "answer = NULL, blob = NULL, provisional = FALSE WHERE kept_answers.held_until <= ",
                $now,
                // a claim of a generation that has ended
                " OR (kept_answers.answer IS NULL AND kept_answers.generation IS NOT NULL AND NOT EXISTS ",
                "(SELECT 1 FROM nodes WHERE nodes.node_id = kept_answers.node_id ",
                "AND nodes.generation = kept_answers.generation AND nodes.alive_until > ",
                $clock,
                ")) RETURNING digest"
            )
        };
    }
    let granted: Vec<(Vec<u8>,)> = if tx.has_arrays() && claims.len() > 1 {
        let bytes = |of: fn(&NewClaim) -> &[u8]| claims.iter().map(|claim| of(claim)).collect::<Vec<_>>();
        let texts = |of: fn(&NewClaim) -> &str| claims.iter().map(|claim| Some(of(claim))).collect::<Vec<_>>();
        let ends: Vec<i64> = claims.iter().map(|claim| claim.held_until).collect();
        let values = values![
            bytes(|claim| &claim.digest),
            texts(|claim| &claim.account_id),
            bytes(|claim| &claim.claim),
            texts(|claim| &claim.node_id),
            claims.iter().map(|claim| claim.generation).collect::<Vec<_>>(),
            ends,
            // all claims get the latest of their times
            claims.iter().map(|claim| claim.now).max(),
        ];
        tx.fetch_all(
            insert_claims!(
                "SELECT * FROM unnest($1::bytea[], $2::text[], $3::bytea[], $4::text[], $5::bigint[], $6::bigint[])",
                "$7",
                clock!(postgres)
            ),
            values,
        )
        .await?
    } else {
        let mut granted = Vec::new();
        for claim in claims {
            let NewClaim { digest, account_id, claim, node_id, generation, held_until, now } = claim;
            let values = values![digest, account_id, &claim[..], node_id, *generation, *held_until, *now];
            let sql = Sql {
                sqlite: insert_claims!("VALUES ($1, $2, $3, $4, $5, $6)", "$7", clock!(sqlite)),
                postgres: insert_claims!("VALUES ($1, $2, $3, $4, $5, $6)", "$7", clock!(postgres)),
            };
            granted.extend(tx.fetch_optional(sql, values).await?);
        }
        granted
    };
    Ok(granted.into_iter().filter_map(|(digest,)| digest.try_into().ok()).collect())
}

/// Finds what blocks this claim: another claim or a stored answer. `None`: nothing blocks this claim any more.
async fn held(tx: &mut Tx, claim: &NewClaim) -> Result<Option<Claimed>> {
    let sql = "SELECT answer, blob FROM kept_answers WHERE digest = $1 AND held_until > $2";
    let row: Option<(Option<Vec<u8>>, Option<String>)> =
        tx.fetch_optional(sql, values![&claim.digest, claim.now]).await?;
    Ok(row.map(|(answer, blob)| answer.map_or(Claimed::Running, |answer| Claimed::Kept { answer, blob })))
}

impl Work for Release {
    type Answer = ();

    fn shard(&self) -> &[u8] {
        &self.digest
    }

    async fn run(tx: &mut Tx, releases: &[&Self]) -> Result<Vec<()>> {
        let mut sorted = releases.to_vec();
        sorted.sort_by_key(|release| release.digest);
        for Release { digest, claim } in sorted {
            let sql = "DELETE FROM kept_answers WHERE digest = $1 AND claim = $2 AND answer IS NULL";
            tx.execute(sql, values![digest, &claim[..]]).await?;
        }
        Ok(vec![(); releases.len()])
    }
}
