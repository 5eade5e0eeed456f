//! JSON bodies: checked for forbidden content, then read as a type.
//!
//! The first pass stores nothing. This pass refuses duplicate members (readings X7), deep nesting, the character U+0000,
//! and members that name a secret key (K5). The second pass reads the type and reports the member with the wrong shape
//! (E1, E2).

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use api::Code;
use serde::de::{self, DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::web::error::ApiError;

/// Deepest nesting of objects and arrays.
const DEPTH_MAX: usize = 32;
/// Largest number of members of one object.
const MEMBERS_MAX: usize = 256;
/// Longest text about a fault that quotes the request.
const ISSUE_CHARACTERS_MAX: usize = 200;

/// Returns the text without a byte order mark at its start, which some editors and libraries write.
pub fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text)
}

/// Checks and reads a request. The caller overwrites `bytes` afterwards.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    parse_texts(bytes, false)
}

/// Like [`parse`], but lets U+0000 pass if `takes_nul`.
pub fn parse_texts<T: DeserializeOwned>(bytes: &[u8], takes_nul: bool) -> Result<T, ApiError> {
    let bytes = without_mark(bytes);
    check(bytes, takes_nul)?;
    // a faulty body is read a second time, to find the path of the fault: tracking the path is slow
    if let Ok(value) = serde_json::from_slice(bytes) {
        return Ok(value);
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = match error.path().to_string() {
            path if path == "." => String::new(),
            path => path,
        };
        wrong_shape(&path, error.inner())
    })
}

/// Refuses forbidden content.
fn check(bytes: &[u8], takes_nul: bool) -> Result<(), ApiError> {
    let fault = Cell::new(None);
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let checked = Walk { depth: 0, takes_nul, fault: &fault }.deserialize(&mut deserializer).and_then(|kind| {
        deserializer.end()?;
        Ok(kind)
    });
    match (checked, fault.take()) {
        (_, Some(Fault::SecretKey)) => Err(secret_key_rejected()),
        (_, Some(Fault::Duplicate(name))) => {
            Err(ApiError::new(Code::InvalidRequest, "a member appears twice").at(shorten(&name), "appears twice"))
        }
        (_, Some(Fault::TooDeep)) => {
            Err(ApiError::new(Code::InvalidRequest, format!("the JSON has more than {DEPTH_MAX} levels of nesting")))
        }
        (_, Some(Fault::TooManyMembers)) => {
            Err(ApiError::new(Code::InvalidRequest, format!("an object has more than {MEMBERS_MAX} members")))
        }
        (_, Some(Fault::Nul)) => {
            Err(ApiError::new(Code::InvalidRequest, "a text holds the character U+0000, which cannot be stored"))
        }
        (Err(error), None) => Err(ApiError::new(
            Code::InvalidRequest,
            format!("the body is not JSON: fault at line {}, column {}", error.line(), error.column()),
        )
        .at("", "not JSON")),
        (Ok(Kind::Object), None) => Ok(()),
        (Ok(Kind::Other), None) => {
            Err(ApiError::new(Code::ValidationError, "the body must be a JSON object").at("", "expected an object"))
        }
    }
}

/// Makes the error for a secret key, wherever it was found (readings K5). The error is logged without the content.
pub fn secret_key_rejected() -> ApiError {
    tracing::warn!("a request was refused because it contained a secret key");
    ApiError::new(
        Code::SecretKeyRejected,
        "the request contains a secret key; it was refused and its bytes were overwritten. Never send secret keys",
    )
}

/// Makes the error 422 with the member at fault (readings E1, E2).
fn wrong_shape(path: &str, error: &serde_json::Error) -> ApiError {
    let text = error.to_string();
    // the texts that serde writes: "missing field `x` at line ..", "invalid type: string "..", expected a boolean at
    // line .."
    let (field, issue) =
        if let Some(name) = text.strip_prefix("missing field `").and_then(|rest| rest.split('`').next()) {
            let dot = if path.is_empty() { "" } else { "." };
            (format!("{path}{dot}{name}"), "required".to_owned())
        } else {
            let expected = text.rsplit_once(", expected ").map(|(_, expected)| expected);
            let expected = expected.map(|expected| expected.split(" at line ").next().unwrap_or_default());
            (path.to_owned(), expected.map_or("not readable".to_owned(), |expected| format!("expected {expected}")))
        };
    ApiError::new(Code::ValidationError, format!("{}: {}", shorten(&field), shorten(&issue)))
        .at(shorten(&field), shorten(&issue))
}

