//! Ciphertexts as raw words after a JSON head ([`api::octets`], docs/wire-format.md 10), for clients that would spend
//! more time on base64 and JSON than on the network.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use api::Code;
use api::octets::{self, LayoutError};
use axum::body::Body;
use axum::extract::{FromRef, FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use zeroize::Zeroizing;

use super::Web;
use crate::caller;
use crate::web::body::{Json, JsonBody, OFF_THREAD_BYTES_MIN, Pieces, Reserved, media_type};
use crate::web::error::ApiError;
use crate::web::json;

/// The media type of the octet-stream form.
pub const OCTET_STREAM: &str = "application/octet-stream";
/// Memory reserved for each byte of the body: for the words, and for a copy that joins them with values of handles.
const COPIES: u64 = 2;

/// Makes the schema of a binary body.
pub fn binary(description: &str) -> RefOr<Schema> {
    let binary = ObjectBuilder::new().schema_type(Type::String).description(Some(description));
    binary.format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary))).into()
}

/// The schema of the octet-stream form.
pub struct HeadAndWords;

impl PartialSchema for HeadAndWords {
    fn schema() -> RefOr<Schema> {
        binary(
            "The length of the head (4 bytes, little-endian), the head (JSON), then ciphertexts one after another: \
                 4 (n + 1) bytes each, mask then body, as little-endian words.",
        )
    }
}

impl ToSchema for HeadAndWords {}

/// The schema of the octet-stream form of a result.
pub struct HeadAndContainer;

impl PartialSchema for HeadAndContainer {
    fn schema() -> RefOr<Schema> {
        binary("The length of the head (4 bytes, little-endian), the head (JSON), then the ciphertext.")
    }
}

impl ToSchema for HeadAndContainer {}

/// A type of head in an octet-stream body.
pub trait OctetsHead: DeserializeOwned + Send + 'static {
    /// Longest head, in bytes.
    const HEAD_BYTES_MAX: usize;
    /// Longest body, head included, in bytes.
    const BYTES_MAX: usize;
}

/// The bytes after a head, as 32-bit words. Overwritten on drop, because they may be a secret.
#[derive(Default)]
pub struct Words {
    words: Zeroizing<Vec<u32>>,
    /// The bytes of an incomplete last word.
    part: Zeroizing<Vec<u8>>,
}

impl Words {
    /// Starts with the words that arrived with the head, and with capacity for all bytes that may follow. The memory
    /// for both is reserved already.
    fn begin(come: &[u8], bytes_max: usize) -> Words {
        let room = (come.len() + bytes_max).div_ceil(4);
        let mut words = Words { words: Zeroizing::new(Vec::with_capacity(room)), part: Zeroizing::default() };
        words.push(come);
        words
    }

    fn push(&mut self, bytes: &[u8]) {
        let missing = (4 - self.part.len()) % 4;
        let (end_of_word, bytes) = bytes.split_at(missing.min(bytes.len()));
        self.part.extend_from_slice(end_of_word);
        if let Ok(whole) = self.part.as_slice().try_into() {
            self.words.push(u32::from_le_bytes(whole));
            self.part.clear();
        }
        let (words, part) = bytes.as_chunks();
        // extend from one slice, because that copies a whole block
        self.words.extend(words.iter().copied().map(u32::from_le_bytes));
        self.part.extend_from_slice(part);
    }

    /// Returns the number of bytes.
    pub fn bytes(&self) -> usize {
        4 * self.words.len() + self.part.len()
    }

    /// Returns the bytes as they arrived.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let words = self.words.iter().flat_map(|word| word.to_le_bytes());
        Zeroizing::new(words.chain(self.part.iter().copied()).collect())
    }

    /// Returns the words. They are not overwritten later, because they are ciphertexts.
    pub fn into_words(mut self) -> Vec<u32> {
        std::mem::take(&mut *self.words)
    }
}

/// A body in one of two forms.
pub enum JsonOrOctets<J, H> {
    /// JSON with ciphertexts in base64.
    Json(Json<J>),
    /// A JSON head followed by raw words.
    Octets {
        /// The head.
        head: H,
        /// The ciphertexts.
        words: Words,
        /// The memory reserved for the request. Keep this memory as long as the request's data lives.
        reserved: Reserved,
    },
}

