//! Plaintexts: slots to polynomials and back (Cheon, Kim, Kim, Song, eprint 2016/421, 3.2).
//!
//! Slot `i` of a polynomial is its value at `zeta^(5^i)`, `zeta = exp(i pi / N)`. The values at `zeta^(-5^i)` are the
//! conjugates, because the polynomial is real. Only the computations of this module use floating point on data. A
//! client's secret numbers pass through this module, so no branch and no index depends on these numbers.

use std::f64::consts::PI;

use super::room;
use crate::modular::Modulus;

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Complex {
    /// Real part.
    pub re: f64,
    /// Imaginary part.
    pub im: f64,
}

impl Complex {
    /// `re + i im`.
    pub fn new(re: f64, im: f64) -> Complex {
        Complex { re, im }
    }

    /// `exp(i angle)`.
    fn turn(angle: f64) -> Complex {
        Complex { re: libm::cos(angle), im: libm::sin(angle) }
    }

    /// The conjugate.
    pub fn conjugate(self) -> Complex {
        Complex { re: self.re, im: -self.im }
    }
}

impl From<f64> for Complex {
    fn from(re: f64) -> Complex {
        Complex { re, im: 0.0 }
    }
}

impl std::ops::Add for Complex {
    type Output = Complex;
    fn add(self, other: Complex) -> Complex {
        Complex { re: self.re + other.re, im: self.im + other.im }
    }
}

impl std::ops::Sub for Complex {
    type Output = Complex;
    fn sub(self, other: Complex) -> Complex {
        Complex { re: self.re - other.re, im: self.im - other.im }
    }
}

impl std::ops::Mul for Complex {
    type Output = Complex;
    fn mul(self, other: Complex) -> Complex {
        Complex { re: self.re * other.re - self.im * other.im, im: self.re * other.im + self.im * other.re }
    }
}

impl std::ops::Mul<f64> for Complex {
    type Output = Complex;
    fn mul(self, other: f64) -> Complex {
        Complex { re: self.re * other, im: self.im * other }
    }
}

/// The reason why numbers cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A number is infinite or NaN.
    #[error("a number is not finite")]
    NotFinite,
    /// A number times the scale has more bits than the modulus.
    #[error("a number is too large for the scale and the modulus")]
    TooLarge,
}

/// The transforms between coefficients and slots for one degree.
pub struct Encoder {
    /// Roots of each stage. For the stage that joins halves of `len / 2`, the root `zeta_len^(5^j)` with `j < len / 2`
    /// has index `len / 2 - 1 + j`; `zeta_len` is `exp(2 pi i / (4 len))`.
    roots: Vec<Complex>,
    slots: usize,
    /// `2 / N`.
    share: f64,
}

impl Encoder {
    /// Makes the encoder for degree `N`.
    ///
    /// # Panics
    /// When `N` is not a power of two, or below 4.
    pub fn new(polynomial_size: usize) -> Encoder {
        assert!(polynomial_size.is_power_of_two() && polynomial_size >= 4, "N is a power of two");
        let slots = polynomial_size / 2;
        let mut roots = Vec::with_capacity(slots);
        let mut len = 2;
        while len <= slots {
            let mut power = 1;
            for _ in 0..len / 2 {
                roots.push(Complex::turn(PI * power as f64 / (2 * len) as f64));
                power = power * 5 % (4 * len);
            }
            len *= 2;
        }
        Encoder { roots, slots, share: 1.0 / slots as f64 }
    }

    /// The number of slots, `N / 2`.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Computes the values at the slots of a real polynomial from its `[N]` coefficients.
    ///
    /// # Panics
    /// When there are not `N` coefficients.
    pub fn to_slots(&self, coefficients: &[f64]) -> Vec<Complex> {
        assert_eq!(coefficients.len(), 2 * self.slots, "N coefficients");
        // X^(N/2) has the value i, the imaginary unit, at every slot, because every power of 5 is 1 modulo 4. So
        // coefficient k + N/2 is the imaginary part that belongs to coefficient k.
        let (low, high) = coefficients.split_at(self.slots);
        let mut values: Vec<Complex> = low.iter().zip(high).map(|(&re, &im)| Complex { re, im }).collect();
        self.reverse(&mut values);
        let mut half = 1;
        while half < self.slots {
            let roots = &self.roots[half - 1..][..half];
            let mut rest = &mut values[..];
            // the loop splits off one block after another, because to count the blocks would take a division, and code
            // that handles secrets must contain no division
            while !rest.is_empty() {
                let (even, after) = rest.split_at_mut(half);
                let (odd, after) = after.split_at_mut(half);
                rest = after;
                for ((even, odd), &root) in even.iter_mut().zip(odd).zip(roots) {
                    // the root for the value at j + half is the negated root of the value at j
                    let turned = *odd * root;
                    (*even, *odd) = (*even + turned, *even - turned);
                }
            }
            half *= 2;
        }
        values
    }

