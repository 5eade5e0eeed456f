//! The pages around the API, all contained in the binary: its description, two browsers for it, and a page for each
//! error code.

pub mod health;
pub mod models;
pub mod operations;
pub mod params;
pub mod pricing;
pub mod written;

use std::sync::{Arc, LazyLock};
use std::time::Instant;

use api::Code;
use axum::extract::{Path, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use utoipa_swagger_ui::{Config, SwaggerFile};

use crate::access::Access;
use crate::billing::payments::PaymentProvider;
use crate::compute::Compute;
use crate::probe::Probe;
use crate::web::Web;
use crate::web::error::ApiError;
use crate::work::fleet::WorkerPart;

/// The state of the documentation pages and of health.
pub struct Docs {
    pub(crate) web: Arc<Web>,
    pub(crate) access: Arc<Access>,
    pub(crate) compute: Arc<Compute>,
    /// Whether health hides the GPU (readings O6).
    pub(crate) hide_gpu: bool,
    /// Searches for parameters of keys.
    pub(crate) searches: params::Searches,
    /// When the node started.
    pub(crate) started: Instant,
    pub(crate) database_probe: Probe,
    pub(crate) cache_store_probe: Probe,
    pub(crate) broker_probe: Probe,
    pub(crate) object_store_probe: Probe,
    /// The payment provider. `None`: the node has none.
    pub(crate) provider: Option<Arc<dyn PaymentProvider>>,
    pub(crate) provider_probe: Probe,
    /// The worker part of this process, if it computes for a fleet.
    pub(crate) part: Option<Arc<WorkerPart>>,
    /// When the waiting line of the fleet was last counted.
    pub(crate) line_counted: tokio::sync::Mutex<Option<Instant>>,
}

/// Redoc, from the npm package `redoc`. Its licence is in the same folder.
static REDOC: &[u8] = include_bytes!("../assets/redoc/redoc.standalone.js");
/// How long a browser may cache assets of this binary.
const ASSET_CACHE: HeaderValue = HeaderValue::from_static("public, max-age=3600");
/// The pages load nothing from other origins, and this header enforces it.
const OWN_ORIGIN_ONLY: (HeaderName, HeaderValue) = (
    header::CONTENT_SECURITY_POLICY,
    HeaderValue::from_static(
        "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; script-src 'self'; \
         worker-src 'self' blob:; frame-ancestors 'none'",
    ),
);

/// The settings of the interactive reference. The list of schemas stays closed at first, because drawing the list
/// delays the operations.
static SWAGGER: LazyLock<Arc<Config<'static>>> =
    LazyLock::new(|| Arc::new(Config::from("/openapi.json").try_it_out_enabled(true).default_models_expand_depth(0)));

/// Redirects to the interactive reference, which is in a folder so that its assets have relative paths.
pub async fn swagger_redirect() -> Redirect {
    Redirect::temporary("/docs/")
}

/// Returns a file of the interactive reference.
pub async fn swagger_file(file: Option<Path<String>>) -> Result<Response, ApiError> {
    let path = file.map(|Path(path)| path).unwrap_or_default();
    let found = utoipa_swagger_ui::serve(&path, SWAGGER.clone()).map_err(ApiError::internal)?;
    let SwaggerFile { bytes, content_type, .. } = found.ok_or_else(no_page)?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_str(&content_type).map_err(ApiError::internal)?),
        (header::CACHE_CONTROL, ASSET_CACHE),
    ];
    Ok((headers, [OWN_ORIGIN_ONLY], bytes.into_owned()).into_response())
}

/// Returns the page of Redoc, the reference for reading.
pub async fn redoc() -> Response {
    let page = r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Ango API</title>
<style>body { margin: 0 }</style>
</head>
<body>
<redoc spec-url="/openapi.json"></redoc>
<script src="/redoc/redoc.standalone.js"></script>
</body>
</html>
"#;
    ([OWN_ORIGIN_ONLY], Html(page)).into_response()
}

/// Returns the script of [`redoc`].
pub async fn redoc_script() -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/javascript; charset=utf-8")),
        (header::CACHE_CONTROL, ASSET_CACHE),
    ];
    (headers, REDOC).into_response()
}

