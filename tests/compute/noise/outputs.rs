//! An output of a mapped circuit and its negation are exact opposites, so a later gate of both folds. If both were
//! switched to the small key by themselves, their errors would be opposite up to some digits, and a gate that adds them
//! up would fail far more often than the published figures.

use kernels::cpu::Cpu;
use kernels::tfhe::circuit::run_plan;
use kernels::tfhe::fold::Bit;
use kernels::tfhe::noise::InputNoise;
use kernels::tfhe::{Circuit, Gates, LweList, Plan, Preset, mapping};
use libtest_mimic::Failed;

use crate::keys;

const SEED: u64 = 6;
/// The two bits of a half adder and one of its inputs, then the negation of each.
const CIRCUIT: &str =
    "6 8\n1 2\n1 6\n2 1 0 1 2 XOR\n2 1 0 1 3 AND\n1 1 0 4 EQW\n1 1 2 5 INV\n1 1 3 6 INV\n1 1 4 7 INV\n";

/// Checks the opposites for keys of a preset.
pub fn check(preset: Preset) -> Result<(), Failed> {
    let key = keys::ours(preset, SEED);
    let (secret, params, device) = (&key.secret, preset.params(), Cpu::open());
    let loaded = device.load_key(&key.evaluation)?;
    let circuit = Circuit::parse(CIRCUIT)?;
    let network = mapping::map(&circuit, &[Bit::value(0), Bit::value(1)], &params, InputNoise::Fresh);
    let plan = Plan::mapped(&network, 2, &params);
    for bits in [[false, false], [false, true], [true, true]] {
        let mut inputs = LweList::with_capacity(params.lwe_dimension, 2);
        bits.iter().for_each(|&bit| inputs.push(secret.encrypt(bit).words()));
        let outputs = run_plan(&device, &loaded, &plan, &inputs, &mut |_| {})?.to_lwes();
        let [a, b] = bits;
        for (at, bit) in [a ^ b, a & b, a].into_iter().enumerate() {
            let (output, negation) = (&outputs[at], &outputs[at + 3]);
            if secret.decrypt(output) != bit {
                return Err(format!("output {at} is not {bit}").into());
            }
            let opposite = output.words().iter().map(|word| word.wrapping_neg());
            if !opposite.eq(negation.words().iter().copied()) {
                return Err(format!("output {at} and its negation are not exact opposites").into());
            }
        }
    }
    Ok(())
}
