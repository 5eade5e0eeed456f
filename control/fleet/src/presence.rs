//! The workers that are there. Each worker tells its presence every second, and each member keeps the list of the workers
//! that it has heard. Times are of the member's own clock, so clocks of machines are never compared.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::broker::{Rank, is_name};
use crate::lanes;

/// How often a worker tells its presence.
pub const PERIOD: Duration = Duration::from_secs(1);
/// A worker that was not heard for this long is not there.
pub const SILENCE: Duration = Duration::from_millis(3500);
/// A worker that is not there is forgotten after this time. Until then, its lane has a second.
pub const GONE: Duration = Duration::from_secs(120);
/// Versions of messages that this build reads, lowest first. Since 2, work leaves out operands that its worker may remember.
pub const SPEAKS: [u32; 2] = [1, 2];
/// Largest number of workers that a member lists.
pub const WORKERS_MAX: usize = 4096;

/// A worker's description of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presence {
    /// The worker's name, which is the name of its lane.
    pub worker: String,
    /// The worker's pool.
    pub pool: String,
    /// The worker's share of the flows, in proportion to the other workers of the pool. At least 1.
    pub weight: u32,
    /// The lowest and the highest version of messages that the worker reads.
    pub speaks: [u32; 2],
    /// The worker takes no new flows, because it is about to stop.
    pub draining: bool,
    /// The worker opens the keys of its lanes, and gets no work before it has done so. Members that do not know the field give it
    /// work at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub warming: bool,
    /// The worker's build.
    pub version: String,
    /// Figures for operators.
    pub load: Load,
}

/// Figures of a worker for operators.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// The backends that compute, such as `cuda` and `cpu-avx512`.
    pub devices: Vec<String>,
    /// Messages that the worker has taken and not finished.
    pub taken: u64,
    /// Keys that are open.
    pub keys: u64,
    /// Bytes of memory of prepared keys.
    pub resident_bytes: u64,
}

impl Presence {
    /// Whether the worker is used: neither draining nor warming up.
    pub fn is_ready(&self) -> bool {
        !self.draining && !self.warming
    }

    /// Reads a presence. `None`: the bytes are no presence that a member may list.
    pub fn read(bytes: &[u8]) -> Option<Presence> {
        let presence: Presence = serde_json::from_slice(bytes).ok()?;
        let is_valid = is_name(&presence.worker) && is_name(&presence.pool) && presence.weight > 0;
        is_valid.then_some(presence)
    }

    /// Writes the presence.
    pub fn write(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers are JSON")
    }
}

/// The workers that a member has heard.
#[derive(Default)]
pub struct Workers {
    heard: BTreeMap<String, (Presence, Instant)>,
}

impl Workers {
    /// Notes that a worker is there. Returns whether the worker was not there before.
    pub fn hear(&mut self, presence: Presence, now: Instant) -> bool {
        if self.heard.len() >= WORKERS_MAX && !self.heard.contains_key(&presence.worker) {
            return false;
        }
        let before = self.heard.insert(presence.worker.clone(), (presence, now));
        before.is_none_or(|(_, at)| now.duration_since(at) >= SILENCE)
    }

    /// Forgets the workers that have been gone for long.
    pub fn forget_gone(&mut self, now: Instant) {
        self.heard.retain(|_, (_, at)| now.duration_since(*at) < GONE);
    }

    /// Returns the workers that are there.
    pub fn live(&self, now: Instant) -> impl Iterator<Item = &Presence> {
        let is_there = move |at: &Instant| now.duration_since(*at) < SILENCE;
        self.heard.values().filter(move |(_, at)| is_there(at)).map(|(presence, _)| presence)
    }

    /// Returns the worker of a pool that owns a flow. `speaks`: the version of the message. Workers that warm up own nothing,
    /// unless no worker is ready. Workers that drain own nothing, unless all drain.
    pub fn owner(&self, pool: &str, flow: &[u8], version: u32, now: Instant) -> Option<&str> {
        let reads = |worker: &&Presence| (worker.speaks[0]..=worker.speaks[1]).contains(&version);
        let of_pool = || self.live(now).filter(|worker| worker.pool == pool).filter(reads);
        let ready = of_pool().filter(|worker| worker.is_ready()).map(named);
        let stays = of_pool().filter(|worker| !worker.draining).map(named);
        let owner = lanes::owner(flow, ready).or_else(|| lanes::owner(flow, stays));
        owner.or_else(|| lanes::owner(flow, of_pool().map(named)))
    }

