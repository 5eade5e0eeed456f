//! Any bytes as an evaluation key are refused without a panic. Whole keys have millions of bytes;
//! `whole_evaluation_key` tests whole keys.
#![no_main]

use kernels::container::read_evaluation_key;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    assert!(read_evaluation_key(bytes).is_err(), "too few bytes for any key");
    if let Some(sealed) = fuzz::sealed(bytes) {
        assert!(read_evaluation_key(&sealed).is_err(), "too few bytes for any key");
    }
});
