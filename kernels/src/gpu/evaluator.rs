//! Gates on a card: the order of kernels, written once for every [`Gpu`].
//!
//! A batch sends tables (which slots, which factors) and launches; ciphertexts stay in the arena, and nothing is waited for
//! before the caller asks for its reads.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::blind_rotate::{self, BlindRotate, Variant};
use super::linear::{self, Linear};
use super::lwe_key_switch::{self, LweKeySwitch};
use super::mod_switch::ModSwitch;
use super::ntt::{self, Ntt};
use super::sample_extract::{NO_ROW, SampleExtract};
use super::stem::Compiler;
use super::{Card, Gpu, Table, alloc};
use crate::backend::{Backend, DeviceInfo, KeyedGates, SlotGate};
use crate::error::Result;
use crate::tfhe::gates::{self, Gate};
use crate::tfhe::{EvaluationKey, Params, Preset};

/// Bootstraps that go through the kernels together; more are cut up. Enough waves of groups that none runs half empty.
const ROWS_AT_ONCE_MAX: usize = 1 << 14;
/// Parameter sets whose stems are kept for the next key: the presets' and all that imported keys may have.
const STEMS_MAX: usize = 40;
/// Full waves of groups in a batch of `DeviceInfo::rows_max` rows.
const WAVES: usize = 2;
/// Full waves of groups in one launch at most: half a second on the smallest card, whose driver may end a launch that keeps
/// its screen waiting for some seconds.
const WAVES_AT_ONCE_MAX: usize = 16;
/// Copies of one batch overlap with the work of another.
const BATCHES_IN_FLIGHT_MAX: usize = 2;

/// A card as a backend.
pub struct Evaluator<G: Gpu> {
    gpu: G,
    info: DeviceInfo,
    compiler: Compiler<G>,
    /// Compiled stems of the parameters seen last, the oldest first.
    stems: Mutex<Vec<(Params, Arc<Stems<G>>)>>,
    scratch: Mutex<Scratch<G>>,
}

/// All stems, compiled for one parameter set.
pub struct Stems<G: Gpu> {
    /// Transforms.
    pub ntt: Ntt<G>,
    /// Linear parts and NOT.
    pub linear: Linear<G>,
    /// Modulus switch.
    pub mod_switch: ModSwitch<G>,
    /// Blind rotation.
    pub blind_rotate: BlindRotate<G>,
    /// Sample extraction.
    pub sample_extract: SampleExtract<G>,
    /// Key switch.
    pub key_switch: LweKeySwitch<G>,
}

impl<G: Gpu> Stems<G> {
    /// Compiles them, or takes what `compiler` compiled before.
    pub fn new(gpu: &G, compiler: &Compiler<G>, params: &Params, variant: Variant) -> Result<Self> {
        Ok(Stems {
            ntt: Ntt::new(gpu, compiler, params)?,
            linear: Linear::new(gpu, compiler, params)?,
            mod_switch: ModSwitch::new(gpu, compiler, params)?,
            blind_rotate: BlindRotate::new(gpu, compiler, params, variant)?,
            sample_extract: SampleExtract::new(gpu, compiler, params)?,
            key_switch: LweKeySwitch::new(gpu, compiler, params)?,
        })
    }
}

/// An evaluation key in the card's memory, with the stems that read it.
pub struct Key<G: Gpu> {
    params: Params,
    stems: Arc<Stems<G>>,
    roots: G::Buf,
    bootstrap: G::Buf,
    key_switch: G::Buf,
}

/// Ciphertexts in the card's memory: `[slots][n + 1]` words.
pub struct Arena<G: Gpu> {
    buf: G::Buf,
    slots: usize,
    /// `n + 1`.
    row_words: usize,
}

/// Buffers of a batch under way, kept for the next: the card works on one batch after another.
struct Scratch<G: Gpu> {
    /// Tables of `linear`, `sample_extract`, `lwe_key_switch`, `negate`, one after another.
    tables: Grown<G>,
    /// `[rows][n + 1]`: linear parts, then their exponents.
    exponents: Grown<G>,
    /// `[rows][k + 1][N]`.
    accumulators: Grown<G>,
    /// `[gates][kN + 1]`.
    samples: Grown<G>,
}

