//! The double-precision transform on vectors: negacyclic products of integers whose rounded results are exact.
//!
//! `N` real coefficients are `M = N/2` complex points `z_j = a_j + i a_(j+M)`; their products modulo `X^M - i` are the
//! negacyclic products of the reals. `forward`: points in natural order to values in *reading order*; `inverse`: back,
//! times `M`. Reading order is that of the values `X = r_k` after the recursion `X^2h - w^2 = (X^h - w)(X^h + w)`,
//! transposed within squares of `REALS` vectors; it differs between vector widths, and nobody but this folder knows it.
//!
//! Memory: `[M / REALS][2][REALS]`, a vector of real parts and one of imaginary parts in turn.
//!
//! `forward` is Cooley-Tukey with the twist folded into the roots, as in `ntt.rs`: a root a group. How the stages are
//! taken depends on the processor:
//!
//! - Where sums are done by the units of fused products, a butterfly that multiplies before it adds is six fused
//!   operations, the other way round it is eight. So `inverse` is the textbook's: a root a place, and the twist at the
//!   end. Passes are of three stages where vectors have 8 reals (and registers are 32), squares of six.
//! - Where sums have units of their own, eight operations are no dearer: `inverse` is `forward` undone, with the same
//!   roots and no twist. Passes are of two stages, whose three products and eight sums are not as deep as four
//!   butterflies: such passes wait for their own results rather than for units.
//!
//! Every output of a butterfly is rounded twice and its root once, each to `2^-53` of its size; what comes of that is
//! measured where it matters, in `blind_rotate/reals.rs`.

mod tables;

use crate::cpu::simd::SimdReals;
use tables::lane_roots_of_square;
pub use tables::{Tables, vectors};

/// Points of a block, within which the last forward and the first inverse pass stay: a square of vectors of 8, four
/// squares of vectors of 4.
pub(super) const BLOCK_POINTS: usize = 64;

/// A vector of complex numbers.
#[derive(Clone, Copy)]
pub(super) struct Complex<S: SimdReals> {
    re: S::R,
    im: S::R,
}

impl<S: SimdReals> Complex<S> {
    #[inline(always)]
    pub(super) unsafe fn load(from: *const f64) -> Self {
        unsafe { Complex { re: S::load_reals(from), im: S::load_reals(from.add(S::REALS)) } }
    }

    #[inline(always)]
    pub(super) unsafe fn store(self, to: *mut f64) {
        unsafe {
            S::store_reals(to, self.re);
            S::store_reals(to.add(S::REALS), self.im);
        }
    }

    #[inline(always)]
    unsafe fn splat([re, im]: [f64; 2]) -> Self {
        unsafe { Complex { re: S::splat_real(re), im: S::splat_real(im) } }
    }

    #[inline(always)]
    pub(super) unsafe fn zero() -> Self {
        unsafe { Self::splat([0.0; 2]) }
    }

    #[inline(always)]
    unsafe fn mul(self, w: Self) -> Self {
        unsafe {
            Complex {
                re: S::neg_mul_add(self.im, w.im, S::mul_reals(self.re, w.re)),
                im: S::mul_add(self.im, w.re, S::mul_reals(self.re, w.im)),
            }
        }
    }

    /// By the conjugate of `w`.
    #[inline(always)]
    unsafe fn mul_conjugate(self, w: Self) -> Self {
        unsafe {
            Complex {
                re: S::mul_add(self.im, w.im, S::mul_reals(self.re, w.re)),
                im: S::neg_mul_add(self.re, w.im, S::mul_reals(self.im, w.re)),
            }
        }
    }

    /// By `i` and the conjugate of `w`.
    #[inline(always)]
    unsafe fn mul_i_conjugate(self, w: Self) -> Self {
        unsafe {
            Complex {
                re: S::neg_mul_add(self.im, w.re, S::mul_reals(self.re, w.im)),
                im: S::mul_add(self.im, w.im, S::mul_reals(self.re, w.re)),
            }
        }
    }

