//! Any bytes as the end of work. An end that is read is written and read again as the same end.
#![no_main]

use api::OperationId;
use control::work::{read_end, write_end};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let id = OperationId::from_bits(0);
    let Ok(end) = read_end(&id, bytes) else { return };
    assert!(read_end(&id, &write_end(&id, &end)) == Ok(end));
});
