//! Gates on a GPU: the sequence of kernels, written once for every [`Gpu`].
//!
//! A batch uploads tables (places of ciphertexts, factors) and launches kernels. Ciphertexts stay in the arena, and the
//! host waits only when the caller asks for its reads. On CUDA, batches of several keys of equal parameters form one
//! sequence of launches: tables hold the distance from the first key to each row's key, and the distances from the
//! first arena to each row's ciphertexts.

mod cells;
mod together;

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::blind_rotate::{self, BlindRotate, Variant};
use super::cells::Cells;
use super::linear::{self, Linear};
use super::lwe_key_switch::{self, LweKeySwitch};
use super::mod_switch::ModSwitch;
use super::sample_extract::{NO_ROW, SampleExtract};
use crate::backend::{Backend, DeviceInfo};
use crate::error::{Error, Result};
use crate::gpu::distance::{Distance, distance, words_between};
use crate::gpu::ntt::{self, Ntt};
use crate::gpu::scratch::Scratch;
use crate::gpu::stem::Compiler;
use crate::gpu::{Arena, ChunkRead, Gpu, Language, LaunchOf, Properties, Table, View, ViewOf, alloc};
use crate::tfhe::backend::KeyPiece;
use crate::tfhe::{EvaluationKey, Gate, Gates, KeyedGates, Params, Preset, SlotCells, SlotGate, Stems, ring};
use together::{KeyDistances, Lists, SharesPlace, Step, Tables, counts, parts};

/// Largest number of bootstraps that run through the kernels together; larger batches are split. This number makes
/// enough waves of groups to fill the GPU.
const ROWS_AT_ONCE_MAX: usize = 1 << 14;
/// Largest number of parameter sets whose stems are cached. All sets fit: the presets with both mod switches, and all
/// possible imported keys.
const STEMS_MAX: usize = 72;
/// Number of full waves of groups in a batch of `DeviceInfo::rows_max` rows.
const WAVES: usize = 2;
/// Largest number of full waves of groups in one launch. So many waves take half a second on the smallest card. A
/// driver may end a launch that blocks the screen for some seconds.
const WAVES_AT_ONCE_MAX: usize = 16;
/// Two batches may be in flight, so that the copies of one batch overlap with the work of the other batch.
const BATCHES_IN_FLIGHT_MAX: usize = 2;

/// A GPU as a backend.
pub struct GpuBackend<G: Gpu> {
    gpu: G,
    info: DeviceInfo,
    compiler: Compiler<G>,
    /// Compiled stems of recent parameter sets, least recently used first.
    stems: Mutex<Vec<(Params, Arc<CompiledStems<G>>)>>,
    scratch: Mutex<Banks<G>>,
}

/// All kernel stems, compiled for one parameter set.
pub struct CompiledStems<G: Gpu> {
    /// Transforms.
    pub ntt: Ntt<G>,
    /// Linear parts and NOT.
    pub linear: Linear<G>,
    /// Sums of cells.
    pub cells: Cells<G>,
    /// Mod switch.
    pub mod_switch: ModSwitch<G>,
    /// Blind rotation.
    pub blind_rotate: BlindRotate<G>,
    /// Sample extraction.
    pub sample_extract: SampleExtract<G>,
    /// Key switch.
    pub key_switch: LweKeySwitch<G>,
}

impl<G: Gpu> CompiledStems<G> {
    /// Compiles the stems, or takes them from the cache of `compiler`.
    pub fn new(gpu: &G, compiler: &Compiler<G>, params: &Params, variant: Variant) -> Result<Self> {
        Ok(CompiledStems {
            ntt: Ntt::new(gpu, compiler, &ring(params.polynomial_size))?,
            linear: Linear::new(gpu, compiler, params)?,
            cells: Cells::new(gpu, compiler, params)?,
            mod_switch: ModSwitch::new(gpu, compiler, params)?,
            blind_rotate: BlindRotate::new(gpu, compiler, params, variant)?,
            sample_extract: SampleExtract::new(gpu, compiler, params)?,
            key_switch: LweKeySwitch::new(gpu, compiler, params)?,
        })
    }
}

