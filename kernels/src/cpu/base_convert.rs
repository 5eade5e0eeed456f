//! Base conversion: a polynomial known modulo a few primes is read as the integers nearest to 0 and reduced modulo
//! other primes (full-RNS conversion of Halevi, Polyakov, Shoup, eprint 2018/117, 2.2, with the quotient in fixed
//! point).
//!
//! Let `A` be the product of the source primes `a_i`, and `x` a polynomial in coefficient form:
//!
//! ```text
//! (1) y_i = x_i scale_i mod a_i                              scale_i = (A / a_i)^-1, times a given factor
//! (2) v   = floor(sum of y_i / a_i + 1/2)                    fractions of 28 bits
//! (3) out = (sum of y_i (A / a_i) - v A) factor mod p        for each target prime p
//! ```
//!
//! Sum and quotient are integers, so every device gives the same words. An `x` within `2^-24 A` of `A / 2` may become
//! `x` or `x - A`. Both are valid representatives, and the error of a key switch is the same.

use crate::conversion;
use crate::cpu::ntt::{mul_lazy, reduce};
use crate::cpu::simd::{Isa, Simd};
use crate::modular::Modulus;
use crate::ring::Root;

/// Number of bits of a fraction in step (2).
const FRACTION_BITS: u32 = 28;

/// The constants of one conversion.
pub struct Conversion {
    sources: Vec<Source>,
    targets: Vec<Target>,
}

struct Source {
    modulus: Modulus,
    scale: Root,
    fraction: u32,
}

struct Target {
    modulus: Modulus,
    /// The factors of the sources and of the quotient; all times `2^32` if there are more than [`FEW`] sources.
    factors: Vec<Root>,
}

/// Up to this number of sources, each product is reduced by itself, because that is faster than reducing the sum once.
const FEW: usize = 2;

impl Conversion {
    /// Lays out the numbers of a conversion.
    pub fn new(numbers: &conversion::Conversion) -> Conversion {
        let source = |&conversion::Source { modulus, scale, fraction }: &conversion::Source| Source {
            modulus,
            scale: Root::new(modulus, scale),
            fraction,
        };
        let target = |target: &conversion::Target| {
            let p = target.modulus;
            let unit = if numbers.sources.len() > FEW { p.pow(2 % p.q(), 32) } else { 1 % p.q() };
            let factor = |&factor: &u32| Root::new(p, p.mul(unit, factor));
            Target { modulus: p, factors: target.factors.iter().map(factor).collect() }
        };
        Conversion {
            sources: numbers.sources.iter().map(source).collect(),
            targets: numbers.targets.iter().map(target).collect(),
        }
    }

    /// Computes steps (1) and (2), in place. `rows` is `[sources + 1][N]`. The first `[sources][N]` words may have any
    /// size; they become the `y_i` in `[0, a_i)`. The last row receives the quotients.
    pub(crate) fn scale(&self, isa: Isa, polynomial_size: usize, rows: &mut [u32]) {
        assert!(polynomial_size.is_multiple_of(isa.lanes()), "whole vectors");
        assert_eq!(rows.len(), (self.sources.len() + 1) * polynomial_size, "a row a source, and one of quotients");
        dispatch_scale(isa, &self.sources, polynomial_size, rows);
    }

    /// Computes step (3) for one target. `rows` are as [`Conversion::scale`] leaves them; the result is in `[0, 2p)`.
    pub(crate) fn convert(&self, isa: Isa, rows: &[u32], target: usize, out: &mut [u32]) {
        let target = &self.targets[target];
        assert!(out.len().is_multiple_of(isa.lanes()), "whole vectors");
        assert_eq!(rows.len(), target.factors.len() * out.len(), "a row a source, and one of quotients");
        dispatch_convert(isa, rows, target, out);
    }
}

#[inline(always)]
unsafe fn scale_rows<S: Simd>(sources: &[Source], n: usize, rows: &mut [u32]) {
    // SAFETY: the caller promises that the processor supports `S`, and that each row has `n` words, a multiple of
    // `LANES`.
    unsafe {
        let (rows, quotients) = rows.split_at_mut(sources.len() * n);
        for at in (0..n).step_by(S::LANES) {
            let mut sum = S::splat(1 << (FRACTION_BITS - 1));
            for (source, row) in sources.iter().zip(rows.chunks_exact_mut(n)) {
                let q = S::splat(source.modulus.q());
                let place = row.as_mut_ptr().add(at);
                let x = S::load(place);
                // (1) y_i = x_i scale_i mod a_i
                let quotient = S::mul_high_uniform(x, S::splat(source.scale.companion));
                let lazy = S::sub(S::mul_low(x, S::splat(source.scale.value)), S::mul_low(quotient, q));
                let y = reduce::<S>(lazy, q);
                S::store(place, y);
                // (2) sum <- sum + y_i / a_i
                let shifted = S::shift_left_by(y, S::splat(Modulus::BITS_MAX - source.modulus.bits()));
                sum = S::add(sum, S::mul_high_uniform(shifted, S::splat(source.fraction)));
            }
            S::store(quotients.as_mut_ptr().add(at), S::shift_right(sum, FRACTION_BITS));
        }
    }
}

#[inline(always)]
unsafe fn convert_row<S: Simd>(rows: &[u32], target: &Target, out: &mut [u32]) {
    // SAFETY: the caller promises that the processor supports `S`, and that `rows` has a row for each factor of the
    // target.
    unsafe {
        match target.factors.len() {
            2 => convert_few::<S, 1>(rows, target, out),
            3 => convert_few::<S, 2>(rows, target, out),
            4 => convert_of::<S, 4>(rows, target, out),
            5 => convert_of::<S, 5>(rows, target, out),
            6 => convert_of::<S, 6>(rows, target, out),
            7 => convert_of::<S, 7>(rows, target, out),
            8 => convert_of::<S, 8>(rows, target, out),
            9 => convert_of::<S, 9>(rows, target, out),
            10 => convert_of::<S, 10>(rows, target, out),
            11 => convert_of::<S, 11>(rows, target, out),
            _ => convert_of::<S, 12>(rows, target, out),
        }
    }
}

