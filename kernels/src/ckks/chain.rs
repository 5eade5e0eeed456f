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

/// Version of the search. Containers contain this number, so the search of a given version must always find the same
/// chains. Chains with the levels of bootstrapping have their own version. Version 2 of these had the same primes, and
/// all special primes in parts to the sparse secret.
pub const fn chain_version(bootstrap: bool) -> u8 {
    if bootstrap { 3 } else { 1 }
}

/// One level: the primes of the ciphertext modulus, and the default scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Indices into [`Chain::primes`], ascending.
    pub primes: Vec<usize>,
    /// `log2` of the product of these primes.
    pub log_modulus: f64,
    /// Default scale of this level's ciphertexts. After a rescale, the product of two such ciphertexts has the default
    /// scale of the level below, up to rounding in the last place.
    pub scale: f64,
}

/// All primes of a parameter set, and its levels.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// The primes of ciphertexts, then the special primes.
    pub primes: Vec<Modulus>,
    /// How many of `primes` are special. Key switching divides by their product `P`.
    pub special: usize,
    /// The levels, from level 0.
    pub levels: Vec<Level>,
    /// `log2` of the bound on a value at level 0. The modulus of level 0 divided by the scale of level 0 is a little
    /// larger than this bound.
    pub value_bits: u32,
}

/// The constraints of a search for a chain.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// `N`.
    pub polynomial_size: usize,
    /// Bits of level 0's scale.
    pub scale_bits: u32,
    /// The least number of bits that level 0 has above its scale; 0 leaves the choice to the search.
    pub headroom_min: u32,
    /// For each level from level 0 on: by how many bits the modulus of the next higher level is larger.
    pub steps: Vec<u32>,
    /// Upper bound on `log2 QP`, if the security level sets one.
    pub log_modulus_max: Option<f64>,
    /// Upper bound on `log2` of the modulus of level 0 times the special primes of a part to the sparse secret, if the
    /// sparse secret must be secure.
    pub log_sparse_max: Option<f64>,
}

impl Chain {
    /// Searches for a chain that meets the constraints `wanted`; `None` if the search finds none. Where the search has
    /// a choice, it takes the chain with the cheapest key switches.
    pub(super) fn search(wanted: &Wanted) -> Option<Chain> {
        search::search(wanted)
    }

    /// `log2` of the product of all primes.
    pub fn log_modulus(&self) -> f64 {
        log_product(self.primes.iter().map(|prime| prime.q()))
    }

    /// Lists the indices of the ciphertext primes of the levels 0 to `level`, ascending. A key of level `level` covers
    /// these primes and the special primes.
    pub fn primes_up_to(&self, level: usize) -> Vec<usize> {
        let used = |at: &usize| self.levels[..=level].iter().any(|of| of.primes.contains(at));
        (0..self.ciphertext_primes()).filter(used).collect()
    }

    /// Lists the primes by which a ciphertext is divided when it goes from `level` to the lower level `to`. If `to` is
    /// the level directly below, these are all leaving primes, which are the primes that `level` has and `to` lacks.
    /// Otherwise, these are only as many of the leaving primes as make a product of at least `2^40` times the product
    /// of the entering primes, which `to` has and `level` lacks. The other leaving primes are dropped without a
    /// division, which does not change the value.
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

    /// Returns the number by which the scale is divided when a ciphertext goes from `level` to `to`: the product of the
    /// primes of [`Chain::divided`], divided by the product of the entering primes.
    pub fn divisor(&self, level: usize, to: usize) -> f64 {
        let product = |primes: &mut dyn Iterator<Item = usize>| {
            primes.fold(1.0, |product, at| product * f64::from(self.primes[at].q()))
        };
        let (upper, lower) = (&self.levels[level].primes, &self.levels[to].primes);
        let mut entering = lower.iter().copied().filter(|at| !upper.contains(at));
        product(&mut self.divided(level, to).into_iter()) / product(&mut entering)
    }

    /// Whether a ciphertext of this level and scale is a product that was not rescaled yet: after a division to the
    /// level below, its scale is still above the square root of the default scale there. False at level 0.
    pub fn is_unscaled(&self, level: usize, scale: f64) -> bool {
        level > 0 && scale / self.divisor(level, level - 1) > libm::sqrt(self.levels[level - 1].scale)
    }

    /// Counts the levels that a ciphertext of this level and scale owes: the rescales that its products still need. At
    /// most `level`.
    pub fn owed(&self, level: usize, scale: f64) -> usize {
        let (mut at, mut scale) = (level, scale);
        while self.is_unscaled(at, scale) {
            scale /= self.divisor(at, at - 1);
            at -= 1;
        }
        level - at
    }

    /// The number of primes that are not special.
    pub fn ciphertext_primes(&self) -> usize {
        self.primes.len() - self.special
    }

    /// `log2 P`.
    pub fn log_special(&self) -> f64 {
        self.log_special_of(self.special)
    }

    /// `log2` of the product of the first `count` special primes.
    ///
    /// # Panics
    /// When the chain has fewer special primes.
    pub(super) fn log_special_of(&self, count: usize) -> f64 {
        log_product(self.primes[self.ciphertext_primes()..][..count].iter().map(|prime| prime.q()))
    }

    /// Returns the least number of special primes whose product has at least `bits` bits; all of them if their product
    /// has fewer.
    pub(super) fn special_at_least(&self, bits: f64) -> usize {
        count_at_least(self.primes[self.ciphertext_primes()..].iter().map(|prime| prime.q()), bits)
    }

    /// Splits the primes of the levels up to `level` into the digits of a key: groups of at most `bits` bits and at
    /// most [`DIGIT_PRIMES_MAX`] primes.
    pub(super) fn digits(&self, level: usize, bits: f64) -> Vec<Vec<usize>> {
        group(&self.primes_up_to(level), |&at| f64::from(self.primes[at].q()), bits)
    }
}

/// A ciphertext that goes to a lower level is multiplied by a whole number, so that it reaches the scale of the lower
/// level. This constant is the least number of bits of that whole number. The whole number is rounded, so more bits
/// mean a smaller error.
const LOWERING_BITS: f64 = 40.0;

/// Returns the largest number of bits by which a digit of a relinearization key may exceed `P`.
pub(super) fn product_excess_bits(scale_bits: u32) -> f64 {
    (f64::from(scale_bits) - search::PRODUCT_MARGIN_BITS).max(search::ROTATION_EXCESS_BITS)
}

/// Largest number of primes in a digit. The sum of that many products of residues fits 64 bits, and the reduced sum
/// fits a word (see [`crate::cpu::base_convert`]).
pub const DIGIT_PRIMES_MAX: usize = 7;

/// Splits `items`, in order, into groups. A group has at most [`DIGIT_PRIMES_MAX`] items, and the primes of these
/// items, which `prime` returns, have at most `bits` bits together. An item whose prime has more bits forms a group
/// alone.
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

/// Returns the least number of these primes, from the first on, whose product has at least `bits` bits; all if none has.
fn count_at_least(primes: impl ExactSizeIterator<Item = u32>, bits: f64) -> usize {
    let (count, mut sum) = (primes.len(), 0.0);
    let position = primes.map(|q| libm::log2(f64::from(q))).position(|log| {
        sum += log;
        sum >= bits
    });
    position.map_or(count, |last| last + 1)
}

fn log_product(primes: impl IntoIterator<Item = u32>) -> f64 {
    primes.into_iter().map(|q| libm::log2(f64::from(q))).sum()
}
