//! Words in memory that suits long streams: aligned to cache lines, on huge pages where they are large, overwritten on drop.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use zeroize::Zeroize;

use crate::error::{Error, Result};

const CACHE_LINE_BYTES: usize = 64;
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A fixed number of words, zero at first.
pub struct Words {
    start: NonNull<u32>,
    len: usize,
}

// SAFETY: `Words` owns its memory as a `Vec` does.
unsafe impl Send for Words {}
// SAFETY: shared access only reads.
unsafe impl Sync for Words {}

impl Words {
    /// `len` zero words.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] for sizes no machine has; an allocator that fails below that ends the process, as for `Vec`.
    pub fn zeroed(len: usize) -> Result<Words> {
        let layout = Words::layout(len).ok_or_else(|| Error::OutOfMemory(format!("{len} words")))?;
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start.cast()) else { handle_alloc_error(layout) };
        advise_huge_pages(start, layout);
        Ok(Words { start, len })
    }

    fn layout(len: usize) -> Option<Layout> {
        let bytes = len.max(1).checked_mul(4)?;
        let align = if bytes >= HUGE_PAGE_BYTES { HUGE_PAGE_BYTES } else { CACHE_LINE_BYTES };
        Layout::from_size_align(bytes.checked_next_multiple_of(align)?, align).ok()
    }
}

/// Fewer page-table walks while a key streams by. Advice only: a kernel without huge pages ignores it.
fn advise_huge_pages(start: NonNull<u32>, layout: Layout) {
    #[cfg(target_os = "linux")]
    if layout.align() == HUGE_PAGE_BYTES {
        // SAFETY: the range is ours, page-aligned, and the call does not change its contents.
        unsafe { libc::madvise(start.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, layout);
}

impl Deref for Words {
    type Target = [u32];
    fn deref(&self) -> &[u32] {
        // SAFETY: `len` initialised words belong to us.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Words {
    fn deref_mut(&mut self) -> &mut [u32] {
        // SAFETY: as above, and the borrow is unique.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        self.zeroize();
        let layout = Words::layout(self.len).expect("it was allocated with this layout");
        // SAFETY: allocated in `zeroed` with the same layout, not used after.
        unsafe { dealloc(self.start.as_ptr().cast(), layout) };
    }
}
