//! Blind rotation: `n` external products that multiply a constant polynomial by X to the power of an encrypted phase
//! (eprint 2018/421, Alg. 3).
//!
//! The accumulator of a row is an RLWE ciphertext `[k + 1][N]` modulo q. The rows of a group run in lock step, so the
//! key of step `i` is read once for all of them.
//!
//! For every i in 0..n, with `a = a~_i`, these numbered steps run: (1) difference, (2) digits, (3) transforms of the
//! digits, (4) products with the key of step i, (5) inverse transforms, (6) sum.

#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, unused_variables))]
pub(in crate::tfhe::cpu) mod reals;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, unused_variables))]
mod representation;

use std::ops::Range;

use crate::cpu::for_each_chunk;
use crate::cpu::memory::Words;
use crate::cpu::ntt::{self, NttTables, Transforms, reduce};
use crate::cpu::simd::{Isa, LANES_MAX, Simd};
use crate::error::Result;
use crate::tfhe::torus::TORUS_CORRECTION;
use crate::tfhe::{EvaluationKey, MODULUS, Params, RING_MODULUS, ring};

/// Number of products that may be added before a reduction. Digits are below 2q and key words below q, and
/// `4 * 2q * q < 2^63`.
const TERMS_MAX: usize = 4;

/// How many words ahead of its use the key is prefetched into the cache.
const PREFETCH_WORDS: usize = 256;

/// A bootstrapping key, in the order of the transform that uses it.
pub enum BootstrapKey {
    /// For the double-precision transform. Used if this transform is exact for the parameters and the CPU supports it.
    Reals(reals::RealsKey),
    /// For the number-theoretic transform. Used in all other cases.
    Integers(IntegerKey),
}

impl BootstrapKey {
    /// Allocates a key of zeros in the order that this instruction set reads.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] when memory runs out.
    pub fn of_zeros(isa: Isa, params: &Params) -> Result<BootstrapKey> {
        Ok(match reals::serve(isa, params) {
            true => BootstrapKey::Reals(reals::RealsKey::of_zeros(isa, *params)?),
            false => BootstrapKey::Integers(IntegerKey::of_zeros(isa, params)?),
        })
    }

    /// Expands the part of the key for these key bits on `threads` threads, and writes it in reading order.
    ///
    /// # Errors
    /// [`crate::Error::Unavailable`] when the operating system provides no randomness.
    pub fn fill(&mut self, threads: usize, key: &EvaluationKey, bits: Range<usize>) -> Result<()> {
        match self {
            BootstrapKey::Reals(into) => into.fill(threads, key, bits),
            BootstrapKey::Integers(into) => {
                into.fill(threads, key, bits);
                Ok(())
            }
        }
    }

    /// The parameters of the key.
    pub fn params(&self) -> &Params {
        match self {
            BootstrapKey::Reals(key) => key.params(),
            BootstrapKey::Integers(key) => &key.params,
        }
    }

    /// Runs the blind rotation of a group of rows in lock step. `inputs` is `[rows][n + 1]` exponents in `[0, 2N)`.
    /// `accumulators` is `[rows][k + 1][N]`, initialized by [`start`].
    ///
    /// # Panics
    /// When an exponent is not below `2N`.
    pub fn rotate(&self, inputs: &[u32], accumulators: &mut [u32]) -> Result<()> {
        let p = self.params();
        let (n, order) = (p.lwe_dimension, 2 * p.polynomial_size as u32);
        let mut masks = inputs.chunks_exact(n + 1).flat_map(|input| &input[..n]);
        assert!(masks.all(|&exponent| exponent < order), "exponents below 2N");
        match self {
            BootstrapKey::Reals(key) => {
                reals::rotate_group(key.isa(), key, inputs, accumulators, &mut reals::Scratch::new(key.params())?);
            }
            BootstrapKey::Integers(key) => {
                rotate_group(key.tables.isa(), key, inputs, accumulators, &mut Scratch::new(&key.params)?);
            }
        }
        Ok(())
    }
}

/// Size of a [`BootstrapKey`] for these parameters, in bytes.
pub fn key_bytes(isa: Isa, params: &Params) -> u64 {
    let numbers = (params.bootstrap_body_words() * (params.glwe_dimension + 1)) as u64;
    numbers * if reals::serve(isa, params) { 8 } else { 4 }
}

/// A key for the number-theoretic transform in reading order: `[n][N / LANES][rows][k + 1][LANES]` words, rows =
/// `l (k + 1)`, level 1 first. The words are transformed and multiplied by `2^32 / N` modulo q, because Montgomery's
/// reduction divides by 2^32 and the inverse transform multiplies by N.
pub struct IntegerKey {
    words: Words,
    tables: NttTables,
    params: Params,
}

