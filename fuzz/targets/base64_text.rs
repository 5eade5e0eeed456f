//! Any text as a base64 member, in one piece and in several: both give the same bytes or the same fault, and the
//! accepted texts are those that the library accepts.
#![no_main]

// the service's own file, because its crate is too large to build with coverage for this target
#[path = "../../control/src/web/base64_text.rs"]
#[allow(dead_code)]
mod base64_text;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use base64_text::{Base64Error, Decoder};
use libfuzzer_sys::fuzz_target;

const BYTES_MAX: usize = 3000;

fuzz_target!(|bytes: &[u8]| {
    let Some((&piece, text)) = bytes.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let whole = base64_text::decode(text, BYTES_MAX);

    let mut decoder = Decoder::new(BYTES_MAX, 0);
    let pieces = text.as_bytes().chunks(usize::from(piece) + 1).try_for_each(|piece| decoder.push(piece));
    assert_eq!(pieces.and_then(|()| decoder.finish()), whole);

    let standard = text.replace('-', "+").replace('_', "/");
    let expected = STANDARD.decode(&standard).or_else(|_| STANDARD_NO_PAD.decode(&standard));
    match (whole, expected) {
        (Ok(found), Ok(expected)) => {
            assert_eq!(found, expected);
            assert!(found.len() <= BYTES_MAX);
        }
        (Err(Base64Error::TooLarge), Ok(expected)) => assert!(expected.len() > BYTES_MAX),
        (Err(_), Err(_)) => {}
        (found, expected) => panic!("{found:?}, and by the library {expected:?}"),
    }
});
