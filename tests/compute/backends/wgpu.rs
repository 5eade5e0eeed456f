//! A card through wgpu, tested without the kernels of the backend: words arrive in order, memory is counted, and a
//! mistake is an error after which the card still works.

use kernels::cpu::{Cpu, Isa};
use kernels::gpu::{Bind, Gpu, Launch, Source, View};
use kernels::tfhe::{Gate, Gates, Preset, SlotGate, Stems};
use kernels::wgpu::{Allocated, Wgpu};
use kernels::{Backend, Card, Error, Result};

use crate::Case;
use crate::device::Device;
use crate::fixtures::{Bodies, Shape, key, torus_rows};

/// `out[i] = 3 in[i] + plus + times i`.
const AFFINE: &str = "
@group(0) @binding(0) var<storage, read> source: array<u32>;
@group(0) @binding(1) var<storage, read_write> target_words: array<u32>;
struct Args { plus: u32, times: u32 }
@group(0) @binding(2) var<uniform> args: Args;
@compute @workgroup_size(64)
fn affine(@builtin(global_invocation_id) at: vec3<u32>) {
    target_words[at.x] = 3u * source[at.x] + args.plus + args.times * at.x;
}";

/// `words[i] += by`.
const ADD: &str = "
@group(0) @binding(0) var<storage, read_write> words: array<u32>;
@group(0) @binding(1) var<uniform> by: u32;
@compute @workgroup_size(64)
fn add(@builtin(global_invocation_id) at: vec3<u32>) {
    words[at.x] += by;
}";

/// A software Vulkan driver.
pub fn open_software() -> Result<Wgpu> {
    first(Wgpu::enumerate(true), "wgpu-software")
}

/// The software driver without 64-bit integers.
pub fn open_software_narrow() -> Result<Wgpu> {
    first(Wgpu::enumerate_portable(true), "wgpu-software")
}

/// A real card.
pub fn open_card() -> Result<Wgpu> {
    first(Wgpu::enumerate(false), "wgpu")
}

fn first(cards: Vec<Result<Wgpu>>, backend: &str) -> Result<Wgpu> {
    let mut reasons = Vec::new();
    for card in cards {
        match card {
            Ok(card) if card.properties().backend == backend => return Ok(card),
            Ok(_) => {}
            Err(error) => reasons.push(error.to_string()),
        }
    }
    Err(Error::Unavailable(format!("no {backend}: {}", reasons.join("; "))))
}

/// A check of a card.
type Check = fn(Wgpu);

/// The cases for cards through wgpu. Each case opens the card anew.
pub fn cases() -> impl Iterator<Item = Case> {
    let checks: [(&str, Check); 14] = [
        ("a buffer is zero at first and holds written words", memory),
        ("launches and writes are seen in their order", order),
        ("each launch sees its own arguments", arguments),
        ("ranges are read one after another", ranges),
        ("nothing stays allocated when everything is dropped", counted),
        ("more memory than the card has is refused, then the card works on", full),
        ("a wrong source is named, then the card works on", wrong_source),
        ("a wrong launch is an error, then the card works on", wrong_launch),
        ("words beyond a buffer are an error", beyond),
        ("threads share a card", shared),
        ("a gate of the fastest preset, all of its steps", |card| preset(card, Preset::Fast128)),
        ("a gate of the largest preset, all of its steps", |card| preset(card, Preset::Conservative128)),
        ("keys, arenas and chained gates leave nothing allocated", gates_leave_nothing),
        ("a key or an arena without room is refused, then gates work on", gates_without_room),
    ];
    checks.into_iter().map(|(name, check)| {
        let opened = move |device: &Device| {
            let card = match device.name {
                "wgpu" => open_card(),
                "wgpu-software" => open_software(),
                _ => open_software_narrow(),
            };
            check(card.expect("trials run only on machines with the backend"));
        };
        Case { on: |device| device.name.starts_with("wgpu"), ..Case::small(format!("card/{name}"), opened) }
    })
}

fn source(text: &str) -> Source {
    Source { stem: "check", text: text.to_owned() }
}

