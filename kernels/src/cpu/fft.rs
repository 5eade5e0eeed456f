//! The double-precision transform on vectors: negacyclic products of integers whose rounded results are exact.
//!
//! `N` real coefficients are `M = N/2` complex points `z_j = a_j + i a_(j+M)`; their products modulo `X^M - i` are the
//! negacyclic products of the reals. `forward`: points in natural order to values in *reading order*; `inverse`: back,
//! times `M`. Reading order is that of the values `X = r_k` after the recursion `X^2h - w^2 = (X^h - w)(X^h + w)`,
//! transposed within blocks of `LANES` vectors; it differs between vector widths, and nobody but this folder knows it.
//!
//! Memory: `[M / REALS][2][REALS]`, a vector of real parts and one of imaginary parts in turn.
//!
//! `forward` is Cooley-Tukey with the twist folded into the roots, as in `ntt.rs`: a root a group. `inverse` is the
//! textbook's: a root a place, and the twist at the end, because a butterfly that multiplies before it adds is six
//! fused operations, the other way round it is eight.
//!
//! Every output of a butterfly is rounded twice and its root once, each to `2^-53` of its size; what comes of that is
//! measured where it matters, in `blind_rotate/reals.rs`.

use std::f64::consts::PI;

use crate::cpu::memory::Doubles;
use crate::cpu::simd::{Isa, SimdReals};
use crate::error::Result;

/// Roots of one ring degree as one vector width reads them.
pub struct Tables {
    isa: Isa,
    polynomial_size: usize,
    /// `[M]`: group `g` of the forward stage with `m` groups uses `group_roots[m + g]`, real and imaginary part.
    group_roots: Vec<[f64; 2]>,
    /// For the stages within vectors, for each block, each stage and each part of it, a root a lane: `[2][REALS]`.
    lane_roots: Doubles,
    /// For inverse stages between vectors: those at distance `h` use vectors from `h / REALS` on, `[2][REALS]` each.
    place_roots: Doubles,
    /// What is left to multiply after the inverse stages: `r^-j`, `r^M = i`, laid out as the points.
    twist: Doubles,
}

impl Tables {
    /// Tables for `N = polynomial_size` on `isa`, or on a narrower one where the ring is too small for its vectors.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`].
    ///
    /// # Panics
    /// Where there is none with vectors of doubles: see [`vectors`].
    pub fn new(isa: Isa, polynomial_size: usize) -> Result<Tables> {
        let points = polynomial_size / 2;
        let (isa, lanes) = vectors(isa, polynomial_size).expect("vectors of doubles");
        let group_roots = group_roots(points);
        // first one pair of vectors that no stage reads
        let mut place_roots = vec![0.0; 2 * lanes];
        for at in 1..points / lanes {
            // stages at distance h: at = h / lanes + the vector's place
            let first = 1 << at.ilog2();
            extend(&mut place_roots, lanes, |lane| {
                root(-(((at - first) * lanes + lane) as i64), 2 * (first * lanes) as i64)
            });
        }
        let mut twist = Vec::with_capacity(2 * points);
        for vector in 0..points / lanes {
            extend(&mut twist, lanes, |lane| root(-((vector * lanes + lane) as i64), 4 * points as i64));
        }
        Ok(Tables {
            isa,
            polynomial_size,
            lane_roots: Doubles::copy_of(&lane_roots(&group_roots, lanes))?,
            place_roots: Doubles::copy_of(&place_roots)?,
            twist: Doubles::copy_of(&twist)?,
            group_roots,
        })
    }

    /// `N`.
    pub fn polynomial_size(&self) -> usize {
        self.polynomial_size
    }

    /// The instruction set the tables are for; this processor has it.
    pub fn isa(&self) -> Isa {
        self.isa
    }
}

/// The instruction set, not better than `isa`, whose vectors of doubles suit a ring of this degree, and their length.
pub fn vectors(isa: Isa, polynomial_size: usize) -> Option<(Isa, usize)> {
    let narrower = Isa::available().into_iter().skip_while(|&candidate| candidate != isa);
    let with_reals = narrower.filter_map(|candidate| Some((candidate, candidate.reals()?)));
    // a pass or more before the last one, which takes a square of vectors
    with_reals.into_iter().find(|(_, lanes)| 4 * lanes * lanes <= polynomial_size)
}

