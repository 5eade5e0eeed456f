//! Checks uploaded circuits, counts their gates and levels, and stores them for an account.

use std::sync::Arc;

use api::Code;
use api::circuits::{CIRCUIT_TEXT_BYTES_MAX, CircuitFacts, is_circuit_name};
use axum::extract::{FromRef, FromRequest, Request};
use sha2::{Digest as _, Sha256};
use store::{CircuitKept, CircuitRecord, CircuitsMax, NetlistPlace, NewCircuit};

use super::netlist::{NetlistBounds, read_netlist};
use crate::billing::charge;
use crate::caller::Caller;
use crate::clock::Timestamp;
use crate::compute::Compute;
use crate::web::Web;
use crate::web::body::{Pieces, Reserved, media_type};
use crate::web::error::ApiError;

/// Memory reserved for each byte of a netlist: for the text, the circuit read from it, and its plan.
const COPIES: u64 = 6;

/// An uploaded netlist.
pub struct CircuitText {
    text: String,
    /// Held until the netlist is stored.
    _reserved: Reserved,
}

impl<S: Send + Sync> FromRequest<S> for CircuitText
where
    Arc<Web>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        if media_type(request.headers()).as_deref() != Some("text/plain") {
            return Err(ApiError::new(Code::InvalidRequest, "the content type must be text/plain"));
        }
        let mut pieces =
            Pieces::kept(&Arc::<Web>::from_ref(state), request, CIRCUIT_TEXT_BYTES_MAX, |bytes| COPIES * bytes)?;
        let mut bytes = pieces.all().await?;
        let text = String::from_utf8(std::mem::take(&mut *bytes)).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            ApiError::new(Code::InvalidRequest, format!("the netlist is not UTF-8: fault at byte {at}"))
        })?;
        Ok(CircuitText { text, _reserved: pieces.take_reserved() })
    }
}

/// Checks a netlist and stores it. Returns whether the name is new, and the description of the stored circuit for
/// answers.
pub async fn put(
    compute: &Compute,
    caller: &Caller,
    name: &str,
    upload: CircuitText,
) -> Result<(bool, CircuitFacts), ApiError> {
    if !is_circuit_name(name) {
        let message = "a circuit's name has 1 to 64 characters a-z, 0-9, _ or -, and begins with a letter or a digit";
        return Err(ApiError::new(Code::InvalidParams, message).at("name", "not a name"));
    }
    let bounds = NetlistBounds::of(&compute.circuits, caller.role);
    let measured = compute.offload.run(caller.into(), move || {
        let netlist = read_netlist(&upload.text, &bounds, "")?;
        let (counts, levels) = (netlist.gate_counts(), netlist.levels());
        let sha256: [u8; 32] = Sha256::digest(upload.text.as_bytes()).into();
        Ok::<_, ApiError>((upload, netlist, counts, levels, sha256))
    });
    let (upload, netlist, counts, levels, sha256) = measured.await??;
    let CircuitText { text, _reserved } = upload;
    let bytes = text.len() as i64;
    let place = compute.netlists.put(caller, name, text).await?;
    let widths = |widths: &[usize]| serde_json::to_string(widths).map_err(ApiError::internal);
    let circuit = NewCircuit {
        account_id: caller.account.as_str(),
        name,
        netlist: &place,
        bytes,
        sha256: &sha256,
        gates: netlist.gates() as i64,
        by_gate: &charge::by_gate(&counts)?,
        levels: levels as i64,
        input_widths: &widths(netlist.input_widths())?,
        output_widths: &widths(netlist.output_widths())?,
        now: compute.clock.now().0,
    };
    let config = &compute.circuits;
    let max = CircuitsMax { count: config.kept_max as i64, bytes: config.kept_bytes_max as i64 };
    match compute.store.put_circuit(&circuit, max).await? {
        CircuitKept::Created(record) => Ok((true, facts(record)?)),
        CircuitKept::Replaced(record, older) => {
            compute.netlists.forget(older).await;
            Ok((false, facts(record)?))
        }
        CircuitKept::TooMuch => {
            if let NetlistPlace::Object(object) = place {
                compute.netlists.forget(Some(object)).await;
            }
            let (count, megabytes) = (config.kept_max, config.kept_bytes_max >> 20);
            let message = format!(
                "an account may store at most {count} circuits and {megabytes} MB in total: delete some circuits"
            );
            Err(ApiError::new(Code::QuotaExceeded, message))
        }
    }
}

/// Makes the description of a stored circuit for answers, from its record.
pub fn facts(record: CircuitRecord) -> Result<CircuitFacts, ApiError> {
    let widths = |text: &str| serde_json::from_str(text).map_err(ApiError::internal);
    Ok(CircuitFacts {
        bytes: record.bytes.unsigned_abs(),
        sha256: hex::encode(&record.sha256),
        gates: serde_json::from_str(&record.by_gate).map_err(ApiError::internal)?,
        gates_total: record.gates.unsigned_abs(),
        levels: record.levels.unsigned_abs(),
        input_widths: widths(&record.input_widths)?,
        output_widths: widths(&record.output_widths)?,
        created_at: Timestamp(record.created_at).rfc3339(),
        updated_at: Timestamp(record.updated_at).rfc3339(),
        name: record.name,
    })
}
