//! Ciphertexts that the service stores for arithmetic (readings K11-K14, C17, section 14).

use std::sync::Arc;

use api::ciphertexts::{CIPHERTEXT_BYTES_MAX, Ciphertext, Ciphertexts, DeletedCiphertext, UploadCiphertext};
use api::pages::Page;
use api::{CiphertextId, Code};
use axum::Json as Answer;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRef, FromRequest, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest as _, Sha256};
use store::{CiphertextRecord, EncryptionKey, NewCiphertext, Seeded};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use zeroize::Zeroizing;

use crate::caller::Caller;
use crate::clock::Timestamp;
use crate::compute::Compute;
use crate::compute::numbers::keys::material::seed_used;
use crate::compute::numbers::keys::{find, params_and_fingerprint, unknown_key};
use crate::compute::numbers::vault::Shelf;
use crate::ids;
use crate::resource::Payer;
use crate::web::Web;
use crate::web::base64_text::{self, Base64Error};
use crate::web::body::{Json, JsonBody, Pieces, Reserved, base64_ceiling, media_type, reserve};
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;
use crate::web::octets::{self, OCTET_STREAM};
use crate::web::openapi::BODY;
use crate::web::pagination::{PageQuery, Position};
use crate::web::path::PathParts;
use crate::work::numbers::{self, CiphertextFacts, Noise, Tail};

/// Largest number of attempts to make room for a ciphertext. An attempt fails if another ciphertext of the account
/// takes the room first.
pub const ROOM_ATTEMPTS: usize = 8;
/// Bytes of memory reserved for each byte of a ciphertext: one for the ciphertext, one for its check, one for its
/// sealed copy.
const COPIES: u64 = 3;

impl JsonBody for UploadCiphertext {
    const BYTES_MAX: usize = base64_ceiling(CIPHERTEXT_BYTES_MAX);
}

/// The schema of a ciphertext in the octet-stream form.
pub struct CiphertextOctets;

impl PartialSchema for CiphertextOctets {
    fn schema() -> RefOr<Schema> {
        octets::binary("A ciphertext.")
    }
}

impl ToSchema for CiphertextOctets {}

/// An uploaded ciphertext in one of two forms. Octets are not read yet, because the largest number of octets depends on
/// the key.
pub enum CiphertextUpload {
    Json(Json<UploadCiphertext>),
    Octets { key_id: String, request: Request, web: Arc<Web> },
}

impl<S: Send + Sync> FromRequest<S> for CiphertextUpload
where
    Arc<Web>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        match media_type(request.headers()).as_deref() {
            Some("application/json") => Ok(CiphertextUpload::Json(Json::from_request(request, state).await?)),
            Some(OCTET_STREAM) => {
                let query = Query::<Vec<(String, String)>>::try_from_uri(request.uri());
                let key_id = key_id_of(query)?;
                Ok(CiphertextUpload::Octets { key_id, request, web: Arc::from_ref(state) })
            }
            _ => Err(ApiError::new(
                Code::InvalidRequest,
                "the content type must be application/json or application/octet-stream",
            )),
        }
    }
}

/// Returns the key's id from the query (`?key_id=`).
fn key_id_of(query: Result<Query<Vec<(String, String)>>, QueryRejection>) -> Result<String, ApiError> {
    let Query(query) = query.map_err(|_| ApiError::new(Code::InvalidRequest, "the query string cannot be read"))?;
    let mut ids = query.into_iter().filter(|(name, _)| name == "key_id").map(|(_, value)| value);
    match (ids.next(), ids.next()) {
        (Some(key_id), None) => Ok(key_id),
        _ => {
            let message = "the query must name one key: ?key_id=";
            Err(ApiError::new(Code::InvalidRequest, message).at("key_id", "required").in_query())
        }
    }
}

