//! The broker NATS with JetStream, server 2.12 or newer, because older servers have no prioritized pulls. No other file names
//! `async_nats`.
//!
//! | name (for a fleet named `ango`) | |
//! |---|---|
//! | stream `ango-run`, subjects `ango.run.<pool>.<lane>.<flow>` | in memory, a work queue |
//! | stream `ango-ops`, subjects `ango.ops.<pool>.<lane>.<flow>` | on disk, a work queue |
//! | consumer `<pool>_<lane>` of both streams | durable; removed after a day without pulls |
//! | subject `ango.answer.<member>` | answers to an API node |
//! | subject `ango.tell.<topic>` | told to all members |
//!
//! Streams are made by API nodes, consumers by workers. A stream or a consumer that is gone is made again by the next call.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, PriorityPolicy, pull};
use async_nats::jetstream::context::{CreateStreamError, CreateStreamErrorKind, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{self, DiscardPolicy, RetentionPolicy, StorageType};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use bytes::Bytes;
use futures_util::StreamExt;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::broker::{
    Broker, Calling, Delivery, FLOW_MESSAGES_MAX, Heard, Lane, Listener, MESSAGE_BYTES_MAX, Message, NotPublished,
    Queue, Rank, Receipt, Ticket, Topic, Unreachable,
};

/// The name of the broker's library in logs.
pub const LIBRARY: &str = "async_nats";

/// Longest time for the broker's answer to one call.
const ANSWER_WAIT: Duration = Duration::from_secs(2);
/// The same for calls that make streams and consumers again. While the servers choose a leader, calls are lost.
const LEADERLESS_WAIT: Duration = Duration::from_millis(500);
/// Time for the removal of a stream whose only server is away. No server confirms it.
const REMOVAL_WAIT: Duration = Duration::from_millis(200);
/// Longest time between two attempts to connect.
const RECONNECT_WAIT: Duration = Duration::from_millis(500);
/// The broker removes a lane's consumer after this time without pulls.
const UNUSED: Duration = Duration::from_secs(24 * 3600);
/// Largest number of messages that all workers of a lane have taken and not finished.
const TAKEN_MAX: i64 = 10_000;
/// Largest size of a queue in messages and in bytes. A full queue refuses new messages. The broker reserves the bytes.
const QUEUE_MESSAGES_MAX: i64 = 100_000;
const QUEUE_BYTES_MAX: i64 = 128 << 20;
/// No message stays longer, whatever its own time says.
const QUEUE_AGE: Duration = Duration::from_secs(3600);
const QUEUE_AGE_OPERATIONS: Duration = Duration::from_secs(8 * 24 * 3600);
/// The priority group of each consumer. A consumer has one group.
const GROUP: &str = "workers";

/// How a member reaches the broker.
#[derive(Clone)]
pub struct NatsConfig {
    /// The servers, `nats://USER:PASSWORD@HOST:PORT` or `tls://..`. The first user and password hold for all of them.
    pub servers: Vec<ServerAddr>,
    /// A file of credentials (`.creds`), in place of a user and a password in the addresses.
    pub credentials: Option<PathBuf>,
    /// The fleet's name, which begins all names in the broker.
    pub fleet: String,
    /// The member's name.
    pub member: String,
    /// Number of servers that keep a message of [`Queue::Run`], 1 to 5.
    pub run_replicas: usize,
    /// The same for [`Queue::Operations`].
    pub operations_replicas: usize,
    /// Whether the member makes missing streams and hears answers. API nodes do, workers may not.
    pub makes_streams: bool,
}

/// A member's connection to NATS.
pub struct NatsBroker {
    config: NatsConfig,
    client: Client,
    streams: Context,
    /// Held while a stream is made.
    making: tokio::sync::Mutex<()>,
    consumers: Mutex<HashMap<Lane, Consumer<pull::Config>>>,
    /// Counts lost connections. A pull ends with its connection, because the server forgets it.
    lost: watch::Receiver<u64>,
    heard_at: Arc<Mutex<Instant>>,
}

/// Reads servers separated by commas.
///
/// # Errors
/// A text that says which form the servers must have.
pub fn read_servers(text: &str) -> Result<Vec<ServerAddr>, &'static str> {
    let form = "must be nats://HOST:PORT or tls://HOST:PORT, several separated by commas";
    let server = |text: &str| {
        let is_known = ["nats://", "tls://"].iter().any(|scheme| text.starts_with(scheme));
        let server = text.parse::<ServerAddr>().map_err(|_| form)?;
        if is_known && !server.host().is_empty() { Ok(server) } else { Err(form) }
    };
    text.split(',').map(|part| server(part.trim())).collect()
}

