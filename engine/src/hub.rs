//! The lock around the scheduler and around the tables of the objects whose ids the scheduler handles: keys, operands,
//! results, callbacks.
//!
//! A caller, a device's thread, or the loop (when time has passed) takes the lock, feeds an event to the scheduler and
//! carries out those parts of the commands that only need channels and tables, which takes microseconds. Callbacks are
//! code of the callers, and overwriting a key takes long, so the loop does both outside the lock.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::batch::{Batch, BatchPart};
use crate::device::{Order, Report};
use crate::error::Error;
use crate::ids::{AccountId, DeviceId, OperationId, SessionId};
use crate::operation::{Done, Failed, Operation};
use crate::scheduler::{Command, Event, Finished, Scheduler, SchedulerLimits, SlotKind};
use crate::session::{OnErased, Session};
use crate::task::assembly::BatchTasks;
use crate::task::{DeviceNeeds, KeySource, Progress, Task};
use crate::usage::Usage;

pub(crate) struct Hub {
    /// Time zero of the scheduler's clock.
    started: Instant,
    state: Mutex<State>,
    /// Wakes the loop when there are notices, when the alarm has become earlier, or when the engine stops.
    changed: Condvar,
}

struct State {
    scheduler: Scheduler,
    sessions: HashMap<SessionId, Session>,
    operations: HashMap<OperationId, Operation>,
    /// The sender to each device; `None` after the device retired or after [`Command::Stop`].
    orders: Vec<Option<Sender<Order>>>,
    stopped: bool,
    /// Notices that the loop delivers. Their number is bounded by the numbers of operations and sessions.
    notices: Vec<Notice>,
    /// The time at which the loop wakes by itself.
    alarm: Option<Duration>,
    ids: u64,
}

enum Notice {
    Ended(Operation, Result<Finished, Error>),
    /// A key to drop. If the key is in memory, the drop overwrites it.
    Key(Arc<dyn KeySource>),
    Erased(Session),
    ErasedBefore(OnErased),
}

