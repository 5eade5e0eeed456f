//! Operations on encrypted numbers on every backend, compared word for word with the words of the portable CPU. The
//! suite `numbers` compares the CPU's words with their definitions.
//!
//! Words and keys are random or the largest residues. No secret is behind them, because tests of equality need none.

use std::sync::{Arc, OnceLock};

use client::ckks::{joint_rotation_parts, matrix_product_parts, power_of_two_steps};
use kernels::ckks::noise::Noise;
use kernels::ckks::operation::{self, Operand, Operation, Request};
use kernels::ckks::plaintexts::Plaintexts;
use kernels::ckks::plan::{Step, Term, Value};
use kernels::ckks::weights::Weights;
use kernels::ckks::{
    Arithmetic, KeyedSteps, Params, ParamsLiteral, PartKind, PartShape, Plan, PlanBuilder, PlannedSteps, SecurityLevel,
    SeededRow, bootstrap, polynomial, rotation,
};
use kernels::cpu::{Cpu, Isa};
use kernels::{Backend, Card, Result};
use rand_chacha::rand_core::Rng;
use tests_compute::counted::Counted;
use tests_compute::host_cuda::HostCuda;

use crate::Case;
use crate::device::Device;
use crate::fixtures::{Bodies, generator};

/// The degree, the bits of the scale, the depth, and whether the chain has the levels of bootstrapping. Some chains are
/// nested and some are not. The keys have one or several special primes.
type Setting = (usize, u32, u32, bool);

const SMALL: Setting = (64, 40, 4, false);
const NOT_NESTED: Setting = (64, 33, 2, false);
const WIDE_STEPS: Setting = (256, 50, 2, false);
const BOOTSTRAPPED: Setting = (64, 35, 1, true);
const SPLIT: Setting = (4096, 40, 2, false);
/// Rows of 16, 32 and 64 rows.
const LONG: [Setting; 3] = [(8192, 30, 1, false), (16_384, 30, 1, false), (32_768, 30, 1, false)];

/// A plan for parameters.
type Make = fn(&Params) -> Plan;

/// Plans of one parameter set. Each runs under two keys, in two arenas.
pub struct NumbersCase {
    plan: Plan,
    bodies: &'static [Bodies],
    given: &'static [Given],
    /// The words of the outputs for each kind of bodies.
    expected: OnceLock<Vec<Vec<u32>>>,
}

/// How a plan is given to a device.
#[derive(Clone, Copy, Debug)]
enum Given {
    /// A call for each level, and for each key.
    EachLevel,
    /// One call for all levels of both keys.
    Together,
    /// A plan for each level. Each finds its inputs where the plan of the level before has left them.
    InPlans,
}

fn params((poly_degree, scale_bits, max_depth, bootstrap): Setting) -> Params {
    let security = SecurityLevel::Testing;
    let literal = ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap };
    Params::new(literal).expect("parameters for tests")
}

/// A key, an arena and the words of a plan's inputs. Each has words of its seed.
struct Run<B: Arithmetic> {
    parts: Vec<(PartKind, B::Part)>,
    arena: B::Arena,
}

fn words(count: usize, bounds: impl Fn(usize) -> u32, bodies: Bodies, seed: u64) -> Vec<u32> {
    let mut rng = generator(seed);
    let word = |at: usize| match bodies {
        Bodies::Random => (rng.next_u64() % u64::from(bounds(at))) as u32,
        Bodies::Largest => bounds(at) - 1,
    };
    (0..count).map(word).collect()
}

/// Slot `i` of a plan is slot `3 + slots - 1 - i` of the arena, after three unused slots.
fn arena_slots(plan: &Plan) -> Vec<u32> {
    (0..plan.slots() as u32).rev().map(|slot| slot + 3).collect()
}

/// The parts of a key that a plan needs. Images that are summed need parts of one level.
fn parts_of(plan: &Plan) -> Vec<(PartKind, usize)> {
    let mut parts = plan.parts();
    for planned in plan.steps() {
        let Step::AddImages { elements, .. } = &planned.step else { continue };
        let is_needed = |kind: PartKind| elements.iter().any(|&element| kind == PartKind::Galois(element));
        let needed = parts.iter().filter(|(kind, _)| is_needed(*kind));
        let highest = needed.map(|&(_, level)| level).max().expect("the plan names the parts of its steps");
        parts.iter_mut().filter(|(kind, _)| is_needed(*kind)).for_each(|(_, level)| *level = highest);
    }
    parts
}

