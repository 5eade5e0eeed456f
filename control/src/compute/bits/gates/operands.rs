//! Operands of gates: in the gates' members, after the head of an octet-stream, or under handles of the session.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use api::circuits::CircuitValue;
use api::gates::{BATCH_GATES_MAX, BatchGate};
use api::{Code, HandleId};

use crate::compute::bits::workbench::{EncryptedValue, Workbench, unknown_handle};
use crate::web::error::ApiError;
use crate::web::octets::Words;
use crate::work::{self, Gate, GateText, LweList, OpenKey, Operand, OperandBlock, OperandText, Place, Program, Seeds};

/// Largest number of operands of one batch: three for each gate.
const OPERANDS_MAX: usize = 3 * BATCH_GATES_MAX;

/// Operands as the request gives them.
pub enum Operands {
    /// In the gates' members. The function returns the path of gate `i`, with a dot at the end.
    Text(Vec<BatchGate>, fn(usize) -> String),
    /// In an octet-stream.
    Octets(OctetOperands),
}

/// Operands of an octet-stream: the members of its head, and the ciphertexts after the head.
pub struct OctetOperands {
    /// The words of the ciphertexts. For seeded ciphertexts, this is only the words of the bodies.
    pub words: Words,
    /// Fingerprint of the operands' key, 16 hexadecimal digits.
    pub fingerprint: Option<String>,
    /// The seeds of the masks.
    pub seeds: Option<Seeds>,
    /// The values whose bits are operands. Absent: the ciphertexts after the head are the operands.
    pub inputs: Option<Vec<CircuitValue>>,
    /// The index of each operand among the bits of `inputs`. Absent: each bit is an operand once, in order.
    pub operands: Option<Vec<u64>>,
}

/// Operands, together with the values that the session stores under the handles among the operands.
pub struct ResolvedOperands {
    operands: Operands,
    values: HashMap<HandleId, Arc<EncryptedValue>>,
}

impl Operands {
    /// Returns the number of gates whose operands must be decoded or whose masks must be made.
    pub fn cpu_work(&self, gates: usize) -> usize {
        match self {
            Operands::Octets(OctetOperands { seeds: None, inputs: None, .. }) => 0,
            _ => gates,
        }
    }

    /// Looks up the values that the session stores under the handles among the operands.
    pub async fn find(self, gates: &[Gate], bench: &Workbench) -> Result<ResolvedOperands, ApiError> {
        let mut values = HashMap::new();
        for (text, place) in self.handles(gates) {
            let handle: HandleId = text.parse().map_err(|_| unknown_handle(Some(&place)))?;
            if let Entry::Vacant(free) = values.entry(handle) {
                let value = bench.value(free.key()).await?.ok_or_else(|| unknown_handle(Some(&place)))?;
                free.insert(value);
            }
        }
        Ok(ResolvedOperands { operands: self, values })
    }

    /// Returns the handles among the operands, each with its place in the request.
    fn handles(&self, gates: &[Gate]) -> Vec<(String, String)> {
        let mut handles = Vec::new();
        match self {
            Operands::Text(texts, place) => {
                for (i, (&gate, text)) in gates.iter().zip(texts).enumerate() {
                    for (member, text) in members(gate, text) {
                        if let Some((handle, _)) = kept_bit(text) {
                            handles.push((handle.to_owned(), format!("{}{member}", place(i))));
                        }
                    }
                }
            }
            Operands::Octets(OctetOperands { inputs: Some(inputs), .. }) => {
                for (i, input) in inputs.iter().enumerate() {
                    if let CircuitValue::Handle(text) = input {
                        handles.push((text.clone(), format!("inputs[{i}]")));
                    }
                }
            }
            Operands::Octets(_) => {}
        }
        handles
    }
}

impl ResolvedOperands {
    /// Reads the operands, which are ciphertexts under this key. A large batch takes much CPU time, so call this
    /// outside the async threads.
    pub fn read(self, key: &OpenKey, gates: &[Gate]) -> Result<Program, ApiError> {
        let ResolvedOperands { operands, values } = self;
        match operands {
            Operands::Text(texts, place) => {
                let gate = |(i, (&gate, text))| gate_text(gate, text, &values, || place(i));
                let gates = gates.iter().zip(&texts).enumerate().map(gate).collect::<Result<Vec<_>, _>>()?;
                work::read_program(key, &gates, place)
            }
            Operands::Octets(OctetOperands { words, fingerprint, seeds, inputs, operands }) => {
                fingerprint.iter().try_for_each(|digits| work::check_fingerprint(key, digits))?;
                let count = gates.iter().map(|gate| gate.arity()).sum();
                let read = |ciphertexts| work::read_words(key, words, seeds.as_ref(), ciphertexts);
                match (inputs, operands) {
                    (None, None) => Ok(work::program(gates, read(count)?)),
                    (None, Some(_)) => {
                        let message = "the request has operands but no inputs: each operand is the index of a ciphertext of the inputs";
                        Err(ApiError::new(Code::InvalidRequest, message).at("operands", "without inputs"))
                    }
                    (Some(inputs), operands) => {
                        let pool = Pool::of(&inputs, values, read)?;
                        let places = pool.pick(operands, count)?;
                        Ok(work::program_of_places(gates, pool.blocks, places))
                    }
                }
            }
        }
    }
}

