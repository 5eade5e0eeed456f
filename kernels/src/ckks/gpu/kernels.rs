//! The numbers' part of a card: compiled stems, and the methods of [`crate::ckks::Arithmetic`] for a [`Device`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::compiled::CompiledStems;
use super::part::{self, Part};
use super::run::{Batch, run};
use super::tables::{self, Tables};
use crate::ckks::backend::{PartShape, SeededRow};
use crate::ckks::params::Params;
use crate::error::Result;
use crate::gpu::{Device, Gpu, Pending};

/// The kernels of numbers on one card. The methods take this card's [`Device`].
pub struct Kernels<G: Gpu> {
    /// Compiled stems by degree.
    stems: Mutex<HashMap<usize, Arc<CompiledStems<G>>>>,
}

impl<G: Gpu> Default for Kernels<G> {
    fn default() -> Self {
        Kernels { stems: Mutex::default() }
    }
}

impl<G: Gpu> Kernels<G> {
    /// The stems for rows of this degree, cached or compiled by this thread.
    ///
    /// # Errors
    /// The card's error.
    pub fn prepare(&self, device: &Device<G>, polynomial_size: usize) -> Result<()> {
        self.stems(device, polynomial_size).map(drop)
    }

    fn stems(&self, device: &Device<G>, polynomial_size: usize) -> Result<Arc<CompiledStems<G>>> {
        let known = || self.stems.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stems) = known().get(&polynomial_size) {
            return Ok(stems.clone());
        }
        // other threads do not wait while this one compiles
        let stems = Arc::new(CompiledStems::new(device.gpu(), device.compiler(), polynomial_size)?);
        Ok(known().entry(polynomial_size).or_insert(stems).clone())
    }

    /// Implements [`crate::ckks::Arithmetic::tables_bytes`].
    pub fn tables_bytes(&self, params: &Params) -> u64 {
        tables::bytes(params)
    }

    /// Implements [`crate::ckks::Arithmetic::make_tables`].
    pub fn make_tables(&self, device: &Device<G>, params: &Params) -> Result<Tables<G>> {
        Tables::new(device, params, self.stems(device, params.n())?)
    }

    /// Implements [`crate::ckks::Arithmetic::part_bytes`].
    pub fn part_bytes(&self, shape: &PartShape) -> u64 {
        part::bytes(shape)
    }

    /// Implements [`crate::ckks::Arithmetic::room_for_part`].
    pub fn room_for_part(&self, device: &Device<G>, shape: &PartShape) -> Result<Part<G>> {
        Part::room(device, shape)
    }

    /// Implements [`crate::ckks::Arithmetic::load_row`].
    pub fn load_row(
        &self,
        device: &Device<G>,
        tables: &Tables<G>,
        into: &mut Part<G>,
        row: &SeededRow<'_>,
    ) -> Result<()> {
        into.load_row(device.gpu(), tables, row)
    }

    /// Implements [`crate::ckks::Arithmetic::run`].
    pub fn run(&self, device: &Device<G>, batches: &[Batch<'_, G>]) -> Result<Pending<G>> {
        run(device, batches)
    }
}
