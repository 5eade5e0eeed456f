//! The answers' files.

use kernels::tfhe::Preset;
use serde::{Deserialize, Deserializer, de};

/// Masks of a preset's rows under one seed.
#[derive(Deserialize)]
pub struct MaskAnswers {
    #[serde(deserialize_with = "preset")]
    pub preset: Preset,
    #[serde(deserialize_with = "seed")]
    pub seed: [u8; 32],
    pub rows: Vec<MaskAnswer>,
}

#[derive(Deserialize)]
pub struct MaskAnswer {
    pub domain: u32,
    pub row: u64,
    /// First words of the row's stream.
    pub stream: [u32; 4],
    /// First words of its mask.
    pub mask: [u32; 4],
    pub mask_sha256: String,
}

/// A key of a preset and what it does.
#[derive(Deserialize)]
pub struct KeyAnswers {
    #[serde(deserialize_with = "preset")]
    pub preset: Preset,
    /// A container in base64.
    pub secret_key: String,
    /// Of the evaluation key's masks.
    #[serde(deserialize_with = "seed")]
    pub seed: [u8; 32],
    pub evaluation_key: Hashed,
    /// Fresh ones of false, true, false and true, the negation of number 1, and a trivial one of true.
    pub ciphertexts: Vec<CiphertextAnswer>,
    pub seeded: SeededAnswer,
    pub gates: Vec<GateAnswer>,
}

#[derive(Deserialize)]
pub struct Hashed {
    pub bytes: usize,
    pub sha256: String,
}

#[derive(Deserialize)]
pub struct CiphertextAnswer {
    pub bit: bool,
    /// Signed, in units of 2^-32.
    pub phase: i32,
    /// A container in base64.
    pub ciphertext: String,
}

#[derive(Deserialize)]
pub struct SeededAnswer {
    pub bits: Vec<bool>,
    /// Signed, in units of 2^-32.
    pub phases: Vec<i32>,
    /// In base64.
    pub container: String,
}

#[derive(Deserialize)]
pub struct GateAnswer {
    pub op: String,
    /// Places among the ciphertexts, in the order a, b, sel.
    pub operands: Vec<usize>,
    pub result: ResultAnswer,
}

#[derive(Deserialize)]
pub struct ResultAnswer {
    pub bit: bool,
    pub phase: i32,
    /// Of its container.
    pub sha256: String,
}

impl MaskAnswers {
    /// A file's entry for every preset.
    pub fn all() -> Vec<MaskAnswers> {
        of_every_preset(include_str!("masks.json"), |answers: &MaskAnswers| answers.preset)
    }
}

impl KeyAnswers {
    /// A file's entry for every preset.
    pub fn all() -> Vec<KeyAnswers> {
        of_every_preset(include_str!("gate_keys.json"), |answers: &KeyAnswers| answers.preset)
    }
}

fn of_every_preset<T: de::DeserializeOwned>(text: &str, preset: impl Fn(&T) -> Preset) -> Vec<T> {
    let answers: Vec<T> = serde_json::from_str(text).expect("the answers' file");
    assert_eq!(answers.iter().map(preset).collect::<Vec<_>>(), Preset::ALL);
    answers
}

fn preset<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Preset, D::Error> {
    let name = String::deserialize(deserializer)?;
    Preset::from_name(&name).ok_or_else(|| de::Error::custom(format!("no preset {name}")))
}

fn seed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
    let text = String::deserialize(deserializer)?;
    let mut seed = [0; 32];
    hex::decode_to_slice(text, &mut seed).map_err(de::Error::custom)?;
    Ok(seed)
}
