//! Gates whose operands have the same noise. Either the gate folds and its result is exact, or the result has the noise
//! of a gate with independent operands.

use kernels::cpu::Cpu;
use kernels::tfhe::{Gate, GateRow, Gates, Lwe, Preset, bootstrap, noise};
use libtest_mimic::Failed;

use crate::keys;

const SEED: u64 = 5;
const BITS: usize = 12;

/// Checks gates on outputs of MUX, which take the most bootstraps.
pub fn check(preset: Preset) -> Result<(), Failed> {
    let key = keys::ours(preset, SEED);
    let (secret, params, device) = (&key.secret, preset.params(), Cpu::open());
    let loaded = device.load_key(&key.evaluation)?;
    let evaluate = |rows: &[GateRow]| bootstrap::evaluate(&device, &loaded, &params, rows);
    let mux = (0..BITS).map(|at| GateRow {
        gate: Gate::Mux,
        operands: [at % 2 == 0, at % 2 == 1, at % 3 == 0].map(|bit| secret.encrypt(bit)).into(),
    });
    let outputs = evaluate(&mux.collect::<Vec<_>>())?;

    for (at, a) in outputs.iter().enumerate() {
        let (not_a, b) =
            (Lwe::new(a.words().iter().map(|word| word.wrapping_neg()).collect()), &outputs[(at + 1) % BITS]);
        let constant = |bit| Lwe::trivial(params.lwe_dimension, bit);
        let exact = [
            (Gate::And, vec![a, a], a.clone()),
            (Gate::Nand, vec![a, a], not_a.clone()),
            (Gate::Or, vec![a, a], a.clone()),
            (Gate::Nor, vec![a, a], not_a.clone()),
            (Gate::Xor, vec![a, a], constant(false)),
            (Gate::Xnor, vec![a, a], constant(true)),
            (Gate::And, vec![a, &not_a], constant(false)),
            (Gate::Xor, vec![&not_a, a], constant(true)),
            (Gate::Mux, vec![a, a, b], a.clone()),
        ];
        let row =
            |gate: Gate, operands: &[&Lwe]| GateRow { gate, operands: operands.iter().copied().cloned().collect() };
        let rows: Vec<GateRow> = exact.iter().map(|(gate, operands, _)| row(*gate, operands)).collect();
        for ((gate, operands, expected), found) in exact.iter().zip(evaluate(&rows)?) {
            if found != *expected {
                return Err(format!("{} of {} operands is not exact", gate.name(), operands.len()).into());
            }
        }
        // folding leaves one of the two bootstraps of this MUX, so the error must be as large as that of a gate with
        // one bootstrap
        let found = &evaluate(&[row(Gate::Mux, &[a, b, a])])?[0];
        let bit = secret.decrypt(a) | secret.decrypt(b);
        let error = f64::from(secret.phase(found).wrapping_sub(Lwe::trivial_body(bit)) as i32) * (-32f64).exp2();
        let std = noise::gate_output(&key.drawn, key.of_secret).sqrt();
        if secret.decrypt(found) != bit || error.abs() > 6.0 * std {
            return Err(format!("MUX(a, b, a) has an error of {:.1} standard deviations", error / std).into());
        }
    }
    Ok(())
}
