//! A device that computes gates on ciphertexts without mask or noise, and does as a test says: works, fails, panics or
//! waits for a sign. The gates themselves are the real ones (`kernels::tfhe::bootstrap`).

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use engine::{Backend, DeviceInfo, EvaluationKey, Gate, GateRow, Lwe, Params, Preset};
use kernels::SlotGate;
use kernels::tfhe::ParamsLiteral;
use kernels::tfhe::keys::Masks;
use kernels::tfhe::lwe::EIGHTH;

pub const KEY_BYTES: u64 = 100;
const LWE_DIMENSION: usize = 3;

/// What the device does with a call.
pub enum Mood {
    Fail,
    Panic,
    /// Says on the first channel that it is there, and goes on at a word (or the end) of the second.
    Wait(Sender<()>, Receiver<()>),
}

pub struct Toy {
    info: DeviceInfo,
    script: Arc<Script>,
    /// Dropped with the device: nobody uses it any more.
    pub alive: Option<Sender<()>>,
}

/// The test's hand in the device. Calls without an entry work.
#[derive(Default)]
pub struct Script {
    batches: Mutex<VecDeque<Mood>>,
    loads: Mutex<VecDeque<Mood>>,
    overwritten: Mutex<usize>,
}

impl Script {
    pub fn next_batch(&self, mood: Mood) {
        self.batches.lock().unwrap().push_back(mood);
    }

    pub fn next_load(&self, mood: Mood) {
        self.loads.lock().unwrap().push_back(mood);
    }

    /// The next batch waits: the first end hears when it has begun, the second lets it go on.
    pub fn hold_next_batch(&self) -> (Receiver<()>, Sender<()>) {
        let (begun, has_begun) = channel();
        let (go_on, may_go_on) = channel();
        self.next_batch(Mood::Wait(begun, may_go_on));
        (has_begun, go_on)
    }

    /// Prepared keys that were overwritten so far.
    pub fn keys_overwritten(&self) -> usize {
        *self.overwritten.lock().unwrap()
    }

    fn play(script: &Mutex<VecDeque<Mood>>) -> kernels::Result<()> {
        let mood = script.lock().unwrap().pop_front();
        match mood {
            None => Ok(()),
            Some(Mood::Fail) => Err(kernels::Error::Device("smoke".into())),
            Some(Mood::Panic) => panic!("the toy device panics, as it was told to"),
            Some(Mood::Wait(begun, may_go_on)) => {
                let _ = begun.send(());
                let _ = may_go_on.recv();
                Ok(())
            }
        }
    }
}

impl Toy {
    pub fn new(rows_max: usize) -> (Toy, Arc<Script>) {
        let script = Arc::new(Script::default());
        let info = DeviceInfo {
            backend: "toy".into(),
            name: "toy".into(),
            memory_bytes: 1 << 20,
            rows_max,
            batches_in_flight_max: 1,
        };
        (Toy { info, script: script.clone(), alive: None }, script)
    }
}

pub struct ToyKey(Arc<Script>);

impl Drop for ToyKey {
    fn drop(&mut self) {
        *self.0.overwritten.lock().unwrap() += 1;
    }
}

impl Backend for Toy {
    type Key = ToyKey;
    type Arena = Vec<u32>;
    type Pending = Vec<u32>;

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn load_key(&self, _key: &EvaluationKey) -> kernels::Result<ToyKey> {
        Script::play(&self.script.loads)?;
        Ok(ToyKey(self.script.clone()))
    }

    fn key_bytes(&self, _params: &Params) -> u64 {
        KEY_BYTES
    }

    fn arena(&self, _params: &Params, slots: usize) -> kernels::Result<Vec<u32>> {
        Ok(vec![0; slots * (LWE_DIMENSION + 1)])
    }

    fn grow(&self, arena: &mut Vec<u32>, slots: usize) -> kernels::Result<()> {
        arena.resize(slots * (LWE_DIMENSION + 1), 0);
        Ok(())
    }

    fn write(&self, arena: &mut Vec<u32>, first: u32, words: &[u32]) -> kernels::Result<()> {
        arena[first as usize * (LWE_DIMENSION + 1)..][..words.len()].copy_from_slice(words);
        Ok(())
    }

    /// The plain gate on the signs of the bodies.
    fn evaluate(
        &self,
        _key: &ToyKey,
        arena: &mut Vec<u32>,
        gates: &[SlotGate],
        reads: &[u32],
    ) -> kernels::Result<Vec<u32>> {
        Script::play(&self.script.batches)?;
        let row = |slot: u32| slot as usize * (LWE_DIMENSION + 1)..(slot as usize + 1) * (LWE_DIMENSION + 1);
        for gate in gates {
            let bits: Vec<bool> = gate.operands[..gate.gate.arity()]
                .iter()
                .map(|&slot| arena[row(slot)][LWE_DIMENSION] as i32 > 0)
                .collect();
            arena[row(gate.result)].copy_from_slice(encrypt(gate.gate.plain(&bits)).words());
        }
        Ok(reads.iter().flat_map(|&slot| &arena[row(slot)]).copied().collect())
    }

    fn finish(&self, pending: Vec<u32>) -> kernels::Result<Vec<u32>> {
        Ok(pending)
    }

    fn bootstrap(&self, _key: &ToyKey, _inputs: &[u32]) -> kernels::Result<Vec<u32>> {
        unreachable!("the engine evaluates gates")
    }

    fn key_switch(&self, _key: &ToyKey, _inputs: &[u32]) -> kernels::Result<Vec<u32>> {
        unreachable!("the engine evaluates gates")
    }
}

fn params() -> Params {
    let literal = ParamsLiteral {
        lwe_dimension: LWE_DIMENSION,
        glwe_dimension: 1,
        polynomial_size: 64,
        bootstrap_base_log: 8,
        bootstrap_level_count: 2,
        key_switch_base: 3,
        key_switch_level_count: 7,
        lwe_noise_std: 0.0,
        glwe_noise_std: 0.0,
    };
    Params::try_from(literal).expect("a valid toy")
}

/// An evaluation key of the toy's dimensions, with nothing in it.
pub fn key() -> EvaluationKey {
    let params = params();
    EvaluationKey {
        preset: Preset::Fast128,
        params,
        fingerprint: None,
        masks: Masks::Ango([0; 32]),
        bootstrap_bodies: vec![1; params.bootstrap_body_words()],
        key_switch_bodies: vec![1; params.key_switch_body_words()],
    }
}

pub fn encrypt(bit: bool) -> Lwe {
    Lwe::trivial(LWE_DIMENSION, bit)
}

pub fn decrypt(lwe: &Lwe) -> bool {
    lwe.words()[LWE_DIMENSION] == EIGHTH
}

pub fn row(gate: Gate, bits: &[bool]) -> GateRow {
    GateRow { gate, operands: bits.iter().map(|&bit| encrypt(bit)).collect() }
}

/// NAND of true and true, `count` times.
pub fn rows(count: usize) -> Vec<GateRow> {
    (0..count).map(|_| row(Gate::Nand, &[true, true])).collect()
}
