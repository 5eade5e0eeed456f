//! Rows in slots.

use crate::cpu::memory::Words;

/// `[slots][row_words]` words. Overwritten on drop.
pub struct Arena {
    pub(crate) words: Words,
    /// Words of a row.
    pub(crate) row_words: usize,
}

impl Arena {
    /// The words of a slot.
    ///
    /// # Panics
    /// When there is no such slot.
    pub(crate) fn row(&self, slot: u32) -> &[u32] {
        &self.words[slot as usize * self.row_words..][..self.row_words]
    }

    pub(crate) fn row_mut(&mut self, slot: u32) -> &mut [u32] {
        &mut self.words[slot as usize * self.row_words..][..self.row_words]
    }
}
