//! Keys and ciphertexts of numbers as whole containers, by the independent program `make_numbers_vectors.py`
//! (docs/wire-format.md 14 to 19): read to the same values, written to the same bytes, decrypted to the same numbers.

use client::ckks::{Params, ParamsLiteral, SecretKey, SecurityLevel};
use kernels::ckks::container::{self, KeyHead};
use kernels::ckks::{Ciphertext, Noise, bootstrap, rotation};
use serde::Deserialize;

use crate::{sha256, unbase64};

#[derive(Deserialize)]
struct Set {
    params: SetParams,
    fingerprint: String,
    secret_key: String,
    packing: Vec<Packing>,
    public_key: PublicKey,
    evaluation_key: WholeKey,
    key_rows: Vec<KeyRow>,
    ciphertexts: Vec<CiphertextAnswer>,
}

#[derive(Deserialize)]
struct SetParams {
    poly_degree: usize,
    scale_bits: u32,
    max_depth: u32,
    modulus_chain: Vec<u32>,
}

#[derive(Deserialize)]
struct Packing {
    prime: usize,
    values: String,
    row: String,
}

#[derive(Deserialize)]
struct PublicKey {
    level: usize,
    values: String,
    container: String,
}

#[derive(Deserialize)]
struct WholeKey {
    bytes: usize,
    sha256: String,
}

#[derive(Deserialize)]
struct KeyRow {
    level: u8,
    digit: u8,
    digits: u8,
    values: String,
    row: String,
}

#[derive(Deserialize)]
struct CiphertextAnswer {
    level: usize,
    scale: String,
    form: String,
    values: String,
    container: String,
    /// Real and imaginary part of each slot.
    encrypted: Vec<[String; 2]>,
    decoded: Vec<[String; 2]>,
}

impl Set {
    fn all() -> Vec<Set> {
        serde_json::from_str(include_str!("numbers.json")).expect("the answers' file")
    }

    fn params(&self) -> Params {
        let SetParams { poly_degree, scale_bits, max_depth, ref modulus_chain } = self.params;
        let security = SecurityLevel::Testing;
        let params = Params::new(ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap: false });
        let params = params.expect("parameters");
        assert!(params.primes().iter().map(|prime| prime.q()).eq(modulus_chain.iter().copied()));
        params
    }

    fn fingerprint(&self) -> [u8; 8] {
        hex::decode(&self.fingerprint).expect("hexadecimal").try_into().expect("8 bytes")
    }
}

#[test]
fn rows_are_packed_as_the_independent_program_packs_them() {
    for set in Set::all() {
        let params = set.params();
        assert_eq!(set.packing.len(), params.primes().len(), "a row of each prime");
        for answer in &set.packing {
            // a ciphertext of any level with this prime has its rows packed in the same way
            let Some(level) = (0..=params.level_max()).find(|&at| params.level(at).primes.contains(&answer.prime))
            else {
                continue;
            };
            let of_level = &params.level(level).primes;
            let row = |prime: usize| if prime == answer.prime { words(&answer.values) } else { vec![0; params.n()] };
            let half: Vec<u32> = of_level.iter().flat_map(|&prime| row(prime)).collect();
            let noise = Noise::new(1.0, 1.0);
            let ciphertext = Ciphertext { level, scale: 2.0, noise, words: [half.clone(), half].concat() };
            let bytes = container::write_ciphertext(&ciphertext, &params, set.fingerprint());
            let row = unbase64(&answer.row);
            assert!(bytes.windows(row.len()).any(|window| window == row), "prime {}", answer.prime);
            assert_eq!(container::read_ciphertext(&bytes, &params, set.fingerprint()).as_ref(), Ok(&ciphertext));
        }
    }
}

