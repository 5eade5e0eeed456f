//! Batches of several keys in one call. Each must give the words that it gives alone on a CPU, whatever the number, the
//! sizes and the parameters of the other batches.

use std::sync::{Arc, OnceLock};

use kernels::cpu::{Cpu, Isa};
use kernels::gpu::{Arena, Source};
use kernels::tfhe::gpu::Key;
use kernels::tfhe::{EvaluationKey, Gate, Gates, KeyedGates, LevelEnd, NO_CELLS, SlotGate};
use kernels::{Backend, Card, Error, Result};
use rand_chacha::rand_core::Rng;
use tests_compute::counted::Counted;
use tests_compute::host_cuda::HostCuda;

use crate::Case;
use crate::any_backend::AnyBackend;
use crate::broken::replaced;
use crate::device::{Device, emulated};
use crate::fixtures::{Bodies, Shape, generator, key};

pub const PLAIN: Shape = Shape(5, 1, 64, 8, 2, 3, 7);
/// A shape like [`PLAIN`], but its ciphertexts have another number of words.
pub const OTHER: Shape = Shape(4, 2, 64, 9, 2, 5, 6);
/// A shape for the kernels that keep transforms in registers, with a small key switch.
pub const FAST: Shape = Shape(2, 1, 512, 8, 2, 16, 3);
pub const FAST_OTHER: Shape = Shape(3, 1, 512, 7, 3, 16, 3);

/// Number of sessions with one gate each that run side by side on a card.
const SESSIONS: usize = 64;
/// Number of ciphertexts in each arena before the batch.
const OPERANDS: u32 = 4;

/// A batch, the contents of its arena, and the words that it reads when evaluated alone.
pub struct Session {
    key: Arc<EvaluationKey>,
    operands: Vec<u32>,
    gates: Vec<SlotGate>,
    /// The end of each level of gates but the last.
    ends: Vec<LevelEnd>,
    reads: Vec<u32>,
    /// Slots of the arena at first, and after each growth.
    sizes: Vec<usize>,
    expected: Vec<u32>,
}

impl Session {
    /// A session with these gates. Gate `i` has the operands in the slots `i`, `i + 1` and `i + 2` modulo [`OPERANDS`].
    /// The results follow the operands in the arena, in the order of the gates.
    fn new(key: &Arc<EvaluationKey>, gates: &[Gate], reads: &[u32], seed: u64) -> Session {
        let mut rng = generator(seed);
        let words = OPERANDS as usize * (key.params.lwe_dimension + 1);
        let slot_gates = gates.iter().zip(0..).map(|(&gate, i)| SlotGate {
            gate,
            operands: [i, i + 1, i + 2].map(|operand| operand % OPERANDS),
            result: OPERANDS + i,
        });
        let mut session = Session {
            key: key.clone(),
            operands: (0..words).map(|_| rng.next_u32()).collect(),
            sizes: vec![OPERANDS as usize + gates.len()],
            gates: slot_gates.collect(),
            ends: Vec::new(),
            reads: reads.to_vec(),
            expected: Vec::new(),
        };
        session.expected = evaluated(&Cpu::with(Isa::Portable, 1), &[&session], false).expect("a CPU does not fail");
        session
    }

    /// A session with levels of these numbers of gates. A gate reads results of the level before, or the operands in the
    /// first level. The last level is read. The expected words come from one call for each level.
    fn in_levels(key: &Arc<EvaluationKey>, widths: &[u32], seed: u64) -> Session {
        const GATES: [Gate; 5] = [Gate::Nand, Gate::Xor, Gate::Mux, Gate::Not, Gate::Or];
        let mut session = Session::new(key, &[], &[], seed);
        let (mut before, mut next) = (0..OPERANDS, OPERANDS);
        for &width in widths {
            for at in 0..width {
                let operands = [at, at + 1, at + 2].map(|operand| before.start + operand % before.len() as u32);
                let gate = GATES[(seed as usize + session.gates.len()) % GATES.len()];
                session.gates.push(SlotGate { gate, operands, result: next + at });
            }
            (before, next) = (next..next + width, next + width);
            session.ends.push(LevelEnd { gates: session.gates.len(), cells: 0 });
        }
        session.ends.pop();
        (session.reads, session.sizes) = (before.collect(), vec![next as usize]);
        session.expected = session.level_by_level(&Cpu::with(Isa::Portable, 1));
        session
    }