    /// Computes the `[N]` coefficients of the real polynomial that has these values at its slots.
    ///
    /// # Panics
    /// When there are not `N / 2` values.
    pub fn to_coefficients(&self, values: &[Complex]) -> Vec<f64> {
        assert_eq!(values.len(), self.slots, "a value a slot");
        let mut values = values.to_vec();
        let mut half = self.slots / 2;
        while half >= 1 {
            let roots = &self.roots[half - 1..][..half];
            let mut rest = &mut values[..];
            while !rest.is_empty() {
                let (low, after) = rest.split_at_mut(half);
                let (high, after) = after.split_at_mut(half);
                rest = after;
                for ((low, high), &root) in low.iter_mut().zip(high).zip(roots) {
                    (*low, *high) = (*low + *high, (*low - *high) * root.conjugate());
                }
            }
            half /= 2;
        }
        self.reverse(&mut values);
        let share = self.share;
        values.iter().map(|value| value.re * share).chain(values.iter().map(|value| value.im * share)).collect()
    }

    /// Encodes slots as coefficients times `scale`. [`Rounded::residues`] rounds the coefficients to whole numbers.
    /// `log_modulus` is the size, in bits, of the ciphertext's modulus at its level.
    ///
    /// # Errors
    /// When a number is not finite, or a coefficient reaches half the modulus.
    ///
    /// # Panics
    /// When there are not `N / 2` values.
    pub fn encode(&self, values: &[Complex], scale: f64, log_modulus: f64) -> Result<Rounded, EncodeError> {
        // a number times 0 is NaN exactly if the number is not finite, so one branch on the sum checks all numbers
        let sum: f64 = values.iter().map(|value| (value.re * 0.0) + (value.im * 0.0)).sum();
        if sum.is_nan() {
            return Err(EncodeError::NotFinite);
        }
        let mut coefficients = self.to_coefficients(values);
        coefficients.iter_mut().for_each(|coefficient| *coefficient *= scale);
        let largest = coefficients.iter().fold(0.0f64, |largest, coefficient| largest.max(coefficient.abs()));
        // if a coefficient times the scale overflowed, `largest` is infinite, so it does not fit
        if !room::fits(largest, log_modulus) {
            return Err(EncodeError::TooLarge);
        }
        Ok(Rounded { limbs: limbs(largest), coefficients })
    }

    /// Like [`Encoder::encode`], but for real numbers.
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    ///
    /// # Panics
    /// When there are not `N / 2` values.
    pub fn encode_reals(&self, values: &[f64], scale: f64, log_modulus: f64) -> Result<Rounded, EncodeError> {
        let values: Vec<Complex> = values.iter().map(|&value| value.into()).collect();
        self.encode(&values, scale, log_modulus)
    }

    /// Like [`Encoder::encode`], but for slots whose magnitudes are at most `value_bound`. The caller checks this
    /// condition by [`all_within`]. No branch depends on a value, because the bound alone decides whether the
    /// coefficients fit.
    ///
    /// # Errors
    /// [`EncodeError::TooLarge`]: the bound times the scale reaches half the modulus, or is NaN.
    ///
    /// # Panics
    /// When there are not `N / 2` values.
    pub fn encode_bounded(
        &self,
        values: &[f64],
        scale: f64,
        value_bound: f64,
        log_modulus: f64,
    ) -> Result<Rounded, EncodeError> {
        // a coefficient is a mean of rotated slots, so the bound on slots also bounds coefficients
        if !(value_bound >= 0.0 && scale >= 1.0 && room::fits(value_bound * scale, log_modulus)) {
            return Err(EncodeError::TooLarge);
        }
        let values: Vec<Complex> = values.iter().map(|&value| value.into()).collect();
        let mut coefficients = self.to_coefficients(&values);
        coefficients.iter_mut().for_each(|coefficient| *coefficient *= scale);
        Ok(Rounded { limbs: limbs(value_bound * scale), coefficients })
    }

