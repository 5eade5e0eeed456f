//! API nodes and workers over the broker within a process, with a handler that does what the content of a message says.
//! Times are real, because leases are.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fleet::asker::{Asked, Asker};
use fleet::asking::NotAnswered;
use fleet::broker::{Broker, FLOW_MESSAGES_MAX, Heard, Lane, Message, Queue, Rank, Topic};
use fleet::lanes;
use fleet::local::LocalBroker;
use fleet::member::Ears;
use fleet::message::{Answer, Word, WorkHead};
use fleet::presence::{Load, Presence, SPEAKS};
use fleet::serving::{Handled, Handler, Handling, RoomMax, Serving, Taken};
use parking_lot::Mutex;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time;

type Asking = JoinHandle<Result<Bytes, NotAnswered>>;

const POOL: &str = "default";
/// Nothing in these tests takes longer.
const LONG: Duration = Duration::from_secs(20);
const ROOM: RoomMax = RoomMax { messages: 8, units: 8 };
/// Room for one piece of work that runs, and for pulls that wait.
const NARROW: RoomMax = RoomMax { messages: 8, units: 1 };

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Computes what the content of a message says.
struct Fake {
    worker: String,
    warming: AtomicBool,
    running: AtomicU64,
    running_max: AtomicU64,
    /// How often each piece of work has begun.
    begun: Mutex<HashMap<String, u64>>,
    /// Ends the work that waits to be released.
    release: Notify,
    /// Ends cancelled work.
    cancels: Mutex<HashMap<String, Arc<Notify>>>,
    /// The work that another member asked for while it ran.
    asked_again: Mutex<Vec<(String, Bytes)>>,
}

fn presence(worker: &str) -> Presence {
    let (worker, pool, version) = (worker.to_owned(), POOL.to_owned(), "1".to_owned());
    Presence {
        worker,
        pool,
        weight: 1,
        speaks: SPEAKS,
        draining: false,
        warming: false,
        version,
        load: Load::default(),
    }
}

impl Fake {
    fn new(worker: &str, warming: bool) -> Arc<Fake> {
        let (running, running_max, begun, release, cancels, asked_again) = Default::default();
        let (worker, warming) = (worker.to_owned(), AtomicBool::new(warming));
        Arc::new(Fake { worker, warming, running, running_max, begun, release, cancels, asked_again })
    }

    fn begun(&self, id: &str) -> u64 {
        self.begun.lock().get(id).copied().unwrap_or(0)
    }

    async fn until_begun(&self, id: &str) {
        until(|| self.begun(id) > 0).await;
    }
}

/// The handler of a worker. The trait needs a type of this crate.
struct Hand(Arc<Fake>);

impl Handler for Hand {
    fn handle(&self, Taken { head, content, .. }: Taken) -> Handling {
        let fake = self.0.clone();
        let begun = {
            let mut all = fake.begun.lock();
            let begun = all.entry(head.id.clone()).or_default();
            *begun += 1;
            *begun
        };
        let cancelled = Arc::new(Notify::new());
        fake.cancels.lock().insert(head.id.clone(), cancelled.clone());
        Box::pin(async move {
            let running = fake.running.fetch_add(1, Ordering::Relaxed) + 1;
            fake.running_max.fetch_max(running, Ordering::Relaxed);
            let text = String::from_utf8(content.to_vec()).expect("the content is text");
            let (what, number) = text.split_once(' ').unwrap_or((&text, "0"));
            let number: u64 = number.parse().expect("the content has a number");
            let answer = || Handled::Answer(format!("{text} by {}", fake.worker).into());
            let handled = match what {
                "hold" => {
                    tokio::select! {
                        () = fake.release.notified() => answer(),
                        () = cancelled.notified() => Handled::Delivered,
                    }
                }
                "sleep" => {
                    time::sleep(ms(number)).await;
                    answer()
                }
                "again" if head.attempt < 3 => Handled::Again,
                "give_back" if begun <= number => Handled::GiveBack(ms(10)),
                "panic" if begun <= number => panic!("the handler fails as the test wants"),
                _ => answer(),
            };
            fake.running.fetch_sub(1, Ordering::Relaxed);
            handled
        })
    }