impl<S: Send + Sync, J: JsonBody, H: OctetsHead> FromRequest<S> for JsonOrOctets<J, H>
where
    Arc<Web>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        match media_type(request.headers()).as_deref() {
            Some("application/json") => Ok(JsonOrOctets::Json(Json::from_request(request, state).await?)),
            Some(OCTET_STREAM) => from_octets(request, &Arc::<Web>::from_ref(state)).await,
            _ => Err(ApiError::new(
                Code::InvalidRequest,
                "the content type must be application/json or application/octet-stream",
            )),
        }
    }
}

async fn from_octets<J, H: OctetsHead>(request: Request, web: &Web) -> Result<JsonOrOctets<J, H>, ApiError> {
    let payer = caller::payer(request.extensions());
    let mut pieces = Pieces::kept(web, request, H::BYTES_MAX, |bytes| COPIES * bytes)?;
    let mut begun = Zeroizing::new(Vec::new());
    let start = loop {
        match octets::split(&begun, H::HEAD_BYTES_MAX) {
            Ok((head, _)) => break octets::LENGTH_BYTES + head.len(),
            Err(LayoutError::HeadTooLong) => {
                let message =
                    format!("the head is larger than the {} bytes that this endpoint takes", H::HEAD_BYTES_MAX);
                return Err(ApiError::new(Code::PayloadTooLarge, message));
            }
            Err(LayoutError::CutShort) => {}
        }
        let piece = pieces.next().await?;
        let piece =
            piece.ok_or_else(|| ApiError::new(Code::InvalidRequest, "the body ends before its head is complete"))?;
        begun.extend_from_slice(&piece);
    };
    let mut words = Words::begin(&begun[start..], pieces.bytes_max());
    while let Some(piece) = pieces.next().await? {
        words.push(&piece);
    }
    let parse = move || json::parse(&begun[octets::LENGTH_BYTES..start]);
    let head = if start < OFF_THREAD_BYTES_MIN { parse()? } else { web.offload.run(payer, parse).await?? };
    Ok(JsonOrOctets::Octets { head, words, reserved: pieces.take_reserved() })
}

/// Whether `Accept` names the octet-stream form.
pub fn wanted(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|range| {
        let name = range.split(';').next().unwrap_or_default().trim();
        name.eq_ignore_ascii_case(OCTET_STREAM)
    })
}

/// An answer's bytes, ready to send.
pub struct Written {
    content_type: &'static str,
    pieces: VecDeque<Bytes>,
}

/// Writes an answer as JSON. A large answer takes much CPU time, so call this outside the async threads.
pub fn write_json(answer: &impl Serialize) -> Result<Written, ApiError> {
    let bytes = serde_json::to_vec(answer).map_err(ApiError::internal)?;
    Ok(Written { content_type: "application/json", pieces: [bytes.into()].into() })
}

/// Writes an answer of a head and ciphertexts. The words are sent without a copy.
pub fn write_octets(head: &impl Serialize, ciphertexts: Vec<Vec<u32>>) -> Result<Written, ApiError> {
    let head = serde_json::to_vec(head).map_err(ApiError::internal)?;
    let begin = Bytes::from(octets::begin(&head, 0));
    let words = ciphertexts.into_iter().map(|words| Bytes::from_owner(LittleEndian::of(words)));
    Ok(Written { content_type: OCTET_STREAM, pieces: std::iter::once(begin).chain(words).collect() })
}

/// Writes an answer of a head followed by bytes.
pub fn write_head_and_bytes(head: &impl Serialize, bytes: Vec<u8>) -> Result<Written, ApiError> {
    let head = serde_json::to_vec(head).map_err(ApiError::internal)?;
    let begin = Bytes::from(octets::begin(&head, 0));
    Ok(Written { content_type: OCTET_STREAM, pieces: [begin, bytes.into()].into() })
}

