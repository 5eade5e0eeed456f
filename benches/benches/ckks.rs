//! Times of CKKS on one thread of the CPU: the transform compared with the one of crate `tfhe-ntt`, and the operations
//! with three parameter sets. The script `benches/peers/run.py` runs this bench and other libraries in turns.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use kernels::Backend;
use kernels::ckks::cpu::{Evaluator, LoadedPart};
use kernels::ckks::noise::Noise;
use kernels::ckks::operation::{self, Operand, Operation, Request};
use kernels::ckks::plaintexts::Plaintexts;
use kernels::ckks::plan::Plan;
use kernels::ckks::{
    Arithmetic, KeyedSteps, Params, ParamsLiteral, PartKind, PartShape, PlannedSteps, SecurityLevel, SeededRow, matmul,
    rotation,
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

/// Plans an operation on fresh ciphertexts, for a key with rotations by powers of two and those of matrix products.
fn plan(params: &Params, operation: Operation, plain: Option<&[f64]>, coefficients: Option<&[f64]>) -> Plan {
    let (n, level) = (params.n(), params.level_max());
    let fresh = Operand { level, scale: params.level(level).scale, noise: Noise::encrypt_secret(1.0) };
    let operands = vec![fresh; operation.operands()];
    let powers = (0..params.slots().ilog2()).map(|bit| 1i64 << bit);
    let of_products = [matmul::doublings(params.slots()), matmul::thirds(params.slots())].concat();
    let steps = powers.chain(of_products.into_iter().map(|(steps, _)| steps));
    let rotations = steps.map(|steps| (PartKind::Galois(rotation::element(n, steps)), level));
    let parts: Vec<_> = std::iter::once((PartKind::Relinearization, level)).chain(rotations).collect();
    let scale_stable = true;
    let request =
        Request { operation, operands: &operands, plain, coefficients, steps: None, scale_stable, parts: &parts };
    operation::plan(&Plaintexts::new(params), params, &request).expect("an operation that is allowed")
}

/// Measures operations of many steps, which run as in the engine.
fn whole_plans(c: &mut Criterion) {
    let cpu = Cpu::with(Isa::detect(), 1);
    let coefficients: Vec<f64> = (0..65).map(|i| 1.0 / f64::from(1 + i)).collect();
    let matrix: Vec<f64> = (0..128 * 128).map(|at| f64::from(at % 17) / 17.0 - 0.5).collect();
    for (set, name, operation, plain, coefficients) in [
        ((32768, 40, 14), "polynomial of degree 64", Operation::PolyEval, None, Some(&coefficients[..])),
        ((16384, 40, 8), "encrypted matrix, 64 x 64", Operation::Matmul, None, None),
        ((16384, 40, 8), "public matrix, 128 x 128", Operation::MatmulPlain, Some(&matrix[..]), None),
        ((32768, 40, 14), "encrypted matrix, 128 x 128", Operation::Matmul, None, None),
        ((32768, 40, 14), "public matrix, 128 x 128", Operation::MatmulPlain, Some(&matrix[..]), None),
    ] {
        let params = params(set);
        let mut group = c.benchmark_group(format!("ckks_{}_{}_{}", set.0, set.1, set.2));
        group.sample_size(10);
        if plain.is_some() {
            group.bench_function(format!("{name}: the plan"), |bench| {
                bench.iter(|| plan(&params, operation, plain, coefficients));
            });
        }
        let plan = plan(&params, operation, plain, coefficients);
        let tables = cpu.make_tables(&params).expect("memory");
        let parts: Vec<(PartKind, LoadedPart)> =
            plan.parts().into_iter().map(|(kind, level)| (kind, device_part(&cpu, &tables, kind, level))).collect();
        let row = |prime: usize| words(params.n(), 5, params.primes()[prime].q());
        group.bench_function(name, |bench| {
            bench.iter_batched_ref(
                || {
                    let mut arena = cpu.arena(params.n(), plan.slots()).expect("memory");
                    for input in plan.inputs() {
                        let primes = &params.level(input.level).primes;
                        for (&slot, &prime) in input.slots.iter().zip(primes.iter().chain(primes)) {
                            cpu.write(&mut arena, slot, &row(prime)).expect("memory");
                        }
                    }
                    for (slots, words) in plan.plains() {
                        for (&slot, row) in slots.iter().zip(words.chunks_exact(params.n())) {
                            cpu.write(&mut arena, slot, row).expect("memory");
                        }
                    }
                    arena
                },
                |arena| run(&cpu, &tables, &plan, &parts, arena),
                BatchSize::PerIteration,
            );
        });
    }
}

/// Makes a part of a key on a device, from pseudorandom words.
fn device_part(cpu: &Cpu, tables: &Evaluator, kind: PartKind, level: usize) -> LoadedPart {
    let params = tables.params();
    let shape = PartShape { params: params.clone(), kind, level };
    let mut part = cpu.room_for_part(tables, &shape).expect("memory");
    let body: Vec<u32> =
        shape.primes().iter().flat_map(|&at| words(params.n(), at as u32, params.primes()[at].q())).collect();
    for digit in 0..shape.digits().len() {
        cpu.load_row(tables, &mut part, &SeededRow { digit, seed: &[7; 32], body: &body }).expect("memory");
    }
    part
}

fn run(
    cpu: &Cpu,
    tables: &Evaluator,
    plan: &Plan,
    parts: &[(PartKind, LoadedPart)],
    arena: &mut <Cpu as Backend>::Arena,
) {
    let slots: Vec<u32> = (0..plan.slots() as u32).collect();
    let mut first = 0;
    for &end in plan.level_ends() {
        let (begins, completes) = (first == 0, end == plan.steps().len());
        let plans = [PlannedSteps { plan, steps: first..end, slots: &slots, begins, there: &[], completes }];
        let parts = parts.iter().map(|(kind, part)| (*kind, part)).collect();
        black_box(cpu.run(&mut [KeyedSteps { tables, parts, arena, plans: &plans }]).expect("the CPU does not fail"));
        first = end;
    }
}

criterion_group!(arithmetic, transforms, operations, whole_plans);
criterion_main!(arithmetic);
