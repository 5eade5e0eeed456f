//! Stored answers at rest: encrypted (readings I5), with large bodies as objects (I6).

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::response::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use store::Store;
use zeroize::Zeroizing;

use crate::blobs::{Blobs, Missing};
use crate::caller::{Caller, Role};
use crate::clock::Timestamp;
use crate::ids;
use crate::resource::Payer;
use crate::sealing::AccountSeals;
use crate::web::Web;
use crate::web::body::reserve;
use crate::web::error::ApiError;

/// Bodies of at least this size are stored as objects.
const OBJECT_BYTES_MIN: usize = 64 << 10;
/// Memory reserved for each byte of a large body: for the answer and for its encrypted copy.
const COPIES: u64 = 2;
/// Wait before a retry: the load balancer may then choose the node that holds the answer.
const OTHER_NODE_WAIT: Duration = Duration::from_secs(1);

/// Length of the lease on this process's claims. If the process dies, its claims are free after this time.
const LEASE: Duration = Duration::from_secs(10);
/// Time between two renewals of the lease.
pub const RENEWAL: Duration = Duration::from_secs(2);

/// Stores and reads answers on this node.
pub struct Answers {
    /// This node's id, which marks this node's claims. The id is the same at every start.
    pub(crate) node_id: String,
    /// The generation of this process. Its claims end with it.
    generation: AtomicI64,
    /// The database with claims and stored answers.
    pub(crate) store: Store,
    seals: AccountSeals,
    blobs: Blobs,
}

/// The lease's length in microseconds.
fn lease_us() -> i64 {
    LEASE.as_micros() as i64
}

/// A stored answer without its body.
#[derive(Serialize, Deserialize)]
struct Head {
    status: u16,
    headers: Vec<(String, String)>,
    asked: RequestIdentity,
}

/// The properties by which a repeated request is recognized as the same.
#[derive(Serialize, Deserialize)]
pub(super) struct RequestIdentity {
    /// SHA-256 of the body. `None`: the body was not read.
    pub(super) fingerprint: Option<[u8; 32]>,
    /// The caller's role. A lower role must not read an answer to a higher one, such as a new key.
    pub(super) role: Role,
    /// The API key's lineage or the user, if the answer holds a secret. Other credentials must not get the answer
    /// again.
    pub(super) credential: Option<String>,
}

/// A stored answer, opened.
pub struct Replay {
    pub response: Response,
    asked: RequestIdentity,
}

impl Replay {
    /// Whether the first request had a body with this hash and a caller with this role. If the answer holds a secret,
    /// the credential must be the same too.
    pub fn fits(&self, fingerprint: [u8; 32], caller: &Caller) -> bool {
        let RequestIdentity { fingerprint: first, role, credential } = &self.asked;
        *role == caller.role
            && credential.as_ref().is_none_or(|credential| credential == caller.credential.lasting_id())
            && first.is_none_or(|first| first == fingerprint)
    }
}

impl Answers {
    /// Creates a store for answers, sealed under their accounts' keys, and for claims of this node.
    pub fn new(store: Store, seals: AccountSeals, blobs: Blobs, node_id: String) -> Answers {
        Answers { node_id, generation: AtomicI64::new(0), store, seals, blobs }
    }

