//! Launches of `ntt`: the transform of rows to values in bit-reversed order, its inverse, and the transform of the
//! bootstrapping key.

use super::source::{MODULAR, NTT, ring_constants};
use super::stem::{Compiler, Stem};
use super::{Bind, Gpu, LaunchOf, ViewOf};
use crate::error::Result;
use crate::ring::Ring;

/// Largest number of threads in a group. Every card supports this number.
const THREADS_MAX: usize = 256;

/// Returns the number of threads that transform a row. In each pass, a thread processes four words of the row, or a
/// multiple of four.
pub(crate) fn threads(polynomial_size: usize) -> u32 {
    (polynomial_size / 4).min(THREADS_MAX) as u32
}

/// Converts the roots of a ring to the form of the kernels: `[2][N][2]` words. First the roots of the transform, then
/// the roots of its inverse; each root is a value and its companion.
pub fn roots(ring: &Ring) -> Vec<u32> {
    ring.roots.iter().chain(&ring.inverse_roots).flat_map(|root| [root.value, root.companion]).collect()
}

/// The kernels of the stem `ntt`, compiled for one ring. A row is `[N]` words in `[0, q)`, transformed in place.
pub struct Ntt<G: Gpu> {
    stem: Stem<G>,
}

impl<G: Gpu> Ntt<G> {
    /// Compiles the kernels for this ring.
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

    /// Makes a launch that transforms coefficients in natural order to values in bit-reversed order. `rows_data` is
    /// `[rows][N]`, and `roots` comes from [`roots`]. `None` for no rows.
    pub fn forward<'a>(
        &'a self,
        rows_data: ViewOf<'a, G>,
        roots: ViewOf<'a, G>,
        rows: usize,
    ) -> Option<LaunchOf<'a, G>> {
        self.launch("ntt_forward", rows_data, roots, rows)
    }

    /// Makes a launch of the inverse of [`Ntt::forward`]; results are multiplied by N.
    pub fn inverse<'a>(
        &'a self,
        rows_data: ViewOf<'a, G>,
        roots: ViewOf<'a, G>,
        rows: usize,
    ) -> Option<LaunchOf<'a, G>> {
        self.launch("ntt_inverse", rows_data, roots, rows)
    }

    /// Like [`Ntt::forward`], but every value is also multiplied by `2^32 / N`. Blind rotation needs the rows of a
    /// bootstrapping key in this form.
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
