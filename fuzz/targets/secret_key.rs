//! Any bytes as a secret key: an accepted key is written back the same and works.
#![no_main]

use client::SecretKey;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let sealed = fuzz::sealed(bytes);
    for bytes in [Some(bytes), sealed.as_deref()].into_iter().flatten() {
        let Ok(key) = SecretKey::from_bytes(bytes) else { continue };
        assert_eq!(*key.to_bytes(), bytes, "a container that is read is written back the same");
        assert!(key.decrypt(&key.encrypt(true)));
    }
});
