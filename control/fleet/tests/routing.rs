//! This simulation has 64 workers at load 0.8 and the lanes of this crate. The question is how long requests wait, and how
//! often a worker lacks the key. `--nocapture` prints the figures, which the documentation quotes.
//!
//! A device computes one batch after another: 1 ms and 10 µs a row. A key that the device lacks costs 60 ms. 4,000 sessions ask
//! with popularities by Zipf's law, and the keys of 1,000 fit a device. Devices are warm at the start.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::time::{Duration, Instant};

use fleet::asking::HELP_AFTER;
use fleet::presence::{Load, Presence, SPEAKS, Workers};
use fleet::serving::OWN_EMPTY;
use fleet::warming::{Popular, wanted};

#[path = "sim/dice.rs"]
#[allow(dead_code)]
mod dice;

use dice::Dice;

const WORKERS: usize = 64;
const SESSIONS: usize = 4000;
const KEYS_OF_A_DEVICE: usize = 1000;
/// Requests of a run. A run is a few seconds long, so its 99th of 100 varies, and several runs are joined.
const REQUESTS: usize = 40_000;
const SEEDS: [u64; 3] = [1, 2, 3];
const LOAD: f64 = 0.8;
/// The rows of a batch are one of these.
const ROWS: [u64; 2] = [64, 1024];
/// Times are in microseconds.
const BATCH: u64 = 1_000;
const ROW: u64 = 10;
const MISS: u64 = 60_000;
/// A worker takes another message while it has fewer rows than two full batches.
const ROOM: u64 = 2 * ROWS[1];
const POOL: &str = "default";

/// How a request finds its worker.
#[derive(Clone, Copy, PartialEq)]
enum Policy {
    /// The owner of the lane takes it, else the lane's second, else a worker that is asked for help.
    Lanes,
    /// The owner of the lane takes it.
    Hashing,
}

/// Seconds, and the share of requests that found no key.
struct Figures {
    p50: f64,
    p99: f64,
    misses: f64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { p50, p99, misses } = self;
        write!(f, "p50 {:.0} ms, p99 {:.0} ms, {:.2} % misses", p50 * 1e3, p99 * 1e3, misses * 1e2)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival,
    Finished(usize),
    /// The own lane of a worker has been empty for a moment.
    Idle(usize, u64),
    /// An API node asks for help for a request.
    Help(usize),
}

struct Request {
    session: usize,
    rows: u64,
    asked: u64,
    taken: bool,
}

/// The keys of a device. The key that was used the longest time ago gives way.
#[derive(Default)]
struct Keys {
    used: HashMap<usize, u64>,
    by_use: BTreeMap<u64, usize>,
    last: u64,
}

impl Keys {
    /// Uses a key. Returns whether the device had it.
    fn uses(&mut self, session: usize) -> bool {
        self.last += 1;
        let before = self.used.insert(session, self.last);
        self.by_use.insert(self.last, session);
        if let Some(before) = before {
            self.by_use.remove(&before);
        }
        if self.used.len() > KEYS_OF_A_DEVICE {
            let (_, session) = self.by_use.pop_first().expect("the device has keys");
            self.used.remove(&session);
        }
        before.is_some()
    }
}

#[derive(Default)]
struct Worker {
    keys: Keys,
    /// The requests that the worker has taken. The device computes the first one.
    has: VecDeque<usize>,
    /// The requests of the worker's lane that no worker has taken.
    lane: VecDeque<usize>,
    /// Since when the pull of the own lane waits.
    waits_since: Option<u64>,
    /// The lanes of which this worker is the second.
    seconded: Vec<usize>,
    /// The lane that the worker helps.
    helps: Option<usize>,
}

/// Which worker owns which session, and the second of each lane.
struct Routes {
    owners: Vec<usize>,
    seconds: Vec<usize>,
}

struct World<'a> {
    policy: Policy,
    routes: &'a Routes,
    now: u64,
    workers: Vec<Worker>,
    requests: Vec<Request>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    last: u64,
    misses: usize,
    waits: Vec<u64>,
}

fn us(duration: Duration) -> u64 {
    duration.as_micros() as u64
}

fn name(worker: usize) -> String {
    format!("w{worker}")
}

fn number(name: &str) -> usize {
    name[1..].parse().expect("the name is of a worker")
}

/// The view of a member that has heard all workers.
fn view(now: Instant) -> Workers {
    let mut workers = Workers::default();
    for worker in 0..WORKERS {
        let (worker, pool, version) = (name(worker), POOL.to_owned(), String::new());
        let (weight, draining, warming, load) = (1, false, false, Load::default());
        workers.hear(Presence { worker, pool, weight, speaks: SPEAKS, draining, warming, version, load }, now);
    }
    workers
}

impl Routes {
    fn new() -> Routes {
        let now = Instant::now();
        let view = view(now);
        let owner = |session: u64| view.owner(POOL, &session.to_be_bytes(), SPEAKS[1], now).map(number);
        let owners = (0..SESSIONS as u64).map(|session| owner(session).expect("workers are there")).collect();
        let mut seconds = vec![0; WORKERS];
        for worker in 0..WORKERS {
            let lanes = view.seconded_by(&name(worker), POOL, now);
            lanes.iter().for_each(|lane| seconds[number(lane)] = worker);
        }
        Routes { owners, seconds }
    }
}