impl IntegerKey {
    fn of_zeros(isa: Isa, p: &Params) -> Result<IntegerKey> {
        let words = Words::zeroed(p.lwe_dimension * p.rgsw_rows() * (p.glwe_dimension + 1) * p.polynomial_size)?;
        Ok(IntegerKey { words, tables: NttTables::new(isa, ring(p.polynomial_size)), params: *p })
    }

    fn fill(&mut self, threads: usize, key: &EvaluationKey, bits: Range<usize>) {
        let IntegerKey { words, tables, params: p } = self;
        let (n, components, rows) = (p.polynomial_size, p.glwe_dimension + 1, p.rgsw_rows());
        let lanes = tables.lanes();
        let factor = MODULUS.mul(MODULUS.pow(2, 32), MODULUS.inverse(n as u32));
        let step_words = rows * components * n;
        let words = &mut words[bits.start * step_words..bits.end * step_words];
        for_each_chunk(threads, words, step_words, |i, out| {
            let mut step = vec![0; step_words];
            key.expand_bootstrap(bits.start + i, &mut step);
            ntt::forward_all(tables, &mut step);
            for (at, polynomial) in step.chunks_exact(n).enumerate() {
                for (v, vector) in polynomial.chunks_exact(lanes).enumerate() {
                    let to = &mut out[(v * rows * components + at) * lanes..][..lanes];
                    for (to, &x) in to.iter_mut().zip(vector) {
                        *to = MODULUS.mul(MODULUS.reduce_once(x), factor);
                    }
                }
            }
        });
    }
}

/// The buffers of one thread, without the accumulators.
struct Scratch {
    /// `[2][rows][N]`: first the digits; later the first k + 1 rows of each accumulator hold its sums.
    digits: Words,
}

impl Scratch {
    /// Allocates buffers for a step of two rows.
    fn new(params: &Params) -> Result<Scratch> {
        Ok(Scratch { digits: Words::zeroed(2 * params.rgsw_rows() * params.polynomial_size)? })
    }
}

/// Constants of the gadget decomposition: `y = (u + offset) >> shift` contains all digits, each raised by `B/2`.
#[derive(Clone, Copy)]
pub struct Decomposition {
    base_log: u32,
    levels: usize,
    /// The number that is added to a torus word before the shift.
    pub offset: u32,
    /// Number of bits below the last digit.
    pub shift: u32,
}

impl Decomposition {
    /// The constants for these parameters.
    pub fn new(params: &Params) -> Self {
        let (base_log, levels) = (params.bootstrap_base_log as u32, params.bootstrap_level_count);
        let shift = 32 - base_log * levels as u32;
        let half_digits: u32 = (0..levels as u32).map(|i| 1 << (base_log * (i + 1) - 1)).sum();
        // the offset rounds to nearest and adds B/2 to every digit. So digits lie in [-B/2, B/2), and the carry out of
        // the highest digit is a multiple of 2^32, so it vanishes
        Self { base_log, levels, offset: (1u32 << (shift - 1)).wrapping_add(half_digits << shift), shift }
    }
}

/// A mark in the word of a body's exponent. With the mark, the rotation starts with amplitude 1/4 instead of 1/8.
pub const QUARTER: u32 = 1 << 31;

/// Sets the accumulator to `X^-b (0, .., 0, v)`, with `v = q/8 (1 + X + .. + X^(N-1))`. If `b` has the mark
/// [`QUARTER`], the amplitude is `q/4` instead of `q/8`. Without its mark, `b` is in `[0, 2N)`.
pub fn start(params: &Params, b: u32, accumulator: &mut [u32]) {
    let (n, k) = (params.polynomial_size, params.glwe_dimension);
    let amplitude = if b & QUARTER == 0 { (RING_MODULUS + 4) / 8 } else { (RING_MODULUS + 2) / 4 };
    let b = (b & !QUARTER) as usize;
    accumulator.fill(0);
    for (i, x) in accumulator[k * n..].iter_mut().enumerate() {
        // coefficient i of X^-b v is v_(i + b), with the index modulo N and one change of sign for each time that the
        // index wraps
        *x = if (i + b) % (2 * n) < n { amplitude } else { RING_MODULUS - amplitude };
    }
}

/// Stores digits in the form that a transform reads.
trait Digits<S: Simd>: Copy {
    /// Stores the digits of one vector of coefficients, starting at coefficient `i`. `raised` is `u + offset`.
    unsafe fn store(self, raised: S::V, i: usize);
}

