//! Bad bytes are refused with the right error, and no bytes make the parsers panic.

use kernels::container::Error;
use kernels::tfhe_rs::{is_client_key, looks_like_ciphertext, looks_like_server_key, read_ciphertext, read_server_key};
use proptest::prelude::*;
use tfhe::boolean::prelude::*;
use tfhe::boolean::server_key::CompressedServerKey;

use crate::fixture::{FAST, bytes_of, clients, parameters};

#[test]
fn a_client_key_is_recognised_whole_and_cut_and_nothing_else_is() {
    for client in clients() {
        let secret = bytes_of(&client.key);
        assert!(is_client_key(&secret));
        assert!(is_client_key(&secret[..secret.len() / 3]));
        assert!(!looks_like_server_key(&secret) && !looks_like_ciphertext(&secret));
        assert!(!is_client_key(&client.server_key_bytes));
        assert!(!is_client_key(&bytes_of(&client.key.encrypt(true))));
        assert!(!is_client_key(&bytes_of(&client.key.encrypt_compressed(true))));
    }
    // the key has two secrets, and each alone is recognised too
    let (small, ring, _) = FAST.key.clone().into_raw_parts();
    assert!(is_client_key(&bytes_of(&small)) && is_client_key(&bytes_of(&ring)));
}

#[test]
fn the_forms_are_told_apart() {
    assert!(!looks_like_ciphertext(&FAST.server_key_bytes));
    assert!(!looks_like_server_key(&bytes_of(&FAST.key.encrypt(true))));
    assert!(!looks_like_server_key(&bytes_of(&FAST.key.encrypt_compressed(true))));
    assert!(!looks_like_server_key(b"ANGO") && !looks_like_ciphertext(b"ANGO"));
}

#[test]
fn dimensions_of_no_preset_are_refused() {
    let error = read_server_key(&upload(parameters(64, 1, 256, [8, 2, 2, 6]))).unwrap_err();
    assert_eq!(error, Error::Params("n 64, k 1, N 256 are not the dimensions of a preset".into()));
}

/// Overwrites base log and levels in a real key. The two fields of the bootstrap are before its seed and modulus (44
/// bytes); the two fields of the key switch are before its size, seed, modulus and order of operations.
#[test]
fn bases_and_levels_that_are_not_on_the_list_are_refused_by_naming_what_is() {
    let (bootstrap, key_switch) = (8 + 4 * 636 * 4 * 1024 + 16, FAST.server_key_bytes.len() - 4 - 24 - 44 - 24);
    let with = |at: usize, base_log: u64, levels: u64| {
        let mut bytes = FAST.server_key_bytes.clone();
        bytes[at..at + 8].copy_from_slice(&base_log.to_le_bytes());
        bytes[at + 8..at + 16].copy_from_slice(&levels.to_le_bytes());
        read_server_key(&bytes).unwrap_err()
    };
    let refused = |at, base_log, levels| {
        let error = with(at, base_log, levels);
        assert!(
            matches!(&error, Error::Params(why) if why.contains("2^9 x 2") && why.contains("2^4 x 3")),
            "{base_log} x {levels}: {error}"
        );
    };
    // the first, seven levels of base 2^4, is refused because it would take three times as many transforms as a preset
    for (base_log, levels) in [(4, 7), (0, 2), (8, 1), (8, 3), (7, 2), (10, 2), (6, 2), (6, 4), (23, 1), (65_535, 2)] {
        refused(bootstrap, base_log, levels);
    }
    for (base_log, levels) in [(0, 6), (1, 24), (2, 4), (2, 8), (3, 5), (4, 2), (17, 1), (64, 1), (65_535, 6)] {
        refused(key_switch, base_log, levels);
    }
    // these levels and bases are accepted ones, but they do not match the length of the key's bodies
    for error in [with(bootstrap, 6, 3), with(key_switch, 2, 5)] {
        assert!(matches!(&error, Error::Malformed(why) if why.contains("length contradicts")), "{error}");
    }
}

