//! An evaluation key in a card's memory.

use std::sync::Arc;

use super::compiled::CompiledStems;
use super::{blind_rotate, lwe_key_switch};
use crate::error::Result;
use crate::gpu::space::{PAGE_WORDS, Pages};
use crate::gpu::{Device, Gpu, View, ViewOf};
use crate::tfhe::backend::KeyPiece;
use crate::tfhe::{EvaluationKey, Params};

/// An evaluation key in a card's memory, with the stems that read it.
pub struct Key<G: Gpu> {
    pub(super) params: Params,
    pub(super) stems: Arc<CompiledStems<G>>,
    pub(super) bootstrap: Pages<G>,
    pub(super) key_switch: Pages<G>,
}

impl<G: Gpu> Key<G> {
    /// Allocates room for a key of these parameters.
    pub(super) fn room(device: &Device<G>, params: &Params, stems: Arc<CompiledStems<G>>) -> Result<Key<G>> {
        let room = |words| device.keys().take_run(device.gpu(), words);
        let (bootstrap, key_switch) =
            (room(blind_rotate::key_words(params))?, room(lwe_key_switch::key_words(params))?);
        Ok(Key { params: *params, stems, bootstrap, key_switch })
    }

    /// The bootstrapping key.
    pub(super) fn bootstrap(&self) -> ViewOf<'_, G> {
        self.bootstrap.view(blind_rotate::key_words(&self.params))
    }

    /// The key-switching key.
    pub(super) fn key_switch(&self) -> ViewOf<'_, G> {
        self.key_switch.view(lwe_key_switch::key_words(&self.params))
    }

    /// The segments that hold the two parts of the key.
    pub(super) fn segments(&self) -> [u64; 2] {
        [self.bootstrap.segment(), self.key_switch.segment()]
    }

    /// Implements [`crate::tfhe::Gates::load_piece`].
    pub(super) fn load_piece(&self, gpu: &G, piece: usize, key: &EvaluationKey) -> Result<bool> {
        let Key { params: p, stems, .. } = self;
        let bit_bytes = 4 * blind_rotate::key_words(p) / p.lwe_dimension;
        let input_bytes = 4 * lwe_key_switch::key_words(p) / p.extracted_dimension();
        let (piece, more) = KeyPiece::of(p, piece, bit_bytes, input_bytes);
        match piece {
            KeyPiece::Bootstrap(bits) => {
                stems.blind_rotate.fill(gpu, &stems.ntt, View::all(&stems.roots), key, self.bootstrap(), bits)?;
            }
            KeyPiece::KeySwitch(inputs) => stems.key_switch.fill(gpu, key, self.key_switch(), inputs)?,
        }
        Ok(more)
    }
}

/// Size of a key of these parameters, in bytes.
pub(super) fn bytes(params: &Params) -> u64 {
    let words = [blind_rotate::key_words(params), lwe_key_switch::key_words(params)];
    words.iter().map(|words| 4 * words.next_multiple_of(PAGE_WORDS) as u64).sum()
}
