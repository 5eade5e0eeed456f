//! The warm join: API nodes name popular flows to a worker that starts, and the worker opens their keys before it is used.

use std::time::{Duration, Instant};

use fleet::presence::{PERIOD, Presence};
use fleet::warming::wanted;

use crate::broker::lane_number;
use crate::world::{Event, ToWorker, World};

/// How often a worker that warms up looks whether it is used from now on.
const LOOK: Duration = Duration::from_millis(20);

/// A flow as API nodes name it. Its bytes are those by which its owner is chosen.
pub fn name_of(flow: u64) -> String {
    String::from_utf8(flow.to_be_bytes().to_vec()).expect("there are few flows")
}

impl World<'_> {
    /// An API node names flows to a worker that warms up.
    pub fn node_names_flows(&mut self, node: usize, presence: &Presence) {
        let now = self.now;
        let node = &mut self.nodes[node];
        if !node.telling.hear(presence, now) {
            return;
        }
        let wanted = wanted(&node.view.ranks_of(presence, now), node.popular.hottest(now));
        let flows: Vec<u64> = wanted.into_iter().map(|(_, flow)| flow).collect();
        if !flows.is_empty() {
            let worker = lane_number(&presence.worker);
            let life = self.workers[worker].life;
            self.send(Event::Worker(worker, life, ToWorker::Named(flows)));
        }
    }

    /// A worker begins to open the keys of flows.
    pub fn named(&mut self, number: usize, flows: &[u64]) {
        let now = self.now;
        for flow in flows {
            let worker = &mut self.workers[number];
            if !worker.warming.is_over(now) && worker.warm.insert(*flow, false).is_none() {
                worker.warming.told(1);
                let (life, takes) = (worker.life, self.dice.ms(5, 400));
                self.after(takes, Event::Worker(number, life, ToWorker::Opened(*flow)));
            }
        }
    }

    /// A worker has opened the key of a flow.
    pub fn opened(&mut self, number: usize, flow: u64) {
        let worker = &mut self.workers[number];
        worker.warming.opened();
        worker.warm.insert(flow, true);
        self.counts.warmed += 1;
    }

    /// A worker looks whether it is used from now on, and tells so.
    pub fn look_warm(&mut self, number: usize) {
        let (now, worker) = (self.now, &mut self.workers[number]);
        if !worker.warming.is_over(now) {
            let life = worker.life;
            return self.after(LOOK, Event::Worker(number, life, ToWorker::LookWarm));
        }
        worker.ready_since = Some(now);
        self.note(|| format!("w{number} is used"));
        self.say_presence(number);
    }

    /// Whether all members have heard that a worker is used.
    fn is_known_as_ready(&self, number: usize) -> bool {
        let worker = &self.workers[number];
        let is_heard = |since: Instant| self.now.duration_since(since) > PERIOD + Duration::from_millis(10);
        worker.is_there && !worker.is_draining && worker.ready_since.is_some_and(is_heard)
    }

    /// Checks that work is not given to a worker that warms up while another one is ready. `had_no_room`: the worker that gave the
    /// work back.
    pub fn check_owner_is_warm(&self, number: usize, had_no_room: Option<usize>) {
        let owner = &self.workers[number];
        // a worker that has just started may be listed as it was before
        let has_started = self.now.duration_since(owner.since) <= PERIOD + Duration::from_millis(10);
        let is_warm = owner.ready_since.is_some() || has_started;
        let ready = (0..self.workers.len()).find(|other| Some(*other) != had_no_room && self.is_known_as_ready(*other));
        assert!(is_warm || ready.is_none(), "w{number} warms up and owns work, though {ready:?} is ready");
    }
}
