//! Keys of each scheme: what is known before they are read, their parts on the host and on a device.

use std::ops::ControlFlow;
use std::sync::Arc;

use kernels::tfhe::{EvaluationKey, Gates, Params};

use crate::key::{KeySource, PartId};

/// The one part of a key for gates.
pub(crate) const EVALUATION_KEY: PartId = PartId(0);

/// Public parameters of a key, by its scheme.
#[derive(Clone, Copy, Debug)]
pub enum KeyParams {
    /// Of an evaluation key for gates: one part.
    Gates(Params),
}

/// A part of a key on the host, by its scheme. Overwritten when its last holder drops it.
#[derive(Clone)]
pub enum KeyPart {
    /// The evaluation key for gates.
    Gates(Arc<EvaluationKey>),
}

impl KeyParams {
    /// What a unit of work costs under such a key: [`crate::fair::COST_OF_UNIT`] under the cheapest.
    pub(crate) fn unit_cost(&self) -> u32 {
        let KeyParams::Gates(params) = self;
        params.cost()
    }

    /// Words of a row of operands and results.
    pub(crate) fn row_words(&self) -> usize {
        let KeyParams::Gates(params) = self;
        params.lwe_dimension + 1
    }

    /// Bytes of each part on a device.
    pub(crate) fn part_bytes<B: Gates>(&self, backend: &B) -> Vec<u64> {
        let KeyParams::Gates(params) = self;
        vec![backend.key_bytes(params)]
    }

    /// Compiles what such a key needs.
    pub(crate) fn prepare<B: Gates>(&self, backend: &B) -> kernels::Result<()> {
        let KeyParams::Gates(params) = self;
        backend.prepare(params)
    }
}

/// A part of a key on its way to a device. Both forms are overwritten on drop.
pub(crate) struct LoadingPart<B: Gates> {
    from: KeyPart,
    into: B::Key,
    /// Pieces that were loaded.
    pieces: usize,
}

impl<B: Gates> LoadingPart<B> {
    /// Makes room for it.
    pub(crate) fn begin(backend: &B, from: KeyPart) -> kernels::Result<Self> {
        let KeyPart::Gates(key) = &from;
        let into = backend.room_for_key(&key.params)?;
        Ok(LoadingPart { from, into, pieces: 0 })
    }

    /// Loads the next piece; the device's form when it was the last, and then no thread of the engine holds the host's.
    pub(crate) fn load_piece(mut self, backend: &B) -> kernels::Result<ControlFlow<B::Key, Self>> {
        let KeyPart::Gates(key) = &self.from;
        let more = backend.load_piece(&mut self.into, self.pieces, key)?;
        self.pieces += 1;
        Ok(if more { ControlFlow::Continue(self) } else { ControlFlow::Break(self.into) })
    }
}

/// A key that rests in memory. Overwritten when its last holder drops it.
impl KeySource for Arc<EvaluationKey> {
    fn params(&self) -> KeyParams {
        KeyParams::Gates(self.params)
    }

    fn host_bytes(&self) -> u64 {
        self.memory_bytes() as u64
    }

    fn fetch(&self, _part: PartId) -> Result<KeyPart, String> {
        Ok(KeyPart::Gates(self.clone()))
    }
}