/// Computes step (3) for one or two sources.
#[inline(always)]
unsafe fn convert_few<S: Simd, const SOURCES: usize>(rows: &[u32], target: &Target, out: &mut [u32]) {
    // SAFETY: the caller promises that the processor supports `S`, and that `rows` has `SOURCES + 1` rows as long as
    // `out`, whose length is a multiple of `LANES`.
    unsafe {
        let n = out.len();
        let splat = |i: usize| (S::splat(target.factors[i].value), S::splat(target.factors[i].companion));
        let factors: [(S::V, S::V); SOURCES] = std::array::from_fn(splat);
        let of_quotient = splat(SOURCES).0;
        let (q, q2) = (S::splat(target.modulus.q()), S::splat(2 * target.modulus.q()));
        for at in (0..n).step_by(S::LANES) {
            let word = |i: usize| S::load(rows.as_ptr().add(i * n + at));
            // step (3); each sum is below 4p before it is reduced, the last one too, because the quotient is at most
            // SOURCES
            let mut sum = mul_lazy::<S, true>(word(0), factors[0].0, factors[0].1, q);
            for i in 1..SOURCES {
                let product = mul_lazy::<S, true>(word(i), factors[i].0, factors[i].1, q);
                sum = reduce::<S>(S::add(sum, product), q2);
            }
            sum = S::add(sum, S::mul_low(word(SOURCES), of_quotient));
            S::store(out.as_mut_ptr().add(at), reduce::<S>(sum, q2));
        }
    }
}

#[inline(always)]
unsafe fn convert_of<S: Simd, const ROWS: usize>(rows: &[u32], target: &Target, out: &mut [u32]) {
    // SAFETY: the caller promises that the processor supports `S`, and that `rows` has `ROWS` rows as long as `out`,
    // whose length is a multiple of `LANES`.
    unsafe {
        let n = out.len();
        let factors: [S::V; ROWS] = std::array::from_fn(|i| S::splat(target.factors[i].value));
        let (q, q2) = (S::splat(target.modulus.q()), S::splat(2 * target.modulus.q()));
        let inverse = S::splat(target.modulus.montgomery_inverse());
        for at in (0..n).step_by(S::LANES) {
            // after Montgomery's reduction, the sum is below (ROWS / 4 + 1) p, which is at most 4p
            let mut sum = S::wide_zero();
            for i in 0..ROWS {
                // (3) out = sum of y_i factor_i
                sum = S::mul_add_wide(sum, S::load(rows.as_ptr().add(i * n + at)), factors[i]);
            }
            S::store(out.as_mut_ptr().add(at), reduce::<S>(S::montgomery(sum, q, inverse), q2));
        }
    }
}

crate::cpu::simd::dispatch! {
    fn dispatch_scale = scale_rows(sources: &[Source], n: usize, rows: &mut [u32])
}
crate::cpu::simd::dispatch! {
    fn dispatch_convert = convert_row(rows: &[u32], target: &Target, out: &mut [u32])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::primes::nearest_to_power;
    use crate::ring::tests::words;

    /// Computes the expected result from the definition, in big integers. Three sources are enough for a test; 11
    /// primes of 30 bits would need integers of many words.
    fn expected(sources: &[(Modulus, u32)], x: &[u32], p: Modulus, factor: u32) -> i128 {
        let all: i128 = sources.iter().map(|(a, _)| i128::from(a.q())).product();
        let mut value = 0i128;
        for ((a, scale), &x) in sources.iter().zip(x) {
            let rest = all / i128::from(a.q());
            let inverse = a.inverse((rest % i128::from(a.q())) as u32);
            value += i128::from(a.mul(a.mul(x % a.q(), *scale), inverse)) * rest;
        }
        let value = value % all;
        let centred = if 2 * value > all { value - all } else { value };
        (centred * i128::from(factor)).rem_euclid(i128::from(p.q()))
    }

    #[test]
    fn conversions_are_those_of_the_integers_nearest_to_0_on_every_instruction_set() {
        let n = 64;
        let prime = |bits: u32, at: usize| Modulus::new(nearest_to_power(n, bits, at + 1)[at]);
        for sizes in [&[30][..], &[18], &[30, 20], &[30, 30], &[30, 29, 25], &[19, 19, 30]] {
            let sources: Vec<_> = sizes.iter().enumerate().map(|(i, &b)| (prime(b, i), 12_345 + i as u32)).collect();
            let targets = [(prime(30, 7), 1), (prime(18, 5), 999), (prime(27, 0), 54_321)];
            let conversion = Conversion::new(&conversion::Conversion::new(&sources, &targets));
            for isa in Isa::available() {
                let mut rows = words(sources.len() * n, 5, u32::MAX);
                let x = rows.clone();
                rows.extend(vec![0; n]);
                conversion.scale(isa, n, &mut rows);
                for (at, &(p, factor)) in targets.iter().enumerate() {
                    let mut out = vec![0; n];
                    conversion.convert(isa, &rows, at, &mut out);
                    for i in 0..n {
                        let of_i: Vec<u32> = (0..sources.len()).map(|row| x[row * n + i]).collect();
                        assert!(out[i] < 2 * p.q());
                        let found = i128::from(p.reduce_once(out[i]));
                        assert_eq!(found, expected(&sources, &of_i, p, factor), "{sizes:?} {isa:?} {i}");
                    }
                }
            }
        }
    }
}
