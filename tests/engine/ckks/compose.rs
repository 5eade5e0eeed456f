//! Results as operands: each operation takes the results of each, twice in a row, and of sums of results that came to a
//! level in different ways. The client must decrypt every result within the promised error; a refusal is right too.

use client::ckks::{Ciphertext, Noise, Params, ParamsLiteral, PartKind, SecurityLevel, evaluation_key_parts};
use engine::ckks::noise::Tail;
use engine::ckks::operation::{self, Operand, Operation, Refusal, Request};
use engine::ckks::plaintexts::Plaintexts;
use engine::ckks::{container, matmul};

use crate::party::{Encrypted, More, Party, engine, numbers};

/// A ciphertext with its numbers in all slots, and the bound that the node knows.
#[derive(Clone)]
struct Known {
    of: Encrypted,
    /// Whether the client put zeros behind the first `d` slots, or the node knows that something else may stand there.
    is_vector: bool,
}

const COEFFICIENTS: [f64; 4] = [0.5, -0.25, 0.0, 0.125];

/// Runs an operation, with `second` as the other operand, and checks the result and its container. `None` if the node
/// refuses, or if the client would break the condition on vectors.
fn run(party: &Party, operation: Operation, first: &Known, second: &Known, scale_stable: bool) -> Option<Known> {
    let (params, slots) = (party.params(), party.params().slots());
    let vector = if operation == Operation::Matmul { second } else { first };
    if matches!(operation, Operation::Matmul | Operation::MatmulPlain) && !vector.is_vector {
        return None;
    }
    let d = matmul::dimension(slots);
    let plain: Vec<f64> = numbers(if operation == Operation::MatmulPlain { d * d } else { slots }, 11);
    let takes_plain = [Operation::AddPlain, Operation::MultiplyPlain, Operation::MatmulPlain].contains(&operation);
    let more = More {
        plain: takes_plain.then_some(&plain[..]),
        coefficients: (operation == Operation::PolyEval).then_some(&COEFFICIENTS[..]),
        steps: (operation == Operation::Rotate).then_some(3),
        scale_stable,
        ..More::default()
    };
    let both = [&first.of.ciphertext, &second.of.ciphertext];
    let result = match party.run(operation, &both[..operation.operands()], more) {
        Ok(result) => result,
        Err(Refusal::MismatchedLevel(why)) if operation == Operation::Add && scale_stable => {
            panic!("{:?}: {why}", params.literal())
        }
        Err(_) => return None,
    };
    let (a, b) = (&first.of.expected, &second.of.expected);
    let each = |f: &dyn Fn(usize) -> f64| (0..slots).map(f).collect();
    let expected: Vec<f64> = match operation {
        Operation::Add => each(&|i| a[i] + b[i]),
        Operation::Multiply => each(&|i| a[i] * b[i]),
        Operation::AddPlain => each(&|i| a[i] + plain[i]),
        Operation::MultiplyPlain => each(&|i| a[i] * plain[i]),
        Operation::Negate => each(&|i| -a[i]),
        Operation::Rescale | Operation::Bootstrap => a.clone(),
        Operation::Rotate => each(&|i| a[(i + 3) % slots]),
        Operation::PolyEval => each(&|i| COEFFICIENTS.iter().rev().fold(0.0, |sum, c| sum * a[i] + c)),
        Operation::Matmul => product(a, b),
        Operation::MatmulPlain => product(&plain, a),
    };
    let what = format!("{} of {:?}, stable {scale_stable}", operation.name(), params.literal());
    let found = party.secret.decrypt(&result).unwrap_or_else(|why| panic!("{what}: {why}"));
    // what stands behind the first d slots of a matrix product is of no use
    let is_product = matches!(operation, Operation::Matmul | Operation::MatmulPlain);
    let meant = if is_product { d } else { slots };
    let error = (0..meant).map(|i| (found.values[i] - expected[i]).abs()).fold(0.0, f64::max);
    assert!(error < found.error_bound, "{what}: an error of {error}, promised {}", found.error_bound);
    let bytes = container::write_ciphertext(&result, params, [7; 8]);
    let mut read = container::read_ciphertext(&bytes, params, [7; 8]).unwrap_or_else(|why| panic!("{what}: {why}"));
    // a container does not tell the sources; a node keeps them in its database
    read.noise.sources = result.noise.sources;
    assert!(read == result, "{what}: a container holds another ciphertext");
    // the error of the numbers behind a product is not promised, so these numbers are known by decryption only
    let expected = if is_product { found.values } else { expected };
    let is_vector = result.noise.tail == Tail::Mixed || expected[matmul::dimension(slots)..].iter().all(|x| *x == 0.0);
    Some(Known { of: Encrypted { ciphertext: result, expected }, is_vector })
}

