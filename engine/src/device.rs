//! The thread of a device: carries out orders one after another and reports each. Only this code is generic over
//! [`Schemes`]; the code above it has plain types.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use kernels::error::message_of;
use kernels::{DeviceInfo, Schemes};

use crate::batch::Batch;
use crate::ids::{PartId, Prepared, SessionId};
use crate::rows::Rows;
use crate::scheduler::{Cause, Failure};
use crate::task::assembly::{self, Assembly, BatchTasks};
use crate::task::{DeviceNeeds, KeyParams, KeyPart, KeySource, LoadingPart, PartOnDevice};

/// An order to a device's thread.
pub(crate) enum Order {
    Load {
        session: SessionId,
        parts: Vec<Prepared>,
        key: Arc<dyn KeySource>,
        /// Sends fetched parts to this device's thread.
        orders: Sender<Order>,
    },
    /// The next part of the key that is being loaded, or the reason why it could not be fetched.
    Fetched(Result<KeyPart, String>),
    Evict(Prepared),
    /// Run batches of different sessions in one call.
    Run(Vec<BatchTasks>),
    FreeArena(SessionId),
    Retire,
}

/// A report of a device's thread.
pub(crate) enum Report {
    Loaded(SessionId),
    LoadFailed {
        session: SessionId,
        failure: Failure,
    },
    Evicted(Prepared),
    BatchDone {
        batch: Batch,
        results: Vec<Rows>,
    },
    BatchFailed {
        batch: Batch,
        failure: Failure,
    },
    Retired,
    /// No call succeeds any more. The thread reports this without an order.
    Lost(Failure),
    /// A panic ended the thread.
    Died(String),
}

/// A device for the engine: an opened backend without its type.
pub struct Device {
    pub(crate) info: DeviceInfo,
    /// The schemes that the device computes.
    pub(crate) schemes: Vec<&'static str>,
    pub(crate) stand_in: bool,
    pub(crate) needs: Needs,
    pub(crate) prepare: Prepare,
    pub(crate) serve: Serve,
}

/// Returns the memory that a key of these parameters takes on a device, and the cost of work under the key there.
pub(crate) type Needs = Box<dyn Fn(&KeyParams) -> DeviceNeeds + Send + Sync>;

/// Prepares a device for keys of these parameters, on the caller's thread. A failure is not reported here; the later
/// load reports it.
pub(crate) type Prepare = Box<dyn Fn(&KeyParams) + Send + Sync>;

/// The body of a device's thread, which carries out all orders from the first to the last.
pub(crate) type Serve = Box<dyn FnOnce(Receiver<Order>, &dyn Fn(Report)) + Send>;

impl Device {
    /// A device that takes its share of all work.
    pub fn new<B: Schemes>(backend: B) -> Device {
        let backend = Arc::new(backend);
        let serving = backend.clone();
        Device::serving(backend, Box::new(move |orders, report| run(&*serving, orders, report, None)))
    }

    /// A device that tests itself with known answers at intervals, between its batches. A wrong answer, or a failure
    /// other than lack of memory, makes the device lost.
    pub fn checked<B: Schemes>(
        backend: B,
        every: Duration,
        check: impl Fn(&B) -> kernels::Result<()> + Send + 'static,
    ) -> Device {
        let backend = Arc::new(backend);
        let (serving, checked) = (backend.clone(), backend.clone());
        let self_test =
            move || SelfTest { every, due: Instant::now() + every, check: Box::new(move || check(&checked)) };
        Device::serving(backend, Box::new(move |orders, report| run(&*serving, orders, report, Some(self_test()))))
    }

    fn serving<B: Schemes>(backend: Arc<B>, serve: Serve) -> Device {
        Device {
            info: backend.info().clone(),
            schemes: backend.schemes(),
            stand_in: false,
            needs: {
                let backend = backend.clone();
                Box::new(move |params| params.needs(&*backend))
            },
            prepare: Box::new(move |params| {
                let _ = catch_unwind(AssertUnwindSafe(|| params.prepare(&*backend)));
            }),
            serve,
        }
    }

    /// A device that gets only operations that no other healthy device can hold, or has memory for.
    pub fn stand_in<B: Schemes>(backend: B) -> Device {
        Device { stand_in: true, ..Device::new(backend) }
    }
}

