//! Keys that the service generates (readings K8, K9, K18). Deprecated, because the secret key is on the server for a
//! moment.

use std::sync::Arc;
use std::time::Duration;

use api::Code;
use api::encryption_keys::{GenerateKey, GeneratedKey};
use axum::Json as Answer;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use store::KeyRowRecord;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use zeroize::Zeroizing;

use super::material::{Material, Owner, all_rows, put_public_key, put_row, read_row, stored_row};
use super::wanted::{SECURITY_WARNING, WantedKey, security_warning};
use super::{WholeKey, WithParams, book, find, params_and_fingerprint};
use crate::caller::Caller;
use crate::clock::Timestamp;
use crate::compute::Compute;
use crate::compute::held_keys::HeldNumbersKey;
use crate::compute::numbers::vault::Shelf;
use crate::ids;
use crate::web::Web;
use crate::web::base64_text;
use crate::web::body::{Json, JsonBody, reserve};
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;
use crate::web::octets::{self, OCTET_STREAM};
use crate::web::openapi::BODY;
use crate::web::path::PathParts;
use crate::work::numbers::{self, EvaluationKeyHead, ROW_HEADER_BYTES, key_head};

/// Largest size in bytes of an evaluation key that the answer contains. The client downloads a larger key afterwards
/// (readings K18).
const INLINE_BYTES_MAX: u64 = 64 << 20;
/// How long a large generated evaluation key can be downloaded (readings K18).
const DOWNLOADABLE: Duration = Duration::from_secs(3600);
/// The header of RFC 9745: deprecated since 2026-11-23, the day of the endpoint's first release.
const DEPRECATION: (HeaderName, HeaderValue) =
    (HeaderName::from_static("deprecation"), HeaderValue::from_static("@1795392000"));

impl JsonBody for GenerateKey {
    const BYTES_MAX: usize = 64 << 10;
}

/// The schema of an evaluation key.
pub struct EvaluationKeyOctets;

impl PartialSchema for EvaluationKeyOctets {
    fn schema() -> RefOr<Schema> {
        octets::binary("An evaluation key.")
    }
}

impl ToSchema for EvaluationKeyOctets {}

/// Generate a key on the server.
///
/// Deprecated: make keys at the client, and upload the public key and the evaluation key. The service overwrites the
/// secret key before it answers, so no party can decrypt data encrypted under the key. Exception: the operator of a
/// service for local tests can let the service return the secret key. The evaluation key is for products, and for
/// rotations by any number of slots.
#[utoipa::path(
    post,
    path = "/api/v1/keys/generate",
    operation_id = "generateKey",
    tag = "Encryption keys",
    request_body = GenerateKey,
    responses((status = 200, description = "The key.", body = GeneratedKey,
        headers(
            ("Deprecation" = String, description = "The time since which the endpoint is deprecated."),
            ("Link" = String, description = "The endpoint to use instead."),
            ("X-Security-Warning" = Option<String>, description = "Why the key is not secure."),
        ))),
    extensions(("x-errors" = json!([
        Code::InvalidParams, Code::InsufficientSecurity, Code::FeatureDisabled, Code::QuotaExceeded, BODY
    ])))
)]
pub async fn generate(
    State(compute): State<Arc<Compute>>,
    State(web): State<Arc<Web>>,
    caller: Caller,
    claim: Claim,
    WithParams(Json { value: request, .. }): WithParams<GenerateKey>,
) -> Result<Response, ApiError> {
    let disabled = || ApiError::new(Code::FeatureDisabled, "the operator of this node has switched key generation off");
    if !compute.sessions.config.allow_server_held_key {
        return Err(disabled());
    }
    let environment = caller.environment;
    let owner = Owner::from(&caller);
    let making = compute.offload.run(owner.payer.clone(), move || {
        let wanted = WantedKey::check(request.scheme, request.params, environment)?;
        let held = HeldNumbersKey::generate(&wanted.made()?).ok_or_else(disabled)?;
        let head = EvaluationKeyHead::read(&held.head())?;
        Ok::<_, ApiError>((wanted, Arc::new(held), head))
    });
    let (wanted, held, head) = making.await??;
    let bytes = head.bytes();
    if bytes > compute.limits.of(caller.plan).encryption_key_bytes() {
        let message = format!("the evaluation key has {} MB, more than the plan allows", bytes >> 20);
        return Err(ApiError::new(Code::QuotaExceeded, message));
    }
    compute.vault.check_room(Shelf::Keys, bytes)?;
    // memory for the whole key and its base64 if the answer contains the key, otherwise for one part and that part's
    // rows
    let reserved = reserve(&web.bodies, &owner.payer, 3 * bytes.min(INLINE_BYTES_MAX)).await?;
    // a separate task: if the client leaves, either the key and its answer are stored, or neither
    let made = tokio::spawn(async move {
        let mut put = Vec::new();
        let made = make(&compute, &web, &caller, &claim, &wanted, (held, head), &mut put).await;
        drop(reserved);
        if made.is_err() {
            compute.vault.take_back(Shelf::Keys, put).await;
        }
        made
    });
    made.await?
}