    /// The session with other gates in place of MUX.
    fn without_mux(mut self) -> Session {
        self.gates.iter_mut().filter(|gate| gate.gate == Gate::Mux).for_each(|gate| gate.gate = Gate::And);
        self.expected = self.level_by_level(&Cpu::with(Isa::Portable, 1));
        self
    }

    /// The words that the session reads after a separate call for each level.
    fn level_by_level<B: Gates>(&self, backend: &B) -> Vec<u32> {
        let key = backend.load_key(&self.key).expect("room");
        let mut arena = backend.arena(self.key.params.lwe_dimension + 1, self.slots()).expect("room");
        backend.write(&mut arena, 0, &self.operands).expect("a copy");
        let last = LevelEnd { gates: self.gates.len(), cells: 0 };
        let mut first = 0;
        for end in self.ends.iter().chain([&last]) {
            let level = backend.evaluate(&key, &mut arena, &self.gates[first..end.gates], &[]).expect("gates");
            backend.finish(level).expect("gates");
            first = end.gates;
        }
        backend.finish(backend.read(&arena, &self.reads).expect("a read")).expect("a read")
    }

    /// Returns the session with an arena that grows through these sizes to its final size. Sizes above the final size
    /// are skipped.
    fn in_chunks(mut self, sizes: &[usize]) -> Session {
        let slots = self.slots();
        self.sizes = sizes.iter().copied().filter(|&size| size < slots).chain([slots]).collect();
        self
    }

    fn slots(&self) -> usize {
        *self.sizes.last().expect("an arena has a size")
    }
}

/// The words that the sessions read after one call with all of them. Sessions with the same key share one loaded key.
/// With `twice`, an earlier call writes words that the second call overwrites.
fn evaluated<B: Gates + ?Sized>(backend: &B, sessions: &[&Session], twice: bool) -> Result<Vec<u32>> {
    let mut keys: Vec<(&Arc<EvaluationKey>, B::Key)> = Vec::new();
    for session in sessions {
        if !keys.iter().any(|(key, _)| Arc::ptr_eq(key, &session.key)) {
            keys.push((&session.key, backend.load_key(&session.key)?));
        }
    }
    // the arenas are made in reverse, so that their order differs from the order of the batches
    let arena = |session: &&Session| -> Result<B::Arena> {
        let mut arena = backend.arena(session.key.params.lwe_dimension + 1, session.sizes[0])?;
        session.sizes[1..].iter().try_for_each(|&slots| backend.grow(&mut arena, slots))?;
        backend.write(&mut arena, 0, &session.operands)?;
        Ok(arena)
    };
    let mut arenas: Vec<B::Arena> = sessions.iter().rev().map(arena).collect::<Result<_>>()?;
    let mut batches: Vec<KeyedGates<'_, B::Key, B::Arena>> = sessions
        .iter()
        .zip(arenas.iter_mut().rev())
        .map(|(session, arena)| {
            let (_, key) = keys.iter().find(|(key, _)| Arc::ptr_eq(key, &session.key)).expect("the key was loaded");
            KeyedGates {
                key,
                arena,
                gates: &session.gates,
                cells: &NO_CELLS,
                ends: &session.ends,
                reads: &session.reads,
            }
        })
        .collect();
    // with `twice`, the first call is still running when the second one starts
    let before = if twice { Some(backend.evaluate_together(&mut batches)?) } else { None };
    let pending = backend.evaluate_together(&mut batches)?;
    let first = before.map(|pending| backend.finish(pending)).transpose()?;
    let found = backend.finish(pending)?;
    assert!(first.is_none_or(|first| first == found), "the same gates twice");
    Ok(found)
}

pub fn check<B: Gates + ?Sized>(backend: &B, sessions: &[Session]) {
    let twice = backend.info().batches_in_flight_max > 1 && sessions.len() < SESSIONS;
    let found = evaluated(backend, &sessions.iter().collect::<Vec<_>>(), twice).expect("batches");
    let mut rest = &found[..];
    for (i, session) in sessions.iter().enumerate() {
        let (own, others) = rest.split_at(session.expected.len());
        assert!(own == session.expected, "session {i} of {}: words differ from those alone", sessions.len());
        rest = others;
    }
    assert!(rest.is_empty(), "more words than the reads have");
}

