//! Encryption keys for arithmetic (specification, Encryption keys; readings section 8).

pub mod at_rest;
pub mod generate;
pub(super) mod material;
mod rows;
pub mod uploads;
mod wanted;

use std::sync::Arc;

use api::encryption_keys::{
    DeletedEncryptionKey, EVALUATION_KEY_BYTES_MAX, EncryptionKeyRecord, EncryptionKeys, PUBLIC_KEY_BYTES_MAX,
    UploadKey, UploadedKey,
};
use api::pages::Page;
use api::{AccountId, Code};
use axum::Json as Answer;
use axum::extract::{FromRef, FromRequest, Request, State};
use axum::http::HeaderValue;
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde_json::json;
use store::{
    Added, EncryptionKey, KeptAnswer, KeyMade, KeyRowRecord, NewEncryptionKey, NewEvent, NewKeyHead, NewKeyMaterial,
    NewPublicKey,
};
use zeroize::Zeroizing;

use crate::access::api_key::invalid_key;
use crate::caller::{Caller, Plan, UNLIMITED};
use crate::clock::Timestamp;
use crate::compute::Compute;
use crate::compute::numbers::vault::Shelf;
use crate::events::{EventType, event};
use crate::ids;
use crate::web::Web;
use crate::web::base64_text::{self, Base64Error};
use crate::web::body::{Json, JsonBody, base64_ceiling};
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;
use crate::web::openapi::BODY;
use crate::web::pagination::{PageQuery, Position};
use crate::web::path::PathParts;
use crate::work::KeyName;
use crate::work::numbers::{self, EvaluationKeyHead, KEY_HEAD_BYTES, Params};
use material::{
    Material, MaterialDigest, Owner, PutPublicKey, check_pair, public_key_seed_used, put_public_key, put_row,
    read_recorded_params, recorded_params, row_seed_used,
};
use rows::{Cut, RowCutter};
use wanted::{SECURITY_WARNING, WantedKey, security_warning};

impl JsonBody for UploadKey {
    const BYTES_MAX: usize = base64_ceiling(PUBLIC_KEY_BYTES_MAX + EVALUATION_KEY_BYTES_MAX);
}

/// A JSON body with `params`. A wrong shape within `params` is answered as a wrong parameter (readings E1).
pub struct WithParams<T>(Json<T>);

impl<S: Send + Sync, T: JsonBody + DeserializeOwned> FromRequest<S> for WithParams<T>
where
    Arc<Web>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let read = Json::from_request(request, state).await;
        read.map(WithParams).map_err(|error| {
            let within = error.details.first().is_some_and(|detail| detail.field.starts_with("params."));
            let code = if error.code == Code::ValidationError && within { Code::InvalidParams } else { error.code };
            ApiError { code, ..error }
        })
    }
}

