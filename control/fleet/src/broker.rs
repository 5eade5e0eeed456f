//! The interface to a broker: seven verbs. Four belong to queues (publish, pull, and progress, give back or done for a
//! message that was pulled), and two carry words that are not kept (answer, tell).
//!
//! A broker's acknowledgement proves nothing, because a broker also acknowledges to a worker that slept past its lease, although
//! another worker has finished the work. So the member that books a result must compare and set in the database.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

/// A call to a broker.
pub type Calling<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Largest number of messages of one flow that a queue holds, those included that a worker has taken and not finished. The
/// queue refuses the next one.
pub const FLOW_MESSAGES_MAX: usize = 16;
/// Largest size in bytes of a message. Larger content is fetched from the sender by a token.
pub const MESSAGE_BYTES_MAX: usize = 256 << 10;
/// A worker that shows no progress for this long loses a message of [`Queue::Run`]: another worker gets it.
pub const RUN_LEASE: Duration = Duration::from_secs(2);
/// The same for [`Queue::Operations`].
pub const OPERATIONS_LEASE: Duration = Duration::from_secs(15);

/// A kind of queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Queue {
    /// Requests whose client waits. In the broker's memory.
    Run,
    /// Operations that the database holds. On the broker's disk.
    Operations,
}

impl Queue {
    /// Returns the queue's name within names of the broker.
    pub fn name(self) -> &'static str {
        match self {
            Queue::Run => "run",
            Queue::Operations => "ops",
        }
    }

    /// Returns how long a worker keeps a message without showing progress.
    pub fn lease(self) -> Duration {
        match self {
            Queue::Run => RUN_LEASE,
            Queue::Operations => OPERATIONS_LEASE,
        }
    }
}

/// A lane: the part of a queue that one worker owns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lane {
    /// The queue.
    pub queue: Queue,
    /// The pool of workers.
    pub pool: String,
    /// The worker that owns the lane.
    pub worker: String,
}

/// A message for a lane.
#[derive(Clone, Debug)]
pub struct Message {
    /// The lane.
    pub lane: Lane,
    /// The flow: messages of one session or operation. At most [`FLOW_MESSAGES_MAX`] messages of a flow are in a lane.
    pub flow: String,
    /// The content, at most [`MESSAGE_BYTES_MAX`] bytes.
    pub content: Bytes,
    /// The broker may drop the message after this time.
    pub left: Duration,
}

/// Identifies a published message in its lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The lane.
    pub lane: Lane,
    /// The message's number at the broker.
    pub number: u64,
}

/// Why a message is not in its queue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotPublished {
    /// The lane has [`FLOW_MESSAGES_MAX`] messages of the flow.
    #[error("the lane has {FLOW_MESSAGES_MAX} messages of this flow")]
    FlowFull,
    /// The broker has no room, or does not answer.
    #[error("the broker did not take the message: {0}")]
    Refused(String),
    /// The broker's servers answer, but they have not chosen the leader of the queue yet.
    #[error("no server of the broker leads the queue: {0}")]
    NoLeader(String),
}

/// The broker did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the broker does not answer: {0}")]
pub struct Unreachable(pub String);

/// How a worker stands to a lane. A message goes to the best rank that waits for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// The lane is the worker's.
    Owner,
    /// The worker is the lane's second.
    Second,
    /// An API node asked all workers for help.
    Helper,
}

/// A message that a worker has pulled.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The content.
    pub content: Bytes,
    /// How often the message was delivered, this delivery included.
    pub deliveries: u64,
    /// Names the delivery towards the broker.
    pub ticket: Ticket,
}

/// Names a delivery towards the broker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub String);

/// Something that a member of the fleet hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// An answer to this member.
    Answer(Bytes),
    /// Told to all members about a topic.
    Told(Topic, Bytes),
}

/// The topic of a word to all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// A worker is there ([`crate::presence`]).
    Presence,
    /// A lane needs help.
    Help,
    /// Work was cancelled or is answered.
    Cancel,
    /// Records have changed: members read them again.
    News,
}

impl Topic {
    /// All topics.
    pub const ALL: [Topic; 4] = [Topic::Presence, Topic::Help, Topic::Cancel, Topic::News];

    /// Returns the topic's name within names of the broker.
    pub fn name(self) -> &'static str {
        match self {
            Topic::Presence => "presence",
            Topic::Help => "help",
            Topic::Cancel => "cancel",
            Topic::News => "news",
        }
    }
}

/// Takes what a member hears. The function must return at once.
pub type Listener = Arc<dyn Fn(Heard) + Send + Sync>;

/// A member's connection to the broker.
pub trait Broker: Send + Sync {
    /// Puts a message at the end of its lane. `before`: the receipt of an earlier call for the same message, perhaps for
    /// another lane. If that lane still has the message, nothing is put, and the receipt is returned again.
    fn publish<'a>(
        &'a self,
        message: &'a Message,
        before: Option<&'a Receipt>,
    ) -> Calling<'a, Result<Receipt, NotPublished>>;

    /// Takes the first message of a lane, or waits for one, at most `wait`. The worker must finish the message, or show
    /// progress, within the queue's lease ([`Queue::lease`]). Do not drop the call before its end, because a message that
    /// comes meanwhile is lost until its lease ends.
    fn pull<'a>(
        &'a self,
        lane: &'a Lane,
        rank: Rank,
        wait: Duration,
    ) -> Calling<'a, Result<Option<Delivery>, Unreachable>>;

    /// Begins the lease of a delivery again.
    fn progress<'a>(&'a self, ticket: &'a Ticket) -> Calling<'a, Result<(), Unreachable>>;

    /// Puts a message back. The lane delivers the message again after this time.
    fn give_back<'a>(&'a self, ticket: &'a Ticket, after: Duration) -> Calling<'a, Result<(), Unreachable>>;

    /// Removes a message that is finished.
    fn done<'a>(&'a self, ticket: &'a Ticket) -> Calling<'a, Result<(), Unreachable>>;

    /// Sends an answer to a member. An answer to a member that is not there is lost.
    fn answer<'a>(&'a self, member: &'a str, content: Bytes) -> Calling<'a, Result<(), Unreachable>>;

    /// Tells something to all members that listen, this member included.
    fn tell<'a>(&'a self, topic: Topic, content: Bytes) -> Calling<'a, Result<(), Unreachable>>;

    /// When this member last heard from a server of the broker.
    fn heard_at(&self) -> Instant;
}

/// Whether a text can be a part of a name in the broker: 1 to 64 of a-z, A-Z, 0-9, - and _.
pub fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_'))
}
