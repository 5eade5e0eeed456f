//! A device for tests that computes gates on ciphertexts without mask or noise, and counts the bytes in its memory. A
//! test scripts the calls to the device: a call works, fails, panics, loses the device, or waits for the test.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use engine::{Backend, DeviceInfo, EvaluationKey, Gate, GateList, Gates, Lwe, Params, Preset, Rows};
use kernels::tfhe::keys::Masks;
use kernels::tfhe::lwe::EIGHTH;
use kernels::tfhe::{CellKind, GateRow, KeyedGates, LevelRows, ModSwitch, ParamsLiteral};

pub const KEY_BYTES: u64 = 100;
pub const LWE_DIMENSION: usize = 3;
const ROW_WORDS: usize = LWE_DIMENSION + 1;

/// The device's behaviour in a call.
pub enum Behaviour {
    /// The call fails; the next may succeed.
    Fail,
    /// The call panics.
    Panic,
    /// The call fails because the device is out of memory.
    OutOfMemory,
    /// This call and all later ones fail: the device is lost.
    Lose,
    /// Sends to the first channel when the call begins, and goes on when the second channel gets a message or is
    /// closed.
    Wait(Sender<()>, Receiver<()>),
    /// The next result has one word too few.
    ShortResult,
    /// The call works, but panics if another call is in flight.
    CheckAlone,
    /// The call works. This entry takes a place in the queue before a call that must behave otherwise.
    Work,
}

pub struct Toy {
    info: DeviceInfo,
    script: Arc<Script>,
    /// Dropped with the device, so that the receiver learns when the engine drops the device.
    pub alive: Option<Sender<()>>,
}

/// The behaviour that a test has scripted: a queue for each kind of call. A call for which the queue is empty works.
#[derive(Default)]
pub struct Script {
    batches: Mutex<VecDeque<Behaviour>>,
    loads: Mutex<VecDeque<Behaviour>>,
    pieces: Mutex<VecDeque<Behaviour>>,
    /// Number of pieces in which a key is loaded; 0 means one.
    pieces_of_a_key: AtomicUsize,
    preparations: Mutex<VecDeque<Behaviour>>,
    finishes: Mutex<VecDeque<Behaviour>>,
    drops: Mutex<VecDeque<Behaviour>>,
    /// Whether the next result has one word too few.
    short_result: Mutex<bool>,
    /// While set, no call completes.
    unready: AtomicBool,
    lost: Mutex<bool>,
    counts: Mutex<Counts>,
}

/// The device's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub keys_loaded: usize,
    pub keys_overwritten: usize,
    /// Bytes of keys and arenas.
    pub bytes: u64,
    pub rows_written: usize,
    pub rows_read: usize,
    pub batches: usize,
    /// Number of calls. Each call has one or several batches.
    pub calls: usize,
    /// Number of calls that have started and not finished.
    pub in_flight: usize,
    pub in_flight_max: usize,
}

impl Script {
    pub fn next_batch(&self, behaviour: Behaviour) {
        self.batches.lock().unwrap().push_back(behaviour);
    }

    pub fn next_load(&self, behaviour: Behaviour) {
        self.loads.lock().unwrap().push_back(behaviour);
    }

    /// From now on keys are loaded in `count` pieces.
    pub fn load_in_pieces(&self, count: usize) {
        self.pieces_of_a_key.store(count, Ordering::SeqCst);
    }

    pub fn next_piece(&self, behaviour: Behaviour) {
        self.pieces.lock().unwrap().push_back(behaviour);
    }

    /// Like [`Script::hold_next_batch`], for the next piece of a key.
    pub fn hold_next_piece(&self) -> (Receiver<()>, Sender<()>) {
        let (begun, has_begun) = channel();
        let (go_on, may_go_on) = channel();
        self.next_piece(Behaviour::Wait(begun, may_go_on));
        (has_begun, go_on)
    }

    pub fn next_preparation(&self, behaviour: Behaviour) {
        self.preparations.lock().unwrap().push_back(behaviour);
    }

