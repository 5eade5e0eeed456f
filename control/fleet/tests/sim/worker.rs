//! Workers: they drive [`Taking`] and [`Workers`] as the crate's serving part does, and check what they see.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fleet::asking::SILENT_AFTER;
use fleet::broker::Rank;
use fleet::presence::{self, Load, Presence, SPEAKS, Workers};
use fleet::taking::Taking;
use fleet::warming::Warming;

use crate::broker::{Delivered, POOL, Pull, lane_name, lane_number};
use crate::task::Task;
use crate::world::{Event, Request, ToWorker, World};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const OWN_EMPTY: Duration = ms(20);
const OWN_WAIT: Duration = ms(5_000);
const SECOND_WAIT: Duration = ms(100);
const HELP_WAIT: Duration = ms(20);
const RETRY: Duration = ms(200);
/// A message waits no longer in its lane while a worker is idle.
const TAKEN_WITHIN: Duration = ms(700);
/// How long a worker knows of which lanes it is the second.
const LANES_KNOWN: Duration = ms(500);

pub struct Worker {
    number: usize,
    pub is_there: bool,
    pub is_draining: bool,
    /// Counts the starts of the worker. A message for another life is lost.
    pub life: u64,
    /// Since when the worker has been as it is: started, or draining.
    pub since: Instant,
    pub sleeps_until: Instant,
    pub busy_until: Instant,
    pub taking: Taking,
    view: Workers,
    /// The lanes of which the worker is the second, and when that was found.
    seconded: (Instant, Vec<usize>),
    turn: usize,
    looks: bool,
    /// Places for messages that are in use.
    pub used: usize,
    /// The pulls that wait, by rank.
    pulls: BTreeMap<Rank, u64>,
    own_since: Instant,
    /// Since when the worker could have taken the work of any lane.
    idle_since: Option<Instant>,
    pub tasks: BTreeMap<u64, Task>,
    pub warming: Warming,
    /// Since when the worker is used.
    pub ready_since: Option<Instant>,
    /// The flows that API nodes named, and whether their keys are open.
    pub warm: HashMap<u64, bool>,
    /// The work that this life has answered, and when.
    pub answered: HashMap<usize, Instant>,
    /// The work that this life knows to be cancelled, and since when.
    pub cancelled: HashMap<usize, Instant>,
}

impl Worker {
    pub fn new(number: usize, now: Instant) -> Worker {
        let (is_there, is_draining, life, turn, looks, used) = (false, false, 0, 0, false, 0);
        let (taking, view, pulls, idle_since, tasks, ready_since, warm, answered, cancelled) = Default::default();
        let (seconded, warming) = ((now, Vec::new()), Warming::begin(now));
        #[rustfmt::skip]
        let worker = Worker {
            number, is_there, is_draining, life, since: now, sleeps_until: now, busy_until: now, taking, view, seconded, turn,
            looks, used, pulls, own_since: now, idle_since, tasks, warming, ready_since, warm, answered, cancelled,
        };
        worker
    }

    pub fn name(&self) -> String {
        lane_name(self.number)
    }

    pub fn live_again(&mut self, now: Instant) {
        *self = Worker { life: self.life + 1, is_there: true, ..Worker::new(self.number, now) };
    }

    pub fn die(&mut self) {
        (self.is_there, self.idle_since) = (false, None);
        self.life += 1;
        self.tasks.clear();
    }

    fn presence(&self) -> Presence {
        Presence {
            worker: self.name(),
            pool: POOL.to_owned(),
            weight: 1 + self.number as u32 % 2,
            speaks: SPEAKS,
            draining: self.is_draining,
            warming: self.ready_since.is_none(),
            version: String::new(),
            load: Load::default(),
        }
    }

    /// Whether the own lane has been empty for a moment, and a place is free.
    fn is_idle(&self, now: Instant, room: usize) -> bool {
        let empty = self.pulls.contains_key(&Rank::Owner) && now.duration_since(self.own_since) >= OWN_EMPTY;
        empty && !self.is_draining && self.used < room
    }
}

