use super::limits::rows_at_once;
use super::*;
use crate::backend::Backend;
use crate::gpu::told::Told;
use crate::gpu::{Arena, Device, Gpu, Properties};
use crate::tfhe::cells::slots_of_wire;
use crate::tfhe::{Amplitude, CellKind, Gate, KeyedGates, LevelEnd, NO_CELLS, Params, Preset, SlotCells, SlotGate};

#[cfg(feature = "cuda")]
#[test]
fn what_is_prepared_is_compiled_once_and_kept_for_every_shape_that_keys_may_have() {
    let paper = crate::cuda::Paper::new((9, 0));
    let device = Device::new(paper.clone(), device_info(paper.properties()));
    let kernels = Kernels::default();
    let of_version_1 =
        Preset::OF_VERSION_1.map(|preset| preset.params().with_mod_switch(crate::tfhe::ModSwitch::Nearest));
    let own = Preset::ALL.map(Preset::params).into_iter().chain(of_version_1);
    let shapes: Vec<Params> = own.chain(crate::tfhe_rs::accepted_params()).collect();
    assert!(shapes.len() <= kernels::STEMS_MAX);
    let prepare_all = || shapes.iter().for_each(|params| kernels.prepare(&device, params).expect("paper takes all"));
    prepare_all();
    let compiled = paper.sources().len();
    let kept: Vec<_> = shapes.iter().map(|params| kernels.known_stems(params).expect("kept")).collect();
    prepare_all();
    assert_eq!(paper.sources().len(), compiled);
    for (params, stems) in shapes.iter().zip(&kept) {
        assert!(std::sync::Arc::ptr_eq(&kernels.known_stems(params).expect("kept"), stems));
    }
}

fn told(multiprocessors: u32) -> Device<Told> {
    device_of(Told::new(multiprocessors))
}

fn device_of(gpu: Told) -> Device<Told> {
    let info = device_info(gpu.properties());
    Device::new(gpu, info)
}

fn loaded_for(device: &Device<Told>, kernels: &Kernels<Told>, params: Params) -> Key<Told> {
    kernels.room_for_key(device, &params).expect("room")
}

fn loaded(device: &Device<Told>) -> Key<Told> {
    loaded_for(device, &Kernels::default(), Preset::Fast128.params())
}

fn gate(gate: Gate, result: u32) -> SlotGate {
    SlotGate { gate, operands: [0, 1, 2], result }
}

/// Evaluates one batch for each of these keys, all in one call, and waits for the results. All batches have these
/// gates, and read these slots. Returns the GPU calls.
fn asked(device: &Device<Told>, keys: &[Params], gates: &[SlotGate], reads: &[u32]) -> Vec<&'static str> {
    let kernels = Kernels::default();
    let keys: Vec<Key<Told>> = keys.iter().map(|params| loaded_for(device, &kernels, *params)).collect();
    let mut arenas: Vec<Arena<Told>> =
        keys.iter().map(|key| device.arena(key.params.lwe_dimension + 1, 8).expect("room")).collect();
    let batches = keys.iter().zip(&mut arenas).map(|(key, arena)| KeyedGates {
        key,
        arena,
        gates,
        cells: &NO_CELLS,
        ends: &[],
        reads,
    });
    device.gpu().asked();
    let pending = kernels.evaluate_together(device, &batches.collect::<Vec<_>>()).expect("launches");
    let words = device.finish(pending).expect("nothing fails");
    assert_eq!(words.len(), keys.iter().map(|key| reads.len() * (key.params.lwe_dimension + 1)).sum());
    device.gpu().asked()
}

const PLAIN: [&str; 6] =
    ["add_terms", "mod_switch", "blind_rotate_start", "blind_rotate", "sample_extract", "lwe_key_switch"];

#[test]
fn a_batch_sends_all_its_tables_at_once_before_its_first_kernel() {
    let gates = [gate(Gate::Or, 3), gate(Gate::Not, 4), gate(Gate::And, 5)];
    let found = asked(&told(4), &[Preset::Fast128.params()], &gates, &[3, 4, 5]);
    assert_eq!(found, [&["write"][..], &PLAIN, &["add_terms", "read", "finish"]].concat());
}

#[test]
fn gates_and_cells_of_a_level_are_one_sequence_of_launches() {
    let device = told(4);
    let key = loaded(&device);
    let (wire, arena) = (slots_of_wire(&key.params) as u32, |slots| device.arena(key.params.lwe_dimension + 1, slots));
    let slots: Vec<u32> = (0..5 * wire).collect();
    let wires: Vec<&[u32]> = slots.chunks(wire as usize).collect();
    let mut cells = SlotCells::new(wire as usize);
    cells.push(CellKind::Bootstrap(Amplitude::Quarter), 0, [(1, wires[0])], [(1, 5 * wire)], wires[1]);
    cells.push(CellKind::Bootstrap(Amplitude::Eighth), 0, [], [(1, 5 * wire)], wires[2]);
    cells.push(CellKind::Switch, 0, [(1, wires[0])], [], &[5 * wire + 1]);
    let gates = [gate(Gate::And, 5 * wire + 2), gate(Gate::Not, 5 * wire + 3)];
    let ends = [LevelEnd { gates: 0, cells: 2 }];
    let asked = |gates: &[SlotGate], ends: &[LevelEnd]| {
        let (mut arena, reads) = (arena(5 * wire as usize + 4).expect("room"), &[5 * wire + 1][..]);
        device.gpu().asked();
        let batch = KeyedGates { key: &key, arena: &mut arena, gates, cells: &cells, ends, reads };
        Kernels::default().evaluate_together(&device, &[batch]).expect("launches");
        device.gpu().asked()
    };
    let [sum, rotate] = [&["add_terms", "lwe_key_switch"][..], &["blind_rotate_start", "blind_rotate"]];
    let start = [&["write"], sum, &["add_terms", "mod_switch", "mark_quarter"], rotate, &["extract_wires"]].concat();
    let all = [&start[..], &["sample_extract", "lwe_key_switch", "add_terms", "read"]].concat();
    assert_eq!(asked(&gates, &[]), all);
    // in a level without gates, results are sums of wires
    assert_eq!(asked(&[], &[]), [&start[..], &["lwe_key_switch", "read"]].concat());
    // the last level has no bootstrap
    assert_eq!(asked(&[], &ends), [&start[..], &["write"], sum, &["read"]].concat());
}

