//! The steps of blind rotation by way of the double-precision transform: the same words as those of the integer one,
//! because every sum is rounded to the exact integer before it is reduced.
//!
//! Why that holds for every key is written down in [`representation`]: keys are loaded in a random representation, so no key
//! makes rounding errors add up. Sums are watched all the same: each is rounded to quarters, and where one is not a whole
//! number, that is, where a sum lies an eighth or more from an integer, its step is computed again in integers. A wrong word
//! would need an error of seven eighths; sums are off by some `2^-6` at most, which tests measure, with a search for worse.

use crate::cpu::for_each_chunk;
use crate::cpu::memory::{Doubles, Words};
use crate::cpu::ntt;
use crate::cpu::simd::{Isa, LANES_MAX, Simd, SimdReals};
use crate::error::Result;
use crate::tfhe::cpu::blind_rotate::compiled::Compiled;
use crate::tfhe::cpu::blind_rotate::representation::{self, represent};
use crate::tfhe::cpu::blind_rotate::{Decomposition, Digits, accumulate, accumulator_words, rotated_digits};
use crate::tfhe::cpu::fft::precise::{Pair, Roots};
use crate::tfhe::cpu::fft::{self, Complex, Sink, Tables, Take};
use crate::tfhe::{EvaluationKey, MODULUS, Params, RING_MODULUS, ring};
use crate::xof;

/// `1.5 * 2^52`: added to a number of magnitude below 2^51, leaves it rounded to an integer in the low bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// Bits of a sum in quarters that are zero where the sum is near enough to an integer.
const QUARTERS: u32 = 3;

/// A bootstrapping key in reading order, see [`key_vector`], one step after the other, rows = `l (k + 1)`, level 1
/// first; transformed from integers in `(-q, q)` ([`represent`]), divided by `q M` and by what raises the digits.
pub struct Key {
    values: Doubles,
    tables: Tables,
    /// For sums that are computed again.
    exact_tables: ntt::Tables,
    params: Params,
}

impl Key {
    /// Nothing where sums might be wrong ([`serve`]), or this instruction set has no vectors of doubles.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`]; [`crate::Error::Unavailable`] when the operating system gives no randomness.
    pub fn load(isa: Isa, threads: usize, key: &EvaluationKey) -> Result<Option<Key>> {
        if !serve(isa, &key.params) {
            return Ok(None);
        }
        let mut seed = [0; 32];
        fill_from_system(&mut seed)?;
        Key::represented(isa, threads, key, |i, step| {
            let mut uniform = vec![0; step.len()];
            xof::fill_torus(&seed, xof::DOMAIN_REPRESENTATION, i as u64, &mut uniform);
            represent(step, &uniform);
        })
        .map(Some)
    }

    /// By a representation: of step `i` and its residues, which become signed words.
    fn represented(
        isa: Isa,
        threads: usize,
        key: &EvaluationKey,
        represent: impl Fn(usize, &mut [u32]) + Send + Sync,
    ) -> Result<Key> {
        let params = key.params;
        let tables = Tables::new(isa, params.polynomial_size)?;
        let transform = KeyTransform::new(&tables, &params);
        let mut values = Doubles::zeroed(params.lwe_dimension * step_values(&params))?;
        for_each_chunk(threads, &mut values, step_values(&params), |i, out| {
            let mut step = vec![0; params.rgsw_rows() * (params.glwe_dimension + 1) * params.polynomial_size];
            key.expand_bootstrap(i, &mut step);
            represent(i, &mut step);
            transform_key(tables.isa(), &transform, &step, &mut vec![0.0; transform.roots.room()], out);
        });
        Ok(Key { values, exact_tables: ntt::Tables::new(isa, ring(params.polynomial_size)), tables, params })
    }

    /// Of zeros, to measure with.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`].
    ///
    /// # Panics
    /// Where this instruction set has no vectors of doubles.
    pub fn of_zeros(isa: Isa, params: Params) -> Result<Key> {
        let tables = Tables::new(isa, params.polynomial_size)?;
        let values = Doubles::zeroed(params.lwe_dimension * step_values(&params))?;
        Ok(Key { values, exact_tables: ntt::Tables::new(isa, ring(params.polynomial_size)), tables, params })
    }

    /// The instruction set that rotates with this key.
    pub fn isa(&self) -> Isa {
        self.tables.isa()
    }