fn keys(shape: Shape, count: u64) -> Vec<Arc<EvaluationKey>> {
    (0..count).map(|i| Arc::new(key(shape.params(), Bodies::Random, 40 + i))).collect()
}

/// Sessions with one gate each; each session has its own key.
fn single(shape: Shape) -> Vec<Session> {
    const GATES: [Gate; 6] = [Gate::And, Gate::Nand, Gate::Or, Gate::Nor, Gate::Xor, Gate::Xnor];
    let keys = keys(shape, SESSIONS as u64);
    let session = |(i, key)| Session::new(key, &[GATES[i % GATES.len()]], &[OPERANDS], i as u64);
    keys.iter().enumerate().map(session).collect()
}

/// Sessions of all sizes and kinds, under keys of two parameter sets.
pub fn mixed(shape: Shape, other: Shape) -> Vec<Session> {
    use Gate::{And, Mux, Nand, Not, Or, Xnor, Xor};
    let (keys, others) = (keys(shape, 4), keys(other, 2));
    vec![
        Session::new(&keys[0], &[And], &[4], 0),
        Session::new(&others[0], &[Xor, Mux], &[5, 4], 1),
        Session::new(&keys[1], &[Mux, Not, Or], &[6, 0, 4, 4], 2),
        // three sessions: one reads no slots, one has no gates, and one neither reads slots nor has gates
        Session::new(&keys[2], &[Nand], &[], 3),
        Session::new(&keys[2], &[], &[3, 1], 4),
        Session::new(&keys[3], &[], &[], 5),
        // a session whose gates need no key
        Session::new(&keys[3], &[Not, Not], &[4, 5], 6),
        Session::new(&others[1], &[Xnor], &[4, 1], 7),
        // more rows than a group has, under a key that another session uses too
        Session::new(&keys[1], &[Xor; 9], &[4, 5, 6, 7, 8, 9, 10, 11, 12], 8),
        Session::new(&keys[3], &[And, Mux, Xnor], &[4, 5, 6], 9),
    ]
}

/// The sessions of [`mixed`] in arenas of one to six chunks, each cut at different sizes.
fn mixed_in_chunks(shape: Shape, other: Shape) -> Vec<Session> {
    let sizes = [&[][..], &[1, 2, 3, 4, 5], &[3], &[2, 5, 9], &[4]];
    mixed(shape, other).into_iter().zip(sizes.iter().cycle()).map(|(session, sizes)| session.in_chunks(sizes)).collect()
}

/// Checks batches that are computed in parts: the card allows fewer groups than the batches have bootstraps, so a part
/// has gates of several batches.
fn in_parts(sessions: &[Session]) {
    let host = HostCuda::open().expect("trials run only on machines with the backend");
    check(&Card::new(host.with_properties(|properties| properties.groups_max[0] = 3)), sessions);
}

/// Sessions whose calls have different numbers of levels.
fn windows(shape: Shape, other: Shape) -> Vec<Session> {
    let (keys, others) = (keys(shape, 3), keys(other, 1));
    vec![
        Session::in_levels(&keys[0], &[3, 1, 4, 2], 0),
        Session::in_levels(&others[0], &[2, 2], 1),
        Session::new(&keys[1], &[Gate::And, Gate::Mux], &[4, 5], 2),
        Session::in_levels(&keys[2], &[1, 1, 1, 1, 1, 5], 3),
        Session::in_levels(&keys[0], &[4], 4),
    ]
}