/// Returns the page to which a setup link leads: a form for the first administrator. The token is in the fragment after
/// `#`.
pub async fn setup() -> Response {
    let form = r#"<form id="link" data-to="/auth/setup"
data-done="The administrator is created. Sign in with this e-mail and password.">
<p><label>E-mail<br><input name="email" type="email" autocomplete="username" required size="40"></label></p>
<p><label>Password, 12 characters or more<br>
<input name="password" type="password" autocomplete="new-password" required minlength="12" size="40"></label></p>
<p><button>Create the administrator</button></p>
</form>
<p id="outcome" role="status"></p>
<script src="/link.js"></script>
"#;
    page("First administrator", form)
}

/// Returns the page to which a link that resets a password leads: a form for the new password. The token is in the
/// fragment after `#`.
pub async fn reset() -> Response {
    let form = r#"<form id="link" data-to="/auth/reset"
data-done="The password is changed. Sign in with it.">
<p><label>New password, 12 characters or more<br>
<input name="new_password" type="password" autocomplete="new-password" required minlength="12" size="40"></label></p>
<p><button>Change the password</button></p>
</form>
<p id="outcome" role="status"></p>
<script src="/link.js"></script>
"#;
    page("New password", form)
}

/// Returns the script of [`setup`] and [`reset`], which sends the form's fields with the token.
pub async fn link_script() -> Response {
    let script = r#"const form = document.getElementById("link");
const outcome = document.getElementById("outcome");
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const body = { token: location.hash.slice(1), ...Object.fromEntries(new FormData(form)) };
  const headers = { "Content-Type": "application/json" };
  try {
    const answer = await fetch(form.dataset.to, { method: "POST", headers, body: JSON.stringify(body) });
    if (answer.ok) {
      form.remove();
      outcome.textContent = form.dataset.done;
    } else {
      outcome.textContent = (await answer.json()).error.message;
    }
  } catch {
    outcome.textContent = "The node does not answer.";
  }
});
"#;
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], script).into_response()
}

/// Text about the answers that the HTTP library itself sends to requests that reach no handler.
const BELOW_THE_API: &str = "<h2>Answers without a code</h2>\n\
    <p>A request that is not HTTP, such as one with a malformed request line or header or with two lengths, and one \
    without a valid <code>Host</code> header or with two of them, is answered with status 400. A request whose head has more than about 64 KB or 100 lines is answered with 431 (or 414, if the \
    address is too long). These answers have no body, no <code>X-Request-Id</code> and no rate-limit headers, and \
    the connection is closed.</p>\n";

/// Returns the quickstart: how to evaluate a first gate with only this node and a shell (readings O9).
pub async fn quickstart(State(docs): State<Arc<Docs>>) -> Response {
    let (url, trials) = (escape(&docs.web.base_url), docs.access.trial_keys);
    let key = if trials {
        "<p>A trial key works for half an hour and ten operations. You get it without the operator:</p>\n\
            <pre>export ANGO_API_KEY=$(curl -sX POST $ANGO_URL/api/v1/onboarding/temp-key | \
            grep -o 'svc_trial_[0-9a-f]\\{32\\}')</pre>\n"
    } else {
        "<p>Ask this node's operator for an API key, or make one on the dashboard:</p>\n\
            <pre>export ANGO_API_KEY=svc_live_...</pre>\n"
    };
    let held = if docs.compute.sessions.config.allow_server_held_key { QUICK_LOOK } else { "" };
    page(
        "Quickstart",
        &format!("<pre>export ANGO_URL={url}</pre>\n<h2>1. A key</h2>\n{key}{FIRST_GATE}{held}{WHAT_NEXT}"),
    )
}

const FIRST_GATE: &str = "<h2>2. A gate on bits that the node cannot read</h2>\n\
    <p>With the program <code>ango</code>, which is client and node in one. The program makes your secret key, which stays with you, \
    sends the public evaluation key, encrypts the bits, lets the node compute and decrypts the answer:</p>\n\
    <pre>ango client keygen\nango client run --gate NAND --input 1 --input 1</pre>\n\
    <p>The program prints 0. A whole circuit is one request:</p>\n\
    <pre>ango client run --circuit adder64 --input 20 --input 22</pre>\n\
    <p>The program prints 42. Programs in other languages send the same bytes, which \
    <a href=\"/docs/wire-format\">a page</a> defines. Clients of tfhe-rs (Boolean API) work too.</p>\n";

