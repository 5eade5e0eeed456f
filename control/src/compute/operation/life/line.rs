//! The waiting line of a fleet, for operations for which no client waits, and for long ones. The API node that accepts an operation writes its
//! row, and the work as an object. Any API node releases operations to the workers, in fair order. The node that released an
//! operation books its end. If that node dies, or shows no progress for [`RELEASE`], another one releases them again. Only the
//! node of the last release ends an operation, because the unit of the end compares the release's number.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use api::circuits::OperationStatus;
use api::{AccountId, Code, Environment, OperationId, Plan};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use store::{KeptAnswer, LineEnd, NewWaiting, Outcome, RecordedOf, Released, Unit, Waiting};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::{Begun, Kind, Reply, too_many};
use crate::billing::ledger::PaidBy;
use crate::blobs::{Blobs, Missing};
use crate::clock::Timestamp;
use crate::compute::operation::checkpoints::CheckpointsOfLine;
use crate::compute::operation::running::Counted;
use crate::compute::{self, Compute};
use crate::resource::Payer;
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;
use crate::work::fleet::{Fleet, ForOperations};
use crate::work::{self, RunError, Work, WorkEnd, WorkError, Worker, read_work, write_work};

/// How long a release counts without a sign of progress.
const RELEASE: Duration = Duration::from_secs(10);
/// Period of the signs of progress.
const PROGRESS: Duration = Duration::from_secs(2);
/// An API node has released at most one operation for so many bytes of its memory, because it holds the operands and the
/// results: up to 56 MB and 72 MB, each in two forms.
const BYTES_OF_RELEASE: u64 = 256 << 20;
/// Number of operations that a small node may have released.
const RELEASED_MIN: u64 = 4;
/// An operation whose end could not be booked is computed again, if it was released less often than this.
const BOOKINGS_MAX: i64 = 8;
/// An operation that cannot be computed now stays with its node for this long before another node tries.
const RETRY: Duration = Duration::from_secs(1);
/// Period of the looks of a waiting client's node at whether the operation has ended.
const LOOK: Duration = Duration::from_millis(100);
/// An operation whose deadline has passed has ended after this time.
const BOOKING_MAX: Duration = Duration::from_secs(20);
/// Longest time that a request to cancel waits for the end of the operation.
const CANCEL_WAIT: Duration = Duration::from_secs(20);
/// Period of the looks at whether a cancelled operation has ended.
const CANCEL_LOOK: Duration = Duration::from_millis(50);

/// The waiting line, as an API node sees it.
pub struct Line {
    fleet: Fleet,
    workers: Arc<dyn Worker>,
    /// The work of operations.
    objects: Blobs,
    places: Arc<Semaphore>,
    /// Held while operations are released, so that no operation waits for a place after its release.
    releasing: tokio::sync::Mutex<()>,
    checkpoints: CheckpointsOfLine,
    /// Whether this node stops, and other nodes book the operations that it has released.
    stops: watch::Sender<bool>,
    /// Counts for metrics.
    pub counts: Counts,
}

/// Counts of a [`Line`].
#[derive(Default)]
pub struct Counts {
    /// Releases of operations by this node.
    pub released: AtomicU64,
    /// Those of them that were not the operation's first release.
    pub released_again: AtomicU64,
    /// Operations that this node failed because their end could not be booked, although they were released as often as may be.
    pub given_up: AtomicU64,
}

/// How an operation is booked.
#[derive(Debug, Serialize, Deserialize)]
pub struct Booking {
    /// Environment of the request's key.
    environment: String,
    /// The account's plan.
    plan: String,
    /// The month in which the operation was accepted.
    month: i64,
    /// When the operation was accepted, in microseconds since 1970.
    created_at: i64,
    /// The facts that the operation's kind needs.
    of: serde_json::Value,
}

impl Booking {
    /// Describes how an operation of this payer is booked. `of`: what the operation's kind needs besides.
    pub fn of(by: &PaidBy, of: impl Serialize) -> Booking {
        Booking {
            environment: by.environment.as_str().to_owned(),
            plan: by.plan.as_str().to_owned(),
            month: 0,
            created_at: 0,
            of: serde_json::to_value(of).expect("texts and numbers are JSON"),
        }
    }