/// A device's self-test: a computation with a known answer, and the time of the next test.
struct SelfTest {
    every: Duration,
    due: Instant,
    check: Box<dyn Fn() -> kernels::Result<()>>,
}

/// Serves `orders` until the channel closes or the device retires.
fn run<B: Schemes>(backend: &B, orders: Receiver<Order>, report: &dyn Fn(Report), self_test: Option<SelfTest>) {
    let worker = &mut Worker {
        backend,
        parts: HashMap::new(),
        arenas: HashMap::new(),
        pending: VecDeque::new(),
        load: None,
        piece_is_due: true,
        lost: None,
        self_test,
        report,
    };
    while let Some(order) = worker.next_order(&orders) {
        let retires = matches!(order, Order::Retire);
        worker.carry_out(order);
        if retires {
            return;
        }
    }
    worker.forget_all();
}

/// A session's arena; overwritten on drop.
struct SessionArena<A> {
    arena: A,
    slots: usize,
}

/// A load of parts of a key. One part after another is fetched, then loaded in pieces.
struct KeyLoad<B: Schemes> {
    session: SessionId,
    key: Arc<dyn KeySource>,
    orders: Sender<Order>,
    /// Parts that remain. The first is being fetched or loaded.
    left: VecDeque<Prepared>,
    /// The fetched part that is being loaded.
    under_way: Option<LoadingPart<B>>,
    loaded: HashMap<Prepared, PartOnDevice<B>>,
}

/// The state of a device's thread.
struct Worker<'a, B: Schemes> {
    backend: &'a B,
    /// Parts of keys, and tables, in the form of this device's kernels. Parts of keys are overwritten on drop.
    parts: HashMap<Prepared, PartOnDevice<B>>,
    arenas: HashMap<SessionId, SessionArena<B::Arena>>,
    /// Started calls, oldest first.
    pending: VecDeque<(Vec<BatchTasks>, B::Pending)>,
    load: Option<KeyLoad<B>>,
    /// Whether the next piece of the load comes before the next order.
    piece_is_due: bool,
    /// The failure after which no call is made any more.
    lost: Option<Failure>,
    self_test: Option<SelfTest>,
    report: &'a dyn Fn(Report),
}

