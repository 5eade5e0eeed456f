//! The kernel of each stem launched alone on a card, its words compared with the definition, so that a failure names
//! the wrong kernel.

use kernels::gpu::ntt::Ntt;
use kernels::gpu::space::{PLACE_WORDS, place_of};
use kernels::gpu::{Bind, Compiler, Gpu, Language, Launch, LaunchOf, Source, Table, Touched, View, ntt};
use kernels::modular::Modulus;
use kernels::ring::Ring;
use kernels::tfhe::cells::slots_of_wire;
use kernels::tfhe::gpu::CompiledStems;
use kernels::tfhe::gpu::blind_rotate::Variant;
use kernels::tfhe::gpu::cells::{ONTO_ROW, TO_ROW};
use kernels::tfhe::gpu::sample_extract::NO_ROW;
use kernels::tfhe::lwe::EIGHTH;
use kernels::tfhe::{ModSwitch, Params, RING_MODULUS, ring};
use rand_chacha::rand_core::Rng;
use tests_compute::naive::gates;

use crate::fixtures::{Shape, generator};
use crate::{junk, launches, together};

/// A stem and the parameters for it.
#[derive(Clone, Copy)]
pub struct StemCase {
    stem: Stem,
    shape: Shape,
}

#[derive(Clone, Copy)]
enum Stem {
    Ntt,
    Cells,
    ModSwitch,
    SampleExtract,
    /// Not a stem: the kernels of all stems one after another. Before each launch, other words overwrite all unwritten
    /// scratch memory.
    Junk,
    /// Not a stem: ranges, dimensions and aliases of launches.
    Launches,
    /// Not a stem: the barrier of groups without clusters, which `blind_rotate.cluster` uses.
    GroupsSync,
}

/// Each group writes words that contain the number of the round, alternating between two places. After the barrier, the
/// group checks the words of all groups.
const GROUPS_SYNC: &str = r#"
struct alignas(16) Shown {
    unsigned word[4];
};
extern "C" __global__ void groups_sync_check(Shown* shown, unsigned* arrived, unsigned* wrong, unsigned rounds) {
    const unsigned groups = gridDim.x;
    for (unsigned round = 0; round < rounds; round++) {
        Shown* page = shown + round % 2 * groups;
        if (threadIdx.x < 4) page[blockIdx.x].word[threadIdx.x] = round + blockIdx.x + threadIdx.x;
        groups_sync(arrived, groups * (round + 1));
        for (unsigned other = threadIdx.x; other < groups; other += blockDim.x) {
            const Shown seen = load_shown(page + other);
            for (unsigned i = 0; i < 4; i++)
                if (seen.word[i] != round + other + i) wrong[blockIdx.x * blockDim.x + threadIdx.x] += 1;
        }
    }
}
"#;
/// Number of rounds in a launch on a real card. The launch stays within every driver's time limit.
const ROUNDS: u32 = 10_000;
/// Number of launches on a real card.
const LAUNCHES: usize = 100;
/// Number of rounds in a launch on an emulated card.
const ROUNDS_EMULATED: u32 = 20;

impl StemCase {
    /// The name of each case, `stem/shape`, and its check.
    pub fn all() -> impl Iterator<Item = (String, StemCase)> {
        let rings = [64, 128, 256, 512, 1024, 2048].map(|n| Shape(12, 1, n, 8, 2, 3, 7));
        let transforms = rings.map(|shape| (format!("N{}", shape.2), Stem::Ntt, shape));
        // rows with fewer words than a group has threads, with about as many, and with many more
        let rows = [Shape(12, 1, 64, 8, 2, 3, 7), Shape(64, 1, 2048, 8, 2, 3, 7), Shape(708, 2, 512, 8, 2, 8, 4)];
        let switches = rows.map(|shape| (format!("n{}-N{}", shape.0, shape.2), Stem::ModSwitch, shape));
        // a wire of one slot, of two and of five
        let sums =
            [(300, 1), (40, 1), (12, 1)].map(|(n, k)| (format!("n{n}"), Stem::Cells, Shape(n, k, 64, 8, 2, 3, 7)));
        let extractions = [(1, 1024), (3, 128)]
            .map(|(k, n)| (format!("k{k}-N{n}"), Stem::SampleExtract, Shape(12, k, n, 8, 2, 3, 7)));
        let launches = [("the arguments of a launch".to_owned(), Stem::Launches, rings[0])];
        let barrier = [("a million times".to_owned(), Stem::GroupsSync, rings[0])];
        let cases =
            transforms.into_iter().chain(switches).chain(sums).chain(extractions).chain(launches).chain(barrier);
        cases.map(|(name, stem, shape)| {
            let stem_name = match stem {
                Stem::Ntt => "ntt",
                Stem::Cells => "cells",
                Stem::ModSwitch => "mod_switch",
                Stem::SampleExtract => "sample_extract",
                Stem::Junk => "junk",
                Stem::Launches => "launches",
                Stem::GroupsSync => "groups_sync",
            };
            (format!("stems/{stem_name}/{name}"), StemCase { stem, shape })
        })
    }

