//! Known answers of an independent program (`tests/vectors/python`, written from docs/wire-format.md alone): masks,
//! keys, ciphertexts and gates of every preset, byte for byte, and operations on encrypted numbers (CKKS) from their
//! definitions.

mod answers;
mod ckks;
mod evaluation_key;
mod numbers;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::SecretKey;
use kernels::container::{self, Form};
use kernels::cpu::{Cpu, Isa};
use kernels::tfhe::{EvaluationKey, Gate, GateRow, Gates, Lwe, MODULUS, Preset, RING_MODULUS, bootstrap};
use kernels::xof;
use sha2::{Digest, Sha256};

use answers::{KeyAnswers, MaskAnswers};

#[test]
fn masks_are_those_of_the_independent_client() {
    for answers in MaskAnswers::all() {
        let params = answers.preset.params();
        let mut domains = [0; 4];
        for row in &answers.rows {
            let mut mask;
            match row.domain {
                xof::DOMAIN_BOOTSTRAP => {
                    mask = vec![0; params.extracted_dimension()];
                    xof::fill_residues(&answers.seed, row.domain, row.row, MODULUS, &mut mask);
                }
                _ => {
                    mask = vec![0; params.lwe_dimension];
                    xof::fill_torus(&answers.seed, row.domain, row.row, &mut mask);
                }
            }
            domains[row.domain as usize] += 1;
            let mut stream = [0; 4];
            xof::fill_torus(&answers.seed, row.domain, row.row, &mut stream);
            assert_eq!(stream, row.stream);
            assert_eq!(mask[..4], row.mask);
            let bytes: Vec<u8> = mask.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(sha256(&bytes), row.mask_sha256, "{:?} domain {} row {}", answers.preset, row.domain, row.row);
        }
        assert_eq!(domains, [0, 2, 2, 2], "the answers have all domains");
    }
}

#[test]
fn secret_keys_and_ciphertexts_of_the_independent_client_are_read_and_written_byte_for_byte() {
    for answers in KeyAnswers::all() {
        let bytes = unbase64(&answers.secret_key);
        let secret = SecretKey::from_bytes(&bytes).expect("a secret key");
        assert_eq!(secret.preset(), answers.preset);
        assert_eq!(*secret.to_bytes(), bytes);
        for answer in &answers.ciphertexts {
            let bytes = unbase64(&answer.ciphertext);
            let lwe = ciphertext(&bytes, &secret);
            assert_eq!(secret.phase(&lwe) as i32, answer.phase);
            assert_eq!(secret.decrypt(&lwe), answer.bit);
            let written = container::write_ciphertext(&lwe, secret.preset(), Some(secret.fingerprint()), Form::Ango);
            assert_eq!(written, bytes);
        }
    }
}

#[test]
fn seeded_ciphertexts_of_the_independent_client_are_read_and_written_byte_for_byte() {
    for KeyAnswers { preset, secret_key, seeded, .. } in KeyAnswers::all() {
        let secret = SecretKey::from_bytes(&unbase64(&secret_key)).expect("a secret key");
        let (bytes, name) = (unbase64(&seeded.container), Some(secret.fingerprint()));
        let list = container::read_seeded(&bytes, preset, name).expect("seeded ciphertexts");
        let lwes = list.expand(preset.params().lwe_dimension).to_lwes();
        assert_eq!(lwes.iter().map(|lwe| secret.phase(lwe) as i32).collect::<Vec<_>>(), seeded.phases, "{preset:?}");
        assert_eq!(lwes.iter().map(|lwe| secret.decrypt(lwe)).collect::<Vec<_>>(), seeded.bits);
        assert_eq!(container::write_seeded(&list, preset, name), bytes);
    }
}

#[test]
fn evaluation_keys_with_noise_by_formula_are_those_of_the_independent_client() {
    for answers in KeyAnswers::all() {
        let key = evaluation_key::of_answers(&answers);
        let bytes = container::write_evaluation_key(&key);
        assert_eq!(bytes.len(), answers.evaluation_key.bytes);
        assert_eq!(sha256(&bytes), answers.evaluation_key.sha256, "{:?}", answers.preset);
        assert_eq!(container::read_evaluation_key(&bytes), Ok(key));
    }
}

#[test]
fn gates_have_the_words_of_the_independent_client() {
    for answers in KeyAnswers::all() {
        let secret = SecretKey::from_bytes(&unbase64(&answers.secret_key)).expect("a secret key");
        let operands: Vec<Lwe> =
            answers.ciphertexts.iter().map(|answer| ciphertext(&unbase64(&answer.ciphertext), &secret)).collect();
        let row = |gate: &answers::GateAnswer| GateRow {
            gate: Gate::from_name(&gate.op).expect("a gate"),
            operands: gate.operands.iter().map(|&bit| operands[bit].clone()).collect(),
        };
        let rows: Vec<GateRow> = answers.gates.iter().map(row).collect();
        assert!(Gate::ALL.into_iter().all(|gate| rows.iter().any(|row| row.gate == gate)));

        let key = evaluation_key::of_answers(&answers);
        let device = Cpu::with(Isa::detect(), 2);
        let loaded = device.load_key(&key).expect("a key fits");
        let results = bootstrap::evaluate(&device, &loaded, &key.params, &rows).expect("gates");
        for ((result, row), answer) in results.iter().zip(&rows).zip(&answers.gates) {
            let plain: Vec<bool> = answer.operands.iter().map(|&bit| answers.ciphertexts[bit].bit).collect();
            assert_eq!(answer.result.bit, row.gate.plain(&plain), "{}", answer.op);
            assert_eq!(secret.phase(result) as i32, answer.result.phase, "{}", answer.op);
            let bytes = container::write_ciphertext(result, answers.preset, key.fingerprint, Form::Ango);
            assert_eq!(sha256(&bytes), answer.result.sha256, "{}", answer.op);
        }
    }
}

