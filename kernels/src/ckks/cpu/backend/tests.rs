//! Runs whole plans through the trait [`Arithmetic`], level after level, as the engine runs plans.

mod parts;

use std::time::Instant;

use super::*;
use crate::backend::Backend;
use crate::ckks::cpu::toy::{Toy, ToyCiphertext};
use crate::ckks::encode::{Complex, Encoder};
use crate::ckks::noise::Noise;
use crate::ckks::plaintexts::Plaintexts;
use crate::ckks::plan::PlanBuilder;
use crate::ckks::{ParamsLiteral, SecurityLevel, bootstrap, matmul, polynomial, rotation};
use crate::cpu::Isa;
use crate::ring::Ring;

const FRESH: Noise = Noise::new(1.0, 10.5);

fn params(poly_degree: usize, scale_bits: u32, max_depth: u32) -> Params {
    let security = SecurityLevel::Testing;
    Params::new(ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap: false }).unwrap()
}

/// Makes the parts that a plan needs, runs the plan and returns its outputs.
fn run(toy: &mut Toy, plan: &Plan, inputs: &[&ToyCiphertext]) -> Vec<ToyCiphertext> {
    run_with(&loaded(toy, plan), plan, inputs)
}

/// A key on the CPU.
struct LoadedKey {
    tables: Evaluator,
    parts: Vec<(PartKind, LoadedPart)>,
}

/// Makes the tables and the parts that a plan needs.
fn loaded(toy: &mut Toy, plan: &Plan) -> LoadedKey {
    loaded_at(toy, plan.params(), plan.parts())
}

/// Makes the tables and these parts, each at its level.
fn loaded_at(toy: &mut Toy, params: &Params, wanted: Vec<(PartKind, usize)>) -> LoadedKey {
    let cpu = Cpu::with(Isa::detect(), 2);
    let tables = cpu.make_tables(params).unwrap();
    let mut parts = Vec::new();
    for (kind, level) in wanted {
        let shape = PartShape { params: params.clone(), kind, level };
        let mut part = cpu.room_for_part(&tables, &shape).unwrap();
        for (digit, (seed, body)) in toy.seeded_part(kind, level).iter().enumerate() {
            cpu.load_row(&tables, &mut part, &SeededRow { digit, seed, body }).unwrap();
        }
        parts.push((kind, part));
    }
    LoadedKey { tables, parts }
}

/// Runs the plan and returns its outputs.
fn run_with(key: &LoadedKey, plan: &Plan, inputs: &[&ToyCiphertext]) -> Vec<ToyCiphertext> {
    let cpu = Cpu::with(Isa::detect(), 2);
    let n = plan.params().n();
    // the arena holds the plan's slots in reverse order, after three unused slots
    let slots: Vec<u32> = (0..plan.slots() as u32).rev().map(|slot| slot + 3).collect();
    let mut arena = cpu.arena(n, plan.slots() + 3).unwrap();
    let given = plan.inputs().map(|input| &input.slots).zip(inputs.iter().map(|input| &input.words));
    for (of_plan, words) in given.chain(plan.plains().iter().map(|(slots, words)| (slots, words))) {
        for (&slot, row) in of_plan.iter().zip(words.chunks_exact(n)) {
            cpu.write(&mut arena, slots[slot as usize], row).unwrap();
        }
    }
    let (mut first, mut words) = (0, Vec::new());
    for &end in plan.level_ends() {
        let completes = end == plan.steps().len();
        let steps = PlannedSteps { plan, steps: first..end, slots: &slots, begins: first == 0, there: &[], completes };
        let parts = key.parts.iter().map(|(kind, part)| (*kind, part)).collect();
        let batch = KeyedSteps { tables: &key.tables, parts, arena: &mut arena, plans: &[steps] };
        words = cpu.run(&mut [batch]).unwrap();
        first = end;
    }
    let mut rest = &words[..];
    let outputs = plan.outputs().map(|output| {
        let (taken, left) = rest.split_at(output.slots.len() * n);
        rest = left;
        ToyCiphertext { level: output.level, scale: output.scale, words: taken.to_vec() }
    });
    outputs.collect()
}

#[test]
fn tables_take_the_bytes_that_are_said() {
    for isa in Isa::available() {
        for (poly_degree, scale_bits, max_depth) in [(4096, 30, 3), (8192, 40, 2)] {
            let params = params(poly_degree, scale_bits, max_depth);
            let tables = Cpu::with(isa, 1).make_tables(&params).unwrap();
            for at in 0..70 {
                tables.constants.permutation(&tables.tables[0], 2 * at + 1);
            }
            let said = Evaluator::tables_bytes(&params);
            let found = tables.bytes();
            assert!(found <= said && said <= found + found / 2, "{found} of {said} bytes at {poly_degree} on {isa:?}");
        }
    }
}

