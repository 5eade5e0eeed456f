//! The double-precision transform on vectors: negacyclic products of integers that are exact after rounding.
//!
//! `N` real coefficients are `M = N/2` complex points `z_j = a_j + i a_(j+M)`. Products of points modulo `X^M - i` are
//! negacyclic products of the reals. `forward` maps points in natural order to values in *reading order*; `inverse`
//! maps them back, times `M`. Reading order is the order of the values at `X = r_k` after the recursion
//! `X^2h - w^2 = (X^h - w)(X^h + w)`, transposed within squares of `REALS` vectors. The order differs between vector
//! widths, and only this folder depends on it.
//!
//! Memory layout: `[M / REALS][2][REALS]`, alternating vectors of real parts and of imaginary parts.
//!
//! `forward` is a Cooley-Tukey transform, decimated in time: twiddles come before butterflies, and the twist is folded
//! into the twiddles, as in `ntt.rs`. So a group has one set of twiddles. A pass runs several stages at once with
//! butterflies of a higher radix. The kind of butterfly depends on the CPU:
//!
//! * Without separate adders, twiddles are in tangent form ([`tangent`]). `inverse` is the usual inverse transform: one
//!   twiddle for each place, and the twist at the end. Passes have radix 8 where vectors have 8 reals, because such
//!   CPUs have 32 registers. Their squares have six stages.
//! * With separate adders, twiddles are real and imaginary parts ([`cartesian`]). `inverse` undoes `forward`: it is
//!   decimated in frequency, with the same twiddles and without a twist. Passes have radix 4. Such a pass has three
//!   products and eight sums, in shorter dependency chains than four butterflies. Short chains matter, because such
//!   passes wait for their own results and not for execution units.
//!
//! Every output of a stage is rounded once or twice and its twiddle once, each to `2^-53` of its size.
//! `blind_rotate/representation.rs` bounds the resulting error, and `blind_rotate/reals/tests.rs` measures it. Keys
//! use [`precise`], with the same order of values.

mod cartesian;
pub(super) mod precise;
mod tables;
mod tangent;

use crate::cpu::simd::SimdReals;
pub use tables::{FftTables, vectors};

/// Points of a block. The last forward pass and the first inverse pass stay within a block. A block is one square of
/// vectors of 8 reals, or four squares of vectors of 4.
pub(super) const BLOCK_POINTS: usize = 64;

/// A vector of complex numbers.
#[derive(Clone, Copy)]
pub(super) struct Complex<S: SimdReals> {
    pub(super) re: S::R,
    pub(super) im: S::R,
}

impl<S: SimdReals> Complex<S> {
    #[inline(always)]
    pub(super) unsafe fn load(from: *const f64) -> Self {
        // SAFETY: the caller promises that the processor supports `S` and that two vectors are at the pointer.
        unsafe { Complex { re: S::load_reals(from), im: S::load_reals(from.add(S::REALS)) } }
    }

    #[inline(always)]
    pub(super) unsafe fn store(self, to: *mut f64) {
        // SAFETY: the caller promises that the processor supports `S` and that two vectors are at the pointer.
        unsafe {
            S::store_reals(to, self.re);
            S::store_reals(to.add(S::REALS), self.im);
        }
    }

    #[inline(always)]
    pub(super) unsafe fn zero() -> Self {
        // SAFETY: the caller promises that the processor supports `S`.
        unsafe { Complex { re: S::splat_real(0.0), im: S::splat_real(0.0) } }
    }

    #[inline(always)]
    unsafe fn mul(self, w: Self) -> Self {
        // SAFETY: the caller promises that the processor supports `S`.
        unsafe {
            Complex {
                re: S::neg_mul_add(self.im, w.im, S::mul_reals(self.re, w.re)),
                im: S::mul_add(self.im, w.re, S::mul_reals(self.re, w.im)),
            }
        }
    }

    /// `self + y w`.
    #[inline(always)]
    pub(super) unsafe fn mul_add(self, y: Self, w: Self) -> Self {
        // SAFETY: the caller promises that the processor supports `S`.
        unsafe {
            Complex {
                re: S::neg_mul_add(y.im, w.im, S::mul_add(y.re, w.re, self.re)),
                im: S::mul_add(y.im, w.re, S::mul_add(y.re, w.im, self.im)),
            }
        }
    }
}