impl<B: Schemes> Worker<'_, B> {
    /// Returns the next order. As long as no order has come, or no further call may start, this method finishes started
    /// calls.
    fn next_order(&mut self, orders: &Receiver<Order>) -> Option<Order> {
        loop {
            let left = self.self_test.as_ref().map(|test| test.due.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                self.test_itself();
                continue;
            }
            if self.load.as_ref().is_some_and(|load| load.under_way.is_some()) {
                if let Some(order) = self.load_between(orders) {
                    return Some(order);
                }
                continue;
            }
            if self.pending.is_empty() {
                let Some(left) = left else { return orders.recv().ok() };
                match orders.recv_timeout(left) {
                    Ok(order) => return Some(order),
                    Err(RecvTimeoutError::Disconnected) => return None,
                    Err(RecvTimeoutError::Timeout) => continue,
                }
            }
            if self.pending.len() < self.backend.info().batches_in_flight_max
                && let Some(order) = self.order_before_the_oldest_is_done(orders)
            {
                return Some(order);
            }
            self.finish_oldest();
        }
    }

    /// While a part is loaded: reports finished calls, then loads a piece, then takes an order before the next piece.
    /// So a batch waits for at most one piece, and between two pieces the load waits for at most one batch.
    fn load_between(&mut self, orders: &Receiver<Order>) -> Option<Order> {
        let backend = self.backend;
        while let Some((_, oldest)) = self.pending.front()
            // a call that fails is taken as done, because the failure is reported when the results are read
            && guarded(&mut self.lost, || backend.wait(oldest, &mut || true)).unwrap_or(true)
        {
            self.finish_oldest();
        }
        self.piece_is_due = !self.piece_is_due;
        if !self.piece_is_due {
            self.load_piece();
            return None;
        }
        let has_place = self.pending.len() < backend.info().batches_in_flight_max;
        if has_place { orders.try_recv().ok() } else { None }
    }

    /// Waits until the oldest call is done or an order comes. The wait stops for an order, because the device should
    /// get its next call before it has finished the oldest one.
    fn order_before_the_oldest_is_done(&mut self, orders: &Receiver<Order>) -> Option<Order> {
        let mut order = None;
        let mut ordered = || {
            order = orders.try_recv().ok();
            order.is_some()
        };
        if !ordered() {
            let (_, oldest) = self.pending.front()?;
            let backend = self.backend;
            // a failure is ignored here, because the call that reads the results reports it
            let _ = guarded(&mut self.lost, || backend.wait(oldest, &mut ordered));
        }
        order
    }

    /// Runs the self-test.
    fn test_itself(&mut self) {
        self.finish_all();
        let Some(mut test) = self.self_test.take() else { return };
        match guarded(&mut self.lost, || (test.check)()) {
            Err(failure) if failure.cause != Cause::OutOfMemory => {
                let reason = format!("device lost: the device failed its self-test: {}", failure.reason);
                self.lose(Failure { cause: Cause::Lost, reason });
            }
            Ok(()) | Err(_) => {
                test.due = Instant::now() + test.every;
                self.self_test = Some(test);
            }
        }
    }

    fn lose(&mut self, failure: Failure) {
        self.lost = Some(failure.clone());
        (self.report)(Report::Lost(failure));
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Load { session, parts, key, orders } => {
                let (left, loaded) = (parts.into(), HashMap::new());
                self.load = Some(KeyLoad { session, key, orders, left, under_way: None, loaded });
                self.load_next_part();
            }
            Order::Fetched(fetched) => self.load_part(fetched),
            Order::Evict(part) => {
                let evicted = self.parts.remove(&part);
                self.let_go(evicted);
                (self.report)(Report::Evicted(part));
            }
            Order::FreeArena(session) => {
                let arena = self.arenas.remove(&session);
                self.let_go(arena);
            }
            Order::Run(call) if call.iter().flat_map(|work| &work.batch.parts).any(|part| part.retried) => {
                // A failure of an asynchronous call shows only in a later call. So a batch on its last try runs alone
                // on the device: a failure that shows meanwhile is a failure of this batch.
                self.finish_all();
                self.start_by_scheme(call);
                self.finish_all();
            }
            Order::Run(call) => self.start_by_scheme(call),
            Order::Retire => {
                self.finish_all();
                self.fail_load(Failure { cause: Cause::Device, reason: "the device retires".into() });
                self.forget_all();
                (self.report)(Report::Retired);
            }
        }
    }

    /// Frees device memory. A driver that is gone may panic here. Then no call succeeds any more, and no memory can be
    /// overwritten.
    fn let_go<T>(&mut self, memory: T) {
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(memory))) else { return };
        if self.lost.is_none() {
            let reason = format!("device lost: the driver panicked while memory was freed: {}", message_of(panic));
            self.lose(Failure { cause: Cause::Lost, reason });
        }
    }

    /// Frees all device memory.
    fn forget_all(&mut self) {
        for (_, part) in std::mem::take(&mut self.parts) {
            self.let_go(part);
        }
        for (_, arena) in std::mem::take(&mut self.arenas) {
            self.let_go(arena);
        }
        for pending in std::mem::take(&mut self.pending) {
            self.let_go(pending);
        }
    }

    /// Fetches the next part of the key that is being loaded, or reports the load if no part is left.
    fn load_next_part(&mut self) {
        let Some(load) = &mut self.load else { return };
        if let Some(&part) = load.left.front() {
            if let Err(reason) = fetch(load.key.clone(), part.index(), load.orders.clone()) {
                self.fail_load(Failure { cause: Cause::Key, reason });
            }
        } else if let Some(KeyLoad { session, loaded, .. }) = self.load.take() {
            self.parts.extend(loaded);
            (self.report)(Report::Loaded(session));
        }
    }

    /// Begins to load the fetched part.
    fn load_part(&mut self, fetched: Result<KeyPart, String>) {
        let Worker { backend, parts, load, lost, .. } = self;
        let begun = match fetched {
            Ok(part) => {
                let tables = load.as_ref().and_then(|load| tables_of(&part, parts, &load.loaded));
                guarded(lost, || LoadingPart::begin(*backend, part, tables))
            }
            Err(reason) => Err(Failure { cause: Cause::Key, reason }),
        };
        match begun {
            Ok(begun) => {
                if let Some(load) = &mut self.load {
                    load.under_way = Some(begun);
                }
            }
            Err(failure) => self.fail_load(failure),
        }
    }

    fn load_piece(&mut self) {
        let Worker { backend, parts, load, lost, .. } = self;
        let Some(load) = load else { return };
        let Some(under_way) = load.under_way.take() else { return };
        let tables = tables_of(under_way.from(), parts, &load.loaded);
        match guarded(lost, || under_way.load_piece(*backend, tables)) {
            Ok(ControlFlow::Continue(under_way)) => load.under_way = Some(under_way),
            Ok(ControlFlow::Break(loaded)) => {
                let part = load.left.pop_front().expect("it was fetched");
                load.loaded.insert(part, loaded);
                self.load_next_part();
            }
            Err(failure) => self.fail_load(failure),
        }
    }

    /// Gives up the current load, if any. No part that it has loaded stays on the device.
    fn fail_load(&mut self, failure: Failure) {
        let Some(KeyLoad { session, under_way, loaded, .. }) = self.load.take() else { return };
        self.let_go((under_way, loaded));
        (self.report)(Report::LoadFailed { session, failure });
    }

    /// Starts the batches of a call. Batches of one scheme run side by side.
    fn start_by_scheme(&mut self, call: Vec<BatchTasks>) {
        let (gates, numbers): (Vec<_>, Vec<_>) = call.into_iter().partition(|work| work.tasks[0].is_of_gates());
        for call in [gates, numbers] {
            if !call.is_empty() {
                self.start(call);
            }
        }
    }

    /// Starts batches of one scheme side by side. If there is no room for the operands of a batch, only that batch
    /// fails.
    fn start(&mut self, call: Vec<BatchTasks>) {
        let assemblies: Vec<_> = call.iter().map(|work| Assembly::of(&work.batch, &work.tasks)).collect();
        // until the batches have started, the arenas are kept outside the map, so that several of them can be borrowed
        // mutably at once
        let mut arenas: Vec<_> = call.iter().map(|work| self.arenas.remove(&work.batch.session)).collect();
        let mut sides: Vec<_> = call.iter().zip(&assemblies).zip(&mut arenas).collect();
        let written: Vec<_> =
            sides.iter_mut().map(|((work, gates), arena)| self.write(&work.batch, gates, arena)).collect();
        let ready = sides.into_iter().zip(&written).filter(|(_, written)| written.is_ok());
        let started = self.evaluate(ready.map(|(((work, gates), arena), _)| (work, gates, arena)));
        drop(assemblies);
        let kept = call.iter().zip(arenas).filter_map(|(work, arena)| Some((work.batch.session, arena?)));
        self.arenas.extend(kept);
        let mut ready = Vec::with_capacity(call.len());
        for (work, written) in call.into_iter().zip(written) {
            match written {
                Ok(()) => ready.push(work),
                Err(failure) => self.fail(vec![work], &failure),
            }
        }
        match started {
            Ok(pending) => self.pending.extend(pending.map(|pending| (ready, pending))),
            Err(failure) => self.fail(ready, &failure),
        }
    }

    /// Grows the session's arena to the size that the batch needs and writes the operands to it.
    fn write(
        &mut self,
        batch: &Batch,
        assembly: &Assembly<'_>,
        arena: &mut Option<SessionArena<B::Arena>>,
    ) -> Result<(), Failure> {
        let (slots, backend) = (batch.arena_slots, self.backend);
        guarded(&mut self.lost, || {
            let there = match arena {
                Some(there) => there,
                None => arena.insert(SessionArena { arena: backend.arena(assembly.row_words, slots)?, slots }),
            };
            if there.slots < slots {
                backend.grow(&mut there.arena, slots)?;
                there.slots = slots;
            }
            assembly.writes.iter().try_for_each(|(first, words)| backend.write(&mut there.arena, *first, words))
        })
    }

    /// Evaluates batches whose operands are in their arenas. `None` if no batch is left.
    fn evaluate<'b>(
        &mut self,
        ready: impl Iterator<Item = (&'b BatchTasks, &'b Assembly<'b>, &'b mut Option<SessionArena<B::Arena>>)>,
    ) -> Result<Option<B::Pending>, Failure>
    where
        B::Arena: 'b,
    {
        let Worker { backend, parts, lost, .. } = self;
        let part_of = |part: Prepared| parts.get(&part).expect("a batch follows its key's load");
        let batches: Vec<_> = ready
            .map(|(work, assembly, arena)| {
                let arena = &mut arena.as_mut().expect("it was written to").arena;
                (work, assembly, arena)
            })
            .collect();
        if batches.is_empty() {
            return Ok(None);
        }
        guarded(lost, || assembly::start(*backend, batches, part_of).map(Some))
    }

    fn fail(&self, call: Vec<BatchTasks>, failure: &Failure) {
        for BatchTasks { batch, .. } in call {
            (self.report)(Report::BatchFailed { batch, failure: failure.clone() });
        }
    }

    fn finish_oldest(&mut self) {
        let (call, pending) = self.pending.pop_front().expect("something was started");
        let backend = self.backend;
        match guarded(&mut self.lost, || backend.finish(pending)) {
            Ok(words) => {
                let results = assembly::results(&call, words);
                for (BatchTasks { batch, .. }, results) in call.into_iter().zip(results) {
                    (self.report)(Report::BatchDone { batch, results });
                }
            }
            Err(failure) => self.fail(call, &failure),
        }
    }

    fn finish_all(&mut self) {
        while !self.pending.is_empty() {
            self.finish_oldest();
        }
    }
}