/// Bootstraps messages at the secure degree. The test prints times and precision. It takes a minute and 3 GB.
#[test]
#[ignore = "a minute of computation"]
fn the_secure_degree_bootstraps_as_precisely_as_predicted() {
    for (scale_bits, max_depth, wanted) in [(30, 4, 15.5), (40, 2, 17.5)] {
        let security = SecurityLevel::Bits128;
        let literal = ParamsLiteral { poly_degree: 32768, scale_bits, max_depth, security, bootstrap: true };
        let params = Params::search(literal).unwrap();
        let (mut toy, mut key) = (Toy::new(&params, 13), None);
        let (plaintexts, begun) = (Plaintexts::new(&params), Instant::now());
        plaintexts.matrices(0);
        println!("scale {scale_bits}: matrices made in {:?}", begun.elapsed());
        let slots = params.slots();
        let sparse: Vec<f64> = (0..slots).map(|slot| if slot % 1000 == 7 { 1.0 } else { 0.0 }).collect();
        let signs: Vec<f64> = (0..slots).map(|_| if toy.next() % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let messages = [("random", toy.reals()), ("ones", vec![1.0; slots]), ("sparse", sparse), ("signs", signs)];
        for (name, message) in &messages {
            for level in [0, 1] {
                let x = toy.encrypt_reals(message, level);
                let mut builder = PlanBuilder::new(&params);
                let begun = Instant::now();
                let input = builder.input(level, x.scale, FRESH);
                let refreshed = bootstrap::refresh(&mut builder, &plaintexts, input);
                let plan = builder.finish(&[refreshed]);
                let planned = begun.elapsed();
                let key = key.get_or_insert_with(|| loaded(&mut toy, &plan));
                let begun = Instant::now();
                let found = run_with(key, &plan, &[&x]).remove(0);
                let ran = begun.elapsed();
                let numbers = toy.decrypt(&found);
                let bound = plan.outputs().next().unwrap().noise.error_bound(params.n(), found.scale);
                let measured = [deviation(&numbers, message), predicted(&plan), worst(&numbers, message), bound];
                let [deviation, predicted, worst, bound] = measured.map(|error| -error.log2());
                println!(
                    "{name}, level {level}: {deviation:.1} bits (predicted {predicted:.1}), worst {worst:.1} (promised \
                     {bound:.1}); planned in {planned:?}, ran in {ran:?}, {} steps, {} slots",
                    plan.steps().len(),
                    plan.slots()
                );
                assert!(worst > bound, "{name}");
                // the error of the sine is largest for equal numbers
                assert!(*name == "ones" || (deviation > wanted && deviation > predicted - 0.3), "{name}");
            }
        }
    }
}

/// The standard deviation of the errors.
fn deviation(found: &[Complex], expected: &[f64]) -> f64 {
    let squares: f64 = found.iter().zip(expected).map(|(found, expected)| (found.re - expected).powi(2)).sum();
    (squares / found.len() as f64).sqrt()
}

/// The standard deviation of the error of the plan's first output, as the plan predicts.
fn predicted(plan: &Plan) -> f64 {
    let output = plan.outputs().next().unwrap();
    (plan.params().n() as f64 / 2.0 * output.noise.variance).sqrt() / output.scale
}

fn worst(found: &[Complex], expected: &[f64]) -> f64 {
    found.iter().zip(expected).map(|(found, expected)| (found.re - expected).abs()).fold(0.0, f64::max)
}

#[test]
fn polynomials_of_encrypted_numbers_are_those_of_the_numbers() {
    for (n, scale_bits) in [(64, 40), (256, 45), (4096, 50)] {
        let params = params(n, scale_bits, 7);
        let mut toy = Toy::new(&params, 11);
        let values = toy.reals();
        let x = toy.encrypt_reals(&values, 7);
        for count in if n == 64 { vec![1, 2, 3, 8, 17, 63, 64, 65] } else { vec![8] } {
            let coefficients: Vec<f64> = (0..count).map(|i| ((i * 37 % 19) as f64 - 9.0) / 9.5).collect();
            let mut builder = PlanBuilder::new(&params);
            let input = builder.input(7, x.scale, FRESH);
            let value = polynomial::evaluate(&mut builder, input, &coefficients);
            let plan = builder.finish(&[value]);
            let found = run(&mut toy, &plan, &[&x]).remove(0);
            assert_eq!(found.level, 7 - polynomial::levels(count));
            let expected: Vec<f64> =
                values.iter().map(|x| coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)).collect();
            let error = worst(&toy.decrypt(&found), &expected);
            let bound = plan.outputs().next().unwrap().noise.error_bound(n, found.scale);
            assert!(error < bound && bound < 1e-3, "N {n}, {count} coefficients: {error}, bound {bound}");
        }
    }
}

