//! Secret keys that the server makes and holds: demonstration sessions only (readings G8).
//!
//! The only server file that may hold a secret key. Without the feature `held-keys` the type has no value and the binary
//! no code that can decrypt. Keys live in memory alone and are overwritten when dropped.

#[cfg(feature = "held-keys")]
mod held {
    use crate::compute::engine::{EvaluationKey, Lwe, Preset};

    /// A secret key in the server's memory.
    pub struct HeldKey(client::SecretKey);

    impl HeldKey {
        /// Makes a key pair: some tenths of a second of computing. `None`: this build holds no keys.
        pub fn generate(preset: Preset) -> Option<(HeldKey, EvaluationKey)> {
            let secret = client::SecretKey::generate(preset);
            let evaluation = secret.evaluation_key();
            Some((HeldKey(secret), evaluation))
        }

        /// A fresh ciphertext of this bit.
        pub fn encrypt(&self, bit: bool) -> Lwe {
            self.0.encrypt(bit)
        }

        /// The bit of a ciphertext of this key.
        pub fn decrypt(&self, ciphertext: &Lwe) -> bool {
            self.0.decrypt(ciphertext)
        }
    }
}

#[cfg(not(feature = "held-keys"))]
mod held {
    use crate::compute::engine::{EvaluationKey, Lwe, Preset};

    /// No value of this type exists in this build.
    pub enum HeldKey {}

    impl HeldKey {
        /// `None`: this build holds no keys.
        pub fn generate(_preset: Preset) -> Option<(HeldKey, EvaluationKey)> {
            None
        }

        /// Never called: there is no key.
        pub fn encrypt(&self, _bit: bool) -> Lwe {
            match *self {}
        }

        /// Never called: there is no key.
        pub fn decrypt(&self, _ciphertext: &Lwe) -> bool {
            match *self {}
        }
    }
}

pub use held::HeldKey;
