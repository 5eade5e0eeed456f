//! The steps of blind rotation by way of the double-precision transform: the same words as those of the integer one,
//! because every sum is rounded to the exact integer before it is reduced.
//!
//! A sum is below `2^50` in magnitude, so doubles hold it with a fraction of three bits or more. What the transforms
//! add to it grows with the norms of digits and key: for random ones it is at most `2^-7` (the largest of the presets'
//! coefficients), for random digits and any key at most `2^-6`. Only where digits and key are constant, or nearly, is
//! it more, up to `2^-1.5`; a test measures all of these. So sums are watched: each is rounded to quarters, and where
//! one is not a whole number, that is, where a sum lies an eighth or more from an integer, its step is computed again
//! in integers. A wrong word would need an error of seven eighths.

use crate::cpu::blind_rotate::{Decomposition, Digits, accumulate, accumulator_words, rotated_digits};
use crate::cpu::fft::{self, Complex, Sink, Tables, Take};
use crate::cpu::for_each_chunk;
use crate::cpu::memory::{Doubles, Words};
use crate::cpu::ntt;
use crate::cpu::simd::{Isa, LANES_MAX, Simd, SimdReals};
use crate::error::Result;
use crate::modular::{self, RING_MODULUS};
use crate::tfhe::{EvaluationKey, Params};

/// Sums of products must stay below this.
const SUM_MAX: u128 = 1 << 50;

/// `1.5 * 2^52`: added to a number of magnitude below 2^51, leaves it rounded to an integer in the low bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// Bits of a sum in quarters that are zero where the sum is near enough to an integer.
const QUARTERS: u32 = 3;

/// A bootstrapping key in reading order, see [`key_vector`], one step after the other, rows = `l (k + 1)`, level 1
/// first; transformed from residues in `[-q/2, q/2)`, divided by `q M` and by what raises the digits.
pub struct Key {
    values: Doubles,
    tables: Tables,
    /// For sums that are computed again.
    exact_tables: ntt::Tables,
    params: Params,
}

