//! The OpenAPI 3.1 page: the descriptions of the handlers, and the errors of every operation.
//!
//! Bodies get an example by the name of their schema, from `openapi/examples.json`.
//!
//! The committed copy is `docs/openapi.json`, which a test compares. `ango openapi` prints the page.

use std::collections::BTreeMap;

use api::office::{HTTPValidationError, OfficeError};
use api::{Code, ErrorEnvelope};
use serde_json::{Value, json};
use utoipa::openapi::content::{Content, ContentBuilder};
use utoipa::openapi::example::{Example, ExampleBuilder};
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, Paths};
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{ComponentsBuilder, Object, ObjectBuilder, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    ContactBuilder, Deprecated, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, PathItem, Ref, RefOr,
    ServerBuilder,
};
use utoipa::{PartialSchema, ToSchema};

use super::envelope::{self, Area};
use crate::caller::{Level, Role};

/// Semantic version of the API (readings O10).
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Names of the security schemes.
const API_KEY: &str = "api_key";
const IDEMPOTENCY_KEY: &str = "Idempotency-Key";
const SESSION_TOKEN: &str = "session_token";
const ADMIN_KEY: &str = "admin_key";

/// The description of the API as a whole.
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

/// The schemas of the error object.
fn error_schemas() -> Vec<(String, RefOr<utoipa::openapi::Schema>)> {
    let mut schemas = Vec::new();
    ErrorEnvelope::schemas(&mut schemas);
    OfficeError::schemas(&mut schemas);
    HTTPValidationError::schemas(&mut schemas);
    schemas
}

/// Completes the descriptions of the routes to the whole page.
pub fn document(mut document: OpenApi) -> OpenApi {
    let examples = examples();
    for (path, item) in &mut document.paths.paths {
        let area = Area::of(path);
        for operation in [&mut item.post, &mut item.patch].into_iter().flatten() {
            take_idempotency_key(operation);
        }
        for operation in operations(item) {
            if operation.operation_id.as_deref().is_some_and(|id| DEPRECATED.contains(&id)) {
                operation.deprecated = Some(Deprecated::True);
            }
            complete(operation, area);
            for content in json_bodies(operation) {
                content.example = schema_name(content).and_then(|name| examples.get(name).cloned());
            }
        }
    }
    document
}

/// Deprecated operations, which still work (readings K9).
const DEPRECATED: [&str; 1] = ["generateKey"];

/// An example of each type of body, by the name of its schema.
fn examples() -> BTreeMap<String, Value> {
    serde_json::from_str(include_str!("openapi/examples.json")).expect("the examples are JSON")
}

/// The JSON bodies of a request and of its successful answers. Errors have an example for each code instead.
fn json_bodies(operation: &mut Operation) -> impl Iterator<Item = &mut Content> {
    let request = operation.request_body.iter_mut().filter_map(own).flat_map(|request| request.content.iter_mut());
    let successes = operation.responses.responses.iter_mut().filter(|(status, _)| status.starts_with('2'));
    let answers = successes.filter_map(|(_, answer)| own(answer)).flat_map(|answer| answer.content.iter_mut());
    let bodies = request.chain(answers).filter(|(kind, _)| *kind == "application/json");
    bodies.filter_map(|(_, content)| own(content))
}

/// The item itself. `None`: a reference.
fn own<T>(item: &mut RefOr<T>) -> Option<&mut T> {
    match item {
        RefOr::T(item) => Some(item),
        RefOr::Ref(_) => None,
    }
}

/// The name of a body's schema.
fn schema_name(content: &Content) -> Option<&str> {
    match content.schema.as_ref()? {
        RefOr::Ref(schema) => schema.ref_location.rsplit('/').next(),
        RefOr::T(_) => None,
    }
}

