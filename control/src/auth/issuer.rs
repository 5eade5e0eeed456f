//! The embedded issuer of session tokens (readings A10): ES256, under a key that the first node on a database makes.

use anyhow::Context;
use api::sign_in::PublicKey;
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, ThumbprintHash};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header};
use p256::SecretKey;
use p256::pkcs8::EncodePrivateKey;
use serde::Serialize;
use store::Store;

use crate::ids;
use crate::sealing::Seal;
use crate::secrets::{Purpose, Secrets};

/// The `aud` of this node's own tokens.
pub const AUDIENCE: &str = "ango";
/// What the signing key is sealed to.
const SEALED_NAME: &str = "access_token";

/// The claims of a token of ours.
#[derive(Serialize)]
pub struct OwnClaims<'a> {
    /// The node's address.
    pub iss: &'a str,
    /// [`AUDIENCE`].
    pub aud: &'a str,
    /// The user.
    pub sub: &'a str,
    /// The sign-in.
    pub sid: &'a str,
    /// This token.
    pub jti: &'a str,
    /// The user's account.
    pub account_id: &'a str,
    /// The user's role.
    pub role: &'a str,
    /// Unix seconds.
    pub iat: i64,
    /// Unix seconds.
    pub nbf: i64,
    /// Unix seconds.
    pub exp: i64,
}

/// Signs tokens.
pub struct EmbeddedIssuer {
    /// The `iss` of its tokens.
    pub address: String,
    /// Names its key.
    pub kid: String,
    /// Its key as others see it.
    pub public: PublicKey,
    /// Checks its signatures.
    pub verifying: DecodingKey,
    signing: EncodingKey,
}

impl EmbeddedIssuer {
    /// Takes the key from the database, or makes it at the first start. `address`: the node's own.
    pub async fn open(store: &Store, secrets: &Secrets, address: String) -> anyhow::Result<EmbeddedIssuer> {
        let seal = Seal::new(&secrets.key(Purpose::SigningKeys));
        let fresh = seal.seal(SEALED_NAME, fresh_key().as_bytes());
        let mut stored = store.signing_key(&fresh).await?;
        if seal.open(SEALED_NAME, &stored).is_none() {
            // as long as there are no API keys, a database may get another secret (`Secrets::check`)
            tracing::warn!("the server's secret is another one than before: users have to sign in again");
            stored = store.replace_signing_key(&stored, &fresh).await?;
        }
        let pkcs8 = seal.open(SEALED_NAME, &stored).context(
            "the key that signs session tokens cannot be opened: another node on this database has another ANGO_SECRET",
        )?;
        let signing = EncodingKey::from_ec_der(&pkcs8);
        let mut jwk = Jwk::from_encoding_key(&signing, Algorithm::ES256)?;
        let kid = jwk.thumbprint(ThumbprintHash::SHA256)?;
        jwk.common.key_id = Some(kid.clone());
        let AlgorithmParameters::EllipticCurve(point) = &jwk.algorithm else {
            anyhow::bail!("the key that signs session tokens is of another kind");
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
        Ok(EmbeddedIssuer { address, kid, public, verifying: DecodingKey::from_jwk(&jwk)?, signing })
    }

    /// A token with these claims.
    pub fn sign(&self, claims: &OwnClaims<'_>) -> Result<String, jsonwebtoken::errors::Error> {
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some(self.kid.clone());
        jsonwebtoken::encode(&header, claims, &self.signing)
    }
}

/// A random key of the curve P-256, as PKCS#8. It is overwritten when it is dropped.
fn fresh_key() -> p256::pkcs8::SecretDocument {
    loop {
        let scalar = zeroize::Zeroizing::new(ids::random::<32>());
        // one in 2^32 is not below the curve's order
        if let Ok(key) = SecretKey::from_slice(&*scalar) {
            return key.to_pkcs8_der().expect("a key has a PKCS#8 form");
        }
    }
}
