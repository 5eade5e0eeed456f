//! Any bytes as a secret key for numbers: an accepted key is written back unchanged and works.
#![no_main]

use client::ckks::SecretKey;
use libfuzzer_sys::fuzz_target;

/// The bytes of degree and scale in the parameters of a small key.
const SMALL: [u8; 2] = [6, 25];

fuzz_target!(|bytes: &[u8]| {
    let sealed = fuzz::sealed(bytes);
    for bytes in [Some(bytes), sealed.as_deref()].into_iter().flatten() {
        // finding the primes of other parameters takes long
        if bytes.get(32..34).is_some_and(|found| found != SMALL) {
            continue;
        }
        let Ok(key) = SecretKey::from_bytes(bytes) else { continue };
        assert_eq!(*key.to_bytes(), bytes, "an accepted container is written back unchanged");
        let decrypted = key.decrypt(&key.encrypt(&[1.0; 32], 1.0).expect("room").expand(key.params())).expect("room");
        assert!(decrypted.values.iter().all(|value| (value - 1.0).abs() < decrypted.error_bound));
    }
});
