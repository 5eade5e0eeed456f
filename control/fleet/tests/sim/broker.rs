//! A made-up broker: lanes with leases, priorities and a bound for each flow. The network between members and the broker is
//! in [`crate::world`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use fleet::broker::{FLOW_MESSAGES_MAX, Lane, NotPublished, Queue, RUN_LEASE, Rank, Receipt};

use crate::dice::Dice;

pub const POOL: &str = "default";

#[derive(Clone, Debug)]
pub struct Content {
    pub work: usize,
    pub attempt: u32,
    pub token: u64,
    pub left: Duration,
}

/// A message in its lane.
#[derive(Clone, Debug)]
pub struct Kept {
    pub content: Content,
    /// Names the message within the whole run. The broker counts its numbers from 1 again after it has lost everything.
    pub serial: u64,
    number: u64,
    flow: u64,
    drop_at: Instant,
    pub deliveries: u64,
    state: State,
    /// Since when a worker could take the message.
    pub waits_since: Instant,
    /// How many deliveries ended because the worker was silent.
    pub silent: u64,
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    Waits,
    Taken { delivery: u64, until: Instant },
    Rests(Instant),
}

/// Names a delivery.
#[derive(Clone, Debug)]
pub struct Slip {
    pub lane: usize,
    number: u64,
    delivery: u64,
}

#[derive(Clone, Debug)]
pub struct Pull {
    pub worker: usize,
    pub life: u64,
    pub call: u64,
    pub rank: Rank,
    pub until: Instant,
}

/// A message on its way to a worker.
#[derive(Clone, Debug)]
pub struct Delivered {
    pub to: Pull,
    pub slip: Slip,
    pub message: Kept,
}

#[derive(Default)]
struct LaneState {
    messages: Vec<Kept>,
    pulls: Vec<Pull>,
}

pub struct MadeBroker {
    lanes: BTreeMap<usize, LaneState>,
    number: u64,
    last: u64,
    /// The attempts of work whose messages are no use, as a worker has said.
    no_use: BTreeSet<(usize, u32)>,
    /// The broker refuses everything.
    pub is_away: bool,
    /// The broker takes the word of any delivery of a message, not only of the last one.
    pub takes_old_words: bool,
}

pub fn lane_name(lane: usize) -> String {
    format!("w{lane}")
}

pub fn lane_number(name: &str) -> usize {
    name[1..].parse().expect("the name is of a worker")
}

impl MadeBroker {
    pub fn new(takes_old_words: bool) -> MadeBroker {
        let (lanes, no_use) = Default::default();
        MadeBroker { lanes, number: 0, last: 0, no_use, is_away: false, takes_old_words }
    }

    /// Puts a message into its lane. Returns the receipt, and the number of the message within the run.
    pub fn publish(
        &mut self,
        lane: usize,
        flow: u64,
        content: Content,
        before: Option<&Receipt>,
        now: Instant,
    ) -> Result<(Receipt, u64), NotPublished> {
        if self.is_away {
            return Err(NotPublished::Refused("away".to_owned()));
        }
        if let Some(before) = before
            && let Some(lane_state) = self.lanes.get(&lane_number(&before.lane.worker))
            && let Some(same) = lane_state.messages.iter().find(|message| message.number == before.number)
        {
            // after the broker has lost everything, the number may be that of another message
            let is_same = same.content.work == content.work && same.content.attempt < content.attempt;
            return Ok((before.clone(), if is_same { same.serial } else { 0 }));
        }
        let lane_state = self.lanes.entry(lane).or_default();
        if lane_state.messages.iter().filter(|message| message.flow == flow).count() >= FLOW_MESSAGES_MAX {
            return Err(NotPublished::FlowFull);
        }
        (self.number, self.last) = (self.number + 1, self.last + 1);
        let (number, serial, drop_at) = (self.number, self.last, now + content.left);
        let (state, waits_since) = (State::Waits, now);
        let (deliveries, silent) = (0, 0);
        let kept = Kept { content, serial, number, flow, drop_at, deliveries, state, waits_since, silent };
        lane_state.messages.push(kept);
        let of_flow = lane_state.messages.iter().filter(|message| message.flow == flow).count();
        assert!(of_flow <= FLOW_MESSAGES_MAX, "the lane w{lane} has {of_flow} messages of a flow");
        let lane = Lane { queue: Queue::Run, pool: POOL.to_owned(), worker: lane_name(lane) };
        let receipt = Receipt { lane, number };
        // the API node takes the new message for the old one if they have the same number
        let is_new = before != Some(&receipt);
        Ok((receipt, if is_new { serial } else { 0 }))
    }

