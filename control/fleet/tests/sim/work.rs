//! Pieces of work: what is asked, and how that ended. The answer of a piece of work is a function of its id.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fleet::asking::{Asking, NotAnswered};

/// The answer for work that several workers did not finish.
pub const POISON: &[u8] = b"poison";
/// The answer for work that was cancelled while it ran.
pub const CANCELLED: &[u8] = b"cancelled";

pub struct Work {
    pub id: String,
    pub node: usize,
    pub flow: u64,
    pub kind: Kind,
    /// How long a worker computes.
    pub takes: Duration,
    /// When a client asks.
    pub begin: Instant,
    pub deadline: Instant,
    /// When the client stops waiting.
    pub cancel_at: Option<Instant>,
    /// While an API node asks.
    pub ask: Option<Ask>,
    pub end: Option<End>,
    /// The tokens that no worker has used.
    pub tokens: BTreeSet<u64>,
    /// How often a worker has computed the whole.
    pub computed: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The message holds the operands, and the answer passes the broker.
    Inline,
    /// The worker fetches the operands with a token, and returns the answer to the API node itself.
    Token,
    /// The worker that computes the work dies.
    Killer,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Answered,
    Poison,
    Failed(NotAnswered),
    /// The client or the API node is gone.
    Left,
}

/// Work while an API node asks, and what the simulator knows about the attempts.
pub struct Ask {
    pub asking: Asking,
    /// Counts the steps, so that a timer of an earlier step is known.
    pub step: u64,
    /// The call to the broker that has not returned.
    pub call: Option<u64>,
    /// The message of which the API node has a receipt.
    pub known: Option<u64>,
    /// No worker has said that this message is no use.
    pub has_receipt: bool,
    /// Whether a worker has said that it has the message, after the last receipt.
    pub runs: bool,
    /// When the broker first refused, since the last receipt or word that a message was no use.
    pub refused_since: Option<Instant>,
    /// When a receipt or a worker's word came last.
    pub sign: Instant,
    /// Whether the next message needs no time of silence before it.
    pub may_publish: bool,
}

impl Work {
    pub fn answer(&self) -> Bytes {
        let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Bytes::copy_from_slice(&self.id.bytes().fold(0xcbf2_9ce4_8422_2325, fold).to_be_bytes())
    }
}
