//! The OpenAPI 3.1 page: the descriptions of the handlers, completed.
//!
//! Bodies get an example by the name of their schema, from `openapi/examples.json`.
//!
//! The committed copy is `docs/openapi.json`, which a test compares. `ango openapi` prints the page.

mod errors;

use std::collections::BTreeMap;

use api::office::{HTTPValidationError, OfficeError};
use api::{Code, ErrorEnvelope};
use serde::Serialize;
use serde_json::ser::PrettyFormatter;
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::content::Content;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, Paths};
use utoipa::openapi::schema::{Components, ComponentsBuilder, ObjectBuilder, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    ContactBuilder, Deprecated, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, PathItem, RefOr, ServerBuilder,
};

use super::envelope::{self, Area};
use crate::caller::{Level, Role};

pub use errors::BODY;

/// Semantic version of the API (readings O10).
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Names of the security schemes.
const API_KEY: &str = "api_key";
const IDEMPOTENCY_KEY: &str = "Idempotency-Key";
const SESSION_TOKEN: &str = "session_token";
const ADMIN_KEY: &str = "admin_key";

/// Makes the description of the API as a whole.
pub fn frame() -> OpenApi {
    let description = "Computes on encrypted data without holding the plaintext.\n\n\
        Make keys on your side, upload the evaluation key to `POST /api/v1/tfhe/eval-session`, send encrypted bits \
        through gates, decrypt the results on your side. The server sees neither the bits nor the secret key.\n\n\
        Every answer carries the header `X-Request-Id`. Every error has the same form; \
        [a page](/docs/errors) explains all codes.";
    let scheme = Http::builder()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("svc_(live|test|dev|trial)_[0-9a-f]{32}")
        .description(Some("An API key. The key is also accepted without the word `Bearer`."))
        .build();
    let session_token = Http::builder()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("JWT")
        .description(Some(
            "A session token of the dashboard, from `POST /auth/login` or from the operator's own issuer.",
        ))
        .build();
    let admin_key = Http::builder()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("The administrator's secret, `SERVICE_ADMIN_KEY`."))
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
            TagBuilder::new()
                .name("Encryption keys")
                .description(Some("Keys for arithmetic on encrypted numbers. The secret key stays with the client."))
                .build(),
            TagBuilder::new()
                .name("Ciphertexts")
                .description(Some("Encrypted numbers that the service keeps for arithmetic."))
                .build(),
            TagBuilder::new()
                .name("Billing")
                .description(Some("An account's use and spending, and its monthly cap. Months are in UTC."))
                .build(),
            TagBuilder::new()
                .name("Webhooks")
                .description(Some("Events are sent, signed, to the customer's own addresses."))
                .build(),
            TagBuilder::new()
                .name("API keys")
                .description(Some("Trial keys, keys that users of the dashboard make, and rotation of keys."))
                .build(),
            TagBuilder::new()
                .name("Back office")
                .description(Some(
                    "Documents, records of payments, reconciliation and registration numbers for businesses in Japan. Version 0.1.0, \
                     beta: results are reference values and must be checked by official means.",
                ))
                .build(),
            TagBuilder::new()
                .name("Signing in")
                .description(Some(
                    "Users of the dashboard, their session tokens, and the public keys that verify the tokens.",
                ))
                .build(),
        ]))
        .components(Some(
            ComponentsBuilder::new()
                .security_scheme(API_KEY, SecurityScheme::Http(scheme))
                .security_scheme(SESSION_TOKEN, SecurityScheme::Http(session_token))
                .security_scheme(ADMIN_KEY, SecurityScheme::Http(admin_key))
                .schema_from::<ErrorEnvelope>()
                .schema_from::<OfficeError>()
                .schema_from::<HTTPValidationError>()
                .schemas_from_iter(error_schemas())
                .build(),
        ))
        .build()
}

/// Lists the schemas of the error object.
fn error_schemas() -> Vec<(String, RefOr<utoipa::openapi::Schema>)> {
    let mut schemas = Vec::new();
    ErrorEnvelope::schemas(&mut schemas);
    OfficeError::schemas(&mut schemas);
    HTTPValidationError::schemas(&mut schemas);
    schemas
}

/// Completes the descriptions of the routes, so that they are the whole page.
pub fn document(mut document: OpenApi) -> OpenApi {
    let examples = examples();
    let components = document.components.get_or_insert_default();
    components.headers = errors::headers();
    for (path, item) in &mut document.paths.paths {
        let area = Area::of(path);
        for operation in [&mut item.post, &mut item.patch].into_iter().flatten() {
            take_idempotency_key(operation);
        }
        for operation in operations(item) {
            if operation.operation_id.as_deref().is_some_and(|id| DEPRECATED.contains(&id)) {
                operation.deprecated = Some(Deprecated::True);
            }
            complete(operation, area, components);
            tell_headers(operation, area);
            for content in json_bodies(operation) {
                content.example = schema_name(content).and_then(|name| examples.get(name).cloned());
            }
        }
    }
    document
}

