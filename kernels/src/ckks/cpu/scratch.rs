//! Rows for intermediate results, used again: making them anew would clear as many bytes as an operation computes.

use std::ops::{Deref, DerefMut};

use std::sync::Mutex;

/// Free buffers, the largest last.
pub(super) struct Pool {
    polynomial_size: usize,
    free: Mutex<Vec<Vec<u32>>>,
}

/// Some rows; their words are whatever the last user left. Public values only: nothing here is overwritten.
pub(super) struct Buffer<'a> {
    pool: &'a Pool,
    words: Vec<u32>,
    len: usize,
}

/// Buffers that are kept at most.
const KEPT_MAX: usize = 64;

impl Pool {
    pub(super) fn new(polynomial_size: usize) -> Pool {
        Pool { polynomial_size, free: Mutex::new(Vec::new()) }
    }

    /// So many rows.
    pub(super) fn rows(&self, rows: usize) -> Buffer<'_> {
        let len = rows * self.polynomial_size;
        let mut free = self.free.lock().expect("no thread panics with the lock");
        // the smallest that is large enough, or the largest
        let at = free.partition_point(|buffer| buffer.len() < len).min(free.len().saturating_sub(1));
        let mut words = if free.is_empty() { Vec::new() } else { free.remove(at) };
        drop(free);
        if words.len() < len {
            words.resize(len, 0);
        }
        Buffer { pool: self, words, len }
    }
}

impl Deref for Buffer<'_> {
    type Target = [u32];
    fn deref(&self) -> &[u32] {
        &self.words[..self.len]
    }
}

impl DerefMut for Buffer<'_> {
    fn deref_mut(&mut self) -> &mut [u32] {
        &mut self.words[..self.len]
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        let words = std::mem::take(&mut self.words);
        let Ok(mut free) = self.pool.free.lock() else { return };
        if free.len() < KEPT_MAX {
            let at = free.partition_point(|buffer| buffer.len() < words.len());
            free.insert(at, words);
        }
    }
}
