//! Times of CKKS on one thread of the CPU: the transform compared with the one of crate `tfhe-ntt`, and the operations
//! with three parameter sets. The script `benches/peers/run.py` runs this bench and other libraries in turns.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use kernels::Backend;
use kernels::ckks::cpu::{Evaluator, LoadedPart};
use kernels::ckks::noise::Noise;
use kernels::ckks::plan::{Plan, PlanBuilder};
use kernels::ckks::{
    Arithmetic, KeyedSteps, Params, ParamsLiteral, PartKind, PartShape, PlannedSteps, SecurityLevel, SeededRow,
    polynomial, rotation,
};
use kernels::cpu::memory::Words;
use kernels::cpu::ntt::{NttTables, forward_all, inverse_all};
use kernels::cpu::{Cpu, Isa};
use kernels::modular::Modulus;
use kernels::ring::{Ring, primes::nearest_to_power};

/// The measured parameter sets: degree, scale, depth.
const SETS: [(usize, u32, u32); 3] = [(8192, 40, 3), (16384, 40, 8), (32768, 50, 14)];

/// Pseudorandom words below `bound`. The values of the words do not affect the measured time.
fn words(count: usize, seed: u32, bound: u32) -> Vec<u32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 2) % bound
    };
    (0..count).map(|_| next()).collect()
}

fn params((poly_degree, scale_bits, max_depth): (usize, u32, u32)) -> Params {
    let security = SecurityLevel::Bits128;
    Params::new(ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap: false }).expect("a secure set")
}

/// Measures forward and inverse transforms modulo two primes of 30 bits, at the largest degree.
fn transforms(c: &mut Criterion) {
    let n = 32768;
    let mut group = c.benchmark_group("ntt_32768_60_bits");
    let primes = nearest_to_power(n, 30, 2);
    let rows: Vec<Vec<u32>> = primes.iter().map(|&q| words(n, q, q)).collect();
    for isa in Isa::available() {
        let tables = |&q| NttTables::new(isa, Arc::new(Ring::new(Modulus::new(q), n)));
        let tables: Vec<NttTables> = primes.iter().map(tables).collect();
        let mut of_isa = rows.clone();
        group.bench_function(BenchmarkId::new("forward", isa.name()), |b| {
            b.iter(|| of_isa.iter_mut().zip(&tables).for_each(|(row, tables)| forward_all(tables, row)));
        });
        group.bench_function(BenchmarkId::new("inverse", isa.name()), |b| {
            b.iter(|| of_isa.iter_mut().zip(&tables).for_each(|(row, tables)| inverse_all(tables, row)));
        });
    }
    let plans: Vec<_> =
        primes.iter().map(|&q| tfhe_ntt::prime32::Plan::try_new(n, q).expect("a prime of the degree")).collect();
    let mut of_peer = rows.clone();
    group.bench_function("forward/tfhe-ntt", |b| {
        b.iter(|| of_peer.iter_mut().zip(&plans).for_each(|(row, plan)| plan.fwd(row)));
    });
    group.bench_function("inverse/tfhe-ntt", |b| {
        b.iter(|| of_peer.iter_mut().zip(&plans).for_each(|(row, plan)| plan.inv(row)));
    });
}

/// Makes a part of a key from pseudorandom words.
fn part(evaluator: &Evaluator, params: &Params, kind: PartKind) -> LoadedPart {
    let level = params.level_max();
    let (digits, primes) = (params.digits(kind, level), params.key_primes(kind, level));
    let mut part = evaluator.room_for_part(&digits, &primes).expect("memory");
    for digit in 0..digits.len() {
        let row = |seed| {
            primes
                .iter()
                .flat_map(|&at| words(params.n(), seed + at as u32, params.primes()[at].q()))
                .collect::<Vec<_>>()
        };
        evaluator.load_row(&mut part, digit, [&row(1), &row(1000)]);
    }
    part
}