/// `exp(2 pi i turn / of)`, each part to about half a unit in its last place: angles are taken within an eighth of a
/// turn.
fn root(turn: i64, of: i64) -> [f64; 2] {
    let turn = turn.rem_euclid(of);
    // nearest quarter
    let quarter = (4 * turn + of / 2) / of;
    let angle = 2.0 * PI * ((4 * turn - quarter * of) as f64 / (4 * of) as f64);
    let (sine, cosine) = (libm::sin(angle), libm::cos(angle));
    match quarter % 4 {
        0 => [cosine, sine],
        1 => [-sine, cosine],
        2 => [-cosine, -sine],
        _ => [sine, -cosine],
    }
}

/// Appends the roots of a vector: real parts, then imaginary parts.
fn extend(out: &mut Vec<f64>, lanes: usize, root: impl Fn(usize) -> [f64; 2]) {
    out.extend((0..lanes).map(|lane| root(lane)[0]));
    out.extend((0..lanes).map(|lane| root(lane)[1]));
}

/// Group `g` of `m` splits `X^2h - w^2`, `h = M / 2m`, with `w = r_g^h`, `r_g` the `4M`-th root of unity with index
/// `1 + 4 bitreverse(g)`.
fn group_roots(points: usize) -> Vec<[f64; 2]> {
    let mut roots = vec![[0.0; 2]; points];
    for (at, out) in roots.iter_mut().enumerate().skip(1) {
        let groups = 1usize << at.ilog2();
        let group = at - groups;
        let reversed = if groups == 1 { 0 } else { group.reverse_bits() >> (usize::BITS - groups.ilog2()) };
        *out = root(1 + 4 * reversed as i64, 8 * groups as i64);
    }
    roots
}

fn lane_roots(group_roots: &[[f64; 2]], lanes: usize) -> Vec<f64> {
    let vectors = group_roots.len() / lanes;
    let mut out = Vec::new();
    for first in (0..vectors).step_by(lanes) {
        for stage in 0..lanes.ilog2() {
            for part in 0..1 << stage {
                extend(&mut out, lanes, |lane| group_roots[((vectors + first + lane) << stage) + part]);
            }
        }
    }
    out
}

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

/// The same for `w = -i`.
#[inline(always)]
unsafe fn butterfly_by_minus_i<S: SimdReals>(x: Complex<S>, y: Complex<S>) -> (Complex<S>, Complex<S>) {
    unsafe {
        let sum = Complex { re: S::add_reals(x.re, y.im), im: S::sub_reals(x.im, y.re) };
        (sum, Complex { re: S::sub_reals(x.re, y.im), im: S::add_reals(x.im, y.re) })
    }
}

/// Where a pass finds its roots. (A loop over stages would be shorter than the lists below; but then vectors go through
/// memory.)
trait Roots<S: SimdReals>: Copy {
    /// The root of part `part` of stage `stage` of the pass.
    unsafe fn at(self, stage: usize, part: usize) -> Complex<S>;
}

/// The roots of a group: one for all lanes.
#[derive(Clone, Copy)]
struct GroupRoots<'a> {
    roots: &'a [[f64; 2]],
    /// Groups of the first stage and the number of this one.
    group: usize,
}

impl<S: SimdReals> Roots<S> for GroupRoots<'_> {
    #[inline(always)]
    unsafe fn at(self, stage: usize, part: usize) -> Complex<S> {
        unsafe { Complex::splat(*self.roots.get_unchecked((self.group << stage) + part)) }
    }
}

/// The roots of a block's stages within vectors.
#[derive(Clone, Copy)]
struct LaneRoots(*const f64);

impl<S: SimdReals> Roots<S> for LaneRoots {
    #[inline(always)]
    unsafe fn at(self, stage: usize, part: usize) -> Complex<S> {
        unsafe { Complex::load(self.0.add(2 * S::REALS * ((1 << stage) - 1 + part))) }
    }
}

