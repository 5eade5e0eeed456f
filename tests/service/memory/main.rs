//! X6: an upload of 40 MB takes less memory than three times its size. The test is alone in its process, so that no
//! other memory is counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use client::Preset;
use control::caller::Role;
use tests_service::TestServer;
use tests_service::http::{Request, Response};
use tests_service::keys;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// An allocator that counts the allocated bytes, and remembers the largest count.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system allocator does all the work, and the counters do not touch the memory
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: `System.alloc` requires what this function requires, and the caller has met these requirements
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `System.dealloc` requires what this function requires, and the caller has met these requirements
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MB: usize = 1 << 20;

/// Sends a body of `start`, `pieces` equal pieces, and `end`, one after another, so that the pieces are never together
/// in memory. Returns the answer, and the largest number of bytes by which the allocated memory grew.
async fn send(server: &TestServer, head: Request, start: &[u8], pieces: usize, end: &[u8]) -> (Response, usize) {
    static PIECE: [u8; 64 << 10] = [b'A'; 64 << 10];
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(head.head().as_bytes()).await.unwrap();
    stream.write_all(start).await.unwrap();
    for _ in 0..pieces {
        stream.write_all(&PIECE).await.unwrap();
    }
    stream.write_all(end).await.unwrap();
    let answer = Response::read(&mut stream).await;
    (answer, PEAK.load(Ordering::Relaxed) - before)
}

#[tokio::test]
async fn x6_a_40_mb_upload_is_in_memory_once_in_either_form() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    let post = |content_type: &str, length: usize| {
        let request = Request::new("POST", "/api/v1/tfhe/eval-session").key(&key);
        request.header("Content-Type", content_type).header("Content-Length", &length.to_string())
    };

    let head = post("application/octet-stream", 40 * MB);
    let (answer, peak) = send(&server, head, b"", (40 * MB) >> 16, b"").await;
    answer.error(400, "INVALID_PARAMS");
    assert!(peak < 48 * MB, "octets: {} MB", peak / MB);

    // 852 pieces of 64 KiB of base64 encode a key of 39.9 MiB
    let (start, end) = (br#"{"eval_key_b64":""#, br#""}"#);
    let head = post("application/json", start.len() + 852 * (64 << 10) + end.len());
    let (answer, peak) = send(&server, head, start, 852, end).await;
    answer.error(400, "INVALID_PARAMS");
    assert!(peak < 48 * MB, "JSON with its length: {} MB", peak / MB);

    // an accepted key is in memory twice: as the uploaded octets, which are encrypted in place, and as the key read
    // from them
    let evaluation = &keys::of(Preset::Standard128).evaluation;
    let head = post("application/octet-stream", evaluation.len());
    let (answer, peak) = send(&server, head, evaluation, 0, b"").await;
    answer.ok(201);
    assert!(peak < 2 * evaluation.len() + 4 * MB, "a key of {} MB: {} MB", evaluation.len() / MB, peak / MB);

    let text = STANDARD.encode(evaluation);
    let head = post("application/json", start.len() + text.len() + end.len());
    let body = [start, text.as_bytes()].concat();
    let (answer, peak) = send(&server, head, &body, 0, end).await;
    answer.ok(201);
    assert!(peak < 2 * evaluation.len() + 4 * MB, "a key of {} MB in JSON: {} MB", evaluation.len() / MB, peak / MB);

    server.stop().await;
}
