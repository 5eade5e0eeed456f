//! Blind rotation with transforms in registers, for NVIDIA GPUs from compute capability 8.0 on.
//!
//! Two kernels share one order of the key. `blind_rotate.warp` uses a warp for each polynomial and several rows in a
//! group, which gives the highest throughput. `blind_rotate.cluster` spreads one row over several groups, one for each
//! row of the RGSW ciphertext. This gives the lowest latency for batches that leave most of the GPU idle.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::choice::{Way, Ways, cluster_rows_max, gates_up_to};
use super::{CHUNK_WORDS, step_words};
use crate::error::Result;
use crate::gpu::source::{MODULAR, NTT_REGISTERS, Text};
use crate::gpu::stem::{Compiler, Grid, Stem};
use crate::gpu::{Bind, Gpu, Language, LaunchOf, Properties, Shares, Touched, View, ViewOf, scratch, upload};
use crate::tfhe::gpu::{constants, texts};
use crate::tfhe::{EvaluationKey, Params};

/// Number of warps in a group that transforms a key.
const KEY_WARPS: u32 = 4;
/// Largest number of threads in a group of `blind_rotate.warp`. With more threads, a multiprocessor does not have the
/// 128 registers that each thread needs for a transform.
const THREADS_MAX: u32 = 512;
/// Shared memory that a GPU takes for itself in each group, in bytes.
const SHARED_BYTES_RESERVED: u32 = 1024;

/// The shape of the groups of `blind_rotate.warp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    /// Largest number of rows in a group.
    gates: u32,
    /// Number of steps whose key is in shared memory at the same time.
    tiles: u32,
    /// Number of groups that a multiprocessor runs at the same time.
    groups: u32,
}

/// The shapes, the best first. A GPU uses the first shape that fits. Shapes of several groups are for three polynomials
/// only: 121 k gates/s instead of 112 k on an H200. With two polynomials, both are equally fast there.
const SHAPES: [Shape; 8] = [
    Shape { gates: 4, tiles: 1, groups: 2 },
    Shape { gates: 8, tiles: 2, groups: 1 },
    Shape { gates: 4, tiles: 2, groups: 1 },
    Shape { gates: 8, tiles: 1, groups: 1 },
    Shape { gates: 4, tiles: 1, groups: 1 },
    Shape { gates: 3, tiles: 1, groups: 1 },
    Shape { gates: 2, tiles: 1, groups: 1 },
    Shape { gates: 1, tiles: 1, groups: 1 },
];

/// The configuration that suits a GPU and parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    shape: Shape,
    /// Number of partial sums that a warp of `blind_rotate.warp` passes to others at a time: k, or 1 if the shape does
    /// not fit with k. One at a time takes k - 1 more pairs of barriers in each step.
    slots: u32,
    /// Whether groups of `blind_rotate.cluster` read each other's shared memory. `None` if that kernel cannot run with
    /// these parameters.
    clusters: Option<bool>,
}

impl Fit {
    /// The configuration; `None` if only the plain kernel fits.
    pub fn of(properties: &Properties, p: &Params) -> Option<Fit> {
        let capability = properties.compute_capability.filter(|_| properties.language == Language::Cuda)?;
        let words_of_a_lane = p.polynomial_size / 32;
        let in_registers = matches!(p.polynomial_size, 512 | 1024)
            && p.bootstrap_level_count <= 3
            && p.bootstrap_level_count * words_of_a_lane <= 64;
        if capability < (8, 0) || !in_registers {
            return None;
        }
        let shapes = SHAPES.into_iter().filter(|shape| shape.groups == 1 || p.glwe_dimension == 2);
        let mut choices = shapes.flat_map(|shape| [p.glwe_dimension as u32, 1].map(|slots| (shape, slots)));
        let (shape, slots) = choices.find(|&(shape, slots)| fits(properties, p, shape, slots))?;
        let clusters = (p.rgsw_rows() <= 8).then_some(capability >= (9, 0));
        Some(Fit { shape, slots, clusters })
    }

    /// Number of rows that one multiprocessor runs at the same time.
    pub fn rows_of_a_multiprocessor(&self) -> usize {
        (self.shape.groups * self.shape.gates) as usize
    }
}

/// Whether a multiprocessor has room for the groups of a shape.
fn fits(properties: &Properties, p: &Params, Shape { gates, tiles, groups }: Shape, slots: u32) -> bool {
    let of_a_group = shared_bytes(p, gates, tiles, slots) + SHARED_BYTES_RESERVED;
    groups * of_a_group <= properties.shared_bytes_max + SHARED_BYTES_RESERVED
        && threads(p, gates) <= THREADS_MAX.min(properties.threads_max)
}

