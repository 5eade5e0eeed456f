//! Uploads of encryption keys in parts (readings section 14). The evaluation key arrives row by row, in any number of
//! requests. Complete rows are stored, so an upload that breaks off continues after its last row.

use std::sync::Arc;

use api::Code;
use api::encryption_keys::{CreateKeyUpload, EncryptionParams, KeyUploadStatus, UploadState};
use axum::Json as Answer;
use axum::extract::{FromRef, FromRequest, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use store::{Added, KeyMaterial, KeyRowRecord, KeyUpload, NewKeyHead, NewKeyMaterial, NewKeyUpload, NewPublicKey};

use super::material::{
    Material, MaterialDigest, Owner, other_pair, public_key_seed_used, put_public_key, put_row, read_recorded_params,
    recorded_params, row_seed_used,
};
use super::rows::{Cut, RowCutter, RowOrder};
use super::wanted::WantedKey;
use super::{WithParams, check_made, created_event, new_key, uploaded};
use crate::caller::{Caller, UNLIMITED};
use crate::clock::Timestamp;
use crate::compute::Compute;
use crate::compute::numbers::vault::Shelf;
use crate::ids;
use crate::web::Web;
use crate::web::body::{Json, JsonBody, Pieces, media_type};
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;
use crate::web::octets::{self, OCTET_STREAM};
use crate::web::openapi::BODY;
use crate::web::path::PathParts;
use crate::work::numbers::{self, EvaluationKeyHead, KEY_HEAD_BYTES, ROW_BYTES_MAX};

/// Lifetime of an upload (readings section 14).
const LIFE: std::time::Duration = std::time::Duration::from_secs(3600);
/// Received rows are recorded when they have this many bytes together, or when there are `BATCH_ROWS` rows.
const BATCH_BYTES: i64 = 1 << 20;
const BATCH_ROWS: usize = 32;
/// Bytes of memory reserved for each byte of a part, up to the bytes of a row: one for the row, one for its check, one
/// for its sealed copy.
const COPIES: u64 = 3;

impl JsonBody for CreateKeyUpload {
    const BYTES_MAX: usize = 64 << 10;
}

/// The schema of a request body with a key or a part of a key.
pub struct KeyPart;

impl utoipa::PartialSchema for KeyPart {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        octets::binary("A key, or a part of one.")
    }
}

impl utoipa::ToSchema for KeyPart {}

/// Begin an upload of a key in parts.
///
/// Afterwards send the public key (`PUT .../public-key`) and the evaluation key (`PUT .../eval-key`, in one or more
/// parts), and finish (`POST .../complete`). An upload ends after an hour.
#[utoipa::path(
    post,
    path = "/api/v1/keys/uploads",
    operation_id = "createKeyUpload",
    tag = "Encryption keys",
    request_body = CreateKeyUpload,
    responses((status = 201, description = "The upload.", body = KeyUploadStatus)),
    extensions(("x-errors" = json!([
        Code::InvalidParams, Code::InsufficientSecurity, Code::QuotaExceeded, Code::SecretKeyRejected, BODY
    ])))
)]
pub async fn create(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    claim: Claim,
    WithParams(Json { value: request, .. }): WithParams<CreateKeyUpload>,
) -> Result<Response, ApiError> {
    let (owner, environment) = (Owner::from(&caller), caller.environment);
    let CreateKeyUpload { scheme, params } = request;
    let checking = compute.offload.run(owner.payer, move || {
        let sent = serde_json::to_string(&params).map_err(ApiError::internal)?;
        Ok::<_, ApiError>((WantedKey::check(scheme, params, environment)?, sent))
    });
    let (wanted, params) = checking.await??;
    let now = compute.clock.now();
    let (upload_id, (material, key_secret)) = (ids::upload(now), Material::new(&compute.vault));
    let keys_max = compute.limits.of(caller.plan).encryption_keys;
    let new = NewKeyUpload {
        upload_id: upload_id.as_str(),
        environment,
        scheme: &wanted.scheme,
        params: &params,
        material: NewKeyMaterial {
            material_id: &material.material_id,
            account_id: caller.account.as_str(),
            node_id: compute.vault.place(),
            key_secret: key_secret.as_deref(),
            now: now.0,
        },
        expires_at: now.plus(LIFE).0,
        keys_max: (keys_max != UNLIMITED).then_some(keys_max as i64),
    };
    let upload = KeyUpload {
        upload_id: upload_id.as_str().to_owned(),
        environment,
        scheme: wanted.scheme.clone(),
        params: params.clone(),
        material_id: material.material_id.clone(),
        key_id: None,
        created_at: now.0,
        expires_at: new.expires_at,
    };
    let told = status(&compute, &caller, &upload, None, 0).await?;
    let (answer, kept) = claim.keep((StatusCode::CREATED, Answer(told)).into_response()).await?;
    let begun = compute.store.write(async |tx| {
        check_made(tx.insert_key_upload(&new).await?, &caller, keys_max)?;
        Ok::<_, ApiError>(tx.keep(kept.as_ref()).await?)
    });
    begun.await?;
    Ok(answer)
}