/// A buffer that grows with what is asked of it.
struct Grown<G: Gpu>(Option<(usize, G::Buf)>);

impl<G: Gpu> Grown<G> {
    /// At least this many words, of any contents.
    fn of(&mut self, gpu: &G, words: usize) -> Result<&G::Buf> {
        if !matches!(&self.0, Some((has, _)) if *has >= words) {
            // the smaller one goes first
            self.0 = None;
            self.0 = Some((words, alloc(gpu, words)?));
        }
        Ok(&self.0.as_ref().expect("it was just made").1)
    }

    /// The table from a word on, of what is there.
    fn from(&self, first: usize) -> Table<'_, G> {
        Table { buf: &self.0.as_ref().expect("tables are written before kernels start").1, first }
    }

    /// These words, from the beginning.
    fn with(&mut self, gpu: &G, words: &[u32]) -> Result<&G::Buf> {
        let buf = self.of(gpu, words.len())?;
        gpu.write(buf, 0, words)?;
        Ok(buf)
    }
}

impl<G: Gpu> Default for Scratch<G> {
    fn default() -> Self {
        Scratch { tables: Grown(None), exponents: Grown(None), accumulators: Grown(None), samples: Grown(None) }
    }
}

impl<G: Gpu> Evaluator<G> {
    /// A card, opened.
    pub fn new(gpu: G) -> Evaluator<G> {
        let card = gpu.card();
        let info = DeviceInfo {
            backend: card.backend.clone(),
            name: card.name.clone(),
            memory_bytes: card.memory_bytes,
            rows_max: WAVES * rows_of_a_wave(card, &Preset::Fast128.params()),
            batches_in_flight_max: BATCHES_IN_FLIGHT_MAX,
            keys_together_max: 1,
        };
        Evaluator {
            gpu,
            info,
            compiler: Compiler::default(),
            stems: Mutex::default(),
            scratch: Mutex::new(Scratch::default()),
        }
    }

    /// The card.
    pub fn gpu(&self) -> &G {
        &self.gpu
    }

    /// From those that are kept, or compiled by the caller's thread, for which no other waits unless it wants the same.
    fn stems(&self, params: &Params) -> Result<Arc<Stems<G>>> {
        if let Some(stems) = self.known_stems(params) {
            return Ok(stems);
        }
        let variant = Variant::of(self.gpu.card(), params);
        let stems = Arc::new(Stems::new(&self.gpu, &self.compiler, params, variant)?);
        let mut known = self.stems.lock().unwrap_or_else(PoisonError::into_inner);
        // two threads may have wanted the same; their modules are
        known.retain(|(of, _)| of != params);
        if known.len() >= STEMS_MAX {
            known.remove(0);
        }
        known.push((*params, stems.clone()));
        Ok(stems)
    }

