use std::ops::Range;

use super::*;
use crate::gpu::{Buffer, Launch, Source};
use crate::tfhe::cells::NO_CELLS;
use crate::tfhe::gates::Gate;

#[cfg(feature = "cuda")]
#[test]
fn what_is_prepared_is_compiled_once_and_kept_for_every_shape_that_keys_may_have() {
    let paper = crate::cuda::Paper::new((9, 0));
    let backend = GpuBackend::new(paper.clone());
    let of_version_1 =
        Preset::OF_VERSION_1.map(|preset| preset.params().with_mod_switch(crate::tfhe::ModSwitch::Nearest));
    let own = Preset::ALL.map(Preset::params).into_iter().chain(of_version_1);
    let shapes: Vec<Params> = own.chain(crate::tfhe_rs::accepted_params()).collect();
    assert!(shapes.len() <= STEMS_MAX);
    let prepare_all = || shapes.iter().for_each(|params| backend.prepare(params).expect("paper takes all"));
    prepare_all();
    let compiled = paper.sources().len();
    let kept: Vec<_> = shapes.iter().map(|params| backend.known_stems(params).expect("kept")).collect();
    prepare_all();
    assert_eq!(paper.sources().len(), compiled);
    for (params, stems) in shapes.iter().zip(&kept) {
        assert!(Arc::ptr_eq(&backend.known_stems(params).expect("kept"), stems));
    }
}

/// A GPU that computes nothing and records its calls: `write`, `read`, `finish`, and the names of launched entries. A
/// read of a buffer returns the indices of its words plus 1000 times the buffer's index.
struct Told {
    properties: Properties,
    asked: Mutex<Vec<&'static str>>,
    /// The number of words of each buffer.
    buffers: Mutex<Vec<usize>>,
}

impl Told {
    fn tell<T>(&self, what: &'static str, value: T) -> Result<T> {
        self.asked.lock().expect("one thread").push(what);
        Ok(value)
    }

    /// Returns the GPU calls since this method was last called.
    fn asked(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.asked.lock().expect("one thread"))
    }
}

struct Buf {
    number: usize,
    words: usize,
}

impl Buffer for Buf {
    fn words(&self) -> usize {
        self.words
    }
}

impl Gpu for Told {
    type Buf = Buf;
    type Module = ();
    /// The requested words.
    type Readback = Vec<u32>;

    fn properties(&self) -> &Properties {
        &self.properties
    }
    fn compile(&self, _: &Source) -> Result<()> {
        Ok(())
    }
    fn alloc(&self, words: usize) -> Result<Buf> {
        let mut buffers = self.buffers.lock().expect("one thread");
        buffers.push(words);
        Ok(Buf { number: buffers.len() - 1, words })
    }
    fn address(&self, buf: &Buf) -> Option<u64> {
        Some((buf.number as u64 + 1) << 40)
    }
    fn write(&self, _: &Buf, _: usize, _: &[u32]) -> Result<()> {
        self.tell("write", ())
    }
    fn copy(&self, _: &Buf, _: &Buf, _: usize) -> Result<()> {
        self.tell("copy", ())
    }
    fn launch(&self, launch: &Launch<'_, (), Buf>) -> Result<()> {
        launch.check(&self.properties)?;
        self.tell(launch.entry, ())
    }
    fn read(&self, buf: &Buf, ranges: &[Range<usize>]) -> Result<Vec<u32>> {
        let word = |at: usize| (1000 * buf.number + at) as u32;
        let words: Vec<u32> = ranges.iter().cloned().flatten().map(word).collect();
        self.tell(if words.is_empty() { "read nothing" } else { "read" }, words)
    }
    fn finish(&self, words: Vec<u32>) -> Result<Vec<u32>> {
        self.tell("finish", words)
    }
}

fn told(multiprocessors: u32) -> GpuBackend<Told> {
    told_of(Properties {
        backend: "told".into(),
        name: "told".into(),
        memory_bytes: 1 << 30,
        language: Language::Cuda,
        threads_max: 1024,
        shared_bytes_max: 48 << 10,
        groups_max: [i32::MAX as u32, 65_535, 65_535],
        buffer_bytes_max: 1 << 30,
        alignment_words: 64,
        multiprocessors,
        compute_capability: None,
        loop_turns_max: None,
        wide_integers: true,
    })
}

fn told_of(properties: Properties) -> GpuBackend<Told> {
    GpuBackend::new(Told { properties, asked: Mutex::default(), buffers: Mutex::default() })
}

fn loaded_for(backend: &GpuBackend<Told>, params: Params) -> Key<Told> {
    let stems = backend.stems(&params).expect("nothing to compile");
    let [roots, bootstrap, key_switch] = [(); 3].map(|()| backend.gpu.alloc(1).expect("room"));
    Key { params, stems, roots, bootstrap, key_switch }
}