    /// Returns the workers of a pool that take new work. Workers that warm up take new work only if no worker is ready.
    pub fn in_use<'a>(&'a self, pool: &'a str, now: Instant) -> impl Iterator<Item = &'a Presence> {
        let of_pool = move || self.live(now).filter(move |worker| worker.pool == pool);
        let has_ready = of_pool().any(Presence::is_ready);
        of_pool().filter(move |worker| worker.is_ready() || (!has_ready && !worker.draining))
    }

    /// Returns the lanes that a worker takes once it is used. Other workers that warm up count as used too.
    pub fn ranks_of(&self, worker: &Presence, now: Instant) -> Ranks {
        let others = self.live(now).filter(|other| other.pool == worker.pool && other.worker != worker.worker);
        let workers: Vec<_> = others.filter(|other| !other.draining).chain([worker]).map(named).collect();
        let is_second = |lane: &&str| lanes::second(lane, workers.iter().copied()) == Some(&worker.worker);
        Ranks {
            worker: worker.worker.clone(),
            seconded: workers.iter().map(|(lane, _)| *lane).filter(is_second).map(str::to_owned).collect(),
            workers: workers.iter().map(|(worker, weight)| ((*worker).to_owned(), *weight)).collect(),
        }
    }

    /// Returns the workers of a pool that take new flows and read messages of this version.
    pub fn ready<'a>(&'a self, pool: &'a str, version: u32, now: Instant) -> impl Iterator<Item = &'a Presence> {
        self.in_use(pool, now).filter(move |worker| (worker.speaks[0]..=worker.speaks[1]).contains(&version))
    }

    /// Returns the worker that would own a flow if its owner were not there. See [`Workers::owner`].
    pub fn owner_after(&self, owner: &str, flow: &[u8], version: u32, now: Instant) -> Option<&str> {
        let pool = &self.heard.get(owner)?.0.pool;
        let reads = |worker: &&Presence| (worker.speaks[0]..=worker.speaks[1]).contains(&version);
        let is_other = |worker: &&Presence| worker.pool == *pool && worker.worker != owner && !worker.draining;
        let others = || self.live(now).filter(is_other).filter(reads);
        let ready = lanes::owner(flow, others().filter(|worker| worker.is_ready()).map(named));
        ready.or_else(|| lanes::owner(flow, others().map(named)))
    }

    /// Returns the lanes for which a worker is the second. Lanes of workers that are gone count too.
    pub fn seconded_by(&self, worker: &str, pool: &str, now: Instant) -> Vec<String> {
        let used: Vec<_> = self.in_use(pool, now).map(named).collect();
        let remembered = self.heard.values().filter(|(presence, _)| presence.pool == pool);
        let lanes = remembered.map(|(presence, _)| presence.worker.as_str());
        lanes.filter(|lane| lanes::second(lane, used.iter().copied()) == Some(worker)).map(str::to_owned).collect()
    }

    /// Returns the highest version of messages that all workers of a pool read.
    pub fn version(&self, pool: &str, now: Instant) -> u32 {
        let highest = self.live(now).filter(|worker| worker.pool == pool).map(|worker| worker.speaks[1]).min();
        highest.unwrap_or(SPEAKS[1]).clamp(SPEAKS[0], SPEAKS[1])
    }
}

/// The lanes that a worker takes.
pub struct Ranks {
    worker: String,
    seconded: Vec<String>,
    workers: Vec<(String, u32)>,
}

impl Ranks {
    /// Returns the rank with which the worker takes a flow. `None`: other workers take the flow.
    pub fn of(&self, flow: &[u8]) -> Option<Rank> {
        let owner = lanes::owner(flow, self.workers.iter().map(|(worker, weight)| (worker.as_str(), *weight)))?;
        match owner == self.worker {
            true => Some(Rank::Owner),
            false => self.seconded.iter().any(|lane| lane == owner).then_some(Rank::Second),
        }
    }
}