/// Returns the names and texts of a gate's operands, in the engine's order. Members that the gate does not take are
/// ignored (readings G9).
fn members(gate: Gate, text: &BatchGate) -> impl Iterator<Item = (&'static str, &str)> {
    let all = [("a", Some(text.a.as_str())), ("b", text.b.as_deref()), ("sel", text.sel.as_deref())];
    all.into_iter().take(gate.arity()).filter_map(|(member, text)| Some((member, text?)))
}

/// Splits an operand's text into a handle and the index of a bit. The text is `hdl_..[bit]`, or `hdl_..` for a value of
/// one bit. `None`: the text is a ciphertext in base64, which never begins with `hdl_`.
fn kept_bit(text: &str) -> Option<(&str, Option<&str>)> {
    text.starts_with("hdl_").then(|| match text.strip_suffix(']').and_then(|text| text.split_once('[')) {
        Some((handle, bit)) => (handle, Some(bit)),
        None => (text, None),
    })
}

fn gate_text<'a>(
    gate: Gate,
    text: &'a BatchGate,
    values: &'a HashMap<HandleId, Arc<EncryptedValue>>,
    place: impl Fn() -> String,
) -> Result<GateText<'a>, ApiError> {
    let operand = |(member, text): (&'static str, &'a str)| {
        let Some((handle, bit)) = kept_bit(text) else { return Ok::<_, ApiError>((member, OperandText::Text(text))) };
        let field = || format!("{}{member}", place());
        let handle: HandleId = handle.parse().map_err(|_| unknown_handle(Some(&field())))?;
        let value = values.get(&handle).ok_or_else(|| unknown_handle(Some(&field())))?;
        let bits = value.bits.len();
        let at = bit.map_or((bits == 1).then_some(0), |bit| bit.parse().ok()).filter(|&at: &usize| at < bits);
        let at = at.ok_or_else(|| {
            let message =
                format!("{}: the value under the handle has {bits} bits; choose one bit, such as {handle}[0]", field());
            ApiError::new(Code::InvalidParams, message).at(field(), "not a bit of the value")
        })?;
        let (form, value) = (value.form, value.clone());
        Ok((member, OperandText::Kept { name: Operand::Value(handle), value, bit: at, form }))
    };
    Ok(GateText { gate, operands: members(gate, text).map(operand).collect::<Result<_, ApiError>>()? })
}

/// All inputs of a batch in an octet-stream, one after another. Their bits are the operands to choose from.
struct Pool {
    /// The ciphertexts after the head, then the values stored on the node, each with its name.
    blocks: Vec<(Operand, OperandBlock)>,
    /// For each input that has ciphertexts: the number of ciphertexts before it, and the place of its first one.
    inputs: Vec<(u64, Place)>,
    /// Number of ciphertexts of all inputs. Several inputs can have the same handle, so this number can exceed the
    /// ciphertexts in memory.
    total: u64,
}

impl Pool {
    fn of(
        inputs: &[CircuitValue],
        values: HashMap<HandleId, Arc<EncryptedValue>>,
        read: impl FnOnce(usize) -> Result<LweList, ApiError>,
    ) -> Result<Pool, ApiError> {
        let inputs: Vec<_> =
            inputs.iter().enumerate().map(|input| Input::of(input, &values)).collect::<Result<_, ApiError>>()?;
        let ciphertexts = inputs.iter().fold(0usize, |sum, input| match input {
            Input::Words(count) => sum.saturating_add(*count),
            Input::Kept(..) => sum,
        });
        // check the number first, because masks are made and memory is reserved for this number of ciphertexts
        if ciphertexts > OPERANDS_MAX {
            let message = format!(
                "inputs announces {ciphertexts} ciphertexts after the head, but a batch has at most {OPERANDS_MAX}"
            );
            return Err(ApiError::new(Code::InvalidParams, message).at("inputs", "too many"));
        }
        let mut pool = Pool { blocks: Vec::with_capacity(1), inputs: Vec::with_capacity(inputs.len()), total: 0 };
        pool.blocks.push((Operand::Words, Arc::new(read(ciphertexts)?)));
        let mut words_taken = 0;
        for input in inputs {
            let (first, count) = match input {
                Input::Words(count) => {
                    words_taken += count;
                    (Place { block: 0, row: (words_taken - count) as u32 }, count)
                }
                Input::Kept(handle, value) => {
                    let (block, count) = (pool.blocks.len() as u32, value.bits.len());
                    pool.blocks.push((Operand::Value(handle), value));
                    (Place { block, row: 0 }, count)
                }
            };
            if count > 0 {
                pool.inputs.push((pool.total, first));
                pool.total += count as u64;
            }
        }
        Ok(pool)
    }

