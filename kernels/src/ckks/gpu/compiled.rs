//! The kernel stems of numbers, compiled for one degree. Primes are arguments, so all parameter sets of a degree share
//! the stems.

use crate::error::Result;
use crate::gpu::source::{Constant, NTT_REGISTERS, PLACE, Text, text};
use crate::gpu::stem::{Compiler, Stem, threads};
use crate::gpu::{Gpu, Language};

/// Helper: primes and places of rows.
const LIMB: Text = text!("limb");
/// Helper: base conversion.
const BASE_CONVERT: Text = text!("base_convert");
/// Helper: gadget products.
const GADGET: Text = text!("gadget");
const NTT_COLUMNS: Text = text!("ntt_columns");
const NTT_ROWS: Text = text!("ntt_rows");
const POINTWISE: Text = text!("pointwise");
const AUTOMORPHISM: Text = text!("automorphism");

/// Number of words of a long row that one group transforms at a time.
const ROW: usize = 512;
/// Number of words of a tile of a long row.
const TILE: usize = 2048;
/// Number of warps in a group of `ntt_rows` on CUDA.
const WARPS_MAX: usize = 4;

/// How a row of `N` words is divided between groups: it is `rows` rows of `row` words. A tile is all rows of some
/// columns.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub rows: usize,
    pub row: usize,
    pub tile: usize,
}

impl Shape {
    /// The shape of rows of this degree.
    ///
    /// # Panics
    /// When the degree is none of [`crate::ckks::params::POLY_DEGREES`].
    pub fn of(polynomial_size: usize) -> Shape {
        let rows = if polynomial_size > ROW { polynomial_size / ROW } else { 1 };
        assert!(rows == 1 || (8..=64).contains(&rows), "a ring of degree {polynomial_size}");
        Shape { rows, row: polynomial_size / rows, tile: if rows == 1 { polynomial_size } else { TILE } }
    }

    /// How many words of a row a lane holds at a time, which is the number of neighbouring words in a key.
    pub fn quad(self) -> usize {
        (self.row / 32).min(4)
    }
}

/// A kernel of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    Sums,
    Products,
    WeightedSum,
    Gather,
    ColumnsOfWeights,
    Columns,
    ColumnsInverse,
    Rows,
    RowsInverse,
    Gadget,
    Combine,
}

impl Entry {
    /// The entry's name in the texts.
    pub fn name(self) -> &'static str {
        match self {
            Entry::Sums => "sums",
            Entry::Products => "products",
            Entry::WeightedSum => "weighted_sum",
            Entry::Gather => "gather",
            Entry::ColumnsOfWeights => "ntt_columns_weights",
            Entry::Columns => "ntt_columns",
            Entry::ColumnsInverse => "ntt_columns_inverse",
            Entry::Rows => "ntt_rows",
            Entry::RowsInverse => "ntt_rows_inverse",
            Entry::Gadget => "ntt_rows_gadget",
            Entry::Combine => "ntt_rows_combine",
        }
    }

    /// Returns the number of words of a job. If a job names further words of the table, also returns the place of their
    /// index in the job.
    pub fn job(self) -> (usize, Option<usize>) {
        match self {
            Entry::Sums => (9, None),
            Entry::Products => (8, Some(4)),
            Entry::WeightedSum => (5, Some(3)),
            Entry::Gather => (4, Some(2)),
            Entry::ColumnsOfWeights => (4, None),
            Entry::Columns => (3, Some(0)),
            Entry::ColumnsInverse => (2, Some(0)),
            Entry::Rows => (3, None),
            Entry::RowsInverse => (6, None),
            Entry::Gadget => (5, Some(3)),
            Entry::Combine => (10, None),
        }
    }
}

/// All kernel stems, compiled for one degree.
pub struct CompiledStems<G: Gpu> {
    pub(super) shape: Shape,
    columns: Stem<G>,
    rows: Stem<G>,
    pointwise: Stem<G>,
    automorphism: Stem<G>,
    /// Number of groups that share a row of `N` words, for the stems in the order above.
    groups: [u32; 4],
}

impl<G: Gpu> CompiledStems<G> {
    /// Compiles the stems, or takes them from the cache of `compiler`.
    pub fn new(gpu: &G, compiler: &Compiler<G>, polynomial_size: usize) -> Result<Self> {
        let (n, shape) = (polynomial_size, Shape::of(polynomial_size));
        let of_columns = shape.tile / shape.rows.min(8);
        let of_rows = match gpu.properties().language {
            Language::Cuda => 32 * shape.rows.min(WARPS_MAX),
            Language::Wgsl => (shape.row / 4).min(128),
        };
        let rows_together = match gpu.properties().language {
            Language::Cuda => shape.rows.min(WARPS_MAX),
            Language::Wgsl => 1,
        };
        let of_words = (threads(gpu.properties()) as usize).min(n);
        let stem = |name: &'static str, texts: &[&Text], threads: usize, words: usize| {
            let texts: Vec<&Text> = [&PLACE, &LIMB].into_iter().chain(texts.iter().copied()).collect();
            let constants = constants(n, shape, words);
            compiler.stem(gpu, name, &texts, &constants, threads as u32, &[])
        };
        Ok(CompiledStems {
            shape,
            columns: stem(
                "ntt_columns",
                &[&NTT_REGISTERS, &BASE_CONVERT, &NTT_COLUMNS],
                of_columns,
                shape.tile / of_columns,
            )?,
            rows: stem("ntt_rows", &[&NTT_REGISTERS, &GADGET, &NTT_ROWS], of_rows, shape.row / of_rows)?,
            pointwise: stem("pointwise", &[&POINTWISE], of_words, 1)?,
            automorphism: stem("automorphism", &[&AUTOMORPHISM], of_words, 1)?,
            groups: [n / shape.tile, shape.rows / rows_together, n / of_words, n / of_words]
                .map(|groups| groups as u32),
        })
    }

    /// The stem of an entry, and the number of groups that share a row of `N` words.
    pub(super) fn of(&self, entry: Entry) -> (&Stem<G>, u32) {
        let [columns, rows, pointwise, automorphism] = self.groups;
        match entry {
            Entry::ColumnsOfWeights | Entry::Columns | Entry::ColumnsInverse => (&self.columns, columns),
            Entry::Rows | Entry::RowsInverse | Entry::Gadget | Entry::Combine => (&self.rows, rows),
            Entry::Sums | Entry::Products | Entry::WeightedSum => (&self.pointwise, pointwise),
            Entry::Gather => (&self.automorphism, automorphism),
        }
    }
}

/// The constants of the texts. `words` is the number of words that a thread has of a tile or of a row.
fn constants(n: usize, Shape { rows, row, tile }: Shape, words: usize) -> Vec<Constant> {
    let log = |x: usize| x.trailing_zeros();
    vec![
        ("N", n as u32),
        ("LOG_N", log(n)),
        ("ROW", row as u32),
        ("LOG_ROW", log(row)),
        ("ROWS", rows as u32),
        ("LOG_ROWS", log(rows)),
        ("TILE", tile as u32),
        ("WORDS", words as u32),
    ]
}
