//! Launch of `lwe_key_switch`: samples under the ring key to ciphertexts in an arena.

use super::stem::{Compiler, Stem};
use super::{Gpu, source};
use crate::error::Result;
use crate::tfhe::{EvaluationKey, Params};

/// Threads of a group: eight warps that share the key's rows.
const THREADS: u32 = 256;
/// Gates of a group, for which a word of the key is read once.
const TILE_GATES: usize = 8;
/// Columns of a group: two a lane.
const TILE_COLUMNS: usize = 64;
/// Digits of a gate that are staged at a time: 16 KiB for a tile's gates.
const STAGED_DIGITS: usize = 512;
/// Words of the key that are made on the host at a time.
const CHUNK_WORDS: usize = 1 << 22;

/// `n + 1` rounded up to whole tiles.
fn columns(params: &Params) -> usize {
    (params.lwe_dimension + 1).next_multiple_of(TILE_COLUMNS)
}

/// Words of a key on the card.
pub fn key_words(params: &Params) -> usize {
    params.key_switch_body_words() * columns(params)
}

/// The stem for one parameter set.
pub struct LweKeySwitch<G: Gpu> {
    stem: Stem<G>,
    params: Params,
}

impl<G: Gpu> LweKeySwitch<G> {
    /// Compiled for these parameters.
    pub fn new(gpu: &G, compiler: &Compiler<G>, params: &Params) -> Result<Self> {
        let constants = [
            ("TILE_GATES", TILE_GATES as u32),
            ("TILE_COLUMNS", TILE_COLUMNS as u32),
            ("KEY_COLUMNS", columns(params) as u32),
            ("CHUNK", (STAGED_DIGITS / params.key_switch_level_count) as u32),
        ];
        let stem = compiler.stem(gpu, "lwe_key_switch", &[&source::LWE_KEY_SWITCH], params, THREADS, &constants)?;
        Ok(LweKeySwitch { stem, params: *params })
    }

    /// The key as the stem reads it: `[kN][levels]` rows of `n + 1` torus words and zeros up to whole tiles.
    pub fn load(&self, gpu: &G, key: &EvaluationKey) -> Result<G::Buf> {
        let p = &self.params;
        let (words, columns, levels) = (p.lwe_dimension + 1, columns(p), p.key_switch_level_count);
        let loaded = super::alloc(gpu, key_words(p))?;
        super::upload(gpu, &loaded, p.extracted_dimension(), levels * columns, CHUNK_WORDS, |i, out| {
            let mut rows = vec![0; levels * words];
            key.expand_key_switch(i, &mut rows);
            for (out, row) in out.chunks_exact_mut(columns).zip(rows.chunks_exact(words)) {
                out[..words].copy_from_slice(row);
            }
        })?;
        Ok(loaded)
    }

    /// Gates of a launch at most.
    pub(super) fn gates_max(&self, groups_max: u32) -> usize {
        groups_max as usize / (columns(&self.params) / TILE_COLUMNS) * TILE_GATES
    }

    /// `samples` is `[gates][kN + 1]` torus words, `table` `[gates]` words: the slot of the result in `arena`,
    /// `[slots][n + 1]`.
    pub fn run(
        &self,
        gpu: &G,
        key: &G::Buf,
        samples: &G::Buf,
        table: &G::Buf,
        arena: &G::Buf,
        gates: usize,
    ) -> Result<()> {
        let tiles = gates.div_ceil(TILE_GATES) * (columns(&self.params) / TILE_COLUMNS);
        self.stem.launch_whole(gpu, "lwe_key_switch", tiles, &[key, samples, table, arena], &[gates as u32])
    }
}
