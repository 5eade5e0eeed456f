//! Batches of steps on a card: the sequence of kernels, written once for every [`Gpu`].
//!
//! A sequence uses two banks of scratch memory ([`crate::gpu::scratch`]): `uploads` for the tables of all kernels, one
//! after another, and `even` for rows.

use std::ops::Range;
use std::sync::Arc;

use super::compiled::Entry;
use super::part::Part;
use super::sections::{Chunk, Phase};
use super::steps::Steps;
use super::tables::Tables;
use crate::ckks::backend::PlannedSteps;
use crate::ckks::params::PartKind;
use crate::ckks::plan::PlannedValue;
use crate::error::{Error, Result};
use crate::gpu::space::Pages;
use crate::gpu::{Arena, Bind, Device, Gpu, LaunchOf, Pending, PendingRead, Touched, View, ViewOf};

/// A chunk is complete when its scratch rows take this fraction of the card's memory.
const CHUNKS_OF_A_CARD: u64 = 32;
/// A chunk is complete when a launch has this many jobs. Every card allows 65,535 groups, and a step has fewer than
/// half as many jobs.
const JOBS_MAX: usize = 1 << 15;

/// A batch on a card: steps of plans that use one key and one arena.
pub struct Batch<'a, G: Gpu> {
    /// The tables of the key's parameters.
    pub tables: &'a Tables<G>,
    /// The parts of the key that the steps need.
    pub parts: &'a [(PartKind, &'a Part<G>)],
    /// The arena that holds the plans' slots.
    pub arena: &'a Arena<G>,
    /// The steps of each plan.
    pub plans: &'a [PlannedSteps<'a>],
}

