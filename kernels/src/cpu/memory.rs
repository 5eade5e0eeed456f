//! Memory for long streams of words and doubles: aligned to cache lines, on huge pages if large, overwritten on drop.

use std::alloc::{Layout, alloc, dealloc};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use bytemuck::Zeroable;
use zeroize::{DefaultIsZeroes, Zeroize};

use crate::error::{Error, Result};

const CACHE_LINE_BYTES: usize = 64;
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A fixed number of words, initially zero.
pub type Words = Memory<u32>;
/// A fixed number of doubles, initially zero.
pub type Doubles = Memory<f64>;

/// A number type whose zero is all zero bits.
pub trait Number: Send + Sync + DefaultIsZeroes + Zeroable {}
impl Number for u32 {}
impl Number for f64 {}

/// A fixed number of values `T`, initially zero.
pub struct Memory<T: Number> {
    start: NonNull<T>,
    len: usize,
}

// SAFETY: `Memory` owns its numbers, as a `Vec` does.
unsafe impl<T: Number> Send for Memory<T> {}
// SAFETY: through a shared reference, a thread can only read the numbers.
unsafe impl<T: Number> Sync for Memory<T> {}

impl<T: Number> Memory<T> {
    /// Allocates `len` zeros.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] when the allocator has no free block of this size. An overcommitting system may still end
    /// the process later, so callers bound requests by the machine's memory.
    pub fn zeroed(len: usize) -> Result<Self> {
        let none = || Error::OutOfMemory(format!("no free block of memory for {len} numbers"));
        let layout = Self::layout(len).ok_or_else(none)?;
        // SAFETY: the layout's size is not zero.
        let start = NonNull::new(unsafe { alloc(layout) }).ok_or_else(none)?;
        // the advice comes before the first write, because pages that already exist stay small
        advise_huge_pages(start, layout);
        // SAFETY: the bytes were just allocated here, and `Zeroable` promises that all zero bits are a valid number.
        unsafe { start.write_bytes(0, layout.size()) };
        Ok(Memory { start: start.cast(), len })
    }

    /// Allocates a copy of `numbers`.
    ///
    /// # Errors
    /// The error of [`Memory::zeroed`].
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

/// Requests huge pages, so that a streaming key causes fewer page-table walks. A kernel without huge pages ignores the
/// advice.
fn advise_huge_pages(start: NonNull<u8>, layout: Layout) {
    #[cfg(target_os = "linux")]
    if layout.align() == HUGE_PAGE_BYTES {
        // SAFETY: the range is one page-aligned allocation of the caller, and the call does not change its contents.
        unsafe { libc::madvise(start.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, layout);
}

impl<T: Number> Deref for Memory<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: this value owns `len` initialised numbers from `start` on.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Number> DerefMut for Memory<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and the borrow is unique.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: Number> Drop for Memory<T> {
    fn drop(&mut self) {
        self.zeroize();
        let layout = Self::layout(self.len).expect("it was allocated with this layout");
        // SAFETY: `zeroed` allocated this memory with the same layout, and nothing uses the memory after this call.
        unsafe { dealloc(self.start.as_ptr().cast(), layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_nobody_has_is_an_error_and_no_end_of_the_process() {
        for len in [usize::MAX, usize::MAX / 8, isize::MAX as usize / 8, 1 << 50] {
            assert!(matches!(Words::zeroed(len), Err(Error::OutOfMemory(_))), "{len}");
            assert!(matches!(Doubles::zeroed(len), Err(Error::OutOfMemory(_))), "{len}");
        }
        assert_eq!(Words::zeroed(3).unwrap()[..], [0; 3]);
    }

    /// The argument that tells the child process that it runs with little memory. The test program takes the argument
    /// for a filter of test names, and no test has a matching name.
    #[cfg(target_os = "linux")]
    const CHILD: &str = "with-little-memory";

    #[cfg(target_os = "linux")]
    #[test]
    fn what_finds_no_memory_is_an_error_and_the_process_goes_on() {
        use crate::backend::Backend;
        use crate::cpu::{Cpu, Isa};
        use std::os::unix::process::CommandExt;

        if std::env::args().any(|word| word == CHILD) {
            let cpu = Cpu::with(Isa::detect(), 1);
            let arena = cpu.arena(640, 1 << 22);
            assert!(matches!(arena, Err(Error::OutOfMemory(_))), "ten gigabytes");
            assert!(cpu.arena(640, 10).is_ok());
            return println!("went on");
        }
        let name = "cpu::memory::tests::what_finds_no_memory_is_an_error_and_the_process_goes_on";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args([name, CHILD, "--exact", "--nocapture"]);
        let limit = || {
            let bytes = libc::rlimit { rlim_cur: 4 << 30, rlim_max: 4 << 30 };
            // SAFETY: the system call only reads `bytes`.
            match unsafe { libc::setrlimit(libc::RLIMIT_AS, &bytes) } {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        };
        // SAFETY: between fork and exec, the closure makes one system call and touches nothing else.
        let output = unsafe { child.pre_exec(limit) }.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("went on"),
            "{said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
