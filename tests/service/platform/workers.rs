//! A node whose worker answers never, late, in another order, or computes the same work twice.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::OperationId;
use client::Preset;
use control::work::{Ending, Here, Operand, Work, WorkEnd, WorkError, Worker, read_work, write_work};
use serde_json::json;
use tests_service::TestServer;
use tests_service::gates::{Account, BATCH, CIRCUITS, GATE};
use tests_service::worker::Through;
use tokio::sync::watch;

use crate::numbers::Numbers;

/// A worker that changes how ends reach the node.
struct Changed {
    here: Here,
    asked: AtomicUsize,
    answered: Arc<watch::Sender<usize>>,
    change: fn(&Changed, Work) -> Result<Ending, WorkError>,
}

impl Worker for Changed {
    fn ask(&self, work: Work) -> Result<Ending, WorkError> {
        (self.change)(self, work)
    }

    fn done(&self, id: &OperationId) -> Option<u64> {
        self.here.done(id)
    }

    fn cancel(&self, id: &OperationId) {
        self.here.cancel(id);
    }
}

fn changed(here: Here, change: fn(&Changed, Work) -> Result<Ending, WorkError>) -> Arc<dyn Worker> {
    let answered = Arc::new(watch::Sender::new(0));
    Arc::new(Changed { here, asked: AtomicUsize::new(0), answered, change })
}

async fn server(through: Through, deadline: Duration) -> TestServer {
    let folder = tempfile::tempdir().expect("a temporary folder");
    TestServer::asking(through, folder, |config| {
        config.requests.deadline = deadline;
        config.circuits.deadline = deadline;
    })
    .await
}

#[tokio::test]
async fn work_whose_end_never_comes_ends_at_the_deadline_and_is_not_charged() {
    /// Takes the work, computes it, and never tells.
    fn silent(here: Here) -> Arc<dyn Worker> {
        changed(here, |worker, work| {
            let _never_told = worker.here.ask(work)?;
            Ok(Box::pin(std::future::pending()))
        })
    }
    let server = server(silent, Duration::from_secs(2)).await;
    let account = Account::open(&server, Preset::Fast128).await;
    account.post(GATE, &account.gate("NAND", true, Some(true), None)).await.error(503, "SERVICE_UNAVAILABLE");
    let inputs = json!([account.value(&[true]), account.value(&[false])]);
    let circuit = account.circuit("1 3\n2 1 1\n1 1\n\n2 1 0 1 2 AND\n", inputs);
    account.post(CIRCUITS, &circuit).await.error(503, "SERVICE_UNAVAILABLE");
    account.nothing_charged().await;
    server.stop().await;
}

#[tokio::test]
async fn ends_in_the_reverse_order_reach_their_own_requests() {
    const REQUESTS: usize = 3;
    fn reversed(here: Here) -> Arc<dyn Worker> {
        changed(here, |worker, work| {
            let turn = REQUESTS - 1 - worker.asked.fetch_add(1, Ordering::Relaxed);
            let (ending, answered) = (worker.here.ask(work)?, worker.answered.clone());
            Ok(Box::pin(async move {
                let end = ending.await;
                // the work that was asked for last is answered first
                let _ = answered.subscribe().wait_for(|&before| before == turn).await;
                answered.send_modify(|before| *before += 1);
                end
            }))
        })
    }
    let server = server(reversed, Duration::from_secs(60)).await;
    let account = Account::open(&server, Preset::Fast128).await;
    let bodies = [(true, true), (true, false), (false, false)].map(|(a, b)| account.gate("AND", a, Some(b), None));
    let [both, one, none] = &bodies;
    let (both, one, none) = tokio::join!(account.post(GATE, both), account.post(GATE, one), account.post(GATE, none));
    let bits = [both, one, none].map(|answer| account.decrypt(&answer.ok(200)["result_b64"]));
    assert_eq!(bits, [true, false, false]);
    assert_eq!(account.show().await["gates_used"], 3);
    server.stop().await;
}

