//! Definitions of the results of arithmetic on encrypted numbers (CKKS): base conversions, rounded divisions, products
//! with a key, and the operations that consist of them.
//!
//! All polynomials are in coefficient form, so no definition has a transform. Whole numbers are exact integers of any
//! size. The 28 bits of a fraction in a base conversion are part of the definition, because every device must find the
//! same quotient.
//!
//! Primes are given by their indices in [`Params::primes`], and `special` is the number of special primes of a key.

use std::ops::Range;

use kernels::ckks::Params;
use num_bigint::BigInt;

use super::{Polynomial, add_negacyclic_product};

/// A polynomial modulo several primes: a row of coefficients for each prime.
pub type Rows = Vec<Polynomial>;

/// The two polynomials of a ciphertext. The phase of a ciphertext `[a0, a1]` is `a0 + a1 s`.
pub type Ciphertext = [Rows; 2];

/// Number of bits of a fraction in a base conversion.
const FRACTION_BITS: u32 = 28;

/// A part of an evaluation key.
pub struct KeyPart {
    /// The part's digits, each as indices of primes.
    pub digits: Vec<Vec<usize>>,
    /// The part's primes: the primes of ciphertexts up to its level, then its special primes.
    pub primes: Vec<usize>,
    /// For each digit, the body and the mask, with a row for each of the part's primes.
    pub rows: Vec<Ciphertext>,
}

impl KeyPart {
    /// How many special primes the part has.
    pub fn special(&self, params: &Params) -> usize {
        self.primes.iter().filter(|&&prime| prime >= params.chain().ciphertext_primes()).count()
    }
}

/// The primes themselves.
pub fn moduli(params: &Params, primes: &[usize]) -> Vec<u32> {
    primes.iter().map(|&prime| params.primes()[prime].q()).collect()
}

/// The primes of a level, then special primes.
pub fn primes_of(params: &Params, level: usize, special: usize) -> Vec<usize> {
    params.level(level).primes.iter().copied().chain(special_primes(params, special)).collect()
}

fn special_primes(params: &Params, special: usize) -> Range<usize> {
    let first = params.chain().ciphertext_primes();
    first..first + special
}

/// `1 / x mod q` for a prime `q`, as `x^(q - 2)`.
pub fn inverse(x: u32, q: u32) -> u32 {
    let (mut power, mut square, mut exponent) = (1, u64::from(x % q), q - 2);
    while exponent > 0 {
        if exponent % 2 == 1 {
            power = power * square % u64::from(q);
        }
        square = square * square % u64::from(q);
        exponent /= 2;
    }
    power as u32
}

/// The residue of a whole number in `[0, q)`.
pub fn residue(x: &BigInt, q: u32) -> u32 {
    let remainder = ((x % q) + q) % q;
    u32::try_from(remainder).expect("a residue is below its prime")
}

fn product(primes: &[u32]) -> BigInt {
    primes.iter().map(|&prime| BigInt::from(prime)).product()
}

/// The whole number nearest to 0 that has the residues `x` modulo `primes`. With `A` the product of the primes `a_i`:
///
/// ```text
/// (1) y_i = x_i (A / a_i)^-1 mod a_i
/// (2) v   = floor(sum of y_i / a_i + 1/2)       each y_i / a_i rounded down to 28 bits
/// (3) x   = sum of y_i (A / a_i) - v A
/// ```
///
/// Because the fractions are rounded, a number within `2^-24 A` of `A / 2` may become that number minus `A`.
pub fn whole(primes: &[u32], x: &[u32]) -> BigInt {
    assert_eq!(primes.len(), x.len(), "a residue for each prime");
    let all = product(primes);
    let (mut sum, mut fractions) = (BigInt::ZERO, 1 << (FRACTION_BITS - 1));
    for (&a, &x) in primes.iter().zip(x) {
        let others = &all / a;
        let y = u64::from(x) * u64::from(inverse(residue(&others, a), a)) % u64::from(a);
        fractions += fraction(y, a);
        sum += y * others;
    }
    sum - (fractions >> FRACTION_BITS) * all
}

/// `y / a` in units of `2^-28`. The inverse of `a` and the product are both rounded down: `1 / a` to 31 bits, then
/// `y / a` to 28 bits of fraction.
fn fraction(y: u64, a: u32) -> u64 {
    let bits = u32::BITS - a.leading_zeros();
    let inverse = (1 << (30 + bits)) / u64::from(a);
    ((y << (30 - bits)) * inverse) >> 32
}

