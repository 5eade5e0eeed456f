//! Stored evaluation keys of open sessions: a key is encrypted in the data folder, read again when no device holds it,
//! and deleted with its session (readings G3).

use std::path::PathBuf;
use std::time::Duration;

use client::{Preset, container};
use engine::Gates;
use kernels::cpu::Cpu;
use tests_service::TestServer;
use tests_service::http::Request;
use tests_service::keys;

use tests_service::gates::{Account, EVAL_SESSION, GATE, OCTETS};

/// Returns the paths of a node's key files.
fn files(server: &TestServer) -> Vec<PathBuf> {
    let folder = server.running().config().data_dir.join("keys");
    std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect()
}

async fn nand_is_right(account: &Account<'_>) {
    let answer = account.post(GATE, &account.gate("NAND", true, Some(true), None)).await.ok(200);
    assert!(!account.decrypt(&answer["result_b64"]));
}

#[tokio::test]
async fn g3_a_key_is_a_file_that_opens_for_nobody_and_goes_with_its_session() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let uploaded = &keys::of(Preset::Fast128).evaluation;
    let kept = files(&server);
    assert_eq!(kept.len(), 1);
    let bytes = std::fs::read(&kept[0]).unwrap();
    assert_eq!(bytes.len() as u64, server.metric("ango_key_bytes").await as u64 + 40, "a nonce and a tag more");
    assert_eq!(server.metric("ango_key_bytes").await, uploaded.len() as f64);
    assert!(!bytes.windows(container::MAGIC.len()).any(|window| window == container::MAGIC));
    assert!(!bytes.windows(16).any(|window| window == &uploaded[1000..1016]));
    nand_is_right(&account).await;
    assert_eq!(account.send(Request::delete(account.path(""))).await.status, 204);
    assert!(files(&server).is_empty(), "the file is deleted before the deletion is answered");
    // the file of an expired session is deleted too
    let _other = Account::open(&server, Preset::Fast128).await;
    assert_eq!(files(&server).len(), 1);
    server.clock.advance(Duration::from_secs(3600));
    server.metric_becomes("ango_key_bytes", |bytes| bytes == 0.0).await;
    assert!(files(&server).is_empty());
}

#[tokio::test]
async fn sessions_whose_keys_have_no_place_on_the_device_take_turns() {
    // the device has room for one key, and the node's memory for none
    let of_one = Cpu::open().key_bytes(&Preset::Fast128.params());
    let server = TestServer::with(|config| {
        config.compute.key_bytes_max = 0;
        config.compute.resident_bytes_max = Some(of_one + of_one / 2);
    })
    .await;
    let accounts = [Account::open(&server, Preset::Fast128).await, Account::open(&server, Preset::Fast128).await];
    for account in accounts.iter().cycle().take(4) {
        nand_is_right(account).await;
        assert_eq!(server.metric("ango_resident_bytes").await, of_one as f64);
    }
    assert_eq!(files(&server).len(), 2);
}

#[tokio::test]
async fn a_key_that_cannot_be_read_is_503_charges_nothing_and_can_be_deleted() {
    let server = TestServer::with(|config| config.compute.key_bytes_max = 0).await;
    let [damaged, lost] =
        [Account::open(&server, Preset::Fast128).await, Account::open(&server, Preset::Fast128).await];
    // one account's key is damaged, and the other's is lost; it does not matter which account has which fault
    let files_of_both = files(&server);
    let mut bytes = std::fs::read(&files_of_both[0]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&files_of_both[0], bytes).unwrap();
    std::fs::remove_file(&files_of_both[1]).unwrap();
    for account in [&damaged, &lost] {
        let error = account.post(GATE, &account.gate("NAND", true, Some(true), None)).await;
        let error = error.error(503, "SERVICE_UNAVAILABLE");
        assert!(error["message"].as_str().unwrap().contains("key cannot be read"), "{error}");
        assert_eq!(account.show().await["gates_used"], 0);
        assert_eq!(account.send(Request::delete(account.path(""))).await.status, 204);
    }
    // the node still works
    nand_is_right(&Account::open(&server, Preset::Fast128).await).await;
}

#[tokio::test]
async fn keys_of_an_earlier_process_are_removed_when_the_node_starts() {
    let server = TestServer::start().await;
    let folder = server.running().config().data_dir.join("keys");
    let stopped = server.stop().await;
    let names = ["a".repeat(64), format!("{}#1", "b".repeat(64))];
    names.iter().for_each(|name| std::fs::write(folder.join(name), "a key of a process that was killed").unwrap());
    // `lost+found` is a folder that a mounted disk may bring
    let of_the_disk = folder.join("lost+found");
    std::fs::create_dir(&of_the_disk).unwrap();
    let server = TestServer::in_folder(stopped, |_| ()).await;
    assert_eq!(files(&server), [of_the_disk]);
}

#[tokio::test]
async fn a_key_that_finds_no_room_leaves_nothing_behind() {
    // the node has room for two keys of 10 MB
    let server = TestServer::with(|config| config.compute.key_storage_bytes_max = 24 << 20).await;
    let other = Account::open(&server, Preset::Fast128).await;
    let account = Account::open(&server, Preset::Fast128).await;
    let again = || {
        let evaluation = keys::of(Preset::Fast128).evaluation.clone();
        Request::new("POST", EVAL_SESSION).body(OCTETS, evaluation)
    };
    let refused = account.send(again()).await;
    refused.error(503, "SERVICE_UNAVAILABLE");
    assert!(refused.header("retry-after").is_some());
    assert_eq!((files(&server).len(), server.metric("ango_sessions").await), (2, 2.0));
    assert_eq!(other.send(Request::delete(other.path(""))).await.status, 204);
    account.send(again()).await.ok(201);
    assert_eq!(files(&server).len(), 2);
}
