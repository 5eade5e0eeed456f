//! API nodes: they drive [`Asking`] as the crate's asker does, and check what they see.

use std::time::Duration;

use fleet::asking::{Asking, FLOW_FULL_MAX, NotAnswered, REFUSED_MAX, SILENT_AFTER, Step};
use fleet::broker::{NotPublished, Receipt};
use fleet::message::Word;
use fleet::presence::{PERIOD, Presence, Workers};
use fleet::taking::DELIVERIES_MAX;
use fleet::warming::{Popular, Telling};

use crate::broker::{Content, POOL, lane_number};
use crate::plan::USABLE_AFTER;
use crate::warm::name_of;
use crate::work::{Ask, CANCELLED, End, POISON, Work};
use crate::world::{Event, Request, ToWorker, World};

/// A call to publish without an answer has failed after this time.
const PUBLISH_WAIT: Duration = Duration::from_secs(1);
/// An API node makes no more steps at once.
const STEPS_MAX: u32 = 20;

pub struct Node {
    pub view: Workers,
    pub popular: Popular<u64>,
    pub telling: Telling,
}

impl Node {
    pub fn new() -> Node {
        Node { view: Workers::default(), popular: Popular::default(), telling: Telling::default() }
    }
}

impl World<'_> {
    pub fn node_sees(&mut self, node: usize, presence: &Presence) {
        let view = &mut self.nodes[node].view;
        view.hear(presence.clone(), self.now);
        view.forget_gone(self.now);
        self.node_names_flows(node, presence);
    }

    /// A node dies, and another one takes its place. No node asks for its work any more.
    pub fn kill_node(&mut self, node: usize) {
        self.nodes[node] = Node::new();
        for work in self.works.iter_mut().filter(|work| work.node == node && work.ask.is_some()) {
            (work.ask, work.end) = (None, Some(End::Left));
            work.tokens.clear();
        }
    }

    pub fn ask(&mut self, number: usize) {
        let now = self.now;
        let work = &mut self.works[number];
        self.nodes[work.node].popular.asked(&name_of(work.flow), work.flow, now);
        let asking = Asking::begin(now, work.deadline, DELIVERIES_MAX);
        let (step, call, known, has_receipt, runs, refused_since) = Default::default();
        work.ask =
            Some(Ask { asking, step, call, known, has_receipt, runs, refused_since, sign: now, may_publish: true });
        if let Some(at) = work.cancel_at {
            self.at(at, Event::Leave(number));
        }
        self.drive(number);
    }

    /// A client stops waiting.
    pub fn leave(&mut self, number: usize) {
        if self.works[number].ask.is_some() {
            self.end(number, End::Left);
            self.tell_workers(&ToWorker::Cancel(number));
        }
    }

    pub fn step(&mut self, number: usize, step: u64) {
        if self.works[number].ask.as_ref().is_some_and(|ask| ask.step == step && ask.call.is_none()) {
            self.drive(number);
        }
    }

    fn drive(&mut self, number: usize) {
        for _ in 0..STEPS_MAX {
            let now = self.now;
            let Some(ask) = &mut self.works[number].ask else { return };
            ask.step += 1;
            let (next, step) = (ask.asking.step(now), ask.step);
            match next {
                Step::GiveUp(NotAnswered::NotFinished) => return self.end(number, End::Poison),
                Step::GiveUp(why) => return self.end(number, End::Failed(why)),
                Step::Publish { before, attempt } => {
                    if self.publish(number, before, attempt) {
                        return;
                    }
                }
                Step::Help(receipt) => {
                    assert!(!ask.runs, "q{number} runs and calls for help");
                    self.counts.helps += 1;
                    self.tell_workers(&ToWorker::Help(lane_number(&receipt.lane.worker)));
                }
                Step::Wait(until) => {
                    assert!(until > now, "a step waits for the past");
                    return self.at(until, Event::Step { work: number, step });
                }
            }
        }
        panic!("the steps of {} do not end", self.works[number].id);
    }

    /// Publishes. Returns whether the call waits for the broker.
    fn publish(&mut self, number: usize, before: Option<Receipt>, attempt: u32) -> bool {
        let (now, call, token) = (self.now, self.unused(), self.unused());
        let is_settled = self.is_settled();
        let Work { node, flow, deadline, .. } = self.works[number];
        let view = &self.nodes[node].view;
        let (version, flow) = (view.version(POOL, now), flow.to_be_bytes());
        let owner = view.owner(POOL, &flow, version, now);
        let for_another = self.works[number].ask.as_ref().is_some_and(|ask| ask.asking.is_for_another());
        let another = owner.filter(|_| for_another).and_then(|owner| view.owner_after(owner, &flow, version, now));
        let had_no_room = another.and(owner).map(lane_number);
        let owner = another.or(owner).map(lane_number);
        let work = &mut self.works[number];
        let ask = work.ask.as_mut().expect("the work is asked");
        let silent = now.duration_since(ask.sign);
        assert!(ask.may_publish || silent >= SILENT_AFTER, "{} is published too early", work.id);
        assert_eq!(before.is_some(), ask.has_receipt, "{} is published again with the right receipt", work.id);
        let Some(lane) = owner else {
            assert!(!is_settled, "no worker is there");
            ask.refused_since.get_or_insert(now);
            let outcome = Err(NotPublished::Refused("no worker is there".to_owned()));
            ask.asking.published(outcome, now);
            return false;
        };
        let owner = &self.workers[lane];
        // words overtake each other, so a worker that has begun to drain may be listed as if it stayed until its next word
        let is_heard = now.duration_since(owner.since) > PERIOD + Duration::from_millis(10);
        let is_wrong = is_heard && (!owner.is_there || owner.is_draining);
        assert!(!is_settled || !is_wrong, "{} owns work", owner.name());
        ask.call = Some(call);
        work.tokens.insert(token);
        if is_settled {
            self.check_owner_is_warm(lane, had_no_room);
        }
        let left = deadline.duration_since(now);
        let content = Content { work: number, attempt, token, left };
        self.request(Request::Publish { work: number, call, lane, content, before });
        self.after(PUBLISH_WAIT, Event::Silence { work: number, call });
        true
    }

    pub fn published(&mut self, number: usize, call: u64, outcome: Result<(Receipt, u64), NotPublished>) {
        let now = self.now;
        let Some(ask) = self.works[number].ask.as_mut().filter(|ask| ask.call == Some(call)) else { return };
        ask.call = None;
        match &outcome {
            Ok((_, serial)) => {
                (ask.known, ask.has_receipt, ask.runs, ask.may_publish) = (Some(*serial), true, false, false);
                (ask.sign, ask.refused_since) = (now, None);
            }
            Err(_) => {
                ask.refused_since.get_or_insert(now);
                ask.may_publish = true;
            }
        }
        ask.asking.published(outcome.map(|(receipt, _)| receipt), now);
        self.drive(number);
    }

    pub fn word(&mut self, number: usize, word: Word) {
        let now = self.now;
        let work = &mut self.works[number];
        let right = work.answer();
        let Some(ask) = &mut work.ask else { return };
        let is_no_use = matches!(word, Word::Again(attempt) if attempt == ask.asking.attempts());
        // a word ends the call that waits
        ask.call = None;
        match word {
            Word::Ended(end) => {
                let is_cancelled = end == CANCELLED;
                assert!(!is_cancelled, "{} is asked and was cancelled", work.id);
                let is_poison = end == POISON;
                assert!(is_poison || end == right, "{} has a wrong answer", work.id);
                return self.end(number, if is_poison { End::Poison } else { End::Answered });
            }
            Word::Again(attempt) => {
                if is_no_use {
                    (ask.may_publish, ask.has_receipt, ask.refused_since) = (true, false, None);
                }
                ask.asking.again(attempt, now);
            }
            Word::Runs(_) => {
                ask.asking.runs(now);
                (ask.sign, ask.runs) = (now, ask.has_receipt);
                ask.may_publish = !ask.has_receipt;
            }
        }
        self.drive(number);
        let ask = self.works[number].ask.as_ref();
        let is_late = ask.is_some_and(|ask| ask.call.is_none() && ask.refused_since.is_none());
        assert!(!is_no_use || !is_late, "q{number} is not published again at once");
    }

    /// The end of some work at the node that asks.
    fn end(&mut self, number: usize, end: End) {
        let now = self.now;
        self.note(|| format!("q{number} ends: {end:?}"));
        self.check_end(number, &end);
        let work = &mut self.works[number];
        let ask = work.ask.take().expect("the work is asked");
        assert!(work.end.is_none(), "{} ends twice", work.id);
        work.tokens.clear();
        work.end = Some(end.clone());
        let waited = now.duration_since(work.begin);
        match end {
            End::Answered => self.counts.answered += 1,
            End::Poison => self.counts.poison += 1,
            End::Left => self.counts.cancelled += 1,
            End::Failed(NotAnswered::FlowFull) => self.counts.flow_full += 1,
            End::Failed(NotAnswered::Unavailable(_)) => self.counts.unavailable += 1,
            End::Failed(NotAnswered::DeadlinePassed) => self.counts.deadline_passed += 1,
            End::Failed(NotAnswered::NotFinished) => unreachable!("this end is named poison"),
        }
        if self.is_asked_after_faults(number) {
            self.counts.latest = self.counts.latest.max(waited);
        }
        let is_answered = matches!(end, End::Answered | End::Poison);
        if ask.asking.attempts() > 1 || (!is_answered && ask.asking.attempts() > 0) {
            self.tell_workers(&ToWorker::Cancel(number));
        }
        self.counts.again += u64::from(ask.asking.attempts() > 1);
    }

    /// Whether work may end because its lane is still full of what was asked while faults happened.
    pub fn may_be_full(&self, number: usize, end: &End) -> bool {
        *end == End::Failed(NotAnswered::FlowFull)
            && self.works[number].begin < self.plan.faults_end + self.plan.answered_within
    }

    fn check_end(&self, number: usize, end: &End) {
        let (now, work) = (self.now, &self.works[number]);
        let ask = work.ask.as_ref().expect("the work is asked");
        // the last call to the broker may still wait at the deadline
        let latest = work.deadline + PUBLISH_WAIT;
        assert!(now <= latest, "{} ends after its deadline", work.id);
        match end {
            End::Failed(NotAnswered::DeadlinePassed) => assert!(now >= work.deadline, "{} ends too early", work.id),
            End::Failed(NotAnswered::Unavailable(_) | NotAnswered::FlowFull) => {
                let least = if *end == End::Failed(NotAnswered::FlowFull) { FLOW_FULL_MAX } else { REFUSED_MAX };
                let since = ask.refused_since.expect("the broker has refused");
                assert!(now.duration_since(since) >= least, "{} is given up too early", work.id);
            }
            _ => {}
        }
        // work that has waited for the end of the faults is answered, if it has time
        let from = work.begin.max(self.plan.faults_end);
        let has_time = work.deadline > from + self.plan.answered_within;
        if has_time && now > self.plan.faults_end + USABLE_AFTER && *end != End::Left {
            let is_answered = matches!(end, End::Answered | End::Poison);
            assert!(is_answered || self.may_be_full(number, end), "{} fails without faults: {end:?}", work.id);
            let waited = now.duration_since(from);
            assert!(waited <= self.plan.answered_within, "{} took {waited:?}", work.id);
        }
    }
}
