//! Blind rotation on CUDA cards with the kernels that keep transforms in registers, compared with the definition:
//! batches on both sides of every change of kernel. The cards are emulated with few multiprocessors, so that few rows
//! suffice.

use std::sync::{Arc, Mutex, OnceLock};

use kernels::Card;
use kernels::tfhe::{Gate, GateRow, Gates, Lwe, SlotGate, Stems};
use tests_compute::host_cuda::HostCuda;
use tests_compute::naive::gates;

use crate::Case;
use crate::device::emulated;
use crate::fixtures::{Bodies, Shape, key, torus_rows};

/// Shapes with rings of both sizes; with one, two and three levels; with two to five polynomials; with a key of one
/// step, which has no next step to prefetch; and with keys of more steps than fit into shared memory.
const SHAPES: [Shape; 7] = [
    Shape(3, 1, 1024, 8, 2, 3, 7),
    Shape(1, 2, 1024, 12, 1, 3, 7),
    Shape(3, 3, 512, 9, 2, 5, 6),
    Shape(2, 1, 512, 7, 3, 3, 7),
    // an RGSW ciphertext has nine rows in the first of these two shapes and fifteen in the second, but a cluster takes
    // at most eight
    Shape(2, 2, 512, 5, 3, 3, 7),
    Shape(1, 4, 512, 4, 3, 3, 7),
    // the presets' shape with two mask polynomials
    Shape(3, 2, 512, 8, 2, 3, 7),
];
/// Sizes of batches for every path on some card: a cluster, groups of two to eight rows, full groups, groups that
/// repeat a row, and several waves of groups.
const ROWS: [usize; 6] = [1, 2, 3, 5, 8, 9];
/// So many rows that a card takes them in groups of four, if it can take at most 16 rows in groups of two.
const ROWS_MAX: usize = 17;

/// The constants of `blind_rotate.warp` that a card compiles for the ring of some presets.
struct Compiled {
    capability: (u32, u32),
    shape: Shape,
    /// For each kernel that is compiled, the number of rows in a group.
    gates: &'static [u32],
    /// Number of steps whose key is in shared memory.
    tiles: u32,
    /// Number of groups that a multiprocessor runs at the same time.
    groups: u32,
    /// Number of partial sums that a warp passes to others at a time.
    slots: u32,
}

/// What A100, RTX and H100 cards compile. Their shared memory has 163 KB, 99 KB and 227 KB, respectively.
const COMPILED: [Compiled; 9] = [
    // fast_128 and standard_128
    Compiled { capability: (8, 0), shape: SHAPES[0], gates: &[2, 4], tiles: 2, groups: 1, slots: 1 },
    Compiled { capability: (8, 9), shape: SHAPES[0], gates: &[2, 3], tiles: 1, groups: 1, slots: 1 },
    Compiled { capability: (9, 0), shape: SHAPES[0], gates: &[2, 4, 6, 8], tiles: 2, groups: 1, slots: 1 },
    // fast_128_k2 and standard_128_k2
    Compiled { capability: (8, 0), shape: SHAPES[6], gates: &[2, 4], tiles: 2, groups: 1, slots: 2 },
    Compiled { capability: (8, 9), shape: SHAPES[6], gates: &[2, 4], tiles: 1, groups: 1, slots: 1 },
    Compiled { capability: (9, 0), shape: SHAPES[6], gates: &[2, 4], tiles: 1, groups: 2, slots: 2 },
    // conservative_128
    Compiled { capability: (8, 0), shape: SHAPES[2], gates: &[2, 4], tiles: 1, groups: 1, slots: 1 },
    Compiled { capability: (8, 9), shape: SHAPES[2], gates: &[1], tiles: 1, groups: 1, slots: 1 },
    Compiled { capability: (9, 0), shape: SHAPES[2], gates: &[2, 4], tiles: 2, groups: 1, slots: 1 },
];

pub fn cases() -> impl Iterator<Item = Case> {
    let shapes = Case {
        on: |device| device.name == "cuda-host",
        ..Case::small("fast_paths/shapes of three kinds of cards", |_| COMPILED.into_iter().for_each(compiled))
    };
    let launches = Case {
        on: |device| device.name == "cuda-host-sm80",
        ..Case::fast_path("fast_paths/groups that may not wait for each other", |_| refused((8, 0)))
    };
    let clusters = Case {
        on: |device| device.name == "cuda-host-sm90",
        ..Case::fast_path("fast_paths/clusters that the card refuses", |_| refused((9, 0)))
    };
    let none = Case {
        on: |device| device.name == "cuda-host-sm90",
        ..Case::fast_path("fast_paths/clusters that the card says it does not run", |_| no_clusters())
    };
    bootstraps().chain([shapes, launches, clusters, none])
}

/// Checks a card that refuses launches whose groups wait for each other, because other processes use the card too, or
/// because the card is a small part of one. The backend must then compute the rows on another path at once.
fn refused(capability: (u32, u32)) {
    let host = emulated(capability, 8).expect("trials run only on machines with the backend");
    computes_one_row(host.with_groups_together(0));
    let host = emulated(capability, 8).expect("as before");
    evaluates_once(&Card::new(host.with_groups_together(0)));
}