/// Base conversion: the whole numbers that the coefficients of `x` stand for, modulo other primes.
pub fn base_conversion(sources: &[u32], x: &[Polynomial], targets: &[u32]) -> Rows {
    let n = x[0].len();
    let wholes: Vec<BigInt> = (0..n).map(|i| whole(sources, &coefficient(x, i))).collect();
    targets.iter().map(|&p| wholes.iter().map(|whole| residue(whole, p)).collect()).collect()
}

fn coefficient(x: &[Polynomial], i: usize) -> Vec<u32> {
    x.iter().map(|row| row[i]).collect()
}

/// The primes of a rounded division, and the numbers by which it multiplies and divides.
pub struct Division {
    /// Indices of the input's primes.
    pub from: Vec<usize>,
    /// Indices of the result's primes.
    pub to: Vec<usize>,
    /// Indices of the primes that the division divides by: the special primes and those of
    /// [`kernels::ckks::Chain::divided`].
    pub lost: Vec<usize>,
    /// `e`: the factor times the product of the gained primes, which the result has and the input lacks.
    pub multiplier: BigInt,
    /// `g`: the product of the lost primes.
    pub divisor: BigInt,
}

impl Division {
    /// The division from `level` and `special` special primes to the level `to`.
    pub fn new(params: &Params, level: usize, special: usize, to: usize, factor: u128) -> Division {
        let from = primes_of(params, level, special);
        let of_result = params.level(to).primes.clone();
        let gained: Vec<usize> = of_result.iter().copied().filter(|prime| !from.contains(prime)).collect();
        let mut lost = params.chain().divided(level, to);
        lost.extend(special_primes(params, special));
        let multiplier = product(&moduli(params, &gained)) * factor;
        let divisor = product(&moduli(params, &lost));
        Division { from, to: of_result, lost, multiplier, divisor }
    }

    /// `(x e - r) / g` modulo each prime of the result, where `r` is the whole number nearest to 0 with `r = x e`
    /// modulo the lost primes.
    pub fn of(&self, params: &Params, x: &[Polynomial]) -> Rows {
        assert_eq!(x.len(), self.from.len(), "a row for each prime of the input");
        let row = |prime: usize| self.from.iter().position(|&of| of == prime).map(|at| &x[at]);
        let lost = moduli(params, &self.lost);
        let n = x[0].len();
        let remainder = |i: usize| {
            let residues = self.lost.iter().zip(&lost).map(|(&prime, &q)| {
                let x = row(prime).expect("the input has the lost primes")[i];
                residue(&(&self.multiplier * x), q)
            });
            whole(&lost, &residues.collect::<Vec<u32>>())
        };
        let remainders: Vec<BigInt> = (0..n).map(remainder).collect();
        let of_prime = |&prime: &usize| {
            let q = params.primes()[prime].q();
            let of_divisor = inverse(residue(&self.divisor, q), q);
            let quotient = |(i, remainder): (usize, &BigInt)| {
                // a gained prime divides e, so x e is 0 modulo this prime
                let multiple = row(prime).map_or(BigInt::ZERO, |row| &self.multiplier * row[i]);
                residue(&((multiple - remainder) * of_divisor), q)
            };
            remainders.iter().enumerate().map(quotient).collect()
        };
        self.to.iter().map(of_prime).collect()
    }
}

/// The digits of a polynomial of a level: for each digit of the key that has primes of the level, the digit's index in
/// the key, and the whole numbers that the residues modulo these primes stand for, modulo all primes of the level and
/// the special primes.
pub fn digits(
    params: &Params,
    level: usize,
    of_key: &[Vec<usize>],
    special: usize,
    x: &[Polynomial],
) -> Vec<(usize, Rows)> {
    let of_level = &params.level(level).primes;
    let targets = moduli(params, &primes_of(params, level, special));
    let mut digits = Vec::new();
    for (number, digit) in of_key.iter().enumerate() {
        let places: Vec<usize> = (0..of_level.len()).filter(|&at| digit.contains(&of_level[at])).collect();
        if !places.is_empty() {
            let sources: Vec<usize> = places.iter().map(|&at| of_level[at]).collect();
            let residues: Rows = places.iter().map(|&at| x[at].clone()).collect();
            digits.push((number, base_conversion(&moduli(params, &sources), &residues, &targets)));
        }
    }
    digits
}