/// Makes the public keys of a secret key and stores them. Adds the names of the objects that were put into the vault to
/// `put`.
async fn make(
    compute: &Compute,
    web: &Web,
    caller: &Caller,
    claim: &Claim,
    wanted: &WantedKey,
    (held, head): (Arc<HeldNumbersKey>, EvaluationKeyHead),
    put: &mut Vec<String>,
) -> Result<Response, ApiError> {
    let (owner, (material, key_secret)) = (Owner::from(caller), Material::new(&compute.vault));
    let making = held.clone();
    let public_key = compute.offload.run(owner.payer.clone(), move || making.public_key()).await?;
    let public_key_b64 = base64_text::encode(&public_key);
    let seed = numbers::read_public_key(&public_key)?.seed;
    let public = put_public_key(compute, &owner, &material.material_id, (seed, Zeroizing::new(public_key))).await?;
    put.push(public.object.clone());
    let inline = head.bytes() <= INLINE_BYTES_MAX;
    let mut eval_key = if inline { held.head() } else { Vec::new() };
    let mut records: Vec<KeyRowRecord> = Vec::new();
    for part in 0..held.parts() {
        let making = held.clone();
        let rows = compute.offload.run(owner.payer.clone(), move || making.rows(part)).await?;
        for row in rows {
            if inline {
                eval_key.extend(&row);
            }
            let facts = head.row(&row[..ROW_HEADER_BYTES])?;
            let row = (head.clone(), facts, Zeroizing::new(row));
            let record = put_row(compute, &owner, &material, records.len() as i64, row).await?;
            put.push(record.object.clone());
            records.push(record);
        }
    }
    let secret_key = compute.allow_sk_in_response.then(|| base64_text::encode(&held.to_bytes()));
    // the drop overwrites the only copy of the secret key before the answer (readings K9)
    drop(held);
    let now = compute.clock.now();
    let key_id = ids::encryption_key(now);
    let params = head.params();
    let told = numbers::key_params(params, &wanted.scheme);
    let warning = match &secret_key {
        Some(_) => Some("the secret key was on the server and is in this answer: for local tests only".to_owned()),
        None => security_warning(told.security_bits),
    };
    let is_secret = secret_key.is_some();
    let url = || format!("{}/api/v1/keys/{}/eval-key", web.base_url, key_id.as_str());
    let mut answer = Answer(GeneratedKey {
        key_id: key_id.clone(),
        public_key: public_key_b64,
        secret_key,
        eval_key: inline.then(|| base64_text::encode(&eval_key)),
        eval_key_url: (!inline).then(url),
        slot_count: params.slots() as u64,
        created_at: now.rfc3339(),
        blind_guarantee: false,
        warnings: numbers::warnings(params),
        params: told,
    })
    .into_response();
    let headers = answer.headers_mut();
    let (deprecation, since) = DEPRECATION;
    headers.insert(deprecation, since);
    let link = format!("<{}/docs/quickstart>; rel=\"deprecation\"; type=\"text/html\"", web.base_url);
    headers.insert(header::LINK, HeaderValue::from_str(&link).map_err(ApiError::internal)?);
    if let Some(words) = warning {
        headers.insert(SECURITY_WARNING, HeaderValue::from_str(&words).map_err(ApiError::internal)?);
    }
    let (answer, kept) = if is_secret { claim.keep_secret(answer).await? } else { claim.keep(answer).await? };
    let whole = WholeKey { material_id: &material.material_id, key_secret, public, head, records };
    book(compute, caller, wanted, &key_id, (&whole, "generate"), now, kept.as_ref()).await?;
    Ok(answer)
}

/// Download the evaluation key of a generated key.
///
/// Possible for an hour after the key was generated.
#[utoipa::path(
    get,
    path = "/api/v1/keys/{key_id}/eval-key",
    operation_id = "downloadEvaluationKey",
    tag = "Encryption keys",
    params(("key_id" = String, Path, description = "The id of a generated key of the account.")),
    responses((status = 200, description = "The evaluation key.",
        content((inline(EvaluationKeyOctets) = "application/octet-stream")))),
    extensions(("x-errors" = json!([Code::KeyNotFound, Code::NotFound])))
)]
pub async fn download(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    path: PathParts,
) -> Result<Response, ApiError> {
    let key = find(&compute, &caller, path.get("key_id")).await?;
    let age = compute.clock.now().since(Timestamp(key.created_at));
    if key.source != "generate" || age >= DOWNLOADABLE {
        let message = "an evaluation key can be downloaded for an hour after the service generated it";
        return Err(ApiError::new(Code::NotFound, message));
    }
    compute.vault.check_place(&key.node_id)?;
    let rows = all_rows(&compute.store, &key.material_id).await?;
    let stored: Vec<_> = rows.iter().map(stored_row).collect();
    let of_key = key.clone();
    let head = compute.offload.run((&caller).into(), move || {
        let (params, fingerprint) = params_and_fingerprint(&of_key)?;
        key_head(&params, fingerprint, &stored)
    });
    let head = head.await??;
    let headers =
        [(header::CONTENT_TYPE, OCTET_STREAM.to_owned()), (header::CONTENT_LENGTH, key.eval_key_bytes.to_string())];
    let owner = Owner::from(&caller);
    let material = Material::on_record(&compute.vault, &key.material_id, key.key_secret.as_deref())?;
    // stream one row at a time: the next row is read when the client has taken the last one
    let rows = stream::iter(rows).then(move |row| {
        let (compute, owner, material, key) = (compute.clone(), owner.clone(), material.clone(), key.clone());
        async move {
            let at = (key.node_id.as_str(), row.object.as_str());
            let read = read_row(&compute.vault, &owner, &material, row.row_index, at).await;
            match read {
                Ok(Some(mut bytes)) => Ok(std::mem::take(&mut *bytes)),
                Ok(None) => Err(std::io::Error::other("the key was deleted")),
                Err(error) => Err(std::io::Error::other(error.message)),
            }
        }
    });
    let pieces = stream::iter([Ok(head)]).chain(rows);
    Ok((headers, Body::from_stream(pieces)).into_response())
}