/// Words that can be read as their little-endian bytes.
struct LittleEndian(Vec<u32>);

impl LittleEndian {
    fn of(mut words: Vec<u32>) -> LittleEndian {
        words.iter_mut().for_each(|word| *word = word.to_le());
        LittleEndian(words)
    }
}

impl AsRef<[u8]> for LittleEndian {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

impl Written {
    /// Makes the answer.
    pub fn respond(self, status: StatusCode) -> Response {
        self.respond_within(status, ())
    }

    /// Makes the answer. `room`, the memory reserved for the answer's bytes, is dropped when all bytes are sent or the
    /// client has left.
    pub fn respond_within(self, status: StatusCode, room: impl Send + Unpin + 'static) -> Response {
        let body = WholeBody { pieces: self.pieces, _room: room };
        (status, [(header::CONTENT_TYPE, self.content_type)], Body::new(body)).into_response()
    }
}

/// A complete body, with the memory reserved for it.
struct WholeBody<R> {
    pieces: VecDeque<Bytes>,
    _room: R,
}

impl<R: Unpin> HttpBody for WholeBody<R> {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::convert::Infallible>>> {
        // Hand out small pieces. The next piece is taken only when the previous piece was sent, so the memory stays
        // reserved while a slow client reads.
        while let Some(first) = self.pieces.front_mut() {
            let piece = first.split_to(first.len().min(PIECE_BYTES));
            if !piece.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            self.pieces.pop_front();
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.iter().all(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.pieces.iter().map(|piece| piece.len() as u64).sum())
    }
}

/// Number of bytes given to a connection at a time.
const PIECE_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::resource::{Payer, Resource};

    #[test]
    fn the_form_is_wanted_when_accept_names_it() {
        for (accept, expected) in [
            ("application/octet-stream", true),
            ("application/json, Application/Octet-Stream;q=0.5", true),
            ("*/*", false),
            ("application/*", false),
            ("application/json", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]);
            assert_eq!(wanted(&headers), expected, "{accept}");
        }
        assert!(!wanted(&HeaderMap::new()));
    }

    #[test]
    fn words_have_room_for_all_that_follows_from_the_beginning() {
        for (come, more) in [(0, 400), (10, 90), (13, 8)] {
            let mut words = Words::begin(&vec![1; come], more);
            let room = words.words.as_ptr();
            words.push(&vec![2; more]);
            assert_eq!((words.bytes(), words.words.as_ptr()), (come + more, room), "moved");
        }
    }

    #[test]
    fn words_are_whole_however_the_pieces_are_cut() {
        let bytes: Vec<u8> = (0..23).collect();
        // each bit of `cuts` says whether to cut after one of the first ten bytes, so all ways to cut these bytes are
        // tried
        for cuts in 0..1u32 << 10 {
            let (mut words, mut piece) = (Words::default(), Vec::new());
            for (at, &byte) in bytes.iter().enumerate() {
                piece.push(byte);
                if cuts >> at & 1 == 1 {
                    words.push(&std::mem::take(&mut piece));
                }
            }
            words.push(&piece);
            assert_eq!((words.bytes(), &words.to_bytes()[..]), (23, &bytes[..]), "{cuts:b}");
            assert_eq!(words.into_words()[..2], [0x0302_0100, 0x0706_0504], "{cuts:b}");
        }
    }

    #[tokio::test]
    async fn an_answer_holds_its_memory_until_it_is_sent() {
        let memory = Resource::memory(1 << 20, 1 << 20);
        let room = memory.try_take(&Payer::without_key(), 700_000).unwrap();
        let ciphertexts = vec![0x0102_0304; 150_000];
        let written = write_octets(&"head", vec![ciphertexts]).unwrap();
        let response = written.respond_within(StatusCode::OK, room);
        assert_eq!(response.headers()[header::CONTENT_TYPE], OCTET_STREAM);
        assert_eq!(memory.used(), 700_000);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(octets::split(&body, 100).unwrap(), (&b"\"head\""[..], &[4, 3, 2, 1].repeat(150_000)[..]));
        assert_eq!(memory.used(), 0);
    }
}
