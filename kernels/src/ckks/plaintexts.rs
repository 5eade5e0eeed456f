//! Plaintexts as words, in the form in which devices take them.

use super::encode::{Complex, EncodeError, Encoder, Rounded};
use super::params::Params;
use crate::ring::Ring;

/// Encodes plaintexts for one parameter set. The tables take 16 bytes for each prime and coefficient.
pub struct Plaintexts {
    params: Params,
    encoder: Encoder,
    rings: Vec<Ring>,
}

impl Plaintexts {
    /// Makes the tables for these parameters.
    pub fn new(params: &Params) -> Plaintexts {
        let ciphertext_primes = &params.primes()[..params.chain().ciphertext_primes()];
        let rings = ciphertext_primes.iter().map(|&prime| Ring::new(prime, params.n())).collect();
        Plaintexts { params: params.clone(), encoder: Encoder::new(params.n()), rings }
    }

    /// Encodes slots as `[primes of the level][N]` words in the order of [`Ring::forward`].
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    ///
    /// # Panics
    /// When there are not `N / 2` values.
    pub fn encode(&self, values: &[Complex], level: usize, scale: f64) -> Result<Vec<u32>, EncodeError> {
        let rounded = self.encoder.encode(values, scale, self.params.level(level).log_modulus)?;
        Ok(self.words(&rounded, level))
    }

    /// Like [`Plaintexts::encode`], but for real numbers.
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    ///
    /// # Panics
    /// When there are not `N / 2` values.
    pub fn encode_reals(&self, values: &[f64], level: usize, scale: f64) -> Result<Vec<u32>, EncodeError> {
        let rounded = self.encoder.encode_reals(values, scale, self.params.level(level).log_modulus)?;
        Ok(self.words(&rounded, level))
    }

    /// Encodes i in every slot: the polynomial `X^(N/2)` at scale 1.
    pub fn imaginary_unit(&self, level: usize) -> Vec<u32> {
        let n = self.params.n();
        self.rows(level, |_, row| row[n / 2] = 1)
    }

    fn words(&self, rounded: &Rounded, level: usize) -> Vec<u32> {
        self.rows(level, |ring, row| rounded.residues(ring.modulus, row))
    }

    fn rows(&self, level: usize, fill: impl Fn(&Ring, &mut [u32])) -> Vec<u32> {
        let n = self.params.n();
        let primes = &self.params.level(level).primes;
        let mut words = vec![0; primes.len() * n];
        for (&prime, row) in primes.iter().zip(words.chunks_exact_mut(n)) {
            fill(&self.rings[prime], row);
            self.rings[prime].forward(row);
        }
        words
    }
}
