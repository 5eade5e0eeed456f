//! A stem of `shaders/`, compiled for one card and one set of constants, ready to be launched.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::source::{Constant, Dialect, Text, source};
use super::{Card, Gpu, Launch, Source};
use crate::error::Result;

/// Threads of a group where nothing speaks for another number.
pub const THREADS: u32 = 256;

/// Compiled sources that are kept though nobody holds them: several parameter sets' worth.
const KEPT_MAX: usize = 64;

/// Compiles sources, each once as long as it is in use.
pub struct Compiler<G: Gpu> {
    compiled: Mutex<HashMap<Source, Arc<G::Module>>>,
}

impl<G: Gpu> Default for Compiler<G> {
    fn default() -> Self {
        Compiler { compiled: Mutex::default() }
    }
}

impl<G: Gpu> Compiler<G> {
    fn compile(&self, gpu: &G, source: Source) -> Result<Arc<G::Module>> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = compiled.get(&source) {
            return Ok(module.clone());
        }
        if compiled.len() >= KEPT_MAX {
            compiled.retain(|_, module| Arc::strong_count(module) > 1);
        }
        let module = Arc::new(gpu.compile(&source)?);
        compiled.insert(source, module.clone());
        Ok(module)
    }

    /// Compiles `name`, which is `texts` one after another, for groups of `threads` threads, with the constants of its
    /// scheme and `more` of its own.
    pub(crate) fn stem(
        &self,
        gpu: &G,
        name: &'static str,
        texts: &[&Text],
        constants: &[Constant],
        threads: u32,
        more: &[Constant],
    ) -> Result<Stem<G>> {
        let source = source(Dialect::of(gpu.card()), name, texts, constants, threads, more);
        Ok(Stem { module: self.compile(gpu, source)?, threads })
    }
}

/// The groups of a launch that is not just one group a piece of work.
pub(crate) struct Grid {
    pub groups: u32,
    pub threads: u32,
    pub shared_bytes: u32,
    pub cluster: u32,
}

/// A compiled stem.
pub(crate) struct Stem<G: Gpu> {
    module: Arc<G::Module>,
    threads: u32,
}

impl<G: Gpu> Stem<G> {
    /// Starts an entry whose groups share `work` among themselves, one piece after another: as many groups as there are
    /// pieces, or as the card takes. No work is no launch.
    pub fn launch(&self, gpu: &G, entry: &'static str, work: usize, bind: &[&[&G::Buf]], args: &[u32]) -> Result<()> {
        let groups = work.min(gpu.card().groups_max as usize) as u32;
        if groups == 0 {
            return Ok(());
        }
        let grid = Grid { groups, threads: self.threads, shared_bytes: 0, cluster: 1 };
        self.launch_grid(gpu, entry, grid, bind, args)
    }

    /// Starts an entry that needs a group for each piece of its work.
    ///
    /// # Panics
    /// When that is more than the card takes: whoever cuts the work up has to know.
    pub fn launch_whole(
        &self,
        gpu: &G,
        entry: &'static str,
        work: usize,
        bind: &[&[&G::Buf]],
        args: &[u32],
    ) -> Result<()> {
        assert!(work <= gpu.card().groups_max as usize, "{entry}: {work} groups");
        self.launch(gpu, entry, work, bind, args)
    }

    /// Groups of an entry that the card runs at the same time.
    pub fn groups_at_once(&self, gpu: &G, entry: &'static str) -> Result<usize> {
        gpu.groups_at_once(&self.module, entry, self.threads)
    }

    /// Starts an entry over a grid of its own.
    pub fn launch_grid(
        &self,
        gpu: &G,
        entry: &'static str,
        Grid { groups, threads, shared_bytes, cluster }: Grid,
        bind: &[&[&G::Buf]],
        args: &[u32],
    ) -> Result<()> {
        gpu.launch(Launch { module: &self.module, entry, groups, threads, shared_bytes, cluster, bind, args })
    }
}

/// [`THREADS`], or what the card has.
pub(crate) fn threads(card: &Card) -> u32 {
    THREADS.min(card.threads_max)
}
