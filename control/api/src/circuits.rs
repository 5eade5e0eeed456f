//! Circuits of gates. A circuit is stored by name and runs in one request; its results can stay on the node under
//! handles.
//!
//! Comments on types and members are for customers: they are the descriptions of the OpenAPI page.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Serialize};

use crate::seeds::{SEEDS_MAX, Seed};
use crate::{HandleId, MilliYen, OperationId, objects, words};

/// Largest size of a netlist in bytes: enough for a million gates of about 30 bytes each.
pub const CIRCUIT_TEXT_BYTES_MAX: usize = 32 << 20;
/// Largest number of characters of a circuit's name.
pub const CIRCUIT_NAME_CHARACTERS_MAX: usize = 64;
/// Largest number of input values of a circuit, and of output values.
pub const CIRCUIT_VALUES_MAX: usize = 4096;
/// Largest number of ciphertexts in all inputs of one request. A node may set a lower limit.
pub const CIRCUIT_BITS_MAX: usize = 1 << 16;

/// Whether a circuit can have this name: 1 to 64 of `a-z`, `0-9`, `_` and `-`, with a letter or digit first. A netlist
/// is never such a name, because a netlist has line breaks.
pub fn is_circuit_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=CIRCUIT_NAME_CHARACTERS_MAX).contains(&text.len())
        && plain(text.as_bytes()[0])
        && text.bytes().all(|byte| plain(byte) || matches!(byte, b'_' | b'-'))
}

/// `PUT /tfhe/circuits/{name}`, `GET /tfhe/circuits/{name}`, and an entry of `GET /tfhe/circuits`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CircuitFacts {
    /// The circuit's name within the account.
    #[cfg_attr(feature = "openapi", schema(example = "adder64"))]
    pub name: String,
    /// Size of the netlist in bytes.
    pub bytes: u64,
    /// SHA-256 of the netlist, in hexadecimal.
    pub sha256: String,
    /// Number of gates of each kind.
    pub gates: BTreeMap<String, u64>,
    /// Number of all gates.
    pub gates_total: u64,
    /// Number of levels. Gates of one level do not depend on one another.
    pub levels: u64,
    /// Number of bits of each input value.
    pub input_widths: Vec<u64>,
    /// Number of bits of each output value.
    pub output_widths: Vec<u64>,
    /// When a circuit was first kept under this name.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub created_at: String,
    /// When this netlist was uploaded.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub updated_at: String,
}

/// `GET /tfhe/circuits`: a page of the circuits that the account keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Circuits {
    /// The circuits, newest `created_at` first.
    pub circuits: Vec<CircuitFacts>,
    /// Where the next page begins: the `cursor` of the next request. Null on the last page.
    pub next_cursor: Option<String>,
    /// Whether there is a next page.
    #[serde(default)]
    pub has_more: bool,
    /// Number of circuits on all pages.
    #[serde(default)]
    pub total_count: u64,
}

/// An encrypted number, as an input or output of a circuit: its ciphertexts in base64, bit 0 first; or the handle of a
/// result that the node keeps. In an octet-stream's head the number of the value's ciphertexts stands in place of their
/// list, and the ciphertexts themselves follow the head.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum CircuitValue {
    /// The ciphertexts in base64, bit 0 first.
    Ciphertexts(Vec<String>),
    /// `hdl_...`: a result that the node keeps.
    Handle(String),
    /// In an octet-stream's head: the number of the value's ciphertexts, which follow the head.
    Bits(u64),
}

/// A reader written by hand, because a derived reader would not report where in a list an error is.
impl<'de> Deserialize<'de> for CircuitValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ValueReader { ciphertexts_left: &Cell::new(usize::MAX) }.deserialize(deserializer)
    }
}

/// Reads a value with at most `ciphertexts_left` ciphertexts. Without this limit, a list of many empty texts would take
/// more memory than the request's body.
#[derive(Clone, Copy)]
struct ValueReader<'c> {
    ciphertexts_left: &'c Cell<usize>,
}