    /// The key of step `i`.
    fn step(&self, i: usize) -> &[f64] {
        let values = step_values(&self.params);
        &self.values[i * values..][..values]
    }

    /// Its parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }
}

/// Whether sums are exact or noticed whatever the key, and this instruction set has vectors of doubles.
pub fn serve(isa: Isa, params: &Params) -> bool {
    representation::serves(isa, params)
}

/// Randomness that a maker of keys cannot know.
#[cfg(target_arch = "x86_64")]
fn fill_from_system(seed: &mut [u8]) -> Result<()> {
    getrandom::fill(seed)
        .map_err(|error| crate::Error::Unavailable(format!("no randomness from the operating system: {error}")))
}
#[cfg(not(target_arch = "x86_64"))]
fn fill_from_system(_seed: &mut [u8]) -> Result<()> {
    unreachable!("vectors of doubles are not in plain Rust")
}

/// Doubles of a step's key.
fn step_values(params: &Params) -> usize {
    params.rgsw_rows() * (params.glwe_dimension + 1) * params.polynomial_size
}

/// What one thread needs beside the accumulators.
pub struct Scratch {
    /// `[l][N]`: digits of one polynomial.
    digits: Words,
    /// `[2][N / 2]` points, [`row_distance`] apart: values of two levels, before the last pass.
    values: Doubles,
    /// `[2][BLOCK_POINTS]` points: those of a block after it.
    kept: Doubles,
    /// `[k + 1][N / 2]` points, [`row_distance`] apart: sums of products.
    sums: Doubles,
    /// Bits that must be zero in a sum: [`QUARTERS`].
    suspicious: u32,
}

impl Scratch {
    /// Room for a step of a row.
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

/// Doubles from one component's sums to the next's: not whole pages, whose lines would share their places in the cache.
fn row_distance(n: usize) -> usize {
    n + 2 * fft::BLOCK_POINTS + LINE
}

/// Doubles of a cache line.
const LINE: usize = 8;

/// The next step's key, called into the cache a few lines at a time, so that memory and arithmetic overlap.
struct Ahead<'a> {
    values: &'a [f64],
    at_once: usize,
}

impl Ahead<'_> {
    #[inline(always)]
    unsafe fn call<S: Simd>(&mut self) {
        let (now, later) = self.values.split_at(self.values.len().min(self.at_once.next_multiple_of(LINE)));
        for line in now.chunks(LINE) {
            unsafe { S::prefetch_far(line.as_ptr().cast()) };
        }
        self.values = later;
    }
}

/// Digits in `[-B/2, B/2)`, each in the highest bits of its word; levels follow each other. Vectors are made once for a
/// polynomial.
#[derive(Clone, Copy)]
struct HighDigits<S: Simd> {
    digits: *mut u32,
    n: usize,
    levels: usize,
    /// The bits of a digit.
    mask: S::V,
    /// The highest bit of every digit.
    signs: S::V,
    /// Bits of a digit, by number.
    base_log: S::V,
}

impl<S: Simd> HighDigits<S> {
    #[inline(always)]
    unsafe fn new(digits: *mut u32, n: usize, d: Decomposition) -> Self {
        let signs = (0..d.levels as u32).map(|level| 1 << (31 - d.base_log * level)).sum();
        unsafe {
            let (mask, base_log) = (S::splat(u32::MAX << (32 - d.base_log)), S::splat(d.base_log));
            Self { digits, n, levels: d.levels, mask, signs: S::splat(signs), base_log }
        }
    }
}

impl<S: Simd> Digits<S> for HighDigits<S> {
    #[inline(always)]
    unsafe fn store(self, raised: S::V, i: usize) {
        unsafe {
            // less B/2: the highest bit of each digit turned
            let mut digits = S::xor(raised, self.signs);
            S::store(self.digits.add(i), S::and(digits, self.mask));
            // a loop of one turn would cost more than what it does
            if self.levels == 2 {
                digits = S::shift_left_by(digits, self.base_log);
                S::store(self.digits.add(self.n + i), S::and(digits, self.mask));
            } else {
                for level in 1..self.levels {
                    digits = S::shift_left_by(digits, self.base_log);
                    S::store(self.digits.add(level * self.n + i), S::and(digits, self.mask));
                }
            }
        }
    }
}

/// Values of a block, kept.
struct Keep(*mut f64);