fn loaded(backend: &GpuBackend<Told>) -> Key<Told> {
    loaded_for(backend, Preset::Fast128.params())
}

fn gate(gate: Gate, result: u32) -> SlotGate {
    SlotGate { gate, operands: [0, 1, 2], result }
}

/// Evaluates one batch for each of these keys, all in one call, and waits for the results. All batches have these
/// gates, and read these slots. Returns the GPU calls.
fn asked(backend: &GpuBackend<Told>, keys: &[Params], gates: &[SlotGate], reads: &[u32]) -> Vec<&'static str> {
    let keys: Vec<Key<Told>> = keys.iter().map(|params| loaded_for(backend, *params)).collect();
    let mut arenas: Vec<Arena<Told>> =
        keys.iter().map(|key| backend.arena(key.params.lwe_dimension + 1, 8).expect("room")).collect();
    let batches =
        keys.iter().zip(&mut arenas).map(|(key, arena)| KeyedGates { key, arena, gates, cells: &NO_CELLS, reads });
    backend.gpu.asked();
    let pending = backend.evaluate_together(&mut batches.collect::<Vec<_>>()).expect("launches");
    let words = backend.finish(pending).expect("nothing fails");
    assert_eq!(words.len(), keys.iter().map(|key| reads.len() * (key.params.lwe_dimension + 1)).sum());
    backend.gpu.asked()
}

const PLAIN: [&str; 6] =
    ["linear", "mod_switch", "blind_rotate_start", "blind_rotate", "sample_extract", "lwe_key_switch"];

#[test]
fn a_batch_sends_all_its_tables_at_once_before_its_first_kernel() {
    let gates = [gate(Gate::Or, 3), gate(Gate::Not, 4), gate(Gate::And, 5)];
    let found = asked(&told(4), &[Preset::Fast128.params()], &gates, &[3, 4, 5]);
    assert_eq!(found, [&["write"][..], &PLAIN, &["negate", "read", "finish"]].concat());
}

#[test]
fn a_mux_is_refreshed_after_all_gates_of_its_batch() {
    let gates = [gate(Gate::Mux, 3), gate(Gate::Not, 4), gate(Gate::And, 5)];
    let found = asked(&told(4), &[Preset::Fast128.params()], &gates, &[3, 4, 5]);
    assert_eq!(found, [&["write"][..], &PLAIN, &["negate", "write"], &PLAIN, &["read", "finish"]].concat());
}

#[test]
fn sixty_four_sessions_of_a_gate_are_as_many_launches_uploads_and_waits_as_one() {
    let params = Preset::Fast128.params();
    let capabilities = [None, Some((8, 0)), Some((8, 9)), Some((9, 0))];
    for capability in capabilities {
        let properties = Properties {
            compute_capability: capability,
            shared_bytes_max: 99 << 10,
            ..told(132).gpu.properties().clone()
        };
        let gates = [gate(Gate::And, 3)];
        let one = asked(&told_of(properties.clone()), &[params], &gates, &[3]);
        let all = asked(&told_of(properties), &[params; 64], &gates, &[3]);
        if capability == Some((9, 0)) {
            assert!(all.contains(&"blind_rotate_cluster"), "clusters of 64 rows: {all:?}");
        }
        // replaces the names of the special kernels, so that the calls can be compared
        let alike = |asked: Vec<&'static str>| -> Vec<&'static str> {
            let one_name = |what: &'static str| match what {
                "blind_rotate_warp" | "blind_rotate_cluster" => "blind_rotate",
                other => other,
            };
            asked.into_iter().map(one_name).collect()
        };
        let (one, all) = (alike(one), alike(all));
        // 64 sessions need one more launch, which copies the slots of their arenas to one place
        let at = one.len() - 2;
        assert_eq!(all, [&one[..at], &["linear"], &one[at..]].concat(), "{capability:?}");
    }
}

#[test]
fn sessions_of_several_parameters_are_a_sequence_of_launches_each() {
    let [fast, standard] = [Preset::Fast128, Preset::Standard128].map(Preset::params);
    let found = asked(&told(4), &[fast, standard, fast], &[gate(Gate::And, 3)], &[3]);
    let expected = [&["write"][..], &PLAIN, &["linear", "read", "write"], &PLAIN, &["read", "finish", "finish"]];
    assert_eq!(found, expected.concat());
}

#[test]
fn sessions_go_one_after_another_where_kernels_know_no_addresses() {
    let properties = Properties { language: Language::Wgsl, ..told(4).gpu.properties().clone() };
    let backend = told_of(properties);
    assert_eq!((backend.info().keys_together_max, told(4).info().keys_together_max), (1, 4));
    let found = asked(&backend, &[Preset::Fast128.params(); 2], &[gate(Gate::Not, 3)], &[3]);
    assert_eq!(found, ["write", "negate", "read", "write", "negate", "read", "finish", "finish"]);
}

