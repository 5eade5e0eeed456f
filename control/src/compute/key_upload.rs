//! The body of `POST /tfhe/eval-session`: a key of up to 40 MB, in memory once (readings X6).
//!
//! As octets it is read into its final buffer. As JSON it is taken apart while it streams: the characters of the member
//! `eval_key_b64` are decoded into the final buffer as they come, everything else is kept, with an empty string in the
//! member's place, and checked like any other JSON body.

use std::sync::Arc;

use api::Code;
use api::gates::{CreateEvalSession, EVALUATION_KEY_BYTES_MAX};
use axum::extract::{FromRef, FromRequest, Request};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use zeroize::Zeroizing;

use crate::web::Web;
use crate::web::base64_text::{self, Decoder, Fault};
use crate::web::body::{Pieces, Reserved, base64_ceiling, media_type};
use crate::web::error::ApiError;
use crate::web::{json, octets};

/// The member whose value is the key.
const MEMBER: &[u8] = b"eval_key_b64";
/// How the octet-stream form describes itself.
pub struct KeyOctets;

impl PartialSchema for KeyOctets {
    fn schema() -> RefOr<Schema> {
        octets::binary("An evaluation key, at most 40 MB.")
    }
}

impl ToSchema for KeyOctets {}

/// Memory for each byte of the key: the octets, and the key that is made of them.
const COPIES: u64 = 2;
/// Bytes of the body around the key.
const REST_BYTES_MAX: usize = 64 << 10;

/// An uploaded evaluation key, unread.
pub struct KeyUpload {
    /// The key's bytes in whatever form.
    pub bytes: Zeroizing<Vec<u8>>,
    /// Keep it until the key is handed over.
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
    // room for all of it at once: growing would hold it twice
    let mut bytes = Zeroizing::new(Vec::with_capacity(expected));
    while let Some(piece) = pieces.next().await? {
        bytes.extend_from_slice(&piece);
    }
    Ok(KeyUpload { bytes, reserved: pieces.take_reserved() })
}

async fn from_json(request: Request, web: &Web) -> Result<KeyUpload, ApiError> {
    let needs = |bytes: u64| COPIES * (bytes / 4 * 3).min(EVALUATION_KEY_BYTES_MAX as u64);
    let mut pieces = Pieces::kept(web, request, base64_ceiling(EVALUATION_KEY_BYTES_MAX), needs)?;
    let expected = (pieces.bytes_max() / 4 * 3).min(EVALUATION_KEY_BYTES_MAX);
    let mut splitter = Splitter::new(expected);
    while let Some(piece) = pieces.next().await? {
        splitter.push(&piece)?;
    }
    Ok(KeyUpload { bytes: splitter.finish()?, reserved: pieces.take_reserved() })
}

/// Takes the key out of the JSON around it.
struct Splitter {
    place: Place,
    depth: usize,
    /// The string that ended last at depth 1, if it can be the member's name.
    name: Vec<u8>,
    /// The member's name and its colon were seen, its value was not.
    value_is_next: bool,
    decoder: Decoder,
    fault: Option<Fault>,
    rest: Zeroizing<Vec<u8>>,
}

/// Where the next byte stands.
#[derive(Clone, Copy)]
enum Place {
    Between,
    Text { escaped: bool },
    Key(KeyPlace),
}

/// Where in the key's string.
#[derive(Clone, Copy)]
enum KeyPlace {
    Plain,
    Escape,
    /// After `\u`: digits so far and their value.
    Hex(u32, u32),
}

impl Splitter {
    fn new(bytes_expected: usize) -> Self {
        Self {
            place: Place::Between,
            depth: 0,
            name: Vec::new(),
            value_is_next: false,
            decoder: Decoder::new(EVALUATION_KEY_BYTES_MAX, bytes_expected),
            fault: None,
            rest: Zeroizing::new(Vec::with_capacity(REST_BYTES_MAX)),
        }
    }

    fn push(&mut self, mut bytes: &[u8]) -> Result<(), ApiError> {
        while let Some((&byte, after)) = bytes.split_first() {
            // the key's long plain runs go to the decoder as they are
            if let Place::Key(KeyPlace::Plain) = self.place {
                let run = bytes.iter().position(|byte| matches!(byte, b'"' | b'\\')).unwrap_or(bytes.len());
                if run > 0 {
                    self.decode(&bytes[..run]);
                    bytes = &bytes[run..];
                    continue;
                }
            }
            self.step(byte)?;
            bytes = after;
        }
        Ok(())
    }

