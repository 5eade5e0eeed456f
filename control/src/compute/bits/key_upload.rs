//! Reads the body of `POST /tfhe/eval-session`: a key of up to 40 MB, which is in memory only once (readings X6).
//!
//! Octets are read into the final buffer. A JSON body is stored and checked like any other, except for one text of more
//! than 64 KB. That text is decoded into the final buffer as it arrives, and a marker takes its place in the body.

use std::sync::Arc;

use api::Code;
use api::gates::{CreateEvalSession, EVALUATION_KEY_BYTES_MAX};
use axum::extract::{FromRef, FromRequest, Request};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use zeroize::Zeroizing;

use crate::ids;
use crate::web::Web;
use crate::web::base64_text::{self, Base64Error, Decoder};
use crate::web::body::{Pieces, Reserved, base64_ceiling, media_type};
use crate::web::error::ApiError;
use crate::web::{json, octets};

/// The schema of the key in the octet-stream form.
pub struct KeyOctets;

impl PartialSchema for KeyOctets {
    fn schema() -> RefOr<Schema> {
        octets::binary("An evaluation key, at most 40 MB.")
    }
}

impl ToSchema for KeyOctets {}

/// Memory reserved for each byte of the key: for the octets, which are sealed in place, and for the key made of them.
const COPIES: u64 = 2;
/// Largest number of stored bytes of a JSON body: half for one text, half for everything around the key.
const KEPT_BYTES_MAX: usize = 128 << 10;

/// An uploaded evaluation key that is not read yet.
pub struct KeyUpload {
    /// The key's bytes, from either form.
    pub bytes: Zeroizing<Vec<u8>>,
    /// The memory reserved for the upload. The caller holds this until the key is on disk.
    pub reserved: Reserved,
}

impl<S: Send + Sync> FromRequest<S> for KeyUpload
where
    Arc<Web>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let web = Arc::<Web>::from_ref(state);
        match media_type(request.headers()).as_deref() {
            Some("application/json") => from_json(request, &web).await,
            Some(octets::OCTET_STREAM) => from_octets(request, &web).await,
            _ => Err(ApiError::new(
                Code::InvalidRequest,
                "the content type must be application/json or application/octet-stream",
            )),
        }
    }
}

async fn from_octets(request: Request, web: &Web) -> Result<KeyUpload, ApiError> {
    let mut pieces = Pieces::kept(web, request, EVALUATION_KEY_BYTES_MAX, |bytes| COPIES * bytes)?;
    let expected = pieces.bytes_max();
    // reserve the full length and the seal's bytes at once, because a buffer that grows would hold the key twice
    let mut bytes = Zeroizing::new(Vec::with_capacity(expected + seal::EXTRA_BYTES));
    while let Some(piece) = pieces.next().await? {
        bytes.extend_from_slice(&piece);
    }
    Ok(KeyUpload { bytes, reserved: pieces.take_reserved() })
}

async fn from_json(request: Request, web: &Web) -> Result<KeyUpload, ApiError> {
    let needs = |bytes: u64| COPIES * (bytes / 4 * 3).min(EVALUATION_KEY_BYTES_MAX as u64);
    let mut pieces = Pieces::kept(web, request, base64_ceiling(EVALUATION_KEY_BYTES_MAX), needs)?;
    let expected = (pieces.bytes_max() / 4 * 3).min(EVALUATION_KEY_BYTES_MAX);
    let mut splitter = Splitter::new(KEPT_BYTES_MAX, expected + seal::EXTRA_BYTES);
    while let Some(piece) = pieces.next().await? {
        splitter.push(&piece)?;
    }
    Ok(KeyUpload { bytes: splitter.finish()?, reserved: pieces.take_reserved() })
}

/// Decodes the one long text of a JSON body as it arrives.
struct Splitter {
    /// The body with the marker in place of the long text.
    kept: Zeroizing<Vec<u8>>,
    kept_max: usize,
    /// The text that stands in the stored body for the long text. It is random, so that no other text of the body
    /// equals it.
    marker: Zeroizing<String>,
    next: NextByte,
    /// Whether the next byte follows a backslash.
    escaped: bool,
    long: Option<LongText>,
    /// Largest number of bytes that the long text is expected to decode to.
    bytes_expected: usize,
}

