//! Measurements of operations on encrypted numbers. Words and keys are pseudorandom; a device must prove its words before
//! it is measured. The times are those of the device: operands and results stay in its memory.

use std::time::Duration;

use benches::rates::seconds_each;
use clap::ValueEnum;
use kernels::Result;
use kernels::ckks::noise::Noise;
use kernels::ckks::plaintexts::Plaintexts;
use kernels::ckks::{
    Arithmetic, KeyedSteps, Params, ParamsLiteral, PartKind, PartShape, Plan, PlanBuilder, PlannedSteps, SecurityLevel,
    SeededRow, bootstrap, rotation,
};
use kernels::xof::{DOMAIN_NUMBERS, fill_residues};

use crate::figures::Figures;

/// Operations to measure.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Measured {
    /// A product with its relinearization and rescale, and a rotation: degree 32768, scale 40, depth 12.
    Product,
    /// The same with degree 4096, scale 30 and depth 1, which takes little time.
    Small,
    /// A bootstrap: degree 32768, scale 30, depth 4.
    Bootstrap,
}

/// Largest number of operations in a call.
const TOGETHER: usize = 32;
const REPEATS_MIN: u32 = 3;
const NOISE: Noise = Noise::new(1.0, 10.5);

/// Measures these operations, alone and in full calls.
pub fn measure<B: Arithmetic>(figures: &mut Figures, backend: &B, all: &[Measured], time: Duration) -> Result<()> {
    for measured in all {
        match measured {
            Measured::Product => product(figures, backend, (32_768, 40, 12), time)?,
            Measured::Small => product(figures, backend, (4096, 30, 1), time)?,
            Measured::Bootstrap => refresh(figures, backend, time)?,
        }
    }
    Ok(())
}

fn product<B: Arithmetic>(
    figures: &mut Figures,
    backend: &B,
    (degree, scale_bits, max_depth): (usize, u32, u32),
    time: Duration,
) -> Result<()> {
    let params = params(degree, scale_bits, max_depth, false);
    let top = params.raised_level();
    let mut builder = PlanBuilder::new(&params);
    let [a, b] = [0, 1].map(|_| builder.input(top, params.level(top).scale, NOISE));
    let product = builder.multiply_rescaled(a, b);
    let products = Setting::new(backend, builder.finish(&[product]))?;
    let mut builder = PlanBuilder::new(&params);
    let a = builder.input(top, params.level(top).scale, NOISE);
    let rotated = builder.automorphism(a, rotation::element(params.n(), 1));
    let rotations = Setting::new(backend, builder.finish(&[rotated]))?;
    for (what, setting) in [("product, relinearized and rescaled", &products), ("rotation", &rotations)] {
        let alone = setting.seconds(backend, 1, time)?;
        figures.add(format!("{what}, degree {degree} ({scale_bits}, {max_depth}), alone"), 1e6 * alone, "us");
        let together = setting.seconds(backend, TOGETHER, time)?;
        figures.add(format!("{what}, {TOGETHER} in a call"), TOGETHER as f64 / together, "a second");
    }
    Ok(())
}

fn refresh<B: Arithmetic>(figures: &mut Figures, backend: &B, time: Duration) -> Result<()> {
    let params = params(32_768, 30, 4, true);
    let mut builder = PlanBuilder::new(&params);
    let input = builder.input(0, params.level(0).scale, NOISE);
    let refreshed = bootstrap::refresh(&mut builder, &Plaintexts::new(&params), input);
    let setting = Setting::new(backend, builder.finish(&[refreshed]))?;
    figures.add("bootstrap, degree 32768 (30, 4)", 1e3 * setting.seconds(backend, 1, time)?, "ms");
    Ok(())
}

fn params(poly_degree: usize, scale_bits: u32, max_depth: u32, bootstrap: bool) -> Params {
    let security = SecurityLevel::Bits128;
    let literal = ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap };
    Params::new(literal).expect("a parameter set of 128 bits")
}

/// A plan with a key.
struct Setting<B: Arithmetic> {
    plan: Plan,
    tables: B::Tables,
    parts: Vec<(PartKind, B::Part)>,
}

impl<B: Arithmetic> Setting<B> {
    fn new(backend: &B, plan: Plan) -> Result<Setting<B>> {
        let params = plan.params().clone();
        let tables = backend.make_tables(&params)?;
        let part = |(kind, level): (PartKind, usize)| {
            let shape = PartShape { params: params.clone(), kind, level };
            let mut part = backend.room_for_part(&tables, &shape)?;
            for digit in 0..shape.digits().len() {
                let body = residues(&params, &shape.primes(), 1);
                backend.load_row(&tables, &mut part, &SeededRow { digit, seed: &[digit as u8; 32], body: &body })?;
            }
            Ok((kind, part))
        };
        let parts = plan.parts().into_iter().map(part).collect::<Result<_>>()?;
        Ok(Setting { plan, tables, parts })
    }

    /// The seconds of a call that runs the plan `count` times, over other ciphertexts each time.
    fn seconds(&self, backend: &B, count: usize, time: Duration) -> Result<f64> {
        let Setting { plan, tables, parts } = self;
        let slots_of =
            |at: usize| (0..plan.slots()).map(|slot| (at * plan.slots() + slot) as u32).collect::<Vec<u32>>();
        let slots: Vec<Vec<u32>> = (0..count).map(slots_of).collect();
        let mut arena = backend.arena(plan.params().n(), count * plan.slots())?;
        // a step may overwrite an input, so a run reads words that the run before left; any residues take the same time
        for slots in &slots {
            for input in plan.inputs() {
                let words = residues(plan.params(), &plan.params().level(input.level).primes, 2);
                for (&slot, row) in input.slots.iter().zip(words.chunks_exact(plan.params().n())) {
                    backend.write(&mut arena, slots[slot as usize], row)?;
                }
            }
        }
        let whole = 0..plan.steps().len();
        let steps: Vec<PlannedSteps<'_>> = slots
            .iter()
            .map(|slots| PlannedSteps {
                plan,
                steps: whole.clone(),
                slots,
                begins: false,
                there: &[],
                completes: false,
            })
            .collect();
        seconds_each(time, REPEATS_MIN, || {
            let parts = parts.iter().map(|(kind, part)| (*kind, part)).collect();
            let batch = KeyedSteps { tables, parts, arena: &mut arena, plans: &steps };
            backend.finish(backend.run(&mut [batch])?).map(drop)
        })
    }
}

/// Pseudorandom rows under these primes, `[polynomials][primes][N]`.
fn residues(params: &Params, primes: &[usize], polynomials: usize) -> Vec<u32> {
    let n = params.n();
    let mut words = vec![0; polynomials * primes.len() * n];
    for (at, row) in words.chunks_exact_mut(n).enumerate() {
        let prime = primes[at % primes.len()];
        fill_residues(&[7; 32], DOMAIN_NUMBERS, at as u64, params.primes()[prime], row);
    }
    words
}