    fn by(&self, account: &AccountId) -> Result<PaidBy, ApiError> {
        let unknown = || ApiError::internal("the booking of an operation in the line");
        let environment = Environment::from_name(&self.environment).ok_or_else(unknown)?;
        let plan = Plan::from_name(&self.plan).ok_or_else(unknown)?;
        Ok(PaidBy { account: account.clone(), environment, plan })
    }
}

/// An operation that this node has released, before its kind is known.
pub struct Taken {
    /// The operation in the line.
    pub released: Released,
    /// The payer.
    pub by: PaidBy,
    /// The operation, as its record has it.
    pub record: RecordedOf,
    booking: Booking,
}

impl Taken {
    /// Reads what the operation's kind needs.
    ///
    /// # Errors
    /// When the booking is of another kind.
    pub fn of<T: serde::de::DeserializeOwned>(&self) -> Result<T, ApiError> {
        serde_json::from_value(self.booking.of.clone()).map_err(ApiError::internal)
    }
}

impl Line {
    /// Makes the line of an API node. `objects`: where the work of operations lies.
    pub fn new(fleet: Fleet, objects: Blobs, checkpoints: CheckpointsOfLine) -> Line {
        fleet.keep_checkpoints_in(Arc::new(checkpoints.clone()));
        let places = (work::memory_bytes() / BYTES_OF_RELEASE).max(RELEASED_MIN);
        let (workers, places) = (Arc::new(ForOperations(fleet.clone())), Arc::new(Semaphore::new(places as usize)));
        let (releasing, stops) = (Default::default(), watch::Sender::new(false));
        let counts = Counts::default();
        Line { fleet, workers, objects, places, releasing, checkpoints, stops, counts }
    }

    /// Whether an operation enters the line even if its client waits.
    pub fn is_long(&self, kind: &impl Kind) -> bool {
        kind.is_long(&|bootstraps| self.fleet.time_of(bootstraps))
    }

    /// Releases nothing more, and puts what this node has released back into the line. The workers go on, and answer the node
    /// that releases the operations next.
    pub fn stop(&self) {
        self.stops.send_replace(true);
    }
}

impl Counted {
    /// Returns the text that the database counts by.
    pub(super) fn text(&self) -> String {
        match self {
            Counted::Session(digest) => format!("session {}", hex::encode(digest)),
            Counted::Background(account) => format!("account {}", account.as_str()),
        }
    }
}

fn line(compute: &Compute) -> Result<&Arc<Line>, ApiError> {
    compute.line.as_ref().ok_or_else(|| ApiError::internal("this node is in no fleet"))
}

/// Enters an operation in the line. Returns the first answer, stored in the same unit.
pub async fn enter<K: Kind>(begun: Begun, kind: K, work: Work) -> Result<Response, ApiError> {
    // a separate task, because the operation is in the line even if the client leaves now
    tokio::spawn(async move {
        let compute = begun.compute.clone();
        let answer = write(&begun, &kind, work).await?;
        begun.reservation.hand_over();
        drop((kind, begun));
        tokio::spawn(release(compute));
        Ok(answer)
    })
    .await?
}

/// Enters a long operation in the line, and waits for its end. If this node dies or loses the database, another node books the
/// operation, and a repeated request with the same `Idempotency-Key` gets the operation's id, so no request begins a second one.
pub async fn wait<K: Kind>(mut begun: Begun, mut kind: K, work: Work) -> Result<Response, ApiError> {
    let in_flight = begun.compute.in_flight.enter();
    // a separate task, because the operation goes on if the client leaves (readings P24)
    tokio::spawn(async move {
        let _in_flight = in_flight;
        let (compute, last) = (begun.compute.clone(), work.deadline + BOOKING_MAX);
        // from now on, the row of the line counts
        if let Some(place) = begun.place.take() {
            place.leave().await;
        }
        write(&begun, &kind, work).await?;
        begun.reservation.hand_over();
        kind.let_go();
        tokio::spawn(release(compute.clone()));
        let answer = told(&begun, &mut kind, last).await?;
        let (answer, keep) = begun.reply.claim.keep(answer).await?;
        if let Some(keep) = keep {
            compute.store.submit(Unit { keep: Some(keep), ..Unit::default() }).await?;
        }
        Ok(answer)
    })
    .await?
}

