//! Known answers of operations on encrypted numbers: a product, a rotation and a rescale, for every degree that
//! protects numbers. Words and keys are pseudorandom and hide no secret.

use crate::backend::Backend;
use crate::ckks::noise::Noise;
use crate::ckks::params::POLY_DEGREES;
use crate::ckks::{
    Arithmetic, KeyedSteps, Params, ParamsLiteral, PartKind, PartShape, Plan, PlanBuilder, PlannedSteps, SecurityLevel,
    SeededRow, rotation,
};
use crate::cpu::{Cpu, Isa, threads_available};
use crate::error::{Error, Result};
use crate::xof;

/// The smallest degree that protects numbers.
const PROTECTING_DEGREE_MIN: usize = 4096;

/// A plan with the words of its outputs.
pub(super) struct NumbersAnswer {
    plan: Plan,
    expected: Vec<u32>,
}

impl NumbersAnswer {
    /// Computes the answers of all degrees with the CPU's portable instructions, in some tenths of a second.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] when memory runs out.
    pub(super) fn all() -> Result<Vec<NumbersAnswer>> {
        let degrees = POLY_DEGREES.into_iter().filter(|&degree| degree >= PROTECTING_DEGREE_MIN);
        degrees.map(|degree| NumbersAnswer::of(plan(degree))).collect()
    }

    fn of(plan: Plan) -> Result<NumbersAnswer> {
        let expected = outputs(&Cpu::with(Isa::Portable, threads_available()), &plan)?;
        Ok(NumbersAnswer { plan, expected })
    }

    /// Checks that a device computes the expected words. A device without arithmetic passes.
    ///
    /// # Errors
    /// The device's error, or [`Error::Device`] when a word differs.
    pub(super) fn check<B: Arithmetic>(&self, backend: &B) -> Result<()> {
        let params = self.plan.params();
        if backend.tables_bytes(params).is_none() || outputs(backend, &self.plan)? == self.expected {
            return Ok(());
        }
        let why = "the device's results differ from the CPU's; the device's driver or memory is at fault";
        Err(Error::Device(format!("encrypted numbers of degree {}: {why}", params.n())))
    }
}

/// A product that is rescaled, a rotation of it, and a rescale. The chain is short, so that the work is small.
fn plan(poly_degree: usize) -> Plan {
    let security = SecurityLevel::Testing;
    let literal = ParamsLiteral { poly_degree, scale_bits: 30, max_depth: 2, security, bootstrap: false };
    let params = Params::new(literal).expect("a short chain has parameters for tests at every degree");
    let mut builder = PlanBuilder::new(&params);
    let [a, b] = [0, 1].map(|_| builder.input(2, params.level(2).scale, Noise::new(1.0, 10.5)));
    let product = builder.multiply_rescaled(a, b);
    let rotated = builder.automorphism(product, rotation::element(poly_degree, 1));
    let rescaled = builder.rescale(b);
    builder.finish(&[rotated, rescaled])
}

/// Fills rows with residues under these primes, `[rows][N]`. Row `i` belongs to prime `i` modulo their number. The first
/// words are the largest ones, which bring lazily reduced values closest to their bounds.
fn rows(params: &Params, primes: &[usize], rows: usize, seed: u8) -> Vec<u32> {
    let n = params.n();
    let mut words = vec![0; rows * n];
    for (at, row) in words.chunks_exact_mut(n).enumerate() {
        let modulus = params.primes()[primes[at % primes.len()]];
        xof::fill_residues(&[seed; 32], xof::DOMAIN_NUMBERS, at as u64, modulus, row);
        row[..n / 8].fill(modulus.q() - 1);
    }
    words
}

/// Runs a plan under a key of pseudorandom words.
fn outputs<B: Backend + Arithmetic>(backend: &B, plan: &Plan) -> Result<Vec<u32>> {
    let (params, n) = (plan.params(), plan.params().n());
    let tables = backend.make_tables(params)?;
    let part = |(kind, level): (PartKind, usize)| {
        let shape = PartShape { params: params.clone(), kind, level };
        let mut part = backend.room_for_part(&tables, &shape)?;
        let primes = shape.primes();
        for digit in 0..shape.digits().len() {
            let body = rows(params, &primes, primes.len(), digit as u8);
            backend.load_row(&tables, &mut part, &SeededRow { digit, seed: &[digit as u8; 32], body: &body })?;
        }
        Ok((kind, part))
    };
    let parts = plan.parts().into_iter().map(part).collect::<Result<Vec<(PartKind, B::Part)>>>()?;
    let mut arena = backend.arena(n, plan.slots())?;
    for (at, input) in plan.inputs().enumerate() {
        let words = rows(params, &params.level(input.level).primes, input.slots.len(), 0x80 + at as u8);
        for (&slot, row) in input.slots.iter().zip(words.chunks_exact(n)) {
            backend.write(&mut arena, slot, row)?;
        }
    }
    let slots: Vec<u32> = (0..plan.slots() as u32).collect();
    let steps = 0..plan.steps().len();
    let plans = [PlannedSteps { plan, steps, slots: &slots, begins: true, there: &[], completes: true }];
    let parts = parts.iter().map(|(kind, part)| (*kind, part)).collect();
    let batch = KeyedSteps { tables: &tables, parts, arena: &mut arena, plans: &plans };
    backend.finish(backend.run(&mut [batch])?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ckks::plan::Step;

    #[test]
    fn the_plan_has_every_kind_of_key_switch_and_a_rescale() {
        let plan = plan(PROTECTING_DEGREE_MIN);
        let has = |kind: fn(&Step) -> bool| plan.steps().iter().any(|planned| kind(&planned.step));
        assert!(has(|step| matches!(step, Step::Multiply { .. })) && has(|step| matches!(step, Step::Divide { .. })));
        assert!(has(|step| matches!(step, Step::Automorphism { .. })));
    }

    #[test]
    fn a_wrong_word_is_noticed_and_named() {
        let mut answer = NumbersAnswer::of(plan(PROTECTING_DEGREE_MIN)).unwrap();
        let cpu = Cpu::open();
        assert_eq!(answer.check(&cpu), Ok(()));
        let last = answer.expected.len() - 1;
        answer.expected[last] ^= 1;
        let error = answer.check(&cpu).expect_err("one bit differs");
        assert!(matches!(&error, Error::Device(why) if why.contains("degree 4096")), "{error}");
    }
}
