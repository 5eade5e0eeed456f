//! A card as a device, without a scheme: rows in its memory, compiled kernels and scratch memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::scratch::Banks;
use super::space::Space;
use super::{Arena, Compiler, Gpu, Pending, PendingRead};
use crate::backend::{Backend, DeviceInfo};
use crate::error::Result;

/// A card as a device. A scheme adds kernels that compute on the rows.
pub struct Device<G: Gpu> {
    gpu: G,
    info: DeviceInfo,
    compiler: Compiler<G>,
    scratch: Mutex<Banks<G>>,
    rows: Arc<Space<G>>,
    keys: Arc<Space<G>>,
}

impl<G: Gpu> Device<G> {
    /// Wraps an opened card. The limits in `info` depend on the kernels that will run.
    pub fn new(gpu: G, info: DeviceInfo) -> Device<G> {
        let (compiler, scratch, rows, keys) = Default::default();
        Device { gpu, info, compiler, scratch, rows, keys }
    }

    /// Sets the largest useful number of bootstraps in a batch ([`DeviceInfo::rows_max`]).
    pub fn set_rows_max(&mut self, rows: usize) {
        self.info.rows_max = rows;
    }

    /// The card.
    pub fn gpu(&self) -> &G {
        &self.gpu
    }

    /// The compiler, which all schemes share.
    pub fn compiler(&self) -> &Compiler<G> {
        &self.compiler
    }

    /// The memory of all keys.
    pub(crate) fn keys(&self) -> &Arc<Space<G>> {
        &self.keys
    }

    /// Scratch memory. A caller holds the lock until its sequence of launches is started.
    pub(crate) fn scratch(&self) -> MutexGuard<'_, Banks<G>> {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<G: Gpu> Backend for Device<G> {
    type Arena = Arena<G>;
    type Pending = Pending<G>;

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn arena(&self, row_words: usize, slots: usize) -> Result<Arena<G>> {
        Arena::zeroed(&self.gpu, &self.rows, row_words, slots)
    }

    fn grow(&self, arena: &mut Arena<G>, slots: usize) -> Result<()> {
        arena.grow(&self.gpu, slots)
    }

    fn write(&self, arena: &mut Arena<G>, first: u32, words: &[u32]) -> Result<()> {
        arena.write(&self.gpu, first, words)
    }

    fn read(&self, arena: &Arena<G>, slots: &[u32]) -> Result<Pending<G>> {
        let read = (!slots.is_empty()).then(|| PendingRead::of_slots(&self.gpu, arena, slots, 0)).transpose()?;
        Ok(Pending::new(read.into_iter().collect()))
    }

    fn wait(&self, pending: &Pending<G>, wanted: &mut dyn FnMut() -> bool) -> Result<bool> {
        pending.wait(&self.gpu, wanted)
    }

    fn finish(&self, pending: Pending<G>) -> Result<Vec<u32>> {
        pending.finish(&self.gpu)
    }
}

#[cfg(test)]
mod tests;
