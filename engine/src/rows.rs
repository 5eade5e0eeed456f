//! Results in a device's form: rows of words, independent of the scheme.

/// Rows of words, `[rows][row_words]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Words of a row.
    pub row_words: usize,
    /// All words, row after row.
    pub words: Vec<u32>,
}

impl Rows {
    /// No rows.
    pub fn none(row_words: usize) -> Rows {
        Rows { row_words, words: Vec::new() }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.words.len() / self.row_words
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The words of each row.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.words.chunks_exact(self.row_words)
    }
}
