//! What is computed once for a parameter set: tables of transforms, nothing secret.

use std::sync::OnceLock;

use kernels::ckks::Params;
use kernels::ckks::encode::{Encoder, Rounded, all_within};
use kernels::ring::Ring;

use super::EncryptError;

/// Tables of a parameter set.
pub struct Context {
    pub params: Params,
    pub encoder: Encoder,
    /// Of each prime, when it is first needed.
    rings: Vec<OnceLock<Ring>>,
}

impl Context {
    pub fn new(params: &Params) -> Context {
        let rings = params.primes().iter().map(|_| OnceLock::new()).collect();
        Context { params: params.clone(), encoder: Encoder::new(params.n()), rings }
    }

    /// The ring of a prime.
    pub fn ring(&self, prime: usize) -> &Ring {
        self.rings[prime].get_or_init(|| Ring::new(self.params.primes()[prime], self.params.n()))
    }

    /// A small polynomial modulo a prime, transformed: `coefficients` of magnitude below every prime.
    pub fn transformed<T: Copy + Into<i64>>(&self, prime: usize, coefficients: &[T], out: &mut [u32]) {
        let ring = self.ring(prime);
        for (out, &x) in out.iter_mut().zip(coefficients) {
            *out = ring.modulus.from_signed(x.into() as i32);
        }
        ring.forward(out);
    }

    /// A plaintext and noise modulo a prime, transformed.
    pub fn noisy_plaintext(&self, prime: usize, plaintext: &Rounded, noise: &[i64], out: &mut [u32]) {
        let ring = self.ring(prime);
        plaintext.residues(ring.modulus, out);
        for (out, &noise) in out.iter_mut().zip(noise) {
            *out = ring.modulus.add(*out, ring.modulus.from_signed(noise as i32));
        }
        ring.forward(out);
    }

    /// Refuses what cannot be encrypted: the one branch on numbers.
    pub fn check(&self, values: &[f64], value_bound: f64) -> Result<(), EncryptError> {
        let (expected, found) = (self.params.slots(), values.len());
        if expected != found {
            return Err(EncryptError::Count { expected, found });
        }
        if !(value_bound > 0.0 && value_bound.is_finite()) {
            return Err(EncryptError::Room(value_bound));
        }
        match all_within(values, value_bound) {
            true => Ok(()),
            false => Err(EncryptError::Value(value_bound)),
        }
    }

    /// The plaintext of numbers that were checked, at the scale of the level.
    pub fn encode(&self, values: &[f64], value_bound: f64, level: usize) -> Result<Rounded, EncryptError> {
        let of_level = self.params.level(level);
        let encoded = self.encoder.encode_bounded(values, of_level.scale, value_bound, of_level.log_modulus);
        encoded.map_err(|_| EncryptError::Room(value_bound))
    }
}
