//! The parts of blind rotation that are compiled once for each instruction set. If they were inlined into their
//! callers, there would be dozens of copies, which would run short of registers.

use crate::cpu::simd::SimdReals;
use crate::tfhe::cpu::fft;

/// A vector type with compiled versions of these parts.
///
/// # Safety
/// The conditions of [`SimdReals`].
pub(super) unsafe trait Compiled: SimdReals {
    /// [`fft::forward_passes`].
    unsafe fn forward_passes(tables: &fft::FftTables, words: &[u32], out: &mut [f64]);
    /// [`super::sums::add_sums`].
    unsafe fn add_sums(tables: &fft::FftTables, values: &mut [f64], accumulator: &mut [u32]) -> u32;
}

#[cfg(target_arch = "x86_64")]
macro_rules! compile {
    ($vectors:ty, $features:literal) => {
        // SAFETY: the instruction set is the one of the vectors.
        unsafe impl Compiled for $vectors {
            #[inline(never)]
            #[target_feature(enable = $features)]
            unsafe fn forward_passes(tables: &fft::FftTables, words: &[u32], out: &mut [f64]) {
                // SAFETY: the instruction set is enabled here; the caller promises lengths of the tables' degree.
                unsafe { fft::forward_passes::<$vectors>(tables, words, out) }
            }
            #[inline(never)]
            #[target_feature(enable = $features)]
            unsafe fn add_sums(tables: &fft::FftTables, values: &mut [f64], accumulator: &mut [u32]) -> u32 {
                // SAFETY: the instruction set is enabled here; the caller promises lengths of the tables' degree.
                unsafe { super::sums::add_sums::<$vectors, false>(tables, values, accumulator) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
compile!(crate::cpu::simd::avx512::Avx512, "avx512f,avx512dq,avx2,fma,bmi2");
#[cfg(target_arch = "x86_64")]
compile!(crate::cpu::simd::avx2::Avx2, "avx2,fma");
