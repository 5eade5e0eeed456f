//! Any bytes as a bundle of containers: the pieces together are the bundle.
#![no_main]

use client::bundle;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(pieces) = bundle::split(bytes) {
        assert!(!pieces.is_empty());
        assert_eq!(pieces.concat(), bytes);
    }
});