/// Deprecated operations, which still work (readings K9).
const DEPRECATED: [&str; 1] = ["generateKey"];

/// Reads the examples of bodies, one for each type, by the name of its schema.
fn examples() -> BTreeMap<String, Value> {
    serde_json::from_str(include_str!("openapi/examples.json")).expect("the examples are JSON")
}

/// Returns the JSON bodies of a request and of its successful answers. Errors have an example for each code instead.
fn json_bodies(operation: &mut Operation) -> impl Iterator<Item = &mut Content> {
    let request = operation.request_body.iter_mut().filter_map(own).flat_map(|request| request.content.iter_mut());
    let successes = operation.responses.responses.iter_mut().filter(|(status, _)| status.starts_with('2'));
    let answers = successes.filter_map(|(_, answer)| own(answer)).flat_map(|answer| answer.content.iter_mut());
    let bodies = request.chain(answers).filter(|(kind, _)| *kind == "application/json");
    bodies.filter_map(|(_, content)| own(content))
}

/// Returns the item itself. `None`: the item is a reference.
fn own<T>(item: &mut RefOr<T>) -> Option<&mut T> {
    match item {
        RefOr::T(item) => Some(item),
        RefOr::Ref(_) => None,
    }
}

/// Returns the name of a body's schema.
fn schema_name(content: &Content) -> Option<&str> {
    match content.schema.as_ref()? {
        RefOr::Ref(schema) => schema.ref_location.rsplit('/').next(),
        RefOr::T(_) => None,
    }
}

/// Writes the description as text, as it is committed: each member on a line, one space of indentation for each level.
pub fn pretty(document: &OpenApi) -> String {
    let mut text = Vec::new();
    let formatter = PrettyFormatter::with_indent(b" ");
    document.serialize(&mut serde_json::Serializer::with_formatter(&mut text, formatter)).expect("the page is JSON");
    text.push(b'\n');
    String::from_utf8(text).expect("JSON is UTF-8")
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete].into_iter().flatten()
}

/// Adds the header `Idempotency-Key` to operations that use it (readings I1).
fn take_idempotency_key(operation: &mut Operation) {
    use AdmittedCallers::{Administrator, OptionalKey, Public};
    if matches!(AdmittedCallers::of(operation), Public | OptionalKey | Administrator) {
        return;
    }
    let key = ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[!-~]{1,255}$"));
    let parameter = ParameterBuilder::new()
        .name(IDEMPOTENCY_KEY)
        .parameter_in(ParameterIn::Header)
        .description(Some(
            "A key that identifies the request for 24 hours. A second request with the same key and body has no second \
             effect and gets the first answer, with `Idempotent-Replayed: true`.",
        ))
        .schema(Some(key));
    operation.parameters.get_or_insert_default().push(parameter.build().into());
}

/// Adds the headers of successful answers: the header that all answers of the back office have, and the header of
/// answers that may be sent again.
fn tell_headers(operation: &mut Operation, area: Area) {
    let is_key = |parameter: &RefOr<Parameter>| matches!(parameter, RefOr::T(own) if own.name == IDEMPOTENCY_KEY);
    let is_replayed = operation.parameters.iter().flatten().any(is_key);
    for (status, answer) in &mut operation.responses.responses {
        let Some(answer) = own(answer) else { continue };
        let names = [(area == Area::Office, errors::STAGE), (is_replayed, errors::IDEMPOTENT_REPLAYED)];
        for (_, name) in names.into_iter().filter(|(has, _)| *has && status.starts_with('2')) {
            answer.headers.insert(name.to_owned(), errors::header(name));
        }
    }
}

/// Errors that every operation has. `MethodNotAllowed` is the answer to another method at the operation's path.
const ALWAYS: [Code; 3] = [Code::MethodNotAllowed, Code::ServiceUnavailable, Code::InternalError];

/// Writes into each operation the roles that may use it. The router gives the level and the area, from which the roles
/// follow.
pub fn tell_access(paths: &mut Paths, area: Area, level: Level) {
    for item in paths.paths.values_mut() {
        for (operation, mutating) in with_method(item) {
            let roles: Vec<_> = level.roles(mutating).map(Role::as_str).collect();
            let (class, sentence) = match area {
                Area::Platform => (level.class(), format!("Access: {} (roles {}).", level.class(), roles.join(", "))),
                Area::Office => (OFFICE_KEY, format!("Access: a key of the back office (roles {}).", roles.join(", "))),
            };
            tell(operation, class, &roles, &sentence);
        }
    }
}

