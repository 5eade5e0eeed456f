//! The measurements. Each runs its work once without measuring, then repeats the work for some time and averages over
//! all runs. The results are decrypted and compared.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use benches::rates::{Rates, Step, seconds_each};
use client::SecretKey;
use kernels::cpu::Isa;
use kernels::cpu::ntt::{NttTables, forward_all};
use kernels::gpu::{Compiler, Gpu, LaunchOf, Shares, Table, Touched, View, ntt, shares};
use kernels::tfhe::gpu::CompiledStems;
use kernels::tfhe::gpu::blind_rotate::Variant;
use kernels::tfhe::gpu::lwe_key_switch::Results;
use kernels::tfhe::{EvaluationKey, Gate, Gates, KeyedGates, Lwe, NO_CELLS, Params, SlotGate, ring};
use kernels::{Backend, Card, Result};

use crate::figures::Figures;

/// Number of encrypted pairs of bits. A larger batch repeats them.
const PAIRS: usize = 64;
/// Rows of a CPU's batch: enough for a group on each of its threads.
const PROCESSOR_ROWS: usize = 64;
/// Number of launches between two readings of the clock: of a transform, of a blind rotation, and of a key switch. The
/// numbers are so large that the wait for the last launch does not affect the figure.
const LAUNCHES: [usize; 3] = [256, 2, 64];

/// Least number of measured runs.
const REPEATS_MIN: u32 = 3;

/// NAND gates whose operands come from the host and whose results return to it.
pub struct NandGates<'a, B: Gates> {
    backend: &'a B,
    key: B::Key,
    params: Params,
    secret: &'a SecretKey,
    pairs: Vec<([bool; 2], [Lwe; 2])>,
}

impl<'a, B: Gates> NandGates<'a, B> {
    pub fn new(backend: &'a B, evaluation_key: &EvaluationKey, secret: &'a SecretKey) -> Result<NandGates<'a, B>> {
        let bits = |i: usize| [i & 1 == 0, i & 2 == 0];
        let pairs = (0..PAIRS).map(|i| (bits(i), bits(i).map(|bit| secret.encrypt(bit)))).collect();
        Ok(NandGates { backend, key: backend.load_key(evaluation_key)?, params: evaluation_key.params, secret, pairs })
    }

    /// Gates a second in batches of this size, with as many batches in flight as the device allows.
    pub fn rate(&self, batch: usize, time: Duration) -> Result<f64> {
        self.seconds_a_batch(batch, self.backend.info().batches_in_flight_max, time)
            .map(|seconds| batch as f64 / seconds)
    }

    /// Milliseconds from a single gate's operands to its result.
    pub fn latency_ms(&self, time: Duration) -> Result<f64> {
        Ok(1e3 * self.seconds_a_batch(1, 1, time)?)
    }

    /// Gates a second of `count` sessions with one gate each: first with a call for each session, then with one call
    /// for all sessions. Each session loads its own copy of one key. The device cannot tell that the copies are equal.
    pub fn sessions(&self, evaluation_key: &EvaluationKey, count: usize, time: Duration) -> Result<[f64; 2]> {
        let keys: Vec<B::Key> = (0..count).map(|_| self.backend.load_key(evaluation_key)).collect::<Result<_>>()?;
        let pairs = self.pairs.iter().cycle().take(count);
        let arena = |(_, [a, b]): &(_, [Lwe; 2])| -> Result<B::Arena> {
            let mut arena = self.backend.arena(self.params.lwe_dimension + 1, 3)?;
            self.backend.write(&mut arena, 0, &[a.words(), b.words()].concat())?;
            Ok(arena)
        };
        let mut arenas: Vec<B::Arena> = pairs.map(arena).collect::<Result<_>>()?;
        let gates = &[SlotGate { gate: Gate::Nand, operands: [0, 1, 0], result: 2 }];
        let batch = |(key, arena)| KeyedGates { key, arena, gates, cells: &NO_CELLS, ends: &[], reads: &[2] };
        let mut batches: Vec<KeyedGates<'_, B::Key, B::Arena>> = keys.iter().zip(&mut arenas).map(batch).collect();
        let mut rate = |at_once: usize| -> Result<f64> {
            let mut results = Vec::new();
            let seconds = seconds_each(time, REPEATS_MIN, || {
                results.clear();
                for batches in batches.chunks_mut(at_once) {
                    let pending = self.backend.evaluate_together(batches)?;
                    results.extend(self.backend.finish(pending)?);
                }
                Ok(())
            })?;
            self.check(&results);
            Ok(count as f64 / seconds)
        };
        Ok([rate(1)?, rate(count)?])
    }

    fn seconds_a_batch(&self, batch: usize, in_flight_max: usize, time: Duration) -> Result<f64> {
        let words: Vec<u32> =
            self.pairs.iter().cycle().take(batch).flat_map(|(_, [a, b])| [a.words(), b.words()].concat()).collect();
        let result = |i: u32| 2 * batch as u32 + i;
        let gate = |i: u32| SlotGate { gate: Gate::Nand, operands: [2 * i, 2 * i + 1, 0], result: result(i) };
        let gates: Vec<SlotGate> = (0..batch as u32).map(gate).collect();
        let reads: Vec<u32> = (0..batch as u32).map(result).collect();
        let mut arena = self.backend.arena(self.params.lwe_dimension + 1, 3 * batch)?;
        let mut under_way = VecDeque::new();
        let mut results = Vec::new();
        let seconds = seconds_each(time, REPEATS_MIN, || {
            if under_way.len() == in_flight_max {
                results = self.backend.finish(under_way.pop_front().expect("one is under way"))?;
            }
            self.backend.write(&mut arena, 0, &words)?;
            under_way.push_back(self.backend.evaluate(&self.key, &mut arena, &gates, &reads)?);
            if in_flight_max == 1 {
                results = self.backend.finish(under_way.pop_front().expect("one is under way"))?;
            }
            Ok(())
        })?;
        for pending in under_way {
            results = self.backend.finish(pending)?;
        }
        self.check(&results);
        Ok(seconds)
    }

    fn check(&self, results: &[u32]) {
        let rows = results.chunks_exact(self.params.lwe_dimension + 1);
        for (row, (bits, _)) in rows.zip(self.pairs.iter().cycle()) {
            let found = self.secret.decrypt(&Lwe::new(row.to_vec()));
            assert_eq!(found, Gate::Nand.plain(bits), "NAND of {bits:?}: a wrong result, no figure counts");
        }
    }
}

