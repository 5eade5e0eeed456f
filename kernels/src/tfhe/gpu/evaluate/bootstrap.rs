//! The launches of bootstraps, and the scratch memory that these launches use.

use super::together::{SharesPlace, Tables};
use crate::error::Result;
use crate::gpu::scratch::Scratch;
use crate::gpu::{Gpu, LaunchOf, Table, Touched, View, ViewOf};
use crate::tfhe::gpu::Key;

/// The ranges of the banks `uploads` and `even` that bootstraps use.
pub struct BootstrapScratch<'a, G: Gpu> {
    /// The tables of all kernels.
    pub tables: ViewOf<'a, G>,
    /// The rows' accumulators.
    pub accumulators: ViewOf<'a, G>,
    /// The values that groups exchange, and the counts with which groups wait for these values.
    shown: [ViewOf<'a, G>; 2],
}

impl<'a, G: Gpu> BootstrapScratch<'a, G> {
    /// Takes the ranges for `rows` rows and writes the tables.
    pub fn take(
        gpu: &G,
        key: &Key<G>,
        [uploads, even]: [&'a mut Scratch<G>; 2],
        tables: &Tables,
        rotations: &SharesPlace,
        rows: usize,
    ) -> Result<Self> {
        let [values, counts] = key.stems.blind_rotate.shown_words(rotations.count, rotations.rows_max);
        // the counts must start at zero, so zeros for them are part of the upload
        let counted = counts.next_multiple_of(gpu.properties().alignment_words as usize);
        let accumulators = rows * key.params.accumulator_words();
        let [uploaded] = uploads.take(gpu, [counted + tables.words.len()])?;
        let [accumulators, values] = even.take(gpu, [accumulators, values])?;
        if counted == 0 {
            gpu.write(uploaded.buf, uploaded.first, &tables.words)?;
        } else {
            gpu.write(uploaded.buf, uploaded.first, &[&vec![0; counted], &tables.words[..]].concat())?;
        }
        let shown = [values, uploaded.part(0..counts)];
        Ok(BootstrapScratch { tables: uploaded.part(counted..uploaded.words), accumulators, shown })
    }

    /// The launches that turn the torus words in `exponents` into accumulators. The launch `marks` runs after the mod
    /// switch.
    pub fn rotation<'b>(
        &'b self,
        key: &'b Key<G>,
        keys: Touched<'b, G::Buf>,
        rotations: &SharesPlace,
        exponents: ViewOf<'b, G>,
        marks: Option<LaunchOf<'b, G>>,
    ) -> Vec<LaunchOf<'b, G>> {
        let (stems, accumulators) = (&key.stems, self.accumulators);
        let shares = rotations.shares(Table { all: self.tables, first: rotations.first });
        let switch = stems.mod_switch.run(exponents, exponents.words / (key.params.lwe_dimension + 1));
        let rotate =
            stems.blind_rotate.run(keys, View::all(&stems.roots), exponents, accumulators, &shares, self.shown);
        switch.into_iter().chain(marks).chain(rotate).collect()
    }
}
