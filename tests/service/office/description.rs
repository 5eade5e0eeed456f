//! The API description matches the bodies that the node reads and the answers that it sends. Tests of `docs-module`
//! compare the members of each described body with the reader of the body. The tests here check that each operation
//! reads the described body, and that answers have the described headers.

use std::collections::BTreeSet;

use control::config::AdminKey;
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::{Request, Response};
use zeroize::Zeroizing;

use crate::shop::*;

const ADMIN_SECRET: &str = "an administrator's secret of 32 characters or more";

async fn page(server: &TestServer) -> Value {
    server.send(Request::get("/openapi.json")).await.ok(200)
}

/// Returns the schema to which a reference refers, or the given schema if it is no reference.
fn resolved<'p>(page: &'p Value, schema: &'p Value) -> &'p Value {
    match schema["$ref"].as_str() {
        Some(way) => &page["components"]["schemas"][way.rsplit('/').next().unwrap()],
        None => schema,
    }
}

fn may_be_object(page: &Value, schema: &Value) -> bool {
    let schema = resolved(page, schema);
    let choices = schema["oneOf"].as_array().or(schema["anyOf"].as_array()).into_iter().flatten();
    schema["type"].as_str() == Some("object") || choices.into_iter().any(|choice| may_be_object(page, choice))
}

/// Makes a body that has all members of the schema, each of a wrong type.
fn wrong(page: &Value, schema: &Value) -> Value {
    let members = schema["properties"].as_object().unwrap();
    let value = |schema: &Value| if may_be_object(page, schema) { json!(7.5) } else { json!({}) };
    members.iter().map(|(name, schema)| (name.clone(), value(schema))).collect::<serde_json::Map<_, _>>().into()
}