/// Number of threads of a group of `blind_rotate.warp`.
fn threads(p: &Params, gates: u32) -> u32 {
    32 * gates * (p.glwe_dimension as u32 + 1)
}

/// Number of words of a transpose buffer, with padding.
fn padded(p: &Params) -> u32 {
    let n = p.polynomial_size as u32;
    n + n / 32
}

/// Size of the shared memory of a group of `blind_rotate.warp`, in bytes. The kernel's source has the same layout.
fn shared_bytes(p: &Params, gates: u32, tiles: u32, slots: u32) -> u32 {
    let (n, components) = (p.polynomial_size as u32, p.glwe_dimension as u32 + 1);
    let tile = p.rgsw_rows() as u32 * components * n;
    let own = padded(p).max(slots * n).next_multiple_of(32);
    4 * (tiles * tile + 2 * n + gates * components * (n + own))
}

/// The kernels, compiled for one GPU and one parameter set.
pub struct Registers<G: Gpu> {
    params: Params,
    /// The kernels, each with the number of rows in its groups, ascending.
    warp: Vec<(u32, Stem<G>)>,
    multiprocessors: usize,
    fit: Fit,
    cluster: Option<Cluster<G>>,
}

struct Cluster<G: Gpu> {
    stem: Stem<G>,
    /// Largest number of rows in a launch.
    rows_max: AtomicUsize,
    /// Whether groups exchange values through global memory, because clusters are not available. The memory is
    /// `[rows][2][rgsw rows][N]` words and a count for each row.
    shows: bool,
}

/// The texts of a kernel with its helpers.
fn texts_of(kernel: &'static Text) -> [&'static Text; 7] {
    [&MODULAR, &texts::TORUS, &texts::PLACE, &texts::ASYNC, &NTT_REGISTERS, &texts::REGISTERS, kernel]
}

impl<G: Gpu> Registers<G> {
    /// Compiles the kernels.
    pub fn new(gpu: &G, compiler: &Compiler<G>, p: &Params, fit: Fit) -> Result<Self> {
        let texts = texts_of(&texts::BLIND_ROTATE_WARP);
        let Fit { shape, slots, clusters } = fit;
        let warp = gates_up_to(shape.gates).into_iter().map(|gates| {
            let more = [("GATES", gates), ("TILES", shape.tiles), ("GROUPS", shape.groups), ("SLOTS", slots)];
            Ok((gates, compiler.stem(gpu, "blind_rotate.warp", &texts, &constants(p), threads(p, gates), &more)?))
        });
        let cluster = clusters.map(|clusters| Cluster::new(gpu, compiler, p, clusters)).transpose()?;
        let multiprocessors = gpu.properties().multiprocessors as usize;
        Ok(Registers { params: *p, warp: warp.collect::<Result<_>>()?, multiprocessors, fit, cluster })
    }

    /// Implements [`super::BlindRotate::fill`], in the order of the key that both kernels use.
    pub fn fill(
        &self,
        gpu: &G,
        roots: ViewOf<'_, G>,
        key: &EvaluationKey,
        loaded: ViewOf<'_, G>,
        bits: Range<usize>,
    ) -> Result<()> {
        let p = &self.params;
        let steps_max = (CHUNK_WORDS / step_words(p)).clamp(1, bits.len().max(1));
        let part = scratch(gpu, steps_max * step_words(p))?;
        let (_, stem) = &self.warp[0];
        for first in bits.clone().step_by(steps_max) {
            let steps = steps_max.min(bits.end - first);
            let expand = |i: usize, out: &mut [u32]| key.expand_bootstrap(i, out);
            upload(gpu, &part, 0, first..first + steps, step_words(p), CHUNK_WORDS, expand)?;
            let polynomials = (steps * step_words(p) / p.polynomial_size) as u32;
            let grid = Grid {
                groups: [polynomials.div_ceil(KEY_WARPS), 1, 1],
                threads: 32 * KEY_WARPS,
                shared_bytes: 4 * (2 * p.polynomial_size as u32 + KEY_WARPS * padded(p)),
                cluster: 1,
            };
            let args = [polynomials, first as u32];
            let bind = [Bind::read(View::all(&part)), Bind::read(roots), Bind::write(loaded)];
            gpu.launch(&stem.launch_grid("blind_rotate_warp_key", grid, bind, args))?;
        }
        Ok(())
    }

