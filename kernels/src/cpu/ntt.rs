//! The number-theoretic transform on vectors, in place, lazily reduced.
//!
//! `forward` maps `[N]` coefficients in natural order, in `[0, 2q)`, to `[N]` values in *reading order*, in `[0, 2q)`.
//! `inverse` maps them back, times `N`; input and output are in `[0, 2q)`. Reading order is the order that the last
//! steps of `forward` leave. This order differs between vector widths. Only the code of the CPU device depends on
//! this order, because pointwise work is the same in every order.
//!
//! The method is negacyclic Cooley-Tukey / Gentleman-Sande with the twist folded into the roots (eprint 2016/504, Alg.
//! 1 and 2), and lazy butterflies of Harvey (2014, Alg. 2): values stay below `4q < 2^32`, each product below `2q`.
//!
//! In the first stages, partners lie far apart; these stages run on 8 or 16 vectors in registers at a time. In the last
//! stages, partners lie within a square of `LANES` vectors. A square is loaded at once. For the stages within a vector,
//! the square is transposed, so that partners are whole vectors again.

mod lane_roots;
mod transforms;
mod unreduced;

use std::sync::Arc;

pub(crate) use transforms::Transforms;
pub(crate) use unreduced::Unreduced;

use crate::cpu::ahead::Ahead;
use crate::cpu::memory::Words;
use crate::cpu::simd::{Isa, Simd};
use crate::modular::Modulus;
use crate::ring::{Ring, Root};
use lane_roots::lane_roots;

/// Roots of a ring in the order of one vector width.
pub struct NttTables {
    isa: Isa,
    ring: Arc<Ring>,
    unreduced: Option<Unreduced>,
    /// Roots of the stages within vectors. For each square of `LANES` vectors, each stage and each block of the stage:
    /// `[LANES]` roots, then `[LANES]` companions.
    lane_roots: Words,
    lane_inverse_roots: Words,
}

impl NttTables {
    /// Makes tables for `ring` on `isa`, or on a narrower instruction set if the ring is smaller than a square of
    /// vectors.
    ///
    /// # Panics
    /// When this CPU lacks the instruction set.
    pub fn new(isa: Isa, ring: Arc<Ring>) -> NttTables {
        let isa = Isa::available()
            .into_iter()
            .skip_while(|&candidate| candidate != isa)
            .find(|&candidate| candidate.lanes().pow(2) <= ring.polynomial_size())
            .expect("an instruction set of this processor, the narrowest of which serves the smallest ring");
        let (lanes, stages) = (isa.lanes(), ring.polynomial_size().trailing_zeros());
        // whether there is a whole pass, which then contains the first stage: an unreduced transform adds its offset
        // in this stage
        let passes = stages - lanes.trailing_zeros() >= pass_stages(lanes);
        NttTables {
            isa,
            unreduced: if passes { Unreduced::new(ring.modulus.q(), stages) } else { None },
            lane_roots: lane_roots(&ring.roots, lanes),
            lane_inverse_roots: lane_roots(&ring.inverse_roots, lanes),
            ring,
        }
    }

    /// `N`.
    pub fn polynomial_size(&self) -> usize {
        self.ring.polynomial_size()
    }

    /// The ring, with the plain transforms.
    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Counts the bytes of the roots.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        let plain = size_of_val(&self.ring.roots[..]) + size_of_val(&self.ring.inverse_roots[..]);
        (plain + size_of_val(&self.lane_roots[..]) + size_of_val(&self.lane_inverse_roots[..])) as u64
    }

    /// The ring's modulus.
    pub(crate) fn modulus(&self) -> Modulus {
        self.ring.modulus
    }

    /// Returns the bounds of words in [`begin_forward`], if that transform reduces nothing. If the result is `None`,
    /// the transform keeps words below `4q`.
    pub(crate) fn unreduced(&self) -> Option<Unreduced> {
        self.unreduced
    }

    /// The instruction set that the tables are for. This CPU supports it.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Number of words in a vector of this instruction set.
    pub fn lanes(&self) -> usize {
        self.isa.lanes()
    }
}

