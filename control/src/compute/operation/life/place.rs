//! The place of a circuit among the circuits that all API nodes of a fleet run for a session. A node alone, and the waiting line,
//! need no places: the list of running operations and the line's rows count there.

use std::time::Duration;

use api::OperationId;
use store::Store;
use tokio::runtime::Handle;

use crate::compute::Compute;
use crate::web::error::ApiError;

/// Pause between two attempts to give a place back.
const RETRY: Duration = Duration::from_secs(1);
/// Number of attempts. A place that is not given back counts until the process ends.
const ATTEMPTS: u32 = 600;

/// A place. Dropping this value gives the place back a moment later.
pub struct Place {
    store: Store,
    /// `None`: the place was given back.
    op_id: Option<OperationId>,
}

impl Place {
    /// Takes a place for an operation of this node. `None`: as many operations run as may run.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn take(
        compute: &Compute,
        op_id: &OperationId,
        counted: &str,
        most: usize,
    ) -> Result<Option<Place>, ApiError> {
        let (store, node_id) = (compute.store.clone(), compute.sessions.node_id.clone());
        let (op_id, counted) = (op_id.clone(), counted.to_owned());
        // a separate task: if the client leaves meanwhile, the place is given back after it was taken
        let taking = tokio::spawn(async move {
            let is_taken = store.begin_circuit(op_id.as_str(), &counted, &node_id, most as i64).await?;
            Ok::<_, store::Error>(is_taken.then(|| Place { store, op_id: Some(op_id) }))
        });
        Ok(taking.await??)
    }

    /// Gives the place back.
    pub async fn leave(mut self) {
        let Some(op_id) = &self.op_id else { return };
        if self.store.end_circuit(op_id.as_str()).await.is_ok() {
            self.op_id = None;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let (Some(op_id), store) = (self.op_id.take(), self.store.clone()) else { return };
        // without a runtime the process ends, and with it the place
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            for _ in 0..ATTEMPTS {
                match store.end_circuit(op_id.as_str()).await {
                    Ok(()) => return,
                    Err(error) => {
                        tracing::warn!(%error, op_id = op_id.as_str(), "a circuit's place was not given back")
                    }
                }
                tokio::time::sleep(RETRY).await;
            }
        });
    }
}
