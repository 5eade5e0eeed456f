//! Checked parameters of a gate key, and the presets of the specification.

use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};

use crate::modular::Modulus;
use crate::ring::Ring;

/// The ring's prime modulus: `2^30 - 3 * 2^14 + 1`, which is 1 modulo 2^14. Every preset uses this prime, and the
/// container format freezes it. The prime is below 2^30, so `4q < 2^32` and a butterfly's lazy range fits a word.
/// (Chosen by measurement: ARCHITECTURE.md.)
pub const RING_MODULUS: u32 = 1_073_692_673;

/// Arithmetic modulo [`RING_MODULUS`].
pub const MODULUS: Modulus = Modulus::new(RING_MODULUS);

/// The allowed ring degrees `N` of gate keys, from the smallest to the largest.
pub const POLYNOMIAL_SIZES: RangeInclusive<usize> = 64..=2048;

/// The ring of degree `N = polynomial_size`. Its tables are made once in each process.
///
/// # Panics
/// When `N` is not a power of two within [`POLYNOMIAL_SIZES`].
pub fn ring(polynomial_size: usize) -> Arc<Ring> {
    static RINGS: [OnceLock<Arc<Ring>>; 6] = [const { OnceLock::new() }; 6];
    let n = polynomial_size;
    assert!(n.is_power_of_two() && POLYNOMIAL_SIZES.contains(&n), "no gate key has N = {n}");
    let ring = &RINGS[(n / POLYNOMIAL_SIZES.start()).trailing_zeros() as usize];
    ring.get_or_init(|| Arc::new(Ring::new(MODULUS, n))).clone()
}

/// The mod switch: how the torus words of a row become exponents of X, in `[0, 2N)` (docs/wire-format.md 8). The mod
/// switch belongs to the key; the version of the key's container states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ModSwitch {
    /// Every word is rounded to the nearest exponent. Used by keys of container version 1 and by imported keys.
    Nearest,
    /// Every word is rounded to the nearest exponent. Before the body is rounded, half the sum of the mask's rounding
    /// errors is subtracted from it. The bits of a binary secret are 1/2 on average, so this removes half of the
    /// variance that the mask's rounding adds. Used by keys of container version 2.
    Centred,
}

/// Dimensions and noise of a gate key, unchecked. Noise is a standard deviation in turns (fractions of the torus).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParamsLiteral {
    /// `n`: mask words of a bit's ciphertext. The secret is uniform binary.
    pub lwe_dimension: usize,
    /// `k`: mask polynomials of a ring ciphertext. The secret is uniform ternary.
    pub glwe_dimension: usize,
    /// `N`: coefficients of a polynomial; a power of two.
    pub polynomial_size: usize,
    /// log2 of the bootstrap decomposition's base `B`.
    pub bootstrap_base_log: usize,
    /// `l`: levels of the bootstrap decomposition.
    pub bootstrap_level_count: usize,
    /// Base of the key switch's decomposition; any integer, not only powers of two.
    pub key_switch_base: u32,
    /// Levels of the key switch's decomposition.
    pub key_switch_level_count: usize,
    /// Noise of ciphertexts and key-switching rows: standard deviation in turns; 0 if unknown (imported keys).
    pub lwe_noise_std: f64,
    /// Noise of bootstrapping rows, in the same unit; 0 if unknown.
    pub glwe_noise_std: f64,
    /// The mod switch of the key's gates.
    pub mod_switch: ModSwitch,
}

/// The reason why a [`ParamsLiteral`] is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParamsError(pub &'static str);

/// Checked, immutable parameters. Dereferences to the literal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params(ParamsLiteral);

impl std::ops::Deref for Params {
    type Target = ParamsLiteral;
    fn deref(&self) -> &ParamsLiteral {
        &self.0
    }
}

impl TryFrom<ParamsLiteral> for Params {
    type Error = ParamsError;

    /// Checks the ranges that the kernels rely on. The bounds are the same as in the container format
    /// (docs/wire-format.md).
    fn try_from(p: ParamsLiteral) -> Result<Self, ParamsError> {
        let check = |holds: bool, why| if holds { Ok(()) } else { Err(ParamsError(why)) };
        check((1..=2048).contains(&p.lwe_dimension), "LWE dimension must be 1 to 2048")?;
        check((1..=4).contains(&p.glwe_dimension), "GLWE dimension must be 1 to 4")?;
        check(
            p.polynomial_size.is_power_of_two() && POLYNOMIAL_SIZES.contains(&p.polynomial_size),
            "polynomial size must be a power of two from 64 to 2048",
        )?;
        check((1..=24).contains(&p.bootstrap_base_log), "bootstrap base must be 2^1 to 2^24")?;
        check((1..=8).contains(&p.bootstrap_level_count), "bootstrap levels must be 1 to 8")?;
        check(
            p.bootstrap_base_log * p.bootstrap_level_count <= 28,
            "bootstrap digits must cover at most 28 of the ring's 30 bits",
        )?;
        check((2..=1 << 16).contains(&p.key_switch_base), "key-switch base must be 2 to 65536")?;
        check((1..=24).contains(&p.key_switch_level_count), "key-switch levels must be 1 to 24")?;
        check(
            (p.key_switch_base as u64)
                .checked_pow(p.key_switch_level_count as u32)
                .is_some_and(|covered| covered <= 1 << 32),
            "key-switch digits must cover at most a word",
        )?;
        for std in [p.lwe_noise_std, p.glwe_noise_std] {
            check(std.is_finite() && (0.0..0.1).contains(&std), "noise must be 0 to 0.1 of a turn")?;
        }
        Ok(Self(p))
    }
}

