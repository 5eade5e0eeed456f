//! Members of two versions in one fleet: work has the version that all workers of the pool read, so the workers and the API nodes of
//! a fleet are upgraded one after another.

use ::fleet::presence::{Presence, SPEAKS};
use client::Preset;
use client::ckks::PartKind;
use control::caller::Role;
use serde_json::json;
use tests_service::TestServer;
use tests_service::fleet::Fleet;
use tests_service::gates::{Account, BATCH, CIRCUITS, GATE, and_netlist};
use tests_service::http::Request;

use crate::fleet::of_worker;
use crate::fleet_liars::{presence, tells};
use crate::numbers::{Numbers, testing};

/// So many bits are more than a message has room for.
const WIDTH: usize = 32;

/// An account with a key for numbers, whose ciphertexts are larger than a message.
pub async fn numbers(api: &TestServer) -> Numbers<'_> {
    let (key, params) = (api.key(Role::AccountAdmin).await, testing(4096, 3));
    Numbers::with_parts(api, key, &params, &[(PartKind::Relinearization, 3)]).await
}

/// Computes a gate, a batch, circuits of its result, and operations on numbers. Checks the results.
pub async fn compute_all(account: &Account<'_>, numbers: &Numbers<'_>) {
    account.post(GATE, &account.gate("NAND", true, Some(false), None)).await.ok(200);
    let mut batch = account.batch("NAND", WIDTH);
    batch["outputs"] = json!("handles");
    let batch = account.post(BATCH, &batch).await.ok(200)["handle"].clone();
    let mut circuit = account.circuit(&and_netlist(WIDTH / 2), json!([batch]));
    circuit["outputs"] = json!("handles");
    let op_id = account.begin(&circuit).await;
    assert_eq!(account.ended(&op_id).await["status"], "completed");
    let value = account.post(CIRCUITS, &circuit).await.ok(200)["outputs"][0].clone();
    let read = account.send(Request::get(account.handle(&value))).await.ok(200);
    assert_eq!(account.bits(&read["ciphertexts_b64"]), vec![true; WIDTH / 2]);
    let mut at = numbers.encrypted(&[1.5, -2.0]).await;
    for _ in 0..3 {
        at = numbers.compute("negate", &[&at], json!({})).await.ok(200)["result_ciphertext_id"].clone();
    }
    let found = numbers.decrypted(&at).await;
    assert!((found[0] + 1.5).abs() < 1e-3 && (found[1] - 2.0).abs() < 1e-3, "{:?}", &found[..2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_has_the_version_that_all_workers_of_the_pool_read() {
    let Some(fleet) = Fleet::start(1, 1, |_| ()).await else { return };
    let account = Account::open(&fleet.api[0], Preset::Fast128).await;
    let numbers = numbers(&fleet.api[0]).await;
    let remembered = async || of_worker(&fleet, "ango_fleet_operands_remembered_total").await;
    // a worker of the version before that leaves owns no flow, and may still read a message
    let [oldest, newest] = SPEAKS;
    let old = Presence { speaks: [oldest, newest - 1], draining: true, ..presence("old") };
    let (_broker, old) = tells(&fleet.member, old).await;
    fleet.hears_workers(2).await;
    compute_all(&account, &numbers).await;
    assert_eq!(remembered().await, 0, "the version before does not leave out operands");
    old.abort();
    fleet.hears_workers(1).await;
    compute_all(&account, &numbers).await;
    let of_newest = remembered().await;
    assert!(of_newest > 0);
    // a worker of the next version reads this one too
    let new = Presence { speaks: [newest, newest + 1], draining: true, ..presence("new") };
    let (_broker, _new) = tells(&fleet.member, new).await;
    fleet.hears_workers(2).await;
    compute_all(&account, &numbers).await;
    assert!(remembered().await > of_newest);
}