/// Upload a ciphertext.
///
/// In JSON a ciphertext has at most 2 MB. As octets (`?key_id=`) a ciphertext may have the largest size that the key's
/// parameters allow. If the account's ciphertexts would exceed the bytes that the plan allows, the service deletes the
/// ciphertexts that were unused for longest; the answer names the deleted ciphertexts.
#[utoipa::path(
    post,
    path = "/api/v1/ciphertexts",
    operation_id = "uploadCiphertext",
    tag = "Ciphertexts",
    params(("key_id" = Option<String>, Query, description = "With octets: the key that the ciphertext is under.")),
    request_body(description = "The ciphertext.",
        content((UploadCiphertext = "application/json"), (inline(CiphertextOctets) = "application/octet-stream"))),
    responses((status = 201, description = "The ciphertext's record.", body = Ciphertext)),
    extensions(("x-errors" = json!([
        Code::InvalidCiphertext, Code::MismatchedKey, Code::KeyNotFound, Code::QuotaExceeded, Code::SecretKeyRejected,
        BODY
    ])))
)]
pub async fn upload(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    claim: Claim,
    upload: CiphertextUpload,
) -> Result<Response, ApiError> {
    let payer = Payer::from(&caller);
    let (key, bytes, reserved) = match upload {
        CiphertextUpload::Json(Json { value: UploadCiphertext { key_id, ciphertext }, reserved }) => {
            let key = find(&compute, &caller, &key_id).await?;
            (key, decoded(&ciphertext)?, reserved)
        }
        CiphertextUpload::Octets { key_id, request, web } => {
            let key = find(&compute, &caller, &key_id).await?;
            let of_key = key.clone();
            let most = compute.offload.run(payer.clone(), move || {
                params_and_fingerprint(&of_key).map(|(params, _)| numbers::ciphertext_bytes_max(&params))
            });
            let most = usize::try_from(most.await??).map_err(ApiError::internal)?;
            let mut pieces = Pieces::kept(&web, request, most, |bytes| COPIES * bytes)?;
            let bytes = pieces.all().await?;
            (key, bytes, pieces.take_reserved())
        }
    };
    let of_key = key.clone();
    let reading = compute.offload.run(payer, move || {
        let (params, fingerprint) = params_and_fingerprint(&of_key)?;
        let facts = numbers::read_ciphertext(&bytes, &params, fingerprint)?;
        let warnings = numbers::ciphertext_warnings(&params, &facts);
        let seeded = facts.seed.map(|seed| Seeded { seed, sha256: Sha256::digest(&*bytes).into() });
        Ok::<_, ApiError>(((facts, seeded), params.slots() as i64, bytes, warnings))
    });
    let (facts, slot_count, bytes, warnings) = reading.await??;
    // a separate task: if the client leaves, either the ciphertext and its answer are stored, or neither
    let kept = tokio::spawn(async move {
        keep(&compute, &caller, &claim, &key, (facts, slot_count, bytes), (warnings, reserved)).await
    });
    kept.await?
}

/// Stores a ciphertext that was read, and evicts other ciphertexts to make room for the new one (readings K14).
async fn keep(
    compute: &Compute,
    caller: &Caller,
    claim: &Claim,
    key: &EncryptionKey,
    ((facts, seeded), slot_count, mut bytes): ((CiphertextFacts, Option<Seeded>), i64, Zeroizing<Vec<u8>>),
    (warnings, _reserved): (Vec<String>, Reserved),
) -> Result<Response, ApiError> {
    let (now, count) = (compute.clock.now(), bytes.len() as i64);
    let id = ids::ciphertext(now);
    let content = std::mem::take(&mut *bytes);
    let (payer, label) = (caller.into(), id.as_str().to_owned());
    let object = compute.vault.put(Shelf::Ciphertexts, &payer, &caller.account, label, content).await?;
    let cache = compute.limits.of(caller.plan).ciphertext_cache_bytes();
    let new = NewCiphertext {
        ciphertext_id: id.as_str().to_owned(),
        account_id: caller.account.as_str().to_owned(),
        key_id: key.key_id.clone(),
        environment: caller.environment,
        origin: "upload".to_owned(),
        slot_count,
        level: facts.level as i64,
        scale: facts.scale,
        value_bound: facts.value_bound,
        variance: facts.variance,
        mixed: facts.tail == Tail::Mixed,
        sources: facts.sources.to_bytes(),
        object: object.clone(),
        node_id: compute.vault.place().to_owned(),
        bytes: count,
        seeded,
        bytes_max: compute.vault.ciphertext_bytes_of(cache).map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX)),
        evicted: Vec::new(),
        now: now.0,
    };
    let kept = keep_with_room(compute, claim, new, warnings).await;
    if kept.is_err() {
        compute.vault.take_back(Shelf::Ciphertexts, [object]).await;
    }
    compute.vault.erase_dropped().await?;
    kept
}