#[test]
fn keys_of_the_independent_program_are_read_and_written_byte_for_byte() {
    for set in Set::all() {
        let (params, fingerprint) = (set.params(), set.fingerprint());
        let bytes = unbase64(&set.secret_key);
        assert_eq!(*SecretKey::from_bytes(&bytes).expect("a secret key").to_bytes(), bytes);
        let bytes = unbase64(&set.public_key.container);
        let key = container::read_public_key(&bytes).expect("a public key");
        assert_eq!((key.level, key.fingerprint), (set.public_key.level, fingerprint));
        assert_eq!(key.body, words(&set.public_key.values));
        assert_eq!(container::write_public_key(&key), bytes);
        let head = KeyHead { params: params.clone(), fingerprint, rows: 1, bytes: 0 };
        let (mut parts, mut rows) = (Vec::new(), Vec::new());
        for answer in &set.key_rows {
            let bytes = unbase64(&answer.row);
            let row = container::read_row(&head, &bytes).expect("a row");
            let header = &row.header;
            assert_eq!((header.level, header.digit, header.digits), (answer.level, answer.digit, answer.digits));
            assert_eq!(row.body, words(&answer.values), "{header:?}");
            assert_eq!(container::write_row(&params, &row), bytes);
            if header.digit == 0 {
                parts.push((header.kind, usize::from(header.level)));
            }
            rows.extend(bytes);
        }
        let whole = [container::write_key_head(&params, fingerprint, &parts), rows].concat();
        assert_eq!((whole.len(), sha256(&whole)), (set.evaluation_key.bytes, set.evaluation_key.sha256));
    }
}

#[test]
fn ciphertexts_of_the_independent_program_decrypt_to_its_numbers() {
    for set in Set::all() {
        let (params, fingerprint) = (set.params(), set.fingerprint());
        let secret = SecretKey::from_bytes(&unbase64(&set.secret_key)).expect("a secret key");
        for answer in &set.ciphertexts {
            let bytes = unbase64(&answer.container);
            let ciphertext = container::read_ciphertext(&bytes, &params, fingerprint).expect("a ciphertext");
            assert_eq!((ciphertext.level, Ok(ciphertext.scale)), (answer.level, answer.scale.parse()));
            assert_eq!(ciphertext.words, words(&answer.values), "level {} {}", answer.level, answer.form);
            if answer.form == "whole" {
                assert_eq!(container::write_ciphertext(&ciphertext, &params, fingerprint), bytes);
            }
            let decrypted = secret.decrypt(&ciphertext).expect("numbers that fit");
            for ((found, decoded), encrypted) in decrypted.values.iter().zip(&answer.decoded).zip(&answer.encrypted) {
                let [decoded, encrypted] = [decoded, encrypted].map(|[re, _]| re.parse::<f64>().expect("a number"));
                assert!((found - decoded).abs() < f64::exp2(-46.0), "{found} {decoded}");
                assert!((found - encrypted).abs() <= decrypted.error_bound, "{found} {encrypted}");
            }
        }
    }
}

#[test]
fn the_documentation_lists_the_parts_that_bootstrapping_takes() {
    let page = include_str!("../../docs/wire-format.md");
    use SecurityLevel::{Bits128, Testing};
    let of_testing = [(25, 1), (30, 2), (40, 3), (40, 14)];
    for (poly_degree, security, sets) in
        [(64, Testing, &of_testing[..]), (256, Testing, &of_testing), (32768, Bits128, &[(30, 4), (40, 2)])]
    {
        for &(scale_bits, max_depth) in sets {
            let literal = ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap: true };
            let params = Params::new(literal).expect("parameters");
            let slots = params.slots() as i64;
            let mut rotations: Vec<(usize, i64)> = Vec::new();
            for (kind, level) in bootstrap::parts(&params) {
                let kernels::ckks::PartKind::Galois(element) = kind else { continue };
                let of = |steps: &i64| rotation::element(poly_degree, *steps) == element;
                let Some(steps) = (1 - slots / 2..=slots / 2).find(of) else { continue };
                rotations.push((level - params.level_max(), steps));
            }
            rotations.sort_by_key(|&(above, steps)| (std::cmp::Reverse(above), steps));
            let told: Vec<String> =
                rotations.iter().map(|(above, steps)| format!("{steps} at `max_depth + {above}`")).collect();
            let row = format!("| {poly_degree} | {} |", told.join(", "));
            assert!(page.contains(&row), "{row}");
        }
    }
}

fn words(base64: &str) -> Vec<u32> {
    unbase64(base64).chunks_exact(4).map(|bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes"))).collect()
}