/// Checks that the gates of a batch whose launch was refused give their results once. One of them negates a slot in
/// place.
fn evaluates_once<B: Gates>(backend: &B) {
    let key = key(SHAPES[3].params(), Bodies::Random, 13);
    let words = key.params.lwe_dimension + 1;
    let loaded = backend.load_key(&key).expect("a small key fits");
    let mut arena = backend.arena(words, 4).expect("a small arena fits");
    let rows = torus_rows(3, words, 14);
    backend.write(&mut arena, 0, &rows).expect("a copy");
    let lwes: Vec<Lwe> = rows.chunks_exact(words).map(|row| Lwe::new(row.to_vec())).collect();
    let [and, not] = [(Gate::And, &lwes[..2]), (Gate::Not, &lwes[2..])]
        .map(|(gate, of)| gates::formula(&key, &GateRow { gate, operands: of.to_vec() }));
    let of = |gate, operands, result| SlotGate { gate, operands, result };
    let batch = [of(Gate::And, [0, 1, 0], 3), of(Gate::Not, [2, 0, 0], 2)];
    let pending = backend.evaluate(&loaded, &mut arena, &batch, &[3, 2]).expect("a batch");
    let found = backend.finish(pending).expect("a batch");
    assert!(found == [and.words(), not.words()].concat(), "words differ");
}

/// Checks a card that answers, when it is asked, that it runs no clusters of the kernel's size. The backend must never
/// launch clusters.
fn no_clusters() {
    let host = emulated((9, 0), 8).expect("trials run only on machines with the backend");
    computes_one_row(host.with_clusters_at_once(0));
}

/// Checks that batches of one row, which fast cards compute by groups that wait for each other, are right.
fn computes_one_row(host: HostCuda) {
    let key = key(SHAPES[3].params(), Bodies::Random, 11);
    let inputs = torus_rows(1, key.params.lwe_dimension + 1, 12);
    let expected = gates::bootstrap(&key, &inputs);
    let backend = Card::new(host);
    let loaded = backend.load_key(&key).expect("a small key fits");
    for _ in 0..2 {
        assert!(backend.bootstrap(&loaded, &inputs).expect("a bootstrap") == expected, "words differ");
    }
}

/// Checks which kernels the backend compiles for A100, RTX and H100 cards. Other cases check that each of these kernels
/// gives the right words.
fn compiled(Compiled { capability, shape, gates, tiles, groups, slots }: Compiled) {
    let seen = Arc::new(Mutex::new(Vec::<[u32; 4]>::new()));
    let told = seen.clone();
    let host =
        emulated(capability, 8).expect("trials run only on machines with the backend").with_sources(move |source| {
            if source.stem == "blind_rotate.warp" {
                let constant = |name: &str| {
                    let (_, after) =
                        source.text.split_once(&format!("constexpr unsigned {name} = ")).expect("a constant");
                    after.split_once("u;").expect("its value").0.parse().expect("a number")
                };
                told.lock()
                    .expect("no other thread panicked")
                    .push(["GATES", "TILES", "GROUPS", "SLOTS"].map(constant));
            }
            source.text.clone()
        });
    let key = key(shape.params(), Bodies::Random, 11);
    Card::new(host).load_key(&key).expect("a small key fits");
    let expected: Vec<[u32; 4]> = gates.iter().map(|&gates| [gates, tiles, groups, slots]).collect();
    assert_eq!(*seen.lock().expect("no other thread panicked"), expected, "{capability:?}");
}

fn bootstraps() -> impl Iterator<Item = Case> {
    let largest = [SHAPES[0], SHAPES[2], SHAPES[6]].map(|shape| (shape, Bodies::Largest));
    let cases = SHAPES.into_iter().map(|shape| (shape, Bodies::Random)).chain(largest);
    cases.map(|(shape, bodies)| {
        let key = key(shape.params(), bodies, 11);
        let (row_in, row_out) = (key.params.lwe_dimension + 1, key.params.extracted_dimension() + 1);
        let inputs = torus_rows(ROWS_MAX, row_in, 12);
        let expected = OnceLock::new();
        let kind = if bodies == Bodies::Largest { "-largest" } else { "" };
        Case::fast_path(format!("fast_paths/{}{kind}", shape.name()), move |device| {
            let expected: &Vec<u32> = expected
                .get_or_init(|| inputs.chunks_exact(row_in).flat_map(|row| gates::bootstrap(&key, row)).collect());
            let backend = device.open(1);
            let loaded = backend.load_key(&key).expect("a small key fits");
            let more = [0, 2].map(|i| SHAPES[i].name()).contains(&shape.name()) && bodies == Bodies::Random;
            let more = more.then_some(ROWS_MAX);
            for rows in ROWS.into_iter().chain(more) {
                let found = backend.bootstrap(&loaded, &inputs[..rows * row_in]).expect("a bootstrap");
                assert!(found == expected[..rows * row_out], "{rows} rows: words differ from the definition's");
            }
        })
    })
}