/// Writes into each operation that a key is optional.
pub fn tell_optional_key(paths: &mut Paths) {
    tell_all(paths, OPTIONAL_KEY, "Access: without a key, or with one of the back office.");
}

/// Writes into each operation that only the administrator may use it.
pub fn tell_administrator(paths: &mut Paths) {
    tell_all(paths, ADMINISTRATOR, "Access: the administrator, by `SERVICE_ADMIN_KEY`.");
}

fn tell_all(paths: &mut Paths, class: &str, sentence: &str) {
    for item in paths.paths.values_mut() {
        for (operation, _) in with_method(item) {
            tell(operation, class, &[], sentence);
        }
    }
}

fn tell(operation: &mut Operation, class: &str, roles: &[&str], sentence: &str) {
    let text = operation.description.take().filter(|text| !text.is_empty());
    operation.description = Some(text.map_or(sentence.to_owned(), |text| format!("{text}\n\n{sentence}")));
    let access = json!({"level": class, "roles": roles});
    operation.extensions.get_or_insert_default().merge(Extensions::from_iter([("x-access", access)]));
}

/// Access classes of operations that no [`Level`] describes.
const OFFICE_KEY: &str = "OFFICE";
const OPTIONAL_KEY: &str = "OPTIONAL";
const ADMINISTRATOR: &str = "ADMINISTRATOR";

/// Returns the operations of a path, and whether each operation changes state.
fn with_method(item: &mut PathItem) -> impl Iterator<Item = (&mut Operation, bool)> {
    let changing = [&mut item.post, &mut item.put, &mut item.patch, &mut item.delete].into_iter().flatten();
    item.get.iter_mut().map(|operation| (operation, false)).chain(changing.map(|operation| (operation, true)))
}

/// Adds everything that follows from the callers that an operation admits: its credentials, headers and errors.
fn complete(operation: &mut Operation, area: Area, components: &mut Components) {
    let id = operation.operation_id.clone().expect("every operation has an id");
    let (access, own) = (AdmittedCallers::of(operation), errors::take(operation));
    let scheme = |name| SecurityRequirement::new::<_, _, String>(name, []);
    operation.security = Some(match access {
        AdmittedCallers::Key => vec![scheme(API_KEY), scheme(SESSION_TOKEN)],
        AdmittedCallers::User => vec![scheme(SESSION_TOKEN)],
        AdmittedCallers::OfficeKey => vec![scheme(API_KEY)],
        AdmittedCallers::OptionalKey => vec![SecurityRequirement::default(), scheme(API_KEY)],
        AdmittedCallers::Administrator => vec![scheme(ADMIN_KEY)],
        // an explicit empty requirement, so that generators do not assume a key
        AdmittedCallers::Public => vec![SecurityRequirement::default()],
    });
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    let shared: &[Code] = match access {
        // no limit refuses a request for health
        AdmittedCallers::Public if id.ends_with("Health") => &[],
        AdmittedCallers::Public => &[Code::RateLimited],
        AdmittedCallers::Key => &[
            Code::InvalidRequest,
            Code::MissingAuthHeader,
            Code::InvalidApiKey,
            Code::InvalidSessionToken,
            Code::InsufficientRole,
            Code::RateLimited,
            Code::BruteForceLockout,
            // the answer when an external issuer does not answer
            Code::UpstreamUnavailable,
        ],
        AdmittedCallers::OfficeKey | AdmittedCallers::OptionalKey | AdmittedCallers::Administrator => &[
            Code::MissingAuthHeader,
            Code::InvalidApiKey,
            Code::InsufficientRole,
            Code::ValidationError,
            Code::RateLimited,
            Code::BruteForceLockout,
        ],
        AdmittedCallers::User => &[
            Code::InvalidRequest,
            Code::MissingAuthHeader,
            Code::InvalidSessionToken,
            Code::RateLimited,
            Code::BruteForceLockout,
            Code::UpstreamUnavailable,
        ],
    };
    let is_key = |parameter: &RefOr<Parameter>| matches!(parameter, RefOr::T(own) if own.name == IDEMPOTENCY_KEY);
    let replayed = operation.parameters.iter().flatten().any(is_key);
    let replay: &[Code] = if replayed { &[Code::IdempotencyInProgress, Code::IdempotencyKeyReused] } else { &[] };
    for &code in shared.iter().chain(&own).chain(replay).chain(&ALWAYS) {
        let codes = by_status.entry(envelope::status(code, area).as_u16()).or_default();
        if !codes.contains(&code) {
            codes.push(code);
        }
    }
    for response in operation.responses.responses.values_mut().filter_map(self::own) {
        response.headers.extend(errors::common_headers());
    }
    for (status, codes) in by_status {
        // an answer that the handler describes itself stays, such as health's own 503
        operation
            .responses
            .responses
            .entry(status.to_string())
            .or_insert_with(|| errors::answer(status, &codes, area, components).into());
    }
}

