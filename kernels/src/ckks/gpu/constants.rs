//! The numbers of divisions, digits and raising ([`crate::ckks::divisions`]) as words of the kernels' tables. All are
//! made at first use and cached.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::ckks::divisions::{self, Lost, Raised, Remaining};
use crate::ckks::params::Params;
use crate::conversion::{self, Source};
use crate::modular::Modulus;
use crate::ring::Root;

/// A conversion as records of `ntt_columns`.
pub struct Conversion {
    /// The number of sources.
    pub sources: usize,
    /// The record of `ntt_columns_inverse`.
    pub scaling: Vec<u32>,
    /// The record of `ntt_columns` for each target.
    pub targets: Vec<Vec<u32>>,
}

impl Conversion {
    /// Lays out the numbers. `sources` and `targets` are the primes' indices.
    fn new(
        numbers: &conversion::Conversion,
        sources: impl Iterator<Item = usize>,
        targets: impl Iterator<Item = usize>,
    ) -> Conversion {
        let count = numbers.sources.len();
        let mut scaling = vec![count as u32];
        for (prime, &Source { modulus, scale, fraction }) in sources.zip(&numbers.sources) {
            let Root { value, companion } = Root::new(modulus, scale);
            scaling.extend([prime as u32, Modulus::BITS_MAX - modulus.bits(), value, companion, fraction]);
        }
        let target = |(prime, target): (usize, &conversion::Target)| {
            let p = target.modulus;
            let unit = p.pow(2 % p.q(), 32);
            let factors = target.factors.iter().map(|&factor| p.mul(unit, factor));
            [prime as u32, count as u32].into_iter().chain(factors).collect()
        };
        Conversion { sources: count, scaling, targets: targets.zip(&numbers.targets).map(target).collect() }
    }
}

/// A rounded division ([`divisions::Division`]).
pub struct Division {
    /// How many primes the input has.
    pub from: usize,
    /// The primes by which the division divides.
    pub lost: Vec<Lost>,
    /// The primes of the result.
    pub to: Vec<Remaining>,
    /// From the lost primes to the primes of the result.
    pub conversion: Conversion,
}

/// A digit of a ciphertext ([`divisions::Digit`]).
pub struct Digit {
    /// The digit's index in the key.
    pub number: usize,
    /// For each prime of the digit, its place among the primes of the level.
    pub sources: Vec<usize>,
    /// For each prime of the level, then for each special prime of the key: the place among the targets of
    /// `conversion`. `None` for primes of the digit, which need no conversion.
    pub targets: Vec<Option<usize>>,
    /// From the digit's primes to all others.
    pub conversion: Conversion,
}

/// Raising ([`divisions::Raise`]).
pub struct Raise {
    /// Indices of the primes of level 0, in order.
    pub from: Vec<usize>,
    /// The primes of the highest level.
    pub to: Vec<Raised>,
    /// From level 0 to `to`. The targets for the primes of level 0 are not used.
    pub conversion: Conversion,
}

/// A ciphertext's level, the digits of a key, and how many special primes the key has.
type LevelAndDigits = (usize, Vec<Vec<usize>>, usize);

/// The cached constants.
#[derive(Default)]
pub struct Constants {
    divisions: Mutex<HashMap<(usize, usize, usize), Arc<Division>>>,
    digits: Mutex<HashMap<LevelAndDigits, Arc<Vec<Digit>>>>,
    raise: OnceLock<Arc<Raise>>,
}

impl Constants {
    /// Returns the division from `level` and the first `special` special primes to the level `to`. The input is
    /// multiplied by `factor`.
    pub fn division(&self, params: &Params, level: usize, to: usize, special: usize, factor: u128) -> Arc<Division> {
        let make = || {
            let numbers = divisions::Division::new(params, level, to, special, factor);
            let lost = numbers.lost.iter().map(|lost| lost.prime);
            let remaining = numbers.to.iter().map(|remaining| remaining.prime);
            let conversion = Conversion::new(&numbers.conversion(params), lost, remaining);
            Arc::new(Division { from: numbers.from.len(), conversion, lost: numbers.lost, to: numbers.to })
        };
        if factor != 1 {
            // a division with a factor is not cached, because almost every scale needs another factor
            return make();
        }
        let mut made = self.divisions.lock().unwrap_or_else(PoisonError::into_inner);
        made.entry((level, to, special)).or_insert_with(make).clone()
    }

    /// Returns the digits of a ciphertext of this level, for a key with these digits and this number of special primes.
    pub fn digits(&self, params: &Params, level: usize, of_key: &[Vec<usize>], special: usize) -> Arc<Vec<Digit>> {
        let mut made = self.digits.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (level, of_key.to_vec(), special);
        if let Some(found) = made.get(&key) {
            return found.clone();
        }
        let of_level = &params.level(level).primes;
        let digit = |numbers: divisions::Digit| {
            let sources = numbers.sources.iter().map(|&at| of_level[at]);
            let targets = numbers.converted.iter().copied();
            let conversion = Conversion::new(&numbers.conversion(params, level), sources, targets);
            Digit { number: numbers.number, sources: numbers.sources, targets: numbers.targets, conversion }
        };
        let digits = divisions::Digit::all(params, level, of_key, special);
        let digits = Arc::new(digits.into_iter().map(digit).collect::<Vec<_>>());
        made.insert(key, digits.clone());
        digits
    }

    /// Returns the conversion from level 0 to the highest level.
    pub fn raise(&self, params: &Params) -> Arc<Raise> {
        let make = || {
            let numbers = divisions::Raise::new(params);
            let (from, to) = (numbers.from.iter().copied(), numbers.to.iter().map(|raised| raised.prime));
            let conversion = Conversion::new(&numbers.conversion(params), from, to);
            Arc::new(Raise { from: numbers.from, to: numbers.to, conversion })
        };
        self.raise.get_or_init(make).clone()
    }
}
