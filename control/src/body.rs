//! Request bodies: never more than a route's ceiling, never more in memory than the node's budget (readings X6).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use api::Code;
use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zeroize::Zeroizing;

use crate::app::Node;
use crate::error::ApiError;
use crate::json;

/// Bodies up to this size take nothing from the budget: connections bound them.
const FREE_BYTES: u64 = 64 << 10;
/// How long an upload waits for others to finish before it is told to come back.
const BUDGET_WAIT: Duration = Duration::from_secs(5);
/// Longest pause between two pieces of a body.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Room for what is not payload: member names, ids, white space (readings X6).
const FRAMING_BYTES: usize = 64 << 10;

/// The ceiling of a JSON body whose base64 members hold this many decoded bytes.
pub const fn base64_ceiling(decoded_bytes: usize) -> usize {
    decoded_bytes.div_ceil(3) * 4 + FRAMING_BYTES
}

/// Memory for bodies in transit, counted in KiB.
#[derive(Clone, Debug)]
pub struct BodyBudget {
    free_kib: Arc<Semaphore>,
    total_kib: u32,
}

/// Memory set aside for one request; given back when dropped.
pub type Reserved = Option<OwnedSemaphorePermit>;

impl BodyBudget {
    /// A budget of this many bytes.
    pub fn new(bytes: u64) -> Self {
        let total_kib = u32::try_from(bytes >> 10).unwrap_or(u32::MAX).min(Semaphore::MAX_PERMITS as u32);
        Self { free_kib: Arc::new(Semaphore::new(total_kib as usize)), total_kib }
    }

    /// Sets memory aside; waits a little for it, then says 503.
    pub async fn reserve(&self, bytes: u64) -> Result<Reserved, ApiError> {
        if bytes <= FREE_BYTES {
            return Ok(None);
        }
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX).min(self.total_kib);
        match tokio::time::timeout(BUDGET_WAIT, self.free_kib.clone().acquire_many_owned(kib)).await {
            Ok(permit) => Ok(Some(permit.map_err(ApiError::internal)?)),
            Err(_) => {
                Err(ApiError::new(Code::ServiceUnavailable, "too many uploads at once")
                    .retry_after(Duration::from_secs(2)))
            }
        }
    }
}

/// A body's pieces under a ceiling. Refuses on the declared length before it reads anything.
pub struct Pieces {
    body: Body,
    ceiling: usize,
    seen: usize,
}

impl Pieces {
    /// Pieces of a body that may have at most `ceiling` bytes.
    pub fn new(body: Body, ceiling: usize) -> Result<Self, ApiError> {
        match HttpBody::size_hint(&body).lower() > ceiling as u64 {
            true => Err(too_large(ceiling)),
            false => Ok(Self { body, ceiling, seen: 0 }),
        }
    }

    /// Bytes that will come: as declared, else the ceiling.
    pub fn bytes_max(&self) -> usize {
        HttpBody::size_hint(&self.body).upper().map_or(self.ceiling, |bytes| (bytes as usize).min(self.ceiling))
    }

    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        loop {
            let frame = tokio::time::timeout(PAUSE_MAX, self.body.frame())
                .await
                .map_err(|_| ApiError::new(Code::InvalidRequest, "the body stopped arriving"))?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|_| ApiError::new(Code::InvalidRequest, "the body broke off"))?;
            // trailers are of no interest
            let Ok(data) = frame.into_data() else { continue };
            self.seen += data.len();
            if self.seen > self.ceiling {
                return Err(too_large(self.ceiling));
            }
            return Ok(Some(data));
        }
    }

    /// The whole body. It is overwritten when it is dropped.
    pub async fn all(mut self) -> Result<Zeroizing<Vec<u8>>, ApiError> {
        let mut bytes = Zeroizing::new(Vec::new());
        while let Some(piece) = self.next().await? {
            if bytes.capacity() - bytes.len() < piece.len() {
                grow(&mut bytes, piece.len(), self.bytes_max());
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }
}

fn too_large(ceiling: usize) -> ApiError {
    ApiError::new(Code::PayloadTooLarge, format!("the body may have at most {ceiling} bytes here"))
}

/// A JSON body that a route takes.
pub trait JsonBody: DeserializeOwned + Send + 'static {
    /// Bytes the body may have.
    const BYTES_MAX: usize;
}

/// A JSON body that passed the checks of [`json`], and the memory set aside for it.
pub struct Json<T> {
    /// The request.
    pub value: T,
    /// Keep it as long as the request's data lives.
    pub reserved: Reserved,
}

/// JSON of this size or more is read off the async threads.
pub const OFF_THREAD_BYTES_MIN: usize = 256 << 10;
/// Memory that a JSON request needs for each byte of its body: the body, its strings, what they decode to.
const JSON_COPIES: u64 = 3;

