//! Launches of `blind_rotate`: exponents to accumulators, with the variant that suits the GPU.
//!
//! Each [`Variant`] has a different order of the key's words and a different number of launches. All variants read the
//! same exponents and write the same accumulators, `[rows][k + 1][N]` words in `[0, q)`.

mod choice;
mod registers;

use std::ops::Range;

use crate::error::Result;
use crate::gpu::ntt::{self, Ntt};
use crate::gpu::source::{MODULAR, NTT};
use crate::gpu::stem::{Compiler, Stem};
use crate::gpu::{Bind, Gpu, Language, LaunchOf, Properties, Shares, Touched, View, ViewOf};
use crate::tfhe::gpu::{constants, texts};
use crate::tfhe::{EvaluationKey, Params};
use registers::{Fit, Registers};

/// Number of threads of the plain kernel that a multiprocessor holds. Each thread has 64 registers ([`crate::stems`]).
const PLAIN_THREADS_OF_A_MULTIPROCESSOR: usize = 1024;
/// Largest number of key words that the host expands at a time.
const CHUNK_WORDS: usize = 1 << 22;
/// Largest product of steps and rows in a launch of WGSL. The GPU may also draw a screen, and its driver then ends
/// launches that take seconds. A small GPU takes about 50 us for a step of a row.
const WGSL_ROW_STEPS: usize = 4096;
/// Largest number of loop turns in a step. Needed for drivers that end all loops after a number of turns:
/// `Properties::loop_turns_max`.
const TURNS_OF_A_STEP: u32 = 4000;

/// A kernel variant of blind rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// One group for each row, and transforms in shared memory. Runs on every GPU.
    Plain,
    /// Transforms in registers. Needs CUDA, compute capability 8.0 or later, and a ring of degree 512 or 1024.
    Registers(Fit),
}

impl Variant {
    /// The best variant for a GPU and parameters.
    pub fn of(properties: &Properties, params: &Params) -> Variant {
        Fit::of(properties, params).map_or(Variant::Plain, Variant::Registers)
    }

    /// Number of rows with these parameters that one multiprocessor runs at the same time.
    pub fn rows_of_a_multiprocessor(self, params: &Params) -> usize {
        match self {
            Variant::Plain => PLAIN_THREADS_OF_A_MULTIPROCESSOR / ntt::threads(params.polynomial_size) as usize,
            Variant::Registers(fit) => fit.rows_of_a_multiprocessor(),
        }
    }
}

/// Whether a group's shared memory has room for a row's accumulator and for the polynomial under transformation.
fn accumulator_is_shared(properties: &Properties, params: &Params) -> bool {
    4 * (params.accumulator_words() + params.polynomial_size) <= properties.shared_bytes_max as usize
}

/// Number of words of a step's key, the same in every order.
fn step_words(params: &Params) -> usize {
    params.rgsw_rows() * params.accumulator_words()
}

/// Number of words of a bootstrapping key on the GPU.
pub fn key_words(params: &Params) -> usize {
    params.lwe_dimension * step_words(params)
}

/// The kernels of the stem `blind_rotate`, compiled for one parameter set.
pub struct BlindRotate<G: Gpu> {
    compiled: Compiled<G>,
    params: Params,
}

enum Compiled<G: Gpu> {
    Plain {
        stem: Stem<G>,
        /// Largest number of steps in one launch, because the driver may end long launches. WGSL only.
        steps_max: Option<usize>,
    },
    Registers(Registers<G>),
}

impl<G: Gpu> BlindRotate<G> {
    /// Compiles the kernels for these parameters.
    pub fn new(gpu: &G, compiler: &Compiler<G>, params: &Params, variant: Variant) -> Result<Self> {
        let compiled = match variant {
            Variant::Plain => {
                let texts = [&MODULAR, &texts::TORUS, &texts::PLACE, &NTT, &texts::BLIND_ROTATE];
                let (threads, shared) =
                    (ntt::threads(params.polynomial_size), accumulator_is_shared(gpu.properties(), params));
                let more = [
                    ("WORDS", params.polynomial_size as u32 / threads),
                    ("ACC_SHARED", u32::from(shared)),
                    ("ACC_WORDS", if shared { params.accumulator_words() as u32 } else { 1 }),
                ];
                let steps_max = match gpu.properties().language {
                    Language::Cuda => None,
                    Language::Wgsl => {
                        Some((gpu.properties().loop_turns_max.unwrap_or(u32::MAX) / TURNS_OF_A_STEP) as usize)
                    }
                };
                let stem = compiler.stem(gpu, "blind_rotate", &texts, &constants(params), threads, &more)?;
                Compiled::Plain { stem, steps_max }
            }
            Variant::Registers(fit) => Compiled::Registers(Registers::new(gpu, compiler, params, fit)?),
        };
        Ok(BlindRotate { compiled, params: *params })
    }