/// Upload a public key and an evaluation key.
///
/// The secret key stays with you: a request that contains a secret key is refused. An evaluation key of more than 10 MB
/// is uploaded in parts (`POST /api/v1/keys/uploads`).
#[utoipa::path(
    post,
    path = "/api/v1/keys/upload",
    operation_id = "uploadKey",
    tag = "Encryption keys",
    request_body = UploadKey,
    responses((status = 200, description = "The key.", body = UploadedKey,
        headers(("X-Security-Warning" = Option<String>, description = "The key has less than 128 bits of security.")))),
    extensions(("x-errors" = json!([
        Code::InvalidParams, Code::InsufficientSecurity, Code::QuotaExceeded, Code::SecretKeyRejected, BODY
    ])))
)]
pub async fn upload(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    claim: Claim,
    WithParams(Json { value: request, reserved }): WithParams<UploadKey>,
) -> Result<Response, ApiError> {
    let owner = Owner::from(&caller);
    let environment = caller.environment;
    let reading = compute.offload.run(owner.payer.clone(), move || {
        let UploadKey { public_key, eval_key, scheme, params } = request;
        // read the keys before the parameters are checked, so that a secret key is reported even if the parameters are
        // wrong
        let public_key = decoded("public_key", &public_key, PUBLIC_KEY_BYTES_MAX)?;
        let eval_key = decoded("eval_key", &eval_key, EVALUATION_KEY_BYTES_MAX)?;
        let public = numbers::read_public_key(&public_key);
        let head = EvaluationKeyHead::read(&eval_key[..eval_key.len().min(KEY_HEAD_BYTES)]);
        let secret = |error: &ApiError| error.code == Code::SecretKeyRejected;
        if let Some(error) =
            [public.as_ref().err(), head.as_ref().err()].into_iter().flatten().find(|error| secret(error))
        {
            return Err(error.clone());
        }
        let wanted = WantedKey::check(scheme, params, environment)?;
        let (public, head) = (public?, head?);
        wanted.admit(head.params())?;
        check_pair(&public, &head)?;
        Ok::<_, ApiError>((wanted, (public.seed, public_key), eval_key, head))
    });
    let (wanted, public_key, eval_key, head) = reading.await??;
    // a separate task: if the client leaves, either the key and its answer are stored, or neither
    let kept = tokio::spawn(async move {
        let mut put = Vec::new();
        let made = keep_whole(&compute, &caller, &claim, &wanted, (&eval_key, head), public_key, &mut put).await;
        drop(reserved);
        if made.is_err() {
            compute.vault.take_back(Shelf::Keys, put).await;
        }
        made
    });
    kept.await?
}

/// Stores a key that arrived in one request. Adds the names of the objects that were put into the vault to `put`.
async fn keep_whole(
    compute: &Compute,
    caller: &Caller,
    claim: &Claim,
    wanted: &WantedKey,
    (eval_key, head): (&[u8], EvaluationKeyHead),
    public_key: ([u8; 32], Zeroizing<Vec<u8>>),
    put: &mut Vec<String>,
) -> Result<Response, ApiError> {
    let (owner, (material, key_secret)) = (Owner::from(caller), Material::new(&compute.vault));
    let public = put_public_key(compute, &owner, &material.material_id, public_key).await?;
    put.push(public.object.clone());
    let mut cutter = RowCutter::go_on(head.clone(), rows::RowOrder::default());
    let (mut rest, mut records) = (&eval_key[KEY_HEAD_BYTES..], Vec::new());
    while let Some(cut) = cutter.push(&mut rest)? {
        let Cut::Row(head, facts, bytes) = cut else { return Err(ApiError::internal("a second head")) };
        let record = put_row(compute, &owner, &material, records.len() as i64, (head, facts, bytes)).await?;
        put.push(record.object.clone());
        records.push(record);
    }
    if cutter.held() > 0 || cutter.order().rows != u64::from(head.rows()) || !cutter.order().is_complete() {
        let message = "the evaluation key ends before the last row that its head announces";
        return Err(ApiError::new(Code::InvalidParams, message).at("eval_key", "cut short"));
    }
    let now = compute.clock.now();
    let key_id = ids::encryption_key(now);
    let (answer, kept) = claim.keep(uploaded(&key_id, wanted, head.params(), now)?).await?;
    let whole = WholeKey { material_id: &material.material_id, key_secret, public, head, records };
    book(compute, caller, wanted, &key_id, (&whole, "upload"), now, kept.as_ref()).await?;
    Ok(answer)
}

/// A key whose objects are all in the vault.
struct WholeKey<'a> {
    material_id: &'a str,
    /// The sealed data key of the rows.
    key_secret: Option<Vec<u8>>,
    public: PutPublicKey,
    head: EvaluationKeyHead,
    records: Vec<KeyRowRecord>,
}