/// Consumes the vectors of a block after the last forward pass, while they are in registers. This is a trait with
/// inlined methods and not a closure, because a closure might not be inlined and would then lack the instruction set.
pub(super) trait Take<S: SimdReals> {
    /// Consumes vector `v` of a block.
    unsafe fn take(&mut self, v: usize, x: Complex<S>);
}

/// Consumes the results of the last inverse pass while they are in registers.
pub(super) trait Sink<S: SimdReals> {
    /// Prepares a vector of results for `take`.
    unsafe fn prepare(&self, x: Complex<S>) -> Complex<S>;
    /// Consumes two vectors of consecutive points, from `at` on.
    unsafe fn take(&mut self, at: usize, pair: [Complex<S>; 2]);
}

/// `(x + y, x - y)`.
#[inline(always)]
unsafe fn sum_and_difference<S: SimdReals>(x: Complex<S>, y: Complex<S>) -> (Complex<S>, Complex<S>) {
    // SAFETY: the caller promises that the processor supports `S`.
    unsafe {
        let sum = Complex { re: S::add_reals(x.re, y.re), im: S::add_reals(x.im, y.im) };
        (sum, Complex { re: S::sub_reals(x.re, y.re), im: S::sub_reals(x.im, y.im) })
    }
}

/// `(x + i y, x - i y)`.
#[inline(always)]
unsafe fn sum_and_difference_by_i<S: SimdReals>(x: Complex<S>, y: Complex<S>) -> (Complex<S>, Complex<S>) {
    // SAFETY: the caller promises that the processor supports `S`.
    unsafe {
        let sum = Complex { re: S::sub_reals(x.re, y.im), im: S::add_reals(x.im, y.re) };
        (sum, Complex { re: S::add_reals(x.re, y.im), im: S::sub_reals(x.im, y.re) })
    }
}

/// Applies the forward stages of one pass to RADIX vectors. `twiddle(i)` is real `i` of their twiddles.
#[inline(always)]
unsafe fn stages<S: SimdReals, const RADIX: usize>(
    v: [Complex<S>; RADIX],
    twiddle: impl Fn(usize) -> S::R,
) -> [Complex<S>; RADIX] {
    // SAFETY: the caller promises that the processor supports `S`.
    unsafe { if S::SEPARATE_ADDERS { cartesian::stages(v, twiddle) } else { tangent::stages(v, twiddle) } }
}

/// Applies the inverse stages of one pass to RADIX vectors. Results are multiplied by RADIX. With separate adders, the
/// twiddles are those of [`stages`]; else each place has its own twiddles.
#[inline(always)]
unsafe fn inverse_stages<S: SimdReals, const RADIX: usize>(
    v: [Complex<S>; RADIX],
    twiddle: impl Fn(usize) -> S::R,
) -> [Complex<S>; RADIX] {
    // SAFETY: the caller promises that the processor supports `S`.
    unsafe { if S::SEPARATE_ADDERS { cartesian::undo_stages(v, twiddle) } else { tangent::inverse_stages(v, twiddle) } }
}

/// The twiddles of a group, broadcast to all lanes. They are read before a loop that stores values, because the
/// compiler must assume that a store changes the tables.
#[inline(always)]
unsafe fn broadcast<S: SimdReals, const RADIX: usize>(twiddles: *const f64) -> [S::R; tangent::TWIDDLE_REALS] {
    // SAFETY: the caller promises that the processor supports `S` and that the twiddles of the radix are at the pointer.
    unsafe {
        let mut out = [S::splat_real(0.0); tangent::TWIDDLE_REALS];
        let number = if S::SEPARATE_ADDERS { cartesian::reals_of(RADIX) } else { tangent::reals_of(RADIX) };
        for i in 0..number {
            out[i] = S::splat_real(*twiddles.add(i));
        }
        out
    }
}

/// Runs the first forward pass, from `[N]` signed integers to `[M / REALS][2][REALS]` values.
#[inline(always)]
unsafe fn first_pass<S: SimdReals, const RADIX: usize>(tables: &FftTables, words: *const u32, out: *mut f64) {
    // SAFETY: the caller promises that the processor supports `S`. There are `N` words and room for `N` values. Vectors
    // lie `stride` apart, and `RADIX` times `stride` is the number of all points.
    unsafe {
        let points = tables.polynomial_size / 2;
        let stride = points / RADIX;
        let twiddles = broadcast::<S, RADIX>(tables.first.as_ptr());
        for at in (0..stride).step_by(S::REALS) {
            let v: [Complex<S>; RADIX] = std::array::from_fn(|i| {
                let from = words.add(at + i * stride);
                Complex { re: S::from_words(from), im: S::from_words(from.add(points)) }
            });
            let v = stages(v, |i| twiddles[i]);
            for i in 0..RADIX {
                v[i].store(out.add(2 * (at + i * stride)));
            }
        }
    }
}

