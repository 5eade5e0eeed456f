//! The error type of all handlers: a code and a message. [`crate::web::edge`] writes the error object.

use std::sync::Arc;
use std::time::Duration;

use api::{Code, Detail};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

/// An error that a handler returns in place of its answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The error's code, which decides the status of the answer.
    pub code: Code,
    /// A text for people. Never contains secrets or internals (readings E10, X16).
    pub message: String,
    /// The members of the request that are at fault.
    pub details: Vec<Detail>,
    /// The part of the request that holds the members in `details`.
    pub place: RequestPart,
    /// The faults of a request to the back office, in the form of the back office's answers.
    pub faults: Vec<Value>,
    /// Seconds to wait before a retry. Always set for 503.
    pub retry_after_s: Option<u64>,
    /// The cause, for the metrics, if a code has several causes. Otherwise empty.
    pub reason: &'static str,
}

/// The part of a request that a member is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPart {
    /// The body.
    Body,
    /// The query parameters.
    Query,
}

impl RequestPart {
    /// The name that the back office's answers use.
    pub fn as_str(self) -> &'static str {
        match self {
            RequestPart::Body => "body",
            RequestPart::Query => "query",
        }
    }
}

impl ApiError {
    /// Makes an error with this code and message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let retry_after_s = (code.status() == 503).then_some(1);
        let (message, place) = (message.into(), RequestPart::Body);
        Self { code, message, details: Vec::new(), place, faults: Vec::new(), retry_after_s, reason: "" }
    }

    /// Adds a member that is at fault.
    pub fn at(mut self, field: impl Into<String>, issue: impl Into<String>) -> Self {
        self.details.push(Detail { field: field.into(), issue: issue.into() });
        self
    }

    /// Makes the back office's answer 422 with these faults, which have the form of that answer already.
    pub fn with_faults(faults: Vec<Value>) -> Self {
        Self { faults, ..Self::new(Code::ValidationError, "the request has faults") }
    }

    /// Sets the cause for the metrics, which must be from a fixed list.
    pub fn because(mut self, reason: &'static str) -> Self {
        self.reason = reason;
        self
    }

    /// Says that the members at fault are query parameters.
    pub fn in_query(mut self) -> Self {
        self.place = RequestPart::Query;
        self
    }

    /// Sets the time to wait before a retry, rounded up to whole seconds.
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after_s = Some(wait.as_millis().div_ceil(1000).max(1) as u64);
        self
    }

    /// Makes the error 500, for a bug or a broken machine. The cause is logged, not sent to the caller (readings E10).
    pub fn internal(cause: impl std::fmt::Display) -> Self {
        tracing::error!(%cause, "internal error");
        Self::new(Code::InternalError, "something went wrong inside the service")
    }

    /// Makes the error for a repeated request while the first request with the same `Idempotency-Key` is running
    /// (readings I3).
    pub fn in_progress() -> Self {
        Self::new(Code::IdempotencyInProgress, "the first request with this Idempotency-Key is still running")
            .retry_after(Duration::from_secs(1))
    }

    /// Makes the error 503 with this cause, which the metrics count separately.
    pub fn unavailable(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(Code::ServiceUnavailable, message).because(reason)
    }

    /// Makes the error of a node that is stopping and accepts no new work.
    pub fn draining() -> Self {
        Self::unavailable("draining", "the node is shutting down").retry_after(Duration::from_secs(5))
    }
}

impl From<store::Error> for ApiError {
    /// Converts an error of the database. A failing database is 503 (readings E8). A lost claim is not a failure:
    /// another request with the same key is running (readings I3). A value that the database refuses is a fault of the
    /// request, for which 400 is sent (under `/v1`, 422).
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::ClaimLost => return Self::in_progress(),
            store::Error::OperationEnded => return Self::internal(error),
            store::Error::SessionEnded => return Self::new(Code::SessionNotFound, "there is no such session"),
            store::Error::ValuesFull => {
                return Self::new(
                    Code::QuotaExceeded,
                    "the session has no memory left for results: delete handles and results of runs",
                );
            }
            store::Error::ReservationLost => {
                tracing::error!(
                    "other nodes considered this node lost while it worked, because this node's clock or the database stood still"
                );
                let message = "the node lost its connection to the database; nothing was charged";
                return Self::unavailable("database", message);
            }
            _ => {}
        }
        if error.is_of_data() {
            // the cause is not logged, because it may quote the value
            return Self::new(Code::InvalidRequest, "the request contains a value that cannot be stored");
        }
        tracing::error!(cause = %error, "database failed");
        Self::unavailable("database", "the database did not answer").retry_after(Duration::from_secs(2))
    }
}

impl From<tokio::task::JoinError> for ApiError {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::internal(error)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.code.status()).expect("the table holds valid statuses");
        let mut response = status.into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}