impl<S: SimdReals> Take<S> for Keep {
    #[inline(always)]
    unsafe fn take(&mut self, v: usize, x: Complex<S>) {
        unsafe { x.store(self.0.add(2 * S::REALS * v)) }
    }
}

/// Step (4) for a block of one or two rows of digits (KEPT is one less): their values times the key's,
/// `[vectors][k + 1][2][REALS]` from each of `keys` on, added to the sums. The last row's values are taken one vector at a time,
/// those of the row before are `kept`. `sums` is the block's place in the first of them, which are `apart`.
struct Products<const COMPONENTS: usize, const KEPT: usize> {
    kept: *const f64,
    keys: [*const f64; 2],
    sums: *mut f64,
    apart: usize,
    /// Whether there are no sums yet.
    first: bool,
}

impl<S: SimdReals, const COMPONENTS: usize, const KEPT: usize> Take<S> for Products<COMPONENTS, KEPT> {
    #[inline(always)]
    unsafe fn take(&mut self, v: usize, x: Complex<S>) {
        unsafe {
            // (4) multiply by the key of step i, sum up
            let at = 2 * S::REALS * v;
            let kept: [Complex<S>; KEPT] = std::array::from_fn(|_| Complex::load(self.kept.add(at)));
            for c in 0..COMPONENTS {
                let to = self.sums.add(at + c * self.apart);
                let of_key = 2 * S::REALS * (v * COMPONENTS + c);
                let mut sum = if self.first { Complex::<S>::zero() } else { Complex::load(to) };
                for row in 0..KEPT {
                    sum = sum.mul_add(kept[row], Complex::load(self.keys[row].add(of_key)));
                }
                sum.mul_add(x, Complex::load(self.keys[KEPT].add(of_key))).store(to);
            }
        }
    }
}

/// Steps (5) and (6) at the end of the transform: sums in turns of `q` to words, added to a polynomial of the accumulator;
/// `UNDO`: taken away again.
struct Accumulate<S: Simd, const UNDO: bool> {
    polynomial: *mut u32,
    points: usize,
    /// All words together by `or`, in quarters.
    any: S::V,
}

impl<S: SimdReals, const UNDO: bool> Sink<S> for Accumulate<S, UNDO> {
    /// Quarters of integers in `[0, q]`, in the low words.
    #[inline(always)]
    unsafe fn prepare(&self, x: Complex<S>) -> Complex<S> {
        unsafe {
            let (quarters, rounder) = (S::splat_real(4.0 * RING_MODULUS as f64), S::splat_real(ROUNDER));
            let re = S::mul_add(S::fraction(x.re), quarters, rounder);
            Complex { re, im: S::mul_add(S::fraction(x.im), quarters, rounder) }
        }
    }

    #[inline(always)]
    unsafe fn take(&mut self, at: usize, [x, y]: [Complex<S>; 2]) {
        unsafe {
            for (at, words) in [(at, S::low_words(x.re, y.re)), (at + self.points, S::low_words(x.im, y.im))] {
                self.any = S::or(self.any, words);
                let sum = S::shift_right(words, 2);
                let sum = if UNDO { S::sub(S::splat(RING_MODULUS), sum) } else { sum };
                accumulate::<S>(self.polynomial.add(at), sum);
            }
        }
    }
}

/// Steps (5) and (6): the sums of one component to its polynomial of the accumulator; `UNDO`: away from it, after they
/// were added. All sums together by `or`, in quarters.
#[inline(always)]
pub(in crate::tfhe::cpu) unsafe fn add_sums<S: SimdReals, const UNDO: bool>(
    tables: &Tables,
    values: &mut [f64],
    polynomial: &mut [u32],
) -> u32 {
    unsafe {
        // (5) transform back
        if !UNDO {
            fft::inverse_passes::<S>(tables, values);
        }
        let points = values.len() / 2;
        let mut sink = Accumulate::<S, UNDO> { polynomial: polynomial.as_mut_ptr(), points, any: S::splat(0) };
        fft::last_inverse_pass::<S>(tables, values.as_ptr(), &mut sink);
        let mut lanes = [0; LANES_MAX];
        S::store(lanes.as_mut_ptr(), sink.any);
        lanes.iter().fold(0, |all, lane| all | lane)
    }
}