fn shorten(text: &str) -> String {
    text.chars().take(ISSUE_CHARACTERS_MAX).collect()
}

/// Whether a member's name marks its value as a secret key (readings K5): `secret_key`, `sk`, `private_key` or
/// `client_key`, in upper or lower case and with any separators, with or without a suffix for base64.
fn names_a_secret_key(name: &str) -> bool {
    let plain: String =
        name.chars().filter(|c| !matches!(c, '_' | '-' | ' ' | '.')).flat_map(char::to_lowercase).take(64).collect();
    let plain = plain.strip_suffix("base64").or(plain.strip_suffix("b64")).unwrap_or(&plain);
    matches!(plain, "secretkey" | "sk" | "privatekey" | "clientkey")
}

enum Fault {
    SecretKey,
    Duplicate(String),
    TooDeep,
    TooManyMembers,
    /// A text holds U+0000, which PostgreSQL cannot store.
    Nul,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Object,
    Other,
}

/// Visits a value and stores the first fault.
#[derive(Clone, Copy)]
struct Walk<'f> {
    depth: usize,
    takes_nul: bool,
    fault: &'f Cell<Option<Fault>>,
}

impl<'f> Walk<'f> {
    fn stop<E: de::Error>(self, fault: Fault) -> E {
        self.fault.set(Some(fault));
        E::custom("refused")
    }