fn named(presence: &Presence) -> (&str, u32) {
    (&presence.worker, presence.weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn presence(worker: &str) -> Presence {
        Presence {
            worker: worker.to_owned(),
            pool: "default".to_owned(),
            weight: 1,
            speaks: SPEAKS,
            draining: false,
            warming: false,
            version: "1".to_owned(),
            load: Load::default(),
        }
    }

    #[test]
    fn a_worker_is_there_until_it_was_silent_for_long() {
        let (mut workers, start) = (Workers::default(), Instant::now());
        assert!(workers.hear(presence("a"), start));
        assert!(!workers.hear(presence("a"), start + PERIOD));
        let late = start + PERIOD + SILENCE;
        assert_eq!(workers.live(late - Duration::from_millis(1)).count(), 1);
        assert_eq!(workers.owner("default", b"flow", 1, late), None);
        // the lane of a worker that is gone has a second for a while
        workers.hear(presence("b"), late);
        assert_eq!(workers.seconded_by("b", "default", late), ["a"]);
        workers.forget_gone(start + PERIOD + GONE);
        assert!(workers.seconded_by("b", "default", late).is_empty());
        assert!(workers.hear(presence("a"), late));
    }

    #[test]
    fn a_worker_that_drains_or_cannot_read_the_message_owns_nothing() {
        let (mut workers, now) = (Workers::default(), Instant::now());
        workers.hear(Presence { draining: true, ..presence("drains") }, now);
        workers.hear(Presence { speaks: [0, 0], ..presence("old") }, now);
        workers.hear(Presence { pool: "other".to_owned(), ..presence("other") }, now);
        // the draining worker is better than none
        assert_eq!(workers.owner("default", b"flow", 1, now), Some("drains"));
        workers.hear(presence("stays"), now);
        for flow in 0..100u8 {
            assert_eq!(workers.owner("default", &[flow], 1, now), Some("stays"));
        }
        assert_eq!(workers.owner("default", b"flow", 0, now), Some("old"));
        // no other worker of the pool stays and reads the message
        assert_eq!(workers.owner_after("stays", b"flow", 1, now), None);
        assert_eq!(workers.owner_after("drains", b"flow", 1, now), Some("stays"));
        // the lanes of both other workers have a second that stays
        let seconds = ["stays", "old"].map(|worker| workers.seconded_by(worker, "default", now));
        assert!(seconds[0].contains(&"old".to_owned()) && seconds[1].contains(&"stays".to_owned()));
        assert_eq!(seconds.concat().iter().filter(|lane| *lane == "drains").count(), 1);
        assert_eq!(workers.version("default", now), SPEAKS[0]);
    }

    #[test]
    fn a_worker_that_warms_up_owns_nothing_unless_no_other_is_ready() {
        let (mut workers, now) = (Workers::default(), Instant::now());
        workers.hear(Presence { warming: true, ..presence("warms") }, now);
        workers.hear(Presence { draining: true, ..presence("drains") }, now);
        // better than one that drains
        assert_eq!(workers.owner("default", b"flow", 1, now), Some("warms"));
        assert_eq!(workers.seconded_by("warms", "default", now), ["drains"]);
        workers.hear(presence("ready"), now);
        for flow in 0..100u8 {
            assert_eq!(workers.owner("default", &[flow], 1, now), Some("ready"));
        }
        assert_eq!(workers.seconded_by("ready", "default", now), ["drains", "warms"]);
        assert!(workers.seconded_by("warms", "default", now).is_empty());
        assert_eq!(workers.in_use("default", now).count(), 1);
        // work that the owner gave back
        assert_eq!(workers.owner_after("ready", b"flow", 1, now), Some("warms"));
        workers.hear(presence("ready-too"), now);
        for flow in 0..100u8 {
            assert_eq!(workers.owner_after("ready", &[flow], 1, now), Some("ready-too"));
        }
        // members of the version before know nothing of warming
        let (warms, ready) = (Presence { warming: true, ..presence("a") }, presence("a"));
        let text = |presence: &Presence| String::from_utf8(presence.write()).unwrap();
        assert!(text(&warms).contains("warming") && !text(&ready).contains("warming"));
        assert_eq!([warms, ready].map(|one| Presence::read(&one.write()) == Some(one)), [true; 2]);
    }

    #[test]
    fn bytes_that_are_no_presence_are_not_listed() {
        let read = |change: fn(&mut Presence)| {
            let mut presence = presence("a");
            change(&mut presence);
            Presence::read(&presence.write())
        };
        assert_eq!(read(|_| ()), Some(presence("a")));
        assert_eq!(read(|presence| presence.worker = "a.b".to_owned()), None);
        assert_eq!(read(|presence| presence.worker = String::new()), None);
        assert_eq!(read(|presence| presence.pool = ">".to_owned()), None);
        assert_eq!(read(|presence| presence.weight = 0), None);
        assert_eq!(Presence::read(b"{}"), None);
    }
}
