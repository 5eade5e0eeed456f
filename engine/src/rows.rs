//! Results as a device gives them: rows of words, whatever their scheme reads in them.

/// Rows of words, `[rows][row_words]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Words of a row.
    pub row_words: usize,
    /// All of them, row after row.
    pub words: Vec<u32>,
}

impl Rows {
    /// No rows.
    pub fn none(row_words: usize) -> Rows {
        Rows { row_words, words: Vec::new() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.words.len() / self.row_words
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Each row's words.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.words.chunks_exact(self.row_words)
    }
}