    /// `self + y w`.
    #[inline(always)]
    pub(super) unsafe fn mul_add(self, y: Self, w: Self) -> Self {
        unsafe {
            Complex {
                re: S::neg_mul_add(y.im, w.im, S::mul_add(y.re, w.re, self.re)),
                im: S::mul_add(y.im, w.re, S::mul_add(y.re, w.im, self.im)),
            }
        }
    }

    /// `self + i y w`.
    #[inline(always)]
    unsafe fn mul_add_i(self, y: Self, w: Self) -> Self {
        unsafe {
            Complex {
                re: S::neg_mul_add(y.im, w.re, S::neg_mul_add(y.re, w.im, self.re)),
                im: S::neg_mul_add(y.im, w.im, S::mul_add(y.re, w.re, self.im)),
            }
        }
    }
}

/// `(x + w y, x - w y)`, the second as `2x - (x + w y)`.
#[inline(always)]
unsafe fn butterfly<S: SimdReals>(x: Complex<S>, y: Complex<S>, w: Complex<S>) -> (Complex<S>, Complex<S>) {
    unsafe {
        let (two, sum) = (S::splat_real(2.0), x.mul_add(y, w));
        (sum, Complex { re: S::mul_sub(two, x.re, sum.re), im: S::mul_sub(two, x.im, sum.im) })
    }
}

/// The same for `w = 1`.
#[inline(always)]
unsafe fn butterfly_by_one<S: SimdReals>(x: Complex<S>, y: Complex<S>) -> (Complex<S>, Complex<S>) {
    unsafe {
        let sum = Complex { re: S::add_reals(x.re, y.re), im: S::add_reals(x.im, y.im) };
        (sum, Complex { re: S::sub_reals(x.re, y.re), im: S::sub_reals(x.im, y.im) })
    }
}

/// The same for `w = i`.
#[inline(always)]
unsafe fn butterfly_by_i<S: SimdReals>(x: Complex<S>, y: Complex<S>) -> (Complex<S>, Complex<S>) {
    unsafe {
        let sum = Complex { re: S::sub_reals(x.re, y.im), im: S::add_reals(x.im, y.re) };
        (sum, Complex { re: S::add_reals(x.re, y.im), im: S::sub_reals(x.im, y.re) })
    }
}

/// `(x + i w y, x - i w y)`.
#[inline(always)]
unsafe fn butterfly_by_i_times<S: SimdReals>(x: Complex<S>, y: Complex<S>, w: Complex<S>) -> (Complex<S>, Complex<S>) {
    unsafe {
        let (two, sum) = (S::splat_real(2.0), x.mul_add_i(y, w));
        (sum, Complex { re: S::mul_sub(two, x.re, sum.re), im: S::mul_sub(two, x.im, sum.im) })
    }
}

/// The roots of a pass: for one stage its own; for two stages one each and the product of both; for three stages one,
/// one and two. Other parts' are `i` or `-i` times these. (They are read before a loop that stores: for all that the
/// compiler knows, a store might change the tables.)
type Roots<S> = [Complex<S>; 4];

/// A group's for a forward pass, one for all lanes; `group`: groups of the first stage and the number of this one.
#[inline(always)]
unsafe fn group_roots_of<S: SimdReals, const RADIX: usize>(tables: &Tables, group: usize) -> Roots<S> {
    unsafe {
        let at = |i: usize| Complex::splat(*tables.group_roots.get_unchecked(i));
        let zero = Complex::zero();
        match RADIX {
            2 => [at(group), zero, zero, zero],
            4 => [at(group), at(2 * group), Complex::splat(*tables.group_products.get_unchecked(group)), zero],
            _ => [at(group), at(2 * group), at(4 * group), at(4 * group + 2)],
        }
    }
}

