//! `Idempotency-Key`: a repeated request has no second effect and gets the first answer (readings I1-I6).
//!
//! [`once`] stands between authorisation and the handlers. This layer claims the key, runs the handler and stores a
//! successful answer; any other result releases the key. A handler that changes the database stores its answer in the
//! same transaction, so that after a crash both exist or neither:
//!
//! ```ignore
//! // `claim: Claim` is an argument of the handler, in front of the body
//! let (response, kept) = claim.keep((StatusCode::CREATED, Answer(created)).into_response()).await?;
//! compute.store
//!     .write(async |tx| {
//!         tx.insert_thing(&thing).await?;
//!         tx.keep(kept.as_ref()).await
//!     })
//!     .await?;
//! Ok(response)
//! ```
//!
//! If the effect must not stop halfway when the client leaves, run these lines in a spawned task. Without an
//! `Idempotency-Key` a claim is empty and costs nothing.

mod answers;
mod fingerprint;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use api::{AccountId, Code};
use axum::body::Body;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::BodyExt;
use sha2::{Digest as _, Sha256};
use store::{Claimed, KeptAnswer, NewClaim, Unit};

use super::Web;
use crate::caller::Caller;
use crate::ids;
use crate::web::error::ApiError;
use answers::RequestIdentity;
use fingerprint::{Fingerprint, fingerprint_of};

pub use answers::{Answers, RENEWAL};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Header that marks a repeated answer.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// Longest `Idempotency-Key` (readings I1).
const KEY_CHARACTERS_MAX: usize = 255;
/// How long answers are stored (specification, Limits).
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// A claim ends this long after its request's deadline, even if its process lives. After its deadline a request needs less
/// time than this to answer.
const CLAIM_MARGIN: Duration = Duration::from_secs(60);
/// Pause between two attempts to release a key.
const RELEASE_PAUSE: Duration = Duration::from_secs(1);

/// A layer that gives a request with an `Idempotency-Key` its effect only once.
pub async fn once(State(web): State<Arc<Web>>, request: Request, next: Next) -> Result<Response, ApiError> {
    if !matches!(*request.method(), Method::POST | Method::PATCH) {
        return Ok(next.run(request).await);
    }
    let Some(key) = presented_key(request.headers())? else { return Ok(next.run(request).await) };
    let caller = request.extensions().get::<Caller>().ok_or_else(|| ApiError::internal("a key without a caller"))?;
    let caller = caller.clone();
    let digest = scope(&caller.account, request.method(), request.uri().path(), key);
    // a separate task: if the client leaves while the claim is being granted, the claim must still be released
    let claiming = tokio::spawn(GrantedClaim::claim(web.clone(), digest, caller.clone()));
    match claiming.await?? {
        ClaimOutcome::Running => Err(ApiError::in_progress()),
        ClaimOutcome::Kept { answer, blob } => {
            let fingerprint = fingerprint_of(request.into_body()).await?;
            let replay = web.answers.open(&web, &caller, &digest, &answer, blob).await?;
            if !replay.fits(fingerprint, &caller) {
                let message =
                    "this Idempotency-Key was used before with another body, role or credential: use a new key";
                return Err(ApiError::new(Code::IdempotencyKeyReused, message));
            }
            let mut response = replay.response;
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
            Ok(response)
        }
        ClaimOutcome::Mine(held) => {
            let (mut parts, body) = request.into_parts();
            parts.extensions.insert(Claim(Some(held.clone())));
            let request = Request::from_parts(parts, Body::new(held.fingerprint.watch(body)));
            held.conclude(next.run(request).await).await
        }
    }
}

/// Returns the idempotency key of a request, if the request has one.
fn presented_key(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let visible = value.as_bytes().iter().all(u8::is_ascii_graphic);
    if values.next().is_some() || !visible || !(1..=KEY_CHARACTERS_MAX).contains(&value.len()) {
        let message = "Idempotency-Key must be one value of 1 to 255 visible ASCII characters";
        return Err(ApiError::new(Code::InvalidRequest, message).at("Idempotency-Key", "not a key"));
    }
    value.to_str().map(Some).map_err(ApiError::internal)
}

