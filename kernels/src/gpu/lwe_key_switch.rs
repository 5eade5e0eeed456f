//! Launch of `lwe_key_switch`: samples under the ring key to ciphertexts in an arena.

use super::stem::{Compiler, Stem};
use super::{Gpu, Table, source};
use crate::error::Result;
use crate::tfhe::{EvaluationKey, Params};

/// What a group computes.
struct Tile {
    /// Gates, for which a word of the key is read once.
    gates: usize,
    /// Columns of their results, whole warps.
    columns: usize,
    /// Threads, whole warps, that share the key's rows.
    threads: u32,
}

/// For batches: a thread has two columns of eight gates.
const TOGETHER: Tile = Tile { gates: 8, columns: 64, threads: 256 };
/// For fewer gates than that: a thread has one word, and all the threads that there may be hurry.
const ALONE: Tile = Tile { gates: 1, columns: 32, threads: 1024 };

/// Threads of a group that take columns side by side: a warp.
const LANES: usize = 32;
/// The key's columns are whole tiles of either kind.
const COLUMNS_MULTIPLE: usize = 64;
/// Words of digits that a group stages at a time: 16 KiB.
const STAGED_WORDS: usize = 4096;
/// Words of the key that are made on the host at a time.
const CHUNK_WORDS: usize = 1 << 22;

/// `n + 1` rounded up to whole tiles.
fn columns(params: &Params) -> usize {
    (params.lwe_dimension + 1).next_multiple_of(COLUMNS_MULTIPLE)
}

/// Words of a key on the card.
pub fn key_words(params: &Params) -> usize {
    params.key_switch_body_words() * columns(params)
}

/// The stem for one parameter set.
pub struct LweKeySwitch<G: Gpu> {
    together: Stem<G>,
    alone: Stem<G>,
    params: Params,
}

impl<G: Gpu> LweKeySwitch<G> {
    /// Compiled for these parameters.
    pub fn new(gpu: &G, compiler: &Compiler<G>, params: &Params) -> Result<Self> {
        let stem = |tile: Tile| {
            let staged_levels = tile.gates * params.key_switch_level_count;
            let constants = [
                ("TILE_GATES", tile.gates as u32),
                ("TILE_COLUMNS", tile.columns as u32),
                ("COLUMNS", (tile.columns / LANES) as u32),
                ("KEY_COLUMNS", columns(params) as u32),
                ("CHUNK", (STAGED_WORDS / staged_levels) as u32),
            ];
            let threads = tile.threads.min(gpu.card().threads_max);
            compiler.stem(gpu, "lwe_key_switch", &[&source::LWE_KEY_SWITCH], params, threads, &constants)
        };
        Ok(LweKeySwitch { together: stem(TOGETHER)?, alone: stem(ALONE)?, params: *params })
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
        groups_max as usize / (columns(&self.params) / TOGETHER.columns) * TOGETHER.gates
    }

    /// `samples` is `[gates][kN + 1]` torus words, `table` `[gates]` words: the slot of the result in `arena`,
    /// `[slots][n + 1]`.
    pub fn run(
        &self,
        gpu: &G,
        key: &G::Buf,
        samples: &G::Buf,
        table: Table<'_, G>,
        arena: &G::Buf,
        gates: usize,
    ) -> Result<()> {
        let groups = |tile: &Tile| gates.div_ceil(tile.gates) * (columns(&self.params) / tile.columns);
        let few = gates < TOGETHER.gates && groups(&ALONE) <= gpu.card().groups_max as usize;
        let args = [gates as u32, table.first as u32];
        let (stem, tile) = if few { (&self.alone, ALONE) } else { (&self.together, TOGETHER) };
        stem.launch_whole(gpu, "lwe_key_switch", groups(&tile), &[key, samples, table.buf, arena], &args)
    }
}