impl World<'_> {
    fn new(policy: Policy, routes: &Routes) -> World<'_> {
        let Routes { owners, seconds } = routes;
        let mut workers = Vec::new();
        workers.resize_with(WORKERS, Worker::default);
        (0..WORKERS).for_each(|lane| workers[seconds[lane]].seconded.push(lane));
        // the keys that a worker uses most came last
        for session in (0..SESSIONS).rev() {
            if policy == Policy::Lanes {
                workers[seconds[owners[session]]].keys.uses(session);
            }
        }
        for session in (0..SESSIONS).rev() {
            workers[owners[session]].keys.uses(session);
        }
        for worker in &mut workers {
            worker.waits_since = Some(0);
        }
        let (requests, events, waits) = Default::default();
        World { policy, routes, now: 0, workers, requests, events, last: 0, misses: 0, waits }
    }

    fn at(&mut self, at: u64, event: Event) {
        self.last += 1;
        self.events.push(Reverse((at, self.last, event)));
    }

    fn has_room(&self, worker: usize) -> bool {
        let rows = |request: &usize| self.requests[*request].rows;
        self.policy == Policy::Hashing || self.workers[worker].has.iter().map(rows).sum::<u64>() < ROOM
    }

    /// Gives a request to a worker.
    fn give(&mut self, worker: usize, request: usize) {
        self.requests[request].taken = true;
        self.workers[worker].has.push_back(request);
        if self.workers[worker].has.len() == 1 {
            self.compute(worker);
        }
    }

    /// The device computes the first request of a worker.
    fn compute(&mut self, worker: usize) {
        let Some(Request { session, rows, .. }) = self.workers[worker].has.front().map(|at| &self.requests[*at]) else {
            return;
        };
        let (session, mut takes) = (*session, BATCH + rows * ROW);
        if !self.workers[worker].keys.uses(session) {
            self.misses += 1;
            takes += MISS;
        }
        self.at(self.now + takes, Event::Finished(worker));
    }

    /// Whether the own lane has been empty for a moment, and the worker has room.
    fn is_idle(&self, worker: usize) -> bool {
        let is_empty = self.workers[worker].waits_since.is_some_and(|since| self.now - since >= us(OWN_EMPTY));
        self.policy == Policy::Lanes && is_empty && self.has_room(worker)
    }

    /// A worker takes what it may take.
    fn pull(&mut self, worker: usize) {
        while self.has_room(worker)
            && let Some(request) = self.workers[worker].lane.pop_front()
        {
            self.workers[worker].waits_since = None;
            self.give(worker, request);
        }
        let has_room = self.has_room(worker);
        if !has_room {
            self.workers[worker].waits_since = None;
        } else if self.workers[worker].waits_since.is_none() {
            self.workers[worker].waits_since = Some(self.now);
            self.at(self.now + us(OWN_EMPTY), Event::Idle(worker, self.now));
        }
        if self.is_idle(worker) {
            let oldest = |lane: &usize| self.workers[*lane].lane.front().map(|at| (self.requests[*at].asked, *lane));
            let lane = self.workers[worker].seconded.iter().filter_map(oldest).min();
            if let Some((_, lane)) = lane {
                let request = self.workers[lane].lane.pop_front().expect("the lane has a request");
                self.give(worker, request);
                self.pull(worker);
            }
        }
    }

    fn arrive(&mut self, session: usize, rows: u64) {
        let (owner, request) = (self.routes.owners[session], self.requests.len());
        self.requests.push(Request { session, rows, asked: self.now, taken: false });
        self.workers[owner].lane.push_back(request);
        self.pull(owner);
        if self.policy == Policy::Lanes && !self.requests[request].taken {
            self.pull(self.routes.seconds[owner]);
            self.at(self.now + us(HELP_AFTER), Event::Help(request));
        }
    }

    /// An API node asks for help for a request. Each worker that computes nothing takes one request of the lane.
    fn help(&mut self, request: usize) {
        if self.requests[request].taken {
            return;
        }
        let owner = self.routes.owners[self.requests[request].session];
        for worker in 0..WORKERS {
            let helper = &mut self.workers[worker];
            if worker != owner && helper.has.is_empty() && helper.helps.is_none() {
                helper.helps = Some(owner);
                self.help_on(worker);
            }
        }
        self.at(self.now + us(HELP_AFTER), Event::Help(request));
    }

    /// A worker that computes nothing takes the next request of the lane that it helps.
    fn help_on(&mut self, worker: usize) {
        let Some(lane) = self.workers[worker].helps.filter(|_| self.workers[worker].has.is_empty()) else { return };
        match self.workers[lane].lane.pop_front() {
            Some(request) => {
                self.give(worker, request);
                self.pull(worker);
            }
            None => self.workers[worker].helps = None,
        }
    }

    fn finish(&mut self, worker: usize) {
        let request = self.workers[worker].has.pop_front().expect("the worker computes");
        self.waits.push(self.now - self.requests[request].asked);
        self.compute(worker);
        self.pull(worker);
        self.help_on(worker);
    }

    /// Returns how long the requests have waited, and how many found no key.
    fn run(mut self, seed: u64, exponent: f64) -> (Vec<u64>, usize) {
        let mut dice = Dice::new(seed);
        let draw = sessions(exponent);
        let batch = ROWS.iter().map(|rows| (BATCH + rows * ROW) as f64).sum::<f64>() / ROWS.len() as f64;
        let between = batch / (LOAD * WORKERS as f64);
        (0..WORKERS).for_each(|worker| self.at(us(OWN_EMPTY), Event::Idle(worker, 0)));
        self.at(0, Event::Arrival);
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            self.now = at;
            match event {
                Event::Arrival => {
                    let session = draw(&mut dice);
                    let rows = dice.pick(&ROWS);
                    self.arrive(session, rows);
                    if self.requests.len() < REQUESTS {
                        let next = (-part(&mut dice).ln() * between) as u64;
                        self.at(self.now + next, Event::Arrival);
                    }
                }
                Event::Finished(worker) => self.finish(worker),
                Event::Idle(worker, since) if self.workers[worker].waits_since == Some(since) => self.pull(worker),
                Event::Idle(..) => {}
                Event::Help(request) => self.help(request),
            }
        }
        assert_eq!(self.waits.len(), REQUESTS);
        // the first tenth fills the queues
        (self.waits.split_off(REQUESTS / 10), self.misses)
    }
}