/// Waits for the end of an operation of the line, at most until `last`, and makes the answer. While the database does not
/// answer, the operation may go on, so the wait does too.
async fn told<K: Kind>(begun: &Begun, kind: &mut K, last: Instant) -> Result<Response, ApiError> {
    let (store, account) = (&begun.compute.store, begun.by.account.as_str());
    loop {
        match store.waiting(begun.op_id.as_str()).await {
            Ok(None) => break,
            Ok(Some(_)) => {}
            Err(error) => tracing::debug!(%error, "the line was not read for a client that waits"),
        }
        if Instant::now() >= last {
            let late = RunError::from(WorkError::deadline_passed());
            return Err(late.or_gone(|| kind.gone()));
        }
        tokio::time::sleep(LOOK).await;
    }
    let found = store.operation(account, begun.op_id.as_str()).await?;
    let (record, of) = found.ok_or_else(|| kind.gone())?;
    if record.status == OperationStatus::Completed {
        let took = Duration::from_micros(record.compute_us.unwrap_or(0).unsigned_abs());
        return kind.answer_of_line(begun, of, took).await;
    }
    // nothing was charged, so the same request may begin anew
    begun.reply.claim.drop_provisional().await;
    if record.status == OperationStatus::Cancelled {
        return Err(super::cancelled());
    }
    let code = record.error_code.and_then(|code| Code::from_name(&code)).unwrap_or(Code::InternalError);
    let error = ApiError::new(code, record.error_message.unwrap_or_default());
    Err(if code == Code::ServiceUnavailable { error.retry_after(RETRY) } else { error })
}

async fn write<K: Kind>(begun: &Begun, kind: &K, work: Work) -> Result<Response, ApiError> {
    let (compute, line, account) = (&begun.compute, line(&begun.compute)?, begun.by.account.clone());
    let (weight, left) = (work.weight, work.deadline.saturating_duration_since(Instant::now()));
    let (objects, label, op_id) = (line.objects.clone(), account.clone(), begun.op_id.clone());
    let payer = Payer::from(&begun.by);
    let sealed =
        compute.offload.finish(payer, move || objects.seal(&label, op_id.as_str().as_bytes(), write_work(&work)));
    let object = line.objects.put(sealed.await?).await.map_err(|error| {
        tracing::error!(error, "the work of an operation could not be written to the bucket");
        ApiError::unavailable("objects", "the operation cannot be stored at the moment; nothing was charged")
    })?;
    let booking = Booking { month: begun.reservation.month(), created_at: begun.created_at.0, ..kind.booking() };
    let (counted, counted_max) = &begun.limit;
    let waiting = NewWaiting {
        op_id: begun.op_id.as_str().to_owned(),
        account_id: account.as_str().to_owned(),
        // an operation that is counted with no others is counted alone
        counted: counted.as_ref().map_or_else(|| begun.op_id.as_str().to_owned(), Counted::text),
        counted_max: *counted_max as i64,
        cost: i64::try_from(kind.cost()).unwrap_or(i64::MAX),
        weight: weight.into(),
        left_us: i64::try_from(left.as_micros()).unwrap_or(i64::MAX),
        transfer_id: begun.reservation.transfer_id(),
        work_object: object.clone(),
        booking: serde_json::to_string(&booking).map_err(ApiError::internal)?,
    };
    let written = async {
        let (answer, keep) = begun.first_answer(kind).await?;
        let keep = keep.map(|keep| KeptAnswer { provisional: begun.reply.waits, ..keep });
        let unit = Unit { operation: Some(begun.as_new(kind)), waiting: Some(waiting), keep, ..Unit::default() };
        match compute.store.submit(unit).await {
            Ok(()) => Ok(answer),
            Err(store::Error::TooManyWait) => Err(too_many(&begun.limit)),
            Err(error) => Err(error.into()),
        }
    };
    let written = written.await;
    if written.is_err() {
        line.objects.remove(&object).await;
    }
    written
}