const QUICK_LOOK: &str = "<h2>3. The same by curl, to see the requests</h2>\n\
    <p>Here the node makes and holds the secret key, so use this only to look around.</p>\n\
    <pre>post() { curl -s \"$ANGO_URL/api/v1/tfhe/$1\" -H \"Authorization: Bearer $ANGO_API_KEY\" \
    -H 'Content-Type: application/json' -d \"$2\"; }\n\
    value() { sed 's/.*\"'$1'\":\"\\([^\"]*\\)\".*/\\1/'; }\n\
    session=$(post session '{\"preset\": \"fast_128\"}' | value session_id)\n\
    one=$(post session/$session/encrypt '{\"bit\": true}' | value ciphertext_b64)\n\
    out=$(post gate '{\"session_id\": \"'$session'\", \"op\": \"NAND\", \"a\": \"'$one'\", \"b\": \"'$one'\"}' | value result_b64)\n\
    post session/$session/decrypt '{\"ciphertext_b64\": \"'$out'\"}'</pre>\n\
    <p>The last command prints <code>{\"bit\":false}</code>.</p>\n";

const WHAT_NEXT: &str = "<h2>Further</h2>\n\
    <p><a href=\"/docs/numbers\">Numbers over HTTP</a> · <a href=\"/docs/wire-format\">Bytes of keys and ciphertexts</a> · \
    <a href=\"/redoc\">Reference</a> · <a href=\"/docs/\">Try requests</a> · <a href=\"/docs/errors\">Error codes</a> · \
    <a href=\"/api/v1/tfhe/pricing\">Prices</a></p>\n\
    <p>Send an <code>Idempotency-Key</code> with requests that you may have to repeat. A repeated request has its effect and \
    its price only once.</p>\n";

/// Returns the page with all error codes.
pub async fn error_list() -> Response {
    let rows: String = Code::ALL
        .iter()
        .map(|code| {
            let (name, status) = (code.as_str(), code.status());
            format!(
                "<tr><td><a href=\"/docs/errors/{name}\">{name}</a></td><td>{status}</td><td>{}</td></tr>\n",
                escape(code.cause())
            )
        })
        .collect();
    let table = format!("<table>\n<tr><th>Code</th><th>Status</th><th>Cause</th></tr>\n{rows}</table>\n");
    page("Error codes", &(table + BELOW_THE_API))
}

/// Returns the page of an error code: its meaning, and what to do (readings E4).
pub async fn error_page(Path(name): Path<String>) -> Result<Response, ApiError> {
    let code = Code::from_name(&name).ok_or_else(no_page)?;
    let status = StatusCode::from_u16(code.status()).map_err(ApiError::internal)?;
    let body = format!(
        "<p>HTTP status {status}</p>\n<h2>Cause</h2>\n<p>{}</p>\n<h2>What to do</h2>\n<p>{}</p>\n\
         <p>If the error stays unclear, send support the <code>request_id</code> of the answer.</p>\n\
         <p><a href=\"/docs/errors\">All error codes</a> · <a href=\"/redoc\">API reference</a></p>\n",
        escape(code.cause()),
        escape(code.fix()),
    );
    Ok(page(code.as_str(), &body))
}

fn no_page() -> ApiError {
    ApiError::new(Code::NotFound, "there is no such page")
}

fn page(title: &str, body: &str) -> Response {
    let html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title} · Ango API</title>\n\
         <style>body {{ font: 1rem/1.6 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem }} \
         td, th {{ text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0 }} \
         code, pre {{ background: #eee; padding: 0 .2rem }} pre {{ overflow-x: auto; padding: .5rem }}</style>\n\
         </head>\n<body>\n<h1>{title}</h1>\n{body}</body>\n</html>\n"
    );
    ([OWN_ORIGIN_ONLY], Html(html)).into_response()
}

/// Escapes text as HTML. Text between backquotes becomes code.
fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut pieces = text.split('`');
    let mut html = pieces.next().unwrap_or_default().to_owned();
    for (i, piece) in pieces.enumerate() {
        html += if i % 2 == 0 { "<code>" } else { "</code>" };
        html += piece;
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_backquotes_become_code() {
        assert_eq!(escape("a < b & `c`, `d`."), "a &lt; b &amp; <code>c</code>, <code>d</code>.");
        for code in Code::ALL {
            for text in [code.cause(), code.fix()] {
                assert_eq!(text.matches('`').count() % 2, 0, "{}", code.as_str());
            }
        }
    }
}
