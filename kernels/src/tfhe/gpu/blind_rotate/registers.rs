//! Blind rotation with transforms in registers: NVIDIA cards from compute capability 8.0 on.
//!
//! Two kernels over one order of the key. `blind_rotate.warp` has a warp for each polynomial and several rows a group: the
//! most rows a second. `blind_rotate.cluster` spreads a row over a group for each row of the RGSW ciphertext: the soonest
//! answer, for batches that leave most of the card idle.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::choice::{Way, Ways, cluster_rows_max, gates_up_to};
use super::{CHUNK_WORDS, step_words};
use crate::error::{Error, Result};
use crate::gpu::stem::{Compiler, Grid, Stem};
use crate::gpu::{Card, Gpu, Language, Shares, alloc, upload};
use crate::tfhe::gpu::{constants, texts};
use crate::tfhe::{EvaluationKey, Params};

/// Most rows of a group of `blind_rotate.warp`, most first. A card gets the first that fits its shared memory.
const GATES: [u32; 5] = [8, 4, 3, 2, 1];
/// Warps of a group that makes a key.
const KEY_WARPS: u32 = 4;
/// Threads of a group of `blind_rotate.warp` at most: with more, a multiprocessor has not the 128 registers for each of them
/// that a transform takes.
const THREADS_MAX: u32 = 512;

/// What of this suits a card and parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Most rows of a group of `blind_rotate.warp`.
    gates: u32,
    /// Steps whose key is in shared memory.
    tiles: u32,
    /// Whether groups of `blind_rotate.cluster` read each other's shared memory; none: no such kernel.
    clusters: Option<bool>,
}

impl Fit {
    /// None where the plain kernel has to do.
    pub fn of(card: &Card, p: &Params) -> Option<Fit> {
        let capability = card.compute_capability.filter(|_| card.language == Language::Cuda)?;
        let words_of_a_lane = p.polynomial_size / 32;
        let in_registers = matches!(p.polynomial_size, 512 | 1024)
            && p.bootstrap_level_count <= 3
            && p.bootstrap_level_count * words_of_a_lane <= 64;
        if capability < (8, 0) || !in_registers {
            return None;
        }
        // two steps of the key where that leaves room for rows to share them
        let fits = |gates: u32, tiles: u32| {
            threads(p, gates) <= THREADS_MAX.min(card.threads_max)
                && shared_bytes(p, gates, tiles) <= card.shared_bytes_max
        };
        let double = GATES.into_iter().filter(|&gates| gates > 3).find(|&gates| fits(gates, 2)).map(|gates| (gates, 2));
        let (gates, tiles) =
            double.or_else(|| GATES.into_iter().find(|&gates| fits(gates, 1)).map(|gates| (gates, 1)))?;
        let clusters = (p.rgsw_rows() <= 8).then_some(capability >= (9, 0));
        Some(Fit { gates, tiles, clusters })
    }

    /// Rows that one multiprocessor works on at the same time.
    pub fn rows_of_a_multiprocessor(&self) -> usize {
        self.gates as usize
    }
}

/// Threads of a group of `blind_rotate.warp`.
fn threads(p: &Params, gates: u32) -> u32 {
    32 * gates * (p.glwe_dimension as u32 + 1)
}

/// Words of a transpose.
fn padded(p: &Params) -> u32 {
    let n = p.polynomial_size as u32;
    n + n / 32
}

/// Shared memory of a group of `blind_rotate.warp`, as the source lays it out.
fn shared_bytes(p: &Params, gates: u32, tiles: u32) -> u32 {
    let (n, components) = (p.polynomial_size as u32, p.glwe_dimension as u32 + 1);
    let tile = p.rgsw_rows() as u32 * components * n;
    let own = padded(p).max(p.glwe_dimension as u32 * n).next_multiple_of(32);
    4 * (tiles * tile + 2 * n + gates * components * (n + own))
}

/// The kernels, compiled for one card and one parameter set.
pub struct Registers<G: Gpu> {
    params: Params,
    /// Rows of a group with the kernel for it, fewest first.
    warp: Vec<(u32, Stem<G>)>,
    multiprocessors: usize,
    tiles: u32,
    cluster: Option<Cluster<G>>,
}

struct Cluster<G: Gpu> {
    stem: Stem<G>,
    /// Most rows of a launch.
    rows_max: AtomicUsize,
    /// Groups without clusters show each other values in global memory: `[rows][2][rgsw rows][N]` words, and a count a row.
    shown: Mutex<Shown<G>>,
    counts: bool,
}

struct Shown<G: Gpu> {
    values: G::Buf,
    counts: G::Buf,
    /// What counts are before a launch.
    zeros: G::Buf,
}

impl<G: Gpu> Registers<G> {
    /// Compiles them.
    pub fn new(gpu: &G, compiler: &Compiler<G>, p: &Params, fit: Fit) -> Result<Self> {
        let texts = [&texts::TORUS, &texts::DISTANCE, &texts::ASYNC, &texts::REGISTERS, &texts::BLIND_ROTATE_WARP];
        let warp = gates_up_to(fit.gates).into_iter().map(|gates| {
            let more = [("GATES", gates), ("TILES", fit.tiles)];
            Ok((gates, compiler.stem(gpu, "blind_rotate.warp", &texts, &constants(p), threads(p, gates), &more)?))
        });
        let cluster = fit.clusters.map(|clusters| Cluster::new(gpu, compiler, p, clusters)).transpose()?;
        let multiprocessors = gpu.card().multiprocessors as usize;
        Ok(Registers { params: *p, warp: warp.collect::<Result<_>>()?, multiprocessors, tiles: fit.tiles, cluster })
    }

