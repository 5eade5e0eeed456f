//! A promise is worth steering by: the promised bound is above the largest error over all slots, and at most a few bits
//! above it, over random numbers (F8).

use client::ckks::{ParamsLiteral, evaluation_key_parts};
use engine::ckks::operation::Operation;
use engine::ckks::{Ciphertext, Params, PartKind};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tests_extent::Extent;

use crate::compose::product as product_of;
use crate::party::{Encrypted, More, Party, engine, numbers};
use crate::{STABLE, horner, map, params, parts, turned, zip};

/// Largest number of bits between the promise and the largest error, for single operations.
const SINGLE_BITS: f64 = 4.0;
/// The same for polynomials, matrix products, fourteen products and bootstraps.
const LONG_BITS: f64 = 5.0;

/// Bits between the promise of a result and its largest error in the slots of `expected`.
#[track_caller]
fn gap(party: &Party, result: &Ciphertext, expected: &[f64]) -> f64 {
    let found = party.secret.decrypt(result).expect("room");
    let errors = found.values.iter().zip(expected).map(|(found, expected)| (found - expected).abs());
    let error = errors.fold(0.0, f64::max);
    assert!(error < found.error_bound, "an error of {error}, promised {}", found.error_bound);
    (found.error_bound / error).log2()
}

/// Runs an operation, and returns the result with the bits between its promise and its largest error.
fn run(party: &Party, operation: Operation, of: &[&Encrypted], more: More<'_>, expected: Vec<f64>) -> (Encrypted, f64) {
    let ciphertexts: Vec<&Ciphertext> = of.iter().map(|encrypted| &encrypted.ciphertext).collect();
    let ciphertext = party.run(operation, &ciphertexts, more).unwrap_or_else(|why| panic!("{operation:?}: {why}"));
    let bits = gap(party, &ciphertext, &expected);
    (Encrypted { ciphertext, expected }, bits)
}

/// The bits of every operation, on numbers that follow from `seed`.
fn gaps(party: &Party, seed: u64) -> Vec<(&'static str, f64, f64)> {
    let slots = party.params().slots();
    let numbers = |count: usize, at: u64| numbers(count, 10 * seed + at);
    let (a, b) = (party.encrypt(&numbers(slots, 1)), party.encrypt(&numbers(slots, 2)));
    let plain = numbers(slots, 3);
    let with_plain = More { plain: Some(&plain), ..STABLE };
    let with = |of: fn(f64, f64) -> f64| a.expected.iter().zip(&plain).map(|(&a, &b)| of(a, b)).collect::<Vec<_>>();
    let mut gaps = vec![("fresh", gap(party, &a.ciphertext, &a.expected), SINGLE_BITS)];
    let mut single = |name, operation, of: &[&Encrypted], more, expected| {
        let (result, bits) = run(party, operation, of, more, expected);
        let is_long = matches!(operation, Operation::PolyEval | Operation::Matmul | Operation::MatmulPlain);
        gaps.push((name, bits, if is_long { LONG_BITS } else { SINGLE_BITS }));
        result
    };
    single("add", Operation::Add, &[&a, &b], STABLE, zip(&a, &b, |a, b| a + b));
    let product = single("multiply", Operation::Multiply, &[&a, &b], STABLE, zip(&a, &b, |a, b| a * b));
    single("unscaled", Operation::Multiply, &[&a, &b], More::default(), product.expected.clone());
    single("square", Operation::Multiply, &[&a, &a], STABLE, map(&a, |a| a * a));
    single("add-plain", Operation::AddPlain, &[&a], with_plain, with(|a, b| a + b));
    single("multiply-plain", Operation::MultiplyPlain, &[&a], with_plain, with(|a, b| a * b));
    single("negate", Operation::Negate, &[&a], STABLE, map(&a, |a| -a));
    single("rescale", Operation::Rescale, &[&a], STABLE, a.expected.clone());
    single("rotate", Operation::Rotate, &[&a], More { steps: Some(3), ..STABLE }, turned(&a.expected, 3));
    for (name, coefficients) in [
        ("cubic", &[0.5, 0.25, 0.0, -0.02][..]),
        ("alternating", &[0.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0][..]),
        ("Chebyshev 15", &CHEBYSHEV_15[..]),
    ] {
        let more = More { coefficients: Some(coefficients), ..STABLE };
        single(name, Operation::PolyEval, &[&a], more, map(&a, |a| horner(coefficients, a)));
    }
    // a matrix product
    let d = 1 << (slots.ilog2() / 2);
    let matrix = party.encrypt(&numbers(slots, 4));
    let mut vector = numbers(d, 5);
    vector.resize(slots, 0.0);
    let vector = party.encrypt(&vector);
    single("matmul", Operation::Matmul, &[&matrix, &vector], STABLE, product_of(&matrix.expected, &vector.expected));
    let plain = self::numbers(d * d, 10 * seed + 6);
    let more = More { plain: Some(&plain), ..STABLE };
    single("matmul-plain", Operation::MatmulPlain, &[&vector], more, product_of(&plain, &vector.expected));
    gaps
}

