//! The choice of the next session: start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996) of accounts by weight,
//! and of the sessions inside an account as equals.
//!
//! A flow is an account, or a session inside its account. Every flow has a start tag. Serving a flow advances its tag
//! by cost / weight, and the flow with the smallest tag is served next. Virtual time is the start tag of the flow that
//! was served last. The tag of a flow that returns from a pause is at least the virtual time, so a pause earns no
//! credit. Consequently, for two accounts `f` and `g` that have work throughout, served cost per weight differs by at
//! most `cost_max / weight_f + cost_max / weight_g`, where `cost_max` is the cost of a full batch, whatever other
//! accounts do. The same holds inside an account between two sessions, with weight 1. This bound does not depend on the
//! rate at which the account itself is served (section 3 of the paper: fairness over a server of varying rate, hence
//! hierarchies).
//!
//! The bound holds for one device that takes no batch out of turn: when the first session in the queue waits for room
//! for its key, the device serves no session behind it (`scheduler::dispatch`). With several devices, other sessions
//! run elsewhere while one device drains and loads for the first session. Those sessions run a few batches each time,
//! so no session waits for ever. During a load for the first session, the sessions behind it may run on that device in
//! time that no session before them can use. This work is charged to them and adds to the bound. Virtual time does not
//! advance by this work; otherwise a newcomer would start behind all sessions that the load kept waiting.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{AccountId, SessionId};

/// The smallest and the largest weight of an account under contention (readings P31).
pub const WEIGHTS: std::ops::RangeInclusive<u32> = 1..=64;

/// Cost of a unit of work under the cheapest keys. Units under other keys cost proportionally more.
pub const COST_OF_UNIT: u32 = 32;

/// Cost of a row without units. The cost is small but not zero, so that such rows cannot flood the queue.
pub const COST_OF_FREE_ROW: u32 = 1;

/// Tags count fractions of a cost, so that division by a weight loses almost nothing. At a million units a second, a
/// tag overflows after four years.
const TAGS_PER_COST: u64 = 1 << 12;

/// Largest number of accounts that have no session and whose debt is remembered nevertheless. An account has debt only
/// if it leaves in the middle of a busy period.
const DEBTS_MAX: usize = 1024;

/// Cost of a row of this many units, if one unit costs `unit_cost`.
pub fn cost_of_row(units: u32, unit_cost: u32) -> u64 {
    match units {
        0 => u64::from(COST_OF_FREE_ROW),
        some => u64::from(unit_cost) * u64::from(some),
    }
}

/// Sessions that have work, in the order in which they may run.
#[derive(Debug, Default)]
pub(crate) struct FairQueue {
    accounts: Level<AccountId>,
    /// For each account with sessions, its sessions.
    sessions: BTreeMap<AccountId, Level<SessionId>>,
    owners: BTreeMap<SessionId, AccountId>,
}

impl FairQueue {
    /// Adds a session of an account. The account takes the weight of its newest session, because plans change.
    pub(crate) fn add(&mut self, session: SessionId, account: AccountId, weight: u32) {
        assert!(WEIGHTS.contains(&weight), "weight {weight} is not in {WEIGHTS:?}");
        self.accounts.add(account, weight);
        self.sessions.entry(account).or_default().add(session, 1);
        self.owners.insert(session, account);
    }

    pub(crate) fn remove(&mut self, session: SessionId) {
        self.set_ready(session, false);
        let Some(account) = self.owners.remove(&session) else { return };
        let level = self.sessions.get_mut(&account).expect("it has a session");
        level.flows.remove(&session);
        if level.flows.is_empty() {
            self.sessions.remove(&account);
            self.accounts.leave(account);
        }
    }

    pub(crate) fn is_ready(&self, session: SessionId) -> bool {
        self.owners.get(&session).is_some_and(|account| self.sessions[account].flows[&session].ready)
    }

    /// Sets whether the session has rows that should run now.
    pub(crate) fn set_ready(&mut self, session: SessionId, ready: bool) {
        let Some(account) = self.owners.get(&session) else { return };
        let level = self.sessions.get_mut(account).expect("it has a session");
        level.set_ready(session, ready);
        let any = !level.ready.is_empty();
        self.accounts.set_ready(*account, any);
    }

    /// The ready sessions, ordered by the account's tag, then by the tag in the account. Of equal tags, the older
    /// account or session comes first.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.accounts.in_order().flat_map(|account| self.sessions[&account].in_order())
    }

    /// Charges the cost of a batch that starts now, in turn or beside a load for another session.
    pub(crate) fn charge(&mut self, session: SessionId, cost: u64, in_turn: bool) {
        let account = self.owners[&session];
        self.accounts.charge(account, cost, in_turn);
        self.sessions.get_mut(&account).expect("it has a session").charge(session, cost, in_turn);
    }
}

/// One level of the queue: the accounts, or the sessions of one account.
#[derive(Debug)]
struct Level<K> {
    flows: BTreeMap<K, Flow>,
    ready: BTreeSet<(u64, K)>,
    virtual_time: u64,
    /// The tags of flows that have left, if the tags were ahead of virtual time. So a flow cannot cancel a debt by
    /// leaving and returning.
    debts: BTreeMap<K, u64>,
}

#[derive(Debug)]
struct Flow {
    weight: u32,
    start_tag: u64,
    ready: bool,
}

impl<K> Default for Level<K> {
    fn default() -> Self {
        Level { flows: BTreeMap::new(), ready: BTreeSet::new(), virtual_time: 0, debts: BTreeMap::new() }
    }
}