/// Releases waiting operations, as many as the workers have room for twice. Each released operation has a task that books its
/// end.
pub fn release(compute: Arc<Compute>) -> futures_util::future::BoxFuture<'static, ()> {
    Box::pin(async move {
        let Some(line) = &compute.line else { return };
        let _alone = line.releasing.lock().await;
        let room = 2 * line.fleet.operations_room() as i64;
        let most = line.places.available_permits() as i64;
        if room == 0 || most == 0 || *line.stops.borrow() {
            return;
        }
        let released = match compute.store.release_waiting(room, most, RELEASE.as_micros() as i64).await {
            Ok(released) => released,
            Err(error) => return tracing::warn!(%error, "no operation of the waiting line could be released"),
        };
        for operation in released {
            line.counts.released.fetch_add(1, Ordering::Relaxed);
            line.counts.released_again.fetch_add(u64::from(operation.epoch > 1), Ordering::Relaxed);
            let place = line.places.clone().acquire_owned().await.ok();
            tokio::spawn(book_end(compute.clone(), operation, place));
        }
    })
}

/// Puts operations back into the line whose node shows no progress, and gives back what ended operations left reserved.
///
/// # Errors
/// When the database does not answer.
pub async fn sweep(compute: &Compute) -> Result<(), store::Error> {
    if compute.line.is_none() {
        return Ok(());
    }
    let silent = compute.store.take_back_silent_releases().await?;
    if silent > 0 {
        tracing::warn!(silent, "operations of a node that shows no progress are released again");
    }
    compute.ledger.give_back_ended().await
}

/// Removes objects of work that no operation of the line names.
pub async fn keep_house(compute: &Compute) {
    let Some(line) = &compute.line else { return };
    let swept = match compute.store.work_objects().await {
        Ok(named) => line.objects.sweep(&named).await,
        Err(error) => Err(error.to_string()),
    };
    if let Err(error) = swept {
        tracing::warn!(error, "work in the bucket that no operation names could not be removed");
    }
}

async fn book_end(compute: Arc<Compute>, released: Released, place: Option<OwnedSemaphorePermit>) {
    let (op_id, epoch) = (released.op_id.clone(), released.epoch);
    match resume(&compute, released).await {
        Ok(()) => {}
        Err(error) => {
            tracing::warn!(op_id, epoch, error = error.message, "an operation goes back to the waiting line");
            tokio::time::sleep(RETRY).await;
            if let Err(error) = compute.store.take_back_release(&op_id, epoch).await {
                tracing::warn!(%error, op_id, "an operation could not be put back; it is released again when its release ends");
            }
        }
    }
    drop(place);
    tokio::spawn(release(compute));
}

async fn resume(compute: &Arc<Compute>, released: Released) -> Result<(), ApiError> {
    let Some(taken) = take(compute, released).await? else { return Ok(()) };
    if taken.released.cancelled || taken.released.left_us <= 0 {
        let late = RunError::from(WorkError::deadline_passed());
        let late = late.or_gone(|| ApiError::internal("a deadline is no end of a key"));
        return end_without_work(compute, &taken, late).await;
    }
    match compute::resume(compute, &taken).await {
        Err(error) if !is_passing(&error) => end_without_work(compute, &taken, error).await,
        other => other,
    }
}

/// Reads the rows of a released operation. `None`: its account was erased, or this build cannot read its booking, so the
/// operation leaves the line.
async fn take(compute: &Arc<Compute>, released: Released) -> Result<Option<Taken>, ApiError> {
    let record = compute.store.operation(&released.account_id, &released.op_id).await?;
    let read = record.and_then(|(_, record)| {
        let account: AccountId = released.account_id.parse().ok()?;
        let booking: Booking = serde_json::from_str(&released.booking).ok()?;
        Some((booking.by(&account).ok()?, record, booking))
    });
    let Some((by, record, booking)) = read else {
        tracing::error!(op_id = released.op_id, "an operation of the waiting line cannot be read and is dropped");
        compute.store.drop_release(&released.op_id, released.epoch).await?;
        return Ok(None);
    };
    Ok(Some(Taken { released, by, record, booking }))
}

/// Reads the work of a released operation.
///
/// # Errors
/// When the bucket does not answer.
pub async fn read_object(compute: &Compute, Taken { released, by, .. }: &Taken) -> Result<Work, ApiError> {
    let line = line(compute)?;
    let object = line.objects.get(&released.work_object).await.map_err(not_read)?;
    let (objects, label, op_id) = (line.objects.clone(), by.account.clone(), released.op_id.clone());
    let work = compute.offload.finish(Payer::from(by), move || {
        let bytes = objects.open(&label, op_id.as_bytes(), object).map_err(not_read)?;
        read_work(&bytes).map_err(ApiError::internal)
    });
    let work = work.await??;
    let left = Duration::from_micros(released.left_us.max(0).unsigned_abs());
    Ok(Work { deadline: Instant::now() + left, ..work })
}