/// The first `d` numbers of a matrix times a vector.
pub fn product(matrix: &[f64], vector: &[f64]) -> Vec<f64> {
    let d = 1 << (matrix.len().ilog2() / 2);
    (0..d).map(|row| (0..d).map(|at| matrix[row * d + at] * vector[at]).sum()).collect()
}

fn encrypted(party: &Party, values: Vec<f64>) -> Known {
    let slots = party.params().slots();
    let is_vector = values[matmul::dimension(slots)..].iter().all(|x| *x == 0.0);
    Known { of: party.encrypt(&values), is_vector }
}

/// Numbers within 1 in all slots, and a vector with zeros behind its first `d` numbers.
fn inputs(party: &Party) -> [Known; 2] {
    let slots = party.params().slots();
    let d = matmul::dimension(slots);
    let vector = numbers(d, 3).into_iter().chain(std::iter::repeat(0.0)).take(slots).collect();
    [encrypted(party, numbers(slots, 2)), encrypted(party, vector)]
}

/// The same numbers at a level, by one rescale after another.
fn at_level(party: &Party, of: &Known, level: usize) -> Known {
    let mut of = of.clone();
    while of.of.ciphertext.level > level {
        of.of.ciphertext = party.run(Operation::Rescale, &[&of.of.ciphertext], More::default()).expect("a level");
    }
    of
}

fn set(poly_degree: usize, scale_bits: u32, max_depth: u32, bootstrap: bool) -> Params {
    let security = SecurityLevel::Testing;
    Params::new(ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap }).unwrap()
}

#[test]
fn each_operation_takes_the_results_of_each_twice_in_a_row() {
    for (poly_degree, scale_bits, bootstrap) in [(64, 40, true), (64, 30, true), (256, 25, false), (256, 50, false)] {
        let params = set(poly_degree, scale_bits, 9, bootstrap);
        let party = Party::new(engine(), &params, &evaluation_key_parts(&params));
        let [full, vector] = inputs(&party);
        let mut taken = [[0; Operation::ALL.len()]; Operation::ALL.len()];
        let choices = [true, false].into_iter().flat_map(|stable| [(stable, &full), (stable, &vector)]);
        for ((scale_stable, base), (i, first)) in
            choices.flat_map(|choice| Operation::ALL.into_iter().enumerate().map(move |first| (choice, first)))
        {
            let of_first = if first == Operation::Matmul { &full } else { base };
            let Some(result) = run(&party, first, of_first, base, scale_stable) else { continue };
            for (j, second) in Operation::ALL.into_iter().enumerate() {
                // the other operand is an encryption that came to the level by rescales
                let other = at_level(&party, &full, result.of.ciphertext.level);
                let of_both = if second.operands() == 2 { &other } else { &result };
                let Some(next) = run(&party, second, of_both, &result, scale_stable)
                    .or_else(|| run(&party, second, &result, &result, scale_stable))
                else {
                    continue;
                };
                taken[i][j] += 1;
                let other = at_level(&party, &full, next.of.ciphertext.level);
                run(&party, second, &other, &next, scale_stable);
                run(&party, second, &next, &next, scale_stable);
            }
        }
        for (i, first) in Operation::ALL.into_iter().enumerate() {
            for (j, second) in Operation::ALL.into_iter().enumerate() {
                let cannot = [first, second].contains(&Operation::Bootstrap) && !bootstrap;
                assert!(cannot || taken[i][j] > 0, "{second:?} takes no result of {first:?} at {:?}", params.literal());
            }
        }
    }
}