/// Steps (1) and (2), the difference and its digits, for one polynomial.
#[inline(always)]
unsafe fn rotated_digits<S: Simd>(polynomial: &[u32], a: usize, offset: u32, digits: impl Digits<S>) {
    // SAFETY: the caller promises that the processor supports `S` and that `a` is below `2N`.
    unsafe {
        let offset = S::splat(offset);
        // for `a` up to `N`, `X^a acc` is `-acc[N - a ..]`, then `acc[.. N - a]`; above `N`, both signs are swapped
        let n = polynomial.len();
        if a < n {
            rotated_digits_of::<S, true>(polynomial, a, offset, digits);
        } else {
            rotated_digits_of::<S, false>(polynomial, a - n, offset, digits);
        }
    }
}

/// [`rotated_digits`] for `a` below `N`. With `NEGATED`, the words that wrap around are negated; else all other words
/// are negated.
#[inline(always)]
unsafe fn rotated_digits_of<S: Simd, const NEGATED: bool>(
    polynomial: &[u32],
    a: usize,
    offset: S::V,
    digits: impl Digits<S>,
) {
    // SAFETY: the caller promises that the processor supports `S` and that `a` is below `N`. Vectors start at multiples
    // of `LANES` below `N`. The rotated vectors, read `N - a` words after such a place or `a` words before it, lie in
    // the polynomial too.
    unsafe {
        let n = polynomial.len();
        let own = polynomial.as_ptr();
        let whole = a - a % S::LANES;
        let wrapped = own.add(n - a);
        for i in (0..whole).step_by(S::LANES) {
            digits_of_vector::<S, NEGATED>(S::load(wrapped.add(i)), S::load(own.add(i)), i, offset, digits);
        }
        let mut next = whole;
        if whole < a {
            // one vector takes words from both ranges: from the negated last LANES words of the polynomial, then from
            // its first LANES words
            let mut meeting = [0; 2 * LANES_MAX];
            let (last, first) = meeting.split_at_mut(S::LANES);
            last.copy_from_slice(&polynomial[n - S::LANES..]);
            for x in last.iter_mut() {
                *x = RING_MODULUS - *x;
            }
            first[..S::LANES].copy_from_slice(&polynomial[..S::LANES]);
            let r = S::load(meeting.as_ptr().add(S::LANES - a % S::LANES));
            if NEGATED {
                digits_of_vector::<S, false>(r, S::load(own.add(whole)), whole, offset, digits);
            } else {
                digits_of_vector::<S, true>(r, S::load(own.add(whole)), whole, offset, digits);
            }
            next += S::LANES;
        }
        let rest = own.wrapping_sub(a);
        for i in (next..n).step_by(S::LANES) {
            if NEGATED {
                digits_of_vector::<S, false>(S::load(rest.wrapping_add(i)), S::load(own.add(i)), i, offset, digits);
            } else {
                digits_of_vector::<S, true>(S::load(rest.wrapping_add(i)), S::load(own.add(i)), i, offset, digits);
            }
        }
    }
}

/// [`rotated_digits`] for one vector, from `r` and `x` in `[0, q]`; with `NEGATED`, `r` is negated.
#[inline(always)]
unsafe fn digits_of_vector<S: Simd, const NEGATED: bool>(
    r: S::V,
    x: S::V,
    i: usize,
    offset: S::V,
    digits: impl Digits<S>,
) {
    // SAFETY: the caller promises that the processor supports `S` and that the digits have room at `i`.
    unsafe {
        let q = S::splat(RING_MODULUS);
        // (1) difference: d <- X^a acc - acc
        let difference = if NEGATED { S::sub(S::sub(q, r), x) } else { S::sub(r, x) };
        // q is added to a negative d. So d is in [0, q], where q has the same digits as 0, because the torus word of q
        // is rounded to 0
        let difference = S::min(difference, S::add(difference, q));
        // (2) decompose: d to balanced digits, by way of its torus word
        let scaled = S::shift_left::<2>(difference);
        let torus = S::add(scaled, S::mul_high_uniform(scaled, S::splat(TORUS_CORRECTION)));
        digits.store(S::add(torus, offset), i);
    }
}

/// Stores digits for the integer transform: levels `stride` words apart, digits in `[q - B/2, q + B/2)`.
#[derive(Clone, Copy)]
struct ResidueDigits {
    digits: *mut u32,
    stride: usize,
    d: Decomposition,
}

impl<S: Simd> Digits<S> for ResidueDigits {
    #[inline(always)]
    unsafe fn store(self, raised: S::V, i: usize) {
        // SAFETY: the caller promises that the processor supports `S` and that each level has room for a vector at `i`.
        unsafe {
            let d = self.d;
            let mask = S::splat((1 << d.base_log) - 1);
            let lift = S::splat(RING_MODULUS - (1 << (d.base_log - 1)));
            let all = S::shift_right(raised, d.shift);
            for level in 0..d.levels {
                let digit = S::and(S::shift_right(all, d.base_log * (d.levels - 1 - level) as u32), mask);
                S::store(self.digits.add(level * self.stride + i), S::add(digit, lift));
            }
        }
    }
}

