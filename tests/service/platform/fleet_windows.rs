//! Long operations on numbers in a fleet: a worker keeps the ciphertexts between two levels, and another goes on from them.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use client::ckks::{Params, ParamsLiteral, evaluation_key_parts};
use control::caller::Role;
use control::work::EngineDevice;
use engine::{Backend, DeviceInfo, EvaluationKey, Gates};
use kernels::ckks::{Arithmetic, KeyedSteps, PartShape, SeededRow};
use kernels::cpu::{self, Cpu};
use kernels::tfhe::{self, KeyedGates};
use serde_json::{Value, json};
use tests_service::PATIENCE;
use tests_service::fleet::Fleet;
use tests_service::gates::OCTETS;
use tests_service::http::Request;

use crate::compute::ended;
use crate::numbers::{Numbers, testing};

/// Batches of the bootstrap that the first worker computes before it dies.
const BATCHES: usize = 10;

/// Stops a device after some batches.
#[derive(Default)]
struct Brake {
    state: Mutex<BrakeState>,
    changed: Condvar,
}

#[derive(Default)]
struct BrakeState {
    /// The number of batches that may still run. `None`: all.
    left: Option<usize>,
    /// Whether a batch waits.
    holds: bool,
}

impl Brake {
    fn set(&self, left: Option<usize>) {
        self.state.lock().unwrap().left = left;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        while state.left == Some(0) {
            state.holds = true;
            state = self.changed.wait(state).unwrap();
        }
        state.left = state.left.map(|left| left - 1);
    }

    fn holds(&self) -> bool {
        self.state.lock().unwrap().holds
    }
}

/// A CPU with a brake.
struct Braked {
    cpu: Cpu,
    brake: Arc<Brake>,
}

impl Backend for Braked {
    type Arena = cpu::Arena;
    type Pending = Vec<u32>;

    fn info(&self) -> &DeviceInfo {
        self.cpu.info()
    }

    fn arena(&self, row_words: usize, slots: usize) -> kernels::Result<cpu::Arena> {
        self.cpu.arena(row_words, slots)
    }

    fn grow(&self, arena: &mut cpu::Arena, slots: usize) -> kernels::Result<()> {
        self.cpu.grow(arena, slots)
    }

    fn write(&self, arena: &mut cpu::Arena, first: u32, words: &[u32]) -> kernels::Result<()> {
        self.cpu.write(arena, first, words)
    }

    fn read(&self, arena: &cpu::Arena, slots: &[u32]) -> kernels::Result<Vec<u32>> {
        self.cpu.read(arena, slots)
    }

    fn finish(&self, pending: Vec<u32>) -> kernels::Result<Vec<u32>> {
        self.cpu.finish(pending)
    }
}

impl Arithmetic for Braked {
    type Tables = <Cpu as Arithmetic>::Tables;
    type Part = <Cpu as Arithmetic>::Part;

    fn tables_bytes(&self, params: &Params) -> Option<u64> {
        self.cpu.tables_bytes(params)
    }

    fn make_tables(&self, params: &Params) -> kernels::Result<Self::Tables> {
        self.cpu.make_tables(params)
    }

    fn part_bytes(&self, shape: &PartShape) -> u64 {
        self.cpu.part_bytes(shape)
    }

    fn room_for_part(&self, tables: &Self::Tables, shape: &PartShape) -> kernels::Result<Self::Part> {
        self.cpu.room_for_part(tables, shape)
    }

    fn load_row(&self, tables: &Self::Tables, into: &mut Self::Part, row: &SeededRow<'_>) -> kernels::Result<()> {
        self.cpu.load_row(tables, into, row)
    }

    fn run(&self, batches: &mut [KeyedSteps<'_, Braked>]) -> kernels::Result<Vec<u32>> {
        assert_eq!(batches.len(), 1, "a CPU takes one batch at a time");
        self.brake.pass();
        let KeyedSteps { tables, parts, arena, plans } = &mut batches[0];
        self.cpu.run(&mut [KeyedSteps { tables, parts: parts.clone(), arena, plans }])
    }
}

impl Gates for Braked {
    type Key = tfhe::cpu::Key;

    fn room_for_key(&self, params: &engine::Params) -> kernels::Result<tfhe::cpu::Key> {
        self.cpu.room_for_key(params)
    }

    fn load_piece(&self, into: &mut tfhe::cpu::Key, piece: usize, key: &EvaluationKey) -> kernels::Result<bool> {
        self.cpu.load_piece(into, piece, key)
    }

    fn key_bytes(&self, params: &engine::Params) -> u64 {
        self.cpu.key_bytes(params)
    }

    fn evaluate_together(
        &self,
        batches: &mut [KeyedGates<'_, tfhe::cpu::Key, cpu::Arena>],
    ) -> kernels::Result<Vec<u32>> {
        self.cpu.evaluate_together(batches)
    }
}

/// Begins a bootstrap in the background. Returns the operation's id.
async fn begin(numbers: &Numbers<'_>, of: &Value) -> Value {
    let request = numbers.request("bootstrap", &[of], json!({})).header("Prefer", "respond-async");
    numbers.send(request).await.ok(200)["op_id"].clone()
}

/// Waits for the end of an operation, which must have a result. Returns the result's container.
async fn result(numbers: &Numbers<'_>, op_id: &Value) -> Vec<u8> {
    let told = ended(numbers, op_id).await;
    assert_eq!(told["status"], "completed", "{told}");
    let path = format!("/api/v1/ciphertexts/{}", told["result_ciphertext_id"].as_str().unwrap());
    numbers.send(Request::get(path).header("Accept", OCTETS)).await.body
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bootstrap_goes_on_where_a_worker_that_died_had_kept_it_and_is_charged_once() {
    let Some(mut fleet) = Fleet::start(1, 0, |_| ()).await else { return };
    fleet.member.checkpoint_period = Duration::ZERO;
    let brake = Arc::new(Brake::default());
    let device = EngineDevice::new(Braked { cpu: Cpu::open(), brake: brake.clone() });
    let (first, process) = fleet.worker_that_dies(Some(vec![device])).await;
    fleet.hears_workers(1).await;
    let api = fleet.api.remove(0);
    let params = Params::new(ParamsLiteral { bootstrap: true, ..testing(64, 3).literal() }).unwrap();
    let key = api.key(Role::Developer).await;
    let numbers = Numbers::with_parts(&api, key, &params, &evaluation_key_parts(&params)).await;
    let a = numbers.encrypted_within(&[0.5, -1.0, 0.25], 1.0).await;
    let whole = result(&numbers, &begin(&numbers, &a).await).await;
    let steps = first.usage().rows_done;
    // the second time the worker dies between two of its checkpoints
    brake.set(Some(BATCHES));
    let op_id = begin(&numbers, &a).await;
    let begun = Instant::now();
    while !brake.holds() {
        assert!(begun.elapsed() < PATIENCE, "the worker does not begin");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let done = first.usage().rows_done - steps;
    assert!(done > 0 && done < steps, "{done} of {steps} steps");
    process.shutdown_background();
    fleet.add_worker(None).await;
    assert!(result(&numbers, &op_id).await == whole, "the same bytes as without a break");
    let again = fleet.workers[0].usage().rows_done;
    // a level that the first worker had not finished is computed again
    assert!(again >= steps - done && again < steps, "{again} of {steps} steps, {done} were done");
    assert_eq!(numbers.record().await["operation_count"], 2);
    brake.set(None);
}
