//! Bodies with a member twice, and bodies made to be expensive (readings X7).

use super::fault::path;
use super::field::any_value;
use super::tests::verification;
use super::{Given, Refused, cap, key_order};

/// The kind and the path of each fault.
fn faults<T>(found: Result<T, impl Into<Refused>>) -> Vec<(&'static str, String)> {
    let faults = super::tests::faults(found);
    faults.iter().map(|fault| (fault.kind, path(&fault.loc))).collect()
}

/// The faults of a body with these members.
fn of(members: &str) -> Vec<(&'static str, String)> {
    faults(cap(format!("{{{members}}}").as_bytes()))
}

#[test]
fn c3_a_member_given_twice_is_a_fault_wherever_it_stands() {
    for (members, at) in [
        // equal values are no excuse
        (r#""cap_yen": 1, "cap_yen": 1"#, "cap_yen"),
        // nobody reads these members; names are compared after unescaping
        (r#""x": 1, "\u0078": 1"#, "x"),
        (r#""a": {"b": [0, {"\"\\": [], "\u0022\u005c": {}}]}"#, r#"a.b[1]."\"#),
        (r#""🦀": 0, "\ud83e\udd80": 0"#, "🦀"),
        (r#""a": {"\ud800": 0, "\ud800": 0}"#, r#"a."\ud800""#),
        (r#""a": [[], [{"b": {}, "b": 1, "c": 1, "b": 2}]]"#, "a[1][0].b"),
        // names and commas inside texts are no members
        (r#""a": "\\\",\"a\":\"", "b": "{,", "b": "}""#, "b"),
    ] {
        assert_eq!(of(members), [("value_error", at.to_owned())], "{members}");
    }
    // the same name in two objects, in another case, in another form of Unicode or as a value is no second member
    let apart = r#""x": {"y": {"x": "x"}, "X": "x"}, "y": [{"x": 1}, {"x": 1}], "é": "y", "e\u0301": "y""#;
    assert_eq!(of(apart), []);
    // other faults of the body are told beside it
    let both = ["value_error", "greater_than_equal"].map(|kind| (kind, "cap_yen".to_owned()));
    assert_eq!(of(r#""cap_yen": 1, "cap_yen": -1"#), both);
    assert_eq!(faults(any_value(br#"{"a": [{"b": 1, "b": 1}]}"#)), [("value_error", "a[0].b".to_owned())]);
    assert_eq!(any_value(br#" {"a": [1.5, {}]} "#), Ok(serde_json::json!({"a": [1.5, {}]})));
}

#[test]
fn c5_a_stored_text_of_one_line_has_no_hidden_character() {
    let profile = |member: &str| {
        let body = format!(r#"{{"issuer": "A", "registration_number": "T7000012050002", {member}}}"#);
        let given = Given::on(time::macros::date!(2025 - 11 - 30));
        faults(super::profile(body.as_bytes(), &given))
    };
    let unseen =
        ["\\u0000", "\\t", "\\n", "\\r", "\\u001b", "\\u007f", "\\u0085", "\\u200b", "\\u202e", "\\u2028", "\\ufeff"];
    for hidden in unseen {
        let text = |before: &str| format!("\"{before}{hidden}b\"");
        let label = faults(key_order(format!(r#"{{"customer": {}}}"#, text("a")).as_bytes()));
        assert_eq!(label, [("value_error", "customer".to_owned())], "{hidden}");
        let source = format!(r#"{{"numbers": [], "source": {}}}"#, text("a"));
        assert_eq!(faults(verification(source.as_bytes())), [("value_error", "source".to_owned())], "{hidden}");
        let email = profile(&format!(r#""delivery_email": {}"#, text("a@b")));
        assert_eq!(email, [("value_error", "delivery_email".to_owned())], "{hidden}");
        let secret = profile(&format!(r#""provider_signing_secret": {}"#, text("whsec_")));
        assert_eq!(secret, [("string_type", "provider_signing_secret".to_owned())], "{hidden}");
    }
    assert_eq!(faults(key_order(r#"{"customer": "株式会社 𠮷田 & O'Neil"}"#.as_bytes())), []);
}

#[test]
fn c3_a_body_made_to_be_expensive_has_one_fault() {
    let fault = [("json_invalid", "x".to_owned())];
    for deep in ["[".repeat(5 << 20) + &"]".repeat(5 << 20), r#"{"a":"#.repeat(127) + "1" + &"}".repeat(127)] {
        assert_eq!(of(&format!("\"x\": {deep}")), fault);
    }
    assert_eq!(of(&format!("\"x\": {}1{}", r#"{"a":"#.repeat(126), "}".repeat(126))), []);
    assert_eq!(of(&format!("\"x\": [{}0]", "0,".repeat(1_000_000))), fault);
    assert_eq!(of(&format!("\"x\": [{}0]", "0,".repeat(900_000))), []);
    // an answer about long names given twice, often and at a great depth, is no longer than such a body
    let name = "n".repeat(10_000);
    let many = vec![format!(r#"{{"{name}": 1, "{name}": 1}}"#); 200].join(",");
    let nested = format!(r#"{{"{name}":"#).repeat(100) + "[" + &many + "]" + &"}".repeat(100);
    let faults = cap(format!("{{\"x\": {nested}}}").as_bytes()).unwrap_err();
    assert_eq!(faults.len(), 20);
    assert!(serde_json::to_vec(&faults).unwrap().len() < nested.len());
}