/// The progress of an upload.
#[utoipa::path(
    get,
    path = "/api/v1/keys/uploads/{upload_id}",
    operation_id = "getKeyUpload",
    tag = "Encryption keys",
    params(("upload_id" = String, Path, description = "The id of an upload of the account.")),
    responses((status = 200, description = "The upload.", body = KeyUploadStatus)),
    extensions(("x-errors" = json!([Code::NotFound])))
)]
pub async fn show(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    path: PathParts,
) -> Result<Answer<KeyUploadStatus>, ApiError> {
    let upload = find(&compute, &caller, path.get("upload_id")).await?;
    let material = compute.store.key_material(caller.account.as_str(), &upload.material_id).await?;
    let last = compute.store.last_key_row(&upload.material_id).await?;
    let rows = last.map_or(0, |last| last.row_index + 1);
    Ok(Answer(status(&compute, &caller, &upload, material.as_ref(), rows).await?))
}

/// Give up an upload, and remove everything that has arrived.
#[utoipa::path(
    delete,
    path = "/api/v1/keys/uploads/{upload_id}",
    operation_id = "deleteKeyUpload",
    tag = "Encryption keys",
    params(("upload_id" = String, Path, description = "The id of an upload of the account.")),
    responses((status = 204, description = "The upload is deleted.")),
    extensions(("x-errors" = json!([Code::NotFound, Code::Conflict])))
)]
pub async fn delete(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    path: PathParts,
) -> Result<StatusCode, ApiError> {
    let upload = find_open(&compute, &caller, path.get("upload_id")).await?;
    let now = compute.clock.now();
    if !compute.store.delete_key_upload(caller.account.as_str(), &upload.upload_id, now.0).await? {
        return Err(unknown_upload());
    }
    compute.vault.erase_dropped().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Send the public key of an upload, as a whole.
///
/// A public key sent before is replaced.
#[utoipa::path(
    put,
    path = "/api/v1/keys/uploads/{upload_id}/public-key",
    operation_id = "putPublicKey",
    tag = "Encryption keys",
    params(("upload_id" = String, Path, description = "The id of an upload of the account.")),
    request_body(description = "The public key, at most 4 MB.", content((inline(KeyPart) = "application/octet-stream"))),
    responses((status = 200, description = "The upload.", body = KeyUploadStatus)),
    extensions(("x-errors" = json!([
        Code::InvalidParams, Code::InsufficientSecurity, Code::NotFound, Code::Conflict, Code::PayloadTooLarge,
        Code::SecretKeyRejected
    ])))
)]
pub async fn put_public(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    path: PathParts,
    part: Part,
) -> Result<Answer<KeyUploadStatus>, ApiError> {
    let upload = find_open(&compute, &caller, path.get("upload_id")).await?;
    let owner = Owner::from(&caller);
    if part
        .range
        .as_ref()
        .is_some_and(|range| range.start != 0 || range.total.is_some_and(|total| total != range.end + 1))
    {
        let message = "send the public key as a whole, without Content-Range";
        return Err(ApiError::new(Code::InvalidRequest, message).at("Content-Range", "not the whole key"));
    }
    let mut pieces = part.pieces(ROW_BYTES_MAX)?;
    let bytes = pieces.all().await?;
    let wanted = wanted_of(&upload)?;
    let reading = compute.offload.run(owner.payer.clone(), move || {
        let public = numbers::read_public_key(&bytes)?;
        wanted.admit(&public.params)?;
        Ok::<_, ApiError>((public, bytes))
    });
    let (public, bytes) = reading.await??;
    let params = recorded_params(&public.params)?;
    let put = put_public_key(&compute, &owner, &upload.material_id, (public.seed, bytes)).await?;
    let new = NewPublicKey {
        params: &params,
        fingerprint: &public.fingerprint,
        object: &put.object,
        bytes: put.bytes,
        seeded: put.seeded,
    };
    let now = compute.clock.now();
    let writing = compute.store.write(async |tx| tx.put_public_key(&upload.material_id, &new, now.0).await);
    match writing.await {
        Ok(Added::Done) => {}
        other => {
            compute.vault.take_back(Shelf::Keys, [put.object.clone()]).await;
            if let Added::SeedUsed { other, .. } = other? {
                return Err(public_key_seed_used(&other));
            }
            // the upload was completed or deleted in between, or its evaluation key belongs to another public key
            find_open(&compute, &caller, &upload.upload_id).await?;
            return Err(other_pair());
        }
    }
    compute.vault.erase_dropped().await?;
    show(State(compute), caller, path).await
}

