//! Secret keys that the server makes. The server holds the secret keys of demonstration sessions (readings G8). A
//! secret key for encrypted numbers (CKKS) is overwritten as soon as its public keys are made (readings K9).
//!
//! No other file of the server may hold a secret key. Without the feature `held-keys` the types here have no value, and
//! the binary contains no code that can decrypt. The keys exist only in memory and are overwritten on drop.

#[cfg(feature = "held-keys")]
mod held {
    use client::ckks::{self, container};
    use zeroize::Zeroizing;

    use crate::work::numbers::Params;
    use crate::work::{EvaluationKey, Lwe, Preset};

    /// A secret key for encrypted numbers (CKKS), held while its public and evaluation keys are made.
    pub struct HeldNumbersKey {
        secret: ckks::SecretKey,
        parts: Vec<(ckks::PartKind, usize)>,
    }

    impl HeldNumbersKey {
        /// Makes a secret key. `None`: this build cannot hold keys.
        pub fn generate(params: &Params) -> Option<HeldNumbersKey> {
            let parts = ckks::evaluation_key_parts(params);
            Some(HeldNumbersKey { secret: ckks::SecretKey::generate(params), parts })
        }

        /// Writes the public key as a container.
        pub fn public_key(&self) -> Vec<u8> {
            container::write_public_key(&self.secret.public_key(self.secret.params().level_max()))
        }

        /// Writes the head of the evaluation key. The head stands before the key's rows.
        pub fn head(&self) -> Vec<u8> {
            container::write_key_head(self.secret.params(), self.secret.fingerprint(), &self.parts)
        }

        /// Returns the number of parts of the evaluation key: relinearization, rotations by powers of two (readings
        /// K18), bootstrapping.
        pub fn parts(&self) -> usize {
            self.parts.len()
        }

        /// Makes the rows of a part, each as a container. Takes tenths of a second of CPU time for large parameters, so
        /// call this outside the async threads.
        pub fn rows(&self, part: usize) -> Vec<Vec<u8>> {
            let (kind, level) = self.parts[part];
            let params = self.secret.params();
            self.secret.part(kind, level).map(|row| container::write_row(params, &row)).collect()
        }

        /// Writes the secret key as a container.
        pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
            self.secret.to_bytes()
        }
    }

    /// A secret key for encrypted bits in the server's memory.
    pub struct HeldKey(client::SecretKey);

    impl HeldKey {
        /// Makes a key pair. Takes some tenths of a second of CPU time, so call this outside the async threads. `None`:
        /// this build cannot hold keys.
        pub fn generate(preset: Preset) -> Option<(HeldKey, EvaluationKey)> {
            let secret = client::SecretKey::generate(preset);
            let evaluation = secret.evaluation_key();
            Some((HeldKey(secret), evaluation))
        }

        /// Encrypts a bit.
        pub fn encrypt(&self, bit: bool) -> Lwe {
            self.0.encrypt(bit)
        }

        /// Decrypts a ciphertext of this key.
        pub fn decrypt(&self, ciphertext: &Lwe) -> bool {
            self.0.decrypt(ciphertext)
        }
    }
}

#[cfg(not(feature = "held-keys"))]
mod held {
    use zeroize::Zeroizing;

    use crate::work::numbers::Params;
    use crate::work::{EvaluationKey, Lwe, Preset};

    /// In this build the type has no values.
    pub enum HeldNumbersKey {}

    impl HeldNumbersKey {
        /// Returns `None`, because this build cannot hold keys.
        pub fn generate(_params: &Params) -> Option<HeldNumbersKey> {
            None
        }

        /// Never called, because the type has no values.
        pub fn public_key(&self) -> Vec<u8> {
            match *self {}
        }

        /// Never called, because the type has no values.
        pub fn head(&self) -> Vec<u8> {
            match *self {}
        }

        /// Never called, because the type has no values.
        pub fn parts(&self) -> usize {
            match *self {}
        }

        /// Never called, because the type has no values.
        pub fn rows(&self, _part: usize) -> Vec<Vec<u8>> {
            match *self {}
        }

        /// Never called, because the type has no values.
        pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
            match *self {}
        }
    }

    /// In this build the type has no values.
    pub enum HeldKey {}

    impl HeldKey {
        /// Returns `None`, because this build cannot hold keys.
        pub fn generate(_preset: Preset) -> Option<(HeldKey, EvaluationKey)> {
            None
        }

        /// Never called, because the type has no values.
        pub fn encrypt(&self, _bit: bool) -> Lwe {
            match *self {}
        }

        /// Never called, because the type has no values.
        pub fn decrypt(&self, _ciphertext: &Lwe) -> bool {
            match *self {}
        }
    }
}

pub use held::{HeldKey, HeldNumbersKey};
