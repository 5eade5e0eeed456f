//! Ango's gates on the crate's keys and bits, decrypted by the crate.

use kernels::cpu::Cpu;
use kernels::tfhe::bootstrap::evaluate;
use kernels::tfhe::{Gate, GateRow, Gates, Lwe};
use kernels::tfhe_rs::{read_ciphertext, read_server_key, write_ciphertext};
use tfhe::boolean::prelude::*;

use crate::fixture::{Client, bytes_of, clients};

#[test]
fn every_gate_on_every_input_decrypts_right_in_the_crate() {
    for client in clients() {
        let engine = Engine::open(client);
        let cases: Vec<(Gate, Vec<bool>)> = Gate::ALL.into_iter().flat_map(every_input).collect();
        let rows = cases.iter().map(|(gate, bits)| GateRow { gate: *gate, operands: engine.encrypt(bits) }).collect();
        for ((gate, bits), result) in cases.iter().zip(engine.run(rows)) {
            assert_eq!(client.key.decrypt(&result), gate.plain(bits), "{}: {gate:?} of {bits:?}", client.name);
        }
    }
}

#[test]
fn results_go_on_into_the_crates_gates_and_back_into_ours() {
    for client in clients() {
        let engine = Engine::open(client);
        let theirs = client.server_key.decompress();
        for bits in every_input(Gate::Mux).map(|(_, bits)| bits) {
            let [a, b, sel] = bits[..] else { unreachable!("three operands") };
            // Ango computes x = a xor b, then the crate computes y = x nand sel, then Ango computes the MUX sel ? y : a
            let ours = engine.run(vec![GateRow { gate: Gate::Xor, operands: engine.encrypt(&[a, b]) }]).remove(0);
            let middle = theirs.nand(&ours, &client.key.encrypt(sel));
            let mut operands = vec![engine.read(&middle)];
            operands.extend(engine.encrypt(&[a, sel]));
            let last = engine.run(vec![GateRow { gate: Gate::Mux, operands }]).remove(0);
            let expected = if sel { !((a != b) && sel) } else { a };
            assert_eq!(client.key.decrypt(&last), expected, "{}: {bits:?}", client.name);
        }
    }
}

#[test]
fn trivial_bits_are_operands_like_any_other() {
    let client = clients()[0];
    let engine = Engine::open(client);
    for (gate, bits) in every_input(Gate::Nand) {
        let operands = bits.iter().map(|&bit| engine.read(&Ciphertext::Trivial(bit))).collect();
        let result = engine.run(vec![GateRow { gate, operands }]).remove(0);
        assert_eq!(client.key.decrypt(&result), gate.plain(&bits), "{bits:?}");
    }
}

/// A CPU backend with an imported key.
struct Engine {
    client: &'static Client,
    cpu: Cpu,
    key: <Cpu as Gates>::Key,
    params: kernels::tfhe::Params,
}

impl Engine {
    fn open(client: &'static Client) -> Self {
        let key = read_server_key(&client.server_key_bytes).expect("a preset's dimensions");
        let cpu = Cpu::open();
        Self { client, params: key.params, key: cpu.load_key(&key).expect("memory for a key"), cpu }
    }

    /// Encrypts bits, every second one in the compressed form.
    fn encrypt(&self, bits: &[bool]) -> Vec<Lwe> {
        let key = &self.client.key;
        let encrypt = |(at, &bit): (usize, &bool)| match at % 2 {
            0 => self.read(&key.encrypt(bit)),
            _ => self.read(&key.encrypt_compressed(bit)),
        };
        bits.iter().enumerate().map(encrypt).collect()
    }

    fn read(&self, ciphertext: &impl serde::Serialize) -> Lwe {
        read_ciphertext(&bytes_of(ciphertext), self.params.lwe_dimension).expect("a bit under this key")
    }

    fn run(&self, rows: Vec<GateRow>) -> Vec<Ciphertext> {
        let results = evaluate(&self.cpu, &self.key, &self.params, &rows).expect("the CPU does not fail");
        results.iter().map(|lwe| bincode::deserialize(&write_ciphertext(lwe)).expect("the crate's layout")).collect()
    }
}

fn every_input(gate: Gate) -> impl Iterator<Item = (Gate, Vec<bool>)> {
    (0..1 << gate.arity()).map(move |inputs: u32| (gate, (0..gate.arity()).map(|i| inputs >> i & 1 == 1).collect()))
}
