//! Ciphertexts as bare words behind a JSON head ([`api::octets`], docs/wire-format.md 10): for clients whom base64 and
//! JSON cost more than the network does.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use api::Code;
use api::octets::{self, Fault};
use axum::body::Body;
use axum::extract::{FromRequest, Request};
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

use crate::app::Node;
use crate::body::{Json, JsonBody, OFF_THREAD_BYTES_MIN, Pieces, Reserved, media_type};
use crate::error::ApiError;
use crate::json;
use crate::workbench::Room;

/// The media type.
pub const OCTET_STREAM: &str = "application/octet-stream";
/// Memory that such a request needs for each byte of its body: the body, and the ciphertexts that are made of it.
const COPIES: u64 = 2;

/// How the octet-stream form describes itself.
pub struct HeadAndWords;

impl PartialSchema for HeadAndWords {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary)))
            .description(Some(
                "The length of the head (4 bytes, little-endian), the head (JSON), then ciphertexts one after another: \
                 4 (n + 1) bytes each, mask then body, as little-endian words.",
            ))
            .into()
    }
}

impl ToSchema for HeadAndWords {}

/// The head of an octet-stream that a route takes.
pub trait OctetsHead: DeserializeOwned + Send + 'static {
    /// Bytes the head may have.
    const HEAD_BYTES_MAX: usize;
    /// Bytes the whole body may have.
    const BYTES_MAX: usize;
}

/// The ciphertexts behind a head, unread. Overwritten when they are dropped: who knows what they were.
pub struct Words {
    body: Zeroizing<Vec<u8>>,
    start: usize,
}

impl Words {
    /// Their bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.body[self.start..]
    }
}

/// A body in one of two forms.
pub enum Upload<J, H> {
    /// JSON with ciphertexts in base64.
    Json(Json<J>),
    /// A JSON head with bare words behind it.
    Octets {
        /// The head.
        head: H,
        /// The ciphertexts.
        words: Words,
        /// Keep it as long as the request's data lives.
        reserved: Reserved,
    },
}

impl<J: JsonBody, H: OctetsHead> FromRequest<Arc<Node>> for Upload<J, H> {
    type Rejection = ApiError;

    async fn from_request(request: Request, node: &Arc<Node>) -> Result<Self, ApiError> {
        match media_type(request.headers()).as_deref() {
            Some("application/json") => Ok(Upload::Json(Json::from_request(request, node).await?)),
            Some(OCTET_STREAM) => from_octets(request, node).await,
            _ => Err(ApiError::new(
                Code::InvalidRequest,
                "the content type must be application/json or application/octet-stream",
            )),
        }
    }
}

async fn from_octets<J, H: OctetsHead>(request: Request, node: &Node) -> Result<Upload<J, H>, ApiError> {
    let pieces = Pieces::new(request.into_body(), H::BYTES_MAX)?;
    let reserved = node.body_budget.reserve(COPIES * pieces.bytes_max() as u64).await?;
    let body = pieces.all().await?;
    let (head, start) = match octets::split(&body, H::HEAD_BYTES_MAX) {
        Ok((head, _)) => (head, octets::LENGTH_BYTES + head.len()),
        Err(Fault::CutShort) => {
            return Err(ApiError::new(Code::InvalidRequest, "the body ends before its head does"));
        }
        Err(Fault::HeadTooLong) => {
            let most = H::HEAD_BYTES_MAX;
            return Err(ApiError::new(Code::PayloadTooLarge, format!("the head may have at most {most} bytes here")));
        }
    };
    if head.len() < OFF_THREAD_BYTES_MIN {
        let head = json::parse(head)?;
        return Ok(Upload::Octets { head, words: Words { body, start }, reserved });
    }
    let parsed = node.offload.run(move || {
        let head = json::parse(&body[octets::LENGTH_BYTES..start])?;
        Ok::<_, ApiError>((head, Words { body, start }))
    });
    let (head, words) = parsed.await??;
    Ok(Upload::Octets { head, words, reserved })
}

/// Whether an answer is wanted in this form: `Accept` names it.
pub fn wanted(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|range| {
        let name = range.split(';').next().unwrap_or_default().trim();
        name.eq_ignore_ascii_case(OCTET_STREAM)
    })
}

/// An answer's bytes, ready to be sent.
pub struct Written {
    content_type: &'static str,
    bytes: Vec<u8>,
}

/// An answer in JSON. CPU work for large ones.
pub fn write_json(answer: &impl Serialize) -> Result<Written, ApiError> {
    let bytes = serde_json::to_vec(answer).map_err(ApiError::internal)?;
    Ok(Written { content_type: "application/json", bytes })
}

/// An answer of a head and words, which `put` appends; `words_bytes` of them.
pub fn write_octets(
    head: &impl Serialize,
    words_bytes: usize,
    put: impl FnOnce(&mut Vec<u8>),
) -> Result<Written, ApiError> {
    let head = serde_json::to_vec(head).map_err(ApiError::internal)?;
    let mut bytes = octets::begin(&head, words_bytes);
    put(&mut bytes);
    Ok(Written { content_type: OCTET_STREAM, bytes })
}

impl Written {
    /// The answer. The room is given back when all of it is sent, or nobody takes it any more.
    pub fn respond(self, status: StatusCode, room: Option<Room>) -> Response {
        let body = Held { bytes: Bytes::from(self.bytes), _room: room };
        (status, [(header::CONTENT_TYPE, self.content_type)], Body::new(body)).into_response()
    }
}

/// A body in one piece, and the memory that is set aside for it.
struct Held {
    bytes: Bytes,
    _room: Option<Room>,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::convert::Infallible>>> {
        // in pieces: the next one is taken when the one before is on its way, so that the room is held for a slow reader
        let length = self.bytes.len().min(PIECE_BYTES);
        let piece = self.bytes.split_to(length);
        Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

/// Bytes handed to a connection at a time.
const PIECE_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::workbench::Memory;

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

    #[tokio::test]
    async fn an_answer_holds_its_memory_until_it_is_sent() {
        let memory = Memory::of_node(1 << 20);
        let room = memory.reserve(700_000).unwrap();
        let written = write_octets(&"head", 600_000, |out| out.resize(out.len() + 600_000, 7)).unwrap();
        let response = written.respond(StatusCode::OK, Some(room));
        assert_eq!(response.headers()[header::CONTENT_TYPE], OCTET_STREAM);
        assert_eq!(memory.used(), 700_000);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(octets::split(&body, 100).unwrap(), (&b"\"head\""[..], &[7; 600_000][..]));
        assert_eq!(memory.used(), 0);
    }
}