/// Checks that the host waits once for a call of several levels, however many levels and sessions it has, and that the
/// tables of each level are one upload.
fn waits_once(shape: Shape) {
    let backend = Card::new(Counted::new(HostCuda::open().expect("an emulator")));
    let keys = keys(shape, 2);
    for sessions in [
        vec![Session::in_levels(&keys[0], &[2; 6], 0)],
        vec![Session::in_levels(&keys[0], &[2; 6], 0), Session::in_levels(&keys[1], &[3; 4], 1)],
    ] {
        // a MUX is refreshed by a second upload, so the sessions get other gates
        let sessions: Vec<Session> = sessions.into_iter().map(Session::without_mux).collect();
        let loaded: Vec<_> = sessions.iter().map(|session| backend.load_key(&session.key).expect("room")).collect();
        let arenas = sessions.iter().map(|session| {
            let mut arena = backend.arena(session.key.params.lwe_dimension + 1, session.slots()).expect("room");
            backend.write(&mut arena, 0, &session.operands).expect("a copy");
            arena
        });
        let mut arenas: Vec<_> = arenas.collect();
        let each = sessions.iter().zip(&loaded).zip(&mut arenas);
        let mut batches: Vec<KeyedGates<'_, _, _>> = each
            .map(|((session, key), arena)| {
                let Session { gates, ends, reads, .. } = session;
                KeyedGates { key, arena, gates, cells: &NO_CELLS, ends, reads }
            })
            .collect();
        backend.gpu().taken();
        let pending = backend.evaluate_together(&mut batches).expect("launches");
        let found = backend.finish(pending).expect("words");
        let expected: Vec<u32> = sessions.iter().flat_map(|session| session.expected.iter().copied()).collect();
        assert!(found == expected, "words differ from those of one level after another");
        let [_, uploads, waits] = backend.gpu().taken();
        assert_eq!((uploads, waits), (6, 1), "for six levels of {} sessions", sessions.len());
    }
}

/// Checks a call in which no batch reads a slot, a call in which no batch has gates, a call in which only one batch
/// reads slots, and a call without batches.
fn few(backend: &AnyBackend) {
    let keys = keys(PLAIN, 2);
    let nothing = [Session::new(&keys[0], &[Gate::And], &[], 0), Session::new(&keys[1], &[Gate::Not], &[], 1)];
    check(backend, &nothing);
    let idle = [Session::new(&keys[0], &[], &[], 0), Session::new(&keys[1], &[], &[], 1)];
    check(backend, &idle);
    let one = [Session::new(&keys[0], &[Gate::And], &[], 0), Session::new(&keys[1], &[Gate::Or], &[4, 0], 1)];
    check(backend, &one);
    check(backend, &[]);
}

/// Checks that a call with many sessions of one gate each takes as many launches, uploads and waits as a call with one
/// session, plus one launch that copies the results to one place. The emulated cards have as many multiprocessors as
/// the real ones. Prints a row of a table: the numbers for the sessions one after another, then for the sessions side
/// by side.
fn counted(device: &Device) {
    let (host, shape) = match device.name {
        "cuda-host-sm80" => (emulated((8, 0), 108), FAST),
        "cuda-host-sm89" => (emulated((8, 9), 128), FAST),
        "cuda-host-sm90" => (emulated((9, 0), 132), FAST),
        _ => (HostCuda::open(), PLAIN),
    };
    let host = host.expect("trials run only on machines with the backend");
    let backend = Card::new(Counted::new(host));
    let sessions = single(shape);
    let keys: Vec<_> = sessions.iter().map(|session| backend.load_key(&session.key).expect("room")).collect();
    let mut arenas: Vec<_> = sessions
        .iter()
        .map(|session| {
            let mut arena = backend.arena(session.key.params.lwe_dimension + 1, session.slots()).expect("room");
            backend.write(&mut arena, 0, &session.operands).expect("a copy");
            arena
        })
        .collect();
    let each = sessions.iter().zip(&keys).zip(&mut arenas);
    let mut batches: Vec<KeyedGates<'_, _, _>> = each
        .map(|((session, key), arena)| KeyedGates {
            key,
            arena,
            gates: &session.gates,
            cells: &NO_CELLS,
            ends: &[],
            reads: &session.reads,
        })
        .collect();
    let expected: Vec<u32> = sessions.iter().flat_map(|session| session.expected.iter().copied()).collect();
    let run = |calls: &mut dyn Iterator<Item = &mut [KeyedGates<'_, Key<Counted>, Arena<Counted>>]>| {
        backend.gpu().taken();
        let finished = |batches: &mut [KeyedGates<'_, Key<Counted>, Arena<Counted>>]| {
            let pending = backend.evaluate_together(batches).expect("launches");
            backend.finish(pending).expect("words")
        };
        let found: Vec<u32> = calls.flat_map(finished).collect();
        assert!(found == expected, "words differ from those alone on a CPU");
        backend.gpu().taken()
    };
    let after = run(&mut batches.chunks_mut(1));
    let beside = run(&mut std::iter::once(&mut batches[..]));
    let [launches, uploads, waits] = after.map(|count| count / SESSIONS);
    assert_eq!((uploads, waits), (1, 1), "for one session");
    assert_eq!(beside, [launches + 1, 1, 1], "for all side by side");
    let row: Vec<String> = after.iter().chain(&beside).map(usize::to_string).collect();
    println!("| {} | {} |", device.name, row.join(" | "));
}