/// Ciphertexts of a level that came there in different ways: by rescales from the top, as a product, as a product with
/// plain numbers, as a polynomial, and by bootstrapping.
fn ways_to(party: &Party, level: usize) -> Vec<Known> {
    let [full, _] = inputs(party);
    let mut ways = vec![at_level(party, &full, level)];
    if level < party.params().level_max() {
        let above = at_level(party, &full, level + 1);
        let fresh = party.secret.encrypt_at(level + 1, &full.of.expected, 1.0).expect("room").expand(party.params());
        let fresh = Known { of: Encrypted { ciphertext: fresh, ..full.of.clone() }, ..full.clone() };
        for above in [above, fresh] {
            ways.extend(run(party, Operation::Multiply, &above, &above, true));
            ways.extend(run(party, Operation::MultiplyPlain, &above, &above, true));
        }
    }
    if level + 2 <= party.params().level_max() {
        let above = at_level(party, &full, level + 2);
        ways.extend(run(party, Operation::PolyEval, &above, &above, true));
    }
    if party.params().literal().bootstrap {
        let bootstrapped = run(party, Operation::Bootstrap, &full, &full, true).expect("numbers within 1");
        ways.push(at_level(party, &bootstrapped, level));
    }
    ways
}

#[test]
fn results_that_came_to_a_level_in_different_ways_add() {
    for (poly_degree, scale_bits, max_depth, bootstrap) in [
        (64, 10, 5, false),
        (64, 26, 4, true),
        (256, 28, 6, false),
        (64, 29, 4, true),
        (256, 30, 4, false),
        (256, 31, 12, false),
        (64, 33, 3, true),
        (64, 45, 3, false),
    ] {
        let params = set(poly_degree, scale_bits, max_depth, bootstrap);
        let party = Party::new(engine(), &params, &evaluation_key_parts(&params));
        for level in 0..=params.level_max() {
            let ways = ways_to(&party, level);
            for a in &ways {
                for b in &ways {
                    assert!(
                        run(&party, Operation::Add, a, b, true).is_some(),
                        "level {level} of {:?}",
                        params.literal()
                    );
                }
            }
        }
    }
}

#[test]
fn a_model_of_two_layers_is_right_at_every_dimension_of_the_chain() {
    for (poly_degree, d) in [(64, 4), (256, 8)] {
        let params = set(poly_degree, 40, 9, false);
        let party = Party::new(engine(), &params, &evaluation_key_parts(&params));
        let [full, vector] = inputs(&party);
        assert_eq!(matmul::dimension(params.slots()), d);
        let layer = |vector: &Known| {
            run(&party, Operation::Matmul, &at_level(&party, &full, vector.of.ciphertext.level), vector, true)
        };
        let first = layer(&vector).unwrap();
        assert_eq!(first.of.ciphertext.level, 7, "a vector with zeros behind it takes two levels");
        let second = layer(&first).unwrap();
        assert_eq!(second.of.ciphertext.level, 4, "the numbers behind a result take another level");
        assert!(layer(&second).is_some());
        // what a model does between its layers
        let same = |operation| run(&party, operation, &first, &first, true).unwrap();
        for between in [Operation::Negate, Operation::Rotate, Operation::AddPlain, Operation::PolyEval, Operation::Add]
        {
            assert!(layer(&same(between)).is_some(), "{between:?}");
        }
        let shallow = at_level(&party, &first, 2);
        let why = party.run(
            Operation::Matmul,
            &[&at_level(&party, &full, 2).of.ciphertext, &shallow.of.ciphertext],
            More::default(),
        );
        assert!(matches!(why, Err(Refusal::BudgetExhausted(why)) if why.contains("first") && why.contains("zeros")));
        // multiplied by ones and zeros, the result is a vector again
        let mask: Vec<f64> = (0..params.slots()).map(|slot| f64::from(u8::from(slot < d))).collect();
        let more = More { plain: Some(&mask), scale_stable: true, ..More::default() };
        let masked: Ciphertext = party.run(Operation::MultiplyPlain, &[&first.of.ciphertext], more).unwrap();
        assert_eq!(masked.noise.tail, Tail::AsSent);
    }
}

