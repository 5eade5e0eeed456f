//! Launch of `lwe_key_switch`: samples under the ring key to ciphertexts in arenas.

use std::ops::Range;

use crate::error::Result;
use crate::gpu::space::PLACE_WORDS;
use crate::gpu::stem::{Compiler, Stem};
use crate::gpu::{Bind, Gpu, LaunchOf, Shares, Table, Touched, View, ViewOf};
use crate::tfhe::gpu::{constants, texts};
use crate::tfhe::{EvaluationKey, Params};

/// The work of a group.
struct Tile {
    /// Number of gates that share one read of a key word.
    gates: usize,
    /// Number of columns of the gates' results, a multiple of the warp's size.
    columns: usize,
    /// Number of threads that share the key's rows, a multiple of the warp's size.
    threads: u32,
}

/// The tile for many gates of each key. Each thread has two columns of eight gates.
const TOGETHER: Tile = Tile { gates: 8, columns: 64, threads: 256 };
/// The tile for fewer gates than [`TOGETHER`] has, or for many keys with a few gates each. Each thread has one column
/// of one gate. A group has the largest possible number of threads, so that it finishes soon.
const ALONE: Tile = Tile { gates: 1, columns: 32, threads: 1024 };

/// Number of threads of a group that work on neighbouring columns: a warp.
const LANES: usize = 32;
/// The number of a key's columns is padded to a multiple of this number, and so to whole tiles of both kinds.
const COLUMNS_MULTIPLE: usize = 64;
/// Largest number of digits that a group keeps in shared memory at a time: 16 KiB.
const STAGED_WORDS: usize = 4096;
/// Largest number of key words that the host expands at a time.
const CHUNK_WORDS: usize = 1 << 22;

/// `n + 1` rounded up to whole tiles.
fn columns(params: &Params) -> usize {
    (params.lwe_dimension + 1).next_multiple_of(COLUMNS_MULTIPLE)
}

/// Number of words of a key-switching key on the GPU.
pub fn key_words(params: &Params) -> usize {
    params.key_switch_body_words() * columns(params)
}

/// The kernels of the stem `lwe_key_switch`, compiled for one parameter set.
pub struct LweKeySwitch<G: Gpu> {
    together: Stem<G>,
    alone: Stem<G>,
    params: Params,
}

impl<G: Gpu> LweKeySwitch<G> {
    /// Compiles the kernels for these parameters.
    pub fn new(gpu: &G, compiler: &Compiler<G>, params: &Params) -> Result<Self> {
        let stem = |tile: Tile| {
            let staged_levels = tile.gates * params.key_switch_level_count;
            let own = [
                ("TILE_GATES", tile.gates as u32),
                ("TILE_COLUMNS", tile.columns as u32),
                ("COLUMNS", (tile.columns / LANES) as u32),
                ("KEY_COLUMNS", columns(params) as u32),
                ("CHUNK", (STAGED_WORDS / staged_levels) as u32),
            ];
            let threads = tile.threads.min(gpu.properties().threads_max);
            let texts = [&texts::PLACE, &texts::LWE_KEY_SWITCH];
            compiler.stem(gpu, "lwe_key_switch", &texts, &constants(params), threads, &own)
        };
        Ok(LweKeySwitch { together: stem(TOGETHER)?, alone: stem(ALONE)?, params: *params })
    }

    /// Loads the key in the stem's order: `[kN][levels]` rows of `n + 1` torus words, padded with zeros to whole
    /// tiles.
    pub fn load(&self, gpu: &G, key: &EvaluationKey) -> Result<G::Buf> {
        let loaded = crate::gpu::alloc(gpu, key_words(&self.params))?;
        self.fill(gpu, key, View::all(&loaded), 0..self.params.extracted_dimension())?;
        Ok(loaded)
    }

