//! Prices of gates (specification, Health, models, pricing; readings P30).

use api::gates::Pricing;
use axum::Json;

use crate::billing::tariff;

/// The price of every gate.
#[utoipa::path(
    get,
    path = "/api/v1/tfhe/pricing",
    operation_id = "getGatePricing",
    tag = "Health, models, pricing",
    responses((status = 200, description = "The price list.", body = Pricing)),
    extensions(("x-errors" = json!([])))
)]
pub async fn list() -> Json<Pricing> {
    Json(tariff::pricing())
}
