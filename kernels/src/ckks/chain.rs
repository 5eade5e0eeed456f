//! The primes of a ciphertext modulus at each level.
//!
//! A level is a *set* of primes whose product follows the scale: `q0 * 2^(scale_bits * level)` to within 2.5 bits.
//! Between two levels some primes leave the set and others may enter it. A rescale multiplies the ciphertext by the
//! entering primes and divides it by the leaving ones (rational rescaling: Cheddar, eprint 2024/1285; Grafting, eprint
//! 2024/1014). Most primes are near `2^30`, and a few short primes fill the rest, so the 32-bit words are nearly full
//! at every scale. Security depends on the product of *all* primes, because evaluation keys are encrypted modulo this
//! product.

mod search;

use crate::modular::Modulus;

pub(super) use search::ROTATION_EXCESS_BITS;

/// Version of the search. Containers contain this number, so a version always finds the same chains.
pub const CHAIN_VERSION: u8 = 1;

/// One level: the ciphertext modulus and its scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Indices into [`Chain::primes`], ascending.
    pub primes: Vec<usize>,
    /// `log2` of the product of these primes.
    pub log_modulus: f64,
    /// Default scale of this level's ciphertexts. The product of two such ciphertexts, rescaled, has the default scale
    /// of the level below, up to rounding in the last place.
    pub scale: f64,
}

/// All primes of a parameter set, and its levels.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// The primes of ciphertexts, then the special ones.
    pub primes: Vec<Modulus>,
    /// How many of `primes` are special. Key switching divides by their product `P`.
    pub special: usize,
    /// The levels, from level 0.
    pub levels: Vec<Level>,
    /// `log2` of the bound on a value at level 0. The modulus of level 0 divided by its scale is a little larger.
    pub value_bits: u32,
}

/// The constraints of a search for a chain.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// `N`.
    pub polynomial_size: usize,
    /// Bits of level 0's scale.
    pub scale_bits: u32,
    /// Bits from each level to the one above, from level 0 on.
    pub steps: Vec<u32>,
    /// Upper bound on `log2 QP`, if the security level sets one.
    pub log_modulus_max: Option<f64>,
}

impl Chain {
    /// Finds, among the chains within the bound, the one with the cheapest key switches.
    pub(super) fn search(wanted: &Wanted) -> Option<Chain> {
        search::search(wanted)
    }

    /// `log2` of the product of all primes.
    pub fn log_modulus(&self) -> f64 {
        log_product(self.primes.iter().map(|prime| prime.q()))
    }

    /// Indices of the ciphertext primes of levels 0 to `level`, ascending. A key of that level covers these and the
    /// special primes.
    pub fn primes_up_to(&self, level: usize) -> Vec<usize> {
        let used = |at: &usize| self.levels[..=level].iter().any(|of| of.primes.contains(at));
        (0..self.ciphertext_primes()).filter(used).collect()
    }

    /// The primes by which a ciphertext is divided on its way to a lower level. For the level directly below, these are
    /// all leaving primes. For lower levels, these are only as many of the leaving primes as make a product of at least
    /// `2^40` times the product of the entering primes. The other leaving primes are dropped without a division, which
    /// does not change the value.
    ///
    /// # Panics
    /// When `to` is above `level`.
    pub fn divided(&self, level: usize, to: usize) -> Vec<usize> {
        assert!(to <= level, "a lower level");
        let (upper, lower) = (&self.levels[level].primes, &self.levels[to].primes);
        let log = |at: &usize| libm::log2(f64::from(self.primes[*at].q()));
        let entering: f64 = lower.iter().filter(|at| !upper.contains(at)).map(log).sum();
        let mut leaving: Vec<usize> = upper.iter().copied().filter(|at| !lower.contains(at)).collect();
        if to + 1 < level {
            let mut bits = 0.0;
            let enough = leaving.iter().position(|at| {
                bits += log(at);
                bits >= entering + LOWERING_BITS
            });
            leaving.truncate(enough.map_or(leaving.len(), |last| last + 1));
        }
        leaving
    }

    /// The number by which the scale is divided between these levels: the product of [`Chain::divided`] over the
    /// product of the entering primes.
    pub fn divisor(&self, level: usize, to: usize) -> f64 {
        let product = |primes: &mut dyn Iterator<Item = usize>| {
            primes.fold(1.0, |product, at| product * f64::from(self.primes[at].q()))
        };
        let (upper, lower) = (&self.levels[level].primes, &self.levels[to].primes);
        let mut entering = lower.iter().copied().filter(|at| !upper.contains(at));
        product(&mut self.divided(level, to).into_iter()) / product(&mut entering)
    }

    /// The number of primes that are not special.
    pub fn ciphertext_primes(&self) -> usize {
        self.primes.len() - self.special
    }

    /// `log2 P`.
    pub fn log_special(&self) -> f64 {
        log_product(self.primes[self.ciphertext_primes()..].iter().map(|prime| prime.q()))
    }

    /// The primes of levels up to `level` in groups of at most `bits` bits and [`DIGIT_PRIMES_MAX`] primes: the digits of a key.
    pub(super) fn digits(&self, level: usize, bits: f64) -> Vec<Vec<usize>> {
        group(&self.primes_up_to(level), |&at| f64::from(self.primes[at].q()), bits)
    }
}

/// Least number of bits of the whole number that multiplies a ciphertext to reach the scale of a lower level. The
/// number is rounded, so more bits mean a smaller error.
const LOWERING_BITS: f64 = 40.0;

/// Largest number of bits by which a digit of a relinearization key may exceed `P`.
pub(super) fn product_excess_bits(scale_bits: u32) -> f64 {
    (f64::from(scale_bits) - search::PRODUCT_MARGIN_BITS).max(search::ROTATION_EXCESS_BITS)
}

/// Largest number of primes in a digit. The sum of that many products of residues fits 64 bits, and the reduced sum
/// fits a word (see [`crate::cpu::base_convert`]).
pub const DIGIT_PRIMES_MAX: usize = 7;

/// Splits `items`, in order, into groups of at most [`DIGIT_PRIMES_MAX`] items whose primes have at most `bits` bits
/// together. A prime with more bits forms a group alone.
fn group<T: Copy>(items: &[T], prime: impl Fn(&T) -> f64, bits: f64) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    let mut filled = f64::INFINITY;
    for item in items {
        let more = libm::log2(prime(item));
        match groups.last_mut() {
            Some(group) if filled + more <= bits && group.len() < DIGIT_PRIMES_MAX => {
                group.push(*item);
                filled += more;
            }
            _ => {
                groups.push(vec![*item]);
                filled = more;
            }
        }
    }
    groups
}

fn log_product(primes: impl IntoIterator<Item = u32>) -> f64 {
    primes.into_iter().map(|q| libm::log2(f64::from(q))).sum()
}