#[test]
fn keys_of_our_client_are_the_documented_ones_plus_noise_of_the_documented_size() {
    // only the answers of the newest version, because the client writes that version
    for answers in KeyAnswers::all().into_iter().filter(|answers| answers.version == container::VERSION_CENTRED) {
        let p = answers.preset.params();
        let secret = SecretKey::from_bytes(&unbase64(&answers.secret_key)).expect("a secret key");
        let made = secret.evaluation_key();
        let documented = tests_compute::evaluation_key::without_noise(&secret, seed_of(&made));
        assert_eq!((made.params, made.fingerprint), (documented.params, documented.fingerprint));

        let ring_errors = made.bootstrap_bodies.iter().zip(&documented.bootstrap_bodies).map(|(&x, &y)| {
            let error = MODULUS.sub(x, y);
            f64::from(if error > RING_MODULUS / 2 { error as i32 - RING_MODULUS as i32 } else { error as i32 })
        });
        check_noise(ring_errors, p.glwe_noise_std * f64::from(RING_MODULUS));
        let lwe_errors = made.key_switch_bodies.iter().zip(&documented.key_switch_bodies);
        check_noise(lwe_errors.map(|(&x, &y)| f64::from(x.wrapping_sub(y) as i32)), p.lwe_noise_std * 32f64.exp2());
        let fresh = (0..2000).map(|_| f64::from(secret.phase(&secret.encrypt(true)).wrapping_sub(1 << 29) as i32));
        check_noise(fresh, p.lwe_noise_std * 32f64.exp2());
    }
}

/// Checks that mean and variance differ from the Gaussian's by less than six standard deviations of these estimates,
/// and that each sample is within nine standard deviations.
fn check_noise(errors: impl Iterator<Item = f64>, std: f64) {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for error in errors {
        assert!(error.abs() < 9.0 * std, "{error} at a standard deviation of {std}");
        (count, sum, squares) = (count + 1.0, sum + error, squares + error * error);
    }
    assert!((sum / count).abs() < 6.0 * std / f64::sqrt(count), "mean {}", sum / count);
    // rounding to integers adds 1/12 to the variance
    let ratio = squares / count / (std * std + 1.0 / 12.0);
    assert!((ratio - 1.0).abs() < 6.0 * f64::sqrt(2.0 / count), "variance ratio {ratio} of {count} samples");
}

#[test]
fn the_example_in_the_documentation_is_a_true_bit_that_everybody_can_read() {
    let page = include_str!("../../docs/wire-format.md");
    let preset = Preset::Fast128;
    let lwe = Lwe::trivial(preset.params().lwe_dimension, true);
    let fingerprint = [0xa1, 0xb2, 0xc3, 0xd4, 0xe5, 0xf6, 0x07, 0x18];
    let bytes = container::write_ciphertext(&lwe, preset, Some(fingerprint), Form::Ango);
    let header: String = bytes[..container::HEADER_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
    let shown: String = page.chars().filter(|c| !c.is_whitespace()).collect();
    assert!(shown.contains(&header), "{header}");
}

#[test]
fn the_documentation_has_every_preset_s_sizes_and_the_known_answers_words() {
    let page = include_str!("../../docs/wire-format.md");
    for preset in Preset::ALL {
        let p = preset.params();
        let sizes = [
            p.lwe_dimension + p.extracted_dimension(),
            p.ciphertext_bytes(),
            // 64 bytes for shape and seed, then the bodies
            64 + p.seeded_bytes(),
        ];
        for size in sizes.map(|payload| container::HEADER_BYTES + payload) {
            let grouped = format!("{},{:03}", grouped(size / 1000), size % 1000);
            assert!(page.contains(&grouped), "{preset:?}: {grouped}");
        }
    }
    let rows = &MaskAnswers::all()[0].rows;
    for words in [rows[0].stream, rows[0].mask, rows[2].stream] {
        assert!(page.contains(&words.map(|word| word.to_string()).join(", ")));
    }
    assert!(page.contains(&RING_MODULUS.to_string()));
}

/// A number with separators between thousands, as docs/wire-format.md writes sizes.
fn grouped(number: usize) -> String {
    if number < 1000 { number.to_string() } else { format!("{},{:03}", grouped(number / 1000), number % 1000) }
}

fn ciphertext(bytes: &[u8], secret: &SecretKey) -> Lwe {
    let read = container::read_ciphertext(bytes, secret.preset(), Some(secret.fingerprint()));
    let (lwe, form) = read.expect("a ciphertext");
    assert_eq!(form, Form::Ango);
    lwe
}

fn seed_of(key: &EvaluationKey) -> [u8; 32] {
    match key.masks {
        kernels::tfhe::keys::Masks::Ango(seed) => seed,
        kernels::tfhe::keys::Masks::TfheRs { .. } => unreachable!("the client makes keys of Ango's format"),
    }
}

fn unbase64(text: &str) -> Vec<u8> {
    STANDARD.decode(text).expect("base64")
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}
