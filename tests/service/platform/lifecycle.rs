//! A node's start and stop, and what happens to the work of clients that leave (readings P24).

use client::Preset;
use control::app::App;
use control::caller::Role;
use control::config::Config;
use serde_json::json;
use tests_service::TestServer;
use tests_service::http::{Request, Response};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use tests_service::gates::{Account, BATCH};

#[tokio::test]
async fn one_node_a_folder() {
    let server = TestServer::start().await;
    let mut config = Config::in_folder(server.running().config().data_dir.clone());
    config.metrics_listen = "127.0.0.1:0".parse().unwrap();
    let error = App::start(config).await.err().expect("a second node does not start").to_string();
    assert!(error.contains("another node"), "{error}");
}

#[tokio::test]
async fn an_address_in_use_is_told_with_the_variable_s_name() {
    let server = TestServer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::in_folder(folder.path());
    config.listen = server.address;
    let error = App::start(config).await.err().expect("the address is taken").to_string();
    assert!(error.starts_with("ANGO_LISTEN: "), "{error}");
}

#[tokio::test]
async fn a_stopping_node_finishes_what_it_has_and_refuses_what_is_new() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    // this batch takes so long that on any machine it still runs when the following requests are sent
    let batch = Request::post(BATCH, &account.batch("MUX", 1024)).key(&account.key);
    let (address, operations) = (server.address, server.operations);
    let running = tokio::spawn(async move { batch.send(address).await });
    server.metric_becomes("ango_operations", |operations| operations > 0.0).await;
    // the connections are opened before the node stops, because a stopped node accepts none
    let mut late = TcpStream::connect(address).await.unwrap();
    let mut health = TcpStream::connect(address).await.unwrap();
    let mut probe = TcpStream::connect(operations).await.unwrap();
    drop(account);
    let stopping = tokio::spawn(server.stop());
    tokio::task::yield_now().await;
    late.write_all(Request::get("/api/v1/models").head().as_bytes()).await.unwrap();
    Response::read(&mut late).await.error(503, "SERVICE_UNAVAILABLE");
    health.write_all(Request::get("/health").head().as_bytes()).await.unwrap();
    let health = Response::read(&mut health).await;
    assert_eq!((&health.ok(503)["status"], health.header("retry-after")), (&json!("unavailable"), Some("2")));
    probe.write_all(Request::get("/readyz").head().as_bytes()).await.unwrap();
    assert_eq!(Response::read(&mut probe).await.status, 503);
    assert_eq!(running.await.unwrap().ok(200)["results_b64"].as_array().unwrap().len(), 1024);
    stopping.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn p24_work_of_a_client_that_went_away_is_completed_and_charged() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let body = account.batch("NAND", 256).to_string();
    let request = Request::new("POST", BATCH).body("application/json", body.clone()).key(&account.key);
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(request.head().as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    server.metric_becomes("ango_operations", |operations| operations > 0.0).await;
    drop(stream);
    server.metric_becomes("ango_gates_total{gate=\"NAND\"}", |gates| gates == 256.0).await;
    let session = account.show().await;
    assert_eq!((&session["gates_used"], &session["total_cost_jpy"]), (&json!(256), &json!(17.92)));
}

#[tokio::test]
async fn e9_work_past_its_deadline_is_503_and_not_charged() {
    let server = TestServer::with(|config| config.requests.deadline = std::time::Duration::from_millis(1)).await;
    let account = Account::open(&server, Preset::Fast128).await;
    account.post(BATCH, &account.batch("NAND", 512)).await.error(503, "SERVICE_UNAVAILABLE");
    account.nothing_charged().await;
}

#[tokio::test]
async fn a_full_queue_is_503_with_a_time_to_come_back() {
    let server = TestServer::with(|config| {
        config.compute.queue_rows_max = 1024;
        config.compute.session_rows_max = 1024;
    })
    .await;
    let account = Account::open(&server, Preset::Fast128).await;
    let batch = Request::post(BATCH, &account.batch("NAND", 1024)).key(&account.key);
    let address = server.address;
    let running = tokio::spawn(async move { batch.send(address).await });
    server.metric_becomes("ango_operations", |operations| operations > 0.0).await;
    account.post(BATCH, &account.batch("NAND", 1024)).await.error(503, "SERVICE_UNAVAILABLE");
    running.await.unwrap().ok(200);
    assert_eq!(account.show().await["gates_used"], 1024);
}

#[tokio::test]
async fn a_key_made_while_the_node_runs_works_at_once() {
    let server = TestServer::start().await;
    assert!(!server.running().has_api_keys);
    let key = server.key(Role::AccountAdmin).await;
    server.send(Request::get("/api/v1/tfhe/sessions").key(&key)).await.ok(200);
}

#[tokio::test]
async fn e8_o2_without_its_database_a_node_is_unavailable_and_says_so() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let gate = account.gate("NAND", true, Some(true), None);
    server.running().store().close().await;
    let health = server.send(Request::get("/health")).await.ok(503);
    assert_eq!(health["status"], "unavailable");
    let health = server.send(Request::get("/api/v1/health")).await.ok(503);
    let database = if health["storage"].is_null() { &health["dependencies"][0] } else { &health["storage"] };
    assert_eq!((&health["status"], &database["status"]), (&json!("unavailable"), &json!("unavailable")));
    assert_eq!(database["latency_ms"], json!(null));
    assert_eq!(server.operations_get("/readyz").await.status, 503);
    assert_eq!(server.operations_get("/livez").await.status, 200);
    // a gate that cannot be charged is not computed
    account.post("/api/v1/tfhe/gate", &gate).await.error(503, "SERVICE_UNAVAILABLE");
    account.send(Request::get("/api/v1/tfhe/sessions")).await.error(503, "SERVICE_UNAVAILABLE");
    // e10: the answer does not reveal the cause
    let error = account.send(Request::get(account.path(""))).await.error(503, "SERVICE_UNAVAILABLE");
    assert!(!error.to_string().contains("pool") && !error.to_string().contains("sql"), "{error}");
}