/// Launches a kernel that writes the last of the buffers.
fn launch(card: &Wgpu, text: &str, entry: &'static str, bind: &[&<Wgpu as Gpu>::Buf], args: &[u32]) -> Result<()> {
    let (written, read) = bind.split_last().expect("a buffer");
    let read = read.iter().map(|buf| Bind::read(View::all(*buf)));
    let bind = read.chain([Bind::write(View::all(*written))]).collect();
    let module = card.compile(&source(text))?;
    let (groups, threads, shared_bytes, cluster) = ([2, 1, 1], 64, 0, 1);
    card.launch(&Launch { module: &module, entry, groups, threads, shared_bytes, cluster, bind, args: args.to_vec() })
}

fn all(card: &Wgpu, buf: &<Wgpu as Gpu>::Buf, words: usize) -> Vec<u32> {
    let read = card.read(buf, std::slice::from_ref(&(0..words))).expect("a read");
    card.finish(read).expect("words")
}

/// Checks that the card still computes.
fn works(card: &Wgpu) {
    let buf = card.alloc(128).expect("a small buffer");
    launch(card, ADD, "add", &[&buf], &[7]).expect("a launch");
    assert_eq!(all(card, &buf, 128), [7; 128]);
}

fn memory(card: Wgpu) {
    let buf = card.alloc(1000).expect("a small buffer");
    assert_eq!(all(&card, &buf, 1000), [0; 1000]);
    card.write(&buf, 10, &[1, 2, 3]).expect("a write");
    card.write(&buf, 999, &[4]).expect("a write");
    let mut expected = [0; 1000];
    (expected[10], expected[11], expected[12], expected[999]) = (1, 2, 3, 4);
    assert_eq!(all(&card, &buf, 1000), expected);
    let copy = card.alloc(12).expect("a small buffer");
    card.copy(&buf, 0, &copy, 0, 12).expect("a copy");
    assert_eq!(all(&card, &copy, 12), expected[..12]);
    let empty = card.alloc(0).expect("nothing fits");
    assert!(all(&card, &empty, 0).is_empty());
}

fn order(card: Wgpu) {
    let (a, b) = (card.alloc(128).expect("fits"), card.alloc(128).expect("fits"));
    let mut expected = [0u32; 128];
    // more launches than one submission holds, with writes and copies between them
    for round in 0..23 {
        if round % 5 == 3 {
            card.write(&a, round, &[100 + round as u32]).expect("a write");
            expected[round] = 100 + round as u32;
        }
        launch(&card, AFFINE, "affine", &[&a, &b], &[1, 2]).expect("a launch");
        card.copy(&b, 0, &a, 0, 128).expect("a copy");
        for (i, word) in expected.iter_mut().enumerate() {
            *word = word.wrapping_mul(3).wrapping_add(1 + 2 * i as u32);
        }
    }
    assert_eq!(all(&card, &a, 128), expected);
}

fn arguments(card: Wgpu) {
    let buf = card.alloc(128).expect("fits");
    let module = card.compile(&source(ADD)).expect("compiles");
    for by in 1..=50 {
        let launch = Launch {
            module: &module,
            entry: "add",
            groups: [2, 1, 1],
            threads: 64,
            shared_bytes: 0,
            cluster: 1,
            bind: vec![Bind::write(View::all(&buf))],
            args: vec![by],
        };
        card.launch(&launch).expect("a launch");
    }
    assert_eq!(all(&card, &buf, 128), [50 * 51 / 2; 128]);
}

fn ranges(card: Wgpu) {
    let words: Vec<u32> = (0..1000).collect();
    let buf = card.alloc(1000).expect("fits");
    card.write(&buf, 0, &words).expect("a write");
    // two reads are in flight, and the second finishes first; neither reads the words written afterwards
    let first = card.read(&buf, &[900..1000, 0..5, 5..5, 4..6]).expect("a read");
    let second = card.read(&buf, std::slice::from_ref(&(1..2))).expect("a read");
    card.write(&buf, 0, &[77; 1000]).expect("a write");
    assert_eq!(card.finish(second).expect("words"), [1]);
    let expected: Vec<u32> = (900..1000).chain(0..5).chain(4..6).collect();
    assert_eq!(card.finish(first).expect("words"), expected);
}

