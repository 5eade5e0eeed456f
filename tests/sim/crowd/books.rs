//! What an onlooker writes down, in the most obvious way, and the rules he holds the scheduler to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::batch::Batch;
use engine::scheduler::{Finished, Limits};
use engine::{Error, OperationId, SessionId, Usage};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    /// Waits; since when.
    Queued(Duration),
    Running,
    Done,
}

pub struct Operation {
    pub session: SessionId,
    bootstraps: Vec<u8>,
    rows: Vec<Row>,
    deadline: Option<Duration>,
    cancelled: bool,
}

pub struct Session {
    pub host_bytes: u64,
    pub device_bytes: u64,
    pub closed: bool,
    /// After the close: loads and batches that may still end before the key must be gone.
    pub patience: Option<usize>,
}

/// The onlooker's books.
pub struct Books {
    pub limits: Limits,
    pub sessions: BTreeMap<SessionId, Session>,
    /// Operations that were accepted and have not ended.
    pub operations: BTreeMap<OperationId, Operation>,
    /// Those that have ended, each once.
    pub ended: BTreeSet<OperationId>,
    /// Rows on the device whose operation has ended.
    orphans: BTreeMap<SessionId, usize>,
    pub draining: bool,
    pub abandoned: bool,
    pub stopped: bool,
    /// Whether the device ever failed.
    pub failures: usize,
}

