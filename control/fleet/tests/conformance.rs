//! The behaviour of every broker, over the broker within a process and over NATS.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fleet::broker::{Broker, FLOW_MESSAGES_MAX, Heard, Lane, Message, NotPublished, Queue, Rank, Topic};
use fleet::local::LocalBroker;
use parking_lot::Mutex;

mod server;

use server::Server;

type Heards = Arc<Mutex<Vec<Heard>>>;

/// Two members of one fleet, and what each has heard.
struct Members {
    one: Arc<dyn Broker>,
    other: Arc<dyn Broker>,
    heard: [Heards; 2],
}

fn listener(heard: &Heards) -> fleet::broker::Listener {
    let heard = heard.clone();
    Arc::new(move |what| heard.lock().push(what))
}

fn local() -> Members {
    let (broker, heard) = (LocalBroker::default(), [Heards::default(), Heards::default()]);
    let connect = |name: &str, at: usize| Arc::new(broker.connect(name, listener(&heard[at]))) as Arc<dyn Broker>;
    Members { one: connect("one", 0), other: connect("other", 1), heard }
}

async fn nats(server: &Server) -> Members {
    let heard = [Heards::default(), Heards::default()];
    let [one, other] = [("one", 0), ("other", 1)].map(|(name, at)| server.connect(name, listener(&heard[at])));
    Members { one: Arc::new(one.await), other: Arc::new(other.await), heard }
}

/// Runs a test over both brokers.
macro_rules! over_both {
    ($($name:ident)*) => { $(mod $name {
        #[tokio::test]
        async fn local() {
            super::$name(super::local()).await;
        }

        #[tokio::test]
        async fn nats() {
            let Some(server) = super::Server::start() else { return };
            super::$name(super::nats(&server).await).await;
        }
    })* };
}

over_both! {
    messages_of_a_lane_come_in_order_and_each_once
    a_message_that_is_given_back_or_whose_worker_is_silent_comes_again
    progress_holds_a_message_beyond_its_lease
    a_flow_has_a_bound_and_the_next_message_is_refused
    the_better_rank_gets_the_message
    a_message_is_published_again_only_if_the_lane_has_lost_it
    answers_reach_one_member_and_told_words_reach_all
    lanes_and_queues_are_apart
}

const SOON: Duration = Duration::from_secs(5);
/// Longest wait for something that must happen, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const NOW: Duration = Duration::from_millis(100);

fn lane(worker: &str) -> Lane {
    Lane { queue: Queue::Run, pool: "default".to_owned(), worker: worker.to_owned() }
}

fn message(worker: &str, flow: &str, content: &str) -> Message {
    let content = Bytes::copy_from_slice(content.as_bytes());
    Message { lane: lane(worker), flow: flow.to_owned(), content, left: Duration::from_secs(60) }
}

async fn messages_of_a_lane_come_in_order_and_each_once(Members { one, other, .. }: Members) {
    for content in ["1", "2", "3"] {
        one.publish(&message("w", "f", content), None).await.unwrap();
    }
    for content in ["1", "2", "3"] {
        let delivery = other.pull(&lane("w"), Rank::Owner, SOON).await.unwrap().unwrap();
        assert_eq!((&delivery.content[..], delivery.deliveries), (content.as_bytes(), 1));
        other.done(&delivery.ticket).await.unwrap();
    }
    assert!(other.pull(&lane("w"), Rank::Owner, NOW).await.unwrap().is_none());
    // a pull that waits gets the next message
    let lane = lane("w");
    let (pulled, published) = tokio::join!(other.pull(&lane, Rank::Owner, SOON), async {
        tokio::task::yield_now().await;
        one.publish(&message("w", "f", "4"), None).await
    });
    published.unwrap();
    assert_eq!(&pulled.unwrap().unwrap().content[..], b"4");
}

