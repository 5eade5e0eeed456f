//! What an operation would give and cost, without the operation.

use api::compute::{ComputePlan, ComputeRequest};
use store::CiphertextRecord;

use super::prepare::{Touch, asked, check, operands};
use super::running::check_room;
use crate::billing::compute_units::OperationPrice;
use crate::billing::ledger::PaidBy;
use crate::caller::Caller;
use crate::compute::Compute;
use crate::compute::numbers::ciphertexts::scale_bits;
use crate::compute::numbers::keys::material::{all_rows, stored_row};
use crate::compute::numbers::keys::{find, params_and_fingerprint};
use crate::web::error::ApiError;
use crate::work::numbers::{self, CiphertextFacts, Operation, Outlook, Sources, StoredRow, Tail};

/// Checks a request as its operation does, in the same order, from records alone: no ciphertext is read and no key is
/// opened.
pub async fn plan(
    compute: &Compute,
    caller: &Caller,
    operation: Operation,
    request: ComputeRequest,
) -> Result<ComputePlan, ApiError> {
    check(operation, &request)?;
    let key = find(compute, caller, &request.key_id).await?;
    let records = operands(compute, caller, &key, &request.ciphertext_ids, Touch::Look).await?;
    let rows: Vec<StoredRow> = all_rows(&compute.store, &key.material_id).await?.iter().map(stored_row).collect();
    let operands: Vec<CiphertextFacts> = records.iter().map(facts).collect();
    let ids = request.ciphertext_ids.clone();
    let asked = asked(operation, request);
    let planning = compute.offload.run(caller.into(), move || {
        let (params, _) = params_and_fingerprint(&key)?;
        numbers::outlook(&params, &rows, &asked, &operands)
    });
    let Outlook { result, key_switches, result_bytes } = planning.await??;
    let pinned = compute.vault.pinned().into_iter().chain(ids).collect();
    let evicted = check_room(compute, &caller.into(), result_bytes, pinned).await?;
    let price = OperationPrice::of(operation, compute.ledger.rate());
    compute.ledger.check_units(&PaidBy::from(caller), &price, compute.clock.now()).await?;
    Ok(ComputePlan {
        operation: operation.name().to_owned(),
        level: result.level as u64,
        levels_remaining: result.levels_remaining as u64,
        scale: result.scale,
        scale_bits: scale_bits(result.scale),
        value_bound: result.value_bound,
        error_bound: result.error_bound,
        precision_bits: result.precision_bits,
        noise_budget_remaining: result.budget_percent,
        bootstrap_degraded: result.degraded,
        key_switches: key_switches as u64,
        result_bytes,
        evicted_ciphertext_ids: evicted
            .iter()
            .map(|id| id.parse())
            .collect::<Result<_, _>>()
            .map_err(ApiError::internal)?,
        cost_units: price.units,
        cost_jpy: price.cost_jpy(),
    })
}

fn facts(record: &CiphertextRecord) -> CiphertextFacts {
    CiphertextFacts {
        level: record.level.unsigned_abs() as usize,
        scale: record.scale,
        value_bound: record.value_bound,
        variance: record.variance,
        tail: if record.mixed { Tail::Mixed } else { Tail::AsSent },
        sources: Sources::from_bytes(record.sources.as_deref()),
        seed: None,
    }
}
