//! Encrypted numbers compared with plain arithmetic in double precision, at every degree: keys and ciphertexts of the
//! client, operations of the engine, and the predicted precision.

mod compose;
mod edges;
mod engine_runs;
mod long;
mod party;
mod steer;
mod training;
mod values;
mod windows;

use client::ckks::{
    Params, ParamsLiteral, PartKind, SecurityLevel, evaluation_key_parts, joint_rotation_parts, matrix_product_parts,
    power_of_two_steps, rotations,
};
use compose::product;
use engine::ckks::operation::{Operation, Refusal};
use party::{Encrypted, More, Party, engine, numbers};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

fn params(poly_degree: usize, max_depth: u32, bootstrap: bool) -> Params {
    let security = SecurityLevel::Testing;
    Params::new(ParamsLiteral { poly_degree, scale_bits: 40, max_depth, security, bootstrap }).unwrap()
}

/// The parts for relinearization, for rotations by powers of two, and for the rotations of matrix products.
fn parts(params: &Params) -> Vec<(PartKind, usize)> {
    let level = params.level_max();
    let mut parts = vec![(PartKind::Relinearization, level)];
    parts.extend(rotations(params, &power_of_two_steps(params, false), level));
    parts.extend(matrix_product_parts(params));
    for (kind, level) in joint_rotation_parts(params) {
        if !parts.iter().any(|(of, _)| *of == kind) {
            parts.push((kind, level));
        }
    }
    parts
}

const STABLE: More<'static> =
    More { plain: None, coefficients: None, steps: None, scale_stable: true, promises: [None; 2] };

fn zip(a: &Encrypted, b: &Encrypted, of: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    a.expected.iter().zip(&b.expected).map(|(&a, &b)| of(a, b)).collect()
}

fn map(a: &Encrypted, of: impl Fn(f64) -> f64) -> Vec<f64> {
    a.expected.iter().map(|&a| of(a)).collect()
}

fn turned(values: &[f64], steps: i64) -> Vec<f64> {
    let slots = values.len() as i64;
    (0..slots).map(|slot| values[(slot + steps).rem_euclid(slots) as usize]).collect()
}

fn horner(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, coefficient| sum * x + coefficient)
}

/// Checks all operations at a degree.
fn check_operations(poly_degree: usize) {
    let params = params(poly_degree, 3, false);
    let party = Party::new(engine(), &params, &parts(&params));
    let slots = params.slots();
    let (a, b) = (party.encrypt(&numbers(slots, 1)), party.encrypt(&numbers(slots, 2)));
    let plain = numbers(slots, 3);
    party.check_precision(&a, "encryption");
    let sum = party.check(Operation::Add, &[&a, &b], STABLE, zip(&a, &b, |a, b| a + b));
    let product = party.check(Operation::Multiply, &[&a, &b], STABLE, zip(&a, &b, |a, b| a * b));
    assert_eq!((sum.ciphertext.level, product.ciphertext.level), (3, 2));
    party.check(Operation::Multiply, &[&a, &a], STABLE, map(&a, |a| a * a));
    // a product without rescaling, which a separate operation then rescales (C13)
    let unscaled = party.check(Operation::Multiply, &[&a, &b], More::default(), product.expected.clone());
    let rescaled = party.check(Operation::Rescale, &[&unscaled], STABLE, product.expected.clone());
    assert_eq!(rescaled.ciphertext.level, 2);
    let mixed = party.run(Operation::Add, &[&a.ciphertext, &unscaled.ciphertext], STABLE);
    assert!(matches!(mixed, Err(Refusal::MismatchedLevel(_))));
    party.check(Operation::Add, &[&product, &rescaled], STABLE, map(&product, |x| 2.0 * x));
    let with_plain = More { plain: Some(&plain), ..STABLE };
    let pairs = |of: fn(f64, f64) -> f64| a.expected.iter().zip(&plain).map(|(&a, &b)| of(a, b)).collect::<Vec<_>>();
    party.check(Operation::AddPlain, &[&a], with_plain, pairs(|a, b| a + b));
    party.check(Operation::MultiplyPlain, &[&a], with_plain, pairs(|a, b| a * b));
    party.check(Operation::Negate, &[&a], STABLE, map(&a, |a| -a));
    party.check(Operation::Rescale, &[&a], STABLE, a.expected.clone());
    // C8, K10: rotations to the left, to the right, by a sum of powers of two, and by 0 slots or a multiple of all
    // slots
    for steps in [1, -1, 5, 0, slots as i64, 1 << 31] {
        let more = More { steps: Some(steps), ..STABLE };
        party.check(Operation::Rotate, &[&a], more, turned(&a.expected, steps));
    }
    // C9: three levels suffice for a polynomial of degree 7
    let coefficients = [0.25, -0.5, 0.125, 1.0, -0.75, 0.5, 0.25, -1.0];
    let more = More { coefficients: Some(&coefficients), ..STABLE };
    let value = party.check(Operation::PolyEval, &[&a], more, map(&a, |a| horner(&coefficients, a)));
    // C12: a further multiplication is refused, because no level is left
    let refused = party.run(Operation::Multiply, &[&value.ciphertext; 2], STABLE);
    assert!(matches!(refused, Err(Refusal::BudgetExhausted(_))));
    let too_high = More { coefficients: Some(&[0.1; 9]), ..STABLE };
    assert!(matches!(party.run(Operation::PolyEval, &[&a.ciphertext], too_high), Err(Refusal::BudgetExhausted(_))));
    check_matrix_product(&party);
    check_public_matrix_products(&party);
}