#[test]
fn a_mux_is_refreshed_after_all_gates_of_its_batch() {
    let gates = [gate(Gate::Mux, 3), gate(Gate::Not, 4), gate(Gate::And, 5)];
    let found = asked(&told(4), &[Preset::Fast128.params()], &gates, &[3, 4, 5]);
    assert_eq!(found, [&["write"][..], &PLAIN, &["add_terms", "write"], &PLAIN, &["read", "finish"]].concat());
}

#[test]
fn sixty_four_sessions_of_a_gate_are_as_many_launches_uploads_and_waits_as_one() {
    let params = Preset::Fast128.params();
    let capabilities = [None, Some((8, 0)), Some((8, 9)), Some((9, 0))];
    for capability in capabilities {
        let properties = Properties {
            compute_capability: capability,
            memory_bytes: 80 << 30,
            shared_bytes_max: 99 << 10,
            ..Told::new(132).properties().clone()
        };
        let gates = [gate(Gate::And, 3)];
        let one = asked(&device_of(Told::of(properties.clone())), &[params], &gates, &[3]);
        let all = asked(&device_of(Told::of(properties)), &[params; 64], &gates, &[3]);
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
        assert_eq!(all, [&one[..at], &["add_terms"], &one[at..]].concat(), "{capability:?}");
    }
}

#[test]
fn sessions_of_several_parameters_are_a_sequence_of_launches_each() {
    let [fast, standard] = [Preset::Fast128, Preset::Standard128].map(Preset::params);
    let found = asked(&told(4), &[fast, standard, fast], &[gate(Gate::And, 3)], &[3]);
    let expected = [&["write"][..], &PLAIN, &["add_terms", "read", "write"], &PLAIN, &["read", "finish", "finish"]];
    assert_eq!(found, expected.concat());
}

#[test]
fn sessions_whose_keys_are_in_two_segments_go_one_after_another() {
    let params = Preset::Fast128.params();
    // a segment is a sixteenth of the memory: this card's segments hold a key each
    let properties = Properties { memory_bytes: 16 * key::bytes(&params), ..Told::of_wgsl().properties().clone() };
    let roomy = Properties { memory_bytes: 3 * 16 * key::bytes(&params), ..properties.clone() };
    let calls = |properties| asked(&device_of(Told::of(properties)), &[params; 2], &[gate(Gate::Not, 3)], &[3]);
    assert_eq!(calls(roomy), ["write", "add_terms", "add_terms", "read", "finish"]);
    assert_eq!(calls(properties), ["write", "add_terms", "read", "write", "add_terms", "read", "finish", "finish"]);
    assert_eq!([device_of(Told::of_wgsl()), told(4)].map(|device| device.info().keys_together_max), [4, 4]);
}

#[test]
fn a_batch_that_reads_nothing_is_done_when_its_last_kernel_is() {
    for keys in [1, 3] {
        let found = asked(&told(4), &vec![Preset::Fast128.params(); keys], &[gate(Gate::And, 3)], &[]);
        assert_eq!(found, [&["write"][..], &PLAIN, &["read", "finish"]].concat());
    }
}

#[test]
fn more_than_eight_pieces_are_gathered_by_a_kernel_before_one_read() {
    let params = [Preset::Fast128.params()];
    let gates = [gate(Gate::Not, 3)];
    // slots 6 and 7 are neighbours, so nine slots are eight pieces
    let few = [&[6, 7][..], &[0, 2, 4, 0, 2, 4, 0]].concat();
    let many = [&few[..], &[2]].concat();
    for (reads, gathering) in [(&few, &[][..]), (&many, &["add_terms"])] {
        let found = asked(&told(4), &params, &gates, reads);
        assert_eq!(found, [&["write", "add_terms"], gathering, &["read", "finish"]].concat(), "{reads:?}");
        // a batch that only reads
        let found = asked(&told(4), &params, &[], reads);
        let written = if gathering.is_empty() { &[][..] } else { &["write"] };
        assert_eq!(found, [written, gathering, &["read", "finish"]].concat(), "{reads:?}");
        let found = asked(&device_of(Told::of_wgsl()), &params, &gates, reads);
        assert_eq!(found, ["write", "add_terms", "read", "finish"], "{reads:?}");
    }
}

#[test]
fn no_launch_has_more_than_sixteen_waves_of_a_small_card() {
    let device = told(14);
    let key = loaded(&device);
    // the smallest card of 2018 has 14 multiprocessors. Each runs four groups of 256 threads with 64 registers
    assert_eq!(rows_at_once(device.gpu(), &key, 1), 16 * 14 * 4);
    assert_eq!(device.info().rows_max, 2 * 14 * 4);
    assert_eq!(rows_at_once(told(1000).gpu(), &key, 1), limits::ROWS_AT_ONCE_MAX);
}