    pub fn next_finish(&self, behaviour: Behaviour) {
        self.finishes.lock().unwrap().push_back(behaviour);
    }

    /// Sets the behaviour of the next drop of a key or an arena.
    pub fn next_drop(&self, behaviour: Behaviour) {
        self.drops.lock().unwrap().push_back(behaviour);
    }

    /// Holds the next batch. The receiver gets a message when the batch has begun. A message to the sender lets the
    /// batch go on.
    pub fn hold_next_batch(&self) -> (Receiver<()>, Sender<()>) {
        let (begun, has_begun) = channel();
        let (go_on, may_go_on) = channel();
        self.next_batch(Behaviour::Wait(begun, may_go_on));
        (has_begun, go_on)
    }

    /// Sets whether calls complete from now on. With `false`, no call completes until this method is called again.
    pub fn set_ready(&self, ready: bool) {
        self.unready.store(!ready, Ordering::SeqCst);
    }

    fn is_ready(&self) -> bool {
        !self.unready.load(Ordering::SeqCst)
    }

    /// Number of prepared keys that have been overwritten so far.
    pub fn keys_overwritten(&self) -> usize {
        self.counts().keys_overwritten
    }

    pub fn counts(&self) -> Counts {
        *self.counts.lock().unwrap()
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.counts.lock().unwrap());
    }

    fn act(&self, queue: &Mutex<VecDeque<Behaviour>>) -> kernels::Result<()> {
        let behaviour = queue.lock().unwrap().pop_front();
        match behaviour {
            _ if *self.lost.lock().unwrap() && !std::ptr::eq(queue, &self.drops) => {
                Err(kernels::Error::Lost("the toy device is lost".into()))
            }
            None | Some(Behaviour::Work) => Ok(()),
            Some(Behaviour::Fail) => Err(kernels::Error::Device("smoke".into())),
            Some(Behaviour::OutOfMemory) => Err(kernels::Error::OutOfMemory("full".into())),
            Some(Behaviour::ShortResult) => {
                *self.short_result.lock().unwrap() = true;
                Ok(())
            }
            Some(Behaviour::CheckAlone) => {
                assert_eq!(self.counts().in_flight, 0, "another call is in flight");
                Ok(())
            }
            Some(Behaviour::Panic) => panic!("the toy device panics, as scripted"),
            Some(Behaviour::Lose) => {
                *self.lost.lock().unwrap() = true;
                Err(kernels::Error::Lost("smoke".into()))
            }
            Some(Behaviour::Wait(begun, may_go_on)) => {
                let _ = begun.send(());
                let _ = may_go_on.recv();
                Ok(())
            }
        }
    }
}

impl Toy {
    pub fn new(rows_max: usize) -> (Toy, Arc<Script>) {
        Toy::with_in_flight(rows_max, 1)
    }

    /// A device that takes batches of at most `keys_together_max` keys in one call.
    pub fn with_keys_together(rows_max: usize, keys_together_max: usize) -> (Toy, Arc<Script>) {
        let (mut toy, script) = Toy::new(rows_max);
        toy.info.keys_together_max = keys_together_max;
        (toy, script)
    }

    /// A device with an eighth of this memory for arenas and half of it for keys.
    pub fn with_memory(rows_max: usize, memory_bytes: u64) -> (Toy, Arc<Script>) {
        let (mut toy, script) = Toy::new(rows_max);
        toy.info.memory_bytes = memory_bytes;
        (toy, script)
    }

    pub fn with_in_flight(rows_max: usize, batches_in_flight_max: usize) -> (Toy, Arc<Script>) {
        let script = Arc::new(Script::default());
        let info = DeviceInfo {
            backend: "toy".into(),
            name: "toy".into(),
            memory_bytes: 1 << 20,
            arena_bytes_max: u64::MAX,
            rows_max,
            batches_in_flight_max,
            keys_together_max: 1,
        };
        (Toy { info, script: script.clone(), alive: None }, script)
    }
}

pub struct ToyKey(Arc<Script>);

