//! A relay between a member of a fleet and a server: a link that the tests cut, stall and slow. A relay in front of an HTTP
//! server can also answer in the server's place.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{LazyLock, mpsc};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, sink};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::channel;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// The state of a link between a member and a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// They pass.
    Whole,
    /// Connections are closed, and new ones are closed at once.
    Cut,
    /// They wait until the link is whole again, as when packets are lost without a word.
    Stalled,
    /// They pass late.
    Slow,
    /// Requests are answered with the status 500, and do not reach the server.
    Failing,
}

/// Where a server listens.
#[derive(Clone, Debug)]
pub enum Server {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// A relay to one server. The relay ends when it is dropped.
pub struct Relay {
    /// Where the relay listens.
    pub address: SocketAddr,
    link: watch::Sender<Link>,
}

/// Delay of a slow link in each direction.
const DELAY: Duration = Duration::from_millis(50);
/// Further delay of a chunk whose packet is lost: the time after which TCP sends a packet again.
const SENT_AGAIN: Duration = Duration::from_millis(200);
/// One chunk of so many is lost.
const LOST: u64 = 100;
/// Bytes of a chunk, and number of chunks on their way.
const CHUNK_BYTES: usize = 16 << 10;
const CHUNKS: usize = 256;

/// The relays have a runtime for themselves, because the start of a node blocks a thread of the test's runtime.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime"));

impl Relay {
    /// Starts a relay to a server.
    pub fn start(server: Server) -> Relay {
        let (link, state) = watch::channel(Link::Whole);
        let (tells, told) = mpsc::channel();
        RUNTIME.spawn(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            tells.send(listener.local_addr().expect("an address")).expect("the test waits");
            let mut ended = state.clone();
            let accepts = async {
                while let Ok((client, _)) = listener.accept().await {
                    tokio::spawn(serve(client, server.clone(), state.clone()));
                }
            };
            tokio::select! {
                () = accepts => {}
                // the relay was dropped
                () = becomes(&mut ended, |_| false) => {}
            }
        });
        Relay { address: told.recv().expect("the relay listens"), link }
    }

    /// Sets what happens to the bytes from now on.
    pub fn set(&self, link: Link) {
        self.link.send_replace(link);
    }
}

/// Waits until the link is so, or the relay is dropped.
async fn becomes(link: &mut watch::Receiver<Link>, is_so: impl Fn(Link) -> bool) {
    let _ = link.wait_for(|link| is_so(*link)).await.map(drop);
}

async fn serve(client: TcpStream, server: Server, link: watch::Receiver<Link>) {
    let (state, mut ends) = (*link.borrow(), link.clone());
    let passes = async {
        match (state, server) {
            (Link::Cut, _) => {}
            (Link::Failing, _) => drop(answer_500(client).await),
            (_, Server::Tcp(address)) => {
                if let Ok(server) = TcpStream::connect(address).await {
                    pass(client, server, &link).await;
                }
            }
            (_, Server::Unix(path)) => {
                if let Ok(server) = UnixStream::connect(path).await {
                    pass(client, server, &link).await;
                }
            }
        }
    };
    tokio::select! {
        () = passes => {}
        () = becomes(&mut ends, |link| link != state && matches!(link, Link::Cut | Link::Failing)) => {}
    }
}

async fn pass(client: TcpStream, server: impl AsyncRead + AsyncWrite, link: &watch::Receiver<Link>) {
    let _ = client.set_nodelay(true);
    let ((from_client, to_client), (from_server, to_server)) = (tokio::io::split(client), tokio::io::split(server));
    tokio::join!(carry(from_client, to_server, link.clone()), carry(from_server, to_client, link.clone()));
}

/// Carries the bytes of one direction.
async fn carry(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, mut link: watch::Receiver<Link>) {
    let (put, mut take) = channel(CHUNKS);
    let reads = async move {
        for number in 1.. {
            let mut chunk = vec![0; CHUNK_BYTES];
            let Ok(count @ 1..) = from.read(&mut chunk).await else { return };
            chunk.truncate(count);
            if put.send((Instant::now(), number, chunk)).await.is_err() {
                return;
            }
        }
    };
    let writes = async move {
        while let Some((read_at, number, chunk)) = take.recv().await {
            becomes(&mut link, |link| link != Link::Stalled).await;
            let is_slow = *link.borrow() == Link::Slow;
            if is_slow {
                let lost: u64 = number;
                sleep_until(read_at + if lost.is_multiple_of(LOST) { DELAY + SENT_AGAIN } else { DELAY }).await;
            }
            if to.write_all(&chunk).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    };
    tokio::join!(reads, writes);
}

/// Answers the first request of a connection.
async fn answer_500(client: TcpStream) -> std::io::Result<()> {
    let (mut from, mut to) = client.into_split();
    // an answer before the request would be an error of the connection
    from.read_exact(&mut [0; 1]).await?;
    to.write_all(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await?;
    to.shutdown().await?;
    // a body that is not read would reset the connection before the client reads the answer
    copy(&mut from, &mut sink()).await.map(drop)
}