/// The roots of inverse stages at a place.
#[derive(Clone, Copy)]
struct PlaceRoots {
    roots: *const f64,
    /// Distance of the first stage, in vectors.
    stride: usize,
    at: usize,
}

impl<S: SimdReals> Roots<S> for PlaceRoots {
    #[inline(always)]
    unsafe fn at(self, stage: usize, part: usize) -> Complex<S> {
        unsafe { Complex::load(self.roots.add(2 * S::REALS * (((1 << stage) + part) * self.stride + self.at))) }
    }
}

/// Butterflies between vectors of `$v`: for each root, the pairs it serves.
macro_rules! butterflies {
    ($v:ident, $roots:ident; $($stage:literal $part:literal: $($x:literal $y:literal),+;)+) => {{
        $(
            let w = $roots.at($stage, $part);
            $(($v[$x], $v[$y]) = butterfly($v[$x], $v[$y], w);)+
        )+
    }};
}

/// RADIX vectors through as many forward stages as halve it to one.
#[inline(always)]
unsafe fn stages<S: SimdReals, const RADIX: usize>(
    mut v: [Complex<S>; RADIX],
    roots: impl Roots<S>,
) -> [Complex<S>; RADIX] {
    unsafe {
        match RADIX {
            2 => butterflies!(v, roots; 0 0: 0 1;),
            4 => butterflies!(v, roots; 0 0: 0 2, 1 3; 1 0: 0 1; 1 1: 2 3;),
            _ => butterflies!(v, roots;
                0 0: 0 4, 1 5, 2 6, 3 7;
                1 0: 0 2, 1 3; 1 1: 4 6, 5 7;
                2 0: 0 1; 2 1: 2 3; 2 2: 4 5; 2 3: 6 7;),
        }
        v
    }
}