/// Computes `x w mod q` in `[0, 2q)` for any `x`, by Shoup's product with the companion of `w`.
#[inline(always)]
pub(crate) unsafe fn mul_lazy<S: Simd, const UNIFORM: bool>(x: S::V, w: S::V, companion: S::V, q: S::V) -> S::V {
    // SAFETY: the caller promises that the processor supports `S`.
    unsafe {
        let quotient = if UNIFORM { S::mul_high_uniform(x, companion) } else { S::mul_high(x, companion) };
        S::sub(S::mul_low(x, w), S::mul_low(quotient, q))
    }
}

/// Reduces `x` from `[0, 2m)` to `[0, m)`.
#[inline(always)]
pub(crate) unsafe fn reduce<S: Simd>(x: S::V, m: S::V) -> S::V {
    // SAFETY: the caller promises that the processor supports `S`.
    unsafe { S::min(x, S::sub(x, m)) }
}

/// Vectors that have `q`, `2q` and the offset of an unreduced transform in every lane.
#[derive(Clone, Copy)]
struct ModulusLanes<S: Simd> {
    q: S::V,
    q2: S::V,
    offset: S::V,
}

impl<S: Simd> ModulusLanes<S> {
    #[inline(always)]
    unsafe fn of(tables: &NttTables) -> Self {
        let q = tables.ring.modulus.q();
        let offset = tables.unreduced.map_or(0, |unreduced| unreduced.offset);
        // SAFETY: the caller promises that the processor supports `S`.
        unsafe { ModulusLanes { q: S::splat(q), q2: S::splat(2 * q), offset: S::splat(offset) } }
    }
}

/// Prepares to prefetch `words` during the forward transforms of `rows` rows of `row_words` words each.
#[inline(always)]
pub(crate) fn ahead_of<S: Simd>(words: &[u32], rows: usize, row_words: usize) -> Ahead<'_, u32> {
    // in each row, a transform runs `Ahead::call` at least twice for each square: once in a pass and once in the last
    // stages
    Ahead::new(words, rows * 2 * (row_words / (S::LANES * S::LANES)))
}

/// Computes a Cooley-Tukey butterfly. Input and output are in `[0, 4q)`, or within the bounds of [`Unreduced`] if
/// `SHORT`. `FRESH` marks the first stage, whose words are below `2q`.
#[inline(always)]
unsafe fn butterfly<S: Simd, const UNIFORM: bool, const FRESH: bool, const SHORT: bool>(
    x: &mut S::V,
    y: &mut S::V,
    (w, companion): (S::V, S::V),
    m: ModulusLanes<S>,
) {
    // SAFETY: the caller promises that the processor supports `S`.
    unsafe {
        // (1) butterfly: (x, y) <- (x + w y, x - w y)
        let t = mul_lazy::<S, UNIFORM>(*y, w, companion, m.q);
        let low = match (FRESH, SHORT) {
            (true, true) => S::add(*x, m.offset),
            (true, false) | (false, true) => *x,
            (false, false) => reduce::<S>(*x, m.q2),
        };
        *x = S::add(low, t);
        *y = S::sub(if SHORT { low } else { S::add(low, m.q2) }, t);
    }
}

/// Computes a Gentleman-Sande butterfly. Input and output are in `[0, 2q)`.
#[inline(always)]
unsafe fn inverse_butterfly<S: Simd, const UNIFORM: bool>(
    x: &mut S::V,
    y: &mut S::V,
    (w, companion): (S::V, S::V),
    m: ModulusLanes<S>,
) {
    // SAFETY: the caller promises that the processor supports `S`.
    unsafe {
        // (2) inverse butterfly: (x, y) <- (x + y, w (x - y))
        let difference = S::add(S::sub(*x, *y), m.q2);
        *x = reduce::<S>(S::add(*x, *y), m.q2);
        *y = mul_lazy::<S, UNIFORM>(difference, w, companion, m.q);
    }
}

#[inline(always)]
unsafe fn uniform<S: Simd>(root: &Root) -> (S::V, S::V) {
    // SAFETY: the caller promises that the processor supports `S`.
    unsafe { (S::splat(root.value), S::splat(root.companion)) }
}

