//! GPUs: what a card must be able to do, and the ring's transforms on it.
//!
//! [`Gpu`] is a thin door to one card: memory, compilation, launches by name. `cuda` and `wgpu` implement
//! it; `tests` has a third one that runs the same CUDA sources on the host. Everything above that door, the order of
//! kernels, their bindings and their numbers of groups, is written once, here and in the schemes' folders.

mod launch;
pub mod mul_add;
pub mod ntt;
pub mod recordings;
pub(crate) mod scratch;
pub(crate) mod source;
pub(crate) mod stem;
mod unroll;

use std::ops::Range;

use zeroize::Zeroizing;

use crate::cpu;
use crate::error::{Error, Result};
pub use launch::{Access, Bind, Buffer, Launch, View};
pub use stem::Compiler;

/// The language a card's kernels are written in: the ending of their files in `shaders/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// CUDA C++.
    Cuda,
    /// WGSL.
    Wgsl,
}

/// What this folder must know of a card.
#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    /// As [`crate::DeviceInfo::backend`].
    pub backend: String,
    /// The card's own name.
    pub name: String,
    /// Memory for keys and rows, in bytes.
    pub memory_bytes: u64,
    /// What its kernels are written in.
    pub language: Language,
    /// Threads of a group at most.
    pub threads_max: u32,
    /// Memory that a group's threads share, in bytes at most.
    pub shared_bytes_max: u32,
    /// Groups of a launch at most, in each dimension.
    pub groups_max: [u32; 3],
    /// Bytes of one buffer at most.
    pub buffer_bytes_max: u64,
    /// What is bound of a buffer begins at a multiple of this many words.
    pub alignment_words: u32,
    /// Groups that run at the same time with one group a multiprocessor: the card's multiprocessors.
    pub multiprocessors: u32,
    /// CUDA's compute capability; decides on fast paths (`tfhe/gpu/blind_rotate.rs`).
    pub compute_capability: Option<(u32, u32)>,
    /// Turns of all loops of a kernel after which the driver leaves them and says nothing; none: it does not.
    pub loop_turns_max: Option<u32>,
    /// Whether 64-bit integers may be used in WGSL.
    pub wide_integers: bool,
}

/// One compilation: a stem with the parameters it is compiled for written out in front.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// The stem, for messages: `blind_rotate`, `blind_rotate.warp`.
    pub stem: &'static str,
    /// All of it: prelude, helpers, stem.
    pub text: String,
}

/// A launch of a card.
pub type LaunchOf<'a, G> = Launch<'a, <G as Gpu>::Module, <G as Gpu>::Buf>;

/// A view of a card's buffer.
pub type ViewOf<'a, G> = View<'a, <G as Gpu>::Buf>;

/// A table of a batch. All tables of a batch are one upload.
pub struct Table<'a, G: Gpu> {
    /// All tables.
    pub all: ViewOf<'a, G>,
    /// The table's first word among them.
    pub first: usize,
}

/// How the groups of a launch share the rows of several keys: what [`shares`] makes, in a table.
pub struct Shares<'a, G: Gpu> {
    /// The table.
    pub table: Table<'a, G>,
    /// How many shares: groups, or tiles of gates.
    pub count: usize,
    /// Rows of a share at most.
    pub rows_max: usize,
}

/// Shares of at most `rows_max` rows, none of which has rows of two batches: `[shares][4]` words, the first row, the number of
/// rows, and how far the batch's key is from that of the first, the low word first. `batches` are the numbers of their rows,
/// which follow each other, and those distances.
pub fn shares(batches: &[(usize, [u32; 2])], rows_max: usize) -> Vec<[u32; 4]> {
    let mut shares = Vec::new();
    let mut first = 0;
    for (rows, [low, high]) in batches {
        for at in (0..*rows).step_by(rows_max) {
            shares.push([(first + at) as u32, rows_max.min(rows - at) as u32, *low, *high]);
        }
        first += rows;
    }
    shares
}