/// An evaluation key in GPU memory, with the stems that read it.
pub struct Key<G: Gpu> {
    params: Params,
    stems: Arc<CompiledStems<G>>,
    roots: G::Buf,
    bootstrap: G::Buf,
    key_switch: G::Buf,
}

/// A batch of this backend.
type Batch<'a, G> = KeyedGates<'a, Key<G>, Arena<G>>;

/// Scratch memory. All batches share it, because the GPU runs one batch after another. Each kernel reads one bank and
/// writes another, because a WGSL kernel cannot read one range of a buffer and write another range of it.
struct Banks<G: Gpu> {
    /// The tables of all kernels, one after another; the accumulators, `[rows][k + 1][N]`; the values that groups exchange.
    even: Scratch<G>,
    /// The linear parts and later their exponents, `[rows][n + 1]`; the samples, `[gates][kN + 1]`; the words that are
    /// read from several arenas, `[reads][n + 1]`.
    odd: Scratch<G>,
    /// The sums of wires, `[rows][kN + 1]`. Key switches take them from here to the exponents in `odd`, or to results.
    wires: Scratch<G>,
}

/// Largest number of table words for one bootstrap.
const TABLE_WORDS_OF_A_ROW: usize = 19;
/// Largest number of ranges in a bank. The end of each range may be padded.
const RANGES_MAX: usize = 4;

impl<G: Gpu> Default for Banks<G> {
    fn default() -> Self {
        let [even, odd, wires] = Default::default();
        Banks { even, odd, wires }
    }
}

impl<G: Gpu> GpuBackend<G> {
    /// Wraps an opened GPU.
    pub fn new(gpu: G) -> GpuBackend<G> {
        let properties = gpu.properties();
        let info = DeviceInfo {
            backend: properties.backend.clone(),
            name: properties.name.clone(),
            memory_bytes: properties.memory_bytes,
            rows_max: WAVES * rows_of_a_wave(properties, &Preset::Fast128.params()),
            batches_in_flight_max: BATCHES_IN_FLIGHT_MAX,
            keys_together_max: keys_together_max(properties),
        };
        GpuBackend { gpu, info, compiler: Compiler::default(), stems: Mutex::default(), scratch: Mutex::default() }
    }

    /// The GPU.
    pub fn gpu(&self) -> &G {
        &self.gpu
    }

    /// The stems for these parameters, cached or compiled by this thread. Other threads wait only if they need the
    /// same parameters.
    fn stems(&self, params: &Params) -> Result<Arc<CompiledStems<G>>> {
        if let Some(stems) = self.known_stems(params) {
            return Ok(stems);
        }
        let variant = Variant::of(self.gpu.properties(), params);
        let stems = Arc::new(CompiledStems::new(&self.gpu, &self.compiler, params, variant)?);
        let mut known = self.stems.lock().unwrap_or_else(PoisonError::into_inner);
        // another thread may have compiled stems for the same parameters in the meantime; only this thread's result is
        // kept
        known.retain(|(of, _)| of != params);
        if known.len() >= STEMS_MAX {
            known.remove(0);
        }
        known.push((*params, stems.clone()));
        Ok(stems)
    }

