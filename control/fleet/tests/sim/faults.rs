//! Faults, and what is checked at the end of a run.

use std::time::{Duration, Instant};

use bytes::Bytes;
use fleet::taking::{REMEMBERED, Take};

use crate::dice::Dice;
use crate::work::{End, Work};
use crate::world::{Event, ToWorker, World};

#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// A worker dies, and is started again after some time.
    Kill,
    Restart(usize),
    /// A worker stands still, and goes on after some time.
    Sleep,
    /// A worker has no room for some time, and gives back what it takes.
    Busy,
    /// A worker takes no more work, ends what it has, and leaves.
    Drain,
    /// A new worker.
    Join,
    /// An API node dies, and another one takes its place.
    KillNode,
    ForgetAll,
    ForgetOne,
    /// The broker refuses everything for some time.
    Away,
    Back,
    /// The end of all faults.
    End,
}

impl Fault {
    pub fn draw(dice: &mut Dice) -> Fault {
        use Fault::{Away, Busy, Drain, ForgetAll, ForgetOne, Join, Kill, KillNode, Sleep};
        dice.pick(&[Kill, Kill, Sleep, Sleep, Busy, Drain, Join, KillNode, ForgetAll, ForgetOne, Away, Away])
    }
}

impl World<'_> {
    fn any_worker(&mut self) -> Option<usize> {
        let there: Vec<usize> = (0..self.workers.len()).filter(|worker| self.workers[*worker].is_there).collect();
        (!there.is_empty()).then(|| self.dice.pick(&there))
    }

    pub fn fault(&mut self, fault: Fault) {
        let now = self.now;
        match fault {
            Fault::Kill => {
                if let Some(worker) = self.any_worker() {
                    self.kill(worker);
                }
            }
            Fault::Restart(worker) => {
                if !self.workers[worker].is_there && !self.workers[worker].is_draining {
                    self.start(worker);
                }
            }
            Fault::Sleep => {
                if let Some(worker) = self.any_worker() {
                    self.counts.sleeps += 1;
                    let wakes = now + self.dice.ms(100, 6_000);
                    self.workers[worker].sleeps_until = wakes.min(self.plan.faults_end);
                }
            }
            Fault::Busy => {
                if let Some(worker) = self.any_worker() {
                    self.workers[worker].busy_until = now + self.dice.ms(100, 1_500);
                }
            }
            Fault::Drain => {
                let stays = self.workers.iter().filter(|worker| worker.is_there && !worker.is_draining).count();
                if stays > 1
                    && let Some(worker) = self.any_worker()
                {
                    self.drain(worker);
                }
            }
            Fault::Join => self.join(),
            Fault::KillNode => {
                let node = self.dice.below(self.nodes.len() as u64) as usize;
                self.kill_node(node);
            }
            Fault::ForgetAll => self.broker.forget_all(),
            Fault::ForgetOne => self.broker.forget_one(&mut self.dice),
            Fault::Away => {
                self.broker.is_away = true;
                let back = now + self.dice.ms(50, 3_500);
                self.at(back.min(self.plan.faults_end), Event::Fault(Fault::Back));
            }
            Fault::Back => {
                self.broker.is_away = false;
                (0..self.workers.len()).for_each(|lane| self.deliver(lane));
            }
            Fault::End => self.end_faults(),
        }
    }

    /// A worker dies.
    pub fn kill(&mut self, worker: usize) {
        self.counts.deaths += 1;
        self.workers[worker].die();
        // the broker may learn later that the connection is gone
        if self.dice.percent(50) {
            self.broker.close(worker);
        }
        // some workers stay dead, but none that work of the time of faults stops after its end
        if !self.is_faulty() || self.dice.percent(75) {
            let restart = self.now + self.dice.ms(200, 4_000);
            self.at(restart.min(self.plan.faults_end), Event::Fault(Fault::Restart(worker)));
        }
    }

    fn end_faults(&mut self) {
        self.fault(Fault::Back);
        for worker in &mut self.workers {
            worker.sleeps_until = self.now;
            worker.busy_until = self.now;
        }
        // a single worker may have to compute all that is left, one piece after another
        let is_left = |work: &&Work| work.end.as_ref().is_none_or(|end| *end == End::Left);
        self.plan.answered_within += self.works.iter().filter(is_left).map(|work| work.takes).sum::<Duration>();
        if !self.workers.iter().any(|worker| worker.is_there && !worker.is_draining) {
            self.join();
        }
    }

    /// Whether the work was asked when faults were over.
    pub fn is_asked_after_faults(&self, work: usize) -> bool {
        self.works[work].begin >= self.plan.faults_end
    }

    pub fn check_the_end(&mut self) {
        for number in 0..self.works.len() {
            let is_after = self.is_asked_after_faults(number);
            let work = &self.works[number];
            let Some(end) = work.end.as_ref().filter(|_| work.ask.is_none()) else { panic!("{} has no end", work.id) };
            if is_after {
                self.counts.asked_after_faults += 1;
                let is_right = *end == End::Answered || self.may_be_full(number, end);
                assert!(is_right, "{} was asked when faults were over: {end:?}", work.id);
                if work.begin >= self.plan.settled {
                    let is_answered = *end == End::Answered;
                    assert_eq!(work.computed, u32::from(is_answered), "{} is computed once", work.id);
                }
            }
        }
        // a worker forgets what has ended
        for worker in self.workers.iter_mut().filter(|worker| worker.is_there) {
            let later: Instant = self.now + REMEMBERED + Duration::from_secs(1);
            assert_eq!((worker.taking.running(), worker.tasks.len()), (0, 0), "{} computes at the end", worker.name());
            assert_eq!(worker.taking.take("probe", 1, later), Take::Compute);
            worker.taking.end("probe", Some(Bytes::new()), later);
            assert_eq!(worker.taking.remembered(), (1, 0), "{} does not forget", worker.name());
        }
    }

    /// A worker is there for the first time.
    pub fn join(&mut self) {
        let worker = self.workers.len();
        self.workers.push(crate::worker::Worker::new(worker, self.now));
        self.start(worker);
    }

    pub fn start(&mut self, worker: usize) {
        let now = self.now;
        self.workers[worker].live_again(now);
        let life = self.workers[worker].life;
        self.at(now, Event::Worker(worker, life, ToWorker::PullOwn));
        self.at(now, Event::Worker(worker, life, ToWorker::SayPresence));
        self.at(now, Event::Worker(worker, life, ToWorker::LookWarm));
    }
}