#[tokio::test]
async fn each_operation_reads_the_body_that_its_page_names() {
    let set = |config: &mut control::config::Config| {
        config.office.admin_key = Some(AdminKey(Zeroizing::new(ADMIN_SECRET.to_owned())));
        config.office.ingest_wait_s = 0;
    };
    let server = TestServer::with(set).await;
    let shop = Shop::new(&server).await;
    let ingest = shop.set_profile(json!({})).await;
    server.send(Request::post(&*ingest, &event("1", "charge.succeeded", charge("1", 1_000)))).await.ok(200);
    let kept = shop.stored("").await[0]["invoice_id"].as_str().unwrap().to_owned();

    let page = page(&server).await;
    let mut seen = Vec::new();
    for (path, item) in page["paths"].as_object().unwrap().iter().filter(|(path, _)| path.starts_with("/v1/")) {
        let body = &item["post"]["requestBody"]["content"]["application/json"]["schema"];
        let Some(name) = body["$ref"].as_str().and_then(|way| way.rsplit('/').next()) else {
            assert!(item.get("post").is_none(), "{path} has a body without a name");
            continue;
        };
        // skipped: the node reads only some members of an event, so a wrong value in another member is no fault
        if ["PaymentEvent", "ProviderEvent"].contains(&name) {
            continue;
        }
        let schema = resolved(&page, body);
        let key = if path == "/v1/admin/keys" { ADMIN_SECRET } else { &shop.key };
        let path = path.replace("{invoice_id}", &kept);
        let answer = server.send(Request::post(&*path, &wrong(&page, schema)).key(key)).await;
        let at: BTreeSet<String> =
            faults(&answer).into_iter().map(|(_, at)| at.split('.').nth(1).unwrap().to_owned()).collect();
        let members: BTreeSet<String> = schema["properties"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(at, members, "{path} reads {name}");
        seen.push(name.to_owned());
    }
    seen.sort();
    let all = "CapIn InvoiceIn InvoiceIn IssueKeyIn PaymentImportIn PaymentsImportIn ProfileIn ReconcileIn RegistrationMonitorIn \
        RegistrationVerifyIn TransfersWithholdingIn WithholdingRecordsIn";
    assert_eq!(seen, all.split_whitespace().collect::<Vec<_>>());
}

#[tokio::test]
async fn no_body_or_answer_of_the_page_is_an_object_without_members() {
    let server = start_at_once().await;
    let page = page(&server).await;
    // these objects have no fixed members: the caller, the provider or the kind of fault (`ctx`) chooses them
    let free = ["Row", "PaymentLines", "ValidationError"];
    let mut bare = Vec::new();
    for (name, schema) in page["components"]["schemas"].as_object().unwrap() {
        if !free.contains(&name.as_str()) && is_bare(schema) {
            bare.push(name);
        }
    }
    assert!(bare.is_empty(), "{bare:?}");
}

/// Whether a schema is or contains an object with neither named members nor a type for its members.
fn is_bare(schema: &Value) -> bool {
    let types = schema["type"].as_array().cloned().unwrap_or_else(|| vec![schema["type"].clone()]);
    let has_members = schema["properties"].is_object()
        || schema["additionalProperties"].as_object().is_some_and(|rest| !rest.is_empty());
    let is_here = types.contains(&json!("object")) && !has_members;
    let within = ["properties", "oneOf", "anyOf", "allOf"].iter().flat_map(|name| match &schema[*name] {
        Value::Object(members) => members.values().collect::<Vec<_>>(),
        Value::Array(choices) => choices.iter().collect(),
        _ => Vec::new(),
    });
    is_here || within.chain(schema.get("items")).any(is_bare)
}

/// Checks that the answer has the headers `has`, and that the API description lists these headers and all known headers
/// of the answer.
fn check_headers(page: &Value, path: &str, method: &str, answer: &Response, has: &[&str]) {
    let described = page["paths"][path][method]["responses"]["200"]["headers"].as_object().unwrap();
    let described: BTreeSet<String> = described.keys().map(|name| name.to_lowercase()).collect();
    for name in has {
        assert!(answer.header(name).is_some(), "{path} answers without {name}");
        assert!(described.contains(*name), "{path}: the page lacks {name}");
    }
    let known = [
        "x-invoice-number",
        "x-document-total",
        "x-document-warning",
        "x-chain-valid",
        "x-broken-at",
        "x-service-stage",
        "content-disposition",
    ];
    for name in known.iter().filter(|name| answer.header(name).is_some()) {
        assert!(described.contains(*name), "{path} answers with {name}, which the page lacks");
    }
}

#[tokio::test]
async fn b21_headers_of_answers_are_on_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.jsonl");
    let server = TestServer::with(|config| {
        config.office.audit_log = Some(log);
        config.office.ingest_wait_s = 0;
    })
    .await;
    let shop = Shop::new(&server).await;
    let page = page(&server).await;
    let document = ["x-invoice-number", "x-document-total", "x-service-stage"];

    let made = shop.post(INVOICES, &issuer_with(json!({"items": invoice()["items"]}))).await;
    check_headers(
        &page,
        INVOICES,
        "post",
        &made,
        &[&document[..], &["x-document-warning", "content-disposition"]].concat(),
    );
    let ingest = shop.set_profile(json!({})).await;
    server.send(Request::post(&*ingest, &event("1", "charge.succeeded", charge("1", 1_000)))).await.ok(200);
    let kept = shop.stored("").await[0]["invoice_id"].as_str().unwrap().to_owned();
    let answer = shop.get(&format!("{STORED}/{kept}")).await;
    check_headers(
        &page,
        "/v1/invoices/stored/{invoice_id}",
        "get",
        &answer,
        &[&document[..], &["content-disposition"]].concat(),
    );

    let payees = json!({"payees": [{"name": "שלום", "payments": [{"amount": 60_000, "paid_on": "2025-11-30"}]}]});
    let records = "/v1/withholding-records";
    let answer = shop.post(&format!("{records}?format=pdf"), &payees).await;
    check_headers(&page, records, "post", &answer, &["content-disposition", "x-document-warning"]);

    shop.post(VERIFY, &json!({"numbers": ["T7000012050002"]})).await.ok(200);
    let audit = "/v1/registration/audit";
    check_headers(
        &page,
        audit,
        "get",
        &shop.get(&format!("{audit}?format=csv")).await,
        &["content-disposition", "x-chain-valid"],
    );
    // the audit trail in JSON has exactly the described members
    let trail = shop.get(audit).await.ok(200);
    let read: api::office::AuditTrail = serde_json::from_value(trail.clone()).unwrap();
    assert_eq!((read.entries.len(), serde_json::to_value(read).unwrap()), (1, trail));
}

/// Returns the test issuer's profile with these additional members.
fn issuer_with(more: Value) -> Value {
    let mut body = issuer();
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}