impl<'de> DeserializeSeed<'de> for ValueReader<'_> {
    type Value = CircuitValue;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<CircuitValue, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueReader<'_> {
    type Value = CircuitValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of ciphertexts or a handle")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<CircuitValue, A::Error> {
        let mut ciphertexts = Vec::new();
        while let Some(ciphertext) = elements.next_element()? {
            let Some(left) = self.ciphertexts_left.get().checked_sub(1) else {
                let most = format!("at most {CIRCUIT_BITS_MAX} ciphertexts altogether");
                return Err(A::Error::invalid_length(CIRCUIT_BITS_MAX + 1, &most.as_str()));
            };
            self.ciphertexts_left.set(left);
            ciphertexts.push(ciphertext);
        }
        Ok(CircuitValue::Ciphertexts(ciphertexts))
    }

    fn visit_str<E>(self, text: &str) -> Result<CircuitValue, E> {
        Ok(CircuitValue::Handle(text.to_owned()))
    }

    fn visit_u64<E>(self, bits: u64) -> Result<CircuitValue, E> {
        Ok(CircuitValue::Bits(bits))
    }

    /// Accepts whole numbers that are written with a fraction, such as 64.0.
    fn visit_f64<E: serde::de::Error>(self, bits: f64) -> Result<CircuitValue, E> {
        match bits.fract() == 0.0 && bits >= 0.0 {
            // `as` turns a number that is too large into the largest u64, which is still too large and is refused later
            true => Ok(CircuitValue::Bits(bits as u64)),
            false => Err(E::invalid_value(Unexpected::Float(bits), &self)),
        }
    }
}

/// Like [`inputs`], but also accepts null, which means absent (readings X7).
pub(crate) fn some_inputs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<CircuitValue>>, D::Error> {
    struct Inputs(Vec<CircuitValue>);

    impl<'de> Deserialize<'de> for Inputs {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Inputs, D::Error> {
            inputs(deserializer).map(Inputs)
        }
    }

    Option::<Inputs>::deserialize(deserializer).map(|inputs| inputs.map(|Inputs(values)| values))
}

/// Reads a circuit's inputs, at most [`CIRCUIT_VALUES_MAX`] values with [`CIRCUIT_BITS_MAX`] ciphertexts in all.
fn inputs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<CircuitValue>, D::Error> {
    struct Values;

    impl<'de> Visitor<'de> for Values {
        type Value = Vec<CircuitValue>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of values")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<CircuitValue>, A::Error> {
            let ciphertexts_left = Cell::new(CIRCUIT_BITS_MAX);
            let mut values = Vec::new();
            while let Some(value) = elements.next_element_seed(ValueReader { ciphertexts_left: &ciphertexts_left })? {
                if values.len() == CIRCUIT_VALUES_MAX {
                    let most = format!("at most {CIRCUIT_VALUES_MAX} values");
                    return Err(A::Error::invalid_length(CIRCUIT_VALUES_MAX + 1, &most.as_str()));
                }
                values.push(value);
            }
            Ok(values)
        }
    }

    deserializer.deserialize_seq(Values)
}

/// Where the results of a circuit or a batch go: into the answer as `ciphertexts`, or onto the node under `handles`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum CircuitOutputs {
    /// The results are in the answer.
    #[default]
    Ciphertexts,
    /// The results stay on the node, under handles, until they are deleted or the session ends.
    Handles,
}

/// How the node runs a circuit's gates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum CircuitMapping {
    /// The node compiles the netlist: one bootstrap computes several gates where the key's preset allows it.
    #[default]
    Cells,
    /// The node runs the netlist gate by gate.
    None,
}

words!(CircuitMapping, "mapping of a circuit", {
    Cells = "cells",
    None = "none",
});