    /// Writes the rows of these input coefficients.
    pub fn fill(&self, gpu: &G, key: &EvaluationKey, loaded: ViewOf<'_, G>, inputs: Range<usize>) -> Result<()> {
        let p = &self.params;
        let (words, columns, levels) = (p.lwe_dimension + 1, columns(p), p.key_switch_level_count);
        let at = loaded.first + inputs.start * levels * columns;
        crate::gpu::upload(gpu, loaded.buf, at, inputs, levels * columns, CHUNK_WORDS, |i, out| {
            let mut rows = vec![0; levels * words];
            key.expand_key_switch(i, &mut rows);
            for (out, row) in out.chunks_exact_mut(columns).zip(rows.chunks_exact(words)) {
                out[..words].copy_from_slice(row);
            }
        })
    }

    /// Largest number of gates in a launch of `batches` batches.
    pub(super) fn gates_max(&self, groups_max: u32, batches: usize) -> usize {
        // with several batches, each gate may be alone in its tile
        let gates = if batches > 1 { 1 } else { TOGETHER.gates };
        groups_max as usize / (columns(&self.params) / TOGETHER.columns) * gates
    }

    /// Largest number of gates in a share, if batches have these numbers of gates and each batch has its own key.
    pub fn gates_of_a_share(&self, gates: &[usize], groups_max: u32) -> usize {
        let groups = gates.iter().sum::<usize>() * (columns(&self.params) / ALONE.columns);
        if are_few(gates) && groups <= groups_max as usize { ALONE.gates } else { TOGETHER.gates }
    }

    /// Key-switches `samples`, `[gates][kN + 1]` torus words, to rows of `n + 1` words. `results` is the table of the
    /// results' rows, `[gates]` words ([`Results`]). `shares` cover all gates, each share at most
    /// [`LweKeySwitch::gates_of_a_share`] gates. A share names the place of its key in `keys`. The tables of the results
    /// and of `shares` are in the same buffer.
    pub fn run<'a>(
        &'a self,
        keys: Touched<'a, G::Buf>,
        samples: ViewOf<'a, G>,
        table: Table<'a, G>,
        shares: &Shares<'a, G>,
        results: Results<'a, G>,
    ) -> Option<LaunchOf<'a, G>> {
        let alone = shares.rows_max == ALONE.gates;
        let (stem, tile) = if alone { (&self.alone, ALONE) } else { (&self.together, TOGETHER) };
        let groups = shares.count * (columns(&self.params) / tile.columns);
        let (written, unit) = match results {
            Results::Places(arena) => (Bind::write_touched(arena), PLACE_WORDS),
            Results::Words(rows) => (Bind::write(rows), 1),
        };
        let bind = [Bind::read_touched(keys), Bind::read(samples), Bind::read(table.all), written];
        let args = [table.first as u32, shares.table.first as u32, unit as u32];
        stem.launch_whole("lwe_key_switch", groups, bind, args)
    }
}

/// Where the results of a key switch go.
pub enum Results<'a, G: Gpu> {
    /// To rows of an arena. The table has their places.
    Places(Touched<'a, G::Buf>),
    /// To rows in a view. The table has the index of each row's first word.
    Words(ViewOf<'a, G>),
}

/// Whether batches with these numbers of gates run gate by gate. They do if all gates together do not fill a tile, or
/// if more than half of the places in their tiles would be empty.
fn are_few(gates: &[usize]) -> bool {
    let tiles: usize = gates.iter().map(|gates| gates.div_ceil(TOGETHER.gates)).sum();
    let all: usize = gates.iter().sum();
    all < TOGETHER.gates || 2 * all < tiles * TOGETHER.gates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_go_alone_where_tiles_would_be_half_empty() {
        let expected = [
            (&[1][..], true),
            (&[7], true),
            (&[8], false),
            (&[9], false),
            (&[1; 64], true),
            (&[3; 64], true),
            (&[4; 64], false),
            (&[1024, 1, 1], false),
            (&[8, 1, 1, 1], true),
        ];
        for (gates, few) in expected {
            assert_eq!(are_few(gates), few, "{gates:?}");
        }
    }
}