/// Finds the tables that a part of a CKKS key needs: on the device, or loaded with the part. `None` for other parts.
fn tables_of<'a, B: Schemes>(
    part: &KeyPart,
    on_device: &'a HashMap<Prepared, PartOnDevice<B>>,
    loaded: &'a HashMap<Prepared, PartOnDevice<B>>,
) -> Option<&'a B::Tables> {
    let tables = Prepared::Tables(part.tables()?);
    Some(loaded.get(&tables).or_else(|| on_device.get(&tables))?.tables())
}

/// Fetches a part of a key on a new thread, which sends it to the device's thread.
fn fetch(key: Arc<dyn KeySource>, part: PartId, orders: Sender<Order>) -> Result<(), String> {
    let run = move || {
        let fetched = catch_unwind(AssertUnwindSafe(|| key.fetch(part)));
        let fetched = fetched.unwrap_or_else(|panic| Err(format!("panicked: {}", message_of(panic))));
        drop(key); // dropped before the part is sent: when the load is reported, no thread of the engine holds the key
        // the send fails if the device has retired, and then the part is not needed
        let _ = orders.send(Order::Fetched(fetched));
    };
    let spawned = thread::Builder::new().name("engine-fetch".into()).spawn(run);
    spawned.map(drop).map_err(|error| format!("cannot start a thread to read the key: {error}"))
}

/// Calls a device that may fail, panic or be lost. A panic is treated as a failure of the device; the thread and all
/// other sessions continue.
fn guarded<T>(lost: &mut Option<Failure>, call: impl FnOnce() -> kernels::Result<T>) -> Result<T, Failure> {
    if let Some(failure) = lost {
        // the call may own device memory, and a lost driver may panic when this memory is freed
        let _ = catch_unwind(AssertUnwindSafe(|| drop(call)));
        return Err(failure.clone());
    }
    let result = catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|panic| Err(kernels::Error::Device(format!("panicked: {}", message_of(panic)))));
    result.map_err(|error| {
        let cause = match error {
            kernels::Error::OutOfMemory(_) => Cause::OutOfMemory,
            kernels::Error::Lost(_) => Cause::Lost,
            kernels::Error::Unavailable(_) | kernels::Error::Compile(_) | kernels::Error::Device(_) => Cause::Device,
        };
        let failure = Failure { cause, reason: error.to_string() };
        if cause == Cause::Lost {
            *lost = Some(failure.clone());
        }
        failure
    })
}
