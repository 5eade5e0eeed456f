//! LWE ciphertexts of a bit.

use zeroize::Zeroize;

/// `+1/8` of a turn: the phase of a true bit. The phase of a false bit is the negation of this number.
pub const EIGHTH: u32 = 1 << 29;

/// An LWE ciphertext of one bit on the 32-bit torus: `[n + 1]` words, mask `a` then body `b`.
///
/// Phase `b - <a, s>` is `+2^29` for true and `-2^29` for false, plus noise.
#[derive(Clone, Debug, PartialEq, Eq, Zeroize)]
pub struct Lwe {
    words: Vec<u32>,
}

impl Lwe {
    /// A ciphertext from `[n + 1]` words: the mask, then the body.
    ///
    /// # Panics
    /// When `words` is empty, because every ciphertext has a body.
    pub fn new(words: Vec<u32>) -> Self {
        assert!(!words.is_empty(), "an LWE ciphertext has a body");
        Self { words }
    }

    /// A ciphertext of `bit` without mask and noise, readable without a key. Constants of circuits are such
    /// ciphertexts, and so is the result of a gate that folds to a constant ([`super::fold`]).
    pub fn trivial(lwe_dimension: usize, bit: bool) -> Self {
        let mut words = vec![0; lwe_dimension + 1];
        words[lwe_dimension] = Self::trivial_body(bit);
        Self { words }
    }

    /// The body of a trivial ciphertext, which is the bit's phase: `+-2^29`.
    pub fn trivial_body(bit: bool) -> u32 {
        if bit { EIGHTH } else { EIGHTH.wrapping_neg() }
    }

    /// `n`, the number of mask words.
    pub fn dimension(&self) -> usize {
        self.words.len() - 1
    }

    /// All `[n + 1]` words: the mask, then the body.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Returns the words, `[n + 1]`.
    pub fn into_words(self) -> Vec<u32> {
        self.words
    }
}
