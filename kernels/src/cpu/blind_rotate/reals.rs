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
use crate::cpu::fft::{self, Complex, Tables};
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

/// A bootstrapping key in reading order: `[n][blocks][REALS][rows][k + 1][2][REALS]` doubles, rows = `l (k + 1)`, level
/// 1 first; transformed from residues in `[-q/2, q/2)`, divided by `q M` and by what raises the digits.
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
    /// `[rows][N / 2]` points: digits' values, then in the first k + 1 rows sums.
    values: Doubles,
    /// `[k + 1][N]`: sums in quarters.
    sums: Words,
    /// Bits that must be zero in a sum: [`QUARTERS`].
    suspicious: u32,
}

impl Scratch {
    /// Room for a step of a row.
    pub fn new(params: &Params) -> Result<Scratch> {
        let n = params.polynomial_size;
        Ok(Scratch {
            digits: Words::zeroed(params.bootstrap_level_count * n)?,
            values: Doubles::zeroed(params.rgsw_rows() * n)?,
            sums: Words::zeroed((params.glwe_dimension + 1) * n)?,
            suspicious: QUARTERS,
        })
    }
}

/// Doubles of a cache line.
const LINE: usize = 8;

/// What a step of a row calls into the caches.
#[derive(Clone, Copy)]
struct Calls<'a> {
    /// Whether the step's key may be further away than the second level: no row of the group had it yet.
    first: bool,
    /// The row's share of the next step's key.
    ahead: &'a [f64],
}

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

/// Digits in `[-B/2, B/2)`, each in the highest bits of its word; levels follow each other.
#[derive(Clone, Copy)]
struct HighDigits {
    digits: *mut u32,
    n: usize,
    /// The highest bit of every digit.
    signs: u32,
}

impl HighDigits {
    fn new(digits: *mut u32, n: usize, d: Decomposition) -> Self {
        let signs = (0..d.levels as u32).map(|level| 1 << (31 - d.base_log * level)).sum();
        Self { digits, n, signs }
    }
}

impl Digits for HighDigits {
    #[inline(always)]
    unsafe fn store<S: Simd>(self, raised: S::V, i: usize, d: Decomposition) {
        unsafe {
            let mask = S::splat(u32::MAX << (32 - d.base_log));
            // less B/2: the highest bit of each digit turned
            let digits = S::xor(raised, S::splat(self.signs));
            let store = |level: usize| {
                let high = S::shift_left_by(digits, d.base_log * level as u32);
                S::store(self.digits.add(level * self.n + i), S::and(high, mask));
            };
            S::store(self.digits.add(i), S::and(digits, mask));
            // a loop of one turn would cost more than what it does
            if d.levels == 2 {
                store(1);
            } else {
                (1..d.levels).for_each(store);
            }
        }
    }
}

/// Step (4) for a block: `values` is its place in the first of the rows, which are `n` apart; the sums take the place
/// of the first k + 1 of them.
#[inline(always)]
unsafe fn multiply_sum<S: SimdReals, const COMPONENTS: usize>(
    n: usize,
    rows: usize,
    values: *mut f64,
    key: *const f64,
) {
    unsafe {
        let mut key = key;
        // (4) multiply by the key of step i, sum up
        for v in 0..fft::BLOCK_POINTS / S::REALS {
            let at = values.add(2 * S::REALS * v);
            let mut sums = [Complex::<S>::zero(); COMPONENTS];
            for row in 0..rows {
                let digit = Complex::<S>::load(at.add(row * n));
                for c in 0..COMPONENTS {
                    sums[c] = sums[c].mul_add(digit, Complex::load(key));
                    key = key.add(2 * S::REALS);
                }
            }
            for c in 0..COMPONENTS {
                sums[c].store(at.add(c * n));
            }
        }
    }
}

/// Sums in turns of `q`, a vector of them, to quarters of whole ones: in the low words, signed.
#[inline(always)]
unsafe fn quarters<S: SimdReals>(turns: *const f64) -> S::R {
    unsafe {
        let fraction = S::fraction(S::load_reals(turns));
        S::mul_add(fraction, S::splat_real(4.0 * RING_MODULUS as f64), S::splat_real(ROUNDER))
    }
}

