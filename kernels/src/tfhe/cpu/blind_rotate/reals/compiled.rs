//! The parts of blind rotation that are compiled once for each instruction set. If they were inlined into their
//! callers, dozens of copies would exist, and each copy would have too few registers.

use crate::cpu::simd::SimdReals;
use crate::tfhe::cpu::fft;

/// A vector type with compiled versions of these parts.
///
/// # Safety
/// The conditions of [`SimdReals`].
pub(super) unsafe trait Compiled: SimdReals {
    /// [`fft::forward_passes`], compiled for the instruction set of these vectors.
    unsafe fn forward_passes(tables: &fft::FftTables, words: &[u32], out: &mut [f64]);
    /// [`super::sums::add_sums`] without `UNDO`, compiled for the instruction set of these vectors.
    unsafe fn add_sums(tables: &fft::FftTables, values: &mut [f64], accumulator: &mut [u32]) -> u32;
}

#[cfg(target_arch = "x86_64")]
macro_rules! compile {
    ($vectors:ty, $features:literal) => {
        // SAFETY: the vectors meet the conditions of `SimdReals`, and the enabled instruction set is theirs.
        unsafe impl Compiled for $vectors {
            #[inline(never)]
            #[target_feature(enable = $features)]
            unsafe fn forward_passes(tables: &fft::FftTables, words: &[u32], out: &mut [f64]) {
                // SAFETY: the attribute enables the instruction set; the caller promises that the slices have the
                // length of the tables' degree.
                unsafe { fft::forward_passes::<$vectors>(tables, words, out) }
            }
            #[inline(never)]
            #[target_feature(enable = $features)]
            unsafe fn add_sums(tables: &fft::FftTables, values: &mut [f64], accumulator: &mut [u32]) -> u32 {
                // SAFETY: the attribute enables the instruction set; the caller promises that the slices have the
                // length of the tables' degree.
                unsafe { super::sums::add_sums::<$vectors, false>(tables, values, accumulator) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
compile!(crate::cpu::simd::avx512::Avx512, "avx512f,avx512dq,avx2,fma,bmi2");
#[cfg(target_arch = "x86_64")]
compile!(crate::cpu::simd::avx2::Avx2, "avx2,fma");