    /// Returns the places of the `count` operands that the gates take. `operands`: the index of each operand over all
    /// inputs. `None`: each ciphertext is an operand once, in order.
    fn pick(&self, operands: Option<Vec<u64>>, count: usize) -> Result<Vec<Place>, ApiError> {
        let given = operands.as_ref().map_or(self.total, |operands| operands.len() as u64);
        if given != count as u64 {
            let message = format!("the request has {given} operands, but the gates take {count}");
            return Err(ApiError::new(Code::InvalidParams, message).at("operands", format!("{count} wanted")));
        }
        let place = |(i, operand): (usize, u64)| {
            self.place(operand).ok_or_else(|| {
                let field = format!("operands[{i}]");
                let message = format!("{field} is {operand}, but the inputs have only {} ciphertexts", self.total);
                ApiError::new(Code::InvalidParams, message).at(field, "no such ciphertext")
            })
        };
        let operands = operands.unwrap_or_else(|| (0..self.total).collect());
        operands.into_iter().enumerate().map(place).collect()
    }

    /// Returns the place of the ciphertext with this index, counted over all inputs.
    fn place(&self, at: u64) -> Option<Place> {
        if at >= self.total {
            return None;
        }
        let input = self.inputs.partition_point(|&(before, _)| before <= at) - 1;
        let (before, first) = self.inputs[input];
        Some(Place { row: first.row + (at - before) as u32, ..first })
    }
}

/// An input of a batch.
enum Input {
    Kept(HandleId, Arc<EncryptedValue>),
    /// Number of the input's ciphertexts, which follow the head in the octet stream.
    Words(usize),
}

impl Input {
    fn of(
        (i, input): (usize, &CircuitValue),
        values: &HashMap<HandleId, Arc<EncryptedValue>>,
    ) -> Result<Input, ApiError> {
        let place = format!("inputs[{i}]");
        match input {
            CircuitValue::Bits(bits) => Ok(Input::Words(usize::try_from(*bits).unwrap_or(usize::MAX))),
            CircuitValue::Handle(text) => {
                let value = text.parse().ok().and_then(|handle: HandleId| values.get_key_value(&handle));
                let kept = value.map(|(handle, value)| Input::Kept(handle.clone(), value.clone()));
                kept.ok_or_else(|| unknown_handle(Some(&place)))
            }
            CircuitValue::Ciphertexts(_) => {
                let message = format!(
                    "{place}: in an octet-stream, an input is given by its count of ciphertexts or by a handle"
                );
                Err(ApiError::new(Code::InvalidRequest, message).at(place, "not of this form"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(inputs: &[CircuitValue]) -> Pool {
        let words = |count| Ok(LweList::from_words(1, (0..2 * count as u32).collect()));
        Pool::of(inputs, HashMap::new(), words).unwrap_or_else(|error| panic!("{error:?}"))
    }

    #[test]
    fn operands_stand_where_the_inputs_before_them_leave_room() {
        let pool = pool(&[2, 0, 3].map(CircuitValue::Bits));
        let rows = |operands| pool.pick(operands, 5).unwrap().iter().map(|place| place.row).collect::<Vec<_>>();
        assert_eq!(rows(None), [0, 1, 2, 3, 4]);
        assert_eq!(rows(Some(vec![4, 0, 2, 1, 4])), [4, 0, 2, 1, 4]);
        for wrong in [Some(vec![0, 1, 2, 3, 5]), Some(vec![0, 1, 2, 3, u64::MAX]), Some(vec![0])] {
            assert_eq!(pool.pick(wrong, 5).unwrap_err().code, Code::InvalidParams);
        }
        assert_eq!(pool.pick(None, 4).unwrap_err().code, Code::InvalidParams);
    }

    #[test]
    fn a_text_names_a_handle_and_a_bit_or_is_a_ciphertext() {
        for (text, expected) in [
            ("hdl_a", Some(("hdl_a", None))),
            ("hdl_a[17]", Some(("hdl_a", Some("17")))),
            ("hdl_a[", Some(("hdl_a[", None))),
            ("hdl_]", Some(("hdl_]", None))),
            ("hdl_[1][2]", Some(("hdl_", Some("1][2")))),
            ("QU5H", None),
            ("", None),
        ] {
            assert_eq!(kept_bit(text), expected, "{text}");
        }
    }
}