async fn a_message_that_is_given_back_or_whose_worker_is_silent_comes_again(Members { one, other, .. }: Members) {
    one.publish(&message("w", "f", "1"), None).await.unwrap();
    let first = other.pull(&lane("w"), Rank::Owner, SOON).await.unwrap().unwrap();
    other.give_back(&first.ticket, Duration::from_millis(50)).await.unwrap();
    let second = other.pull(&lane("w"), Rank::Owner, SOON).await.unwrap().unwrap();
    assert_eq!(second.deliveries, 2);
    // the worker of the second delivery is silent
    let third = one.pull(&lane("w"), Rank::Second, SOON).await.unwrap().unwrap();
    assert_eq!((&third.content[..], third.deliveries), (&b"1"[..], 3));
    // the silent worker wakes: its word is accepted, and changes nothing for the one that has the message now
    other.done(&second.ticket).await.unwrap();
    one.done(&third.ticket).await.unwrap();
    assert!(one.pull(&lane("w"), Rank::Owner, NOW).await.unwrap().is_none());
}

async fn progress_holds_a_message_beyond_its_lease(Members { one, other, .. }: Members) {
    one.publish(&message("w", "f", "1"), None).await.unwrap();
    let delivery = other.pull(&lane("w"), Rank::Owner, SOON).await.unwrap().unwrap();
    let held = async {
        let started = Instant::now();
        while started.elapsed() < Queue::Run.lease() * 2 {
            other.progress(&delivery.ticket).await.unwrap();
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        other.done(&delivery.ticket).await.unwrap();
    };
    let lane = lane("w");
    let (again, ()) = tokio::join!(one.pull(&lane, Rank::Second, Queue::Run.lease() * 2), held);
    assert!(again.unwrap().is_none());
}

async fn a_flow_has_a_bound_and_the_next_message_is_refused(Members { one, other, .. }: Members) {
    for number in 0..FLOW_MESSAGES_MAX {
        one.publish(&message("w", "f", &number.to_string()), None).await.unwrap();
    }
    assert_eq!(one.publish(&message("w", "f", "17"), None).await, Err(NotPublished::FlowFull));
    one.publish(&message("w", "another", "1"), None).await.unwrap();
    // a taken message counts until it is done
    let first = other.pull(&lane("w"), Rank::Owner, SOON).await.unwrap().unwrap();
    assert_eq!(one.publish(&message("w", "f", "17"), None).await, Err(NotPublished::FlowFull));
    other.done(&first.ticket).await.unwrap();
    let asked = Instant::now();
    // the broker may handle the end a moment later
    while one.publish(&message("w", "f", "17"), None).await.is_err() {
        assert!(asked.elapsed() < PATIENCE);
    }
}

async fn the_better_rank_gets_the_message(Members { one, other, .. }: Members) {
    let lane = lane("w");
    let helper = other.pull(&lane, Rank::Helper, Duration::from_secs(2));
    let second = other.pull(&lane, Rank::Second, SOON);
    let owner = one.pull(&lane, Rank::Owner, SOON);
    let publish = async {
        // until the three pulls wait
        tokio::time::sleep(Duration::from_millis(300)).await;
        for content in ["1", "2"] {
            one.publish(&message("w", "f", content), None).await.unwrap();
        }
    };
    let (helper, second, owner, ()) = tokio::join!(helper, second, owner, publish);
    assert_eq!(&owner.unwrap().unwrap().content[..], b"1");
    assert_eq!(&second.unwrap().unwrap().content[..], b"2");
    assert!(helper.unwrap().is_none());
}

async fn a_message_is_published_again_only_if_the_lane_has_lost_it(Members { one, other, .. }: Members) {
    let message = message("w", "f", "1");
    let receipt = one.publish(&message, None).await.unwrap();
    assert_eq!(one.publish(&message, Some(&receipt)).await.unwrap(), receipt);
    let delivery = other.pull(&lane("w"), Rank::Owner, SOON).await.unwrap().unwrap();
    // taken and not done: the lane has it
    assert_eq!(one.publish(&message, Some(&receipt)).await.unwrap(), receipt);
    assert!(other.pull(&lane("w"), Rank::Owner, NOW).await.unwrap().is_none());
    other.done(&delivery.ticket).await.unwrap();
    let asked = Instant::now();
    while one.publish(&message, Some(&receipt)).await.unwrap() == receipt {
        assert!(asked.elapsed() < PATIENCE);
    }
    assert!(other.pull(&lane("w"), Rank::Owner, SOON).await.unwrap().is_some());
}

async fn answers_reach_one_member_and_told_words_reach_all(Members { one, other, heard }: Members) {
    let (answer, news) = (Bytes::from_static(b"answer"), Bytes::from_static(b"news"));
    let told = Heard::Told(Topic::News, news.clone());
    let asked = Instant::now();
    // a member hears only what is said after the broker knows its subscription
    while !heard.iter().all(|heard| heard.lock().contains(&told)) {
        assert!(asked.elapsed() < PATIENCE);
        other.tell(Topic::News, news.clone()).await.unwrap();
        tokio::task::yield_now().await;
    }
    one.answer("absent", Bytes::from_static(b"lost")).await.unwrap();
    one.answer("other", answer.clone()).await.unwrap();
    // words of another member may still come after the answer
    while !heard[1].lock().contains(&Heard::Answer(answer.clone())) {
        assert!(asked.elapsed() < PATIENCE);
        tokio::task::yield_now().await;
    }
    assert!(heard[0].lock().iter().all(|heard| *heard == told));
    assert!(!heard[1].lock().contains(&Heard::Answer(Bytes::from_static(b"lost"))));
}

async fn lanes_and_queues_are_apart(Members { one, other, .. }: Members) {
    one.publish(&message("a", "f", "of a"), None).await.unwrap();
    let operations = Lane { queue: Queue::Operations, ..lane("a") };
    let operation = Message { lane: operations.clone(), ..message("a", "f", "operation") };
    one.publish(&operation, None).await.unwrap();
    assert!(other.pull(&lane("b"), Rank::Owner, NOW).await.unwrap().is_none());
    assert_eq!(&other.pull(&operations, Rank::Owner, SOON).await.unwrap().unwrap().content[..], b"operation");
    assert_eq!(&other.pull(&lane("a"), Rank::Owner, SOON).await.unwrap().unwrap().content[..], b"of a");
}

#[tokio::test]
async fn a_broker_that_lost_its_streams_takes_messages_again() {
    let Some(server) = Server::start() else { return };
    let Members { one, other, .. } = nats(&server).await;
    let lost = message("w", "f", "1");
    let receipt = one.publish(&lost, None).await.unwrap();
    server.delete_streams_as("api").await;
    let again = one.publish(&lost, Some(&receipt)).await.unwrap();
    let asked = Instant::now();
    loop {
        // the worker's consumer is gone too, and is made again
        match other.pull(&lane("w"), Rank::Owner, SOON).await {
            Ok(Some(delivery)) => break assert_eq!(&delivery.content[..], b"1"),
            _ => assert!(asked.elapsed() < PATIENCE),
        }
    }
    assert_eq!(one.publish(&lost, Some(&again)).await.unwrap(), again);
}

#[tokio::test]
async fn a_worker_s_credentials_publish_no_work() {
    let Some(server) = Server::start() else { return };
    let worker = server.connect_as("worker", "thief", Arc::new(|_| ())).await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = heard.clone();
    let api = server.connect("api", Arc::new(move |what| hears.lock().push(what))).await;
    api.publish(&message("w", "f", "1"), None).await.unwrap();
    let refused = worker.publish(&message("w", "f", "forged"), None).await;
    assert!(matches!(refused, Err(NotPublished::Refused(_))), "{refused:?}");
    server.delete_streams_as("worker").await;
    // everything that a worker's work needs is allowed
    let delivery = worker.pull(&lane("w"), Rank::Owner, SOON).await.unwrap().unwrap();
    assert_eq!(&delivery.content[..], b"1");
    worker.progress(&delivery.ticket).await.unwrap();
    worker.done(&delivery.ticket).await.unwrap();
    assert!(worker.pull(&lane("w"), Rank::Owner, NOW).await.unwrap().is_none());
    // a worker tells its presence, and nothing else
    let (presence, asked) = (Heard::Told(Topic::Presence, Bytes::from_static(b"there")), Instant::now());
    while !heard.lock().contains(&presence) {
        assert!(asked.elapsed() < PATIENCE);
        for topic in [Topic::News, Topic::Help, Topic::Cancel, Topic::Presence] {
            let _ = worker.tell(topic, Bytes::from_static(b"there")).await;
        }
        tokio::task::yield_now().await;
    }
    assert!(heard.lock().iter().all(|heard| *heard == presence));
}
