//! The OpenAPI 3.1 page: what the handlers say about themselves, and the errors that every operation can answer.
//!
//! The committed copy is `docs/openapi.json`; a test compares. `ango openapi` prints the page.

use std::collections::BTreeMap;

use api::{Code, ErrorEnvelope};
use serde_json::json;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::example::{Example, ExampleBuilder};
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::Operation;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{ComponentsBuilder, Object, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    ContactBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, PathItem, Ref, RefOr, ServerBuilder,
};
use utoipa::{PartialSchema, ToSchema};

use crate::platform::health::VERSION;
use crate::router;

/// Name of the security scheme.
const API_KEY: &str = "api_key";

/// What the page says about the API as a whole.
pub fn frame() -> OpenApi {
    let description = "Computes on encrypted data without holding the plaintext.\n\n\
        Make keys on your side, upload the evaluation key to `POST /api/v1/tfhe/eval-session`, send encrypted bits \
        through gates, decrypt the results on your side. The server sees neither the bits nor the secret key.\n\n\
        Every answer carries the header `X-Request-Id`. Every error has the same form; \
        [all codes](/docs/errors) are explained.";
    let scheme = Http::builder()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("svc_(live|test|dev|trial)_[0-9a-f]{32}")
        .description(Some("An API key. Without the word `Bearer` it is accepted too."))
        .build();
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("Ango")
                .version(VERSION)
                .description(Some(description))
                .license(Some(LicenseBuilder::new().name("Apache-2.0").identifier(Some("Apache-2.0")).build()))
                .contact(Some(ContactBuilder::new().name(Some("The operator of this node")).build()))
                .build(),
        )
        .servers(Some([ServerBuilder::new().url("/").description(Some("This node")).build()]))
        .tags(Some([
            TagBuilder::new().name("Health, models, pricing").description(Some("Public: no key is needed.")).build(),
            TagBuilder::new()
                .name("Gate sessions")
                .description(Some("Boolean gates on encrypted bits, under a key that the client made."))
                .build(),
            TagBuilder::new()
                .name("Circuits")
                .description(Some("Circuits of gates in one request; intermediate results do not leave the node."))
                .build(),
        ]))
        .components(Some(
            ComponentsBuilder::new()
                .security_scheme(API_KEY, SecurityScheme::Http(scheme))
                .schema_from::<ErrorEnvelope>()
                .schemas_from_iter(error_schemas())
                .build(),
        ))
        .build()
}

/// The types that the error object is made of.
fn error_schemas() -> Vec<(String, RefOr<utoipa::openapi::Schema>)> {
    let mut schemas = Vec::new();
    ErrorEnvelope::schemas(&mut schemas);
    schemas
}

/// The whole page.
pub fn document() -> OpenApi {
    let mut document = router::description();
    for item in document.paths.paths.values_mut() {
        for operation in operations(item) {
            complete(operation);
        }
    }
    document
}

/// The page as it is served and committed.
pub fn json() -> String {
    let mut text = serde_json::to_string_pretty(&document()).expect("the page is JSON");
    text.push('\n');
    text
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete].into_iter().flatten()
}

