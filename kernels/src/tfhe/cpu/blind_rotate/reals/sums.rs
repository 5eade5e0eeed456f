//! Sums from the inverse transform: rounded to integers, checked, and added to the accumulator or subtracted again.

use crate::cpu::simd::{LANES_MAX, Simd, SimdReals};
use crate::tfhe::RING_MODULUS;
use crate::tfhe::cpu::blind_rotate::accumulate;
use crate::tfhe::cpu::fft::{self, Complex, FftTables, Sink};

/// `1.5 * 2^52`. If this constant is added to a number of magnitude below 2^51, the low bits of the result are the
/// number rounded to an integer.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// Mask of the two lowest bits of a sum in quarters. Both bits are zero if the sum is near enough to an integer.
pub(super) const QUARTERS: u32 = 3;

/// The end of step (5), the inverse transform, and step (6), the sum: converts sums in turns of `q` to words and adds
/// them to a polynomial of the accumulator. With `UNDO`, subtracts sums that were added before.
struct Accumulate<S: Simd, const UNDO: bool> {
    polynomial: *mut u32,
    points: usize,
    /// Bitwise OR of all sums that were taken, each in quarters.
    any: S::V,
}

impl<S: SimdReals, const UNDO: bool> Sink<S> for Accumulate<S, UNDO> {
    /// Converts turns of `q` to integers in `[0, q]`, in units of a quarter. The results are in the low words.
    #[inline(always)]
    unsafe fn prepare(&self, x: Complex<S>) -> Complex<S> {
        // SAFETY: the caller promises that the processor supports `S`.
        unsafe {
            let (quarters, rounder) = (S::splat_real(4.0 * RING_MODULUS as f64), S::splat_real(ROUNDER));
            let re = S::mul_add(S::fraction(x.re), quarters, rounder);
            Complex { re, im: S::mul_add(S::fraction(x.im), quarters, rounder) }
        }
    }

    #[inline(always)]
    unsafe fn take(&mut self, at: usize, [x, y]: [Complex<S>; 2]) {
        // SAFETY: the caller promises that the processor supports `S` and that two vectors of points start at `at`. In
        // the polynomial, their real parts are at `at`, and their imaginary parts are `points` words further.
        unsafe {
            for (at, words) in [(at, S::low_words(x.re, y.re)), (at + self.points, S::low_words(x.im, y.im))] {
                self.any = S::or(self.any, words);
                let sum = S::shift_right(words, 2);
                let sum = if UNDO { S::sub(S::splat(RING_MODULUS), sum) } else { sum };
                accumulate::<S>(self.polynomial.add(at), sum);
            }
        }
    }
}

/// Steps (5) and (6), the inverse transform and the sum: adds the sums of one component to its polynomial of the
/// accumulator. With `UNDO`, subtracts sums that were added before. Returns the bitwise OR of all sums, in quarters.
#[inline(always)]
pub(super) unsafe fn add_sums<S: SimdReals, const UNDO: bool>(
    tables: &FftTables,
    values: &mut [f64],
    polynomial: &mut [u32],
) -> u32 {
    // SAFETY: the caller promises that the processor supports `S` and that there are as many values as the polynomial
    // has words. `lanes` has room for any vector.
    unsafe {
        // (5) transform back
        if !UNDO {
            fft::inverse_passes::<S>(tables, values);
        }
        let points = values.len() / 2;
        let mut sink = Accumulate::<S, UNDO> { polynomial: polynomial.as_mut_ptr(), points, any: S::splat(0) };
        fft::last_inverse_pass::<S>(tables, values.as_ptr(), &mut sink);
        let mut lanes = [0; LANES_MAX];
        S::store(lanes.as_mut_ptr(), sink.any);
        lanes.iter().fold(0, |all, lane| all | lane)
    }
}