impl NatsBroker {
    /// Connects a member, which hears through `listener`. If no server answers yet, the member goes on trying.
    ///
    /// # Errors
    /// When the settings cannot be used, or when the first subscriptions cannot be made.
    pub async fn connect(config: NatsConfig, listener: Listener) -> Result<NatsBroker, Unreachable> {
        let heard_at = Arc::new(Mutex::new(Instant::now()));
        let (count, lost) = watch::channel(0);
        let options = match &config.credentials {
            None => ConnectOptions::new(),
            Some(file) => ConnectOptions::with_credentials_file(file).await.map_err(unreachable)?,
        };
        let user = config.servers.iter().find_map(|server| Some((server.username()?, server.password()?)));
        let options = match user {
            None => options,
            Some((name, password)) => options.user_and_password(name.to_owned(), password.to_owned()),
        };
        let options = options
            .name(&config.member)
            .retry_on_initial_connect()
            .ping_interval(Duration::from_secs(1))
            .connection_timeout(ANSWER_WAIT)
            .request_timeout(Some(ANSWER_WAIT))
            .reconnect_delay_callback(|attempts| {
                RECONNECT_WAIT.min(Duration::from_millis(20 * attempts.min(100) as u64))
            })
            .event_callback(move |event| {
                tracing::info!(%event, "connection to the broker");
                if matches!(event, Event::Disconnected | Event::Closed) {
                    count.send_modify(|lost| *lost += 1);
                }
                std::future::ready(())
            });
        let client = options.connect(config.servers.clone()).await.map_err(unreachable)?;
        let mut streams = jetstream::new(client.clone());
        streams.set_timeout(ANSWER_WAIT);
        let (making, consumers) = Default::default();
        let broker = NatsBroker { client, streams, making, consumers, lost, heard_at, config };
        let fleet = &broker.config.fleet;
        // only a member that asks hears answers: a worker may not listen to them
        if broker.config.makes_streams {
            broker.listen(format!("{fleet}.answer.{}", broker.config.member), listener.clone(), Heard::Answer).await?;
        }
        for topic in Topic::ALL {
            let heard = move |content| Heard::Told(topic, content);
            broker.listen(format!("{fleet}.tell.{}", topic.name()), listener.clone(), heard).await?;
        }
        for queue in [Queue::Run, Queue::Operations].into_iter().filter(|_| broker.config.makes_streams) {
            // a broker that does not answer yet gets the stream with the first message
            if let Err(error) = broker.make_stream(queue).await {
                tracing::warn!(%error, queue = queue.name(), "a queue could not be made at the broker");
            }
        }
        Ok(broker)
    }

    async fn listen(
        &self,
        subject: String,
        listener: Listener,
        heard: impl Fn(Bytes) -> Heard + Send + 'static,
    ) -> Result<(), Unreachable> {
        let mut messages = self.client.subscribe(subject).await.map_err(unreachable)?;
        let heard_at = self.heard_at.clone();
        tokio::spawn(async move {
            while let Some(message) = messages.next().await {
                *heard_at.lock() = Instant::now();
                listener(heard(message.payload));
            }
        });
        Ok(())
    }

    fn stream_name(&self, queue: Queue) -> String {
        format!("{}-{}", self.config.fleet, queue.name())
    }

    fn lane_subject(&self, lane: &Lane) -> String {
        format!("{}.{}.{}.{}", self.config.fleet, lane.queue.name(), lane.pool, lane.worker)
    }

    fn stream_config(&self, queue: Queue) -> stream::Config {
        let (storage, num_replicas, max_age) = match queue {
            Queue::Run => (StorageType::Memory, self.config.run_replicas, QUEUE_AGE),
            Queue::Operations => (StorageType::File, self.config.operations_replicas, QUEUE_AGE_OPERATIONS),
        };
        stream::Config {
            name: self.stream_name(queue),
            subjects: vec![format!("{}.{}.>", self.config.fleet, queue.name())],
            retention: RetentionPolicy::WorkQueue,
            storage,
            num_replicas,
            max_age,
            discard: DiscardPolicy::New,
            discard_new_per_subject: true,
            max_messages: QUEUE_MESSAGES_MAX,
            max_messages_per_subject: FLOW_MESSAGES_MAX as i64,
            max_bytes: QUEUE_BYTES_MAX,
            max_message_size: (MESSAGE_BYTES_MAX + (4 << 10)) as i32,
            allow_message_ttl: true,
            ..stream::Config::default()
        }
    }

    /// Makes the stream of a queue, unless the stream exists.
    async fn make_stream(&self, queue: Queue) -> Result<(), Unreachable> {
        self.streams.get_or_create_stream(self.stream_config(queue)).await.map(drop).map_err(unreachable)
    }

