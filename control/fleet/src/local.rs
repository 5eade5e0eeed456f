//! A broker within one process: the definition of what a broker does, for tests and simulations. Nothing is kept when the
//! process ends.

use std::collections::{HashMap, VecDeque};
use std::future::ready;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time;

use crate::broker::{
    Broker, Calling, Delivery, FLOW_MESSAGES_MAX, Heard, Lane, Listener, Message, NotPublished, Rank, Receipt, Ticket,
    Topic, Unreachable,
};

/// A broker of this process. Clones are the same broker.
#[derive(Clone, Default)]
pub struct LocalBroker {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    lanes: HashMap<Lane, LaneState>,
    members: Vec<(String, Listener)>,
    /// The last receipt, or the last part of a ticket.
    last: u64,
}

#[derive(Default)]
struct LaneState {
    /// The messages that wait, first in, first out.
    waiting: VecDeque<Kept>,
    /// The messages that workers have taken, by ticket, and when their leases end.
    taken: HashMap<Ticket, (Kept, time::Instant)>,
    /// The messages that were given back, and when they are delivered again.
    resting: Vec<(time::Instant, Kept)>,
    pulls: VecDeque<Pull>,
}

#[derive(Clone)]
struct Kept {
    receipt: u64,
    flow: String,
    content: Bytes,
    deliveries: u64,
    drop_at: time::Instant,
}

struct Pull {
    rank: Rank,
    tell: oneshot::Sender<Delivery>,
}

/// A member's connection to a [`LocalBroker`].
pub struct LocalMember {
    broker: LocalBroker,
    name: String,
}

impl LocalBroker {
    /// Connects a member of this name, which hears through `listener`.
    pub fn connect(&self, name: &str, listener: Listener) -> LocalMember {
        self.state.lock().members.push((name.to_owned(), listener));
        LocalMember { broker: self.clone(), name: name.to_owned() }
    }

    /// Forgets all messages, as a broker does that loses its streams.
    pub fn forget_all(&self) {
        for lane in self.state.lock().lanes.values_mut() {
            (lane.waiting, lane.taken, lane.resting) = Default::default();
        }
    }

    fn hear(&self, heard: &Heard, wanted: impl Fn(&str) -> bool) {
        let listeners: Vec<_> = {
            let state = self.state.lock();
            state.members.iter().filter(|(name, _)| wanted(name)).map(|(_, listener)| listener.clone()).collect()
        };
        listeners.iter().for_each(|listener| listener(heard.clone()));
    }

    /// Calls `deliver` for a lane after some time, when a lease has ended or a message has rested.
    fn deliver_after(&self, lane: Lane, after: Duration) {
        let state = Arc::downgrade(&self.state);
        tokio::spawn(async move {
            time::sleep(after).await;
            if let Some(state) = Weak::upgrade(&state) {
                LocalBroker { state }.deliver(&lane);
            }
        });
    }

    /// Gives waiting messages of a lane to waiting pulls.
    fn deliver(&self, lane: &Lane) {
        let mut state = self.state.lock();
        let State { lanes, last, .. } = &mut *state;
        let Some(lane_state) = lanes.get_mut(lane) else { return };
        let now = time::Instant::now();
        lane_state.wake(now);
        while let Some(mut message) = lane_state.waiting.pop_front() {
            let Some(pull) = lane_state.best_pull() else {
                lane_state.waiting.push_front(message);
                return;
            };
            message.deliveries += 1;
            *last += 1;
            let ticket = Ticket(format!("{}/{last}", lane.worker));
            let delivery =
                Delivery { content: message.content.clone(), deliveries: message.deliveries, ticket: ticket.clone() };
            match pull.tell.send(delivery) {
                Ok(()) => {
                    lane_state.taken.insert(ticket, (message, now + lane.queue.lease()));
                    self.deliver_after(lane.clone(), lane.queue.lease());
                }
                // the pull has ended
                Err(_) => {
                    message.deliveries -= 1;
                    lane_state.waiting.push_front(message);
                }
            }
        }
    }

    /// Changes the message of a ticket, and delivers what can be delivered.
    fn change(&self, ticket: &Ticket, change: impl FnOnce(&mut LaneState, &Lane)) {
        let lane = {
            let mut state = self.state.lock();
            let found = state.lanes.iter_mut().find(|(_, state)| state.taken.contains_key(ticket));
            // a lease that has ended: the message was delivered again, or is finished
            let Some((lane, lane_state)) = found else { return };
            change(lane_state, lane);
            lane.clone()
        };
        self.deliver(&lane);
    }
}

impl LaneState {
    /// Puts messages whose lease or rest has ended back into the lane, before the others. Drops messages that are too
    /// old.
    fn wake(&mut self, now: time::Instant) {
        let ended = self.taken.extract_if(|_, (_, until)| *until <= now).map(|(_, (message, _))| message);
        let rested = self.resting.extract_if(.., |(until, _)| *until <= now).map(|(_, message)| message);
        let mut back: Vec<Kept> = ended.chain(rested).collect();
        back.sort_by_key(|message| std::cmp::Reverse(message.receipt));
        back.into_iter().for_each(|message| self.waiting.push_front(message));
        self.waiting.retain(|message| message.drop_at > now);
    }