/// Measures single kernels of a card on a full batch of rows, in the variants that the card uses for such a batch, and
/// adds the figures.
pub fn stems<G: Gpu>(figures: &mut Figures, card: &Card<G>, key: &EvaluationKey, time: Duration) -> Result<()> {
    let (gpu, p, rows) = (card.gpu(), &key.params, card.info().rows_max);
    let stems = CompiledStems::new(gpu, &Compiler::default(), p, Variant::of(gpu.properties(), p))?;
    let roots = ntt::roots(&ring(p.polynomial_size));
    let table = gpu.alloc(roots.len())?;
    gpu.write(&table, 0, &roots)?;

    let polynomials = gpu.alloc(rows * p.polynomial_size)?;
    let [transforms, rotations, switches] = LAUNCHES.map(|launches| (rows, launches));
    let launch = stems.ntt.forward(View::all(&polynomials), View::all(&table), rows);
    let transforms = per_second(gpu, &polynomials, transforms, time, launch.as_slice())?;
    figures.add("transforms of a row", transforms, "rows/s");
    drop(polynomials);

    let bootstrap = stems.blind_rotate.load(gpu, &stems.ntt, View::all(&table), key)?;
    let exponents = gpu.alloc(rows * (p.lwe_dimension + 1))?;
    gpu.write(&exponents, 0, &any_exponents(p, rows))?;
    let accumulators = gpu.alloc(rows * p.accumulator_words())?;
    let rows_max = stems.blind_rotate.rows_of_a_share(&[rows]);
    let words = shares(&[(rows, 0)], rows_max);
    let (shared, count) = (gpu.alloc(words.as_flattened().len())?, words.len());
    gpu.write(&shared, 0, words.as_flattened())?;
    // for a full batch, the card runs kernels whose groups exchange no words, so the buffers for the exchange are empty
    let nothing = gpu.alloc(0)?;
    let whole = [View::all(&bootstrap).range()];
    let shared_rows = Shares { table: Table { all: View::all(&shared), first: 0 }, count, rows_max };
    let launches = stems.blind_rotate.run(
        Touched { buf: &bootstrap, ranges: &whole },
        View::all(&table),
        View::all(&exponents),
        View::all(&accumulators),
        &shared_rows,
        [View::all(&nothing); 2],
    );
    let rotations = per_second(gpu, &accumulators, rotations, time, &launches)?;
    figures.add("external products", rotations * p.lwe_dimension as f64, "products/s");
    drop((bootstrap, exponents, accumulators));

    let key_switch = stems.key_switch.load(gpu, key)?;
    let samples = gpu.alloc(rows * (p.extracted_dimension() + 1))?;
    let rows_max = stems.key_switch.gates_of_a_share(&[rows], gpu.properties().groups_max[0]);
    let words = shares(&[(rows, 0)], rows_max);
    // the first word of each result
    let results = (0..rows).map(|row| (row * (p.lwe_dimension + 1)) as u32);
    let written: Vec<u32> = results.chain(words.as_flattened().iter().copied()).collect();
    let (tables, count) = (gpu.alloc(written.len())?, words.len());
    gpu.write(&tables, 0, &written)?;
    let arena = gpu.alloc(rows * (p.lwe_dimension + 1))?;
    let shared_rows = Shares { table: Table { all: View::all(&tables), first: rows }, count, rows_max };
    let results = Table { all: View::all(&tables), first: 0 };
    let whole = [View::all(&key_switch).range()];
    let (keys, rows) = (Touched { buf: &key_switch, ranges: &whole }, Results::Words(View::all(&arena)));
    let launch = stems.key_switch.run(keys, View::all(&samples), results, &shared_rows, rows);
    let switches = per_second(gpu, &arena, switches, time, launch.as_slice())?;
    figures.add("key switches", switches, "key switches/s");
    Ok(())
}

