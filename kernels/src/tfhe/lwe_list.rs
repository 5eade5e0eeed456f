//! Many LWE ciphertexts in one block of words, the form that devices and the wire use.

use std::ops::Range;

use crate::tfhe::lwe::Lwe;
use crate::xof::{self, Rows};

/// LWE ciphertexts of one dimension, one after another: `[count][n + 1]` words, each ciphertext mask then body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LweList {
    words: Vec<u32>,
    /// Number of words of a ciphertext, `n + 1`.
    row_words: usize,
}

impl LweList {
    /// An empty list with room for `count` ciphertexts of dimension n.
    pub fn with_capacity(lwe_dimension: usize, count: usize) -> Self {
        let row_words = lwe_dimension + 1;
        Self { words: Vec::with_capacity(count * row_words), row_words }
    }

    /// Makes a list of the ciphertexts in these words, which lie one after another.
    ///
    /// # Panics
    /// When the last ciphertext is cut short.
    pub fn from_words(lwe_dimension: usize, words: Vec<u32>) -> Self {
        let row_words = lwe_dimension + 1;
        assert!(words.len().is_multiple_of(row_words), "whole ciphertexts");
        Self { words, row_words }
    }

    /// `n`, the number of mask words of each ciphertext.
    pub fn dimension(&self) -> usize {
        self.row_words - 1
    }

    /// The number of ciphertexts.
    pub fn len(&self) -> usize {
        self.words.len() / self.row_words
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Appends a ciphertext, `[n + 1]` words.
    ///
    /// # Panics
    /// When the ciphertext has another dimension.
    pub fn push(&mut self, ciphertext: &[u32]) {
        assert_eq!(ciphertext.len(), self.row_words, "a ciphertext of another dimension");
        self.words.extend_from_slice(ciphertext);
    }

    /// Appends the ciphertexts of another list.
    ///
    /// # Panics
    /// When the dimensions differ.
    pub fn append(&mut self, others: &LweList) {
        assert_eq!(others.row_words, self.row_words, "ciphertexts of another dimension");
        self.words.extend_from_slice(&others.words);
    }

    /// Appends the ciphertexts with the masks of this seed ([`crate::tfhe::SeededLweList`]) and these bodies. The masks
    /// are expanded in place.
    pub fn append_seeded(&mut self, seed: &[u8; 32], bodies: &[u32]) {
        self.words.reserve(bodies.len() * self.row_words);
        let rows = Rows::of(seed, xof::DOMAIN_CIPHERTEXT);
        for (row, &body) in bodies.iter().enumerate() {
            // one row at a time, so that the row's zeros are still in the cache when the mask overwrites them
            let at = self.words.len();
            self.words.resize(at + self.row_words - 1, 0);
            rows.fill_torus(row as u64, &mut self.words[at..]);
            self.words.push(body);
        }
    }

    /// The words of the ciphertext at this index.
    ///
    /// # Panics
    /// When the index is out of range.
    pub fn row(&self, at: usize) -> &[u32] {
        self.rows(at..at + 1)
    }

    /// The words of a range of ciphertexts, one after another.
    ///
    /// # Panics
    /// When the range is outside the list.
    pub fn rows(&self, range: Range<usize>) -> &[u32] {
        &self.words[range.start * self.row_words..range.end * self.row_words]
    }

    /// The words of each ciphertext, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        self.words.chunks_exact(self.row_words)
    }

    /// All words.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Returns all words.
    pub fn into_words(self) -> Vec<u32> {
        self.words
    }

    /// Overwrites all words as one block. This is faster than `zeroize`, which writes word by word.
    pub fn overwrite(&mut self) {
        self.words.fill(0);
        std::hint::black_box(&mut self.words); // `black_box` counts as a read, so the compiler keeps the writes
    }

    /// Copies each ciphertext to an [`Lwe`].
    pub fn to_lwes(&self) -> Vec<Lwe> {
        self.iter().map(|words| Lwe::new(words.to_vec())).collect()
    }
}

impl AsRef<LweList> for LweList {
    fn as_ref(&self) -> &LweList {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ciphertexts_stand_one_after_another() {
        let mut list = LweList::with_capacity(2, 3);
        assert!(list.is_empty());
        list.push(&[1, 2, 3]);
        list.append(&LweList::from_words(2, vec![4, 5, 6, 7, 8, 9]));
        assert_eq!((list.len(), list.dimension(), list.row(1)), (3, 2, &[4, 5, 6][..]));
        assert_eq!(list.rows(1..3), [4, 5, 6, 7, 8, 9]);
        assert_eq!(list.to_lwes()[2], Lwe::new(vec![7, 8, 9]));
    }

    #[test]
    fn overwritten_words_are_zero() {
        let mut list = LweList::from_words(2, (1..=600).collect());
        list.overwrite();
        assert_eq!(list.words(), [0; 600]);
    }

    #[test]
    #[should_panic(expected = "another dimension")]
    fn a_ciphertext_of_another_dimension_is_a_bug() {
        LweList::with_capacity(2, 1).push(&[1, 2]);
    }
}
