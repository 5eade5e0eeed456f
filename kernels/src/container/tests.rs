use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::*;
use crate::tfhe::keys::Masks;
use crate::tfhe::{ModSwitch, RING_MODULUS, SeededLweList};

fn key(preset: Preset) -> EvaluationKey {
    let params = preset.params();
    let words = |count: usize, modulus: u64| -> Vec<u32> {
        (0..count as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % modulus).map(|x| x as u32).collect()
    };
    EvaluationKey {
        preset,
        params,
        fingerprint: Some([1, 2, 3, 4, 5, 6, 7, 8]),
        masks: Masks::Ango([7; 32]),
        bootstrap_bodies: words(params.bootstrap_body_words(), RING_MODULUS as u64),
        key_switch_bodies: words(params.key_switch_body_words(), 1 << 32),
    }
}

fn lwe(preset: Preset) -> Lwe {
    Lwe::new((0..=preset.params().lwe_dimension as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect())
}

/// Recomputes the checksum of a changed container, as a malicious client would do.
fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update(&bytes[..24]);
    hash.update(&bytes[HEADER_BYTES..]);
    let digest = hash.finalize();
    bytes[24..32].copy_from_slice(&digest[..8]);
    bytes
}

#[test]
fn evaluation_keys_and_ciphertexts_survive_the_round_trip() {
    for preset in Preset::ALL {
        let original = key(preset);
        assert_eq!(read_evaluation_key(&write_evaluation_key(&original)), Ok(original));
        let lwe = lwe(preset);
        let bytes = write_ciphertext(&lwe, preset, None, Form::Ango);
        assert_eq!(bytes.len(), HEADER_BYTES + preset.params().ciphertext_bytes());
        assert_eq!(read_ciphertext(&bytes, preset, Some([9; 8])), Ok((lwe, Form::Ango)));
    }
}

fn seeded(preset: Preset, count: u32) -> Vec<u8> {
    write_seeded(&SeededLweList::new([5; 32], (0..count).collect()), preset, Some([1; 8]))
}

#[test]
fn seeded_ciphertexts_survive_the_round_trip_and_one_is_a_ciphertext() {
    for preset in Preset::ALL {
        let list = SeededLweList::new([5; 32], (0..100).collect());
        let bytes = write_seeded(&list, preset, Some([1; 8]));
        assert_eq!(bytes.len(), HEADER_BYTES + 32 + 4 * 100);
        assert_eq!(read_seeded(&bytes, preset, Some([1; 8])), Ok(list));
        assert!(matches!(read_ciphertext(&bytes, preset, None), Err(Error::Malformed(_))), "a hundred are not one");
        let expected =
            Lwe::new(SeededLweList::new([5; 32], vec![0]).expand(preset.params().lwe_dimension).into_words());
        assert_eq!(read_ciphertext(&seeded(preset, 1), preset, None), Ok((expected, Form::Ango)));
    }
}

#[test]
fn seeded_ciphertexts_of_another_key_length_or_preset_are_refused_even_under_a_right_checksum() {
    let good = seeded(Preset::Fast128, 3);
    assert!(matches!(read_seeded(&good, Preset::Fast128, Some([2; 8])), Err(Error::Params(_))));
    assert!(matches!(read_seeded(&good, Preset::Standard128, None), Err(Error::Params(_))));
    let of_length = |length: usize| {
        let mut bytes = good.clone();
        bytes.resize(HEADER_BYTES + length, 0);
        bytes[16..24].copy_from_slice(&(length as u64).to_le_bytes());
        read_seeded(&resealed(bytes), Preset::Fast128, None)
    };
    for length in [0, 31, 32, 33, 35, 37, 32 + 4 * (SEEDED_CIPHERTEXTS_MAX + 1)] {
        assert!(matches!(of_length(length), Err(Error::Malformed(_))), "{length} bytes");
    }
    assert!(of_length(36).is_ok() && of_length(32 + 4 * SEEDED_CIPHERTEXTS_MAX).is_ok());
    assert!(matches!(read_evaluation_key(&good), Err(Error::WrongType { .. })));
}

/// Makes the key of `key(preset)` in the form that clients of version 1 send.
fn key_of_version_1(preset: Preset) -> EvaluationKey {
    let mut key = key(preset);
    key.params = key.params.with_mod_switch(ModSwitch::Nearest);
    key
}

#[test]
fn keys_of_version_1_are_read_and_written_as_before_and_differ_in_the_version_alone() {
    for preset in Preset::OF_VERSION_1 {
        let of_version_1 = key_of_version_1(preset);
        let (old, new) = (write_evaluation_key(&of_version_1), write_evaluation_key(&key(preset)));
        assert_eq!((old[4], new[4]), (1, 2));
        assert_eq!(old[HEADER_BYTES..], new[HEADER_BYTES..]);
        assert_eq!(read_evaluation_key(&old), Ok(of_version_1));
        // the version decides the mod switch. A changed version byte is detected, because the checksum covers the version
        let mut changed = old.clone();
        changed[4] = 2;
        assert!(matches!(read_evaluation_key(&changed), Err(Error::Malformed(_))));
        assert_eq!(read_evaluation_key(&resealed(changed)), Ok(key(preset)));
    }
}

