//! Request bodies (readings X6). The route bounds a body's length. The node bounds the memory that all bodies together
//! use.
//!
//! Memory is reserved in steps as bytes arrive, so a body that is announced but not sent reserves none. A body must
//! keep a minimum pace, and a body of unknown length must be short.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use api::Code;
use api::gates::EVALUATION_KEY_BYTES_MAX;
use axum::body::Body;
use axum::extract::{FromRef, FromRequest, Request};
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::Web;
use crate::caller;
use crate::resource::{Grant, NotGranted, Payer, Resource};
use crate::web::error::ApiError;
use crate::web::json;

/// A body up to this size reserves no memory. The bound on connections also bounds the memory of such bodies.
const FREE_BYTES: u64 = 64 << 10;
/// Memory is reserved in steps of this many bytes.
const STEP_BYTES: u64 = 1 << 20;
/// How long an upload waits for memory before it is refused.
const MEMORY_WAIT: Duration = Duration::from_secs(5);
/// Longest pause between two pieces of a body.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Grace period in which a body may be slower than the minimum pace.
const PACE_GRACE: Duration = Duration::from_secs(10);
/// The minimum pace after the grace period, in bytes a second.
const PACE_BYTES: u64 = 16 << 10;
/// Longest body without a declared length, in bytes.
const UNDECLARED_BYTES_MAX: usize = 1 << 20;
/// Memory that the largest legitimate upload needs: an evaluation key, and the prepared key made of it.
pub const LARGEST_UPLOAD_BYTES: u64 = 2 * EVALUATION_KEY_BYTES_MAX as u64;
/// Room for everything but the payload: member names, ids, white space (readings X6).
const FRAMING_BYTES: usize = 64 << 10;

/// Computes the ceiling of a JSON body whose base64 members hold this many decoded bytes.
pub const fn base64_ceiling(decoded_bytes: usize) -> usize {
    decoded_bytes.div_ceil(3) * 4 + FRAMING_BYTES
}

/// Memory reserved for one request, given back on drop. `None`: the request is too small to need a reservation.
pub type Reserved = Option<Grant>;

/// Reserves memory for a request of known size. Waits up to `MEMORY_WAIT`, then refuses with 503.
pub async fn reserve(memory: &Resource, payer: &Payer, bytes: u64) -> Result<Reserved, ApiError> {
    if bytes <= FREE_BYTES {
        return Ok(None);
    }
    let taken = memory.take_within(payer, bytes, MEMORY_WAIT).await;
    taken.map(Some).map_err(|full| match full {
        NotGranted::NotNow => {
            ApiError::unavailable("bodies", "too many uploads at once").retry_after(Duration::from_secs(2))
        }
        NotGranted::TooMuch => too_much(memory.most(payer)),
    })
}

/// Makes the error for a request that needs more memory than its account may ever have.
fn too_much(most: u64) -> ApiError {
    let message = format!("the request needs more memory than the {} MB that this account may use", most >> 20);
    ApiError::new(Code::PayloadTooLarge, message)
}

/// The memory reserved for a body, and the resource that more memory is taken from.
struct BodyMemory {
    all: Resource,
    payer: Payer,
    /// Computes the memory that a request needs from the length of its body.
    needs: fn(u64) -> u64,
    taken: Reserved,
}

impl BodyMemory {
    /// Reserves memory for a body. `bytes` of the body have arrived, and the body has at most `bytes_max` bytes.
    async fn cover(&mut self, bytes: u64, bytes_max: u64) -> Result<(), ApiError> {
        let (needed, most) = ((self.needs)(bytes), (self.needs)(bytes_max));
        let taken = self.taken.as_ref().map_or(0, Grant::amount);
        if needed <= taken.max(FREE_BYTES) {
            return Ok(());
        }
        let step = (needed - taken).max(STEP_BYTES.min(most - taken));
        // make the step larger than the size that needs no reservation, so that `reserve` really reserves
        let step = reserve(&self.all, &self.payer, step.max(FREE_BYTES + 1)).await?;
        match (&mut self.taken, step) {
            (Some(taken), Some(step)) => taken.join(step),
            (taken, step) => *taken = step,
        }
        Ok(())
    }
}

/// The pieces of a body, under a ceiling. A body whose declared length is above the ceiling is refused before it is
/// read.
pub struct Pieces {
    body: Body,
    ceiling: usize,
    seen: usize,
    /// Time spent waiting for the client.
    waited: Duration,
    memory: Option<BodyMemory>,
}

