//! What follows from a ciphertext's public record alone. Apart from what touches secrets, which may hold no division or square root
//! (scripts/constant-time).

use kernels::ckks::encode::Centred;
use kernels::ckks::{Ciphertext, Noise, Params};

/// Standard deviations of a coefficient's worst error: the sum of many products, so nearly normal.
const DEVIATIONS: f64 = 8.7;

/// How much noise hides a result's own error before it is shared (eprint 2022/816). The error of a result is a linear function of the
/// secret key: who sees exact results and their ciphertexts, as the server does, recovers the key (eprint 2020/1533).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flooding {
    /// Results that are ever shared under this key.
    pub results: u32,
    /// Statistical bits: what one sees of the key has an advantage below `2^-bits`.
    pub statistical_bits: u32,
}

impl Default for Flooding {
    /// A thousand results, 30 bits: takes about 25 bits of precision.
    fn default() -> Flooding {
        Flooding { results: 1000, statistical_bits: 30 }
    }
}

impl Flooding {
    /// The standard deviation of what is added to each coefficient: `sqrt(12 results) 2^(bits / 2)` times the worst error.
    #[inline(never)]
    pub(super) fn deviation(self, ciphertext: &Ciphertext) -> f64 {
        let Noise { variance, value_bound } = ciphertext.noise;
        // of a coefficient, that of its floating-point number included
        let worst = DEVIATIONS * variance.sqrt() + value_bound * ciphertext.scale * f64::EPSILON;
        let results = f64::from(self.results.max(1));
        (12.0 * results).sqrt() * (f64::from(self.statistical_bits) / 2.0).exp2() * worst
    }
}

/// The unit and the precision of a ciphertext's numbers.
pub(super) struct Record {
    /// One over the scale.
    pub unit: f64,
    /// [`Noise::error_bound`].
    pub error_bound: f64,
    /// [`Noise::precision_bits`].
    pub precision_bits: f64,
}

impl Record {
    #[inline(never)]
    pub(super) fn of(n: usize, scale: f64, noise: Noise) -> Record {
        let (error_bound, precision_bits) = (noise.error_bound(n, scale), noise.precision_bits(n, scale));
        Record { unit: 1.0 / scale, error_bound, precision_bits }
    }
}

/// Places among `primes` of the largest ones, as many as [`Centred`] takes.
#[inline(never)]
pub(super) fn widest_primes(params: &Params, primes: &[usize]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..primes.len()).collect();
    places.sort_by_key(|&place| std::cmp::Reverse(params.primes()[primes[place]].q()));
    places.truncate(Centred::PRIMES_MAX);
    places
}
