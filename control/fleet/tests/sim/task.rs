//! The work of workers: what happens with a message that has come, and how its computation ends.

use std::time::{Duration, Instant};

use bytes::Bytes;
use fleet::broker::Rank;
use fleet::message::Word;
use fleet::taking::{DELIVERIES_MAX, REMEMBERED, Take, gives_back};

use crate::broker::{Delivered, Slip};
use crate::work::{CANCELLED, Kind, POISON};
use crate::world::{Event, Request, ToWorker, World};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const FIRST_BEAT: Duration = ms(100);
const BEAT: Duration = ms(500);
const BUSY_REST: Duration = ms(50);
/// Work fails as poison only if the broker has seen so many workers fall silent with it.
const SILENT_MIN: u64 = 2;
/// A computation ends this long after it was cancelled.
const STOPS_AFTER: Duration = ms(2);

/// A computation.
pub struct Task {
    work: usize,
    slip: Slip,
    attempt: u32,
    deliveries: u64,
    end: TaskEnd,
}

#[derive(Clone, Debug)]
enum TaskEnd {
    Answer(Bytes),
    /// The answer goes to the API node itself.
    Delivered,
    Again,
    GiveBack(Duration),
    Die,
}

impl World<'_> {
    /// A message has come.
    pub fn delivered(&mut self, number: usize, Delivered { to, slip, message }: Delivered) {
        // a message that comes after the end of its pull is lost
        if !self.end_pull(number, to.call) {
            return;
        }
        let (now, work) = (self.now, message.content.work);
        let id = self.works[work].id.clone();
        let take = self.workers[number].taking.take(&id, message.deliveries, now);
        self.note(|| format!("w{number} takes {id}, delivery {}: {take:?}", message.deliveries));
        self.check_take(number, work, &take, &message);
        match take {
            Take::Compute => {
                match to.rank {
                    Rank::Owner => self.counts.taken_by_owner += 1,
                    Rank::Second => self.counts.taken_by_second += 1,
                    Rank::Helper => self.counts.taken_by_helper += 1,
                }
                let flow = self.works[work].flow;
                let is_warm = self.workers[number].warm.get(&flow) == Some(&true);
                self.counts.served_warm += u64::from(is_warm && to.rank == Rank::Owner);
                self.counts.of_a_dead_owner += u64::from(!self.workers[slip.lane].is_there && to.rank == Rank::Second);
                self.compute(number, slip, &message);
                return self.pull_own(number);
            }
            Take::Runs => self.counts.runs_already += 1,
            Take::Drop => self.counts.dropped += 1,
            Take::Answer(end) => {
                self.counts.answered_again += 1;
                self.say_end(work, &end);
            }
            Take::Poison => self.say_end(work, &Bytes::from_static(POISON)),
        }
        self.request(Request::Done(slip));
        self.free(number);
    }

    fn check_take(&self, number: usize, work: usize, take: &Take, message: &crate::broker::Kept) {
        let worker = &self.workers[number];
        let remembers = |at: Option<&Instant>| at.is_some_and(|at| self.now.duration_since(*at) < REMEMBERED);
        let runs = worker.tasks.values().any(|task| task.work == work);
        match take {
            Take::Compute => {
                assert!(!remembers(worker.answered.get(&work)), "q{work} was answered by w{number} before");
                assert!(!remembers(worker.cancelled.get(&work)), "w{number} knows that q{work} is cancelled");
                assert!(!runs, "q{work} runs on w{number} already");
            }
            Take::Runs => assert!(runs, "q{work} does not run on w{number}"),
            Take::Drop => assert!(worker.cancelled.contains_key(&work), "w{number} drops q{work}"),
            Take::Answer(_) => assert!(worker.answered.contains_key(&work), "w{number} has no answer of q{work}"),
            Take::Poison => {
                let silent = message.silent;
                assert!(silent >= SILENT_MIN, "q{work} fails, though only {silent} workers fell silent with it");
                let is_known = runs || remembers(worker.answered.get(&work)) || remembers(worker.cancelled.get(&work));
                assert!(!is_known, "w{number} fails q{work}, though it knows that work");
            }
        }
    }

    fn compute(&mut self, number: usize, slip: Slip, message: &crate::broker::Kept) {
        let (now, task, content) = (self.now, self.unused(), &message.content);
        let work = &mut self.works[content.work];
        let is_asked = work.ask.is_some();
        let returns = work.kind == Kind::Token;
        let (takes, end) = if self.workers[number].busy_until > now {
            (ms(2), TaskEnd::GiveBack(BUSY_REST))
        } else {
            match work.kind {
                Kind::Killer => (ms(1), TaskEnd::Die),
                _ if returns && !(work.tokens.remove(&content.token) && is_asked) => (ms(2), TaskEnd::Again),
                _ if returns => (work.takes, TaskEnd::Delivered),
                _ => (work.takes, TaskEnd::Answer(work.answer())),
            }
        };
        if matches!(end, TaskEnd::Die) {
            let (id, deliveries) = (&work.id, message.deliveries);
            assert!(deliveries <= DELIVERIES_MAX, "{id} stops a worker in delivery {deliveries}");
        }
        let (work, attempt) = (content.work, content.attempt);
        let computing = Task { work, slip, attempt, deliveries: message.deliveries, end };
        let life = self.workers[number].life;
        self.workers[number].tasks.insert(task, computing);
        self.check_running(number);
        self.after(takes, Event::Worker(number, life, ToWorker::Finish(task)));
        if takes > FIRST_BEAT {
            self.after(FIRST_BEAT, Event::Worker(number, life, ToWorker::Beat(task)));
        }
    }

    /// Checks that the worker counts what runs. What was cancelled is not counted.
    fn check_running(&self, number: usize) {
        let worker = &self.workers[number];
        let runs = worker.tasks.values().filter(|task| !worker.cancelled.contains_key(&task.work)).count();
        assert_eq!(worker.taking.running(), runs, "w{number} counts what runs");
        assert!(worker.used <= self.plan.room, "w{number} has taken more than its room");
    }

    pub fn beat(&mut self, number: usize, task: u64) {
        let worker = &self.workers[number];
        let Some(Task { work, slip, .. }) = worker.tasks.get(&task) else { return };
        let (life, work, slip) = (worker.life, *work, slip.clone());
        self.request(Request::Progress(slip));
        self.say(work, Word::Runs(0));
        self.after(BEAT, Event::Worker(number, life, ToWorker::Beat(task)));
    }

    /// A computation ends.
    pub fn finish(&mut self, number: usize, task: u64) {
        let (now, is_away) = (self.now, self.broker.is_away);
        let Some(computed) = self.workers[number].tasks.remove(&task) else { return };
        let Task { work, slip, attempt, deliveries, end } = computed;
        let id = self.works[work].id.clone();
        self.note(|| format!("w{number} has finished {id}: {end:?}"));
        let worker = &mut self.workers[number];
        match end {
            TaskEnd::Die => return self.kill(number),
            TaskEnd::Answer(end) => {
                worker.taking.end(&id, Some(end.clone()), now);
                if end != CANCELLED {
                    worker.answered.insert(work, now);
                    self.works[work].computed += 1;
                }
                self.say_end(work, &end);
                // an answer that the broker did not take is not done
                if !is_away {
                    self.request(Request::Done(slip));
                }
            }
            TaskEnd::Delivered => {
                worker.taking.end(&id, None, now);
                if self.works[work].ask.is_some() {
                    self.works[work].computed += 1;
                    let word = Word::Ended(self.works[work].answer());
                    self.after(ms(1), Event::Word { work, word });
                }
                self.request(Request::Done(slip));
            }
            TaskEnd::Again => {
                worker.taking.end(&id, None, now);
                self.say_again(work, attempt, slip);
            }
            TaskEnd::GiveBack(after) => {
                worker.taking.end(&id, None, now);
                self.counts.given_back += 1;
                if gives_back(deliveries) {
                    self.request(Request::GiveBack(slip, after));
                } else {
                    let life = self.workers[number].life;
                    let say = ToWorker::SayAgain { work, attempt, slip };
                    self.after(after, Event::Worker(number, life, say));
                }
            }
        }
        self.check_running(number);
        self.free(number);
    }

    pub fn say_again(&mut self, work: usize, attempt: u32, slip: Slip) {
        self.broker.note_no_use(work, attempt);
        self.say(work, Word::Again(attempt));
        self.request(Request::Done(slip));
    }

    /// A worker hears that no client waits for some work.
    pub fn cancel(&mut self, number: usize, work: usize) {
        let now = self.now;
        let id = self.works[work].id.clone();
        let runs = self.workers[number].taking.cancel(&id, now);
        let worker = &self.workers[number];
        let stops = worker.tasks.values().any(|task| task.work == work) && !worker.cancelled.contains_key(&work);
        assert_eq!(runs, stops, "w{number} stops q{work}");
        self.workers[number].cancelled.entry(work).or_insert(now);
        if runs {
            // the computation ends in one of several ways
            let ends = [TaskEnd::Answer(Bytes::from_static(CANCELLED)), TaskEnd::GiveBack(BUSY_REST), TaskEnd::Again];
            let end = ends[self.dice.below(3) as usize].clone();
            let worker = &mut self.workers[number];
            let life = worker.life;
            let (task, running) = worker.tasks.iter_mut().find(|(_, task)| task.work == work).expect("the work runs");
            if !matches!(running.end, TaskEnd::Die) {
                running.end = end;
            }
            let finish = Event::Worker(number, life, ToWorker::Finish(*task));
            self.after(STOPS_AFTER, finish);
        }
    }
}