fn counted(card: Wgpu) {
    let none = Allocated { buffers: 0, bytes: 0 };
    assert_eq!(card.allocated(), none);
    let buf = card.alloc(1000).expect("fits");
    let read = card.read(&buf, &[0..10, 20..30]).expect("a read");
    assert_eq!(card.allocated(), Allocated { buffers: 2, bytes: 4080 });
    drop(read);
    drop(buf);
    assert_eq!(card.allocated(), none);
    works(&card);
    assert_eq!(card.allocated(), none);
}

fn full(card: Wgpu) {
    let refused = |result: Result<_>| matches!(result, Err(Error::OutOfMemory(_)));
    assert!(refused(card.alloc(usize::MAX / 8).map(drop)));
    assert!(refused(card.alloc((card.properties().buffer_bytes_max / 4) as usize + 1).map(drop)));
    let card = card.with_memory_bytes(10_000);
    assert_eq!(card.properties().memory_bytes, 10_000);
    let first = card.alloc(2000).expect("8000 bytes fit");
    assert!(refused(card.alloc(501).map(drop)));
    assert!(refused(card.read(&first, std::slice::from_ref(&(0..501))).map(drop)));
    drop(first);
    let _second = card.alloc(1000).expect("4000 bytes fit");
    works(&card);
}

fn wrong_source(card: Wgpu) {
    let named = |result: Result<()>| match result {
        Err(Error::Compile(why)) => assert!(why.starts_with("check: "), "{why}"),
        other => panic!("{other:?}"),
    };
    named(card.compile(&source("fn broken( {")).map(drop));
    named(card.compile(&source("const X: u32 = missing;")).map(drop));
    let buf = card.alloc(128).expect("fits");
    named(launch(&card, ADD, "subtract", &[&buf], &[1]));
    works(&card);
}

fn wrong_launch(card: Wgpu) {
    let (a, b) = (card.alloc(128).expect("fits"), card.alloc(128).expect("fits"));
    let failed = |result: Result<()>| assert!(matches!(result, Err(Error::Device(_))), "{result:?}");
    failed(launch(&card, ADD, "add", &[&a, &b], &[1]));
    failed(launch(&card, AFFINE, "affine", &[&a, &b], &[]));
    failed(launch(&card, AFFINE, "affine", &[&a], &[1, 2]));
    failed(launch(&card, ADD, "add", &[&a], &[1; 1000]));
    let module = card.compile(&source(ADD)).expect("compiles");
    let add = |groups: [u32; 3]| Launch {
        module: &module,
        entry: "add",
        groups,
        threads: 64,
        shared_bytes: 0,
        cluster: 1,
        bind: vec![Bind::write(View::all(&a))],
        args: vec![1],
    };
    let most = card.properties().groups_max;
    for groups in [[most[0] + 1, 1, 1], [1, most[1] + 1, 1], [1, 1, most[2] + 1]] {
        failed(card.launch(&add(groups)));
    }
    // the launch declares an argument as read-only, but the kernel writes it; the submission finds this error, and the
    // next call reports it
    let module = card.compile(&source(AFFINE)).expect("compiles");
    let bind = [&a, &a].map(|buf| Bind::read(View::all(buf))).into();
    let twice = Launch { module: &module, entry: "affine", bind, args: vec![1, 2], ..add([2, 1, 1]) };
    failed(card.launch(&twice).and_then(|()| card.read(&a, std::slice::from_ref(&(0..1))).map(drop)));
    works(&card);
}

fn beyond(card: Wgpu) {
    let buf = card.alloc(10).expect("fits");
    let other = card.alloc(5).expect("fits");
    assert!(matches!(card.write(&buf, 9, &[1, 2]), Err(Error::Device(_))));
    assert!(matches!(card.copy(&buf, 0, &other, 0, 6), Err(Error::Device(_))));
    assert!(matches!(card.read(&buf, std::slice::from_ref(&(5..11))), Err(Error::Device(_))));
    works(&card);
}

/// Each thread computes on its own buffers while other threads compute too.
fn shared(card: Wgpu) {
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let card = &card;
            scope.spawn(move || {
                for round in 0..10 {
                    let buf = card.alloc(128).expect("fits");
                    card.write(&buf, 0, &[thread; 128]).expect("a write");
                    launch(card, ADD, "add", &[&buf], &[round]).expect("a launch");
                    assert_eq!(all(card, &buf, 128), [thread + round; 128]);
                }
            });
        }
    });
    assert_eq!(card.allocated().buffers, 0);
}

