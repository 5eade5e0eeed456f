//! Passes what a member hears to its parts.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, RwLock};

use crate::broker::{Heard, Listener, Topic};
use crate::presence::{Presence, Workers};

/// A part of a member that hears. The function must return at once.
pub type Part = Box<dyn Fn(&Heard) + Send + Sync>;

/// Passes each answer and each told word to the parts of a member. The parts are added after the connection to the broker is made, because
/// they need the connection.
#[derive(Default)]
pub struct Ears {
    /// The workers that are there.
    pub workers: Mutex<Workers>,
    parts: RwLock<Vec<Part>>,
}

impl Ears {
    /// Returns the function through which the connection hears.
    pub fn listener(self: &Arc<Self>) -> Listener {
        let ears = self.clone();
        Arc::new(move |heard| ears.hear(&heard))
    }

    /// Adds a part.
    pub fn add(&self, part: Part) {
        self.parts.write().push(part);
    }

    fn hear(&self, heard: &Heard) {
        if let Heard::Told(Topic::Presence, bytes) = heard {
            match Presence::read(bytes) {
                Some(presence) => drop(self.workers.lock().hear(presence, Instant::now())),
                None => tracing::warn!("the presence of a worker is not readable"),
            }
        }
        self.parts.read().iter().for_each(|part| part(heard));
    }
}