/// RADIX vectors through as many inverse stages.
#[inline(always)]
unsafe fn inverse_stages<S: SimdReals, const RADIX: usize>(
    mut v: [Complex<S>; RADIX],
    roots: impl Roots<S>,
) -> [Complex<S>; RADIX] {
    unsafe {
        match RADIX {
            2 => butterflies!(v, roots; 0 0: 0 1;),
            4 => butterflies!(v, roots; 0 0: 0 1, 2 3; 1 0: 0 2; 1 1: 1 3;),
            _ => butterflies!(v, roots;
                0 0: 0 1, 2 3, 4 5, 6 7;
                1 0: 0 2, 4 6; 1 1: 1 3, 5 7;
                2 0: 0 4; 2 1: 1 5; 2 2: 2 6; 2 3: 3 7;),
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
            (v[4 * i + 1], v[4 * i + 3]) = butterfly_by_minus_i(v[4 * i + 1], v[4 * i + 3]);
        }
        if RADIX == 8 {
            (v[0], v[4]) = butterfly_by_one(v[0], v[4]);
            (v[1], v[5]) = butterfly(v[1], v[5], Complex::splat([C, -C]));
            (v[2], v[6]) = butterfly_by_minus_i(v[2], v[6]);
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
        let roots = GroupRoots { roots: &tables.group_roots, group: 1 };
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
            let roots = GroupRoots { roots: &tables.group_roots, group: groups + group };
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

/// An inverse pass in place, whose first stage has distance `half` points; `LAST`: then the twist.
#[inline(always)]
unsafe fn inverse_pass<S: SimdReals, const RADIX: usize, const LAST: bool>(
    tables: &Tables,
    values: *mut f64,
    half: usize,
) {
    unsafe {
        let stride = half / S::REALS;
        for group in (0..tables.polynomial_size / 2).step_by(half * RADIX) {
            for at in 0..stride {
                let base = 2 * (group + at * S::REALS);
                let v: [Complex<S>; RADIX] = std::array::from_fn(|i| Complex::load(values.add(base + 2 * i * half)));
                let v = inverse_stages(v, PlaceRoots { roots: tables.place_roots.as_ptr(), stride, at });
                for i in 0..RADIX {
                    let at = base + 2 * i * half;
                    let x = if LAST { v[i].mul(Complex::load(tables.twist.as_ptr().add(at))) } else { v[i] };
                    x.store(values.add(at));
                }
            }
        }
    }
}

/// Stages of a pass, and stages within a vector.
const fn pass_stages<S: SimdReals>() -> u32 {
    S::REALS.ilog2()
}

/// Stages of the first forward and the last inverse pass: what whole passes leave over.
#[inline(always)]
fn odd_stages<S: SimdReals>(points: usize) -> u32 {
    (points.ilog2() - 1) % pass_stages::<S>() + 1
}

/// All forward passes but the last: `words` `[N]` signed integers, out `[M / REALS][2][REALS]`.
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
        while points >> done > S::REALS * S::REALS {
            match pass_stages::<S>() {
                2 => pass::<S, 4>(tables, out, 1 << done),
                _ => pass::<S, 8>(tables, out, 1 << done),
            }
            done += pass_stages::<S>();
        }
    }
}

/// The last forward pass for one block of `REALS` vectors: the last stages between vectors, and those within.
#[inline(always)]
pub(super) unsafe fn last_block<S: SimdReals>(tables: &Tables, values: *mut f64, block: usize) {
    unsafe {
        let blocks = tables.polynomial_size / 2 / (S::REALS * S::REALS);
        let values = values.add(2 * S::REALS * S::REALS * block);
        match S::REALS {
            4 => last_block_of::<S, 4>(tables, values, blocks, block),
            _ => last_block_of::<S, 8>(tables, values, blocks, block),
        }
    }
}

#[inline(always)]
unsafe fn last_block_of<S: SimdReals, const RADIX: usize>(
    tables: &Tables,
    values: *mut f64,
    blocks: usize,
    block: usize,
) {
    unsafe {
        let between = GroupRoots { roots: &tables.group_roots, group: blocks + block };
        let within = LaneRoots(tables.lane_roots.as_ptr().add(2 * S::REALS * (RADIX - 1) * block));
        let v: [Complex<S>; RADIX] = std::array::from_fn(|i| Complex::load(values.add(2 * S::REALS * i)));
        let v = stages(transpose(stages(v, between)), within);
        for i in 0..RADIX {
            v[i].store(values.add(2 * S::REALS * i));
        }
    }
}

/// The first inverse pass for one block.
#[inline(always)]
pub(super) unsafe fn first_inverse_block<S: SimdReals>(tables: &Tables, values: *mut f64, block: usize) {
    unsafe {
        let values = values.add(2 * S::REALS * S::REALS * block);
        match S::REALS {
            4 => first_inverse_block_of::<S, 4>(tables, values),
            _ => first_inverse_block_of::<S, 8>(tables, values),
        }
    }
}

#[inline(always)]
unsafe fn first_inverse_block_of<S: SimdReals, const RADIX: usize>(tables: &Tables, values: *mut f64) {
    unsafe {
        let between = PlaceRoots { roots: tables.place_roots.as_ptr(), stride: 1, at: 0 };
        let v: [Complex<S>; RADIX] = std::array::from_fn(|i| Complex::load(values.add(2 * S::REALS * i)));
        let v = inverse_stages(transpose(first_inverse_stages(v)), between);
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

/// All inverse passes but the first, in place.
#[inline(always)]
pub(super) unsafe fn inverse_passes<S: SimdReals>(tables: &Tables, values: &mut [f64]) {
    unsafe {
        let points = tables.polynomial_size / 2;
        let values = values.as_mut_ptr();
        let (mut half, odd) = (S::REALS * S::REALS, odd_stages::<S>(points));
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
        for block in 0..out.len() / (2 * S::REALS * S::REALS) {
            last_block::<S>(tables, out.as_mut_ptr(), block);
        }
    }
}

/// Values to `M` times the coefficients, in place, `[M / REALS][2][REALS]`.
#[inline(always)]
pub(super) unsafe fn inverse<S: SimdReals>(tables: &Tables, values: &mut [f64]) {
    unsafe {
        for block in 0..values.len() / (2 * S::REALS * S::REALS) {
            first_inverse_block::<S>(tables, values.as_mut_ptr(), block);
        }
        S::fft_inverse_passes(tables, values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            for n in [64, 128, 256, 512, 1024, 2048] {
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