/// Send a part of the evaluation key of an upload.
///
/// Without `Content-Range` the body is the whole key. With it, the part must begin at the byte after the last one
/// received (`eval_key_bytes` of the upload), and end at the end of a row. Complete rows are stored even if the rest of
/// the part fails.
#[utoipa::path(
    put,
    path = "/api/v1/keys/uploads/{upload_id}/eval-key",
    operation_id = "putEvaluationKey",
    tag = "Encryption keys",
    params(
        ("upload_id" = String, Path, description = "The id of an upload of the account."),
        ("Content-Range" = Option<String>, Header, description = "`bytes FIRST-LAST/TOTAL`, or `bytes FIRST-LAST/*`."),
    ),
    request_body(description = "The evaluation key, or a part of it.",
        content((inline(KeyPart) = "application/octet-stream"))),
    responses((status = 200, description = "The upload.", body = KeyUploadStatus)),
    extensions(("x-errors" = json!([
        Code::InvalidParams, Code::InsufficientSecurity, Code::NotFound, Code::Conflict, Code::PayloadTooLarge,
        Code::SecretKeyRejected
    ])))
)]
pub async fn put_eval(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    path: PathParts,
    part: Part,
) -> Result<Answer<KeyUploadStatus>, ApiError> {
    let upload = find_open(&compute, &caller, path.get("upload_id")).await?;
    let material = material_of(&compute, &caller, &upload).await?;
    compute.vault.check_place(&material.node_id)?;
    let most = compute.limits.of(caller.plan).encryption_key_bytes();
    let come = material.eval_key_bytes.unsigned_abs();
    let start = part.range.as_ref().map_or(0, |range| range.start);
    if start != come {
        let message = format!("the evaluation key continues at byte {come}, but this part begins at byte {start}");
        return Err(ApiError::new(Code::Conflict, message).at("Content-Range", format!("must begin at {come}")));
    }
    let announced = part.range.as_ref().and_then(|range| Some(range.total?.max(range.end + 1)));
    if announced.is_some_and(|total| total > most) {
        return Err(too_large(most));
    }
    let mut gathering = Gathering::begin(&compute, Owner::from(&caller), &upload, material, most).await?;
    let mut pieces = part.pieces(usize::try_from(most - come.min(most)).unwrap_or(usize::MAX))?;
    let taken = gathering.take(&mut pieces).await;
    // complete rows are stored even after an error
    gathering.flush().await?;
    taken?;
    gathering.end()?;
    show(State(compute), caller, path).await
}

