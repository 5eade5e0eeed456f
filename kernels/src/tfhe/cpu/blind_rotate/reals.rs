//! Blind rotation with the double-precision transform. The words equal those of the integer transform, because every
//! sum is rounded to the exact integer before it is reduced.
//!
//! [`representation`] proves this for every key: keys are loaded in a random representation, so no key can make
//! rounding errors add up. Sums are still checked: each is rounded to quarters. If the rounded sum is not a whole
//! number (the sum is at least an eighth away from an integer), the step is computed again in integers. So a wrong word
//! would need an error of at least seven eighths. Measured errors are at most about `2^-6`, even in the tests' search
//! for bad cases.

mod compiled;
mod digits;
mod exact;
mod key;
mod products;
mod sums;

use crate::cpu::ahead::Ahead;
use crate::cpu::memory::{Doubles, Words};
use crate::error::Result;
use crate::tfhe::Params;
use crate::tfhe::cpu::blind_rotate::{Decomposition, rotated_digits};
use crate::tfhe::cpu::fft;
use compiled::Compiled;
use digits::HighDigits;
use exact::add_exact_sums;
use key::step_values;
pub use key::{RealsKey, serve};
use products::sums_of_rows;
use sums::QUARTERS;

/// The buffers of one thread, without the accumulators.
pub struct Scratch {
    /// `[l][N]`: digits of one polynomial.
    digits: Words,
    /// `[2][N / 2]` points, [`row_distance`] apart: values of two levels before the last forward pass.
    values: Doubles,
    /// `[2][BLOCK_POINTS]` points: values of one block after the last forward pass.
    kept: Doubles,
    /// `[k + 1][N / 2]` points, [`row_distance`] apart: sums of products.
    sums: Doubles,
    /// The bits that must be zero in every sum: [`QUARTERS`], or all bits in a test.
    suspicious: u32,
}

impl Scratch {
    /// Allocates buffers for a step of one row.
    pub fn new(params: &Params) -> Result<Scratch> {
        let n = params.polynomial_size;
        Ok(Scratch {
            digits: Words::zeroed(params.bootstrap_level_count * n)?,
            values: Doubles::zeroed(2 * row_distance(n))?,
            kept: Doubles::zeroed(4 * fft::BLOCK_POINTS)?,
            sums: Doubles::zeroed((params.glwe_dimension + 1) * row_distance(n))?,
            suspicious: QUARTERS,
        })
    }
}

/// The number of doubles in a cache line.
const LINE: usize = 8;

/// Number of doubles from the sums of one component to the sums of the next. The distance is not a multiple of the
/// page size, because lines that are whole pages apart compete for the same places in the cache.
fn row_distance(n: usize) -> usize {
    n + 2 * fft::BLOCK_POINTS + LINE
}

/// Runs steps (1) to (4), from the difference to the products with the key, for one row and one `i`. The resulting sums
/// are in `scratch`, in turns of `q`. `accumulator` is `[k + 1][N]`.
///
/// The digits are processed two levels at a time. Their values and the sums then stay in the L1 cache while the key
/// streams through.
#[inline(always)]
unsafe fn sums_in_turns<S: Compiled, const COMPONENTS: usize>(
    key: &RealsKey,
    i: usize,
    exponent: usize,
    accumulator: &[u32],
    scratch: &mut Scratch,
    ahead: &[f64],
) {
    // SAFETY: the caller promises that the processor supports `S` and that the exponent is below `2N`. Scratch has room
    // for all levels, and the key row of a level lies in the step's key.
    unsafe {
        let (tables, d) = (&key.tables, Decomposition::new(&key.params));
        let n = tables.polynomial_size();
        let blocks = n / (2 * fft::BLOCK_POINTS);
        let mut ahead = Ahead::new(ahead, blocks * d.levels * COMPONENTS);
        for (c, polynomial) in accumulator.chunks_exact(n).enumerate() {
            let to = HighDigits::<S>::new(scratch.digits.as_mut_ptr(), n, d);
            rotated_digits::<S>(polynomial, exponent, d.offset, to);
            for level in (0..d.levels).step_by(2) {
                let key_row = key.step(i).as_ptr().add((c * d.levels + level) * n * COMPONENTS);
                let first = c + level == 0;
                if level + 1 < d.levels {
                    sums_of_rows::<S, COMPONENTS, 1>(tables, key_row, level, scratch, &mut ahead, first);
                } else {
                    sums_of_rows::<S, COMPONENTS, 0>(tables, key_row, level, scratch, &mut ahead, first);
                }
            }
        }
    }
}

