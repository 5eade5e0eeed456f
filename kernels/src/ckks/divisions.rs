//! The numbers of rounded divisions, of digits and of raising: indices of primes, and residues modulo these primes. No
//! number here depends on a device. Each device lays the numbers out in its own form.
//!
//! All three are base conversions ([`crate::conversion`]) between sets of primes of one chain. An index of a prime is its
//! index in [`Params::primes`].

use super::params::Params;
use crate::conversion::Conversion;
use crate::modular::Modulus;

/// A prime's index, and its factor in a conversion.
type Factor = (usize, u32);

/// Returns the numbers of a conversion from source primes to target primes. The inverse transform does not divide by
/// `N`, so the conversion also multiplies by `1 / N`.
fn conversion(
    params: &Params,
    sources: impl Iterator<Item = Factor>,
    targets: impl Iterator<Item = Factor>,
) -> Conversion {
    let source = |(prime, factor): Factor| {
        let p = params.primes()[prime];
        (p, p.mul(factor, p.inverse(params.n() as u32 % p.q())))
    };
    let sources: Vec<(Modulus, u32)> = sources.map(source).collect();
    let targets: Vec<(Modulus, u32)> = targets.map(|(prime, factor)| (params.primes()[prime], factor)).collect();
    Conversion::new(&sources, &targets)
}

/// A rounded division that takes a polynomial `x` from one set of primes to another.
///
/// `e` is a whole number times the product of the gained primes, `g` is the product of the lost primes
/// ([`crate::ckks::Chain::divided`]), and `r` is the whole number nearest to 0 with `r = x e mod g`. The result is
/// `(x e - r) / g`, which is `x e / g` rounded (Halevi, Polyakov, Shoup, eprint 2018/117). Modulo a prime `p` of
/// the result:
///
/// ```text
/// out = x (e / g) + r (-1 / g) mod p                         r is converted from the lost primes
/// ```
///
/// A division by special primes can have an addend `a` without special primes. The input is then `x + P a`, where `P`
/// is the product of the special primes (Han, Ki, eprint 2019/688, 3).
pub struct Division {
    /// Indices of the input's primes, in order: the primes of its level, then the special primes that the division
    /// removes.
    pub from: Vec<usize>,
    /// The primes that this division divides by, in the order of `from`.
    pub lost: Vec<Lost>,
    /// The primes of the result, in order.
    pub to: Vec<Remaining>,
}

/// A lost prime, with its factors.
pub struct Lost {
    /// The prime's index.
    pub prime: usize,
    /// The prime's place in the input.
    pub at: usize,
    /// The factor `e` of `x`.
    pub factor: u32,
    /// The factor `P` of the addend. `None` for a special prime, which divides `P`.
    pub addend: Option<u32>,
}

/// A prime of the result, with its factors.
pub struct Remaining {
    /// The prime's index.
    pub prime: usize,
    /// The prime's place in the input, if the input has this prime.
    pub at: Option<usize>,
    /// The factor `e / g` of `x`. For a gained prime, this factor is 0, because the prime divides `e`.
    pub factor: u32,
    /// The factor `P e / g` of the addend.
    pub addend: u32,
    /// The factor `-1 / g` of `r`.
    pub remainder: u32,
}

impl Division {
    /// Returns the numbers of the division from `level` and the first `special` special primes to the level `to`. The
    /// whole number in `e` is `factor`.
    ///
    /// # Panics
    /// When `to` is above `level`.
    pub fn new(params: &Params, level: usize, to: usize, special: usize, factor: u128) -> Division {
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
        let of_lost = |&at: &usize| {
            let (prime, p) = (from[at], primes[from[at]]);
            Lost { prime, at, factor: e(p), addend: (at < upper.len()).then(|| of_special(p)) }
        };
        let remaining = |&prime: &usize| {
            let p = primes[prime];
            let inverse = p.inverse(g(p));
            let factor = p.mul(e(p), inverse);
            Remaining {
                prime,
                at: from.iter().position(|&of| of == prime),
                factor,
                addend: p.mul(factor, of_special(p)),
                remainder: p.sub(0, inverse),
            }
        };
        Division { lost: lost.iter().map(of_lost).collect(), to: lower.iter().map(remaining).collect(), from }
    }