impl Drop for ToyKey {
    fn drop(&mut self) {
        self.0.count(|counts| {
            counts.keys_overwritten += 1;
            counts.bytes -= KEY_BYTES;
        });
        self.0.act(&self.0.drops).expect("a drop works or panics");
    }
}

pub struct ToyArena {
    words: Vec<u32>,
    script: Arc<Script>,
}

impl ToyArena {
    fn resize(&mut self, slots: usize) {
        let (before, after) = (self.words.len(), slots * ROW_WORDS);
        assert!(before <= after, "arenas only grow");
        self.words.resize(after, 0);
        self.script.count(|counts| counts.bytes += 4 * (after - before) as u64);
    }

    fn row(&self, slot: u32) -> &[u32] {
        &self.words[slot as usize * ROW_WORDS..][..ROW_WORDS]
    }

    fn row_mut(&mut self, slot: u32) -> &mut [u32] {
        &mut self.words[slot as usize * ROW_WORDS..][..ROW_WORDS]
    }
}

impl Drop for ToyArena {
    fn drop(&mut self) {
        self.script.count(|counts| counts.bytes -= 4 * self.words.len() as u64);
        self.script.act(&self.script.drops).expect("a drop works or panics");
    }
}

/// The words of a started batch.
pub struct ToyPending {
    words: Vec<u32>,
    script: Arc<Script>,
}

impl Drop for ToyPending {
    fn drop(&mut self) {
        self.script.count(|counts| counts.in_flight -= 1);
    }
}

impl Backend for Toy {
    type Arena = ToyArena;
    type Pending = ToyPending;

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn arena(&self, row_words: usize, slots: usize) -> kernels::Result<ToyArena> {
        assert_eq!(row_words, ROW_WORDS, "ciphertexts of the toy's keys");
        let mut arena = ToyArena { words: Vec::new(), script: self.script.clone() };
        arena.resize(slots);
        Ok(arena)
    }

    fn grow(&self, arena: &mut ToyArena, slots: usize) -> kernels::Result<()> {
        arena.resize(slots);
        Ok(())
    }

    fn write(&self, arena: &mut ToyArena, first: u32, words: &[u32]) -> kernels::Result<()> {
        arena.words[first as usize * ROW_WORDS..][..words.len()].copy_from_slice(words);
        self.script.count(|counts| counts.rows_written += words.len() / ROW_WORDS);
        Ok(())
    }

    fn read(&self, arena: &ToyArena, slots: &[u32]) -> kernels::Result<ToyPending> {
        let words = slots.iter().flat_map(|&slot| arena.row(slot)).copied().collect();
        self.script.count(|counts| counts.in_flight += 1);
        Ok(ToyPending { words, script: self.script.clone() })
    }

    fn wait(&self, _pending: &ToyPending, wanted: &mut dyn FnMut() -> bool) -> kernels::Result<bool> {
        while !self.script.is_ready() {
            if wanted() {
                return Ok(false);
            }
            std::thread::yield_now();
        }
        Ok(true)
    }

    fn finish(&self, mut pending: ToyPending) -> kernels::Result<Vec<u32>> {
        while !self.script.is_ready() {
            std::thread::yield_now();
        }
        self.script.act(&self.script.finishes)?;
        if std::mem::take(&mut *self.script.short_result.lock().unwrap()) {
            pending.words.pop();
        }
        Ok(std::mem::take(&mut pending.words))
    }
}

impl kernels::ckks::Arithmetic for Toy {
    type Tables = kernels::ckks::Unsupported;
    type Part = kernels::ckks::Unsupported;
}

impl Gates for Toy {
    type Key = ToyKey;

    fn prepare(&self, _params: &Params) -> kernels::Result<()> {
        self.script.act(&self.script.preparations)
    }

    fn room_for_key(&self, _params: &Params) -> kernels::Result<ToyKey> {
        self.script.act(&self.script.loads)?;
        self.script.count(|counts| counts.bytes += KEY_BYTES);
        Ok(ToyKey(self.script.clone()))
    }

