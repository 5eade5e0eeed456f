//! Twiddle factors of the double-precision transform, as its passes read them.

use super::precise::rounded_root;
use super::{BLOCK_POINTS, cartesian, stages_of_first_pass, tangent};
use crate::cpu::memory::Doubles;
use crate::cpu::simd::{Isa, SimdReals};
use crate::error::Result;

/// Twiddle factors of one ring degree as one vector width reads them: those of `stages` and `inverse_stages`, a number or a
/// vector each.
pub struct FftTables {
    isa: Isa,
    pub(super) polynomial_size: usize,
    /// Of the first forward and, undone, the last inverse pass.
    pub(super) first: Vec<f64>,
    /// `[groups][twiddles]`: of group `g` of `m`, for as many stages as vectors have reals in bits, the set `m + g`.
    groups: Vec<f64>,
    /// `[squares][twiddles][REALS]`: of the stages within vectors.
    lanes: Doubles,
    /// `[places][twiddles][REALS]` for every inverse pass after the first stages. Nothing where inverse stages are forward
    /// ones undone.
    places: Vec<Doubles>,
    /// What is left to multiply after the inverse stages: `r^-j`, `r^M = i`, laid out as the points. Not read where inverse
    /// stages are forward ones undone.
    pub(super) twist: Doubles,
}

impl FftTables {
    /// Tables for `N = polynomial_size` on `isa`, or on a narrower one where the ring is too small for its vectors.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`].
    ///
    /// # Panics
    /// Where there is none with vectors of doubles: see [`vectors`].
    pub fn new(isa: Isa, polynomial_size: usize) -> Result<FftTables> {
        let points = polynomial_size / 2;
        let (isa, reals) = vectors(isa, polynomial_size).expect("vectors of doubles");
        let (twiddles, undone) = match isa.separate_adders() {
            true => (cartesian::twiddles as Twiddles, true),
            false => (tangent::twiddles as Twiddles, false),
        };
        let of_group = |radix: usize, group: usize| {
            let (index, groups) = index_of_group(group);
            twiddles(radix, index, (4 * radix * groups) as i64)
        };
        // a vector of each twiddle
        let of_vector = |of_lane: &dyn Fn(usize) -> Vec<f64>| {
            let lanes: Vec<Vec<f64>> = (0..reals).map(of_lane).collect();
            (0..lanes[0].len())
                .flat_map(|i| lanes.iter().map(move |lane| lane[i]).collect::<Vec<_>>())
                .collect::<Vec<_>>()
        };
        let squares = points / (reals * reals);
        let first_radix = 1 << stages_of_first_pass(reals, points);
        let lanes = (0..squares).flat_map(|square| {
            let first = points / reals + square * reals;
            of_vector(&|lane| of_group(reals, first + lane))
        });
        let mut places = Vec::new();
        if !undone {
            let mut half = reals;
            while half < points {
                let radix = if half * first_radix == points { first_radix } else { reals };
                let of_place =
                    |place: usize| of_vector(&|lane| twiddles(radix, (place + lane) as i64, (radix * half) as i64));
                let pass: Vec<f64> = (0..half).step_by(reals).flat_map(of_place).collect();
                places.push(Doubles::copy_of(&pass)?);
                half *= radix;
            }
        }
        let twist: Vec<f64> = (0..points)
            .step_by(reals)
            .flat_map(|at| of_vector(&|lane| rounded_root(-((at + lane) as i64), 4 * points as i64).to_vec()))
            .collect();
        Ok(FftTables {
            isa,
            polynomial_size,
            first: of_group(first_radix, 1),
            groups: (1..2 * squares).flat_map(|group| of_group(reals, group)).collect(),
            lanes: Doubles::copy_of(&lanes.collect::<Vec<f64>>())?,
            places,
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

    /// The twiddles of a group.
    #[inline(always)]
    pub(super) fn of_group<S: SimdReals>(&self, group: usize) -> *const f64 {
        self.groups.as_ptr().wrapping_add((group - 1) * twiddle_reals::<S>())
    }

    /// Those of the lanes of a square.
    #[inline(always)]
    pub(super) fn of_lanes<S: SimdReals>(&self, square: usize) -> *const f64 {
        self.lanes.as_ptr().wrapping_add(square * twiddle_reals::<S>() * S::REALS)
    }

    /// Those of the places of an inverse pass: after the first stages of all, by number.
    #[inline(always)]
    pub(super) unsafe fn of_places(&self, pass: usize) -> *const f64 {
        // SAFETY: the caller promises a pass whose twiddles go by places.
        unsafe { self.places.get_unchecked(pass).as_ptr() }
    }

    /// The number of the last inverse pass among them.
    #[inline(always)]
    pub(super) fn last_place(&self) -> usize {
        self.places.len().saturating_sub(1)
    }
}

/// Of a radix and a root, in turns.
type Twiddles = fn(usize, i64, i64) -> Vec<f64>;

/// Factors of as many stages as vectors have reals in bits.
#[inline(always)]
fn twiddle_reals<S: SimdReals>() -> usize {
    if S::SEPARATE_ADDERS { cartesian::TWIDDLE_REALS } else { tangent::TWIDDLE_REALS }
}

/// Group `g` of `m` splits `X^2h - w^2`, `h = M / 2m`, with `w = r_g^h`, `r_g` the `4M`-th root of unity with this index,
/// `1 + 4 bitreverse(g)`; and `m`. `at`: `m + g`.
fn index_of_group(at: usize) -> (i64, usize) {
    let groups = 1usize << at.ilog2();
    let group = at - groups;
    let reversed = if groups == 1 { 0 } else { group.reverse_bits() >> (usize::BITS - groups.ilog2()) };
    (1 + 4 * reversed as i64, groups)
}

/// The instruction set, not better than `isa`, whose vectors of doubles suit a ring of this degree, and their length.
pub fn vectors(isa: Isa, polynomial_size: usize) -> Option<(Isa, usize)> {
    let narrower = Isa::available().into_iter().skip_while(|&candidate| candidate != isa);
    let with_reals = narrower.filter_map(|candidate| Some((candidate, candidate.reals()?)));
    // a pass or more before those of a block
    with_reals.into_iter().find(|_| 4 * BLOCK_POINTS <= polynomial_size)
}