/// One card, opened. Calls are ordered: a launch sees what was written before it, a read sees what was launched before it.
/// Every method may report [`crate::Error::Lost`].
pub trait Gpu: Send + Sync + 'static {
    /// Words in the card's memory; zero at first, overwritten with zeros when dropped.
    type Buf: Buffer;
    /// A compiled source.
    type Module: Send + Sync;
    /// A read under way.
    type Readback: Send;

    /// What this card is.
    fn card(&self) -> &Card;
    /// Compiles a source, or takes it from the card's cache. A card may run it without checks of its own: a text stays
    /// within its buffers and arrays, which the suite shows of those in `shaders/`.
    fn compile(&self, source: &Source) -> Result<Self::Module>;
    /// Room for this many words, all zero. [`crate::Error::OutOfMemory`] when there is not that much.
    fn alloc(&self, words: usize) -> Result<Self::Buf>;
    /// Room for this many words, of any contents: nothing reads them before they are written. Overwritten with zeros when
    /// dropped, as every buffer. [`crate::Error::OutOfMemory`] when there is not that much.
    fn scratch(&self, words: usize) -> Result<Self::Buf> {
        self.alloc(words)
    }
    /// Where a buffer begins, in bytes, on cards whose kernels are in CUDA: they find one buffer from another by it. WGSL knows
    /// no addresses.
    fn address(&self, _buf: &Self::Buf) -> Option<u64> {
        None
    }
    /// Copies words to a place in a buffer. The words may be forgotten when this returns.
    fn write(&self, buf: &Self::Buf, at: usize, words: &[u32]) -> Result<()>;
    /// Copies the first `words` words of one buffer to another, on cards whose kernels are in WGSL: what grows there stays one
    /// buffer.
    ///
    /// # Panics
    /// On other cards: where kernels find one buffer from another, what grows is several buffers.
    fn copy(&self, _from: &Self::Buf, _to: &Self::Buf, _words: usize) -> Result<()> {
        panic!("nothing is copied on a card whose kernels know addresses")
    }
    /// Groups of an entry that the card runs at the same time, so that all of them may wait for each other. A card that
    /// does not tell runs one a multiprocessor.
    fn groups_at_once(&self, module: &Self::Module, entry: &'static str, threads: u32) -> Result<usize> {
        let _ = (module, entry, threads);
        Ok(self.card().multiprocessors as usize)
    }
    /// Starts a kernel; an error of the kernel itself may be reported by a later call.
    ///
    /// # Errors
    /// [`crate::Error::Unavailable`] when groups that wait for each other do not all fit on the card at once, whatever
    /// [`Gpu::groups_at_once`] says: others may share it. Those of [`Launch::check`].
    ///
    /// # Panics
    /// As [`Launch::check`].
    fn launch(&self, launch: &Launch<'_, Self::Module, Self::Buf>) -> Result<()>;
    /// Starts kernels, one after another. A door may record a sequence that comes again and replay it ([`recordings`]).
    ///
    /// # Errors
    /// As [`Gpu::launch`]; kernels before the one that failed may have been started.
    ///
    /// # Panics
    /// As [`Launch::check`].
    fn launch_all(&self, launches: &[Launch<'_, Self::Module, Self::Buf>]) -> Result<()> {
        launches.iter().try_for_each(|launch| self.launch(launch))
    }
    /// Starts to read these ranges of words, one after another.
    fn read(&self, buf: &Self::Buf, ranges: &[std::ops::Range<usize>]) -> Result<Self::Readback>;
    /// Waits until a read is done, or until `wanted`: as [`crate::Backend::wait`].
    fn wait(&self, _readback: &Self::Readback, _wanted: &mut dyn FnMut() -> bool) -> Result<bool> {
        Ok(true)
    }
    /// Waits for a read.
    fn finish(&self, readback: Self::Readback) -> Result<Vec<u32>>;
}

/// Room for this many words, all zero, if the card takes a buffer of that size and kernels can number its words.
pub(crate) fn alloc<G: Gpu>(gpu: &G, words: usize) -> Result<G::Buf> {
    gpu.alloc(of_one_buffer(gpu, words)?)
}

/// The same of any contents.
pub(crate) fn scratch<G: Gpu>(gpu: &G, words: usize) -> Result<G::Buf> {
    gpu.scratch(of_one_buffer(gpu, words)?)
}

fn of_one_buffer<G: Gpu>(gpu: &G, words: usize) -> Result<usize> {
    let bytes_max = gpu.card().buffer_bytes_max;
    if words > u32::MAX as usize || 4 * words as u64 > bytes_max {
        return Err(Error::OutOfMemory(format!("{words} words in one buffer of at most {bytes_max} bytes")));
    }
    Ok(words.max(1))
}

/// Fills a buffer piece by piece, `make(i, piece)` on all of the host's threads, with no more of it on the host at a time
/// than `words_max` words or a piece.
pub(crate) fn upload<G: Gpu>(
    gpu: &G,
    buf: &G::Buf,
    at: usize,
    pieces: Range<usize>,
    piece_words: usize,
    words_max: usize,
    make: impl Fn(usize, &mut [u32]) + Send + Sync,
) -> Result<()> {
    let at_once = (words_max / piece_words).clamp(1, pieces.len().max(1));
    let mut words = Zeroizing::new(vec![0; at_once * piece_words]);
    for first in pieces.clone().step_by(at_once) {
        let words = &mut words[..at_once.min(pieces.end - first) * piece_words];
        cpu::for_each_chunk(cpu::threads_available(), words, piece_words, |i, piece| make(first + i, piece));
        gpu.write(buf, at + (first - pieces.start) * piece_words, words)?;
    }
    Ok(())
}