/// Runs a forward pass in place. The first stage of the pass has `groups` groups.
#[inline(always)]
unsafe fn pass<S: SimdReals, const RADIX: usize>(tables: &FftTables, values: *mut f64, groups: usize) {
    // SAFETY: the caller promises that the processor supports `S` and that there are `N` values. The `RADIX` vectors of
    // a group lie `stride` apart, within the group's `length`.
    unsafe {
        let length = tables.polynomial_size / groups;
        let stride = length / RADIX;
        for group in 0..groups {
            let twiddles = broadcast::<S, RADIX>(tables.of_group::<S>(groups + group));
            for at in (0..stride).step_by(2 * S::REALS) {
                let base = values.add(group * length + at);
                let v: [Complex<S>; RADIX] = std::array::from_fn(|i| Complex::load(base.add(i * stride)));
                let v = stages(v, |i| twiddles[i]);
                for i in 0..RADIX {
                    v[i].store(base.add(i * stride));
                }
            }
        }
    }
}

/// An inverse pass after the passes within blocks. Passes are numbered from 1. The first stage of this pass joins
/// points that lie `half` apart.
#[derive(Clone, Copy)]
struct InversePass {
    number: usize,
    half: usize,
    last: bool,
}

impl InversePass {
    /// The twiddles of a group, if inverse stages take them by group.
    #[inline(always)]
    unsafe fn of_group<S: SimdReals, const RADIX: usize>(
        self,
        tables: &FftTables,
        group: usize,
    ) -> [S::R; tangent::TWIDDLE_REALS] {
        // SAFETY: the caller promises that the processor supports `S`, that the tables are made for it, and that
        // `group` is a group of this pass.
        unsafe {
            if !S::SEPARATE_ADDERS {
                return [S::splat_real(0.0); tangent::TWIDDLE_REALS];
            }
            let groups = tables.polynomial_size / 2 / (self.half * RADIX);
            let twiddles = if self.last { tables.first.as_ptr() } else { tables.of_group::<S>(groups + group) };
            broadcast::<S, RADIX>(twiddles)
        }
    }

    /// Loads the vectors at point `at` of a group, which lie `half` points apart, and applies the stages of this pass.
    #[inline(always)]
    unsafe fn vectors<S: SimdReals, const RADIX: usize>(
        self,
        tables: &FftTables,
        values: *const f64,
        at: usize,
        of_group: &[S::R; tangent::TWIDDLE_REALS],
    ) -> [Complex<S>; RADIX] {
        // SAFETY: the caller promises that the processor supports `S` and that `values` is a group of `RADIX` times
        // `half` points. The tables have twiddles for each place `at` below `half`.
        unsafe {
            let from = values.add(2 * at);
            let v: [Complex<S>; RADIX] = std::array::from_fn(|i| Complex::load(from.add(2 * i * self.half)));
            if S::SEPARATE_ADDERS {
                inverse_stages(v, |i| of_group[i])
            } else {
                let twiddles = tables.of_places(self.number).add(at * tangent::reals_of(RADIX));
                inverse_stages(v, |i| S::load_reals(twiddles.add(i * S::REALS)))
            }
        }
    }

    /// Runs the pass in place.
    #[inline(always)]
    unsafe fn run<S: SimdReals, const RADIX: usize>(self, tables: &FftTables, values: *mut f64) {
        // SAFETY: the caller promises that the processor supports `S` and that there are `N` values, a whole number of
        // groups of this pass.
        unsafe {
            for group in 0..tables.polynomial_size / 2 / (self.half * RADIX) {
                let values = values.add(2 * group * self.half * RADIX);
                let of_group = self.of_group::<S, RADIX>(tables, group);
                for at in (0..self.half).step_by(S::REALS) {
                    let v = self.vectors::<S, RADIX>(tables, values, at, &of_group);
                    for i in 0..RADIX {
                        v[i].store(values.add(2 * (at + i * self.half)));
                    }
                }
            }
        }
    }

