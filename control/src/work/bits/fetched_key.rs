//! Evaluation keys of a fleet's sessions, as a worker has them: read from where the fleet keeps them, whenever a device needs
//! them.

use std::sync::Arc;

use engine::{EvaluationKey, KeyParams, KeyPart, KeySource, Params, PartId};
use parking_lot::Mutex;

use crate::resource::Grant;

/// Reads the key again. The engine calls this function on one of its threads, which waits until the key is read.
pub type ReadKey = Box<dyn Fn() -> Result<EvaluationKey, String> + Send + Sync>;

/// A session's key that this worker has read.
pub struct FetchedKey {
    params: Params,
    /// The key in host memory. Without a grant of memory, only until a device has loaded the key.
    held: Mutex<Option<(Arc<EvaluationKey>, Option<Grant>)>>,
    read: ReadKey,
}

impl FetchedKey {
    /// Makes the source of a key that was just read. `memory`: the grant of memory for the key, if there is room.
    pub fn new(key: EvaluationKey, memory: Option<Grant>, read: ReadKey) -> FetchedKey {
        FetchedKey { params: key.params, held: Mutex::new(Some((Arc::new(key), memory))), read }
    }

    /// Returns the key's parameters.
    pub fn gate_params(&self) -> Params {
        self.params
    }
}

impl KeySource for FetchedKey {
    fn params(&self) -> KeyParams {
        KeyParams::Gates(self.params)
    }

    fn host_bytes(&self) -> u64 {
        // 0, because the worker bounds its keys in host memory itself
        0
    }

    fn fetch(&self, _part: PartId) -> Result<KeyPart, String> {
        let mut held = self.held.lock();
        if let Some((key, memory)) = held.take() {
            if memory.is_some() {
                *held = Some((key.clone(), memory));
            }
            return Ok(KeyPart::Gates(key));
        }
        drop(held);
        (self.read)().map(|key| KeyPart::Gates(Arc::new(key)))
    }
}
