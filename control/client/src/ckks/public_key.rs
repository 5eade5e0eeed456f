//! Encryption without the secret key.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::Rng;
use kernels::ckks::encode::Rounded;
use kernels::ckks::{Ciphertext, Noise, PublicKey};
use zeroize::Zeroizing;

use super::EncryptError;
use super::context::Context;
use super::secret_key::noise;
use crate::secret_key::{secret_generator, ternary};

/// Encrypts with a public key.
pub struct Encryptor {
    context: Context,
    key: PublicKey,
    /// The mask of the key, expanded from its seed.
    mask: Vec<u32>,
}

impl Encryptor {
    /// An encryptor with this key.
    pub fn new(key: PublicKey) -> Encryptor {
        Encryptor { context: Context::new(&key.params), mask: key.mask(), key }
    }

    /// The key.
    pub fn key(&self) -> &PublicKey {
        &self.key
    }

    /// A fresh encryption of `N / 2` numbers of magnitude up to `value_bound`, at the key's level.
    ///
    /// # Errors
    /// When the number of values is wrong, a number is not finite or above the bound, or the bound does not fit the
    /// modulus.
    pub fn encrypt(&self, values: &[f64], value_bound: f64) -> Result<Ciphertext, EncryptError> {
        self.context.check(values, value_bound)?;
        let plaintext = self.context.encode(values, value_bound, self.key.level)?;
        Ok(self.encrypt_plaintext(&plaintext, value_bound, &mut secret_generator()))
    }

    /// The ciphertext `(b u + e0 + m, a u + e1)` with a fresh ternary `u`.
    pub(crate) fn encrypt_plaintext(&self, plaintext: &Rounded, value_bound: f64, rng: &mut ChaCha20Rng) -> Ciphertext {
        let (level, n) = (self.key.level, self.key.params.n());
        let of_level = self.key.params.level(level);
        let small: Zeroizing<Vec<i8>> = Zeroizing::new((0..n).map(|_| ternary(rng.next_u32())).collect());
        let [e0, e1] = [noise(n, rng), noise(n, rng)];
        let mut words = vec![0; 2 * self.mask.len()];
        let (c0, c1) = words.split_at_mut(self.mask.len());
        let mut transformed = Zeroizing::new(vec![0; n]);
        for (at, &prime) in of_level.primes.iter().enumerate() {
            let (c0, c1) = (&mut c0[at * n..][..n], &mut c1[at * n..][..n]);
            let ring = self.context.ring(prime);
            self.context.transformed(prime, &small, &mut transformed);
            self.context.noisy_plaintext(prime, plaintext, &e0, c0);
            ring.multiply_add(c0, &self.key.body[at * n..][..n], &transformed);
            self.context.transformed(prime, &e1, c1);
            ring.multiply_add(c1, &self.mask[at * n..][..n], &transformed);
        }
        let noise = Noise::encrypt_public(n, value_bound).encoded(n, of_level.scale);
        Ciphertext { level, scale: of_level.scale, noise, words }
    }
}