/// Returns how many pieces the launches compute a second. A measured run repeats the launches `turns` times, and each
/// time they compute `pieces` pieces. The run ends when a word of `out` has been read, which waits for the last launch.
fn per_second<G: Gpu>(
    gpu: &G,
    out: &G::Buf,
    (pieces, turns): (usize, usize),
    time: Duration,
    launches: &[LaunchOf<'_, G>],
) -> Result<f64> {
    let seconds = seconds_each(time, REPEATS_MIN, || {
        for _ in 0..turns {
            gpu.launch_all(launches)?;
        }
        gpu.finish(gpu.read(out, &[Range { start: 0, end: 1 }])?).map(drop)
    })?;
    Ok((turns * pieces) as f64 / seconds)
}

/// Pseudorandom exponents, `[rows][n + 1]` words in `[0, 2N)`.
fn any_exponents(p: &Params, rows: usize) -> Vec<u32> {
    let mask = 2 * p.polynomial_size as u32 - 1;
    (0..(rows * (p.lwe_dimension + 1)) as u32).map(|i| i.wrapping_mul(2_654_435_761) >> 7 & mask).collect()
}

/// Measures single kernels of a CPU and adds the figures. The backend's interface does not separate all kernels: the
/// figure for external products includes the extraction, and all figures except the one for transforms include copies
/// of words.
pub fn processor<B: kernels::tfhe::Stems>(
    figures: &mut Figures,
    backend: &B,
    key: &EvaluationKey,
    secret: &SecretKey,
    time: Duration,
) -> Result<()> {
    let p = &key.params;
    let tables = NttTables::new(Isa::detect(), ring(p.polynomial_size));
    let mut row = vec![1; p.polynomial_size];
    let transforms = 1.0
        / seconds_each(time, REPEATS_MIN, || {
            forward_all(&tables, &mut row);
            Ok(())
        })?;
    figures.add("transforms of a row, one thread", transforms, "rows/s");
    let loaded = backend.load_key(key)?;
    let rows = backend.info().rows_max.min(PROCESSOR_ROWS);
    let inputs: Vec<u32> = (0..rows).flat_map(|i| secret.encrypt(i % 2 == 0).into_words()).collect();
    let mut samples = Vec::new();
    let seconds = seconds_each(time, REPEATS_MIN, || {
        samples = backend.bootstrap(&loaded, &inputs)?;
        Ok(())
    })?;
    figures.add("external products", (rows * p.lwe_dimension) as f64 / seconds, "products/s");
    let seconds = seconds_each(time, REPEATS_MIN, || backend.key_switch(&loaded, &samples).map(drop))?;
    figures.add("key switches", rows as f64 / seconds, "key switches/s");
    Ok(())
}

/// Adds the measured rates of single instructions on a card to the figures.
pub fn rates(figures: &mut Figures, rates: &Rates) {
    let lanes = [
        ("IMAD", rates.multiply),
        ("IMAD.HI", rates.multiply_high),
        ("IMAD.WIDE", rates.multiply_wide),
        ("SHF", rates.shift),
        ("reductions (VIADDMNMX)", rates.reduce),
        ("DFMA", rates.double),
        ("LDS.64", rates.load_shared),
    ];
    for (instruction, rate) in lanes {
        figures.add(instruction, rate, "lanes a clock and multiprocessor");
    }
    figures.add("40 MB of the L2 cache", rates.l2_bytes / 1e9, "GB/s");
    for barrier in &rates.barriers {
        let (form, rows) = (barrier.form.name(), barrier.rows);
        assert_eq!(barrier.wrong, 0, "{form}, {rows} rows: words that the partner did not write, no figure counts");
        figures.add(format!("{form} of each of {rows} rows"), barrier.alone_ns, "ns");
        figures.add(format!("{form} and 12 KB of partners, {rows} rows"), barrier.read_ns, "ns");
    }
}

/// Adds the limit that the card's arithmetic sets at the measured rates, as a formula, and the share of this limit that
/// the card reached.
pub fn ceiling(figures: &mut Figures, multiprocessors: u32, clock_khz: u32, step: &Step, rates: &Rates) {
    let Some(best) = figures.largest("gates/s") else { return };
    let pipes = rates.pipes();
    let (clocks, clock_ghz, ceiling) =
        (step.clocks(&pipes), f64::from(clock_khz) / 1e6, step.gates_a_second(&pipes, multiprocessors, clock_khz));
    figures.add("share of the arithmetic's ceiling", 100.0 * best / ceiling, "%");
    figures.note(format!(
        "The ceiling is {ceiling:.0} gates/s: multiprocessors x clock / (clocks of a step x steps) = {multiprocessors} x \
         {clock_ghz:.3} GHz / ({clocks:.0} x {}), at its highest clock, the clocks of a step from the instructions of \
         the kernel and the rates above.",
        step.steps
    ));
}
