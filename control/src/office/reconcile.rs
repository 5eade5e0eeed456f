//! Reconciliation of two lists (specification, `/v1/reconcile`; readings B2, B34, B35). Reconciliation is free, and
//! open to callers without a key.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use docs_module::request::reconciled;

use super::body::Body;
use crate::web::error::ApiError;
use crate::web::openapi::BODY;

/// Match the records of two lists by a name and, if wanted, an amount. No key is needed.
#[utoipa::path(
    post,
    path = "/v1/reconcile",
    operation_id = "reconcile",
    tag = "Back office",
    request_body = api::office::ReconcileIn,
    responses((status = 200, description = "The four groups of records.", body = api::office::Reconciliation)),
    extensions(("x-errors" = json!(BODY)))
)]
pub async fn run(body: Body) -> Result<Response, ApiError> {
    let text = body.work(reconciled).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}