impl Books {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            sessions: BTreeMap::new(),
            operations: BTreeMap::new(),
            ended: BTreeSet::new(),
            orphans: BTreeMap::new(),
            draining: false,
            abandoned: false,
            stopped: false,
            failures: 0,
        }
    }

    pub fn opened(&mut self, session: SessionId, host_bytes: u64, device_bytes: u64, refusal: Option<&Error>) {
        let too_large = device_bytes > self.limits.resident_bytes_max;
        let full = self.key_bytes() + host_bytes > self.limits.key_bytes_max;
        match refusal {
            None => {
                assert!(!too_large && !full && !self.draining, "{session:?} should have been refused");
                let opened = Session { host_bytes, device_bytes, closed: false, patience: None };
                self.sessions.insert(session, opened);
            }
            Some(Error::KeyTooLarge { .. }) => assert!(too_large),
            Some(Error::Busy { .. }) => assert!(full),
            Some(Error::ShuttingDown) => assert!(self.draining),
            Some(other) => panic!("{session:?} refused with {other:?}"),
        }
    }

    pub fn submitted(
        &mut self,
        now: Duration,
        session: SessionId,
        operation: OperationId,
        bootstraps: Vec<u8>,
        deadline: Option<Duration>,
        refusal: Option<&Error>,
    ) {
        let count = bootstraps.len();
        let gone = self.sessions.get(&session).is_none_or(|session| session.closed);
        let full = self.held_rows(|_| true) + count > self.limits.queue_rows_max
            || self.held_rows(|of| of == session) + count > self.limits.session_rows_max;
        match refusal {
            None => {
                assert!(!gone && !full && !self.draining, "{operation:?} should have been refused");
                let rows = vec![Row::Queued(now); count];
                let accepted = Operation { session, bootstraps, rows, deadline, cancelled: false };
                self.operations.insert(operation, accepted);
            }
            Some(Error::Gone) => assert!(gone),
            Some(Error::Busy { retry_after }) => {
                assert!(full);
                assert!((1..=60).contains(&retry_after.as_secs()), "{retry_after:?}");
            }
            Some(Error::ShuttingDown) => assert!(self.draining),
            Some(other) => panic!("{operation:?} refused with {other:?}"),
        }
    }

    /// `true` when the operation must end now: some of it waits.
    pub fn cancelled(&mut self, operation: OperationId) -> bool {
        let Some(operation) = self.operations.get_mut(&operation) else { return false };
        operation.cancelled = operation.rows.iter().any(|row| matches!(row, Row::Queued(_)));
        operation.cancelled
    }

    pub fn started(&mut self, batch: &Batch) {
        let mut size = 0;
        for part in &batch.parts {
            let operation = self.operations.get_mut(&part.operation).expect("what starts has not ended");
            assert_eq!(operation.session, batch.session, "a batch holds rows of one session");
            assert!(!part.rows.is_empty());
            for row in &mut operation.rows[part.rows.clone()] {
                assert!(matches!(row, Row::Queued(_)), "a {row:?} row starts");
                *row = Row::Running;
            }
            size += operation.bootstraps[part.rows.clone()].iter().map(|&count| count.max(1) as usize).sum::<usize>();
        }
        assert!(batch.rows() == 1 || size <= self.limits.batch_rows_max, "a batch of {size}");
        assert!(batch.rows() > 0);
    }

    pub fn ran(&mut self, batch: &Batch, succeeded: bool) {
        for part in &batch.parts {
            let Some(operation) = self.operations.get_mut(&part.operation) else {
                *self.orphans.get_mut(&batch.session).expect("its rows are orphans") -= part.rows.len();
                continue;
            };
            for row in &mut operation.rows[part.rows.clone()] {
                assert_eq!(*row, Row::Running);
                // A row that failed is due at once: it has waited before.
                *row = if succeeded { Row::Done } else { Row::Queued(Duration::ZERO) };
            }
        }
    }

    pub fn finished(&mut self, now: Duration, id: OperationId, outcome: &Result<Finished, Error>) {
        let operation = self.operations.remove(&id).unwrap_or_else(|| panic!("{id:?} ends, but does not run"));
        assert!(self.ended.insert(id), "{id:?} ended twice");
        match outcome {
            Ok(finished) => {
                assert!(operation.rows.iter().all(|&row| row == Row::Done), "{id:?} is done without all of its rows");
                let bootstraps: u64 = operation.bootstraps.iter().map(|&count| u64::from(count)).sum();
                assert_eq!(finished.bootstraps, bootstraps);
                assert!(finished.compute <= now);
            }
            Err(Error::Cancelled) => assert!(operation.cancelled),
            Err(Error::Gone) => assert!(self.sessions[&operation.session].closed),
            Err(Error::DeadlinePassed) => assert!(operation.deadline.is_some_and(|deadline| deadline <= now)),
            Err(Error::Device(_)) => assert!(self.failures >= 2, "a first failure is not the client's concern"),
            Err(Error::ShuttingDown) => assert!(self.abandoned),
            Err(other) => panic!("{id:?} ended with {other:?}"),
        }
        let running = operation.rows.iter().filter(|&&row| row == Row::Running).count();
        *self.orphans.entry(operation.session).or_default() += running;
    }

    pub fn erased(&mut self, session: SessionId) {
        let erased = self.sessions.remove(&session).expect("a session is erased once");
        assert!(erased.closed || self.draining, "{session:?} was open");
        assert!(self.operations.values().all(|operation| operation.session != session), "{session:?} had work");
    }

    /// The device has loaded or run something: who waits for an erasure waits for one less, and for nothing that was
    /// ordered later.
    pub fn count_down(&mut self) {
        for (session, books) in &mut self.sessions {
            if let Some(patience) = &mut books.patience {
                *patience = patience.checked_sub(1).unwrap_or_else(|| panic!("{session:?} should have been erased"));
            }
        }
    }

    /// What must hold after every step.
    pub fn check(&self, now: Duration, usage: &Usage, device_idle: bool) {
        let held = self.held_rows(|_| true);
        assert!(held <= self.limits.queue_rows_max, "{held} rows are held");
        for &session in self.sessions.keys() {
            assert!(self.held_rows(|of| of == session) <= self.limits.session_rows_max);
        }
        assert!(self.key_bytes() <= self.limits.key_bytes_max);
        assert_eq!(usage.key_bytes, self.key_bytes());
        assert_eq!(usage.sessions, self.sessions.len() as u64);
        assert_eq!(usage.operations, self.operations.len() as u64);
        assert_eq!((usage.queued_rows + usage.running_rows) as usize, held);
        assert!(usage.resident_bytes <= self.limits.resident_bytes_max);

        for (id, operation) in &self.operations {
            assert!(operation.deadline.is_none_or(|deadline| deadline > now), "{id:?} outlived its deadline");
            assert!(!operation.cancelled, "{id:?} outlived its cancellation");
            let due = |row: &Row| matches!(row, Row::Queued(since) if *since + self.limits.wait <= now);
            assert!(!(device_idle && operation.rows.iter().any(due)), "{id:?} waits for an idle device");
        }
    }

    /// Rows waiting or running, those of ended operations too.
    fn held_rows(&self, of: impl Fn(SessionId) -> bool) -> usize {
        let operations = self.operations.values().filter(|operation| of(operation.session));
        let orphans = self.orphans.iter().filter(|&(&session, _)| of(session));
        operations.map(|operation| operation.rows.iter().filter(|&&row| row != Row::Done).count()).sum::<usize>()
            + orphans.map(|(_, rows)| rows).sum::<usize>()
    }

    fn key_bytes(&self) -> u64 {
        self.sessions.values().map(|session| session.host_bytes).sum()
    }
}