/// The plan's record of an operation's result.
fn planned(plaintexts: &Plaintexts, params: &Params, operation: Operation, of: &[Operand]) -> Result<Operand, Refusal> {
    let coefficients = Some(&COEFFICIENTS[..]).filter(|_| operation == Operation::PolyEval);
    let parts = &[(PartKind::Relinearization, params.raised_level())];
    let request =
        Request { operation, operands: of, plain: None, coefficients, steps: None, scale_stable: true, parts };
    let plan = operation::plan(plaintexts, params, &request)?;
    let output = plan.outputs().next().expect("a result");
    Ok(Operand { level: output.level, scale: output.scale, noise: output.noise })
}

#[test]
#[ignore = "all sets of the search at three degrees, by plans: minutes"]
fn results_that_came_to_a_level_in_different_ways_add_at_all_sets() {
    let mut sums = 0;
    for poly_degree in [64, 4096, 8192] {
        for (scale_bits, max_depth) in (10..=50).flat_map(|scale| (1..=14).map(move |depth| (scale, depth))) {
            let security = SecurityLevel::Testing;
            let literal = ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap: false };
            let Ok(params) = Params::new(literal) else { continue };
            let (plaintexts, top) = (Plaintexts::new(&params), params.level_max());
            let plan = |operation, of: &[Operand]| planned(&plaintexts, &params, operation, of);
            let fresh = |level: usize| Operand {
                level,
                scale: params.level(level).scale,
                noise: Noise::encrypt_secret(1.0).encoded(params.n(), params.level(level).scale),
            };
            // at each level: encrypted there, dropped from the top, and what one and two levels above become
            let mut dropped = fresh(top);
            let mut above: Vec<Vec<Operand>> = Vec::new();
            for level in (0..=top).rev() {
                let mut ways = vec![fresh(level), dropped];
                for from in above.last().into_iter().flatten() {
                    ways.extend(plan(Operation::Multiply, &[*from, *from]).ok());
                    ways.extend(plan(Operation::Rescale, &[*from]).ok());
                }
                for from in above.iter().rev().nth(1).into_iter().flatten() {
                    ways.extend(plan(Operation::PolyEval, &[*from]).ok());
                }
                for a in &ways {
                    for b in &ways {
                        match plan(Operation::Add, &[*a, *b]) {
                            Ok(_) => sums += 1,
                            Err(Refusal::BudgetExhausted(_)) => {}
                            Err(why) => panic!("level {level} of {literal:?}: {why}"),
                        }
                    }
                }
                if level > 0 {
                    dropped = plan(Operation::Rescale, &[dropped]).expect("a level");
                }
                ways.truncate(4);
                above.push(ways);
            }
        }
    }
    println!("{sums} sums");
    assert!(sums > 100_000);
}

/// The errors of a bootstrap follow from the numbers, so equal numbers have equal errors, which add up in a sum.
#[test]
fn equal_errors_of_a_vector_add_up_in_the_promise_of_a_matrix_product() {
    for (poly_degree, scale_bits) in [(64, 40), (64, 30), (256, 40), (256, 30)] {
        let params = set(poly_degree, scale_bits, 3, true);
        let party = Party::new(engine(), &params, &evaluation_key_parts(&params));
        let (slots, d) = (params.slots(), matmul::dimension(params.slots()));
        let padded = |count: usize| (0..slots).map(|slot| if slot < count { 1.0 } else { 0.0 }).collect();
        let vector = encrypted(&party, padded(d));
        let (bound, ones) = (vector.of.ciphertext.noise.value_bound, vec![1.0; d * d]);
        assert_eq!(bound, 1.0);
        let vector = run(&party, Operation::Bootstrap, &vector, &vector, true).expect("a bootstrap");
        let matrix = encrypted(&party, padded(d * d));
        run(&party, Operation::Matmul, &matrix, &vector, true).expect("a product");
        let more = More { plain: Some(&ones), scale_stable: true, ..More::default() };
        let product = party.run(Operation::MatmulPlain, &[&vector.of.ciphertext], more).expect("a product");
        let found = party.secret.decrypt(&product).expect("room");
        let error = found.values[..d].iter().fold(0.0f64, |largest, x| largest.max((x - d as f64).abs()));
        assert!(error < found.error_bound, "N {poly_degree}: an error of {error}, promised {}", found.error_bound);
    }
}
