//! A part of an evaluation key in a card's memory.

use super::compiled::Shape;
use super::tables::Tables;
use crate::ckks::backend::{PartShape, SeededRow};
use crate::cpu::{for_each_chunk, threads_available};
use crate::error::Result;
use crate::gpu::space::{PAGE_WORDS, Pages, Place, place_of};
use crate::gpu::{Device, Gpu};
use crate::ring::Root;
use crate::xof::{DOMAIN_SWITCHING_KEY, fill_residues};

/// A part of an evaluation key in a card's memory: `[digits][primes][2][N]` words, each polynomial in the order in
/// which lanes read it. Overwritten on drop.
pub struct Part<G: Gpu> {
    /// The part's digits, as indices of primes.
    pub(super) digits: Vec<Vec<usize>>,
    /// The part's primes: the primes of ciphertexts up to the part's level, then its special primes.
    pub(super) primes: Vec<usize>,
    polynomial_size: usize,
    pub(super) pages: Pages<G>,
}

/// Returns the number of bytes that a part takes.
pub(super) fn bytes(shape: &PartShape) -> u64 {
    let words = 2 * shape.digits().len() * shape.body_words();
    4 * words.next_multiple_of(PAGE_WORDS) as u64
}

/// The place of value `at` in a polynomial of a key, which is `[rows][row / 32 / quad][32][quad]`: in the order in
/// which the 32 lanes of a warp read `quad` words each. `shaders/ntt_rows.*` read keys in this order.
fn in_key(shape: Shape, at: usize) -> usize {
    let (of_lane, quad) = (shape.row / 32, shape.quad());
    let (lane, word) = (at % shape.row / of_lane, at % of_lane);
    at / shape.row * shape.row + 32 * (word / quad * quad) + quad * lane + word % quad
}

impl<G: Gpu> Part<G> {
    /// Allocates room for a part.
    pub(super) fn room(device: &Device<G>, shape: &PartShape) -> Result<Part<G>> {
        let pages = device.keys().take_run(device.gpu(), 2 * shape.digits().len() * shape.body_words())?;
        Ok(Part { digits: shape.digits(), primes: shape.primes(), polynomial_size: shape.params.n(), pages })
    }

    /// Expands a row's mask and writes the row, every word times `2^32`.
    pub(super) fn load_row(&self, gpu: &G, tables: &Tables<G>, row: &SeededRow<'_>) -> Result<()> {
        let (n, shape) = (self.polynomial_size, tables.stems.shape);
        assert!(row.digit < self.digits.len() && row.body.len() == self.primes.len() * n, "a row of the part");
        let mut words = vec![0; 2 * row.body.len()];
        for_each_chunk(threads_available(), &mut words, 2 * n, |at, words| {
            let (prime, modulus) = (self.primes[at], tables.params.primes()[self.primes[at]]);
            let mut mask = vec![0; n];
            fill_residues(row.seed, DOMAIN_SWITCHING_KEY, prime as u64, modulus, &mut mask);
            let unit = Root::new(modulus, modulus.pow(2 % modulus.q(), 32));
            for (polynomial, out) in [&row.body[at * n..][..n], &mask].into_iter().zip(words.chunks_exact_mut(n)) {
                for (value, &word) in polynomial.iter().enumerate() {
                    let lazy = modulus.mul_lazy(word, unit.value, unit.companion);
                    out[in_key(shape, value)] = modulus.reduce_once(lazy);
                }
            }
        });
        gpu.write(self.pages.buf(), self.pages.first_word(0) + row.digit * words.len(), &words)
    }

    /// The place of a digit's row under a prime, `[2][N]`.
    pub(super) fn place(&self, digit: usize, prime: usize) -> Place {
        let at = self.primes.iter().position(|&of| of == prime).expect("a key covers the primes of its levels");
        let row = 2 * self.polynomial_size;
        place_of(self.pages.first_word(0) + (digit * self.primes.len() + at) * row)
    }

    /// How many special primes the part has.
    pub(super) fn special_count(&self, first_special: usize) -> usize {
        self.primes.iter().filter(|&&prime| prime >= first_special).count()
    }
}
