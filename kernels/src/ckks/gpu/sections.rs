//! The jobs of a level, as lists in the order in which the kernels run.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::compiled::Entry;
use super::constants::Division;
use crate::gpu::space::{PLACE_WORDS, Place};

/// In place of a row that does not exist. `shaders/limb.*` have the same word.
pub const NO_ROW: Place = u32::MAX;
/// Marks the place of a row in scratch memory. `shaders/limb.*` have the same bit.
pub const IN_SCRATCH: Place = 1 << 31;

/// The kernels of a level, in their order. A kernel reads only rows of the level before, and rows that earlier kernels
/// of this list wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Sums, differences, and products with whole numbers.
    Sums,
    /// Plaintexts of sums to residues, and the first half of their transforms.
    ColumnsOfWeights,
    RowsOfWeights,
    WeightedSums,
    /// Tensor products.
    Products,
    /// The sums of the polynomials of images that need no key.
    OwnSums,
    /// Digits: back to coefficients, scaled, converted, transformed, and multiplied by the key.
    DigitRows,
    DigitColumns,
    DigitConversions,
    /// The ends of transforms of digits that several keys multiply. For one key, `Gadgets` has them.
    DigitTransforms,
    Gadgets,
    /// The sums of images after their products with keys.
    Images,
    /// Divisions: the lost primes back to coefficients, scaled, converted, transformed, and combined with the input.
    LostRows,
    LostColumns,
    LostConversions,
    Combinations,
    /// The rows that are read, side by side.
    Outputs,
}

impl Phase {
    /// The phase's kernel.
    pub fn entry(self) -> Entry {
        match self {
            Phase::Sums => Entry::Sums,
            Phase::ColumnsOfWeights => Entry::ColumnsOfWeights,
            Phase::RowsOfWeights | Phase::DigitTransforms => Entry::Rows,
            Phase::WeightedSums => Entry::WeightedSum,
            Phase::Products => Entry::Products,
            Phase::OwnSums | Phase::Images | Phase::Outputs => Entry::Gather,
            Phase::DigitRows | Phase::LostRows => Entry::RowsInverse,
            Phase::DigitColumns | Phase::LostColumns => Entry::ColumnsInverse,
            Phase::DigitConversions | Phase::LostConversions => Entry::Columns,
            Phase::Gadgets => Entry::Gadget,
            Phase::Combinations => Entry::Combine,
        }
    }
}

/// The jobs of one launch, and the further words that these jobs name.
#[derive(Default)]
pub struct Section {
    jobs: Vec<u32>,
    more: Vec<u32>,
    /// Where a record begins in `more`, by its address and its length, so that jobs share records.
    records: HashMap<(usize, usize), u32>,
}

impl Section {
    /// Adds further words, and returns their index for a job.
    pub fn list(&mut self, words: impl IntoIterator<Item = u32>) -> u32 {
        let first = self.more.len() as u32;
        self.more.extend(words);
        first
    }

    /// Adds a record, or finds it. Records live until the section is finished ([`Chunk::keep`]).
    pub fn record(&mut self, record: &[u32]) -> u32 {
        let Section { more, records, .. } = self;
        *records.entry((record.as_ptr() as usize, record.len())).or_insert_with(|| {
            more.extend_from_slice(record);
            (more.len() - record.len()) as u32
        })
    }

    /// Adds a job.
    pub fn job(&mut self, words: &[u32]) {
        self.jobs.extend_from_slice(words);
    }

    /// The number of jobs, and the words of the table: the jobs, then the further words.
    pub fn finish(self, entry: Entry) -> (usize, Vec<u32>) {
        let (job_words, index) = entry.job();
        let Section { mut jobs, more, .. } = self;
        let first = jobs.len() as u32;
        let count = jobs.len() / job_words;
        if let Some(index) = index {
            jobs.iter_mut().skip(index).step_by(job_words).for_each(|word| *word += first);
        }
        jobs.extend(more);
        (count, jobs)
    }

    fn jobs(&self, entry: Entry) -> usize {
        self.jobs.len() / entry.job().0
    }
}

/// Independent jobs of one level that share scratch memory. Sections of kernels that read keys are separate for each
/// segment of keys.
pub struct Chunk {
    sections: BTreeMap<(Phase, u64), Section>,
    polynomial_size: usize,
    /// Divisions whose records the sections know by their addresses.
    divisions: Vec<Arc<Division>>,
    /// Number of rows of scratch memory.
    pub rows: usize,
}

impl Chunk {
    pub fn new(polynomial_size: usize) -> Chunk {
        Chunk { sections: BTreeMap::new(), polynomial_size, divisions: Vec::new(), rows: 0 }
    }

    /// The section of a phase whose kernel reads no keys.
    pub fn of(&mut self, phase: Phase) -> &mut Section {
        self.of_keys(phase, 0)
    }

    /// The section of a phase whose kernel reads this segment of keys.
    pub fn of_keys(&mut self, phase: Phase, segment: u64) -> &mut Section {
        self.sections.entry((phase, segment)).or_default()
    }

    /// Keeps a division until the chunk is finished.
    pub fn keep(&mut self, division: &Arc<Division>) {
        self.divisions.push(division.clone());
    }

    /// Takes neighbouring rows of scratch memory, and returns the place of the first one.
    pub fn take(&mut self, rows: usize) -> Place {
        let first = self.rows;
        self.rows += rows;
        IN_SCRATCH | self.places(first)
    }

    /// Takes a row of scratch memory for each of `count` rows.
    pub fn take_each(&mut self, count: usize) -> Vec<Place> {
        let first = self.take(count);
        (0..count).map(|at| first + self.places(at)).collect()
    }

    /// The distance between the first row and row `rows`, in places.
    pub fn places(&self, rows: usize) -> Place {
        (rows * self.polynomial_size / PLACE_WORDS) as Place
    }

    /// The largest number of jobs of a launch.
    pub fn jobs_max(&self) -> usize {
        self.sections.iter().map(|((phase, _), section)| section.jobs(phase.entry())).max().unwrap_or(0)
    }

    /// The sections in the order of their kernels, each with its segment of keys.
    pub fn into_sections(self) -> impl Iterator<Item = (Phase, u64, Section)> {
        self.sections.into_iter().map(|((phase, segment), section)| (phase, segment, section))
    }
}
