//! The kernel of each stem launched alone on a card, its words compared with the definition, so that a failure names
//! the wrong kernel.

use kernels::gpu::ntt::Ntt;
use kernels::gpu::space::{PLACE_WORDS, place_of};
use kernels::gpu::{Bind, Compiler, Gpu, Language, Launch, LaunchOf, Source, Table, Touched, View, ntt};
use kernels::modular::Modulus;
use kernels::ring::Ring;
use kernels::tfhe::gpu::CompiledStems;
use kernels::tfhe::gpu::blind_rotate::Variant;
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
    Linear,
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
        let linear = [12, 300].map(|n| (format!("n{n}"), Stem::Linear, Shape(n, 1, 64, 8, 2, 3, 7)));
        let extractions = [(1, 1024), (3, 128)]
            .map(|(k, n)| (format!("k{k}-N{n}"), Stem::SampleExtract, Shape(12, k, n, 8, 2, 3, 7)));
        let launches = [("the arguments of a launch".to_owned(), Stem::Launches, rings[0])];
        let barrier = [("a million times".to_owned(), Stem::GroupsSync, rings[0])];
        let cases =
            transforms.into_iter().chain(switches).chain(linear).chain(extractions).chain(launches).chain(barrier);
        cases.map(|(name, stem, shape)| {
            let stem_name = match stem {
                Stem::Ntt => "ntt",
                Stem::Linear => "linear",
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
            Stem::Linear => launcher.linear(),
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

    /// Adds ciphertexts into another buffer, and negates ciphertexts within the arena.
    fn linear(&self) {
        let words = self.params.lwe_dimension + 1;
        let mut rng = generator(words as u64);
        let slots: Vec<u32> = (0..4 * words).map(|_| rng.next_u32()).collect();
        let slot = |i: u32| &slots[i as usize * words..][..words];
        // rows begin at places, with other words between them
        let stride = words.next_multiple_of(PLACE_WORDS);
        let placed = |rows: &[u32]| -> Vec<u32> {
            rows.chunks_exact(words).flat_map(|row| [row, &vec![7; stride - words]].concat()).collect()
        };
        let (arena, out) = (self.upload(&placed(&slots)), self.upload(&vec![7; 3 * words]));
        let all = 0..4 * stride;
        let touched = Touched { buf: &arena, ranges: std::slice::from_ref(&all) };
        let minus_eighth = 0u32.wrapping_sub(EIGHTH);
        // each sum has a constant, the slot of x and its factor, the slot of y and its factor
        let sums = [[EIGHTH, 0, 1, 1, u32::MAX], [minus_eighth, 3, 2, 2, 2], [5, 1, 1, 1, 1]];
        let place = |slot: u32| place_of(slot as usize * stride);
        let table = sums.map(|[constant, x, f, y, g]| [constant, f, place(x), g, place(y)]);
        // a table may begin at any word
        let table_buf = self.upload(&[&[9, 9], table.as_flattened()].concat());
        let table_view = Table { all: View::all(&table_buf), first: 2 };
        self.launch(self.stems.linear.add(touched, table_view, View::all(&out), 3));
        let expected: Vec<u32> = sums
            .iter()
            .flat_map(|&[constant, x, f, y, g]| {
                (0..words).map(move |i| {
                    let sum = slot(x)[i].wrapping_mul(f).wrapping_add(slot(y)[i].wrapping_mul(g));
                    if i == words - 1 { sum.wrapping_add(constant) } else { sum }
                })
            })
            .collect();
        assert!(self.download(&out, 3 * words) == expected, "sums");
        assert!(self.download(&arena, 4 * stride) == placed(&slots), "operands stay");

        let negations = self.upload(&[9, place(2), place(0), place(3), place(3)]);
        let table = Table { all: View::all(&negations), first: 1 };
        self.launch(self.stems.linear.negate(touched, table, 2));
        let negated = |i: u32| slot(i).iter().map(|x| x.wrapping_neg());
        let expected: Vec<u32> =
            negated(2).chain(slot(1).iter().copied()).chain(slot(2).iter().copied()).chain(negated(3)).collect();
        assert!(self.download(&arena, 4 * stride) == placed(&expected), "negations");
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
        let out = self.upload(&vec![0; 3 * sample_words]);
        let table = self.upload(&table);
        let table = Table { all: View::all(&table), first: 3 };
        self.launch(self.stems.sample_extract.run(View::all(&acc), table, View::all(&out), 3));
        let sample = |row: u32| {
            let polynomials = rows[row as usize * row_words..][..row_words].chunks_exact(n);
            gates::sample_extract(&polynomials.map(<[u32]>::to_vec).collect::<Vec<_>>())
        };
        let mut sum: Vec<u32> = sample(0).iter().zip(sample(3)).map(|(x, y)| x.wrapping_add(y)).collect();
        sum[sample_words - 1] = sum[sample_words - 1].wrapping_add(EIGHTH);
        assert!(self.download(&out, 3 * sample_words) == [sample(2), sum, sample(1)].concat(), "samples");
    }
}