impl Pieces {
    /// Takes a body of at most `ceiling` bytes in pieces, for a handler that does not keep the body in memory.
    pub fn new(body: Body, ceiling: usize) -> Result<Self, ApiError> {
        if HttpBody::size_hint(&body).lower() > ceiling as u64 {
            Err(too_large(ceiling))
        } else {
            Ok(Self { body, ceiling, seen: 0, waited: Duration::ZERO, memory: None })
        }
    }

    /// Takes a request's body in pieces, for a handler that keeps the body in memory. `needs` computes the memory that
    /// a body of this length needs. This memory is reserved as bytes arrive. A declared length that needs more than the
    /// account may have is refused at once.
    pub fn kept(web: &Web, request: Request, ceiling: usize, needs: fn(u64) -> u64) -> Result<Self, ApiError> {
        let payer = caller::payer(request.extensions());
        Pieces::new(request.into_body(), ceiling)?.paid(&web.bodies, payer, needs)
    }

    fn paid(self, memory: &Resource, payer: Payer, needs: fn(u64) -> u64) -> Result<Self, ApiError> {
        let most = memory.most(&payer);
        if needs(HttpBody::size_hint(&self.body).lower()) > most {
            return Err(too_much(most));
        }
        let memory = BodyMemory { all: memory.clone(), payer, needs, taken: None };
        Ok(Self { memory: Some(memory), ..self })
    }

    /// Returns the largest number of bytes that can still arrive: the rest of the declared length or, without a
    /// declared length, the rest of `UNDECLARED_BYTES_MAX`.
    pub fn bytes_max(&self) -> usize {
        let declared = HttpBody::size_hint(&self.body).upper();
        let still = declared.map_or(UNDECLARED_BYTES_MAX.saturating_sub(self.seen), |bytes| bytes as usize);
        still.min(self.ceiling.saturating_sub(self.seen))
    }

    /// Takes out the reserved memory. Keep this memory as long as the request's data lives.
    pub fn take_reserved(&mut self) -> Reserved {
        self.memory.as_mut().and_then(|memory| memory.taken.take())
    }

    /// Waits for the next piece. `None`: the body has ended.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        let undeclared = HttpBody::size_hint(&self.body).upper().is_none();
        loop {
            let Some(frame) = self.frame().await? else { return Ok(None) };
            let frame =
                frame.map_err(|_| ApiError::new(Code::InvalidRequest, "the connection ended before the body did"))?;
            // ignore trailers
            let Ok(data) = frame.into_data() else { continue };
            self.seen += data.len();
            if self.seen > self.ceiling {
                return Err(too_large(self.ceiling));
            }
            if undeclared && self.seen > UNDECLARED_BYTES_MAX {
                // code 400 instead of 411, because 411 and 415 are not in the specification's list (readings X8)
                let message = "a body of more than 1 MB must declare its Content-Length";
                return Err(ApiError::new(Code::InvalidRequest, message));
            }
            let bytes_max = (self.seen + self.bytes_max()) as u64;
            if let Some(memory) = &mut self.memory {
                memory.cover(self.seen as u64, bytes_max).await?;
            }
            return Ok(Some(data));
        }
    }

    /// Waits for the next frame. Refuses a body that pauses too long or is slower than the minimum pace.
    async fn frame(&mut self) -> Result<Option<Result<Frame<Bytes>, axum::Error>>, ApiError> {
        let paid_for = PACE_GRACE + Duration::from_millis(self.seen as u64 * 1000 / PACE_BYTES);
        let patience = paid_for.saturating_sub(self.waited).min(PAUSE_MAX);
        let asked = Instant::now();
        let frame = tokio::time::timeout(patience, self.body.frame()).await;
        self.waited += asked.elapsed();
        frame.map_err(|_| {
            let message =
                "the body arrives too slowly: send at least 16 KB a second, and pause for less than 30 seconds";
            ApiError::new(Code::InvalidRequest, message)
        })
    }

    /// Reads the whole body. The bytes are overwritten on drop.
    pub async fn all(&mut self) -> Result<Zeroizing<Vec<u8>>, ApiError> {
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
    ApiError::new(
        Code::PayloadTooLarge,
        format!("the body is larger than the {ceiling} bytes that this endpoint takes"),
    )
}

