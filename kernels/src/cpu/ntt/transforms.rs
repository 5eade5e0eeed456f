//! The transforms as one function for each instruction set. If the transforms were inlined into their callers, there
//! would be dozens of copies, and each would run short of registers.

use super::NttTables;
use crate::cpu::ahead::Ahead;
use crate::cpu::simd::Simd;

/// Vectors whose transforms of whole rows are compiled once for each instruction set.
///
/// # Safety
/// Callers of both methods promise that the processor supports the instruction set, and that rows have the tables'
/// degree.
pub(crate) unsafe trait Transforms: Simd {
    /// Computes `forward` of [`crate::cpu::ntt`].
    unsafe fn forward(tables: &NttTables, row: &mut [u32], ahead: &mut Ahead<'_, u32>);
    /// Computes `inverse` of [`crate::cpu::ntt`].
    unsafe fn inverse(tables: &NttTables, from: Option<&[u32]>, row: &mut [u32]);
}

macro_rules! compile {
    ($vectors:ty $(, $features:literal)?) => {
        // SAFETY: each method enables the instruction set that its vectors need.
        unsafe impl Transforms for $vectors {
            #[inline(never)]
            $(#[target_feature(enable = $features)])?
            unsafe fn forward(tables: &NttTables, row: &mut [u32], ahead: &mut Ahead<'_, u32>) {
                // SAFETY: the instruction set is enabled here, and the caller promises rows of the tables' degree.
                unsafe { super::forward::<$vectors>(tables, row, ahead) }
            }
            #[inline(never)]
            $(#[target_feature(enable = $features)])?
            unsafe fn inverse(tables: &NttTables, from: Option<&[u32]>, row: &mut [u32]) {
                // SAFETY: the instruction set is enabled here, and the caller promises rows of the tables' degree.
                unsafe { super::inverse::<$vectors>(tables, from, row) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
compile!(crate::cpu::simd::avx512::Avx512, "avx512f,avx512dq,avx2,fma,bmi2");
#[cfg(target_arch = "x86_64")]
compile!(crate::cpu::simd::avx2::Avx2, "avx2,fma");
compile!(crate::cpu::simd::portable::Portable);