#[test]
fn a_batch_that_reads_nothing_is_done_when_its_last_kernel_is() {
    for keys in [1, 3] {
        let found = asked(&told(4), &vec![Preset::Fast128.params(); keys], &[gate(Gate::And, 3)], &[]);
        assert_eq!(found, [&["write"][..], &PLAIN, &["read", "finish"]].concat());
    }
}

#[test]
fn an_arena_grows_by_a_chunk_where_kernels_know_addresses_and_is_copied_elsewhere() {
    let wgsl = told_of(Properties { language: Language::Wgsl, ..told(4).gpu.properties().clone() });
    for (backend, sizes, copies) in [(told(4), [20, 10, 30], 0), (wgsl, [20, 30, 60], 2)] {
        let mut arena = backend.arena(10, 2).expect("room");
        for slots in [2, 3, 6] {
            backend.grow(&mut arena, slots).expect("room");
        }
        assert_eq!(*backend.gpu.buffers.lock().expect("one thread"), sizes);
        assert_eq!(backend.gpu.asked(), vec!["copy"; copies]);
        assert_eq!(arena.slots(), 6);
        // an arena that does not fit one buffer is refused, and the arena is unchanged
        let too_many = (1 << 30) / 4 / 10 + 7;
        assert!(matches!(backend.grow(&mut arena, too_many), Err(Error::OutOfMemory(_))));
        assert_eq!(arena.slots(), 6);
    }
}

#[test]
fn what_is_read_of_several_chunks_is_a_read_each_and_comes_in_the_order_asked_for() {
    let backend = told(4);
    let mut arena = backend.arena(10, 2).expect("room");
    [3, 6].into_iter().for_each(|slots| backend.grow(&mut arena, slots).expect("room"));
    backend.write(&mut arena, 1, &[0; 40]).expect("three chunks");
    assert_eq!(backend.gpu.asked(), ["write"; 3]);
    let slots = [5, 1, 0, 2, 3, 4, 4, 1];
    // the three chunks are buffers 0, 1 and 2, so their words start at 0, 1000 and 2000
    let first_words = [2020, 10, 0, 1000, 2000, 2010, 2010, 10];
    let expected: Vec<u32> = first_words.iter().flat_map(|first| *first..first + 10).collect();
    let pending = backend.read(&arena, &slots).expect("reads");
    assert_eq!(backend.finish(pending).expect("words"), expected);
    assert_eq!(backend.gpu.asked(), ["read", "read", "read", "finish", "finish", "finish"]);

    let key = loaded(&backend);
    backend.gpu.asked();
    let pending = backend.evaluate(&key, &mut arena, &[gate(Gate::Not, 3)], &slots).expect("a launch");
    assert_eq!(backend.finish(pending).expect("words"), expected);
    let reads = ["read", "read", "read", "finish", "finish", "finish"];
    assert_eq!(backend.gpu.asked(), [&["write", "negate"][..], &reads].concat());
}

#[test]
fn a_slot_s_distance_leads_to_its_row_in_its_chunk() {
    let backend = told(4);
    let other = backend.gpu.alloc(1).expect("room");
    let mut arena = backend.arena(10, 2).expect("room");
    [3, 6].into_iter().for_each(|slots| backend.grow(&mut arena, slots).expect("room"));
    let words_of_a_buffer = 1i64 << 38;
    let row_of = [(0, 0), (0, 10), (1, 0), (2, 0), (2, 10), (2, 20)];
    let views: Vec<View<'_, Buf>> = arena.views().collect();
    for (from, buffers_before) in [(views[0].buf, 0), (&other, -1), (views[2].buf, 2)] {
        let distance_of = arena.distances(&backend.gpu, from);
        for (slot, (chunk, at)) in (0..).zip(row_of) {
            let [low, high] = distance_of(slot);
            let found = (u64::from(high) << 32 | u64::from(low)) as i64;
            assert_eq!(found, (chunk - buffers_before) * words_of_a_buffer + at, "slot {slot}");
        }
    }
}

#[test]
fn no_launch_has_more_than_sixteen_waves_of_a_small_card() {
    let backend = told(14);
    let key = loaded(&backend);
    // the smallest card of 2018 has 14 multiprocessors. Each runs four groups of 256 threads with 64 registers
    assert_eq!(backend.rows_at_once(&key, 1), 16 * 14 * 4);
    assert_eq!(backend.info().rows_max, 2 * 14 * 4);
    assert_eq!(told(1000).rows_at_once(&key, 1), ROWS_AT_ONCE_MAX);
}