/// Checks a preset at full size, because its loops are long, and a software driver silently leaves a kernel's loop
/// after 65535 iterations.
fn preset(card: Wgpu, preset: Preset) {
    let key = key(preset.params(), Bodies::Random, 15);
    let input = torus_rows(1, key.params.lwe_dimension + 1, 16);
    let cpu = Cpu::with(Isa::detect(), 1);
    let loaded = cpu.load_key(&key).expect("a key fits");
    let sample = cpu.bootstrap(&loaded, &input).expect("a bootstrap");
    let output = cpu.key_switch(&loaded, &sample).expect("a key switch");
    let backend = Card::new(card);
    let loaded = backend.load_key(&key).expect("a key fits");
    assert!(backend.bootstrap(&loaded, &input).expect("a bootstrap") == sample, "bootstrap");
    assert!(backend.key_switch(&loaded, &sample).expect("a key switch") == output, "key switch");
}

/// A shape that is small enough for a driver that computes on the host.
const SHAPE: Shape = Shape(4, 1, 64, 8, 2, 3, 7);

/// Runs two batches and returns the words of the first batch. The second batch uses the results of the first, and is
/// dropped before it is done.
fn chained_gates(backend: &Card<Wgpu>, slots: usize) -> Result<Vec<u32>> {
    let key = key(SHAPE.params(), Bodies::Random, 12);
    let loaded = backend.load_key(&key)?;
    let mut arena = backend.arena(key.params.lwe_dimension + 1, slots)?;
    backend.write(&mut arena, 0, &torus_rows(3, key.params.lwe_dimension + 1, 13))?;
    let gate = |gate, operands, result| SlotGate { gate, operands, result };
    let first = [gate(Gate::Mux, [0, 1, 2], 3), gate(Gate::Not, [1, 0, 0], 4), gate(Gate::Xor, [0, 2, 0], 5)];
    let pending = backend.evaluate(&loaded, &mut arena, &first, &[3, 4, 5])?;
    let words = backend.finish(pending)?;
    drop(backend.evaluate(&loaded, &mut arena, &[gate(Gate::And, [3, 4, 0], 0)], &[0])?);
    backend.grow(&mut arena, 2 * slots)?;
    Ok(words)
}

fn gates_leave_nothing(card: Wgpu) {
    let backend = Card::new(card);
    let words = chained_gates(&backend, 6).expect("gates");
    // the backend keeps this memory for its next batch
    let kept = backend.gpu().allocated();
    for _ in 0..3 {
        assert_eq!(chained_gates(&backend, 6).expect("gates"), words);
        assert_eq!(backend.gpu().allocated(), kept);
    }
}

fn gates_without_room(card: Wgpu) {
    let refused = |result: Result<()>| assert!(matches!(result, Err(Error::OutOfMemory(_))), "{result:?}");
    let params = SHAPE.params();
    let backend = Card::new(card.with_memory_bytes(4 << 20));
    let words = chained_gates(&backend, 6).expect("gates");
    let large = key(Shape(64, 1, 1024, 8, 2, 3, 7).params(), Bodies::Random, 14);
    // the roots of the ring stay on the card
    backend.prepare(&large.params).expect("the kernels compile");
    let kept = backend.gpu().allocated();
    // the first arena is larger than the card's memory, the second is larger than a buffer may be, and the third has
    // more words than a `usize` can count
    for slots in [1 << 20, 1 << 29, usize::MAX / 64] {
        refused(backend.arena(params.lwe_dimension + 1, slots).map(drop));
    }
    // the key fits; an arena of 1 << 20 slots does not, and an arena of 150,000 slots fits only until it grows
    refused(chained_gates(&backend, 1 << 20).map(drop));
    refused(chained_gates(&backend, 150_000).map(drop));
    refused(backend.load_key(&large).map(drop));
    assert_eq!(backend.gpu().allocated(), kept);
    assert_eq!(chained_gates(&backend, 6).expect("gates"), words);
    assert_eq!(backend.gpu().allocated(), kept);
}