/// The kind of place at which the next byte stands.
#[derive(Clone, Copy, PartialEq)]
enum NextByte {
    Between,
    /// In a text that is stored and begins at this index.
    Text(usize),
    LongText,
}

impl Splitter {
    fn new(kept_max: usize, bytes_expected: usize) -> Self {
        let marker = ids::random_hex::<16>("long-text-");
        let kept = Zeroizing::new(Vec::with_capacity(kept_max + marker.len()));
        Self { kept, kept_max, marker, next: NextByte::Between, escaped: false, long: None, bytes_expected }
    }

    fn push(&mut self, mut bytes: &[u8]) -> Result<(), ApiError> {
        while let Some((&byte, after)) = bytes.split_first() {
            let escaped = std::mem::take(&mut self.escaped);
            if let (NextByte::Text(start), None) = (self.next, &self.long)
                && self.kept.len() - start == self.kept_max / 2
            {
                self.divert(start);
            }
            let ends = byte == b'"' && !escaped;
            self.escaped = byte == b'\\' && !escaped && self.next != NextByte::Between;
            match (self.next, &mut self.long) {
                (NextByte::LongText, Some(long)) if !ends => {
                    bytes = &bytes[long.push(bytes)..];
                    continue;
                }
                (NextByte::Between, _) if ends => self.next = NextByte::Text(self.kept.len() + 1),
                _ if ends => self.next = NextByte::Between,
                _ => {}
            }
            if self.kept.len() >= self.kept_max {
                return Err(ApiError::new(Code::PayloadTooLarge, "the body has too many bytes besides eval_key_b64"));
            }
            self.kept.push(byte);
            bytes = after;
        }
        Ok(())
    }

    /// Begins to decode the text that begins at `start` and has not ended yet.
    fn divert(&mut self, start: usize) {
        let mut long = LongText {
            decoder: Decoder::new(EVALUATION_KEY_BYTES_MAX, self.bytes_expected),
            escape: Vec::new(),
            fault: None,
        };
        let mut begun = &self.kept[start..];
        while !begun.is_empty() {
            begun = &begun[long.push(begun)..];
        }
        self.kept.truncate(start);
        self.kept.extend_from_slice(self.marker.as_bytes());
        (self.next, self.long) = (NextByte::LongText, Some(long));
    }

    fn finish(self) -> Result<Zeroizing<Vec<u8>>, ApiError> {
        let request: CreateEvalSession = json::parse(&self.kept)?;
        let decoded = match self.long {
            Some(long) if request.eval_key_b64 == *self.marker => long.finish(),
            _ => base64_text::decode(&request.eval_key_b64, EVALUATION_KEY_BYTES_MAX),
        };
        decoded.map(Zeroizing::new).map_err(|fault| match fault {
            Base64Error::TooLarge => ApiError::new(Code::PayloadTooLarge, "an evaluation key may have at most 40 MB")
                .at("eval_key_b64", "more than 40 MB"),
            fault => ApiError::new(Code::InvalidParams, format!("eval_key_b64 is not base64: {fault}"))
                .at("eval_key_b64", fault.to_string()),
        })
    }
}

/// The long text that is being decoded.
struct LongText {
    decoder: Decoder,
    /// The characters of an incomplete escape, such as `\u00`.
    escape: Vec<u8>,
    fault: Option<Base64Error>,
}

impl LongText {
    /// Takes at least one of these characters, which come next in the text. Returns the number of characters taken.
    fn push(&mut self, characters: &[u8]) -> usize {
        let plain = match self.escape.is_empty() {
            true => characters.iter().position(|c| matches!(c, b'"' | b'\\')).unwrap_or(characters.len()),
            false => 0,
        };
        if plain > 0 {
            self.decode(&characters[..plain]);
            return plain;
        }
        self.escape.push(characters[0]);
        let length = if self.escape.get(1) == Some(&b'u') { 6 } else { 2 };
        if self.escape.len() == length {
            let escape = std::mem::take(&mut self.escape);
            match serde_json::from_slice::<char>(&[b"\"", &escape[..], b"\""].concat()) {
                Ok(character) => self.decode(character.encode_utf8(&mut [0; 4]).as_bytes()),
                Err(_) => self.fault = self.fault.or(Some(Base64Error::Character(self.decoder.next_place()))),
            }
        }
        1
    }

