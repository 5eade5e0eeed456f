//! A kernel stem of `shaders/`, compiled for one card and one set of constants.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::source::{Constant, Dialect, Text, source};
use super::{Bind, Gpu, Launch, LaunchOf, Properties, Source};
use crate::error::Result;

/// Default number of threads in a group.
pub const THREADS: u32 = 256;

/// If the cache has this many compiled sources, those that no stem uses are dropped before another source is added. The
/// sources of several parameter sets fit.
const KEPT_MAX: usize = 64;

/// Compiles sources. While a compiled source is in use, it is not compiled again.
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

    /// Compiles the stem `name`, which is the concatenation of `texts`, for groups of `threads` threads. `more` are
    /// constants besides those of the stem's scheme.
    pub(crate) fn stem(
        &self,
        gpu: &G,
        name: &'static str,
        texts: &[&Text],
        constants: &[Constant],
        threads: u32,
        more: &[Constant],
    ) -> Result<Stem<G>> {
        let source = source(Dialect::of(gpu.properties()), name, texts, constants, threads, more);
        let groups_max = gpu.properties().groups_max;
        Ok(Stem { module: self.compile(gpu, source)?, threads, groups_max })
    }
}

/// The groups of a launch with a custom shape.
pub(crate) struct Grid {
    pub groups: [u32; 3],
    pub threads: u32,
    pub shared_bytes: u32,
    pub cluster: u32,
}

/// A compiled stem. Its methods describe launches, and the caller starts them.
pub(crate) struct Stem<G: Gpu> {
    module: Arc<G::Module>,
    threads: u32,
    groups_max: [u32; 3],
}

impl<G: Gpu> Stem<G> {
    /// Makes a launch for `work` pieces of work. Each piece has its own group if the card allows that many groups; else
    /// each group processes several pieces in turn. `None` for no work.
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

    /// Makes a launch with one group for each piece of work.
    ///
    /// # Panics
    /// When the card does not allow that many groups. Callers must split the work.
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

    /// Returns how many groups of an entry run on the card at the same time.
    pub fn groups_at_once(&self, gpu: &G, entry: &'static str) -> Result<usize> {
        gpu.groups_at_once(&self.module, entry, self.threads)
    }

    /// Returns how many clusters, each of `cluster` groups, of an entry run on the card at the same time.
    pub fn clusters_at_once(&self, gpu: &G, entry: &'static str, cluster: u32) -> Result<usize> {
        gpu.clusters_at_once(&self.module, entry, self.threads, cluster)
    }

    /// Makes a grid of these groups without clusters, with the threads that the stem is compiled for.
    pub fn grid(&self, groups: [u32; 3]) -> Grid {
        Grid { groups, threads: self.threads, shared_bytes: 0, cluster: 1 }
    }

    /// Makes a launch over this grid.
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

/// Returns [`THREADS`], or fewer if the card allows fewer threads.
pub(crate) fn threads(properties: &Properties) -> u32 {
    THREADS.min(properties.threads_max)
}
