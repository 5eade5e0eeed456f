//! The numbers of divisions, digits and raising ([`crate::ckks::divisions`]) in the form that the loops read, and the
//! permutations of automorphisms. All are made at first use and cached.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use crate::ckks::divisions::{self, Raised};
use crate::ckks::params::Params;
use crate::cpu::automorphism::Permutation;
use crate::cpu::base_convert::Conversion;
use crate::cpu::ntt::NttTables;
use crate::ring::Root;

/// A ciphertext's level, the digits of a key, and how many special primes the key has.
type LevelAndDigits = (usize, Vec<Vec<usize>>, usize);

/// The cached constants.
#[derive(Default)]
pub(super) struct Constants {
    divisions: Mutex<HashMap<(usize, usize, usize), Arc<Division>>>,
    raise: OnceLock<Arc<Raise>>,
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

/// A rounded division ([`divisions::Division`]), laid out for the CPU.
pub(super) struct Division {
    /// Primes of the input, in order.
    pub(super) from: Vec<usize>,
    /// Places in `from` of the lost primes.
    pub(super) lost: Vec<usize>,
    /// Primes of the result.
    pub(super) to: Vec<Remaining>,
    /// Base conversion from the lost primes to the primes of the result.
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

/// A digit of a ciphertext ([`divisions::Digit`]), laid out for the CPU.
pub(super) struct Digit {
    /// The digit's index in the key.
    pub(super) number: usize,
    /// For each prime of the digit, its place among the primes of the level.
    pub(super) sources: Vec<usize>,
    /// For each prime of the level, then for each special prime of the key: the prime's place among the targets of
    /// `conversion`. `None` for primes of the digit, which need no conversion.
    pub(super) targets: Vec<Option<usize>>,
    pub(super) conversion: Conversion,
}

/// Raising ([`divisions::Raise`]), laid out for the CPU.
pub(super) struct Raise {
    /// Primes of the highest level, in order.
    pub(super) to: Vec<Raised>,
    /// Base conversion from the primes of level 0 to `to`. The targets for the primes of level 0 are not used.
    pub(super) conversion: Conversion,
}

impl Constants {
    /// Returns the conversion from level 0 to the highest level.
    pub(super) fn raise(&self, params: &Params) -> Arc<Raise> {
        let make = || {
            let numbers = divisions::Raise::new(params);
            let conversion = Conversion::new(&numbers.conversion(params));
            Arc::new(Raise { to: numbers.to, conversion })
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
        let make = || {
            let numbers = divisions::Division::new(params, level, to, special, factor);
            Arc::new(Division::new(params, numbers))
        };
        if factor != 1 {
            // a division with a factor is not cached, because almost every scale needs another factor
            return make();
        }
        let mut made = self.divisions.lock().expect("no thread panics with the lock");
        made.entry((level, to, special)).or_insert_with(make).clone()
    }

    /// Returns the digits of a ciphertext of this level, for a key with these digits and this number of special primes.
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
        let numbers = divisions::Digit::all(params, level, of_key, special);
        let each = |numbers: divisions::Digit| Digit::new(params, level, numbers);
        let digits = Arc::new(numbers.into_iter().map(each).collect::<Vec<_>>());
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

impl Division {
    fn new(params: &Params, numbers: divisions::Division) -> Division {
        let conversion = Conversion::new(&numbers.conversion(params));
        let divisions::Division { from, lost, to } = numbers;
        let root = |prime: usize, word: u32| Root::new(params.primes()[prime], word);
        let montgomery = |prime: usize, word: u32| {
            let p = params.primes()[prime];
            Root::new(p, p.mul(word, p.pow(2, 32)))
        };
        let remaining = |&divisions::Remaining { prime, at, factor, addend, .. }: &divisions::Remaining| Remaining {
            prime,
            at,
            factor: root(prime, factor),
            addend: [root(prime, addend), montgomery(prime, addend)],
        };
        Division {
            from,
            lost: lost.iter().map(|lost| lost.at).collect(),
            to: to.iter().map(remaining).collect(),
            conversion,
            lost_addends: lost.iter().map(|lost| lost.addend.map(|word| montgomery(lost.prime, word))).collect(),
        }
    }
}

impl Digit {
    fn new(params: &Params, level: usize, numbers: divisions::Digit) -> Digit {
        let conversion = Conversion::new(&numbers.conversion(params, level));
        let divisions::Digit { number, sources, targets, .. } = numbers;
        Digit { number, sources, targets, conversion }
    }
}