fn operations(c: &mut Criterion) {
    for set in SETS {
        let params = params(set);
        let (n, top) = (params.n(), params.level_max());
        let mut group = c.benchmark_group(format!("ckks_{}_{}_{}", set.0, set.1, set.2));
        group.sample_size(20);
        for isa in Isa::available() {
            let evaluator = Evaluator::new(&params, isa, 1);
            let relinearization = part(&evaluator, &params, PartKind::Relinearization);
            let turn = part(&evaluator, &params, PartKind::Galois(rotation::element(n, 1)));
            let primes = &params.level(top).primes;
            // the operands are in `Words`, as in the engine: large ones are on huge pages
            let rows = |seed: u32| -> Vec<Words> {
                let row = |&at: &usize| Words::copy_of(&words(n, seed + at as u32, params.primes()[at].q()));
                primes.iter().chain(primes).map(row).collect::<Result<_, _>>().expect("memory")
            };
            let (a, b) = (rows(1), rows(2));
            let (a, b): (Vec<&[u32]>, Vec<&[u32]>) =
                (a.iter().map(|row| &row[..]).collect(), b.iter().map(|row| &row[..]).collect());
            let mut out = rows(3);
            let mut out: Vec<&mut [u32]> = out.iter_mut().map(|row| &mut row[..]).collect();
            let below = 2 * params.level(top - 1).primes.len();
            let name = |operation: &str| BenchmarkId::new(operation, isa.name());
            group.bench_function(name("multiply, relinearize, rescale"), |bench| {
                bench.iter(|| evaluator.multiply(top, top - 1, [&a, &b], &relinearization, &mut out[..below]));
            });
            group.bench_function(name("rotate"), |bench| {
                bench.iter(|| evaluator.automorphism(top, rotation::element(n, 1), &a, &turn, &mut out));
            });
            group.bench_function(name("rescale"), |bench| {
                bench.iter(|| evaluator.rescale(top, top - 1, 1, &a, &mut out[..below]));
            });
            group.bench_function(name("add"), |bench| bench.iter(|| evaluator.add(top, &a, &b, &mut out)));
        }
    }
}

/// Measures a whole plan, which runs as in the engine.
fn polynomial_of_degree_64(c: &mut Criterion) {
    let params = params((32768, 40, 14));
    let cpu = Cpu::with(Isa::detect(), 1);
    let mut builder = PlanBuilder::new(&params);
    let x = builder.input(14, params.level(14).scale, Noise::encrypt_secret(1.0));
    let coefficients: Vec<f64> = (0..65).map(|i| 1.0 / f64::from(1 + i)).collect();
    let value = polynomial::evaluate(&mut builder, x, &coefficients);
    let plan = builder.finish(&[value]);
    let shape = PartShape { params: params.clone(), kind: PartKind::Relinearization, level: 14 };
    let mut relinearization = cpu.room_for_part(&shape).expect("memory");
    let primes = shape.primes();
    for digit in 0..shape.digits().len() {
        let body: Vec<u32> =
            primes.iter().flat_map(|&at| words(params.n(), at as u32, params.primes()[at].q())).collect();
        cpu.load_row(&mut relinearization, &SeededRow { digit, seed: &[7; 32], body: &body }).expect("memory");
    }
    let of_level = &params.level(14).primes;
    let input: Vec<u32> =
        of_level.iter().chain(of_level).flat_map(|&at| words(params.n(), 5, params.primes()[at].q())).collect();
    let mut group = c.benchmark_group("ckks_32768_40_14");
    group.sample_size(10);
    group.bench_function("polynomial of degree 64", |bench| {
        bench.iter_batched_ref(
            || {
                let mut arena = cpu.arena(params.n(), plan.slots()).expect("memory");
                cpu.write(&mut arena, plan.inputs().next().expect("x").slots[0], &input).expect("memory");
                arena
            },
            |arena| run(&cpu, &plan, &relinearization, arena),
            BatchSize::PerIteration,
        );
    });
}

fn run(cpu: &Cpu, plan: &Plan, key: &<Cpu as Arithmetic>::Part, arena: &mut <Cpu as Backend>::Arena) {
    let slots: Vec<u32> = (0..plan.slots() as u32).collect();
    let mut first = 0;
    for &end in plan.level_ends() {
        let (begins, completes) = (first == 0, end == plan.steps().len());
        let plans = [PlannedSteps { plan, steps: first..end, slots: &slots, begins, completes }];
        let parts = vec![(PartKind::Relinearization, key)];
        black_box(cpu.run(&mut [KeyedSteps { parts, arena, plans: &plans }]).expect("the CPU does not fail"));
        first = end;
    }
}

criterion_group!(arithmetic, transforms, operations, polynomial_of_degree_64);
criterion_main!(arithmetic);
