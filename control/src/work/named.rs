//! Operands and results that have names, beside the work that takes and makes them.

use std::sync::Arc;

use api::HandleId;
use engine::ckks::noise::Tail;
use zeroize::Zeroizing;

use super::key::Operand;

/// Results that get one name.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedResult {
    /// Number of rows.
    pub rows: usize,
    /// The name.
    pub operand: Operand,
    /// The properties that the container of a ciphertext of numbers tells. `None`: the rows are bits.
    pub numbers: Option<ResultHead>,
}

impl NamedResult {
    /// Names results that stay under a handle.
    pub fn value(rows: usize, handle: &HandleId) -> NamedResult {
        NamedResult { rows, operand: Operand::Value(handle.clone()), numbers: None }
    }
}

/// The properties that the container of a result tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResultHead {
    /// Level of the result.
    pub level: usize,
    /// Exact scale of the result.
    pub scale: f64,
    /// Bound on the absolute values in the slots.
    pub value_bound: f64,
    /// Variance of the noise.
    pub variance: f64,
    /// The slots that `matmul` takes for zeros.
    pub tail: Tail,
}

/// The bytes of an operand that has a name.
pub type NamedBytes = Arc<Zeroizing<Vec<u8>>>;

/// Returns words as bytes, little-endian.
pub(super) fn bytes_of_words(words: &[u32]) -> NamedBytes {
    let mut bytes = Vec::with_capacity(4 * words.len());
    push_words(words, &mut bytes);
    Arc::new(Zeroizing::new(bytes))
}

/// Writes words behind other bytes, little-endian.
pub(super) fn push_words(words: &[u32], bytes: &mut Vec<u8>) {
    if cfg!(target_endian = "little") {
        bytes.extend_from_slice(bytemuck::cast_slice(words));
    } else {
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }
}