impl World<'_> {
    pub fn tell_worker(&mut self, number: usize, life: u64, what: ToWorker) {
        let worker = &self.workers[number];
        if worker.life != life || !worker.is_there {
            return;
        }
        if worker.sleeps_until > self.now {
            let until = worker.sleeps_until;
            return self.at(until, Event::Worker(number, life, what));
        }
        if !matches!(what, ToWorker::Look | ToWorker::LookWarm | ToWorker::Seen(_) | ToWorker::SayPresence) {
            self.note(|| format!("w{number} {what:?}"));
        }
        match what {
            ToWorker::Delivered(delivered) => self.delivered(number, *delivered),
            ToWorker::PullEnds(call) => self.pull_ends(number, call),
            ToWorker::PullOwn => self.pull_own(number),
            ToWorker::Look => self.look(number),
            ToWorker::Seen(presence) => {
                let now = self.now;
                self.workers[number].view.hear(Presence::clone(&presence), now);
            }
            ToWorker::Help(lane) => {
                if lane != number && self.workers[number].is_idle(self.now, self.plan.room) {
                    self.pull(number, lane, Rank::Helper, HELP_WAIT);
                }
            }
            ToWorker::Cancel(work) => self.cancel(number, work),
            ToWorker::SayPresence => {
                self.say_presence(number);
                self.workers[number].view.forget_gone(self.now);
                self.after(presence::PERIOD, Event::Worker(number, life, ToWorker::SayPresence));
            }
            ToWorker::Named(flows) => self.named(number, &flows),
            ToWorker::Opened(flow) => self.opened(number, flow),
            ToWorker::LookWarm => self.look_warm(number),
            ToWorker::Beat(task) => self.beat(number, task),
            ToWorker::Finish(task) => self.finish(number, task),
            ToWorker::SayAgain { work, attempt, slip } => self.say_again(work, attempt, slip),
        }
        let (now, room) = (self.now, self.plan.room);
        let worker = &mut self.workers[number];
        let could = worker.pulls.contains_key(&Rank::Owner) && worker.used < room && !worker.is_draining;
        worker.idle_since = could.then(|| worker.idle_since.unwrap_or(now)).filter(|_| worker.is_there);
    }

    pub fn say_presence(&mut self, number: usize) {
        let presence = Arc::new(self.workers[number].presence());
        for node in 0..self.nodes.len() {
            self.send(Event::Seen(node, presence.clone()));
        }
        self.tell_workers(&ToWorker::Seen(presence));
    }

    pub fn drain(&mut self, number: usize) {
        self.workers[number].is_draining = true;
        self.workers[number].since = self.now;
        self.workers[number].idle_since = None;
        self.say_presence(number);
        self.leave_if_empty(number);
    }

    /// A worker that drains leaves when no work runs and no pull waits.
    fn leave_if_empty(&mut self, number: usize) {
        let worker = &mut self.workers[number];
        if worker.is_there && worker.is_draining && worker.used == 0 {
            worker.die();
            self.counts.drained += 1;
            self.broker.close(number);
        }
    }

    /// Takes a place, and pulls. Does nothing without a place or while such a pull waits.
    fn pull(&mut self, number: usize, lane: usize, rank: Rank, wait: Duration) {
        let (now, call, room, is_away) = (self.now, self.unused(), self.plan.room, self.broker.is_away);
        let worker = &mut self.workers[number];
        if worker.used >= room || worker.is_draining || worker.pulls.contains_key(&rank) {
            return;
        }
        let life = worker.life;
        if rank == Rank::Owner {
            worker.own_since = now;
        }
        if is_away {
            return self.after(RETRY, Event::Worker(number, life, ToWorker::PullOwn));
        }
        worker.used += 1;
        worker.pulls.insert(rank, call);
        self.request(Request::Pull { lane, pull: Pull { worker: number, life, call, rank, until: now + wait } });
        // a message that the broker sent at the end of the pull may still be on its way
        self.after(wait + ms(5), Event::Worker(number, life, ToWorker::PullEnds(call)));
    }

    pub fn pull_own(&mut self, number: usize) {
        self.pull(number, number, Rank::Owner, OWN_WAIT);
    }

    /// Gives a place back.
    pub fn free(&mut self, number: usize) {
        self.workers[number].used -= 1;
        self.pull_own(number);
        self.leave_if_empty(number);
    }

    /// Ends the wait of a pull. Returns whether the worker waited for it.
    pub fn end_pull(&mut self, number: usize, call: u64) -> bool {
        let pulls = &mut self.workers[number].pulls;
        let rank = pulls.iter().find(|(_, of)| **of == call).map(|(rank, _)| *rank);
        rank.is_some_and(|rank| pulls.remove(&rank).is_some())
    }

    fn pull_ends(&mut self, number: usize, call: u64) {
        if self.end_pull(number, call) {
            self.free(number);
        }
    }

    /// Lets a worker look soon at the lanes of which it is the second.
    pub fn look_soon(&mut self, number: usize) {
        if self.workers[number].is_there && !std::mem::replace(&mut self.workers[number].looks, true) {
            let (life, soon) = (self.workers[number].life, self.dice.ms(0, 20));
            self.after(soon, Event::Worker(number, life, ToWorker::Look));
        }
    }

    fn look(&mut self, number: usize) {
        let (now, room) = (self.now, self.plan.room);
        let worker = &mut self.workers[number];
        worker.looks = false;
        if now.duration_since(worker.seconded.0) >= LANES_KNOWN || worker.seconded.1.is_empty() {
            let lanes = worker.view.seconded_by(&worker.name(), POOL, now);
            worker.seconded = (now, lanes.iter().map(|lane| lane_number(lane)).collect());
        }
        worker.turn += 1;
        let (turn, lanes) = (worker.turn, &worker.seconded.1);
        let full = (0..lanes.len()).map(|at| lanes[(at + turn) % lanes.len()]).find(|lane| self.broker.waits(*lane));
        if let Some(lane) = full
            && worker.is_idle(now, room)
        {
            self.pull(number, lane, Rank::Second, SECOND_WAIT);
        }
        if self.broker.any_waits() {
            let worker = &mut self.workers[number];
            worker.looks = true;
            let life = worker.life;
            self.after(ms(50), Event::Worker(number, life, ToWorker::Look));
        }
    }

    /// Checks that a message did not wait in its lane while a worker was idle.
    pub fn check_wait(&self, delivered: &Delivered) {
        let message = &delivered.message;
        let waits_since = message.waits_since.max(self.plan.settled);
        let waited = self.now.duration_since(waits_since.min(self.now));
        let is_asked = self.works[message.content.work].ask.is_some();
        // an API node that has heard of a worker asks only when that worker has been silent
        let within = if message.deliveries > 1 { SILENT_AFTER + TAKEN_WITHIN } else { TAKEN_WITHIN };
        if waited <= within || !is_asked {
            return;
        }
        let idle = self.workers.iter().find(|worker| worker.idle_since.is_some_and(|since| since <= waits_since));
        let idle = idle.map(Worker::name);
        assert!(idle.is_none(), "q{} waited {waited:?} while {idle:?} was idle", message.content.work);
    }
}