    /// Permutes values by reversing the bits of their indices.
    fn reverse(&self, values: &mut [Complex]) {
        let bits = self.slots.ilog2();
        for i in 0..self.slots {
            let j = i.reverse_bits() >> (usize::BITS - bits);
            if i < j {
                values.swap(i, j);
            }
        }
    }
}

/// Whether the magnitudes of all values are at most `bound`, a finite number. All values are compared with `bound`, and
/// no branch depends on a value.
pub fn all_within(values: &[f64], bound: f64) -> bool {
    const MAGNITUDE: u64 = u64::MAX >> 1;
    // taken as an integer, the bits of a float without its sign bit grow with the float's magnitude; those of infinity
    // and NaN are above all others. If a magnitude is above the bound, the subtraction wraps and sets the top bit.
    let bound = bound.to_bits();
    values.iter().fold(0, |beyond, value| beyond | bound.wrapping_sub(value.to_bits() & MAGNITUDE)) >> 63 == 0
}

/// Number of bits in a limb. Coefficients are split into limbs of magnitude up to `2^LIMB_BITS`, which every prime of
/// every chain exceeds.
const LIMB_BITS: usize = 14;

/// Returns the number of limbs of a coefficient of this magnitude, a public bound. The function is not inlined, because
/// its callers handle secrets and must contain no division.
#[inline(never)]
fn limbs(largest: f64) -> usize {
    libm::log2(largest).max(0.0) as usize / LIMB_BITS + 1
}

/// An encoded plaintext before it is rounded and reduced to residues.
pub struct Rounded {
    coefficients: Vec<f64>,
    limbs: usize,
}

impl Rounded {
    /// The coefficients before they are rounded.
    pub fn coefficients(&self) -> &[f64] {
        &self.coefficients
    }

    /// Rounds the coefficients and reduces them modulo a prime, in constant time.
    ///
    /// # Panics
    /// When `out` does not have `N` words, or the prime is below `2^14`.
    pub fn residues(&self, modulus: Modulus, out: &mut [u32]) {
        assert_eq!(out.len(), self.coefficients.len(), "a word a coefficient");
        assert!(modulus.q() > 1 << LIMB_BITS, "a prime above every limb");
        let shift = modulus.pow(2, LIMB_BITS as u32);
        for (&coefficient, out) in self.coefficients.iter().zip(out) {
            let mut rest = coefficient;
            *out = 0;
            for limb in (0..self.limbs).rev() {
                // every limb is exact, except the lowest limb, which is rounded
                let unit = power_of_two((limb * LIMB_BITS) as i64);
                let digit = nearest(rest * power_of_two(-((limb * LIMB_BITS) as i64)));
                rest -= digit as f64 * unit;
                *out = modulus.add(modulus.mul(*out, shift), modulus.from_signed(digit));
            }
        }
    }
}

/// `2^e`.
fn power_of_two(e: i64) -> f64 {
    f64::from_bits(((1023 + e) as u64) << 52)
}

/// Rounds to the nearest whole number, ties to even, for magnitudes below `2^31`.
fn nearest(x: f64) -> i32 {
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    ((x + SHIFT).to_bits() as i64).wrapping_sub(SHIFT.to_bits() as i64) as i32
}

/// Reads residues modulo some primes as the whole numbers nearest to 0 (Garner's algorithm).
pub struct Centred {
    primes: Vec<Modulus>,
    /// For each prime, the inverse of the product of the primes before it.
    inverses: Vec<u32>,
    /// For each prime, Shoup's companion of 1.
    companions: Vec<u32>,
    /// The product of the primes, and half of the product, rounded down: words of 32 bits, the lowest first.
    product: Vec<u32>,
    half: Vec<u32>,
}

impl Centred {
    /// Largest number of primes.
    pub const PRIMES_MAX: usize = 64;

