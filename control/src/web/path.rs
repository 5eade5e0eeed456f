//! The variable parts of a path, not parsed. A text that cannot be an id or a name gets the same answer as an unknown
//! one.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;

use crate::web::error::ApiError;

/// The variable parts of a path, decoded. Empty if they are not UTF-8. U+FFFD stands for the character U+0000, which no
/// database stores and no id has.
pub struct PathParts(Vec<(String, String)>);

impl PathParts {
    /// Returns the part of the path that has this name. Empty if there is none.
    pub fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathParts {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        let storable = |value: &str| value.replace('\0', "\u{fffd}");
        let owned = |params: RawPathParams| params.iter().map(|(name, value)| (name.into(), storable(value))).collect();
        Ok(PathParts(params.map(owned).unwrap_or_default()))
    }
}