    fn impatient(&self) -> Context {
        let mut streams = self.streams.clone();
        streams.set_timeout(LEADERLESS_WAIT);
        streams
    }

    /// Makes a stream that takes no messages, because it is gone or no server leads it. A stream whose only server is away is made
    /// anew on another server. API nodes publish the messages that were in it again.
    async fn make_stream_again(&self, queue: Queue) -> Result<(), CreateStreamError> {
        let (config, streams) = (self.stream_config(queue), self.impatient());
        // one call at a time, so that no call removes the stream that another one has just made
        let _alone = self.making.lock().await;
        match streams.get_or_create_stream(config.clone()).await {
            Err(error) if is_leaderless(&error) && config.num_replicas == 1 => {
                let _ = tokio::time::timeout(REMOVAL_WAIT, streams.delete_stream(&config.name)).await;
                match streams.create_stream(config).await {
                    // the call was lost, or another API node has made the stream
                    Err(error) if has_code(&error, ErrorCode::STREAM_NAME_EXIST) => Ok(()),
                    made => made.map(drop),
                }
            }
            made => made.map(drop),
        }
    }

    /// Returns the consumer of a lane, which is made if this member has not made it yet.
    async fn consumer(&self, lane: &Lane) -> Result<Consumer<pull::Config>, Unreachable> {
        if let Some(consumer) = self.consumers.lock().get(lane) {
            return Ok(consumer.clone());
        }
        let memory = lane.queue == Queue::Run;
        let config = pull::Config {
            durable_name: Some(format!("{}_{}", lane.pool, lane.worker)),
            filter_subject: format!("{}.>", self.lane_subject(lane)),
            ack_policy: AckPolicy::Explicit,
            ack_wait: lane.queue.lease(),
            max_ack_pending: TAKEN_MAX,
            inactive_threshold: UNUSED,
            memory_storage: memory,
            priority_policy: PriorityPolicy::Prioritized,
            priority_groups: vec![GROUP.to_owned()],
            ..pull::Config::default()
        };
        let stream = self.stream_name(lane.queue);
        let made = self.impatient().create_consumer_on_stream(config, stream).await.map_err(unreachable)?;
        self.consumers.lock().insert(lane.clone(), made.clone());
        Ok(made)
    }

    async fn put(&self, message: &Message) -> Result<Receipt, NotPublished> {
        let subject = format!("{}.{}", self.lane_subject(&message.lane), message.flow);
        // the broker counts in seconds, and keeps a message of 0 s for ever
        let left = Duration::from_secs(message.left.as_secs() + 1);
        let build = || PublishMessage::build().payload(message.content.clone()).ttl(left);
        let mut makes_stream = self.config.makes_streams;
        loop {
            let sent = self.streams.send_publish(subject.clone(), build()).await;
            let error = match sent {
                Ok(acknowledged) => match acknowledged.await {
                    Ok(acknowledged) => {
                        *self.heard_at.lock() = Instant::now();
                        return Ok(Receipt { lane: message.lane.clone(), number: acknowledged.sequence });
                    }
                    Err(error) => error,
                },
                Err(error) => error,
            };
            if error.kind() == PublishErrorKind::StreamNotFound && self.config.makes_streams {
                if !std::mem::take(&mut makes_stream) {
                    return Err(NotPublished::NoLeader(error.to_string()));
                }
                match self.make_stream_again(message.lane.queue).await {
                    Ok(()) => continue,
                    Err(error) if is_leaderless(&error) => return Err(NotPublished::NoLeader(error.to_string())),
                    Err(error) => return Err(NotPublished::Refused(error.to_string())),
                }
            }
            let text = error.to_string();
            // the code of this refusal is that of any store that failed, so the text tells it. The conformance suite notices
            // another text
            let is_full = text.contains("maximum messages per subject exceeded");
            return Err(if is_full { NotPublished::FlowFull } else { NotPublished::Refused(text) });
        }
    }

    async fn has(&self, Receipt { lane, number }: &Receipt) -> bool {
        let Ok(stream) = self.streams.get_stream_no_info(self.stream_name(lane.queue)).await else { return false };
        match stream.get_raw_message(*number).await {
            // a stream that was made again counts from 1 again
            Ok(found) => found.subject.starts_with(&format!("{}.", self.lane_subject(lane))),
            Err(_) => false,
        }
    }