fn not_read(missing: Missing) -> ApiError {
    tracing::warn!(?missing, "the work of an operation could not be read from the bucket");
    ApiError::unavailable("objects", "the work of an operation cannot be read at the moment")
}

/// Makes the operation that this node has released.
fn begun(compute: &Arc<Compute>, Taken { released, by, booking, .. }: &Taken) -> Result<Begun, ApiError> {
    let op_id: OperationId = released.op_id.parse().map_err(ApiError::internal)?;
    let running = compute.operations.begin(op_id.clone(), None, 0);
    let running = running.map_err(|_| ApiError::internal("an operation is counted with no others"))?;
    Ok(Begun {
        reservation: compute.ledger.of_fleet(by, booking.month, released.transfer_id.clone()),
        _unfinished: compute.unfinished.enter(),
        _running: running,
        compute: compute.clone(),
        op_id,
        reply: Reply { claim: Claim::none(), octets: false, waits: false },
        by: by.clone(),
        created_at: Timestamp(booking.created_at),
        started: Instant::now(),
        epoch: Some(released.epoch),
        limit: (None, 0),
        in_line: true,
        place: None,
    })
}

/// Asks the workers for a released operation, and books its end. The results must have this shape.
///
/// # Errors
/// When the operation must be released again.
pub async fn compute_and_book<K: Kind>(
    compute: &Arc<Compute>,
    taken: &Taken,
    mut kind: K,
    work: Work,
    shape: [usize; 2],
) -> Result<(), ApiError> {
    let (begun, released) = (begun(compute, taken)?, &taken.released);
    let line = line(compute)?;
    let checkpoints = line.checkpoints.of(released, begun.by.account.clone());
    let mut ending =
        work::ask(&line.workers, work, shape).map_err(|error| RunError::from(error).or_gone(|| kind.gone()))?;
    let mut beat = tokio::time::interval(PROGRESS);
    let mut stops = line.stops.subscribe();
    let mut stopped = Box::pin(async move { drop(stops.wait_for(|stops| *stops).await.map(drop)) });
    let end_of_work = loop {
        tokio::select! {
            end = &mut ending => break end,
            () = &mut stopped => {
                compute.store.take_back_release(&released.op_id, released.epoch).await?;
                return Ok(());
            }
            _ = beat.tick() => {
                let done = line.workers.done(&begun.op_id).unwrap_or(0) as i64;
                let lease = RELEASE.as_micros() as i64;
                match compute.store.note_progress(released.op_id.as_str(), released.epoch, done, lease).await {
                    // the operation has ended, or another node has released it
                    Ok(None) => return Ok(()),
                    // again with each beat, because the worker may have begun after the last word
                    Ok(Some(true)) => line.workers.cancel(&begun.op_id),
                    Ok(Some(false)) => {}
                    Err(error) => tracing::warn!(%error, "the progress of an operation could not be noted"),
                }
            }
        }
    };
    match end_of_work {
        WorkEnd::Completed { results, figures } => match kind.complete(&begun, results, figures).await {
            Ok(_) => {
                line.objects.remove(&released.work_object).await;
                checkpoints.remove().await;
                Ok(())
            }
            Err(error) if has_ended(compute, released).await? => {
                tracing::warn!(op_id = released.op_id, error = error.message, "another node has ended an operation");
                Ok(())
            }
            Err(error) if is_passing(&error) && released.epoch < BOOKINGS_MAX => Err(error),
            Err(error) if is_passing(&error) => {
                line.counts.given_up.fetch_add(1, Ordering::Relaxed);
                fail(&begun, released, &kind, RunError::Api(error)).await
            }
            Err(error) => fail(&begun, released, &kind, RunError::Api(error)).await,
        },
        WorkEnd::Cancelled(done) => {
            let is_wanted = compute.store.waiting(&released.op_id).await?.is_some_and(|waiting| waiting.cancelled);
            if !is_wanted {
                return Err(ApiError::unavailable("workers", "a worker dropped the operation"));
            }
            end(&begun, released, OperationStatus::Cancelled, None, kind.uncharged(&done)).await
        }
        WorkEnd::Failed(error) => {
            let is_passing = error.is_passing();
            let error = RunError::from(error);
            match is_passing {
                true => Err(error.or_gone(|| kind.gone())),
                false => fail(&begun, released, &kind, error).await,
            }
        }
    }
}