    fn known_stems(&self, params: &Params) -> Option<Arc<CompiledStems<G>>> {
        let known = self.stems.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|(of, _)| of == params).map(|(_, stems)| stems.clone())
    }

    fn scratch(&self) -> MutexGuard<'_, Banks<G>> {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of bootstraps that run through the kernels together, within the GPU's limits on groups and buffers.
    fn rows_at_once(&self, key: &Key<G>, batches: usize) -> usize {
        let (properties, p) = (self.gpu.properties(), &key.params);
        let even = p.accumulator_words() + TABLE_WORDS_OF_A_ROW;
        let odd = p.lwe_dimension + 1 + p.extracted_dimension() + 1;
        let words = (properties.buffer_bytes_max / 4) as usize;
        let fit = words.saturating_sub(RANGES_MAX * properties.alignment_words as usize) / even.max(odd);
        let groups_max = properties.groups_max[0];
        let rows = fit.min(groups_max as usize).min(key.stems.key_switch.gates_max(groups_max, batches));
        let rows = rows.min(WAVES_AT_ONCE_MAX * rows_of_a_wave(properties, p));
        // at least two, because two bootstraps of a MUX run together
        rows.clamp(2, ROWS_AT_ONCE_MAX)
    }

    /// Divides the batches into sequences of launches and returns the indices of the batches of each sequence. On CUDA,
    /// where kernels can address the buffers of all batches, batches with equal parameters form one sequence.
    /// Elsewhere, each batch is a sequence.
    fn sequences(&self, batches: &[Batch<'_, G>]) -> Vec<Vec<usize>> {
        let addresses = self.gpu.properties().language == Language::Cuda;
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

    /// Starts the batches with these indices, which have equal parameters, and starts the reads that they request.
    fn start(&self, batches: &[Batch<'_, G>], places: &[usize]) -> Result<Vec<PendingRead<G>>> {
        let sequence: Vec<&Batch<'_, G>> = places.iter().map(|&at| &batches[at]).collect();
        let gates: Vec<&[SlotGate]> = sequence.iter().map(|batch| batch.gates).collect();
        let reading: Vec<usize> = places.iter().copied().filter(|&at| !batches[at].reads.is_empty()).collect();
        // if several arenas are read, the last part copies their words to one place, so that the host waits only once
        let copied: Vec<&Batch<'_, G>> =
            if reading.len() > 1 { reading.iter().map(|&at| &batches[at]).collect() } else { Vec::new() };
        let rows_at_once = self.rows_at_once(sequence[0].key, sequence.len());
        let mut parts = parts(&gates, rows_at_once);
        let all_cells: Vec<&SlotCells> = sequence.iter().map(|batch| batch.cells).collect();
        // a part has half as many rows of cells as of gates, because a row of cells needs more table words and also
        // memory for a sum of wires
        for part in cells::parts(&all_cells, (rows_at_once / 2).max(1)) {
            self.again_without_clusters(&sequence[0].key.stems, || self.evaluate_cells(&sequence, &part))?;
        }
        if parts.is_empty() && !copied.is_empty() {
            parts.push(Vec::new());
        }
        let mut copies = None;
        let has_mux = |part: &[(usize, &[SlotGate])]| {
            part.iter().flat_map(|(_, gates)| *gates).any(|gate| gate.gate == Gate::Mux)
        };
        for (i, part) in parts.iter().enumerate() {
            let steps = if has_mux(part) { &[Step::Operands, Step::Refresh][..] } else { &[Step::Operands] };
            for (at, &step) in steps.iter().enumerate() {
                let is_last = i + 1 == parts.len() && at + 1 == steps.len();
                let copied = if is_last { &copied[..] } else { &[] };
                let part = || self.evaluate_part(&sequence, step, part, copied);
                copies = self.again_without_clusters(&sequence[0].key.stems, part)?;
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
            (None, &[at, ..], _) => self.read_slots(batches[at].arena, batches[at].reads, at),
            // a level of a circuit requests no words. One word of its last result is read nevertheless, because the
            // arrival of this word shows that the level is done
            (None, [], Some((arena, slot))) => {
                let (buf, words) = arena.row(slot);
                let readback = self.gpu.read(buf, std::slice::from_ref(&(words.start..words.start + 1)))?;
                Ok(vec![PendingRead { readback, parts: Vec::new() }])
            }
            (None, [], None) => Ok(Vec::new()),
        }
    }

    /// Starts to read slots of a batch's arena, with one read for each chunk that holds some of these slots.
    fn read_slots(&self, arena: &Arena<G>, slots: &[u32], batch: usize) -> Result<Vec<PendingRead<G>>> {
        let start = |read: ChunkRead<'_, G>| {
            let readback = self.gpu.read(read.buf, &read.ranges)?;
            let part = |asked: &Range<usize>| ([batch, asked.start], asked.len() * arena.row_words);
            Ok(PendingRead { readback, parts: read.asked.iter().map(part).collect() })
        };
        arena.reads(slots).into_iter().map(start).collect()
    }

    /// Runs `work`, which launches kernels. A GPU that is shared may refuse groups that wait for each other. Then
    /// `work` runs again with other kernels. This is safe, because the first run wrote no result.
    fn again_without_clusters<T>(&self, stems: &CompiledStems<G>, work: impl Fn() -> Result<T>) -> Result<T> {
        match work() {
            Err(Error::Unavailable(_)) if stems.blind_rotate.leave_clusters() => work(),
            other => other,
        }
    }

    /// Does a step of some gates of some batches, with at most as many bootstraps as can run together. Then copies the slots
    /// that the batches in `copied` request to one range, and starts to read this range.
    fn evaluate_part(
        &self,
        batches: &[&Batch<'_, G>],
        step: Step,
        part: &[(usize, &[SlotGate])],
        copied: &[&Batch<'_, G>],
    ) -> Result<Option<G::Readback>> {
        let (gpu, key, properties) = (&self.gpu, batches[0].key, self.gpu.properties());
        let (stems, p) = (&key.stems, &key.params);
        let of_part = || part.iter().map(|(batch, _)| batches[*batch]);
        let rotating: Vec<ViewOf<'_, G>> = of_part().map(|batch| View::all(&batch.key.bootstrap)).collect();
        let switching: Vec<ViewOf<'_, G>> = of_part().map(|batch| View::all(&batch.key.key_switch)).collect();
        let chunks: Vec<ViewOf<'_, G>> = of_part().flat_map(|batch| batch.arena.views()).collect();
        let mut lists = Lists::default();
        for (i, (batch, gates)) in part.iter().enumerate() {
            let [bootstrap, key_switch] =
                [&rotating, &switching].map(|views| distance(words_between(gpu, views[0].buf, views[i].buf)));
            lists.add(
                step,
                gates,
                KeyDistances { bootstrap, key_switch },
                batches[*batch].arena.distances(gpu, chunks[0].buf),
            );
        }
        let read: Vec<ViewOf<'_, G>> = copied.iter().flat_map(|batch| batch.arena.views()).collect();
        let mut copies = Vec::new();
        for batch in copied {
            let row = batch.arena.distances(gpu, read[0].buf);
            batch.reads.iter().for_each(|&slot| copies.extend(linear::copy_row(row(slot))));
        }
        let rows_max = stems.blind_rotate.rows_of_a_share(&counts(&lists.rotated));
        let gates_max = stems.key_switch.gates_of_a_share(&counts(&lists.switched), properties.groups_max[0]);
        // all tables are uploaded together before the first kernel, so no kernel waits for the host
        let mut tables = Tables::default();
        let sums = tables.add(&lists.sums);
        let rotations = tables.add_shares(&lists.rotated, rows_max);
        let extractions = tables.add(&lists.extractions);
        let switches = tables.add_shares(&lists.switched, gates_max);
        let results = tables.add(lists.results.as_flattened());
        let negations = tables.add(&lists.negations);
        let copies_at = tables.add(&copies);

        let (rows, gates, words) = (lists.rows(), lists.results.len(), p.lwe_dimension + 1);
        let rows_read = copies.len() / linear::ADD_WORDS;
        let mut scratch = self.scratch();
        let Banks { even, odd, .. } = &mut *scratch;
        let bootstrap = BootstrapScratch::take(gpu, key, even, &tables, &rotations, rows)?;
        let [exponents, samples, reads] =
            odd.take(gpu, [rows * words, gates * (p.extracted_dimension() + 1), rows_read * words])?;
        let table = |first| Table { all: bootstrap.tables, first };
        let mut launches = Vec::new();
        if rows > 0 {
            launches.extend(stems.linear.add(&chunks, table(sums), exponents, rows));
            launches.extend(bootstrap.launches(key, &rotating, &rotations, extractions, [exponents, samples], gates));
            let shares = switches.shares(table(switches.first));
            launches.extend(stems.key_switch.run(&switching, samples, table(results), &shares, &chunks));
        }
        if !lists.negations.is_empty() {
            let rows = lists.negations.len() / linear::NEGATE_WORDS;
            launches.extend(stems.linear.negate(&chunks, table(negations), rows));
        }
        if !copied.is_empty() {
            launches.extend(stems.linear.add(&read, table(copies_at), reads, rows_read));
        }
        gpu.launch_all(&launches)?;
        if copied.is_empty() { Ok(None) } else { gpu.read(reads.buf, &[reads.range()]).map(Some) }
    }
}

/// The ranges of the even bank that bootstraps use.
struct BootstrapScratch<'a, G: Gpu> {
    tables: ViewOf<'a, G>,
    accumulators: ViewOf<'a, G>,
    /// The values that groups exchange, and the counts with which groups wait for these values.
    shown: [ViewOf<'a, G>; 2],
}

impl<'a, G: Gpu> BootstrapScratch<'a, G> {
    /// Takes the ranges for `rows` rows and writes the tables.
    fn take(
        gpu: &G,
        key: &Key<G>,
        even: &'a mut Scratch<G>,
        tables: &Tables,
        rotations: &SharesPlace,
        rows: usize,
    ) -> Result<Self> {
        let [values, counts] = key.stems.blind_rotate.shown_words(rotations.count, rotations.rows_max);
        // the counts must start at zero, so zeros for them are part of the upload
        let counted = counts.next_multiple_of(gpu.properties().alignment_words as usize);
        let accumulators = rows * key.params.accumulator_words();
        let [uploaded, accumulators, values] = even.take(gpu, [counted + tables.words.len(), accumulators, values])?;
        if counted == 0 {
            gpu.write(uploaded.buf, uploaded.first, &tables.words)?;
        } else {
            gpu.write(uploaded.buf, uploaded.first, &[&vec![0; counted], &tables.words[..]].concat())?;
        }
        let shown = [values, uploaded.part(0..counts)];
        Ok(BootstrapScratch { tables: uploaded.part(counted..uploaded.words), accumulators, shown })
    }

    /// The launches that turn the torus words in `exponents` into samples, for `gates` gates.
    fn launches<'b>(
        &'b self,
        key: &'b Key<G>,
        keys: &'b [ViewOf<'b, G>],
        rotations: &SharesPlace,
        extractions: usize,
        [exponents, samples]: [ViewOf<'b, G>; 2],
        gates: usize,
    ) -> Vec<LaunchOf<'b, G>> {
        let mut launches = self.rotation(key, keys, rotations, exponents, None);
        let table = Table { all: self.tables, first: extractions };
        launches.extend(key.stems.sample_extract.run(self.accumulators, table, samples, gates));
        launches
    }

    /// The launches that turn the torus words in `exponents` into accumulators. The launch `marks` runs after the mod
    /// switch.
    fn rotation<'b>(
        &'b self,
        key: &'b Key<G>,
        keys: &'b [ViewOf<'b, G>],
        rotations: &SharesPlace,
        exponents: ViewOf<'b, G>,
        marks: Option<LaunchOf<'b, G>>,
    ) -> Vec<LaunchOf<'b, G>> {
        let (stems, accumulators) = (&key.stems, self.accumulators);
        let shares = rotations.shares(Table { all: self.tables, first: rotations.first });
        let switch = stems.mod_switch.run(exponents, exponents.words / (key.params.lwe_dimension + 1));
        let rotate = stems.blind_rotate.run(keys, View::all(&key.roots), exponents, accumulators, &shares, self.shown);
        switch.into_iter().chain(marks).chain(rotate).collect()
    }
}

