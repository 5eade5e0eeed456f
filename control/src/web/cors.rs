//! Cross-origin requests: which pages of other origins may call the API from a browser (readings X13). No such page
//! may, unless the operator lists its origin.
//!
//! A page sends its key or token itself, in `Authorization`. Cookies and other credentials that a browser adds are
//! never allowed, so a node may safely admit all origins with `*`.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Method, header};
use tower_http::cors::{AllowOrigin, CorsLayer};

/// Origins whose pages may call the API from a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CorsOrigins {
    /// Only the API's own origin.
    None,
    /// The listed origins, each as a browser writes it: `https://console.example.org`.
    Listed(Vec<String>),
    /// Every origin.
    Any,
}

/// How long a browser may cache the answer to a preflight request.
const REMEMBERED: Duration = Duration::from_secs(10 * 60);
/// Headers of an answer that pages may read.
const READABLE: [&str; 12] = [
    "idempotent-replayed",
    "preference-applied",
    "retry-after",
    "www-authenticate",
    "x-ratelimit-daily-limit",
    "x-ratelimit-daily-remaining",
    "x-ratelimit-daily-reset",
    "x-ratelimit-monthly-limit",
    "x-ratelimit-monthly-remaining",
    "x-ratelimit-monthly-reset",
    "x-request-id",
    "x-security-warning",
];

/// Makes the layer that answers preflight requests and adds the CORS headers. `None`: no other origin is allowed.
pub fn layer(origins: &CorsOrigins) -> Option<CorsLayer> {
    let allowed = match origins {
        CorsOrigins::None => return None,
        CorsOrigins::Any => AllowOrigin::any(),
        CorsOrigins::Listed(origins) => AllowOrigin::list(origins.iter().map(|origin| value(origin))),
    };
    let header = HeaderName::from_static;
    let sent = [
        header::ACCEPT,
        header::AUTHORIZATION,
        header::CONTENT_TYPE,
        header("idempotency-key"),
        header("prefer"),
        header("x-request-id"),
    ];
    Some(
        CorsLayer::new()
            .allow_origin(allowed)
            .allow_methods([Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
            .allow_headers(sent)
            .expose_headers(READABLE.map(header))
            .max_age(REMEMBERED),
    )
}

fn value(origin: &str) -> HeaderValue {
    HeaderValue::from_str(origin).expect("the settings are checked")
}