impl<B: Backend + Arithmetic> Run<B> {
    fn new(backend: &B, tables: &B::Tables, plan: &Plan, bodies: Bodies, seed: u64) -> Run<B> {
        let (params, n) = (plan.params(), plan.params().n());
        let bound = |primes: &[usize], at: usize| params.primes()[primes[at / n % primes.len()]].q();
        let part = |(kind, level): (PartKind, usize)| {
            let shape = PartShape { params: params.clone(), kind, level };
            let mut part = backend.room_for_part(tables, &shape).expect("room");
            let primes = shape.primes();
            for digit in 0..shape.digits().len() {
                let of_row = seed.wrapping_mul(31) ^ digit as u64;
                let body = words(primes.len() * n, |at| bound(&primes, at), bodies, of_row);
                let row = SeededRow { digit, seed: &[of_row as u8; 32], body: &body };
                backend.load_row(tables, &mut part, &row).expect("a row");
            }
            (kind, part)
        };
        let parts = parts_of(plan).into_iter().map(part).collect();
        let arena = backend.arena(n, plan.slots() + 3).expect("room");
        let inputs = plan.inputs().enumerate().map(|(at, input)| {
            let primes = &params.level(input.level).primes;
            let words = words(input.slots.len() * n, |at| bound(primes, at), bodies, seed + 100 + at as u64);
            (input.slots.clone(), words)
        });
        let mut run = Run { parts, arena };
        run.write(backend, plan, inputs.chain(plan.plains().iter().cloned()));
        run
    }

    /// Writes words to slots of the plan.
    fn write(&mut self, backend: &B, plan: &Plan, all: impl Iterator<Item = (Vec<u32>, Vec<u32>)>) {
        let slots = arena_slots(plan);
        for (of_plan, words) in all {
            for (&slot, row) in of_plan.iter().zip(words.chunks_exact(plan.params().n())) {
                backend.write(&mut self.arena, slots[slot as usize], row).expect("a copy");
            }
        }
    }

    fn batch<'a>(&'a mut self, tables: &'a B::Tables, plans: &'a [PlannedSteps<'a>]) -> KeyedSteps<'a, B> {
        let parts = self.parts.iter().map(|(kind, part)| (*kind, part)).collect();
        KeyedSteps { tables, parts, arena: &mut self.arena, plans }
    }
}

/// Runs the plan under two keys and returns the words of the outputs.
fn outputs<B: Backend + Arithmetic>(backend: &B, plan: &Plan, bodies: Bodies, given: Given) -> Result<Vec<u32>> {
    let tables = backend.make_tables(plan.params())?;
    let mut runs = [1, 2].map(|seed| Run::new(backend, &tables, plan, bodies, seed));
    let slots = arena_slots(plan);
    let steps = |first: usize, end: usize| {
        let (begins, completes) = (first == 0, end == plan.steps().len());
        [PlannedSteps { plan, steps: first..end, slots: &slots, begins, there: &[], completes }]
    };
    match given {
        Given::EachLevel => {
            let mut found = Vec::new();
            for run in &mut runs {
                let mut first = 0;
                for &end in plan.level_ends() {
                    let steps = steps(first, end);
                    let words = backend.finish(backend.run(&mut [run.batch(&tables, &steps)])?)?;
                    assert!(end == plan.steps().len() || words.is_empty(), "outputs come at the end");
                    found.extend(words);
                    first = end;
                }
            }
            Ok(found)
        }
        Given::InPlans => {
            let mut found = Vec::new();
            let levels = plan.level_ends().len();
            for run in &mut runs {
                for level in 0..levels {
                    let part = plan.part(level..level + 1);
                    let there: Vec<usize> = if level == 0 { Vec::new() } else { (0..part.inputs().len()).collect() };
                    if level > 0 {
                        run.write(backend, plan, part.plains().iter().cloned());
                    }
                    let (steps, completes) = (0..part.steps().len(), level + 1 == levels);
                    let steps =
                        [PlannedSteps { plan: &part, steps, slots: &slots, begins: true, there: &there, completes }];
                    found.extend(backend.finish(backend.run(&mut [run.batch(&tables, &steps)])?)?);
                }
            }
            Ok(found)
        }
        Given::Together => {
            let steps = steps(0, plan.steps().len());
            let mut batches: Vec<KeyedSteps<'_, B>> = runs.iter_mut().map(|run| run.batch(&tables, &steps)).collect();
            backend.finish(backend.run(&mut batches)?)
        }
    }
}

impl NumbersCase {
    fn new((setting, make): (Setting, Make)) -> NumbersCase {
        let bodies = &[Bodies::Random, Bodies::Largest];
        let given = &[Given::Together, Given::EachLevel, Given::InPlans];
        NumbersCase { plan: make(&params(setting)), bodies, given, expected: OnceLock::new() }
    }