    /// Decodes more characters. After a fault the rest of the text is skipped, because faults of the JSON are reported
    /// first.
    fn decode(&mut self, characters: &[u8]) {
        if self.fault.is_none() {
            self.fault = self.decoder.push(characters).err();
        }
    }

    fn finish(self) -> Result<Vec<u8>, Base64Error> {
        match self.fault {
            Some(fault) => Err(fault),
            None if !self.escape.is_empty() => Err(Base64Error::Character(self.decoder.next_place())),
            None => self.decoder.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads a body that arrives in pieces of `piece` bytes. The splitter stores at most `kept_max` bytes of the body.
    fn split(body: &str, kept_max: usize, piece: usize) -> Result<Vec<u8>, Code> {
        let mut splitter = Splitter::new(kept_max, 0);
        for piece in body.as_bytes().chunks(piece) {
            splitter.push(piece).map_err(|error| error.code)?;
        }
        splitter.finish().map(|bytes| bytes.to_vec()).map_err(|error| error.code)
    }

    /// Splits this body twice: once with a short text in place of KEY, and once with a long text.
    #[track_caller]
    fn all_pieces(body: &str, key: &str, expected: Result<&[u8], Code>) {
        for repeats in [1, 101] {
            let body = body.replace("KEY", &key.repeat(repeats));
            let expected = expected.map(|bytes| bytes.repeat(repeats));
            for piece in [1, 2, 3, 7, 64, 1 << 20] {
                assert_eq!(split(&body, 160, piece), expected, "in pieces of {piece}: {body}");
            }
        }
    }

    #[test]
    fn the_key_is_found_wherever_it_stands() {
        for body in [
            r#"{"eval_key_b64":"KEY"}"#,
            "\n{ \"x\" : [\"eval_key_b64\", {\"eval_key_b64\": \"////\"}], \"eval_key_b64\"\t:\r\n\"KEY\" , \"y\": null }",
            r#"{"a":"\"eval_key_b64\":\"////\"","eval_key_b64":"KEY"}"#,
            r#"{"eval\u005fkey_b64":"KEY"}"#,
        ] {
            all_pieces(body, "AQID", Ok(&[1, 2, 3]));
            all_pieces(body, r"\u0041QI\u0044", Ok(&[1, 2, 3]));
            all_pieces(body, r"\/\/\/\/", Ok(&[255, 255, 255]));
        }
        all_pieces(r#"{"eval_key_b64":""}"#, "", Ok(&[]));
        // `KEY` stands for a long text; here the text is in the member `x`, not in `eval_key_b64`
        all_pieces(r#"{"x":"KEY","eval_key_b64":""}"#, "?", Ok(&[]));
    }

    #[test]
    fn what_is_wrong_around_the_key_is_told_like_in_any_body() {
        for (body, code) in [
            (r#"{"eval_key_b64":"KEY","eval_key_b64":"AQID"}"#, Code::InvalidRequest),
            (r#"{"eval_key_b64":"KEY""#, Code::InvalidRequest),
            (r#"{"eval_key_b64":"KEY"#, Code::InvalidRequest),
            (r#"{"eval_key_b64":"KEY"}}"#, Code::InvalidRequest),
            (r#"{"eval_key_b64" "KEY"}"#, Code::InvalidRequest),
            ("", Code::InvalidRequest),
            (r#"{}"#, Code::ValidationError),
            (r#"{"x":"KEY"}"#, Code::ValidationError),
            (r#"["eval_key_b64","KEY"]"#, Code::ValidationError),
            (r#"{"eval_key_b64":5,"x":"KEY"}"#, Code::ValidationError),
            (r#"{"eval_key_b64":null}"#, Code::ValidationError),
            (r#"{"eval_key_b64":["KEY"]}"#, Code::ValidationError),
            (r#"{"eval_key_b64":"KEY","sk":"x"}"#, Code::SecretKeyRejected),
            (r#"{"eval_key_b64":"AQID","sk":"KEY"}"#, Code::SecretKeyRejected),
        ] {
            all_pieces(body, "AQID", Err(code));
        }
    }

    #[test]
    fn what_is_not_base64_is_refused_after_faults_of_the_json() {
        let body = r#"{"eval_key_b64":"KEY"}"#;
        for key in ["AAAAA", "AQ ID", r"\n", r"\u1041"] {
            all_pieces(body, key, Err(Code::InvalidParams));
        }
        for broken in [r"\u00zz", r"\u00", r"\x"] {
            let long = body.replace("KEY", &format!("{}{broken}", "AQID".repeat(100)));
            assert_eq!(split(&long, 160, 7), Err(Code::InvalidParams));
        }
        all_pieces(r#"{"eval_key_b64":"KEY","secret_key":"x"}"#, "!", Err(Code::SecretKeyRejected));
    }

    /// Generates texts that are JSON or nearly JSON.
    fn almost_json() -> impl Strategy<Value = String> {
        let token = prop_oneof![
            Just("{"),
            Just("}"),
            Just("["),
            Just("]"),
            Just(":"),
            Just(","),
            Just(" "),
            Just("\""),
            Just("\\"),
            Just("\"eval_key_b64\""),
            Just("\"AQID\""),
            Just("\"x\""),
            Just("null"),
            Just("12"),
            Just("u0041"),
            Just("="),
        ];
        prop::collection::vec(token, 0..24).prop_map(|tokens| tokens.concat())
    }

    proptest! {
        #[test]
        fn any_text_in_any_pieces_gives_what_a_whole_body_gives(
            body in almost_json(),
            kept_max in 1usize..200,
            piece in 1usize..9,
        ) {
            let whole = json::parse::<CreateEvalSession>(body.as_bytes()).map_err(|error| error.code).and_then(|request| {
                base64_text::decode(&request.eval_key_b64, EVALUATION_KEY_BYTES_MAX).map_err(|_| Code::InvalidParams)
            });
            match split(&body, kept_max, piece) {
                Err(Code::PayloadTooLarge) => prop_assert!(body.len() > kept_max / 2),
                // the piecewise decoder refuses this body because its long text is not base64; the decoder of the whole
                // body refuses it too, but may report another fault that it meets earlier
                Err(Code::InvalidParams) if body.len() > kept_max / 2 => prop_assert!(whole.is_err()),
                split => prop_assert_eq!(split, whole),
            }
        }

        #[test]
        fn any_key_in_any_pieces_comes_out_whole(
            key in prop::collection::vec(any::<u8>(), 0..6000),
            before in "[ \n]{0,3}",
            kept_max in 110usize..2000,
            piece in 1usize..5000,
        ) {
            let text = base64_text::encode(&key);
            let body = format!("{before}{{\"a\":[1,\"}}\"],\"eval_key_b64\":{before}\"{text}\",\"z\":{{}}}}{before}");
            prop_assert_eq!(split(&body, kept_max, piece), Ok(key));
        }
    }

    #[test]
    fn a_key_beyond_40_mb_and_a_long_rest_are_too_large() {
        let body = format!(r#"{{"eval_key_b64":"{}"}}"#, "A".repeat(EVALUATION_KEY_BYTES_MAX / 3 * 4 + 4));
        assert_eq!(split(&body, KEPT_BYTES_MAX, 1 << 16), Err(Code::PayloadTooLarge));
        let half = "A".repeat(KEPT_BYTES_MAX / 2);
        for other in [half.repeat(2), half] {
            let body = format!(r#"{{"x":"{other}","y":"{other}","eval_key_b64":"{other}"}}"#);
            assert_eq!(split(&body, KEPT_BYTES_MAX, 1 << 16), Err(Code::PayloadTooLarge));
        }
    }
}
