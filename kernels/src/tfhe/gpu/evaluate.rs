//! Batches of gates on a card: the sequence of kernels, written once for every [`Gpu`].
//!
//! A batch uploads tables (places of ciphertexts, factors) and launches kernels. Ciphertexts stay in the arena, and the
//! host waits only when the caller asks for its reads. Batches of several keys of equal parameters form one sequence of
//! launches: tables hold the place of each row's key, and the places of its ciphertexts.
//!
//! Every sequence uses the four banks of scratch memory ([`crate::gpu::scratch`]) as follows:
//!
//! - `uploads`: the tables of all kernels, one after another
//! - `even`: the accumulators, `[rows][k + 1][N]`; the values that groups exchange
//! - `odd`: the sums that are bootstrapped and later their exponents, `[rows][n + 1]`; the words that are read from
//!   several arenas, `[reads][n + 1]`
//! - `wires`: the sums of wires, then the samples of gates, `[rows][kN + 1]`. Key switches take them from here to the
//!   exponents in `odd`, or to results.

mod bootstrap;
pub mod halves;
mod rows;
mod together;

use super::key::Key;
use super::limits::rows_at_once;
use crate::error::Result;
use crate::gpu::{Arena, Device, Gpu, Language, Pending, PendingRead};
use crate::tfhe::{Gate, KeyedGates, LevelRows};
use rows::{Step, evaluate_rows};
use together::parts;

/// Largest number of pieces of memory that a CUDA card reads one by one. Each piece is a call of the driver, so a kernel
/// gathers more pieces.
const PIECES_MAX: usize = 8;

/// A batch on a card.
pub type Batch<'a, G> = KeyedGates<'a, Key<G>, Arena<G>>;