/// Implements [`crate::ckks::Arithmetic::run`].
pub fn run<G: Gpu>(device: &Device<G>, batches: &[Batch<'_, G>]) -> Result<Pending<G>> {
    let reads = sequences(batches).into_iter().map(|places| start(device, batches, &places));
    Ok(Pending::new(reads.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect()))
}

/// Divides the batches into sequences of launches and returns the indices of the batches of each sequence. Batches form
/// one sequence if they share tables and if their arenas are in the same segment.
fn sequences<G: Gpu>(batches: &[Batch<'_, G>]) -> Vec<Vec<usize>> {
    let mut sequences: Vec<Vec<usize>> = Vec::new();
    for (at, batch) in batches.iter().enumerate() {
        let alike = |first: usize| {
            let first = &batches[first];
            std::ptr::eq(first.tables, batch.tables) && first.arena.pages().segment() == batch.arena.pages().segment()
        };
        match sequences.iter_mut().find(|sequence| alike(sequence[0])) {
            Some(sequence) => sequence.push(at),
            None => sequences.push(vec![at]),
        }
    }
    sequences
}

/// The levels of these steps, each as a range of the plan's steps.
fn levels(planned: &PlannedSteps<'_>) -> Vec<Range<usize>> {
    let mut levels = Vec::new();
    let mut first = planned.steps.start;
    for &end in planned.plan.level_ends() {
        let end = end.min(planned.steps.end);
        if first < end {
            levels.push(first..end);
            first = end;
        }
    }
    levels
}

/// Starts the batches with these indices, and starts the read of their outputs.
fn start<G: Gpu>(device: &Device<G>, batches: &[Batch<'_, G>], places: &[usize]) -> Result<Vec<PendingRead<G>>> {
    let tables = batches[places[0]].tables;
    let n = tables.params.n();
    let banks = &mut *device.scratch();
    let [uploads, even, ..] = banks;
    let mut pages = Vec::new();
    let mut rows_max = (device.gpu().properties().memory_bytes / CHUNKS_OF_A_CARD) as usize / (4 * n);
    // if the card has no room for the scratch rows, the levels are split into smaller chunks
    let (sequence, parts) = loop {
        let mut chunks = chunks(device, batches, places, rows_max, &mut pages)?;
        let parts = outputs(batches, places, rows_max, &mut chunks);
        let sequence = Sequence::new(device.gpu(), chunks);
        match even.take(device.gpu(), [sequence.rows.max(1) * n]) {
            Err(Error::OutOfMemory(_)) if rows_max > 1 => {
                rows_max = (rows_max / 2).min(sequence.rows.saturating_sub(1)).max(1)
            }
            taken => {
                taken?;
                break (sequence, parts);
            }
        }
    };
    let [uploads] = uploads.take(device.gpu(), [sequence.words.len()])?;
    let [rows] = even.take(device.gpu(), [sequence.rows.max(1) * n])?;
    if !sequence.words.is_empty() {
        device.gpu().write(uploads.buf, uploads.first, &sequence.words)?;
    }
    let arenas: Vec<Range<usize>> = places.iter().flat_map(|&at| batches[at].arena.pages().ranges()).collect();
    let of_parts = places.iter().flat_map(|&at| batches[at].parts.iter().map(|(_, part)| &part.pages));
    let keys = key_segments(of_parts.chain(pages.iter().map(|pages| &**pages)));
    let bound = Bound { tables, uploads, rows, arena: batches[places[0]].arena, arenas: &arenas, keys: &keys };
    let launches: Vec<LaunchOf<'_, G>> = sequence.launches.iter().map(|launch| bound.launch(launch)).collect();
    device.gpu().launch_all(&launches)?;
    let read = |buf, range: Range<usize>, parts| {
        let readback = device.gpu().read(buf, std::slice::from_ref(&range))?;
        Ok(vec![PendingRead { readback, rows: None, parts }])
    };
    match parts {
        Outputs::None => {}
        Outputs::Gathered(parts) => {
            let words: usize = parts.iter().map(|(_, words)| words).sum();
            return read(rows.buf, rows.first..rows.first + words, parts);
        }
        Outputs::Scattered(slots) => {
            let read =
                |(at, slots): (usize, Vec<u32>)| PendingRead::of_slots(device.gpu(), batches[at].arena, &slots, at);
            return slots.into_iter().map(read).collect();
        }
    }
    // without outputs, one word of a result is read nevertheless, because its arrival shows that the steps are done
    let last = places.iter().rev().find_map(|&at| {
        batches[at].plans.iter().rev().find_map(|planned| {
            let step = planned.plan.steps()[planned.steps.clone()].last()?;
            let slot = *planned.plan.value(step.result).slots.first()?;
            Some((batches[at].arena, planned.slots[slot as usize]))
        })
    });
    let Some((arena, slot)) = last else { return Ok(Vec::new()) };
    let word = arena.row(slot).start;
    read(arena.pages().buf(), word..word + 1, Vec::new())
}

/// The jobs of all levels of these batches, in chunks of about `rows_max` scratch rows. A single step may need more.
/// Plaintexts that the jobs read are added to `weights`.
fn chunks<G: Gpu>(
    device: &Device<G>,
    batches: &[Batch<'_, G>],
    places: &[usize],
    rows_max: usize,
    weights: &mut Vec<Arc<Pages<G>>>,
) -> Result<Vec<Chunk>> {
    let n = batches[places[0]].tables.params.n();
    let plans = || places.iter().flat_map(|&at| batches[at].plans.iter().map(move |planned| (&batches[at], planned)));
    let levels: Vec<Vec<Range<usize>>> = plans().map(|(_, planned)| levels(planned)).collect();
    let count = levels.iter().map(Vec::len).max().unwrap_or(0);
    let mut chunks = Vec::new();
    for level in 0..count {
        let mut chunk = Chunk::new(n);
        for ((Batch { tables, parts, arena, .. }, planned), levels) in plans().zip(&levels) {
            let Some(range) = levels.get(level) else { continue };
            let steps = Steps { device, tables, parts, arena, planned };
            for step in &planned.plan.steps()[range.clone()] {
                if chunk.rows >= rows_max || chunk.jobs_max() >= JOBS_MAX {
                    chunks.push(std::mem::replace(&mut chunk, Chunk::new(n)));
                }
                steps.add(&mut chunk, step, weights)?;
            }
        }
        chunks.push(chunk);
    }
    Ok(chunks)
}

/// How the outputs of completed plans are read.
enum Outputs {
    /// No plan completes.
    None,
    /// From the beginning of scratch memory, in one piece. For each part, the batch's index and the number of words.
    Gathered(Vec<(usize, usize)>),
    /// From the arenas, because scratch memory has too few rows. For each batch with outputs, its index and the slots.
    Scattered(Vec<(usize, Vec<u32>)>),
}

/// Adds a chunk that copies the outputs of all completed plans to scratch memory, if they have at most `rows_max` rows.
fn outputs<G: Gpu>(batches: &[Batch<'_, G>], places: &[usize], rows_max: usize, chunks: &mut Vec<Chunk>) -> Outputs {
    let n = batches[places[0]].tables.params.n();
    // for each batch: the slots of its outputs, and the index of each row's prime
    let of_batch = |&at: &usize| {
        let completed = batches[at].plans.iter().filter(|planned| planned.completes);
        let of_plan = |planned: &PlannedSteps<'_>| {
            let mut rows = Vec::new();
            for PlannedValue { level, slots, .. } in planned.plan.outputs() {
                let primes = planned.plan.params().level(*level).primes.iter().cycle();
                rows.extend(slots.iter().zip(primes).map(|(&slot, &prime)| (planned.slots[slot as usize], prime)));
            }
            rows
        };
        (at, completed.flat_map(of_plan).collect::<Vec<(u32, usize)>>())
    };
    let rows: Vec<(usize, Vec<(u32, usize)>)> =
        places.iter().map(of_batch).filter(|(_, rows)| !rows.is_empty()).collect();
    let count: usize = rows.iter().map(|(_, rows)| rows.len()).sum();
    if count == 0 {
        return Outputs::None;
    }
    if count > rows_max.min(2 * JOBS_MAX - 1) {
        let slots = |(at, rows): (usize, Vec<(u32, usize)>)| (at, rows.into_iter().map(|(slot, _)| slot).collect());
        return Outputs::Scattered(rows.into_iter().map(slots).collect());
    }
    let mut chunk = Chunk::new(n);
    for &(at, ref rows) in &rows {
        for &(slot, prime) in rows {
            let (from, to) = (batches[at].arena.place(slot), chunk.take(1));
            let section = chunk.of(Phase::Outputs);
            let list = section.list([from, 1]);
            section.job(&[prime as u32, to, list, 1]);
        }
    }
    chunks.push(chunk);
    Outputs::Gathered(rows.into_iter().map(|(at, rows)| (at, rows.len() * n)).collect())
}

/// A launch of a sequence.
struct Planned {
    entry: Entry,
    /// The launch's table among the words of all tables.
    table: Range<usize>,
    jobs: usize,
    segment: u64,
}

/// All launches of a call, with the words of their tables.
struct Sequence {
    words: Vec<u32>,
    launches: Vec<Planned>,
    /// Number of rows of scratch memory.
    rows: usize,
}

impl Sequence {
    fn new<G: Gpu>(gpu: &G, chunks: Vec<Chunk>) -> Sequence {
        let alignment = gpu.properties().alignment_words as usize;
        let mut sequence = Sequence { words: Vec::new(), launches: Vec::new(), rows: 0 };
        for chunk in chunks {
            sequence.rows = sequence.rows.max(chunk.rows);
            for (phase, segment, section) in chunk.into_sections() {
                let (entry, first) = (phase.entry(), sequence.words.len().next_multiple_of(alignment));
                let (jobs, words) = section.finish(entry);
                sequence.words.resize(first, 0);
                sequence.words.extend(words);
                sequence.launches.push(Planned { entry, table: first..sequence.words.len(), jobs, segment });
            }
        }
        sequence
    }
}

/// A segment of keys, and the ranges of it that the sequence reads.
struct KeySegment<'a, G: Gpu> {
    id: u64,
    buf: &'a G::Buf,
    ranges: Vec<Range<usize>>,
}

fn key_segments<'a, G: Gpu>(pages: impl Iterator<Item = &'a Pages<G>>) -> Vec<KeySegment<'a, G>> {
    let mut segments: Vec<KeySegment<'a, G>> = Vec::new();
    for pages in pages {
        let at = segments.iter().position(|segment| segment.id == pages.segment()).unwrap_or_else(|| {
            segments.push(KeySegment { id: pages.segment(), buf: pages.buf(), ranges: Vec::new() });
            segments.len() - 1
        });
        segments[at].ranges.extend(pages.ranges());
    }
    segments
}

/// The buffers of a sequence.
struct Bound<'a, G: Gpu> {
    tables: &'a Tables<G>,
    uploads: ViewOf<'a, G>,
    /// Scratch rows.
    rows: ViewOf<'a, G>,
    arena: &'a Arena<G>,
    /// The ranges of all arenas.
    arenas: &'a [Range<usize>],
    keys: &'a [KeySegment<'a, G>],
}

