//! Who is next: start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996) of sessions by weight.
//!
//! Every session has a start tag. Serving it moves its tag on by cost / weight; the smallest tag is served next. Virtual
//! time is the tag last served, and a session that comes back from a pause starts there: a pause earns no credit. So
//! between any two sessions `f`, `g` that have work throughout, served cost per weight differs by at most
//! `cost_max / weight_f + cost_max / weight_g`, where `cost_max` is that of a full batch, whatever the others do.

use std::collections::{BTreeMap, BTreeSet};

use crate::session::{SessionId, WEIGHTS};

/// Cost of one bootstrap.
pub const COST_OF_BOOTSTRAP: u64 = 32;

/// Cost of a row without a bootstrap (NOT): little, but not nothing, or it could flood.
pub const COST_OF_FREE_ROW: u64 = 1;

/// Tags count in fractions of cost, so that a division by a weight loses next to nothing. At a million bootstraps a second
/// a tag lasts for four years.
const TAGS_PER_COST: u64 = 1 << 12;

/// What a row with this many bootstraps costs.
pub fn cost_of_row(bootstraps: u8) -> u64 {
    match bootstraps {
        0 => COST_OF_FREE_ROW,
        some => COST_OF_BOOTSTRAP * u64::from(some),
    }
}

/// Sessions that have work, in the order in which they may run.
#[derive(Debug, Default)]
pub(crate) struct FairQueue {
    flows: BTreeMap<SessionId, Flow>,
    ready: BTreeSet<(u64, SessionId)>,
    virtual_time: u64,
}

#[derive(Debug)]
struct Flow {
    weight: u32,
    start_tag: u64,
    ready: bool,
}

impl FairQueue {
    pub(crate) fn add(&mut self, session: SessionId, weight: u32) {
        assert!(WEIGHTS.contains(&weight), "weight {weight} is not in {WEIGHTS:?}");
        self.flows.insert(session, Flow { weight, start_tag: self.virtual_time, ready: false });
    }

    pub(crate) fn remove(&mut self, session: SessionId) {
        self.set_ready(session, false);
        self.flows.remove(&session);
    }

    pub(crate) fn is_ready(&self, session: SessionId) -> bool {
        self.flows.get(&session).is_some_and(|flow| flow.ready)
    }

    /// Says whether the session has rows that should run now.
    pub(crate) fn set_ready(&mut self, session: SessionId, ready: bool) {
        let Some(flow) = self.flows.get_mut(&session) else { return };
        if ready == flow.ready {
            return;
        }
        flow.ready = ready;
        if ready {
            flow.start_tag = flow.start_tag.max(self.virtual_time);
            self.ready.insert((flow.start_tag, session));
        } else {
            self.ready.remove(&(flow.start_tag, session));
        }
    }

    /// The sessions that are ready, smallest tag first, the older one of equals before.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.ready.iter().map(|&(_, session)| session)
    }

    /// Counts a batch of this cost that now starts.
    pub(crate) fn charge(&mut self, session: SessionId, cost: u64) {
        let flow = self.flows.get_mut(&session).expect("served sessions are open");
        self.virtual_time = self.virtual_time.max(flow.start_tag);
        let next_tag = flow.start_tag + cost * TAGS_PER_COST / u64::from(flow.weight);
        if flow.ready {
            self.ready.remove(&(flow.start_tag, session));
            self.ready.insert((next_tag, session));
        }
        flow.start_tag = next_tag;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);

    fn queue(weights: &[(SessionId, u32)]) -> FairQueue {
        let mut queue = FairQueue::default();
        for &(session, weight) in weights {
            queue.add(session, weight);
            queue.set_ready(session, true);
        }
        queue
    }

    fn serve(queue: &mut FairQueue, times: usize) -> Vec<SessionId> {
        let mut served = Vec::new();
        for _ in 0..times {
            let session = queue.in_order().next().expect("someone is ready");
            queue.charge(session, 64);
            served.push(session);
        }
        served
    }

    #[test]
    fn four_times_the_weight_is_served_four_times_as_often() {
        let served = serve(&mut queue(&[(A, 1), (B, 4)]), 500);
        assert_eq!(served.iter().filter(|&&session| session == B).count(), 400);
    }

    #[test]
    fn a_pause_earns_no_credit() {
        let mut queue = queue(&[(A, 1), (B, 1)]);
        queue.set_ready(B, false);
        serve(&mut queue, 100);
        queue.set_ready(B, true);
        let served = serve(&mut queue, 10);
        assert_eq!(served.iter().filter(|&&session| session == B).count(), 5, "{served:?}");
    }

    #[test]
    fn a_pause_forgives_no_debt() {
        let mut queue = queue(&[(A, 1), (B, 1)]);
        assert_eq!(serve(&mut queue, 1), [A]);
        queue.set_ready(A, false);
        queue.set_ready(A, true);
        assert_eq!(queue.in_order().next(), Some(B));
    }

    #[test]
    fn a_session_that_left_is_not_served() {
        let mut queue = queue(&[(A, 1), (B, 1)]);
        queue.remove(A);
        assert_eq!(serve(&mut queue, 3), [B, B, B]);
        queue.set_ready(B, false);
        assert_eq!(queue.in_order().next(), None);
    }
}
