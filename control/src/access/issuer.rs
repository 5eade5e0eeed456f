//! The embedded issuer of session tokens (readings A10). Tokens are signed with ES256. The first node on a database
//! makes the key, and the operator may rotate it.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use api::sign_in::PublicKey;
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, ThumbprintHash};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header};
use p256::SecretKey;
use p256::pkcs8::EncodePrivateKey;
use parking_lot::RwLock;
use serde::Serialize;
use store::Store;

use crate::clock::Timestamp;
use crate::ids;
use crate::sealing::Seal;
use crate::secrets::{Purpose, Secrets};

/// The `aud` of this node's own tokens.
pub const AUDIENCE: &str = "ango";
/// Life of an access token.
pub(super) const ACCESS_TTL: Duration = Duration::from_secs(60 * 60);
/// How far the issuer's clock may be from this node's clock when the times in a token are checked.
pub(super) const LEEWAY: Duration = Duration::from_secs(60);
/// The name to which the signing key is sealed: sealed bytes open only under the same name.
const SEALED_NAME: &str = "access_token";
/// How long the keys are used before the node reads them from the database again.
const READ_EVERY: Duration = Duration::from_secs(60);
/// Tokens with unknown key ids cause at most one read of the database in this time.
const UNKNOWN_KID_PAUSE: Duration = Duration::from_secs(1);

/// The claims of a token that this node issues.
#[derive(Serialize)]
pub struct OwnClaims<'a> {
    /// The issuer: this node's address.
    pub iss: &'a str,
    /// The audience: [`AUDIENCE`].
    pub aud: &'a str,
    /// The user's id.
    pub sub: &'a str,
    /// The id of the sign-in.
    pub sid: &'a str,
    /// The id of this token.
    pub jti: &'a str,
    /// The id of the user's account.
    pub account_id: &'a str,
    /// The user's role.
    pub role: &'a str,
    /// Issued at, in Unix seconds.
    pub iat: i64,
    /// Not valid before, in Unix seconds.
    pub nbf: i64,
    /// Expires at, in Unix seconds.
    pub exp: i64,
}

/// Signs session tokens, and gives out the keys with which session tokens are checked.
pub struct EmbeddedIssuer {
    /// The `iss` claim of the issuer's tokens.
    pub address: String,
    store: Store,
    seal: Seal,
    keys: RwLock<Keys>,
}

/// The keys, as last read from the database.
struct Keys {
    current: Arc<OwnKey>,
    /// Keys that no longer sign, each with the time when the last token that it signed expires.
    retired: Vec<(Arc<OwnKey>, Timestamp)>,
    read_at: Timestamp,
}

impl Keys {
    fn all(&self, now: Timestamp) -> impl Iterator<Item = &Arc<OwnKey>> {
        let retired = self.retired.iter().filter(move |(_, ends)| *ends > now).map(|(key, _)| key);
        iter::once(&self.current).chain(retired)
    }
}

/// A signing key of this issuer.
pub struct OwnKey {
    /// The key id.
    kid: String,
    /// The public part, as the key set shows it.
    public: PublicKey,
    /// Checks signatures that this key made.
    pub verifying: DecodingKey,
    signing: EncodingKey,
}

impl OwnKey {
    fn open(seal: &Seal, sealed: &[u8]) -> anyhow::Result<OwnKey> {
        let pkcs8 = seal.open(SEALED_NAME, sealed).context(
            "the key that signs session tokens cannot be opened: another node on this database has another ANGO_SECRET",
        )?;
        let signing = EncodingKey::from_ec_der(&pkcs8);
        let mut jwk = Jwk::from_encoding_key(&signing, Algorithm::ES256)?;
        let kid = jwk.thumbprint(ThumbprintHash::SHA256)?;
        jwk.common.key_id = Some(kid.clone());
        let AlgorithmParameters::EllipticCurve(point) = &jwk.algorithm else {
            anyhow::bail!("the key that signs session tokens is not an elliptic-curve key");
        };
        let public = PublicKey {
            kty: "EC".to_owned(),
            crv: "P-256".to_owned(),
            x: point.x.clone(),
            y: point.y.clone(),
            alg: "ES256".to_owned(),
            usage: "sig".to_owned(),
            kid: kid.clone(),
        };
        Ok(OwnKey { kid, public, verifying: DecodingKey::from_jwk(&jwk)?, signing })
    }
}