async fn keep_with_room(
    compute: &Compute,
    claim: &Claim,
    new: NewCiphertext,
    warnings: Vec<String>,
) -> Result<Response, ApiError> {
    for _ in 0..ROOM_ATTEMPTS {
        let pinned = compute.vault.pinned();
        let plan = compute.store.eviction_plan(&new.account_id, new.bytes, new.bytes_max, &pinned).await?;
        let Some(evicted) = plan else {
            return Err(no_room());
        };
        let new = NewCiphertext { evicted, ..new.clone() };
        let told = Ciphertext { warnings: warnings.clone(), ..told_new(&new)? };
        let (answer, kept) = claim.keep((StatusCode::CREATED, Answer(told)).into_response()).await?;
        let written = compute.store.write(async |tx| {
            tx.insert_ciphertext(&new).await?;
            tx.keep(kept.as_ref()).await
        });
        match written.await {
            Ok(()) => return Ok(answer),
            // another ciphertext of the account has taken the room: choose again which ciphertexts to evict
            Err(store::Error::NoRoom) => {}
            Err(store::Error::KeyGone) => return Err(unknown_key()),
            Err(store::Error::SeedUsed(other)) => {
                let of = ("ciphertext", "the ciphertext");
                return Err(seed_used(of, &other, Code::InvalidCiphertext));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(ApiError::unavailable(
        "ciphertexts",
        "too many ciphertexts of this account are being stored right now; try again later",
    ))
}

/// The ciphertexts under a key, one page for each request.
#[utoipa::path(
    get,
    path = "/api/v1/ciphertexts",
    operation_id = "listCiphertexts",
    tag = "Ciphertexts",
    params(
        ("key_id" = String, Query, description = "A key of the account."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "How many ciphertexts a page has; 20 when absent."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page."),
    ),
    responses((status = 200, description = "The ciphertexts, newest `created_at` first.", body = Ciphertexts)),
    extensions(("x-errors" = json!([Code::InvalidRequest, Code::KeyNotFound])))
)]
pub async fn list(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    query: PageQuery,
    key: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Result<Answer<Ciphertexts>, ApiError> {
    let key = find(&compute, &caller, &key_id_of(key)?).await?;
    let (account, after) = (caller.account.as_str(), query.after_text()?);
    let rows = compute.store.ciphertexts_page(account, &key.key_id, after, query.rows_wanted()).await?;
    let position =
        |row: &CiphertextRecord| Position { created_at: row.created_at, id: row.ciphertext_id.clone().into_bytes() };
    let Page { items, next_cursor, has_more, total_count } = query.page(rows, position);
    let items = items.iter().map(told).collect::<Result<_, _>>()?;
    Ok(Answer(Ciphertexts { items, next_cursor, has_more, total_count }))
}

/// The record of a ciphertext; with `Accept: application/octet-stream` the ciphertext itself.
#[utoipa::path(
    get,
    path = "/api/v1/ciphertexts/{ciphertext_id}",
    operation_id = "getCiphertext",
    tag = "Ciphertexts",
    params(("ciphertext_id" = String, Path, description = "The id of a ciphertext of the account.")),
    responses((status = 200, description = "The record, or the ciphertext.",
        content((Ciphertext = "application/json"), (inline(CiphertextOctets) = "application/octet-stream")))),
    extensions(("x-errors" = json!([Code::CiphertextNotFound])))
)]
pub async fn show(
    State(compute): State<Arc<Compute>>,
    State(web): State<Arc<Web>>,
    caller: Caller,
    headers: HeaderMap,
    path: PathParts,
) -> Result<Response, ApiError> {
    let (account, id) = (caller.account.as_str(), path.get("ciphertext_id"));
    if !octets::wanted(&headers) {
        let record = compute.store.ciphertext(account, id).await?.ok_or_else(unknown_ciphertext)?;
        return Ok(Answer(told(&record)?).into_response());
    }
    let payer = Payer::from(&caller);
    // pinned, so that the ciphertext is not evicted while it is read
    let _pinned = compute.vault.pin(vec![id.to_owned()]);
    let now = compute.clock.now();
    let record = compute.store.use_ciphertext(account, id, now.0).await?.ok_or_else(unknown_ciphertext)?;
    let _reserved = reserve(&web.bodies, &payer, COPIES * record.bytes.unsigned_abs()).await?;
    let (label, place) = (record.ciphertext_id.clone(), (record.node_id.as_str(), record.object.as_str()));
    let read = compute.vault.read(Shelf::Ciphertexts, &payer, &caller.account, label, place).await?;
    let mut bytes = read.ok_or_else(unknown_ciphertext)?;
    Ok(([(header::CONTENT_TYPE, OCTET_STREAM)], std::mem::take(&mut *bytes)).into_response())
}

/// Delete a ciphertext.
#[utoipa::path(
    delete,
    path = "/api/v1/ciphertexts/{ciphertext_id}",
    operation_id = "deleteCiphertext",
    tag = "Ciphertexts",
    params(("ciphertext_id" = String, Path, description = "The id of a ciphertext of the account.")),
    responses((status = 200, description = "The ciphertext is deleted.", body = DeletedCiphertext)),
    extensions(("x-errors" = json!([Code::CiphertextNotFound])))
)]
pub async fn delete(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    path: PathParts,
) -> Result<Answer<DeletedCiphertext>, ApiError> {
    let ciphertext_id: CiphertextId = path.get("ciphertext_id").parse().map_err(|_| unknown_ciphertext())?;
    let now = compute.clock.now();
    if !compute.store.delete_ciphertext(caller.account.as_str(), ciphertext_id.as_str(), now.0).await? {
        return Err(unknown_ciphertext());
    }
    compute.vault.erase_dropped().await?;
    Ok(Answer(DeletedCiphertext { ciphertext_id, status: "deleted".to_owned() }))
}