    /// Returns the generation of this process, for its claims.
    pub(super) fn generation(&self) -> i64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Begins a generation of this process, before its first claim. Ends the claims of the node's earlier process.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn begin_generation(&self) -> Result<(), store::Error> {
        let generation = i64::from_ne_bytes(ids::random());
        self.store.begin_generation(&self.node_id, generation, lease_us()).await?;
        self.generation.store(generation, Ordering::Release);
        Ok(())
    }

    /// Renews the lease on this process's claims. If the lease was over, the process begins another generation: other
    /// nodes may have taken the claims, so the requests that made them are neither answered nor charged.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn renew_generation(&self) -> Result<(), store::Error> {
        if self.store.renew_generation(&self.node_id, self.generation(), lease_us()).await? {
            return Ok(());
        }
        tracing::warn!(
            "the lease on this node's claims was over, because the node or the database stood still: running requests \
             with an Idempotency-Key are not answered"
        );
        self.begin_generation().await
    }

    /// Removes expired answers, and objects to which no answer refers any more.
    pub async fn forget_old(&self, now: Timestamp) {
        let forgotten = async {
            self.store.forget_kept_answers(now.0).await?;
            let named = self.store.kept_blobs().await?;
            self.blobs.sweep(&named).await.map_err(ApiError::internal)
        };
        if let Err(error) = forgotten.await {
            tracing::error!(message = error.message, "old answers were not removed");
        }
    }

    /// Seals an answer for storage. If the body is large, stores it as an object and also returns the object's name.
    /// The object is durable before this returns. If no record ever refers to the object, a sweep removes it.
    pub(super) async fn seal(
        &self,
        web: &Web,
        caller: &Caller,
        digest: &[u8; 32],
        parts: &Parts,
        body: &Bytes,
        asked: RequestIdentity,
    ) -> Result<(Vec<u8>, Option<String>), ApiError> {
        let headers = parts.headers.iter().filter(|(name, _)| **name != header::CONTENT_LENGTH);
        let text =
            |(name, value): (&HeaderName, &HeaderValue)| Some((name.to_string(), value.to_str().ok()?.to_owned()));
        let head = Head { status: parts.status.as_u16(), headers: headers.filter_map(text).collect(), asked };
        let head = serde_json::to_vec(&head).map_err(ApiError::internal)?;
        let length = u32::try_from(head.len()).map_err(ApiError::internal)?.to_le_bytes();
        let seal = self.seals.of(&caller.account);
        if body.len() < OBJECT_BYTES_MIN {
            let whole = Zeroizing::new([&length, &head[..], body].concat());
            return Ok((seal.seal(digest, &whole), None));
        }
        let payer = Payer::from(caller);
        let _reserved = reserve(&web.bodies, &payer, COPIES * body.len() as u64).await?;
        let (blobs, account, label, body) = (self.blobs.clone(), caller.account.clone(), *digest, body.clone());
        let sealed = web.offload.finish(payer, move || blobs.seal(&account, &label, body.into())).await?;
        let blob = self.blobs.put(sealed).await.map_err(|error| {
            tracing::error!(error, "an answer could not be stored");
            ApiError::unavailable("objects", "the answer could not be stored, so nothing was done")
        })?;
        Ok((seal.seal(digest, &[&length, &head[..]].concat()), Some(blob)))
    }

    /// Opens a stored answer.
    pub(super) async fn open(
        &self,
        web: &Web,
        caller: &Caller,
        digest: &[u8; 32],
        answer: &[u8],
        blob: Option<String>,
    ) -> Result<Replay, ApiError> {
        let broken = || ApiError::internal("a stored answer is damaged or was sealed under another secret");
        let opened = self.seals.of(&caller.account).open(digest, answer).ok_or_else(broken)?;
        let (length, rest) = opened.split_first_chunk().ok_or_else(broken)?;
        let (head, body) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(broken)?;
        let head: Head = serde_json::from_slice(head).map_err(ApiError::internal)?;
        let body = match blob {
            None => Bytes::copy_from_slice(body),
            Some(name) => {
                let sealed = self.blobs.get(&name).await.map_err(|missing| self.not_read(missing))?;
                let (blobs, account, label) = (self.blobs.clone(), caller.account.clone(), *digest);
                let opened = web.offload.run(caller.into(), move || blobs.open(&account, &label, sealed)).await?;
                let mut body = opened.map_err(|missing| self.not_read(missing))?;
                Bytes::from(std::mem::take(&mut *body))
            }
        };
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::from_u16(head.status).map_err(ApiError::internal)?;
        for (name, value) in head.headers {
            let name: HeaderName = name.parse().map_err(ApiError::internal)?;
            response.headers_mut().append(name, value.parse().map_err(ApiError::internal)?);
        }
        Ok(Replay { response, asked: head.asked })
    }

    /// Makes the error for a stored answer whose body could not be read.
    fn not_read(&self, missing: Missing) -> ApiError {
        match missing {
            Missing::NotHere if !self.blobs.are_shared() => {
                tracing::warn!("a stored answer is missing in this node's folder");
                let message = "the answer to this Idempotency-Key is kept on another node: send the request again, \
                     through a balancer that keeps a session on its node";
                ApiError::unavailable("other_node", message).retry_after(OTHER_NODE_WAIT)
            }
            Missing::NotHere => ApiError::internal("a stored answer is missing in the bucket"),
            Missing::Failed(error) => {
                tracing::error!(error, "a stored answer could not be read");
                ApiError::unavailable("objects", "the answer to this Idempotency-Key cannot be read at the moment")
                    .retry_after(OTHER_NODE_WAIT)
            }
        }
    }
}
