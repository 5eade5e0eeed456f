//! Keys of clients. A process makes each key only once, because making a key takes some tenths of a second.

use std::sync::LazyLock;

use client::{Preset, SecretKey, container};

/// A secret key, and the bytes of its evaluation key as a client uploads them.
pub struct ClientKey {
    /// The client's secret key.
    pub secret: SecretKey,
    /// The evaluation key that the client sends to the server.
    pub evaluation: Vec<u8>,
}

impl ClientKey {
    fn generate(preset: Preset) -> Self {
        let secret = SecretKey::generate(preset);
        let evaluation = container::write_evaluation_key(&secret.evaluation_key());
        Self { secret, evaluation }
    }

    /// Encrypts a bit. Returns the bytes that a request carries in base64.
    pub fn encrypt(&self, bit: bool) -> Vec<u8> {
        let key = &self.secret;
        container::write_ciphertext(&key.encrypt(bit), key.preset(), Some(key.fingerprint()), container::Form::Ango)
    }

    /// Decrypts the bytes that an answer carries in base64.
    pub fn decrypt(&self, bytes: &[u8]) -> bool {
        let key = &self.secret;
        let read = container::read_ciphertext(bytes, key.preset(), Some(key.fingerprint()));
        key.decrypt(&read.expect("a ciphertext of this key").0)
    }
}

static FAST: LazyLock<ClientKey> = LazyLock::new(|| ClientKey::generate(Preset::Fast128));
static OTHER: LazyLock<ClientKey> = LazyLock::new(|| ClientKey::generate(Preset::Fast128));
static STANDARD: LazyLock<ClientKey> = LazyLock::new(|| ClientKey::generate(Preset::Standard128));
static CONSERVATIVE: LazyLock<ClientKey> = LazyLock::new(|| ClientKey::generate(Preset::Conservative128));
static FAST_K2: LazyLock<ClientKey> = LazyLock::new(|| ClientKey::generate(Preset::Fast128K2));
static STANDARD_K2: LazyLock<ClientKey> = LazyLock::new(|| ClientKey::generate(Preset::Standard128K2));

/// Returns the process's key of a preset.
pub fn of(preset: Preset) -> &'static ClientKey {
    match preset {
        Preset::Fast128 => &FAST,
        Preset::Standard128 => &STANDARD,
        Preset::Conservative128 => &CONSERVATIVE,
        Preset::Fast128K2 => &FAST_K2,
        Preset::Standard128K2 => &STANDARD_K2,
    }
}

/// Returns the key of another client, with preset `fast_128`.
pub fn somebody_elses() -> &'static ClientKey {
    &OTHER
}
