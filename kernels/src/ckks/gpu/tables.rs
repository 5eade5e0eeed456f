//! The tables of a parameter set on a card: primes, roots of the transforms, constants, and plaintexts.

use std::sync::Arc;

use super::compiled::CompiledStems;
use super::constants::Constants;
use super::weights::WeightsOnCard;
use crate::ckks::params::Params;
use crate::error::Result;
use crate::gpu::{Device, Gpu, alloc, upload};
use crate::ring::Ring;

/// Number of words of a prime's constants. `shaders/limb.*` have the same number.
const PRIME_WORDS: usize = 8;
/// Largest number of words of roots that the host holds at a time.
const ROOT_WORDS_MAX: usize = 1 << 22;

/// The tables of a parameter set, which contain no secret.
pub struct Tables<G: Gpu> {
    pub(super) params: Params,
    pub(super) stems: Arc<CompiledStems<G>>,
    /// `[primes][8]`: q, 1 / q mod 2^32, 2^32 mod q with its companion, -2^62 mod q, and unused words.
    pub(super) primes: G::Buf,
    /// `[primes][N][2]`: the roots of the transforms. The kernels find the roots of the inverse among them.
    pub(super) roots: G::Buf,
    pub(super) constants: Constants,
    pub(super) weights: WeightsOnCard<G>,
}

/// Returns the number of bytes of the tables, without plaintexts.
pub(super) fn bytes(params: &Params) -> u64 {
    (4 * params.primes().len() * (PRIME_WORDS + 2 * params.n())) as u64
}

impl<G: Gpu> Tables<G> {
    pub(super) fn new(device: &Device<G>, params: &Params, stems: Arc<CompiledStems<G>>) -> Result<Tables<G>> {
        let (gpu, n, moduli) = (device.gpu(), params.n(), params.primes());
        let primes = alloc(gpu, PRIME_WORDS * moduli.len())?;
        let of_prime = |modulus: &crate::modular::Modulus| {
            let power = |exponent: u32| modulus.pow(2 % modulus.q(), exponent);
            let offset = modulus.sub(0, power(62));
            let unit = power(32);
            [modulus.q(), modulus.montgomery_inverse(), unit, modulus.companion(unit), offset, 0, 0, 0]
        };
        gpu.write(&primes, 0, &moduli.iter().flat_map(of_prime).collect::<Vec<u32>>())?;
        let roots = alloc(gpu, 2 * n * moduli.len())?;
        upload(gpu, &roots, 0, 0..moduli.len(), 2 * n, ROOT_WORDS_MAX, |prime, words| {
            let ring = Ring::new(moduli[prime], n);
            for (words, root) in words.chunks_exact_mut(2).zip(&ring.roots) {
                words.copy_from_slice(&[root.value, root.companion]);
            }
        })?;
        let (constants, weights) = (Constants::default(), WeightsOnCard::default());
        Ok(Tables { params: params.clone(), stems, primes, roots, constants, weights })
    }
}