/// `T_15 / 15`, whose slope alternates between large numbers in the sum of its terms.
const CHEBYSHEV_15: [f64; 16] = [
    0.0,
    -1.0,
    0.0,
    560.0 / 15.0,
    0.0,
    -6048.0 / 15.0,
    0.0,
    28800.0 / 15.0,
    0.0,
    -70400.0 / 15.0,
    0.0,
    92160.0 / 15.0,
    0.0,
    -61440.0 / 15.0,
    0.0,
    16384.0 / 15.0,
];

/// The largest of few errors is often a bit smaller than the largest of many, so small degrees get more vectors.
#[test]
fn promises_are_a_few_bits_above_the_largest_error() {
    for (degree, vectors) in [(64, 32), (256, 8), (4096, 1), (8192, 1)] {
        let params = params(degree, 7, false);
        let party = Party::new(engine(), &params, &parts(&params));
        let least = (0..vectors).map(|seed| gaps(&party, seed)).reduce(|least, gaps| {
            least.into_iter().zip(gaps).map(|((name, a, most), (_, b, _))| (name, a.min(b), most)).collect()
        });
        for (name, bits, most) in least.expect("a vector") {
            println!("{degree} {name}: {bits:.1} bits");
            assert!(bits <= most, "{name} at {degree}: {bits:.1} bits, more than {most}");
        }
    }
}

/// Fourteen products one after another, each with a fresh factor. The numbers have magnitudes near their bound, because
/// products of smaller numbers tend to 0, and their errors too.
#[test]
fn fourteen_products_keep_a_promise_worth_steering_by() {
    for degree in [64, 8192] {
        let params = params(degree, 14, false);
        let party = Party::new(engine(), &params, &[(PartKind::Relinearization, 14)]);
        let slots = params.slots();
        let vector =
            |seed| -> Vec<f64> { numbers(slots, seed).iter().map(|x| x.signum() * (1.0 - x * x / 9.0)).collect() };
        let mut product = party.encrypt(&vector(1));
        let mut bits = 0.0;
        for factor in 2..=15 {
            let mut next = party.encrypt(&vector(factor));
            while next.ciphertext.level > product.ciphertext.level {
                let expected = next.expected.clone();
                (next, _) = run(&party, Operation::Rescale, &[&next], STABLE, expected);
            }
            let expected = zip(&product, &next, |a, b| a * b);
            (product, bits) = run(&party, Operation::Multiply, &[&product, &next], STABLE, expected);
        }
        println!("{degree} fourteen products: {bits:.1} bits");
        assert!(bits <= LONG_BITS, "fourteen products at {degree}: {bits:.1} bits");
    }
}

/// Bootstraps from level 0, where the scale is fixed, and from a higher level, where the plan chooses it.
#[test]
fn bootstraps_keep_a_promise_worth_steering_by() {
    for (degree, scale_bits, vectors) in
        [(64, 30, 8), (64, 36, 8), (64, 40, 8), (256, 30, 2), (256, 33, 2), (256, 40, 2)]
    {
        let literal = ParamsLiteral { scale_bits, ..params(degree, 3, true).literal() };
        let params = Params::new(literal).expect("a set of the search");
        let party = Party::new(engine(), &params, &evaluation_key_parts(&params));
        for level in [0, 2] {
            let gaps = (0..vectors).map(|seed| {
                let message = numbers(params.slots(), 100 + seed);
                let ciphertext = party.secret.encrypt_at(level, &message, 1.0).expect("room").expand(&params);
                let encrypted = Encrypted { ciphertext, expected: message.clone() };
                run(&party, Operation::Bootstrap, &[&encrypted], STABLE, message).1
            });
            let bits = gaps.fold(f64::INFINITY, f64::min);
            println!("{degree}, scale {scale_bits}, level {level}: {bits:.1} bits");
            assert!(bits <= LONG_BITS, "N = {degree}, scale {scale_bits}, level {level}: {bits:.1} bits");
        }
    }
}

