//! The public keys of an external issuer, fetched and cached for ten minutes (readings A10). While the issuer does not
//! answer, the node uses the last fetched keys for up to four hours, so that users can go on working. A key that the
//! issuer removes in that time is accepted here until the next fetch.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use api::Code;
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use parking_lot::Mutex;
use reqwest::{Url, redirect};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex as AsyncMutex;

use crate::clock::Timestamp;
use crate::parsers::number;
use crate::web::error::ApiError;

/// How long fetched keys are fresh.
const TTL: Duration = Duration::from_secs(10 * 60);
/// How long fetched keys are used while the issuer does not answer.
const STALE_TTL: Duration = Duration::from_secs(4 * 3600);
/// Least time between two fetches while keys are known, so that not every token with an unknown key id causes a fetch.
const UNKNOWN_KID_PAUSE: Duration = Duration::from_secs(60);
/// Least time between two fetches while no keys are known.
const FAILURE_PAUSE: Duration = Duration::from_secs(5);
/// Longest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Largest number of keys in a set.
const KEYS_MAX: usize = 1000;
/// Timeouts: for a connection, and for an answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// An OpenID issuer.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct ExternalIssuer {
    /// Address of an OpenID issuer: the `iss` claim of its tokens. When set, the node accepts this issuer's tokens for
    /// the dashboard. When unset, the node issues its own tokens.
    #[arg(env = "ANGO_OIDC_ISSUER", value_parser = safe_address)]
    pub address: String,
    /// The `aud` claim in tokens of ANGO_OIDC_ISSUER for this node.
    #[arg(env = "ANGO_OIDC_AUDIENCE")]
    pub audience: String,
    /// Address of the public keys of ANGO_OIDC_ISSUER. When unset, the node reads it from the issuer's discovery document.
    #[arg(env = "ANGO_OIDC_JWKS_URL", value_parser = safe_address)]
    pub jwks_url: Option<String>,
    /// Whether a token of ANGO_OIDC_ISSUER whose `account_id` claim is an account id of this node gives access to that
    /// account. Set true only for an issuer whose users cannot change the claim. With false, the node makes one new
    /// account for each value of the claim.
    #[arg(env = "ANGO_OIDC_TRUST_ACCOUNT_IDS", default_value = "false")]
    pub trusts_account_ids: bool,
    /// Largest number of users and accounts, counted together, that tokens of ANGO_OIDC_ISSUER may create. Beyond this,
    /// new users are refused.
    #[arg(env = "ANGO_OIDC_ACCOUNTS_MAX", default_value = "10000", value_parser = number::<u32>(1..=1 << 31))]
    pub accounts_max: u32,
}

fn safe_address(text: &str) -> Result<String, &'static str> {
    let is_good = Url::parse(text).is_ok_and(|url| is_safe(&url));
    if is_good { Ok(text.to_owned()) } else { Err("must be an https address, or an http address on this machine") }
}

/// A public key of an issuer.
pub struct IssuerKey {
    /// Checks signatures that this key made.
    pub verifying: DecodingKey,
    /// The only algorithm that the key may be used with. `None`: the issuer named none.
    pub only: Option<Algorithm>,
}

/// An external issuer's keys.
pub struct IssuerKeys {
    http: reqwest::Client,
    issuer: String,
    /// The address of the key set. `None`: discovery finds it.
    jwks_url: Option<Url>,
    state: Mutex<State>,
    /// Held during a fetch, so that requests with unknown keys share one fetch.
    fetching: AsyncMutex<()>,
}

#[derive(Default)]
struct State {
    keys: HashMap<String, Arc<IssuerKey>>,
    fetched_at: Option<Timestamp>,
    asked_at: Option<Timestamp>,
}

impl State {
    /// Whether the keys were fetched less than `than` ago.
    fn is_younger(&self, than: Duration, now: Timestamp) -> bool {
        self.fetched_at.is_some_and(|at| now.is_near(at, than))
    }

    /// Returns the key with this id, if the set was fetched less than `younger_than` ago.
    fn key(&self, kid: &str, younger_than: Duration, now: Timestamp) -> Option<Arc<IssuerKey>> {
        self.keys.get(kid).filter(|_| self.is_younger(younger_than, now)).cloned()
    }
}

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

