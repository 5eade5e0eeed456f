//! The gates' part of a card: compiled stems, and the methods of [`crate::tfhe::Gates`] and [`crate::tfhe::Stems`] for
//! a [`Device`].

use std::sync::{Arc, Mutex, PoisonError};

use super::blind_rotate::Variant;
use super::compiled::CompiledStems;
use super::evaluate::{self, Batch, halves};
use super::key::{self, Key};
use crate::error::Result;
use crate::gpu::{Device, Gpu, Pending};
use crate::tfhe::{EvaluationKey, Params};

/// Largest number of parameter sets whose stems are cached. All sets fit: the presets with both mod switches, and all
/// possible imported keys.
pub(super) const STEMS_MAX: usize = 72;

/// The kernels of gates on one card. The methods take this card's [`Device`].
pub struct Kernels<G: Gpu> {
    /// Compiled stems of recent parameter sets, oldest first.
    stems: Mutex<Vec<(Params, Arc<CompiledStems<G>>)>>,
}

impl<G: Gpu> Default for Kernels<G> {
    fn default() -> Self {
        Kernels { stems: Mutex::default() }
    }
}

impl<G: Gpu> Kernels<G> {
    /// The stems for these parameters, cached or compiled by this thread. Other threads wait only if they need the
    /// same parameters.
    pub(super) fn stems(&self, device: &Device<G>, params: &Params) -> Result<Arc<CompiledStems<G>>> {
        if let Some(stems) = self.known_stems(params) {
            return Ok(stems);
        }
        let variant = Variant::of(device.gpu().properties(), params);
        let stems = Arc::new(CompiledStems::new(device.gpu(), device.compiler(), params, variant)?);
        let mut known = self.stems.lock().unwrap_or_else(PoisonError::into_inner);
        // another thread may have compiled stems for the same parameters in the meantime; only this thread's result is
        // kept
        known.retain(|(of, _)| of != params);
        if known.len() >= STEMS_MAX {
            known.remove(0);
        }
        known.push((*params, stems.clone()));
        Ok(stems)
    }

    pub(super) fn known_stems(&self, params: &Params) -> Option<Arc<CompiledStems<G>>> {
        let known = self.stems.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|(of, _)| of == params).map(|(_, stems)| stems.clone())
    }

    /// Implements [`crate::tfhe::Gates::prepare`].
    pub fn prepare(&self, device: &Device<G>, params: &Params) -> Result<()> {
        self.stems(device, params).map(drop)
    }

    /// Implements [`crate::tfhe::Gates::room_for_key`].
    pub fn room_for_key(&self, device: &Device<G>, params: &Params) -> Result<Key<G>> {
        Key::room(device, params, self.stems(device, params)?)
    }

    /// Implements [`crate::tfhe::Gates::load_piece`].
    pub fn load_piece(&self, device: &Device<G>, into: &mut Key<G>, piece: usize, key: &EvaluationKey) -> Result<bool> {
        into.load_piece(device.gpu(), piece, key)
    }

    /// Implements [`crate::tfhe::Gates::key_bytes`].
    pub fn key_bytes(&self, params: &Params) -> u64 {
        key::bytes(params)
    }

    /// Implements [`crate::tfhe::Gates::evaluate_together`].
    pub fn evaluate_together(&self, device: &Device<G>, batches: &[Batch<'_, G>]) -> Result<Pending<G>> {
        evaluate::evaluate_together(device, batches)
    }

    /// Implements [`crate::tfhe::Stems::bootstrap`].
    pub fn bootstrap(&self, device: &Device<G>, key: &Key<G>, inputs: &[u32]) -> Result<Vec<u32>> {
        halves::bootstrap(device, key, inputs)
    }

    /// Implements [`crate::tfhe::Stems::key_switch`].
    pub fn key_switch(&self, device: &Device<G>, key: &Key<G>, inputs: &[u32]) -> Result<Vec<u32>> {
        halves::key_switch(device, key, inputs)
    }
}
