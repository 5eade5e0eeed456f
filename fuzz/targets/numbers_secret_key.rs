//! Any bytes as a secret key of arithmetic: an accepted key is written back the same and works.
#![no_main]

use client::ckks::SecretKey;
use libfuzzer_sys::fuzz_target;

/// Bytes of degree and scale in the parameters.
const SMALL: [u8; 2] = [6, 25];

fuzz_target!(|bytes: &[u8]| {
    let sealed = fuzz::sealed(bytes);
    for bytes in [Some(bytes), sealed.as_deref()].into_iter().flatten() {
        // the chains of other parameters take long to search
        if bytes.get(32..34).is_some_and(|found| found != SMALL) {
            continue;
        }
        let Ok(key) = SecretKey::from_bytes(bytes) else { continue };
        assert_eq!(*key.to_bytes(), bytes, "a container that is read is written back the same");
        let decrypted = key.decrypt(&key.encrypt(&[1.0; 32], 1.0).expect("room").expand(key.params()));
        assert!(decrypted.values.iter().all(|value| (value - 1.0).abs() < decrypted.error_bound));
    }
});
