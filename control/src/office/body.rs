//! Bodies of the back office. `docs-module` reads them, and an answer lists every fault of a body at once
//! (specification, HTTPValidationError).

use std::sync::Arc;

use api::Code;
use axum::extract::{FromRef, FromRequest, Request};
use docs_module::limit::Limit;
use docs_module::request::{Fault, Refused};
use zeroize::Zeroizing;

use crate::caller;
use crate::resource::Payer;
use crate::web::Web;
use crate::web::body::{Pieces, Reserved, media_type};
use crate::web::edge::Deadline;
use crate::web::error::ApiError;
use crate::web::json::without_mark;

/// Largest size of a body, in bytes (readings B41). The size bounds all work but the search for groups in a
/// reconciliation, which anyone may ask for; `docs_module::reconcile` bounds its steps, and `docs_module::request` the
/// rows and the lengths of names. Together a body takes less than a second of one core
/// (`benches/results/2026-11-27-reconcile.md`).
const BODY_BYTES_MAX: usize = 10 << 20;
/// Bytes of memory reserved for each byte of a body: for the body, for the values that are read from the body, and for
/// the document.
const COPIES: u64 = 4;

/// The body of a request, before the body is read.
pub struct Body {
    web: Arc<Web>,
    payer: Payer,
    deadline: Deadline,
    bytes: Zeroizing<Vec<u8>>,
    /// Memory reserved until the work on the body ends.
    reserved: Reserved,
}

impl<S: Send + Sync> FromRequest<S> for Body
where
    Arc<Web>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let web = Arc::<Web>::from_ref(state);
        if media_type(request.headers()) != Some("application/json".to_owned()) {
            return Err(ApiError::new(Code::InvalidRequest, "the content type should be application/json"));
        }
        let payer = caller::payer(request.extensions());
        let deadline = request.extensions().get::<Deadline>().copied();
        let deadline = deadline.ok_or_else(|| ApiError::internal("a request has no deadline"))?;
        let mut pieces = Pieces::kept(&web, request, BODY_BYTES_MAX, |bytes| COPIES * bytes)?;
        let bytes = pieces.all().await?;
        Ok(Body { web, payer, deadline, bytes, reserved: pieces.take_reserved() })
    }
}

impl Body {
    /// Runs `work` on the bytes of the body, on a thread for long computations, until the request's deadline.
    pub async fn work<T: Send + 'static, E: Into<Refused> + Send + 'static>(
        self,
        work: impl FnOnce(&[u8], Limit<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, ApiError> {
        let Body { web, payer, deadline, bytes, reserved } = self;
        let worked = web.offload.run_within(payer, deadline, move |limit| {
            let _reserved = reserved;
            work(without_mark(&bytes), limit)
        });
        worked.await?.map_err(|error| match error.into() {
            Refused::Faults(faults) => refusal(faults),
            // the request was answered or dropped before the flag was set, so nobody receives this answer
            Refused::Stopped => ApiError::internal("work was stopped before its deadline"),
        })
    }
}

/// Makes the error 422 with these faults of the body.
pub fn refusal(faults: Vec<Fault>) -> ApiError {
    let values: Result<Vec<_>, _> = faults.iter().map(serde_json::to_value).collect();
    values.map_or_else(ApiError::internal, ApiError::with_faults)
}