    /// Loads the key in the variant's order.
    pub fn load(&self, gpu: &G, ntt: &Ntt<G>, roots: ViewOf<'_, G>, key: &EvaluationKey) -> Result<G::Buf> {
        let loaded = crate::gpu::alloc(gpu, key_words(&self.params))?;
        self.fill(gpu, ntt, roots, key, View::all(&loaded), 0..self.params.lwe_dimension)?;
        Ok(loaded)
    }

    /// Writes the part of the key for these key bits, in the variant's order. The part with the last key bit must be
    /// written last. The host expands the masks, and the GPU transforms them.
    pub fn fill(
        &self,
        gpu: &G,
        ntt: &Ntt<G>,
        roots: ViewOf<'_, G>,
        key: &EvaluationKey,
        loaded: ViewOf<'_, G>,
        bits: Range<usize>,
    ) -> Result<()> {
        let p = &self.params;
        match &self.compiled {
            Compiled::Plain { .. } => {
                let (at, last) = (loaded.first + bits.start * step_words(p), bits.end == p.lwe_dimension);
                crate::gpu::upload(gpu, loaded.buf, at, bits, step_words(p), CHUNK_WORDS, |i, out| {
                    key.expand_bootstrap(i, out);
                })?;
                let rows = key_words(p) / p.polynomial_size;
                let launch = ntt.key(loaded, roots, rows).filter(|_| last);
                launch.map_or(Ok(()), |launch| gpu.launch(&launch))
            }
            Compiled::Registers(registers) => registers.fill(gpu, roots, key, loaded, bits),
        }
    }

    /// Largest number of rows in a share, if batches have these numbers of rows and each batch has its own key.
    pub fn rows_of_a_share(&self, rows: &[usize]) -> usize {
        match &self.compiled {
            Compiled::Plain { .. } => 1,
            Compiled::Registers(registers) => registers.rows_of_a_share(rows),
        }
    }

    /// The numbers of words of the two buffers through which groups exchange data while they rotate these shares. The
    /// first buffer holds values; the second holds counts, which must be zero before the launch. Both numbers are 0 if
    /// groups work alone.
    pub fn shown_words(&self, shares: usize, rows_max: usize) -> [usize; 2] {
        match &self.compiled {
            Compiled::Plain { .. } => [0; 2],
            Compiled::Registers(registers) => registers.shown_words(shares, rows_max),
        }
    }

    /// Turns off clusters. The caller calls this after the GPU refused a launch whose groups wait for each other.
    /// Returns whether clusters were on, so that later batches will use another kernel.
    pub fn leave_clusters(&self) -> bool {
        match &self.compiled {
            Compiled::Plain { .. } => false,
            Compiled::Registers(registers) => registers.leave_clusters(),
        }
    }

    /// Rotates all rows. `exponents` is `[rows][n + 1]` words in `[0, 2N)`, and `acc` becomes `[rows][k + 1][N]`. There
    /// are at most as many rows as the GPU allows groups. `shares` cover all rows, each share at most
    /// [`BlindRotate::rows_of_a_share`] rows. A share names the place of its key in `keys`. `shown` has
    /// [`BlindRotate::shown_words`] words.
    pub fn run<'a>(
        &'a self,
        keys: Touched<'a, G::Buf>,
        roots: ViewOf<'a, G>,
        exponents: ViewOf<'a, G>,
        acc: ViewOf<'a, G>,
        shares: &Shares<'a, G>,
        shown: [ViewOf<'a, G>; 2],
    ) -> Vec<LaunchOf<'a, G>> {
        match &self.compiled {
            Compiled::Plain { stem, steps_max } => {
                let start = [Bind::read(exponents), Bind::write(acc)];
                let start = stem.launch("blind_rotate_start", shares.count, start, [shares.count as u32]);
                let steps = steps_max
                    .map_or(self.params.lwe_dimension, |most| (WGSL_ROW_STEPS / shares.count.max(1)).clamp(1, most));
                let rotations = (0..self.params.lwe_dimension).step_by(steps).filter_map(|first| {
                    let count = steps.min(self.params.lwe_dimension - first);
                    let keys = Bind::read_touched(keys);
                    let table = Bind::read(shares.table.all);
                    let bind = [keys, Bind::read(roots), Bind::read(exponents), Bind::write(acc), table];
                    let args = [first as u32, count as u32, shares.table.first as u32];
                    stem.launch_whole("blind_rotate", shares.count, bind, args)
                });
                start.into_iter().chain(rotations).collect()
            }
            Compiled::Registers(registers) => vec![registers.run(keys, [roots, exponents, acc], shares, shown)],
        }
    }
}