/// Whether another attempt may succeed.
fn is_passing(error: &ApiError) -> bool {
    error.code == Code::ServiceUnavailable
}

async fn has_ended(compute: &Compute, released: &Released) -> Result<bool, ApiError> {
    let waiting = compute.store.waiting(&released.op_id).await?;
    Ok(waiting.is_none_or(|waiting| waiting.epoch != released.epoch))
}

async fn fail<K: Kind>(begun: &Begun, released: &Released, kind: &K, error: RunError) -> Result<(), ApiError> {
    let error = kind.failure(begun, error.or_gone(|| kind.gone())).await;
    let cause = (error.code.as_str().to_owned(), error.message);
    end(begun, released, OperationStatus::Failed, Some(cause), kind.uncharged(&[])).await
}

async fn end(
    begun: &Begun,
    released: &Released,
    status: OperationStatus,
    error: Option<(String, String)>,
    outcome: Outcome,
) -> Result<(), ApiError> {
    match begun.end_without_results(status, error, outcome).await {
        Ok(()) => {
            begun.reservation.void().await;
            let line = line(&begun.compute)?;
            line.objects.remove(&released.work_object).await;
            // the checkpoint that the release began with; the sweep removes a later one
            if let Some(object) = &released.checkpoint {
                line.objects.remove(object).await;
            }
            Ok(())
        }
        Err(store::Error::OperationEnded) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Ends an operation for which no worker is asked any more: it was cancelled, is late, or its session or key has ended.
async fn end_without_work(compute: &Arc<Compute>, taken: &Taken, error: ApiError) -> Result<(), ApiError> {
    let (begun, released) = (begun(compute, taken)?, &taken.released);
    let cause = (error.code.as_str().to_owned(), error.message);
    let status = if released.cancelled { OperationStatus::Cancelled } else { OperationStatus::Failed };
    let cause = (status == OperationStatus::Failed).then_some(cause);
    end(&begun, released, status, cause, taken.record.without_results()).await
}

/// Cancels an operation of the line, and waits for its end.
///
/// # Errors
/// When the database does not answer.
pub async fn cancel(compute: &Compute, account: &AccountId, op_id: &OperationId) -> Result<(), ApiError> {
    let line = line(compute)?;
    let Some(waiting) = compute.store.cancel_waiting(op_id.as_str()).await? else { return Ok(()) };
    if !waiting.released && end_waiting(compute, account, &waiting).await? {
        return Ok(());
    }
    line.workers.cancel(op_id);
    let asked = Instant::now();
    while asked.elapsed() < CANCEL_WAIT && compute.store.waiting(op_id.as_str()).await?.is_some() {
        tokio::time::sleep(CANCEL_LOOK).await;
    }
    Ok(())
}

/// Ends a cancelled operation that no node has released. Returns false if a node has released it meanwhile.
async fn end_waiting(compute: &Compute, account: &AccountId, waiting: &Waiting) -> Result<bool, ApiError> {
    let now = compute.clock.now();
    let Some((_, record)) = compute.store.operation(account.as_str(), &waiting.op_id).await? else { return Ok(true) };
    let cancelled = (OperationStatus::Cancelled, None);
    let end = record.ended_unbegun(&waiting.op_id, cancelled, now.0, LineEnd::Waiting);
    match compute.store.submit(Unit { operation_end: Some(end), ..Unit::default() }).await {
        Ok(()) => {
            if let Some(transfer_id) = &waiting.transfer_id {
                compute.store.void_reservation(transfer_id, account.as_str(), now.0).await?;
            }
            let objects = &line(compute)?.objects;
            for object in std::iter::once(&waiting.work_object).chain(&waiting.checkpoint) {
                objects.remove(object).await;
            }
            Ok(true)
        }
        Err(store::Error::OperationEnded) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