/// Applies STAGES stages to `RADIX = 2^STAGES` vectors. In the first of these stages, the vectors are in group `group`
/// of `groups` groups.
#[inline(always)]
unsafe fn stages<S: Simd, const STAGES: usize, const RADIX: usize, const FRESH: bool, const SHORT: bool>(
    v: &mut [S::V; RADIX],
    roots: &[Root],
    groups: usize,
    group: usize,
    m: ModulusLanes<S>,
) {
    // SAFETY: the caller promises that the processor supports `S`. A stage of `g` groups reads the roots from `g` to
    // below `2g`. They exist, because `g` is at most `N / 2` and the ring has `N` roots.
    unsafe {
        // the first stage is separate, because only the first stage may be `FRESH`, and because loops of constant shape
        // unroll into registers
        let w = uniform::<S>(roots.get_unchecked(groups + group));
        for i in 0..RADIX / 2 {
            let (low, high) = v.split_at_mut(i + RADIX / 2);
            butterfly::<S, true, FRESH, SHORT>(&mut low[i], &mut high[0], w, m);
        }
        for stage in 1..STAGES {
            let half = RADIX >> (stage + 1);
            for block in 0..1 << stage {
                let w = uniform::<S>(roots.get_unchecked(((groups + group) << stage) + block));
                for i in 0..half {
                    let at = 2 * half * block + i;
                    let (low, high) = v.split_at_mut(at + half);
                    butterfly::<S, true, false, SHORT>(&mut low[at], &mut high[0], w, m);
                }
            }
        }
    }
}

/// Applies STAGES inverse stages to `RADIX = 2^STAGES` vectors.
#[inline(always)]
unsafe fn inverse_stages<S: Simd, const STAGES: usize, const RADIX: usize>(
    v: &mut [S::V; RADIX],
    roots: &[Root],
    groups: usize,
    group: usize,
    m: ModulusLanes<S>,
) {
    // SAFETY: as for `stages`.
    unsafe {
        for stage in (0..STAGES).rev() {
            let half = RADIX >> (stage + 1);
            for block in 0..1 << stage {
                let w = uniform::<S>(roots.get_unchecked(((groups + group) << stage) + block));
                for i in 0..half {
                    let at = 2 * half * block + i;
                    let (low, high) = v.split_at_mut(at + half);
                    inverse_butterfly::<S, true>(&mut low[at], &mut high[0], w, m);
                }
            }
        }
    }
}

