//! Who is calling, and may they (specification, Authentication; readings A1-A8).
//!
//! [`require`] stands in front of every route that is not public and leaves a [`Caller`] for the handler.

pub mod api_key;
pub mod role;

use std::sync::Arc;

use api::{AccountId, Code};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::app::Node;
use crate::error::ApiError;

pub use api_key::{ApiKeys, Pepper};
pub use role::{Environment, Level, Role};

/// Whose request this is.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Owner of everything the request may touch.
    pub account: AccountId,
    /// Environment of the key.
    pub environment: Environment,
    /// Role of the key.
    pub role: Role,
}

/// Lets a request pass when its key is valid and its role permits the route.
pub async fn require(
    level: Level,
    State(node): State<Arc<Node>>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let key = presented_key(request.headers())?;
    let caller = node.api_keys.caller(key, node.clock.now()).await?;
    // the definition of a viewer, GET only, wins over what a route admits (readings A5)
    let mutating = !matches!(*request.method(), Method::GET | Method::HEAD);
    if !caller.role.permits(level) || (mutating && caller.role == Role::Viewer) {
        return Err(ApiError::new(
            Code::InsufficientRole,
            format!("a key with the role {} may not use this endpoint", caller.role.as_str()),
        ));
    }
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await.into_response())
}

/// The key as sent: after `Bearer` in any case, or bare (readings A1).
fn presented_key(headers: &HeaderMap) -> Result<&str, ApiError> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let missing = || ApiError::new(Code::MissingAuthHeader, "send the API key as `Authorization: Bearer <key>`");
    let value = values.next().ok_or_else(missing)?;
    if values.next().is_some() {
        return Err(ApiError::new(Code::InvalidRequest, "more than one Authorization header"));
    }
    let text = value.to_str().map_err(|_| invalid_key())?.trim();
    if text.is_empty() {
        return Err(missing());
    }
    let key = match text.split_once(' ') {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("bearer") => rest.trim(),
        _ => text,
    };
    Ok(key)
}

/// One answer for malformed, unknown, revoked and expired keys.
fn invalid_key() -> ApiError {
    ApiError::new(Code::InvalidApiKey, "the API key is not valid")
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    /// Fails closed: a route without [`require`] in front has no caller.
    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        parts
            .extensions
            .get::<Caller>()
            .cloned()
            .ok_or_else(|| ApiError::internal("a route asks for its caller in vain"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_of(values: &[&str]) -> Result<String, Code> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        presented_key(&headers).map(str::to_owned).map_err(|error| error.code)
    }

    #[test]
    fn a1_bearer_in_any_case_or_a_bare_key() {
        for value in ["Bearer k", "bearer k", "BEARER  k", " Bearer k ", "k"] {
            assert_eq!(key_of(&[value]).as_deref(), Ok("k"), "{value}");
        }
    }

    #[test]
    fn a1_missing_or_empty_headers_are_missing_and_two_are_a_bad_request() {
        assert_eq!(key_of(&[]), Err(Code::MissingAuthHeader));
        assert_eq!(key_of(&[" "]), Err(Code::MissingAuthHeader));
        assert_eq!(key_of(&["Bearer k", "Bearer k"]), Err(Code::InvalidRequest));
    }
}
