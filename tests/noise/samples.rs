//! Errors of each stage: what a phase is beyond what it should be, in units of 2^-32 of a turn.

use client::SecretKey;
use kernels::Backend;
use kernels::cpu::Cpu;
use kernels::tfhe::lwe::EIGHTH;
use kernels::tfhe::{Gate, GateRow, Preset, bootstrap};

/// Keys of a preset. The parts of the noise that are constants of a key average out over them.
const KEYS: usize = 8;
/// Of each key. A bit is encrypted, bootstrapped and switched; every third one also goes through a MUX.
const BITS: usize = 250;

/// Errors by stage: `fresh` encryption, `br` blind rotation (seen under the ring key, after extraction), `ks` key
/// switch alone, `out` the two together, `mux` the output of a MUX.
pub fn samples(preset: Preset) -> Vec<(&'static str, Vec<i32>)> {
    let device = Cpu::open();
    let params = preset.params();
    let [mut fresh, mut rotated, mut switched, mut outputs, mut mux] = [const { Vec::new() }; 5];
    for _ in 0..KEYS {
        let secret = SecretKey::generate(preset);
        let key = device.load_key(&secret.evaluation_key()).expect("a key fits");

        let bits: Vec<bool> = (0..BITS).map(|i| i % 2 == 0).collect();
        let encrypted: Vec<_> = bits.iter().map(|&bit| secret.encrypt(bit)).collect();
        fresh.extend(encrypted.iter().zip(&bits).map(|(lwe, &bit)| error(secret.phase(lwe), bit)));

        let words: Vec<u32> = encrypted.iter().flat_map(|lwe| lwe.words()).copied().collect();
        let extracted = device.bootstrap(&key, &words).expect("a bootstrap");
        let small = device.key_switch(&key, &extracted).expect("a key switch");
        let extracted = extracted.chunks_exact(params.extracted_dimension() + 1);
        let small = small.chunks_exact(params.lwe_dimension + 1);
        for ((sample, output), &bit) in extracted.zip(small).zip(&bits) {
            let before = secret.extracted_phase(sample);
            let after = secret.phase(&kernels::tfhe::Lwe::new(output.to_vec()));
            rotated.push(error(before, bit));
            switched.push(after.wrapping_sub(before) as i32);
            outputs.push(error(after, bit));
        }

        let rows: Vec<GateRow> = encrypted
            .chunks_exact(3)
            .map(|operands| GateRow { gate: Gate::Mux, operands: operands.to_vec() })
            .collect();
        let results = bootstrap::evaluate(&device, &key, &params, &rows).expect("gates");
        for (result, bits) in results.iter().zip(bits.chunks_exact(3)) {
            mux.push(error(secret.phase(result), Gate::Mux.plain(bits)));
        }
    }
    vec![("fresh", fresh), ("br", rotated), ("ks", switched), ("out", outputs), ("mux", mux)]
}

/// How far a phase is from its bit's `+-1/8`.
fn error(phase: u32, bit: bool) -> i32 {
    let expected = if bit { EIGHTH } else { EIGHTH.wrapping_neg() };
    phase.wrapping_sub(expected) as i32
}