/// Adds what follows from an operation's name: who may call it, and its errors with an example each.
fn complete(operation: &mut Operation) {
    let id = operation.operation_id.clone().expect("every operation has an id");
    let (access, own) = errors(&id);
    if access == Access::Key {
        operation.security = Some(vec![SecurityRequirement::new::<_, _, String>(API_KEY, [])]);
    } else {
        // said aloud: no key
        operation.security = Some(vec![SecurityRequirement::default()]);
    }
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    let shared: &[Code] = match access {
        Access::Everybody => &[],
        Access::Key => &[Code::InvalidRequest, Code::MissingAuthHeader, Code::InvalidApiKey, Code::InsufficientRole],
    };
    for &code in shared.iter().chain(own).chain(&[Code::ServiceUnavailable, Code::InternalError]) {
        by_status.entry(code.status()).or_default().push(code);
    }
    for response in operation.responses.responses.values_mut() {
        if let RefOr::T(response) = response {
            response.headers.insert("X-Request-Id".to_owned(), request_id_header().into());
        }
    }
    for (status, codes) in by_status {
        // what a handler said itself stays: health has its own 503
        operation
            .responses
            .responses
            .entry(status.to_string())
            .or_insert_with(|| error_response(status, &codes).into());
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Access {
    Everybody,
    Key,
}

/// Who may call an operation and what it refuses beyond what all of them do.
///
/// # Panics
/// For an operation that is not listed: a new endpoint must say its errors here.
fn errors(operation_id: &str) -> (Access, &'static [Code]) {
    use Code::*;
    match operation_id {
        "getBriefHealth" | "getHealth" | "listModels" | "getGatePricing" => (Access::Everybody, &[]),
        "suggestParams" => (Access::Everybody, &[InvalidRequest, InvalidParams]),
        "createManagedSession" => {
            (Access::Key, &[SecretKeyRejected, FeatureDisabled, PayloadTooLarge, ValidationError])
        }
        "createEvalSession" => (Access::Key, &[InvalidParams, SecretKeyRejected, PayloadTooLarge, ValidationError]),
        "evaluateGate" => (
            Access::Key,
            &[
                InvalidGateOp,
                MissingOperand,
                InvalidCiphertext,
                SecretKeyRejected,
                SessionNotFound,
                SessionExpired,
                PayloadTooLarge,
                ValidationError,
            ],
        ),
        "evaluateBatch" => (
            Access::Key,
            &[
                BatchTooLarge,
                InvalidGateOp,
                MissingOperand,
                InvalidCiphertext,
                SecretKeyRejected,
                SessionNotFound,
                SessionExpired,
                PayloadTooLarge,
                ValidationError,
            ],
        ),
        "encryptBit" => {
            (Access::Key, &[SecretKeyRejected, SessionNotFound, SessionExpired, PayloadTooLarge, ValidationError])
        }
        "decryptBit" => (
            Access::Key,
            &[InvalidCiphertext, SecretKeyRejected, SessionNotFound, SessionExpired, PayloadTooLarge, ValidationError],
        ),
        "getSession" | "deleteSession" => (Access::Key, &[SessionNotFound, SessionExpired]),
        "listSessions" | "listCircuits" => (Access::Key, &[]),
        "putCircuit" => (Access::Key, &[InvalidParams, QuotaExceeded, PayloadTooLarge]),
        "getCircuit" | "deleteCircuit" => (Access::Key, &[NotFound]),
        "runCircuit" => (
            Access::Key,
            &[
                InvalidParams,
                InvalidCiphertext,
                SecretKeyRejected,
                QuotaExceeded,
                NotFound,
                SessionNotFound,
                CiphertextNotFound,
                Conflict,
                SessionExpired,
                PayloadTooLarge,
                ValidationError,
                RateLimited,
            ],
        ),
        "getCircuitOperation" => (Access::Key, &[OperationNotFound, QuotaExceeded]),
        "cancelCircuitOperation" => (Access::Key, &[OperationNotFound]),
        "getHandle" => (Access::Key, &[QuotaExceeded, SessionNotFound, CiphertextNotFound, SessionExpired]),
        "deleteHandle" => (Access::Key, &[SessionNotFound, CiphertextNotFound, SessionExpired]),
        unknown => panic!("the errors of {unknown} are not listed"),
    }
}

fn error_response(status: u16, codes: &[Code]) -> utoipa::openapi::Response {
    let names: Vec<_> = codes.iter().map(|code| format!("`{}`", code.as_str())).collect();
    let examples = codes.iter().map(|&code| (code.as_str().to_owned(), RefOr::T(example(code))));
    let content =
        ContentBuilder::new().schema(Some(Ref::from_schema_name("ErrorEnvelope"))).examples_from_iter(examples).build();
    let mut response = ResponseBuilder::new()
        .description(names.join(", "))
        .content("application/json", content)
        .header("X-Request-Id", request_id_header());
    if status == 503 || status == 429 {
        let seconds = Object::with_type(Type::Integer);
        response = response.header(
            "Retry-After",
            HeaderBuilder::new()
                .schema(Some(seconds))
                .description(Some("Seconds to wait before trying again."))
                .build(),
        );
    }
    if status == 401 {
        response = response.header(
            "WWW-Authenticate",
            HeaderBuilder::new().schema(Some(Object::with_type(Type::String))).description(Some("`Bearer`")).build(),
        );
    }
    response.build()
}

fn example(code: Code) -> Example {
    ExampleBuilder::new()
        .summary(code.cause())
        .value(Some(json!({"error": {
            "code": code.as_str(),
            "message": code.cause(),
            "request_id": "req_01h2xcejqtf2nbrexx3vqjhp41",
            "documentation_url": format!("http://127.0.0.1:8080/docs/errors/{}", code.as_str()),
        }})))
        .build()
}

fn request_id_header() -> utoipa::openapi::Header {
    HeaderBuilder::new().schema(Some(String::schema())).description(Some("Names this request for support.")).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_documents_its_answers_and_who_may_call_it() {
        let mut operations_seen = 0;
        let mut document = document();
        for item in document.paths.paths.values_mut() {
            for operation in operations(item) {
                operations_seen += 1;
                assert!(operation.security.is_some());
                assert!(operation.summary.is_some() && operation.tags.is_some());
                assert!(operation.responses.responses.contains_key("500"));
                assert!(operation.responses.responses.contains_key("503"));
            }
        }
        // pricing, models, two of health, params, nine of sessions, nine of circuits
        assert_eq!(operations_seen, 23);
    }
}
