//! Gates on encrypted bits decrypt to the plain gates' results: every gate, preset and combination of inputs, on fresh
//! ciphertexts and on outputs of other gates; then a long random run.

use client::SecretKey;
use kernels::cpu::Cpu;
use kernels::tfhe::cpu::Key;
use kernels::tfhe::{Gate, GateRow, Gates, Lwe, Preset, bootstrap};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// An encrypted bit and its plain value.
type Bit = (Lwe, bool);

#[test]
fn every_gate_of_fast_128_has_its_truth_table() {
    check_truth_tables(Preset::Fast128);
}

#[test]
fn every_gate_of_standard_128_has_its_truth_table() {
    check_truth_tables(Preset::Standard128);
}

#[test]
fn every_gate_of_conservative_128_has_its_truth_table() {
    check_truth_tables(Preset::Conservative128);
}

#[test]
fn every_gate_of_fast_128_k2_has_its_truth_table() {
    check_truth_tables(Preset::Fast128K2);
}

#[test]
fn every_gate_of_standard_128_k2_has_its_truth_table() {
    check_truth_tables(Preset::Standard128K2);
}

fn check_truth_tables(preset: Preset) {
    let party = Party::new(preset);
    let fresh = |bit| (party.secret.encrypt(bit), bit);
    // Operands that are outputs of gates with one bootstrap, and operands that are outputs of MUX, which has three.
    // Index: twice the operand's position, plus its bit.
    let outputs =
        |gate, of_false: fn(&dyn Fn(bool) -> Bit) -> Vec<Bit>, of_true: fn(&dyn Fn(bool) -> Bit) -> Vec<Bit>| {
            let rows: Vec<_> = (0..3).flat_map(|_| [(gate, of_false(&fresh)), (gate, of_true(&fresh))]).collect();
            party.evaluate(&rows)
        };
    let gate_outputs = outputs(Gate::And, |x| vec![x(true), x(false)], |x| vec![x(true), x(true)]);
    let mux_outputs = outputs(Gate::Mux, |x| vec![x(true), x(false), x(false)], |x| vec![x(true), x(false), x(true)]);
    let trivial = |bit| (Lwe::trivial(preset.params().lwe_dimension, bit), bit);
    party.evaluate(&truth_table(|_, bit| fresh(bit)));
    party.evaluate(&truth_table(|at, bit| gate_outputs[2 * at + usize::from(bit)].clone()));
    party.evaluate(&truth_table(|at, bit| mux_outputs[2 * at + usize::from(bit)].clone()));
    // gates that fold: first because operands with equal bits are the same ciphertext, then because all operands are
    // constants
    party.evaluate(&truth_table(|_, bit| mux_outputs[usize::from(bit)].clone()));
    party.evaluate(&truth_table(|_, bit| trivial(bit)));
}

#[test]
fn thousands_of_random_gates_of_fast_128_on_each_other_s_outputs_are_all_right() {
    const GATES: usize = 3000;
    const BATCH: usize = 120;
    const SEED: u64 = 0x0067_6174_6573;
    let party = Party::new(Preset::Fast128);
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    // the operands of the first batch; every later batch takes operands from the outputs of the batch before
    let mut bits: Vec<Bit> = (0..BATCH).map(|i| (party.secret.encrypt(i % 2 == 0), i % 2 == 0)).collect();
    for _ in 0..GATES / BATCH {
        let mut below = |count: usize| rng.next_u32() as usize % count;
        let gates: Vec<(Gate, Vec<Bit>)> = (0..BATCH)
            .map(|_| {
                let gate = Gate::ALL[below(Gate::ALL.len())];
                (gate, (0..gate.arity()).map(|_| bits[below(BATCH)].clone()).collect())
            })
            .collect();
        bits = party.evaluate(&gates);
    }
}

/// One row for every gate and every combination of input bits. `bit` gives the operand for a position and a bit.
fn truth_table(bit: impl Fn(usize, bool) -> Bit) -> Vec<(Gate, Vec<Bit>)> {
    let inputs = |gate: Gate| {
        let bit = &bit;
        (0..1 << gate.arity())
            .map(move |bits| (gate, (0..gate.arity()).map(|at| bit(at, bits >> at & 1 == 1)).collect()))
    };
    Gate::ALL.into_iter().flat_map(inputs).collect()
}

/// A client's key and a device that holds its evaluation key.
struct Party {
    secret: SecretKey,
    device: Cpu,
    key: Key,
}

impl Party {
    fn new(preset: Preset) -> Party {
        let secret = SecretKey::generate(preset);
        let device = Cpu::open();
        let key = device.load_key(&secret.evaluation_key()).expect("a key fits");
        Party { secret, device, key }
    }

    /// Returns the gates' outputs after checking each against the plain gate.
    fn evaluate(&self, gates: &[(Gate, Vec<Bit>)]) -> Vec<Bit> {
        let rows: Vec<GateRow> = gates
            .iter()
            .map(|(gate, bits)| GateRow { gate: *gate, operands: bits.iter().map(|(lwe, _)| lwe.clone()).collect() })
            .collect();
        let params = self.secret.preset().params();
        let outputs = bootstrap::evaluate(&self.device, &self.key, &params, &rows).expect("gates");
        assert_eq!(outputs.len(), gates.len());
        let checked = outputs.into_iter().zip(gates).enumerate().map(|(at, (output, (gate, bits)))| {
            let plain: Vec<bool> = bits.iter().map(|&(_, bit)| bit).collect();
            let expected = gate.plain(&plain);
            assert_eq!(self.secret.decrypt(&output), expected, "row {at}: {} of {plain:?}", gate.name());
            (output, expected)
        });
        checked.collect()
    }
}
