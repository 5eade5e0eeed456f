use super::*;
use crate::ckks::plan::{Step, same_scale};
use crate::ckks::{ParamsLiteral, SecurityLevel};

fn params(bootstrap: bool) -> Params {
    let security = SecurityLevel::Testing;
    Params::new(ParamsLiteral { poly_degree: 64, scale_bits: 40, max_depth: 3, security, bootstrap }).unwrap()
}

/// Describes a fresh ciphertext at a level.
fn fresh(params: &Params, level: usize) -> Operand {
    Operand { level, scale: params.level(level).scale, noise: Noise::encrypt_secret(1.0) }
}

fn all_parts(params: &Params) -> Vec<(PartKind, usize)> {
    let powers = (0..params.slots().ilog2()).map(|bit| PartKind::Galois(rotation::element(params.n(), 1 << bit)));
    std::iter::once(PartKind::Relinearization).chain(powers).map(|kind| (kind, params.level_max())).collect()
}

fn request<'a>(operation: Operation, operands: &'a [Operand], parts: &'a [(PartKind, usize)]) -> Request<'a> {
    Request { operation, operands, plain: None, coefficients: None, steps: None, scale_stable: true, parts }
}

#[test]
fn every_operation_has_a_plan_whose_result_is_at_the_level_it_says() {
    let params = params(false);
    let (plaintexts, parts) = (Plaintexts::new(&params), all_parts(&params));
    let plain = vec![0.5; params.slots()];
    let two = [fresh(&params, 3); 2];
    for (operation, level) in [
        (Operation::Add, 3),
        (Operation::Multiply, 2),
        (Operation::AddPlain, 3),
        (Operation::MultiplyPlain, 2),
        (Operation::Negate, 3),
        (Operation::Rescale, 2),
        (Operation::Rotate, 3),
        (Operation::Matmul, 1),
        (Operation::PolyEval, 1),
    ] {
        let asked = Request {
            plain: Some(&plain[..]).filter(|_| operation != Operation::Rotate),
            coefficients: Some(&[0.1, 0.2, 0.3]),
            steps: Some(3),
            ..request(operation, &two[..operation.operands()], &parts)
        };
        let plan = plan(&plaintexts, &params, &asked).unwrap_or_else(|refusal| panic!("{operation:?}: {refusal}"));
        let output = plan.outputs().next().unwrap();
        assert_eq!(output.level, level, "{operation:?}");
        assert!(same_scale(output.scale, params.level(level).scale), "{operation:?}");
        assert_eq!(Operation::from_name(&operation.name().replace('-', "_")), Some(operation), "readings C6");
    }
}

#[test]
fn what_would_not_decrypt_is_refused_before_any_work() {
    let params = params(false);
    let (plaintexts, parts) = (Plaintexts::new(&params), all_parts(&params));
    let plan = |asked: Request<'_>| plan(&plaintexts, &params, &asked).map(|plan| plan.steps().len());
    let bottom = [fresh(&params, 0); 2];
    for operation in [Operation::Multiply, Operation::Matmul] {
        assert!(matches!(plan(request(operation, &bottom, &parts)), Err(Refusal::BudgetExhausted(_))));
    }
    let unscaled = Request { scale_stable: false, ..request(Operation::Multiply, &bottom, &parts) };
    assert!(matches!(plan(unscaled), Err(Refusal::BudgetExhausted(_))), "the product wraps");
    assert!(matches!(plan(request(Operation::Rescale, &bottom[..1], &parts)), Err(Refusal::BudgetExhausted(_))));
    // readings C9: three levels are enough for a polynomial of degree 7, but not of degree 8
    let top = [fresh(&params, 3)];
    let polynomial = |count: usize| {
        let coefficients = vec![0.1; count];
        plan(Request { coefficients: Some(&coefficients), ..request(Operation::PolyEval, &top, &parts) })
    };
    assert!(polynomial(8).is_ok());
    assert!(matches!(polynomial(9), Err(Refusal::BudgetExhausted(_))));
    assert_eq!(polynomial(66), Err(Refusal::TooManyCoefficients(66)));
    assert!(matches!(polynomial(0), Err(Refusal::Invalid(_))));
    let wide = [Operand { noise: Noise::new(1e30, 10.0), ..top[0] }; 2];
    assert!(matches!(plan(request(Operation::Multiply, &wide, &parts)), Err(Refusal::BudgetExhausted(_))));
    let noisy = [Operand { noise: Noise::new(1.0, 1e30), ..top[0] }];
    assert!(matches!(plan(request(Operation::Negate, &noisy, &parts)), Err(Refusal::BudgetExhausted(_))));
}