/// Mistakes: in the source of the kernel (stem), the n-th place becomes 0, so that the kernel stays at the start of the
/// segment.
const SLIPS: [(&str, usize, Shape); 6] = [
    ("cells", 0, PLAIN),
    ("cells", 1, PLAIN),
    ("blind_rotate", 0, PLAIN),
    ("lwe_key_switch", 0, PLAIN),
    ("blind_rotate.warp", 0, FAST),
    ("blind_rotate.cluster", 0, FAST),
];

/// Checks that the suite notices a kernel that reads words of another key or ciphertext.
fn slip(stem: &'static str, nth: usize, shape: Shape) {
    // Replaces the n-th call of `word_of` by 0 times this call; calls are counted from 0. The first occurrence in the source
    // is the definition of `word_of`, so call n is occurrence n + 1, also counted from 0.
    let zero = move |source: &Source| {
        if source.stem != stem {
            return source.text.clone();
        }
        replaced(&source.text, " word_of(", nth + 1, " 0 * word_of(")
    };
    let host = match shape.2 {
        512 => emulated((9, 0), if stem == "blind_rotate.cluster" { 8 } else { 1 }),
        _ => HostCuda::open(),
    };
    let backend = Card::new(host.expect("trials run only on machines with the backend").with_sources(zero));
    let keys = keys(shape, 2);
    let gates = [Gate::And, Gate::Not];
    let sessions = [0, 1].map(|i: usize| Session::new(&keys[i], &gates, &[4, 5], i as u64));
    match evaluated(&backend, &[&sessions[0], &sessions[1]], false) {
        Err(Error::Device(_)) => {}
        Err(error) => panic!("{error}"),
        Ok(found) => assert!(found != sessions.map(|session| session.expected).concat(), "not noticed"),
    }
}

pub fn cases() -> impl Iterator<Item = Case> {
    let (plain, mixes, fast, fast_mixes) = (OnceLock::new(), OnceLock::new(), OnceLock::new(), OnceLock::new());
    let cases = [
        Case::small("together/sessions of one gate", move |device| {
            check(&*device.open(2), plain.get_or_init(|| single(PLAIN)));
        }),
        Case::small("together/sessions of all kinds", move |device| {
            check(&*device.open(2), mixes.get_or_init(|| mixed(PLAIN, OTHER)));
        }),
        Case::small("together/windows of levels", |device| {
            check(&*device.open(2), &windows(PLAIN, OTHER));
        }),
        Case {
            on: |device| device.name == "cuda-host",
            ..Case::small("together/one wait for a window of levels", |_| waits_once(PLAIN))
        },
        Case::small("together/few", |device| few(&*device.open(2))),
        Case {
            on: |device| device.name == "cuda-host",
            ..Case::small("together/in parts on a card with few groups", |_| {
                in_parts(&mixed(PLAIN, OTHER));
                in_parts(&mixed_in_chunks(PLAIN, OTHER));
            })
        },
        Case::small("together/sessions with arenas in several chunks", |device| {
            check(&*device.open(2), &mixed_in_chunks(PLAIN, OTHER));
        }),
        Case {
            on: |device| device.is_gpu() && !device.small_only,
            ..Case::small("together/sessions of one gate by fast paths", move |device| {
                check(&*device.open(1), fast.get_or_init(|| single(FAST)));
            })
        },
        Case::fast_path("together/sessions of all kinds by fast paths", move |device| {
            check(&*device.open(1), fast_mixes.get_or_init(|| mixed(FAST, FAST_OTHER)));
        }),
        Case {
            on: |device| device.name.starts_with("cuda-host"),
            ..Case::small("together/launches of sessions of one gate", counted)
        },
    ];
    let slips = SLIPS.into_iter().map(|(stem, nth, shape)| Case {
        on: |device| device.name == "cuda-host",
        ..Case::small(format!("broken/{stem} without place {nth}"), move |_| slip(stem, nth, shape))
    });
    cases.into_iter().chain(slips)
}
