//! A simulated card that collects the sources to compile and computes nothing. With this card, the kernels can be
//! compiled, checked and packed on a machine without a real card, and no separate list of the kernels is needed.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Result;
use crate::gpu::{Buffer, Gpu, Language, Launch, Properties, Source};

/// The compute capabilities of all kinds of supported cards for which kernels are checked and packed: Turing, the oldest
/// supported generation, Ampere (A100, RTX 30), Ada, Hopper, and Blackwell (B200, B300, RTX 50).
pub const CAPABILITIES: [(u32, u32); 8] = [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0)];

/// Returns the largest shared memory of a group, in bytes, by compute capability (CUDA C++ Programming Guide, technical
/// specifications per compute capability).
pub fn shared_bytes_max(compute_capability: (u32, u32)) -> u32 {
    match compute_capability {
        (7, 5) => 64 << 10,
        (8, 0 | 7) => 163 << 10,
        (9, _) | (10, _) => 227 << 10,
        (7, _) => 96 << 10,
        _ => 99 << 10,
    }
}

/// A simulated card of a compute capability. Clones share one state.
#[derive(Clone)]
pub struct Paper {
    properties: Properties,
    sources: Arc<Mutex<Vec<Source>>>,
}

impl Paper {
    /// Makes a simulated card of this compute capability, with the shared memory that such cards have. No source
    /// depends on a card's other properties.
    pub fn new(compute_capability: (u32, u32)) -> Paper {
        let properties = Properties {
            backend: "cuda".into(),
            name: super::architecture(compute_capability),
            memory_bytes: 80 << 30,
            language: Language::Cuda,
            threads_max: 1024,
            shared_bytes_max: shared_bytes_max(compute_capability),
            groups_max: [i32::MAX as u32, 65_535, 65_535],
            buffer_bytes_max: 80 << 30,
            alignment_words: super::ALIGNMENT_WORDS,
            multiprocessors: 128,
            compute_capability: Some(compute_capability),
            loop_turns_max: None,
            wide_integers: true,
        };
        Paper { properties, sources: Arc::default() }
    }

    /// The sources that were compiled until now, in order, without repetitions.
    pub fn sources(&self) -> Vec<Source> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A buffer without memory, which has only its number of words.
pub struct Buf(usize);

impl Buffer for Buf {
    fn words(&self) -> usize {
        self.0
    }

    fn clear(&self, _range: Range<usize>) {}
}

impl Gpu for Paper {
    type Buf = Buf;
    type Module = ();
    /// The number of requested words.
    type Readback = usize;

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn compile(&self, source: &Source) -> Result<()> {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if !sources.contains(source) {
            sources.push(source.clone());
        }
        Ok(())
    }

    fn alloc(&self, words: usize) -> Result<Buf> {
        Ok(Buf(words))
    }

    fn copy(&self, _from: &Buf, _from_at: usize, _to: &Buf, _to_at: usize, _words: usize) -> Result<()> {
        Ok(())
    }

    fn write(&self, _buf: &Buf, _at: usize, _words: &[u32]) -> Result<()> {
        Ok(())
    }

    fn launch(&self, _launch: &Launch<'_, (), Buf>) -> Result<()> {
        Ok(())
    }

    fn read(&self, _buf: &Buf, ranges: &[Range<usize>]) -> Result<usize> {
        Ok(ranges.iter().map(ExactSizeIterator::len).sum())
    }

    fn finish(&self, pending: usize) -> Result<Vec<u32>> {
        Ok(vec![0; pending])
    }
}