impl<'a, G: Gpu> Bound<'a, G> {
    fn launch(&self, launch: &Planned) -> LaunchOf<'a, G> {
        let (stem, groups) = self.tables.stems.of(launch.entry);
        let arenas = Touched { buf: self.arena.pages().buf(), ranges: self.arenas };
        let mut bind = vec![
            Bind::read(self.uploads.part(launch.table.clone())),
            Bind::write(self.rows),
            Bind::read(View::all(&self.tables.primes)),
        ];
        match launch.entry {
            Entry::Sums | Entry::Products | Entry::WeightedSum | Entry::Gather => {
                bind.push(Bind::write_touched(arenas));
            }
            _ => bind.push(Bind::read(View::all(&self.tables.roots))),
        }
        match launch.entry {
            Entry::RowsInverse | Entry::Gadget => bind.push(Bind::read_touched(arenas)),
            Entry::Combine => bind.push(Bind::write_touched(arenas)),
            _ => {}
        }
        if matches!(launch.entry, Entry::Gadget | Entry::ColumnsOfWeights) {
            let segment = self.keys.iter().find(|keys| keys.id == launch.segment).expect("the keys of the batches");
            bind.push(Bind::read_touched(Touched { buf: segment.buf, ranges: &segment.ranges }));
        }
        stem.launch_grid(launch.entry.name(), stem.grid([groups, launch.jobs as u32, 1]), bind, [])
    }
}
