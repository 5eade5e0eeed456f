//! Keys of each scheme: what is known before they are read, their parts on the host and on a device.

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