    /// Implements [`super::BlindRotate::rows_of_a_share`].
    pub fn rows_of_a_share(&self, rows: &[usize]) -> usize {
        match self.ways().of(rows) {
            Way::Cluster => 1,
            Way::Warp(gates) => gates as usize,
        }
    }

    /// Implements [`super::BlindRotate::shown_words`].
    pub fn shown_words(&self, shares: usize, rows_max: usize) -> [usize; 2] {
        match self.cluster_for(shares, rows_max) {
            Some(cluster) if cluster.shows => {
                [shares * 2 * self.params.rgsw_rows() * self.params.polynomial_size, shares]
            }
            // the kernel does not use these buffers, but an argument must not be empty
            Some(_) => [1; 2],
            None => [0; 2],
        }
    }

    /// Implements [`super::BlindRotate::leave_clusters`].
    pub fn leave_clusters(&self) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| cluster.rows_max.swap(0, Ordering::Relaxed) > 0)
    }

    fn cluster_for(&self, shares: usize, rows_max: usize) -> Option<&Cluster<G>> {
        let fits = |cluster: &&Cluster<G>| shares <= cluster.rows_max.load(Ordering::Relaxed);
        self.cluster.as_ref().filter(|_| rows_max == 1).filter(fits)
    }

    /// Implements [`super::BlindRotate::run`].
    pub fn run<'a>(
        &'a self,
        keys: Touched<'a, G::Buf>,
        [roots, exponents, acc]: [ViewOf<'a, G>; 3],
        shares: &Shares<'a, G>,
        [values, counts]: [ViewOf<'a, G>; 2],
    ) -> LaunchOf<'a, G> {
        let p = &self.params;
        let mut bind = vec![Bind::read_touched(keys), Bind::read(roots), Bind::read(exponents), Bind::write(acc)];
        let args = [p.lwe_dimension as u32, shares.table.first as u32];
        if let Some(cluster) = self.cluster_for(shares.count, shares.rows_max) {
            bind.extend([Bind::write(values), Bind::write(counts), Bind::read(shares.table.all)]);
            let groups = p.rgsw_rows() as u32;
            let grid = Grid { cluster: groups, ..cluster.stem.grid([shares.count as u32 * groups, 1, 1]) };
            return cluster.stem.launch_grid("blind_rotate_cluster", grid, bind, args);
        }
        bind.push(Bind::read(shares.table.all));
        let kernel = self.warp.iter().find(|(gates, _)| *gates as usize >= shares.rows_max);
        let (gates, stem) = kernel.expect("shares are as large as those of one of the kernels");
        let shared_bytes = shared_bytes(p, *gates, self.fit.shape.tiles, self.fit.slots);
        let grid = Grid { shared_bytes, ..stem.grid([shares.count as u32, 1, 1]) };
        stem.launch_grid("blind_rotate_warp", grid, bind, args)
    }

    fn ways(&self) -> Ways {
        let cluster_rows_max = self.cluster.as_ref().map_or(0, |cluster| cluster.rows_max.load(Ordering::Relaxed));
        let gates = self.warp.iter().map(|(gates, _)| *gates).collect();
        let groups = self.fit.shape.groups as usize;
        Ways { gates, groups, cluster_rows_max, multiprocessors: self.multiprocessors }
    }
}

impl<G: Gpu> Cluster<G> {
    fn new(gpu: &G, compiler: &Compiler<G>, p: &Params, clusters: bool) -> Result<Self> {
        let texts = texts_of(&texts::BLIND_ROTATE_CLUSTER);
        let more = [("CLUSTERS", u32::from(clusters))];
        let threads = p.polynomial_size as u32 / 8;
        let stem = compiler.stem(gpu, "blind_rotate.cluster", &texts, &constants(p), threads, &more)?;
        let rows_max = if clusters {
            let at_once = stem.clusters_at_once(gpu, "blind_rotate_cluster", p.rgsw_rows() as u32)?;
            cluster_rows_max(gpu.properties().multiprocessors as usize, p.rgsw_rows(), at_once)
        } else {
            // all groups wait for each other, so all must run at the same time
            stem.groups_at_once(gpu, "blind_rotate_cluster")? / p.rgsw_rows()
        };
        Ok(Cluster { stem, rows_max: AtomicUsize::new(rows_max), shows: !clusters })
    }
}
