//! Butterflies of radix 2, 4 and 8 with twiddles in tangent form: few operations in short chains, for CPUs whose sums
//! and products share execution units.
//!
//! The stages of RADIX vectors `v_j` are a transform of `s^j v_j`, where `s` is the root of the last stage. A
//! multiplication by `s^j = c_j (1 + i t_j)` takes two fused operations, `u_j = (1 + i t_j) v_j`. The cosine is
//! deferred to the next sum, `x + c_j u_j` and `x - c_j u_j`, which are fused too; a pair's common cosine is deferred
//! to the sum after that. Eight vectors then take 66 operations in chains of at most five; with plain butterflies they
//! would take 72 in chains of nine. (After Linzer and Feig, "Implementation of efficient FFT algorithms on fused
//! multiply-add architectures", IEEE Trans. Signal Processing 41, 1993, and Goedecker, "Fast radix 2, 3, 4, and 5
//! kernels for fast Fourier transformations on computers with overlapping multiply-add instructions", SIAM J. Sci.
//! Comput. 18, 1997.)
//!
//! Near a quarter of a turn, the tangent is large and the cosine is small. Rounding errors are relative to the product
//! of both, which is not large. A cosine of zero is replaced by [`COSINE_MIN`], which is below all rounding.

use std::f64::consts::FRAC_1_SQRT_2;

use super::precise::{Pair, root};
use super::{Complex, sum_and_difference, sum_and_difference_by_i};
use crate::cpu::simd::SimdReals;

/// Number of reals in the twiddles of radix 8.
pub const TWIDDLE_REALS: usize = reals_of(8);

/// Number of reals in the twiddles of a radix: a tangent for each vector but the first, and the remaining cosines.
pub const fn reals_of(radix: usize) -> usize {
    match radix {
        2 => 2,
        4 => 6,
        _ => 15,
    }
}

/// Replaces a cosine of zero.
const COSINE_MIN: Pair = Pair::of(1.0 / (1u64 << 60) as f64);

/// The twiddles of [`stages`] and [`inverse_stages`] of this radix for the root `s` at `turn / of` of a turn: `t_1 ..`,
/// then the remaining cosines for each stage. Each number is rounded once.
pub fn twiddles(radix: usize, turn: i64, of: i64) -> Vec<f64> {
    let powers: Vec<[Pair; 2]> = (0..radix as i64).map(|j| root(j * turn, of)).collect();
    let cosine = |j: usize| if powers[j][0].high.abs() < COSINE_MIN.high { COSINE_MIN } else { powers[j][0] };
    let tangents = (1..radix).map(|j| powers[j][1].over(cosine(j)));
    let c = |above: usize, below: usize| cosine(above).over(cosine(below));
    let cosines = match radix {
        2 => vec![c(1, 0)],
        4 => vec![c(2, 0), c(3, 1), c(1, 0)],
        _ => {
            let of_an_eighth = root(1, 8)[0];
            vec![c(4, 0), c(5, 1), c(6, 2), c(7, 3), c(2, 0), c(3, 1), c(1, 0), c(1, 0).times(of_an_eighth)]
        }
    };
    tangents.chain(cosines).map(|twiddle| twiddle.high).collect()
}

/// `(1 + i t) y`.
#[inline(always)]
unsafe fn turn<S: SimdReals>(y: Complex<S>, t: S::R) -> Complex<S> {
    // SAFETY: the caller promises that the processor supports `S`.
    unsafe { Complex { re: S::neg_mul_add(y.im, t, y.re), im: S::mul_add(y.re, t, y.im) } }
}

/// `(x + c y, x - c y)`.
#[inline(always)]
unsafe fn plus_minus<S: SimdReals>(x: Complex<S>, y: Complex<S>, c: S::R) -> (Complex<S>, Complex<S>) {
    // SAFETY: the caller promises that the processor supports `S`.
    unsafe {
        let plus = Complex { re: S::mul_add(y.re, c, x.re), im: S::mul_add(y.im, c, x.im) };
        (plus, Complex { re: S::neg_mul_add(y.re, c, x.re), im: S::neg_mul_add(y.im, c, x.im) })
    }
}

/// `(x + i c y, x - i c y)`.
#[inline(always)]
unsafe fn plus_minus_i<S: SimdReals>(x: Complex<S>, y: Complex<S>, c: S::R) -> (Complex<S>, Complex<S>) {
    // SAFETY: the caller promises that the processor supports `S`.
    unsafe {
        let plus = Complex { re: S::neg_mul_add(y.im, c, x.re), im: S::mul_add(y.re, c, x.im) };
        (plus, Complex { re: S::mul_add(y.im, c, x.re), im: S::neg_mul_add(y.re, c, x.im) })
    }
}

