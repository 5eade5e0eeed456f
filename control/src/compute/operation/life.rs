//! The common part of all kinds of operations, from the reserved price to the answer: with a client that waits, or with a
//! record that the client reads later.

pub mod line;
mod place;

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::circuits::OperationStatus;
use api::{Code, OperationId};
use axum::response::{IntoResponse, Response};
use store::{
    FLEET, KeptAnswer, LineEnd, NewOperation, NewOperationOf, OperationEnd, Outcome, RecordedOf, Unit, Wanted,
};

use self::line::Booking;
use self::place::Place;
use super::running::{Counted, Running, TooMany};
use crate::billing::charge::microseconds;
use crate::billing::ledger::{PaidBy, Reservation};
use crate::clock::Timestamp;
use crate::compute::Compute;
use crate::ids;
use crate::in_flight::Guard;
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;
use crate::web::prefer::PREFERENCE_APPLIED;
use crate::work::{self, Ending, Figures, Gate, Rows, RunError, Work, WorkEnd};

/// The own part of an operation of one kind. The value is dropped at the end of the operation's life, however the life
/// ends.
pub trait Kind: Send + Sync + Sized + 'static {
    /// Describes the operation for its record.
    fn as_new(&self) -> NewOperationOf;

    /// Makes the first answer for a client that does not wait.
    fn pending(&self, begun: &Begun) -> Result<Response, ApiError>;

    /// Stores the results and books the operation: its end ([`Begun::completed`]), its charge and its stored answer
    /// are one unit. Returns the answer if the client waits.
    fn complete(
        &mut self,
        begun: &Begun,
        results: Rows,
        figures: Figures,
    ) -> impl Future<Output = Result<Option<Response>, ApiError>> + Send;

    /// The record of an operation that ended without results and is not charged. `done`: the gates that were completed.
    fn uncharged(&self, done: &[(Gate, u64)]) -> Outcome;

    /// Makes the error of an operation whose key was closed.
    fn gone(&self) -> ApiError;

    /// Describes how the operation is booked, so that another node of a fleet can book it.
    fn booking(&self) -> Booking;

    /// Returns the operation's cost, in bootstraps of a gate or in compute units, for the order of the waiting line.
    fn cost(&self) -> u64;

    /// Whether the operation takes so long that it enters the waiting line of a fleet even if its client waits. `time_of`
    /// estimates the time of a circuit with so many bootstraps.
    fn is_long(&self, time_of: &dyn Fn(u64) -> Duration) -> bool;

    /// Gives back the memory that only a process needs that computes or books the operation.
    fn let_go(&mut self);

    /// Makes the answer for a client that has waited while the operation, now completed in this time, was in the waiting line.
    fn answer_of_line(
        &mut self,
        begun: &Begun,
        of: RecordedOf,
        took: Duration,
    ) -> impl Future<Output = Result<Response, ApiError>> + Send;

    /// Returns the error that the client gets for a failure.
    fn failure(&self, _: &Begun, error: ApiError) -> impl Future<Output = ApiError> + Send {
        std::future::ready(error)
    }
}

/// How the client wants its answer.
pub struct Reply {
    /// Stores the answer in one unit with the operation's end, or with its record if the client does not wait.
    pub claim: Claim,
    /// Whether the answer is an octet-stream.
    pub octets: bool,
    /// Whether the client waits for the operation's end.
    pub waits: bool,
}

/// An operation from its reservation to its end.
pub struct Begun {
    /// The reservation of the price. Dropped before `_unfinished`, so that a stopping node waits until the reservation is
    /// given back.
    pub reservation: Reservation,
    /// Keeps a stopping node waiting for this operation.
    _unfinished: Guard,
    _running: Running,
    /// The node's parts that compute.
    pub compute: Arc<Compute>,
    /// The operation's id.
    pub op_id: OperationId,
    /// How the client wants its answer.
    pub reply: Reply,
    by: PaidBy,
    created_at: Timestamp,
    started: Instant,
    /// The number of the release, if the operation is in the waiting line of a fleet.
    epoch: Option<i64>,
    /// Which operations are counted with this one, and their largest number.
    limit: (Option<Counted>, usize),
    /// Whether the operation enters the waiting line of the fleet.
    in_line: bool,
    /// The operation's place among those of all API nodes that are counted with it.
    place: Option<Place>,
}

