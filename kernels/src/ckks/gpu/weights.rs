//! Plaintexts of sums ([`Weights`]) in a card's memory. A plaintext is copied at its first use, and stays as long as a
//! plan or a parameter set has it: all bootstraps of a set share theirs.

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
    weights: Arc<Weights>,
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
        // plaintexts that only this list holds belonged to operations that have ended
        held.retain(|_, known| Arc::strong_count(&known.weights) > 1 || Arc::strong_count(&known.pages) > 1);
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
        held.insert(address, Held { weights: weights.clone(), pages: pages.clone() });
        Ok(pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ckks::weights::STORED_MIN;
    use crate::gpu::told::Told;

    #[test]
    fn a_plaintext_is_copied_once_and_goes_with_its_last_owner() {
        let card = Told::new(4);
        let info = card.info();
        let device = Device::new(card, info);
        let on_card = WeightsOnCard::default();
        let [first, second, third] = [1, 2, 3].map(|word| Arc::new(Weights::of(&[word; STORED_MIN], 1)));
        let copies = |weights: &Arc<Weights>| {
            device.gpu().asked();
            let pages = on_card.pages(&device, weights).unwrap();
            let written = device.gpu().asked().iter().filter(|asked| **asked == "write").count();
            (written, pages)
        };
        let (copied, used) = copies(&first);
        assert_eq!((copied, copies(&first).0, copies(&second).0), (2, 0, 2));
        // an operation has ended, but a call that began before still uses the pages of the first plaintext
        let [of_first, of_second] = [&first, &second].map(Arc::downgrade);
        drop((first, second));
        copies(&third);
        assert!(of_first.upgrade().is_some() && of_second.upgrade().is_none());
        drop(used);
        copies(&Arc::new(Weights::of(&[4; STORED_MIN], 1)));
        assert!(of_first.upgrade().is_none());
        assert_eq!(copies(&third).0, 0);
    }
}
