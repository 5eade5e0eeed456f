//! Circuits of independent parts on a fleet: workers compute the parts at the same time, and the whole is one operation
//! (readings C4, P24).

use std::time::Instant;

use client::Preset;
use control::admin::Operator;
use control::work::EngineDevice;
use kernels::cpu::{Cpu, Isa};
use serde_json::{Value, json};
use tests_service::PATIENCE;
use tests_service::fleet::Fleet;
use tests_service::gates::{
    Account, CHAIN_BITS, CIRCUITS, OPERATIONS, chain_netlist, chain_result, chains_netlist, chains_result,
};
use tests_service::http::Request;

const CHAINS: usize = 8;
const GATES: usize = 130;
const ALL: u64 = (CHAINS * GATES) as u64;

/// A device with one thread, so that two chains are no faster than one on any machine.
fn one_thread() -> Option<Vec<EngineDevice>> {
    Some(vec![EngineDevice::new(Cpu::with(Isa::available()[0], 1))])
}

fn bits() -> Vec<bool> {
    (0..CHAIN_BITS).map(|at| at % 3 != 1).collect()
}

/// A request for a circuit each of whose gates takes a bootstrap.
fn request(account: &Account<'_>, netlist: &str) -> Value {
    let mut circuit = account.circuit(netlist, json!([account.value(&bits())]));
    circuit["mapping"] = json!("none");
    circuit
}

/// The number of bootstraps that each worker has computed.
fn bootstraps(fleet: &Fleet) -> Vec<u64> {
    fleet.workers.iter().map(|worker| worker.usage().units_done).collect()
}

/// Waits until so many gates of an operation are done, and checks that the number never falls.
async fn until_done(account: &Account<'_>, op_id: &str, wanted: u64) {
    let (until, mut before) = (Instant::now() + PATIENCE, 0);
    while before < wanted {
        assert!(Instant::now() < until, "{before} gates are done");
        let told = account.send(Request::get(format!("{OPERATIONS}/{op_id}"))).await.ok(200);
        let done = told["gates_done"].as_u64().unwrap();
        assert!(done >= before && matches!(told["status"].as_str(), Some("pending" | "running")), "{before} {told}");
        before = done;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn independent_parts_run_on_two_workers_and_are_charged_as_one_circuit() {
    let Some(fleet) = Fleet::start_on(1, 2, one_thread, |_| ()).await else { return };
    let account = Account::open(&fleet.api[0], Preset::Fast128).await;
    let circuit = request(&account, &chains_netlist(CHAINS, GATES));
    let (until, mut runs) = (Instant::now() + PATIENCE, 0);
    // the second of a lane may take a part before the owner has begun to pull
    while runs == 0 || bootstraps(&fleet).iter().any(|&bootstraps| bootstraps < ALL / 2) {
        assert!(Instant::now() < until, "{:?}", bootstraps(&fleet));
        let ran = account.post(CIRCUITS, &circuit).await.ok(200);
        assert_eq!(account.bits(&ran["outputs"][0]), chains_result(CHAINS, GATES, &bits()));
        runs += 1;
        let session = account.show().await;
        assert_eq!((&session["gates_used"], &ran["gates_done"]), (&json!(runs * ALL), &json!(ALL)));
        let [whole, all] = [&ran["cost_jpy"], &session["total_cost_jpy"]].map(|cost| cost.as_f64().unwrap());
        assert!(whole > 0.0 && (all - runs as f64 * whole).abs() < 1e-6, "{whole} {all}");
    }
    // one chain is one part
    let computed: u64 = bootstraps(&fleet).iter().sum();
    let ran = account.post(CIRCUITS, &request(&account, &chain_netlist(300))).await.ok(200);
    assert_eq!(account.bits(&ran["outputs"][0]), [chain_result(300, &bits())]);
    assert!(bootstraps(&fleet).iter().sum::<u64>() >= computed + 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_of_one_worker_computes_the_whole() {
    let Some(fleet) = Fleet::start_on(1, 1, one_thread, |_| ()).await else { return };
    let account = Account::open(&fleet.api[0], Preset::Fast128).await;
    let op_id = account.begin(&request(&account, &chains_netlist(CHAINS, GATES))).await;
    let ended = account.ended(&op_id).await;
    assert_eq!(account.bits(&ended["outputs"][0]), chains_result(CHAINS, GATES, &bits()));
    assert_eq!(account.show().await["gates_used"], ALL);
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_an_operation_in_parts_tells_its_progress_and_is_cancelled_through_any_node() {
    let Some(fleet) = Fleet::start_on(2, 2, one_thread, |_| ()).await else { return };
    let account = Account::open(&fleet.api[0], Preset::Fast128).await;
    let elsewhere =
        Account { server: &fleet.api[1], key: account.key.clone(), session: account.session.clone(), ..account };
    let op_id = account.begin(&request(&account, &chains_netlist(CHAINS, GATES))).await;
    until_done(&elsewhere, &op_id, 1).await;
    let ended = elsewhere.ended(&op_id).await;
    assert_eq!((&ended["status"], &ended["gates_done"]), (&json!("completed"), &json!(ALL)));
    assert_eq!(account.bits(&ended["outputs"][0]), chains_result(CHAINS, GATES, &bits()));
    for node in [&account, &elsewhere] {
        let op_id = account.begin(&request(&account, &chains_netlist(CHAINS, 10 * GATES))).await;
        until_done(&account, &op_id, ALL / 4).await;
        let cancelled = node.send(Request::delete(format!("{OPERATIONS}/{op_id}"))).await.ok(200);
        assert_eq!(cancelled["cancelled"], true);
        let ended = account.ended(&op_id).await;
        assert_eq!(ended["status"], "cancelled");
        assert!(ended["gates_done"].as_u64().unwrap() >= ALL / 4, "{ended}");
    }
    assert_eq!(account.show().await["gates_used"], ALL);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_in_parts_goes_on_from_the_checkpoints_of_its_parts() {
    let Some(mut fleet) = Fleet::start_on(1, 0, one_thread, |_| ()).await else { return };
    fleet.member.checkpoint_period = std::time::Duration::ZERO;
    for _ in 0..2 {
        fleet.add_worker(one_thread()).await;
    }
    fleet.hears_workers(2).await;
    let account = Account::open(&fleet.api[0], Preset::Fast128).await;
    let op_id = account.begin(&request(&account, &chains_netlist(CHAINS, GATES))).await;
    until_done(&account, &op_id, 6 * ALL / 10).await;
    let (key, session, secret) = (account.key.clone(), account.session.clone(), account.secret);
    // with three workers a new circuit has three parts, and this one goes on with two
    fleet.add_worker(one_thread()).await;
    fleet.hears_workers(3).await;
    let account = Account { server: &fleet.api[0], key, session, secret };
    let config = fleet.api[0].running().config().clone();
    let retried = Operator::open(&config).await.unwrap().retry_operation(&config, &op_id).await;
    let ended = account.ended(&op_id).await;
    assert_eq!(account.bits(&ended["outputs"][0]), chains_result(CHAINS, GATES, &bits()));
    // from the beginning it would be 1.6 times as many
    let all: u64 = bootstraps(&fleet).iter().sum();
    assert!(retried.is_ok() && all < ALL * 3 / 2, "{retried:?} {all}");
    assert_eq!(account.show().await["gates_used"], ALL);
}
