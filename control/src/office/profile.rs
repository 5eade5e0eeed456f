//! The profile of the issuer, and the URL to which a payment provider sends events (specification,
//! `/v1/account/profile`; readings B9-B13).

use std::sync::Arc;

use api::office::{ImageFacts, Profile as Answer};
use api::sign_in::Hidden;
use api::{AccountId, Code};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use docs_module::request::{self, Fault, Given, Profile};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use store::IssuerProfile;
use time::Date;
use zeroize::{Zeroize, Zeroizing};

use super::Office;
use super::body::Body;
use crate::caller::Caller;
use crate::clock::Timestamp;
use crate::ids;
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;
use crate::web::openapi::BODY;

/// A profile in the form that is sealed and stored: the body of the request that set the profile, and the signing
/// secret, which later requests need not repeat.
#[derive(Serialize, Deserialize)]
struct Kept {
    body: String,
    signing_secret: String,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.body.zeroize();
        self.signing_secret.zeroize();
    }
}

/// A profile that was set earlier, after its record was opened and read.
pub struct SetProfile {
    /// The part of the profile that goes into documents of payments.
    pub profile: Profile,
    /// The secret with which the provider signs events. Empty means that events are not signed.
    pub signing_secret: Zeroizing<String>,
    logo: Option<ImageFacts>,
    seal: Option<ImageFacts>,
}

/// Set the issuer's profile and get the URL for the payment provider's events.
///
/// The new profile replaces the old one.
///
/// The URL stays the same unless `rotate_token` is true. If `provider_signing_secret` is absent, the old secret stays.
/// An empty secret removes the old one.
#[utoipa::path(
    post,
    path = "/v1/account/profile",
    operation_id = "setProfile",
    tag = "Back office",
    request_body = api::office::ProfileIn,
    responses((status = 200, description = "The profile.", body = Answer)),
    extensions(("x-errors" = json!(BODY)))
)]
pub async fn set(
    State(office): State<Arc<Office>>,
    caller: Caller,
    claim: Claim,
    body: Body,
) -> Result<Response, ApiError> {
    let today = office.today();
    let (mut kept, profile) = body
        .work(move |bytes, _| {
            let profile = request::profile(bytes, &Given::on(today))?;
            let body = String::from_utf8_lossy(bytes).into_owned();
            Ok::<_, Vec<Fault>>((Kept { body, signing_secret: String::new() }, profile))
        })
        .await?;
    let (account_id, lineage_id) = (caller.account.as_str(), caller.credential.lasting_id());
    let now = office.clock.now();
    let new_token = ids::random_hex::<32>("");
    let seal = office.seals.of(&caller.account);
    let answer = office
        .store
        .write(async |tx| {
            let before = tx.lock_issuer_profile(account_id, lineage_id).await?;
            if let Some(secret) = &profile.provider_signing_secret {
                kept.signing_secret = secret.clone();
            } else if let Some(before) = &before {
                kept.signing_secret.push_str(&open(&office, before)?.signing_secret);
            }
            let has_new_token = before.is_none() || profile.rotate_token;
            let token = match before.as_ref().filter(|_| !has_new_token) {
                Some(before) => token_of(&office, before)?,
                None => new_token.clone(),
            };
            let record = IssuerProfile {
                lineage_id: lineage_id.to_owned(),
                account_id: account_id.to_owned(),
                environment: caller.environment,
                sealed_profile: seal
                    .seal(lineage_id, &Zeroizing::new(serde_json::to_vec(&kept).map_err(ApiError::internal)?)),
                token_digest: digest(&token).to_vec(),
                sealed_token: seal.seal(token_name(lineage_id), token.as_bytes()),
                created_at: before.map_or(now.0, |before| before.created_at),
                updated_at: now.0,
            };
            let set = read(&kept, today)?;
            let answer = Json(told(&office, &set, &record, &token)).into_response();
            let (answer, keep) = claim.keep_secret(answer).await?;
            tx.put_issuer_profile(&record, has_new_token).await?;
            tx.keep(keep.as_ref()).await?;
            Ok::<_, ApiError>(answer)
        })
        .await?;
    Ok(answer)
}

/// Show the issuer's profile, without the signing secret and the pictures.
#[utoipa::path(
    get,
    path = "/v1/account/profile",
    operation_id = "getProfile",
    tag = "Back office",
    responses((status = 200, description = "The profile.", body = Answer)),
    extensions(("x-errors" = json!([Code::NotFound])))
)]
pub async fn show(State(office): State<Arc<Office>>, caller: Caller) -> Result<Json<Answer>, ApiError> {
    let record = office.store.issuer_profile(caller.credential.lasting_id()).await?;
    let record = record.ok_or_else(|| ApiError::new(Code::NotFound, "no profile was set with this API key"))?;
    let set = office.opened_profile(&record)?;
    let token = token_of(&office, &record)?;
    Ok(Json(told(&office, &set, &record, &token)))
}