impl Hub {
    pub(crate) fn new(limits: SchedulerLimits, orders: Vec<Sender<Order>>) -> Self {
        let state = State {
            scheduler: Scheduler::new(limits),
            sessions: HashMap::new(),
            operations: HashMap::new(),
            orders: orders.into_iter().map(Some).collect(),
            stopped: false,
            notices: Vec::new(),
            alarm: None,
            ids: 0,
        };
        Self { started: Instant::now(), state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(crate) fn open(
        &self,
        key: Arc<dyn KeySource>,
        account: AccountId,
        weight: u32,
        needs: Vec<DeviceNeeds>,
    ) -> Result<SessionId, Error> {
        let (host_bytes, params) = (key.host_bytes(), key.params());
        let tables = params.tables();
        let slot_kind = SlotKind { bytes: 4 * params.row_words() as u64, for_lists: tables.is_none() };
        let (device_bytes, unit_costs) = needs.into_iter().map(|needs| (needs.part_bytes, needs.unit_cost)).unzip();
        let opened = Session::new(key);
        let mut state = self.lock();
        let session = SessionId(state.next_id());
        state.sessions.insert(session, opened);
        let event = Event::Opened { session, account, weight, unit_costs, tables, host_bytes, device_bytes, slot_kind };
        match self.step(&mut state, event) {
            Ok(()) => Ok(session),
            Err(error) => {
                let refused = state.sessions.remove(&session);
                drop(state);
                // dropped without the lock, because this drop overwrites the key if the key is in memory
                drop(refused);
                Err(error)
            }
        }
    }

    /// The number of words of a row under the session's key, if the session is open.
    pub(crate) fn row_words(&self, session: SessionId) -> Option<usize> {
        self.lock().sessions.get(&session).map(|session| session.row_words)
    }

    pub(crate) fn submit(
        &self,
        session: SessionId,
        submitted: Operation,
        deadline: Option<Instant>,
    ) -> Result<OperationId, Error> {
        let work = submitted.task().work();
        work.check(); // checked before the lock is taken, because a panic under the lock would end the process
        let deadline = deadline.map(|deadline| deadline.saturating_duration_since(self.started));
        let mut state = self.lock();
        let operation = OperationId(state.next_id());
        state.operations.insert(operation, submitted);
        match self.step(&mut state, Event::Submitted { session, operation, work, deadline }) {
            Ok(()) => Ok(operation),
            Err(error) => {
                let refused = state.operations.remove(&operation);
                drop(state);
                drop(refused);
                Err(error)
            }
        }
    }

    pub(crate) fn progress(&self, operation: OperationId) -> Option<Progress> {
        self.lock().operations.get(&operation).map(Operation::progress)
    }

    pub(crate) fn cancel(&self, operation: OperationId) {
        self.feed(Event::Cancelled(operation));
    }

    pub(crate) fn close(&self, session: SessionId, on_erased: OnErased) {
        let mut state = self.lock();
        if let Some(open) = state.sessions.get_mut(&session) {
            open.on_erased.push(on_erased);
            // The host's form of the key is dropped at once, whatever the devices do (readings G3). A device that holds
            // the key in its own form no longer needs the host's.
            let key = open.key.take();
            state.notices.extend(key.map(Notice::Key));
            self.feed_locked(&mut state, Event::Closed(session));
        } else if !state.stopped {
            state.notices.push(Notice::ErasedBefore(on_erased));
            self.changed.notify_one();
        } else {
            drop(state); // the loop may have ended, so this thread calls the callback
            on_erased();
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        self.lock().scheduler.usage()
    }

    /// Feeds the scheduler an event that it cannot refuse.
    pub(crate) fn feed(&self, event: Event) {
        self.feed_locked(&mut self.lock(), event);
    }

    /// Called when the last handle is dropped: ends the operations that can be ended, and does not wait.
    pub(crate) fn abandon(&self) {
        // This also runs while a panic unwinds. A second panic would abort the process, so a poisoned lock is ignored.
        if let Ok(mut state) = self.state.lock() {
            self.feed_locked(&mut state, Event::Abandon);
        }
    }

    /// Processes a report of a device's thread.
    pub(crate) fn report(&self, device: DeviceId, report: Report) {
        let state = &mut *self.lock();
        let event = match report {
            Report::Loaded(session) => Event::Loaded { device, session },
            Report::LoadFailed { session, failure } => Event::LoadFailed { device, session, failure },
            Report::Evicted(part) => Event::Evicted { device, part },
            Report::BatchDone { batch, results } => {
                // late results of a device that was given up are dropped, because the rows may have run on another
                // device
                let awaited = if state.scheduler.awaits(batch.id) { results } else { Vec::new() };
                for (part, results) in batch.parts.iter().zip(awaited) {
                    if let Some(operation) = state.operations.get_mut(&part.operation) {
                        operation.store(part.rows.clone(), results);
                    }
                }
                Event::BatchDone(batch.id)
            }
            Report::BatchFailed { batch, failure } => Event::BatchFailed { batch: batch.id, failure },
            Report::Retired => Event::Retired(device),
            Report::Lost(failure) => Event::Lost { device, reason: failure.reason },
            Report::Died(reason) => Event::Died { device, reason },
        };
        self.feed_locked(state, event);
    }

    /// Whether a device was given up. Then its thread may never end.
    pub(crate) fn given_up(&self, device: DeviceId) -> bool {
        self.lock().scheduler.given_up(device)
    }

    /// For each device, whether it takes work, and the failure that took it out of service, if any.
    pub(crate) fn service(&self) -> Vec<(bool, Option<String>)> {
        let state = self.lock();
        (0..state.orders.len()).map(|device| state.scheduler.service(DeviceId(device))).collect()
    }

    /// The engine's loop: informs the scheduler when time has passed, and delivers notices. Returns after
    /// [`Command::Stop`].
    pub(crate) fn run(&self) {
        let mut state = self.lock();
        loop {
            if !state.notices.is_empty() {
                let notices = std::mem::take(&mut state.notices);
                drop(state);
                notices.into_iter().for_each(Notice::deliver);
                state = self.lock();
            } else if state.stopped {
                return;
            } else {
                state = self.sleep_or_tick(state);
            }
        }
    }

    fn sleep_or_tick<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.alarm = state.scheduler.next_wake();
        let Some(alarm) = state.alarm else {
            return self.changed.wait(state).unwrap_or_else(|_| end_process());
        };
        let left = alarm.saturating_sub(self.now());
        if left.is_zero() {
            self.feed_locked(&mut state, Event::Tick);
            return state;
        }
        self.changed.wait_timeout(state, left).unwrap_or_else(|_| end_process()).0
    }

    fn feed_locked(&self, state: &mut State, event: Event) {
        self.step(state, event).expect("only openings and submissions are refused");
    }

    /// Feeds the scheduler an event and carries out its commands. An error is the scheduler's refusal.
    fn step(&self, state: &mut State, event: Event) -> Result<(), Error> {
        // The clock is read while the lock is held, so that no event has an earlier time than the event before it.
        let commands = state.scheduler.step(self.now(), event);
        let mut answer = Ok(());
        for command in commands {
            if let Err(refusal) = state.carry_out(command) {
                answer = Err(refusal);
            }
        }
        let wake = state.scheduler.next_wake();
        let sooner = wake.is_some_and(|wake| state.alarm.is_none_or(|alarm| wake < alarm));
        if sooner || !state.notices.is_empty() || state.stopped {
            self.changed.notify_one();
        }
        answer
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|_| end_process())
    }
}

/// Ends the process after a panic under the lock. The books may be inconsistent; if the service continued, every call
/// would panic. A process that ends is noticed and restarted, and no key outlives it.
fn end_process() -> ! {
    tracing::error!("a panic left the engine's records inconsistent: the process ends");
    eprintln!("ango: a panic left the engine's records inconsistent: the process ends");
    std::process::abort()
}

impl State {
    fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    fn carry_out(&mut self, command: Command) -> Result<(), Error> {
        match command {
            Command::RefuseSession { error, .. } | Command::Refuse { error, .. } => return Err(error),
            Command::Load { device, session, parts } => {
                let key = self.sessions[&session].key.clone().expect("a key that was closed is not loaded");
                let orders = self.orders[device.0].clone().expect("nothing is ordered after the end");
                self.order(device, Order::Load { session, parts, key, orders });
            }
            Command::Evict { device, part } => self.order(device, Order::Evict(part)),
            Command::Run { device, batches } => {
                let with_tasks = |batch: Batch| BatchTasks { tasks: self.tasks_of(&batch), batch };
                let call = batches.into_iter().map(with_tasks).collect();
                self.order(device, Order::Run(call));
            }
            Command::FreeArena { device, session } => self.order(device, Order::FreeArena(session)),
            Command::Retire(device) => {
                let (_, failure) = self.scheduler.service(device);
                tracing::error!(device = device.0, failure, "a device is taken out of service");
                self.order(device, Order::Retire);
                self.orders[device.0] = None;
            }
            Command::GiveUp(device) => {
                tracing::error!(
                    device = device.0,
                    "a device does not report: keys in its memory cannot be overwritten"
                );
            }
            Command::Restart(operation) => {
                self.operations.get_mut(&operation).expect("what begins anew has not ended").restart();
            }
            Command::Finish { operation, outcome } => {
                let ended = self.operations.remove(&operation).expect("an operation ends once");
                self.notices.push(Notice::Ended(ended, outcome));
            }
            Command::Erase(session) => {
                let erased = self.sessions.remove(&session).expect("a session is erased once");
                self.notices.push(Notice::Erased(erased));
            }
            Command::Stop => {
                self.orders.fill_with(|| None);
                self.stopped = true;
            }
        }
        Ok(())
    }

