//! The layers around every request: an id, a deadline, the error object, one log line.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use api::{Code, RequestId};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;

use super::Web;
use crate::caller::{Caller, Credential};
use crate::ids;
use crate::web::envelope::{self, Area};
use crate::web::error::ApiError;
use crate::web::peer::{ClientAddress, Peer};

/// Header with the request's id, for support (readings X11).
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Header that marks results of the back office as reference values (readings B42).
const X_SERVICE_STAGE: HeaderName = HeaderName::from_static("x-service-stage");
/// Time from the deadline of a request's work to the timeout of its answer. In this time the work can still send its
/// own error.
const AFTERMATH: Duration = Duration::from_secs(10);
/// Number of characters of a client's own request id that are logged.
const CLIENT_ID_CHARACTERS_MAX: usize = 64;

/// Paths that are served while the node stops: health, which reports that the node stops.
const ANSWERED_WHILE_DRAINING: [&str; 2] = ["/health", "/api/v1/health"];

/// The deadline of a request's work (readings E9).
#[derive(Clone, Copy, Debug)]
pub struct Deadline(pub Instant);

/// The caller of a request, for the log: ids, never the credential (readings X16). Empty until a credential is found
/// valid. Clones share one value.
#[derive(Clone, Debug, Default)]
pub struct Identified(Arc<OnceLock<Caller>>);

impl Identified {
    /// Notes the caller.
    pub fn is(&self, caller: &Caller) {
        // the first caller stays, a second one is ignored
        let _ = self.0.set(caller.clone());
    }

    /// Returns the ids of the account, the key and the user.
    fn ids(&self) -> [Option<&str>; 3] {
        let Some(Caller { account, credential, .. }) = self.0.get() else { return [None; 3] };
        match credential {
            Credential::Key { key_id, .. } => [Some(account.as_str()), Some(key_id.as_str()), None],
            Credential::Token { user_id, .. } => [Some(account.as_str()), None, Some(user_id.as_str())],
        }
    }
}

/// The outermost layer. Counts the request as in flight, so that a stopping node finishes it, and finds the client's
/// address.
pub async fn arrive(State(web): State<Arc<Web>>, mut request: Request, next: Next) -> Response {
    let _in_flight = web.in_flight.enter();
    if let Some(peer) = request.extensions().get::<Peer>().copied() {
        let address = ClientAddress::of(peer, request.headers(), &web.trusted_proxies);
        request.extensions_mut().insert(address);
        if peer.forwards_untrusted(request.headers(), &web.trusted_proxies) {
            web.telemetry.forwarded_untrusted();
            if !web.unnamed_proxy_logged.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    "ignoring X-Forwarded-For from an address that ANGO_TRUSTED_PROXIES does not name: behind \
                     a proxy all clients then share one address, one burst and one lockout"
                );
            }
        }
    }
    next.run(request).await
}

/// The layer around all routes. Bounds the time, writes errors in the form of their area, and logs the request.
pub async fn answer(State(web): State<Arc<Web>>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = ids::request(web.clock.now());
    let method = known_method(request.method());
    // log the route's pattern, never the path, because paths hold session ids (readings X16)
    let route =
        request.extensions().get::<MatchedPath>().map_or("unmatched".to_owned(), |path| path.as_str().to_owned());
    let area = Area::of(request.uri().path());
    let client_id = client_request_id(request.headers()).map(str::to_owned);
    request.extensions_mut().insert(Deadline(started + web.deadline));
    let identified = Identified::default();
    request.extensions_mut().insert(identified.clone());

    let response = if web.is_draining() && !ANSWERED_WHILE_DRAINING.contains(&route.as_str()) {
        ApiError::draining().into_response()
    } else if let Some(coding) = content_coding(request.headers()) {
        coded(&coding).into_response()
    } else {
        let answer = AssertUnwindSafe(next.run(request)).catch_unwind();
        match tokio::time::timeout(web.deadline + AFTERMATH, answer).await {
            Ok(Ok(response)) => response,
            // the panic's own message is on stderr
            Ok(Err(_)) => ApiError::internal("a handler panicked").into_response(),
            Err(_) => ApiError::unavailable("deadline", "the request did not finish in time").into_response(),
        }
    };

    if let Some(error) = response.extensions().get::<Arc<ApiError>>() {
        web.telemetry.refused(error.code, error.reason);
    }
    let mut response = with_error_object(response, area, &id, &web.base_url);
    let headers = response.headers_mut();
    headers.insert(X_REQUEST_ID, HeaderValue::from_str(id.as_str()).expect("ids are ASCII"));
    if area == Area::Office {
        headers.insert(X_SERVICE_STAGE, HeaderValue::from_static("beta"));
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // answers hold ciphertexts and session ids, so no cache may store them; pages and their assets set this header
    // themselves
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if web.is_draining() {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }

    let (status, took) = (response.status().as_u16(), started.elapsed());
    web.telemetry.answered(method, &route, status, took);
    let ms = took.as_micros() as f64 / 1000.0;
    let [account_id, key_id, user_id] = identified.ids();
    tracing::info!(
        method,
        route,
        status,
        ms,
        request_id = id.as_str(),
        client_request_id = client_id,
        account_id,
        key_id,
        user_id,
        "answered"
    );
    response
}

/// Writes the error object in the area's form, if the answer holds an [`ApiError`].
fn with_error_object(mut response: Response, area: Area, id: &RequestId, base_url: &str) -> Response {
    let Some(error) = response.extensions_mut().remove::<Arc<ApiError>>() else { return response };
    let (parts, _) = response.into_parts();
    let mut answer = envelope::write(&error, area, id, base_url);
    for (name, value) in &parts.headers {
        if *name != header::CONTENT_LENGTH {
            answer.headers_mut().insert(name, value.clone());
        }
    }
    answer
}

/// Returns the coding that changes a request's body, such as `gzip`.
fn content_coding(headers: &HeaderMap) -> Option<String> {
    let codings = headers.get_all(header::CONTENT_ENCODING).iter();
    let text = codings.map(|coding| String::from_utf8_lossy(coding.as_bytes())).collect::<Vec<_>>().join(", ");
    let changes =
        text.split(',').map(str::trim).any(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"));
    changes.then_some(text)
}

/// Makes the error for a body with a content coding, which this service does not read. 415 is not among the statuses of
/// the specification.
fn coded(coding: &str) -> ApiError {
    let shown: String = coding.chars().take(40).collect();
    let message = format!("the body has the content coding `{shown}`: send the body without Content-Encoding");
    ApiError::new(Code::InvalidRequest, message).at("Content-Encoding", "not supported")
}

/// Returns the client's own id for the request, for the log only (readings X11).
fn client_request_id(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(X_REQUEST_ID)?.to_str().ok()?;
    Some(&text[..text.len().min(CLIENT_ID_CHARACTERS_MAX)])
}

/// Returns the method as a label. Clients can make up methods, but labels must come from a fixed list.
fn known_method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