    /// Makes a reader of residues modulo different primes.
    ///
    /// # Panics
    /// When `primes` is empty or has more than [`Centred::PRIMES_MAX`] primes.
    pub fn new(primes: &[Modulus]) -> Centred {
        assert!((1..=Self::PRIMES_MAX).contains(&primes.len()), "one to {} primes", Self::PRIMES_MAX);
        let before = |at: usize, p: Modulus| primes[..at].iter().fold(1, |product, q| p.mul(product, q.q() % p.q()));
        let inverses = primes.iter().enumerate().map(|(at, &p)| p.inverse(before(at, p))).collect();
        let companions = primes.iter().map(|p| p.companion(1)).collect();
        let mut product = vec![0; primes.len()];
        product[0] = 1;
        primes.iter().for_each(|p| multiply_add(&mut product, p.q(), 0));
        product.truncate(product.iter().rposition(|&word| word != 0).map_or(1, |last| last + 1));
        let half = (0..product.len()).map(|at| product[at] >> 1 | product.get(at + 1).unwrap_or(&0) << 31).collect();
        Centred { primes: primes.to_vec(), inverses, companions, product, half }
    }

    /// Returns the number nearest to 0 that has these residues: one residue for each prime, each in `[0, q)`. This
    /// takes constant time.
    ///
    /// # Panics
    /// When there is not one residue for each prime.
    pub fn number(&self, residues: &[u32]) -> f64 {
        assert_eq!(residues.len(), self.primes.len(), "a residue a prime");
        // the number is `digits[0] + q_0 (digits[1] + q_1 (digits[2] + ..))`
        let mut digits = [0; Self::PRIMES_MAX];
        for (at, &p) in self.primes.iter().enumerate() {
            let reduced = |word: u32| p.reduce_once(p.mul_lazy(word, 1, self.companions[at]));
            // the number that the previous digits represent, modulo p
            let so_far =
                (0..at).rev().fold(0, |sum, i| p.add(p.mul(sum, reduced(self.primes[i].q())), reduced(digits[i])));
            digits[at] = p.mul(p.sub(residues[at], so_far), self.inverses[at]);
        }
        let mut words = [0; Self::PRIMES_MAX];
        let words = &mut words[..self.product.len()];
        // indices, because an iterator from the end divides by the size of an element
        for at in (0..self.primes.len()).rev() {
            multiply_add(words, self.primes[at].q(), digits[at]);
        }
        // a value above half the product is negative, and its magnitude is the product minus the value
        let negative = is_below(&self.half, words);
        // without the barrier, the compiler makes two loops and branches on the sign
        let mask = std::hint::black_box(0u32.wrapping_sub(negative));
        let (mut magnitude, mut unit, mut borrow) = (0.0, 1.0, 0);
        for (&product, &word) in self.product.iter().zip(words.iter()) {
            let difference = u64::from(product).wrapping_sub(u64::from(word) + borrow);
            borrow = difference >> 63;
            magnitude += f64::from((difference as u32 & mask) | (word & !mask)) * unit;
            unit *= power_of_two(32);
        }
        magnitude * (1.0 - 2.0 * f64::from(negative))
    }
}

/// Replaces a number of 32-bit words, the lowest first, by the number times `factor` plus `addend`.
fn multiply_add(words: &mut [u32], factor: u32, addend: u32) {
    let mut carry = u64::from(addend);
    for word in words {
        let wide = u64::from(*word) * u64::from(factor) + carry;
        *word = wide as u32;
        carry = wide >> 32;
    }
}