/// Writes the records of a whole key, and the answer to store. `source`: `upload` or `generate`.
async fn book(
    compute: &Compute,
    caller: &Caller,
    wanted: &WantedKey,
    key_id: &api::EncryptionKeyId,
    (WholeKey { material_id, key_secret, public, head, records }, source): (&WholeKey<'_>, &str),
    now: Timestamp,
    kept: Option<&KeptAnswer>,
) -> Result<(), ApiError> {
    let params = recorded_params(head.params())?;
    let fingerprint = head.fingerprint();
    let mut digest = MaterialDigest::new(&public.seeded.sha256, &params, &fingerprint);
    records.iter().for_each(|row: &KeyRowRecord| digest.add(row));
    let digest = digest.finish();
    let keys_max = compute.limits.of(caller.plan).encryption_keys;
    let material = NewKeyMaterial {
        material_id,
        account_id: caller.account.as_str(),
        node_id: compute.vault.place(),
        key_secret: key_secret.as_deref(),
        now: now.0,
    };
    let of_public = NewPublicKey {
        params: &params,
        fingerprint: &fingerprint,
        object: &public.object,
        bytes: public.bytes,
        seeded: public.seeded,
    };
    let of_head = NewKeyHead {
        params: &params,
        fingerprint: &fingerprint,
        rows: head.rows().into(),
        bytes: KEY_HEAD_BYTES as i64,
    };
    let new =
        NewEncryptionKey { source, ..new_key(key_id, caller, wanted, material_id, (&digest, None), keys_max, now) };
    let made = compute.store.write(async |tx| {
        tx.insert_key_material(&material).await?;
        if let Added::SeedUsed { other, .. } = tx.put_public_key(material_id, &of_public, now.0).await? {
            return Err(public_key_seed_used(&other));
        }
        tx.put_key_head(material_id, &of_head).await?;
        match tx.add_key_rows(material_id, of_head.bytes, records).await? {
            Added::Done => {}
            Added::SeedUsed { rows, other } => return Err(row_seed_used(&records[rows], &other)),
            Added::NotAsExpected => return Err(ApiError::internal("the rows of a new key could not be written")),
        }
        check_made(tx.insert_encryption_key(&new).await?, caller, keys_max)?;
        tx.emit(&[created_event(caller, &new, wanted, now)]).await?;
        Ok(tx.keep(kept).await?)
    });
    made.await?;
    // if two uploads are equal, the objects of the second are dropped (readings K19)
    Ok(compute.vault.erase_dropped().await?)
}

/// Makes the row for a new, uploaded key.
fn new_key<'a>(
    key_id: &'a api::EncryptionKeyId,
    caller: &'a Caller,
    wanted: &'a WantedKey,
    material_id: &'a str,
    (digest, upload_id): (&'a [u8; 32], Option<&'a str>),
    keys_max: u64,
    now: Timestamp,
) -> NewEncryptionKey<'a> {
    NewEncryptionKey {
        key_id: key_id.as_str(),
        account_id: caller.account.as_str(),
        environment: wanted.environment,
        scheme: &wanted.scheme,
        source: "upload",
        material_id,
        digest,
        upload_id,
        keys_max: (keys_max != UNLIMITED).then_some(keys_max as i64),
        now: now.0,
    }
}

/// Makes the event that announces a new key to webhooks (readings H19, H20).
fn created_event(caller: &Caller, new: &NewEncryptionKey<'_>, wanted: &WantedKey, now: Timestamp) -> NewEvent {
    let data = json!({
        "key_id": new.key_id,
        "scheme": new.scheme,
        "slot_count": wanted.params.poly_degree / 2,
        "source": new.source,
        "created_at": now.rfc3339(),
    });
    event(&caller.account, EventType::KeyCreated, &data, now)
}

/// Returns an error if the database did not make the key (readings K19).
fn check_made(made: KeyMade, caller: &Caller, keys_max: u64) -> Result<(), ApiError> {
    match made {
        KeyMade::Made => Ok(()),
        KeyMade::NoAccount => Err(invalid_key()),
        KeyMade::TooMany => {
            let plan = caller.plan.as_str();
            let message = format!(
                "the plan {plan} has {keys_max} encryption keys, open uploads among them: delete a key that is no longer needed"
            );
            Err(ApiError::new(Code::QuotaExceeded, message))
        }
    }
}