/// Finish an upload: the upload becomes a key.
#[utoipa::path(
    post,
    path = "/api/v1/keys/uploads/{upload_id}/complete",
    operation_id = "completeKeyUpload",
    tag = "Encryption keys",
    params(("upload_id" = String, Path, description = "The id of an upload of the account.")),
    responses((status = 200, description = "The key.", body = api::encryption_keys::UploadedKey,
        headers(("X-Security-Warning" = Option<String>, description = "The key has less than 128 bits of security.")))),
    extensions(("x-errors" = json!([Code::InvalidParams, Code::NotFound, Code::Conflict, Code::QuotaExceeded])))
)]
pub async fn complete(
    State(compute): State<Arc<Compute>>,
    caller: Caller,
    claim: Claim,
    path: PathParts,
) -> Result<Response, ApiError> {
    let upload = find_open(&compute, &caller, path.get("upload_id")).await?;
    let material = material_of(&compute, &caller, &upload).await?;
    let missing = |what: &str| Err(ApiError::new(Code::Conflict, format!("the upload is not complete: {what}")));
    let (Some(params), Some(fingerprint)) = (&material.params, &material.fingerprint) else {
        return missing("neither key has arrived");
    };
    let Some(public_key) = &material.public_key_sha256 else { return missing("the public key has not arrived") };
    let Some(announced) = material.rows_announced else { return missing("the evaluation key has not arrived") };
    let rows = all_rows(&compute, &upload.material_id).await?;
    let order = RowOrder::after(&rows);
    if rows.len() as i64 != announced || !order.is_complete() {
        return missing(&format!("{} of {announced} rows of the evaluation key have arrived", rows.len()));
    }
    let mut digest = MaterialDigest::new(public_key, params, fingerprint);
    rows.iter().for_each(|row| digest.add(row));
    let digest = digest.finish();
    let wanted = wanted_of(&upload)?;
    let recorded = read_recorded_params(params, &wanted.scheme)?;
    let payer = (&caller).into();
    let params = compute.offload.run(payer, move || numbers::params_on_record(&recorded)).await??;
    let now = compute.clock.now();
    let (key_id, keys_max) = (ids::encryption_key(now), compute.limits.of(caller.plan).encryption_keys);
    let (answer, kept) = claim.keep(uploaded(&key_id, &wanted, &params, now)?).await?;
    let of = (&digest, Some(upload.upload_id.as_str()));
    let new = new_key(&key_id, &caller, &wanted, &upload.material_id, of, keys_max, now);
    let made = compute.store.write(async |tx| {
        // if two requests complete an upload at the same time, the second request finds the upload no longer open
        if !tx.is_key_upload_open(&upload.upload_id).await? {
            return Err(completed());
        }
        check_made(tx.insert_encryption_key(&new).await?, &caller, keys_max)?;
        tx.emit(&[created_event(&caller, &new, &wanted, now)]).await?;
        Ok(tx.keep(kept.as_ref()).await?)
    });
    made.await?;
    // if two uploads are equal, the objects of the second are dropped (readings K19)
    compute.vault.erase_dropped().await?;
    Ok(answer)
}

/// An evaluation key that an upload is writing into the vault.
struct Gathering<'c> {
    compute: &'c Compute,
    owner: Owner,
    upload: &'c KeyUpload,
    material: KeyMaterial,
    /// How the rows are sealed.
    sealed: Material,
    cutter: RowCutter,
    /// Largest size in bytes that the key may have.
    most: u64,
    /// Number of the key's bytes that are recorded. `rows` are the rows that are in the vault but not recorded yet.
    offset: i64,
    rows: Vec<KeyRowRecord>,
}

