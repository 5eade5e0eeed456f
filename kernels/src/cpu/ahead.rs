//! Prefetching: memory is loaded into the cache while the CPU computes, so both overlap.

use super::simd::Simd;

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// Values that will be read soon, prefetched into the cache a few lines at a time.
pub(crate) struct Ahead<'a, T> {
    values: &'a [T],
    at_once: usize,
}

impl<'a, T> Ahead<'a, T> {
    const LINE: usize = LINE_BYTES / size_of::<T>();

    /// Prefetches all of `values` over `calls` calls of [`Ahead::call`].
    #[inline(always)]
    pub(crate) fn new(values: &'a [T], calls: usize) -> Self {
        Ahead { values, at_once: values.len().div_ceil(calls).next_multiple_of(Self::LINE) }
    }

    /// Prefetches nothing.
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