    /// Returns the same walk, one level of nesting deeper. Refuses a level beyond `DEPTH_MAX`.
    fn deeper<E: de::Error>(self) -> Result<Walk<'f>, E> {
        if self.depth < DEPTH_MAX { Ok(Walk { depth: self.depth + 1, ..self }) } else { Err(self.stop(Fault::TooDeep)) }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Kind;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Kind, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Kind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Kind, A::Error> {
        let inner = self.deeper()?;
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<Name<'de>>()?.map(|name| name.0) {
            if names_a_secret_key(&name) {
                // an explicit null counts as an absent member (readings X7)
                if members.next_value::<Option<de::IgnoredAny>>()?.is_some() {
                    return Err(self.stop(Fault::SecretKey));
                }
            } else {
                members.next_value_seed(inner)?;
            }
            if names.len() == MEMBERS_MAX {
                return Err(self.stop(Fault::TooManyMembers));
            }
            if names.contains(&name) {
                return Err(self.stop(Fault::Duplicate(name.into_owned())));
            }
            names.insert(name);
        }
        Ok(Kind::Object)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Kind, A::Error> {
        let inner = self.deeper()?;
        while elements.next_element_seed(inner)?.is_some() {}
        Ok(Kind::Other)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Kind, E> {
        Ok(Kind::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Kind, E> {
        Ok(Kind::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Kind, E> {
        Ok(Kind::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Kind, E> {
        Ok(Kind::Other)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Kind, E> {
        if text.contains('\0') && !self.takes_nul { Err(self.stop(Fault::Nul)) } else { Ok(Kind::Other) }
    }

    fn visit_unit<E>(self) -> Result<Kind, E> {
        Ok(Kind::Other)
    }
}

/// A member's name, borrowed unless it has escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Generates values without forbidden content.
    fn harmless() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            "[^\u{0}\n]{0,8}".prop_map(Into::into),
        ];
        leaf.prop_recursive(6, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
                prop::collection::btree_map("[a-p]{1,6}", inner, 0..6)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn harmless_values_pass(value in harmless()) {
            let body = serde_json::json!({"name": "n", "other": value}).to_string();
            prop_assert!(parse::<Request>(body.as_bytes()).is_ok(), "{}", body);
        }

        #[test]
        fn any_bytes_are_an_answer_not_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse::<Request>(&bytes);
        }

        #[test]
        fn a_secret_is_found_wherever_it_stands(value in harmless(), at in 0usize..3) {
            let mut wrapped = serde_json::json!({"privateKey": 1});
            for _ in 0..at {
                wrapped = serde_json::json!([value, {"x": wrapped}]);
            }
            let body = serde_json::json!({"name": "n", "other": wrapped}).to_string();
            prop_assert_eq!(parse::<Request>(body.as_bytes()).unwrap_err().code, Code::SecretKeyRejected);
        }
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Request {
        name: String,
        bit: Option<bool>,
    }

    fn code(text: &str) -> Code {
        parse::<Request>(text.as_bytes()).unwrap_err().code
    }

    #[test]
    fn x7_unknown_members_are_ignored_and_null_is_absent() {
        let request: Request =
            parse(br#"{"name": "n", "bit": null, "other": {"deep": [1, 2.5, true, null]}}"#).unwrap();
        assert_eq!(request, Request { name: "n".into(), bit: None });
    }

    #[test]
    fn x7_duplicate_members_are_refused_at_any_depth() {
        assert_eq!(code(r#"{"name": "a", "name": "b"}"#), Code::InvalidRequest);
        assert_eq!(code(r#"{"name": "a", "x": [{"y": 1, "y": 1}]}"#), Code::InvalidRequest);
        assert_eq!(code(r#"{"name": "a", "n\u0061me": "b"}"#), Code::InvalidRequest);
    }

    #[test]
    fn e1_unreadable_json_is_400_and_a_wrong_shape_422() {
        for text in
            ["", "{", "{}x", "nul", "{\"name\": \"a\"", "\u{feff}\u{feff}{}", "{'name': 1}", "{\"name\": 1e999}"]
        {
            assert_eq!(code(text), Code::InvalidRequest, "{text}");
        }
        for text in [
            "[]",
            "5",
            "null",
            "\"x\"",
            "{}",
            "\u{feff}{}",
            "{\"name\": 5}",
            "{\"name\": null}",
            "{\"name\": \"a\", \"bit\": 1}",
        ] {
            assert_eq!(code(text), Code::ValidationError, "{text}");
        }
    }

    #[test]
    fn e2_details_name_the_member() {
        let error = parse::<Request>(b"{}").unwrap_err();
        assert_eq!((error.details[0].field.as_str(), error.details[0].issue.as_str()), ("name", "required"));
        let error = parse::<Request>(br#"{"name": "a", "bit": "yes"}"#).unwrap_err();
        assert_eq!((error.details[0].field.as_str(), error.details[0].issue.as_str()), ("bit", "expected a boolean"));
    }

    #[test]
    fn k5_secret_keys_are_refused_by_name_at_any_depth() {
        for name in [
            "secret_key",
            "sk",
            "private_key",
            "client_key",
            "secretKey",
            "privateKey",
            "clientKey",
            "SK",
            "Secret-Key",
            "secret_key_b64",
            "skBase64",
        ] {
            assert_eq!(code(&format!(r#"{{"name": "n", "{name}": "x"}}"#)), Code::SecretKeyRejected, "{name}");
            assert_eq!(code(&format!(r#"{{"a": [{{"b": {{"{name}": {{}}}}}}]}}"#)), Code::SecretKeyRejected, "{name}");
        }
        for name in ["eval_key_b64", "skip", "task", "key", "public_key"] {
            assert!(parse::<Request>(format!(r#"{{"name": "n", "{name}": "x"}}"#).as_bytes()).is_ok(), "{name}");
        }
        assert!(parse::<Request>(br#"{"name": "n", "secret_key": null}"#).is_ok());
    }

    #[test]
    fn a_text_with_a_nul_is_refused_at_any_depth() {
        for text in [r#"{"url": "a\u0000b"}"#, r#"{"a": [{"b": "\u0000"}]}"#] {
            let error = parse::<serde_json::Value>(text.as_bytes()).unwrap_err();
            assert_eq!((error.code, error.message.contains("U+0000")), (Code::InvalidRequest, true), "{text}");
        }
        assert!(parse::<serde_json::Value>(br#"{"url": "\\u0000"}"#).is_ok());
    }

    #[test]
    fn nesting_and_members_are_bounded() {
        let deep = format!(r#"{{"name": "n", "x": {}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(code(&deep), Code::InvalidRequest);
        let wide: Vec<String> = (0..300).map(|n| format!("\"m{n}\": 0")).collect();
        assert_eq!(code(&format!("{{{}}}", wide.join(","))), Code::InvalidRequest);
    }

    #[test]
    fn faults_do_not_echo_long_input() {
        let error =
            parse::<Request>(format!(r#"{{"name": "n", "bit": "{}"}}"#, "x".repeat(100_000)).as_bytes()).unwrap_err();
        assert!(error.message.len() < 1000);
    }
}
