//! Words in a card's memory.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaContext, result, sys};

use super::driver::Stream;
use super::failed::failed;
use super::reserved::Reserved;
use crate::error::{Error, Result};

/// Words in the card's memory. They are overwritten with zeros before they are freed, in the stream's order.
pub struct Memory {
    address: sys::CUdeviceptr,
    words: usize,
    stream: Arc<Stream>,
    /// The reserved addresses, if only a first part of the words has memory.
    reserved: Option<Reserved>,
}

impl Memory {
    pub fn zeroed(stream: &Arc<Stream>, words: usize) -> Result<Memory> {
        let memory = Memory::uncleared(stream, words)?;
        memory.clear(stream, words)?;
        Ok(memory)
    }

    /// Allocates words without clearing them. They must be written before they are read. If the card has too little memory,
    /// the call waits until the card has ended the work of the stream, returns the freed memory that the driver keeps for
    /// later allocations to the card, and tries once more.
    pub fn uncleared(stream: &Arc<Stream>, words: usize) -> Result<Memory> {
        let context = stream.context();
        stream.bind()?;
        // the driver allocates no empty buffer
        let bytes = words.max(1).checked_mul(4).ok_or_else(|| Error::OutOfMemory(format!("{words} words")))?;
        let allocate = || {
            // SAFETY: the context is bound; the `Memory` made below owns the address
            let address = unsafe {
                if context.has_async_alloc() {
                    result::malloc_async(stream.handle(), bytes)
                } else {
                    result::malloc_sync(bytes)
                }
            };
            address.map_err(|error| failed(&format!("allocating {bytes} bytes"), error))
        };
        let address = with_freed_memory(allocate, || {
            stream.drain()?;
            give_back_freed_memory(context)
        })?;
        Ok(Memory { address, words, stream: stream.clone(), reserved: None })
    }

    /// Reserves addresses for this many words, which get memory by [`Memory::back`]. `None` if the card cannot.
    pub fn reserved(stream: &Arc<Stream>, words: usize) -> Result<Option<Memory>> {
        let memory = |reserved: Reserved| {
            let (address, stream) = (reserved.address(), stream.clone());
            Memory { address, words, stream, reserved: Some(reserved) }
        };
        Ok(Reserved::new(stream, 4 * words)?.map(memory))
    }

    /// Gives the first `words` words memory. New words are zero, in the order of the stream.
    ///
    /// # Panics
    /// When the addresses were not reserved.
    pub fn back(&self, words: usize) -> Result<()> {
        let reserved = self.reserved.as_ref().expect("reserved addresses");
        with_freed_memory(
            || reserved.back(4 * words),
            || {
                self.stream.drain()?;
                give_back_freed_memory(self.stream.context())
            },
        )
    }

    /// Copies `words` words from word `at` on to another buffer, in the order of the stream.
    pub fn copy(&self, at: usize, to: &Memory, to_at: usize, words: usize) -> Result<()> {
        self.stream.bind()?;
        let (from, to) = (self.at(at, words), to.at(to_at, words));
        // SAFETY: both ranges lie in their buffers, which are two buffers
        unsafe { result::memcpy_dtod_async(to, from, 4 * words, self.stream.handle()) }
            .map_err(|error| failed("copying a buffer", error))
    }

    /// Writes zeros to a range of words, after all work that was started before. A failure shows in the next call.
    pub fn clear_range(&self, range: Range<usize>) {
        let address = self.at(range.start, range.len());
        if self.stream.bind().is_ok() && !range.is_empty() {
            // SAFETY: the range lies in this buffer; streams live as long as their context
            let _ = unsafe { result::memset_d8_async(address, 0, 4 * range.len(), self.stream.handle()) };
        }
    }

    /// The number of words.
    pub fn words(&self) -> usize {
        self.words
    }

    /// Returns the address of `words` words, from word `at` of the buffer on.
    ///
    /// # Panics
    /// When the range is outside the buffer. Such a range is a mistake of the caller, and the card would not detect it.
    pub fn at(&self, at: usize, words: usize) -> sys::CUdeviceptr {
        let end = at.checked_add(words);
        assert!(end.is_some_and(|end| end <= self.words), "{words} words at {at} of a buffer of {}", self.words);
        self.address + 4 * at as u64
    }

    /// Writes zeros to the first `words` words, in the order of `stream`.
    pub fn clear(&self, stream: &Stream, words: usize) -> Result<()> {
        let address = self.at(0, words);
        if words == 0 {
            return Ok(());
        }
        // SAFETY: the range lies in this buffer; streams live as long as their context
        unsafe { result::memset_d8_async(address, 0, 4 * words, stream.handle()) }
            .map_err(|error| failed("clearing a buffer", error))
    }
}

/// Allocates. If there is too little memory, frees memory and allocates once more. If freeing fails, the result is that
/// failure, because it says more about the card.
fn with_freed_memory<T>(allocate: impl Fn() -> Result<T>, free: impl FnOnce() -> Result<()>) -> Result<T> {
    match allocate() {
        Err(Error::OutOfMemory(_)) => free().and_then(|()| allocate()),
        other => other,
    }
}

/// Returns the memory that the driver keeps for later allocations, and that no allocation uses now, to the card.
fn give_back_freed_memory(context: &CudaContext) -> Result<()> {
    if !context.has_async_alloc() {
        return Ok(());
    }
    // SAFETY: the device is one of the driver's, and the pool is that device's own
    let trimmed = unsafe {
        result::device::get_default_mem_pool(context.cu_device()).and_then(|pool| result::mem_pool::trim_to(pool, 0))
    };
    trimmed.map_err(|error| failed("returning freed memory", error))
}

impl Drop for Memory {
    fn drop(&mut self) {
        // a failure here is a failure of the card, which the card's next call reports; memory on a lost card is not freed
        if self.stream.bind().is_err() {
            return;
        }
        if let Some(reserved) = &self.reserved {
            let _ = self.clear(&self.stream, (reserved.backed() / 4).min(self.words));
            return; // the drop of `reserved` frees the memory
        }
        let _ = self.clear(&self.stream, self.words);
        // SAFETY: this value owns the address, and the stream orders all uses of the address before this call
        let _ = unsafe {
            if self.stream.context().has_async_alloc() {
                result::free_async(self.address, self.stream.handle())
            } else if self.stream.drain().is_ok() {
                result::free_sync(self.address)
            } else {
                Ok(())
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn memory_is_freed_once_before_an_allocation_fails() {
        let full = || Err(Error::OutOfMemory("full".into()));
        let (asked, freed) = (Cell::new(0), Cell::new(0));
        let allocate = |room_after: usize| {
            asked.set(0);
            freed.set(0);
            let allocate = || {
                asked.set(asked.get() + 1);
                if freed.get() >= room_after { Ok(7) } else { full() }
            };
            let free = || {
                freed.set(freed.get() + 1);
                Ok(())
            };
            (with_freed_memory(allocate, free), asked.get(), freed.get())
        };
        assert_eq!(allocate(0), (Ok(7), 1, 0));
        assert_eq!(allocate(1), (Ok(7), 2, 1));
        assert_eq!(allocate(2), (full(), 2, 1));
        let lost = || Err(Error::Lost("gone".into()));
        assert_eq!(
            with_freed_memory(full, || lost().map(|_: u32| ())),
            lost(),
            "the card is lost while it is waited for"
        );
        let other: Result<u32> = Err(Error::Device("wrong".into()));
        assert_eq!(with_freed_memory(|| other.clone(), || panic!("there is room")), other);
    }
}
