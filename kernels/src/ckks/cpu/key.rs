//! Parts of an evaluation key as the loops read them.

use super::Evaluator;
use crate::cpu::automorphism::swap_order;
use crate::cpu::gadget;
use crate::cpu::memory::Words;
use crate::error::Result;

/// A part of an evaluation key on the processor. Overwritten on drop.
pub struct LoadedPart {
    /// Its digits, as indices of primes.
    pub(super) digits: Vec<Vec<usize>>,
    /// Its primes: the ciphertexts' up to its level, then the special ones.
    pub(super) primes: Vec<usize>,
    /// `[primes][2 digits N]`, as [`gadget::arrange`] leaves them.
    words: Words,
}

impl LoadedPart {
    /// The words for a prime.
    pub(super) fn of_prime(&self, prime: usize) -> &[u32] {
        let at = self.primes.iter().position(|&of| of == prime).expect("a key covers the primes of its levels");
        let row = self.words.len() / self.primes.len();
        &self.words[at * row..][..row]
    }
}

impl Evaluator {
    /// Lays a part out: `rows` are its rows by digits, each `[2][primes][N]` words in the order of [`crate::ring::Ring::forward`], the
    /// body before the mask, for the primes of [`crate::ckks::Params::key_primes`].
    ///
    /// # Errors
    /// When there is no memory.
    ///
    /// # Panics
    /// When the words are not as many as digits and primes ask for.
    pub fn load_part(&self, digits: &[Vec<usize>], primes: &[usize], rows: &[&[u32]]) -> Result<LoadedPart> {
        let n = self.params.n();
        assert!(rows.len() == digits.len() && rows.iter().all(|row| row.len() == 2 * primes.len() * n), "whole rows");
        let of_prime = 2 * digits.len() * n;
        let mut words = Words::zeroed(primes.len() * of_prime)?;
        let mut swapped = vec![0; of_prime];
        for (at, (&prime, out)) in primes.iter().zip(words.chunks_exact_mut(of_prime)).enumerate() {
            for (digit, out) in rows.iter().zip(swapped.chunks_exact_mut(2 * n)) {
                for (polynomial, out) in out.chunks_exact_mut(n).enumerate() {
                    swap_order(&self.tables[0], &digit[(polynomial * primes.len() + at) * n..][..n], out);
                }
            }
            let pairs: Vec<[&[u32]; 2]> = swapped.chunks_exact(2 * n).map(|pair| pair.split_at(n).into()).collect();
            gadget::arrange(self.isa.lanes(), self.params.primes()[prime], &pairs, out);
        }
        Ok(LoadedPart { digits: digits.to_vec(), primes: primes.to_vec(), words })
    }
}