    fn poison(&self, _: &str) -> Bytes {
        Bytes::from_static(b"poison")
    }

    fn asked_again(&self, id: &str, content: Bytes) {
        self.0.asked_again.lock().push((id.to_owned(), content));
    }

    fn done(&self, _: &str) -> u64 {
        0
    }

    fn cancel(&self, id: &str) {
        if let Some(cancelled) = self.0.cancels.lock().get(id) {
            cancelled.notify_one();
        }
    }

    fn presence(&self) -> Presence {
        Presence { warming: self.0.warming.load(Ordering::Relaxed), ..presence(&self.0.worker) }
    }
}

struct Node {
    asker: Arc<Asker>,
    ears: Arc<Ears>,
}

fn node(broker: &LocalBroker) -> Node {
    node_named(broker, "node")
}

fn node_named(broker: &LocalBroker, name: &str) -> Node {
    let ears = Arc::new(Ears::default());
    let member = Arc::new(broker.connect(name, ears.listener()));
    Node { asker: Asker::new(member, ears.clone(), name.to_owned(), POOL.to_owned()), ears }
}

fn worker(broker: &LocalBroker, name: &str, room: RoomMax) -> (Arc<Fake>, Arc<Serving>) {
    serve(broker, Fake::new(name, false), room)
}

fn serve(broker: &LocalBroker, fake: Arc<Fake>, room: RoomMax) -> (Arc<Fake>, Arc<Serving>) {
    let (ears, name) = (Arc::new(Ears::default()), &fake.worker);
    let member = Arc::new(broker.connect(name, ears.listener()));
    (fake.clone(), Serving::start(member, ears, Arc::new(Hand(fake)), Queue::Run, room))
}

async fn until(is_so: impl Fn() -> bool) {
    let asked = Instant::now();
    while !is_so() {
        assert!(asked.elapsed() < LONG, "this takes too long");
        time::sleep(ms(5)).await;
    }
}

impl Node {
    /// Waits until the node has heard so many workers.
    async fn hears(&self, workers: usize) {
        until(|| self.ears.workers.lock().live(Instant::now()).count() == workers).await;
    }

    fn asking(&self, id: &str, flow: &str, content: &str) -> Asking {
        self.asking_until(id, flow, content, LONG)
    }

    fn asking_until(&self, id: &str, flow: &str, content: &str, most: Duration) -> Asking {
        let (asker, content) = (self.asker.clone(), content.to_owned());
        let (id, flow, deadline) = (id.to_owned(), flow.to_owned(), Instant::now() + most);
        let content = Box::new(move |attempt: u32| content.replace("ATTEMPT", &attempt.to_string()).into());
        tokio::spawn(async move {
            let queue = Queue::Run;
            asker.ask(Asked { id, queue, flow, units: 1, deadline, version: SPEAKS[1], content }).await
        })
    }

    async fn ask(&self, id: &str, flow: &str, content: &str) -> Result<String, NotAnswered> {
        text(self.asking(id, flow, content).await.unwrap())
    }

    /// A flow that this worker owns.
    fn flow_of(&self, worker: &str) -> String {
        let workers = self.ears.workers.lock();
        let is_owner = |flow: &String| workers.owner(POOL, flow.as_bytes(), SPEAKS[1], Instant::now()) == Some(worker);
        (0..).map(|number| format!("flow{number}")).find(is_owner).expect("the worker owns flows")
    }
}

fn text(end: Result<Bytes, NotAnswered>) -> Result<String, NotAnswered> {
    end.map(|bytes| String::from_utf8(bytes.to_vec()).expect("the answer is text"))
}

fn lane(worker: &str) -> Lane {
    Lane { queue: Queue::Run, pool: POOL.to_owned(), worker: worker.to_owned() }
}