    /// Runs the last inverse pass and gives the results to a [`Sink`]. Without separate adders, the results are first
    /// multiplied by the twist.
    #[inline(always)]
    unsafe fn run_last<S: SimdReals, const RADIX: usize>(
        self,
        tables: &FftTables,
        values: *const f64,
        sink: &mut impl Sink<S>,
    ) {
        // SAFETY: the caller promises that the processor supports `S` and that there are `N` values. All of them form
        // the only group of the last pass, and the table of twists has as many values.
        unsafe {
            let of_group = self.of_group::<S, RADIX>(tables, 0);
            for at in (0..self.half).step_by(2 * S::REALS) {
                let mut pair = [[Complex::zero(); RADIX]; 2];
                for second in 0..2 {
                    let at = at + second * S::REALS;
                    let v = self.vectors::<S, RADIX>(tables, values, at, &of_group);
                    for i in 0..RADIX {
                        let twist = tables.twist.as_ptr().add(2 * (at + i * self.half));
                        let x = if S::SEPARATE_ADDERS { v[i] } else { v[i].mul(Complex::load(twist)) };
                        pair[second][i] = sink.prepare(x);
                    }
                }
                for i in 0..RADIX {
                    sink.take(at + i * self.half, [pair[0][i], pair[1][i]]);
                }
            }
        }
    }
}

/// Number of stages of the first forward pass, and of the last inverse pass: the stages that remain beside the whole
/// passes and the stages within a block.
const fn stages_of_first_pass(reals: usize, points: usize) -> u32 {
    // the stages within vectors (3 for eight reals, 2 for four) and the stages before them in the same block (3 or 1)
    let of_block = if reals == 8 { 6 } else { 3 };
    (points.ilog2() - of_block - 1) % reals.ilog2() + 1
}

/// The number of stages of each inverse pass, starting with the first pass. Forward passes have the same numbers in
/// reverse order.
pub(super) fn stages_of_passes(reals: usize, points: usize) -> Vec<u32> {
    let (of_block, whole) = if reals == 8 { (vec![3, 3], 3) } else { (vec![2, 1], 2) };
    let last = stages_of_first_pass(reals, points);
    let between = (points.ilog2() - of_block.iter().sum::<u32>() - last) / whole;
    of_block.into_iter().chain((0..between).map(|_| whole)).chain([last]).collect()
}

/// The number of points of a group when only the passes within blocks remain.
const fn points_of_last_pass<S: SimdReals>() -> usize {
    if S::REALS == 8 { 64 } else { 8 }
}

/// Runs the forward passes that come before the passes within blocks, from `[N]` signed integers in `words` to
/// `[M / REALS][2][REALS]` values.
#[inline(always)]
pub(super) unsafe fn forward_passes<S: SimdReals>(tables: &FftTables, words: &[u32], out: &mut [f64]) {
    // SAFETY: the caller promises that the processor supports `S` and that there are `N` words and `N` values. Each
    // pass processes all points, group by group.
    unsafe {
        let points = tables.polynomial_size / 2;
        let (words, out) = (words.as_ptr(), out.as_mut_ptr());
        let mut done = stages_of_first_pass(S::REALS, points);
        match done {
            1 => first_pass::<S, 2>(tables, words, out),
            2 => first_pass::<S, 4>(tables, words, out),
            _ => first_pass::<S, 8>(tables, words, out),
        }
        while points >> done > points_of_last_pass::<S>() {
            match S::REALS {
                4 => pass::<S, 4>(tables, out, 1 << done),
                _ => pass::<S, 8>(tables, out, 1 << done),
            }
            done += S::REALS.ilog2();
        }
    }
}

/// Runs the last forward pass for one block.
#[inline(always)]
pub(super) unsafe fn last_block<S: SimdReals>(
    tables: &FftTables,
    values: *const f64,
    block: usize,
    sink: &mut impl Take<S>,
) {
    // SAFETY: the caller promises that the processor supports `S` and that `values` contains the block, which is one
    // square or four.
    unsafe {
        match S::REALS {
            4 => {
                for i in 0..4 {
                    last_square::<S, 4>(tables, values, 4 * block + i, 4 * i, sink);
                }
            }
            _ => last_square::<S, 8>(tables, values, block, 0, sink),
        }
    }
}

