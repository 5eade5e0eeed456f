//! The common parts of endpoints: addresses, bodies, answers, errors, pages of lists, idempotency, the description of
//! the API.

pub mod openapi;
pub mod peer;
pub mod prefer;

pub(crate) mod base64_text;
pub(crate) mod body;
pub(crate) mod cors;
pub(crate) mod edge;
pub(crate) mod envelope;
pub(crate) mod error;
pub(crate) mod host;
pub(crate) mod idempotency;
pub(crate) mod json;
pub(crate) mod octets;
pub(crate) mod offload;
pub(crate) mod pagination;
pub(crate) mod path;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ipnet::IpNet;

use crate::clock::Clock;
use crate::in_flight::InFlight;
use crate::resource::Resource;
use crate::secrets::Key;
use crate::telemetry::Telemetry;
use idempotency::Answers;
use offload::Offload;

/// The state that requests of every area share.
pub struct Web {
    pub(crate) clock: Clock,
    /// Base URL of links to the documentation.
    pub(crate) base_url: String,
    /// Deadline of a request, counted from its arrival.
    pub(crate) deadline: Duration,
    /// Networks of proxies whose `X-Forwarded-For` is trusted.
    pub(crate) trusted_proxies: Vec<IpNet>,
    /// Memory for bodies in transit.
    pub(crate) bodies: Resource,
    pub(crate) offload: Offload,
    /// The key that authenticates cursors of lists.
    pub(crate) cursors: Key,
    /// Answers to requests with an `Idempotency-Key`.
    pub(crate) answers: Answers,
    pub(crate) in_flight: InFlight,
    pub(crate) telemetry: Arc<Telemetry>,
    /// Whether the node has logged the warning about a proxy that the settings do not name.
    pub(crate) unnamed_proxy_logged: AtomicBool,
    pub(crate) draining: AtomicBool,
}

impl Web {
    /// Whether the node is stopping: it finishes running requests and accepts no new ones.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Stops accepting new requests.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }
}