    /// A case for degrees at which emulated cards are slow.
    fn brief(of: (Setting, Make)) -> NumbersCase {
        NumbersCase { bodies: &[Bodies::Random], given: &[Given::Together], ..NumbersCase::new(of) }
    }

    /// A case for which broken kernels of short rows must give wrong words.
    pub fn short() -> NumbersCase {
        NumbersCase { given: &[Given::Together], ..NumbersCase::new((WIDE_STEPS, everything)) }
    }

    /// A case for which broken kernels of long rows must give wrong words.
    pub fn long() -> NumbersCase {
        NumbersCase::brief((LONG[0], rotated))
    }

    fn expected(&self) -> &[Vec<u32>] {
        let portable = Cpu::with(Isa::Portable, 2);
        let words = |&bodies: &Bodies| outputs(&portable, &self.plan, bodies, Given::Together).expect("room");
        self.expected.get_or_init(|| self.bodies.iter().map(words).collect())
    }

    /// Compares the words of a backend with those of the portable CPU.
    pub fn check<B: Backend + Arithmetic>(&self, backend: &B) {
        for (&bodies, expected) in self.bodies.iter().zip(self.expected()) {
            assert!(expected.iter().any(|&word| word != expected[0]), "words that differ");
            for &given in self.given {
                let found = outputs(backend, &self.plan, bodies, given).expect("the steps run");
                let wrong = found.iter().zip(expected).filter(|(found, expected)| found != expected).count();
                let first = found.iter().zip(expected).position(|(found, expected)| found != expected);
                assert_eq!(found.len(), expected.len(), "{given:?}");
                let n = self.plan.params().n();
                assert!(wrong == 0, "{given:?}: {wrong} words, first {:?}", first.map(|at| (at / n, at % n)));
            }
        }
    }

    /// Runs the whole plan in each turn, under one of two keys, in a new session each time.
    pub fn in_turns<B: Backend + Arithmetic>(&self, backend: &B, turns: u64) {
        let (plan, slots) = (&self.plan, arena_slots(&self.plan));
        let tables = backend.make_tables(plan.params()).expect("room");
        let expected = &self.expected()[0];
        for turn in 0..turns {
            let mut run = Run::new(backend, &tables, plan, self.bodies[0], 1 + turn % 2);
            let steps = [PlannedSteps {
                plan,
                steps: 0..plan.steps().len(),
                slots: &slots,
                begins: true,
                there: &[],
                completes: true,
            }];
            let pending = backend.run(&mut [run.batch(&tables, &steps)]).expect("the steps run");
            let found = backend.finish(pending).expect("the steps run");
            let half = (turn % 2) as usize * found.len();
            assert!(found == expected[half..half + found.len()], "turn {turn}");
        }
    }