/// Enters an operation in the list of what this process computes, and reserves what the operation takes. Of the operations
/// that are `counted` together, at most `most` run.
pub async fn begin(
    compute: &Arc<Compute>,
    by: &PaidBy,
    reply: Reply,
    limit: (Option<Counted>, usize),
    wanted: Option<Wanted>,
) -> Result<Begun, ApiError> {
    let created_at = compute.clock.now();
    let op_id = ids::operation(created_at);
    // the database counts the operations of the waiting line
    let waits_in_line = compute.line.is_some() && !reply.waits;
    let counted = limit.0.clone().filter(|_| !waits_in_line);
    let running = compute.operations.begin(op_id.clone(), counted.clone(), limit.1);
    let running = running.map_err(|TooMany| too_many(&limit))?;
    // other API nodes of the fleet run operations that are counted with this one
    let place = match (&compute.line, &counted) {
        (Some(_), Some(counted)) => {
            let place = Place::take(compute, &op_id, &counted.text(), limit.1).await?;
            Some(place.ok_or_else(|| too_many(&limit))?)
        }
        _ => None,
    };
    Ok(Begun {
        reservation: compute.ledger.reserve(by, wanted, created_at).await?,
        _unfinished: compute.unfinished.enter(),
        _running: running,
        compute: compute.clone(),
        op_id,
        reply,
        by: by.clone(),
        created_at,
        started: Instant::now(),
        epoch: None,
        limit,
        in_line: waits_in_line,
        place,
    })
}

/// Returns the error of a client that waits for an operation that was cancelled.
fn cancelled() -> ApiError {
    ApiError::new(Code::Conflict, "the operation was cancelled; nothing was charged")
}

/// Returns the error for an operation that would be one too many.
fn too_many((counted, most): &(Option<Counted>, usize)) -> ApiError {
    let message = match counted {
        Some(Counted::Session(_)) => format!("the session already runs {most} circuits"),
        _ => format!("the account already runs {most} operations in the background"),
    };
    let message = format!("{message}: wait until one has ended");
    ApiError::new(Code::RateLimited, message).retry_after(Duration::from_secs(1))
}

/// Asks for an operation, and answers the request: at the operation's end, or with its record if the client does not wait.
/// In a fleet, an operation for which no client waits enters the waiting line, and a long one too. The results must have this
/// shape.
pub async fn run<K: Kind>(mut begun: Begun, kind: K, work: Work, shape: [usize; 2]) -> Result<Response, ApiError> {
    let Some(line) = &begun.compute.line else { return ask(begun, kind, work, shape)?.answer().await };
    if !begun.reply.waits {
        return line::enter(begun, kind, work).await;
    }
    if !line.is_long(&kind) {
        return ask(begun, kind, work, shape)?.answer().await;
    }
    begun.in_line = true;
    line::wait(begun, kind, work).await
}

/// An operation for which the worker was asked. Await [`Asked::answer`] next, because nothing else ends the operation.
struct Asked<K> {
    begun: Begun,
    kind: K,
    end: Ending,
}

/// Asks the worker. The results must have this shape.
fn ask<K: Kind>(begun: Begun, kind: K, work: Work, shape: [usize; 2]) -> Result<Asked<K>, ApiError> {
    match work::ask(&begun.compute.worker, work, shape) {
        Ok(end) => Ok(Asked { begun, kind, end }),
        Err(error) => Err(RunError::from(error).or_gone(|| kind.gone())),
    }
}

impl<K: Kind> Asked<K> {
    /// Answers the request. If the client leaves, the operation goes on and is charged (readings P24).
    async fn answer(self) -> Result<Response, ApiError> {
        if self.begun.reply.waits {
            let in_flight = self.begun.compute.in_flight.enter();
            let finished = tokio::spawn(async move {
                let _in_flight = in_flight;
                self.finish().await
            });
            return finished.await??.ok_or_else(|| ApiError::internal("an operation ended without its answer"));
        }
        // a separate task, which finishes the operation even if the client leaves now
        let recorded = tokio::spawn(async move {
            let recorded = self.begun.put_on_record(&self.kind).await;
            match &recorded {
                Ok(_) => drop(tokio::spawn(self.finish())),
                Err(_) => self.begun.compute.worker.cancel(&self.begun.op_id),
            }
            recorded
        });
        recorded.await?
    }

