//! A card that overwrites scratch memory before each launch with other words: all memory that was not written yet, and
//! all memory that no later launch of the sequence may read.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use kernels::gpu::{Bind, Buffer, Gpu, Launch, Properties, Source, View};
use kernels::{Card, Result};

use crate::numbers::NumbersCase;
use crate::together::{FAST, FAST_OTHER, OTHER, PLAIN, check as check_sessions, mixed};

/// Checks that gates and numbers of all kinds have the same words when the card overwrites its scratch memory.
pub fn check<G: Gpu>(gpu: G) {
    let numbers = NumbersCase::short();
    let gpu = Junk { gpu, next: AtomicU32::new(0) };
    let fast = gpu.gpu.properties().compute_capability.is_some_and(|capability| capability >= (8, 0));
    let sessions = if fast { mixed(FAST, FAST_OTHER) } else { mixed(PLAIN, OTHER) };
    let card = Card::new(gpu);
    check_sessions(&card, &sessions);
    numbers.check(&card);
}

/// A card that overwrites scratch memory.
struct Junk<G> {
    gpu: G,
    next: AtomicU32,
}

/// A buffer of the card.
struct Buf<B> {
    inner: B,
    /// For scratch memory: the ranges written since the last sequence began.
    written: Option<Mutex<Vec<Range<usize>>>>,
}

impl<B: Buffer> Buffer for Buf<B> {
    fn words(&self) -> usize {
        self.inner.words()
    }

    fn clear(&self, range: Range<usize>) {
        self.inner.clear(range);
    }
}

impl<G: Gpu> Junk<G> {
    /// Overwrites a scratch buffer with other words, except the words marked in `kept`.
    fn fill(&self, buf: &Buf<G::Buf>, kept: &[bool]) -> Result<()> {
        let word = self.next.fetch_add(0x9e37_79b9, Ordering::Relaxed);
        for run in kept.chunk_by(|a, b| a == b).scan(0, |end, run| {
            let first = *end;
            *end += run.len();
            Some((first, run))
        }) {
            if let (first, [false, rest @ ..]) = run {
                self.gpu.write(&buf.inner, first, &vec![word; 1 + rest.len()])?;
            }
        }
        Ok(())
    }
}

impl<G: Gpu> Gpu for Junk<G> {
    type Buf = Buf<G::Buf>;
    type Module = G::Module;
    type Readback = G::Readback;

    fn properties(&self) -> &Properties {
        self.gpu.properties()
    }
    fn compile(&self, source: &Source) -> Result<G::Module> {
        self.gpu.compile(source)
    }
    fn alloc(&self, words: usize) -> Result<Self::Buf> {
        Ok(Buf { inner: self.gpu.alloc(words)?, written: None })
    }
    fn scratch(&self, words: usize) -> Result<Self::Buf> {
        Ok(Buf { inner: self.gpu.scratch(words)?, written: Some(Mutex::default()) })
    }
    fn reserve(&self, words: usize) -> Result<Option<Self::Buf>> {
        Ok(self.gpu.reserve(words)?.map(|inner| Buf { inner, written: None }))
    }
    fn back(&self, buf: &Self::Buf, words: usize) -> Result<()> {
        self.gpu.back(&buf.inner, words)
    }
    fn write(&self, buf: &Self::Buf, at: usize, words: &[u32]) -> Result<()> {
        if let Some(written) = &buf.written {
            written.lock().expect("one thread").push(at..at + words.len());
        }
        self.gpu.write(&buf.inner, at, words)
    }
    fn copy(&self, from: &Self::Buf, from_at: usize, to: &Self::Buf, to_at: usize, words: usize) -> Result<()> {
        self.gpu.copy(&from.inner, from_at, &to.inner, to_at, words)
    }
    fn clusters_at_once(&self, module: &G::Module, entry: &'static str, threads: u32, cluster: u32) -> Result<usize> {
        self.gpu.clusters_at_once(module, entry, threads, cluster)
    }

    fn groups_at_once(&self, module: &G::Module, entry: &'static str, threads: u32) -> Result<usize> {
        self.gpu.groups_at_once(module, entry, threads)
    }
    fn launch(&self, launch: &Launch<'_, G::Module, Self::Buf>) -> Result<()> {
        let Launch { module, entry, groups, threads, shared_bytes, cluster, ref args, .. } = *launch;
        let bind = launch.bind.iter().map(|bind| {
            let View { buf, first, words } = bind.view;
            Bind { access: bind.access, view: View { buf: &buf.inner, first, words }, touched: bind.touched }
        });
        let (bind, args) = (bind.collect(), args.clone());
        self.gpu.launch(&Launch { module, entry, groups, threads, shared_bytes, cluster, bind, args })
    }
    fn launch_all(&self, launches: &[Launch<'_, G::Module, Self::Buf>]) -> Result<()> {
        let bound = |launch: usize| {
            launches[launch].bind.iter().flat_map(move |bind| bind.views().map(move |view| (bind.is_written(), view)))
        };
        let mut scratch: Vec<&Buf<G::Buf>> = Vec::new();
        for (_, view) in (0..launches.len()).flat_map(bound) {
            if view.buf.written.is_some() && !scratch.iter().any(|buf| std::ptr::eq(*buf, view.buf)) {
                scratch.push(view.buf);
            }
        }
        // for each buffer, which words the sequence has written by now
        let mut holds: Vec<Vec<bool>> = Vec::new();
        for buf in &scratch {
            let mut words = vec![false; buf.words()];
            for range in buf.written.as_ref().expect("scratch").lock().expect("one thread").drain(..) {
                words[range].fill(true);
            }
            holds.push(words);
        }
        for (at, launch) in launches.iter().enumerate() {
            for (buf, holds) in scratch.iter().zip(&holds) {
                let mut named = vec![false; buf.words()];
                for (_, view) in (at..launches.len()).flat_map(bound).filter(|(_, view)| std::ptr::eq(view.buf, *buf)) {
                    named[view.range()].fill(true);
                }
                let kept: Vec<bool> = named.iter().zip(holds).map(|(named, holds)| *named && *holds).collect();
                self.fill(buf, &kept)?;
            }
            self.launch(launch)?;
            for (written, view) in bound(at) {
                let known = scratch.iter().position(|buf| std::ptr::eq(*buf, view.buf));
                if let Some(known) = known.filter(|_| written) {
                    holds[known][view.range()].fill(true);
                }
            }
        }
        Ok(())
    }
    fn read(&self, buf: &Self::Buf, ranges: &[Range<usize>]) -> Result<G::Readback> {
        self.gpu.read(&buf.inner, ranges)
    }
    fn wait(&self, readback: &G::Readback, wanted: &mut dyn FnMut() -> bool) -> Result<bool> {
        self.gpu.wait(readback, wanted)
    }
    fn finish(&self, readback: G::Readback) -> Result<Vec<u32>> {
        self.gpu.finish(readback)
    }
}