/// Returns the error for a ciphertext that does not fit even if all other ciphertexts are evicted (readings K14).
pub fn no_room() -> ApiError {
    ApiError::new(Code::QuotaExceeded, "the ciphertext is larger than the space that the plan allows for ciphertexts")
}

/// Returns the error for an id that no stored ciphertext of the account has: the id is unknown, or its ciphertext was
/// evicted (readings K14, X14).
pub fn unknown_ciphertext() -> ApiError {
    ApiError::new(Code::CiphertextNotFound, "there is no such ciphertext in this account, or it was evicted")
}

fn decoded(text: &str) -> Result<Zeroizing<Vec<u8>>, ApiError> {
    base64_text::decode(text, CIPHERTEXT_BYTES_MAX).map(Zeroizing::new).map_err(|fault| match fault {
        Base64Error::TooLarge => {
            let message = "a ciphertext may have at most 2 MB in JSON: upload it as application/octet-stream";
            ApiError::new(Code::PayloadTooLarge, message).at("ciphertext", "more than 2 MB")
        }
        fault => ApiError::new(Code::InvalidCiphertext, format!("ciphertext is not base64: {fault}"))
            .at("ciphertext", fault.to_string()),
    })
}

/// Makes the description of a stored ciphertext for answers, from the ciphertext's record.
fn told(record: &CiphertextRecord) -> Result<Ciphertext, ApiError> {
    Ok(Ciphertext {
        ciphertext_id: record.ciphertext_id.parse().map_err(ApiError::internal)?,
        key_id: record.key_id.parse().map_err(ApiError::internal)?,
        slot_count: record.slot_count.unsigned_abs(),
        level: record.level.unsigned_abs(),
        scale_bits: scale_bits(record.scale),
        precision_bits: precision_bits(record.slot_count, record.scale, [record.value_bound, record.variance]),
        size_bytes: record.bytes.unsigned_abs(),
        origin: record.origin.clone(),
        created_at: Timestamp(record.created_at).rfc3339(),
        last_used_at: Timestamp(record.last_used_at).rfc3339(),
        evicted_ciphertext_ids: None,
        warnings: Vec::new(),
    })
}

/// Makes the description of a new ciphertext for answers, with the ids of the ciphertexts that were evicted.
fn told_new(new: &NewCiphertext) -> Result<Ciphertext, ApiError> {
    let evicted = new.evicted.iter().map(|id| id.parse()).collect::<Result<_, _>>().map_err(ApiError::internal)?;
    Ok(Ciphertext {
        ciphertext_id: new.ciphertext_id.parse().map_err(ApiError::internal)?,
        key_id: new.key_id.parse().map_err(ApiError::internal)?,
        slot_count: new.slot_count.unsigned_abs(),
        level: new.level.unsigned_abs(),
        scale_bits: scale_bits(new.scale),
        precision_bits: precision_bits(new.slot_count, new.scale, [new.value_bound, new.variance]),
        size_bytes: new.bytes.unsigned_abs(),
        origin: new.origin.clone(),
        created_at: Timestamp(new.now).rfc3339(),
        last_used_at: Timestamp(new.now).rfc3339(),
        evicted_ciphertext_ids: Some(evicted),
        warnings: Vec::new(),
    })
}

/// Returns the precision in bits of a ciphertext with this many slots, for answers.
fn precision_bits(slot_count: i64, scale: f64, [value_bound, variance]: [f64; 2]) -> f64 {
    let n = 2 * slot_count.unsigned_abs() as usize;
    numbers::ciphertext_precision_bits(n, scale, Noise::new(value_bound, variance))
}

/// Returns the log2 of a scale, rounded to three decimals.
pub fn scale_bits(scale: f64) -> f64 {
    (scale.log2() * 1000.0).round() / 1000.0
}