#[test]
fn what_does_not_fit_together_is_refused_in_words() {
    let params = params(false);
    let (plaintexts, parts) = (Plaintexts::new(&params), all_parts(&params));
    let plan = |asked: Request<'_>| plan(&plaintexts, &params, &asked).map(|plan| plan.steps().len());
    let (high, low) = (fresh(&params, 3), fresh(&params, 2));
    assert!(matches!(plan(request(Operation::Add, &[high, low], &parts)), Err(Refusal::MismatchedLevel(_))));
    // readings C13
    let unscaled = Operand { scale: high.scale * high.scale, ..high };
    assert!(matches!(plan(request(Operation::Add, &[high, unscaled], &parts)), Err(Refusal::MismatchedLevel(_))));
    let by_rounding = Operand { scale: high.scale * (1.0 + 1e-12), ..high };
    assert_eq!(plan(request(Operation::Add, &[high, by_rounding], &parts)), Ok(1));
    // readings C5, C7
    assert!(matches!(plan(request(Operation::Add, &[high], &parts)), Err(Refusal::Invalid(_))));
    let missing = plan(request(Operation::AddPlain, &[high], &parts));
    assert_eq!(missing, Err(Refusal::MissingPlain("add-plain")));
    for wrong in [vec![1.0; 31], vec![1.0; 33], vec![f64::NAN; 32], vec![f64::INFINITY; 32], vec![1e300; 32]] {
        let operands = [high];
        let asked = Request { plain: Some(&wrong), ..request(Operation::MultiplyPlain, &operands, &parts) };
        assert!(matches!(plan(asked), Err(Refusal::Invalid(_))), "{:?}", wrong[0]);
    }
}

#[test]
fn a_result_that_no_container_holds_is_refused_and_tiny_bounds_stay_normal() {
    let params = params(false);
    let (plaintexts, parts) = (Plaintexts::new(&params), all_parts(&params));
    let squared = |scale: f64, value_bound: f64, scale_stable: bool| {
        let operand = Operand { level: 3, scale, noise: Noise::new(value_bound, 10.0) };
        let operands = [operand; 2];
        let asked = Request { scale_stable, ..request(Operation::Multiply, &operands, &parts) };
        plan(&plaintexts, &params, &asked).map(|plan| plan.outputs().next().unwrap().noise)
    };
    // the rescale divides a scale of 20 bits by 40 bits; the other scale is larger than the modulus
    for (scale, value_bound, scale_stable) in [(10, 30, true), (150, -100, false)] {
        let refused = squared(f64::from(scale).exp2(), f64::from(value_bound).exp2(), scale_stable);
        let read_back = |why: &str| why.contains("read back") || why.contains("wrap around");
        assert!(matches!(refused, Err(Refusal::BudgetExhausted(why)) if read_back(&why)), "{scale} bits");
    }
    let tiny = Noise::new(1e-310, 5e-324).normal();
    assert_eq!(tiny, Noise::new(f64::MIN_POSITIVE, f64::MIN_POSITIVE));
    let zero = Noise::new(0.0, 1.0);
    assert_eq!(zero.normal(), zero);
}