    fn known_stems(&self, params: &Params) -> Option<Arc<Stems<G>>> {
        let known = self.stems.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|(of, _)| of == params).map(|(_, stems)| stems.clone())
    }

    fn scratch(&self) -> MutexGuard<'_, Scratch<G>> {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bootstraps that go through the kernels together: neither more groups nor larger buffers than the card has.
    fn rows_at_once(&self, key: &Key<G>) -> usize {
        let (card, p) = (self.gpu.card(), &key.params);
        let row_words = blind_rotate::accumulator_words(p).max(p.lwe_dimension + 1);
        let fit = (card.buffer_bytes_max / (4 * row_words as u64)) as usize;
        let rows = fit.min(card.groups_max as usize).min(key.stems.key_switch.gates_max(card.groups_max));
        let rows = rows.min(WAVES_AT_ONCE_MAX * rows_of_a_wave(card, p));
        // a MUX takes two
        rows.clamp(2, ROWS_AT_ONCE_MAX)
    }

    /// Starts a batch; its read, and how many words were asked for.
    fn evaluate_batch(&self, batch: &KeyedGates<'_, Self>) -> Result<(G::Pending, usize)> {
        let KeyedGates { key, arena, gates, reads } = batch;
        let operands = gates.iter().flat_map(|gate| &gate.operands[..gate.gate.arity()]);
        let mut named = operands.chain(gates.iter().map(|gate| &gate.result)).chain(*reads);
        assert!(named.all(|&slot| (slot as usize) < arena.slots), "slots of the arena");
        for part in parts(gates, self.rows_at_once(key)) {
            self.evaluate_some(key, arena, part)?;
        }
        let mut ranges = ranges(reads, arena.row_words);
        if let (true, Some(last)) = (reads.is_empty(), gates.last()) {
            // a level of a circuit reads nothing: a word of its results tells when it is done
            let at = last.result as usize * arena.row_words;
            ranges.push(at..at + 1);
        }
        Ok((self.gpu.read(&arena.buf, &ranges)?, reads.len() * arena.row_words))
    }

    /// Some of a batch's gates, no more bootstraps than go through together.
    fn evaluate_some(&self, key: &Key<G>, arena: &Arena<G>, gates: &[SlotGate]) -> Result<()> {
        let (gpu, stems) = (&self.gpu, &key.stems);
        let (mut sums, mut negations, mut extractions, mut results) = (vec![], vec![], vec![], vec![]);
        for gate in gates {
            if gate.gate == Gate::Not {
                negations.extend([gate.operands[0], gate.result]);
                continue;
            }
            let row = (sums.len() / linear::ADD_WORDS) as u32;
            extractions.extend([row, if gate.gate.bootstraps() == 2 { row + 1 } else { NO_ROW }]);
            for (operands, sum) in gates::bootstraps(gate.gate) {
                sums.extend(linear::add_row(*sum, operands.map(|operand| gate.operands[operand])));
            }
            results.push(gate.result);
        }
        let scratch = &mut *self.scratch();
        // all tables in one upload, before the first kernel: none waits for the host in between
        scratch.tables.with(gpu, &[&sums[..], &extractions, &results, &negations].concat())?;
        let extractions_at = sums.len();
        let results_at = extractions_at + extractions.len();
        let negations_at = results_at + results.len();
        if !results.is_empty() {
            let rows = sums.len() / linear::ADD_WORDS;
            let exponents = scratch.exponents.of(gpu, rows * (key.params.lwe_dimension + 1))?;
            stems.linear.add(gpu, &arena.buf, scratch.tables.from(0), exponents, rows)?;
            self.bootstrap_exponents(key, scratch, rows, extractions_at, results.len())?;
            let (samples, table) = (scratch.samples.of(gpu, 0)?, scratch.tables.from(results_at));
            stems.key_switch.run(gpu, &key.key_switch, samples, table, &arena.buf, results.len())?;
        }
        if !negations.is_empty() {
            let rows = negations.len() / linear::NEGATE_WORDS;
            stems.linear.negate(gpu, &arena.buf, scratch.tables.from(negations_at), rows)?;
        }
        Ok(())
    }

    /// From torus words in `scratch.exponents` to samples in `scratch.samples`; the table of `gates` extractions is in
    /// `scratch.tables`.
    fn bootstrap_exponents(
        &self,
        key: &Key<G>,
        scratch: &mut Scratch<G>,
        rows: usize,
        extractions_at: usize,
        gates: usize,
    ) -> Result<()> {
        let (gpu, stems, p) = (&self.gpu, &key.stems, &key.params);
        let exponents = scratch.exponents.of(gpu, 0)?;
        let accumulators = scratch.accumulators.of(gpu, rows * blind_rotate::accumulator_words(p))?;
        stems.mod_switch.run(gpu, exponents, rows * (p.lwe_dimension + 1))?;
        stems.blind_rotate.run(gpu, &key.bootstrap, &key.roots, exponents, accumulators, rows)?;
        let samples = scratch.samples.of(gpu, gates * (p.extracted_dimension() + 1))?;
        stems.sample_extract.run(gpu, accumulators, scratch.tables.from(extractions_at), samples, gates)
    }
}

/// Rows that a card works on at the same time.
fn rows_of_a_wave(card: &Card, params: &Params) -> usize {
    card.multiprocessors as usize * Variant::of(card, params).rows_of_a_multiprocessor(params)
}