/// A type of JSON body.
pub trait JsonBody: DeserializeOwned + Send + 'static {
    /// Longest body, in bytes.
    const BYTES_MAX: usize;
    /// True: the handler checks every text of the body, and reports U+0000 itself.
    const CHECKS_TEXTS: bool = false;
}

/// A JSON body that passed the checks of [`json`], with the memory reserved for it.
pub struct Json<T> {
    /// The value that was read.
    pub value: T,
    /// The memory reserved for the body. Keep this memory as long as the request's data lives.
    pub reserved: Reserved,
}

/// From this size on, JSON is parsed outside the async threads.
pub const OFF_THREAD_BYTES_MIN: usize = 256 << 10;
/// Memory reserved for each byte of a JSON body: for the body, its strings, and the values that the strings decode to.
const JSON_COPIES: u64 = 3;

impl<S: Send + Sync, T: JsonBody> FromRequest<S> for Json<T>
where
    Arc<Web>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let web = Arc::<Web>::from_ref(state);
        if media_type(request.headers()) != Some("application/json".to_owned()) {
            return Err(ApiError::new(Code::InvalidRequest, "the content type must be application/json"));
        }
        let payer = caller::payer(request.extensions());
        let mut pieces = Pieces::kept(&web, request, T::BYTES_MAX, |bytes| JSON_COPIES * bytes)?;
        let bytes = pieces.all().await?;
        let reserved = pieces.take_reserved();
        // the bytes are overwritten in any case, because they may hold a secret key (readings K5)
        let value = match bytes.len() {
            0..OFF_THREAD_BYTES_MIN => json::parse_texts(&bytes, T::CHECKS_TEXTS)?,
            _ => web.offload.run(payer, move || json::parse_texts(&bytes, T::CHECKS_TEXTS)).await??,
        };
        Ok(Json { value, reserved })
    }
}

/// Doubles the buffer, but not beyond the bytes that can still arrive. The old buffer is overwritten.
fn grow(bytes: &mut Zeroizing<Vec<u8>>, more: usize, remaining: usize) {
    let wanted = (bytes.len() + more).max((2 * bytes.len()).min(bytes.len() + remaining)).max(8 << 10);
    let mut roomy = Zeroizing::new(Vec::with_capacity(wanted));
    roomy.extend_from_slice(bytes);
    *bytes = roomy;
}

