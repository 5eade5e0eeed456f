//! Workers on other machines. An API node asks ([`Fleet`]), and a worker takes work from its lane and computes
//! ([`start_worker`]). The crate `fleet` has the lanes and the broker; this folder has what a message contains, and how keys
//! reach a worker.
//!
//! Only names pass the broker. Operands up to 64 KB are in the message; larger ones, keys and large results pass the API
//! node's internal listener, which a worker calls with the token of the request.

pub mod access;
mod asks;
mod caller;
mod computes;
mod content;
mod frames;
pub mod internal;
mod member;
mod news;
mod pace;
mod parts;
mod pending;
mod popularity;
mod rows_key;
mod session_key;
mod split;
mod values;
mod warmth;
mod worker;
mod worker_keys;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ::fleet::broker::is_name;

use crate::parsers::{parsed, seconds};
use crate::secrets::{Key, ServerSecret};

pub use self::access::{Checkpoints, Kept, Reading};
pub use self::asks::{Fleet, ForOperations};
pub use self::frames::{open as open_value, seal as seal_value};
pub use self::member::{BrokerUrl, Member, POOL};
pub use self::news::News;
pub use self::rows_key::RowsKey;
pub use self::session_key::{FleetSeal, KeyFacts, SealedSessionKey};
pub use self::worker::{WorkerPart, start_worker};

/// The role of a process in a service of several machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeRole {
    /// Takes requests and computes.
    #[default]
    All,
    /// Takes requests, and asks the workers of its fleet to compute.
    Api,
    /// Computes for the API nodes of its fleet. Has neither a database nor a public port.
    Worker,
}

impl std::str::FromStr for NodeRole {
    type Err = ();

    fn from_str(word: &str) -> Result<NodeRole, ()> {
        match word {
            "all" => Ok(NodeRole::All),
            "api" => Ok(NodeRole::Api),
            "worker" => Ok(NodeRole::Worker),
            _ => Err(()),
        }
    }
}

/// Settings of a fleet.
#[derive(Clone, Debug, clap::Args)]
pub struct FleetConfig {
    /// Role of the process: all (takes requests and computes), api (takes requests, workers compute) or worker (computes for
    /// API nodes). The roles api and worker need ANGO_NATS_URL and ANGO_OBJECTS_URL.
    #[arg(id = "node_role", long = "node-role", env = "ANGO_ROLE", default_value = "all", value_parser = parsed::<NodeRole>("all, api or worker"))]
    pub role: NodeRole,
    /// The broker of the fleet, NATS 2.12 or newer with JetStream: nats://USER:PASSWORD@HOST:4222 or tls://HOST:4222, several
    /// servers separated by commas. When set, the node is a member of a fleet. Give a password in the variable or in the
    /// settings file.
    #[arg(env = "ANGO_NATS_URL", hide_env_values = true, value_parser = BrokerUrl::read)]
    pub broker: Option<BrokerUrl>,
    /// File with credentials for the broker (.creds), in place of a user and a password in ANGO_NATS_URL.
    #[arg(env = "ANGO_NATS_CREDENTIALS")]
    pub broker_credentials: Option<PathBuf>,
    /// Number of the broker's servers that keep a waiting request: 1 to 5. With 1, the death of its server delays a request by some
    /// seconds. With more, every request waits until the servers agree.
    #[arg(id = "nats_replicas", env = "ANGO_NATS_REPLICAS", default_value = "1", value_parser = crate::parsers::number::<usize>(1..=5))]
    pub replicas: usize,
    /// Name of the fleet, which begins all names in the broker. Fleets of several names share a broker.
    #[arg(id = "fleet_name", env = "ANGO_FLEET_NAME", default_value = "ango", value_parser = fleet_name)]
    pub name: String,
    /// The fleet's key, with which a worker opens the keys of sessions: 64 hexadecimal characters, as `ango admin fleet-key`
    /// prints. For workers only: an API node derives the key from ANGO_SECRET.
    #[arg(id = "fleet_key", env = "ANGO_FLEET_KEY", hide = true, value_parser = ServerSecret::read)]
    pub key: Option<ServerSecret>,
    /// Name of the worker. A worker that starts again under its name gets the same sessions. When unset, the id in the data
    /// folder.
    #[arg(env = "ANGO_WORKER_NAME", value_parser = fleet_name)]
    pub worker_name: Option<String>,
    /// Seconds of computation after which a worker keeps the state of an operation that runs in the background, 0 to 3600. If
    /// the worker dies, another one goes on from there. 0: after each level.
    #[arg(env = "ANGO_CHECKPOINT_S", default_value = "30", value_parser = seconds(0..=3600))]
    pub checkpoint_period: Duration,
    /// Address of the internal listener of an API node, where workers fetch operands and return results. The listener has no
    /// TLS: keep the address in a private network.
    #[arg(env = "ANGO_INTERNAL_LISTEN", default_value = "127.0.0.1:9465")]
    #[arg(value_parser = parsed::<SocketAddr>("an address such as 127.0.0.1:9465"))]
    pub internal_listen: SocketAddr,
    /// Address under which workers reach ANGO_INTERNAL_LISTEN. When unset, http:// and the listening address.
    #[arg(env = "ANGO_INTERNAL_URL", value_parser = internal_url)]
    pub internal_url: Option<String>,
}

/// Number of operations of the waiting line that a worker computes at the same time. Requests have room besides them.
pub const OPERATIONS_MAX: u64 = 4;

impl FleetConfig {
    /// Whether the process is a member of a fleet.
    pub fn is_member(&self) -> bool {
        self.broker.is_some()
    }

    /// Returns the fleet's key that a worker was given.
    pub fn worker_key(&self) -> Option<Key> {
        self.key.as_ref().map(|key| key.0.clone())
    }
}

fn fleet_name(text: &str) -> Result<String, &'static str> {
    if is_name(text) { Ok(text.to_owned()) } else { Err("must be 1 to 64 of a-z, A-Z, 0-9, - and _") }
}

fn internal_url(text: &str) -> Result<String, &'static str> {
    let is_url = url::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if is_url {
        Ok(text.trim_end_matches('/').to_owned())
    } else {
        Err("must be an address such as http://10.0.0.1:9465")
    }
}
