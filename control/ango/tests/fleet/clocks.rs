//! Members whose clocks are off. Leases of workers are durations, and API nodes take the time from the database (docs/fleet.md).

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use control::clock::Timestamp;
use control::config::NodeRole;
use tests_service::http::Request;
use tests_service::node::until;

use crate::load::Load;
use crate::operation::Operation;
use crate::place::{Place, open_session};

/// Longer than a test opens its sessions one after another, and shorter than the clocks are off.
const MINUTES: Duration = Duration::from_secs(5 * 60);

/// The library of Debian's package `faketime`, which gives a process another time of day.
fn library() -> Option<String> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let paths = folders.map(|folder| format!("{folder}/faketime/libfaketimeMT.so.1"));
    paths.into_iter().find(|path| Path::new(path).exists())
}

fn library_or_say() -> Option<String> {
    let library = library();
    if library.is_none() {
        println!("not tried: this machine has no faketime (Debian: apt-get install faketime)");
    }
    library
}

/// Gives a process this time of day.
fn off(library: &str, by: &'static str) -> impl FnOnce(&mut Command) {
    let library = library.to_owned();
    move |command| {
        command.env("LD_PRELOAD", library).env("FAKETIME", by).env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_whose_clocks_are_minutes_off_do_all_that_others_do() {
    let Some(library) = library_or_say() else { return };
    let Some(mut place) = Place::new().await else { return };
    let workers = ["-10m", "+10m"].map(|by| place.start(NodeRole::Worker, off(&library, by)));
    let api = place.api();
    place.addresses.lock().unwrap().push(api.address);
    until("the workers are heard", async || api.fleet_workers().await == 2).await;
    let key = place.api_key.clone();
    let mut gates = 0;
    for alone in [false, true] {
        if alone {
            workers[0].kill();
        }
        let session = open_session(&api, &key).await;
        let load = Load::start(&place.addresses, &key, &session);
        load.goes_on(20, "the clocks of workers are minutes off").await;
        let operation = Operation::begin(&api, &key, &session, 30).await;
        operation.assert_right(&operation.ended(&api).await);
        let (answered, failed) = load.end().await;
        assert_eq!(failed, 0, "a request failed");
        gates += answered + 30;
    }
    place.assert_charged(gates..=gates).await;
}

/// S3 refuses requests whose time is more than 15 minutes off.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_a_worker_that_cannot_read_the_bucket_are_served_by_another() {
    let Some(library) = library_or_say() else { return };
    let Some(mut place) = Place::new().await else { return };
    let workers = [place.worker(), place.start(NodeRole::Worker, off(&library, "-1h"))];
    let api = place.api();
    place.addresses.lock().unwrap().push(api.address);
    until("the workers are heard", async || api.fleet_workers().await == 2).await;
    let key = place.api_key.clone();
    let mut gates = 0;
    // so many sessions that each worker owns some
    for number in 0..8 {
        let session = open_session(&api, &key).await;
        let load = Load::start(&place.addresses, &key, &session);
        load.goes_on(6, &format!("session {number}, clocks are an hour off")).await;
        let (answered, failed) = load.end().await;
        assert_eq!(failed, 0, "a request failed");
        gates += answered;
    }
    assert!(workers.iter().all(|worker| !worker.is_dead()));
    place.assert_charged(gates..=gates).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn api_nodes_whose_clocks_are_minutes_off_agree_when_a_session_ends() {
    let Some(library) = library_or_say() else { return };
    let Some(mut place) = Place::new().await else { return };
    let worker = place.worker();
    // the nodes differ by more than the life of a session
    let api = ["-10m", "+0", "+10m"].map(|by| {
        place.start(NodeRole::Api, |command| {
            off(&library, by)(command);
            command.env("ANGO_SESSION_TTL_S", "300");
        })
    });
    let key = place.api_key.clone();
    let mut ends = Vec::new();
    for opens in &api {
        until("the worker is heard", async || opens.fleet_workers().await == 1).await;
        let session = open_session(opens, &key).await;
        let show = Request::get(format!("/api/v1/tfhe/session/{session}")).key(&key);
        let operation = Operation::begin(opens, &key, &session, 2).await;
        for node in &api {
            ends.push(node.send(&show).await.unwrap().ok(200)["expires_at"].as_str().unwrap().to_owned());
            operation.assert_right(&operation.ended(node).await);
        }
    }
    let ends: Vec<_> = ends.iter().map(|end| Timestamp::read(end).expect("a time")).collect();
    let told: Vec<_> = ends.chunks(api.len()).collect();
    assert!(told.iter().all(|of_session| of_session.iter().all(|end| *end == of_session[0])), "{told:?}");
    assert!(ends.iter().all(|end| end.is_near(ends[0], MINUTES)), "{ends:?}");
    assert!(!worker.is_dead());
    place.assert_charged(6..=6).await;
}
