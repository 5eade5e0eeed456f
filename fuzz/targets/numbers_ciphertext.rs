//! Any bytes as a ciphertext of numbers, whole or seeded: an accepted ciphertext has residues below their primes and is
//! written back unchanged.
#![no_main]

use std::sync::OnceLock;

use kernels::ckks::container::{read_ciphertext, read_literal, write_ciphertext};
use kernels::ckks::{Params, ParamsLiteral, SecurityLevel};
use libfuzzer_sys::fuzz_target;

/// Position of the byte that says which form a ciphertext has.
const FORM: usize = 41;

fuzz_target!(|bytes: &[u8]| {
    let sealed = fuzz::sealed(bytes);
    for bytes in [Some(bytes), sealed.as_deref()].into_iter().flatten() {
        let _ = read_literal(bytes);
        let fingerprint = bytes.get(8..16).and_then(|name| <[u8; 8]>::try_from(name).ok()).unwrap_or([1; 8]);
        let Ok(ciphertext) = read_ciphertext(bytes, params(), fingerprint) else { continue };
        let (n, primes) = (params().n(), &params().level(ciphertext.level).primes);
        assert_eq!(ciphertext.words.len(), 2 * primes.len() * n);
        for (row, words) in ciphertext.words.chunks_exact(n).enumerate() {
            let q = params().primes()[primes[row % primes.len()]].q();
            assert!(words.iter().all(|&word| word < q));
        }
        let noise = ciphertext.noise;
        assert!(ciphertext.scale >= 1.0 && noise.variance >= 0.0 && noise.value_bound >= 0.0);
        assert!((0.0..=100.0).contains(&noise.budget(params(), ciphertext.level, ciphertext.scale).percent));
        let written = write_ciphertext(&ciphertext, params(), fingerprint);
        assert!(bytes[FORM] == 1 || written == bytes, "an accepted container is written back unchanged");
        assert!(read_ciphertext(&written, params(), fingerprint) == Ok(ciphertext));
    }
});

fn params() -> &'static Params {
    static PARAMS: OnceLock<Params> = OnceLock::new();
    let security = SecurityLevel::Testing;
    let literal = ParamsLiteral { poly_degree: 64, scale_bits: 25, max_depth: 1, security, bootstrap: false };
    PARAMS.get_or_init(|| Params::new(literal).expect("parameters"))
}