/// Makes one pass over the row: STAGES stages, starting with the stage of `groups` groups.
#[inline(always)]
unsafe fn pass<S: Simd, const STAGES: usize, const RADIX: usize, const FRESH: bool, const SHORT: bool>(
    row: &mut [u32],
    roots: &[Root],
    groups: usize,
    m: ModulusLanes<S>,
    ahead: &mut Ahead<'_, u32>,
) {
    // SAFETY: the caller promises that the processor supports `S`. The `RADIX` vectors of a group lie `stride` words
    // apart, within the group's `length` words of the row.
    unsafe {
        let length = row.len() / groups;
        let stride = length >> STAGES;
        for group in 0..groups {
            for at in (0..stride).step_by(S::LANES) {
                ahead.call::<S>();
                let base = row.as_mut_ptr().add(group * length + at);
                let mut v: [S::V; RADIX] = std::array::from_fn(|i| S::load(base.add(i * stride)));
                stages::<S, STAGES, RADIX, FRESH, SHORT>(&mut v, roots, groups, group, m);
                for i in 0..RADIX {
                    S::store(base.add(i * stride), v[i]);
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn inverse_pass<S: Simd, const STAGES: usize, const RADIX: usize>(
    row: &mut [u32],
    roots: &[Root],
    groups: usize,
    m: ModulusLanes<S>,
) {
    // SAFETY: as for `pass`.
    unsafe {
        let length = row.len() / groups;
        let stride = length >> STAGES;
        for group in 0..groups {
            for at in (0..stride).step_by(S::LANES) {
                let base = row.as_mut_ptr().add(group * length + at);
                let mut v: [S::V; RADIX] = std::array::from_fn(|i| S::load(base.add(i * stride)));
                inverse_stages::<S, STAGES, RADIX>(&mut v, roots, groups, group, m);
                for i in 0..RADIX {
                    S::store(base.add(i * stride), v[i]);
                }
            }
        }
    }
}

/// Finishes `forward` for square `at` of the row: the last STAGES stages between the square's `LANES` vectors, then all
/// stages within vectors. The result is in `[0, 2q)`. `groups` is the row's number of squares; `lane_roots` belong to
/// this square.
#[inline(always)]
unsafe fn last_stages_of_square<S: Simd, const STAGES: usize, const SHORT: bool>(
    square_words: *mut u32,
    at: usize,
    groups: usize,
    roots: &[Root],
    lane_roots: *const u32,
    m: ModulusLanes<S>,
) {
    // SAFETY: the caller promises that the processor supports `S`, and passes the words and the lane roots of a whole
    // square. The stages between vectors read only roots below `N / LANES`, which exist.
    unsafe {
        let mut w = lane_roots;
        let groups = (groups * S::LANES) >> STAGES;
        let mut square = S::square();
        let v = square.as_mut();
        for i in 0..S::LANES {
            v[i] = S::load(square_words.add(i * S::LANES));
        }
        for stage in 0..STAGES {
            let half = 1 << (STAGES - 1 - stage);
            let blocks = S::LANES / (2 * half);
            for block in 0..blocks {
                let root = uniform::<S>(roots.get_unchecked((groups << stage) + at * blocks + block));
                for i in 0..half {
                    let at = 2 * half * block + i;
                    let (low, high) = v.split_at_mut(at + half);
                    butterfly::<S, true, false, SHORT>(&mut low[at], &mut high[0], root, m);
                }
            }
        }
        S::transpose(&mut square);
        let v = square.as_mut();
        let mut half = S::LANES / 2;
        while half >= 1 {
            for block in 0..S::LANES / (2 * half) {
                let root = (S::load(w), S::load(w.add(S::LANES)));
                w = w.add(2 * S::LANES);
                for i in 0..half {
                    let at = 2 * half * block + i;
                    let (low, high) = v.split_at_mut(at + half);
                    butterfly::<S, false, false, SHORT>(&mut low[at], &mut high[0], root, m);
                }
            }
            half /= 2;
        }
        for i in 0..S::LANES {
            let word = if SHORT { v[i] } else { reduce::<S>(v[i], m.q2) };
            S::store(square_words.add(i * S::LANES), word);
        }
    }
}

/// Number of words in `lane_roots` for one square.
#[inline(always)]
const fn lane_root_words<S: Simd>() -> usize {
    2 * S::LANES * (S::LANES - 1)
}

/// Finishes `forward` for each square of the row, by [`last_stages_of_square`].
#[inline(always)]
unsafe fn last_stages<S: Simd, const STAGES: usize>(
    row: &mut [u32],
    roots: &[Root],
    lane_roots: &[u32],
    m: ModulusLanes<S>,
    ahead: &mut Ahead<'_, u32>,
) {
    // SAFETY: the caller promises that the processor supports `S`, and that the row consists of whole squares, each
    // with its lane roots.
    unsafe {
        let squares = row.len() / (S::LANES * S::LANES);
        for at in 0..squares {
            ahead.call::<S>();
            let (words, w) = (row.as_mut_ptr().add(at * S::LANES * S::LANES), lane_roots.as_ptr());
            last_stages_of_square::<S, STAGES, false>(words, at, squares, roots, w.add(at * lane_root_words::<S>()), m);
        }
    }
}

/// Begins `inverse`: computes all stages within vectors, then the first STAGES stages between vectors. The words are
/// read from `from`, or from the row itself if `from` is `None`.
#[inline(always)]
unsafe fn first_inverse_stages<S: Simd, const STAGES: usize>(
    from: Option<&[u32]>,
    row: &mut [u32],
    roots: &[Root],
    lane_roots: &[u32],
    m: ModulusLanes<S>,
) {
    // SAFETY: the caller promises that the processor supports `S`. Each chunk is a whole square with its lane roots,
    // and `from` is as long as the row. The roots are within bounds as in `last_stages_of_square`.
    unsafe {
        let groups = (row.len() / S::LANES) >> STAGES;
        let chunks =
            row.chunks_exact_mut(S::LANES * S::LANES).zip(lane_roots.chunks_exact(2 * S::LANES * (S::LANES - 1)));
        for (at, (chunk, lane_roots)) in chunks.enumerate() {
            let mut square = S::square();
            let v = square.as_mut();
            let words = from.map_or(chunk.as_ptr(), |from| from.as_ptr().add(at * S::LANES * S::LANES));
            for i in 0..S::LANES {
                v[i] = S::load(words.add(i * S::LANES));
            }
            let mut half = 1;
            while half < S::LANES {
                let blocks = S::LANES / (2 * half);
                for block in 0..blocks {
                    let w = lane_roots.as_ptr().add((blocks - 1 + block) * 2 * S::LANES);
                    let root = (S::load(w), S::load(w.add(S::LANES)));
                    for i in 0..half {
                        let at = 2 * half * block + i;
                        let (low, high) = v.split_at_mut(at + half);
                        inverse_butterfly::<S, false>(&mut low[at], &mut high[0], root, m);
                    }
                }
                half *= 2;
            }
            S::transpose(&mut square);
            let v = square.as_mut();
            for stage in (0..STAGES).rev() {
                let half = 1 << (STAGES - 1 - stage);
                let blocks = S::LANES / (2 * half);
                for block in 0..blocks {
                    let root = uniform::<S>(roots.get_unchecked((groups << stage) + at * blocks + block));
                    for i in 0..half {
                        let at = 2 * half * block + i;
                        let (low, high) = v.split_at_mut(at + half);
                        inverse_butterfly::<S, true>(&mut low[at], &mut high[0], root, m);
                    }
                }
            }
            for i in 0..S::LANES {
                S::store(chunk.as_mut_ptr().add(i * S::LANES), v[i]);
            }
        }
    }
}

/// Number of stages in a pass. A pass works on as many vectors as the registers hold, so that enough butterflies are
/// independent of each other.
#[inline(always)]
const fn pass_stages(lanes: usize) -> u32 {
    if lanes == 16 { 4 } else { 3 }
}

/// Begins `forward`: computes those stages between vectors that form whole passes.
#[inline(always)]
unsafe fn passes<S: Simd, const SHORT: bool>(tables: &NttTables, row: &mut [u32], ahead: &mut Ahead<'_, u32>) {
    // SAFETY: the caller promises that the processor supports `S`, and that the row has the tables' degree.
    unsafe {
        let (roots, m) = (&tables.ring.roots[..], ModulusLanes::of(tables));
        let between = (row.len() / S::LANES).trailing_zeros();
        for i in 0..between / pass_stages(S::LANES) {
            let groups = 1 << (i * pass_stages(S::LANES));
            match (pass_stages(S::LANES), i) {
                (4, 0) => pass::<S, 4, 16, true, SHORT>(row, roots, groups, m, ahead),
                (4, _) => pass::<S, 4, 16, false, SHORT>(row, roots, groups, m, ahead),
                (_, 0) => pass::<S, 3, 8, true, SHORT>(row, roots, groups, m, ahead),
                _ => pass::<S, 3, 8, false, SHORT>(row, roots, groups, m, ahead),
            }
        }
    }
}

/// Computes `forward` on `[N]` words in place; see the module's documentation.
#[inline(always)]
unsafe fn forward<S: Simd>(tables: &NttTables, row: &mut [u32], ahead: &mut Ahead<'_, u32>) {
    // SAFETY: the caller promises that the processor supports `S`, and that the row has the tables' degree.
    unsafe {
        passes::<S, false>(tables, row, ahead);
        let (roots, m) = (&tables.ring.roots[..], ModulusLanes::of(tables));
        let between = (row.len() / S::LANES).trailing_zeros();
        // the remaining stages between vectors, then the stages within vectors
        match between % pass_stages(S::LANES) {
            0 => last_stages::<S, 0>(row, roots, &tables.lane_roots, m, ahead),
            1 => last_stages::<S, 1>(row, roots, &tables.lane_roots, m, ahead),
            2 => last_stages::<S, 2>(row, roots, &tables.lane_roots, m, ahead),
            _ => last_stages::<S, 3>(row, roots, &tables.lane_roots, m, ahead),
        }
    }
}

/// Finishes `forward` for square `at` of a row that [`begin_forward`] began. Rows of one prime share the roots, which
/// take twice the words of the square itself. With `SHORT`, the transform and its results are unreduced; otherwise the
/// results are in `[0, 2q)`.
///
/// # Safety
/// The CPU supports the instruction set `S`, the row has the tables' degree, and `at` is the index of a square.
#[inline(always)]
pub(crate) unsafe fn end_square<S: Simd, const SHORT: bool>(tables: &NttTables, row: &mut [u32], at: usize) {
    // SAFETY: the caller keeps the conditions above. Each square has `lane_root_words` words of the tables' lane roots.
    unsafe {
        let (roots, m) = (&tables.ring.roots[..], ModulusLanes::of(tables));
        let between = (row.len() / S::LANES).trailing_zeros();
        let squares = row.len() / (S::LANES * S::LANES);
        let (words, w) = (row.as_mut_ptr().add(at * S::LANES * S::LANES), tables.lane_roots.as_ptr());
        let w = w.add(at * lane_root_words::<S>());
        match between % pass_stages(S::LANES) {
            0 => last_stages_of_square::<S, 0, SHORT>(words, at, squares, roots, w, m),
            1 => last_stages_of_square::<S, 1, SHORT>(words, at, squares, roots, w, m),
            2 => last_stages_of_square::<S, 2, SHORT>(words, at, squares, roots, w, m),
            _ => last_stages_of_square::<S, 3, SHORT>(words, at, squares, roots, w, m),
        }
    }
}

/// Computes `inverse` on `[N]` words, in place or from another row; see the module's documentation.
///
/// # Safety
/// The CPU supports the instruction set `S`, and both rows have the tables' degree.
#[inline(always)]
unsafe fn inverse<S: Simd>(tables: &NttTables, from: Option<&[u32]>, row: &mut [u32]) {
    // SAFETY: the caller keeps the conditions above.
    unsafe {
        let (roots, lane_roots) = (&tables.ring.inverse_roots[..], &tables.lane_inverse_roots[..]);
        let m = ModulusLanes::of(tables);
        let between = (row.len() / S::LANES).trailing_zeros();
        // the stages within vectors, then the stages between vectors that form no whole pass
        match between % pass_stages(S::LANES) {
            0 => first_inverse_stages::<S, 0>(from, row, roots, lane_roots, m),
            1 => first_inverse_stages::<S, 1>(from, row, roots, lane_roots, m),
            2 => first_inverse_stages::<S, 2>(from, row, roots, lane_roots, m),
            _ => first_inverse_stages::<S, 3>(from, row, roots, lane_roots, m),
        }
        // the remaining whole passes
        for i in (0..between / pass_stages(S::LANES)).rev() {
            let groups = 1 << (i * pass_stages(S::LANES));
            match pass_stages(S::LANES) {
                4 => inverse_pass::<S, 4, 16>(row, roots, groups, m),
                _ => inverse_pass::<S, 3, 8>(row, roots, groups, m),
            }
        }
    }
}

#[inline(always)]
unsafe fn forward_rows<S: Transforms>(tables: &NttTables, rows: &mut [u32]) {
    for row in rows.chunks_exact_mut(tables.polynomial_size()) {
        // SAFETY: the caller promises that the processor supports `S`; each row has the tables' degree.
        unsafe { S::forward(tables, row, &mut Ahead::none()) };
    }
}

#[inline(always)]
unsafe fn begin_row<S: Simd>(tables: &NttTables, row: &mut [u32]) {
    let ahead = &mut Ahead::none();
    // SAFETY: the caller promises that the processor supports `S`, and that the row has the tables' degree.
    unsafe {
        match tables.unreduced.is_some() {
            true => passes::<S, true>(tables, row, ahead),
            false => passes::<S, false>(tables, row, ahead),
        }
    }
}

#[inline(always)]
unsafe fn inverse_rows<S: Transforms>(tables: &NttTables, rows: &mut [u32]) {
    for row in rows.chunks_exact_mut(tables.polynomial_size()) {
        // SAFETY: the caller promises that the processor supports `S`; each row has the tables' degree.
        unsafe { S::inverse(tables, None, row) };
    }
}

#[inline(always)]
unsafe fn inverse_row_of<S: Transforms>(tables: &NttTables, from: &[u32], row: &mut [u32]) {
    // SAFETY: the caller promises that the processor supports `S`, and that both rows have the tables' degree.
    unsafe { S::inverse(tables, Some(from), row) };
}

crate::cpu::simd::dispatch! {
    fn dispatch_forward = forward_rows(tables: &NttTables, rows: &mut [u32])
}
crate::cpu::simd::dispatch! {
    fn dispatch_begin = begin_row(tables: &NttTables, row: &mut [u32])
}
crate::cpu::simd::dispatch! {
    fn dispatch_inverse = inverse_rows(tables: &NttTables, rows: &mut [u32])
}
crate::cpu::simd::dispatch! {
    fn dispatch_inverse_of = inverse_row_of(tables: &NttTables, from: &[u32], row: &mut [u32])
}

/// Computes `forward` on each row of `[rows][N]` words, in place.
///
/// # Panics
/// When `rows` is not a whole number of rows.
pub fn forward_all(tables: &NttTables, rows: &mut [u32]) {
    assert!(rows.len().is_multiple_of(tables.polynomial_size()), "whole rows");
    dispatch_forward(tables.isa, tables, rows);
}

/// Begins `forward` for one row of `N` words. The last stages remain, square by square ([`end_square`]).
///
/// # Panics
/// When the row has another length.
pub(crate) fn begin_forward(tables: &NttTables, row: &mut [u32]) {
    assert_eq!(row.len(), tables.polynomial_size(), "a row");
    dispatch_begin(tables.isa, tables, row);
}

/// Computes `inverse` on each row of `[rows][N]` words, in place. The result is `N` times the coefficients.
///
/// # Panics
/// When `rows` is not a whole number of rows.
pub fn inverse_all(tables: &NttTables, rows: &mut [u32]) {
    assert!(rows.len().is_multiple_of(tables.polynomial_size()), "whole rows");
    dispatch_inverse(tables.isa, tables, rows);
}

/// Computes `inverse` of one row of `N` words, and writes the result to another row.
///
/// # Panics
/// When a row has another length.
pub(crate) fn inverse_of(tables: &NttTables, from: &[u32], row: &mut [u32]) {
    assert!(from.len() == tables.polynomial_size() && row.len() == from.len(), "rows of the tables' degree");
    dispatch_inverse_of(tables.isa, tables, from, row);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::tests::{rings, schoolbook, sparse, words};

    /// Makes tables of every ring on every instruction set.
    fn cases() -> impl Iterator<Item = NttTables> {
        rings().flat_map(|(modulus, n)| {
            let ring = Arc::new(Ring::new(modulus, n));
            Isa::available().into_iter().map(move |isa| NttTables::new(isa, ring.clone()))
        })
    }

    #[test]
    fn every_vector_width_computes_the_plain_transform_up_to_order() {
        for tables in cases() {
            let (n, m, isa) = (tables.polynomial_size(), tables.ring.modulus, tables.isa);
            let mut row = words(n, n as u32, 2 * m.q());
            let mut plain: Vec<u32> = row.iter().map(|&x| m.reduce_once(x)).collect();
            tables.ring.forward(&mut plain);
            forward_all(&tables, &mut row);
            assert!(row.iter().all(|&x| x < 2 * m.q()), "{m:?} {isa:?} {n}");
            let mut values: Vec<u32> = row.iter().map(|&x| m.reduce_once(x)).collect();
            values.sort_unstable();
            plain.sort_unstable();
            assert!(values == plain, "{m:?} {isa:?} {n}");
        }
    }

    #[test]
    fn transformed_products_are_the_schoolbook_ones_times_n() {
        for tables in cases() {
            let (n, m, isa) = (tables.polynomial_size(), tables.ring.modulus, tables.isa);
            let (a, b) = (words(n, 3, m.q()), sparse(n, 1234, m.q()));
            let (mut values, mut of_b) = (a.clone(), b.clone());
            forward_all(&tables, &mut values);
            forward_all(&tables, &mut of_b);
            for (x, &y) in values.iter_mut().zip(&of_b) {
                *x = m.mul(m.reduce_once(*x), m.reduce_once(y));
            }
            inverse_all(&tables, &mut values);
            let times_n = |x: u32| m.mul(x, n as u32 % m.q());
            let expected = schoolbook(m, &a, &b).into_iter().map(times_n);
            assert!(values.into_iter().map(|x| m.reduce_once(x)).eq(expected), "{m:?} {isa:?} {n}");
        }
    }

    #[test]
    fn inverse_undoes_forward_times_n() {
        for tables in cases() {
            let (n, m, isa) = (tables.polynomial_size(), tables.ring.modulus, tables.isa);
            let original = words(n, 5, 2 * m.q());
            let (mut row, mut other) = (original.clone(), vec![0; n]);
            forward_all(&tables, &mut row);
            inverse_of(&tables, &row, &mut other);
            inverse_all(&tables, &mut row);
            assert!(row == other, "{m:?} {isa:?} {n}");
            for (x, y) in row.iter().zip(&original) {
                assert!(*x < 2 * m.q());
                assert_eq!(m.reduce_once(*x), m.mul(m.reduce_once(*y), n as u32 % m.q()), "{m:?} {isa:?} {n}");
            }
        }
    }
}