/// Computes the digest of an idempotency key and its scope: account, method and path (readings I1). No part contains a
/// zero byte.
fn scope(account: &AccountId, method: &Method, path: &str, key: &str) -> [u8; 32] {
    Sha256::digest([account.as_str(), method.as_str(), path, key].join("\0")).into()
}

/// A request's claim on its idempotency key. Empty if the request has no such key.
#[derive(Clone)]
pub struct Claim(Option<Arc<GrantedClaim>>);

impl Claim {
    /// The claim of work whose request has had its answer.
    pub fn none() -> Claim {
        Claim(None)
    }

    /// Prepares a successful answer to be stored. Returns the same answer, and the record that the effect's transaction
    /// must write.
    pub async fn keep(&self, response: Response) -> Result<(Response, Option<KeptAnswer>), ApiError> {
        self.keep_for(response, Audience::Account).await
    }

    /// Like [`Claim::keep`], for an answer that holds a secret, such as a new key. The answer is repeated only to the
    /// credential of the first request and that credential's rotated successors. Another user of the account with the
    /// same `Idempotency-Key` does not get it.
    pub async fn keep_secret(&self, response: Response) -> Result<(Response, Option<KeptAnswer>), ApiError> {
        self.keep_for(response, Audience::Credential).await
    }

    /// Drops the stored answer that names an operation, because the operation has ended without results.
    pub async fn drop_provisional(&self) {
        let Some(held) = &self.0 else { return };
        if let Err(error) = held.web.answers.store.drop_provisional_answer(&held.digest, &held.claim).await {
            tracing::warn!(%error, "the answer that names a failed operation could not be removed");
        }
    }

    async fn keep_for(
        &self,
        response: Response,
        audience: Audience,
    ) -> Result<(Response, Option<KeptAnswer>), ApiError> {
        match &self.0 {
            Some(held) => held.keep(response, audience).await.map(|(response, kept)| (response, Some(kept))),
            None => Ok((response, None)),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Claim {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Claim>().cloned().unwrap_or(Claim(None)))
    }
}

/// The callers who may get a stored answer again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Audience {
    /// Any caller of the account with the same role.
    Account,
    /// Only the user who sent the first request or, if an API key sent it, the keys of that key's lineage.
    Credential,
}

/// The result of an attempt to claim an idempotency key.
enum ClaimOutcome {
    Mine(Arc<GrantedClaim>),
    Running,
    Kept { answer: Vec<u8>, blob: Option<String> },
}

/// The request is running and no answer is prepared.
const RUNNING: u8 = 0;
/// The handler has prepared its answer.
const ANSWERED: u8 = 1;
/// The claim is released, or its answer is stored.
const ENDED: u8 = 2;

/// A granted claim. If the claim has not ended when it is dropped, because the client left or the handler panicked, the
/// drop releases the key.
struct GrantedClaim {
    web: Arc<Web>,
    digest: [u8; 32],
    claim: [u8; 16],
    caller: Caller,
    fingerprint: Fingerprint,
    state: AtomicU8,
}

impl GrantedClaim {
    async fn claim(web: Arc<Web>, digest: [u8; 32], caller: Caller) -> Result<ClaimOutcome, ApiError> {
        let (now, claim) = (web.clock.now(), ids::random());
        let new = NewClaim {
            digest,
            account_id: caller.account.as_str().to_owned(),
            claim,
            node_id: web.answers.node_id.clone(),
            generation: web.answers.generation(),
            held_until: now.plus(web.deadline + CLAIM_MARGIN).0,
            now: now.0,
        };
        Ok(match web.answers.store.claim(new).await? {
            Claimed::Running => ClaimOutcome::Running,
            Claimed::Kept { answer, blob } => ClaimOutcome::Kept { answer, blob },
            Claimed::Mine => {
                let (fingerprint, state) = (Fingerprint::default(), AtomicU8::new(RUNNING));
                ClaimOutcome::Mine(Arc::new(GrantedClaim { web, digest, claim, caller, fingerprint, state }))
            }
        })
    }