/// Runs a policy from several seeds.
fn figures(policy: Policy, routes: &Routes, exponent: f64) -> Figures {
    let runs = SEEDS.map(|seed| World::new(policy, routes).run(seed, exponent));
    let mut waits: Vec<u64> = runs.iter().flat_map(|(waits, _)| waits).copied().collect();
    waits.sort_unstable();
    let quantile = |part: f64| waits[((waits.len() - 1) as f64 * part) as usize] as f64 / 1e6;
    let misses = runs.iter().map(|(_, misses)| misses).sum::<usize>() as f64 / (SEEDS.len() * REQUESTS) as f64;
    Figures { p50: quantile(0.5), p99: quantile(0.99), misses }
}

#[test]
fn sixty_four_workers_at_load_0_8_answer_99_of_100_requests_within_0_4_s() {
    let routes = Routes::new();
    for exponent in [0.5, 0.9] {
        let [lanes, hashing] = [Policy::Lanes, Policy::Hashing].map(|policy| figures(policy, &routes, exponent));
        println!("Zipf {exponent}: lanes: {lanes}; hashing: {hashing}");
        assert!(lanes.p99 <= 0.4, "{lanes}");
        assert!(hashing.p99 > lanes.p99 * 5.0, "the lanes do not help: {lanes}; {hashing}");
    }
}

/// Returns a function that draws sessions with popularities by Zipf's law.
fn sessions(exponent: f64) -> impl Fn(&mut Dice) -> usize {
    let mut total = 0.0;
    let popularity = |rank: usize| 1.0 / ((rank + 1) as f64).powf(exponent);
    let sums: Vec<f64> = (0..SESSIONS).map(|rank| (total += popularity(rank), total).1).collect();
    move |dice| {
        let chosen = part(dice) * total;
        sums.partition_point(|sum| *sum < chosen)
    }
}

/// A number between 0 and 1, neither of them.
fn part(dice: &mut Dice) -> f64 {
    ((dice.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

#[test]
fn a_worker_that_joins_has_the_keys_of_nearly_all_its_requests_open() {
    let now = Instant::now();
    let mut view = view(now);
    let joins = {
        let (worker, pool, version) = (name(WORKERS), POOL.to_owned(), String::new());
        let (weight, draining, warming, load) = (1, false, true, Load::default());
        Presence { worker, pool, weight, speaks: SPEAKS, draining, warming, version, load }
    };
    view.hear(joins.clone(), now);
    for exponent in [0.5, 0.9] {
        let (mut dice, draw, mut popular) = (Dice::new(SEEDS[0]), sessions(exponent), Popular::default());
        for _ in 0..REQUESTS {
            let session = draw(&mut dice);
            popular.asked(&format!("{session:04}"), session, now);
        }
        let ranks = view.ranks_of(&joins, now);
        let open: HashSet<usize> =
            wanted(&ranks, popular.hottest(now)).into_iter().map(|(_, session)| session).collect();
        let takes = |session: &usize| ranks.of(format!("{session:04}").as_bytes()).is_some();
        let taken: Vec<usize> = (0..REQUESTS).map(|_| draw(&mut dice)).filter(takes).collect();
        let found = taken.iter().filter(|session| open.contains(session)).count() as f64 / taken.len() as f64;
        println!("Zipf {exponent}: {} keys open, {:.1} % of requests find theirs", open.len(), found * 1e2);
        assert!(found > 0.95, "{found}");
    }
}