/// Implements [`crate::tfhe::Gates::evaluate_together`].
pub fn evaluate_together<G: Gpu>(device: &Device<G>, batches: &[Batch<'_, G>]) -> Result<Pending<G>> {
    for KeyedGates { arena, gates, cells, reads, .. } in batches {
        let operands = gates.iter().flat_map(|gate| &gate.operands[..gate.gate.arity()]);
        let results = gates.iter().map(|gate| &gate.result);
        let mut named = operands.chain(results).chain(cells.slots()).chain(*reads);
        assert!(named.all(|&slot| (slot as usize) < arena.slots()), "slots of the arena");
    }
    let sequences = sequences(batches);
    let reads = sequences.iter().map(|places| start(device, batches, places)).collect::<Result<Vec<_>>>()?;
    Ok(Pending::new(reads.into_iter().flatten().collect()))
}

/// Divides the batches into sequences of launches and returns the indices of the batches of each sequence. Batches form
/// one sequence if their parameters are equal and their keys and arenas are in the same segments.
fn sequences<G: Gpu>(batches: &[Batch<'_, G>]) -> Vec<Vec<usize>> {
    let segments = |batch: &Batch<'_, G>| (batch.key.segments(), batch.arena.pages().segment());
    let mut sequences: Vec<Vec<usize>> = Vec::new();
    for (at, batch) in batches.iter().enumerate() {
        let alike = |first: usize| {
            let first = &batches[first];
            first.key.params == batch.key.params && segments(first) == segments(batch)
        };
        match sequences.iter_mut().find(|sequence| alike(sequence[0])) {
            Some(sequence) => sequence.push(at),
            None => sequences.push(vec![at]),
        }
    }
    sequences
}

/// Whether a kernel should gather the rows that a batch reads. WGSL cards copy the pieces in one submission.
fn is_scattered<G: Gpu>(gpu: &G, batch: &Batch<'_, G>) -> bool {
    let pieces = || batch.arena.reads(batch.reads).ranges.len();
    gpu.properties().language == Language::Cuda && batch.reads.len() > PIECES_MAX && pieces() > PIECES_MAX
}

/// Starts the batches with these indices, which have equal parameters, and starts the reads that they request.
fn start<G: Gpu>(device: &Device<G>, batches: &[Batch<'_, G>], places: &[usize]) -> Result<Vec<PendingRead<G>>> {
    let sequence: Vec<&Batch<'_, G>> = places.iter().map(|&at| &batches[at]).collect();
    let reading: Vec<usize> = places.iter().copied().filter(|&at| !batches[at].reads.is_empty()).collect();
    // if several arenas or many pieces of one arena are read, the last part copies their words to one place, so that the
    // host waits only once
    let gathers = reading.len() > 1 || reading.iter().any(|&at| is_scattered(device.gpu(), &batches[at]));
    let copied: Vec<&Batch<'_, G>> =
        if gathers { reading.iter().map(|&at| &batches[at]).collect() } else { Vec::new() };
    let levels: Vec<Vec<LevelRows>> = sequence.iter().map(|batch| batch.levels()).collect();
    let last = levels.iter().map(Vec::len).max().unwrap_or(1) - 1;
    for level in 0..last {
        start_level(device, &sequence, &rows_of(&levels, level), &[])?;
    }
    let copies = start_level(device, &sequence, &rows_of(&levels, last), &copied)?;
    let result = |batch: &Batch<'_, G>| {
        batch.gates.last().map(|gate| gate.result).or_else(|| batch.cells.slots().last().copied())
    };
    let result = sequence.iter().find_map(|batch| Some((&batch.arena, result(batch)?)));
    match (copies, &reading[..], result) {
        (Some(readback), ..) => {
            let words = |at: usize| batches[at].reads.len() * batches[at].arena.row_words;
            Ok(vec![PendingRead { readback, rows: None, parts: reading.iter().map(|&at| (at, words(at))).collect() }])
        }
        (None, &[at, ..], _) => {
            let Batch { arena, reads, .. } = &batches[at];
            Ok(vec![PendingRead::of_slots(device.gpu(), arena, reads, at)?])
        }
        // levels of a circuit request no words. One word of a result is read nevertheless, because the arrival of this
        // word shows that the levels are done
        (None, [], Some((arena, slot))) => {
            let word = arena.row(slot).start;
            let readback = device.gpu().read(arena.pages().buf(), std::slice::from_ref(&(word..word + 1)))?;
            Ok(vec![PendingRead { readback, rows: None, parts: Vec::new() }])
        }
        (None, [], None) => Ok(Vec::new()),
    }
}

/// The rows of each batch in this level. A batch with fewer levels has no rows in it.
fn rows_of(levels: &[Vec<LevelRows>], level: usize) -> Vec<LevelRows> {
    let none = LevelRows { gates: 0..0, cells: 0..0 };
    levels.iter().map(|of_batch| of_batch.get(level).unwrap_or(&none).clone()).collect()
}

/// Starts one level of some batches. Then copies the slots that the batches in `copied` request to one range, and starts
/// to read this range.
fn start_level<G: Gpu>(
    device: &Device<G>,
    sequence: &[&Batch<'_, G>],
    rows: &[LevelRows],
    copied: &[&Batch<'_, G>],
) -> Result<Option<G::Readback>> {
    let stems = &sequence[0].key.stems;
    let batches: Vec<_> = sequence.iter().map(|batch| batch.gates).zip(rows.iter().cloned()).collect();
    let mut parts = parts(&batches, rows_at_once(device.gpu(), sequence[0].key, sequence.len()));
    if parts.is_empty() && !copied.is_empty() {
        parts.push(Vec::new());
    }
    let mut copies = None;
    for (i, part) in parts.iter().enumerate() {
        let mut gates = part.iter().flat_map(|(batch, rows)| &sequence[*batch].gates[rows.gates.clone()]);
        let has_mux = gates.any(|gate| gate.gate == Gate::Mux);
        let steps = if has_mux { &[Step::Operands, Step::Refresh][..] } else { &[Step::Operands] };
        for (at, &step) in steps.iter().enumerate() {
            let is_last = i + 1 == parts.len() && at + 1 == steps.len();
            let copied = if is_last { copied } else { &[] };
            copies = stems.again_without_clusters(|| evaluate_rows(device, sequence, step, part, copied))?;
        }
    }
    Ok(copies)
}
