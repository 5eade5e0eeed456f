//! Roots of the double-precision transform, as its passes read them.

use std::f64::consts::PI;

use super::BLOCK_POINTS;
use crate::cpu::memory::Doubles;
use crate::cpu::simd::Isa;
use crate::error::Result;

/// Roots of one ring degree as one vector width reads them.
pub struct Tables {
    isa: Isa,
    pub(super) polynomial_size: usize,
    /// `[M]`: group `g` of the forward stage with `m` groups uses `group_roots[m + g]`, real and imaginary part.
    pub(super) group_roots: Vec<[f64; 2]>,
    /// `[M / 2]`: `group_roots[g]` times `group_roots[2g]`, for passes of two stages.
    pub(super) group_products: Vec<[f64; 2]>,
    /// For the stages within vectors, for each square, see [`lane_roots`]: `[2][REALS]` each.
    pub(super) lane_roots: Doubles,
    /// For inverse stages between vectors: those at distance `h` use vectors from `h / REALS` on, `[2][REALS]` each.
    pub(super) place_roots: Doubles,
    /// What is left to multiply after the inverse stages: `r^-j`, `r^M = i`, laid out as the points.
    pub(super) twist: Doubles,
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
        let group_products = group_products(points);
        let lane_roots = lane_roots(&group_roots, &group_products, lanes);
        let mut twist = Vec::with_capacity(2 * points);
        for vector in 0..points / lanes {
            extend(&mut twist, lanes, |lane| root(-((vector * lanes + lane) as i64), 4 * points as i64));
        }
        Ok(Tables {
            isa,
            polynomial_size,
            group_roots,
            group_products,
            lane_roots: Doubles::copy_of(&lane_roots)?,
            place_roots: Doubles::copy_of(&place_roots(points, lanes))?,
            twist: Doubles::copy_of(&twist)?,
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
    // a pass or more before those of a block
    with_reals.into_iter().find(|_| 4 * BLOCK_POINTS <= polynomial_size)
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
    group_turns(points, 2)
}

/// Root `g` times root `2g`, which is at half its angle.
fn group_products(points: usize) -> Vec<[f64; 2]> {
    group_turns(points / 2, 3)
}

/// Of group `g`, so many sixteenths of `r_g`'s index over `m` turns.
fn group_turns(number: usize, sixteenths: i64) -> Vec<[f64; 2]> {
    let mut roots = vec![[0.0; 2]; number];
    for (at, out) in roots.iter_mut().enumerate().skip(1) {
        let groups = 1usize << at.ilog2();
        let group = at - groups;
        let reversed = if groups == 1 { 0 } else { group.reverse_bits() >> (usize::BITS - groups.ilog2()) };
        *out = root(sixteenths * (1 + 4 * reversed as i64), 16 * groups as i64);
    }
    roots
}

/// For places of all inverse stages up to distance `M / 2`: at distance `h`, place `p` is `p / 2h` of a turn back.
fn place_roots(points: usize, lanes: usize) -> Vec<f64> {
    // first one pair of vectors that no stage reads
    let mut out = vec![0.0; 2 * lanes];
    for at in 1..points / lanes {
        // stages at distance h: at = h / lanes + the vector's place
        let first = 1 << at.ilog2();
        extend(&mut out, lanes, |lane| root(-(((at - first) * lanes + lane) as i64), 2 * (first * lanes) as i64));
    }
    out
}

/// Roots a square has in a lane.
pub(super) const fn lane_roots_of_square(lanes: usize) -> usize {
    if lanes == 4 { 3 } else { 4 }
}

/// In vectors of 4, those of two stages and their product; in vectors of 8, those of three stages. Odd parts' are `i`
/// times those before them.
fn lane_roots(group_roots: &[[f64; 2]], group_products: &[[f64; 2]], lanes: usize) -> Vec<f64> {
    let vectors = group_roots.len() / lanes;
    let mut out = Vec::new();
    for first in (vectors..2 * vectors).step_by(lanes) {
        extend(&mut out, lanes, |lane| group_roots[first + lane]);
        extend(&mut out, lanes, |lane| group_roots[2 * (first + lane)]);
        if lanes == 4 {
            extend(&mut out, lanes, |lane| group_products[first + lane]);
        } else {
            extend(&mut out, lanes, |lane| group_roots[4 * (first + lane)]);
            extend(&mut out, lanes, |lane| group_roots[4 * (first + lane) + 2]);
        }
    }
    out
}
