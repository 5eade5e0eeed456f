//! The internal listener of an API node: workers fetch operands, read keys and return results. Each call needs the token of a
//! request that waits. The listener is on another port than the API, and serves nothing else.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use fleet::asker::Asker;
use fleet::message::{Answer, Word};
use tokio::sync::Semaphore;

use super::access::{Checkpoints, FleetKeys};
use super::parts::WithParts;
use super::pending::{Pending, Refused};
use crate::work::here::CHECKPOINT_BYTES_MAX;

/// Largest end of work in bytes: the results of the largest circuit, and a head.
const END_BYTES_MAX: usize = 72 << 20;

/// The state of the internal listener.
pub struct Internal {
    pub(super) pending: Arc<Pending>,
    pub(super) asker: Arc<Asker>,
    pub(super) keys: OnceLock<Arc<dyn FleetKeys>>,
    pub(super) checkpoints: OnceLock<Arc<WithParts>>,
    pub(super) turns: Turns,
}

/// The turns of checkpoints that workers hand over.
pub(super) struct Turns(Semaphore);

impl Default for Turns {
    fn default() -> Turns {
        Turns(Semaphore::new(CHECKPOINTS_TAKEN))
    }
}

/// Number of checkpoints that the listener takes at the same time, because one may have [`CHECKPOINT_BYTES_MAX`] bytes, and is
/// sealed in memory.
const CHECKPOINTS_TAKEN: usize = 2;

/// A worker that needs more time for the bytes of a checkpoint has stopped. Others get its turn.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(30);

/// Makes the routes of the internal listener.
pub fn router(state: Arc<Internal>) -> Router {
    Router::new()
        .route("/requests/{token}", get(operands).post(end))
        .route("/checkpoints/{token}", get(checkpoint).post(keep_checkpoint))
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

async fn checkpoint(State(state): State<Arc<Internal>>, Path(token): Path<String>) -> Response {
    let (Some(id), Some(checkpoints)) = (state.pending.id(&token), state.checkpoints.get()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match checkpoints.read(id).await {
        Ok(Some(bytes)) => bytes.into_response(),
        Ok(None) => StatusCode::GONE.into_response(),
        Err(error) => {
            tracing::warn!(error = error.message, "a checkpoint could not be read");
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
    }
}

async fn keep_checkpoint(State(state): State<Arc<Internal>>, Path(token): Path<String>, body: Body) -> StatusCode {
    let (Some(id), Some(checkpoints)) = (state.pending.id(&token), state.checkpoints.get()) else {
        return StatusCode::NOT_FOUND;
    };
    // the body of a checkpoint that waits is not read
    let Ok(_turn) = state.turns.0.acquire().await else { return StatusCode::SERVICE_UNAVAILABLE };
    let read = tokio::time::timeout(CHECKPOINT_TIMEOUT, to_bytes(body, CHECKPOINT_BYTES_MAX));
    let Ok(read) = read.await else { return StatusCode::REQUEST_TIMEOUT };
    let Ok(bytes) = read else { return StatusCode::PAYLOAD_TOO_LARGE };
    match checkpoints.keep(id, bytes).await {
        Ok(true) => StatusCode::NO_CONTENT,
        Ok(false) => StatusCode::GONE,
        Err(error) => {
            tracing::warn!(error = error.message, "a checkpoint could not be kept");
            StatusCode::SERVICE_UNAVAILABLE
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

#[cfg(test)]
mod tests {
    use axum::http::Request;
    use bytes::Bytes;
    use fleet::local::LocalBroker;
    use fleet::member::Ears;
    use tower::ServiceExt;

    use super::*;
    use crate::work::key::KeyName;

    fn state() -> Arc<Internal> {
        let ears = Arc::<Ears>::default();
        let broker = Arc::new(LocalBroker::default().connect("api", ears.listener()));
        let asker = Asker::new(broker, ears, "api".to_owned(), "default".to_owned());
        Arc::new(Internal {
            pending: Arc::default(),
            asker,
            keys: OnceLock::new(),
            checkpoints: OnceLock::new(),
            turns: Turns::default(),
        })
    }

    async fn send(state: &Arc<Internal>, method: &str, path: String, body: &'static [u8]) -> (u16, Bytes) {
        let request = Request::builder().method(method).uri(path).body(Body::from(body)).unwrap();
        let answer = router(state.clone()).oneshot(request).await.unwrap();
        let status = answer.status().as_u16();
        (status, to_bytes(answer.into_body(), 1 << 20).await.unwrap())
    }

    #[tokio::test]
    async fn a_token_fetches_once_and_ends_once_and_no_other_token_does() {
        let state = state();
        let key = KeyName::of_label(&format!("s{}", "1".repeat(64))).unwrap();
        let tokens = state.pending.begin("op".to_owned(), key, Bytes::from_static(b"operands"));
        let token = tokens.new_token();
        let guess = "0".repeat(32);
        assert_eq!(send(&state, "GET", format!("/requests/{guess}"), b"").await.0, 404);
        assert_eq!(send(&state, "POST", format!("/requests/{guess}"), b"end").await.0, 404);
        assert_eq!(send(&state, "GET", format!("/keys/{guess}"), b"").await.0, 404);
        assert_eq!(send(&state, "GET", format!("/keys/{guess}/rows/0"), b"").await.0, 404);
        assert_eq!(send(&state, "GET", format!("/checkpoints/{guess}"), b"").await.0, 404);
        assert_eq!(send(&state, "POST", format!("/checkpoints/{guess}"), b"values").await.0, 404);
        let fetched = send(&state, "GET", format!("/requests/{token}"), b"").await;
        assert_eq!(fetched, (200, Bytes::from_static(b"operands")));
        assert_eq!(send(&state, "GET", format!("/requests/{token}"), b"").await.0, 410);
        assert_eq!(send(&state, "POST", format!("/requests/{token}"), b"end").await.0, 204);
        assert_eq!(send(&state, "POST", format!("/requests/{token}"), b"again").await.0, 404);
        drop(tokens);
        assert_eq!(send(&state, "GET", format!("/requests/{token}"), b"").await.0, 404);
    }

    #[tokio::test]
    async fn the_internal_listener_serves_nothing_else() {
        let state = state();
        for path in ["/", "/requests", "/requests/a/b", "/metrics", "/api/v1/health", "/keys/a/rows/b"] {
            let (status, _) = send(&state, "GET", path.to_owned(), b"").await;
            assert!(status == 404 || status == 400, "{path} {status}");
        }
    }
}
