//! Constant load on a fleet.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use client::Preset;
use serde_json::json;
use tests_service::gates::{GATE, base64, bytes};
use tests_service::http::Request;
use tests_service::keys;
use tests_service::node::until;

/// Number of clients that send gates, one after another each.
const CLIENTS: usize = 3;

/// A client rests so long between its gates, so that the load leaves the machine time for what the fault costs.
const REST: Duration = Duration::from_millis(50);

/// Clients that send gates to all API nodes in turn, and check each answer.
pub struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
    slowest_ms: Arc<AtomicU64>,
    clients: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    /// Starts the clients. `addresses`: the API nodes, which the clients ask in turn.
    pub fn start(addresses: &Arc<Mutex<Vec<SocketAddr>>>, key: &str, session: &str) -> Load {
        let (stop, answered, failed, slowest_ms) = Default::default();
        let mut load = Load { stop, answered, failed, slowest_ms, clients: Vec::new() };
        for client in 0..CLIENTS {
            let (stop, answered, failed) = (load.stop.clone(), load.answered.clone(), load.failed.clone());
            let (slowest, addresses) = (load.slowest_ms.clone(), addresses.clone());
            let (key, session) = (key.to_owned(), session.to_owned());
            load.clients.push(tokio::spawn(async move {
                let secret = keys::of(Preset::Fast128);
                let encrypt = |bit| base64(&secret.encrypt(bit));
                for turn in client.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let [a, b] = [turn % 2 == 0, turn % 3 == 0];
                    let body = json!({"session_id": session, "op": "NAND", "a": encrypt(a), "b": encrypt(b)});
                    let begun = Instant::now();
                    let address = {
                        let addresses = addresses.lock().unwrap();
                        addresses[turn % addresses.len()]
                    };
                    let answer = Request::post(GATE, &body).key(&key).try_send(address).await;
                    match answer {
                        Some(answer) if answer.status == 200 => {
                            let result = answer.ok(200)["result_b64"].clone();
                            assert_eq!(secret.decrypt(&bytes(&result)), !(a && b), "a wrong answer");
                            answered.fetch_add(1, Ordering::Relaxed);
                            slowest.fetch_max(begun.elapsed().as_millis() as u64, Ordering::Relaxed);
                        }
                        other => {
                            // many failures of one fault are alike
                            if failed.fetch_add(1, Ordering::Relaxed) % 16 == 0 {
                                let told = other.map(|answer| format!("{} {}", answer.status, answer.text()));
                                println!("a gate failed: {}", told.as_deref().unwrap_or("the node is away"));
                            }
                        }
                    }
                    tokio::time::sleep(REST).await;
                }
            }));
        }
        load
    }

    /// Waits until this many more gates are answered, after something happened to the fleet. Prints the time of the slowest.
    pub async fn goes_on(&self, more: u64, after: &str) {
        let wanted = self.answered.load(Ordering::Relaxed) + more;
        until("gates are answered", async || self.answered.load(Ordering::Relaxed) >= wanted).await;
        println!("{after}: the slowest gate took {} ms", self.slowest_ms.swap(0, Ordering::Relaxed));
    }

    /// Ends the load. Returns the numbers of answered and of failed gates.
    pub async fn end(self) -> (u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.await.expect("every answer is right");
        }
        (self.answered.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }
}