/// Vectors that an adversary may choose: all at the bound, with equal or alternating signs, a single number, or numbers
/// that look random.
fn adversarial(slots: usize, kind: u64, seed: u64) -> Vec<f64> {
    let random = numbers(slots, seed);
    match kind % 6 {
        0 => vec![1.0; slots],
        1 => (0..slots).map(|slot| if slot % 2 == 0 { 1.0 } else { -1.0 }).collect(),
        2 => (0..slots).map(|slot| f64::from(u8::from(slot == seed as usize % slots))).collect(),
        3 => random.iter().map(|x| x.signum()).collect(),
        4 => (0..slots).map(|slot| if slot < 1 << (slots.ilog2() / 2) { 1.0 } else { 0.0 }).collect(),
        _ => random,
    }
}

/// No error is above its promise: chains of operations on adversarial vectors, whose results are operands again, with
/// each other and with themselves. 2,000 chains in CI, 100,000 in `scripts/soak`.
#[test]
fn no_error_is_above_its_promise_whatever_the_numbers_are() {
    let trials = match Extent::named() {
        Extent::Short => 200,
        Extent::Full => 2_000,
        Extent::Soak => 100_000,
    };
    let coefficients = [0.25, -1.0, 0.5, 1.0];
    let parties = [64, 256].map(|degree| {
        let params = params(degree, 4, false);
        Party::new(engine(), &params, &parts(&params))
    });
    let mut least = f64::INFINITY;
    for trial in 0..trials {
        let party = &parties[usize::from(trial % 8 == 7)];
        let slots = party.params().slots();
        let mut state = ChaCha8Rng::seed_from_u64(trial);
        let mut pick = |below: u64| state.next_u64() % below;
        let mut known: Vec<Encrypted> =
            (0..3).map(|_| party.encrypt(&adversarial(slots, pick(6), pick(1 << 40)))).collect();
        for _ in 0..5 {
            let [a, b] = [0, 1].map(|_| pick(known.len() as u64) as usize);
            let (a, b) = (&known[a], &known[b]);
            let plain = adversarial(slots, pick(6), pick(1 << 40));
            let with_plain = More { plain: Some(&plain), ..STABLE };
            let steps = pick(slots as u64) as i64;
            let (operation, of, more, expected) = match pick(9) {
                0 | 1 => (Operation::Add, vec![a, b], STABLE, zip(a, b, |a, b| a + b)),
                2 | 3 => (Operation::Multiply, vec![a, b], STABLE, zip(a, b, |a, b| a * b)),
                4 => (Operation::Rotate, vec![a], More { steps: Some(steps), ..STABLE }, turned(&a.expected, steps)),
                5 => {
                    let more = More { coefficients: Some(&coefficients), ..STABLE };
                    (Operation::PolyEval, vec![a], more, map(a, |a| horner(&coefficients, a)))
                }
                6 => {
                    let products = a.expected.iter().zip(&plain).map(|(a, b)| a * b).collect();
                    (Operation::MultiplyPlain, vec![a], with_plain, products)
                }
                7 => {
                    let sums = a.expected.iter().zip(&plain).map(|(a, b)| a + b).collect();
                    (Operation::AddPlain, vec![a], with_plain, sums)
                }
                _ => (Operation::Rescale, vec![a], STABLE, a.expected.clone()),
            };
            let ciphertexts: Vec<&Ciphertext> = of.iter().map(|encrypted| &encrypted.ciphertext).collect();
            // operands of two levels, or without levels, are refused
            let Ok(ciphertext) = party.run(operation, &ciphertexts, more) else { continue };
            least = least.min(gap(party, &ciphertext, &expected));
            known.push(Encrypted { ciphertext, expected });
        }
    }
    println!("{trials} chains: the promise that was closest to its largest error was {least:.1} bits above it");
}

/// Sums and matrix products of results with their own sources, many times: the errors add up, and the promise too.
#[test]
fn errors_of_one_source_add_up_in_the_promise() {
    let params = params(64, 4, false);
    let party = Party::new(engine(), &params, &parts(&params));
    let a = party.encrypt(&vec![1.0; params.slots()]);
    let (rescaled, _) = run(&party, Operation::Rescale, &[&a], STABLE, a.expected.clone());
    // the roundings of equal rescales are equal, so all terms have one error
    let mut sum = rescaled;
    for _ in 0..12 {
        let expected = map(&sum, |x| 2.0 * x);
        (sum, _) = run(&party, Operation::Add, &[&sum, &sum], STABLE, expected);
    }
    let mut total = party.encrypt(&vec![0.0; params.slots()]);
    total = run(&party, Operation::Rescale, &[&total], STABLE, total.expected.clone()).0;
    for _ in 0..64 {
        let (again, _) = run(&party, Operation::Rescale, &[&a], STABLE, a.expected.clone());
        let expected = zip(&total, &again, |a, b| a + b);
        (total, _) = run(&party, Operation::Add, &[&total, &again], STABLE, expected);
    }
}