/// Runs the last forward pass for one square of RADIX vectors, starting at `first` in the block: stages between
/// vectors, then within them.
#[inline(always)]
unsafe fn last_square<S: SimdReals, const RADIX: usize>(
    tables: &FftTables,
    values: *const f64,
    square: usize,
    first: usize,
    sink: &mut impl Take<S>,
) {
    // SAFETY: the caller promises that the processor supports `S` and that `values` contains the square. For each
    // square, the tables contain the twiddles of the square's group and the twiddles of its lanes.
    unsafe {
        let squares = tables.polynomial_size / 2 / (RADIX * RADIX);
        let values = values.add(2 * RADIX * RADIX * square);
        let v: [Complex<S>; RADIX] = std::array::from_fn(|i| Complex::load(values.add(2 * S::REALS * i)));
        let of_group = tables.of_group::<S>(squares + square);
        let of_group = |i: usize| S::splat_real(*of_group.add(i));
        let v = if RADIX == 4 { cartesian::second_stage(v, of_group) } else { stages(v, of_group) };
        let of_lane = tables.of_lanes::<S>(square);
        let v = stages(transpose(v), |i| S::load_reals(of_lane.add(i * S::REALS)));
        for i in 0..RADIX {
            sink.take(first + i, v[i]);
        }
    }
}

/// Runs the first inverse pass for one block, in place.
#[inline(always)]
unsafe fn first_inverse_block<S: SimdReals>(tables: &FftTables, values: *mut f64, block: usize) {
    // SAFETY: the caller promises that the processor supports `S` and that `values` contains the block, which is one
    // square or four.
    unsafe {
        match S::REALS {
            4 => {
                for square in 4 * block..4 * block + 4 {
                    first_inverse_square::<S, 4>(tables, values, square);
                }
            }
            _ => first_inverse_square::<S, 8>(tables, values, block),
        }
    }
}

#[inline(always)]
unsafe fn first_inverse_square<S: SimdReals, const RADIX: usize>(tables: &FftTables, values: *mut f64, square: usize) {
    // SAFETY: as for `last_square`.
    unsafe {
        let values = values.add(2 * RADIX * RADIX * square);
        let v: [Complex<S>; RADIX] = std::array::from_fn(|i| Complex::load(values.add(2 * S::REALS * i)));
        let v = if RADIX == 4 {
            let squares = tables.polynomial_size / 2 / (RADIX * RADIX);
            let (of_lane, of_group) = (tables.of_lanes::<S>(square), tables.of_group::<S>(squares + square));
            let v = inverse_stages(v, |i| S::load_reals(of_lane.add(i * S::REALS)));
            cartesian::undo_second_stage(transpose(v), |i| S::splat_real(*of_group.add(i)))
        } else {
            let of_place = tables.of_places(0);
            inverse_stages(transpose(tangent::first_inverse_stages(v)), |i| S::load_reals(of_place.add(i * S::REALS)))
        };
        for i in 0..RADIX {
            v[i].store(values.add(2 * S::REALS * i));
        }
    }
}

/// Transposes a square of vectors: element `j` of vector `i` becomes element `i` of vector `j`.
#[inline(always)]
unsafe fn transpose<S: SimdReals, const RADIX: usize>(v: [Complex<S>; RADIX]) -> [Complex<S>; RADIX] {
    // SAFETY: the caller promises that the processor supports `S`.
    unsafe {
        let (mut re, mut im) = (S::square_of_reals(), S::square_of_reals());
        for i in 0..RADIX {
            (re.as_mut()[i], im.as_mut()[i]) = (v[i].re, v[i].im);
        }
        S::transpose_reals(&mut re);
        S::transpose_reals(&mut im);
        std::array::from_fn(|i| Complex { re: re.as_mut()[i], im: im.as_mut()[i] })
    }
}

/// Runs all inverse passes but the last, in place.
#[inline(always)]
pub(super) unsafe fn inverse_passes<S: SimdReals>(tables: &FftTables, values: &mut [f64]) {
    // SAFETY: the caller promises that the processor supports `S` and that there are `N` values, a whole number of blocks.
    unsafe {
        let points = tables.polynomial_size / 2;
        for block in 0..points / BLOCK_POINTS {
            first_inverse_block::<S>(tables, values.as_mut_ptr(), block);
        }
        let mut pass = InversePass { number: 1, half: points_of_last_pass::<S>(), last: false };
        while pass.half < points >> stages_of_first_pass(S::REALS, points) {
            match S::REALS {
                4 => pass.run::<S, 4>(tables, values.as_mut_ptr()),
                _ => pass.run::<S, 8>(tables, values.as_mut_ptr()),
            }
            pass = InversePass { number: pass.number + 1, half: pass.half * S::REALS, last: false };
        }
    }
}