    /// Whether the message is in its lane and of use.
    pub fn has(&self, serial: u64) -> bool {
        let of_use = |of: &Content| !self.no_use.contains(&(of.work, of.attempt));
        let mut messages = self.lanes.values().flat_map(|lane| &lane.messages);
        messages.any(|message| message.serial == serial && of_use(&message.content))
    }

    /// Notes that a worker has said that the messages of this attempt are no use.
    pub fn note_no_use(&mut self, work: usize, attempt: u32) {
        self.no_use.insert((work, attempt));
    }

    pub fn pull(&mut self, lane: usize, pull: Pull) {
        self.lanes.entry(lane).or_default().pulls.push(pull);
    }

    /// Ends the pulls of a worker whose connection has closed.
    pub fn close(&mut self, worker: usize) {
        self.lanes.values_mut().for_each(|lane| lane.pulls.retain(|pull| pull.worker != worker));
    }

    /// Whether messages of a lane wait.
    pub fn waits(&self, lane: usize) -> bool {
        self.lanes.get(&lane).is_some_and(|lane| lane.messages.iter().any(|message| message.state == State::Waits))
    }

    pub fn any(&self) -> bool {
        self.lanes.values().any(|lane| !lane.messages.is_empty())
    }

    pub fn any_waits(&self) -> bool {
        self.lanes.keys().any(|lane| self.waits(*lane))
    }

    /// Gives the waiting messages of a lane to the pulls. `lease`: how long a worker has a message, which is shorter than
    /// it should be when the broker doubles messages.
    pub fn deliver(&mut self, lane: usize, now: Instant, mut lease: impl FnMut() -> Duration) -> Vec<Delivered> {
        let mut delivered = Vec::new();
        let Some(LaneState { messages, pulls }) = self.lanes.get_mut(&lane).filter(|_| !self.is_away) else {
            return delivered;
        };
        for message in messages.iter_mut() {
            match message.state {
                State::Taken { until, .. } if until <= now => {
                    message.silent += 1;
                    (message.state, message.waits_since) = (State::Waits, now);
                }
                State::Rests(until) if until <= now => (message.state, message.waits_since) = (State::Waits, now),
                _ => {}
            }
        }
        messages.retain(|message| message.drop_at > now);
        pulls.retain(|pull| pull.until > now);
        for message in messages.iter_mut().filter(|message| message.state == State::Waits) {
            let best = pulls.iter().enumerate().min_by_key(|(at, pull)| (pull.rank, *at)).map(|(at, _)| at);
            let Some(best) = best else { break };
            let to = pulls.remove(best);
            self.last += 1;
            message.deliveries += 1;
            message.state = State::Taken { delivery: self.last, until: now + lease() };
            let slip = Slip { lane, number: message.number, delivery: self.last };
            delivered.push(Delivered { to, slip, message: message.clone() });
        }
        delivered
    }

    fn find(&mut self, slip: &Slip) -> Option<(&mut Vec<Kept>, usize)> {
        let messages = &mut self.lanes.get_mut(&slip.lane)?.messages;
        let at = messages.iter().position(|message| message.number == slip.number)?;
        let is_last = matches!(messages[at].state, State::Taken { delivery, .. } if delivery == slip.delivery);
        (is_last || self.takes_old_words).then_some((messages, at))
    }

    pub fn progress(&mut self, slip: &Slip, now: Instant) {
        if let Some((messages, at)) = self.find(slip)
            && let State::Taken { until, .. } = &mut messages[at].state
        {
            *until = now + RUN_LEASE;
        }
    }

    pub fn give_back(&mut self, slip: &Slip, until: Instant) {
        if let Some((messages, at)) = self.find(slip)
            && let State::Taken { delivery, .. } = messages[at].state
        {
            // an old word ends a delivery of which the worker has said nothing
            messages[at].silent += u64::from(delivery != slip.delivery);
            messages[at].state = State::Rests(until);
        }
    }

    pub fn done(&mut self, slip: &Slip) {
        if let Some((messages, at)) = self.find(slip) {
            messages.remove(at);
        }
    }

    /// Forgets all messages and counts from 1 again.
    pub fn forget_all(&mut self) {
        self.lanes.values_mut().for_each(|lane| lane.messages.clear());
        self.number = 0;
    }

    /// Forgets one message.
    pub fn forget_one(&mut self, dice: &mut Dice) {
        let mut full: Vec<_> = self.lanes.values_mut().filter(|lane| !lane.messages.is_empty()).collect();
        if !full.is_empty() {
            let at = dice.below(full.len() as u64) as usize;
            let messages = &mut full[at].messages;
            messages.remove(dice.below(messages.len() as u64) as usize);
        }
    }
}