    /// Fills `loaded` with the key in the order of both kernels.
    pub fn load(&self, gpu: &G, roots: &G::Buf, key: &EvaluationKey, loaded: &G::Buf) -> Result<()> {
        let p = &self.params;
        let steps_max = (CHUNK_WORDS / step_words(p)).clamp(1, p.lwe_dimension);
        let part = alloc(gpu, steps_max * step_words(p))?;
        let (_, stem) = &self.warp[0];
        for first in (0..p.lwe_dimension).step_by(steps_max) {
            let steps = steps_max.min(p.lwe_dimension - first);
            upload(gpu, &part, steps, step_words(p), CHUNK_WORDS, |i, out| key.expand_bootstrap(first + i, out))?;
            let polynomials = (steps * step_words(p) / p.polynomial_size) as u32;
            let grid = Grid {
                groups: polynomials.div_ceil(KEY_WARPS),
                threads: 32 * KEY_WARPS,
                shared_bytes: 4 * (2 * p.polynomial_size as u32 + KEY_WARPS * padded(p)),
                cluster: 1,
            };
            let args = [polynomials, first as u32];
            stem.launch_grid(gpu, "blind_rotate_warp_key", grid, &[&[&part], &[roots], &[loaded]], &args)?;
        }
        Ok(())
    }

    /// As [`super::BlindRotate::rows_of_a_share`].
    pub fn rows_of_a_share(&self, rows: &[usize]) -> usize {
        match self.ways().of(rows) {
            Way::Cluster => 1,
            Way::Warp(gates) => gates as usize,
        }
    }

    /// As [`super::BlindRotate::run`].
    pub fn run(
        &self,
        gpu: &G,
        keys: &[&G::Buf],
        roots: &G::Buf,
        exponents: &G::Buf,
        acc: &G::Buf,
        shares: &Shares<'_, G>,
    ) -> Result<()> {
        let bind = [keys, &[roots], &[exponents], &[acc]];
        if let Some(cluster) = &self.cluster
            && shares.rows_max == 1
            && shares.count <= cluster.rows_max.load(Ordering::Relaxed)
        {
            match cluster.run(gpu, &self.params, bind, shares) {
                // by the other kernel then, whose groups take shares of fewer rows too
                Err(Error::Unavailable(_)) => {}
                other => return other,
            }
        }
        let kernel = self.warp.iter().find(|(gates, _)| *gates as usize >= shares.rows_max);
        let (gates, stem) = kernel.expect("shares are as large as those of one of the kernels");
        let grid = Grid {
            groups: shares.count as u32,
            threads: threads(&self.params, *gates),
            shared_bytes: shared_bytes(&self.params, *gates, self.tiles),
            cluster: 1,
        };
        let args = [self.params.lwe_dimension as u32, shares.table.first as u32];
        let [keys, roots, exponents, acc] = bind;
        stem.launch_grid(gpu, "blind_rotate_warp", grid, &[keys, roots, exponents, acc, &[shares.table.buf]], &args)
    }

    fn ways(&self) -> Ways {
        let cluster_rows_max = self.cluster.as_ref().map_or(0, |cluster| cluster.rows_max.load(Ordering::Relaxed));
        let gates = self.warp.iter().map(|(gates, _)| *gates).collect();
        Ways { gates, cluster_rows_max, multiprocessors: self.multiprocessors }
    }
}

impl<G: Gpu> Cluster<G> {
    fn new(gpu: &G, compiler: &Compiler<G>, p: &Params, clusters: bool) -> Result<Self> {
        let texts = [&texts::TORUS, &texts::DISTANCE, &texts::ASYNC, &texts::REGISTERS, &texts::BLIND_ROTATE_CLUSTER];
        let more = [("CLUSTERS", u32::from(clusters))];
        let threads = p.polynomial_size as u32 / 8;
        let stem = compiler.stem(gpu, "blind_rotate.cluster", &texts, &constants(p), threads, &more)?;
        let rows_max = if clusters {
            cluster_rows_max(gpu.card().multiprocessors as usize, p.rgsw_rows())
        } else {
            // all groups must run at once
            stem.groups_at_once(gpu, "blind_rotate_cluster")? / p.rgsw_rows()
        };
        let rows_shown = if clusters { 0 } else { rows_max };
        let shown = Shown {
            values: alloc(gpu, rows_shown * 2 * p.rgsw_rows() * p.polynomial_size)?,
            counts: alloc(gpu, rows_shown)?,
            zeros: alloc(gpu, rows_shown)?,
        };
        Ok(Cluster { stem, rows_max: AtomicUsize::new(rows_max), shown: Mutex::new(shown), counts: !clusters })
    }

    /// [`Error::Unavailable`] when the card does not let as many groups wait for each other: no batch goes this way any
    /// more.
    fn run(
        &self,
        gpu: &G,
        p: &Params,
        [keys, roots, exponents, acc]: [&[&G::Buf]; 4],
        shares: &Shares<'_, G>,
    ) -> Result<()> {
        let rows = shares.count;
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if self.counts {
            gpu.copy(&shown.zeros, &shown.counts, rows)?;
        }
        let groups = p.rgsw_rows() as u32;
        let grid = Grid {
            groups: rows as u32 * groups,
            threads: p.polynomial_size as u32 / 8,
            shared_bytes: 0,
            cluster: groups,
        };
        let bind = [keys, roots, exponents, acc, &[&shown.values], &[&shown.counts], &[shares.table.buf]];
        let args = [p.lwe_dimension as u32, shares.table.first as u32];
        let started = self.stem.launch_grid(gpu, "blind_rotate_cluster", grid, &bind, &args);
        if matches!(started, Err(Error::Unavailable(_))) {
            self.rows_max.store(0, Ordering::Relaxed);
        }
        started
    }
}