/// Step (4), the products with the key, for ROWS accumulators at once:
/// `sums[c] = sum over rows of digits[row] * key[row][c]`, results in `[0, 2q)`. Each word of the key is read once for
/// all accumulators. `digits` is `[ROWS][rows][N]`. The sums overwrite the first k + 1 rows of each accumulator's
/// digits, so all data stays in the L1 cache.
#[inline(always)]
unsafe fn multiply_sum<S: Simd, const COMPONENTS: usize, const ROWS: usize>(
    n: usize,
    rows: usize,
    digits: &mut [u32],
    key: &[u32],
) {
    // SAFETY: the caller promises that the processor supports `S`. There are `ROWS` times `rows` rows of `n` digits,
    // and the key has `n` times `rows` times `COMPONENTS` words.
    unsafe {
        let (q, q2, q_inverse) =
            (S::splat(RING_MODULUS), S::splat(2 * RING_MODULUS), S::splat(MODULUS.montgomery_inverse()));
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
                        // the value is in (0, 3q], so one conditional subtraction brings it below 2q
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

/// Step (6), the sum with the accumulator, for one vector, with `sum` in `[0, q]`.
#[inline(always)]
unsafe fn accumulate<S: Simd>(acc: *mut u32, sum: S::V) {
    // SAFETY: the caller promises that the processor supports `S` and that the words of a vector are at the pointer.
    unsafe {
        // (6) acc <- acc + sum
        S::store(acc, reduce::<S>(S::add(S::load(acc), sum), S::splat(RING_MODULUS)));
    }
}

/// Runs steps (1) to (6), the whole external product with the key of one `i`, for ROWS rows. Also prefetches the key of
/// the next `i`. `accumulators` is `[ROWS][k + 1][N]`, `exponents` has one exponent for each row.
#[inline(always)]
unsafe fn step<S: Transforms, const COMPONENTS: usize, const ROWS: usize>(
    tables: &NttTables,
    d: Decomposition,
    key: &[u32],
    next_key: &[u32],
    exponents: [usize; ROWS],
    accumulators: &mut [u32],
    scratch: &mut Scratch,
) {
    // SAFETY: the caller promises that the processor supports `S` and that `key` is the key of one step. The slices of
    // scratch and accumulators are checked.
    unsafe {
        let n = tables.polynomial_size();
        let rows = d.levels * COMPONENTS;
        let digits = &mut scratch.digits[..ROWS * rows * n];
        for (r, a) in exponents.into_iter().enumerate() {
            for c in 0..COMPONENTS {
                let polynomial = &accumulators[(r * COMPONENTS + c) * n..][..n];
                let digits = digits[(r * rows + c) * n..].as_mut_ptr();
                rotated_digits::<S>(polynomial, a, d.offset, ResidueDigits { digits, stride: COMPONENTS * n, d });
            }
        }
        let mut ahead = ntt::ahead_of::<S>(next_key, ROWS * rows, n);
        // (3) transform the digits
        for row in digits.chunks_exact_mut(n) {
            S::forward(tables, row, &mut ahead);
        }
        multiply_sum::<S, COMPONENTS, ROWS>(n, rows, digits, key);
        let sums = digits.chunks_exact_mut(rows * n).flat_map(|row| row[..COMPONENTS * n].chunks_exact_mut(n));
        for (polynomial, sum) in accumulators.chunks_exact_mut(n).zip(sums) {
            // (5) transform back
            S::inverse(tables, None, sum);
            for i in (0..n).step_by(S::LANES) {
                let sum = reduce::<S>(S::load(sum.as_ptr().add(i)), S::splat(RING_MODULUS));
                accumulate::<S>(polynomial.as_mut_ptr().add(i), sum);
            }
        }
    }
}

#[inline(always)]
unsafe fn group<S: Transforms>(key: &IntegerKey, inputs: &[u32], accumulators: &mut [u32], scratch: &mut Scratch) {
    // SAFETY: the caller promises that the processor supports `S`.
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
unsafe fn steps<S: Transforms, const COMPONENTS: usize>(
    key: &IntegerKey,
    inputs: &[u32],
    accumulators: &mut [u32],
    scratch: &mut Scratch,
) {
    let params = &key.params;
    let d = Decomposition::new(params);
    let words = params.accumulator_words();
    let step_words = key.words.len() / params.lwe_dimension;
    for (i, key_step) in key.words.chunks_exact(step_words).enumerate() {
        // only the first pair of rows prefetches the key of the next step, because this key then stays in the cache for
        // all rows of the group
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
    /// Implements [`BootstrapKey::rotate`] with the number-theoretic transform.
    fn rotate_group = group(key: &IntegerKey, inputs: &[u32], accumulators: &mut [u32], scratch: &mut Scratch)
}
