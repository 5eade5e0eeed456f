//! Evaluation keys of gate sessions in a fleet. A key is one object in the bucket, sealed in frames under its own random data
//! key. The data key is sealed under the fleet's key and lies in the session's row, so the end of the session makes the object
//! unreadable, wherever copies of it lie (readings G3).

use api::Code;
use engine::container;
use engine::{EvaluationKey, ModSwitch, Params, ParamsLiteral, Preset};
use seal::Seal;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::super::bits::OpenKey;
use super::super::key::{KeyName, Share};
use super::frames;
use crate::secrets::Key;
use crate::web::error::ApiError;
use crate::web::json::secret_key_rejected;

/// Seals data keys of keys at rest: workers and API nodes have it, the broker, the bucket and the database do not.
pub struct FleetSeal {
    seal: Seal,
}

/// Everything of a key that an API node needs to check ciphertexts and to plan circuits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyFacts {
    preset: String,
    imported: bool,
    /// Hexadecimal digits.
    fingerprint: Option<String>,
    weight: u32,
    lwe_dimension: usize,
    glwe_dimension: usize,
    polynomial_size: usize,
    bootstrap_base_log: usize,
    bootstrap_level_count: usize,
    key_switch_base: u32,
    key_switch_level_count: usize,
    /// The bits of the doubles.
    noise: [u64; 2],
    centred: bool,
}

/// An evaluation key that was checked and sealed.
pub struct SealedSessionKey {
    /// The object's bytes.
    pub object: Vec<u8>,
    /// The sealed data key.
    pub secret: Vec<u8>,
    /// The key's facts.
    pub facts: KeyFacts,
}

impl FleetSeal {
    /// `key`: the fleet's key.
    pub fn new(key: &Key) -> FleetSeal {
        FleetSeal { seal: Seal::new(key) }
    }

    /// Checks an uploaded key and seals it under a new data key, bound to its name. Takes tens of milliseconds of CPU time.
    ///
    /// # Errors
    /// The fault of the key.
    pub fn read(&self, name: KeyName, share: Share, bytes: &Zeroizing<Vec<u8>>) -> Result<SealedSessionKey, ApiError> {
        let key = container::read_evaluation_key(bytes).map_err(|error| match error {
            container::Error::SecretKey => secret_key_rejected(),
            error => ApiError::new(Code::InvalidParams, format!("not a usable evaluation key: {error}"))
                .at("eval_key_b64", error.to_string()),
        })?;
        let label = name.label();
        let (data_key, secret) = self.new_data_key(&label);
        Ok(SealedSessionKey {
            object: frames::seal(&data_key, &label, bytes),
            secret,
            facts: KeyFacts::of(&key, share),
        })
    }

    /// Opens the data key of a session's key. `None`: the bytes are of another name or of another fleet's key.
    pub fn open(&self, name: KeyName, secret: &[u8]) -> Option<Key> {
        self.open_data_key(&name.label(), secret)
    }

    /// Makes a random data key. Returns the data key, and the data key sealed under this label.
    pub(super) fn new_data_key(&self, label: &str) -> (Key, Vec<u8>) {
        let data_key = frames::new_data_key();
        let secret = self.seal.seal(label, &data_key[..]);
        (data_key, secret)
    }

    /// Opens a data key that was sealed under this label.
    pub(super) fn open_data_key(&self, label: &str, secret: &[u8]) -> Option<Key> {
        let opened = self.seal.open(label, secret)?;
        Some(Key::new(opened.as_slice().try_into().ok()?))
    }
}

/// Opens the object of a session's key.
///
/// # Errors
/// Why the object is no key.
pub fn open_object(data_key: &Key, name: KeyName, object: &[u8]) -> Result<EvaluationKey, String> {
    let bytes = frames::open(data_key, &name.label(), object);
    let bytes = bytes.ok_or("the key's object was changed, or belongs to another session")?;
    container::read_evaluation_key(&bytes).map_err(|error| error.to_string())
}

impl KeyFacts {
    fn of(key: &EvaluationKey, share: Share) -> KeyFacts {
        let params = &key.params;
        KeyFacts {
            preset: key.preset.name().to_owned(),
            imported: key.is_imported(),
            fingerprint: key.fingerprint.map(hex::encode),
            weight: share.weight,
            lwe_dimension: params.lwe_dimension,
            glwe_dimension: params.glwe_dimension,
            polynomial_size: params.polynomial_size,
            bootstrap_base_log: params.bootstrap_base_log,
            bootstrap_level_count: params.bootstrap_level_count,
            key_switch_base: params.key_switch_base,
            key_switch_level_count: params.key_switch_level_count,
            noise: [params.lwe_noise_std.to_bits(), params.glwe_noise_std.to_bits()],
            centred: params.mod_switch == ModSwitch::Centred,
        }
    }

    /// Writes the facts for the session's row.
    pub fn write(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers are JSON")
    }

    /// Reads facts that [`KeyFacts::write`] wrote, and makes the key that work names.
    ///
    /// # Errors
    /// When the text has no such facts.
    pub fn open_key(text: &str, name: KeyName) -> Result<OpenKey, ApiError> {
        let facts: KeyFacts = serde_json::from_str(text).map_err(ApiError::internal)?;
        let wrong = || ApiError::internal("the facts of a key on record");
        let literal = ParamsLiteral {
            lwe_dimension: facts.lwe_dimension,
            glwe_dimension: facts.glwe_dimension,
            polynomial_size: facts.polynomial_size,
            bootstrap_base_log: facts.bootstrap_base_log,
            bootstrap_level_count: facts.bootstrap_level_count,
            key_switch_base: facts.key_switch_base,
            key_switch_level_count: facts.key_switch_level_count,
            lwe_noise_std: f64::from_bits(facts.noise[0]),
            glwe_noise_std: f64::from_bits(facts.noise[1]),
            mod_switch: if facts.centred { ModSwitch::Centred } else { ModSwitch::Nearest },
        };
        let fingerprint = facts.fingerprint.map(hex::decode).transpose().map_err(|_| wrong())?;
        let fingerprint = fingerprint.map(|bytes| bytes.try_into().map_err(|_| wrong())).transpose()?;
        Ok(OpenKey {
            name,
            weight: facts.weight,
            preset: Preset::from_name(&facts.preset).ok_or_else(wrong)?,
            imported: facts.imported,
            params: Params::try_from(literal).map_err(ApiError::internal)?,
            fingerprint,
        })
    }
}
