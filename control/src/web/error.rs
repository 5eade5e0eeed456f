//! The error type of all handlers: a code and a message. [`crate::web::edge`] makes the error object of it.

use std::sync::Arc;
use std::time::Duration;

use api::{Code, Detail};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

/// What a handler answers when it cannot do as asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// Decides the status.
    pub code: Code,
    /// For people. Never holds secrets or internals (readings E10, X16).
    pub message: String,
    /// Parts of the request at fault.
    pub details: Vec<Detail>,
    /// Where those parts are.
    pub place: RequestPart,
    /// The faults of a request of the back office, as its answers tell them.
    pub faults: Vec<Value>,
    /// When to come back, in seconds. Every 503 says it.
    pub retry_after_s: Option<u64>,
    /// Which of a code's causes it is, for the metrics; empty where a code has one cause.
    pub reason: &'static str,
}

/// The part of a request that a member is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPart {
    /// The body.
    Body,
    /// What follows the path.
    Query,
}

impl RequestPart {
    /// As the back office's answers call it.
    pub fn as_str(self) -> &'static str {
        match self {
            RequestPart::Body => "body",
            RequestPart::Query => "query",
        }
    }
}

impl ApiError {
    /// An error of this code in these words.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let retry_after_s = (code.status() == 503).then_some(1);
        let (message, place) = (message.into(), RequestPart::Body);
        Self { code, message, details: Vec::new(), place, faults: Vec::new(), retry_after_s, reason: "" }
    }

    /// With the member that is at fault.
    pub fn at(mut self, field: impl Into<String>, issue: impl Into<String>) -> Self {
        self.details.push(Detail { field: field.into(), issue: issue.into() });
        self
    }

    /// 422 of the back office, with the faults as its answers tell them.
    pub fn with_faults(faults: Vec<Value>) -> Self {
        Self { faults, ..Self::new(Code::ValidationError, "the request has faults") }
    }

    /// With one of a code's causes, from a fixed list, for the metrics.
    pub fn because(mut self, reason: &'static str) -> Self {
        self.reason = reason;
        self
    }

    /// The members at fault are the query's.
    pub fn in_query(mut self) -> Self {
        self.place = RequestPart::Query;
        self
    }

    /// With a time to come back, rounded up to whole seconds.
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after_s = Some(wait.as_millis().div_ceil(1000).max(1) as u64);
        self
    }

    /// 500, for a bug or a broken machine. The cause goes to the log, not to the caller (readings E10).
    pub fn internal(cause: impl std::fmt::Display) -> Self {
        tracing::error!(%cause, "internal error");
        Self::new(Code::InternalError, "something went wrong inside the service")
    }

    /// Another request with the same `Idempotency-Key` is running (readings I3).
    pub fn in_progress() -> Self {
        Self::new(Code::IdempotencyInProgress, "the first request with this Idempotency-Key is still running")
            .retry_after(Duration::from_secs(1))
    }

    /// 503, for one of the causes that the metrics count apart.
    pub fn unavailable(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(Code::ServiceUnavailable, message).because(reason)
    }

    /// The node takes no new work.
    pub fn draining() -> Self {
        Self::unavailable("draining", "the node is shutting down").retry_after(Duration::from_secs(5))
    }
}

impl From<store::Error> for ApiError {
    /// Readings E8: the database failing is 503. A lost claim is no failure: another request with its key runs (I3).
    fn from(error: store::Error) -> Self {
        if matches!(error, store::Error::ClaimLost) {
            return Self::in_progress();
        }
        if matches!(error, store::Error::OperationEnded) {
            return Self::internal(error);
        }
        if matches!(error, store::Error::ReservationLost) {
            tracing::error!("this node was taken for lost while it worked: its clock or the database stood still");
            return Self::unavailable("database", "the node lost touch with the database; nothing was charged");
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
