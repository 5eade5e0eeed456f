//! A stem of `shaders/`, compiled for one card and one set of constants, ready to be launched.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::source::{Constant, Dialect, Text, source};
use super::{Bind, Card, Gpu, Launch, LaunchOf, Source};
use crate::error::Result;

/// Threads of a group, unless a stem has a reason for another number.
pub const THREADS: u32 = 256;

/// Compiled sources that are kept while no stem uses them: those of several parameter sets.
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
        let groups_max = gpu.card().groups_max;
        Ok(Stem { module: self.compile(gpu, source)?, threads, groups_max })
    }
}

/// The groups of a launch that is not just one group a piece of work.
pub(crate) struct Grid {
    pub groups: [u32; 3],
    pub threads: u32,
    pub shared_bytes: u32,
    pub cluster: u32,
}

/// A compiled stem. It says what to launch; the caller launches it.
pub(crate) struct Stem<G: Gpu> {
    module: Arc<G::Module>,
    threads: u32,
    groups_max: [u32; 3],
}

impl<G: Gpu> Stem<G> {
    /// An entry whose groups share `work` among themselves, one piece after another: as many groups as there are pieces, or as
    /// the card takes. No work is no launch.
    pub fn launch<'a>(
        &'a self,
        entry: &'static str,
        work: usize,
        bind: impl Into<Vec<Bind<'a, G::Buf>>>,
        args: impl Into<Vec<u32>>,
    ) -> Option<LaunchOf<'a, G>> {
        let groups = work.min(self.groups_max[0] as usize) as u32;
        (groups > 0).then(|| self.launch_grid(entry, self.grid([groups, 1, 1]), bind, args))
    }

    /// An entry that needs a group for each piece of its work.
    ///
    /// # Panics
    /// When that is more than the card takes: the caller has to cut the work up.
    pub fn launch_whole<'a>(
        &'a self,
        entry: &'static str,
        work: usize,
        bind: impl Into<Vec<Bind<'a, G::Buf>>>,
        args: impl Into<Vec<u32>>,
    ) -> Option<LaunchOf<'a, G>> {
        assert!(work <= self.groups_max[0] as usize, "{entry}: {work} groups");
        self.launch(entry, work, bind, args)
    }

    /// Groups of an entry that the card runs at the same time.
    pub fn groups_at_once(&self, gpu: &G, entry: &'static str) -> Result<usize> {
        gpu.groups_at_once(&self.module, entry, self.threads)
    }

    /// So many groups, each alone, of the threads that the stem is compiled for.
    pub fn grid(&self, groups: [u32; 3]) -> Grid {
        Grid { groups, threads: self.threads, shared_bytes: 0, cluster: 1 }
    }

    /// An entry over a grid of its own.
    pub fn launch_grid<'a>(
        &'a self,
        entry: &'static str,
        Grid { groups, threads, shared_bytes, cluster }: Grid,
        bind: impl Into<Vec<Bind<'a, G::Buf>>>,
        args: impl Into<Vec<u32>>,
    ) -> LaunchOf<'a, G> {
        let (bind, args) = (bind.into(), args.into());
        Launch { module: &self.module, entry, groups, threads, shared_bytes, cluster, bind, args }
    }
}

/// [`THREADS`], or what the card has.
pub(crate) fn threads(card: &Card) -> u32 {
    THREADS.min(card.threads_max)
}
