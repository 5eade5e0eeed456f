//! Launches of `ntt`: rows to values in bit-reversed order and back, and the bootstrapping key's transform.

use super::source::{MODULAR, NTT, ring_constants};
use super::stem::{Compiler, Stem};
use super::{Bind, Gpu, LaunchOf, ViewOf};
use crate::error::Result;
use crate::ring::Ring;

/// Threads of a group at most: what every card has.
const THREADS_MAX: usize = 256;

/// Threads that transform a row: each takes four of its words through a pass, or a multiple of that.
pub(crate) fn threads(polynomial_size: usize) -> u32 {
    (polynomial_size / 4).min(THREADS_MAX) as u32
}

/// Roots of a ring as kernels read them: `[2][N][2]` words, those of the transform, then of its inverse, each root a value
/// and its companion.
pub fn roots(ring: &Ring) -> Vec<u32> {
    ring.roots.iter().chain(&ring.inverse_roots).flat_map(|root| [root.value, root.companion]).collect()
}

/// The stem for one ring. A row is `[N]` words in `[0, q)`, before and after, transformed in place.
pub struct Ntt<G: Gpu> {
    stem: Stem<G>,
}

impl<G: Gpu> Ntt<G> {
    /// Compiled for this ring.
    pub fn new(gpu: &G, compiler: &Compiler<G>, ring: &Ring) -> Result<Self> {
        Ok(Ntt {
            stem: compiler.stem(
                gpu,
                "ntt",
                &[&MODULAR, &NTT],
                &ring_constants(ring),
                threads(ring.polynomial_size()),
                &[],
            )?,
        })
    }

    /// Coefficients in natural order to values in bit-reversed order. `rows_data` is `[rows][N]`, `roots` those of
    /// [`roots`]; none for no rows.
    pub fn forward<'a>(
        &'a self,
        rows_data: ViewOf<'a, G>,
        roots: ViewOf<'a, G>,
        rows: usize,
    ) -> Option<LaunchOf<'a, G>> {
        self.launch("ntt_forward", rows_data, roots, rows)
    }

    /// Back, times N.
    pub fn inverse<'a>(
        &'a self,
        rows_data: ViewOf<'a, G>,
        roots: ViewOf<'a, G>,
        rows: usize,
    ) -> Option<LaunchOf<'a, G>> {
        self.launch("ntt_inverse", rows_data, roots, rows)
    }

    /// As [`Ntt::forward`], then every value times `2^32 / N`: rows of a bootstrapping key as blind rotation reads them.
    pub fn key<'a>(&'a self, rows_data: ViewOf<'a, G>, roots: ViewOf<'a, G>, rows: usize) -> Option<LaunchOf<'a, G>> {
        self.launch("ntt_key", rows_data, roots, rows)
    }

    fn launch<'a>(
        &'a self,
        entry: &'static str,
        rows_data: ViewOf<'a, G>,
        roots: ViewOf<'a, G>,
        rows: usize,
    ) -> Option<LaunchOf<'a, G>> {
        self.stem.launch(entry, rows, [Bind::write(rows_data), Bind::read(roots)], [rows as u32])
    }
}
