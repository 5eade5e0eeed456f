//! A pool of rows for intermediate results. Reuse is faster, because new memory must be cleared, and clearing writes as
//! many bytes as an operation does.

use std::ops::{Deref, DerefMut};
use std::sync::Mutex;

use crate::cpu::memory::Words;
use crate::error::Result;

/// Free buffers, the largest last.
pub(super) struct Pool {
    polynomial_size: usize,
    free: Mutex<Vec<Words>>,
}

/// Rows from the pool, aligned to cache lines. A buffer still contains the words of its last use. All these words are
/// public, so they are not overwritten between uses.
pub(super) struct Buffer<'a> {
    pool: &'a Pool,
    /// `None` only during drop.
    words: Option<Words>,
    len: usize,
}

/// Largest number of pooled buffers.
const KEPT_MAX: usize = 64;

impl Pool {
    pub(super) fn new(polynomial_size: usize) -> Pool {
        Pool { polynomial_size, free: Mutex::new(Vec::new()) }
    }

    /// Takes a buffer of `rows` rows.
    ///
    /// # Errors
    /// When memory runs out.
    pub(super) fn rows(&self, rows: usize) -> Result<Buffer<'_>> {
        let len = rows * self.polynomial_size;
        let mut free = self.free.lock().expect("no thread panics with the lock");
        let at = free.partition_point(|buffer| buffer.len() < len);
        let found = (at < free.len()).then(|| free.remove(at));
        if found.is_none() && free.len() >= KEPT_MAX {
            // all pooled buffers are too small, so the new buffer replaces the smallest one
            free.remove(0);
        }
        drop(free);
        let words = found.map_or_else(|| Words::zeroed(len), Ok)?;
        Ok(Buffer { pool: self, words: Some(words), len })
    }
}

impl Deref for Buffer<'_> {
    type Target = [u32];
    fn deref(&self) -> &[u32] {
        &self.words.as_deref().expect("it is not dropped yet")[..self.len]
    }
}

impl DerefMut for Buffer<'_> {
    fn deref_mut(&mut self) -> &mut [u32] {
        &mut self.words.as_deref_mut().expect("it is not dropped yet")[..self.len]
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        let (Some(words), Ok(mut free)) = (self.words.take(), self.pool.free.lock()) else { return };
        if free.len() < KEPT_MAX {
            let at = free.partition_point(|buffer| buffer.len() < words.len());
            free.insert(at, words);
        }
    }
}