/// Checks a matrix product (readings C10): the product is in the first slots, and the values in the other slots mean
/// nothing.
fn check_matrix_product(party: &Party) {
    let slots = party.params().slots();
    let d = 1 << (slots.ilog2() / 2);
    let matrix = party.encrypt(&numbers(slots, 4));
    let mut vector = numbers(d, 5);
    vector.resize(slots, 0.0);
    let vector = party.encrypt(&vector);
    let row = |row: usize| (0..d).map(|j| matrix.expected[row * d + j] * vector.expected[j]).sum();
    let expected: Vec<f64> = (0..d).map(row).collect();
    let product = party.run(Operation::Matmul, &[&matrix.ciphertext, &vector.ciphertext], STABLE).unwrap();
    assert_eq!(product.level, 1);
    let found = party.secret.decrypt(&product).unwrap();
    let errors = found.values.iter().zip(&expected).map(|(found, expected)| (found - expected).abs());
    let error = errors.fold(0.0, f64::max);
    assert!(error < found.error_bound, "a matrix product: an error of {error}, predicted {}", found.error_bound);
    assert!(error < 1e-4, "{error}");
}

/// Checks products with matrices that are not encrypted, of every dimension. The product is in the first slots.
fn check_public_matrix_products(party: &Party) {
    let slots = party.params().slots();
    for n in (1..=7).map(|bits| 1 << bits).filter(|&n| n <= slots) {
        let mut vector = numbers(n, 6);
        vector.resize(slots, 0.0);
        let vector = party.encrypt(&vector);
        let large: Vec<f64> = numbers(n * n, 7).into_iter().map(|x| 50.0 * x).collect();
        let shift: Vec<f64> = (0..n * n).map(|at| if (at / n + 1) % n == at % n { 1.0 } else { 0.0 }).collect();
        for matrix in [numbers(n * n, 8), large, shift, vec![0.0; n * n]] {
            let expected = product(&matrix, &vector.expected[..n]);
            let more = More { plain: Some(&matrix), ..STABLE };
            let product = party.run(Operation::MatmulPlain, &[&vector.ciphertext], more).unwrap();
            assert_eq!(product.level, party.params().level_max() - 1);
            let found = party.secret.decrypt(&product).unwrap();
            let errors = found.values.iter().zip(&expected).map(|(found, expected)| (found - expected).abs());
            let error = errors.fold(0.0, f64::max);
            assert!(error < found.error_bound, "n {n}: an error of {error}, promised {}", found.error_bound);
        }
    }
}

#[test]
fn all_operations_are_as_precise_as_predicted_at_degree_64() {
    check_operations(64);
}

#[test]
fn all_operations_are_as_precise_as_predicted_at_degree_256() {
    check_operations(256);
}

#[test]
fn all_operations_are_as_precise_as_predicted_at_degree_4096() {
    check_operations(4096);
}

#[test]
fn all_operations_are_as_precise_as_predicted_at_degree_8192() {
    check_operations(8192);
}

#[test]
fn all_operations_are_as_precise_as_predicted_at_degree_16384() {
    check_operations(16384);
}

#[test]
fn all_operations_are_as_precise_as_predicted_at_degree_32768() {
    check_operations(32768);
}

#[test]
fn polynomials_of_every_degree_up_to_64_are_as_precise_as_predicted() {
    let params = params(256, 7, false);
    let party = Party::new(engine(), &params, &parts(&params));
    let x = party.encrypt(&numbers(params.slots(), 6));
    for degree in 0..=64 {
        let coefficients = numbers(degree + 1, degree as u64);
        let more = More { coefficients: Some(&coefficients), ..STABLE };
        let value = party.check(Operation::PolyEval, &[&x], more, map(&x, |x| horner(&coefficients, x)));
        let levels = (degree as f64 + 1.0).log2().ceil() as usize;
        assert_eq!(value.ciphertext.level, 7 - levels, "degree {degree} (readings C9)");
    }
}