/// Runs the last inverse pass. The pass leaves `values` unchanged and writes to `sink`.
#[inline(always)]
pub(super) unsafe fn last_inverse_pass<S: SimdReals>(tables: &FftTables, values: *const f64, sink: &mut impl Sink<S>) {
    // SAFETY: the caller promises that the processor supports `S` and that there are `N` values.
    unsafe {
        let points = tables.polynomial_size / 2;
        let stages = stages_of_first_pass(S::REALS, points);
        let last = InversePass { number: tables.last_place(), half: points >> stages, last: true };
        match stages {
            1 => last.run_last::<S, 2>(tables, values, sink),
            2 => last.run_last::<S, 4>(tables, values, sink),
            _ => last.run_last::<S, 8>(tables, values, sink),
        }
    }
}

/// Transforms `[N]` signed integers to `[M / REALS][2][REALS]` values.
#[cfg(test)]
#[inline(always)]
pub(super) unsafe fn forward<S: SimdReals>(tables: &FftTables, words: &[u32], out: &mut [f64]) {
    // SAFETY: the caller promises that the processor supports `S` and that there are `N` words and `N` values. Each
    // block is read and written only in its own chunk.
    unsafe {
        forward_passes::<S>(tables, words, out);
        for (block, to) in out.chunks_exact_mut(2 * BLOCK_POINTS).enumerate() {
            let to = to.as_mut_ptr();
            last_block::<S>(tables, to.sub(2 * BLOCK_POINTS * block), block, &mut InPlace(to));
        }
    }
}

/// A [`Take`] that stores the block in place.
#[cfg(test)]
struct InPlace(*mut f64);

#[cfg(test)]
impl<S: SimdReals> Take<S> for InPlace {
    #[inline(always)]
    unsafe fn take(&mut self, v: usize, x: Complex<S>) {
        // SAFETY: the caller promises that the processor supports `S` and that `v` is a vector of the block.
        unsafe { x.store(self.0.add(2 * S::REALS * v)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::Isa;

    #[inline(always)]
    unsafe fn there_and_back<S: SimdReals>(tables: &FftTables, words: &[u32], values: &mut [f64]) {
        // SAFETY: the caller enabled the instruction set.
        unsafe {
            forward::<S>(tables, words, values);
            inverse_passes::<S>(tables, values);
            last_inverse_pass::<S>(tables, values.as_ptr(), &mut Store(values.as_mut_ptr()));
        }
    }

    struct Store(*mut f64);

    impl<S: SimdReals> Sink<S> for Store {
        unsafe fn prepare(&self, x: Complex<S>) -> Complex<S> {
            x
        }
        unsafe fn take(&mut self, at: usize, [x, y]: [Complex<S>; 2]) {
            // SAFETY: the caller promises that the processor supports `S` and that two vectors of points start at `at`.
            unsafe {
                x.store(self.0.add(2 * at));
                y.store(self.0.add(2 * (at + S::REALS)));
            }
        }
    }

    crate::cpu::simd::dispatch! {
        reals fn round_trip = there_and_back(tables: &FftTables, words: &[u32], values: &mut [f64])
    }

    #[test]
    #[cfg_attr(not(vectors_of_doubles), ignore = "this processor has no vectors of doubles")]
    fn inverse_undoes_forward_times_half_the_degree() {
        for isa in Isa::available() {
            for n in [256, 512, 1024, 2048, 4096] {
                let Some((narrower, lanes)) = vectors(isa, n) else { continue };
                let tables = FftTables::new(isa, n).expect("memory");
                let words: Vec<u32> = (0..n as u32).map(|i| (i ^ 5).wrapping_mul(2_891_336_453)).collect();
                let mut values = vec![0.0; n];
                round_trip(narrower, &tables, &words, &mut values);
                for (i, &word) in words.iter().enumerate() {
                    let (point, part) = (i % (n / 2), i / (n / 2));
                    let found = values[(point / lanes * 2 + part) * lanes + point % lanes] / (n / 2) as f64;
                    assert!((found - f64::from(word as i32)).abs() < 1e-5, "{isa:?} {n}, coefficient {i}: {found}");
                }
            }
        }
    }
}
