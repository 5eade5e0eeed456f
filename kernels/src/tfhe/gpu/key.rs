//! An evaluation key in a card's memory.

use std::sync::Arc;

use super::compiled::CompiledStems;
use super::{blind_rotate, lwe_key_switch};
use crate::error::Result;
use crate::gpu::{Gpu, View, alloc, ntt};
use crate::tfhe::backend::KeyPiece;
use crate::tfhe::{EvaluationKey, Params, ring};

/// An evaluation key in a card's memory, with the stems that read it.
pub struct Key<G: Gpu> {
    pub(super) params: Params,
    pub(super) stems: Arc<CompiledStems<G>>,
    pub(super) roots: G::Buf,
    pub(super) bootstrap: G::Buf,
    pub(super) key_switch: G::Buf,
}

impl<G: Gpu> Key<G> {
    /// Allocates room for a key of these parameters.
    pub(super) fn room(gpu: &G, params: &Params, stems: Arc<CompiledStems<G>>) -> Result<Key<G>> {
        let roots = ntt::roots(&ring(params.polynomial_size));
        let table = alloc(gpu, roots.len())?;
        gpu.write(&table, 0, &roots)?;
        let bootstrap = alloc(gpu, blind_rotate::key_words(params))?;
        let key_switch = alloc(gpu, lwe_key_switch::key_words(params))?;
        Ok(Key { params: *params, stems, roots: table, bootstrap, key_switch })
    }

    /// Implements [`crate::tfhe::Gates::load_piece`].
    pub(super) fn load_piece(&mut self, gpu: &G, piece: usize, key: &EvaluationKey) -> Result<bool> {
        let Key { params: p, stems, roots, bootstrap, key_switch } = self;
        let bit_bytes = 4 * blind_rotate::key_words(p) / p.lwe_dimension;
        let input_bytes = 4 * lwe_key_switch::key_words(p) / p.extracted_dimension();
        let (piece, more) = KeyPiece::of(p, piece, bit_bytes, input_bytes);
        match piece {
            KeyPiece::Bootstrap(bits) => {
                stems.blind_rotate.fill(gpu, &stems.ntt, View::all(roots), key, bootstrap, bits)?;
            }
            KeyPiece::KeySwitch(inputs) => stems.key_switch.fill(gpu, key, key_switch, inputs)?,
        }
        Ok(more)
    }
}

/// Size of a key of these parameters, in bytes.
pub(super) fn bytes(params: &Params) -> u64 {
    let bootstrap = blind_rotate::key_words(params);
    4 * (bootstrap + lwe_key_switch::key_words(params) + 4 * params.polynomial_size) as u64
}
