//! Models for encrypted inference (specification, Health, models, pricing; readings O8).

use api::models::Models;
use axum::Json;

/// The models of this node. The list is empty: inference has no endpoints yet.
#[utoipa::path(
    get,
    path = "/api/v1/models",
    operation_id = "listModels",
    tag = "Health, models, pricing",
    responses((status = 200, description = "The models of this node.", body = Models)),
    extensions(("x-errors" = json!([])))
)]
pub async fn list() -> Json<Models> {
    Json(Models::default())
}