impl IssuerKeys {
    /// Creates an empty cache of this issuer's keys. The keys are fetched when they are first needed.
    pub fn new(issuer: String, jwks_url: Option<String>) -> anyhow::Result<IssuerKeys> {
        crate::tls::choose_cryptography();
        let jwks_url = jwks_url.map(|url| url.parse()).transpose()?;
        let http = reqwest::Client::builder()
            .user_agent(concat!("ango/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(ANSWER_TIMEOUT);
        // without an https: URL, do not load the system's certificates
        let encrypted =
            issuer.starts_with("https:") || jwks_url.as_ref().is_some_and(|url: &Url| url.scheme() == "https");
        let http = if encrypted { http } else { http.tls_certs_only([]) };
        Ok(IssuerKeys {
            http: http.build()?,
            issuer,
            jwks_url,
            state: Mutex::default(),
            fetching: AsyncMutex::default(),
        })
    }

    /// Returns the key with this id. `None`: the issuer has no such key.
    pub async fn key(&self, kid: &str, now: Timestamp) -> Result<Option<Arc<IssuerKey>>, ApiError> {
        if let Some(key) = self.state.lock().key(kid, TTL, now) {
            return Ok(Some(key));
        }
        let old = self.state.lock().key(kid, STALE_TTL, now);
        match old {
            // one request fetches the keys; the others use the old key meanwhile
            Some(old) => match self.fetching.try_lock() {
                Ok(_turn) => self.fetch_if_due(now).await,
                Err(_) => return Ok(Some(old)),
            },
            None => {
                let _turn = self.fetching.lock().await;
                // another request may have fetched the key during the wait
                if self.state.lock().key(kid, TTL, now).is_none() {
                    self.fetch_if_due(now).await;
                }
            }
        }
        let state = self.state.lock();
        if state.is_younger(TTL, now) {
            Ok(state.keys.get(kid).cloned())
        } else {
            state
                .key(kid, STALE_TTL, now)
                .map(Some)
                .ok_or_else(|| ApiError::new(Code::UpstreamUnavailable, "the issuer of session tokens does not answer"))
        }
    }

    /// Fetches the keys, unless the last fetch is too recent.
    async fn fetch_if_due(&self, now: Timestamp) {
        {
            let mut state = self.state.lock();
            let pause = if state.is_younger(STALE_TTL, now) { UNKNOWN_KID_PAUSE } else { FAILURE_PAUSE };
            if state.asked_at.is_some_and(|at| now.is_near(at, pause)) {
                return;
            }
            state.asked_at = Some(now);
        }
        match self.fetch().await {
            Ok(keys) => {
                let mut state = self.state.lock();
                state.keys = keys;
                state.fetched_at = Some(now);
            }
            Err(error) => {
                tracing::warn!(issuer = self.issuer, cause = %format!("{error:#}"), "the issuer's public keys could not be fetched")
            }
        }
    }

    async fn fetch(&self) -> anyhow::Result<HashMap<String, Arc<IssuerKey>>> {
        let url = match &self.jwks_url {
            Some(url) => url.clone(),
            None => self.discover().await?,
        };
        let document: Document = self.get(url).await?;
        ensure!(document.keys.len() <= KEYS_MAX, "the issuer has more than {KEYS_MAX} keys");
        // skip keys of kinds that this node does not accept
        Ok(document.keys.into_iter().filter_map(read_key).collect())
    }

    async fn discover(&self) -> anyhow::Result<Url> {
        let url = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let discovery: Discovery = self.get(url.parse()?).await?;
        ensure!(discovery.issuer == self.issuer, "the issuer calls itself {:?}", discovery.issuer);
        let url: Url = discovery.jwks_uri.parse().context("jwks_uri is not a URL")?;
        ensure!(is_safe(&url), "jwks_uri is neither https nor on this machine");
        Ok(url)
    }

    async fn get<T: for<'de> Deserialize<'de>>(&self, url: Url) -> anyhow::Result<T> {
        let mut answer = self.http.get(url).send().await?.error_for_status()?;
        let declared = answer.content_length().unwrap_or(0);
        ensure!(declared <= ANSWER_BYTES_MAX as u64, "the answer has {declared} bytes");
        let mut bytes = Vec::new();
        while let Some(piece) = answer.chunk().await? {
            if bytes.len() + piece.len() > ANSWER_BYTES_MAX {
                bail!("the answer has more than {ANSWER_BYTES_MAX} bytes");
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(serde_json::from_slice(&bytes)?)
    }
}

/// Fetches an issuer's keys, for programs other than the node. Returns how many of the keys the node can use.
///
/// # Errors
/// When the issuer does not answer, or its answer is not a key set.
pub async fn fetch_once(issuer: &ExternalIssuer) -> anyhow::Result<usize> {
    Ok(IssuerKeys::new(issuer.address.clone(), issuer.jwks_url.clone())?.fetch().await?.len())
}

/// Whether an answer from this URL is safe from changes on its way: the URL is https:, or its host is this machine.
fn is_safe(url: &Url) -> bool {
    let local = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    url.scheme() == "https" || (url.scheme() == "http" && local)
}

/// Reads a key of a set. Returns its id and the key. `None`: the key is not for signatures, or of a kind that is not
/// accepted.
fn read_key(value: Value) -> Option<(String, Arc<IssuerKey>)> {
    let jwk: Jwk = serde_json::from_value(value).ok()?;
    let signs = jwk.common.public_key_use.as_ref().is_none_or(|usage| *usage == PublicKeyUse::Signature);
    // refuse symmetric keys: a symmetric key in a public set is not secret
    let public = !matches!(jwk.algorithm, AlgorithmParameters::OctetKey(_));
    let only = match jwk.common.key_algorithm {
        None => None,
        Some(KeyAlgorithm::ES256) => Some(Algorithm::ES256),
        Some(KeyAlgorithm::EdDSA) => Some(Algorithm::EdDSA),
        Some(KeyAlgorithm::RS256) => Some(Algorithm::RS256),
        Some(KeyAlgorithm::PS256) => Some(Algorithm::PS256),
        Some(_) => return None,
    };
    let kid = jwk.common.key_id.clone().filter(|_| signs && public)?;
    let verifying = DecodingKey::from_jwk(&jwk).ok()?;
    Some((kid, Arc::new(IssuerKey { verifying, only })))
}
