//! Blind rotation: `n` external products that turn a constant polynomial by an encrypted phase (eprint 2018/421, Alg. 3).
//!
//! The accumulator of a row is an RLWE ciphertext `[k + 1][N]` modulo q, kept as `[k + 1][2N]`: `-acc` then `acc`, so that
//! `X^a acc` is one run of words for `a` up to `N`, and its negation beyond. Rows of a group go in lock step: the key of
//! step `i` is read once for all of them.
//!
//! For every i in 0..n, with `a = a~_i`, the numbered steps of this file: difference, digits, their transforms, products
//! with the key of step i, transforms back, sum.

use crate::cpu::memory::Words;
use crate::cpu::ntt::{Ahead, Tables, reduce};
use crate::cpu::simd::Simd;
use crate::error::Result;
use crate::modular::{Q_INVERSE, RING_MODULUS, TORUS_CORRECTION};
use crate::tfhe::Params;

/// Products that may be summed before a reduction: digits below 2q, key below q, `4 * 2q * q < 2^63`.
const TERMS_MAX: usize = 4;

/// How far ahead of its use the key is called into the cache.
const PREFETCH_WORDS: usize = 256;

/// A bootstrapping key in reading order: `[n][N / LANES][rows][k + 1][LANES]` words, rows = `l (k + 1)`, level 1 first,
/// transformed, times `2^32 / N` modulo q (Montgomery's factor and the inverse transform's).
pub struct BootstrapKey {
    pub(super) words: Words,
    pub(super) tables: Tables,
    pub(super) params: Params,
}

/// What one thread needs beside the accumulators.
pub struct Scratch {
    /// `[2][rows][N]`: digits, then in their first k + 1 rows the sums.
    digits: Words,
}

impl Scratch {
    /// Room for a step of two rows.
    pub fn new(params: &Params) -> Result<Scratch> {
        Ok(Scratch { digits: Words::zeroed(2 * params.rgsw_rows() * params.polynomial_size)? })
    }
}

/// Words of one row's accumulator, `[k + 1][2N]`.
pub fn accumulator_words(params: &Params) -> usize {
    (params.glwe_dimension + 1) * 2 * params.polynomial_size
}

/// The constants of the digits' decomposition: `y = (u + offset) >> shift` holds all digits, each raised by `B/2`.
#[derive(Clone, Copy)]
pub struct Decomposition {
    base_log: u32,
    levels: usize,
    /// See above.
    pub offset: u32,
    /// See above.
    pub shift: u32,
}

impl Decomposition {
    /// Of these parameters.
    pub fn new(params: &Params) -> Self {
        let (base_log, levels) = (params.bootstrap_base_log as u32, params.bootstrap_level_count);
        let shift = 32 - base_log * levels as u32;
        let half_digits: u32 = (0..levels as u32).map(|i| 1 << (base_log * (i + 1) - 1)).sum();
        // round to nearest, then B/2 in every digit: the digits fall in [-B/2, B/2) and the last carry is a whole turn
        Self { base_log, levels, offset: (1u32 << (shift - 1)).wrapping_add(half_digits << shift), shift }
    }
}

/// Sets the accumulator to `X^-b (0, .., 0, v)`, `v = q/8 (1 + X + .. + X^(N-1))`; `b` in `[0, 2N)`.
pub fn start(params: &Params, b: usize, accumulator: &mut [u32]) {
    let (n, k) = (params.polynomial_size, params.glwe_dimension);
    let eighth = (RING_MODULUS + 4) / 8;
    accumulator.fill(0);
    let body = &mut accumulator[k * 2 * n..];
    for i in 0..n {
        // coefficient i of X^-b v is v_(i + b), negated for each wrap
        let positive = (i + b) % (2 * n) < n;
        let (x, minus_x) = if positive { (eighth, RING_MODULUS - eighth) } else { (RING_MODULUS - eighth, eighth) };
        (body[n + i], body[i]) = (x, minus_x);
    }
}