/// Makes the answer about a new key.
fn uploaded(
    key_id: &api::EncryptionKeyId,
    wanted: &WantedKey,
    params: &Params,
    now: Timestamp,
) -> Result<Response, ApiError> {
    let told = numbers::key_params(params, &wanted.scheme);
    let warning = security_warning(told.security_bits);
    let mut answer = Answer(UploadedKey {
        key_id: key_id.clone(),
        scheme: wanted.scheme.clone(),
        slot_count: params.slots() as u64,
        created_at: now.rfc3339(),
        // readings K6
        blind_guarantee: true,
        warnings: numbers::warnings(params),
        params: told,
    })
    .into_response();
    if let Some(words) = warning {
        answer.headers_mut().insert(SECURITY_WARNING, HeaderValue::from_str(&words).map_err(ApiError::internal)?);
    }
    Ok(answer)
}

/// Decodes a member in base64. Refuses a member of more than `bytes_max` decoded bytes (readings K4).
fn decoded(member: &'static str, text: &str, bytes_max: usize) -> Result<Zeroizing<Vec<u8>>, ApiError> {
    base64_text::decode(text, bytes_max).map(Zeroizing::new).map_err(|fault| match fault {
        Base64Error::TooLarge => {
            let most = bytes_max >> 20;
            ApiError::new(
                Code::PayloadTooLarge,
                format!("{member} may have at most {most} MB here: upload it in parts"),
            )
            .at(member, format!("more than {most} MB"))
        }
        fault => {
            ApiError::new(Code::InvalidParams, format!("{member} is not base64: {fault}")).at(member, fault.to_string())
        }
    })
}

/// The keys of the account, one page for each request.
#[utoipa::path(
    get,
    path = "/api/v1/keys",
    operation_id = "listKeys",
    tag = "Encryption keys",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "How many keys a page has; 20 when absent."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page."),
    ),
    responses((status = 200, description = "The keys, newest `created_at` first.", body = EncryptionKeys)),
    extensions(("x-errors" = json!([Code::InvalidRequest])))
)]
pub async fn list(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    query: PageQuery,
) -> Result<Answer<EncryptionKeys>, ApiError> {
    let (account, after) = (caller.account.as_str(), query.after_text()?);
    let rows = compute.store.encryption_keys_page(account, after, query.rows_wanted()).await?;
    let position = |row: &EncryptionKey| Position { created_at: row.created_at, id: row.key_id.clone().into_bytes() };
    let Page { items, next_cursor, has_more, total_count } = query.page(rows, position);
    let items = records(&compute, &caller, items).await?;
    Ok(Answer(EncryptionKeys { items, next_cursor, has_more, total_count }))
}

/// The record of a key. The record never contains the key itself.
#[utoipa::path(
    get,
    path = "/api/v1/keys/{key_id}",
    operation_id = "getKey",
    tag = "Encryption keys",
    params(("key_id" = String, Path, description = "The id of a key of the account.")),
    responses((status = 200, description = "The key's record.", body = EncryptionKeyRecord)),
    extensions(("x-errors" = json!([Code::KeyNotFound])))
)]
pub async fn show(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    path: PathParts,
) -> Result<Answer<EncryptionKeyRecord>, ApiError> {
    let key = find(&compute, &caller, path.get("key_id")).await?;
    records(&compute, &caller, vec![key]).await?.pop().map(Answer).ok_or_else(unknown_key)
}

