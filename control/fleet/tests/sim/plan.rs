//! The plan of a run: how bad the network is, which work is asked when, which faults happen when.

use std::time::{Duration, Instant};

use crate::dice::Dice;
use crate::faults::Fault;
use crate::node::Node;
use crate::work::{Kind, Work};
use crate::world::{Event, World};

const fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// The faults leave leases, workers that are gone but still listed, and pulls that the broker has lost. All that is over
/// after this time.
const SETTLES_AFTER: Duration = s(8);
/// Work that is asked this long after the end of the faults is answered: each worker has told that it is there.
pub const USABLE_AFTER: Duration = Duration::from_millis(1200);

pub struct Plan {
    pub start: Instant,
    pub faults_end: Instant,
    pub settled: Instant,
    pub end: Instant,
    /// Work that is asked when faults are over, or that has waited for their end, is answered after at most this time.
    pub answered_within: Duration,
    /// Percent of what the network carries.
    pub lost: u64,
    pub doubled: u64,
    pub slow: u64,
    /// The longest delay.
    pub slow_ms: u64,
    /// How many messages a worker takes at the same time.
    pub room: usize,
}

impl Plan {
    pub fn new(dice: &mut Dice, start: Instant) -> Plan {
        let faults_end = start + dice.ms(4_000, 12_000);
        let settled = faults_end + SETTLES_AFTER;
        let (end, answered_within) = (settled + s(100), SETTLES_AFTER);
        let mut percent = |most: u64| if dice.percent(40) { 0 } else { dice.below(most + 1) };
        let (lost, doubled, slow) = (percent(20), percent(15), percent(20));
        let (slow_ms, room) = (dice.pick(&[20, 300, 3_000]), dice.between(2, 4) as usize);
        Plan { start, faults_end, settled, end, answered_within, lost, doubled, slow, slow_ms, room }
    }
}

impl World<'_> {
    /// Fills the world, and plans what happens.
    pub fn begin(&mut self) {
        for _ in 0..self.dice.between(1, 2) {
            self.nodes.push(Node::new());
        }
        for _ in 0..self.dice.between(2, 4) {
            self.join();
        }
        let span = self.plan.faults_end.duration_since(self.plan.start).as_millis() as u64;
        for _ in 0..self.dice.between(0, 8) {
            let (at, fault) = (self.plan.start + self.dice.ms(0, span), Fault::draw(&mut self.dice));
            self.at(at, Event::Fault(fault));
        }
        self.at(self.plan.faults_end, Event::Fault(Fault::End));
        // a worker leaves, one joins and one has no room for a while: none of these is a fault
        for fault in [Fault::Drain, Fault::Join, Fault::Busy] {
            if self.dice.percent(30) {
                let at = self.plan.settled + self.dice.ms(0, 3_000);
                self.at(at, Event::Fault(fault));
            }
        }
        let flows = self.dice.between(1, 6);
        let pieces = self.dice.between(5, 40);
        for _ in 0..pieces {
            let begin = self.plan.start + self.dice.ms(0, span);
            self.add_work(begin, flows);
        }
        if self.dice.percent(10) {
            // more work of one flow than a lane takes
            let begin = self.plan.start + self.dice.ms(0, span);
            for _ in 0..self.dice.between(17, 24) {
                self.add_work(begin, 1);
            }
        }
        for _ in 0..10 {
            let begin = self.plan.faults_end + USABLE_AFTER + self.dice.ms(0, 9_500);
            self.add_work(begin, flows);
        }
    }

    fn add_work(&mut self, begin: Instant, flows: u64) {
        let number = self.works.len();
        let dice = &mut self.dice;
        let is_faulty = begin < self.plan.faults_end;
        let takes = match dice.below(10) {
            0 => dice.ms(1_000, 5_000),
            1..=3 => dice.ms(100, 600),
            _ => dice.ms(1, 30),
        };
        let mut deadline = begin + s(60);
        let mut kind = dice.pick(&[Kind::Inline, Kind::Inline, Kind::Token]);
        let mut cancel_at = None;
        if is_faulty {
            if dice.percent(30) {
                deadline = begin + dice.ms(50, 5_000);
            }
            if dice.percent(10) {
                cancel_at = Some(begin + dice.ms(1, 3_000));
            }
            // killers are gone when the faults end
            if dice.percent(4) {
                kind = Kind::Killer;
                deadline = self.plan.faults_end;
            }
        }
        let (id, node, flow) = (format!("q{number}"), dice.below(self.nodes.len() as u64) as usize, dice.below(flows));
        let (ask, end, tokens, computed) = Default::default();
        let work = Work { id, node, flow, kind, takes, begin, deadline, cancel_at, ask, end, tokens, computed };
        self.works.push(work);
        self.at(begin, Event::Ask(number));
    }
}