/// The product of the digits of `x` with a key: for the body and for the mask, `sum over j of d_j key_j`, modulo the
/// primes of the level, then modulo the special primes.
pub fn key_product(params: &Params, level: usize, key: &KeyPart, x: &[Polynomial]) -> Ciphertext {
    let special = key.special(params);
    let digits = digits(params, level, &key.digits, special, x);
    let primes = primes_of(params, level, special);
    [0, 1].map(|c| {
        let of_prime = |(at, &prime): (usize, &usize)| {
            let place = key.primes.iter().position(|&of| of == prime).expect("a key has the primes of its levels");
            let terms = digits.iter().map(|(number, digit)| (&digit[at], &key.rows[*number][c][place]));
            sum_of_negacyclic_products(params.primes()[prime].q(), &terms.collect::<Vec<_>>())
        };
        primes.iter().enumerate().map(of_prime).collect()
    })
}

/// A key switch: the product of the digits of `x` with the key, plus `P` times the addend, divided by the special
/// primes and brought to the level `to`. `P` is the product of the special primes.
pub fn key_switch(
    params: &Params,
    (level, to): (usize, usize),
    key: &KeyPart,
    x: &[Polynomial],
    addend: &Ciphertext,
) -> Ciphertext {
    let product = key_product(params, level, key, x);
    divided(params, (level, to), key.special(params), product, addend)
}

/// `(x + P addend) / P`, rounded and brought to the level `to`.
fn divided(
    params: &Params,
    (level, to): (usize, usize),
    special: usize,
    mut x: Ciphertext,
    addend: &Ciphertext,
) -> Ciphertext {
    let of_special: BigInt = product(&moduli(params, &special_primes(params, special).collect::<Vec<_>>()));
    let of_level = moduli(params, &params.level(level).primes);
    for (x, addend) in x.iter_mut().zip(addend) {
        // P is 0 modulo the special primes
        for ((x, addend), &q) in x.iter_mut().zip(addend).zip(&of_level) {
            for (x, &addend) in x.iter_mut().zip(addend) {
                *x = residue(&(&of_special * addend + *x), q);
            }
        }
    }
    let division = Division::new(params, level, special, to, 1);
    x.map(|x| division.of(params, &x))
}

/// `(factor a)` divided by the primes that leave between `level` and `to`, times the primes that enter.
pub fn rescale(params: &Params, level: usize, to: usize, factor: u128, a: &Ciphertext) -> Ciphertext {
    let division = Division::new(params, level, 0, to, factor);
    [0, 1].map(|c| division.of(params, &a[c]))
}

/// A ciphertext of level 0, read as whole numbers nearest to 0, modulo the primes of the highest level.
pub fn raise(params: &Params, a: &Ciphertext) -> Ciphertext {
    let [from, to] = [0, params.raised_level()].map(|level| moduli(params, &params.level(level).primes));
    [0, 1].map(|c| base_conversion(&from, &a[c], &to))
}

/// `a(X^element)`: the key switch of the second polynomial, with the first one as the addend, then the automorphism.
pub fn automorphism(params: &Params, level: usize, element: u32, key: &KeyPart, a: &Ciphertext) -> Ciphertext {
    let addend = [a[0].clone(), zero(&a[0])];
    let switched = key_switch(params, (level, level), key, &a[1], &addend);
    switched.map(|rows| image_of_rows(params, &params.level(level).primes, &rows, element))
}

