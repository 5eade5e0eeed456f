//! Ports of servers that are started again on the same port.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Ports of this module. The system itself assigns ports from 32768 on, so no connection takes the port of a server that is down.
const PORTS: std::ops::Range<u16> = 2048..12000;
/// Each process begins at another port, and has so many before the next process's.
const OF_PROCESS: u16 = 40;

/// Returns a port that is free, and that no other call in this process returns.
///
/// # Panics
/// If no port is free.
pub fn free() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let processes = u32::from(PORTS.len() as u16 / OF_PROCESS);
    let first = (std::process::id() % processes) as u16 * OF_PROCESS;
    let port = || PORTS.start + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % PORTS.len() as u16;
    let ports = std::iter::repeat_with(port).take(PORTS.len());
    let mut free = ports.filter(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok());
    free.next().expect("a free port")
}