impl<'c> Gathering<'c> {
    async fn begin(
        compute: &'c Compute,
        owner: Owner,
        upload: &'c KeyUpload,
        material: KeyMaterial,
        most: u64,
    ) -> Result<Gathering<'c>, ApiError> {
        let cutter = match (&material.rows_announced, &material.params, &material.fingerprint) {
            (Some(rows), Some(params), Some(fingerprint)) => {
                let recorded = read_recorded_params(params, &upload.scheme)?;
                let on_record = move || numbers::params_on_record(&recorded);
                let params = compute.offload.run(owner.payer.clone(), on_record).await??;
                let fingerprint = fingerprint.as_slice().try_into().map_err(ApiError::internal)?;
                let rows = u32::try_from(*rows).map_err(ApiError::internal)?;
                let come = all_rows(compute, &upload.material_id).await?;
                let bytes = KEY_HEAD_BYTES as i64 + come.iter().map(|row| row.bytes).sum::<i64>();
                if bytes != material.eval_key_bytes {
                    return Err(overtaken());
                }
                let order = RowOrder::after(&come);
                RowCutter::go_on(EvaluationKeyHead::on_record(params, fingerprint, rows), order)
            }
            _ => RowCutter::from_start(),
        };
        let offset = material.eval_key_bytes;
        let sealed = Material::on_record(&compute.vault, &upload.material_id, material.key_secret.as_deref())?;
        Ok(Gathering { compute, owner, upload, material, sealed, cutter, most, offset, rows: Vec::new() })
    }

    /// Receives the whole body, puts its rows into the vault and records them in batches.
    async fn take(&mut self, pieces: &mut Pieces) -> Result<(), ApiError> {
        while let Some(piece) = pieces.next().await? {
            let mut piece = &piece[..];
            while let Some(cut) = self.cutter.push(&mut piece)? {
                match cut {
                    Cut::Head(bytes) => self.take_head(bytes).await?,
                    Cut::Row(head, facts, bytes) => {
                        let index = self.cutter.order().rows as i64 - 1;
                        let row = (head, facts, bytes);
                        self.rows.push(put_row(self.compute, &self.owner, &self.sealed, index, row).await?);
                        let bytes: i64 = self.rows.iter().map(|row| row.bytes).sum();
                        if bytes >= BATCH_BYTES || self.rows.len() >= BATCH_ROWS {
                            self.flush().await?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads and checks the head and records it.
    async fn take_head(&mut self, bytes: zeroize::Zeroizing<Vec<u8>>) -> Result<(), ApiError> {
        let (wanted, plan_most) = (wanted_of(self.upload)?, self.most);
        let reading = self.compute.offload.run(self.owner.payer.clone(), move || {
            let head = EvaluationKeyHead::read(&bytes)?;
            wanted.admit(head.params())?;
            let most = plan_most.min(numbers::evaluation_key_bytes_max(head.params()));
            // check the announced size of the key before any row arrives
            if head.bytes() > most {
                return Err(too_large(most));
            }
            Ok(head)
        });
        let head = reading.await??;
        let (params, fingerprint) = (recorded_params(head.params())?, head.fingerprint());
        let of_public = (&self.material.public_key_object, &self.material.params, &self.material.fingerprint);
        if let (Some(_), Some(other), Some(name)) = of_public
            && (*other != params || name[..] != fingerprint)
        {
            return Err(other_pair());
        }
        let bytes = KEY_HEAD_BYTES as i64;
        let new = NewKeyHead { params: &params, fingerprint: &fingerprint, rows: head.rows().into(), bytes };
        let id = &self.upload.material_id;
        match self.compute.store.write(async |tx| tx.put_key_head(id, &new).await).await? {
            Added::Done => self.offset = bytes,
            Added::NotAsExpected | Added::SeedUsed { .. } => return Err(overtaken()),
        }
        self.cutter = RowCutter::go_on(head, RowOrder::default());
        Ok(())
    }

    /// Records rows.
    async fn flush(&mut self) -> Result<(), ApiError> {
        let rows = std::mem::take(&mut self.rows);
        if rows.is_empty() {
            return Ok(());
        }
        let (id, offset) = (&self.upload.material_id, self.offset);
        let added = self.compute.store.write(async |tx| tx.add_key_rows(id, offset, &rows).await).await;
        let (count, refusal) = match added {
            Ok(Added::Done) => (rows.len(), Ok(())),
            Ok(Added::SeedUsed { rows: count, other }) => (count, Err(row_seed_used(&rows[count], &other))),
            Ok(Added::NotAsExpected) => (0, Err(overtaken())),
            Err(error) => (0, Err(error.into())),
        };
        self.offset += rows[..count].iter().map(|row| row.bytes).sum::<i64>();
        if refusal.is_err() {
            self.compute.vault.take_back(Shelf::Keys, rows.into_iter().skip(count).map(|row| row.object)).await;
        }
        refusal
    }

    /// Returns an error if the part has ended within a row.
    fn end(mut self) -> Result<(), ApiError> {
        if self.cutter.held() == 0 {
            return Ok(());
        }
        // check for a secret key here too, because a secret key is often shorter than a head
        let held = self.cutter.take_held();
        if self.offset == 0 {
            EvaluationKeyHead::read(&held)?;
        }
        let offset = self.offset;
        let message = format!(
            "the uploaded part ends within a row of the evaluation key: the next part must begin at byte {offset}"
        );
        Err(ApiError::new(Code::InvalidRequest, message).at("Content-Range", "does not end at the end of a row"))
    }
}

/// The body of a part, which is not read yet.
pub struct Part {
    web: Arc<Web>,
    request: Request,
    range: Option<ContentRange>,
}

impl<S: Send + Sync> FromRequest<S> for Part
where
    Arc<Web>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        if media_type(request.headers()).as_deref() != Some(OCTET_STREAM) {
            return Err(ApiError::new(Code::InvalidRequest, "the content type must be application/octet-stream"));
        }
        let range = ContentRange::of(request.headers())?;
        Ok(Part { web: Arc::from_ref(state), request, range })
    }
}

impl Part {
    fn pieces(self, ceiling: usize) -> Result<Pieces, ApiError> {
        if let (Some(range), Some(length)) = (&self.range, self.request.headers().get(header::CONTENT_LENGTH)) {
            let length = length.to_str().ok().and_then(|length| length.parse::<u64>().ok());
            if length.is_some_and(|length| length != range.end - range.start + 1) {
                return Err(bad_range("has another length than Content-Length"));
            }
        }
        Pieces::kept(&self.web, self.request, ceiling, |bytes| COPIES * bytes.min(ROW_BYTES_MAX as u64))
    }
}

/// The range of a part's bytes in the whole key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ContentRange {
    start: u64,
    /// The last byte.
    end: u64,
    /// Size of the whole key in bytes, if the header gives this number.
    total: Option<u64>,
}

impl ContentRange {
    fn of(headers: &HeaderMap) -> Result<Option<ContentRange>, ApiError> {
        let mut values = headers.get_all(header::CONTENT_RANGE).iter();
        let Some(value) = values.next() else { return Ok(None) };
        let range = value.to_str().ok().filter(|_| values.next().is_none()).and_then(ContentRange::read);
        range.map(Some).ok_or_else(|| bad_range("must be bytes FIRST-LAST/TOTAL or bytes FIRST-LAST/*"))
    }

    fn read(text: &str) -> Option<ContentRange> {
        let number = |text: &str| text.parse::<u64>().ok().filter(|_| text.bytes().all(|c| c.is_ascii_digit()));
        let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
        let (start, end) = range.split_once('-')?;
        let (start, end) = (number(start)?, number(end).filter(|&end| end < u64::MAX)?);
        let total = if total == "*" { None } else { Some(number(total)?) };
        (start <= end && total.is_none_or(|total| end < total)).then_some(ContentRange { start, end, total })
    }
}

fn bad_range(why: &str) -> ApiError {
    ApiError::new(Code::InvalidRequest, format!("Content-Range {why}")).at("Content-Range", why)
}

/// Finds an upload of the caller's account.
async fn find(compute: &Compute, caller: &Caller, upload_id: &str) -> Result<KeyUpload, ApiError> {
    let now = compute.clock.now();
    compute.store.key_upload(caller.account.as_str(), upload_id, now.0).await?.ok_or_else(unknown_upload)
}

/// Finds an upload of the caller's account that is not complete.
async fn find_open(compute: &Compute, caller: &Caller, upload_id: &str) -> Result<KeyUpload, ApiError> {
    let upload = find(compute, caller, upload_id).await?;
    if upload.key_id.is_some() { Err(completed()) } else { Ok(upload) }
}

async fn material_of(compute: &Compute, caller: &Caller, upload: &KeyUpload) -> Result<KeyMaterial, ApiError> {
    let material = compute.store.key_material(caller.account.as_str(), &upload.material_id).await?;
    material.ok_or_else(unknown_upload)
}

/// Reads the records of all rows of a material, which has some hundreds of rows.
async fn all_rows(compute: &Compute, material_id: &str) -> Result<Vec<KeyRowRecord>, ApiError> {
    Ok(compute.store.key_rows(material_id, 0, i64::MAX).await?)
}

/// Returns the key that the upload's first request described.
fn wanted_of(upload: &KeyUpload) -> Result<WantedKey, ApiError> {
    let params: EncryptionParams = serde_json::from_str(&upload.params).map_err(ApiError::internal)?;
    Ok(WantedKey { scheme: upload.scheme.clone(), params, environment: upload.environment })
}

/// Makes the description of an upload for answers.
async fn status(
    compute: &Compute,
    caller: &Caller,
    upload: &KeyUpload,
    material: Option<&KeyMaterial>,
    rows: i64,
) -> Result<KeyUploadStatus, ApiError> {
    let key_id = upload.key_id.as_ref().map(|key_id| key_id.parse()).transpose().map_err(ApiError::internal)?;
    Ok(KeyUploadStatus {
        upload_id: upload.upload_id.parse().map_err(ApiError::internal)?,
        state: if upload.key_id.is_some() { UploadState::Completed } else { UploadState::Open },
        public_key_bytes: material.map_or(0, |material| material.public_key_bytes.unsigned_abs()),
        eval_key_bytes: material.map_or(0, |material| material.eval_key_bytes.unsigned_abs()),
        eval_key_rows: rows.unsigned_abs(),
        eval_key_rows_total: material.and_then(|material| material.rows_announced).map(i64::unsigned_abs),
        eval_key_bytes_max: compute.limits.of(caller.plan).encryption_key_bytes(),
        key_id,
        created_at: Timestamp(upload.created_at).rfc3339(),
        expires_at: Timestamp(upload.expires_at).rfc3339(),
    })
}

fn unknown_upload() -> ApiError {
    ApiError::new(Code::NotFound, "there is no such upload in this account, or it has expired")
}

fn completed() -> ApiError {
    ApiError::new(Code::Conflict, "the upload is completed: it became a key")
}

/// Returns the error for a request during which another request added to the upload or ended it.
fn overtaken() -> ApiError {
    ApiError::new(Code::Conflict, "another request has changed the upload meanwhile: read the upload's progress again")
}

fn too_large(most: u64) -> ApiError {
    let message = format!("an evaluation key with these parameters may have at most {most} bytes on this plan");
    ApiError::new(Code::PayloadTooLarge, message).at("eval_key", "too large")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_two_places_of_a_whole() {
        let range = |start, end, total| Some(ContentRange { start, end, total });
        for (text, expected) in [
            ("bytes 0-9/10", range(0, 9, Some(10))),
            ("bytes 5-5/*", range(5, 5, None)),
            ("bytes 5-4/10", None),
            ("bytes 0-10/10", None),
            ("bytes 0-18446744073709551615/*", None),
            ("bytes 0-18446744073709551616/*", None),
            ("bytes +1-2/3", None),
            ("bytes */10", None),
            ("bytes 0-9", None),
            ("rows 0-9/10", None),
            ("", None),
        ] {
            assert_eq!(ContentRange::read(text), expected, "{text}");
        }
    }
}
