//! Where a long computation rescales and bootstraps. A ciphertext carries its level, its scale and its bounds unencrypted,
//! so a client decides from the node's results alone. This file is separate from the code that handles secrets, because
//! that code must not contain a division (scripts/constant-time).

use std::cmp::Ordering;

use kernels::ckks::Params;
use kernels::ckks::operation::{Operand, Operation, Request};
use kernels::ckks::plan::{SCALE_DRIFT_MAX, drift};

/// Returns what must run before `request` can: an operation on one of the operands, and the operand's index. Its result
/// takes the operand's place, and the function is called again, until it returns `None`.
///
/// An operand with too few levels is bootstrapped. Of two operands with different levels, the higher one is rescaled; of
/// two with different scales, the one with the larger scale. `None` means that the operands suit the request, or that
/// no such operation can make them suit it: the node then refuses the request and says why.
pub fn preparation(params: &Params, request: &Request<'_>) -> Option<(usize, Operation)> {
    let (operands, wanted) = (request.operands, request.levels());
    let left = |operand: &Operand| operand.noise.budget(params, operand.level, operand.scale).levels_remaining;
    let lowest = (0..operands.len()).min_by_key(|&at| left(&operands[at]))?;
    if left(&operands[lowest]) < wanted {
        let bootstraps = params.literal().bootstrap && wanted <= params.level_max();
        return bootstraps.then_some((lowest, Operation::Bootstrap));
    }
    let [first, second] = operands else { return None };
    match first.level.cmp(&second.level) {
        Ordering::Greater => Some((0, Operation::Rescale)),
        Ordering::Less => Some((1, Operation::Rescale)),
        // a sum takes equal scales, and a product that was not rescaled has a larger one
        Ordering::Equal => {
            let differ = request.operation == Operation::Add && drift(first.scale, second.scale) >= SCALE_DRIFT_MAX;
            (differ && first.level > 0).then_some((usize::from(second.scale > first.scale), Operation::Rescale))
        }
    }
}

#[cfg(test)]
mod tests {
    use kernels::ckks::{Noise, ParamsLiteral, SecurityLevel};

    use super::*;

    fn params(bootstrap: bool) -> Params {
        let security = SecurityLevel::Testing;
        Params::new(ParamsLiteral { poly_degree: 64, scale_bits: 40, max_depth: 3, security, bootstrap }).unwrap()
    }

    fn operand(params: &Params, level: usize) -> Operand {
        Operand { level, scale: params.level(level).scale, noise: Noise::encrypt_secret(1.0) }
    }

    /// A product of two ciphertexts of this level that was not rescaled.
    fn unscaled(params: &Params, level: usize) -> Operand {
        let scale = params.level(level).scale.powi(2);
        Operand { scale, ..operand(params, level) }
    }

    fn before(params: &Params, operation: Operation, operands: &[Operand], count: usize) -> Option<(usize, Operation)> {
        let coefficients = vec![1.0; count];
        let coefficients = Some(&coefficients[..]);
        let request =
            Request { operation, operands, plain: None, coefficients, steps: None, scale_stable: true, parts: &[] };
        preparation(params, &request)
    }

    #[test]
    fn operands_without_levels_are_bootstrapped_and_higher_ones_rescaled() {
        use Operation::{Add, Bootstrap, Multiply, PolyEval, Rescale};
        let params = params(true);
        let at = |level: usize| operand(&params, level);
        for (operation, operands, count, expected) in [
            (Multiply, vec![at(2), at(2)], 0, None),
            (Multiply, vec![at(3), at(1)], 0, Some((0, Rescale))),
            (Multiply, vec![at(3), at(0)], 0, Some((1, Bootstrap))),
            (Add, vec![at(0), at(2)], 0, Some((1, Rescale))),
            (Add, vec![at(0), at(0)], 0, None),
            // a product that was not rescaled
            (Multiply, vec![unscaled(&params, 1), at(3)], 0, Some((0, Bootstrap))),
            (Multiply, vec![unscaled(&params, 2), at(1)], 0, Some((0, Rescale))),
            (Add, vec![at(1), unscaled(&params, 1)], 0, Some((1, Rescale))),
            (PolyEval, vec![at(2)], 4, None),
            (PolyEval, vec![at(2)], 5, Some((0, Bootstrap))),
            // more levels than any ciphertext has
            (PolyEval, vec![at(3)], 9, None),
        ] {
            let levels: Vec<usize> = operands.iter().map(|operand| operand.level).collect();
            assert_eq!(before(&params, operation, &operands, count), expected, "{operation:?} at {levels:?}");
        }
    }

    #[test]
    fn without_levels_for_bootstrapping_nothing_can_help_an_operand_at_its_end() {
        let params = params(false);
        assert_eq!(before(&params, Operation::Multiply, &[operand(&params, 0), operand(&params, 2)], 0), None);
    }

    #[test]
    fn every_preparation_leads_to_operands_that_suit_the_operation() {
        let params = params(true);
        for operation in [Operation::Add, Operation::Multiply, Operation::Matmul] {
            for (a, b) in (0..16).map(|pair| (pair / 4, pair % 4)) {
                for first in [operand(&params, a), unscaled(&params, a)] {
                    let mut operands = [first, operand(&params, b)];
                    let mut steps = 0;
                    while let Some((at, step)) = before(&params, operation, &operands, 0) {
                        let of = &mut operands[at];
                        *of = match step {
                            Operation::Bootstrap => operand(&params, params.level_max()),
                            _ => operand(&params, of.level - 1),
                        };
                        steps += 1;
                        assert!(steps < 9, "{operation:?} of levels {a} and {b} is prepared without an end");
                    }
                    // the product of level 0 that was not rescaled has no level for a rescale
                    let stuck = operation == Operation::Add && operands[0].scale > params.level(0).scale * 2.0;
                    assert!(operands[0].level == operands[1].level || stuck, "{operation:?} of {a} and {b}");
                }
            }
        }
    }
}
