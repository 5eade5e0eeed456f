//! The bytes of a checkpoint: a head of five numbers (8 bytes each, little-endian), then the words of the values that live.

use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::work::question::Figures;

/// Largest checkpoint in bytes. The values between two levels of the largest circuit have 64 MB. A ciphertext of degree
/// 32768 with 30 primes has 8 MB, and an operation on numbers is cut where few ciphertexts live.
pub const CHECKPOINT_BYTES_MAX: usize = 64 << 20;

/// Keeps a checkpoint.
pub type Keep = dyn Fn(Vec<u8>) -> BoxFuture<'static, ()> + Send + Sync;

/// The head of a checkpoint.
pub(super) struct Head {
    /// Tells the plan. A worker with another plan begins again.
    pub plan: u64,
    /// The number of levels that are done.
    pub level: usize,
    /// Figures of these levels.
    pub figures: Figures,
    /// Tells the length of a row of words.
    pub width: usize,
}

impl Head {
    /// The bytes of a head.
    pub const BYTES: usize = 40;

    /// Writes a checkpoint: plan, level, compute time in nanoseconds, units and width, then the words.
    pub fn write<'a>(&self, words: impl Iterator<Item = &'a [u32]> + Clone) -> Vec<u8> {
        let Figures { compute, units } = self.figures;
        let compute = u64::try_from(compute.as_nanos()).unwrap_or(u64::MAX);
        let numbers = [self.plan, self.level as u64, compute, units, self.width as u64];
        let count: usize = words.clone().map(<[u32]>::len).sum();
        let mut bytes = Vec::with_capacity(Head::BYTES + 4 * count);
        numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        words.flatten().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        bytes
    }

    /// Reads a checkpoint: its head, and its words as bytes. `None`: the bytes are no checkpoint.
    pub fn read(bytes: &[u8]) -> Option<(Head, &[[u8; 4]])> {
        let (numbers, words) = bytes.split_first_chunk::<{ Head::BYTES }>()?;
        let mut numbers = numbers.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number));
        let [plan, level, compute_ns, units, width] = std::array::from_fn(|_| numbers.next().unwrap_or_default());
        let (words, rest) = words.as_chunks::<4>();
        let figures = Figures { compute: Duration::from_nanos(compute_ns), units };
        let head = Head { plan, level: level.try_into().ok()?, figures, width: width.try_into().ok()? };
        rest.is_empty().then_some((head, words))
    }
}
