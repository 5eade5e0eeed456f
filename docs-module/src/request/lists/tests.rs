//! Bodies of reconciliation, verification and watch.

use super::super::tests::{faults, reconciled, verification};
use super::*;

fn bytes(body: &Value) -> Vec<u8> {
    body.to_string().into_bytes()
}

fn kinds<T>(read: Result<T, Refused>) -> Vec<&'static str> {
    faults(read).iter().map(|fault| fault.kind).collect()
}

#[test]
fn a11_records_without_a_name_match_nothing() {
    let body = json!({
        "left": [{"n": "株式会社", "a": 1}, {"n": " ", "a": "?"}, {"n": "甲", "a": 1}],
        "right": [{"n": "有限会社", "a": 1}, {"n": "", "a": 1}, {"n": "甲", "a": 1}],
        "left_key": "n", "left_amount": "a", "kind": "company",
    });
    let found: Value = serde_json::from_str(&reconciled(&bytes(&body)).unwrap()).unwrap();
    let alone = |side: &str| -> Vec<(u64, String)> {
        let rows = found[side].as_array().unwrap().iter();
        rows.map(|row| (row["index"].as_u64().unwrap(), row["reason"].as_str().unwrap().to_owned())).collect()
    };
    let no_key = |at: u64| (at, "no_key".to_owned());
    assert_eq!((alone("left_only"), alone("right_only")), (vec![no_key(0), no_key(1)], vec![no_key(0), no_key(1)]));
    assert_eq!((&found["summary"]["matched"], found["summary"].get("groups_cut")), (&json!(1), None));
}

#[test]
fn a1_names_and_sources_have_a_length() {
    let with_name = |name: String| reconciled(&bytes(&json!({"left": [{"n": name}], "right": [], "left_key": "n"})));
    assert!(with_name("田".repeat(256)).is_ok());
    assert_eq!(kinds(with_name("田".repeat(257))), ["string_too_long"]);
    let with_source = |source: String| verification(&bytes(&json!({"numbers": [], "source": source})));
    assert!(with_source("局".repeat(200)).is_ok());
    assert_eq!(kinds(with_source("局".repeat(201))), ["string_too_long"]);
}