/// Steps (1) to (4) of one row for one i: leaves the sums, in turns of `q`. `accumulator` is `[k + 1][N]`.
///
/// Two levels of the digits at a time, so that their values and the sums stay in the first-level cache while the key
/// streams by.
#[inline(always)]
unsafe fn sums_in_turns<S: Compiled, const COMPONENTS: usize>(
    key: &Key,
    i: usize,
    exponent: usize,
    accumulator: &[u32],
    scratch: &mut Scratch,
    ahead: &[f64],
) {
    unsafe {
        let (tables, d) = (&key.tables, Decomposition::new(&key.params));
        let n = tables.polynomial_size();
        let blocks = n / (2 * fft::BLOCK_POINTS);
        let at_once = ahead.len().div_ceil(blocks * d.levels * COMPONENTS);
        let mut ahead = Ahead { values: ahead, at_once };
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

/// Steps (3) and (4) of one or two levels of the digits (KEPT is one less), from `level` on, with their key from `key_row` on.
#[inline(always)]
unsafe fn sums_of_rows<S: Compiled, const COMPONENTS: usize, const KEPT: usize>(
    tables: &Tables,
    key_row: *const f64,
    level: usize,
    scratch: &mut Scratch,
    ahead: &mut Ahead,
    first: bool,
) {
    unsafe {
        let n = tables.polynomial_size();
        let (block_values, apart) = (2 * fft::BLOCK_POINTS, row_distance(n));
        // (3) transform the digits
        for row in 0..=KEPT {
            let digits = &scratch.digits[(level + row) * n..][..n];
            S::forward_passes(tables, digits, &mut scratch.values[row * apart..][..n]);
        }
        let (values, kept) = (scratch.values.as_ptr(), scratch.kept.as_mut_ptr());
        for block in 0..n / block_values {
            let at = block * block_values;
            let keys = std::array::from_fn(|row| key_row.wrapping_add((row * n + at) * COMPONENTS));
            let sums = scratch.sums.as_mut_ptr().add(at);
            let mut products = Products::<COMPONENTS, KEPT> { kept, keys, sums, apart, first };
            ahead.call::<S>();
            if KEPT == 1 {
                fft::last_block::<S>(tables, values, block, &mut Keep(kept));
                ahead.call::<S>();
            }
            let last = values.add(KEPT * apart);
            if S::REALS == 8 {
                fft::last_block::<S>(tables, last, block, &mut products);
            } else {
                // registers are too few for both at once
                let kept = kept.add(block_values);
                fft::last_block::<S>(tables, last, block, &mut Keep(kept));
                for v in 0..fft::BLOCK_POINTS / S::REALS {
                    products.take(v, Complex::<S>::load(kept.add(2 * S::REALS * v)));
                }
            }
        }
    }
}

/// All steps of one row for one i.
#[inline(always)]
unsafe fn step<S: Compiled, const COMPONENTS: usize>(
    key: &Key,
    i: usize,
    exponent: usize,
    accumulator: &mut [u32],
    scratch: &mut Scratch,
    ahead: &[f64],
) {
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

/// The sums of a step once more by the integer transform, instead of those that were added.
#[cold]
#[inline(never)]
unsafe fn add_exact_sums<S: SimdReals>(
    key: &Key,
    i: usize,
    exponent: usize,
    accumulator: &mut [u32],
    scratch: &mut Scratch,
) {
    let n = key.params.polynomial_size;
    for (sums, polynomial) in scratch.sums.chunks_exact_mut(row_distance(n)).zip(accumulator.chunks_exact_mut(n)) {
        // SAFETY: the caller enabled the instruction set. All passes but the last are done.
        unsafe { add_sums::<S, true>(&key.tables, &mut sums[..n], polynomial) };
    }
    // SAFETY: as above.
    let sums = unsafe { exact_sums::<S>(key, i, exponent, accumulator) };
    for (x, sum) in accumulator.iter_mut().zip(sums) {
        *x = MODULUS.add(*x, sum);
    }
}

/// The sums of a step by the integer transform, `[k + 1][N]` residues. The key's integers are those that its values are
/// the transform of.
unsafe fn exact_sums<S: SimdReals>(key: &Key, i: usize, exponent: usize, accumulator: &[u32]) -> Vec<u32> {
    let (n, d) = (key.params.polynomial_size, Decomposition::new(&key.params));
    let (components, rows) = (key.params.glwe_dimension + 1, key.params.rgsw_rows());
    let mut digits = vec![0; rows * n];
    for (c, polynomial) in accumulator.chunks_exact(n).enumerate() {
        let mut levels = vec![0; d.levels * n];
        // SAFETY: the caller enabled the instruction set.
        unsafe { rotated_digits::<S>(polynomial, exponent, d.offset, HighDigits::new(levels.as_mut_ptr(), n, d)) };
        for (level, words) in levels.chunks_exact(n).enumerate() {
            let row = &mut digits[(level * components + c) * n..][..n];
            for (x, &word) in row.iter_mut().zip(words) {
                *x = MODULUS.from_signed(word as i32 >> (32 - d.base_log));
            }
        }
    }
    ntt::forward_all(&key.exact_tables, &mut digits);
    let mut sums = vec![0; components * n];
    for (c, total) in sums.chunks_exact_mut(n).enumerate() {
        for (row, digits) in digits.chunks_exact(n).enumerate() {
            // SAFETY: the caller enabled the instruction set.
            let mut words = unsafe { key_polynomial::<S>(key, i, c, row) };
            ntt::forward_all(&key.exact_tables, &mut words);
            for ((total, &digit), &word) in total.iter_mut().zip(digits).zip(&words) {
                *total = MODULUS.add(*total, MODULUS.mul(digit, word));
            }
        }
        ntt::inverse_all(&key.exact_tables, total);
        let inverse_degree = MODULUS.inverse(n as u32);
        for x in total {
            *x = MODULUS.mul(MODULUS.reduce_once(*x), inverse_degree);
        }
    }
    sums
}

/// A polynomial of step `i` of the key in integers, `[N]` residues: rounded, they are exact by a margin of thousands.
unsafe fn key_polynomial<S: SimdReals>(key: &Key, i: usize, c: usize, row: usize) -> Vec<u32> {
    let n = key.params.polynomial_size;
    let raise = ((32 - key.params.bootstrap_base_log) as f64).exp2();
    let mut values = vec![0.0; n];
    for (v, to) in values.chunks_exact_mut(2 * S::REALS).enumerate() {
        let from = key_vector(&key.params, S::REALS, v, row, c);
        for (to, x) in to.iter_mut().zip(&key.step(i)[from..]) {
            *to = x * raise;
        }
    }
    let mut words = vec![0; n];
    // SAFETY: the caller enabled the instruction set.
    unsafe {
        add_sums::<S, false>(&key.tables, &mut values, &mut words);
    }
    words
}

/// Where vector `v` of a polynomial lies in a step of the key: `[k + 1][l][M / REALS][k + 1][2][REALS]`.
fn key_vector(params: &Params, reals: usize, v: usize, row: usize, c: usize) -> usize {
    let components = params.glwe_dimension + 1;
    let row = row % components * params.bootstrap_level_count + row / components;
    ((row * params.polynomial_size / 2 / reals + v) * components + c) * 2 * reals
}

/// What transforms the steps of a key.
struct KeyTransform {
    roots: Roots,
    /// `1 / (q M)`, divided by what raises the digits.
    scale: Pair,
    params: Params,
}

impl KeyTransform {
    fn new(tables: &Tables, params: &Params) -> KeyTransform {
        let points = params.polynomial_size / 2;
        let reals = tables.isa().reals().expect("vectors of doubles");
        let power = (-((32 - params.bootstrap_base_log) as f64)).exp2() / points as f64;
        let scale = Pair::of(power).over(Pair::of(f64::from(RING_MODULUS)));
        KeyTransform { roots: Roots::new(points, reals), scale, params: *params }
    }
}

/// A step's signed words, `[rows][k + 1][N]`, to their place in reading order.
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
    reals fn transform_key =
        transform_step(transform: &KeyTransform, step: &[u32], room: &mut [f64], out: &mut [f64])
}

#[inline(always)]
unsafe fn group<S: Compiled>(key: &Key, inputs: &[u32], accumulators: &mut [u32], scratch: &mut Scratch) {
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
    key: &Key,
    inputs: &[u32],
    accumulators: &mut [u32],
    scratch: &mut Scratch,
) {
    let params = &key.params;
    let words = accumulator_words(params);
    // each row calls its share of the next step's key
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
    /// Blind rotation of a group of rows in lock step: `inputs` is `[rows][n + 1]` exponents in `[0, 2N)`,
    /// `accumulators` is `[rows][k + 1][N]`, started by [`super::start`].
    reals pub fn rotate_group = group(key: &Key, inputs: &[u32], accumulators: &mut [u32], scratch: &mut Scratch)
}

#[cfg(test)]
mod tests;