impl<T: JsonBody> FromRequest<Arc<Node>> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, node: &Arc<Node>) -> Result<Self, ApiError> {
        if media_type(request.headers()) != Some("application/json".to_owned()) {
            return Err(ApiError::new(Code::InvalidRequest, "the content type must be application/json"));
        }
        let pieces = Pieces::new(request.into_body(), T::BYTES_MAX)?;
        let reserved = node.body_budget.reserve(pieces.bytes_max() as u64 * JSON_COPIES).await?;
        let bytes = pieces.all().await?;
        // whatever happens, the bytes are overwritten: they might hold what must not be here (readings K5)
        let value = match bytes.len() {
            0..OFF_THREAD_BYTES_MIN => json::parse(&bytes)?,
            _ => node.offload.run(move || json::parse(&bytes)).await??,
        };
        Ok(Json { value, reserved })
    }
}

/// Makes room by doubling, but not beyond what can still come; the old room is overwritten.
fn grow(bytes: &mut Zeroizing<Vec<u8>>, more: usize, remaining: usize) {
    let wanted = (bytes.len() + more).max((2 * bytes.len()).min(bytes.len() + remaining)).max(8 << 10);
    let mut roomy = Zeroizing::new(Vec::with_capacity(wanted));
    roomy.extend_from_slice(bytes);
    *bytes = roomy;
}

/// The media type of a request's body without parameters, in lower case.
pub fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

/// A body that, when it is dropped before its end, is read on and thrown away within bounds. A client that is refused
/// while it still sends would otherwise see a broken connection instead of the answer.
pub struct Lingering {
    body: Option<Incoming>,
}

/// Bytes read and thrown away at most.
const LINGER_BYTES_MAX: usize = 64 << 20;
/// Time spent on it at most.
const LINGER_TIME_MAX: Duration = Duration::from_secs(5);

impl Lingering {
    /// Takes care of a body's rest.
    pub fn new(body: Incoming) -> Self {
        Self { body: Some(body) }
    }
}

impl HttpBody for Lingering {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        let Some(mut body) = self.body.take().filter(|body| !body.is_end_stream()) else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let discard = async {
                let mut left = LINGER_BYTES_MAX;
                while let Some(Ok(frame)) = body.frame().await {
                    let bytes = frame.data_ref().map_or(0, Bytes::len);
                    match left.checked_sub(bytes) {
                        Some(rest) => left = rest,
                        None => break,
                    }
                }
            };
            let _ = tokio::time::timeout(LINGER_TIME_MAX, discard).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn x6_uploads_beyond_the_budget_wait_a_little_and_are_then_told_to_come_back() {
        let budget = BodyBudget::new(100 << 20);
        let first = budget.reserve(80 << 20).await.unwrap();
        let refused = budget.reserve(80 << 20).await.unwrap_err();
        assert_eq!((refused.code, refused.retry_after_s), (Code::ServiceUnavailable, Some(2)));
        // a small body needs no budget, and one larger than all of it waits for all of it
        assert!(budget.reserve(FREE_BYTES).await.unwrap().is_none());
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.reserve(1 << 40).await }
        });
        tokio::task::yield_now().await;
        drop(first);
        assert!(waiting.await.unwrap().unwrap().is_some());
    }

    #[tokio::test]
    async fn x6_a_declared_length_over_the_ceiling_is_refused_unread() {
        assert_eq!(Pieces::new(Body::from(vec![0; 11]), 10).err().unwrap().code, Code::PayloadTooLarge);
        let mut pieces = Pieces::new(Body::from(vec![0; 10]), 10).unwrap();
        assert_eq!(pieces.bytes_max(), 10);
        assert_eq!(pieces.next().await.unwrap().unwrap().len(), 10);
        assert!(pieces.next().await.unwrap().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_arriving_is_given_up() {
        let first = futures_util::stream::once(async { Ok::<Bytes, std::io::Error>("1".into()) });
        let stalled = futures_util::StreamExt::chain(first, futures_util::stream::pending());
        let mut pieces = Pieces::new(Body::from_stream(stalled), 10).unwrap();
        pieces.next().await.unwrap();
        assert_eq!(pieces.next().await.unwrap_err().code, Code::InvalidRequest);
    }

    #[tokio::test]
    async fn x6_a_body_of_unknown_length_is_cut_at_the_ceiling() {
        let chunks = futures_util::stream::iter(["12345678"; 2].map(|chunk| Ok::<Bytes, std::io::Error>(chunk.into())));
        let mut pieces = Pieces::new(Body::from_stream(chunks), 10).unwrap();
        assert_eq!(pieces.bytes_max(), 10);
        pieces.next().await.unwrap();
        assert_eq!(pieces.next().await.unwrap_err().code, Code::PayloadTooLarge);
    }
}
