//! Public keys, and evaluation keys as they travel: row by row.

use zeroize::Zeroize;

use super::ciphertext::fill_mask;
use super::params::{Params, PartKind};
use crate::xof;

/// An encryption of 0, by which those who have not the secret encrypt: `(b, a)` with `b = -a s + e`, `a` from the seed.
#[derive(Clone, Debug, PartialEq)]
pub struct PublicKey {
    /// The parameters.
    pub params: Params,
    /// The secret key's random name.
    pub fingerprint: [u8; 8],
    /// The level of what it encrypts.
    pub level: usize,
    /// Seed of `a`.
    pub seed: [u8; 32],
    /// `b`: `[primes of the level][N]` words in the order of [`crate::ring::Ring::forward`].
    pub body: Vec<u32>,
}

impl PublicKey {
    /// `a`, in the form of the body.
    pub fn mask(&self) -> Vec<u32> {
        let mut mask = vec![0; self.body.len()];
        let primes = &self.params.level(self.level).primes;
        fill_mask(&self.params, &self.seed, xof::DOMAIN_PUBLIC_KEY, primes, &mut mask);
        mask
    }
}

/// What a row of an evaluation key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowHeader {
    /// The part of the key that it is a row of.
    pub kind: PartKind,
    /// The highest level that the part serves.
    pub level: u8,
    /// Its number in the part.
    pub digit: u8,
    /// Rows of the part.
    pub digits: u8,
    /// Seed of its mask, its own.
    pub seed: [u8; 32],
}

impl RowHeader {
    /// Words of the row's body.
    pub fn body_words(&self, params: &Params) -> usize {
        params.key_primes(usize::from(self.level)).len() * params.n()
    }
}

/// A row of a part of an evaluation key: `(b, a)` with `b = -a s + e + P s'` modulo the primes of its digit, `-a s + e` modulo the
/// others; `s'` is what the part switches from. The body is overwritten on drop.
#[derive(Clone, PartialEq)]
pub struct KeyRow {
    /// What it is.
    pub header: RowHeader,
    /// `b`: `[primes][N]` words in the order of [`crate::ring::Ring::forward`], for the primes of [`Params::key_primes`].
    pub body: Vec<u32>,
}

impl std::fmt::Debug for KeyRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyRow").field("header", &self.header).finish_non_exhaustive()
    }
}

impl KeyRow {
    /// `[2][primes][N]`: the body, then the mask written out.
    ///
    /// # Panics
    /// When the row is not of these parameters.
    pub fn expand(&self, params: &Params) -> Vec<u32> {
        assert_eq!(self.body.len(), self.header.body_words(params), "a row of these parameters");
        let mut words = Vec::with_capacity(2 * self.body.len());
        words.extend(&self.body);
        words.resize(2 * self.body.len(), 0);
        let primes = params.key_primes(usize::from(self.header.level));
        let mask = &mut words[self.body.len()..];
        fill_mask(params, &self.header.seed, xof::DOMAIN_SWITCHING_KEY, &primes, mask);
        words
    }
}

impl Drop for KeyRow {
    fn drop(&mut self) {
        self.body.zeroize();
    }
}