impl Key {
    /// Nothing where sums might be too large, or this instruction set has no vectors of doubles.
    pub fn load(isa: Isa, threads: usize, key: &EvaluationKey) -> Result<Option<Key>> {
        let params = key.params;
        if !serve(isa, &params) {
            return Ok(None);
        }
        let tables = Tables::new(isa, params.polynomial_size)?;
        let mut values = Doubles::zeroed(params.lwe_dimension * step_values(&params))?;
        for_each_chunk(threads, &mut values, step_values(&params), |i, out| {
            let mut step = vec![0; params.rgsw_rows() * (params.glwe_dimension + 1) * params.polynomial_size];
            key.expand_bootstrap(i, &mut step);
            transform_key(tables.isa(), &tables, &params, &mut step, out);
        });
        Ok(Some(Key { values, exact_tables: ntt::Tables::new(isa, params.polynomial_size), tables, params }))
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

/// Whether sums are small enough, and this instruction set has vectors of doubles.
pub fn serve(isa: Isa, params: &Params) -> bool {
    let products = (params.rgsw_rows() * params.polynomial_size) as u128;
    let sum = products * (1 << (params.bootstrap_base_log - 1)) * (RING_MODULUS / 2) as u128;
    sum < SUM_MAX && fft::vectors(isa, params.polynomial_size).is_some()
}

/// Doubles of a step's key.
fn step_values(params: &Params) -> usize {
    params.rgsw_rows() * (params.glwe_dimension + 1) * params.polynomial_size
}

/// What one thread needs beside the accumulators.
pub struct Scratch {
    /// `[l][N]`: digits of one polynomial.
    digits: Words,
    /// `[N / 2]` points: their values.
    values: Doubles,
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
            values: Doubles::zeroed(n)?,
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

/// Step (4) for one row of digits and a block: its values times the key's, `[vectors][k + 1][2][REALS]`, added to the
/// sums; `sums` is the block's place in the first of them, which are `apart`.
struct Products<const COMPONENTS: usize> {
    key: *const f64,
    sums: *mut f64,
    apart: usize,
    /// Whether there are no sums yet.
    first: bool,
}

impl<S: SimdReals, const COMPONENTS: usize> Take<S> for Products<COMPONENTS> {
    #[inline(always)]
    unsafe fn take(&mut self, v: usize, x: Complex<S>) {
        unsafe {
            // (4) multiply by the key of step i, sum up
            for c in 0..COMPONENTS {
                let at = self.sums.add(2 * S::REALS * v + c * self.apart);
                let sum = if self.first { Complex::<S>::zero() } else { Complex::load(at) };
                sum.mul_add(x, Complex::load(self.key.add(2 * S::REALS * (v * COMPONENTS + c)))).store(at);
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
pub(in crate::cpu) unsafe fn add_sums<S: SimdReals, const UNDO: bool>(
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
/// Row by row of the digits, so that one of them, its values and the sums stay in the first-level cache while the key
/// streams by.
#[inline(always)]
unsafe fn sums_in_turns<S: SimdReals, const COMPONENTS: usize>(
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
        let (block_values, apart) = (2 * fft::BLOCK_POINTS, row_distance(n));
        let mut key_block = key.step(i).as_ptr();
        let at_once = ahead.len().div_ceil(n / block_values * d.levels * COMPONENTS);
        let mut ahead = Ahead { values: ahead, at_once };
        for (c, polynomial) in accumulator.chunks_exact(n).enumerate() {
            let to = HighDigits::<S>::new(scratch.digits.as_mut_ptr(), n, d);
            rotated_digits::<S>(polynomial, exponent, d.offset, to);
            for (level, digits) in scratch.digits.chunks_exact(n).enumerate() {
                // (3) transform the digits
                S::fft_forward_passes(tables, digits, &mut scratch.values);
                let sums = scratch.sums.as_mut_ptr();
                for block in 0..n / block_values {
                    ahead.call::<S>();
                    let (sums, first) = (sums.add(block * block_values), c + level == 0);
                    let mut products = Products::<COMPONENTS> { key: key_block, sums, apart, first };
                    fft::last_block::<S>(tables, scratch.values.as_ptr(), block, &mut products);
                    key_block = key_block.add(block_values * COMPONENTS);
                }
            }
        }
    }
}

/// All steps of one row for one i.
#[inline(always)]
unsafe fn step<S: SimdReals, const COMPONENTS: usize>(
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
        *x = modular::add(*x, sum);
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
                *x = modular::from_signed(word as i32 >> (32 - d.base_log));
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
                *total = modular::add(*total, modular::mul(digit, word));
            }
        }
        ntt::inverse_all(&key.exact_tables, total);
        let inverse_degree = modular::inverse(n as u32);
        for x in total {
            *x = modular::mul(modular::reduce_once(*x), inverse_degree);
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

/// A residue in `[-q/2, q/2]`.
fn centred(x: u32) -> i32 {
    x as i32 - if x > RING_MODULUS / 2 { RING_MODULUS as i32 } else { 0 }
}

#[inline(always)]
unsafe fn transform_step<S: SimdReals>(tables: &Tables, params: &Params, step: &mut [u32], out: &mut [f64]) {
    let (n, components) = (params.polynomial_size, params.glwe_dimension + 1);
    let scale = (-((32 - params.bootstrap_base_log) as f64)).exp2() / (n / 2) as f64 / RING_MODULUS as f64;
    let mut values = vec![0.0; n];
    for (at, polynomial) in step.chunks_exact_mut(n).enumerate() {
        for x in polynomial.iter_mut() {
            *x = centred(*x) as u32;
        }
        // SAFETY: the caller enabled the instruction set.
        unsafe { fft::forward::<S>(tables, polynomial, &mut values) };
        let (row, c) = (at / components, at % components);
        for (v, vector) in values.chunks_exact(2 * S::REALS).enumerate() {
            let to = &mut out[key_vector(params, S::REALS, v, row, c)..];
            for (to, x) in to.iter_mut().zip(vector) {
                *to = x * scale;
            }
        }
    }
}

crate::cpu::simd::dispatch! {
    reals fn transform_key = transform_step(tables: &Tables, params: &Params, step: &mut [u32], out: &mut [f64])
}

#[inline(always)]
unsafe fn group<S: SimdReals>(key: &Key, inputs: &[u32], accumulators: &mut [u32], scratch: &mut Scratch) {
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
unsafe fn steps<S: SimdReals, const COMPONENTS: usize>(
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
mod tests {
    use super::*;
    use crate::tfhe::Preset;

    /// Shapes of the presets, and the instruction sets that have vectors of doubles.
    fn cases() -> impl Iterator<Item = (Params, Isa)> {
        // the third preset has the first one's shape
        let shapes = [Preset::Fast128, Preset::Conservative128].map(Preset::params);
        let all = shapes.into_iter().flat_map(|params| Isa::available().into_iter().map(move |isa| (params, isa)));
        all.filter(|(params, isa)| serve(*isa, params))
    }

    fn random(seed: u32) -> impl FnMut() -> u32 {
        let mut state = u64::from(seed) << 32 | 1;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        }
    }

    /// A key of the steps whose residues `word` gives, of their number in the step.
    fn key(params: Params, isa: Isa, steps: usize, mut word: impl FnMut(usize) -> u32) -> Key {
        let tables = Tables::new(isa, params.polynomial_size).expect("memory");
        let mut values = Doubles::zeroed(steps * step_values(&params)).expect("memory");
        for out in values.chunks_exact_mut(step_values(&params)) {
            let mut step: Vec<u32> = (0..out.len()).map(&mut word).collect();
            transform_key(tables.isa(), &tables, &params, &mut step, out);
        }
        Key { values, exact_tables: ntt::Tables::new(isa, params.polynomial_size), tables, params }
    }

    /// The accumulator whose difference from its rotation by `N` is `d`.
    fn accumulator(params: &Params, d: impl FnMut(usize) -> u32) -> Vec<u32> {
        let minus_half = RING_MODULUS - modular::inverse(2);
        (0..accumulator_words(params)).map(d).map(|d| modular::mul(d, minus_half)).collect()
    }

    /// Sums in turns against residues: the largest distance.
    struct Distance<'a> {
        sums: &'a [u32],
        largest: &'a mut f64,
    }

    impl<S: SimdReals> Sink<S> for Distance<'_> {
        unsafe fn prepare(&self, x: Complex<S>) -> Complex<S> {
            x
        }
        unsafe fn take(&mut self, at: usize, pair: [Complex<S>; 2]) {
            let q = f64::from(RING_MODULUS);
            for (i, vector) in pair.iter().enumerate() {
                for (at, part) in [(at, vector.re), (at + self.sums.len() / 2, vector.im)] {
                    let mut turns = [0.0; LANES_MAX];
                    // SAFETY: the caller enabled the instruction set.
                    unsafe { S::store_reals(turns.as_mut_ptr(), part) };
                    for (turns, &sum) in turns.iter().zip(&self.sums[at + i * S::REALS..][..S::REALS]) {
                        let off = (turns - turns.round()) * q - f64::from(sum);
                        *self.largest = self.largest.max(off.abs().min((q + off).abs()));
                    }
                }
            }
        }
    }

    /// The largest distance of a sum from the exact one.
    #[inline(always)]
    unsafe fn distance_of<S: SimdReals>(key: &Key, accumulator: &[u32], largest: &mut f64) {
        let n = key.params.polynomial_size;
        let scratch = &mut Scratch::new(&key.params).expect("memory");
        // SAFETY: the caller enabled the instruction set.
        unsafe {
            match key.params.glwe_dimension {
                1 => sums_in_turns::<S, 2>(key, 0, n, accumulator, scratch, &[]),
                _ => sums_in_turns::<S, 4>(key, 0, n, accumulator, scratch, &[]),
            }
            let exact = exact_sums::<S>(key, 0, n, accumulator);
            for (values, sums) in scratch.sums.chunks_exact_mut(row_distance(n)).zip(exact.chunks_exact(n)) {
                fft::inverse_passes::<S>(&key.tables, &mut values[..n]);
                fft::last_inverse_pass::<S>(&key.tables, values.as_ptr(), &mut Distance { sums, largest });
            }
        }
    }

    crate::cpu::simd::dispatch! {
        reals fn distance = distance_of(key: &Key, accumulator: &[u32], largest: &mut f64)
    }

    /// A difference whose digits are all `-B/2`.
    fn lowest(params: &Params) -> u32 {
        let base = f64::from(1 << params.bootstrap_base_log);
        let turns: f64 = (1..=params.bootstrap_level_count).map(|level| -base / 2.0 * base.powi(-(level as i32))).sum();
        (turns.rem_euclid(1.0) * f64::from(RING_MODULUS)).round() as u32
    }

    /// Number `which` of patterns of `[N]` that take two values, and one that takes all.
    fn pattern(which: usize, params: &Params, values: [u32; 2]) -> impl FnMut(usize) -> u32 {
        let n = params.polynomial_size;
        let mut noise = random(which as u32);
        let signs: Vec<bool> = (0..n).map(|_| noise() & 1 == 1).collect();
        move |at| match which {
            0 => values[0],
            1 => values[at % 2],
            2 => values[usize::from(at % n < n / 2)],
            3 => values[usize::from(signs[at % n])],
            _ => noise() % RING_MODULUS,
        }
    }
    const PATTERNS: [&str; 5] = ["all alike", "alternating", "halves", "random signs", "random"];

    /// The key of this pattern, of values as large as residues are.
    fn patterned_key(which: usize, params: Params, isa: Isa) -> Key {
        let steps = params.lwe_dimension;
        key(params, isa, steps, pattern(which, &params, [RING_MODULUS / 2 + 1, RING_MODULUS / 2]))
    }

    /// A difference of this pattern, of digits as large as they are.
    fn patterned_accumulator(which: usize, params: &Params) -> Vec<u32> {
        let low = lowest(params);
        accumulator(params, pattern(which, params, [low, RING_MODULUS - low]))
    }

    fn shortened(params: Params, lwe_dimension: usize) -> Params {
        Params::try_from(crate::tfhe::ParamsLiteral { lwe_dimension, ..*params }).expect("a shorter preset")
    }

    #[test]
    fn sums_lie_near_the_exact_integers_and_nearer_than_is_seen_for_the_worst_keys_and_digits_known() {
        for (params, isa) in cases() {
            let n = params.polynomial_size;
            for (k, key_pattern) in PATTERNS.iter().enumerate() {
                let key = patterned_key(k, shortened(params, 1), isa);
                for (d, digit_pattern) in PATTERNS.iter().enumerate() {
                    let mut largest = 0.0;
                    distance(key.isa(), &key, &patterned_accumulator(d, &params), &mut largest);
                    let what = format!("{} {n}: key {key_pattern}, digits {digit_pattern}", isa.name());
                    println!("{what}: 2^{:.2}", f64::log2(largest));
                    let bound = match (*key_pattern, *digit_pattern) {
                        ("random", "random") => 1.0 / 128.0,
                        (_, "random") => 1.0 / 64.0,
                        _ => 0.5,
                    };
                    assert!(largest < bound, "{what}: {largest}");
                }
            }
        }
    }

    #[test]
    fn a_suspicious_sum_is_computed_again_to_the_exact_words() {
        for (params, isa) in cases() {
            let params = shortened(params, 3);
            let n = params.polynomial_size as u32;
            for (k, key_pattern) in PATTERNS.iter().enumerate() {
                let key = patterned_key(k, params, isa);
                for d in 0..PATTERNS.len() {
                    let rotate = |suspicious: u32| {
                        let mut accumulator = patterned_accumulator(d, &params);
                        let scratch = &mut Scratch { suspicious, ..Scratch::new(&params).expect("memory") };
                        rotate_group(key.isa(), &key, &[n, 2 * n - 3, 77, 0], &mut accumulator, scratch);
                        accumulator
                    };
                    // the second computes every step again
                    assert!(rotate(QUARTERS) == rotate(u32::MAX), "{} {n}: key {key_pattern}", isa.name());
                }
            }
        }
    }
}