/// A place's for an inverse pass; `stride`: distance of the first stage, in vectors.
#[inline(always)]
unsafe fn place_roots_of<S: SimdReals, const RADIX: usize>(tables: &Tables, stride: usize, at: usize) -> Roots<S> {
    unsafe {
        let at = |i: usize| Complex::load(tables.place_roots.as_ptr().add(2 * S::REALS * (i * stride + at)));
        let zero = Complex::zero();
        match RADIX {
            2 => [at(1), zero, zero, zero],
            4 => [at(1), at(2), zero, zero],
            _ => [at(1), at(2), at(4), at(5)],
        }
    }
}

/// A square's for the stages within vectors.
#[inline(always)]
unsafe fn lane_roots_of<S: SimdReals>(tables: &Tables, square: usize) -> Roots<S> {
    unsafe {
        let number = lane_roots_of_square(S::REALS);
        let first = tables.lane_roots.as_ptr().add(2 * S::REALS * number * square);
        std::array::from_fn(|i| if i < number { Complex::load(first.add(2 * S::REALS * i)) } else { Complex::zero() })
    }
}

/// Butterflies between vectors of `$v`: for each root, the pairs it serves, and those that `i` or `-i` times it does.
macro_rules! butterflies {
    ($v:ident, $roots:ident; $($root:literal: $($x:literal $y:literal),+;
        $(by_i: $($ix:literal $iy:literal),+;)? $(by_minus_i: $($jx:literal $jy:literal),+;)?)+) => {{
        $(
            $(($v[$x], $v[$y]) = butterfly($v[$x], $v[$y], $roots[$root]);)+
            $($(($v[$ix], $v[$iy]) = butterfly_by_i_times($v[$ix], $v[$iy], $roots[$root]);)+)?
            $($(($v[$jy], $v[$jx]) = butterfly_by_i_times($v[$jx], $v[$jy], $roots[$root]);)+)?
        )+
    }};
}

/// RADIX vectors through as many forward stages as halve it to one.
#[inline(always)]
unsafe fn stages<S: SimdReals, const RADIX: usize>(mut v: [Complex<S>; RADIX], roots: Roots<S>) -> [Complex<S>; RADIX] {
    unsafe {
        match RADIX {
            2 => butterflies!(v, roots; 0: 0 1;),
            4 if S::UNITS_FOR_SUMS => {
                let (x, y) = butterfly(v[0], v[2], roots[0]);
                let (z, t) = butterfly_by_one(v[1].mul(roots[1]), v[3].mul(roots[2]));
                (v[0], v[1]) = butterfly_by_one(x, z);
                (v[2], v[3]) = butterfly_by_i(y, t);
            }
            4 => butterflies!(v, roots; 0: 0 2, 1 3; 1: 0 1; by_i: 2 3;),
            _ => butterflies!(v, roots;
                0: 0 4, 1 5, 2 6, 3 7;
                1: 0 2, 1 3; by_i: 4 6, 5 7;
                2: 0 1; by_i: 2 3;
                3: 4 5; by_i: 6 7;),
        }
        v
    }
}

/// RADIX vectors through as many inverse stages.
#[inline(always)]
unsafe fn inverse_stages<S: SimdReals, const RADIX: usize>(
    mut v: [Complex<S>; RADIX],
    roots: Roots<S>,
) -> [Complex<S>; RADIX] {
    unsafe {
        match RADIX {
            2 => butterflies!(v, roots; 0: 0 1;),
            4 => butterflies!(v, roots; 0: 0 1, 2 3; 1: 0 2; by_minus_i: 1 3;),
            _ => butterflies!(v, roots;
                0: 0 1, 2 3, 4 5, 6 7;
                1: 0 2, 4 6; by_minus_i: 1 3, 5 7;
                2: 0 4; by_minus_i: 2 6;
                3: 1 5; by_minus_i: 3 7;),
        }
        v
    }
}