/// Delete a key and its ciphertexts.
///
/// New work with the key is refused at once. The bytes are erased within five seconds.
#[utoipa::path(
    delete,
    path = "/api/v1/keys/{key_id}",
    operation_id = "deleteKey",
    tag = "Encryption keys",
    params(("key_id" = String, Path, description = "The id of a key of the account.")),
    responses((status = 200, description = "The key is deleted.", body = DeletedEncryptionKey)),
    extensions(("x-errors" = json!([Code::KeyNotFound])))
)]
pub async fn delete(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    path: PathParts,
) -> Result<Answer<DeletedEncryptionKey>, ApiError> {
    let key_id: api::EncryptionKeyId = path.get("key_id").parse().map_err(|_| unknown_key())?;
    let (account, now) = (caller.account.clone(), compute.clock.now());
    // a separate task: the erasure goes on if the client leaves
    let deleted = tokio::spawn(async move {
        let deleting = compute.store.write(async |tx| {
            let Some(deleted) = tx.delete_encryption_key(account.as_str(), key_id.as_str(), now.0).await? else {
                return Ok::<_, ApiError>(None);
            };
            let data = json!({
                "key_id": key_id.as_str(),
                "ciphertexts_deleted": deleted.ciphertexts,
                "deleted_at": now.rfc3339(),
            });
            tx.emit(&[event(&account, EventType::KeyDeleted, &data, now)]).await?;
            Ok(Some(deleted))
        });
        deleting.await?.ok_or_else(unknown_key)?;
        let share = compute.workers.share(&account, Plan::Free);
        compute.workers.release(KeyName::of_numbers_key(share, &key_id)).await;
        compute.vault.erase_dropped().await?;
        Ok(Answer(DeletedEncryptionKey { key_id, status: "deleted".to_owned() }))
    });
    deleted.await?
}

/// Finds a key of the caller's account.
pub async fn find(compute: &Compute, caller: &Caller, key_id: &str) -> Result<EncryptionKey, ApiError> {
    compute.store.encryption_key(caller.account.as_str(), key_id).await?.ok_or_else(unknown_key)
}

/// Returns the parameters and the fingerprint in a key's record. May search for the primes of the parameters, which
/// takes CPU time, so call this outside the async threads.
pub fn params_and_fingerprint(key: &EncryptionKey) -> Result<(Params, [u8; 8]), ApiError> {
    let params = numbers::params_on_record(&read_recorded_params(&key.params, &key.scheme)?)?;
    let fingerprint = key.fingerprint.as_slice().try_into().map_err(ApiError::internal)?;
    Ok((params, fingerprint))
}

/// Returns the error of work under a key. If the key was deleted meanwhile, work can fail in many ways, but the error is
/// that of an unknown key: sending the request again cannot succeed.
pub async fn or_deleted(compute: &Compute, account: &AccountId, key_id: &str, error: ApiError) -> ApiError {
    match compute.store.encryption_key(account.as_str(), key_id).await {
        Ok(None) => unknown_key(),
        _ => error,
    }
}

/// Returns the error for an id that no key of the account has (readings X14).
pub fn unknown_key() -> ApiError {
    ApiError::new(Code::KeyNotFound, "there is no such encryption key in this account")
}

/// Makes the descriptions of keys for answers, from the keys' records.
async fn records(
    compute: &Compute,
    caller: &Caller,
    keys: Vec<EncryptionKey>,
) -> Result<Vec<EncryptionKeyRecord>, ApiError> {
    compute.offload.run(caller.into(), move || keys.iter().map(record).collect()).await?
}

/// Makes the description of a key for answers, from the key's record. May search for the primes of the parameters,
/// which takes CPU time.
fn record(key: &EncryptionKey) -> Result<EncryptionKeyRecord, ApiError> {
    let (params, _) = params_and_fingerprint(key)?;
    Ok(EncryptionKeyRecord {
        key_id: key.key_id.parse().map_err(ApiError::internal)?,
        scheme: key.scheme.clone(),
        slot_count: params.slots() as u64,
        params: numbers::key_params(&params, &key.scheme),
        created_at: Timestamp(key.created_at).rfc3339(),
        ciphertext_count: key.ciphertext_count.unsigned_abs(),
        operation_count: key.operation_count.unsigned_abs(),
        public_key_bytes: key.public_key_bytes.unsigned_abs(),
        eval_key_bytes: key.eval_key_bytes.unsigned_abs(),
    })
}