    fn order(&mut self, device: DeviceId, order: Order) {
        let orders = self.orders[device.0].as_ref().expect("nothing is ordered after the end");
        // The send fails if the device's thread has panicked. The report of that panic settles all that the device
        // owes.
        let _ = orders.send(order);
    }

    /// The task of each part of a batch.
    fn tasks_of(&self, batch: &Batch) -> Vec<Task> {
        let task =
            |part: &BatchPart| self.operations.get(&part.operation).expect("what starts has not ended").task().clone();
        batch.parts.iter().map(task).collect()
    }
}

impl Notice {
    fn deliver(self) {
        match self {
            Notice::Ended(operation, Ok(Finished { compute, units })) => {
                let (results, on_done) = operation.finish();
                call(|| on_done(Ok(Done { results, compute, units })));
            }
            Notice::Ended(operation, Err(error)) => {
                let (completed, on_done) = operation.abort();
                call(|| on_done(Err(Failed { error, completed })));
            }
            Notice::Key(key) => drop(key),
            Notice::Erased(Session { key, on_erased, .. }) => {
                drop(key);
                on_erased.into_iter().for_each(call);
            }
            Notice::ErasedBefore(on_erased) => call(on_erased),
        }
    }
}

/// Calls a callback. If it panics, only its own task is affected; the loop continues.
fn call(callback: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(callback));
}

#[cfg(test)]
mod tests {
    use std::process::Command as Process;
    use std::sync::mpsc;

    use super::*;
    use crate::ids::BatchId;
    use crate::scheduler::DeviceLimits;

    /// Argument for the child process that must end. The test harness takes this argument as a filter that matches no
    /// test.
    const CHILD: &str = "that-ends";

    #[test]
    fn a_panic_under_the_lock_ends_the_process_with_a_line_that_says_so() {
        if std::env::args().any(|word| word == CHILD) {
            let (orders, _) = mpsc::channel();
            let mut limits = crate::limits(&crate::Config::default(), &[]);
            limits.devices.push(DeviceLimits {
                batch_units_max: 1,
                batches_in_flight_max: 1,
                keys_together_max: 1,
                resident_bytes_max: 1,
                arena_bytes_max: 1,
                stand_in: false,
            });
            let hub = Hub::new(limits, vec![orders]);
            let report = catch_unwind(AssertUnwindSafe(|| hub.feed(Event::BatchDone(BatchId(7)))));
            assert!(report.is_err(), "no device runs it");
            hub.usage();
            unreachable!("the books are broken");
        }
        let name = "hub::tests::a_panic_under_the_lock_ends_the_process_with_a_line_that_says_so";
        let child = Process::new(std::env::current_exe().unwrap())
            .args([name, CHILD, "--exact", "--nocapture"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stderr);
        assert!(said.contains("a panic left the engine's records inconsistent: the process ends"), "{said}");
        #[cfg(unix)]
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.status), Some(SIGABRT), "{said}");
    }

    #[cfg(unix)]
    const SIGABRT: i32 = 6;
}
