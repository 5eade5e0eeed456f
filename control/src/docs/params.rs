//! Suggests parameters that meet a security level (readings section 14).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::Code;
use api::params::{ArithmeticFacts, SecurityLevel, SuggestedParams};
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::Docs;
use crate::resource::Payer;
use crate::web::error::ApiError;
use crate::web::offload::Offload;
use crate::work::{Preset, numbers, preset_facts};

/// Depth if the request has none. The next constant is the scale in bits if the request has none.
const DEPTH_DEFAULT: u32 = 5;
const SCALE_BITS_DEFAULT: u32 = 40;
/// How long a request waits for other searches. The client should try again after the next constant.
const PATIENCE: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_secs(2);

/// The parameters that meet a security level: presets of gate sessions, and parameters for arithmetic.
///
/// Parameters for arithmetic come with their primes and their levels, so a client needs no search of its own to make keys
/// and ciphertexts.
///
/// `depth` and `scale_bits` are for arithmetic. Gates have no limit of depth, because every gate refreshes the noise of its
/// result.
#[utoipa::path(
    get,
    path = "/api/v1/params/suggest",
    operation_id = "suggestParams",
    tag = "Encryption keys",
    params(
        ("security_level" = inline(Option<SecurityLevel>), Query,
            description = "The level to meet; `128-bit` when absent."),
        ("depth" = Option<i64>, Query, minimum = 1, maximum = 14,
            description = "Multiplications in a row; 5 when absent."),
        ("scale_bits" = Option<i64>, Query, minimum = 10, maximum = 50,
            description = "Bits of a fresh ciphertext's scale; 40 when absent."),
        ("bootstrap" = Option<bool>, Query,
            description = "Whether the chain has the levels of bootstrapping; `false` when absent. Only degrees for testing have them."),
    ),
    responses((status = 200, description = "The presets and parameters that meet the level; empty lists if none do.", body = SuggestedParams)),
    extensions(("x-errors" = json!([Code::InvalidRequest, Code::InvalidParams])))
)]
pub async fn suggest(
    State(docs): State<Arc<Docs>>,
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Result<Json<SuggestedParams>, ApiError> {
    let Query(query) = query.map_err(|_| ApiError::new(Code::InvalidRequest, "the query string cannot be read"))?;
    let asked = parse(&query)?;
    let level = asked.level;
    let presets = Preset::ALL.into_iter().filter(|preset| preset.security_bits() >= level.bits());
    let presets = presets.map(preset_facts).collect();
    let mut arithmetic = docs.searches.find(&docs.web.offload, asked).await?.to_vec();
    let usage = docs.compute.workers.usage();
    for facts in &mut arithmetic {
        let warning = facts.bootstrap_needs.and_then(|needs| numbers::bootstrap_warning(&needs, &usage));
        facts.warnings.extend(warning);
    }
    Ok(Json(SuggestedParams { security_level: level, presets, arithmetic }))
}

/// Searches for parameters. A search takes up to a second of CPU time, and anyone may ask for one. So one search runs at
/// a time, and all results are kept: there are some thousand requests with different results, of a kilobyte each.
pub struct Searches {
    known: Mutex<HashMap<Asked, Arc<[ArithmeticFacts]>>>,
    turn: Semaphore,
}

impl Searches {
    /// No search has run.
    pub fn new() -> Searches {
        Searches { known: Mutex::default(), turn: Semaphore::new(1) }
    }

    /// Returns the known result, or searches.
    ///
    /// # Errors
    /// 503 if the other searches take longer than [`PATIENCE`].
    async fn find(&self, offload: &Offload, asked: Asked) -> Result<Arc<[ArithmeticFacts]>, ApiError> {
        let known = || self.known.lock().get(&asked).cloned();
        if let Some(known) = known() {
            return Ok(known);
        }
        let busy = || {
            ApiError::unavailable("searches", "the node is searching for other parameters; try again later")
                .retry_after(RETRY)
        };
        let turn = tokio::time::timeout(PATIENCE, self.turn.acquire()).await.map_err(|_| busy())?;
        let _turn = turn.map_err(ApiError::internal)?;
        // the search before may have been the same one
        if let Some(known) = known() {
            return Ok(known);
        }
        let Asked { level, depth, scale_bits, bootstrap } = asked;
        let search = move || numbers::suggested(level, depth, scale_bits, bootstrap);
        let found = offload.run(Payer::without_key(), search).await?;
        Ok(self.known.lock().entry(asked).or_insert(found.into()).clone())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Asked {
    level: SecurityLevel,
    depth: u32,
    scale_bits: u32,
    bootstrap: bool,
}

/// Reads the query. Unknown parameters are ignored. A known parameter must be valid and may be given only once
/// (readings E3).
fn parse(query: &[(String, String)]) -> Result<Asked, ApiError> {
    let (mut level, mut depth, mut scale_bits, mut bootstrap) = (None, None, None, None);
    for (name, value) in query {
        let slot = match name.as_str() {
            "security_level" => &mut level,
            "depth" => &mut depth,
            "scale_bits" => &mut scale_bits,
            "bootstrap" => &mut bootstrap,
            _ => continue,
        };
        if slot.replace(value.as_str()).is_some() {
            return Err(ApiError::new(Code::InvalidRequest, format!("{name} is given twice")).at(name, "given twice"));
        }
    }
    let depth = in_range("depth", depth, 1, 14)?.unwrap_or(DEPTH_DEFAULT);
    let scale_bits = in_range("scale_bits", scale_bits, 10, 50)?.unwrap_or(SCALE_BITS_DEFAULT);
    let bootstrap = match bootstrap {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => {
            let message = "bootstrap must be true or false";
            return Err(ApiError::new(Code::InvalidRequest, message).at("bootstrap", "not true or false"));
        }
    };
    let level = match level {
        None => SecurityLevel::Bits128,
        Some(name) => SecurityLevel::from_name(name).ok_or_else(|| {
            let names = SecurityLevel::ALL.map(SecurityLevel::as_str).join(", ");
            ApiError::new(Code::InvalidRequest, format!("security_level must be one of {names}"))
                .at("security_level", format!("not one of {names}"))
        })?,
    };
    Ok(Asked { level, depth, scale_bits, bootstrap })
}

fn in_range(name: &str, value: Option<&str>, min: u32, max: u32) -> Result<Option<u32>, ApiError> {
    let Some(value) = value else { return Ok(None) };
    let number: i64 = value.parse().map_err(|_| {
        ApiError::new(Code::InvalidRequest, format!("{name} must be a whole number")).at(name, "not a whole number")
    })?;
    if !(i64::from(min)..=i64::from(max)).contains(&number) {
        return Err(ApiError::new(Code::InvalidRequest, format!("{name} must be {min} to {max}"))
            .at(name, format!("not in {min} to {max}")));
    }
    Ok(Some(number as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn searches_run_one_at_a_time_and_are_not_repeated() {
        let (searches, offload) = (Searches::new(), Offload::new());
        let asked = Asked { level: SecurityLevel::Bits128, depth: 2, scale_bits: 30, bootstrap: false };
        let held = searches.turn.acquire().await.unwrap();
        let refused = searches.find(&offload, asked).await.unwrap_err();
        assert_eq!((refused.code, refused.retry_after_s), (Code::ServiceUnavailable, Some(2)));
        drop(held);
        let found = searches.find(&offload, asked).await.unwrap();
        assert!(found.iter().any(|facts| facts.poly_degree == 8192));
        // a known result needs no turn
        let _held = searches.turn.acquire().await.unwrap();
        assert!(Arc::ptr_eq(&found, &searches.find(&offload, asked).await.unwrap()));
    }
}
