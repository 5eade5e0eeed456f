//! Plans that are cut between levels give the words of the whole plan.

use super::*;
use crate::ckks::operation::{self, Operand, Operation, Request};

/// Numbers of a plan's arguments that are not encrypted.
const COEFFICIENTS: [f64; 8] = [0.25, -0.5, 0.125, 1.0, -0.75, 0.5, 0.25, -1.0];

fn set(max_depth: u32, bootstrap: bool) -> Params {
    let security = SecurityLevel::Testing;
    Params::new(ParamsLiteral { poly_degree: 64, scale_bits: 40, max_depth, security, bootstrap }).unwrap()
}

/// Everything that an operation on numbers needs of a key.
fn all_parts(params: &Params) -> Vec<(PartKind, usize)> {
    let slots = params.slots();
    let powers = (0..slots.ilog2()).map(|bit| 1 << bit);
    let exact = [matmul::doublings(slots), matmul::thirds(slots)].concat().into_iter().map(|(steps, _)| steps);
    let galois = powers.chain(exact).map(|steps| PartKind::Galois(rotation::element(params.n(), steps)));
    let parts = std::iter::once(PartKind::Relinearization).chain(galois).map(|kind| (kind, params.level_max()));
    let of_bootstrap = if params.literal().bootstrap { bootstrap::parts(params) } else { Vec::new() };
    parts.chain(of_bootstrap).collect()
}

/// The plan of an operation on fresh ciphertexts, and the ciphertexts.
fn planned(toy: &mut Toy, operation: Operation, coefficients: &[f64]) -> (Plan, Vec<ToyCiphertext>) {
    let params = toy.params.clone();
    let level = params.level_max();
    let inputs: Vec<ToyCiphertext> = (0..operation.operands())
        .map(|_| {
            let values = toy.reals();
            toy.encrypt_reals(&values, level)
        })
        .collect();
    let operands: Vec<Operand> =
        inputs.iter().map(|input| Operand { level, scale: input.scale, noise: FRESH }).collect();
    let (parts, plain) = (all_parts(&params), toy.reals());
    let takes_plain = matches!(operation, Operation::AddPlain | Operation::MultiplyPlain | Operation::MatmulPlain);
    let plain = if operation == Operation::MatmulPlain { &plain[..16] } else { &plain[..] };
    let request = Request {
        operation,
        operands: &operands,
        plain: Some(plain).filter(|_| takes_plain),
        coefficients: Some(coefficients).filter(|_| operation == Operation::PolyEval),
        steps: Some(11).filter(|_| operation == Operation::Rotate),
        scale_stable: true,
        parts: &parts,
    };
    let plan = operation::plan(&Plaintexts::new(&params), &params, &request);
    (plan.unwrap_or_else(|refusal| panic!("{operation:?}: {refusal}")), inputs)
}

/// Whether all words of a ciphertext are below their primes.
fn is_reduced(params: &Params, ciphertext: &ToyCiphertext) -> bool {
    let primes = &params.level(ciphertext.level).primes;
    let rows = ciphertext.words.chunks_exact(params.n()).zip(primes.iter().cycle());
    rows.into_iter().all(|(row, &prime)| row.iter().all(|&word| word < params.primes()[prime].q()))
}

