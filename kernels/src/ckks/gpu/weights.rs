//! Plaintexts of sums ([`Weights`]) in a card's memory. They are copied at first use and stay, because every operation
//! of a kind has the same ones.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::ckks::weights::Weights;
use crate::error::{Error, Result};
use crate::gpu::space::Pages;
use crate::gpu::{Device, Gpu};

/// Plaintexts by the address of their shared words. A plaintext that is here is not freed, so no other one has its
/// address.
pub struct WeightsOnCard<G: Gpu> {
    held: Mutex<HashMap<usize, Held<G>>>,
}

/// A plaintext with its pages.
struct Held<G: Gpu> {
    /// Keeps the plaintext, and so its address.
    _weights: Arc<Weights>,
    pages: Arc<Pages<G>>,
}

impl<G: Gpu> Default for WeightsOnCard<G> {
    fn default() -> Self {
        WeightsOnCard { held: Mutex::default() }
    }
}

impl<G: Gpu> WeightsOnCard<G> {
    /// Returns the pages of a plaintext: `[2][N / gap]`, the high words and the low words. Without room, all plaintexts
    /// that no running call uses are dropped first.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] when the card has no room.
    pub fn pages(&self, device: &Device<G>, weights: &Arc<Weights>) -> Result<Arc<Pages<G>>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let address = Arc::as_ptr(weights) as usize;
        if let Some(known) = held.get(&address) {
            return Ok(known.pages.clone());
        }
        let [high, low] = weights.words();
        let take = || device.keys().take_run(device.gpu(), high.len() + low.len());
        let pages = match take() {
            Err(Error::OutOfMemory(_)) if !held.is_empty() => {
                held.retain(|_, known| Arc::strong_count(&known.pages) > 1);
                take()?
            }
            taken => taken?,
        };
        let first = pages.first_word(0);
        device.gpu().write(pages.buf(), first, high)?;
        device.gpu().write(pages.buf(), first + high.len(), low)?;
        let pages = Arc::new(pages);
        held.insert(address, Held { _weights: weights.clone(), pages: pages.clone() });
        Ok(pages)
    }
}
