//! Searches the broker, the bucket and the database of a fleet for secrets (readings A3, K5, X16). The broker may carry ciphertexts.
//! The bucket and the database may not have them unsealed. The canary of this process reads the log and the metrics of all members.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use client::Preset;
use tests_service::fleet::{Fleet, Nats};
use tests_service::gates::{Account, GATE};
use tests_service::http::Request;
use tests_service::keys;
use tests_service::s3::S3;
use tests_store::Kind;

use crate::fleet_versions::{compute_all, numbers};

/// Hears everything that passes a broker from now on. The protocol is text: CONNECT, SUB with a subject and a number, PING.
fn eavesdrop(nats: &Nats) -> Arc<Mutex<Vec<u8>>> {
    let mut server = TcpStream::connect(nats.url().trim_start_matches("nats://")).unwrap();
    server.write_all(b"CONNECT {\"verbose\":false}\r\nSUB > 1\r\nPING\r\n").unwrap();
    let heard: Arc<Mutex<Vec<u8>>> = Arc::default();
    let hears = heard.clone();
    let mut hear = move || {
        let mut chunk = vec![0; 1 << 16];
        let count = server.read(&mut chunk).unwrap_or(0);
        hears.lock().unwrap().extend_from_slice(&chunk[..count]);
        count > 0
    };
    while !contains(&heard.lock().unwrap(), b"PONG") {
        assert!(hear(), "the broker takes the subscription");
    }
    std::thread::spawn(move || while hear() {});
    heard
}

fn contains(place: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(place, part).is_some()
}

/// Which of these parts are in a file below a folder.
fn found_below(folder: &Path, parts: &[(&'static str, &[u8])]) -> BTreeSet<&'static str> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let found = entries.flat_map(|path| match path.is_dir() {
        true => found_below(&path, parts),
        false => {
            // the server deletes files meanwhile
            let bytes = std::fs::read(path).unwrap_or_default();
            parts.iter().filter(|(_, part)| contains(&bytes, part)).map(|(what, _)| *what).collect()
        }
    });
    found.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn x16_the_broker_the_bucket_and_the_database_of_a_fleet_get_no_secret() {
    let Some(nats) = Nats::start() else { return };
    let Some(bucket) = S3::start() else { return };
    let heard = eavesdrop(&nats);
    let Some(fleet) = Fleet::start_on_servers(&nats, &bucket, 1, 1).await else { return };
    let account = Account::open(&fleet.api[0], Preset::Fast128).await;
    let gate = account.gate("NAND", true, Some(true), None);
    account.send(Request::post(GATE, &gate).header("Idempotency-Key", "one")).await.ok(200);
    compute_all(&account, &numbers(&fleet.api[0]).await).await;

    let evaluation = &keys::of(Preset::Fast128).evaluation;
    let middle = evaluation.len() / 2;
    let (fleet_key, ciphertext) = (fleet.key(), gate["a"].as_str().unwrap());
    let bits = STANDARD.decode(ciphertext).unwrap();
    let secrets: [(&'static str, &[u8]); 5] = [
        ("the API key", &account.key.as_bytes()[16..]),
        ("the session's id", &account.session.as_bytes()[5..]),
        ("the evaluation key", &evaluation[middle..middle + 32]),
        ("the fleet's key", fleet_key.as_bytes()),
        ("the secret of the bucket", b"test-secret"),
    ];
    let ciphertexts: [(&'static str, &[u8]); 2] =
        [("a ciphertext", &bits[100..132]), ("a ciphertext as base64", &ciphertext.as_bytes()[200..232])];
    let heard = heard.lock().unwrap();
    assert!(
        contains(&heard, fleet.member.name.as_bytes()) && contains(&heard, ciphertexts[0].1),
        "the broker is heard"
    );
    let by_broker: Vec<_> =
        secrets.iter().filter(|(_, secret)| contains(&heard, secret)).map(|(what, _)| *what).collect();
    assert_eq!(by_broker, [""; 0], "in the messages of the broker");
    let start = ("the public start of the key", &account.key.as_bytes()[..16]);
    let wanted = [&secrets[..], &ciphertexts, &[start]].concat();
    assert_eq!(
        found_below(&Kind::Postgres.on_disk(Path::new("")), &wanted),
        BTreeSet::from([start.0]),
        "in the database"
    );
    let name = ("the name of the fleet", fleet.member.name.as_bytes());
    let wanted = [&secrets[..], &ciphertexts, &[name]].concat();
    assert_eq!(found_below(&bucket.folder().join("data"), &wanted), BTreeSet::from([name.0]), "in the bucket");
}
