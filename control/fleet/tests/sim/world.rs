//! The world: its clock, its network, its events, and what is counted and traced.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fleet::broker::{NotPublished, RUN_LEASE, Receipt};
use fleet::message::Word;
use fleet::presence::Presence;

use crate::broker::{Content, Delivered, MadeBroker, Pull, Slip};
use crate::dice::Dice;
use crate::faults::Fault;
use crate::node::Node;
use crate::plan::Plan;
use crate::work::Work;
use crate::worker::Worker;

/// Number of events that a trace keeps.
const TRACE_MAX: usize = 400;
/// A run with more events never ends.
const EVENTS_MAX: u64 = 1_000_000;

/// Something that happens at a time.
#[derive(Clone, Debug)]
pub enum Event {
    /// A client asks.
    Ask(usize),
    /// A client stops waiting.
    Leave(usize),
    /// The time of a step of an API node is over.
    Step {
        work: usize,
        step: u64,
    },
    /// A call to publish has no answer.
    Silence {
        work: usize,
        call: u64,
    },
    /// The answer to a call to publish.
    Published {
        work: usize,
        call: u64,
        outcome: Result<(Receipt, u64), NotPublished>,
    },
    /// A worker's word.
    Word {
        work: usize,
        word: Word,
    },
    /// An API node hears that a worker is there.
    Seen(usize, Arc<Presence>),
    /// A request reaches the broker.
    Request(Request),
    /// The broker looks at a lane, because a lease or a rest is over.
    Lane(usize),
    /// Something for a worker, in one of its lives.
    Worker(usize, u64, ToWorker),
    Fault(Fault),
}

#[derive(Clone, Debug)]
pub enum Request {
    Publish { work: usize, call: u64, lane: usize, content: Content, before: Option<Receipt> },
    Pull { lane: usize, pull: Pull },
    Progress(Slip),
    GiveBack(Slip, Duration),
    Done(Slip),
}

#[derive(Clone, Debug)]
pub enum ToWorker {
    Delivered(Box<Delivered>),
    /// A pull has brought nothing.
    PullEnds(u64),
    PullOwn,
    /// The time to look at the lanes of which the worker is the second.
    Look,
    Seen(Arc<Presence>),
    Help(usize),
    Cancel(usize),
    SayPresence,
    /// Flows whose keys the worker opens before it is used.
    Named(Vec<u64>),
    /// The key of a flow is open.
    Opened(u64),
    /// The time to look whether the worker is used from now on.
    LookWarm,
    Beat(u64),
    Finish(u64),
    /// A message that was given back several times has rested.
    SayAgain {
        work: usize,
        attempt: u32,
        slip: Slip,
    },
}

struct Timed(Instant, u64, Event);

impl PartialEq for Timed {
    fn eq(&self, other: &Timed) -> bool {
        self.1 == other.1
    }
}

impl Eq for Timed {}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Timed) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timed {
    fn cmp(&self, other: &Timed) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// The last events of a run.
pub struct Trace {
    lines: Option<VecDeque<String>>,
}

impl Trace {
    pub fn on() -> Trace {
        Trace { lines: Some(VecDeque::new()) }
    }

    pub fn off() -> Trace {
        Trace { lines: None }
    }

    pub fn print(&self) {
        self.lines.iter().flatten().for_each(|line| println!("{line}"));
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push_back(line());
            if lines.len() > TRACE_MAX {
                lines.pop_front();
            }
        }
    }
}

/// The runs count all that they have met.
macro_rules! counts {
    ($($name:ident)*) => {
        #[derive(Clone, Debug, Default)]
        pub struct Counts { $(pub $name: u64,)* pub latest: Duration }

        impl Counts {
            pub fn add(&mut self, other: &Counts) {
                $(self.$name += other.$name;)*
                self.latest = self.latest.max(other.latest);
            }

            /// Checks that the runs have met everything that can happen.
            pub fn check_that_all_was_met(&self) {
                $(assert!(self.$name > 0, "no run has met: {}", stringify!($name));)*
            }
        }
    };
}

counts! {
    events answered poison cancelled flow_full unavailable deadline_passed published again helps taken_by_owner
    taken_by_second taken_by_helper of_a_dead_owner answered_again dropped runs_already given_back deaths sleeps drained
    asked_after_faults warmed served_warm
}

pub struct World<'a> {
    pub now: Instant,
    pub dice: Dice,
    pub plan: Plan,
    pub broker: MadeBroker,
    pub nodes: Vec<Node>,
    pub workers: Vec<Worker>,
    pub works: Vec<Work>,
    pub counts: Counts,
    trace: &'a mut Trace,
    events: BinaryHeap<Reverse<Timed>>,
    last: u64,
}

