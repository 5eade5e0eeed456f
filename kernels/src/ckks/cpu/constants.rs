//! Constants of divisions, digits and automorphisms, made at first use and cached.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use crate::ckks::params::Params;
use crate::cpu::automorphism::Permutation;
use crate::cpu::base_convert::Conversion;
use crate::cpu::ntt::NttTables;
use crate::modular::Modulus;
use crate::ring::Root;

/// A ciphertext's level, the digits of a key, and how many special primes the key has.
type LevelAndDigits = (usize, Vec<Vec<usize>>, usize);

/// The cached constants.
#[derive(Default)]
pub(super) struct Constants {
    divisions: Mutex<HashMap<(usize, usize, usize), Arc<Division>>>,
    raise: OnceLock<Arc<Conversion>>,
    digits: Mutex<HashMap<LevelAndDigits, Arc<Vec<Digit>>>>,
    /// Permutations by Galois element.
    permutations: Mutex<HashMap<u32, Arc<Permutation>>>,
}

/// Largest number of cached permutations. All rotations by powers of two, in both directions, fit in the cache.
const PERMUTATIONS_MAX: usize = 64;

/// The most bytes that the cached permutations take at this degree.
pub(super) fn permutations_bytes_max(polynomial_size: usize) -> usize {
    PERMUTATIONS_MAX * Permutation::bytes_max(polynomial_size)
}

/// A rounded division that takes a polynomial from one set of primes to another. First, the polynomial is multiplied by
/// a whole number and by the product `e` of the gained primes. Then it is divided by the product `g` of the lost primes
/// ([`crate::ckks::Chain::divided`]).
pub(super) struct Division {
    /// Primes of the input, in order: the primes of its level, then the special primes that the division removes.
    pub(super) from: Vec<usize>,
    /// Places in `from` of the lost primes, which are the primes that this division divides by.
    pub(super) lost: Vec<usize>,
    /// Primes of the result.
    pub(super) to: Vec<Remaining>,
    /// Base conversion from the lost primes to the primes of the result. It also multiplies by `-1 / g`.
    pub(super) conversion: Conversion,
    /// For each prime in `lost`: the factor `P 2^32` of the addend ([`super::switch::Addend`]), or `None` for a special
    /// prime.
    pub(super) lost_addends: Vec<Option<Root>>,
}

/// A prime of the result, with its factors.
pub(super) struct Remaining {
    pub(super) prime: usize,
    /// The prime's place in the input, if the input has this prime.
    pub(super) at: Option<usize>,
    /// The factor `e / g`.
    pub(super) factor: Root,
    /// The factors `P e / g` and `2^32 P e / g`.
    pub(super) addend: [Root; 2],
}

/// A digit of a ciphertext.
pub(super) struct Digit {
    /// The digit's index in the key.
    pub(super) number: usize,
    /// For each prime of the digit, its place among the primes of the level.
    pub(super) sources: Vec<usize>,
    /// For each prime of the level, then for each special prime of the key: the prime's place among the targets of `conversion`.
    /// `None` for primes of the digit, which need no conversion.
    pub(super) targets: Vec<Option<usize>>,
    pub(super) conversion: Conversion,
}

impl Constants {
    /// Returns the conversion from level 0 to all primes of the highest level. The targets for the primes of level 0
    /// are not used.
    pub(super) fn raise(&self, params: &Params) -> Arc<Conversion> {
        let make = || {
            let primes = params.primes();
            let inverse_degree = |p: Modulus| p.inverse(params.n() as u32 % p.q());
            let sources: Vec<(Modulus, u32)> =
                params.level(0).primes.iter().map(|&at| (primes[at], inverse_degree(primes[at]))).collect();
            let top = &params.level(params.raised_level()).primes;
            let targets: Vec<(Modulus, u32)> = top.iter().map(|&at| (primes[at], 1)).collect();
            Arc::new(Conversion::new(&sources, &targets))
        };
        self.raise.get_or_init(make).clone()
    }

    pub(super) fn division(
        &self,
        params: &Params,
        level: usize,
        to: usize,
        special: usize,
        factor: u128,
    ) -> Arc<Division> {
        let make = || Arc::new(Division::new(params, level, to, special, factor));
        if factor != 1 {
            // a division with a factor is not cached, because almost every scale needs another factor
            return make();
        }
        let mut made = self.divisions.lock().expect("no thread panics with the lock");
        made.entry((level, to, special)).or_insert_with(make).clone()
    }

    /// Returns the digits of a ciphertext of this level, for a key with these digits and this number of special primes. A
    /// digit of the key is left out if it contains no prime of the level.
    pub(super) fn digits(
        &self,
        params: &Params,
        level: usize,
        of_key: &[Vec<usize>],
        special: usize,
    ) -> Arc<Vec<Digit>> {
        let mut made = self.digits.lock().expect("no thread panics with the lock");
        let key = (level, of_key.to_vec(), special);
        if let Some(found) = made.get(&key) {
            return found.clone();
        }
        let each = |(number, digit): (usize, &Vec<usize>)| Digit::new(params, level, number, digit, special);
        let digits = Arc::new(of_key.iter().enumerate().filter_map(each).collect::<Vec<_>>());
        made.insert(key, digits.clone());
        digits
    }