/// Cuts a plan at every level and compares the words of its results with those of the whole plan.
fn check(toy: &mut Toy, operation: Operation, coefficients: &[f64]) {
    let (plan, inputs) = planned(toy, operation, coefficients);
    // a plan is made for a key, so each part has the key's level, which may be above the level that the plan needs
    let of_key = all_parts(plan.params());
    let at = |(kind, needed)| of_key.iter().find(|(of, level)| *of == kind && *level >= needed).copied();
    let wanted = plan.parts().into_iter().map(|part| at(part).expect("the key has the part")).collect();
    let key = loaded_at(toy, plan.params(), wanted);
    let refer = |values: &[ToyCiphertext], plan: &Plan| run_with(&key, plan, &values.iter().collect::<Vec<_>>());
    let words = |values: &[ToyCiphertext]| values.iter().map(|value| value.words.clone()).collect::<Vec<_>>();
    let whole = words(&refer(&inputs, &plan));
    let (levels, live_rows) = (plan.level_ends().len(), plan.live_rows());
    assert_eq!(live_rows.len(), levels + 1);
    let mut values = inputs;
    for level in 0..levels {
        let (before, rest) = (plan.part(level..level + 1), plan.part(level..levels));
        assert_eq!(words(&refer(&values, &rest)), whole, "{operation:?}, cut before level {level}");
        values = refer(&values, &before);
        let rows: usize = before.outputs().map(|output| output.slots.len()).sum();
        assert_eq!(rows, live_rows[level + 1], "{operation:?}, level {level}");
        assert!(values.iter().all(|value| is_reduced(plan.params(), value)), "{operation:?}, level {level}");
        let part = plan.part(0..level + 1);
        assert!(part.parts().iter().all(|(kind, _)| plan.parts().iter().any(|(of, _)| of == kind)));
        assert_eq!(part.fingerprint() == plan.fingerprint(), level + 1 == levels, "{operation:?}, level {level}");
    }
    assert_eq!(words(&values), whole, "{operation:?}, level after level");
}

#[test]
fn every_operation_that_is_cut_at_any_level_gives_the_words_of_the_whole_plan() {
    let mut toy = Toy::new(&set(3, true), 21);
    for operation in Operation::ALL {
        check(&mut toy, operation, &COEFFICIENTS);
    }
    // a polynomial with many values between its levels
    check(&mut Toy::new(&set(7, false), 22), Operation::PolyEval, &[COEFFICIENTS; 8].concat());
}

#[test]
fn fingerprints_tell_plans_apart_by_their_steps_levels_and_numbers() {
    let mut toy = Toy::new(&set(3, false), 23);
    let of = |plan: &(Plan, Vec<ToyCiphertext>)| plan.0.fingerprint();
    let same = [(); 2].map(|()| planned(&mut toy, Operation::Matmul, &[]));
    assert_eq!(of(&same[0]), of(&same[1]), "the words of ciphertexts are no part of a plan");
    let mut all = vec![of(&same[0])];
    for operation in [Operation::Add, Operation::Multiply, Operation::Negate, Operation::Rescale, Operation::Rotate] {
        all.push(of(&planned(&mut toy, operation, &[])));
    }
    // other numbers each time
    for _ in 0..2 {
        for operation in [Operation::AddPlain, Operation::MultiplyPlain, Operation::MatmulPlain] {
            all.push(of(&planned(&mut toy, operation, &[])));
        }
        let coefficients = [0, 1, 2].map(|_| toy.real());
        all.push(of(&planned(&mut toy, Operation::PolyEval, &coefficients)));
    }
    all.push(of(&planned(&mut Toy::new(&set(4, false), 23), Operation::Add, &[])));
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
}

/// Prints the bytes that live between the levels of bootstraps at the secure degree.
#[test]
#[ignore = "figures for the documentation"]
fn bytes_between_the_levels_of_secure_bootstraps() {
    for (scale_bits, max_depth) in [(30, 4), (40, 2)] {
        let security = SecurityLevel::Bits128;
        let literal = ParamsLiteral { poly_degree: 32768, scale_bits, max_depth, security, bootstrap: true };
        let plan = bootstrap::outline(&Params::search(literal).unwrap());
        let (mut units, mut first) = (0, 0);
        for (&end, rows) in plan.level_ends().iter().zip(plan.live_rows()) {
            println!(
                "scale {scale_bits}: after {units:6} units {:4} MB",
                (4 * rows * plan.params().n()).div_ceil(1 << 20)
            );
            units += plan.steps()[first..end].iter().map(|step| u64::from(step.units)).sum::<u64>();
            first = end;
        }
        println!("{units} units");
    }
}