/// The callers that an operation admits, read from the extension that [`tell_access`] wrote.
#[derive(Clone, Copy, PartialEq)]
enum AdmittedCallers {
    Public,
    /// Programs with an API key, and users.
    Key,
    /// Users with a session token.
    User,
    /// Programs with a key of the back office.
    OfficeKey,
    /// Programs with a key of the back office, and callers without a key.
    OptionalKey,
    /// The administrator.
    Administrator,
}

impl AdmittedCallers {
    fn of(operation: &Operation) -> AdmittedCallers {
        let told = operation.extensions.as_ref().and_then(|extensions| extensions.get("x-access"));
        let Some(class) = told.and_then(|access| access["level"].as_str()) else { return AdmittedCallers::Public };
        match class {
            OFFICE_KEY => AdmittedCallers::OfficeKey,
            OPTIONAL_KEY => AdmittedCallers::OptionalKey,
            ADMINISTRATOR => AdmittedCallers::Administrator,
            class if class == Level::Session.class() => AdmittedCallers::User,
            _ => AdmittedCallers::Key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_body_has_an_example_that_its_schema_admits() {
        let mut unused = examples();
        let mut document = document(crate::router::description());
        let mut page = serde_json::to_value(&document).unwrap();
        for item in document.paths.paths.values_mut() {
            for operation in operations(item) {
                let id = operation.operation_id.clone().unwrap();
                for content in json_bodies(operation) {
                    let name = schema_name(content).expect("bodies are types with names");
                    let example = content.example.clone().unwrap_or_else(|| panic!("{id}: no example of {name}"));
                    unused.remove(name);
                    // the whole page as a schema, so that references to its components resolve
                    page["$ref"] = json!(format!("#/components/schemas/{name}"));
                    let schema = jsonschema::draft202012::new(&page).expect("a schema");
                    let errors: Vec<_> = schema.iter_errors(&example).map(|error| error.to_string()).collect();
                    assert!(errors.is_empty(), "{id}: {name}: {errors:?}");
                }
            }
        }
        assert!(unused.is_empty(), "{:?}", unused.keys());
    }

    #[test]
    fn g1_bodies_that_are_no_text_are_described_as_bytes() {
        let mut document = document(crate::router::description());
        let mut seen = 0;
        for item in document.paths.paths.values_mut() {
            for operation in operations(item) {
                let request = operation.request_body.iter_mut().filter_map(own).flat_map(|body| body.content.iter());
                let answers = operation.responses.responses.values_mut().filter_map(own);
                for (kind, content) in request.chain(answers.flat_map(|answer| answer.content.iter())) {
                    let is_text =
                        kind.starts_with("text/") || matches!(&**kind, "application/json" | "application/xml");
                    let schema = serde_json::to_value(content).unwrap()["schema"].clone();
                    let is_binary = schema["type"] == "string" && schema["format"] == "binary";
                    assert!(is_text || is_binary, "{:?}: {kind}: {schema}", operation.operation_id);
                    seen += u32::from(is_binary);
                }
            }
        }
        assert!(seen >= 19, "{seen}");
        // a generator reads an array of small numbers as JSON, where the bytes of a file are meant
        let page = serde_json::to_string(&document).unwrap();
        assert!(!page.contains(r#""items":{"type":"integer","format":"int32","minimum":0}"#));
    }

    #[test]
    fn g1_names_of_members_can_be_names_in_programs() {
        fn check(schema: &Value, way: &str) {
            for (name, member) in schema["properties"].as_object().into_iter().flatten() {
                let fits = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                assert!(fits && !name.starts_with(|first: char| first.is_ascii_digit()), "{way}: {name}");
                check(member, &format!("{way}.{name}"));
            }
        }
        let page = serde_json::to_value(document(crate::router::description())).unwrap();
        for (name, schema) in page["components"]["schemas"].as_object().unwrap() {
            check(schema, name);
        }
    }

    #[test]
    fn every_operation_documents_its_answers_and_who_may_call_it() {
        let mut document = document(crate::router::description());
        for item in document.paths.paths.values_mut() {
            for operation in operations(item) {
                assert!(operation.security.is_some());
                assert!(operation.summary.is_some() && operation.tags.is_some());
                for status in ["405", "500", "503"] {
                    assert!(operation.responses.responses.contains_key(status));
                }
                // an operation has `x-access` if it needs a key or token, and no other operation has it
                let told = operation.extensions.as_ref().is_some_and(|told| told.contains_key("x-access"));
                let asks = operation.responses.responses.contains_key("401")
                    && operation.security != Some(vec![Default::default()]);
                assert_eq!(told, asks, "{:?}", operation.operation_id);
            }
        }
    }
}