impl Params {
    /// The same parameters with another mod switch.
    pub fn with_mod_switch(self, mod_switch: ModSwitch) -> Params {
        Params(ParamsLiteral { mod_switch, ..self.0 })
    }
}

impl ParamsLiteral {
    /// `kN`: dimension of an extracted sample and of the key switch's input.
    pub fn extracted_dimension(&self) -> usize {
        self.glwe_dimension * self.polynomial_size
    }

    /// Number of words of one row's accumulator, `[k + 1][N]`.
    pub fn accumulator_words(&self) -> usize {
        (self.glwe_dimension + 1) * self.polynomial_size
    }

    /// Number of rows of one RGSW ciphertext, `(k + 1) l`.
    pub fn rgsw_rows(&self) -> usize {
        (self.glwe_dimension + 1) * self.bootstrap_level_count
    }

    /// Number of words of the seeded bootstrapping key: bodies only, `[n][l][k + 1][N]`.
    pub fn bootstrap_body_words(&self) -> usize {
        self.lwe_dimension * self.rgsw_rows() * self.polynomial_size
    }

    /// Number of words of the seeded key-switching key: bodies only, `[kN][levels]`.
    pub fn key_switch_body_words(&self) -> usize {
        self.extracted_dimension() * self.key_switch_level_count
    }

    /// `round(q / B^j)` for `j` in `1..=l`, `[l]`: the gadget of the bootstrapping key, modulo q.
    #[inline(never)] // keeps its divisions out of code that handles secrets (scripts/constant-time)
    pub fn bootstrap_gadget(&self) -> Vec<u32> {
        let base = 1u64 << self.bootstrap_base_log;
        gadget(RING_MODULUS.into(), base, self.bootstrap_level_count)
    }

    /// `round(2^32 / D^j)` for `j` in `1..=levels`, `[levels]`: the gadget of the key-switching key, on the torus.
    #[inline(never)] // keeps its divisions out of code that handles secrets (scripts/constant-time)
    pub fn key_switch_gadget(&self) -> Vec<u32> {
        gadget(1 << 32, self.key_switch_base.into(), self.key_switch_level_count)
    }

    /// Size of the bodies in an evaluation key as it is sent, in bytes. Header, shape and seed of the container are not
    /// included.
    pub fn seeded_bytes(&self) -> usize {
        4 * (self.bootstrap_body_words() + self.key_switch_body_words())
    }

    /// Size of the evaluation key with its masks expanded, as a device holds it, in bytes.
    pub fn expanded_bytes(&self) -> usize {
        4 * (self.bootstrap_body_words() * (self.glwe_dimension + 1)
            + self.key_switch_body_words() * (self.lwe_dimension + 1))
    }

    /// Size of one bit's ciphertext in bytes: `n + 1` words, without the container's header.
    pub fn ciphertext_bytes(&self) -> usize {
        4 * (self.lwe_dimension + 1)
    }
}

/// A published parameter set (specification, gate sessions). Presets are added but never edited.
///
/// Failure probabilities are those of [`super::noise::failure_log2`], for gates on outputs of gates with independent
/// operands. Equal and opposite operands are folded ([`super::fold`]) and never bootstrapped. The figures are for new
/// keys. Keys of container version 1 have other figures, because their mod switch has twice the noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Preset {
    /// 128 bits; gates fail with probability 2^-92.8, MUX, the worst gate, with 2^-91.8.
    /// Keys of version 1: 2^-90.7, 2^-68.3.
    Fast128,
    /// 128 bits; gates fail with probability 2^-147.2, the worst gate with 2^-92.8. Keys of version 1: 2^-141.1,
    /// 2^-90.3.
    Standard128,
    /// 152 bits; gates fail with probability 2^-211.7, the worst gate with 2^-180.4. Keys of version 1: 2^-163.4,
    /// 2^-143.9. Choose this preset if the evaluator learns results, or learns how users react to them.
    Conservative128,
    /// [`Preset::Fast128`] over a ring of half the degree with two mask polynomials, which takes less work: 128 bits;
    /// gates fail with probability 2^-92.0, the worst gate with 2^-72.5. No keys of version 1 exist.
    Fast128K2,
    /// [`Preset::Standard128`] over the ring of [`Preset::Fast128K2`]: 128 bits; gates fail with probability 2^-144.9,
    /// the worst gate with 2^-98.9. No keys of version 1 exist.
    Standard128K2,
}