#[test]
fn presets_that_came_with_version_2_have_no_keys_of_version_1() {
    for preset in [Preset::Fast128K2, Preset::Standard128K2] {
        let old = write_evaluation_key(&key_of_version_1(preset));
        assert!(matches!(read_evaluation_key(&old), Err(Error::Params(why)) if why.contains("version 2")));
    }
}

#[test]
fn the_format_is_pinned_by_a_hash() {
    let bytes = [
        write_evaluation_key(&key_of_version_1(Preset::Fast128)),
        write_ciphertext(&lwe(Preset::Conservative128), Preset::Conservative128, Some([8; 8]), Form::Ango),
    ]
    .concat();
    let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        digest, "2d5635c7044b14d0a3a2f569e3060896fee3895b44689f4063b5a9f25073db27",
        "the container format changed: raise its version"
    );
}

#[test]
fn g11_a_ciphertext_of_another_key_or_preset_is_refused() {
    let bytes = write_ciphertext(&lwe(Preset::Fast128), Preset::Fast128, Some([1; 8]), Form::Ango);
    assert!(matches!(read_ciphertext(&bytes, Preset::Fast128, Some([2; 8])), Err(Error::Params(_))));
    assert!(matches!(read_ciphertext(&bytes, Preset::Standard128, None), Err(Error::Params(_))));
    assert!(read_ciphertext(&bytes, Preset::Fast128, Some([1; 8])).is_ok());
}

#[test]
fn k5_a_secret_key_is_recognised_even_when_damaged() {
    let secret = frame(Tag::SecretKey, Preset::Fast128, None, |out| out.extend([1; 100]));
    let mut of_the_future = secret.clone();
    of_the_future[4] = 99;
    assert_eq!(read_evaluation_key(&of_the_future), Err(Error::SecretKey));
    for cut in [7, HEADER_BYTES, secret.len() - 1, secret.len()] {
        assert_eq!(read_evaluation_key(&secret[..cut]), Err(Error::SecretKey));
        assert_eq!(read_ciphertext(&secret[..cut], Preset::Fast128, None), Err(Error::SecretKey));
    }
}

#[test]
fn versions_types_lengths_and_residues_are_checked_even_under_a_right_checksum() {
    let good = write_evaluation_key(&key_of_version_1(Preset::Fast128));
    let changed = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        read_evaluation_key(&resealed(bytes))
    };
    assert_eq!([changed(4, 0), changed(4, 3)], [0, 3].map(|version| Err(Error::UnknownVersion(version))));
    let mut ciphertext = write_ciphertext(&lwe(Preset::Fast128), Preset::Fast128, None, Form::Ango);
    ciphertext[4] = 2;
    let refused = read_ciphertext(&resealed(ciphertext), Preset::Fast128, None);
    assert_eq!(refused, Err(Error::UnknownVersion(2)), "evaluation keys alone have a second version");
    assert!(matches!(changed(6, 3), Err(Error::WrongType { .. })));
    assert!(matches!(changed(6, 77), Err(Error::Malformed(_))));
    assert!(matches!(changed(7, 9), Err(Error::Params(_))));
    assert!(matches!(changed(7, 2), Err(Error::Malformed(_))), "another preset's length");
    assert!(matches!(changed(16, 0), Err(Error::Malformed(_))));
    assert!(matches!(changed(HEADER_BYTES, 1), Err(Error::Params(_))), "another shape");
    assert!(matches!(changed(HEADER_BYTES + 64 + 3, 0xff), Err(Error::Malformed(_))), "a word above q");
    let longer = [&good[..], &[0]].concat();
    assert!(matches!(read_evaluation_key(&resealed(longer)), Err(Error::Malformed(_))));
    assert_eq!(read_evaluation_key(&[]), Err(Error::UnknownForm));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_flipped_bit_or_a_cut_is_never_accepted(bit in 0usize..8 * 2580, cut in 0usize..2579) {
        let good = write_ciphertext(&lwe(Preset::Fast128), Preset::Fast128, Some([3; 8]), Form::Ango);
        let mut flipped = good.clone();
        let bit = bit % (8 * good.len());
        flipped[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(read_ciphertext(&flipped, Preset::Fast128, None).is_err());
        prop_assert!(read_ciphertext(&good[..cut % good.len()], Preset::Fast128, None).is_err());
        let good = seeded(Preset::Fast128, 1);
        let mut flipped = good.clone();
        let bit = bit % (8 * good.len());
        flipped[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(read_ciphertext(&flipped, Preset::Fast128, None).is_err());
        prop_assert!(read_ciphertext(&good[..cut % good.len()], Preset::Fast128, None).is_err());
    }

    #[test]
    fn arbitrary_bytes_are_refused_without_a_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..4096), ours: bool) {
        if ours && bytes.len() >= 8 {
            bytes[..8].copy_from_slice(b"ANGO\x01\x00\x02\x01");
        }
        prop_assert!(read_evaluation_key(&bytes).is_err());
        let _ = read_ciphertext(&bytes, Preset::Fast128, None);
    }
}