#[test]
fn c14_bootstrapping_gives_the_levels_back_and_keeps_the_numbers_as_precise_as_predicted() {
    for poly_degree in [64, 256] {
        let params = params(poly_degree, 3, true);
        let party = Party::new(engine(), &params, &evaluation_key_parts(&params));
        // near 1 and -1, because the promise is far too careful for numbers that vanish
        let near_one: Vec<f64> =
            numbers(params.slots(), 7).iter().map(|u| u.signum() * (1.0 - u.abs() / 400.0)).collect();
        let mut x = party.encrypt(&near_one);
        // twice: multiplies until no level is left, then bootstraps
        for _ in 0..2 {
            while x.ciphertext.level > 0 {
                x = party.check(Operation::Multiply, &[&x, &x], STABLE, map(&x, |x| x * x));
            }
            x = party.check(Operation::Bootstrap, &[&x], STABLE, x.expected.clone());
            assert_eq!(x.ciphertext.level, 3);
        }
        let product = party.check(Operation::Multiply, &[&x, &x], STABLE, map(&x, |x| x * x));
        assert!(party.secret.decrypt(&product.ciphertext).unwrap().precision_bits > 12.0);
    }
}

/// Runs random operations on the results of earlier ones, until no level is left or the numbers become too large.
fn check_random_circuit(poly_degree: usize, seed: u64) {
    const OPERATIONS: usize = 16;
    let params = params(poly_degree, 6, false);
    let party = Party::new(engine(), &params, &parts(&params));
    let slots = params.slots();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut pool: Vec<Encrypted> = (0..3).map(|at| party.encrypt(&numbers(slots, seed + at))).collect();
    let mut refused = 0;
    for at in 0..OPERATIONS {
        let a = pool[rng.next_u32() as usize % pool.len()].clone();
        // the second operand must have the same level, because other levels are refused (C13)
        let partners: Vec<&Encrypted> = pool.iter().filter(|b| b.ciphertext.level == a.ciphertext.level).collect();
        let b = partners[rng.next_u32() as usize % partners.len()].clone();
        let plain = numbers(slots, seed + 100 + at as u64);
        let with_plain = More { plain: Some(&plain), ..STABLE };
        let steps = i64::from(rng.next_u32() as i32);
        let of_plain =
            |of: fn(f64, f64) -> f64| a.expected.iter().zip(&plain).map(|(&a, &b)| of(a, b)).collect::<Vec<_>>();
        let (operation, operands, more, expected) = match rng.next_u32() % 7 {
            0 => (Operation::Add, vec![&a, &b], STABLE, zip(&a, &b, |a, b| a + b)),
            1 | 2 => (Operation::Multiply, vec![&a, &b], STABLE, zip(&a, &b, |a, b| a * b)),
            3 => (Operation::AddPlain, vec![&a], with_plain, of_plain(|a, b| a + b)),
            4 => (Operation::MultiplyPlain, vec![&a], with_plain, of_plain(|a, b| a * b)),
            5 => (Operation::Negate, vec![&a], STABLE, map(&a, |a| -a)),
            _ => {
                let more = More { steps: Some(steps), ..STABLE };
                (Operation::Rotate, vec![&a], more, turned(&a.expected, steps))
            }
        };
        let ciphertexts: Vec<_> = operands.iter().map(|encrypted| &encrypted.ciphertext).collect();
        match party.run(operation, &ciphertexts, more) {
            Ok(ciphertext) => {
                let result = Encrypted { ciphertext, expected };
                let found = party.secret.decrypt(&result.ciphertext).unwrap();
                let errors = found.values.iter().zip(&result.expected).map(|(a, b)| (a - b).abs());
                let error = errors.fold(0.0, f64::max);
                let bound = found.error_bound;
                assert!(error < bound, "seed {seed}, operation {at}, {operation:?}: {error} is above {bound}");
                pool.push(result);
            }
            Err(Refusal::BudgetExhausted(_)) => refused += 1,
            Err(other) => panic!("{operation:?}: {other}"),
        }
    }
    assert!(refused < OPERATIONS / 2, "{refused} operations were refused");
}

#[test]
fn random_circuits_are_as_precise_as_predicted() {
    for seed in [11, 22, 33] {
        check_random_circuit(256, seed);
    }
    check_random_circuit(4096, 44);
}