    async fn keep(&self, response: Response, audience: Audience) -> Result<(Response, KeptAnswer), ApiError> {
        let (parts, body) = response.into_parts();
        // the body is complete already, so this does not wait
        let body = body.collect().await.map_err(ApiError::internal)?.to_bytes();
        let asked = RequestIdentity {
            fingerprint: self.fingerprint.whole(),
            role: self.caller.role,
            credential: (audience == Audience::Credential).then(|| self.caller.credential.lasting_id().to_owned()),
        };
        let (answer, blob) = self.web.answers.seal(&self.web, &self.caller, &self.digest, &parts, &body, asked).await?;
        let held_until = self.web.clock.now().plus(KEPT).0;
        self.state.store(ANSWERED, Ordering::Release);
        let kept = KeptAnswer { digest: self.digest, claim: self.claim, answer, blob, held_until, provisional: false };
        Ok((Response::from_parts(parts, Body::from(body)), kept))
    }

    /// Stores a successful answer, unless the handler stored it. Releases the key after any other answer (readings I4).
    async fn conclude(&self, response: Response) -> Result<Response, ApiError> {
        let mut response = response;
        if !response.status().is_success() {
            self.web.answers.store.release_claim(&self.digest, &self.claim).await?;
        } else if self.state.load(Ordering::Acquire) == RUNNING {
            let (same, kept) = self.keep(response, Audience::Account).await?;
            self.web.answers.store.submit(Unit { keep: Some(kept), ..Unit::default() }).await?;
            response = same;
        }
        self.state.store(ENDED, Ordering::Release);
        Ok(response)
    }
}

impl Drop for GrantedClaim {
    fn drop(&mut self) {
        if *self.state.get_mut() == ENDED {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (store, digest, claim) = (self.web.answers.store.clone(), self.digest, self.claim);
        let ends = Instant::now() + self.web.deadline + CLAIM_MARGIN;
        runtime.spawn(async move {
            // releasing a claim does not remove a stored answer. While the database is away the claim is held, and retries are
            // refused, so the release is tried until the claim ends at its time `held_until`
            while let Err(error) = store.release_claim(&digest, &claim).await {
                tracing::error!(%error, "a claim on an idempotency key could not be released");
                if Instant::now() >= ends {
                    return;
                }
                tokio::time::sleep(RELEASE_PAUSE).await;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key_of(values: &[&[u8]]) -> Result<Option<String>, Code> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(value).unwrap());
        }
        presented_key(&headers).map(|key| key.map(str::to_owned)).map_err(|error| error.code)
    }

    #[test]
    fn i1_a_key_is_one_value_of_1_to_255_visible_ascii_characters() {
        assert_eq!(key_of(&[]), Ok(None));
        for good in [&b"k"[..], b"~!\"{}", &[b'a'; 255]] {
            assert_eq!(key_of(&[good]), Ok(Some(String::from_utf8(good.to_vec()).unwrap())));
        }
        for bad in [&[&b""[..]][..], &[b"a b"], &[b"a\tb"], &["\u{e9}".as_bytes()], &[&[b'a'; 256]], &[b"k", b"k"]] {
            assert_eq!(key_of(bad), Err(Code::InvalidRequest), "{bad:?}");
        }
    }

    #[test]
    fn i1_a_key_counts_within_its_account_method_and_path() {
        let accounts = [1, 2].map(AccountId::from_bits);
        let mut scopes = vec![
            scope(&accounts[0], &Method::POST, "/a", "k"),
            scope(&accounts[1], &Method::POST, "/a", "k"),
            scope(&accounts[0], &Method::PATCH, "/a", "k"),
            scope(&accounts[0], &Method::POST, "/b", "k"),
            scope(&accounts[0], &Method::POST, "/a", "l"),
        ];
        assert_eq!(scopes[0], scope(&accounts[0], &Method::POST, "/a", "k"));
        scopes.sort_unstable();
        scopes.dedup();
        assert_eq!(scopes.len(), 5);
    }

    proptest! {
        #[test]
        fn i1_any_header_is_the_key_itself_or_refused(value in prop::collection::vec(prop_oneof![32u8..127, 128u8..=255], 0..300)) {
            let good = (1..=255).contains(&value.len()) && value.iter().all(u8::is_ascii_graphic);
            match key_of(&[&value]) {
                Ok(key) => prop_assert!(good && key.as_deref().map(str::as_bytes) == Some(&value[..])),
                Err(code) => prop_assert!(!good && code == Code::InvalidRequest),
            }
        }
    }
}
