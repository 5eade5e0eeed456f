//! The internal listener of an API node: workers fetch operands, read keys and return results. Each call needs the token of a
//! request that waits. The listener is on another port than the API, and serves nothing else.

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use fleet::asker::Asker;
use fleet::message::{Answer, Word};

use super::access::FleetKeys;
use super::pending::{Pending, Refused};

/// Largest end of work in bytes: the results of the largest circuit, and a head.
const END_BYTES_MAX: usize = 72 << 20;

/// The state of the internal listener.
pub struct Internal {
    pub(super) pending: Arc<Pending>,
    pub(super) asker: Arc<Asker>,
    pub(super) keys: OnceLock<Arc<dyn FleetKeys>>,
}

/// Makes the routes of the internal listener.
pub fn router(state: Arc<Internal>) -> Router {
    Router::new()
        .route("/requests/{token}", get(operands).post(end))
        .route("/keys/{token}", get(key))
        .route("/keys/{token}/rows/{row_index}", get(row))
        .with_state(state)
}

async fn operands(State(state): State<Arc<Internal>>, Path(token): Path<String>) -> Response {
    match state.pending.fetch(&token) {
        Ok(bytes) => bytes.into_response(),
        Err(Refused::Unknown) => StatusCode::NOT_FOUND.into_response(),
        Err(Refused::Spent) => StatusCode::GONE.into_response(),
    }
}

async fn end(State(state): State<Arc<Internal>>, Path(token): Path<String>, body: Body) -> StatusCode {
    // a guessed token must not make the node read a body
    if state.pending.key(&token).is_none() {
        return StatusCode::NOT_FOUND;
    }
    let Ok(end) = to_bytes(body, END_BYTES_MAX).await else { return StatusCode::PAYLOAD_TOO_LARGE };
    match state.pending.end(&token) {
        None => StatusCode::NOT_FOUND,
        Some(id) => {
            state.asker.hear(Answer { id, word: Word::Ended(end) });
            StatusCode::NO_CONTENT
        }
    }
}

async fn key(State(state): State<Arc<Internal>>, Path(token): Path<String>) -> Response {
    let (Some(name), Some(keys)) = (state.pending.key(&token), state.keys.get()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match keys.access(name).await {
        Ok(Some(access)) => axum::Json(access).into_response(),
        Ok(None) => StatusCode::GONE.into_response(),
        Err(error) => {
            tracing::warn!(error = error.message, "a worker's key could not be read");
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
    }
}

async fn row(State(state): State<Arc<Internal>>, Path((token, row_index)): Path<(String, i64)>) -> Response {
    let (Some(name), Some(keys)) = (state.pending.key(&token), state.keys.get()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match keys.row(name, row_index).await {
        Ok(Some(row)) => row.to_vec().into_response(),
        Ok(None) => StatusCode::GONE.into_response(),
        Err(error) => {
            tracing::warn!(error = error.message, "a row of a worker's key could not be read");
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
    }
}