impl Preset {
    /// All presets, in the order of their codes in containers.
    pub const ALL: [Preset; 5] =
        [Preset::Fast128, Preset::Standard128, Preset::Conservative128, Preset::Fast128K2, Preset::Standard128K2];

    /// The presets that have keys of container version 1. With the mod switch of version 1, gates of the other presets
    /// would fail too often, because the ring of these presets has half as many exponents.
    pub const OF_VERSION_1: [Preset; 3] = [Preset::Fast128, Preset::Standard128, Preset::Conservative128];

    /// The preset's name in the specification.
    pub fn name(self) -> &'static str {
        match self {
            Preset::Fast128 => "fast_128",
            Preset::Standard128 => "standard_128",
            Preset::Conservative128 => "conservative_128",
            Preset::Fast128K2 => "fast_128_k2",
            Preset::Standard128K2 => "standard_128_k2",
        }
    }

    /// The preset with this name.
    pub fn from_name(name: &str) -> Option<Preset> {
        Preset::ALL.into_iter().find(|preset| preset.name() == name)
    }

    /// The preset with these dimensions `(n, k, N)`. Needed for keys that do not state their preset (readings G6).
    pub fn from_dimensions(lwe_dimension: usize, glwe_dimension: usize, polynomial_size: usize) -> Option<Preset> {
        Preset::ALL.into_iter().find(|preset| {
            let p = preset.literal();
            (p.lwe_dimension, p.glwe_dimension, p.polynomial_size) == (lwe_dimension, glwe_dimension, polynomial_size)
        })
    }

    /// The bits of security to report: the cost of the cheapest attack on either key that the lattice estimator finds
    /// (2026-06 version, default cost model: classical, MATZOV22 gate counts).
    pub fn security_bits(self) -> u32 {
        match self {
            // For all four presets, the LWE key has 128.5 bits and the GLWE key 128.9. Their ring keys have kN = 1024
            // and the same noise, and the estimator knows no attack whose cost differs between rank 2 and rank 1.
            Preset::Fast128 | Preset::Standard128 | Preset::Fast128K2 | Preset::Standard128K2 => 128,
            // the LWE key has 152.7 bits, the GLWE key 180.9
            Preset::Conservative128 => 152,
        }
    }

    /// The preset's checked parameters, with the mod switch of new keys.
    pub fn params(self) -> Params {
        Params::try_from(self.literal()).expect("a published preset holds its own checks")
    }

    /// The preset's literal, found by search over the noise model ([`super::noise`]) and the lattice estimator.
    /// `tests/compute/noise` measures its noise.
    fn literal(self) -> ParamsLiteral {
        match self {
            Preset::Fast128 => ParamsLiteral {
                lwe_dimension: 636,
                glwe_dimension: 1,
                polynomial_size: 1024,
                bootstrap_base_log: 8,
                bootstrap_level_count: 2,
                key_switch_base: 3,
                key_switch_level_count: 7,
                lwe_noise_std: (-13.65f64).exp2(),
                glwe_noise_std: (-24.8f64).exp2(),
                mod_switch: ModSwitch::Centred,
            },
            Preset::Standard128 => ParamsLiteral {
                lwe_dimension: 708,
                glwe_dimension: 1,
                polynomial_size: 1024,
                bootstrap_base_log: 8,
                bootstrap_level_count: 2,
                key_switch_base: 8,
                key_switch_level_count: 4,
                lwe_noise_std: (-15.5f64).exp2(),
                glwe_noise_std: (-24.8f64).exp2(),
                mod_switch: ModSwitch::Centred,
            },
            Preset::Conservative128 => ParamsLiteral {
                lwe_dimension: 828,
                glwe_dimension: 3,
                polynomial_size: 512,
                bootstrap_base_log: 9,
                bootstrap_level_count: 2,
                key_switch_base: 5,
                key_switch_level_count: 6,
                lwe_noise_std: (-15.15f64).exp2(),
                glwe_noise_std: (-27.0f64).exp2(),
                mod_switch: ModSwitch::Centred,
            },
            Preset::Fast128K2 => ParamsLiteral { glwe_dimension: 2, polynomial_size: 512, ..Preset::Fast128.literal() },
            Preset::Standard128K2 => {
                ParamsLiteral { glwe_dimension: 2, polynomial_size: 512, ..Preset::Standard128.literal() }
            }
        }
    }
}

/// `round(whole / base^j)` for `j` in `1..=levels`.
fn gadget(whole: u64, base: u64, levels: usize) -> Vec<u32> {
    (1..=levels as u32).map(|j| base.pow(j)).map(|unit| ((whole + unit / 2) / unit) as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modulus_serves_every_ring_and_every_lazy_range() {
        const { assert!(4 * (RING_MODULUS as u64) < 1 << 32) };
        assert_eq!(RING_MODULUS % (1 << 14), 1);
        for log_n in 6..=11 {
            assert_eq!(ring(1 << log_n).polynomial_size(), 1 << log_n);
        }
    }
}