    fn step(&mut self, byte: u8) -> Result<(), ApiError> {
        match self.place {
            Place::Key(at) => return self.step_in_key(at, byte),
            Place::Between => self.step_between(byte),
            Place::Text { escaped: true } => self.place = Place::Text { escaped: false },
            Place::Text { escaped: false } => match byte {
                b'\\' => self.place = Place::Text { escaped: true },
                b'"' => self.place = Place::Between,
                _ if self.depth == 1 && self.name.len() <= MEMBER.len() => self.name.push(byte),
                _ => {}
            },
        }
        self.keep(byte)
    }

    fn step_between(&mut self, byte: u8) {
        match byte {
            b'"' if self.value_is_next => {
                self.value_is_next = false;
                self.place = Place::Key(KeyPlace::Plain);
            }
            b'"' => {
                self.name.clear();
                self.place = Place::Text { escaped: false };
            }
            b':' if self.depth == 1 => self.value_is_next = self.name == MEMBER,
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => {
                self.value_is_next = false;
                match byte {
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                    _ => {}
                }
            }
        }
    }

    fn step_in_key(&mut self, at: KeyPlace, byte: u8) -> Result<(), ApiError> {
        let next = match (at, byte) {
            (KeyPlace::Plain, b'"') => {
                self.place = Place::Between;
                return self.keep(byte);
            }
            (KeyPlace::Plain, b'\\') => KeyPlace::Escape,
            (KeyPlace::Plain, _) => {
                self.decode(&[byte]);
                KeyPlace::Plain
            }
            (KeyPlace::Escape, b'u') => KeyPlace::Hex(0, 0),
            (KeyPlace::Escape, b'/') => {
                self.decode(b"/");
                KeyPlace::Plain
            }
            (KeyPlace::Escape, _) => {
                self.fault.get_or_insert(Fault::NotBase64);
                KeyPlace::Plain
            }
            (KeyPlace::Hex(digits, value), _) => {
                let digit = (byte as char).to_digit(16);
                if digit.is_none() {
                    self.fault.get_or_insert(Fault::NotBase64);
                }
                let value = value << 4 | digit.unwrap_or(0);
                match digits {
                    3 => {
                        // no character of base64 is beyond one byte; 0 is none
                        self.decode(&[u8::try_from(value).unwrap_or(0)]);
                        KeyPlace::Plain
                    }
                    _ => KeyPlace::Hex(digits + 1, value),
                }
            }
        };
        self.place = Place::Key(next);
        Ok(())
    }

    /// Decodes on; after a fault the characters are only passed over, so that faults of the JSON are told first.
    fn decode(&mut self, characters: &[u8]) {
        if self.fault.is_none() {
            self.fault = self.decoder.push(characters).err();
        }
    }

    fn keep(&mut self, byte: u8) -> Result<(), ApiError> {
        if self.rest.len() == REST_BYTES_MAX {
            return Err(ApiError::new(Code::PayloadTooLarge, "the body holds too much besides the key"));
        }
        self.rest.push(byte);
        Ok(())
    }

