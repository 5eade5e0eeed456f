//! GPUs: the operations that a card must offer, a card as a device, and the ring's transforms on it.
//!
//! [`Gpu`] is a thin interface to one card: memory, compilation, launches by name. `cuda` and `wgpu` implement it;
//! `tests` has a third implementation that runs the same CUDA sources on the host. The code that uses the interface is
//! written once, here and in the schemes' folders: the sequence of kernels, their bindings and their numbers of groups.
//! [`Device`] is a card as a device without a scheme.

mod arena;
mod device;
mod launch;
pub mod ntt;
mod pending;
pub mod recordings;
pub(crate) mod scratch;
pub(crate) mod source;
pub mod space;
pub(crate) mod stem;
#[cfg(test)]
pub(crate) mod told;
mod unroll;

use std::ops::Range;

use zeroize::Zeroizing;

use crate::cpu;
use crate::error::{Error, Result};
pub use arena::Arena;
pub use device::Device;
pub use launch::{Access, Bind, Buffer, Launch, Touched, View};
pub use pending::Pending;
pub(crate) use pending::PendingRead;
use space::Place;
pub use stem::Compiler;

/// The language of a card's kernels. It decides the extension of the kernels' files in `shaders/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// CUDA C++.
    Cuda,
    /// WGSL.
    Wgsl,
}

/// The properties of a card on which kernels and launches depend.
#[derive(Clone, Debug, PartialEq)]
pub struct Properties {
    /// Build string, see [`crate::DeviceInfo::backend`].
    pub backend: String,
    /// Name of the card, as the driver gives it.
    pub name: String,
    /// Memory for keys and rows, in bytes.
    pub memory_bytes: u64,
    /// Language of the card's kernels.
    pub language: Language,
    /// Largest number of threads in a group.
    pub threads_max: u32,
    /// Largest shared memory of a group, in bytes.
    pub shared_bytes_max: u32,
    /// Largest number of groups in a launch, in each dimension.
    pub groups_max: [u32; 3],
    /// Largest size of a buffer, in bytes.
    pub buffer_bytes_max: u64,
    /// Bound views of a buffer start at a multiple of this many words.
    pub alignment_words: u32,
    /// The number of multiprocessors.
    pub multiprocessors: u32,
    /// CUDA's compute capability, which decides which fast kernels run (`tfhe/gpu/blind_rotate.rs`).
    pub compute_capability: Option<(u32, u32)>,
    /// Number of loop turns in a kernel after which the driver silently ends all loops; `None` for a driver without
    /// such a limit.
    pub loop_turns_max: Option<u32>,
    /// Whether WGSL kernels may use 64-bit integers.
    pub wide_integers: bool,
}

/// The source of one compilation: a kernel stem's text, preceded by the constants of its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// The stem's name, for messages: `blind_rotate`, `blind_rotate.warp`.
    pub stem: &'static str,
    /// The whole text: prelude, helpers, stem.
    pub text: String,
}

/// A launch on a card of type `G`.
pub type LaunchOf<'a, G> = Launch<'a, <G as Gpu>::Module, <G as Gpu>::Buf>;

/// A view of a buffer on a card of type `G`.
pub type ViewOf<'a, G> = View<'a, <G as Gpu>::Buf>;

/// A table of a batch. One upload holds all tables of a batch.
pub struct Table<'a, G: Gpu> {
    /// All tables.
    pub all: ViewOf<'a, G>,
    /// Index of the table's first word among the words of all tables.
    pub first: usize,
}

/// How the groups of a launch share the rows of several keys: a table made by [`shares`].
pub struct Shares<'a, G: Gpu> {
    /// The table.
    pub table: Table<'a, G>,
    /// The number of shares: groups, or tiles of gates.
    pub count: usize,
    /// Largest number of rows in a share.
    pub rows_max: usize,
}

/// Number of words in a share of the table of [`shares`].
pub const SHARE_WORDS: usize = 3;

/// Splits the rows of batches into shares of at most `rows_max` rows, each within one batch. For each batch in order,
/// `batches` has the number of rows, and the place of the batch's key. The result is `[shares][3]` words: the share's
/// first row, the share's number of rows, and the place of the share's key.
pub fn shares(batches: &[(usize, Place)], rows_max: usize) -> Vec<[u32; SHARE_WORDS]> {
    let mut shares = Vec::new();
    let mut first = 0;
    for (rows, key) in batches {
        for at in (0..*rows).step_by(rows_max) {
            shares.push([(first + at) as u32, rows_max.min(rows - at) as u32, *key]);
        }
        first += rows;
    }
    shares
}