    /// Checks gates of all kinds while other words overwrite scratch memory between launches.
    pub fn junk() -> StemCase {
        StemCase { stem: Stem::Junk, shape: together::PLAIN }
    }

    /// Launches the kernel of the stem and compares its words with those of the definition.
    pub fn check<G: Gpu>(&self, gpu: G) {
        match self.stem {
            Stem::Junk => return junk::check(gpu),
            Stem::Launches => return launches::check(&gpu),
            Stem::GroupsSync => return groups_sync(&gpu),
            _ => {}
        }
        let gpu = &gpu;
        let params = self.shape.params();
        let stems = CompiledStems::new(gpu, &Compiler::default(), &params, Variant::Plain).expect("the stems compile");
        let launcher = Launcher { gpu, stems, params };
        match self.stem {
            Stem::Ntt => launcher.ntt(),
            Stem::Cells => launcher.cells(),
            Stem::ModSwitch => launcher.mod_switch(),
            Stem::SampleExtract => launcher.sample_extract(),
            Stem::Junk | Stem::Launches | Stem::GroupsSync => unreachable!("these cases need no stems"),
        }
    }
}

fn groups_sync<G: Gpu>(gpu: &G) {
    let properties = gpu.properties();
    // the barrier exists only in CUDA, and cards below compute capability 8.0 lack its instructions
    if properties.language != Language::Cuda
        || properties.compute_capability.is_some_and(|capability| capability < (8, 0))
    {
        return;
    }
    let text = [include_str!("../../../shaders/blind_rotate.async.cu"), GROUPS_SYNC].concat();
    let module = gpu.compile(&Source { stem: "groups_sync", text }).expect("the source compiles");
    let emulated = properties.backend == "cuda-host";
    // emulated cards and cards with clusters run four groups; other cards run one group on every multiprocessor
    let alike = emulated || properties.compute_capability >= Some((9, 0));
    let groups = if alike { 4 } else { properties.multiprocessors };
    let (launches, rounds) = if emulated { (1, ROUNDS_EMULATED) } else { (LAUNCHES, ROUNDS) };
    let threads = 64;
    let buffer = |words: u32| gpu.alloc(words as usize).expect("room");
    let (shown, arrived, wrong) = (buffer(2 * 4 * groups), buffer(1), buffer(groups * threads));
    for _ in 0..launches {
        gpu.write(&arrived, 0, &[0]).expect("a copy");
        let launch = Launch {
            module: &module,
            entry: "groups_sync_check",
            groups: [groups, 1, 1],
            threads,
            shared_bytes: 0,
            cluster: groups,
            bind: [&shown, &arrived, &wrong].map(|buf| Bind::write(View::all(buf))).into(),
            args: vec![rounds],
        };
        gpu.launch(&launch).expect("a launch");
    }
    let all = 0..(groups * threads) as usize;
    let found = gpu
        .finish(gpu.read(&wrong, std::slice::from_ref(&all)).expect("a read"))
        .expect("the earlier launches succeed");
    assert_eq!(found.iter().sum::<u32>(), 0, "words that were missing after a barrier");
}

struct Launcher<'a, G: Gpu> {
    gpu: &'a G,
    stems: CompiledStems<G>,
    params: Params,
}