    fn finish(self) -> Result<Zeroizing<Vec<u8>>, ApiError> {
        let request: CreateEvalSession = json::parse(&self.rest)?;
        let decoded = match self.fault {
            Some(fault) => Err(fault),
            // a name spelled with escapes is not seen on the way; its value is small enough to have been kept
            None if !request.eval_key_b64.is_empty() => {
                base64_text::decode(&request.eval_key_b64, EVALUATION_KEY_BYTES_MAX)
            }
            None => self.decoder.finish(),
        };
        decoded.map(Zeroizing::new).map_err(|fault| match fault {
            Fault::NotBase64 => {
                ApiError::new(Code::InvalidParams, "eval_key_b64 is not base64").at("eval_key_b64", "not base64")
            }
            Fault::TooLarge => ApiError::new(Code::PayloadTooLarge, "an evaluation key may have at most 40 MB")
                .at("eval_key_b64", "more than 40 MB"),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Splits a body that comes in pieces of this size.
    fn split(body: &str, piece: usize) -> Result<Vec<u8>, Code> {
        let mut splitter = Splitter::new(0);
        for piece in body.as_bytes().chunks(piece) {
            splitter.push(piece).map_err(|error| error.code)?;
        }
        splitter.finish().map(|bytes| bytes.to_vec()).map_err(|error| error.code)
    }

    #[track_caller]
    fn all_pieces(body: &str, expected: Result<&[u8], Code>) {
        for piece in [1, 2, 3, 7, 64, 1 << 20] {
            assert_eq!(split(body, piece).as_deref().map_err(|code| *code), expected, "in pieces of {piece}: {body}");
        }
    }

    #[test]
    fn the_key_is_found_wherever_it_stands() {
        for body in [
            r#"{"eval_key_b64":"AQID"}"#,
            "\n{ \"x\" : [\"eval_key_b64\", {\"eval_key_b64\": \"////\"}], \"eval_key_b64\"\t:\r\n\"AQID\" , \"y\": null }",
            r#"{"a":"\"eval_key_b64\":\"////\"","eval_key_b64":"AQID"}"#,
            r#"{"eval_key_b64":"\u0041QI\u0044"}"#,
            r#"{"eval\u005fkey_b64":"AQID"}"#,
        ] {
            all_pieces(body, Ok(&[1, 2, 3]));
        }
        all_pieces(r#"{"eval_key_b64":"\/\/\/\/"}"#, Ok(&[255, 255, 255]));
        all_pieces(r#"{"eval_key_b64":""}"#, Ok(&[]));
    }

    #[test]
    fn what_is_wrong_around_the_key_is_told_like_in_any_body() {
        all_pieces(r#"{"eval_key_b64":"AQID","eval_key_b64":"AQID"}"#, Err(Code::InvalidRequest));
        all_pieces(r#"{"eval_key_b64":"AQID""#, Err(Code::InvalidRequest));
        all_pieces(r#"{"eval_key_b64":"AQID"#, Err(Code::InvalidRequest));
        all_pieces(r#"{"eval_key_b64":"AQID"}}"#, Err(Code::InvalidRequest));
        all_pieces(r#"{"eval_key_b64" "AQID"}"#, Err(Code::InvalidRequest));
        all_pieces("", Err(Code::InvalidRequest));
        all_pieces(r#"{}"#, Err(Code::ValidationError));
        all_pieces(r#"["eval_key_b64"]"#, Err(Code::ValidationError));
        all_pieces(r#"{"eval_key_b64":5}"#, Err(Code::ValidationError));
        all_pieces(r#"{"eval_key_b64":null}"#, Err(Code::ValidationError));
        all_pieces(r#"{"eval_key_b64":["AQID"]}"#, Err(Code::ValidationError));
        all_pieces(r#"{"eval_key_b64":"AQID","sk":"x"}"#, Err(Code::SecretKeyRejected));
    }

    #[test]
    fn what_is_not_base64_is_refused_after_faults_of_the_json() {
        all_pieces(r#"{"eval_key_b64":"A"}"#, Err(Code::InvalidParams));
        all_pieces(r#"{"eval_key_b64":"AQ ID"}"#, Err(Code::InvalidParams));
        all_pieces(r#"{"eval_key_b64":"\n"}"#, Err(Code::InvalidParams));
        all_pieces(r#"{"eval_key_b64":"\u00zz"}"#, Err(Code::InvalidParams));
        all_pieces(r#"{"eval_key_b64":"\u1041"}"#, Err(Code::InvalidParams));
        all_pieces(r#"{"eval_key_b64":"!","secret_key":"x"}"#, Err(Code::SecretKeyRejected));
    }

    /// JSON texts and things close to them.
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
        fn any_text_in_any_pieces_gives_what_a_whole_body_gives(body in almost_json(), piece in 1usize..9) {
            let whole = json::parse::<CreateEvalSession>(body.as_bytes()).map_err(|error| error.code).and_then(|request| {
                base64_text::decode(&request.eval_key_b64, EVALUATION_KEY_BYTES_MAX).map_err(|_| Code::InvalidParams)
            });
            prop_assert_eq!(split(&body, piece), whole);
        }

        #[test]
        fn any_key_in_any_pieces_comes_out_whole(
            key in prop::collection::vec(any::<u8>(), 0..6000),
            before in "[ \n]{0,3}",
            piece in 1usize..5000,
        ) {
            let text = base64_text::encode(&key);
            let body = format!("{before}{{\"a\":[1,\"}}\"],\"eval_key_b64\":{before}\"{text}\",\"z\":{{}}}}{before}");
            prop_assert_eq!(split(&body, piece), Ok(key));
        }
    }

    #[test]
    fn a_key_beyond_40_mb_and_a_long_rest_are_too_large() {
        let body = format!(r#"{{"eval_key_b64":"{}"}}"#, "A".repeat(EVALUATION_KEY_BYTES_MAX / 3 * 4 + 4));
        assert_eq!(split(&body, 1 << 16), Err(Code::PayloadTooLarge));
        let body = format!(r#"{{"x":"{}","eval_key_b64":"AQID"}}"#, "A".repeat(REST_BYTES_MAX));
        assert_eq!(split(&body, 1 << 16), Err(Code::PayloadTooLarge));
    }
}
