//! From the asked worker to the answer: with a client that waits, or with a record that the client reads later.

use axum::response::Response;

use crate::compute::Compute;
use crate::web::error::ApiError;

/// An operation for which the worker was asked.
pub trait Asked: Sized + Send + 'static {
    /// The node's parts that compute.
    fn compute(&self) -> &Compute;

    /// Whether the client waits for the operation's end.
    fn client_waits(&self) -> bool;

    /// Records the operation before its end, and returns the first answer to its request, stored in the same unit.
    fn put_on_record(&mut self) -> impl Future<Output = Result<Response, ApiError>> + Send;

    /// Waits for the operation's end. Stores and charges a result; otherwise gives the reservation back and records the
    /// failure. Returns the answer if the client waits.
    fn finish(self) -> impl Future<Output = Result<Option<Response>, ApiError>> + Send;

    /// Cancels an operation that could not be recorded. Nothing is charged.
    fn abandon(self);
}

/// Answers a request. If the client leaves, the operation goes on and is charged (readings P24).
pub async fn answer(mut asked: impl Asked) -> Result<Response, ApiError> {
    if asked.client_waits() {
        let in_flight = asked.compute().in_flight.enter();
        let finished = tokio::spawn(async move {
            let _in_flight = in_flight;
            asked.finish().await
        });
        return finished.await??.ok_or_else(|| ApiError::internal("an operation ended without its answer"));
    }
    // a separate task, which finishes the operation even if the client leaves now
    let recorded = tokio::spawn(async move {
        match asked.put_on_record().await {
            Ok(answer) => {
                tokio::spawn(asked.finish());
                Ok(answer)
            }
            Err(error) => {
                asked.abandon();
                Err(error)
            }
        }
    });
    recorded.await?
}