/// Number of rows that a GPU runs at the same time.
fn rows_of_a_wave(properties: &Properties, params: &Params) -> usize {
    properties.multiprocessors as usize * Variant::of(properties, params).rows_of_a_multiprocessor(params)
}

/// Number of keys, with one row each, that a GPU runs at the same time: one for each multiprocessor. Further keys would
/// wait, just as in a separate call.
fn keys_together_max(properties: &Properties) -> usize {
    match properties.language {
        Language::Cuda => properties.multiprocessors.max(1) as usize,
        // a WGSL kernel cannot reach the buffer of another key
        Language::Wgsl => 1,
    }
}

/// Batches in flight.
pub struct Pending<G: Gpu> {
    /// One read for each sequence of launches, or one for each chunk that a sequence reads.
    reads: Vec<PendingRead<G>>,
}

/// A read in flight.
struct PendingRead<G: Gpu> {
    readback: G::Readback,
    /// The parts of the read, in order. For each part: the batch's index in the call, the index of its first requested
    /// slot, and the number of words.
    parts: Vec<([usize; 2], usize)>,
}

impl<G: Gpu> Backend for GpuBackend<G> {
    type Arena = Arena<G>;
    type Pending = Pending<G>;

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn arena(&self, row_words: usize, slots: usize) -> Result<Arena<G>> {
        Arena::zeroed(&self.gpu, row_words, slots)
    }