/// Sums in turns of `q` as the transform leaves them to `[N]` words: signed, in quarters. All words together by `or`.
#[inline(always)]
unsafe fn round_sums<S: SimdReals>(values: &[f64], sums: &mut [u32]) -> u32 {
    unsafe {
        let mut any = S::splat(0);
        let points = values.len() / 2;
        for at in (0..points).step_by(S::LANES) {
            let vectors = values.as_ptr().add(2 * at);
            for part in 0..2 {
                let first = quarters::<S>(vectors.add(part * S::REALS));
                let words = S::low_words(first, quarters::<S>(vectors.add((2 + part) * S::REALS)));
                any = S::or(any, words);
                S::store(sums.as_mut_ptr().add(part * points + at), words);
            }
        }
        let mut lanes = [0; LANES_MAX];
        S::store(lanes.as_mut_ptr(), any);
        lanes.iter().fold(0, |all, lane| all | lane)
    }
}

/// Steps (1) to (5) of one row for one i: leaves the sums, in turns of `q`, in the first k + 1 rows of the scratch's
/// values. `accumulator` is `[k + 1][N]`.
#[inline(always)]
unsafe fn sums_in_turns<S: SimdReals, const COMPONENTS: usize>(
    key: &Key,
    i: usize,
    exponent: usize,
    accumulator: &[u32],
    scratch: &mut Scratch,
    calls: Calls,
) {
    unsafe {
        let (tables, d) = (&key.tables, Decomposition::new(&key.params));
        let (n, rows) = (tables.polynomial_size(), d.levels * COMPONENTS);
        for (c, polynomial) in accumulator.chunks_exact(n).enumerate() {
            rotated_digits::<S>(polynomial, exponent, d, HighDigits::new(scratch.digits.as_mut_ptr(), n, d));
            // (3) transform the digits
            for (level, digits) in scratch.digits.chunks_exact(n).enumerate() {
                let row = level * COMPONENTS + c;
                S::fft_forward_passes(tables, digits, &mut scratch.values[row * n..][..n]);
            }
        }
        let block_values = 2 * fft::BLOCK_POINTS;
        let blocks = n / block_values;
        let at_once = calls.ahead.len().div_ceil(blocks * (rows + COMPONENTS));
        let mut ahead = Ahead { values: calls.ahead, at_once };
        let values = scratch.values.as_mut_ptr();
        for block in 0..blocks {
            let key_block = key.step(i)[block * block_values * rows * COMPONENTS..].as_ptr();
            for row in 0..rows {
                // the block's key comes nearer meanwhile
                if S::CALLS_NEAR || calls.first {
                    for line in 0..block_values * COMPONENTS / LINE {
                        S::prefetch(key_block.add(row * block_values * COMPONENTS + line * LINE).cast());
                    }
                }
                ahead.call::<S>();
                fft::last_block::<S>(tables, values.add(row * n), block);
            }
            multiply_sum::<S, COMPONENTS>(n, rows, values.add(block * block_values), key_block);
            for c in 0..COMPONENTS {
                ahead.call::<S>();
                fft::first_inverse_block::<S>(tables, values.add(c * n), block);
            }
        }
        // (5) transform back
        for values in scratch.values.chunks_exact_mut(n).take(COMPONENTS) {
            S::fft_inverse_passes(tables, values);
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
    calls: Calls,
) {
    unsafe {
        let n = key.tables.polynomial_size();
        sums_in_turns::<S, COMPONENTS>(key, i, exponent, accumulator, scratch, calls);
        let mut bits = 0;
        for (values, sums) in scratch.values.chunks_exact(n).zip(scratch.sums.chunks_exact_mut(n)) {
            bits |= round_sums::<S>(values, sums);
        }
        if bits & scratch.suspicious != 0 {
            exact_sums::<S>(key, i, exponent, accumulator, &mut scratch.sums);
        }
        for (polynomial, sum) in accumulator.chunks_exact_mut(n).zip(scratch.sums.chunks_exact(n)) {
            for at in (0..n).step_by(S::LANES) {
                let sum = S::shift_right_signed::<2>(S::load(sum.as_ptr().add(at)));
                let sum = S::min(sum, S::add(sum, S::splat(RING_MODULUS)));
                accumulate::<S>(polynomial.as_mut_ptr().add(at), sum);
            }
        }
    }
}

/// The sums of a step by the integer transform, in quarters. The key's integers are those that its values are the
/// transform of.
#[cold]
#[inline(never)]
unsafe fn exact_sums<S: SimdReals>(key: &Key, i: usize, exponent: usize, accumulator: &[u32], sums: &mut [u32]) {
    let (n, d) = (key.params.polynomial_size, Decomposition::new(&key.params));
    let (components, rows) = (key.params.glwe_dimension + 1, key.params.rgsw_rows());
    let residues = |words: &mut [u32], shift: u32| {
        for x in words.iter_mut() {
            *x = modular::from_signed(*x as i32 >> shift);
        }
    };
    let mut digits = vec![0; rows * n];
    for (c, polynomial) in accumulator.chunks_exact(n).enumerate() {
        let mut levels = vec![0; d.levels * n];
        // SAFETY: the caller enabled the instruction set.
        unsafe { rotated_digits::<S>(polynomial, exponent, d, HighDigits::new(levels.as_mut_ptr(), n, d)) };
        residues(&mut levels, 32 - d.base_log);
        for (level, words) in levels.chunks_exact(n).enumerate() {
            digits[(level * components + c) * n..][..n].copy_from_slice(words);
        }
    }
    ntt::forward_all(&key.exact_tables, &mut digits);
    let (mut values, mut words) = (vec![0.0; n], vec![0; n]);
    for (c, sum) in sums.chunks_exact_mut(n).enumerate() {
        let mut total = vec![0; n];
        for (row, digits) in digits.chunks_exact(n).enumerate() {
            // SAFETY: the caller enabled the instruction set.
            unsafe { key_polynomial::<S>(key, i, row * components + c, &mut values, &mut words) };
            residues(&mut words, 2);
            ntt::forward_all(&key.exact_tables, &mut words);
            for ((total, &digit), &word) in total.iter_mut().zip(digits).zip(&words) {
                *total = modular::add(*total, modular::mul(digit, word));
            }
        }
        ntt::inverse_all(&key.exact_tables, &mut total);
        let inverse_degree = modular::inverse(n as u32);
        for (sum, &x) in sum.iter_mut().zip(&total) {
            *sum = (centred(modular::mul(x, inverse_degree)) as u32) << 2;
        }
    }
}

/// The integers of polynomial `at` of step `i`, `[N]`, signed, in quarters: rounded, they are exact by a margin of
/// thousands.
unsafe fn key_polynomial<S: SimdReals>(key: &Key, i: usize, at: usize, values: &mut [f64], words: &mut [u32]) {
    let polynomials = key.params.rgsw_rows() * (key.params.glwe_dimension + 1);
    let raise = ((32 - key.params.bootstrap_base_log) as f64).exp2();
    let vectors = key.step(i).chunks_exact(2 * S::REALS).skip(at).step_by(polynomials);
    for (to, vector) in values.chunks_exact_mut(2 * S::REALS).zip(vectors) {
        for (to, x) in to.iter_mut().zip(vector) {
            *to = x * raise;
        }
    }
    // SAFETY: the caller enabled the instruction set.
    unsafe {
        fft::inverse::<S>(&key.tables, values);
        round_sums::<S>(values, words);
    }
}

/// A residue in `[-q/2, q/2]`.
fn centred(x: u32) -> i32 {
    x as i32 - if x > RING_MODULUS / 2 { RING_MODULUS as i32 } else { 0 }
}

#[inline(always)]
unsafe fn transform_step<S: SimdReals>(tables: &Tables, params: &Params, step: &mut [u32], out: &mut [f64]) {
    let (n, components, rows) = (params.polynomial_size, params.glwe_dimension + 1, params.rgsw_rows());
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
            let to = &mut out[((v * rows + row) * components + c) * 2 * S::REALS..][..2 * S::REALS];
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
        for (row, ((input, accumulator), ahead)) in rows.zip(shares).enumerate() {
            let calls = Calls { first: row == 0, ahead };
            // SAFETY: the caller enabled the instruction set.
            unsafe { step::<S, COMPONENTS>(key, i, input[i] as usize, accumulator, scratch, calls) };
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

    /// The largest distance of a sum from the exact one.
    #[inline(always)]
    unsafe fn distance_of<S: SimdReals>(key: &Key, accumulator: &[u32], largest: &mut f64) {
        let n = key.params.polynomial_size;
        let scratch = &mut Scratch::new(&key.params).expect("memory");
        let calls = Calls { first: true, ahead: &[] };
        // SAFETY: the caller enabled the instruction set.
        unsafe {
            match key.params.glwe_dimension {
                1 => sums_in_turns::<S, 2>(key, 0, n, accumulator, scratch, calls),
                _ => sums_in_turns::<S, 4>(key, 0, n, accumulator, scratch, calls),
            }
            exact_sums::<S>(key, 0, n, accumulator, &mut scratch.sums);
        }
        let q = f64::from(RING_MODULUS);
        for (values, sums) in scratch.values.chunks_exact(n).zip(scratch.sums.chunks_exact(n)) {
            for (at, &sum) in sums.iter().enumerate() {
                let (point, part) = (at % (n / 2), at / (n / 2));
                let turns = values[(point / S::REALS * 2 + part) * S::REALS + point % S::REALS];
                let off = (turns - turns.round()) * q - f64::from(sum as i32 >> 2);
                *largest = largest.max(off.abs().min(q - off.abs()));
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
