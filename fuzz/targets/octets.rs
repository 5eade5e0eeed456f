//! Any bytes as a body: a head, and words behind the head. The parts of an accepted body together are the body, and no
//! body of this form is refused unless its head is too long.
#![no_main]

use api::octets::{LENGTH_BYTES, LayoutError, begin, split};
use libfuzzer_sys::fuzz_target;

/// As small as the longest input, so that inputs lie on both sides of the bound.
const HEAD_BYTES_MAX: usize = 4096;

fuzz_target!(|bytes: &[u8]| {
    let announced = bytes.first_chunk::<LENGTH_BYTES>().map(|length| u32::from_le_bytes(*length) as usize);
    match split(bytes, HEAD_BYTES_MAX) {
        Ok((head, words)) => {
            assert!(head.len() <= HEAD_BYTES_MAX && announced == Some(head.len()));
            let mut again = begin(head, words.len());
            again.extend_from_slice(words);
            assert_eq!(again, bytes);
            // a body one byte shorter is too short only if the body was only a head
            let shorter = split(&bytes[..bytes.len() - 1], HEAD_BYTES_MAX);
            assert_eq!(shorter.is_err(), words.is_empty());
        }
        Err(LayoutError::HeadTooLong) => assert!(announced.is_some_and(|head| head > HEAD_BYTES_MAX)),
        Err(LayoutError::CutShort) => assert!(announced.is_none_or(|head| bytes.len() < LENGTH_BYTES + head)),
    }
});