/// `POST /tfhe/circuits`: run a circuit on encrypted numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CircuitRequest {
    /// The session whose key evaluates the gates.
    #[cfg_attr(feature = "openapi", schema(example = "sess_1v4g9qhe0mtb2k7c5dnf3apr8s"))]
    pub session_id: String,
    /// A netlist in Bristol Fashion, or the name of a kept circuit, or `builtin:` and the name of a circuit that every
    /// node has, such as `builtin:add64`. A text with a line break is a netlist.
    #[cfg_attr(feature = "openapi", schema(example = "1 3\n2 1 1\n1 1\n2 1 0 1 2 AND\n"))]
    pub circuit: String,
    /// One value for each input of the circuit, with as many bits as that input has.
    #[serde(deserialize_with = "inputs")]
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 4096))]
    pub inputs: Vec<CircuitValue>,
    /// `ciphertexts` (the default) or `handles`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<CircuitOutputs>,
    /// `cells` (the default): the node compiles the netlist to fewer bootstraps. `none`: the node runs the netlist gate
    /// by gate. The results decrypt to the same bits, and the tariff counts the netlist's gates either way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mapping: Option<CircuitMapping>,
    /// Fingerprint of the ciphertexts' key, 16 hexadecimal digits. The node refuses the request if the session's key
    /// has another fingerprint. Ciphertexts in an octet-stream do not contain a fingerprint.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9a-fA-F]{16}$"))]
    pub fingerprint: Option<String>,
    /// In an octet-stream's head: the seeds of the ciphertexts after the head, if these ciphertexts are seeded.
    #[serde(
        default,
        deserialize_with = "objects::some_list::<SEEDS_MAX, _, _>",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 4096))]
    pub seeds: Option<Vec<Seed>>,
}

/// State of a circuit's run or of an operation on numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum OperationStatus {
    /// The operation was accepted, and none of its work is done yet.
    Pending,
    /// Some of its work is done.
    Running,
    /// All of its work is done, and the operation is charged.
    Completed,
    /// The operation ended without a result; nothing is charged.
    Failed,
    /// The owner ended the operation; nothing is charged.
    Cancelled,
}

words!(OperationStatus, "status of an operation", {
    Pending = "pending",
    Running = "running",
    Completed = "completed",
    Failed = "failed",
    Cancelled = "cancelled",
});

impl OperationStatus {
    /// Whether the run has ended. The state of an ended run does not change.
    pub fn has_ended(self) -> bool {
        !matches!(self, OperationStatus::Pending | OperationStatus::Running)
    }
}

/// A circuit's run: the answer to `POST /tfhe/circuits` and to `GET /tfhe/circuits/operations/{op_id}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CircuitOperation {
    /// The run's id.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "op_06a7m2q9v1c3k5d8e0f2g4h6j8"))]
    pub op_id: OperationId,
    /// The run's state.
    pub status: OperationStatus,
    /// Gates done so far.
    pub gates_done: u64,
    /// Number of the circuit's gates.
    pub gates_total: u64,
    /// Number of the circuit's gates of each kind.
    pub gates: BTreeMap<String, u64>,
    /// Number of the circuit's levels.
    pub levels: u64,
    /// Bootstraps that the node runs for this circuit. There are fewer bootstraps than gates if one bootstrap computes
    /// several gates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstraps: Option<u64>,
    /// Levels of bootstraps. Bootstraps of one level do not depend on one another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap_levels: Option<u64>,
    /// log2 of the probability, by the noise model, that at least one bootstrap of the run gives a wrong bit. Absent if
    /// the key's noise is not known, or if the run has no bootstrap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_log2: Option<f64>,
    /// The results, one for each output value: lists of ciphertexts, or handles. Null before the run ends, if the run
    /// has no results, and if the node no longer has the results.
    pub outputs: Option<Vec<CircuitValue>>,
    /// Bootstrap operations that the tariff charges. Null before the run ends.
    pub bootstrap_ops: Option<u64>,
    /// Cost of the run, after the discount. Null before the run ends.
    pub cost_jpy: Option<MilliYen>,
    /// Whether the batch discount applies: true for 32 gates or more. Null before the run ends.
    pub batch_discount_applied: Option<bool>,
    /// Wall time of the evaluation. Null before the run ends.
    pub compute_ms: Option<f64>,
    /// Why the run failed. Null if the run did not fail.
    pub error: Option<OperationError>,
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OperationError {
    /// The error code that a request without `Prefer: respond-async` would have got.
    pub code: String,
    /// What happened, for people.
    pub message: String,
}

