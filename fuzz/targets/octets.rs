//! Any bytes as a head followed by words: an accepted body splits into a head and words that together are the body.
#![no_main]

use api::octets::{LENGTH_BYTES, LayoutError, begin, split};
use libfuzzer_sys::fuzz_target;

/// As small as the longest input, so that inputs reach both sides of the bound.
const HEAD_BYTES_MAX: usize = 4096;

fuzz_target!(|bytes: &[u8]| {
    let announced = bytes.first_chunk::<LENGTH_BYTES>().map(|length| u32::from_le_bytes(*length) as usize);
    match split(bytes, HEAD_BYTES_MAX) {
        Ok((head, words)) => {
            assert!(head.len() <= HEAD_BYTES_MAX && announced == Some(head.len()));
            let mut again = begin(head, words.len());
            again.extend_from_slice(words);
            assert_eq!(again, bytes);
            // a body that is one byte shorter is refused only if it was all head
            let shorter = split(&bytes[..bytes.len() - 1], HEAD_BYTES_MAX);
            assert_eq!(shorter.is_err(), words.is_empty());
        }
        Err(LayoutError::HeadTooLong) => assert!(announced.is_some_and(|head| head > HEAD_BYTES_MAX)),
        Err(LayoutError::CutShort) => assert!(announced.is_none_or(|head| bytes.len() < LENGTH_BYTES + head)),
    }
});
