//! Query parameters. A value that is not allowed is answered with 422 (specification, Behaviour rule 1).

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use docs_module::request::Fault;

use super::body::refusal;
use crate::web::error::ApiError;

/// The query parameters of a request. Unknown parameters are ignored.
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Returns the value of a parameter. If the parameter is given several times, the last value counts.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the value of a parameter, which must be one of the allowed values. If the parameter is absent, the first
    /// allowed value counts.
    pub fn choice(&self, name: &'static str, allowed: &[&'static str]) -> Result<&'static str, ApiError> {
        let Some(value) = self.get(name) else { return Ok(allowed[0]) };
        let found = allowed.iter().copied().find(|choice| *choice == value);
        found.ok_or_else(|| refusal(vec![Fault::of_query(name, value, allowed)]))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        let pairs = url::form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
        Ok(Query(pairs.into_owned().collect()))
    }
}
