//! An emulated card that counts what a call moves and waits for.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kernels::gpu::{Gpu, Launch, Properties, Source};
use kernels::{Error, Result};

use crate::host_cuda::HostCuda;

/// An emulated card that counts launches, uploads and waits.
pub struct Counted {
    host: HostCuda,
    /// Largest size of a buffer of scratch memory, in words.
    scratch_words_max: usize,
    counts: Arc<Counts>,
}

/// The counts of a card.
#[derive(Default)]
pub struct Counts {
    launches: AtomicUsize,
    uploads: AtomicUsize,
    waits: AtomicUsize,
}

impl Counts {
    /// Launches, uploads and waits since the last call of this method.
    pub fn taken(&self) -> [usize; 3] {
        [&self.launches, &self.uploads, &self.waits].map(|count| count.swap(0, Ordering::Relaxed))
    }
}

impl Counted {
    /// Counts what this card does.
    pub fn new(host: HostCuda) -> Counted {
        Counted { host, scratch_words_max: usize::MAX, counts: Arc::default() }
    }

    /// A card whose buffers of scratch memory have at most this many words.
    pub fn with_scratch(self, scratch_words_max: usize) -> Counted {
        Counted { scratch_words_max, ..self }
    }

    /// The counts, for a card that an engine owns.
    pub fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    /// Launches, uploads and waits since the last call of this method.
    pub fn taken(&self) -> [usize; 3] {
        self.counts.taken()
    }
}

impl Gpu for Counted {
    type Buf = <HostCuda as Gpu>::Buf;
    type Module = <HostCuda as Gpu>::Module;
    type Readback = <HostCuda as Gpu>::Readback;

    fn properties(&self) -> &Properties {
        self.host.properties()
    }
    fn compile(&self, source: &Source) -> Result<Self::Module> {
        self.host.compile(source)
    }
    fn alloc(&self, words: usize) -> Result<Self::Buf> {
        self.host.alloc(words)
    }
    fn scratch(&self, words: usize) -> Result<Self::Buf> {
        if words > self.scratch_words_max {
            return Err(Error::OutOfMemory(format!("no scratch memory of {words} words")));
        }
        self.host.scratch(words)
    }
    fn reserve(&self, words: usize) -> Result<Option<Self::Buf>> {
        self.host.reserve(words)
    }
    fn back(&self, buf: &Self::Buf, words: usize) -> Result<()> {
        self.host.back(buf, words)
    }
    fn copy(&self, from: &Self::Buf, from_at: usize, to: &Self::Buf, to_at: usize, words: usize) -> Result<()> {
        self.host.copy(from, from_at, to, to_at, words)
    }
    fn write(&self, buf: &Self::Buf, at: usize, words: &[u32]) -> Result<()> {
        self.counts.uploads.fetch_add(1, Ordering::Relaxed);
        self.host.write(buf, at, words)
    }
    fn launch(&self, launch: &Launch<'_, Self::Module, Self::Buf>) -> Result<()> {
        self.counts.launches.fetch_add(1, Ordering::Relaxed);
        self.host.launch(launch)
    }
    fn read(&self, buf: &Self::Buf, ranges: &[Range<usize>]) -> Result<Self::Readback> {
        self.host.read(buf, ranges)
    }
    fn finish(&self, readback: Self::Readback) -> Result<Vec<u32>> {
        self.counts.waits.fetch_add(1, Ordering::Relaxed);
        self.host.finish(readback)
    }
}