/// Steps (1) and (2) for one polynomial `[-acc | acc]`: `LEVELS` digit rows, each `stride` words after the one before;
/// digits in `[q - B/2, q + B/2)`.
#[inline(always)]
unsafe fn rotated_digits<S: Simd, const BEYOND: bool>(
    polynomial: &[u32],
    a: usize,
    d: Decomposition,
    digits: *mut u32,
    stride: usize,
) {
    unsafe {
        let n = polynomial.len() / 2;
        let (q, correction, offset) = (S::splat(RING_MODULUS), S::splat(TORUS_CORRECTION), S::splat(d.offset));
        let mask = S::splat((1 << d.base_log) - 1);
        let lift = S::splat(RING_MODULUS - (1 << (d.base_log - 1)));
        let rotated = polynomial.as_ptr().add(n - if BEYOND { a - n } else { a });
        let own = polynomial.as_ptr().add(n);
        for i in (0..n).step_by(S::LANES) {
            let (r, x) = (S::load(rotated.add(i)), S::load(own.add(i)));
            // (1) difference: d <- X^a acc - acc
            let difference = if BEYOND {
                let sum = reduce::<S>(S::add(r, x), q);
                S::min(S::sub(q, sum), S::sub(S::splat(0), sum))
            } else {
                let difference = S::sub(r, x);
                S::min(difference, S::add(difference, q))
            };
            // (2) decompose: d to balanced digits, by way of its torus word
            let scaled = S::shift_left::<2>(difference);
            let torus = S::add(scaled, S::mul_high_uniform(scaled, correction));
            let all = S::shift_right(S::add(torus, offset), d.shift);
            for level in 0..d.levels {
                let digit = S::and(S::shift_right(all, d.base_log * (d.levels - 1 - level) as u32), mask);
                S::store(digits.add(level * stride + i), S::add(digit, lift));
            }
        }
    }
}

/// Step (4) for ROWS accumulators at once: `sums[c] = sum over rows of digits[row] * key[row][c]`, out in `[0, 2q)`.
/// A word of the key is read once for all of them. `digits` is `[ROWS][rows][N]`; the sums take the place of each first
/// k + 1 rows, so that all of it stays in the first-level cache.
#[inline(always)]
unsafe fn multiply_sum<S: Simd, const COMPONENTS: usize, const ROWS: usize>(
    n: usize,
    rows: usize,
    digits: &mut [u32],
    key: &[u32],
) {
    unsafe {
        let (q, q2, q_inverse) = (S::splat(RING_MODULUS), S::splat(2 * RING_MODULUS), S::splat(Q_INVERSE));
        let mut key = key.as_ptr();
        // (4) multiply by the key of step i, sum up
        for i in (0..n).step_by(S::LANES) {
            let mut total = [[S::splat(0); COMPONENTS]; ROWS];
            let mut first = 0;
            while first < rows {
                let mut wide = [[S::wide_zero(); COMPONENTS]; ROWS];
                for row in first..rows.min(first + TERMS_MAX) {
                    let digit: [S::V; ROWS] =
                        std::array::from_fn(|r| S::load(digits.as_ptr().add((r * rows + row) * n + i)));
                    for c in 0..COMPONENTS {
                        S::prefetch(key.wrapping_add(PREFETCH_WORDS));
                        let word = S::load(key);
                        for r in 0..ROWS {
                            wide[r][c] = S::mul_add_wide(wide[r][c], digit[r], word);
                        }
                        key = key.add(S::LANES);
                    }
                }
                for r in 0..ROWS {
                    for c in 0..COMPONENTS {
                        // in (0, 3q]: below 2q after one conditional subtraction
                        let part = reduce::<S>(S::montgomery(wide[r][c], q, q_inverse), q2);
                        total[r][c] = if first == 0 { part } else { reduce::<S>(S::add(total[r][c], part), q2) };
                    }
                }
                first += TERMS_MAX;
            }
            for r in 0..ROWS {
                for c in 0..COMPONENTS {
                    S::store(digits.as_mut_ptr().add((r * rows + c) * n + i), total[r][c]);
                }
            }
        }
    }
}

/// Step (6) for one polynomial: `sum` in `[0, 2q)`.
#[inline(always)]
unsafe fn accumulate<S: Simd>(polynomial: &mut [u32], sum: &[u32]) {
    unsafe {
        let n = sum.len();
        let q = S::splat(RING_MODULUS);
        let (minus, plus) = (polynomial.as_mut_ptr(), polynomial.as_mut_ptr().add(n));
        for i in (0..n).step_by(S::LANES) {
            let term = reduce::<S>(S::load(sum.as_ptr().add(i)), q);
            // (6) acc <- acc + sum
            let x = reduce::<S>(S::add(S::load(plus.add(i)), term), q);
            S::store(plus.add(i), x);
            S::store(minus.add(i), S::min(S::sub(q, x), S::sub(S::splat(0), x)));
        }
    }
}