/// The page as text, as it is served and committed.
pub fn json(document: &OpenApi) -> String {
    let mut text = serde_json::to_string_pretty(document).expect("the page is JSON");
    text.push('\n');
    text
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

/// Errors that every operation has. The first is for another method at the same path.
const ALWAYS: [Code; 3] = [Code::MethodNotAllowed, Code::ServiceUnavailable, Code::InternalError];

/// Writes the roles that may use the operations of a level in an area, as the router sets them.
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

/// Writes the access of operations for which a key is optional.
pub fn tell_optional_key(paths: &mut Paths) {
    tell_all(paths, OPTIONAL_KEY, "Access: without a key, or with one of the back office.");
}

/// Writes the access of operations for the administrator alone.
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

/// Classes of access besides those of levels.
const OFFICE_KEY: &str = "OFFICE";
const OPTIONAL_KEY: &str = "OPTIONAL";
const ADMINISTRATOR: &str = "ADMINISTRATOR";

/// The operations of a path, and whether each changes state.
fn with_method(item: &mut PathItem) -> impl Iterator<Item = (&mut Operation, bool)> {
    let changing = [&mut item.post, &mut item.put, &mut item.patch, &mut item.delete].into_iter().flatten();
    item.get.iter_mut().map(|operation| (operation, false)).chain(changing.map(|operation| (operation, true)))
}

/// Adds everything that follows from an operation's id: its credentials, and its errors with an example each.
fn complete(operation: &mut Operation, area: Area) {
    let id = operation.operation_id.clone().expect("every operation has an id");
    let (access, own) = (AdmittedCallers::of(operation), errors(&id).concat());
    let scheme = |name| SecurityRequirement::new::<_, _, String>(name, []);
    operation.security = Some(match access {
        AdmittedCallers::Key => vec![scheme(API_KEY), scheme(SESSION_TOKEN)],
        AdmittedCallers::User => vec![scheme(SESSION_TOKEN)],
        AdmittedCallers::OfficeKey => vec![scheme(API_KEY)],
        AdmittedCallers::OptionalKey => vec![SecurityRequirement::default(), scheme(API_KEY)],
        AdmittedCallers::Administrator => vec![scheme(ADMIN_KEY)],
        // stated explicitly, so that generators do not assume a key
        AdmittedCallers::Public => vec![SecurityRequirement::default()],
    });
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    let shared: &[Code] = match access {
        // health is never refused
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
            // an external issuer that does not answer
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
    for response in operation.responses.responses.values_mut() {
        if let RefOr::T(response) = response {
            response.headers.insert("X-Request-Id".to_owned(), request_id_header().into());
            for (name, why) in RATE_LIMIT_HEADERS {
                response.headers.insert(name.to_owned(), rate_limit_header(why).into());
            }
        }
    }
    for (status, codes) in by_status {
        // an answer that the handler describes itself stays: health has its own 503
        operation
            .responses
            .responses
            .entry(status.to_string())
            .or_insert_with(|| error_response(status, &codes, area).into());
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

/// The errors of an operation, besides those that every operation has.
///
/// # Panics
/// For an operation that is missing here. A new endpoint must add its errors.
fn errors(operation_id: &str) -> &'static [&'static [Code]] {
    use Code::*;
    const BODY: &[Code] = &[PayloadTooLarge, ValidationError];
    const SECRET: &[Code] = &[SecretKeyRejected];
    const SESSION: &[Code] = &[SessionNotFound, SessionExpired];
    const GATES: &[Code] = &[InvalidGateOp, MissingOperand, InvalidCiphertext, TrialOpsExhausted, BudgetHardCapHit];
    const HANDLE: &[Code] = &[SessionNotFound, CiphertextNotFound, SessionExpired];
    const OFFICE_CALL: &[&[Code]] = &[&[QuotaExceeded, BudgetHardCapHit, AccountSuspended], BODY];
    const SIGN_IN: &[Code] = &[InvalidRequest, InvalidCredentials, FeatureDisabled];
    match operation_id {
        "getBriefHealth" | "getHealth" | "listModels" | "getGatePricing" | "logOut" | "listUserKeys" => &[],
        "suggestParams" => &[&[InvalidRequest, InvalidParams]],
        "createTrialKey" => &[&[FeatureDisabled, IpRateLimited]],
        "revokeTrialKey" => &[&[InvalidRequest, KeyNotFound, Conflict]],
        "rotateApiKey" => &[&[Conflict]],
        "createManagedSession" => &[SECRET, &[QuotaExceeded, FeatureDisabled], BODY],
        "createEvalSession" => &[&[InvalidParams], SECRET, &[QuotaExceeded], BODY],
        "evaluateGate" => &[GATES, SECRET, SESSION, BODY],
        "evaluateBatch" => &[&[BatchTooLarge], GATES, SECRET, SESSION, BODY],
        "encryptBit" => &[SECRET, SESSION, BODY],
        "decryptBit" => &[&[InvalidCiphertext], SECRET, SESSION, BODY],
        "getSession" | "deleteSession" => &[SESSION],
        "listSessions" | "listCircuits" => &[&[InvalidRequest]],
        "putCircuit" => &[&[InvalidParams, QuotaExceeded, PayloadTooLarge]],
        "getCircuit" | "deleteCircuit" => &[&[NotFound]],
        "runCircuit" => &[
            &[InvalidParams, InvalidCiphertext, SecretKeyRejected, QuotaExceeded, TrialOpsExhausted, BudgetHardCapHit],
            &[NotFound],
            HANDLE,
            &[Conflict],
            BODY,
            &[RateLimited],
        ],
        "getCircuitOperation" => &[&[OperationNotFound, QuotaExceeded]],
        "cancelCircuitOperation" => &[&[OperationNotFound]],
        "getHandle" => &[&[QuotaExceeded], HANDLE],
        "deleteHandle" => &[HANDLE],
        "uploadKey" => &[&[InvalidParams, InsufficientSecurity, QuotaExceeded], SECRET, BODY],
        "generateKey" => &[&[InvalidParams, InsufficientSecurity, FeatureDisabled, QuotaExceeded], BODY],
        "downloadEvaluationKey" => &[&[KeyNotFound, NotFound]],
        "createKeyUpload" => &[&[InvalidParams, InsufficientSecurity, QuotaExceeded], SECRET, BODY],
        "getKeyUpload" => &[&[NotFound]],
        "deleteKeyUpload" => &[&[NotFound, Conflict]],
        "putPublicKey" | "putEvaluationKey" => {
            &[&[InvalidParams, InsufficientSecurity, NotFound, Conflict, PayloadTooLarge], SECRET]
        }
        "completeKeyUpload" => &[&[InvalidParams, NotFound, Conflict, QuotaExceeded]],
        "listKeys" => &[&[InvalidRequest]],
        "getKey" | "deleteKey" => &[&[KeyNotFound]],
        "uploadCiphertext" => &[&[InvalidCiphertext, MismatchedKey, KeyNotFound, QuotaExceeded], SECRET, BODY],
        "listCiphertexts" => &[&[InvalidRequest, KeyNotFound]],
        "getCiphertext" | "deleteCiphertext" => &[&[CiphertextNotFound]],
        "compute" | "computeNamed" => &[
            &[InvalidOperation, InvalidParams, MissingPlainOperand, PolynomialTooLarge, MismatchedKey, MismatchedLevel],
            &[
                NoiseBudgetExhausted,
                KeyNotFound,
                CiphertextNotFound,
                QuotaExceeded,
                TrialOpsExhausted,
                BudgetHardCapHit,
                Conflict,
            ],
            BODY,
            &[RateLimited],
        ],
        "getComputeOperation" | "cancelComputeOperation" => &[&[OperationNotFound]],
        "getIssuerMetadata" | "getOpenIdConfiguration" | "getKeySet" => &[&[NotFound]],
        "logIn" | "refreshTokens" | "resetPassword" => &[SIGN_IN, BODY, &[BruteForceLockout]],
        "setUp" => &[SIGN_IN, &[Conflict], BODY, &[BruteForceLockout]],
        "signUp" => &[&[InvalidRequest, FeatureDisabled, Conflict], BODY, &[IpRateLimited]],
        "changePassword" => &[&[InvalidCredentials, FeatureDisabled], BODY],
        "createUserKey" => &[&[InsufficientRole, FeatureDisabled, RateLimited], BODY],
        "createWebhook" => &[&[InvalidRequest, InvalidWebhookUrl, WebhookUrlNotAllowed, WebhookLimitReached], BODY],
        "changeWebhook" => &[&[InvalidRequest, InvalidWebhookUrl, WebhookUrlNotAllowed, WebhookNotFound], BODY],
        "getWebhook" | "deleteWebhook" | "regenerateWebhookSecret" => &[&[WebhookNotFound]],
        "listWebhooks" | "listDeliveries" => &[&[InvalidRequest]],
        "listWebhookDeliveries" => &[&[InvalidRequest, WebhookNotFound]],
        "sendTestEvent" => &[&[InvalidRequest], BODY],
        "replayDelivery" => &[&[WebhookNotFound, DeliveryNotFound]],
        "getUsage" | "getBudget" | "getSubscription" | "listInvoices" => &[],
        "subscribe" => &[&[InvalidRequest, InvalidPlan, NoPaymentMethod, Conflict, ProviderUnavailable], BODY],
        "cancelSubscription" => &[&[Conflict, ProviderUnavailable]],
        "openBillingPortal" => {
            &[&[ReturnUrlNotAllowed, BillingPortalDisabled, InsufficientRole, Conflict, ProviderUnavailable], BODY]
        }
        "startCheckout" => &[&[InvalidRequest, InvalidPlan, InsufficientRole, Conflict, ProviderUnavailable], BODY],
        "receiveProviderEvent" => &[&[InvalidRequest, InvalidSignature, PayloadTooLarge]],
        "setBudget" => &[&[InvalidParams], BODY],
        "revokeUserKey" => &[&[KeyNotFound]],
        "createInvoice"
        | "createInvoiceFromPayment"
        | "createInvoiceFromPayments"
        | "createWithholdingRecords"
        | "createWithholdingRecordsFromTransfers"
        | "verifyRegistrations"
        | "monitorRegistrations" => OFFICE_CALL,
        "reconcile" | "setCap" | "issueKey" => &[BODY],
        "getRegistrationAudit" => &[&[NotFound]],
        "getMe" | "listStoredInvoices" => &[],
        "setProfile" => &[BODY],
        "getProfile" | "getStoredInvoice" => &[&[NotFound]],
        "correctStoredInvoice" => &[&[NotFound, QuotaExceeded, BudgetHardCapHit, AccountSuspended], BODY],
        "receiveOfficeProviderEvent" => &[&[InvalidRequest, InvalidSignature, PayloadTooLarge]],
        "getKeyBySession" => {
            &[&[ValidationError, KeyNotFound, KeyNoLongerShown, ProviderUnavailable, BruteForceLockout]]
        }
        "ingestPaymentEvent" => &[&[NotFound, InvalidSignature], BODY],
        unknown => panic!("the errors of {unknown} are not listed"),
    }
}

fn error_response(status: u16, codes: &[Code], area: Area) -> utoipa::openapi::Response {
    let names: Vec<_> = codes.iter().map(|code| format!("`{}`", code.as_str())).collect();
    let schema = match (area, status) {
        (Area::Platform, _) => "ErrorEnvelope",
        (Area::Office, 422) => "HTTPValidationError",
        (Area::Office, _) => "OfficeError",
    };
    let told = if schema == "HTTPValidationError" { &[] } else { codes };
    let examples = told.iter().map(|&code| (code.as_str().to_owned(), RefOr::T(example(code, area))));
    let content =
        ContentBuilder::new().schema(Some(Ref::from_schema_name(schema))).examples_from_iter(examples).build();
    let mut response = ResponseBuilder::new()
        .description(names.join(", "))
        .content("application/json", content)
        .header("X-Request-Id", request_id_header());
    for (name, why) in RATE_LIMIT_HEADERS {
        response = response.header(name, rate_limit_header(why));
    }
    if matches!(status, 429 | 503) || codes.contains(&Code::IdempotencyInProgress) {
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

fn example(code: Code, area: Area) -> Example {
    let error = json!({
        "code": code.as_str(),
        "message": code.cause(),
        "request_id": "req_01h2xcejqtf2nbrexx3vqjhp41",
        "documentation_url": format!("http://127.0.0.1:8080/docs/errors/{}", code.as_str()),
    });
    let value = match area {
        Area::Platform => json!({"error": error}),
        Area::Office => json!({"detail": code.cause(), "error": error}),
    };
    ExampleBuilder::new().summary(code.cause()).value(Some(value)).build()
}

/// The headers of every answer (readings L3-L5).
const RATE_LIMIT_HEADERS: [(&str, &str); 6] = [
    ("X-RateLimit-Daily-Limit", "Requests that are allowed a day (UTC); 9007199254740991 means unlimited."),
    ("X-RateLimit-Daily-Remaining", "Requests left of the daily limit."),
    ("X-RateLimit-Daily-Reset", "When the next day begins, in seconds since 1970."),
    ("X-RateLimit-Monthly-Limit", "Requests that are allowed a month (UTC); 9007199254740991 means unlimited."),
    ("X-RateLimit-Monthly-Remaining", "Requests left of the monthly limit."),
    ("X-RateLimit-Monthly-Reset", "When the next month begins, in seconds since 1970."),
];

fn rate_limit_header(why: &str) -> utoipa::openapi::Header {
    HeaderBuilder::new().schema(Some(Object::with_type(Type::Integer))).description(Some(why)).build()
}

fn request_id_header() -> utoipa::openapi::Header {
    HeaderBuilder::new()
        .schema(Some(String::schema()))
        .description(Some("The request's id, to quote to support."))
        .build()
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
                    // the page as a schema: its components are where references point to
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
    fn every_operation_documents_its_answers_and_who_may_call_it() {
        let mut operations_seen = 0;
        let mut document = document(crate::router::description());
        for item in document.paths.paths.values_mut() {
            for operation in operations(item) {
                operations_seen += 1;
                assert!(operation.security.is_some());
                assert!(operation.summary.is_some() && operation.tags.is_some());
                for status in ["405", "500", "503"] {
                    assert!(operation.responses.responses.contains_key(status));
                }
                // an operation names roles exactly if it needs a key or token
                let told = operation.extensions.as_ref().is_some_and(|told| told.contains_key("x-access"));
                let asks = operation.responses.responses.contains_key("401")
                    && operation.security != Some(vec![Default::default()]);
                assert_eq!(told, asks, "{:?}", operation.operation_id);
            }
        }
        // pricing, models, two of health, params, three of keys, nine of sessions, nine of circuits, eight of signing in,
        // four of users, twelve of encryption keys, four of ciphertexts, four of operations on numbers, ten of billing,
        // ten of webhooks, twenty of the back office
        assert_eq!(operations_seen, 99);
    }
}