/// The sum of `a b` over all pairs, plus `plus`, with one key switch from `s^2` to `s`. With
/// `(a0 + a1 s) (b0 + b1 s) = d0 + d1 s + d2 s^2`, the key switches `d2`, and `(d0, d1)` is the addend.
pub fn sum_of_products<'a>(
    params: &Params,
    (level, to): (usize, usize),
    pairs: &[[&'a Ciphertext; 2]],
    plus: Option<&Ciphertext>,
    relinearization: &KeyPart,
) -> Ciphertext {
    let moduli = moduli(params, &params.level(level).primes);
    let sum = |terms: &[(usize, usize)]| -> Rows {
        let of_prime = |(at, &q): (usize, &u32)| {
            let of_pair = |[a, b]: &[&'a Ciphertext; 2]| {
                let (a, b) = (*a, *b);
                terms.iter().map(move |&(i, j)| (&a[i][at], &b[j][at]))
            };
            let products: Vec<(&Polynomial, &Polynomial)> = pairs.iter().flat_map(of_pair).collect();
            sum_of_negacyclic_products(q, &products)
        };
        moduli.iter().enumerate().map(of_prime).collect()
    };
    let mut addend = [sum(&[(0, 0)]), sum(&[(0, 1), (1, 0)])];
    if let Some(plus) = plus {
        addend = [0, 1].map(|c| add(&moduli, &addend[c], &plus[c]));
    }
    key_switch(params, (level, to), relinearization, &sum(&[(1, 1)]), &addend)
}

/// The sum of `a` and of `a(X^element)` for each element, with one division by the special primes. The automorphisms
/// are applied before the division.
pub fn add_images(params: &Params, level: usize, images: &[(u32, &KeyPart)], a: &Ciphertext) -> Ciphertext {
    let of_level = &params.level(level).primes;
    let special = images[0].1.special(params);
    let primes = primes_of(params, level, special);
    let mut addend = a.clone();
    let mut sums = [0, 1].map(|_| vec![vec![0; params.n()]; primes.len()]);
    for (element, key) in images {
        let first = image_of_rows(params, of_level, &a[0], *element);
        addend[0] = add(&moduli(params, of_level), &addend[0], &first);
        let product = key_product(params, level, key, &a[1]);
        for (sum, product) in sums.iter_mut().zip(&product) {
            let image = image_of_rows(params, &primes, product, *element);
            *sum = add(&moduli(params, &primes), sum, &image);
        }
    }
    divided(params, (level, level), special, sums, &addend)
}

/// `a(X^element)` in `Z_q[X]/(X^N + 1)`, where `X^N = -1`.
pub fn image(q: u32, a: &[u32], element: u32) -> Polynomial {
    let n = a.len();
    let mut out = vec![0; n];
    for (i, &x) in a.iter().enumerate() {
        let power = i * element as usize % (2 * n);
        out[power % n] = if power < n { x } else { (q - x) % q };
    }
    out
}

fn image_of_rows(params: &Params, primes: &[usize], rows: &[Polynomial], element: u32) -> Rows {
    let moduli = moduli(params, primes);
    rows.iter().zip(moduli).map(|(row, q)| image(q, row, element)).collect()
}

fn sum_of_negacyclic_products(q: u32, terms: &[(&Polynomial, &Polynomial)]) -> Polynomial {
    let mut sums = vec![0; terms[0].0.len()];
    for (a, b) in terms {
        let a: Vec<i64> = a.iter().map(|&x| x.into()).collect();
        add_negacyclic_product(&mut sums, &a, b);
    }
    sums.into_iter().map(|sum| super::residue(q, sum)).collect()
}

fn add(moduli: &[u32], x: &[Polynomial], y: &[Polynomial]) -> Rows {
    let of_prime = |((x, y), q): ((&Polynomial, &Polynomial), &u32)| {
        x.iter().zip(y).map(|(&x, &y)| ((u64::from(x) + u64::from(y)) % u64::from(*q)) as u32).collect()
    };
    x.iter().zip(y).zip(moduli).map(of_prime).collect()
}

fn zero(rows: &[Polynomial]) -> Rows {
    rows.iter().map(|row| vec![0; row.len()]).collect()
}

#[cfg(test)]
mod tests {
    use kernels::ckks::{ParamsLiteral, PartKind, SecurityLevel};

    use super::*;

    fn params() -> Params {
        let (security, bootstrap) = (SecurityLevel::Testing, false);
        Params::new(ParamsLiteral { poly_degree: 64, scale_bits: 40, max_depth: 3, security, bootstrap }).unwrap()
    }

    fn word(seed: u32) -> u32 {
        (seed.wrapping_mul(0x9e37_79b9) ^ seed.rotate_left(13)).wrapping_mul(0x85eb_ca6b)
    }

    fn rows_of(moduli: &[u32], numbers: &[BigInt]) -> Rows {
        moduli.iter().map(|&q| numbers.iter().map(|number| residue(number, q)).collect()).collect()
    }

    /// Whole numbers of all sizes up to half of the product of these primes, but not within `2^-20` of the half.
    fn numbers(moduli: &[u32], n: usize) -> Vec<BigInt> {
        let all = product(moduli);
        let number = |i: u32| {
            let fraction = i64::from(word(i) >> 12) - (1 << 19);
            ((&all * fraction) >> (20 + i % 2 * (i % 60))) + i64::from(word(i) % 5)
        };
        (0..n as u32).map(number).filter(|x| (&all - x * 2) << 20 > all && (x * 2 + &all) << 20 > all).collect()
    }

    #[test]
    fn the_whole_number_nearest_to_0_has_the_residues() {
        let chosen = params();
        let primes = moduli(&chosen, &(0..chosen.primes().len()).collect::<Vec<_>>());
        for count in 1..=primes.len() {
            let found = numbers(&primes[..count], 400);
            assert!(found.len() > 300);
            for number in found {
                let residues: Vec<u32> = primes[..count].iter().map(|&q| residue(&number, q)).collect();
                assert_eq!(whole(&primes[..count], &residues), number);
            }
        }
    }

    #[test]
    fn a_fraction_is_at_most_two_units_of_its_last_bit_too_small() {
        for a in [769, 12289, 786_433, 33_292_289, 1_073_479_681] {
            for y in [0, 1, a / 2, a - 1].into_iter().chain((0..1000).map(|i| word(i) % a)) {
                let (scaled, exact) = (fraction(y.into(), a) * u64::from(a), u64::from(y) << FRACTION_BITS);
                assert!(scaled <= exact && exact < scaled + 2 * u64::from(a), "{y} / {a}");
            }
        }
    }

    #[test]
    fn a_division_rounds_the_quotient_to_the_nearest_whole_number() {
        let params = params();
        for level in 1..=params.level_max() {
            for (to, special, factor) in [(level - 1, 0, 1), (level - 1, params.special_count(), 1), (0, 0, 12_345)] {
                let division = Division::new(&params, level, special, to, factor);
                let (e, g) = (&division.multiplier, &division.divisor);
                let numbers = numbers(&moduli(&params, &division.from), 64);
                let x = rows_of(&moduli(&params, &division.from), &numbers);
                // floor(x e / g + 1/2), with an offset that makes the numerator positive
                let offset = (product(&moduli(&params, &division.from)) + 1) * e;
                let rounded: Vec<BigInt> =
                    numbers.iter().map(|x| (2 * e * x + g + 2 * &offset * g) / (2 * g) - &offset).collect();
                let found = division.of(&params, &x);
                assert!(found == rows_of(&moduli(&params, &division.to), &rounded), "{level} {to} {special}");
            }
        }
    }

    /// A key without masks and errors: the body of digit `j` is `P t` modulo the digit's primes, and 0 modulo all other
    /// primes. A switch under this key is the product with `t`, exactly, because the digits of `x` sum up to `x`.
    #[test]
    fn a_switch_under_a_key_without_errors_is_the_product_with_the_secret() {
        let params = params();
        let kind = PartKind::Relinearization;
        let top = params.level_max();
        let (digits, primes) = (params.digits(kind, top), params.key_primes(kind, top));
        let special: BigInt = product(&moduli(&params, &params.special_primes(kind).collect::<Vec<_>>()));
        let secret: Vec<BigInt> = (0..params.n() as u32).map(|i| BigInt::from(word(i) % 3) - 1).collect();
        let zero_row = vec![0; params.n()];
        let body = |digit: &Vec<usize>| -> Rows {
            let row = |&prime: &usize| match digit.contains(&prime) {
                true => secret.iter().map(|s| residue(&(s * &special), params.primes()[prime].q())).collect(),
                false => zero_row.clone(),
            };
            primes.iter().map(row).collect()
        };
        let rows = digits.iter().map(|digit| [body(digit), vec![zero_row.clone(); primes.len()]]).collect();
        let key = KeyPart { digits, primes: primes.clone(), rows };
        for level in 0..=top {
            let moduli = moduli(&params, &params.level(level).primes);
            let row = |&q: &u32| (0..params.n() as u32).map(|i| word(i ^ q) % q).collect();
            let x: Rows = moduli.iter().map(row).collect();
            let addend = [x.clone(), zero(&x)];
            let [found, mask] = key_switch(&params, (level, level), &key, &x, &addend);
            let secret = rows_of(&moduli, &secret);
            let expected: Rows =
                (0..moduli.len()).map(|at| sum_of_negacyclic_products(moduli[at], &[(&x[at], &secret[at])])).collect();
            assert!(found == add(&moduli, &expected, &x) && mask == zero(&x), "level {level}");
        }
    }

    #[test]
    fn the_image_of_a_product_is_the_product_of_the_images() {
        let q = 786_433;
        let [a, b] = [1, 2].map(|seed| (0..64).map(|i| word(i * 4 + seed) % q).collect::<Polynomial>());
        for element in [1, 3, 5, 127] {
            let [x, y] = [&a, &b].map(|a| image(q, a, element));
            let product = sum_of_negacyclic_products(q, &[(&a, &b)]);
            assert_eq!(image(q, &product, element), sum_of_negacyclic_products(q, &[(&x, &y)]));
        }
    }
}