impl EmbeddedIssuer {
    /// Reads the keys from the database, or makes the first one. `address`: this node's address, for the `iss` claim.
    pub async fn open(
        store: &Store,
        secrets: &Secrets,
        address: String,
        now: Timestamp,
    ) -> anyhow::Result<EmbeddedIssuer> {
        let seal = Seal::new(&secrets.key(Purpose::SigningKeys));
        let fresh = seal.seal(SEALED_NAME, fresh_key().as_bytes());
        let stored = store.signing_key(&fresh).await?;
        if seal.open(SEALED_NAME, &stored).is_none() {
            // the server's secret may be replaced while the database has no API keys (`Secrets::check`); a signing key
            // that was sealed under the old secret then cannot be opened
            tracing::warn!("the server's secret has changed, so users have to sign in again");
            store.replace_signing_key(&stored, &fresh).await?;
        }
        let keys = RwLock::new(read(store, &seal, now).await?);
        Ok(EmbeddedIssuer { address, store: store.clone(), seal, keys })
    }

    /// Signs a token with these claims.
    pub async fn sign(&self, claims: &OwnClaims<'_>, now: Timestamp) -> Result<String, jsonwebtoken::errors::Error> {
        self.refresh(READ_EVERY, now).await;
        let key = self.keys.read().current.clone();
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some(key.kid.clone());
        jsonwebtoken::encode(&header, claims, &key.signing)
    }

    /// Returns the key with this id, if tokens that this key signed are still accepted. An unknown id causes a read of
    /// the database, because another node may have rotated the key a moment ago.
    pub async fn key(&self, kid: &str, now: Timestamp) -> Option<Arc<OwnKey>> {
        let find = || self.keys.read().all(now).find(|key| key.kid == kid).cloned();
        match find() {
            Some(key) => Some(key),
            None => {
                self.refresh(UNKNOWN_KID_PAUSE, now).await;
                find()
            }
        }
    }

    /// Returns the public keys. The key that signs comes first.
    pub async fn public_keys(&self, now: Timestamp) -> Vec<PublicKey> {
        self.refresh(READ_EVERY, now).await;
        self.keys.read().all(now).map(|key| key.public.clone()).collect()
    }

    /// Reads the keys again if they were last read more than `after` ago. If the database does not answer, the present
    /// keys stay in use.
    async fn refresh(&self, after: Duration, now: Timestamp) {
        if now.is_near(self.keys.read().read_at, after) {
            return;
        }
        // set before the database is read, so that meanwhile other requests use the known keys instead of reading too
        self.keys.write().read_at = now;
        match read(&self.store, &self.seal, now).await {
            Ok(keys) => *self.keys.write() = keys,
            Err(error) => {
                tracing::warn!(
                    cause = %format!("{error:#}"),
                    "the keys that sign session tokens could not be read; the node keeps the keys that it has"
                )
            }
        }
    }
}

/// Rotates the signing key. Returns the new key's id, and the time when the last token of the old key expires. `None`:
/// no node has made a key yet.
pub async fn rotate(store: &Store, secrets: &Secrets, now: Timestamp) -> anyhow::Result<Option<(String, Timestamp)>> {
    let seal = Seal::new(&secrets.key(Purpose::SigningKeys));
    let fresh = seal.seal(SEALED_NAME, fresh_key().as_bytes());
    // other nodes sign with the old key until they have read the new one
    let ends = now.plus(ACCESS_TTL + LEEWAY + 2 * READ_EVERY);
    let rotated = store.rotate_signing_key(&fresh, ends.0, now.0).await?;
    Ok(rotated.then_some((OwnKey::open(&seal, &fresh)?.kid, ends)))
}

async fn read(store: &Store, seal: &Seal, now: Timestamp) -> anyhow::Result<Keys> {
    let (current, retired) = store.signing_keys(now.0).await?;
    // skip keys that were sealed under another secret: the tokens that they signed are not accepted
    let retired = retired.iter().filter_map(|key| {
        let ends = Timestamp(key.ends_at);
        Some((Arc::new(OwnKey::open(seal, &key.sealed).ok()?), ends))
    });
    Ok(Keys { current: Arc::new(OwnKey::open(seal, &current)?), retired: retired.collect(), read_at: now })
}

/// Makes a random key on the curve P-256, as PKCS#8. The key is overwritten on drop.
fn fresh_key() -> p256::pkcs8::SecretDocument {
    loop {
        let scalar = zeroize::Zeroizing::new(ids::random::<32>());
        // about one random number in 2^32 is not below the curve's order: draw another one
        if let Ok(key) = SecretKey::from_slice(&*scalar) {
            return key.to_pkcs8_der().expect("a key has a PKCS#8 form");
        }
    }
}
