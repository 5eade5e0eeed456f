//! Parts of an evaluation key in the layout that the loops read.

use super::Evaluator;
use crate::ckks::params::Params;
use crate::cpu::automorphism::swap_order;
use crate::cpu::gadget;
use crate::cpu::memory::Words;
use crate::error::Result;

/// A part of an evaluation key on the CPU. Overwritten on drop.
pub struct LoadedPart {
    /// The part's digits, as indices of primes.
    pub(super) digits: Vec<Vec<usize>>,
    /// The part's primes: the primes of ciphertexts up to the part's level, then its special primes.
    pub(super) primes: Vec<usize>,
    /// `[primes][2 digits N]`, in the order of [`gadget::arrange`].
    words: Words,
}

impl LoadedPart {
    /// Returns the part's words for one prime.
    pub(super) fn of_prime(&self, prime: usize) -> &[u32] {
        let at = self.primes.iter().position(|&of| of == prime).expect("a key covers the primes of its levels");
        let row = self.words.len() / self.primes.len();
        &self.words[at * row..][..row]
    }

    /// How many special primes the part has.
    pub(super) fn special_count(&self, params: &Params) -> usize {
        self.primes.iter().filter(|&&prime| prime >= params.chain().ciphertext_primes()).count()
    }

    /// The primes that the part covers.
    pub(super) fn primes(&self) -> &[usize] {
        &self.primes
    }
}

impl Evaluator {
    /// Allocates room for a part with these digits and these primes ([`crate::ckks::Params::key_primes`]).
    ///
    /// # Errors
    /// When memory runs out.
    pub fn room_for_part(&self, digits: &[Vec<usize>], primes: &[usize]) -> Result<LoadedPart> {
        let words = Words::zeroed(primes.len() * 2 * digits.len() * self.params.n())?;
        Ok(LoadedPart { digits: digits.to_vec(), primes: primes.to_vec(), words })
    }

    /// Stores a row of the part: its body and its mask, each `[primes][N]` words in the order of
    /// [`crate::ring::Ring::forward`].
    ///
    /// # Panics
    /// When the number of words does not match the part's primes, or the part has no such digit.
    pub fn load_row(&self, part: &mut LoadedPart, digit: usize, polynomials: [&[u32]; 2]) {
        let n = self.params.n();
        let LoadedPart { digits, primes, words } = part;
        let whole = polynomials.iter().all(|words| words.len() == primes.len() * n);
        assert!(digit < digits.len() && whole, "a row a prime");
        let mut swapped = vec![0; n];
        for (at, (&prime, out)) in primes.iter().zip(words.chunks_exact_mut(2 * digits.len() * n)).enumerate() {
            for (c, polynomial) in polynomials.iter().enumerate() {
                swap_order(&self.tables[0], &polynomial[at * n..][..n], &mut swapped);
                let modulus = self.params.primes()[prime];
                gadget::arrange(self.isa.lanes(), modulus, &swapped, 2 * digit + c, out);
            }
        }
    }
}

#[cfg(test)]
impl LoadedPart {
    /// Returns the row of this digit in the form in which [`Evaluator::load_row`] received it.
    pub(super) fn row(&self, evaluator: &Evaluator, digit: usize) -> [Vec<u32>; 2] {
        let (n, lanes) = (evaluator.params.n(), evaluator.isa.lanes());
        let step = 2 * self.digits.len() * lanes;
        [0, 1].map(|c| {
            let mut out = Vec::new();
            for &prime in &self.primes {
                let modulus = evaluator.params.primes()[prime];
                let undo = modulus.inverse(modulus.pow(2, 32));
                let blocks = self.of_prime(prime).chunks_exact(step);
                let row: Vec<u32> =
                    blocks.flat_map(|block| block[(2 * digit + c) * lanes..][..lanes].to_vec()).collect();
                let mut swapped = vec![0; n];
                swap_order(&evaluator.tables[0], &row, &mut swapped);
                out.extend(swapped.into_iter().map(|word| modulus.mul(word, undo)));
            }
            out
        })
    }
}