    fn load_piece(&self, _into: &mut ToyKey, piece: usize, _key: &EvaluationKey) -> kernels::Result<bool> {
        self.script.act(&self.script.pieces)?;
        let more = piece + 1 < self.script.pieces_of_a_key.load(Ordering::SeqCst);
        self.script.count(|counts| counts.keys_loaded += usize::from(!more));
        Ok(more)
    }

    fn key_bytes(&self, _params: &Params) -> u64 {
        KEY_BYTES
    }

    /// Computes a gate on the signs of the bodies, and a cell on the sum of the bodies. Each slot of a wire has the
    /// same body.
    ///
    /// # Panics
    /// If a slot is read before it is written.
    fn evaluate_together(&self, batches: &mut [KeyedGates<'_, ToyKey, ToyArena>]) -> kernels::Result<ToyPending> {
        self.script.act(&self.script.batches)?;
        let mut words = Vec::new();
        for batch in batches.iter_mut() {
            let levels = batch.levels();
            let KeyedGates { arena, gates, cells, reads, .. } = batch;
            for LevelRows { gates: of_gates, cells: of_cells } in levels {
                for gate in &gates[of_gates] {
                    let bits: Vec<bool> = gate.operands[..gate.gate.arity()]
                        .iter()
                        .map(|&slot| match arena.row(slot)[LWE_DIMENSION] as i32 {
                            0 => panic!("slot {slot} is read before it is written"),
                            body => body > 0,
                        })
                        .collect();
                    arena.row_mut(gate.result).copy_from_slice(encrypt(gate.gate.plain(&bits)).words());
                }
                for cell in of_cells.map(|at| cells.cell(at)) {
                    let body = |slot: u32| match arena.row(slot)[LWE_DIMENSION] {
                        0 => panic!("slot {slot} is read before it is written"),
                        body => body,
                    };
                    let wires = cell.wires().map(|(factor, slots)| body(slots[0]).wrapping_mul(factor as u32));
                    let inputs = cell.inputs().map(|(factor, slot)| body(slot).wrapping_mul(factor as u32));
                    let constant = EIGHTH.wrapping_mul(cell.constant() as u32);
                    let sum = wires.chain(inputs).fold(constant, u32::wrapping_add);
                    for (wire, slots) in cell.results().enumerate() {
                        let turned = sum.wrapping_add(2 * EIGHTH * wire as u32) as i32;
                        let body = match cell.kind() {
                            CellKind::Switch => sum,
                            CellKind::Bootstrap(amplitude) => {
                                let eighths = i32::from(amplitude.eighths()) * turned.signum();
                                EIGHTH.wrapping_mul(eighths as u32)
                            }
                        };
                        slots.iter().for_each(|&slot| arena.row_mut(slot)[LWE_DIMENSION] = body);
                    }
                }
            }
            reads.iter().for_each(|&slot| words.extend_from_slice(arena.row(slot)));
        }
        self.script.count(|counts| {
            counts.batches += batches.len();
            counts.calls += 1;
            counts.rows_read += words.len() / ROW_WORDS;
            counts.in_flight += 1;
            counts.in_flight_max = counts.in_flight_max.max(counts.in_flight);
        });
        Ok(ToyPending { words, script: self.script.clone() })
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
        mod_switch: ModSwitch::Centred,
    };
    Params::try_from(literal).expect("a valid toy")
}

/// An evaluation key of the toy's dimensions, with meaningless words.
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

/// The bits of ciphertexts.
pub fn decrypt(results: &Rows) -> Vec<bool> {
    results.iter().map(|words| words[LWE_DIMENSION] == EIGHTH).collect()
}

pub fn row(gate: Gate, bits: &[bool]) -> GateRow {
    GateRow { gate, operands: bits.iter().map(|&bit| encrypt(bit)).collect() }
}

/// NAND of true and true, `count` times.
pub fn rows(count: usize) -> GateList {
    GateList::of_rows(&vec![row(Gate::Nand, &[true, true]); count])
}