/// The answer to the DELETE of an operation: a circuit, or an operation on numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CancelledOperation {
    /// The operation's id.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "op_06a7m2q9v1c3k5d8e0f2g4h6j8"))]
    pub op_id: OperationId,
    /// True if this request ended the operation; false if the operation had ended before.
    pub cancelled: bool,
}

/// `GET /tfhe/session/{session_id}/handles/{handle}`: a result that the node keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeptValue {
    /// The value's handle, valid within its session.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "hdl_1v4g9qhe0mtb2k7c5dnf3apr8s"))]
    pub handle: HandleId,
    /// Number of the value's bits.
    pub bits: u64,
    /// The value's ciphertexts in base64, bit 0 first. Absent in an octet-stream's head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ciphertexts_b64: Option<Vec<String>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_never_look_like_a_netlist() {
        let longest = "a".repeat(CIRCUIT_NAME_CHARACTERS_MAX);
        for name in ["a", "0", "adder64", "aes_128", "a-b", longest.as_str()] {
            assert!(is_circuit_name(name), "{name}");
        }
        let too_long = format!("{longest}a");
        for name in ["", "_a", "-a", "A", "a b", "a/b", "a.txt", "é", "1 3\n", "a\n", too_long.as_str()] {
            assert!(!is_circuit_name(name), "{name}");
        }
    }

    #[test]
    fn a_value_is_a_list_a_handle_or_in_octets_a_number() {
        let read = |text: &str| serde_json::from_str::<CircuitValue>(text);
        assert_eq!(read(r#"["YQ==","Yg=="]"#).unwrap(), CircuitValue::Ciphertexts(vec!["YQ==".into(), "Yg==".into()]));
        assert_eq!(read(r#""hdl_1""#).unwrap(), CircuitValue::Handle("hdl_1".into()));
        assert_eq!(read("64").unwrap(), CircuitValue::Bits(64));
        assert_eq!(read("64.0").unwrap(), CircuitValue::Bits(64));
        for bad in ["null", "-1", "1.5", "{}", "[1]", "true", "[[\"a\"]]"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        let value = CircuitValue::Ciphertexts(vec!["YQ==".into()]);
        assert_eq!(serde_json::to_string(&value).unwrap(), r#"["YQ=="]"#);
    }

    #[test]
    fn a_request_may_name_its_mapping_and_an_answer_its_bootstraps() {
        let request = |more: &str| {
            let text = format!(r#"{{"session_id":"s","circuit":"builtin:add8","inputs":[]{more}}}"#);
            serde_json::from_str::<CircuitRequest>(&text)
        };
        assert_eq!(request("").unwrap().mapping, None);
        assert_eq!(request(r#","mapping":null"#).unwrap().mapping, None);
        assert_eq!(request(r#","mapping":"none""#).unwrap().mapping, Some(CircuitMapping::None));
        assert_eq!(request(r#","mapping":"cells""#).unwrap().mapping, Some(CircuitMapping::default()));
        assert!(request(r#","mapping":"gates""#).is_err());
        assert!(!serde_json::to_string(&request("").unwrap()).unwrap().contains("mapping"));
        assert_eq!(CircuitMapping::from_name("none"), Some(CircuitMapping::None));
    }

    #[test]
    fn many_small_elements_are_refused_before_they_fill_the_memory() {
        let read = |inputs: &str| {
            serde_json::from_str::<CircuitRequest>(&format!(
                r#"{{"session_id":"s","circuit":"c","inputs":[{inputs}]}}"#
            ))
        };
        let list = |count: usize| format!("[{}]", vec![r#""""#; count].join(","));
        assert!(read(&list(CIRCUIT_BITS_MAX)).is_ok());
        assert!(read(&list(CIRCUIT_BITS_MAX + 1)).is_err());
        assert!(read(&format!("{},{}", list(CIRCUIT_BITS_MAX / 2), list(CIRCUIT_BITS_MAX / 2 + 1))).is_err());
        assert!(read(&vec!["1"; CIRCUIT_VALUES_MAX].join(",")).is_ok());
        let error = read(&vec!["1"; CIRCUIT_VALUES_MAX + 1].join(",")).unwrap_err().to_string();
        assert!(error.contains("expected at most 4096 values"), "{error}");
    }
}
