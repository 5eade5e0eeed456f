//! Plaintexts as words, in the form in which devices take them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::encode::{Complex, EncodeError, Encoder, Rounded};
use super::matrices::Matrices;
use super::params::Params;
use super::room;
use crate::ring::Ring;

/// Encodes plaintexts for one parameter set. The tables take 16 bytes for each prime and coefficient.
pub struct Plaintexts {
    params: Params,
    /// `None`: plaintexts are checked and get no words.
    tables: Option<(Encoder, Vec<Ring>)>,
    /// The matrices of bootstrapping, by the shift for which they are made.
    matrices: Mutex<HashMap<u32, Arc<Matrices>>>,
}

impl Plaintexts {
    /// Makes the tables for these parameters.
    pub fn new(params: &Params) -> Plaintexts {
        let ciphertext_primes = &params.primes()[..params.chain().ciphertext_primes()];
        let rings = ciphertext_primes.iter().map(|&prime| Ring::new(prime, params.n())).collect();
        Plaintexts {
            params: params.clone(),
            tables: Some((Encoder::new(params.n()), rings)),
            matrices: Mutex::default(),
        }
    }

    /// Makes no tables: plaintexts are checked as by [`Plaintexts::new`], but have no words. A plan over them tells what
    /// a result would be, and no device can run the plan.
    pub fn without_words(params: &Params) -> Plaintexts {
        Plaintexts { params: params.clone(), tables: None, matrices: Mutex::default() }
    }

    /// Encodes slots as `[primes of the level][N]` words in the order of [`Ring::forward`].
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    ///
    /// # Panics
    /// When there are not `N / 2` values.
    pub fn encode(&self, values: &[Complex], level: usize, scale: f64) -> Result<Vec<u32>, EncodeError> {
        let log_modulus = self.params.level(level).log_modulus;
        match &self.tables {
            Some((encoder, _)) => Ok(self.words(&encoder.encode(values, scale, log_modulus)?, level)),
            None => check(values, scale, log_modulus).map(|()| Vec::new()),
        }
    }

    /// Like [`Plaintexts::encode`], but for real numbers.
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    ///
    /// # Panics
    /// When there are not `N / 2` values.
    pub fn encode_reals(&self, values: &[f64], level: usize, scale: f64) -> Result<Vec<u32>, EncodeError> {
        let values: Vec<Complex> = values.iter().map(|&value| value.into()).collect();
        self.encode(&values, level, scale)
    }

    /// Returns the matrices of bootstrapping for a message whose scale is `shift` bits smaller than the usual one. The
    /// first call makes them, which takes some tenths of a second at the largest degree; others wait meanwhile.
    ///
    /// # Panics
    /// When the parameters have no levels for bootstrapping.
    pub(in crate::ckks) fn matrices(&self, shift: u32) -> Arc<Matrices> {
        let shift = Matrices::made_for(&self.params, shift);
        let mut matrices = self.matrices.lock().expect("no thread panics with the lock");
        let made = || Arc::new(Matrices::new(&self.params, shift, self.tables.is_some()));
        matrices.entry(shift).or_insert_with(made).clone()
    }

    /// Size of the matrices of bootstrapping that are made, in bytes.
    pub fn matrices_bytes(&self) -> u64 {
        let matrices = self.matrices.lock().expect("no thread panics with the lock");
        matrices.values().map(|matrices| matrices.bytes()).sum()
    }

    /// Frees the matrices of bootstrapping, and returns their size in bytes. A plan keeps its own. The next bootstrap makes
    /// the matrices again.
    pub fn forget_matrices(&self) -> u64 {
        let forgotten = std::mem::take(&mut *self.matrices.lock().expect("no thread panics with the lock"));
        forgotten.values().map(|matrices| matrices.bytes()).sum()
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
        let Some((_, rings)) = &self.tables else { return Vec::new() };
        let n = self.params.n();
        let primes = &self.params.level(level).primes;
        let mut words = vec![0; primes.len() * n];
        for (&prime, row) in primes.iter().zip(words.chunks_exact_mut(n)) {
            fill(&rings[prime], row);
            rings[prime].forward(row);
        }
        words
    }
}

/// Checks whether slots can be encoded, as [`Encoder::encode`] does. A coefficient is a mean of rotated slots, so the
/// slots' bound decides in nearly all cases, without a transform.
fn check(values: &[Complex], scale: f64, log_modulus: f64) -> Result<(), EncodeError> {
    let bound = values.iter().map(|value| libm::hypot(value.re, value.im)).fold(0.0, f64::max);
    let is_finite = values.iter().all(|value| value.re.is_finite() && value.im.is_finite());
    match is_finite && room::fits(bound * scale, log_modulus) {
        true => Ok(()),
        false => Encoder::new(2 * values.len()).encode(values, scale, log_modulus).map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ckks::{ParamsLiteral, SecurityLevel};

    #[test]
    fn plaintexts_without_words_are_refused_like_others() {
        let security = SecurityLevel::Testing;
        let literal = ParamsLiteral { poly_degree: 64, scale_bits: 40, max_depth: 2, security, bootstrap: false };
        let params = Params::new(literal).unwrap();
        let (whole, without) = (Plaintexts::new(&params), Plaintexts::without_words(&params));
        let spike = |number: f64| (0..32).map(|slot| if slot == 3 { number } else { 0.0 }).collect::<Vec<f64>>();
        let mut refused = 0;
        for level in 0..=2 {
            for number in (0..60).map(|bits| f64::from(bits).exp2()).chain([0.0, f64::NAN, f64::INFINITY, 1e300]) {
                for values in [vec![number; 32], spike(number)] {
                    let scale = params.level(level).scale;
                    let found = without.encode_reals(&values, level, scale);
                    let wanted = whole.encode_reals(&values, level, scale).map(|_| Vec::new());
                    refused += usize::from(found.is_err());
                    assert_eq!(found, wanted, "{number} at level {level}");
                }
            }
        }
        assert!(refused > 50, "{refused}");
    }
}