    /// Counts the bytes of the cached permutations.
    #[cfg(test)]
    pub(super) fn permutations_bytes(&self) -> u64 {
        let made = self.permutations.lock().expect("no thread panics with the lock");
        made.values().map(|permutation| permutation.bytes() as u64).sum()
    }

    /// Returns the permutation of the words of a row under `X -> X^element`.
    pub(super) fn permutation(&self, tables: &NttTables, element: u32) -> Arc<Permutation> {
        let mut made = self.permutations.lock().expect("no thread panics with the lock");
        if made.len() >= PERMUTATIONS_MAX && !made.contains_key(&element) {
            made.clear();
        }
        made.entry(element).or_insert_with(|| Arc::new(Permutation::of(tables, element))).clone()
    }
}

fn product(p: Modulus, primes: impl Iterator<Item = Modulus>) -> u32 {
    primes.fold(1, |product, q| p.mul(product, q.q() % p.q()))
}

impl Division {
    fn new(params: &Params, level: usize, to: usize, special: usize, factor: u128) -> Division {
        let primes = params.primes();
        let first = params.chain().ciphertext_primes();
        let specials = first..first + special;
        let (upper, lower) = (&params.level(level).primes, &params.level(to).primes);
        let from: Vec<usize> = upper.iter().copied().chain(specials.clone()).collect();
        let divided = params.chain().divided(level, to);
        let is_lost = |&at: &usize| at >= upper.len() || divided.contains(&from[at]);
        let lost: Vec<usize> = (0..from.len()).filter(is_lost).collect();
        let gained: Vec<usize> = lower.iter().copied().filter(|prime| !upper.contains(prime)).collect();
        let e = |p: Modulus| {
            let factor = (factor % u128::from(p.q())) as u32;
            p.mul(factor, product(p, gained.iter().map(|&at| primes[at])))
        };
        let g = |p: Modulus| product(p, lost.iter().map(|&at| primes[from[at]]));
        let of_special = |p: Modulus| product(p, specials.clone().map(|at| primes[at]));
        let montgomery = |p: Modulus| p.pow(2, 32);
        let inverse_degree = |p: Modulus| p.inverse(params.n() as u32 % p.q());
        let sources: Vec<(Modulus, u32)> =
            lost.iter().map(|&at| primes[from[at]]).map(|p| (p, p.mul(e(p), inverse_degree(p)))).collect();
        let targets: Vec<(Modulus, u32)> =
            lower.iter().map(|&at| primes[at]).map(|p| (p, p.sub(0, p.inverse(g(p))))).collect();
        let remaining = |&prime: &usize| {
            let p = primes[prime];
            // For a gained prime, this factor is 0, because the prime divides e and the input has no row for the prime.
            let factor = p.mul(e(p), p.inverse(g(p)));
            let addend = p.mul(factor, of_special(p));
            Remaining {
                prime,
                at: from.iter().position(|&of| of == prime),
                factor: Root::new(p, factor),
                addend: [addend, p.mul(addend, montgomery(p))].map(|w| Root::new(p, w)),
            }
        };
        let lost_addend = |&at: &usize| {
            let p = primes[from[at]];
            (at < upper.len()).then(|| Root::new(p, p.mul(of_special(p), montgomery(p))))
        };
        Division {
            to: lower.iter().map(remaining).collect(),
            conversion: Conversion::new(&sources, &targets),
            lost_addends: lost.iter().map(lost_addend).collect(),
            from,
            lost,
        }
    }
}

impl Digit {
    fn new(params: &Params, level: usize, number: usize, digit: &[usize], special: usize) -> Option<Digit> {
        let primes = params.primes();
        let of_level = &params.level(level).primes;
        let sources: Vec<usize> = (0..of_level.len()).filter(|&at| digit.contains(&of_level[at])).collect();
        if sources.is_empty() {
            return None;
        }
        let first = params.chain().ciphertext_primes();
        let all: Vec<usize> = of_level.iter().copied().chain(first..first + special).collect();
        let mut targets = Vec::new();
        let mut converted = Vec::new();
        for (at, &prime) in all.iter().enumerate() {
            let own = sources.contains(&at);
            targets.push((!own).then_some(converted.len()));
            if !own {
                converted.push((primes[prime], 1));
            }
        }
        let inverse_degree = |p: Modulus| p.inverse(params.n() as u32 % p.q());
        let of_sources: Vec<(Modulus, u32)> =
            sources.iter().map(|&at| primes[of_level[at]]).map(|p| (p, inverse_degree(p))).collect();
        Some(Digit { number, sources, targets, conversion: Conversion::new(&of_sources, &converted) })
    }
}
