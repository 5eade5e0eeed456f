//! Words and doubles in memory that suits long streams: aligned to cache lines, on huge pages where they are large,
//! overwritten on drop.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use zeroize::{DefaultIsZeroes, Zeroize};

use crate::error::{Error, Result};

const CACHE_LINE_BYTES: usize = 64;
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A fixed number of words, zero at first.
pub type Words = Memory<u32>;
/// A fixed number of doubles, zero at first.
pub type Doubles = Memory<f64>;

/// A number whose zero is all zero bits.
pub trait Number: Send + Sync + DefaultIsZeroes {}
impl Number for u32 {}
impl Number for f64 {}

/// A fixed number of `T`, zero at first.
pub struct Memory<T: Number> {
    start: NonNull<T>,
    len: usize,
}

// SAFETY: `Memory` owns its memory as a `Vec` does.
unsafe impl<T: Number> Send for Memory<T> {}
// SAFETY: shared access only reads.
unsafe impl<T: Number> Sync for Memory<T> {}

impl<T: Number> Memory<T> {
    /// `len` zeros.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] for sizes no machine has; an allocator that fails below that ends the process, as for
    /// `Vec`.
    pub fn zeroed(len: usize) -> Result<Self> {
        let layout = Self::layout(len).ok_or_else(|| Error::OutOfMemory(format!("{len} numbers")))?;
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start.cast()) else { handle_alloc_error(layout) };
        advise_huge_pages(start.cast(), layout);
        Ok(Memory { start, len })
    }

    /// A copy.
    ///
    /// # Errors
    /// As [`Memory::zeroed`].
    pub fn copy_of(numbers: &[T]) -> Result<Self> {
        let mut out = Self::zeroed(numbers.len())?;
        out.copy_from_slice(numbers);
        Ok(out)
    }

    fn layout(len: usize) -> Option<Layout> {
        let bytes = len.max(1).checked_mul(size_of::<T>())?;
        let align = if bytes >= HUGE_PAGE_BYTES { HUGE_PAGE_BYTES } else { CACHE_LINE_BYTES };
        Layout::from_size_align(bytes.checked_next_multiple_of(align)?, align).ok()
    }
}

/// Fewer page-table walks while a key streams by. Advice only: a kernel without huge pages ignores it.
fn advise_huge_pages(start: NonNull<u8>, layout: Layout) {
    #[cfg(target_os = "linux")]
    if layout.align() == HUGE_PAGE_BYTES {
        // SAFETY: the range is ours, page-aligned, and the call does not change its contents.
        unsafe { libc::madvise(start.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, layout);
}

impl<T: Number> Deref for Memory<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: `len` initialised numbers belong to us.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Number> DerefMut for Memory<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and the borrow is unique.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: Number> Drop for Memory<T> {
    fn drop(&mut self) {
        self.zeroize();
        let layout = Self::layout(self.len).expect("it was allocated with this layout");
        // SAFETY: allocated in `zeroed` with the same layout, not used after.
        unsafe { dealloc(self.start.as_ptr().cast(), layout) };
    }
}
