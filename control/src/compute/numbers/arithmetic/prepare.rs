//! Checks a request and plans it on stored ciphertexts, before anything is computed or counts against a limit.

use std::sync::Arc;

use api::Code;
use api::compute::ComputeRequest;
use store::{CiphertextRecord, EncryptionKey};
use zeroize::Zeroizing;

use crate::caller::Caller;
use crate::compute::Compute;
use crate::compute::numbers::ciphertexts::unknown_ciphertext;
use crate::compute::numbers::keys::{find, or_deleted};
use crate::compute::numbers::vault::{Pinned, Shelf};
use crate::resource::Payer;
use crate::web::Web;
use crate::web::body::{Reserved, reserve};
use crate::web::error::ApiError;
use crate::work::numbers::{Asked, OpenNumbersKey, Operation, PlannedOperation, Sources, StoredOperand};
use crate::work::{KeyName, Operand};

/// A request that was checked and planned.
pub struct Prepared {
    pub operation: Operation,
    pub record: EncryptionKey,
    pub key: Arc<OpenNumbersKey>,
    pub planned: PlannedOperation,
    /// Keeps the operation's ciphertexts from being evicted while the operation runs (readings K14).
    pub pinned: Pinned,
    /// Memory for the operands, the result and the answer.
    pub reserved: Reserved,
}

/// Checks a request, reads its ciphertexts and makes its plan.
pub async fn prepare(
    compute: &Compute,
    web: &Web,
    caller: &Caller,
    operation: Operation,
    request: ComputeRequest,
) -> Result<Prepared, ApiError> {
    check(operation, &request)?;
    let record = find(compute, caller, &request.key_id).await?;
    let ciphertext_ids = request.ciphertext_ids.clone();
    let asked = asked(operation, request);
    match under_key(compute, web, caller, &record, &ciphertext_ids, asked).await {
        Ok((key, planned, pinned, reserved)) => Ok(Prepared { operation, record, key, planned, pinned, reserved }),
        Err(error) => Err(or_deleted(compute, &caller.account, &record.key_id, error).await),
    }
}

/// Reads the ciphertexts of a request under its key, and makes its plan.
async fn under_key(
    compute: &Compute,
    web: &Web,
    caller: &Caller,
    record: &EncryptionKey,
    ciphertext_ids: &[String],
    asked: Asked,
) -> Result<(Arc<OpenNumbersKey>, PlannedOperation, Pinned, Reserved), ApiError> {
    let pinned = compute.vault.pin(ciphertext_ids.to_vec());
    let records = operands(compute, caller, record, ciphertext_ids, Touch::Use).await?;
    let wanted = records.len();
    compute.vault.check_place(&record.node_id)?;
    let share = compute.workers.share(&caller.account, caller.plan);
    let key_id = record.key_id.parse().map_err(ApiError::internal)?;
    let key = Arc::new(compute.workers.open_numbers(KeyName::of_numbers_key(share, &key_id), share).await?);
    let payer = Payer::from(caller);
    // memory for each operand as bytes and as 32-bit words, and for the result as words, as bytes and as base64
    let words = key.ciphertext_words_bytes();
    let reserved = reserve(&web.bodies, &payer, (2 * wanted as u64 + 4) * words).await?;
    let mut containers: Vec<StoredOperand> = Vec::with_capacity(wanted);
    for (at, record) in records.iter().enumerate() {
        let same = records[..at].iter().position(|before| before.ciphertext_id == record.ciphertext_id);
        let bytes = match same {
            Some(same) => containers[same].bytes.clone(),
            None => Arc::new(read(compute, caller, &payer, record).await?),
        };
        let operand = Operand::Object(record.ciphertext_id.parse().map_err(ApiError::internal)?);
        containers.push(StoredOperand { operand, bytes, sources: Sources::from_bytes(record.sources.as_deref()) });
    }
    let planning = key.clone();
    let planned = compute.offload.run(payer, move || planning.plan(asked, containers)).await??;
    Ok((key, planned, pinned, reserved))
}

/// Checks the members of a request that need no record.
pub fn check(operation: Operation, request: &ComputeRequest) -> Result<(), ApiError> {
    for (member, promise) in
        [("result_bound", request.result_bound), ("result_error_bound", request.result_error_bound)]
    {
        // the bounds are stored beside the result, where a subnormal double is not allowed
        if promise.is_some_and(|bound| !(bound > 0.0 && bound.is_normal())) {
            let message = format!("{member} must be above 0, and not below 2.3e-308");
            return Err(ApiError::new(Code::InvalidParams, message).at(member, "not above 0"));
        }
    }
    let (wanted, found) = (operation.operands(), request.ciphertext_ids.len());
    if wanted != found {
        // readings C5
        let (name, plural) = (operation.name(), if wanted == 1 { "" } else { "s" });
        let message = format!("{name} takes {wanted} ciphertext{plural}, not {found}");
        return Err(ApiError::new(Code::InvalidRequest, message).at("ciphertext_ids", format!("{wanted} elements")));
    }
    Ok(())
}

/// Takes what the plan of an operation needs out of a request.
pub fn asked(operation: Operation, request: ComputeRequest) -> Asked {
    Asked {
        operation,
        plain: request.plain_operand,
        coefficients: request.polynomial_coeffs,
        steps: request.rotation_steps,
        scale_stable: request.scale_stable.unwrap_or(false),
        result_bound: request.result_bound,
        result_error_bound: request.result_error_bound,
    }
}

/// Whether a look at a ciphertext counts as its use, which delays its eviction (readings K14).
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// The look is a use.
    Use,
    /// The look changes nothing.
    Look,
}

/// Finds the records of the ciphertexts that the request names. Refuses a ciphertext under another key than the
/// request's.
pub async fn operands(
    compute: &Compute,
    caller: &Caller,
    key: &EncryptionKey,
    ids: &[String],
    touch: Touch,
) -> Result<Vec<CiphertextRecord>, ApiError> {
    let (account, mut records) = (caller.account.as_str(), Vec::with_capacity(ids.len()));
    for id in ids {
        let record = match touch {
            Touch::Use => compute.store.use_ciphertext(account, id, compute.clock.now().0).await?,
            Touch::Look => compute.store.ciphertext(account, id).await?,
        };
        let record = record.ok_or_else(unknown_ciphertext)?;
        if record.key_id != key.key_id {
            let message = format!("the ciphertext {id} was made under another key than {}", key.key_id);
            return Err(ApiError::new(Code::MismatchedKey, message).at("ciphertext_ids", "under another key"));
        }
        records.push(record);
    }
    Ok(records)
}

async fn read(
    compute: &Compute,
    caller: &Caller,
    payer: &Payer,
    record: &CiphertextRecord,
) -> Result<Zeroizing<Vec<u8>>, ApiError> {
    let (label, at) = (record.ciphertext_id.clone(), (record.node_id.as_str(), record.object.as_str()));
    let read = compute.vault.read(Shelf::Ciphertexts, payer, &caller.account, label, at).await?;
    read.ok_or_else(unknown_ciphertext)
}
