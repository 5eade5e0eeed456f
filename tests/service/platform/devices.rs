//! A running node loses a device: the device's work runs again on another device and is charged once, and health
//! reports the loss.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use client::{Preset, netlists};
use control::work::EngineDevice;
use engine::{Backend, DeviceInfo, EvaluationKey, Gates, Params};
use kernels::cpu::{self, Cpu};
use kernels::tfhe::{self, KeyedGates};
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::Request;

use crate::numbers::{Numbers, assert_near};
use tests_service::gates::{Account, BATCH, CIRCUITS, GATE};

/// A card that computes like the CPU until it is lost.
struct Card {
    cpu: Cpu,
    info: DeviceInfo,
    /// Number of batches until the card is lost.
    batches_left: Arc<AtomicUsize>,
}

impl Card {
    /// Makes a card that is lost after this many batches. Returns the card, and the counter of the remaining batches.
    fn that_lasts(batches: usize) -> (Card, Arc<AtomicUsize>) {
        let cpu = Cpu::open();
        let info = DeviceInfo {
            backend: "cuda".into(),
            name: "a frail card".into(),
            keys_together_max: 1,
            ..cpu.info().clone()
        };
        let batches_left = Arc::new(AtomicUsize::new(batches));
        (Card { cpu, info, batches_left: batches_left.clone() }, batches_left)
    }
}

impl Backend for Card {
    type Arena = cpu::Arena;
    type Pending = Vec<u32>;

    fn info(&self) -> &DeviceInfo {
        &self.info
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

impl kernels::ckks::Arithmetic for Card {
    type Tables = kernels::ckks::Unsupported;
    type Part = kernels::ckks::Unsupported;
}

impl Gates for Card {
    type Key = tfhe::cpu::Key;

    fn room_for_key(&self, params: &Params) -> kernels::Result<tfhe::cpu::Key> {
        self.cpu.room_for_key(params)
    }

    fn load_piece(&self, into: &mut tfhe::cpu::Key, piece: usize, key: &EvaluationKey) -> kernels::Result<bool> {
        self.cpu.load_piece(into, piece, key)
    }

    fn key_bytes(&self, params: &Params) -> u64 {
        self.cpu.key_bytes(params)
    }

    fn evaluate_together(
        &self,
        batches: &mut [KeyedGates<'_, tfhe::cpu::Key, cpu::Arena>],
    ) -> kernels::Result<Vec<u32>> {
        assert_eq!(batches.len(), 1, "the card takes one batch at a time");
        let left = self.batches_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.map_err(|_| kernels::Error::Lost("it fell off the bus".into()))?;
        self.cpu.evaluate_together(batches)
    }
}

async fn health(server: &TestServer) -> Value {
    server.send(Request::get("/api/v1/health")).await.ok(200)
}

#[tokio::test]
async fn a_card_lost_in_a_circuit_costs_nothing_but_time() {
    let (card, batches_left) = Card::that_lasts(2);
    let server = TestServer::on(vec![EngineDevice::new(card), EngineDevice::stand_in(Cpu::open())]).await;
    let account = Account::open(&server, Preset::Fast128).await;
    let before = health(&server).await;
    assert_eq!((&before["status"], &before["gpu_name"]), (&json!("healthy"), &json!("a frail card")));

    // the card lasts for two batches, so it is lost when it runs the third level of the circuit
    let bits = |number: u64| (0..64).map(|bit| number >> bit & 1 == 1).collect::<Vec<_>>();
    let inputs = json!([account.value(&bits(3)), account.value(&bits(u64::MAX))]);
    let done = account.post(CIRCUITS, &account.circuit(netlists::ADDER64, inputs)).await.ok(200);
    assert_eq!(account.bits(&done["outputs"][0]), bits(2));
    assert_eq!((batches_left.load(Ordering::SeqCst), &done["gates_done"]), (0, &json!(376)));
    let session = account.show().await;
    assert_eq!((&session["gates_used"], &session["total_cost_jpy"]), (&json!(376), &json!(92.05)));

    let after = health(&server).await;
    assert_eq!((&after["status"], &after["gpu_available"]), (&json!("degraded"), &json!(false)));
    assert!(after["fhe_engine"].as_str().unwrap().starts_with("cpu-"), "{}", after["fhe_engine"]);
    assert_eq!(server.send(Request::get("/health")).await.ok(200)["status"], "degraded");
    assert_eq!(server.metric("ango_devices{state=\"lost\"}").await, 1.0);
    // later work runs on the stand-in with right results
    let later = account.post(BATCH, &account.batch("NAND", 40)).await.ok(200);
    assert!(later["results_b64"].as_array().unwrap().iter().all(|bit| account.decrypt(bit)));
}

#[tokio::test]
async fn without_another_device_a_lost_card_is_a_clear_error_that_costs_nothing() {
    let (card, _) = Card::that_lasts(1);
    let server = TestServer::on(vec![EngineDevice::new(card)]).await;
    let account = Account::open(&server, Preset::Fast128).await;
    let gate = account.gate("NAND", true, Some(true), None);
    account.post(GATE, &gate).await.ok(200);
    for _ in 0..2 {
        let error = account.post(GATE, &gate).await.error(503, "SERVICE_UNAVAILABLE");
        assert!(!error["message"].as_str().unwrap().contains("bus"), "{error}");
    }
    let session = account.show().await;
    assert_eq!((&session["gates_used"], &session["total_cost_jpy"]), (&json!(1), &json!(0.1)));
    assert_eq!(health(&server).await["status"], "degraded");
}

#[tokio::test]
async fn numbers_are_computed_on_the_processor_of_a_node_whose_cards_compute_gates_only() {
    let (card, batches_left) = Card::that_lasts(1000);
    let server = TestServer::on(vec![EngineDevice::new(card), EngineDevice::stand_in(Cpu::open())]).await;
    let numbers = Numbers::new(&server).await;
    let a = numbers.encrypted(&[1.5, -2.0]).await;
    let told = numbers.compute("multiply", &[&a, &a], json!({"scale_stable": true})).await.ok(200);
    assert_near(&numbers.decrypted(&told["result_ciphertext_id"]).await, &[2.25, 4.0]);
    assert_eq!(batches_left.load(Ordering::SeqCst), 1000);
    // gates do run on the card
    let account = Account::open(&server, Preset::Fast128).await;
    let gate = account.gate("NAND", true, Some(true), None);
    account.post(GATE, &gate).await.ok(200);
    assert_eq!(batches_left.load(Ordering::SeqCst), 999);
    assert_eq!(health(&server).await["gpu_name"], "a frail card");
    // the card cannot compute on encrypted numbers, so such operations need a stand-in CPU
    let (card, _) = Card::that_lasts(1);
    let server = TestServer::on(vec![EngineDevice::new(card)]).await;
    let numbers = Numbers::new(&server).await;
    let a = numbers.encrypted(&[1.0]).await;
    numbers.compute("negate", &[&a], json!({})).await.error(400, "INVALID_PARAMS");
}