/// Galois elements of keys that all have the same digits.
struct Elements<'a>(&'a [u32]);

impl matmul::Turns for Elements<'_> {
    fn rotate(&mut self, builder: &mut PlanBuilder, value: Value, steps: i64) -> Value {
        let path = rotation::Paths::new(builder.params().n(), self.0).to(steps).unwrap();
        path.into_iter().fold(value, |value, element| builder.automorphism(value, element))
    }

    fn together(&self, params: &Params, steps: &[i64], _: usize) -> Option<Vec<u32>> {
        let elements: Vec<u32> = steps.iter().map(|&steps| rotation::element(params.n(), steps)).collect();
        elements.iter().all(|element| self.0.contains(element)).then_some(elements)
    }
}

#[test]
fn an_encrypted_matrix_times_an_encrypted_vector_with_exact_keys_and_with_powers_of_two() {
    let params = params(256, 40, 3);
    let mut toy = Toy::new(&params, 12);
    let (slots, n) = (params.slots(), params.n());
    let d = matmul::dimension(slots);
    let matrix: Vec<f64> = (0..slots).map(|_| toy.real()).collect();
    let vector: Vec<f64> = (0..slots).map(|i| if i < d { toy.real() } else { 0.0 }).collect();
    let expected: Vec<f64> = (0..d).map(|r| (0..d).map(|j| matrix[r * d + j] * vector[j]).sum()).collect();
    let inputs = [&matrix, &vector].map(|values| toy.encrypt_reals(values, 3));
    let powers: Vec<u32> = (0..slots.ilog2()).map(|bit| rotation::element(n, 1 << bit)).collect();
    let exact = [matmul::doublings(slots), matmul::thirds(slots)].concat();
    let exact: Vec<u32> = exact.into_iter().map(|(steps, _)| rotation::element(n, steps)).collect();
    for elements in [exact, powers] {
        let mut builder = PlanBuilder::new(&params);
        let operands = inputs.each_ref().map(|input| builder.input(input.level, input.scale, FRESH));
        // this scale gives the masked value the default scale after the rescale
        let scale = params.level(1).scale * params.chain().divisor(2, 1) / params.level(2).scale;
        let rounded = Encoder::new(n).encode_reals(&matmul::mask(slots), scale, params.level(2).log_modulus).unwrap();
        let words = params.level(2).primes.iter().flat_map(|&prime| {
            let mut row = vec![0; n];
            rounded.residues(params.primes()[prime], &mut row);
            Ring::new(params.primes()[prime], n).forward(&mut row);
            row
        });
        let mask = builder.plain(2, words.collect(), scale, 1.0);
        let product = matmul::multiply(&mut builder, operands, mask, &mut Elements(&elements));
        let plan = builder.finish(&[product]);
        let found = run(&mut toy, &plan, &inputs.each_ref()).remove(0);
        assert_eq!(found.level, 1);
        assert!((found.scale / params.level(1).scale - 1.0).abs() < 1e-9);
        let error = worst(&toy.decrypt(&found)[..d], &expected);
        let bound = plan.outputs().next().unwrap().noise.error_bound(n, found.scale);
        assert!(error < bound && bound < 1e-3, "{error}, bound {bound}");
    }
}

#[test]
fn a_bootstrapped_ciphertext_has_its_numbers_and_the_level_of_a_fresh_one() {
    for (n, scale_bits, precision_bits) in [(64, 40, 21.0f64), (256, 40, 22.0), (256, 30, 16.0)] {
        let security = SecurityLevel::Testing;
        let literal = ParamsLiteral { poly_degree: n, scale_bits, max_depth: 4, security, bootstrap: true };
        let params = Params::new(literal).unwrap();
        let mut toy = Toy::new(&params, 13);
        let values = toy.reals();
        for level in [0, 2] {
            let x = toy.encrypt_reals(&values, level);
            let mut builder = PlanBuilder::new(&params);
            let input = builder.input(level, x.scale, FRESH);
            let refreshed = bootstrap::refresh(&mut builder, &Plaintexts::new(&params), input);
            let plan = builder.finish(&[refreshed]);
            let found = run(&mut toy, &plan, &[&x]).remove(0);
            assert_eq!(found.level, 4);
            assert!((found.scale / params.level(4).scale - 1.0).abs() < 1e-9);
            let error = worst(&toy.decrypt(&found), &values);
            assert!(error < (-precision_bits).exp2(), "N {n}, scale {scale_bits}: {error}");
            let bound = plan.outputs().next().unwrap().noise.error_bound(n, found.scale);
            assert!(error < bound && bound < 0.01, "{error}, bound {bound}");
            let ratio = deviation(&toy.decrypt(&found), &values) / predicted(&plan);
            assert!((0.2..1.3).contains(&ratio), "N {n}, scale {scale_bits}, level {level}: {ratio}");
        }
    }
}