/// Returns the media type of a request's body without parameters, in lower case. `None` if the request states none or
/// several.
pub fn media_type(headers: &HeaderMap) -> Option<String> {
    let mut values = headers.get_all(header::CONTENT_TYPE).iter();
    let value = values.next().filter(|_| values.next().is_none())?.to_str().ok()?;
    Some(value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

/// A request's body. If it is dropped before its end, the rest is still read and thrown away, within bounds. Otherwise
/// a client that is still sending when it is refused would see a broken connection in place of the answer.
pub struct Lingering {
    body: Option<Incoming>,
}

/// Largest number of bytes of the rest that are read.
const LINGER_BYTES_MAX: usize = 64 << 20;
/// Longest time for reading the rest.
const LINGER_TIME_MAX: Duration = Duration::from_secs(5);

impl Lingering {
    /// Wraps a body as a [`Lingering`] one.
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
    use api::AccountId;

    use super::*;

    fn payer(number: u128) -> Payer {
        Payer::account(AccountId::from_bits(number))
    }

    /// Makes the pieces of a body with this declared length, from a client that again and again sends `piece` bytes and
    /// then pauses.
    fn slow(declared: u64, piece: usize, pause: Duration) -> Pieces {
        let sends = futures_util::stream::unfold((), move |()| async move {
            tokio::time::sleep(pause).await;
            Some((Ok::<_, std::io::Error>(Bytes::from(vec![7; piece])), ()))
        });
        let body = Body::new(Declared { body: Body::from_stream(sends), left: declared });
        Pieces::new(body, declared as usize).unwrap()
    }

    /// A streamed body with a declared length.
    struct Declared {
        body: Body,
        left: u64,
    }

    impl HttpBody for Declared {
        type Data = Bytes;
        type Error = axum::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
            if self.left == 0 {
                return Poll::Ready(None);
            }
            let polled = Pin::new(&mut self.body).poll_frame(cx);
            polled.map(|frame| {
                let data = frame?.ok()?.into_data().ok()?;
                let data = data.slice(..data.len().min(self.left as usize));
                self.left -= data.len() as u64;
                Some(Ok(Frame::data(data)))
            })
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.left)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn x6_uploads_beyond_the_memory_wait_a_little_and_are_then_told_to_come_back() {
        let memory = Resource::memory(100 << 20, 40 << 20);
        let first = reserve(&memory, &payer(1), 80 << 20).await.unwrap();
        let refused = reserve(&memory, &payer(2), 80 << 20).await.unwrap_err();
        assert_eq!((refused.code, refused.retry_after_s), (Code::ServiceUnavailable, Some(2)));
        // a small body reserves nothing; a body larger than the whole memory is always refused
        assert!(reserve(&memory, &payer(2), FREE_BYTES).await.unwrap().is_none());
        assert_eq!(reserve(&memory, &payer(2), 1 << 40).await.unwrap_err().code, Code::PayloadTooLarge);
        let waiting = tokio::spawn({
            let memory = memory.clone();
            async move { reserve(&memory, &payer(2), 90 << 20).await }
        });
        tokio::task::yield_now().await;
        drop(first);
        assert!(waiting.await.unwrap().unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn two_near_idle_uploads_take_no_memory_and_stop_no_other() {
        let memory = Resource::memory(100 << 20, 40 << 20);
        // each client announces nearly all of the memory, and sends a byte every five seconds
        let idle: Vec<_> = (1..=2)
            .map(|number| {
                let pieces = slow(90 << 20, 1, Duration::from_secs(5));
                let mut pieces = pieces.paid(&memory, payer(number), |bytes| bytes).unwrap();
                tokio::spawn(async move { (pieces.all().await.unwrap_err(), Instant::now()) })
            })
            .collect();
        tokio::time::sleep(Duration::from_secs(9)).await;
        assert_eq!(memory.used(), 0);
        let mut honest =
            slow(80 << 20, 256 << 10, Duration::from_millis(1)).paid(&memory, payer(3), |bytes| bytes).unwrap();
        assert_eq!(honest.all().await.unwrap().len(), 80 << 20);
        assert_eq!(honest.take_reserved().unwrap().amount(), 80 << 20);
        for idle in idle {
            let (refused, _) = idle.await.unwrap();
            assert!(refused.message.contains("too slowly"), "{refused:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_taken_in_steps_as_bytes_arrive_and_never_more_than_was_declared() {
        let memory = Resource::memory(100 << 20, 40 << 20);
        let pieces = slow(5 << 20, 100 << 10, Duration::from_millis(1));
        let mut pieces = pieces.paid(&memory, payer(1), |bytes| 2 * bytes).unwrap();
        let mut seen = 0;
        while let Some(piece) = pieces.next().await.unwrap() {
            seen += piece.len() as u64;
            let taken = memory.used();
            assert!(taken >= 2 * seen && taken <= (2 * seen + STEP_BYTES).min(10 << 20), "{taken} for {seen}");
        }
        drop(pieces);
        assert_eq!(memory.used(), 0);
        // a body that needs more memory than can ever be reserved is refused before it is read
        let refused = slow(60 << 20, 1, Duration::ZERO).paid(&memory, payer(1), |bytes| 2 * bytes).err().unwrap();
        assert_eq!(refused.code, Code::PayloadTooLarge);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_keeps_a_pace_of_16_kb_a_second_after_ten_seconds() {
        let piece = 32 << 10;
        // 32 KB every two seconds are exactly the minimum pace; every three seconds are too slow
        assert_eq!(slow(4 << 20, piece, Duration::from_secs(2)).all().await.unwrap().len(), 4 << 20);
        let started = Instant::now();
        let refused = slow(4 << 20, piece, Duration::from_secs(3)).all().await.unwrap_err();
        assert_eq!(refused.code, Code::InvalidRequest);
        // the deadline is 10 s of grace plus 2 s for each piece that has arrived, which is 26 s after eight pieces; the
        // ninth piece would arrive at 27 s
        assert_eq!(started.elapsed().as_secs(), 26);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_declare_its_length_is_short() {
        let undeclared = |bytes: usize| {
            let pieces = (0..bytes >> 10).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![7; 1 << 10])));
            Pieces::new(Body::from_stream(futures_util::stream::iter(pieces)), 40 << 20).unwrap()
        };
        assert_eq!(undeclared(1 << 20).all().await.unwrap().len(), 1 << 20);
        let refused = undeclared((1 << 20) + (1 << 10)).all().await.unwrap_err();
        assert_eq!(refused.code, Code::InvalidRequest);
        assert!(refused.message.contains("Content-Length"), "{refused:?}");
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