#[test]
fn rotations_are_composed_of_what_the_key_has() {
    let params = params(false);
    let (plaintexts, parts) = (Plaintexts::new(&params), all_parts(&params));
    let top = [fresh(&params, 3)];
    let rotate = |steps: Option<i64>, plain: Option<&[f64]>, parts: &[(PartKind, usize)]| {
        let asked = Request { steps, plain, ..request(Operation::Rotate, &top, parts) };
        plan(&plaintexts, &params, &asked).map(|plan| plan.steps().len())
    };
    assert_eq!(rotate(Some(5), None, &parts), Ok(2));
    // readings C8: a rotation by 0 or by a multiple of the number of slots, 32, is a copy, which takes no step
    assert_eq!([0, 32, 1 << 31].map(|steps| rotate(Some(steps), None, &parts)), [Ok(0), Ok(0), Ok(0)]);
    assert_eq!(rotate(None, Some(&[4.0]), &parts), Ok(1));
    assert_eq!(rotate(Some(4), Some(&[4.0, 1.0]), &parts), Ok(1));
    assert!(matches!(rotate(Some(1), Some(&[2.0]), &parts), Err(Refusal::Invalid(why)) if why.contains("is 1")));
    for wrong in [&[0.5][..], &[f64::NAN], &[1e300], &[]] {
        for steps in [None, Some(1)] {
            assert!(matches!(rotate(steps, Some(wrong), &parts), Err(Refusal::Invalid(_))), "{wrong:?}");
        }
    }
    // readings K10
    assert!(matches!(rotate(Some(5), None, &parts[..2]), Ok(5)), "from the rotation by 1 alone");
    let refused = |steps: i64, parts: &[(PartKind, usize)]| match rotate(Some(steps), None, parts) {
        Err(Refusal::Invalid(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(refused(5, &parts[..1]).contains("by 5 slots at level 3: add a key part for the Galois element 53"));
    // 32 slots: at most 10 rotations
    assert_eq!(rotate(Some(10), None, &parts[..2]), Ok(10));
    assert!(refused(11, &parts[..2]).contains("would take 11 of the key's rotations, more than 10"));
    assert!(refused(-1, &parts[..2]).contains("Galois element 77"));
    let low = [(parts[1].0, 2)];
    assert!(rotate(Some(1), None, &low).is_err(), "the key is of a lower level");
    let twice = [top[0]; 2];
    let product = request(Operation::Multiply, &twice, &parts[1..]);
    let refused = plan(&plaintexts, &params, &product).map(drop);
    assert!(matches!(refused, Err(Refusal::Invalid(why)) if why.contains("relinearization key")));
}

#[test]
fn bootstrapping_is_refused_where_parameters_or_keys_have_none() {
    let without = params(false);
    let asked = |params: &Params, parts: &[(PartKind, usize)]| {
        let operands = [fresh(params, 1)];
        let plan = plan(&Plaintexts::new(params), params, &request(Operation::Bootstrap, &operands, parts));
        plan.map(|plan| plan.outputs().next().unwrap().level)
    };
    assert!(matches!(asked(&without, &all_parts(&without)), Err(Refusal::Invalid(_))));
    let with = params(true);
    assert!(matches!(asked(&with, &all_parts(&with)), Err(Refusal::Invalid(_))));
    assert_eq!(asked(&with, &bootstrap::parts(&with)), Ok(3));
}

#[test]
fn errors_that_follow_from_the_numbers_are_not_independent() {
    let literal = ParamsLiteral {
        poly_degree: 64,
        scale_bits: 40,
        max_depth: 3,
        security: SecurityLevel::Testing,
        bootstrap: true,
    };
    let params = Params::new(literal).unwrap();
    let plaintexts = Plaintexts::new(&params);
    let mut parts = crate::ckks::bootstrap::parts(&params);
    let all = (1..128).step_by(2).map(PartKind::Galois).chain([PartKind::Relinearization]);
    parts.extend(all.map(|kind| (kind, params.raised_level())));
    let of = |seed: u8, level: usize| {
        let operand = fresh(&params, level);
        Operand { noise: Noise { sources: Sources::of_seed(&[seed; 32]), ..operand.noise }, ..operand }
    };
    let plain = vec![0.5; params.slots()];
    let result = |operation: Operation, operands: &[Operand]| {
        let plain = match operation {
            Operation::AddPlain | Operation::MultiplyPlain => Some(&plain[..]),
            Operation::MatmulPlain => Some(&plain[..16]),
            _ => None,
        };
        let coefficients = (operation == Operation::PolyEval).then_some(&[0.5, 0.25][..]);
        let steps = (operation == Operation::Rotate).then_some(1);
        let request = Request { operation, operands, plain, coefficients, steps, scale_stable: true, parts: &parts };
        let plan = plan(&plaintexts, &params, &request).unwrap();
        let output = plan.outputs().next().unwrap();
        Operand { level: output.level, scale: output.scale, noise: output.noise }
    };
    for operation in Operation::ALL {
        let operands = |seed: u8| (0..operation.operands() as u8).map(|i| of(seed + i, 3)).collect::<Vec<_>>();
        let [a, b] = [10, 20].map(|seed| result(operation, &operands(seed)));
        let sum = result(Operation::Add, &[a, b]);
        let follows = matches!(
            operation,
            Operation::AddPlain
                | Operation::MultiplyPlain
                | Operation::Matmul
                | Operation::MatmulPlain
                | Operation::PolyEval
                | Operation::Bootstrap
        );
        assert_eq!(a.noise.sources == Sources::UNKNOWN, follows, "{operation:?}");
        // deviations add up if the errors may be equal, variances if they are independent
        let ratio = sum.noise.variance / a.noise.variance;
        let expected = if follows { 4.0 } else { 2.0 };
        assert!((ratio / expected - 1.0).abs() < 1e-9, "{operation:?}: {ratio}");
    }
}

#[test]
fn rotations_of_a_product_run_together_if_the_key_has_them_with_equal_digits() {
    let security = SecurityLevel::Testing;
    let literal = ParamsLiteral { poly_degree: 256, scale_bits: 40, max_depth: 3, security, bootstrap: false };
    let params = Params::new(literal).unwrap();
    let (n, slots, top) = (params.n(), params.slots(), params.level_max());
    let plaintexts = Plaintexts::new(&params);
    let operands = [fresh(&params, top), fresh(&params, top)];
    let planned = |rotations: Vec<i64>, level: usize| {
        let element = |steps: i64| (PartKind::Galois(rotation::element(n, steps)), level);
        let powers = (0..slots.ilog2()).map(|bit| (PartKind::Galois(rotation::element(n, 1 << bit)), top));
        let parts: Vec<_> = [(PartKind::Relinearization, top)]
            .into_iter()
            .chain(powers)
            .chain(rotations.into_iter().map(element))
            .collect();
        let (operation, operands) = (Operation::Matmul, &operands[..]);
        let request = Request {
            operation,
            operands,
            plain: None,
            coefficients: None,
            steps: None,
            scale_stable: true,
            parts: &parts,
        };
        let plan = plan(&plaintexts, &params, &request).unwrap();
        let together = plan.steps().iter().filter(|planned| matches!(planned.step, Step::AddImages { .. })).count();
        (together, plan.outputs().next().unwrap().noise.error_bound(n, plan.outputs().next().unwrap().scale))
    };
    let all = [matmul::doublings(slots), matmul::thirds(slots)].concat();
    let all: Vec<i64> = all.into_iter().map(|(steps, _)| steps).collect();
    let (none, apart) = planned(vec![], top);
    let (every, together) = planned(all.clone(), top);
    // d is 8: of four, three and three doublings, two, one and one pair run together
    assert_eq!((none, every), (0, 4));
    assert!(together <= apart, "fewer divisions add no error: {together} {apart}");
    let (of_lower_parts, _) = planned(all, top - 1);
    assert!(of_lower_parts < every, "parts of a lower level cannot repeat the vector");
}