/// RADIX vectors, 2 or 4, back through as many forward stages, times RADIX: sums, then products.
#[inline(always)]
unsafe fn undo_stages<S: SimdReals, const RADIX: usize>(
    mut v: [Complex<S>; RADIX],
    roots: Roots<S>,
) -> [Complex<S>; RADIX] {
    unsafe {
        if RADIX == 2 {
            let (x, y) = butterfly_by_one(v[0], v[1]);
            return std::array::from_fn(|i| if i == 0 { x } else { y.mul_conjugate(roots[0]) });
        }
        let ((x, z), (y, t)) = (butterfly_by_one(v[0], v[1]), butterfly_by_one(v[2], v[3]));
        (v[0], v[2]) = butterfly_by_one(x, y);
        (v[3], v[1]) = butterfly_by_i(z, t);
        for (x, root) in [(1, 1), (2, 0), (3, 2)] {
            v[x] = v[x].mul_conjugate(roots[root]);
        }
        v
    }
}

/// The first of all inverse stages, whose roots are eighths of a turn: `exp(-i pi part / 2^stage)`.
#[inline(always)]
unsafe fn first_inverse_stages<S: SimdReals, const RADIX: usize>(mut v: [Complex<S>; RADIX]) -> [Complex<S>; RADIX] {
    const C: f64 = std::f64::consts::FRAC_1_SQRT_2;
    unsafe {
        for i in 0..RADIX / 2 {
            (v[2 * i], v[2 * i + 1]) = butterfly_by_one(v[2 * i], v[2 * i + 1]);
        }
        for i in 0..RADIX / 4 {
            (v[4 * i], v[4 * i + 2]) = butterfly_by_one(v[4 * i], v[4 * i + 2]);
            (v[4 * i + 3], v[4 * i + 1]) = butterfly_by_i(v[4 * i + 1], v[4 * i + 3]);
        }
        if RADIX == 8 {
            (v[0], v[4]) = butterfly_by_one(v[0], v[4]);
            (v[1], v[5]) = butterfly(v[1], v[5], Complex::splat([C, -C]));
            (v[6], v[2]) = butterfly_by_i(v[2], v[6]);
            (v[3], v[7]) = butterfly(v[3], v[7], Complex::splat([-C, -C]));
        }
        v
    }
}

/// The first forward pass, from words, `[N]` signed integers, to `[M / REALS][2][REALS]`.
#[inline(always)]
unsafe fn first_pass<S: SimdReals, const RADIX: usize>(tables: &Tables, words: *const u32, out: *mut f64) {
    unsafe {
        let points = tables.polynomial_size / 2;
        let stride = points / RADIX;
        let roots = group_roots_of::<S, RADIX>(tables, 1);
        for at in (0..stride).step_by(S::REALS) {
            let v: [Complex<S>; RADIX] = std::array::from_fn(|i| {
                let from = words.add(at + i * stride);
                Complex { re: S::from_words(from), im: S::from_words(from.add(points)) }
            });
            let v = stages(v, roots);
            for i in 0..RADIX {
                v[i].store(out.add(2 * (at + i * stride)));
            }
        }
    }
}

/// A forward pass in place, whose first stage has `groups` groups.
#[inline(always)]
unsafe fn pass<S: SimdReals, const RADIX: usize>(tables: &Tables, values: *mut f64, groups: usize) {
    unsafe {
        let length = tables.polynomial_size / groups;
        let stride = length / RADIX;
        for group in 0..groups {
            let roots = group_roots_of::<S, RADIX>(tables, groups + group);
            for at in (0..stride).step_by(2 * S::REALS) {
                let base = values.add(group * length + at);
                let v = stages::<S, RADIX>(std::array::from_fn(|i| Complex::load(base.add(i * stride))), roots);
                for i in 0..RADIX {
                    v[i].store(base.add(i * stride));
                }
            }
        }
    }
}