    async fn take(&self, lane: &Lane, rank: Rank, wait: Duration) -> Result<Option<Delivery>, Unreachable> {
        let consumer = self.consumer(lane).await?;
        let priority = match rank {
            Rank::Owner => 0,
            Rank::Second => 1,
            Rank::Helper => 2,
        };
        let mut lost = self.lost.clone();
        lost.mark_unchanged();
        let pulled = consumer.fetch().group(GROUP).priority(priority).max_messages(1).expires(wait).messages().await;
        let next = match pulled {
            Ok(mut messages) => {
                // the server ends the pull; if the server is gone, this member does
                let next = tokio::time::timeout(wait + ANSWER_WAIT, messages.next());
                tokio::select! {
                    next = next => next.unwrap_or(Some(Err("no answer to a pull".into()))),
                    _ = lost.changed() => Some(Err("the connection was lost".into())),
                }
            }
            Err(error) => Some(Err(error.into())),
        };
        let message = match next {
            None => {
                *self.heard_at.lock() = Instant::now();
                return Ok(None);
            }
            Some(Ok(message)) => message,
            Some(Err(error)) => {
                // the consumer may be gone: the next pull makes it again
                self.consumers.lock().remove(lane);
                return Err(unreachable(error));
            }
        };
        *self.heard_at.lock() = Instant::now();
        let deliveries = message.info().map_err(unreachable)?.delivered.unsigned_abs();
        let ticket = message.reply.as_ref().ok_or_else(|| unreachable("a message that cannot be acknowledged"))?;
        Ok(Some(Delivery { deliveries, ticket: Ticket(ticket.to_string()), content: message.payload.clone() }))
    }

    async fn acknowledge(&self, ticket: &Ticket, kind: jetstream::AckKind) -> Result<(), Unreachable> {
        self.client.publish(ticket.0.clone(), kind.into()).await.map_err(unreachable)
    }
}

impl Broker for NatsBroker {
    fn publish<'a>(
        &'a self,
        message: &'a Message,
        before: Option<&'a Receipt>,
    ) -> Calling<'a, Result<Receipt, NotPublished>> {
        Box::pin(async move {
            match before {
                Some(before) if self.has(before).await => Ok(before.clone()),
                _ => self.put(message).await,
            }
        })
    }

    fn pull<'a>(
        &'a self,
        lane: &'a Lane,
        rank: Rank,
        wait: Duration,
    ) -> Calling<'a, Result<Option<Delivery>, Unreachable>> {
        Box::pin(self.take(lane, rank, wait))
    }

    fn progress<'a>(&'a self, ticket: &'a Ticket) -> Calling<'a, Result<(), Unreachable>> {
        Box::pin(self.acknowledge(ticket, jetstream::AckKind::Progress))
    }

    fn give_back<'a>(&'a self, ticket: &'a Ticket, after: Duration) -> Calling<'a, Result<(), Unreachable>> {
        Box::pin(self.acknowledge(ticket, jetstream::AckKind::Nak(Some(after))))
    }

    fn done<'a>(&'a self, ticket: &'a Ticket) -> Calling<'a, Result<(), Unreachable>> {
        Box::pin(self.acknowledge(ticket, jetstream::AckKind::Ack))
    }

    fn answer<'a>(&'a self, member: &'a str, content: Bytes) -> Calling<'a, Result<(), Unreachable>> {
        let subject = format!("{}.answer.{member}", self.config.fleet);
        Box::pin(async move { self.client.publish(subject, content).await.map_err(unreachable) })
    }

    fn tell<'a>(&'a self, topic: Topic, content: Bytes) -> Calling<'a, Result<(), Unreachable>> {
        let subject = format!("{}.tell.{}", self.config.fleet, topic.name());
        Box::pin(async move { self.client.publish(subject, content).await.map_err(unreachable) })
    }

    fn heard_at(&self) -> Instant {
        *self.heard_at.lock()
    }
}

/// Whether no server leads a stream, or all streams.
fn is_leaderless(error: &CreateStreamError) -> bool {
    let codes = [ErrorCode::CLUSTER_NOT_AVAILABLE, ErrorCode::CLUSTER_NOT_LEADER];
    matches!(error.kind(), CreateStreamErrorKind::TimedOut) || codes.into_iter().any(|code| has_code(error, code))
}

fn has_code(error: &CreateStreamError, code: ErrorCode) -> bool {
    matches!(error.kind(), CreateStreamErrorKind::JetStream(error) if error.error_code() == code)
}

fn unreachable(error: impl ToString) -> Unreachable {
    Unreachable(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_addresses_of_the_broker_s_protocol() {
        let count = |text| read_servers(text).map(|servers| servers.len());
        assert_eq!(count("nats://user:password@10.0.0.1:4222, tls://broker.example.org:4222"), Ok(2));
        for wrong in ["", "10.0.0.1:4222", "http://10.0.0.1", "nats://", "nats://a,"] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
    }
}