    /// Takes the pull of the best rank that came first.
    fn best_pull(&mut self) -> Option<Pull> {
        self.pulls.retain(|pull| !pull.tell.is_closed());
        let (best, _) = self.pulls.iter().enumerate().min_by_key(|(at, pull)| (pull.rank, *at))?;
        self.pulls.remove(best)
    }

    fn messages(&self) -> impl Iterator<Item = &Kept> {
        let taken = self.taken.values().map(|(message, _)| message);
        self.waiting.iter().chain(taken).chain(self.resting.iter().map(|(_, message)| message))
    }
}

impl Broker for LocalMember {
    fn publish<'a>(
        &'a self,
        message: &'a Message,
        before: Option<&'a Receipt>,
    ) -> Calling<'a, Result<Receipt, NotPublished>> {
        let Message { lane, flow, content, left } = message;
        let published = {
            let mut state = self.broker.state.lock();
            let State { lanes, last, .. } = &mut *state;
            let now = time::Instant::now();
            lanes.values_mut().for_each(|lane_state| lane_state.wake(now));
            let same = before.filter(|before| {
                let has = |lane_state: &LaneState| lane_state.messages().any(|one| one.receipt == before.number);
                lanes.get(&before.lane).is_some_and(has)
            });
            let lane_state = lanes.entry(lane.clone()).or_default();
            match same {
                Some(same) => Ok(same.clone()),
                None if lane_state.messages().filter(|message| message.flow == *flow).count() >= FLOW_MESSAGES_MAX => {
                    Err(NotPublished::FlowFull)
                }
                None => {
                    *last += 1;
                    let drop_at = now + *left;
                    let kept =
                        Kept { receipt: *last, flow: flow.clone(), content: content.clone(), deliveries: 0, drop_at };
                    lane_state.waiting.push_back(kept);
                    Ok(Receipt { lane: lane.clone(), number: *last })
                }
            }
        };
        self.broker.deliver(lane);
        Box::pin(ready(published))
    }

    fn pull<'a>(
        &'a self,
        lane: &'a Lane,
        rank: Rank,
        wait: Duration,
    ) -> Calling<'a, Result<Option<Delivery>, Unreachable>> {
        let (tell, mut hears) = oneshot::channel();
        self.broker.state.lock().lanes.entry(lane.clone()).or_default().pulls.push_back(Pull { rank, tell });
        self.broker.deliver(lane);
        Box::pin(async move {
            match time::timeout(wait, &mut hears).await {
                Ok(delivery) => Ok(delivery.ok()),
                Err(_) => {
                    hears.close();
                    Ok(hears.try_recv().ok())
                }
            }
        })
    }

    fn progress<'a>(&'a self, ticket: &'a Ticket) -> Calling<'a, Result<(), Unreachable>> {
        let mut again = None;
        self.broker.change(ticket, |state, lane| {
            let lease = lane.queue.lease();
            if let Some((_, until)) = state.taken.get_mut(ticket) {
                *until = time::Instant::now() + lease;
            }
            again = Some((lane.clone(), lease));
        });
        if let Some((lane, lease)) = again {
            self.broker.deliver_after(lane, lease);
        }
        Box::pin(ready(Ok(())))
    }

    fn give_back<'a>(&'a self, ticket: &'a Ticket, after: Duration) -> Calling<'a, Result<(), Unreachable>> {
        let mut given = None;
        self.broker.change(ticket, |state, lane| {
            if let Some((message, _)) = state.taken.remove(ticket) {
                state.resting.push((time::Instant::now() + after, message));
            }
            given = Some(lane.clone());
        });
        if let Some(lane) = given {
            self.broker.deliver_after(lane, after);
        }
        Box::pin(ready(Ok(())))
    }

    fn done<'a>(&'a self, ticket: &'a Ticket) -> Calling<'a, Result<(), Unreachable>> {
        self.broker.change(ticket, |state, _| drop(state.taken.remove(ticket)));
        Box::pin(ready(Ok(())))
    }

    fn answer<'a>(&'a self, member: &'a str, content: Bytes) -> Calling<'a, Result<(), Unreachable>> {
        self.broker.hear(&Heard::Answer(content), |name| name == member);
        Box::pin(ready(Ok(())))
    }

    fn tell<'a>(&'a self, topic: Topic, content: Bytes) -> Calling<'a, Result<(), Unreachable>> {
        self.broker.hear(&Heard::Told(topic, content), |_| true);
        Box::pin(ready(Ok(())))
    }

    fn heard_at(&self) -> Instant {
        Instant::now()
    }
}

impl Drop for LocalMember {
    fn drop(&mut self) {
        self.broker.state.lock().members.retain(|(name, _)| *name != self.name);
    }
}