#[test]
fn ciphertexts_under_the_ring_key_are_refused() {
    let mut big = parameters(636, 1, 1024, [8, 2, 2, 6]);
    big.encryption_key_choice = EncryptionKeyChoice::Big;
    let key = ClientKey::new(&big);
    let error = read_server_key(&bytes_of(&CompressedServerKey::new(&key))).unwrap_err();
    assert!(matches!(&error, Error::Params(why) if why.contains("EncryptionKeyChoice::Small")), "{error}");
    let error = read_ciphertext(&bytes_of(&key.encrypt(true)), 636).unwrap_err();
    assert_eq!(error, Error::Malformed("the ciphertext has 1025 words, but the key needs 637".into()));
}

#[test]
fn a_compressed_ciphertext_of_another_dimension_is_refused() {
    let bytes = bytes_of(&FAST.key.encrypt_compressed(true));
    let error = read_ciphertext(&bytes, 708).unwrap_err();
    assert_eq!(error, Error::Malformed("the ciphertext has 637 words, but the key needs 709".into()));
}

#[test]
fn every_prefix_and_every_longer_form_is_refused() {
    let key = &FAST.server_key_bytes;
    for length in 0..key.len() {
        assert!(read_server_key(&key[..length]).is_err(), "{length}");
    }
    assert!(read_server_key(&[&key[..], &[0]].concat()).is_err());
    for bytes in [
        bytes_of(&FAST.key.encrypt(true)),
        bytes_of(&FAST.key.encrypt_compressed(true)),
        bytes_of(&Ciphertext::Trivial(true)),
    ] {
        for length in 0..bytes.len() {
            assert!(read_ciphertext(&bytes[..length], 636).is_err(), "{length} of {}", bytes.len());
        }
        assert!(read_ciphertext(&[&bytes[..], &[0]].concat(), 636).is_err());
    }
}

#[test]
fn other_moduli_and_mask_generators_are_refused() {
    let key = &FAST.server_key_bytes;
    let end = key.len() - 4;
    // the fields at the end of the key, from the last one backwards, each with its size in bytes: order of bootstrap
    // and key switch 4, bits of a word 8, modulus 16, byte 8, block 16, AES key 16, kind of seed 4
    for (what, at, why) in [
        ("bits of a word", end - 8, "modulus"),
        ("modulus", end - 24, "modulus"),
        ("byte", end - 32 + 1, "first block"),
        ("block", end - 48, "first block"),
        ("kind of seed", end - 68, "AES-CTR"),
    ] {
        let mut bytes = key.clone();
        bytes[at] ^= 1;
        let error = read_server_key(&bytes).unwrap_err();
        assert!(matches!(&error, Error::Params(text) if text.contains(why)), "{what}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn random_flips_and_cuts_of_a_server_key_never_panic(
        flips in prop::collection::vec((0usize..400, any::<u8>()), 1..8),
        cut in prop::option::of(0usize..400),
    ) {
        // only the numbers before, between and after the two bodies are changed, because any words are valid in bodies
        let mut bytes = FAST.server_key_bytes.clone();
        let boundary = 8 + 4 * 636 * 4 * 1024;
        for (at, flip) in flips {
            let at = match at {
                0..8 => at,
                8..150 => boundary + at - 8,
                _ => bytes.len() - (at - 149),
            };
            bytes[at] ^= flip;
        }
        if let Some(cut) = cut {
            bytes.truncate(bytes.len() - cut);
        }
        all_parsers(&bytes);
    }

    #[test]
    fn random_flips_and_cuts_of_a_ciphertext_never_panic(
        compressed in any::<bool>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = match compressed {
            true => bytes_of(&FAST.key.encrypt_compressed(true)),
            false => bytes_of(&FAST.key.encrypt(true)),
        };
        for (at, flip) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        all_parsers(&bytes);
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        all_parsers(&bytes);
    }
}

fn all_parsers(bytes: &[u8]) {
    // an accepted key must have all its words, because kernels will read them
    if let Ok(key) = read_server_key(bytes) {
        assert_eq!(key.bootstrap_bodies.len(), key.params.bootstrap_body_words());
        assert_eq!(key.key_switch_bodies.len(), key.params.key_switch_body_words());
    }
    if let Ok(lwe) = read_ciphertext(bytes, 636) {
        assert_eq!(lwe.dimension(), 636);
    }
    let _ = (looks_like_server_key(bytes), looks_like_ciphertext(bytes), is_client_key(bytes));
}

fn upload(parameters: BooleanParameters) -> Vec<u8> {
    bytes_of(&CompressedServerKey::new(&ClientKey::new(&parameters)))
}