impl World<'_> {
    pub fn run(seed: u64, trace: &mut Trace) -> Counts {
        let (mut dice, now) = (Dice::new(seed), Instant::now());
        let plan = Plan::new(&mut dice, now);
        let broker = MadeBroker::new(dice.percent(50));
        let (nodes, workers, works) = Default::default();
        let (events, counts) = (BinaryHeap::new(), Counts::default());
        let mut world = World { now, dice, plan, broker, nodes, workers, works, counts, trace, events, last: 0 };
        world.begin();
        while let Some(Reverse(Timed(at, _, event))) = world.events.pop()
            && at <= world.plan.end
        {
            world.now = at;
            world.counts.events += 1;
            assert!(world.counts.events < EVENTS_MAX, "the run does not end");
            world.handle(event);
            if world.counts.events.is_multiple_of(64) && world.is_over() {
                break;
            }
        }
        world.check_the_end();
        world.counts
    }

    /// Whether all has been asked and has ended.
    fn is_over(&self) -> bool {
        let is_done = self.works.iter().all(|work| work.end.is_some());
        let computes = self.workers.iter().any(|worker| worker.is_there && !worker.tasks.is_empty());
        is_done && !computes && !self.broker.any() && self.is_settled()
    }

    /// A number that was not used before.
    pub fn unused(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub fn note(&mut self, line: impl FnOnce() -> String) {
        let at = self.now.duration_since(self.plan.start).as_secs_f64();
        self.trace.note(|| format!("{at:10.6} {}", line()));
    }

    pub fn at(&mut self, at: Instant, event: Event) {
        let number = self.unused();
        self.events.push(Reverse(Timed(at.max(self.now), number, event)));
    }

    pub fn after(&mut self, after: Duration, event: Event) {
        self.at(self.now + after, event);
    }

    /// Whether faults happen.
    pub fn is_faulty(&self) -> bool {
        self.now < self.plan.faults_end
    }

    /// Whether the faults, and what they have left behind, are over.
    pub fn is_settled(&self) -> bool {
        self.now >= self.plan.settled
    }

    /// Sends something through the network, which may drop, double and delay it.
    pub fn send(&mut self, event: Event) {
        let mut copies = 1;
        if self.is_faulty() {
            if self.dice.percent(self.plan.lost) {
                self.note(|| format!("lost: {event:?}"));
                return;
            }
            copies += u32::from(self.dice.percent(self.plan.doubled));
        }
        for _ in 0..copies {
            let is_slow = self.is_faulty() && self.dice.percent(self.plan.slow);
            let delay = if is_slow { self.dice.ms(2, self.plan.slow_ms) } else { self.dice.ms(0, 2) };
            self.after(delay, event.clone());
        }
    }

    pub fn request(&mut self, request: Request) {
        self.send(Event::Request(request));
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Seen(node, presence) => return self.node_sees(node, &presence),
            Event::Worker(worker, life, what) => return self.tell_worker(worker, life, what),
            _ => {}
        }
        self.note(|| format!("{event:?}"));
        match event {
            Event::Ask(work) => self.ask(work),
            Event::Leave(work) => self.leave(work),
            Event::Step { work, step } => self.step(work, step),
            Event::Silence { work, call } => {
                self.published(work, call, Err(NotPublished::Refused("silence".to_owned())));
            }
            Event::Published { work, call, outcome } => self.published(work, call, outcome),
            Event::Word { work, word } => self.word(work, word),
            Event::Request(request) => self.at_broker(request),
            Event::Lane(lane) => self.deliver(lane),
            Event::Fault(fault) => self.fault(fault),
            Event::Seen(..) | Event::Worker(..) => unreachable!("these were handled before"),
        }
    }

    fn at_broker(&mut self, request: Request) {
        let now = self.now;
        match request {
            Request::Publish { work, call, lane, content, before } => {
                let attempt = content.attempt;
                let flow = self.works[work].flow;
                let known =
                    self.works[work].ask.as_ref().filter(|ask| ask.call == Some(call)).and_then(|ask| ask.known);
                let is_needed = known.is_none_or(|serial| !self.broker.has(serial));
                let outcome = self.broker.publish(lane, flow, content, before.as_ref(), now);
                if let Ok((receipt, _)) = &outcome
                    && before.as_ref() != Some(receipt)
                {
                    self.counts.published += 1;
                    let id = &self.works[work].id;
                    assert!(is_needed, "attempt {attempt} of {id} was put beside a message that is of use");
                }
                self.send(Event::Published { work, call, outcome });
                self.deliver(lane);
            }
            _ if self.broker.is_away => {}
            Request::Pull { lane, pull } => {
                self.broker.pull(lane, pull);
                self.deliver(lane);
            }
            Request::Progress(slip) => {
                self.broker.progress(&slip, now);
                self.after(RUN_LEASE, Event::Lane(slip.lane));
            }
            Request::GiveBack(slip, after) => {
                self.broker.give_back(&slip, now + after);
                self.after(after, Event::Lane(slip.lane));
            }
            Request::Done(slip) => self.broker.done(&slip),
        }
    }

    /// Lets the broker deliver what waits in a lane. If something still waits, the seconds of the lane look soon.
    pub fn deliver(&mut self, lane: usize) {
        let (now, is_faulty, doubled) = (self.now, self.is_faulty(), self.plan.doubled);
        let (broker, dice) = (&mut self.broker, &mut self.dice);
        let doubles = |dice: &mut Dice| is_faulty && dice.percent(doubled);
        let lease = || if doubles(dice) { dice.ms(1, 100) } else { RUN_LEASE };
        for delivered in broker.deliver(lane, now, lease) {
            self.check_wait(&delivered);
            self.after(RUN_LEASE, Event::Lane(lane));
            if is_faulty {
                self.after(Duration::from_millis(100), Event::Lane(lane));
            }
            let (worker, life) = (delivered.to.worker, delivered.to.life);
            self.send(Event::Worker(worker, life, ToWorker::Delivered(Box::new(delivered))));
        }
        if self.broker.waits(lane) {
            (0..self.workers.len()).for_each(|worker| self.look_soon(worker));
        }
    }

    /// Tells something to all workers.
    pub fn tell_workers(&mut self, what: &ToWorker) {
        for worker in 0..self.workers.len() {
            if self.workers[worker].is_there {
                let life = self.workers[worker].life;
                self.send(Event::Worker(worker, life, what.clone()));
            }
        }
    }

    pub fn say(&mut self, work: usize, word: Word) {
        self.send(Event::Word { work, word });
    }

    pub fn say_end(&mut self, work: usize, end: &Bytes) {
        self.say(work, Word::Ended(end.clone()));
    }
}