impl<G: Gpu> Launcher<'_, G> {
    fn upload(&self, words: &[u32]) -> G::Buf {
        let buf = self.gpu.alloc(words.len()).expect("room");
        self.gpu.write(&buf, 0, words).expect("a copy");
        buf
    }

    fn download(&self, buf: &G::Buf, words: usize) -> Vec<u32> {
        let all = 0..words;
        let pending = self.gpu.read(buf, std::slice::from_ref(&all)).expect("a read");
        self.gpu.finish(pending).expect("the earlier launches succeed")
    }

    fn launch(&self, launch: Option<LaunchOf<'_, G>>) {
        self.gpu.launch(&launch.expect("the launch has work")).expect("a launch");
    }

    /// Tests the transform with the gates' modulus, with a small prime and with a large one.
    fn ntt(&self) {
        let n = self.params.polynomial_size;
        self.ntt_in(&ring(n), &self.stems.ntt);
        for q in [12289, 1_073_479_681] {
            let other = Ring::new(Modulus::new(q), n);
            let ntt = Ntt::new(self.gpu, &Compiler::default(), &other).expect("the source compiles");
            self.ntt_in(&other, &ntt);
        }
    }

    /// Transforms more rows than the emulated card has multiprocessors. One of the rows has the largest residues.
    fn ntt_in(&self, ring: &Ring, ntt: &Ntt<G>) {
        let (n, m) = (ring.polynomial_size(), ring.modulus);
        let mut rng = generator(n as u64);
        let mut rows: Vec<u32> = (0..5 * n).map(|_| rng.next_u32() % m.q()).collect();
        rows[..n].fill(m.q() - 1);
        rows[n..2 * n].fill(0);
        let roots = self.upload(&ntt::roots(ring));

        let forward = self.upload(&rows);
        self.launch(ntt.forward(View::all(&forward), View::all(&roots), 5));
        let mut values = rows.clone();
        values.chunks_exact_mut(n).for_each(|row| ring.forward(row));
        assert!(self.download(&forward, 5 * n) == values, "forward, {m:?}");

        self.launch(ntt.inverse(View::all(&forward), View::all(&roots), 5));
        let times_n: Vec<u32> = rows.iter().map(|&x| m.mul(x, n as u32)).collect();
        assert!(self.download(&forward, 5 * n) == times_n, "inverse, {m:?}");

        let key = self.upload(&rows);
        self.launch(ntt.key(View::all(&key), View::all(&roots), 5));
        let factor = m.mul(m.pow(2, 32), m.inverse(n as u32));
        let scaled: Vec<u32> = values.iter().map(|&x| m.mul(x, factor)).collect();
        assert!(self.download(&key, 5 * n) == scaled, "key, {m:?}");
    }

    /// Adds inputs and wires into another buffer, onto the words there, and into slots of the arena. A sum may go to the
    /// slot of its term.
    fn cells(&self) {
        let (words, wire_words) = (self.params.lwe_dimension + 1, self.params.extracted_dimension() + 1);
        let parts = slots_of_wire(&self.params);
        let mut rng = generator(words as u64);
        let slots: Vec<u32> = (0..(4 + parts) * words).map(|_| rng.next_u32()).collect();
        let slot = |i: usize| &slots[i * words..][..words];
        // rows begin at places, with other words between them
        let stride = words.next_multiple_of(PLACE_WORDS);
        let placed = |rows: &[u32]| -> Vec<u32> {
            rows.chunks_exact(words).flat_map(|row| [row, &vec![7; stride - words]].concat()).collect()
        };
        let place = |slot: usize| place_of(slot * stride);
        let arena = self.upload(&placed(&slots));
        let all = 0..slots.len() / words * stride;
        let touched = Touched { buf: &arena, ranges: std::slice::from_ref(&all) };
        // tables may begin at any word, and the slots of a value are in reverse order
        let sums = |rows: &[SumOf], parts: usize, (out, words): (&G::Buf, usize)| {
            let (mut table, mut terms) = (vec![9, 9], vec![9]);
            for (constant, of_row, to) in rows {
                table.extend([*constant, terms.len() as u32, of_row.len() as u32, *to]);
                for (factor, first) in *of_row {
                    terms.push(*factor);
                    terms.extend((0..parts).rev().map(|part| place(first + part)));
                }
            }
            let first_term = table.len();
            let all = self.upload(&[table, terms].concat());
            let table = Table { all: View::all(&all), first: 2 };
            let out = (View::all(out), words);
            self.launch(self.stems.cells.add_terms(touched, (table, rows.len()), first_term, out));
        };
        let sum = |constant: u32, terms: &[(u32, &[u32])]| -> Vec<u32> {
            let words = terms[0].1.len();
            let word =
                |i| terms.iter().fold(0u32, |sum, (factor, value)| sum.wrapping_add(factor.wrapping_mul(value[i])));
            let mut sums: Vec<u32> = (0..words).map(word).collect();
            sums[words - 1] = sums[words - 1].wrapping_add(constant);
            sums
        };
        let (minus_one, minus_eighth) = (u32::MAX, 0u32.wrapping_sub(EIGHTH));

        let before: Vec<u32> = (0..3 * words).map(|_| rng.next_u32()).collect();
        let out = self.upload(&before);
        let rows: [SumOf; 3] = [
            (EIGHTH, &[(1, 0), (minus_one, 1)], TO_ROW),
            (minus_eighth, &[(2, 3), (2, 2), (1, 1)], ONTO_ROW),
            (5, &[(1, 1)], TO_ROW),
        ];
        sums(&rows, 1, (&out, words));
        let expected = [
            sum(EIGHTH, &[(1, slot(0)), (minus_one, slot(1))]),
            sum(minus_eighth, &[(2, slot(3)), (2, slot(2)), (1, slot(1)), (1, &before[words..2 * words])]),
            sum(5, &[(1, slot(1))]),
        ];
        assert!(self.download(&out, 3 * words) == expected.concat(), "sums of inputs");

        let wire = |first: usize| -> Vec<u32> {
            let words = (0..parts).rev().flat_map(|part| slot(first + part)).copied();
            words.take(wire_words).collect()
        };
        let out = self.upload(&vec![7; 2 * wire_words]);
        sums(&[(0, &[(2, 0), (minus_one, 4)], TO_ROW), (EIGHTH, &[(1, 3)], TO_ROW)], parts, (&out, wire_words));
        let expected = [sum(0, &[(2, &wire(0)), (minus_one, &wire(4))]), sum(EIGHTH, &[(1, &wire(3))])];
        assert!(self.download(&out, 2 * wire_words) == expected.concat(), "sums of wires");
        assert!(self.download(&arena, all.end) == placed(&slots), "operands stay");

        // the range of rows stays if all sums go to places
        let out = self.upload(&vec![7; words]);
        sums(&[(0, &[(minus_one, 2)], place(0)), (0, &[(minus_one, 3)], place(3))], 1, (&out, words));
        assert!(self.download(&out, words) == vec![7; words], "no row");
        let mut expected = slots.clone();
        for (from, to) in [(2, 0), (3, 3)] {
            expected[to * words..][..words].copy_from_slice(&sum(0, &[(minus_one, slot(from))]));
        }
        assert!(self.download(&arena, all.end) == placed(&expected), "negations");
    }

    /// Switches words near every kind of boundary, with both definitions of the modulus switch. The row beyond the
    /// count must not be written.
    fn mod_switch(&self) {
        let (n, words) = (self.params.polynomial_size, self.params.lwe_dimension + 1);
        let mut rng = generator(n as u64);
        let part = u32::MAX / (2 * n) as u32 + 1;
        let edges =
            [0, 1, u32::MAX, 1 << 31, part / 2 - 1, part / 2, u32::MAX - part / 2, u32::MAX - part / 2 + 1, part - 1];
        let rows: Vec<u32> = edges
            .into_iter()
            .cycle()
            .take(2 * words)
            // in each of the next two rows all words are equal, so all rounding errors have the same sign and the
            // largest size
            .chain([part / 2, part / 2 - 1].into_iter().flat_map(|word| vec![word; words]))
            .chain((0..2 * words).map(|_| rng.next_u32()))
            .collect();
        let count = rows.len() / words - 1;
        for definition in [ModSwitch::Nearest, ModSwitch::Centred] {
            let params = self.params.with_mod_switch(definition);
            let stem = kernels::tfhe::gpu::mod_switch::ModSwitch::new(self.gpu, &Compiler::default(), &params);
            let stem = stem.expect("the source compiles");
            let buf = self.upload(&rows);
            self.launch(stem.run(View::all(&buf), count));
            let switched = rows.chunks_exact(words).take(count).flat_map(|row| gates::mod_switch(&params, row));
            let expected: Vec<u32> =
                switched.map(|exponent| exponent as u32).chain(rows[count * words..].iter().copied()).collect();
            assert!(self.download(&buf, rows.len()) == expected, "exponents, {definition:?}");
        }
    }

    /// Extracts the samples of single rows in any order, and the sum of the samples of two rows.
    fn sample_extract(&self) {
        let (k, n) = (self.params.glwe_dimension, self.params.polynomial_size);
        let (row_words, sample_words) = ((k + 1) * n, k * n + 1);
        let mut rng = generator(k as u64);
        let mut rows: Vec<u32> = (0..4 * row_words).map(|_| rng.next_u32() % RING_MODULUS).collect();
        rows[..4].copy_from_slice(&[0, 1, RING_MODULUS - 1, RING_MODULUS / 2]);
        let table = [9, 9, 9, 2, NO_ROW, 0, 3, 1, NO_ROW];
        let acc = self.upload(&rows);
        let out = self.upload(&vec![7; 5 * sample_words]);
        let table = self.upload(&table);
        let table = Table { all: View::all(&table), first: 3 };
        self.launch(self.stems.sample_extract.run(View::all(&acc), table, (View::all(&out), 1), 3));
        let sample = |row: u32| {
            let polynomials = rows[row as usize * row_words..][..row_words].chunks_exact(n);
            gates::sample_extract(&polynomials.map(<[u32]>::to_vec).collect::<Vec<_>>())
        };
        let mut sum: Vec<u32> = sample(0).iter().zip(sample(3)).map(|(x, y)| x.wrapping_add(y)).collect();
        sum[sample_words - 1] = sum[sample_words - 1].wrapping_add(EIGHTH);
        // a row before the samples and a row after them stay
        let other = || vec![7; sample_words];
        let expected = [other(), sample(2), sum, sample(1), other()].concat();
        assert!(self.download(&out, 5 * sample_words) == expected, "samples");
    }
}

/// A sum: its constant, the factor and the first slot of each term, and where the sum goes.
type SumOf<'a> = (u32, &'a [(u32, usize)], u32);
