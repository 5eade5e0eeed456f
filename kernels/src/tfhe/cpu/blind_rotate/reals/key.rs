//! A bootstrapping key for the double-precision transform: a random representation of its residues, transformed.

use std::ops::Range;

use crate::cpu::for_each_chunk;
use crate::cpu::memory::Doubles;
use crate::cpu::ntt;
use crate::cpu::simd::{Isa, SimdReals};
use crate::error::Result;
use crate::tfhe::cpu::blind_rotate::representation::{self, represent};
use crate::tfhe::cpu::fft::FftTables;
use crate::tfhe::cpu::fft::precise::{Pair, Roots};
use crate::tfhe::{EvaluationKey, Params, RING_MODULUS, ring};
use crate::xof;

/// A bootstrapping key in reading order (see [`key_vector`]), step after step; rows = `l (k + 1)`, level 1 first. The
/// values are transforms of integers in `(-q, q)` ([`represent`]), divided by `q M` and by the factor that raises the
/// digits.
pub struct RealsKey {
    pub(super) values: Doubles,
    pub(super) tables: FftTables,
    /// Tables to recompute sums in integers.
    pub(super) exact_tables: ntt::NttTables,
    pub(super) params: Params,
}

impl RealsKey {
    /// Allocates a key of zeros.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] when memory runs out.
    ///
    /// # Panics
    /// When this instruction set has no vectors of doubles.
    pub fn of_zeros(isa: Isa, params: Params) -> Result<RealsKey> {
        let tables = FftTables::new(isa, params.polynomial_size)?;
        let values = Doubles::zeroed(params.lwe_dimension * step_values(&params))?;
        Ok(RealsKey { values, exact_tables: ntt::NttTables::new(isa, ring(params.polynomial_size)), tables, params })
    }

    /// Writes the part of the key for these key bits, in a new random representation. The parameters must satisfy
    /// [`serve`].
    ///
    /// # Errors
    /// [`crate::Error::Unavailable`] when the operating system provides no randomness.
    pub fn fill(&mut self, threads: usize, key: &EvaluationKey, bits: Range<usize>) -> Result<()> {
        let mut seed = [0; 32];
        fill_from_system(&mut seed)?;
        let (params, tables) = (&self.params, &self.tables);
        let transform = KeyTransform::new(tables, params);
        let values = step_values(params);
        let part = &mut self.values[bits.start * values..bits.end * values];
        for_each_chunk(threads, part, values, |i, out| {
            let bit = bits.start + i;
            let mut step = vec![0; values];
            key.expand_bootstrap(bit, &mut step);
            let mut uniform = vec![0; values];
            xof::fill_torus(&seed, xof::DOMAIN_REPRESENTATION, bit as u64, &mut uniform);
            represent(&mut step, &uniform);
            transform_key(tables.isa(), &transform, &step, &mut vec![0.0; transform.roots.room()], out);
        });
        Ok(())
    }

    /// The instruction set that rotates with this key.
    pub fn isa(&self) -> Isa {
        self.tables.isa()
    }

    /// The key of step `i`.
    pub(super) fn step(&self, i: usize) -> &[f64] {
        let values = step_values(&self.params);
        &self.values[i * values..][..values]
    }

    /// The parameters of the key.
    pub fn params(&self) -> &Params {
        &self.params
    }
}

/// Whether this transform may serve these parameters: the instruction set has vectors of doubles, and wrong sums are
/// detected for every key.
pub fn serve(isa: Isa, params: &Params) -> bool {
    representation::serves(isa, params)
}

/// Fills `seed` with randomness that the maker of a key cannot know.
#[cfg(target_arch = "x86_64")]
fn fill_from_system(seed: &mut [u8]) -> Result<()> {
    getrandom::fill(seed)
        .map_err(|error| crate::Error::Unavailable(format!("the operating system provides no randomness: {error}")))
}
#[cfg(not(target_arch = "x86_64"))]
fn fill_from_system(_seed: &mut [u8]) -> Result<()> {
    unreachable!("vectors of doubles are not in plain Rust")
}

/// The number of doubles in a step's key.
pub(super) fn step_values(params: &Params) -> usize {
    params.rgsw_rows() * (params.glwe_dimension + 1) * params.polynomial_size
}

/// The position of vector `v` of a polynomial in a step of the key: `[k + 1][l][M / REALS][k + 1][2][REALS]`.
pub(super) fn key_vector(params: &Params, reals: usize, v: usize, row: usize, c: usize) -> usize {
    let components = params.glwe_dimension + 1;
    let row = row % components * params.bootstrap_level_count + row / components;
    ((row * params.polynomial_size / 2 / reals + v) * components + c) * 2 * reals
}

/// The tables and factors that transform the steps of a key.
pub(super) struct KeyTransform {
    pub(super) roots: Roots,
    /// `1 / (q M)`, divided by the factor that raises the digits.
    pub(super) scale: Pair,
    params: Params,
}

impl KeyTransform {
    pub(super) fn new(tables: &FftTables, params: &Params) -> KeyTransform {
        let points = params.polynomial_size / 2;
        let reals = tables.isa().reals().expect("vectors of doubles");
        let power = (-((32 - params.bootstrap_base_log) as f64)).exp2() / points as f64;
        let scale = Pair::of(power).over(Pair::of(f64::from(RING_MODULUS)));
        KeyTransform { roots: Roots::new(points, reals), scale, params: *params }
    }
}

/// Transforms a step's signed words, `[rows][k + 1][N]`, and stores them in reading order.
#[inline(always)]
unsafe fn transform_step<S: SimdReals>(transform: &KeyTransform, step: &[u32], room: &mut [f64], out: &mut [f64]) {
    let params = &transform.params;
    let components = params.glwe_dimension + 1;
    for (group, polynomials) in step.chunks(S::REALS * params.polynomial_size).enumerate() {
        // SAFETY: the caller enabled the instruction set.
        unsafe {
            transform.roots.forward::<S>(polynomials, transform.scale, room, |polynomial, place, value| {
                let at = group * S::REALS + polynomial;
                let (row, c) = (at / components, at % components);
                out[key_vector(params, S::REALS, place / (2 * S::REALS), row, c) + place % (2 * S::REALS)] = value;
            });
        }
    }
}

crate::cpu::simd::dispatch! {
    reals pub(super) fn transform_key =
        transform_step(transform: &KeyTransform, step: &[u32], room: &mut [f64], out: &mut [f64])
}