    /// Waits for the end. An operation without results is recorded as such if it has a record, and gives its reservation
    /// back.
    async fn finish(mut self) -> Result<Option<Response>, ApiError> {
        let place = self.begun.place.take();
        let ended = self.end().await;
        // before the answer, so that a client that runs as many circuits as may run can begin the next one
        if let Some(place) = place {
            place.leave().await;
        }
        ended
    }

    async fn end(self) -> Result<Option<Response>, ApiError> {
        let Asked { begun, mut kind, end } = self;
        let (status, done, error) = match end.await {
            WorkEnd::Completed { results, figures } => match kind.complete(&begun, results, figures).await {
                Ok(answer) => return Ok(answer),
                Err(error) => (OperationStatus::Failed, Vec::new(), error),
            },
            WorkEnd::Cancelled(done) => (OperationStatus::Cancelled, done, cancelled()),
            WorkEnd::Failed(error) => {
                (OperationStatus::Failed, Vec::new(), RunError::from(error).or_gone(|| kind.gone()))
            }
        };
        let failed = status == OperationStatus::Failed;
        let error = if failed { kind.failure(&begun, error).await } else { error };
        begun.reservation.give_back().await;
        if !begun.reply.waits {
            let cause = failed.then(|| (error.code.as_str().to_owned(), error.message.clone()));
            begun.end_uncharged(status, cause, kind.uncharged(&done)).await;
        }
        Err(error)
    }
}

impl Begun {
    /// Records the operation before its end, and returns the first answer, stored in the same unit.
    async fn put_on_record(&self, kind: &impl Kind) -> Result<Response, ApiError> {
        let (answer, keep) = self.first_answer(kind).await?;
        let unit = Unit { operation: Some(self.as_new(kind)), keep, ..Unit::default() };
        self.compute.store.submit(unit).await?;
        Ok(answer)
    }

    async fn first_answer(&self, kind: &impl Kind) -> Result<(Response, Option<KeptAnswer>), ApiError> {
        self.reply.claim.keep(([PREFERENCE_APPLIED], kind.pending(self)?).into_response()).await
    }

    /// Makes the unit that records a completed operation, whose computation took this long.
    pub fn completed(&self, kind: &impl Kind, outcome: Outcome, took: Duration) -> Unit {
        let end = self.end(OperationStatus::Completed, outcome, took);
        Unit { operation: Some(self.as_new(kind)), operation_end: Some(end), ..Unit::default() }
    }

    /// Records an end without results. Returns whether this call has ended the operation.
    async fn end_without_results(
        &self,
        status: OperationStatus,
        error: Option<(String, String)>,
        outcome: Outcome,
    ) -> Result<(), store::Error> {
        let end = OperationEnd { error, ..self.end(status, outcome, self.started.elapsed()) };
        self.compute.store.submit(Unit { operation_end: Some(end), ..Unit::default() }).await
    }

    async fn end_uncharged(&self, status: OperationStatus, error: Option<(String, String)>, outcome: Outcome) {
        match self.end_without_results(status, error, outcome).await {
            Ok(()) | Err(store::Error::OperationEnded) => {}
            Err(cause) => {
                tracing::error!(%cause, op_id = self.op_id.as_str(), "an operation's end could not be recorded")
            }
        }
    }

    fn as_new(&self, kind: &impl Kind) -> NewOperation {
        NewOperation {
            op_id: self.op_id.as_str().to_owned(),
            account_id: self.by.account.as_str().to_owned(),
            node_id: self.node_id(),
            created_at: self.created_at.0,
            of: kind.as_new(),
        }
    }

    /// The node that ends the operation: the fleet, if the operation is in its waiting line.
    fn node_id(&self) -> String {
        if self.in_line { FLEET.to_owned() } else { self.compute.sessions.node_id.clone() }
    }

    fn end(&self, status: OperationStatus, outcome: Outcome, took: Duration) -> OperationEnd {
        OperationEnd {
            op_id: self.op_id.as_str().to_owned(),
            status,
            compute_us: microseconds(took),
            error: None,
            ended_at: self.compute.clock.now().0,
            outcome,
            line: self.epoch.map(LineEnd::Released),
        }
    }
}