    /// The conversion from the lost primes to the primes of the result.
    pub fn conversion(&self, params: &Params) -> Conversion {
        let lost = self.lost.iter().map(|lost| (lost.prime, lost.factor));
        conversion(params, lost, self.to.iter().map(|remaining| (remaining.prime, remaining.remainder)))
    }
}

fn product(p: Modulus, primes: impl Iterator<Item = Modulus>) -> u32 {
    primes.fold(1, |product, q| p.mul(product, q.q() % p.q()))
}

/// A digit of a ciphertext: the residues modulo the digit's primes, read as whole numbers nearest to 0. The product
/// with the key needs these numbers modulo all primes of the level and modulo the special primes of the key (Han, Ki,
/// eprint 2019/688, 3).
pub struct Digit {
    /// The digit's index in the key.
    pub number: usize,
    /// For each prime of the digit, its place among the primes of the level.
    pub sources: Vec<usize>,
    /// For each prime of the level, then for each special prime of the key: the prime's place in `converted`. `None`
    /// for primes of the digit, which need no conversion.
    pub targets: Vec<Option<usize>>,
    /// Indices of the primes to which the digit is converted, in order.
    pub converted: Vec<usize>,
}

impl Digit {
    /// Lists the digits of a ciphertext of this level, for a key with these digits and this number of special primes. A
    /// digit of the key is left out if it contains no prime of the level.
    pub fn all(params: &Params, level: usize, of_key: &[Vec<usize>], special: usize) -> Vec<Digit> {
        let of_level = &params.level(level).primes;
        let first = params.chain().ciphertext_primes();
        let all: Vec<usize> = of_level.iter().copied().chain(first..first + special).collect();
        let digit = |(number, primes): (usize, &Vec<usize>)| {
            let sources: Vec<usize> = (0..of_level.len()).filter(|&at| primes.contains(&of_level[at])).collect();
            let (mut targets, mut converted) = (Vec::new(), Vec::new());
            for (at, &prime) in all.iter().enumerate() {
                let own = sources.contains(&at);
                targets.push((!own).then_some(converted.len()));
                if !own {
                    converted.push(prime);
                }
            }
            Digit { number, sources, targets, converted }
        };
        of_key.iter().enumerate().map(digit).filter(|digit| !digit.sources.is_empty()).collect()
    }

    /// The conversion from the digit's primes, for a ciphertext of this level.
    pub fn conversion(&self, params: &Params, level: usize) -> Conversion {
        let of_level = &params.level(level).primes;
        let sources = self.sources.iter().map(|&at| (of_level[at], 1));
        conversion(params, sources, self.converted.iter().map(|&prime| (prime, 1)))
    }
}

/// Raising: the residues of a polynomial of level 0 are read as the whole numbers nearest to 0, and reduced modulo all
/// primes of the highest level.
pub struct Raise {
    /// Indices of the primes of level 0, in order.
    pub from: Vec<usize>,
    /// The primes of the highest level, in order.
    pub to: Vec<Raised>,
}

/// A prime of the highest level.
pub struct Raised {
    /// The prime's index.
    pub prime: usize,
    /// The prime's place among the primes of level 0, if level 0 has this prime. Its residues stay the same.
    pub at: Option<usize>,
}

impl Raise {
    /// Returns the numbers of raising for these parameters.
    pub fn new(params: &Params) -> Raise {
        let from = params.level(0).primes.clone();
        let raised = |&prime: &usize| Raised { prime, at: from.iter().position(|&of| of == prime) };
        Raise { to: params.level(params.raised_level()).primes.iter().map(raised).collect(), from }
    }

    /// The conversion from the primes of level 0 to all primes of the highest level. Primes of level 0 do not need it.
    pub fn conversion(&self, params: &Params) -> Conversion {
        let sources = self.from.iter().map(|&prime| (prime, 1));
        conversion(params, sources, self.to.iter().map(|raised| (raised.prime, 1)))
    }
}