/// `(1 + i) y`.
#[inline(always)]
unsafe fn eighth_turn<S: SimdReals>(y: Complex<S>) -> Complex<S> {
    // SAFETY: the caller promises that the processor supports `S`.
    unsafe { Complex { re: S::sub_reals(y.re, y.im), im: S::add_reals(y.re, y.im) } }
}

/// Implements [`super::stages`].
#[inline(always)]
pub unsafe fn stages<S: SimdReals, const RADIX: usize>(
    mut v: [Complex<S>; RADIX],
    twiddle: impl Fn(usize) -> S::R,
) -> [Complex<S>; RADIX] {
    // SAFETY: the caller promises that the processor supports `S`.
    unsafe {
        for j in 1..RADIX {
            v[j] = turn(v[j], twiddle(j - 1));
        }
        let c = |i: usize| twiddle(RADIX - 1 + i);
        match RADIX {
            2 => (v[0], v[1]) = plus_minus(v[0], v[1], c(0)),
            4 => {
                (v[0], v[2]) = plus_minus(v[0], v[2], c(0));
                (v[1], v[3]) = plus_minus(v[1], v[3], c(1));
                (v[0], v[1]) = plus_minus(v[0], v[1], c(2));
                (v[2], v[3]) = plus_minus_i(v[2], v[3], c(2));
            }
            _ => {
                for i in 0..4 {
                    (v[i], v[i + 4]) = plus_minus(v[i], v[i + 4], c(i));
                }
                for i in 0..2 {
                    (v[i], v[i + 2]) = plus_minus(v[i], v[i + 2], c(4 + i));
                    (v[i + 4], v[i + 6]) = plus_minus_i(v[i + 4], v[i + 6], c(4 + i));
                }
                (v[0], v[1]) = plus_minus(v[0], v[1], c(6));
                (v[2], v[3]) = plus_minus_i(v[2], v[3], c(6));
                (v[4], v[5]) = plus_minus(v[4], eighth_turn(v[5]), c(7));
                (v[6], v[7]) = plus_minus_i(v[6], eighth_turn(v[7]), c(7));
            }
        }
        v
    }
}

/// Bit-reversed places, because an inverse stage joins the vectors that a forward stage splits.
const REVERSED: [[usize; 8]; 3] = [[0, 1, 0, 0, 0, 0, 0, 0], [0, 2, 1, 3, 0, 0, 0, 0], [0, 4, 2, 6, 1, 5, 3, 7]];

/// Runs the inverse stages, from adjacent vectors to the farthest. These stages use the conjugate root. With real and
/// imaginary parts exchanged, they are the stages of `s`.
#[inline(always)]
pub unsafe fn inverse_stages<S: SimdReals, const RADIX: usize>(
    v: [Complex<S>; RADIX],
    twiddle: impl Fn(usize) -> S::R,
) -> [Complex<S>; RADIX] {
    let places = REVERSED[RADIX.ilog2() as usize - 1];
    let exchanged =
        |v: [Complex<S>; RADIX]| std::array::from_fn(|i| Complex { re: v[places[i]].im, im: v[places[i]].re });
    // SAFETY: the caller promises that the processor supports `S`.
    unsafe { exchanged(stages(exchanged(v), twiddle)) }
}

/// Runs the very first inverse stages on eight vectors. The root of these stages is one.
#[inline(always)]
pub unsafe fn first_inverse_stages<S: SimdReals, const RADIX: usize>(
    mut v: [Complex<S>; RADIX],
) -> [Complex<S>; RADIX] {
    // SAFETY: the caller promises that the processor supports `S`.
    unsafe {
        for i in [0, 2, 4, 6] {
            (v[i], v[i + 1]) = sum_and_difference(v[i], v[i + 1]);
        }
        for i in [0, 4] {
            (v[i], v[i + 2]) = sum_and_difference(v[i], v[i + 2]);
            (v[i + 3], v[i + 1]) = sum_and_difference_by_i(v[i + 1], v[i + 3]);
        }
        let c = S::splat_real(FRAC_1_SQRT_2);
        (v[0], v[4]) = sum_and_difference(v[0], v[4]);
        (v[6], v[2]) = sum_and_difference_by_i(v[2], v[6]);
        // v[5] is rotated back by one eighth of a turn, and v[7] by three eighths
        (v[5], v[1]) = plus_minus_i(v[1], eighth_turn(v[5]), c);
        (v[7], v[3]) = plus_minus(v[3], eighth_turn(v[7]), c);
        v
    }
}
