//! Public keys, and evaluation keys in their wire form, row by row.

use zeroize::Zeroize;

use super::ciphertext::fill_mask;
use super::params::{Params, PartKind};
use crate::xof;

/// A public key: an encryption of 0, `(b, a)` with `b = -a s + e` and `a` from the seed. Clients can encrypt with this
/// key without the secret.
#[derive(Clone, Debug, PartialEq)]
pub struct PublicKey {
    /// The parameters.
    pub params: Params,
    /// Random fingerprint of the secret key.
    pub fingerprint: [u8; 8],
    /// Level of the ciphertexts that this key makes.
    pub level: usize,
    /// Seed of `a`.
    pub seed: [u8; 32],
    /// `b`: `[primes of the level][N]` words in the order of [`crate::ring::Ring::forward`].
    pub body: Vec<u32>,
}

impl PublicKey {
    /// Expands the mask `a`, in the form of the body.
    pub fn mask(&self) -> Vec<u32> {
        let mut mask = vec![0; self.body.len()];
        let primes = &self.params.level(self.level).primes;
        fill_mask(&self.params, &self.seed, xof::DOMAIN_PUBLIC_KEY, primes, &mut mask);
        mask
    }
}

/// The header of an evaluation key's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowHeader {
    /// The kind of the row's part.
    pub kind: PartKind,
    /// The highest level at which the part works.
    pub level: u8,
    /// The row's index in the part.
    pub digit: u8,
    /// Number of rows in the part.
    pub digits: u8,
    /// Seed of this row's mask.
    pub seed: [u8; 32],
    /// Tag of the sparse secret, for the parts that switch to it and from it; 0 in keys without tags. 0 for all other
    /// kinds.
    pub sparse_tag: u32,
}

impl RowHeader {
    /// Number of words in the row's body.
    pub fn body_words(&self, params: &Params) -> usize {
        params.key_primes(self.kind, usize::from(self.level)).len() * params.n()
    }
}

/// A row of a part of an evaluation key: `(b, a)`, where `s'` is the secret that the part switches from. Modulo the
/// primes of the row's digit, `b = -a s + e + P s'`; modulo the other primes, `b = -a s + e`. The body is overwritten
/// on drop.
#[derive(Clone, PartialEq)]
pub struct KeyRow {
    /// The row's header.
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
    /// Returns the body and the expanded mask, `[2][primes][N]`.
    ///
    /// # Panics
    /// When the row belongs to other parameters.
    pub fn expand(&self, params: &Params) -> Vec<u32> {
        assert_eq!(self.body.len(), self.header.body_words(params), "a row of these parameters");
        let mut words = Vec::with_capacity(2 * self.body.len());
        words.extend(&self.body);
        words.resize(2 * self.body.len(), 0);
        let primes = params.key_primes(self.header.kind, usize::from(self.header.level));
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
