//! Batches of gates on a card: the sequence of kernels, written once for every [`Gpu`].
//!
//! A batch uploads tables (places of ciphertexts, factors) and launches kernels. Ciphertexts stay in the arena, and the
//! host waits only when the caller asks for its reads. On CUDA, batches of several keys of equal parameters form one
//! sequence of launches: tables hold the distance from the first key to each row's key, and the distances from the
//! first arena to each row's ciphertexts.
//!
//! Every sequence uses the three banks of scratch memory ([`crate::gpu::scratch`]) as follows:
//!
//! - `even`: the tables of all kernels, one after another; the accumulators, `[rows][k + 1][N]`; the values that groups
//!   exchange
//! - `odd`: the linear parts and later their exponents, `[rows][n + 1]`; the samples, `[gates][kN + 1]`; the words that
//!   are read from several arenas, `[reads][n + 1]`
//! - `wires`: the sums of wires, `[rows][kN + 1]`. Key switches take them from here to the exponents in `odd`, or to
//!   results.

mod bootstrap;
mod cells;
mod gates;
pub mod halves;
mod together;

use super::key::Key;
use super::limits::rows_at_once;
use crate::error::Result;
use crate::gpu::{Arena, Device, Gpu, Language, Pending, PendingRead};
use crate::tfhe::{Gate, KeyedGates, SlotCells, SlotGate};
use together::{Step, parts};

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
    let sequences = sequences(device.gpu(), batches);
    let reads = sequences.iter().map(|places| start(device, batches, places)).collect::<Result<Vec<_>>>()?;
    Ok(Pending::new(reads.into_iter().flatten().collect()))
}

/// Divides the batches into sequences of launches and returns the indices of the batches of each sequence. On CUDA,
/// where kernels can address the buffers of all batches, batches with equal parameters form one sequence.
/// Elsewhere, each batch is a sequence.
fn sequences<G: Gpu>(gpu: &G, batches: &[Batch<'_, G>]) -> Vec<Vec<usize>> {
    let addresses = gpu.properties().language == Language::Cuda;
    let mut sequences: Vec<Vec<usize>> = Vec::new();
    for (at, batch) in batches.iter().enumerate() {
        let alike = |first: usize| addresses && batches[first].key.params == batch.key.params;
        match sequences.iter_mut().find(|sequence| alike(sequence[0])) {
            Some(sequence) => sequence.push(at),
            None => sequences.push(vec![at]),
        }
    }
    sequences
}

/// Whether a kernel should gather the rows that a batch reads. WGSL cards copy the pieces in one submission.
fn is_scattered<G: Gpu>(gpu: &G, batch: &Batch<'_, G>) -> bool {
    let pieces = || batch.arena.reads(batch.reads).iter().map(|read| read.ranges.len()).sum::<usize>();
    gpu.properties().language == Language::Cuda && batch.reads.len() > PIECES_MAX && pieces() > PIECES_MAX
}

/// Starts the batches with these indices, which have equal parameters, and starts the reads that they request.
fn start<G: Gpu>(device: &Device<G>, batches: &[Batch<'_, G>], places: &[usize]) -> Result<Vec<PendingRead<G>>> {
    let sequence: Vec<&Batch<'_, G>> = places.iter().map(|&at| &batches[at]).collect();
    let all_gates: Vec<&[SlotGate]> = sequence.iter().map(|batch| batch.gates).collect();
    let reading: Vec<usize> = places.iter().copied().filter(|&at| !batches[at].reads.is_empty()).collect();
    // if several arenas or many pieces of one arena are read, the last part copies their words to one place, so that the
    // host waits only once
    let gathers = reading.len() > 1 || reading.iter().any(|&at| is_scattered(device.gpu(), &batches[at]));
    let copied: Vec<&Batch<'_, G>> =
        if gathers { reading.iter().map(|&at| &batches[at]).collect() } else { Vec::new() };
    let stems = &sequence[0].key.stems;
    let rows_at_once = rows_at_once(device.gpu(), sequence[0].key, sequence.len());
    let mut parts = parts(&all_gates, rows_at_once);
    let all_cells: Vec<&SlotCells> = sequence.iter().map(|batch| batch.cells).collect();
    // a part has half as many rows of cells as of gates, because a row of cells needs more table words and also
    // memory for a sum of wires
    for part in cells::parts(&all_cells, (rows_at_once / 2).max(1)) {
        stems.again_without_clusters(|| cells::evaluate_cells(device, &sequence, &part))?;
    }
    if parts.is_empty() && !copied.is_empty() {
        parts.push(Vec::new());
    }
    let mut copies = None;
    let has_mux =
        |part: &[(usize, &[SlotGate])]| part.iter().flat_map(|(_, gates)| *gates).any(|gate| gate.gate == Gate::Mux);
    for (i, part) in parts.iter().enumerate() {
        let steps = if has_mux(part) { &[Step::Operands, Step::Refresh][..] } else { &[Step::Operands] };
        for (at, &step) in steps.iter().enumerate() {
            let is_last = i + 1 == parts.len() && at + 1 == steps.len();
            let copied = if is_last { &copied[..] } else { &[] };
            let part = || gates::evaluate_gates(device, &sequence, step, part, copied);
            copies = stems.again_without_clusters(part)?;
        }
    }
    // the last gate's result is preferred to the last cell's, because gates are launched after cells
    let of_gates = sequence.iter().rev().find_map(|batch| Some((&batch.arena, batch.gates.last()?.result)));
    let of_cells = sequence.iter().rev().find_map(|batch| Some((&batch.arena, *batch.cells.slots().last()?)));
    match (copies, &reading[..], of_gates.or(of_cells)) {
        (Some(readback), ..) => {
            let words = |at: usize| batches[at].reads.len() * batches[at].arena.row_words;
            Ok(vec![PendingRead { readback, parts: reading.iter().map(|&at| ([at, 0], words(at))).collect() }])
        }
        (None, &[at, ..], _) => PendingRead::of_slots(device.gpu(), batches[at].arena, batches[at].reads, at),
        // a level of a circuit requests no words. One word of its last result is read nevertheless, because the
        // arrival of this word shows that the level is done
        (None, [], Some((arena, slot))) => {
            let (buf, words) = arena.row(slot);
            let readback = device.gpu().read(buf, std::slice::from_ref(&(words.start..words.start + 1)))?;
            Ok(vec![PendingRead { readback, parts: Vec::new() }])
        }
        (None, [], None) => Ok(Vec::new()),
    }
}