/// Returns 1 if the number `a` is below the number `b`, otherwise 0. Both have 32-bit words, the lowest first.
fn is_below(a: &[u32], b: &[u32]) -> u32 {
    let borrow = |borrow: u64, (&a, &b): (&u32, &u32)| u64::from(a).wrapping_sub(u64::from(b) + borrow) >> 63;
    a.iter().zip(b).fold(0, borrow) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ckks::rotation;
    use crate::ring::primes::nearest_to_power;

    fn numbers(count: usize, seed: u64) -> Vec<f64> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    fn complex(count: usize, seed: u64) -> Vec<Complex> {
        numbers(2 * count, seed).chunks_exact(2).map(|pair| Complex::new(pair[0], pair[1])).collect()
    }

    fn distance(a: &[Complex], b: &[Complex]) -> f64 {
        a.iter().zip(b).map(|(&a, &b)| (a - b).re.abs().max((a - b).im.abs())).fold(0.0, f64::max)
    }

    #[test]
    fn slots_are_the_values_at_powers_of_5_of_the_root() {
        for n in [16, 64, 256] {
            let coefficients = numbers(n, 3);
            let mut power = 1;
            let expected: Vec<Complex> = (0..n / 2)
                .map(|_| {
                    let at = power;
                    power = power * 5 % (2 * n);
                    let term = |(k, &c): (usize, &f64)| Complex::turn(PI * (at * k % (2 * n)) as f64 / n as f64) * c;
                    coefficients.iter().enumerate().map(term).fold(Complex::default(), |sum, term| sum + term)
                })
                .collect();
            assert!(distance(&Encoder::new(n).to_slots(&coefficients), &expected) < 1e-12 * n as f64);
        }
    }

    #[test]
    fn coefficients_are_found_again_at_every_degree() {
        for n in [16, 64, 256, 4096, 8192, 16384, 32768] {
            let encoder = Encoder::new(n);
            let values = complex(n / 2, 5);
            let coefficients = encoder.to_coefficients(&values);
            assert!(distance(&encoder.to_slots(&coefficients), &values) < 1e-13, "{n}");
        }
    }

    #[test]
    fn products_of_polynomials_are_products_of_slots_and_automorphisms_turn_them() {
        let n = 64;
        let encoder = Encoder::new(n);
        let (a, b) = (numbers(n, 7), numbers(n, 8));
        let mut product = vec![0.0; n];
        for (i, x) in a.iter().enumerate() {
            for (j, y) in b.iter().enumerate() {
                product[(i + j) % n] += if i + j < n { x * y } else { -x * y };
            }
        }
        let slots: Vec<Complex> =
            encoder.to_slots(&a).into_iter().zip(encoder.to_slots(&b)).map(|(a, b)| a * b).collect();
        assert!(distance(&encoder.to_slots(&product), &slots) < 1e-12);
        for steps in [1, 5, 31] {
            let element = rotation::element(n, steps) as usize;
            let mut turned = vec![0.0; n];
            for (i, x) in a.iter().enumerate() {
                let power = i * element % (2 * n);
                turned[power % n] = if power < n { *x } else { -x };
            }
            let mut expected = encoder.to_slots(&a);
            expected.rotate_left(steps as usize);
            assert!(distance(&encoder.to_slots(&turned), &expected) < 1e-12, "{steps}");
        }
    }

    #[test]
    fn residues_are_those_of_the_nearest_whole_numbers_and_are_read_back() {
        let n = 64;
        let primes: Vec<Modulus> = [30, 29, 20, 30]
            .into_iter()
            .enumerate()
            .map(|(at, bits)| Modulus::new(nearest_to_power(n, bits, 5)[at]))
            .collect();
        for (bits, count) in [(20u32, 1), (40, 2), (70, 3), (100, 4)] {
            let encoder = Encoder::new(n);
            let centred = Centred::new(&primes[..count]);
            let log_modulus: f64 = primes[..count].iter().map(|p| f64::from(p.q()).log2()).sum();
            let scale = f64::from(bits).exp2();
            let rounded = encoder.encode(&complex(n / 2, bits.into()), scale, log_modulus).unwrap();
            let rows: Vec<Vec<u32>> = primes[..count]
                .iter()
                .map(|&p| {
                    let mut row = vec![0; n];
                    rounded.residues(p, &mut row);
                    row
                })
                .collect();
            for (i, coefficient) in rounded.coefficients().iter().enumerate() {
                let whole = coefficient.round_ties_even() as i128;
                let residues: Vec<u32> = rows.iter().map(|row| row[i]).collect();
                for (p, &residue) in primes.iter().zip(&residues) {
                    assert_eq!(
                        i128::from(residue),
                        whole.rem_euclid(i128::from(p.q())),
                        "{bits} bits, coefficient {i}"
                    );
                }
                let read = centred.number(&residues);
                assert!((read - whole as f64).abs() <= (whole as f64).abs() * 1e-15, "{read} {whole}");
            }
        }
    }

    #[test]
    fn residues_of_large_numbers_modulo_many_primes_are_read_as_the_numbers_nearest_to_0() {
        let primes: Vec<Modulus> =
            [30, 18, 24].into_iter().flat_map(|bits| nearest_to_power(64, bits, 10)).map(Modulus::new).collect();
        for count in 1..=primes.len() {
            let primes = &primes[..count];
            let centred = Centred::new(primes);
            let log_modulus: f64 = primes.iter().map(|p| f64::from(p.q()).log2()).sum();
            for mantissa in [0u64, 1, 3, (1 << 53) - 1, 0x15_5555_5555_5555] {
                for exponent in (0..700).step_by(13) {
                    let magnitude = mantissa as f64 * f64::from(exponent).exp2();
                    if !room::fits(magnitude, log_modulus) {
                        break;
                    }
                    for negative in [false, true] {
                        let residues: Vec<u32> = primes
                            .iter()
                            .map(|p| {
                                let residue = p.mul((mantissa % u64::from(p.q())) as u32, p.pow(2, exponent));
                                if negative { p.sub(0, residue) } else { residue }
                            })
                            .collect();
                        let expected = if negative { -magnitude } else { magnitude };
                        assert_eq!(centred.number(&residues), expected, "{count} primes");
                    }
                }
            }
        }
    }

    #[test]
    fn every_prime_of_every_set_is_above_a_limb() {
        use crate::ckks::params::{MAX_DEPTHS, SCALE_BITS};
        use crate::ckks::{Params, ParamsLiteral, SecurityLevel};
        for poly_degree in [64, 256] {
            for (scale_bits, max_depth) in SCALE_BITS.flat_map(|bits| MAX_DEPTHS.map(move |depth| (bits, depth))) {
                for bootstrap in [false, true] {
                    let security = SecurityLevel::Testing;
                    let literal = ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap };
                    let Ok(params) = Params::new(literal) else { continue };
                    let least = params.primes().iter().map(|p| p.q()).min();
                    assert!(least > Some(1 << LIMB_BITS), "{literal:?}: {least:?}");
                }
            }
        }
    }

    #[test]
    fn what_has_no_room_or_is_no_number_is_refused() {
        let encoder = Encoder::new(64);
        let encode = |value: f64, scale: f64| {
            let mut values = vec![0.5; 32];
            values[17] = value;
            encoder.encode_reals(&values, scale, 60.0).map(drop)
        };
        assert_eq!(encode(1.0, 2f64.powi(40)), Ok(()));
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(encode(value, 2f64.powi(40)), Err(EncodeError::NotFinite));
        }
        assert_eq!(encode(f64::MAX, 2f64.powi(40)), Err(EncodeError::TooLarge));
        assert_eq!(encode(2f64.powi(30), 2f64.powi(40)), Err(EncodeError::TooLarge));
    }

    #[test]
    fn bounded_numbers_are_encoded_as_others_and_bounds_without_room_are_refused() {
        let encoder = Encoder::new(64);
        let (values, scale) = (numbers(32, 4), 2f64.powi(40));
        let modulus = Modulus::new(nearest_to_power(64, 30, 1)[0]);
        let residues = |rounded: Rounded| {
            let mut out = vec![0; 64];
            rounded.residues(modulus, &mut out);
            out
        };
        let bounded = encoder.encode_bounded(&values, scale, 1.0, 60.0).unwrap();
        assert_eq!(residues(bounded), residues(encoder.encode_reals(&values, scale, 60.0).unwrap()));
        for (scale, bound, bits) in [(40.0, 1.0, 41.0), (40.0, f64::NAN, 60.0), (40.0, -1.0, 60.0), (130.0, 1.0, 130.0)]
        {
            let refused = encoder.encode_bounded(&values, libm::exp2(scale), bound, bits).err();
            assert_eq!(refused, Some(EncodeError::TooLarge), "{scale} {bound} {bits}");
        }
        assert!(encoder.encode_bounded(&values, scale, f64::INFINITY, 60.0).is_err());
        assert!(all_within(&[1.0, -1.0, 0.0, -0.0, 1e-320], 1.0));
        for bad in [1.0 + f64::EPSILON, -2.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN] {
            assert!(!all_within(&[0.5, bad, 0.5], 1.0), "{bad}");
        }
        assert!(!all_within(&[f64::INFINITY], f64::MAX));
    }
}
