//! Twiddles of the double-precision transform, in the order of its passes.

use super::precise::rounded_root;
use super::{BLOCK_POINTS, cartesian, stages_of_first_pass, tangent};
use crate::cpu::memory::Doubles;
use crate::cpu::simd::{Isa, SimdReals};
use crate::error::Result;

/// Twiddles of `stages` and `inverse_stages` for one ring degree, in the order of one vector width. Each twiddle is a
/// number or a vector.
pub struct FftTables {
    isa: Isa,
    pub(super) polynomial_size: usize,
    /// Twiddles of the first forward pass. The last inverse pass uses them too if it undoes the first forward pass.
    pub(super) first: Vec<f64>,
    /// `[groups][twiddles]`: entry `m + g` has the twiddles of group `g` of `m`, for log2(`REALS`) stages.
    groups: Vec<f64>,
    /// `[squares][twiddles][REALS]`: twiddles of the stages within vectors.
    lanes: Doubles,
    /// For every inverse pass after the first stages: `[places][twiddles][REALS]`. Empty if the inverse stages undo the
    /// forward stages.
    places: Vec<Doubles>,
    /// The factors after the inverse stages: `r^-j` with `r^M = i`, in the layout of the points. Unused if the inverse
    /// stages undo the forward stages.
    pub(super) twist: Doubles,
}

impl FftTables {
    /// Makes tables for `N = polynomial_size` on `isa`, or for a narrower instruction set if the ring is too small for
    /// the vectors of `isa`.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] when memory runs out.
    ///
    /// # Panics
    /// When no instruction set has vectors of doubles: see [`vectors`].
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
        // each twiddle becomes one vector, with a value for each lane
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

    /// The instruction set that the tables are for. This CPU supports it.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The twiddles of a group.
    #[inline(always)]
    pub(super) fn of_group<S: SimdReals>(&self, group: usize) -> *const f64 {
        self.groups.as_ptr().wrapping_add((group - 1) * twiddle_reals::<S>())
    }

    /// The twiddles of the lanes of a square.
    #[inline(always)]
    pub(super) fn of_lanes<S: SimdReals>(&self, square: usize) -> *const f64 {
        self.lanes.as_ptr().wrapping_add(square * twiddle_reals::<S>() * S::REALS)
    }

    /// The twiddles of all places of an inverse pass. `pass` is the number of the pass, from 0, among the passes after
    /// the first stages.
    #[inline(always)]
    pub(super) unsafe fn of_places(&self, pass: usize) -> *const f64 {
        // SAFETY: the caller promises that the twiddles of this pass are stored by place.
        unsafe { self.places.get_unchecked(pass).as_ptr() }
    }

    /// The number of the last inverse pass in [`FftTables::of_places`].
    #[inline(always)]
    pub(super) fn last_place(&self) -> usize {
        self.places.len().saturating_sub(1)
    }
}

/// Computes the twiddles of a radix and of a root at `turn / of` of a turn.
type Twiddles = fn(usize, i64, i64) -> Vec<f64>;

/// Number of reals in the twiddles of log2(`REALS`) stages.
#[inline(always)]
fn twiddle_reals<S: SimdReals>() -> usize {
    if S::SEPARATE_ADDERS { cartesian::TWIDDLE_REALS } else { tangent::TWIDDLE_REALS }
}

/// Returns the index of the root for group `g` of `m`, and `m` itself, where `at = m + g`. The group splits
/// `X^2h - w^2`, `h = M / 2m`, with `w = r_g^h`. Here `r_g` is the `4M`-th root of unity with the index
/// `1 + 4 bitreverse(g)`.
fn index_of_group(at: usize) -> (i64, usize) {
    let groups = 1usize << at.ilog2();
    let group = at - groups;
    let reversed = if groups == 1 { 0 } else { group.reverse_bits() >> (usize::BITS - groups.ilog2()) };
    (1 + 4 * reversed as i64, groups)
}

/// The best instruction set up to `isa` whose vectors of doubles fit a ring of this degree, and the length of its vectors.
pub fn vectors(isa: Isa, polynomial_size: usize) -> Option<(Isa, usize)> {
    let narrower = Isa::available().into_iter().skip_while(|&candidate| candidate != isa);
    let with_reals = narrower.filter_map(|candidate| Some((candidate, candidate.reals()?)));
    // the ring must be large enough for one pass before the passes within blocks
    with_reals.into_iter().find(|_| 4 * BLOCK_POINTS <= polynomial_size)
}
