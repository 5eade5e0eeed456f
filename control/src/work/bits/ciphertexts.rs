//! Reads the ciphertexts in requests and writes the ciphertexts in answers, both as ciphertexts under a given key.

use std::sync::Arc;

use api::Code;
use api::gates::CIPHERTEXT_BYTES_MAX;
use engine::container::{self, Form};
use engine::{Gate, GateList, Lwe, LweList, OperandBlock, Place, SeededLweList};
use zeroize::Zeroizing;

use super::{GateText, OpenKey, Operand, OperandText, Outcome, Program, Seeds};
use crate::web::base64_text::{self, Base64Error};
use crate::web::error::ApiError;
use crate::web::json::secret_key_rejected;
use crate::web::octets::Words;

/// Reads a request's gates, all or none (readings G10), with operands under this key. `place(i)` is the path of gate
/// `i` in the request, with a dot at the end. A large batch takes much CPU time, so call this outside the async
/// threads.
pub fn read_program(
    key: &OpenKey,
    gates: &[GateText<'_>],
    place: impl Fn(usize) -> String,
) -> Result<Program, ApiError> {
    let count = gates.iter().map(|gate| gate.operands.len()).sum();
    let (mut texts, mut places) = (empty_list(key, count), Vec::with_capacity(count));
    // the first block has the ciphertexts of the request, and each further block is a value
    let mut values: Vec<(Operand, OperandBlock)> = Vec::new();
    let mut forms = Vec::with_capacity(gates.len());
    for (i, gate) in gates.iter().enumerate() {
        for (at, (member, text)) in gate.operands.iter().enumerate() {
            let (place, form) = match text {
                OperandText::Kept { name, value, bit, form } => {
                    let block = values.iter().position(|(other, _)| other == name).unwrap_or_else(|| {
                        values.push((name.clone(), value.clone()));
                        values.len() - 1
                    });
                    (Place { block: block as u32 + 1, row: *bit as u32 }, *form)
                }
                OperandText::Text(text) => {
                    let (lwe, form) = read_ciphertext(key, text, || format!("{}{member}", place(i)))?;
                    texts.push(lwe.words());
                    (Place { block: 0, row: texts.len() as u32 - 1 }, form)
                }
            };
            places.push(place);
            if at == 0 {
                forms.push(form);
            }
        }
    }
    let texts: (Operand, OperandBlock) = (Operand::Words, Arc::new(texts));
    let blocks = [texts].into_iter().chain(values).collect();
    Ok(folded(gates.iter().map(|gate| gate.gate).collect(), blocks, places, forms))
}

/// Makes a program of these gates. `operands`: the ciphertexts of the first gate's operands, then the ciphertexts of
/// the next gate's operands, and so on. Results are written in Ango's own form.
pub fn program(gates: &[Gate], operands: LweList) -> Program {
    let list = GateList::new(gates.to_vec(), operands).folded();
    Program { list, operands: vec![Operand::Words], forms: vec![Form::Ango; gates.len()] }
}

/// Makes a program of these gates. The gates' operands are in `blocks`, each with its name. `places`: for each operand,
/// gate after gate, the place of its ciphertext in a block. Results are written in Ango's own form. Panics if there are
/// no blocks, if a place is outside the blocks, or if there are more or fewer places than operands.
pub fn program_of_places(gates: &[Gate], blocks: Vec<(Operand, OperandBlock)>, places: Vec<Place>) -> Program {
    folded(gates.to_vec(), blocks, places, vec![Form::Ango; gates.len()])
}

/// Makes a program of folded gates. Folding reads all operands. So the thread that has just read the operands
/// also folds, while the operands are in the thread's cache.
fn folded(gates: Vec<Gate>, blocks: Vec<(Operand, OperandBlock)>, places: Vec<Place>, forms: Vec<Form>) -> Program {
    let (operands, blocks) = blocks.into_iter().unzip();
    Program { list: GateList::of_places(gates, blocks, places).folded(), operands, forms }
}

/// Refuses ciphertexts whose fingerprint names another key. The fingerprint is 16 hexadecimal digits (readings G11).
pub fn check_fingerprint(key: &OpenKey, digits: &str) -> Result<(), ApiError> {
    let named = (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok()).flatten().map(u64::to_be_bytes);
    let Some(named) = named else {
        return Err(ApiError::new(Code::InvalidParams, "fingerprint must be 16 hexadecimal digits")
            .at("fingerprint", "not 16 hexadecimal digits"));
    };
    match key.fingerprint {
        Some(wanted) if wanted != named => {
            let issue = "the ciphertexts were made under another key";
            Err(invalid_ciphertext("fingerprint".to_owned(), issue))
        }
        _ => Ok(()),
    }
}

/// Writes a program's results as base64, each result in the form of its gate's first operand. A large batch takes much
/// CPU time, so call this outside the async threads.
pub fn write_results(key: &OpenKey, outcome: &Outcome) -> Vec<String> {
    outcome.results.iter().zip(&outcome.forms).map(|(words, form)| write(key, words, *form)).collect()
}

/// Reads one ciphertext of a key.
pub fn read_single(key: &OpenKey, text: &str, member: &str) -> Result<Lwe, ApiError> {
    read_ciphertext(key, text, || member.to_owned()).map(|(lwe, _)| lwe)
}

/// Writes one ciphertext of a key as base64, in Ango's own form.
pub fn write_single(key: &OpenKey, lwe: &Lwe) -> String {
    write(key, lwe.words(), Form::Ango)
}

/// Makes an empty list with capacity for `count` ciphertexts of a key.
pub fn empty_list(key: &OpenKey, count: usize) -> LweList {
    LweList::with_capacity(key.preset.params().lwe_dimension, count)
}

/// Reads a value that is one container of seeded ciphertexts. `None`: the value has another form, or its text is
/// faulty. The caller then uses [`read_value`], which reports the fault.
pub fn read_seeded_value(key: &OpenKey, texts: &[String], place: &str) -> Result<Option<SeededLweList>, ApiError> {
    /// base64 characters at the beginning of a container, which show its kind
    const BEGINNING: usize = 12;
    let [text] = texts else { return Ok(None) };
    let beginning = text.get(..BEGINNING).and_then(|text| base64_text::decode(text, BEGINNING).ok());
    if !beginning.is_some_and(|bytes| container::is_seeded(&bytes)) {
        return Ok(None);
    }
    let bytes = decode_ciphertext(text, || format!("{place}[0]"))?;
    let seeded = container::read_seeded(&bytes, key.preset, key.fingerprint);
    seeded.map(Some).map_err(|error| invalid_ciphertext(format!("{place}[0]"), &error.to_string()))
}

/// Appends a value's ciphertexts to `list`. Returns the form of the first ciphertext. `None`: the value has no bits.
/// `place`: the value's path in the request. A value of many bits takes much CPU time, so call this outside the async
/// threads.
pub fn read_value(key: &OpenKey, texts: &[String], place: &str, list: &mut LweList) -> Result<Option<Form>, ApiError> {
    let mut first = None;
    for (bit, text) in texts.iter().enumerate() {
        let (lwe, form) = read_ciphertext(key, text, || format!("{place}[{bit}]"))?;
        first.get_or_insert(form);
        list.push(lwe.words());
    }
    Ok(first)
}

/// Writes a value's ciphertexts as base64. A value of many bits takes much CPU time, so call this outside the async
/// threads.
pub fn write_value(key: &OpenKey, bits: &LweList, form: Form) -> Vec<String> {
    bits.iter().map(|words| write(key, words, form)).collect()
}

/// Returns the size in bytes of a ciphertext as raw words.
pub fn words_bytes(key: &OpenKey) -> usize {
    4 * (key.preset.params().lwe_dimension + 1)
}

/// Reads this many ciphertexts from raw words. The words are whole ciphertexts, one after another. With `seeds` they
/// are only the ciphertexts' bodies. Any words are valid ciphertexts, so only the length can be wrong. Making masks
/// from seeds takes much CPU time, so call this outside the async threads.
pub fn read_words(key: &OpenKey, words: Words, seeds: Option<&Seeds>, ciphertexts: usize) -> Result<LweList, ApiError> {
    if let Some(seeds) = seeds.map(Seeds::ciphertexts).filter(|&seeded| seeded != ciphertexts) {
        let message =
            format!("the seeds are for {seeds} ciphertexts, but {ciphertexts} ciphertexts must follow the head");
        return Err(ApiError::new(Code::InvalidCiphertext, message).at("seeds", format!("{ciphertexts} wanted")));
    }
    let (each, found) = (if seeds.is_some() { 4 } else { words_bytes(key) }, words.bytes());
    if ciphertexts.checked_mul(each) == Some(found) {
        let dimension = key.preset.params().lwe_dimension;
        return Ok(match seeds {
            None => LweList::from_words(dimension, words.into_words()),
            Some(Seeds(seeds)) => expanded(dimension, seeds, words.into_words()),
        });
    }
    if let Err(container::Error::SecretKey) = container::read_ciphertext(&words.to_bytes(), key.preset, None) {
        return Err(secret_key_rejected());
    }
    let message =
        format!("{ciphertexts} ciphertexts of {each} bytes must follow the head, but {found} bytes were found");
    Err(ApiError::new(Code::InvalidCiphertext, message))
}

/// Makes the masks of seeded ciphertexts, and returns all ciphertexts of a request in one list.
fn expanded(dimension: usize, seeds: &[([u8; 32], usize)], bodies: Vec<u32>) -> LweList {
    if let &[(seed, _)] = seeds {
        return SeededLweList::new(seed, bodies).expand(dimension);
    }
    let mut list = LweList::with_capacity(dimension, bodies.len());
    let mut rest = &bodies[..];
    for &(seed, count) in seeds {
        let (of_seed, after) = rest.split_at(count);
        list.append_seeded(&seed, of_seed);
        rest = after;
    }
    list
}

fn write(key: &OpenKey, words: &[u32], form: Form) -> String {
    base64_text::encode(&container::write_ciphertext(&Lwe::new(words.to_vec()), key.preset, key.fingerprint, form))
}

fn decode_ciphertext(text: &str, field: impl Fn() -> String) -> Result<Zeroizing<Vec<u8>>, ApiError> {
    let bytes = base64_text::decode(text, CIPHERTEXT_BYTES_MAX).map_err(|fault| match fault {
        Base64Error::TooLarge => {
            ApiError::new(Code::PayloadTooLarge, "a ciphertext may have at most 2 MB").at(field(), "more than 2 MB")
        }
        fault => invalid_ciphertext(field(), &format!("not base64: {fault}")),
    })?;
    Ok(Zeroizing::new(bytes))
}

fn read_ciphertext(key: &OpenKey, text: &str, field: impl Fn() -> String) -> Result<(Lwe, Form), ApiError> {
    let bytes = decode_ciphertext(text, &field)?;
    container::read_ciphertext(&bytes, key.preset, key.fingerprint).map_err(|error| match error {
        container::Error::SecretKey => secret_key_rejected(),
        error => invalid_ciphertext(field(), &error.to_string()),
    })
}

fn invalid_ciphertext(field: String, issue: &str) -> ApiError {
    ApiError::new(Code::InvalidCiphertext, format!("{field}: {issue}")).at(field, issue)
}
