//! Stored keys for encrypted numbers: their parts, and their rows as the engine reads them.

use std::sync::Arc;

use engine::ckks::container::{self, KeyHead};
use engine::ckks::{Params, PartKind, PartShape};
use engine::{KeyParams, KeyPart, KeySource, NumbersKey, NumbersPart, PartId, SwitchingKeyRow};
use zeroize::Zeroizing;

use crate::web::error::ApiError;

/// Reads the container of a row, given the row's index in the key. The engine calls this function on one of its
/// threads, which waits until the row is read.
pub type ReadRow = Box<dyn Fn(i64) -> Result<Zeroizing<Vec<u8>>, String> + Send + Sync>;

/// A row of a stored key, from its record.
pub struct StoredRow {
    /// The name of the part's kind.
    pub kind: String,
    /// Galois element of the part.
    pub element: u32,
    /// Level of the part.
    pub level: usize,
    /// Index of the row in the key.
    pub row_index: i64,
}

/// A stored key: its parts, and a function that reads their rows.
pub struct StoredNumbersKey {
    pub(in crate::work) head: KeyHead,
    pub(in crate::work) key: Arc<NumbersKey>,
    /// The row indices of each part, by digit.
    rows: Vec<Vec<i64>>,
    read: ReadRow,
}

impl StoredNumbersKey {
    /// Makes a key of these rows, which are in the key's order: the rows of one part follow one another.
    ///
    /// # Errors
    /// When a record has an unknown kind of part.
    pub fn of_rows(
        params: &Params,
        fingerprint: [u8; 8],
        stored: Vec<StoredRow>,
        read: ReadRow,
    ) -> Result<StoredNumbersKey, ApiError> {
        let head = KeyHead { params: params.clone(), fingerprint, rows: stored.len() as u32, bytes: 0 };
        let mut parts: Vec<(PartKind, usize)> = Vec::new();
        let mut rows: Vec<Vec<i64>> = Vec::new();
        for StoredRow { kind, element, level, row_index } in stored {
            let part = (part_kind(&kind, element)?, level);
            match rows.last_mut() {
                Some(of_part) if parts.last() == Some(&part) => of_part.push(row_index),
                _ => {
                    parts.push(part);
                    rows.push(vec![row_index]);
                }
            }
        }
        Ok(StoredNumbersKey { head, key: Arc::new(NumbersKey { params: params.clone(), parts }), rows, read })
    }

    fn row(&self, row_index: i64) -> Result<SwitchingKeyRow, String> {
        let bytes = (self.read)(row_index)?;
        let mut row = container::read_row(&self.head, &bytes).map_err(|error| error.to_string())?;
        Ok(SwitchingKeyRow { seed: row.header.seed, body: std::mem::take(&mut row.body) })
    }
}

impl KeySource for StoredNumbersKey {
    fn params(&self) -> KeyParams {
        KeyParams::Numbers(self.key.clone())
    }

    fn host_bytes(&self) -> u64 {
        // 0, because the vault limits its memory itself
        0
    }

    fn fetch(&self, part: PartId) -> Result<KeyPart, String> {
        let Some(shape) = self.key.shape(part) else { return Ok(KeyPart::Tables(self.key.params.clone())) };
        let rows = &self.rows[part.0 as usize - 1];
        let rows = rows.iter().map(|&row| self.row(row)).collect::<Result<Vec<_>, _>>()?;
        let PartShape { kind, level, .. } = shape;
        if rows.len() != self.key.params.digits(kind, level).len() {
            return Err("rows of a key part are missing".into());
        }
        Ok(KeyPart::Numbers(NumbersPart { shape, rows: Arc::new(rows) }))
    }
}

/// Writes the head of a stored key, which stands before its rows.
///
/// # Errors
/// When a record has an unknown kind of part.
pub fn key_head(params: &Params, fingerprint: [u8; 8], stored: &[StoredRow]) -> Result<Vec<u8>, ApiError> {
    Ok(container::write_key_head(params, fingerprint, &parts_of(stored)?))
}

/// Lists the parts of a stored key, each with its level.
pub(super) fn parts_of(stored: &[StoredRow]) -> Result<Vec<(PartKind, usize)>, ApiError> {
    let mut parts: Vec<(PartKind, usize)> = Vec::new();
    for row in stored {
        let part = (part_kind(&row.kind, row.element)?, row.level);
        if parts.last() != Some(&part) {
            parts.push(part);
        }
    }
    Ok(parts)
}

/// Returns the kind of part that `word` stands for. A row's record contains `word` and the Galois element.
fn part_kind(word: &str, element: u32) -> Result<PartKind, ApiError> {
    match word {
        "relinearization" => Ok(PartKind::Relinearization),
        "galois" => Ok(PartKind::Galois(element)),
        "to-sparse" => Ok(PartKind::ToSparse),
        "from-sparse" => Ok(PartKind::FromSparse),
        other => Err(ApiError::internal(format!("the record of a key row has the unknown kind {other}"))),
    }
}
