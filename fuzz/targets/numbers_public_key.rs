//! Any bytes as a public key of arithmetic: an accepted key is written back the same and encrypts.
#![no_main]

use client::ckks::Encryptor;
use kernels::ckks::container::{read_literal, read_public_key, write_public_key};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let sealed = fuzz::sealed(bytes);
    for bytes in [Some(bytes), sealed.as_deref()].into_iter().flatten() {
        // the chains of other parameters take long to search
        if read_literal(bytes).is_ok_and(|literal| literal.poly_degree != 64 || literal.scale_bits != 25) {
            continue;
        }
        let Ok(key) = read_public_key(bytes) else { continue };
        assert_eq!(write_public_key(&key), bytes, "a container that is read is written back the same");
        assert!(Encryptor::new(key).encrypt(&[1.0; 32], 1.0).is_ok());
    }
});
