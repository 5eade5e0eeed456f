//! Prefetching: loads memory into the cache while the CPU computes.

use super::simd::Simd;

/// Size of a cache line, in bytes.
const LINE_BYTES: usize = 64;

/// Values that will be read soon, prefetched into the cache a few lines at a time.
pub(crate) struct Ahead<'a, T> {
    values: &'a [T],
    at_once: usize,
}

impl<'a, T> Ahead<'a, T> {
    const LINE: usize = LINE_BYTES / size_of::<T>();

    /// Prepares to prefetch all of `values`, spread over `calls` calls of [`Ahead::call`].
    #[inline(always)]
    pub(crate) fn new(values: &'a [T], calls: usize) -> Self {
        Ahead { values, at_once: values.len().div_ceil(calls).next_multiple_of(Self::LINE) }
    }

    /// Makes a value that prefetches nothing.
    pub(crate) fn none() -> Self {
        Ahead { values: &[], at_once: 0 }
    }

    /// Prefetches the next lines.
    ///
    /// # Safety
    /// The CPU has the instruction set `S`.
    #[inline(always)]
    pub(crate) unsafe fn call<S: Simd>(&mut self) {
        let (now, later) = self.values.split_at(self.values.len().min(self.at_once));
        for line in now.chunks(Self::LINE) {
            // SAFETY: the caller promises that the processor supports `S`; a prefetch cannot fault.
            unsafe { S::prefetch_far(line.as_ptr().cast()) };
        }
        self.values = later;
    }
}
