//! A proxy in front of PostgreSQL's socket. A test can close or silence the proxy's connections.

use std::path::{Path, PathBuf};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

/// The state of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Up,
    /// Connections are accepted and stay open, but no bytes pass.
    Silent,
    /// Connections are closed.
    Down,
}

/// The state, and the number of times that the proxy forgot its connections.
type Told = (State, u32);

/// A proxy in front of a server's socket.
pub struct Wire {
    state: watch::Sender<Told>,
}

impl Wire {
    /// Starts a proxy to the server of this database URL, with the proxy's socket in this folder. Returns the proxy,
    /// and the URL of the database through the proxy.
    pub fn to(url: &str, folder: &Path) -> (Wire, String) {
        let (database, sockets) = url.split_once("?host=").expect("a database on a local socket");
        let server = Path::new(sockets).join(".s.PGSQL.5432");
        (Wire::lay(folder, server), format!("{database}?host={}", folder.display()))
    }

    fn lay(folder: &Path, server: PathBuf) -> Wire {
        let listener = UnixListener::bind(folder.join(".s.PGSQL.5432")).expect("a socket in the folder");
        let state = watch::Sender::new((State::Up, 0));
        let told = state.subscribe();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (server, mut told) = (server.clone(), told.clone());
                tokio::spawn(async move {
                    let (begun, of) = *told.borrow();
                    if begun == State::Down {
                        return;
                    }
                    let far = UnixStream::connect(server).await.expect("the server");
                    let (near, far) = (near.into_split(), far.into_split());
                    tokio::select! {
                        _ = pass(near.0, far.1, told.clone(), of) => {}
                        _ = pass(far.0, near.1, told.clone(), of) => {}
                        _ = told.wait_for(|(state, _)| *state == State::Down) => {}
                    }
                });
            }
        });
        Wire { state }
    }

    /// Lets all bytes pass, including the bytes that were held back.
    pub fn up(&self) {
        self.turn(State::Up);
    }

    /// Whether all connections are closed.
    pub fn is_down(&self) -> bool {
        self.state.borrow().0 == State::Down
    }

    /// Lets no bytes of the present connections pass, for ever, as a firewall that has forgotten them. New connections
    /// work.
    pub fn forget_connections(&self) {
        self.state.send_modify(|(_, forgotten)| *forgotten += 1);
    }

    fn turn(&self, state: State) {
        self.state.send_modify(|(present, _)| *present = state);
    }

    /// Lets no bytes pass. Connections stay open.
    pub fn silent(&self) {
        self.turn(State::Silent);
    }

    /// Closes all connections, and from now on each new connection at once.
    pub fn down(&self) {
        self.turn(State::Down);
    }
}

/// Passes bytes on while the proxy is up, and holds the bytes back while the proxy is silent.
async fn pass(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut told: watch::Receiver<Told>,
    of: u32,
) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let Ok(count @ 1..) = from.read(&mut bytes).await else { return };
        let up = told.wait_for(|told| *told == (State::Up, of)).await.is_ok();
        if !up || to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