impl<K: Copy + Ord> Level<K> {
    /// Adds a flow, or changes a flow's weight.
    fn add(&mut self, id: K, weight: u32) {
        let start_tag = self.debts.remove(&id).unwrap_or(0).max(self.virtual_time);
        self.flows.entry(id).or_insert(Flow { weight, start_tag, ready: false }).weight = weight;
    }

    /// Removes a flow without work, which may return later.
    fn leave(&mut self, id: K) {
        let Some(flow) = self.flows.remove(&id) else { return };
        self.debts.insert(id, flow.start_tag);
        self.debts.retain(|_, tag| *tag > self.virtual_time);
        if self.debts.len() > DEBTS_MAX {
            let smallest = self.debts.iter().min_by_key(|&(_, tag)| tag).map(|(&id, _)| id);
            smallest.map(|id| self.debts.remove(&id));
        }
    }

    fn set_ready(&mut self, id: K, ready: bool) {
        let flow = self.flows.get_mut(&id).expect("a flow is added before it has work");
        if ready == flow.ready {
            return;
        }
        flow.ready = ready;
        if ready {
            flow.start_tag = flow.start_tag.max(self.virtual_time);
            self.ready.insert((flow.start_tag, id));
        } else {
            self.ready.remove(&(flow.start_tag, id));
        }
    }

    fn in_order(&self) -> impl Iterator<Item = K> + '_ {
        self.ready.iter().map(|&(_, id)| id)
    }

    fn charge(&mut self, id: K, cost: u64, in_turn: bool) {
        let flow = self.flows.get_mut(&id).expect("what is served is there");
        if in_turn {
            self.virtual_time = self.virtual_time.max(flow.start_tag);
        }
        let next_tag = flow.start_tag + cost * TAGS_PER_COST / u64::from(flow.weight);
        if flow.ready {
            self.ready.remove(&(flow.start_tag, id));
            self.ready.insert((next_tag, id));
        }
        flow.start_tag = next_tag;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);
    const C: SessionId = SessionId(3);

    /// A queue in which each session has a separate account.
    fn queue(weights: &[(SessionId, u32)]) -> FairQueue {
        let mut queue = FairQueue::default();
        for &(session, weight) in weights {
            queue.add(session, AccountId(u128::from(session.0)), weight);
            queue.set_ready(session, true);
        }
        queue
    }

    fn serve(queue: &mut FairQueue, times: usize) -> Vec<SessionId> {
        let mut served = Vec::new();
        for _ in 0..times {
            let session = queue.in_order().next().expect("someone is ready");
            queue.charge(session, 64, true);
            served.push(session);
        }
        served
    }

    fn count(served: &[SessionId], of: SessionId) -> usize {
        served.iter().filter(|&&session| session == of).count()
    }

    #[test]
    fn four_times_the_weight_is_served_four_times_as_often() {
        let served = serve(&mut queue(&[(A, 1), (B, 4)]), 500);
        assert_eq!(count(&served, B), 400);
    }

    #[test]
    fn p31_many_sessions_of_an_account_get_no_more_than_one() {
        let mut queue = queue(&[(A, 1)]);
        for session in (10..20).map(SessionId) {
            queue.add(session, AccountId(2), 1);
            queue.set_ready(session, true);
        }
        let served = serve(&mut queue, 1000);
        assert_eq!(count(&served, A), 500);
        assert!((10..20).all(|id| count(&served, SessionId(id)) == 50), "its sessions share as equals");
    }

    #[test]
    fn an_account_has_the_weight_of_its_newest_session() {
        let mut queue = queue(&[(A, 1), (B, 1)]);
        queue.add(C, AccountId(2), 3);
        assert_eq!(count(&serve(&mut queue, 400), B), 300);
    }

    #[test]
    fn a_pause_earns_no_credit() {
        let mut queue = queue(&[(A, 1), (B, 1)]);
        queue.set_ready(B, false);
        serve(&mut queue, 100);
        queue.set_ready(B, true);
        let served = serve(&mut queue, 10);
        assert_eq!(count(&served, B), 5, "{served:?}");
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
    fn an_account_that_closes_its_session_and_opens_another_owes_what_it_owed() {
        let mut queue = queue(&[(A, 1), (B, 1)]);
        for round in 0..100 {
            let session = SessionId(100 + round);
            queue.add(session, AccountId(7), 1);
            queue.set_ready(session, true);
            let served = serve(&mut queue, 3);
            assert!(count(&served, session) <= 1 + usize::from(round == 0), "round {round}: {served:?}");
            queue.remove(session);
        }
        assert_eq!(queue.accounts.debts.len(), 1);
    }

    #[test]
    fn debts_are_bounded_and_forgotten_when_their_time_has_come() {
        let mut queue = queue(&[(A, 1)]);
        for id in 0..2 * DEBTS_MAX as u64 {
            let (session, account) = (SessionId(1000 + id), AccountId(u128::from(1000 + id)));
            queue.add(session, account, 1);
            queue.charge(session, 64, true);
            queue.remove(session);
        }
        assert_eq!(queue.accounts.debts.len(), DEBTS_MAX);
        serve(&mut queue, 2);
        queue.add(B, AccountId(2), 1);
        queue.remove(B);
        assert_eq!(queue.accounts.debts.len(), 0);
    }

    #[test]
    fn what_runs_beside_a_load_puts_no_newcomer_behind_those_who_wait() {
        let mut queue = queue(&[(A, 1), (B, 1)]);
        (0..10).for_each(|_| queue.charge(A, 64, false));
        queue.add(C, AccountId(3), 1);
        queue.set_ready(C, true);
        let served = serve(&mut queue, 10);
        assert_eq!((count(&served, B), count(&served, C)), (5, 5), "{served:?}");
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