/// Consecutive parts of `gates` of at most `rows` bootstraps each.
fn parts(gates: &[SlotGate], rows: usize) -> impl Iterator<Item = &[SlotGate]> {
    let mut rest = gates;
    std::iter::from_fn(move || {
        let mut sum = 0;
        let fit = rest.iter().take_while(|gate| {
            sum += gate.gate.bootstraps();
            sum <= rows
        });
        let (part, left) = rest.split_at(fit.count());
        rest = left;
        (!part.is_empty()).then_some(part)
    })
}

/// Words of slots, one range for each run of neighbours.
fn ranges(slots: &[u32], row_words: usize) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for &slot in slots {
        let words = slot as usize * row_words..(slot as usize + 1) * row_words;
        match ranges.last_mut() {
            Some(last) if last.end == words.start => last.end = words.end,
            _ => ranges.push(words),
        }
    }
    ranges
}

/// Batches under way.
pub struct Pending<G: Gpu> {
    /// Of each batch, with the number of words that were asked for.
    reads: Vec<(G::Pending, usize)>,
}

impl<G: Gpu> Backend for Evaluator<G> {
    type Key = Key<G>;
    type Arena = Arena<G>;
    type Pending = Pending<G>;

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn prepare(&self, params: &Params) -> Result<()> {
        self.stems(params).map(drop)
    }

    fn load_key(&self, key: &EvaluationKey) -> Result<Key<G>> {
        let (gpu, params) = (&self.gpu, key.params);
        let stems = self.stems(&params)?;
        let roots = ntt::roots(&params);
        let table = alloc(gpu, roots.len())?;
        gpu.write(&table, 0, &roots)?;
        let bootstrap = stems.blind_rotate.load(gpu, &stems.ntt, &table, key)?;
        let key_switch = stems.key_switch.load(gpu, key)?;
        Ok(Key { params, stems, roots: table, bootstrap, key_switch })
    }

    fn key_bytes(&self, params: &Params) -> u64 {
        let bootstrap = blind_rotate::key_words(params);
        4 * (bootstrap + lwe_key_switch::key_words(params) + 4 * params.polynomial_size) as u64
    }

    fn arena(&self, params: &Params, slots: usize) -> Result<Arena<G>> {
        let row_words = params.lwe_dimension + 1;
        Ok(Arena { buf: alloc(&self.gpu, slots * row_words)?, slots, row_words })
    }

    fn grow(&self, arena: &mut Arena<G>, slots: usize) -> Result<()> {
        assert!(slots >= arena.slots, "an arena does not shrink");
        let buf = alloc(&self.gpu, slots * arena.row_words)?;
        self.gpu.copy(&arena.buf, &buf, arena.slots * arena.row_words)?;
        (arena.buf, arena.slots) = (buf, slots);
        Ok(())
    }

    fn write(&self, arena: &mut Arena<G>, first: u32, words: &[u32]) -> Result<()> {
        assert!(words.len().is_multiple_of(arena.row_words), "whole rows");
        assert!(first as usize + words.len() / arena.row_words <= arena.slots, "slots of the arena");
        self.gpu.write(&arena.buf, first as usize * arena.row_words, words)
    }

