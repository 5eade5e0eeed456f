//! Digits in the form that the double-precision transform reads.

use crate::cpu::simd::Simd;
use crate::tfhe::cpu::blind_rotate::{Decomposition, Digits};

/// Stores digits in `[-B/2, B/2)`, each in the highest bits of its word, level after level. The constant vectors are
/// computed once for each polynomial.
#[derive(Clone, Copy)]
pub(super) struct HighDigits<S: Simd> {
    digits: *mut u32,
    n: usize,
    levels: usize,
    /// Mask of a digit's bits.
    mask: S::V,
    /// The highest bit of every digit.
    signs: S::V,
    /// Number of bits of a digit.
    base_log: S::V,
}

impl<S: Simd> HighDigits<S> {
    #[inline(always)]
    pub(super) unsafe fn new(digits: *mut u32, n: usize, d: Decomposition) -> Self {
        let signs = (0..d.levels as u32).map(|level| 1 << (31 - d.base_log * level)).sum();
        // SAFETY: the caller promises that the processor supports `S`.
        unsafe {
            let (mask, base_log) = (S::splat(u32::MAX << (32 - d.base_log)), S::splat(d.base_log));
            Self { digits, n, levels: d.levels, mask, signs: S::splat(signs), base_log }
        }
    }
}

impl<S: Simd> Digits<S> for HighDigits<S> {
    #[inline(always)]
    unsafe fn store(self, raised: S::V, i: usize) {
        // SAFETY: the caller promises that the processor supports `S` and that `i` is below `n`. The pointer given to
        // `new` has room for `levels` times `n` words.
        unsafe {
            // subtract B/2 by flipping the highest bit of each digit
            let mut digits = S::xor(raised, self.signs);
            S::store(self.digits.add(i), S::and(digits, self.mask));
            // two levels have their own branch, because a loop that runs only once would cost more than its body
            if self.levels == 2 {
                digits = S::shift_left_by(digits, self.base_log);
                S::store(self.digits.add(self.n + i), S::and(digits, self.mask));
            } else {
                for level in 1..self.levels {
                    digits = S::shift_left_by(digits, self.base_log);
                    S::store(self.digits.add(level * self.n + i), S::and(digits, self.mask));
                }
            }
        }
    }
}
