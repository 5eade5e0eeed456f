//! Ciphertexts of vectors of numbers.

use super::noise::Noise;
use super::params::Params;
use super::sources::Sources;
use crate::xof;

/// A ciphertext `(c0, c1)`; its phase under the secret `s` is `c0 + c1 s`.
#[derive(Clone, Debug, PartialEq)]
pub struct Ciphertext {
    /// Level of the ciphertext.
    pub level: usize,
    /// The exact factor between the numbers and their encoding.
    pub scale: f64,
    /// Bounds on the numbers and the error.
    pub noise: Noise,
    /// `[2][primes of the level][N]` words in the order of [`crate::ring::Ring::forward`].
    pub words: Vec<u32>,
}

/// A ciphertext with a seed in place of `c1`. Clients send this form.
#[derive(Clone, Debug, PartialEq)]
pub struct SeededCiphertext {
    /// Level of the ciphertext.
    pub level: usize,
    /// The exact factor between the numbers and their encoding.
    pub scale: f64,
    /// Bounds on the numbers and the error.
    pub noise: Noise,
    /// Seed of `c1`: public, used for one ciphertext only.
    pub seed: [u8; 32],
    /// `c0`: `[primes of the level][N]` words in the order of [`crate::ring::Ring::forward`].
    pub body: Vec<u32>,
}

impl SeededCiphertext {
    /// Returns the same ciphertext in its full form: `c1` is expanded from the seed.
    ///
    /// # Panics
    /// When the body has the size of another level.
    pub fn expand(&self, params: &Params) -> Ciphertext {
        let primes = &params.level(self.level).primes;
        assert_eq!(self.body.len(), primes.len() * params.n(), "a body of its level");
        let mut words = self.body.clone();
        words.resize(2 * self.body.len(), 0);
        let mask = &mut words[self.body.len()..];
        fill_mask(params, &self.seed, xof::DOMAIN_NUMBERS, primes, mask);
        let noise = Noise { sources: Sources::of_seed(&self.seed), ..self.noise };
        Ciphertext { level: self.level, scale: self.scale, noise, words }
    }
}

/// Fills `out`, `[primes][N]`, with the mask of a seed: the transform of a uniformly random polynomial.
///
/// # Panics
/// When `out` does not have one row for each prime.
pub fn fill_mask(params: &Params, seed: &[u8; 32], domain: u32, primes: &[usize], out: &mut [u32]) {
    assert_eq!(out.len(), primes.len() * params.n(), "a row a prime");
    for (&prime, row) in primes.iter().zip(out.chunks_exact_mut(params.n())) {
        xof::fill_residues(seed, domain, prime as u64, params.primes()[prime], row);
    }
}