/// All steps of ROWS rows for one i, while the key of the next i comes nearer; `accumulators` is `[ROWS][k + 1][2N]`, `inputs` `[ROWS][n + 1]`.
#[inline(always)]
unsafe fn step<S: Simd, const COMPONENTS: usize, const ROWS: usize>(
    tables: &Tables,
    d: Decomposition,
    key: &[u32],
    next_key: &[u32],
    exponents: [usize; ROWS],
    accumulators: &mut [u32],
    scratch: &mut Scratch,
) {
    unsafe {
        let n = tables.polynomial_size();
        let rows = d.levels * COMPONENTS;
        let digits = &mut scratch.digits[..ROWS * rows * n];
        for (r, a) in exponents.into_iter().enumerate() {
            for c in 0..COMPONENTS {
                let polynomial = &accumulators[(r * COMPONENTS + c) * 2 * n..][..2 * n];
                let digits = digits[(r * rows + c) * n..].as_mut_ptr();
                if a > n {
                    rotated_digits::<S, true>(polynomial, a, d, digits, COMPONENTS * n);
                } else {
                    rotated_digits::<S, false>(polynomial, a, d, digits, COMPONENTS * n);
                }
            }
        }
        let mut ahead = Ahead::of::<S>(next_key, ROWS * rows, n);
        // (3) transform the digits
        for row in digits.chunks_exact_mut(n) {
            S::ntt_forward(tables, row, &mut ahead);
        }
        multiply_sum::<S, COMPONENTS, ROWS>(n, rows, digits, key);
        let sums = digits.chunks_exact_mut(rows * n).flat_map(|row| row[..COMPONENTS * n].chunks_exact_mut(n));
        for (polynomial, sum) in accumulators.chunks_exact_mut(2 * n).zip(sums) {
            // (5) transform back
            S::ntt_inverse(tables, sum);
            accumulate::<S>(polynomial, sum);
        }
    }
}

#[inline(always)]
unsafe fn group<S: Simd>(key: &BootstrapKey, inputs: &[u32], accumulators: &mut [u32], scratch: &mut Scratch) {
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
unsafe fn steps<S: Simd, const COMPONENTS: usize>(
    key: &BootstrapKey,
    inputs: &[u32],
    accumulators: &mut [u32],
    scratch: &mut Scratch,
) {
    let params = &key.params;
    let d = Decomposition::new(params);
    let words = accumulator_words(params);
    let step_words = key.words.len() / params.lwe_dimension;
    for (i, key_step) in key.words.chunks_exact(step_words).enumerate() {
        // the first rows of the group call the next step's key in; it then waits in the cache for all of them
        let mut next_key = &key.words[(i + 1) * step_words..];
        next_key = &next_key[..next_key.len().min(step_words)];
        let pairs = inputs.chunks(2 * (params.lwe_dimension + 1)).zip(accumulators.chunks_mut(2 * words));
        for (inputs, accumulators) in pairs {
            let exponent = |r: usize| inputs[r * (params.lwe_dimension + 1) + i] as usize;
            // SAFETY: the caller enabled the instruction set.
            unsafe {
                if accumulators.len() == 2 * words {
                    let exponents = [exponent(0), exponent(1)];
                    step::<S, COMPONENTS, 2>(&key.tables, d, key_step, next_key, exponents, accumulators, scratch);
                } else {
                    step::<S, COMPONENTS, 1>(&key.tables, d, key_step, next_key, [exponent(0)], accumulators, scratch);
                }
            }
            next_key = &[];
        }
    }
}

crate::cpu::simd::dispatch! {
    /// Blind rotation of a group of rows in lock step: `inputs` is `[rows][n + 1]` exponents in `[0, 2N)`, `accumulators` is
    /// `[rows][k + 1][2N]`, started by [`start`].
    pub fn rotate_group = group(key: &BootstrapKey, inputs: &[u32], accumulators: &mut [u32], scratch: &mut Scratch)
}