/// An inverse pass in place, whose first stage has distance `half` points; `LAST`: then the twist, where there is one.
#[inline(always)]
unsafe fn inverse_pass<S: SimdReals, const RADIX: usize, const LAST: bool>(
    tables: &Tables,
    values: *mut f64,
    half: usize,
) {
    unsafe {
        let points = tables.polynomial_size / 2;
        let (stride, groups) = (half / S::REALS, points / (half * RADIX));
        for group in 0..groups {
            let roots = group_roots_of::<S, RADIX>(tables, groups + group);
            for at in 0..stride {
                let base = 2 * (group * half * RADIX + at * S::REALS);
                let mut v: [Complex<S>; RADIX] =
                    std::array::from_fn(|i| Complex::load(values.add(base + 2 * i * half)));
                if S::UNITS_FOR_SUMS {
                    v = undo_stages(v, roots);
                } else {
                    v = inverse_stages(v, place_roots_of::<S, RADIX>(tables, stride, at));
                }
                for i in 0..RADIX {
                    let at = base + 2 * i * half;
                    let twist = LAST && !S::UNITS_FOR_SUMS;
                    let x = if twist { v[i].mul(Complex::load(tables.twist.as_ptr().add(at))) } else { v[i] };
                    x.store(values.add(at));
                }
            }
        }
    }
}

/// Stages of a pass.
const fn pass_stages<S: SimdReals>() -> u32 {
    S::REALS.ilog2()
}

/// Stages of the pass over blocks: those within vectors and some before them, in vectors of 4 only one.
const fn block_stages<S: SimdReals>() -> u32 {
    if S::REALS == 8 { 6 } else { 3 }
}

/// Stages of the first forward and the last inverse pass: what whole passes leave over.
#[inline(always)]
fn odd_stages<S: SimdReals>(points: usize) -> u32 {
    (points.ilog2() - block_stages::<S>() - 1) % pass_stages::<S>() + 1
}

/// The forward passes before those of a block: `words` `[N]` signed integers, out `[M / REALS][2][REALS]`.
#[inline(always)]
pub(super) unsafe fn forward_passes<S: SimdReals>(tables: &Tables, words: &[u32], out: &mut [f64]) {
    unsafe {
        let points = tables.polynomial_size / 2;
        let (words, out) = (words.as_ptr(), out.as_mut_ptr());
        let mut done = odd_stages::<S>(points);
        match done {
            1 => first_pass::<S, 2>(tables, words, out),
            2 => first_pass::<S, 4>(tables, words, out),
            _ => first_pass::<S, 8>(tables, words, out),
        }
        while points >> done > 1 << block_stages::<S>() {
            match pass_stages::<S>() {
                2 => pass::<S, 4>(tables, out, 1 << done),
                _ => pass::<S, 8>(tables, out, 1 << done),
            }
            done += pass_stages::<S>();
        }
    }
}

/// The last forward pass, for one block.
#[inline(always)]
pub(super) unsafe fn last_block<S: SimdReals>(tables: &Tables, values: *mut f64, block: usize) {
    unsafe {
        match S::REALS {
            4 => {
                for square in 4 * block..4 * block + 4 {
                    last_square::<S, 4>(tables, values, square);
                }
            }
            _ => last_square::<S, 8>(tables, values, block),
        }
    }
}

/// The same for a square, RADIX vectors: stages between them, then those within.
#[inline(always)]
unsafe fn last_square<S: SimdReals, const RADIX: usize>(tables: &Tables, values: *mut f64, square: usize) {
    unsafe {
        let squares = tables.polynomial_size / 2 / (RADIX * RADIX);
        let values = values.add(2 * RADIX * RADIX * square);
        let mut v: [Complex<S>; RADIX] = std::array::from_fn(|i| Complex::load(values.add(2 * S::REALS * i)));
        let group = squares + square;
        if RADIX == 4 {
            let w = Complex::splat(*tables.group_roots.get_unchecked(2 * group));
            (v[0], v[1]) = butterfly(v[0], v[1], w);
            (v[2], v[3]) = butterfly_by_i_times(v[2], v[3], w);
        } else {
            v = stages(v, group_roots_of::<S, RADIX>(tables, group));
        }
        let v = stages(transpose(v), lane_roots_of(tables, square));
        for i in 0..RADIX {
            v[i].store(values.add(2 * S::REALS * i));
        }
    }
}