#[tokio::test]
async fn work_that_another_member_asks_for_again_is_answered_to_that_member() {
    let broker = LocalBroker::default();
    let (dies, lives) = (node_named(&broker, "dies"), node_named(&broker, "lives"));
    let (fake, _serving) = worker(&broker, "a", ROOM);
    dies.hears(1).await;
    lives.hears(1).await;
    let first = dies.asking("op", "flow", "hold ATTEMPT");
    fake.until_begun("op").await;
    first.abort();
    let second = lives.asking("op", "flow", "hold of another member");
    until(|| !fake.asked_again.lock().is_empty()).await;
    assert_eq!(*fake.asked_again.lock(), [("op".to_owned(), Bytes::from_static(b"hold of another member"))]);
    fake.release.notify_waiters();
    assert_eq!(text(second.await.unwrap()).unwrap(), "hold 1 by a");
    assert_eq!(fake.begun("op"), 1);
}

#[tokio::test]
async fn asked_work_is_answered() {
    let broker = LocalBroker::default();
    let (node, (fake, _)) = (node(&broker), worker(&broker, "a", ROOM));
    node.hears(1).await;
    assert_eq!(node.ask("1", "flow", "echo 1").await.unwrap(), "echo 1 by a");
    assert_eq!(fake.begun("1"), 1);
    let published = &node.asker.counts.published;
    assert_eq!(published.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn work_without_workers_fails_and_says_so() {
    let node = node(&LocalBroker::default());
    assert!(matches!(node.ask("1", "flow", "echo 1").await, Err(NotAnswered::Unavailable(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_work_of_a_worker_that_dies_is_computed_by_another() {
    let broker = LocalBroker::default();
    let node = node(&broker);
    let dies = Runtime::new().unwrap();
    let (fake, _) = {
        let _within = dies.enter();
        worker(&broker, "a", ROOM)
    };
    let (other, _) = worker(&broker, "b", ROOM);
    node.hears(2).await;
    let asked = node.asking("1", &node.flow_of("a"), "hold");
    fake.until_begun("1").await;
    dies.shutdown_background();
    other.until_begun("1").await;
    other.release.notify_one();
    assert_eq!(text(asked.await.unwrap()).unwrap(), "hold by b");
}

#[tokio::test]
async fn an_idle_worker_helps_a_lane_whose_owner_and_second_are_busy() {
    let broker = LocalBroker::default();
    let node = node(&broker);
    let names = ["a", "b", "c"];
    let workers = names.map(|name| worker(&broker, name, NARROW));
    node.hears(3).await;
    let second = lanes::second("a", names.map(|name| (name, 1)).into_iter()).unwrap();
    let helper = names.into_iter().find(|name| *name != "a" && *name != second).unwrap();
    let held = ["a", second].map(|name| node.asking(&format!("of_{name}"), &node.flow_of(name), "hold"));
    for (fake, _) in workers.iter().filter(|(fake, _)| fake.worker != helper) {
        fake.until_begun(&format!("of_{}", fake.worker)).await;
    }
    // a pull of the lane that the second began before it had work is over
    time::sleep(ms(150)).await;
    let answer = node.ask("helped", &node.flow_of("a"), "echo 1").await.unwrap();
    assert_eq!(answer, format!("echo 1 by {helper}"));
    assert!(node.asker.counts.helps.load(Ordering::Relaxed) > 0);
    workers.iter().for_each(|(fake, _)| fake.release.notify_one());
    for asked in held {
        asked.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_drained_worker_ends_its_work_and_takes_nothing_new() {
    let broker = LocalBroker::default();
    let node = node(&broker);
    let ((fake, serving), (_other, _)) = (worker(&broker, "a", ROOM), worker(&broker, "b", ROOM));
    node.hears(2).await;
    let flow = node.flow_of("a");
    let held = node.asking("1", &flow, "hold");
    fake.until_begun("1").await;
    let drained = tokio::spawn({
        let serving = serving.clone();
        async move { serving.drain(LONG).await }
    });
    until(|| node.ears.workers.lock().live(Instant::now()).any(|worker| worker.draining)).await;
    assert_eq!(node.ask("2", &flow, "echo 2").await.unwrap(), "echo 2 by b");
    assert!(!drained.is_finished());
    fake.release.notify_one();
    assert_eq!(text(held.await.unwrap()).unwrap(), "hold by a");
    assert!(drained.await.unwrap());
    // a message of a member that has not heard of the end is for the other worker
    let message = Message { lane: lane("a"), flow, content: head("3", "late").write(b"echo 3"), left: LONG };
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = heard.clone();
    let late = broker.connect("late", Arc::new(move |what| hears.lock().push(what)));
    late.publish(&message, None).await.unwrap();
    until(|| heard.lock().iter().any(|heard| matches!(heard, Heard::Answer(_)))).await;
    assert_eq!(fake.begun("3"), 0);
}

#[tokio::test]
async fn a_worker_that_warms_up_gets_work_once_it_is_ready() {
    let broker = LocalBroker::default();
    let node = node(&broker);
    let (fake, serving) = serve(&broker, Fake::new("b", true), ROOM);
    node.hears(1).await;
    // better than no worker
    assert_eq!(node.ask("0", "flow", "echo 0").await.unwrap(), "echo 0 by b");
    let _other = worker(&broker, "a", ROOM);
    node.hears(2).await;
    let of_b = |flow: &String| lanes::owner(flow.as_bytes(), [("a", 1), ("b", 1)].into_iter()) == Some("b");
    let flow = (0..).map(|number| format!("flow{number}")).find(of_b).unwrap();
    assert_eq!(node.ask("1", &flow, "echo 1").await.unwrap(), "echo 1 by a");
    fake.warming.store(false, Ordering::Relaxed);
    serving.say_presence().await;
    until(|| node.ears.workers.lock().live(Instant::now()).all(Presence::is_ready)).await;
    assert_eq!(node.ask("2", &flow, "echo 2").await.unwrap(), "echo 2 by b");
}

#[tokio::test]
async fn the_message_after_the_bound_of_a_flow_waits_for_room_and_is_refused_if_none_comes() {
    let broker = LocalBroker::default();
    let (node, (fake, _)) = (node(&broker), worker(&broker, "a", NARROW));
    node.hears(1).await;
    let held = node.asking("0", "flow", "hold");
    fake.until_begun("0").await;
    let mut asked: Vec<_> =
        (1..FLOW_MESSAGES_MAX).map(|id| node.asking(&id.to_string(), "flow", &format!("echo {id}"))).collect();
    until(|| node.asker.counts.published.load(Ordering::Relaxed) == FLOW_MESSAGES_MAX as u64).await;
    assert_eq!(node.ask("full", "flow", "echo 0").await, Err(NotAnswered::FlowFull));
    asked.push(node.asking("16", "flow", "echo 16"));
    // the flow is full until the worker goes on
    fake.release.notify_one();
    held.await.unwrap().unwrap();
    for (at, asked) in asked.into_iter().enumerate() {
        assert_eq!(text(asked.await.unwrap()).unwrap(), format!("echo {} by a", at + 1));
    }
}

#[tokio::test]
async fn a_broker_that_forgets_everything_costs_only_time() {
    let broker = LocalBroker::default();
    let (node, (fake, _)) = (node(&broker), worker(&broker, "a", NARROW));
    node.hears(1).await;
    let held = node.asking("0", "flow", "hold");
    fake.until_begun("0").await;
    let asked: Vec<_> = (1..8).map(|id| node.asking(&id.to_string(), "flow", &format!("echo {id}"))).collect();
    until(|| node.asker.counts.published.load(Ordering::Relaxed) == 8).await;
    broker.forget_all();
    fake.release.notify_one();
    held.await.unwrap().unwrap();
    for (at, asked) in asked.into_iter().enumerate() {
        assert_eq!(text(asked.await.unwrap()).unwrap(), format!("echo {} by a", at + 1));
        assert_eq!(fake.begun(&(at + 1).to_string()), 1);
    }
    assert_eq!(fake.begun("0"), 1);
}

#[tokio::test]
async fn a_message_that_is_no_use_is_published_again_with_new_content() {
    let broker = LocalBroker::default();
    let (node, (fake, _)) = (node(&broker), worker(&broker, "a", ROOM));
    node.hears(1).await;
    assert_eq!(node.ask("1", "flow", "again ATTEMPT").await.unwrap(), "again 3 by a");
    assert_eq!((fake.begun("1"), node.asker.counts.repeated.load(Ordering::Relaxed)), (3, 2));
}

#[tokio::test]
async fn work_that_is_given_back_many_times_is_computed_at_last() {
    let broker = LocalBroker::default();
    let (node, (fake, _)) = (node(&broker), worker(&broker, "a", ROOM));
    node.hears(1).await;
    assert_eq!(node.ask("1", "flow", "give_back 7").await.unwrap(), "give_back 7 by a");
    assert_eq!(fake.begun("1"), 8);
}

#[tokio::test]
async fn work_past_its_deadline_is_cancelled_where_it_runs() {
    let broker = LocalBroker::default();
    let (node, (fake, serving)) = (node(&broker), worker(&broker, "a", ROOM));
    node.hears(1).await;
    let asked = node.asking_until("1", "flow", "hold", ms(300));
    fake.until_begun("1").await;
    assert_eq!(asked.await.unwrap(), Err(NotAnswered::DeadlinePassed));
    until(|| fake.running.load(Ordering::Relaxed) == 0 && serving.running() == 0).await;
}

#[tokio::test]
async fn work_that_three_workers_did_not_finish_fails() {
    let broker = LocalBroker::default();
    let node = node(&broker);
    let silent = broker.connect("silent", Arc::new(|_| ()));
    silent.tell(Topic::Presence, presence("a").write().into()).await.unwrap();
    let asked = node.asking("1", "flow", "echo 1");
    for deliveries in 1..=3 {
        let delivery = silent.pull(&lane("a"), Rank::Owner, LONG).await.unwrap().unwrap();
        assert_eq!(delivery.deliveries, deliveries);
    }
    let (fake, _) = worker(&broker, "a", ROOM);
    assert_eq!(text(asked.await.unwrap()).unwrap(), "poison");
    assert_eq!(fake.begun("1"), 0);
}

#[tokio::test]
async fn a_worker_takes_no_more_than_its_room() {
    let broker = LocalBroker::default();
    let room = RoomMax { messages: 3, units: 100 };
    let (node, (fake, serving)) = (node(&broker), worker(&broker, "a", room));
    node.hears(1).await;
    let asked: Vec<_> = (0..20).map(|id| node.asking(&id.to_string(), &format!("flow{id}"), "sleep 20")).collect();
    until(|| serving.running() == 3).await;
    for asked in asked {
        asked.await.unwrap().unwrap();
        assert!(serving.running() <= 3);
    }
    assert_eq!(fake.running_max.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn work_whose_handler_panics_comes_again() {
    let broker = LocalBroker::default();
    let (node, (fake, serving)) = (node(&broker), worker(&broker, "a", ROOM));
    node.hears(1).await;
    assert_eq!(node.ask("1", "flow", "panic 1").await.unwrap(), "panic 1 by a");
    assert_eq!(fake.begun("1"), 2);
    until(|| serving.running() == 0).await;
}

/// Returns the head of the first message of some work.
fn head(id: &str, member: &str) -> WorkHead {
    let (id, member) = (id.to_owned(), member.to_owned());
    WorkHead { version: SPEAKS[1], id, attempt: 1, member, left_ms: 10_000, units: 1 }
}

/// Puts bytes into the lane of a worker.
async fn put(member: &dyn Broker, worker: &str, content: Bytes) {
    let message = Message { lane: lane(worker), flow: "flow".to_owned(), content, left: LONG };
    member.publish(&message, None).await.unwrap();
}

#[tokio::test]
async fn messages_that_are_no_work_leave_the_lane_and_others_are_answered() {
    let broker = LocalBroker::default();
    let (node, (fake, serving)) = (node(&broker), worker(&broker, "a", NARROW));
    node.hears(1).await;
    let forger = broker.connect("forger", Arc::new(|_| ()));
    let whole = head("forged", "node").write(b"echo 1");
    let of_version = |version| WorkHead { version, ..head("forged", "node") }.write(b"echo 1");
    let forged = [
        Bytes::new(),
        Bytes::from_static(b"no work"),
        whole.slice(..whole.len() / 2),
        of_version(SPEAKS[0] - 1),
        of_version(SPEAKS[1] + 1),
        head("forged", "node.of.another.subject").write(b"echo 1"),
        head("", "node").write(b"echo 1"),
        WorkHead { left_ms: u64::MAX, ..head("forged", "node") }.write(b"echo 1"),
    ];
    for content in forged {
        put(&forger, "a", content).await;
    }
    assert_eq!(node.ask("1", &node.flow_of("a"), "echo 1").await.unwrap(), "echo 1 by a");
    assert!(forger.pull(&lane("a"), Rank::Second, ms(100)).await.unwrap().is_none());
    assert_eq!((fake.begun("forged"), serving.running()), (0, 0));
}

#[tokio::test]
async fn a_message_that_is_repeated_is_computed_once_and_answered_each_time() {
    let broker = LocalBroker::default();
    let (fake, _serving) = worker(&broker, "a", ROOM);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = heard.clone();
    let member = broker.connect("member", Arc::new(move |what| hears.lock().push(what)));
    let ends = || {
        let heard = heard.lock();
        let answers = heard.iter().filter_map(|heard| match heard {
            Heard::Answer(bytes) => Some(Answer::read(bytes.clone()).unwrap()),
            Heard::Told(..) => None,
        });
        answers.filter(|answer| matches!(answer.word, Word::Ended(_))).collect::<Vec<_>>()
    };
    for times in 1..=3 {
        put(&member, "a", head("1", "member").write(b"echo 1")).await;
        until(|| ends().len() == times).await;
    }
    let word = Word::Ended(Bytes::from_static(b"echo 1 by a"));
    assert_eq!(ends(), vec![Answer { id: "1".to_owned(), word }; 3]);
    assert_eq!(fake.begun("1"), 1);
}

#[tokio::test]
async fn forged_words_to_members_change_nothing() {
    let broker = LocalBroker::default();
    let (node, (fake, _serving)) = (node(&broker), worker(&broker, "a", ROOM));
    node.hears(1).await;
    let asked = node.asking("1", &node.flow_of("a"), "hold");
    fake.until_begun("1").await;
    let forger = broker.connect("forger", Arc::new(|_| ()));
    let answer = |id: &str, word| Answer { id: id.to_owned(), word }.write();
    let runs = answer("1", Word::Runs(u64::MAX));
    for content in [
        Bytes::new(),
        Bytes::from_static(b"no answer"),
        runs.slice(..runs.len() - 1),
        answer("2", Word::Ended(Bytes::from_static(b"forged"))),
        // an attempt that was not made
        answer("1", Word::Again(99)),
    ] {
        forger.answer("node", content).await.unwrap();
    }
    for topic in Topic::ALL {
        for content in [&b""[..], b"\xff\xfe", b"{}", b"ops.", b"a.b", b"another"] {
            forger.tell(topic, Bytes::from_static(content)).await.unwrap();
        }
    }
    assert!(!asked.is_finished());
    fake.release.notify_one();
    assert_eq!(text(asked.await.unwrap()).unwrap(), "hold by a");
    let counts = &node.asker.counts;
    assert_eq!((counts.repeated.load(Ordering::Relaxed), fake.begun("1")), (0, 1));
    assert_eq!(node.ears.workers.lock().live(Instant::now()).count(), 1);
}
