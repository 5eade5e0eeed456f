//! Butterflies of radix 2 and 4 for CPUs with separate adders. Twiddles are real and imaginary parts. `stages`
//! decimates in time (full products, then sums), and `undo_stages` in frequency (sums, then products).

use super::precise::rounded_root;
use super::{Complex, sum_and_difference, sum_and_difference_by_i};
use crate::cpu::simd::SimdReals;

/// Number of reals in the twiddles of radix 4.
pub const TWIDDLE_REALS: usize = reals_of(4);

/// Number of reals in the twiddles of a radix: two for each vector but the first.
pub const fn reals_of(radix: usize) -> usize {
    2 * (radix - 1)
}

/// The twiddles of [`stages`] and [`undo_stages`] of this radix for the root `s` at `turn / of` of a turn: `s`, then
/// its square and its cube, as real and imaginary parts.
pub fn twiddles(radix: usize, turn: i64, of: i64) -> Vec<f64> {
    (1..radix as i64).flat_map(|j| rounded_root(j * turn, of)).collect()
}

/// `s^j`.
#[inline(always)]
unsafe fn power<S: SimdReals>(twiddle: &impl Fn(usize) -> S::R, j: usize) -> Complex<S> {
    Complex { re: twiddle(2 * j - 2), im: twiddle(2 * j - 1) }
}

impl<S: SimdReals> Complex<S> {
    /// Returns `self` times the conjugate of `w`.
    #[inline(always)]
    unsafe fn mul_conjugate(self, w: Self) -> Self {
        // SAFETY: the caller promises that the processor supports `S`.
        unsafe {
            Complex {
                re: S::mul_add(self.im, w.im, S::mul_reals(self.re, w.re)),
                im: S::neg_mul_add(self.re, w.im, S::mul_reals(self.im, w.re)),
            }
        }
    }

    /// Returns `self` times `i` and times the conjugate of `w`.
    #[inline(always)]
    unsafe fn mul_i_conjugate(self, w: Self) -> Self {
        // SAFETY: the caller promises that the processor supports `S`.
        unsafe {
            Complex {
                re: S::neg_mul_add(self.im, w.re, S::mul_reals(self.re, w.im)),
                im: S::mul_add(self.im, w.im, S::mul_reals(self.re, w.re)),
            }
        }
    }
}

/// `(x + w y, x - w y)`; the second result is computed as `2x - (x + w y)`.
#[inline(always)]
unsafe fn butterfly<S: SimdReals>(x: Complex<S>, y: Complex<S>, w: Complex<S>) -> (Complex<S>, Complex<S>) {
    // SAFETY: the caller promises that the processor supports `S`.
    unsafe {
        let (two, sum) = (S::splat_real(2.0), x.mul_add(y, w));
        (sum, Complex { re: S::mul_sub(two, x.re, sum.re), im: S::mul_sub(two, x.im, sum.im) })
    }
}

/// `(x + i w y, x - i w y)`.
#[inline(always)]
unsafe fn butterfly_by_i<S: SimdReals>(x: Complex<S>, y: Complex<S>, w: Complex<S>) -> (Complex<S>, Complex<S>) {
    // SAFETY: the caller promises that the processor supports `S`.
    unsafe {
        let two = S::splat_real(2.0);
        let re = S::neg_mul_add(y.im, w.re, S::neg_mul_add(y.re, w.im, x.re));
        let im = S::neg_mul_add(y.im, w.im, S::mul_add(y.re, w.re, x.im));
        (Complex { re, im }, Complex { re: S::mul_sub(two, x.re, re), im: S::mul_sub(two, x.im, im) })
    }
}

/// Implements [`super::stages`].
#[inline(always)]
pub unsafe fn stages<S: SimdReals, const RADIX: usize>(
    mut v: [Complex<S>; RADIX],
    twiddle: impl Fn(usize) -> S::R,
) -> [Complex<S>; RADIX] {
    // SAFETY: the caller promises that the processor supports `S`.
    unsafe {
        if RADIX == 2 {
            (v[0], v[1]) = butterfly(v[0], v[1], power(&twiddle, 1));
            return v;
        }
        let (x, y) = butterfly(v[0], v[2], power(&twiddle, 2));
        let (z, t) = sum_and_difference(v[1].mul(power(&twiddle, 1)), v[3].mul(power(&twiddle, 3)));
        (v[0], v[1]) = sum_and_difference(x, z);
        (v[2], v[3]) = sum_and_difference_by_i(y, t);
        v
    }
}

/// Implements [`super::inverse_stages`].
#[inline(always)]
pub unsafe fn undo_stages<S: SimdReals, const RADIX: usize>(
    mut v: [Complex<S>; RADIX],
    twiddle: impl Fn(usize) -> S::R,
) -> [Complex<S>; RADIX] {
    // SAFETY: the caller promises that the processor supports `S`.
    unsafe {
        if RADIX == 2 {
            let (sum, difference) = sum_and_difference(v[0], v[1]);
            (v[0], v[1]) = (sum, difference.mul_conjugate(power(&twiddle, 1)));
            return v;
        }
        let ((x, z), (y, t)) = (sum_and_difference(v[0], v[1]), sum_and_difference(v[2], v[3]));
        let (three, one) = sum_and_difference_by_i(z, t);
        let (sum, two) = sum_and_difference(x, y);
        v[0] = sum;
        // computed before the other products, because then fewer registers are needed
        v[2] = two.mul_conjugate(power(&twiddle, 2));
        v[1] = one.mul_conjugate(power(&twiddle, 1));
        v[3] = three.mul_conjugate(power(&twiddle, 3));
        v
    }
}

/// Applies only the second of the two stages of four vectors.
#[inline(always)]
pub unsafe fn second_stage<S: SimdReals, const RADIX: usize>(
    mut v: [Complex<S>; RADIX],
    twiddle: impl Fn(usize) -> S::R,
) -> [Complex<S>; RADIX] {
    // SAFETY: the caller promises that the processor supports `S`.
    unsafe {
        let w = power(&twiddle, 1);
        (v[0], v[1]) = butterfly(v[0], v[1], w);
        (v[2], v[3]) = butterfly_by_i(v[2], v[3], w);
        v
    }
}

/// The inverse of [`second_stage`].
#[inline(always)]
pub unsafe fn undo_second_stage<S: SimdReals, const RADIX: usize>(
    mut v: [Complex<S>; RADIX],
    twiddle: impl Fn(usize) -> S::R,
) -> [Complex<S>; RADIX] {
    // SAFETY: the caller promises that the processor supports `S`.
    unsafe {
        let w = power(&twiddle, 1);
        let (x, y) = sum_and_difference(v[0], v[1]);
        (v[0], v[1]) = (x, y.mul_conjugate(w));
        let (x, y) = sum_and_difference(v[3], v[2]);
        (v[2], v[3]) = (x, y.mul_i_conjugate(w));
        v
    }
}
