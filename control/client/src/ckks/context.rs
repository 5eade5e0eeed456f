//! Public tables that are computed once for a parameter set, such as those of the transforms.

use std::sync::OnceLock;

use kernels::ckks::Params;
use kernels::ckks::encode::{Encoder, Rounded, all_within};
use kernels::ring::Ring;

use super::EncryptError;

/// Tables of a parameter set.
pub struct Context {
    pub params: Params,
    pub encoder: Encoder,
    /// The ring of each prime, made on first use.
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

    /// Writes to `out` the transform of a small polynomial modulo a prime. The magnitude of each coefficient must be
    /// below every prime.
    pub fn transformed<T: Copy + Into<i64>>(&self, prime: usize, coefficients: &[T], out: &mut [u32]) {
        let ring = self.ring(prime);
        for (out, &x) in out.iter_mut().zip(coefficients) {
            *out = ring.modulus.from_signed(x.into() as i32);
        }
        ring.forward(out);
    }

    /// Adds the noise to the plaintext, and writes the transform of the sum modulo a prime to `out`.
    pub fn noisy_plaintext(&self, prime: usize, plaintext: &Rounded, noise: &[i64], out: &mut [u32]) {
        let ring = self.ring(prime);
        plaintext.residues(ring.modulus, out);
        for (out, &noise) in out.iter_mut().zip(noise) {
            *out = ring.modulus.add(*out, ring.modulus.from_signed(noise as i32));
        }
        ring.forward(out);
    }

    /// Refuses numbers that cannot be encrypted. This is the only branch on numbers.
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

    /// Encodes numbers that passed [`Context::check`] as a plaintext, at the scale of the level.
    pub fn encode(&self, values: &[f64], value_bound: f64, level: usize) -> Result<Rounded, EncryptError> {
        let of_level = self.params.level(level);
        let encoded = self.encoder.encode_bounded(values, of_level.scale, value_bound, of_level.log_modulus);
        encoded.map_err(|_| EncryptError::Room(value_bound))
    }
}