#[tokio::test]
async fn work_that_is_computed_twice_is_charged_once() {
    /// Delivers the work again when it has ended, and tells the second end.
    fn twice(here: Here) -> Arc<dyn Worker> {
        changed(here, |worker, work| {
            let (bytes, here) = (write_work(&work), worker.here.clone());
            let first = here.ask(work)?;
            Ok(Box::pin(async move {
                assert!(matches!(first.await, WorkEnd::Completed { .. }));
                let again = read_work(&bytes).expect("work is read as it was written");
                here.ask(again).expect("the same work is taken again").await
            }))
        })
    }
    let server = server(twice, Duration::from_secs(60)).await;
    let account = Account::open(&server, Preset::Fast128).await;
    let answer = account.post(GATE, &account.gate("NAND", true, Some(true), None)).await.ok(200);
    assert!(!account.decrypt(&answer["result_b64"]));
    assert_eq!(account.show().await["gates_used"], 1);
    server.stop().await;
}

#[tokio::test]
async fn results_of_another_shape_are_no_answer_and_not_charged() {
    /// Tells one row too many.
    fn long(here: Here) -> Arc<dyn Worker> {
        changed(here, |worker, work| {
            let ending = worker.here.ask(work)?;
            Ok(Box::pin(async move {
                let mut end = ending.await;
                if let WorkEnd::Completed { results, .. } = &mut end {
                    results.words.extend(vec![0; results.row_words]);
                }
                end
            }))
        })
    }
    let server = server(long, Duration::from_secs(60)).await;
    let account = Account::open(&server, Preset::Fast128).await;
    account.post(GATE, &account.gate("NAND", true, Some(true), None)).await.error(500, "INTERNAL_ERROR");
    let inputs = json!([account.value(&[true]), account.value(&[false])]);
    let circuit = account.circuit("1 3\n2 1 1\n1 1\n\n2 1 0 1 2 AND\n", inputs);
    account.post(CIRCUITS, &circuit).await.error(500, "INTERNAL_ERROR");
    account.nothing_charged().await;
    server.stop().await;
}

#[tokio::test]
async fn bytes_of_work_tell_which_operands_are_values_and_objects() {
    static NAMES: Mutex<Vec<Vec<Operand>>> = Mutex::new(Vec::new());
    /// Notes the names of all operands, as another process reads them.
    fn noting(here: Here) -> Arc<dyn Worker> {
        changed(here, |worker, work| {
            let work = read_work(&write_work(&work)).expect("work is read as it was written");
            NAMES.lock().unwrap().push(work.question.operands().into_iter().cloned().collect());
            worker.here.ask(work)
        })
    }
    let noted = || std::mem::take(&mut *NAMES.lock().unwrap());
    let server = server(noting, Duration::from_secs(60)).await;
    let account = Account::open(&server, Preset::Fast128).await;
    let gate = json!({"op": "AND", "a": account.encrypt(true), "b": account.encrypt(true)});
    let request = json!({"session_id": account.session, "gates": [gate], "outputs": "handles"});
    let handle = account.post(BATCH, &request).await.ok(200)["handle"].as_str().unwrap().to_owned();
    assert_eq!(noted(), [[Operand::Words]]);
    let value = Operand::Value(handle.parse().unwrap());
    let gate = json!({"session_id": account.session, "op": "AND", "a": handle, "b": account.encrypt(true)});
    assert!(account.decrypt(&account.post(GATE, &gate).await.ok(200)["result_b64"]));
    assert_eq!(noted(), [[Operand::Words, value.clone()]]);
    let circuit = account.circuit("1 3\n2 1 1\n1 1\n\n2 1 0 1 2 AND\n", json!([handle, account.value(&[true])]));
    assert_eq!(account.bits(&account.post(CIRCUITS, &circuit).await.ok(200)["outputs"][0]), [true]);
    assert_eq!(noted(), [[value, Operand::Words]]);

    let numbers = Numbers::new(&server).await;
    let [a, b] = [numbers.encrypted(&[1.0]).await, numbers.encrypted(&[2.0]).await];
    numbers.compute("add", &[&a, &b], json!({})).await.ok(200);
    assert_eq!(noted(), [[a, b].map(|id| Operand::Object(id.as_str().unwrap().parse().unwrap()))]);
    server.stop().await;
}