    fn grow(&self, arena: &mut Arena<G>, slots: usize) -> Result<()> {
        arena.grow(&self.gpu, slots)
    }

    fn write(&self, arena: &mut Arena<G>, first: u32, words: &[u32]) -> Result<()> {
        arena.write(&self.gpu, first, words)
    }

    fn read(&self, arena: &Arena<G>, slots: &[u32]) -> Result<Pending<G>> {
        Ok(Pending { reads: self.read_slots(arena, slots, 0)? })
    }

    fn wait(&self, pending: &Pending<G>, wanted: &mut dyn FnMut() -> bool) -> Result<bool> {
        for read in &pending.reads {
            if !self.gpu.wait(&read.readback, wanted)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn finish(&self, pending: Pending<G>) -> Result<Vec<u32>> {
        let mut found = Vec::new();
        for PendingRead { readback, parts } in pending.reads {
            let mut words = self.gpu.finish(readback)?;
            // words that belong to no part are dropped: such a word was read only to detect the end of the batch
            words.truncate(parts.iter().map(|(_, count)| count).sum());
            // the parts are taken from the end, so that the words are not copied if one part is the whole read
            for &(place, count) in parts.iter().rev() {
                let rest = words.len() - count;
                found.push((place, if rest == 0 { std::mem::take(&mut words) } else { words.split_off(rest) }));
            }
        }
        found.sort_by_key(|(place, _)| *place);
        let mut all = found.into_iter().map(|(_, words)| words).filter(|words| !words.is_empty());
        let mut first = all.next().unwrap_or_default();
        all.for_each(|words| first.extend(words));
        Ok(first)
    }
}

impl<G: Gpu> Gates for GpuBackend<G> {
    type Key = Key<G>;

    fn prepare(&self, params: &Params) -> Result<()> {
        self.stems(params).map(drop)
    }

    fn room_for_key(&self, params: &Params) -> Result<Key<G>> {
        let gpu = &self.gpu;
        let stems = self.stems(params)?;
        let roots = ntt::roots(&ring(params.polynomial_size));
        let table = alloc(gpu, roots.len())?;
        gpu.write(&table, 0, &roots)?;
        let bootstrap = alloc(gpu, blind_rotate::key_words(params))?;
        let key_switch = alloc(gpu, lwe_key_switch::key_words(params))?;
        Ok(Key { params: *params, stems, roots: table, bootstrap, key_switch })
    }

    fn load_piece(&self, into: &mut Key<G>, piece: usize, key: &EvaluationKey) -> Result<bool> {
        let Key { params: p, stems, roots, bootstrap, key_switch } = into;
        let bit_bytes = 4 * blind_rotate::key_words(p) / p.lwe_dimension;
        let input_bytes = 4 * lwe_key_switch::key_words(p) / p.extracted_dimension();
        let (piece, more) = KeyPiece::of(p, piece, bit_bytes, input_bytes);
        match piece {
            KeyPiece::Bootstrap(bits) => {
                stems.blind_rotate.fill(&self.gpu, &stems.ntt, View::all(roots), key, bootstrap, bits)?;
            }
            KeyPiece::KeySwitch(inputs) => stems.key_switch.fill(&self.gpu, key, key_switch, inputs)?,
        }
        Ok(more)
    }

    fn key_bytes(&self, params: &Params) -> u64 {
        let bootstrap = blind_rotate::key_words(params);
        4 * (bootstrap + lwe_key_switch::key_words(params) + 4 * params.polynomial_size) as u64
    }

    fn evaluate_together(&self, batches: &mut [Batch<'_, G>]) -> Result<Pending<G>> {
        let batches = &*batches;
        for KeyedGates { arena, gates, cells, reads, .. } in batches {
            let operands = gates.iter().flat_map(|gate| &gate.operands[..gate.gate.arity()]);
            let results = gates.iter().map(|gate| &gate.result);
            let mut named = operands.chain(results).chain(cells.slots()).chain(*reads);
            assert!(named.all(|&slot| (slot as usize) < arena.slots()), "slots of the arena");
        }
        let sequences = self.sequences(batches);
        let reads = sequences.iter().map(|places| self.start(batches, places)).collect::<Result<Vec<_>>>()?;
        Ok(Pending { reads: reads.into_iter().flatten().collect() })
    }
}

impl<G: Gpu> Stems for GpuBackend<G> {
    fn bootstrap(&self, key: &Key<G>, inputs: &[u32]) -> Result<Vec<u32>> {
        let (row_in, row_out) = (key.params.lwe_dimension + 1, key.params.extracted_dimension() + 1);
        let mut out = Vec::with_capacity(inputs.len() / row_in * row_out);
        for inputs in inputs.chunks(self.rows_at_once(key, 1) * row_in) {
            let part = || self.bootstrap_part(key, inputs);
            out.extend(self.gpu.finish(self.again_without_clusters(&key.stems, part)?)?);
        }
        Ok(out)
    }

    fn key_switch(&self, key: &Key<G>, inputs: &[u32]) -> Result<Vec<u32>> {
        let (row_in, row_out) = (key.params.extracted_dimension() + 1, key.params.lwe_dimension + 1);
        let mut out = Vec::with_capacity(inputs.len() / row_in * row_out);
        for inputs in inputs.chunks(self.rows_at_once(key, 1) * row_in) {
            let gates = inputs.len() / row_in;
            let switched = alloc(&self.gpu, gates * row_out)?;
            let results: Vec<Distance> = (0..gates).map(|gate| distance((gate * row_out) as i64)).collect();
            let mut tables = Tables::default();
            let gates_max = key.stems.key_switch.gates_of_a_share(&[gates], self.gpu.properties().groups_max[0]);
            let results = tables.add(results.as_flattened());
            let switches = tables.add_shares(&[(gates, [0; 2])], gates_max);
            let mut scratch = self.scratch();
            let Banks { even, odd, .. } = &mut *scratch;
            let ([all], [samples]) =
                (even.take(&self.gpu, [tables.words.len()])?, odd.take(&self.gpu, [inputs.len()])?);
            self.gpu.write(all.buf, all.first, &tables.words)?;
            self.gpu.write(samples.buf, samples.first, inputs)?;
            let shares = switches.shares(Table { all, first: switches.first });
            let (keys, chunks) = ([View::all(&key.key_switch)], [View::all(&switched)]);
            let results = Table { all, first: results };
            let launch = key.stems.key_switch.run(&keys, samples, results, &shares, &chunks);
            launch.map_or(Ok(()), |launch| self.gpu.launch(&launch))?;
            out.extend(self.gpu.finish(self.gpu.read(&switched, std::slice::from_ref(&(0..gates * row_out)))?)?);
        }
        Ok(out)
    }
}

impl<G: Gpu> GpuBackend<G> {
    /// Starts the bootstraps of these torus rows, and starts to read their samples. There are at most as many rows as
    /// can run together.
    fn bootstrap_part(&self, key: &Key<G>, inputs: &[u32]) -> Result<G::Readback> {
        let (gpu, p) = (&self.gpu, &key.params);
        let rows = inputs.len() / (p.lwe_dimension + 1);
        let mut tables = Tables::default();
        let rotations = tables.add_shares(&[(rows, [0; 2])], key.stems.blind_rotate.rows_of_a_share(&[rows]));
        let extractions: Vec<u32> = (0..rows as u32).flat_map(|row| [row, NO_ROW]).collect();
        let extractions = tables.add(&extractions);
        let mut scratch = self.scratch();
        let Banks { even, odd, .. } = &mut *scratch;
        let bootstrap = BootstrapScratch::take(gpu, key, even, &tables, &rotations, rows)?;
        let [exponents, samples] = odd.take(gpu, [inputs.len(), rows * (p.extracted_dimension() + 1)])?;
        gpu.write(exponents.buf, exponents.first, inputs)?;
        let keys = [View::all(&key.bootstrap)];
        gpu.launch_all(&bootstrap.launches(key, &keys, &rotations, extractions, [exponents, samples], rows))?;
        gpu.read(samples.buf, &[samples.range()])
    }
}

#[cfg(test)]
mod tests;
