//! The errors of operations. Handlers list their codes under `x-errors`; equal answers, headers and examples are one component.

use std::collections::BTreeMap;

use api::Code;
use serde_json::{Value, json};
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::example::{Example, ExampleBuilder};
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::path::Operation;
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{Components, Object, Type};
use utoipa::openapi::{Ref, RefOr};

use crate::web::envelope::Area;

/// Errors of each operation that reads a body.
pub const BODY: [Code; 2] = [Code::PayloadTooLarge, Code::ValidationError];

/// Headers of every answer (readings L3-L5, X11): name, type and description.
const COMMON: [(&str, Type, &str); 7] = [
    ("X-Request-Id", Type::String, "The request's id, to quote to support."),
    (
        "X-RateLimit-Daily-Limit",
        Type::Integer,
        "Requests that are allowed a day (UTC); 9007199254740991 means unlimited.",
    ),
    ("X-RateLimit-Daily-Remaining", Type::Integer, "Requests that are left of the day's."),
    ("X-RateLimit-Daily-Reset", Type::Integer, "When the next day begins, in seconds since 1970."),
    (
        "X-RateLimit-Monthly-Limit",
        Type::Integer,
        "Requests that are allowed a month (UTC); 9007199254740991 means unlimited.",
    ),
    ("X-RateLimit-Monthly-Remaining", Type::Integer, "Requests that are left of the month's."),
    ("X-RateLimit-Monthly-Reset", Type::Integer, "When the next month begins, in seconds since 1970."),
];
const RETRY_AFTER: &str = "Retry-After";
const WWW_AUTHENTICATE: &str = "WWW-Authenticate";
/// A header of every answer of the back office.
pub const STAGE: &str = "X-Service-Stage";
/// A header of successful answers of operations that take an `Idempotency-Key`.
pub const IDEMPOTENT_REPLAYED: &str = "Idempotent-Replayed";

/// Makes the headers, by name.
pub fn headers() -> BTreeMap<String, RefOr<Header>> {
    let of_some = [
        (RETRY_AFTER, Type::Integer, "Seconds to wait before trying again."),
        (WWW_AUTHENTICATE, Type::String, "`Bearer`"),
        (STAGE, Type::String, "`beta`: check the results, which are reference values, by official means."),
        (
            IDEMPOTENT_REPLAYED,
            Type::String,
            "`true` if the answer is that of an earlier request with the same `Idempotency-Key`.",
        ),
    ];
    let header = |(name, kind, meaning): (&str, Type, &str)| {
        let schema = Object::with_type(kind);
        (name.to_owned(), HeaderBuilder::new().schema(Some(schema)).description(Some(meaning)).build().into())
    };
    COMMON.into_iter().chain(of_some).map(header).collect()
}

/// Makes references to the headers of every answer.
pub fn common_headers() -> impl Iterator<Item = (String, RefOr<Header>)> {
    COMMON.into_iter().map(|(name, ..)| (name.to_owned(), header(name)))
}

/// Makes a reference to a header.
pub fn header(name: &str) -> RefOr<Header> {
    RefOr::Ref(Ref::new(format!("#/components/headers/{name}")))
}

/// Takes out the codes that the handler lists under `x-errors`. An array in the list is a group of codes.
///
/// # Panics
/// When the handler does not set `x-errors`. A handler without errors of its own sets an empty list.
pub fn take(operation: &mut Operation) -> Vec<Code> {
    let listed = operation.extensions.as_mut().and_then(|extensions| extensions.remove("x-errors"));
    codes(listed.unwrap_or_else(|| panic!("{:?} does not list its x-errors", operation.operation_id)))
}

fn codes(listed: Value) -> Vec<Code> {
    match listed {
        Value::Array(items) => items.into_iter().flat_map(codes).collect(),
        code => vec![serde_json::from_value(code).expect("x-errors are codes")],
    }
}

/// Adds an error answer to the components, named by its status and codes. Returns a reference to the component.
pub fn answer(status: u16, codes: &[Code], area: Area, components: &mut Components) -> Ref {
    let names: Vec<_> = codes.iter().map(|code| code.as_str()).collect();
    let name = format!("{}Error{status}.{}", prefix(area), names.join("."));
    let Components { responses, examples, .. } = components;
    responses.entry(name.clone()).or_insert_with(|| response(status, codes, area, examples).into());
    Ref::from_response_name(name)
}

fn response(status: u16, codes: &[Code], area: Area, examples: &mut BTreeMap<String, RefOr<Example>>) -> Response {
    let names: Vec<_> = codes.iter().map(|code| format!("`{}`", code.as_str())).collect();
    let schema = match (area, status) {
        (Area::Platform, _) => "ErrorEnvelope",
        (Area::Office, 422) => "HTTPValidationError",
        (Area::Office, _) => "OfficeError",
    };
    let told = if schema == "HTTPValidationError" { &[] } else { codes };
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(schema))).examples_from_iter(
        told.iter().map(|&code| {
            let name = format!("{}{}", prefix(area), code.as_str());
            let reference = RefOr::Ref(Ref::new(format!("#/components/examples/{name}")));
            examples.entry(name).or_insert_with(|| example(code, area).into());
            (code.as_str(), reference)
        }),
    );
    let mut response =
        ResponseBuilder::new().description(names.join(", ")).content("application/json", content.build()).build();
    response.headers.extend(common_headers());
    if area == Area::Office {
        response.headers.insert(STAGE.to_owned(), header(STAGE));
    }
    if matches!(status, 429 | 503) || codes.contains(&Code::IdempotencyInProgress) {
        response.headers.insert(RETRY_AFTER.to_owned(), header(RETRY_AFTER));
    }
    if status == 401 {
        response.headers.insert(WWW_AUTHENTICATE.to_owned(), header(WWW_AUTHENTICATE));
    }
    response
}

/// Returns the prefix for the names of an area's components.
fn prefix(area: Area) -> &'static str {
    match area {
        Area::Platform => "",
        Area::Office => "Office",
    }
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