    fn wait(&self, pending: &Pending<G>, wanted: &mut dyn FnMut() -> bool) -> Result<bool> {
        for (read, _) in &pending.reads {
            if !self.gpu.wait(read, wanted)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn evaluate_together(&self, batches: &mut [KeyedGates<'_, Self>]) -> Result<Pending<G>> {
        let reads = batches.iter().map(|batch| self.evaluate_batch(batch)).collect::<Result<_>>()?;
        Ok(Pending { reads })
    }

    fn finish(&self, pending: Pending<G>) -> Result<Vec<u32>> {
        let mut all = Vec::new();
        for (read, count) in pending.reads {
            let mut words = self.gpu.finish(read)?;
            words.truncate(count);
            if all.is_empty() { all = words } else { all.extend(words) }
        }
        Ok(all)
    }

    fn bootstrap(&self, key: &Key<G>, inputs: &[u32]) -> Result<Vec<u32>> {
        let (row_in, row_out) = (key.params.lwe_dimension + 1, key.params.extracted_dimension() + 1);
        let mut out = Vec::with_capacity(inputs.len() / row_in * row_out);
        for inputs in inputs.chunks(self.rows_at_once(key) * row_in) {
            let rows = inputs.len() / row_in;
            let scratch = &mut *self.scratch();
            scratch.exponents.with(&self.gpu, inputs)?;
            let extractions: Vec<u32> = (0..rows as u32).flat_map(|row| [row, NO_ROW]).collect();
            scratch.tables.with(&self.gpu, &extractions)?;
            self.bootstrap_exponents(key, scratch, rows, 0, rows)?;
            let samples = 0..rows * row_out;
            let pending = self.gpu.read(scratch.samples.of(&self.gpu, 0)?, std::slice::from_ref(&samples))?;
            out.extend(self.gpu.finish(pending)?);
        }
        Ok(out)
    }

    fn key_switch(&self, key: &Key<G>, inputs: &[u32]) -> Result<Vec<u32>> {
        let (row_in, row_out) = (key.params.extracted_dimension() + 1, key.params.lwe_dimension + 1);
        let mut out = Vec::with_capacity(inputs.len() / row_in * row_out);
        for inputs in inputs.chunks(self.rows_at_once(key) * row_in) {
            let gates = inputs.len() / row_in;
            let arena = self.arena(&key.params, gates)?;
            let slots: Vec<u32> = (0..gates as u32).collect();
            let scratch = &mut *self.scratch();
            let samples = scratch.samples.with(&self.gpu, inputs)?;
            scratch.tables.with(&self.gpu, &slots)?;
            let table = scratch.tables.from(0);
            key.stems.key_switch.run(&self.gpu, &key.key_switch, samples, table, &arena.buf, gates)?;
            let pending = self.gpu.read(&arena.buf, &ranges(&slots, row_out))?;
            out.extend(self.gpu.finish(pending)?);
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::{Language, Launch, Source};

    #[cfg(feature = "cuda")]
    #[test]
    fn what_is_prepared_is_compiled_once_and_kept_for_every_shape_that_keys_may_have() {
        let paper = crate::cuda::Paper::new((9, 0));
        let evaluator = Evaluator::new(paper.clone());
        let shapes: Vec<Params> =
            Preset::ALL.map(Preset::params).into_iter().chain(crate::tfhe_rs::accepted_params()).collect();
        assert!(shapes.len() <= STEMS_MAX);
        let prepare_all = || shapes.iter().for_each(|params| evaluator.prepare(params).expect("paper takes all"));
        prepare_all();
        let compiled = paper.sources().len();
        let kept: Vec<_> = shapes.iter().map(|params| evaluator.known_stems(params).expect("kept")).collect();
        prepare_all();
        assert_eq!(paper.sources().len(), compiled);
        for (params, stems) in shapes.iter().zip(&kept) {
            assert!(Arc::ptr_eq(&evaluator.known_stems(params).expect("kept"), stems));
        }
    }

    #[test]
    fn parts_keep_order_and_no_part_has_too_many_bootstraps() {
        let gates: Vec<SlotGate> = [Gate::Mux, Gate::Not, Gate::And, Gate::Mux, Gate::Not, Gate::Mux, Gate::Or]
            .into_iter()
            .zip(0..)
            .map(|(gate, result)| SlotGate { gate, operands: [0; 3], result })
            .collect();
        let lengths: Vec<usize> = parts(&gates, 3).map(<[SlotGate]>::len).collect();
        assert_eq!(lengths, [3, 2, 2]);
        let together: Vec<SlotGate> = parts(&gates, 3).flatten().copied().collect();
        assert_eq!(together, gates);
        assert_eq!(parts(&[], 3).count(), 0);
    }

    /// A card that computes nothing and tells what it is asked for: `write`, `read`, entries.
    struct Told {
        card: Card,
        asked: Mutex<Vec<&'static str>>,
    }

    impl Told {
        fn tell<T>(&self, what: &'static str, value: T) -> Result<T> {
            self.asked.lock().expect("one thread").push(what);
            Ok(value)
        }
    }

    impl Gpu for Told {
        type Buf = ();
        type Module = ();
        type Pending = ();

        fn card(&self) -> &Card {
            &self.card
        }
        fn compile(&self, _: &Source) -> Result<()> {
            Ok(())
        }
        fn alloc(&self, _: usize) -> Result<()> {
            Ok(())
        }
        fn write(&self, _: &(), _: usize, _: &[u32]) -> Result<()> {
            self.tell("write", ())
        }
        fn copy(&self, _: &(), _: &(), _: usize) -> Result<()> {
            self.tell("copy", ())
        }
        fn launch(&self, launch: Launch<'_, Told>) -> Result<()> {
            self.tell(launch.entry, ())
        }
        fn read(&self, _: &(), ranges: &[Range<usize>]) -> Result<()> {
            self.tell(if ranges.is_empty() { "read nothing" } else { "read" }, ())
        }
        fn finish(&self, (): ()) -> Result<Vec<u32>> {
            Ok(Vec::new())
        }
    }

    fn told(multiprocessors: u32) -> Evaluator<Told> {
        let card = Card {
            backend: "told".into(),
            name: "told".into(),
            memory_bytes: 1 << 30,
            language: Language::Cuda,
            threads_max: 1024,
            shared_bytes_max: 48 << 10,
            groups_max: i32::MAX as u32,
            buffer_bytes_max: 1 << 30,
            multiprocessors,
            compute_capability: None,
            loop_turns_max: None,
            wide_integers: true,
        };
        Evaluator::new(Told { card, asked: Mutex::default() })
    }

    fn loaded(backend: &Evaluator<Told>) -> Key<Told> {
        let params = Preset::Fast128.params();
        let variant = Variant::of(backend.gpu.card(), &params);
        let stems =
            Arc::new(Stems::new(&backend.gpu, &backend.compiler, &params, variant).expect("nothing to compile"));
        Key { params, stems, roots: (), bootstrap: (), key_switch: () }
    }

    #[test]
    fn a_batch_sends_all_its_tables_at_once_before_its_first_kernel() {
        let backend = told(4);
        let key = loaded(&backend);
        let mut arena = backend.arena(&key.params, 8).expect("room");
        let gate = |gate, result| SlotGate { gate, operands: [0, 1, 2], result };
        let gates = [gate(Gate::Mux, 3), gate(Gate::Not, 4), gate(Gate::And, 5)];
        backend.evaluate(&key, &mut arena, &gates, &[3, 4, 5]).expect("launches");
        let asked = std::mem::take(&mut *backend.gpu.asked.lock().expect("one thread"));
        let kernels =
            ["linear", "mod_switch", "blind_rotate_start", "blind_rotate", "sample_extract", "lwe_key_switch"];
        assert_eq!(asked, [&["write"][..], &kernels, &["negate", "read"]].concat());
    }

    #[test]
    fn a_batch_that_reads_nothing_is_done_when_its_last_kernel_is() {
        let backend = told(4);
        let key = loaded(&backend);
        let mut arena = backend.arena(&key.params, 8).expect("room");
        let gates = [SlotGate { gate: Gate::And, operands: [0, 1, 2], result: 3 }];
        let pending = backend.evaluate(&key, &mut arena, &gates, &[]).expect("launches");
        assert_eq!(backend.gpu.asked.lock().expect("one thread").last(), Some(&"read"));
        assert_eq!(backend.finish(pending).expect("nothing fails"), []);
    }

    #[test]
    fn no_launch_has_more_than_sixteen_waves_of_a_small_card() {
        let backend = told(14);
        let key = loaded(&backend);
        // the smallest card of 2018: 14 multiprocessors, each with four groups of 256 threads of 64 registers
        assert_eq!(backend.rows_at_once(&key), 16 * 14 * 4);
        assert_eq!(backend.info().rows_max, 2 * 14 * 4);
        assert_eq!(told(1000).rows_at_once(&key), ROWS_AT_ONCE_MAX);
    }

    #[test]
    fn neighbouring_slots_are_read_together() {
        assert_eq!(ranges(&[3, 4, 5, 1, 2, 2], 10), [30..60, 10..30, 20..30]);
    }
}
