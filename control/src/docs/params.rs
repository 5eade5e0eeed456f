//! Parameters that really meet a security level (readings section 14).

use api::Code;
use api::params::{SecurityLevel, SuggestedParams};
use axum::Json;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;

use crate::compute::engine::{Preset, preset_facts};
use crate::web::error::ApiError;

/// The gate-session presets that meet a security level.
///
/// `depth` and `scale_bits` describe arithmetic circuits, which have no endpoints yet: the node checks their range and does
/// not use them. Gates have no limit of depth, because every gate refreshes the noise of its result.
#[utoipa::path(
    get,
    path = "/api/v1/params/suggest",
    operation_id = "suggestParams",
    tag = "Gate sessions",
    params(
        ("security_level" = inline(Option<SecurityLevel>), Query,
            description = "The level to meet; `128-bit` when absent."),
        ("depth" = Option<i64>, Query, minimum = 1, maximum = 14,
            description = "Multiplications in a row, for arithmetic circuits."),
        ("scale_bits" = Option<i64>, Query, minimum = 10, maximum = 50,
            description = "Bits of precision, for arithmetic circuits."),
    ),
    responses((status = 200, description = "The presets that meet the level; an empty list if none does.", body = SuggestedParams))
)]
pub async fn suggest(
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Result<Json<SuggestedParams>, ApiError> {
    let Query(query) = query.map_err(|_| ApiError::new(Code::InvalidRequest, "the query is not readable"))?;
    let level = parse(&query)?;
    let presets = Preset::ALL.into_iter().filter(|preset| preset.security_bits() >= level.bits());
    Ok(Json(SuggestedParams { security_level: level, presets: presets.map(preset_facts).collect() }))
}

/// Reads the query; unknown parameters are ignored, known ones must be right and come once (readings E3).
fn parse(query: &[(String, String)]) -> Result<SecurityLevel, ApiError> {
    let (mut level, mut depth, mut scale_bits) = (None, None, None);
    for (name, value) in query {
        let slot = match name.as_str() {
            "security_level" => &mut level,
            "depth" => &mut depth,
            "scale_bits" => &mut scale_bits,
            _ => continue,
        };
        if slot.replace(value.as_str()).is_some() {
            return Err(ApiError::new(Code::InvalidRequest, format!("{name} is given twice")).at(name, "given twice"));
        }
    }
    in_range("depth", depth, 1, 14)?;
    in_range("scale_bits", scale_bits, 10, 50)?;
    let Some(name) = level else { return Ok(SecurityLevel::Bits128) };
    SecurityLevel::from_name(name).ok_or_else(|| {
        let names = SecurityLevel::ALL.map(SecurityLevel::as_str).join(", ");
        ApiError::new(Code::InvalidRequest, format!("security_level must be one of {names}"))
            .at("security_level", format!("not one of {names}"))
    })
}

fn in_range(name: &str, value: Option<&str>, min: i64, max: i64) -> Result<(), ApiError> {
    let Some(value) = value else { return Ok(()) };
    let number: i64 = value.parse().map_err(|_| {
        ApiError::new(Code::InvalidRequest, format!("{name} must be a whole number")).at(name, "not a whole number")
    })?;
    if !(min..=max).contains(&number) {
        return Err(ApiError::new(Code::InvalidRequest, format!("{name} must be {min} to {max}"))
            .at(name, format!("not in {min} to {max}")));
    }
    Ok(())
}