/// An opened card. Calls are ordered: a launch sees the words written before it, and a read sees the results of
/// launches before it. Every method may return [`crate::Error::Lost`].
pub trait Gpu: Send + Sync + 'static {
    /// Words in the card's memory; initially zero, overwritten with zeros on drop.
    type Buf: Buffer;
    /// A compiled source.
    type Module: Send + Sync;
    /// A read in flight.
    type Readback: Send;

    /// The card's properties.
    fn properties(&self) -> &Properties;
    /// Compiles a source, or takes it from the card's cache. A card may run the kernel without bounds checks, so a
    /// source must access only its buffers and arrays. The test suite verifies this for the sources in `shaders/`.
    fn compile(&self, source: &Source) -> Result<Self::Module>;
    /// Allocates this many words, all zero. [`crate::Error::OutOfMemory`] when the card has too little memory.
    fn alloc(&self, words: usize) -> Result<Self::Buf>;
    /// Allocates this many words without clearing them; they must be written before they are read. Overwritten with
    /// zeros on drop, like every buffer. [`crate::Error::OutOfMemory`] when the card has too little memory.
    fn scratch(&self, words: usize) -> Result<Self::Buf> {
        self.alloc(words)
    }
    /// Reserves the addresses of a buffer of this many words, which has no memory yet ([`Gpu::back`]). `None` if the card
    /// has no such buffers.
    fn reserve(&self, _words: usize) -> Result<Option<Self::Buf>> {
        Ok(None)
    }
    /// Gives the first `words` words of a reserved buffer memory. New words are zero; earlier words stay.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] when the card has too little memory; the buffer is then unchanged.
    ///
    /// # Panics
    /// When the buffer was not reserved, or has fewer addresses.
    fn back(&self, _buf: &Self::Buf, _words: usize) -> Result<()> {
        panic!("the card reserves no addresses")
    }
    /// Copies words to a place in a buffer. The caller may drop the words when this call returns.
    fn write(&self, buf: &Self::Buf, at: usize, words: &[u32]) -> Result<()>;
    /// Copies `words` words between two buffers: from word `from_at` on to word `to_at` on.
    fn copy(&self, from: &Self::Buf, from_at: usize, to: &Self::Buf, to_at: usize, words: usize) -> Result<()>;
    /// Returns how many groups of an entry the card runs at the same time. At most this many groups may wait for each
    /// other. The default is one group for each multiprocessor.
    fn groups_at_once(&self, module: &Self::Module, entry: &'static str, threads: u32) -> Result<usize> {
        let _ = (module, entry, threads);
        Ok(self.properties().multiprocessors as usize)
    }
    /// Returns how many clusters, each of `cluster` groups, of an entry the card runs at the same time; 0 if the card
    /// runs no clusters of this size. The default is one cluster for each multiprocessor.
    fn clusters_at_once(
        &self,
        module: &Self::Module,
        entry: &'static str,
        threads: u32,
        cluster: u32,
    ) -> Result<usize> {
        let _ = (module, entry, threads, cluster);
        Ok(self.properties().multiprocessors as usize)
    }
    /// Starts a kernel. A later call may report an error of the kernel itself.
    ///
    /// # Errors
    /// [`crate::Error::Unavailable`] when the card cannot run all groups that wait for each other at the same time.
    /// Even [`Gpu::groups_at_once`] groups or fewer may not fit, because other processes may share the card. Also the
    /// errors of [`Launch::check`].
    ///
    /// # Panics
    /// The panics of [`Launch::check`].
    fn launch(&self, launch: &Launch<'_, Self::Module, Self::Buf>) -> Result<()>;
    /// Starts kernels, one after another. An implementation may record a repeated sequence and replay it
    /// ([`recordings`]).
    ///
    /// # Errors
    /// The errors of [`Gpu::launch`]; kernels before the failed one may have been started.
    ///
    /// # Panics
    /// The panics of [`Launch::check`].
    fn launch_all(&self, launches: &[Launch<'_, Self::Module, Self::Buf>]) -> Result<()> {
        launches.iter().try_for_each(|launch| self.launch(launch))
    }
    /// Starts to read these ranges of words, one after another.
    fn read(&self, buf: &Self::Buf, ranges: &[std::ops::Range<usize>]) -> Result<Self::Readback>;
    /// Waits until a read is done, or until `wanted` returns true, like [`crate::Backend::wait`].
    fn wait(&self, _readback: &Self::Readback, _wanted: &mut dyn FnMut() -> bool) -> Result<bool> {
        Ok(true)
    }
    /// Waits for a read and returns its words.
    fn finish(&self, readback: Self::Readback) -> Result<Vec<u32>>;
}

/// Allocates this many words, all zero, if the card allows a buffer of that size and kernels can index its words.
pub(crate) fn alloc<G: Gpu>(gpu: &G, words: usize) -> Result<G::Buf> {
    gpu.alloc(of_one_buffer(gpu, words)?)
}

/// Like [`alloc`], but does not clear the words.
pub(crate) fn scratch<G: Gpu>(gpu: &G, words: usize) -> Result<G::Buf> {
    gpu.scratch(of_one_buffer(gpu, words)?)
}

fn of_one_buffer<G: Gpu>(gpu: &G, words: usize) -> Result<usize> {
    let bytes_max = gpu.properties().buffer_bytes_max;
    if words > u32::MAX as usize || 4 * words as u64 > bytes_max {
        return Err(Error::OutOfMemory(format!(
            "a buffer of {words} words is larger than the allowed {bytes_max} bytes"
        )));
    }
    Ok(words.max(1))
}

/// Fills a buffer with pieces. `make(i, piece)` computes each piece, on all threads of the host. The host holds at most
/// `words_max` words at a time, or one piece if a piece is larger.
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
