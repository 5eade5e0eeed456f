//! The files of known answers.

use kernels::tfhe::{ModSwitch, Preset};
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
    /// The first words of the row's stream.
    pub stream: [u32; 4],
    /// The first words of the row's mask.
    pub mask: [u32; 4],
    pub mask_sha256: String,
}

/// A key of a preset and a version, and results of operations with it.
#[derive(Deserialize)]
pub struct KeyAnswers {
    #[serde(deserialize_with = "preset")]
    pub preset: Preset,
    /// The version of the evaluation key's container, which says how gates switch the modulus.
    pub version: u16,
    /// A container in base64.
    pub secret_key: String,
    /// The seed of the evaluation key's masks.
    #[serde(deserialize_with = "seed")]
    pub seed: [u8; 32],
    pub evaluation_key: Hashed,
    /// Fresh ciphertexts of false, true, false and true, then the negation of the ciphertext at index 1, then a trivial
    /// ciphertext of true.
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
    /// The phase, signed, in units of 2^-32.
    pub phase: i32,
    /// A container in base64.
    pub ciphertext: String,
}

#[derive(Deserialize)]
pub struct SeededAnswer {
    pub bits: Vec<bool>,
    /// The phases, signed, in units of 2^-32.
    pub phases: Vec<i32>,
    /// The container in base64.
    pub container: String,
}

#[derive(Deserialize)]
pub struct GateAnswer {
    pub op: String,
    /// Indices of the ciphertexts, in the order a, b, sel.
    pub operands: Vec<usize>,
    pub result: ResultAnswer,
}

#[derive(Deserialize)]
pub struct ResultAnswer {
    pub bit: bool,
    pub phase: i32,
    /// The hash of the result's container.
    pub sha256: String,
}

impl MaskAnswers {
    /// The entries of the file, one for every preset.
    pub fn all() -> Vec<MaskAnswers> {
        let answers: Vec<MaskAnswers> = serde_json::from_str(include_str!("masks.json")).expect("the answers' file");
        assert!(answers.iter().map(|answers| answers.preset).eq(Preset::ALL));
        answers
    }
}

impl KeyAnswers {
    /// The entries of the file, one for every version of every preset.
    pub fn all() -> Vec<KeyAnswers> {
        let answers: Vec<KeyAnswers> = serde_json::from_str(include_str!("gate_keys.json")).expect("the answers' file");
        let versions = |preset: Preset| if Preset::OF_VERSION_1.contains(&preset) { 1..=2 } else { 2..=2 };
        let expected =
            Preset::ALL.into_iter().flat_map(|preset| versions(preset).map(move |version| (preset, version)));
        assert!(answers.iter().map(|answers| (answers.preset, answers.version)).eq(expected));
        answers
    }

    /// Returns how gates under this key switch the modulus.
    pub fn mod_switch(&self) -> ModSwitch {
        if self.version == 1 { ModSwitch::Nearest } else { ModSwitch::Centred }
    }
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
