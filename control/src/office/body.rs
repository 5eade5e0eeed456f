//! Bodies of the back office. `docs-module` reads them, and an answer lists every fault of a body at once
//! (specification, HTTPValidationError).

use std::sync::Arc;

use api::Code;
use axum::extract::{FromRef, FromRequest, Request};
use docs_module::request::Fault;
use zeroize::Zeroizing;

use crate::caller;
use crate::resource::Payer;
use crate::web::Web;
use crate::web::body::{Pieces, Reserved, media_type};
use crate::web::error::ApiError;
use crate::web::json::without_mark;

/// Largest size of a body, in bytes (readings B41).
const BODY_BYTES_MAX: usize = 10 << 20;
/// Bytes of memory reserved for each byte of a body: for the body, for the values that are read from the body, and for
/// the document.
const COPIES: u64 = 4;

/// The body of a request, before the body is read.
pub struct Body {
    web: Arc<Web>,
    payer: Payer,
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
        let mut pieces = Pieces::kept(&web, request, BODY_BYTES_MAX, |bytes| COPIES * bytes)?;
        let bytes = pieces.all().await?;
        Ok(Body { web, payer, bytes, reserved: pieces.take_reserved() })
    }
}

impl Body {
    /// Runs `work` on the bytes of the body, on a thread for long computations.
    pub async fn work<T: Send + 'static>(
        self,
        work: impl FnOnce(&[u8]) -> Result<T, Vec<Fault>> + Send + 'static,
    ) -> Result<T, ApiError> {
        let Body { web, payer, bytes, reserved } = self;
        let worked = web.offload.run(payer, move || {
            let _reserved = reserved;
            work(without_mark(&bytes))
        });
        worked.await?.map_err(refusal)
    }
}

/// Makes the error 422 with these faults of the body.
pub fn refusal(faults: Vec<Fault>) -> ApiError {
    let values: Result<Vec<_>, _> = faults.iter().map(serde_json::to_value).collect();
    values.map_or_else(ApiError::internal, ApiError::with_faults)
}
