//! Memory called into the cache while the processor computes: memory and arithmetic then overlap.

use super::simd::Simd;

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// Numbers that will be read soon, called into the cache a few lines at a time.
pub(crate) struct Ahead<'a, T> {
    values: &'a [T],
    at_once: usize,
}

impl<'a, T> Ahead<'a, T> {
    const LINE: usize = LINE_BYTES / size_of::<T>();

    /// All of `values`, by `calls` calls of [`Ahead::call`].
    #[inline(always)]
    pub(crate) fn new(values: &'a [T], calls: usize) -> Self {
        Ahead { values, at_once: values.len().div_ceil(calls).next_multiple_of(Self::LINE) }
    }

    /// Nothing.
    pub(crate) fn none() -> Self {
        Ahead { values: &[], at_once: 0 }
    }

    /// The next lines.
    ///
    /// # Safety
    /// The processor has the instruction set `S`.
    #[inline(always)]
    pub(crate) unsafe fn call<S: Simd>(&mut self) {
        let (now, later) = self.values.split_at(self.values.len().min(self.at_once));
        for line in now.chunks(Self::LINE) {
            // SAFETY: the caller promises a processor with `S`; a prefetch reads nothing.
            unsafe { S::prefetch_far(line.as_ptr().cast()) };
        }
        self.values = later;
    }
}
