//! Secret keys that the server makes: those of demonstration sessions, which it holds (readings G8), and those of generated
//! encryption keys, which it overwrites at once (readings K9).
//!
//! The only server file that may hold a secret key. Without the feature `held-keys` the type has no value and the binary
//! no code that can decrypt. Keys live in memory alone and are overwritten when dropped.

#[cfg(feature = "held-keys")]
mod held {
    use client::ckks::{self, container};
    use zeroize::Zeroizing;

    use crate::compute::engine::numbers::Params;
    use crate::compute::engine::{EvaluationKey, Lwe, Preset};

    /// A secret key for numbers while its public and evaluation keys are made.
    pub struct HeldNumbersKey {
        secret: ckks::SecretKey,
        parts: Vec<(ckks::PartKind, usize)>,
    }

    impl HeldNumbersKey {
        /// Makes a secret key. `None`: this build holds no keys.
        pub fn generate(params: &Params) -> Option<HeldNumbersKey> {
            let parts = ckks::evaluation_key_parts(params);
            Some(HeldNumbersKey { secret: ckks::SecretKey::generate(params), parts })
        }

        /// The public key's container.
        pub fn public_key(&self) -> Vec<u8> {
            container::write_public_key(&self.secret.public_key(self.secret.params().level_max()))
        }

        /// What stands before the rows of the evaluation key.
        pub fn head(&self) -> Vec<u8> {
            container::write_key_head(self.secret.params(), self.secret.fingerprint(), &self.parts)
        }

        /// Parts of the evaluation key: relinearization, rotations by powers of two (readings K18), bootstrapping.
        pub fn parts(&self) -> usize {
            self.parts.len()
        }

        /// The rows of a part. Tenths of a second of computing for large parameters.
        pub fn rows(&self, part: usize) -> Vec<Vec<u8>> {
            let (kind, level) = self.parts[part];
            let params = self.secret.params();
            self.secret.part(kind, level).map(|row| container::write_row(params, &row)).collect()
        }

        /// The secret key's container.
        pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
            self.secret.to_bytes()
        }
    }

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
    use zeroize::Zeroizing;

    use crate::compute::engine::numbers::Params;
    use crate::compute::engine::{EvaluationKey, Lwe, Preset};

    /// No value of this type exists in this build.
    pub enum HeldNumbersKey {}

    impl HeldNumbersKey {
        /// `None`: this build holds no keys.
        pub fn generate(_params: &Params) -> Option<HeldNumbersKey> {
            None
        }

        /// Never called: there is no key.
        pub fn public_key(&self) -> Vec<u8> {
            match *self {}
        }

        /// Never called: there is no key.
        pub fn head(&self) -> Vec<u8> {
            match *self {}
        }

        /// Never called: there is no key.
        pub fn parts(&self) -> usize {
            match *self {}
        }

        /// Never called: there is no key.
        pub fn rows(&self, _part: usize) -> Vec<Vec<u8>> {
            match *self {}
        }

        /// Never called: there is no key.
        pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
            match *self {}
        }
    }

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

pub use held::{HeldKey, HeldNumbersKey};