/// Runs steps (1) to (6), the whole external product with the key of one `i`, for one row.
#[inline(always)]
unsafe fn step<S: Compiled, const COMPONENTS: usize>(
    key: &RealsKey,
    i: usize,
    exponent: usize,
    accumulator: &mut [u32],
    scratch: &mut Scratch,
    ahead: &[f64],
) {
    // SAFETY: the caller promises that the processor supports `S` and that the exponent is below `2N`. Sums and
    // polynomials have `N` numbers.
    unsafe {
        let n = key.tables.polynomial_size();
        sums_in_turns::<S, COMPONENTS>(key, i, exponent, accumulator, scratch, ahead);
        let mut bits = 0;
        let sums = scratch.sums.chunks_exact_mut(row_distance(n));
        for (sums, polynomial) in sums.zip(accumulator.chunks_exact_mut(n)) {
            bits |= S::add_sums(&key.tables, &mut sums[..n], polynomial);
        }
        if bits & scratch.suspicious != 0 {
            add_exact_sums::<S>(key, i, exponent, accumulator, scratch);
        }
    }
}

#[inline(always)]
unsafe fn group<S: Compiled>(key: &RealsKey, inputs: &[u32], accumulators: &mut [u32], scratch: &mut Scratch) {
    // SAFETY: the caller promises that the processor supports `S` and that all exponents are below `2N`.
    unsafe {
        match key.params.glwe_dimension {
            1 => steps::<S, 2>(key, inputs, accumulators, scratch),
            2 => steps::<S, 3>(key, inputs, accumulators, scratch),
            3 => steps::<S, 4>(key, inputs, accumulators, scratch),
            _ => steps::<S, 5>(key, inputs, accumulators, scratch),
        }
    }
}

#[inline(always)]
unsafe fn steps<S: Compiled, const COMPONENTS: usize>(
    key: &RealsKey,
    inputs: &[u32],
    accumulators: &mut [u32],
    scratch: &mut Scratch,
) {
    let params = &key.params;
    let words = params.accumulator_words();
    // each row prefetches its share of the next step's key
    let share = step_values(params).div_ceil(accumulators.len() / words);
    for i in 0..params.lwe_dimension {
        let next = if i + 1 < params.lwe_dimension { key.step(i + 1) } else { &[] };
        let shares = next.chunks(share).chain(std::iter::repeat(&[][..]));
        let rows = inputs.chunks_exact(params.lwe_dimension + 1).zip(accumulators.chunks_exact_mut(words));
        for ((input, accumulator), ahead) in rows.zip(shares) {
            // SAFETY: the caller enabled the instruction set.
            unsafe { step::<S, COMPONENTS>(key, i, input[i] as usize, accumulator, scratch, ahead) };
        }
    }
}

crate::cpu::simd::dispatch! {
    /// Runs the blind rotation of a group of rows in lock step. `inputs` is `[rows][n + 1]` exponents in `[0, 2N)`.
    /// `accumulators` is `[rows][k + 1][N]`, initialized by [`super::start`].
    reals pub fn rotate_group = group(key: &RealsKey, inputs: &[u32], accumulators: &mut [u32], scratch: &mut Scratch)
}

#[cfg(test)]
mod tests;
