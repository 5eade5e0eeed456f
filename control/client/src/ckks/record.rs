//! Values that follow from a ciphertext's public record alone. This file is separate from the code that handles
//! secrets, because that code must not contain a division or a square root (scripts/constant-time).

use kernels::ckks::operation::Operand;
use kernels::ckks::plan::same_scale;
use kernels::ckks::{Ciphertext, Noise, Params, room};

use super::{DecryptError, ShareError};

/// The worst error of a coefficient, in standard deviations. The error is a sum of many products, so its distribution
/// is nearly normal.
const DEVIATIONS: f64 = 8.7;

/// How much noise is added to a result before it is shared, to hide the error that the result has anyway (noise
/// flooding, eprint 2022/816). The hidden error is a linear function of the secret key. Without flooding, a party that
/// sees exact results and their ciphertexts, as the server does, recovers the key (eprint 2020/1533).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flooding {
    /// Number of results that are shared under this key in its lifetime.
    pub results: u32,
    /// Statistical security in bits: the shared results distinguish keys with an advantage below `2^-bits`.
    pub statistical_bits: u32,
}

impl Default for Flooding {
    /// Flooding for a thousand results and 30 bits of security. It costs about 25 bits of precision.
    fn default() -> Flooding {
        Flooding { results: 1000, statistical_bits: 30 }
    }
}

impl Flooding {
    /// The standard deviation of the noise that is added to each coefficient: `sqrt(12 results) 2^(bits / 2)` times the
    /// worst error of a ciphertext with this noise at this scale.
    #[inline(never)]
    pub(super) fn deviation(self, Noise { variance, value_bound, .. }: Noise, scale: f64) -> f64 {
        // the worst error of a coefficient, plus the rounding error of the floating-point number that holds the
        // coefficient
        let worst = DEVIATIONS * variance.sqrt() + value_bound * scale * f64::EPSILON;
        let results = f64::from(self.results.max(1));
        (12.0 * results).sqrt() * (f64::from(self.statistical_bits) / 2.0).exp2() * worst
    }
}

/// The larger noise of a ciphertext's record, of what its owner expects, and of a fresh encryption.
///
/// # Errors
/// [`ShareError::Unexpected`] if the level or the scale is not the expected one.
#[inline(never)]
pub(super) fn noise_to_hide(ciphertext: &Ciphertext, expected: &Operand) -> Result<Noise, ShareError> {
    let Ciphertext { level, scale, noise, .. } = *ciphertext;
    if level != expected.level || !same_scale(scale, expected.scale) {
        return Err(ShareError::Unexpected { level, scale_bits: scale.log2() });
    }
    let value_bound = noise.value_bound.max(expected.noise.value_bound);
    let fresh = Noise::encrypt_secret(value_bound);
    let variance = noise.variance.max(expected.noise.variance).max(fresh.variance);
    Ok(Noise { value_bound, variance, ..noise })
}

/// The unit and the precision of a ciphertext's numbers.
pub(super) struct Record {
    /// One over the scale.
    pub unit: f64,
    /// The value of [`Noise::error_bound`].
    pub error_bound: f64,
    /// The value of [`Noise::precision_bits`].
    pub precision_bits: f64,
}

impl Record {
    #[inline(never)]
    pub(super) fn of(n: usize, scale: f64, noise: Noise) -> Record {
        let (error_bound, precision_bits) = (noise.error_bound(n, scale), noise.precision_bits(n, scale));
        Record { unit: 1.0 / scale, error_bound, precision_bits }
    }
}

/// Finds primes of the ciphertext's level that hold its numbers with their errors. Returns their places in the list of
/// the level's primes.
///
/// # Errors
/// [`DecryptError`]: the numbers may have wrapped around the modulus of the level.
#[inline(never)]
pub(super) fn primes_for(params: &Params, level: usize, scale: f64, noise: Noise) -> Result<Vec<usize>, DecryptError> {
    let wraps = DecryptError { value_bound: noise.value_bound, scale_bits: scale.log2(), level };
    room::primes(params, level, noise.largest_coefficient(params.n(), scale)).ok_or(wraps)
}