/// The first inverse pass, for one block.
#[inline(always)]
pub(super) unsafe fn first_inverse_block<S: SimdReals>(tables: &Tables, values: *mut f64, block: usize) {
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
unsafe fn first_inverse_square<S: SimdReals, const RADIX: usize>(tables: &Tables, values: *mut f64, square: usize) {
    unsafe {
        let values = values.add(2 * RADIX * RADIX * square);
        let v: [Complex<S>; RADIX] = std::array::from_fn(|i| Complex::load(values.add(2 * S::REALS * i)));
        let v = if RADIX == 4 {
            let mut v = transpose(undo_stages(v, lane_roots_of(tables, square)));
            let squares = tables.polynomial_size / 2 / (RADIX * RADIX);
            let w = Complex::splat(*tables.group_roots.get_unchecked(2 * (squares + square)));
            let (x, y) = butterfly_by_one(v[0], v[1]);
            (v[0], v[1]) = (x, y.mul_conjugate(w));
            let (x, y) = butterfly_by_one(v[3], v[2]);
            (v[2], v[3]) = (x, y.mul_i_conjugate(w));
            v
        } else {
            inverse_stages(transpose(first_inverse_stages(v)), place_roots_of::<S, RADIX>(tables, 1, 0))
        };
        for i in 0..RADIX {
            v[i].store(values.add(2 * S::REALS * i));
        }
    }
}

/// Number `j` of vector `i` goes to number `i` of vector `j`.
#[inline(always)]
unsafe fn transpose<S: SimdReals, const RADIX: usize>(v: [Complex<S>; RADIX]) -> [Complex<S>; RADIX] {
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

/// The inverse passes after those of a block, in place.
#[inline(always)]
pub(super) unsafe fn inverse_passes<S: SimdReals>(tables: &Tables, values: &mut [f64]) {
    unsafe {
        let points = tables.polynomial_size / 2;
        let values = values.as_mut_ptr();
        let (mut half, odd) = (1 << block_stages::<S>(), odd_stages::<S>(points));
        while half < points >> odd {
            match pass_stages::<S>() {
                2 => inverse_pass::<S, 4, false>(tables, values, half),
                _ => inverse_pass::<S, 8, false>(tables, values, half),
            }
            half <<= pass_stages::<S>();
        }
        match odd {
            1 => inverse_pass::<S, 2, true>(tables, values, half),
            2 => inverse_pass::<S, 4, true>(tables, values, half),
            _ => inverse_pass::<S, 8, true>(tables, values, half),
        }
    }
}

/// `[N]` signed integers to `[M / REALS][2][REALS]` values.
#[inline(always)]
pub(super) unsafe fn forward<S: SimdReals>(tables: &Tables, words: &[u32], out: &mut [f64]) {
    unsafe {
        S::fft_forward_passes(tables, words, out);
        for block in 0..tables.polynomial_size / 2 / BLOCK_POINTS {
            last_block::<S>(tables, out.as_mut_ptr(), block);
        }
    }
}

/// Values to `M` times the coefficients, in place, `[M / REALS][2][REALS]`.
#[inline(always)]
pub(super) unsafe fn inverse<S: SimdReals>(tables: &Tables, values: &mut [f64]) {
    unsafe {
        for block in 0..tables.polynomial_size / 2 / BLOCK_POINTS {
            first_inverse_block::<S>(tables, values.as_mut_ptr(), block);
        }
        S::fft_inverse_passes(tables, values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::Isa;

    #[inline(always)]
    unsafe fn there_and_back<S: SimdReals>(tables: &Tables, words: &[u32], values: &mut [f64]) {
        // SAFETY: the caller enabled the instruction set.
        unsafe {
            forward::<S>(tables, words, values);
            inverse::<S>(tables, values);
        }
    }

    crate::cpu::simd::dispatch! {
        reals fn round_trip = there_and_back(tables: &Tables, words: &[u32], values: &mut [f64])
    }

    #[test]
    fn inverse_undoes_forward_times_half_the_degree() {
        for isa in Isa::available() {
            for n in [256, 512, 1024, 2048, 4096] {
                let Some((narrower, lanes)) = vectors(isa, n) else { continue };
                let tables = Tables::new(isa, n).expect("memory");
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