    /// Whether a backend computes the words of the portable CPU.
    ///
    /// # Errors
    /// The backend's error.
    pub fn is_computed_by<B: Backend + Arithmetic>(&self, backend: &B) -> Result<bool> {
        let found = self.bodies.iter().map(|&bodies| outputs(backend, &self.plan, bodies, self.given[0]));
        Ok(found.collect::<Result<Vec<_>>>()? == self.expected())
    }
}

const NOISE: Noise = Noise::new(1.0, 10.5);

/// A builder with two fresh inputs of the highest level.
fn builder(params: &Params) -> (PlanBuilder, [Value; 2]) {
    let mut builder = PlanBuilder::new(params);
    let (top, scale) = (params.chain().levels.len() - 1, params.level(params.chain().levels.len() - 1).scale);
    let inputs = [0, 1].map(|_| builder.input(top, scale, NOISE));
    (builder, inputs)
}

fn sums(params: &Params) -> Plan {
    let (mut builder, [a, b]) = builder(params);
    let (level, scale) = (builder.level(a), builder.scale(a));
    let numbers: Vec<f64> = (0..params.slots()).map(|slot| (slot as f64).sin()).collect();
    let words = Plaintexts::new(params).encode_reals(&numbers, level, scale).expect("small numbers");
    let plain = builder.plain(level, words, scale, 1.0);
    let (sum, difference, negated) = (builder.add(a, b), builder.sub(a, b), builder.negate(a));
    let tripled = builder.multiply_integer(b, -3_000_000_017);
    let (plus, times) = (builder.add_plain(difference, plain), builder.multiply_plain(sum, plain));
    let shifted = builder.add_constant(negated, -0.375);
    builder.finish(&[plus, times, shifted, tripled, a])
}

fn products(params: &Params) -> Plan {
    let (mut builder, [a, b]) = builder(params);
    let (rescaled, square) = (builder.multiply_rescaled(a, b), builder.multiply(a, a));
    let lower = builder.rescale(square);
    let next = builder.multiply_rescaled(rescaled, lower);
    builder.finish(&[next, square])
}

/// More pairs than the kernels sum before a reduction.
fn sums_of_products(params: &Params) -> Plan {
    let (mut builder, [a, b]) = builder(params);
    let mut values = vec![a, b];
    for at in 0..9 {
        values.push(builder.add(values[at], values[at + 1]));
    }
    let pairs: Vec<_> = values.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let plus = builder.multiply(a, a);
    let (with, without) = (builder.sum_of_products(&pairs, Some(plus)), builder.sum_of_products(&pairs[..1], None));
    builder.finish(&[with, without])
}

fn rescales(params: &Params) -> Plan {
    let (mut builder, [a, _]) = builder(params);
    let top = builder.level(a);
    let mut outputs = vec![builder.rescale(a)];
    for to in 0..top {
        outputs.push(builder.lower(a, to, params.level(to).scale));
    }
    builder.finish(&outputs)
}

fn rotations(params: &Params) -> Plan {
    let (mut builder, [a, b]) = builder(params);
    let n = params.n();
    let lower = builder.rescale(b);
    let elements = [rotation::element(n, 1), rotation::element(n, -5), rotation::conjugation(n)];
    let mut outputs: Vec<_> = elements.iter().map(|&element| builder.automorphism(a, element)).collect();
    outputs.push(builder.automorphism(lower, elements[1]));
    builder.finish(&outputs)
}

fn images(params: &Params) -> Plan {
    let (mut builder, [a, b]) = builder(params);
    let n = params.n();
    let elements = [rotation::element(n, 2), rotation::element(n, -1), rotation::conjugation(n)];
    let lower = builder.rescale(b);
    let outputs = [builder.add_images(a, &elements), builder.add_images(lower, &elements[..1])];
    builder.finish(&outputs)
}

/// A number of about this many bits, or one at the end of the range.
fn coefficient(seed: u32) -> i64 {
    let whole = (i64::from(seed.wrapping_mul(0x9e37_79b9)) << 32 | i64::from(seed.wrapping_mul(0x85eb_ca6b))) >> 1;
    match seed % 7 {
        0 => 0,
        1 => (1 << 62) - 1,
        2 => -(1 << 62),
        bits => (whole - (1 << 62)) >> (8 * bits),
    }
}

/// Plaintexts of every gap, more of them than the kernels sum before a reduction.
fn weighted_sums(params: &Params) -> Plan {
    let (mut builder, [a, b]) = builder(params);
    let n = params.n();
    let gaps: Vec<usize> = (0..).map(|bits| 1 << bits).take_while(|gap| n / gap >= 64).collect();
    let term = |at: usize| {
        let gap = gaps[at % gaps.len()];
        let coefficients: Vec<i64> = (0..n / gap).map(|i| coefficient((31 * at + i) as u32)).collect();
        let weights = Some(Arc::new(Weights::of(&coefficients, gap)));
        Term { value: if at.is_multiple_of(2) { a } else { b }, weights }
    };
    let terms: Vec<Term> = (0..25).map(term).collect();
    let outputs = [builder.weighted_sum(terms[..1].to_vec(), 2.0, 1.0), builder.weighted_sum(terms, 2.0, 1.0)];
    builder.finish(&outputs)
}

fn polynomial_of(params: &Params) -> Plan {
    let (mut builder, [a, _]) = builder(params);
    let value = polynomial::evaluate(&mut builder, a, &[0.5, 0.25, -0.125, 0.0625, 0.3, -0.2, 0.1]);
    builder.finish(&[value])
}

fn weighted(params: &Params) -> Plan {
    let (mut builder, [a, _]) = builder(params);
    let coefficients: Vec<i64> = (0..params.n() as u32).map(coefficient).collect();
    let weights = Some(Arc::new(Weights::of(&coefficients, 1)));
    let weighted = builder.weighted_sum(vec![Term { value: a, weights }], 2.0, 1.0);
    builder.finish(&[weighted])
}

fn rotated(params: &Params) -> Plan {
    let (mut builder, [a, _]) = builder(params);
    let rotated = builder.automorphism(a, rotation::element(params.n(), 3));
    builder.finish(&[rotated])
}

/// Every kind of step that a chain without bootstrapping has.
fn everything(params: &Params) -> Plan {
    let (mut builder, [a, b]) = builder(params);
    let n = params.n();
    let sum = builder.add(a, b);
    let rotated = builder.automorphism(sum, rotation::element(n, 3));
    let of_images = builder.add_images(b, &[rotation::element(n, -2), rotation::conjugation(n)]);
    let pairs: Vec<_> = (0..9).map(|at| if at % 2 == 0 { (a, sum) } else { (b, of_images) }).collect();
    let products = builder.sum_of_products(&pairs, None);
    let coefficients = |at: u32| (0..n as u32).map(|i| coefficient(31 * at + i)).collect::<Vec<i64>>();
    let term = |at: u32| Term { value: rotated, weights: Some(Arc::new(Weights::of(&coefficients(at), 1))) };
    let weighted = builder.weighted_sum((0..20).map(term).collect(), 2.0, 1.0);
    builder.finish(&[rotated, products, weighted])
}

fn raised(params: &Params) -> Plan {
    let mut builder = PlanBuilder::new(params);
    let a = builder.input(0, params.level(0).scale, NOISE);
    let sparse = builder.switch(a, PartKind::ToSparse);
    let raised = builder.raise(sparse);
    let back = builder.switch(raised, PartKind::FromSparse);
    builder.finish(&[raised, back])
}

fn refreshed(params: &Params) -> Plan {
    let mut builder = PlanBuilder::new(params);
    let a = builder.input(0, params.level(0).scale, NOISE);
    let refreshed = bootstrap::refresh(&mut builder, &Plaintexts::new(params), a);
    builder.finish(&[refreshed])
}

/// A product of a matrix and a vector, as a client may ask for with these parts of a key.
fn product_of_matrix(params: &Params, operation: Operation, plain: Option<&[f64]>) -> Plan {
    let level = params.level_max();
    let mut parts = vec![(PartKind::Relinearization, level)];
    parts.extend(client::ckks::rotations(params, &power_of_two_steps(params, false), level));
    parts.extend(matrix_product_parts(params).into_iter().chain(joint_rotation_parts(params)));
    let operand = Operand { level, scale: params.level(level).scale, noise: NOISE };
    let operands = vec![operand; operation.operands()];
    let request = Request {
        operation,
        operands: &operands,
        plain,
        coefficients: None,
        steps: None,
        scale_stable: true,
        parts: &parts,
    };
    operation::plan(&Plaintexts::new(params), params, &request).expect("the operation is allowed")
}

fn encrypted_matrix(params: &Params) -> Plan {
    product_of_matrix(params, Operation::Matmul, None)
}

fn plain_matrix(params: &Params) -> Plan {
    let matrix: Vec<f64> = (0..16 * 16).map(|at| f64::from(at).sin()).collect();
    product_of_matrix(params, Operation::MatmulPlain, Some(&matrix))
}

/// A case of a stem: the stem, the kind of steps, the parameters, and the plan.
type Listed = (&'static str, &'static str, Setting, Make);

const CASES: [Listed; 22] = [
    ("ntt_rows", "a product with an encrypted matrix", SMALL, encrypted_matrix),
    ("ntt_columns", "a product with a plain matrix", SMALL, plain_matrix),
    ("pointwise", "a polynomial", SMALL, polynomial_of),
    ("pointwise", "sums", SMALL, sums),
    ("pointwise", "sums of a long row", SPLIT, sums),
    ("pointwise", "products", SMALL, products),
    ("pointwise", "products of levels that are not nested", NOT_NESTED, products),
    ("pointwise", "sums of products", WIDE_STEPS, sums_of_products),
    ("automorphism", "images", SMALL, images),
    ("automorphism", "images of a long row", SPLIT, images),
    ("ntt_columns", "rescales", SMALL, rescales),
    ("ntt_columns", "rescales of levels that are not nested", NOT_NESTED, rescales),
    ("ntt_columns", "rescales of a long row", SPLIT, rescales),
    ("ntt_columns", "plaintexts", WIDE_STEPS, weighted_sums),
    ("ntt_columns", "plaintexts of a long row", SPLIT, weighted_sums),
    ("ntt_columns", "raised ciphertexts", BOOTSTRAPPED, raised),
    ("ntt_rows", "rotations", SMALL, rotations),
    ("ntt_rows", "rotations of levels that are not nested", NOT_NESTED, rotations),
    ("ntt_rows", "rotations of a long row", SPLIT, rotations),
    ("ntt_rows", "products of a long row", SPLIT, products),
    ("ntt_rows", "sums of products of a long row", SPLIT, sums_of_products),
    ("ntt_rows", "a bootstrap", BOOTSTRAPPED, refreshed),
];

/// A set of 128 bits: a product with several primes a digit, at the degree and depth that users take.
fn secure_product(_: &Params) -> Plan {
    secure(32_768, 40, 12, false, |builder, level, scale| {
        let [a, b] = [0, 1].map(|_| builder.input(level, scale, NOISE));
        builder.multiply_rescaled(a, b)
    })
}

fn secure_bootstrap(_: &Params) -> Plan {
    secure(32_768, 30, 4, true, |builder, _, _| {
        let params = builder.params().clone();
        let a = builder.input(0, params.level(0).scale, NOISE);
        bootstrap::refresh(builder, &Plaintexts::new(&params), a)
    })
}

fn secure(
    poly_degree: usize,
    scale_bits: u32,
    max_depth: u32,
    bootstrap: bool,
    make: impl Fn(&mut PlanBuilder, usize, f64) -> Value,
) -> Plan {
    let literal = ParamsLiteral { poly_degree, scale_bits, max_depth, security: SecurityLevel::Bits128, bootstrap };
    let params = Params::new(literal).expect("a set of 128 bits");
    let (mut builder, level) = (PlanBuilder::new(&params), params.raised_level());
    let output = make(&mut builder, level, params.level(level).scale);
    builder.finish(&[output])
}

/// One call at each of the larger degrees, for each way through a long row.
const BRIEF: [Listed; 5] = [
    ("ntt_columns", "a plaintext of 16 rows", LONG[0], weighted),
    ("ntt_columns", "a plaintext of 64 rows", LONG[2], weighted),
    ("ntt_rows", "a rotation of 16 rows", LONG[0], rotated),
    ("ntt_rows", "a rotation of 32 rows", LONG[1], rotated),
    ("ntt_rows", "a rotation of 64 rows", LONG[2], rotated),
];

/// Number of operations of the chain in [`stays_on_the_card`].
const CHAIN: usize = 50;

/// Each operation takes the result of the one before.
fn chain(params: &Params) -> Plan {
    let (mut builder, [a, b]) = builder(params);
    let element = rotation::element(params.n(), 1);
    let mut value = a;
    for at in 0..CHAIN {
        value = if at % 2 == 0 { builder.automorphism(value, element) } else { builder.add(value, b) };
    }
    builder.finish(&[value])
}

/// Checks that a chain of operations moves its inputs to the card and its answer from there, and nothing else but the
/// tables of each window. The host waits once a window.
fn stays_on_the_card(_: &Device) {
    let windows = 5;
    let backend = Card::new(Counted::new(HostCuda::open().expect("trials run only on machines with the backend")));
    let case = NumbersCase::brief((SMALL, chain));
    let (plan, slots) = (&case.plan, arena_slots(&case.plan));
    assert_eq!(plan.level_ends().len(), CHAIN, "every operation waits for the one before");
    let tables = backend.make_tables(plan.params()).expect("room");
    let of_inputs: usize = plan.inputs().map(|input| input.slots.len()).sum();
    let digits = |(kind, level): (PartKind, usize)| plan.params().digits(kind, level).len();
    let of_key: usize = parts_of(plan).into_iter().map(digits).sum();
    backend.gpu().taken();
    let mut run = Run::new(&backend, &tables, plan, Bodies::Random, 1);
    let [_, written, _] = backend.gpu().taken();
    let mut found = Vec::new();
    for window in 0..windows {
        let steps = window * CHAIN / windows..(window + 1) * CHAIN / windows;
        let (begins, completes) = (steps.start == 0, steps.end == CHAIN);
        let steps = [PlannedSteps { plan, steps, slots: &slots, begins, there: &[], completes }];
        found = backend.finish(backend.run(&mut [run.batch(&tables, &steps)]).expect("launches")).expect("words");
        assert_eq!(found.is_empty(), !completes, "only the answer is read");
        let [_, uploads, waits] = backend.gpu().taken();
        assert_eq!((uploads, waits), (1, 1), "window {window}");
    }
    assert_eq!(written, of_inputs + of_key, "a copy for each row of the inputs and for each row of the key");
    assert!(case.expected()[0].starts_with(&found), "words that differ");
}

/// Checks words on a card without room for the scratch memory of a level, which then runs in parts.
fn little_memory(_: &Device) {
    let host = HostCuda::open().expect("trials run only on machines with the backend");
    // the largest step has this many scratch rows, and a level has more
    let scratch_words_max = 160 * WIDE_STEPS.0;
    let card = Card::new(Counted::new(host).with_scratch(scratch_words_max));
    let case = NumbersCase::short();
    let launches = |card: &Card<Counted>| {
        card.gpu().taken();
        assert!(case.is_computed_by(card).expect("the levels run in parts"), "wrong words");
        card.gpu().taken()[0]
    };
    let in_parts = launches(&card);
    let host = HostCuda::open().expect("trials run only on machines with the backend");
    assert!(in_parts > launches(&Card::new(Counted::new(host))), "{in_parts} launches");
}

pub fn cases() -> impl Iterator<Item = Case> {
    let case = |make: fn((Setting, Make)) -> NumbersCase, (stem, name, setting, plan): Listed| {
        let case = OnceLock::new();
        Case::small(format!("{stem}/{name}"), move |device| {
            device.check_numbers(case.get_or_init(|| make((setting, plan))));
        })
    };
    let whole = CASES.into_iter().map(move |listed| case(NumbersCase::new, listed));
    // the emulated card would take minutes for both
    let on_cards = |device: &Device| device.is_gpu() && !device.small_only;
    let secure_product = Case {
        on: |device| device.name == "wgpu-software" || (device.is_gpu() && !device.small_only),
        ..case(NumbersCase::brief, ("ntt_rows", "a product of a deep chain", SMALL, secure_product))
    };
    // its 2212 slots need 290 MB, and software Vulkan has buffers of 128 MiB
    let secure_bootstrap = Case {
        on: on_cards,
        ..case(NumbersCase::brief, ("ntt_rows", "a bootstrap of degree 32768", SMALL, secure_bootstrap))
    };
    let little = Case {
        on: |device| device.name == "cuda-host",
        ..Case::small("numbers/a card with little memory", little_memory)
    };
    let chain = Case {
        on: |device| device.name == "cuda-host",
        ..Case::small("numbers/a chain of 50 operations", stays_on_the_card)
    };
    whole.chain(BRIEF.into_iter().map(move |listed| case(NumbersCase::brief, listed))).chain([
        secure_product,
        secure_bootstrap,
        little,
        chain,
    ])
}