impl Office {
    /// Opens and reads the profile of a record.
    pub(super) fn opened_profile(&self, record: &IssuerProfile) -> Result<SetProfile, ApiError> {
        read(&open(self, record)?, self.today())
    }

    /// Returns for what the money of a key's receipts was paid, as its profile says. Empty without a profile.
    pub(super) async fn receipt_proviso(&self, caller: &Caller) -> Result<String, ApiError> {
        #[derive(Deserialize)]
        struct Body {
            #[serde(default)]
            proviso: String,
        }
        let Some(record) = self.store.issuer_profile(caller.credential.lasting_id()).await? else {
            return Ok(String::new());
        };
        let Body { proviso } = serde_json::from_str(&open(self, &record)?.body).map_err(ApiError::internal)?;
        Ok(proviso)
    }
}

/// Returns the SHA-256 of a token, by which the database finds the token's profile.
pub(super) fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// Returns the name under which a lineage's token is sealed. The lineage's profile is sealed under another name, so
/// that a sealed profile cannot take the token's place.
fn token_name(lineage_id: &str) -> String {
    format!("{lineage_id} token")
}

fn unsealed(
    office: &Office,
    record: &IssuerProfile,
    name: &str,
    sealed: &[u8],
) -> Result<Zeroizing<Vec<u8>>, ApiError> {
    let account: AccountId = record.account_id.parse().map_err(ApiError::internal)?;
    let opened = office.seals.of(&account).open(name, sealed);
    opened.ok_or_else(|| ApiError::internal("a profile was sealed under another secret"))
}

fn open(office: &Office, record: &IssuerProfile) -> Result<Kept, ApiError> {
    let opened = unsealed(office, record, &record.lineage_id, &record.sealed_profile)?;
    serde_json::from_slice(&opened).map_err(ApiError::internal)
}

fn token_of(office: &Office, record: &IssuerProfile) -> Result<Zeroizing<String>, ApiError> {
    let opened = unsealed(office, record, &token_name(&record.lineage_id), &record.sealed_token)?;
    Ok(std::str::from_utf8(&opened).map_err(ApiError::internal)?.to_owned().into())
}

/// Reads a stored profile. A fault is an internal error, because the profile was valid when it was set.
fn read(kept: &Kept, today: Date) -> Result<SetProfile, ApiError> {
    let profile = request::profile(kept.body.as_bytes(), &Given::on(today));
    let profile =
        profile.map_err(|faults| ApiError::internal(format!("a stored profile is no longer valid: {faults:?}")))?;
    let body: Value = serde_json::from_str(&kept.body).map_err(ApiError::internal)?;
    let image = |name: &str| {
        let text = body[name].as_str().filter(|text| !text.is_empty())?;
        Some(ImageFacts { sha256: hex::encode(Sha256::digest(text)), bytes: text.len() as u64 })
    };
    let (logo, seal) = (image("logo"), image("seal"));
    Ok(SetProfile { profile, signing_secret: kept.signing_secret.clone().into(), logo, seal })
}

fn told(office: &Office, set: &SetProfile, record: &IssuerProfile, token: &str) -> Answer {
    let Profile { issuer, delivery_mode, delivery_email, default_rate, kind, brand_color, .. } = &set.profile;
    Answer {
        issuer: issuer.name.clone(),
        registration_number: issuer.registration_number.to_string(),
        issuer_address: issuer.address.clone(),
        issuer_tel: issuer.tel.clone(),
        delivery_mode: delivery_mode.name().to_owned(),
        delivery_email: delivery_email.clone(),
        default_tax_rate: default_rate.percent(),
        document_type: kind.name().to_owned(),
        brand_color: brand_color.clone(),
        logo: set.logo.clone(),
        seal: set.seal.clone(),
        provider: set.profile.provider.name().to_owned(),
        proviso: set.profile.proviso.clone(),
        skip_small_returns: set.profile.skip_small_returns,
        signature_required: !set.signing_secret.is_empty(),
        ingest_url: Hidden(format!("{}/v1/ingest/{token}", office.web.base_url)),
        created_at: Timestamp(record.created_at).rfc3339(),
        updated_at: Timestamp(record.updated_at).rfc3339(),
    }
}
