use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::*;
use crate::ckks::ciphertext::{Ciphertext, SeededCiphertext};
use crate::ckks::keys::{KeyRow, PublicKey, RowHeader};
use crate::ckks::noise::Noise;
use crate::ckks::noise::Tail;
use crate::ckks::params::{POLY_DEGREES, PartKind};
use crate::container::{self, CHECKSUM_BYTES};
use crate::tfhe::Preset;

const NAME: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

fn params(poly_degree: usize, scale_bits: u32, max_depth: u32) -> Params {
    let security = SecurityLevel::Testing;
    Params::new(ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap: false }).unwrap()
}

/// Makes `[primes][N]` words that look random, each below its prime.
fn words(params: &Params, primes: &[usize]) -> Vec<u32> {
    let row = |&prime: &usize| {
        let q = params.primes()[prime].q();
        (0..params.n() as u32).map(move |i| (i ^ q).wrapping_mul(2_654_435_761) % q)
    };
    primes.iter().flat_map(row).collect()
}

fn ciphertext(params: &Params, level: usize) -> Ciphertext {
    let primes = &params.level(level).primes;
    let words = [words(params, primes), words(params, primes)].concat();
    Ciphertext { level, scale: params.level(level).scale, noise: Noise::encrypt_secret(2.0), words }
}

fn seeded(params: &Params, level: usize) -> SeededCiphertext {
    let body = words(params, &params.level(level).primes);
    let scale = params.level(level).scale;
    SeededCiphertext { level, scale, noise: Noise::encrypt_secret(2.0), seed: [9; 32], body }
}

fn public_key(params: &Params, level: usize) -> PublicKey {
    let body = words(params, &params.level(level).primes);
    PublicKey { params: params.clone(), fingerprint: NAME, level, seed: [8; 32], body }
}

fn row(params: &Params, kind: PartKind, level: usize, digit: u8) -> KeyRow {
    let digits = params.digits(kind, level).len() as u8;
    let header = RowHeader { kind, level: level as u8, digit, digits, seed: [7; 32], sparse_tag: 0 };
    KeyRow { header, body: words(params, &params.key_primes(kind, level)) }
}

/// Recomputes the length and the checksum of a changed container, as a malicious client would do.
fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = (bytes.len() - HEADER_BYTES) as u64;
    bytes[16..24].copy_from_slice(&length.to_le_bytes());
    let mut hash = Sha256::new();
    hash.update(&bytes[..24]);
    hash.update(&bytes[HEADER_BYTES..]);
    bytes[24..32].copy_from_slice(&hash.finalize()[..8]);
    bytes
}

#[test]
fn everything_survives_the_round_trip_at_every_degree_and_level() {
    for n in POLY_DEGREES {
        let params = params(n, 40, 2);
        for level in 0..=2 {
            let whole = ciphertext(&params, level);
            let bytes = write_ciphertext(&whole, &params, NAME);
            assert_eq!(bytes.len(), ciphertext_bytes(&params, level, Form::Whole));
            assert!(read_ciphertext(&bytes, &params, NAME) == Ok(whole));
            let seeded = seeded(&params, level);
            let bytes = write_seeded_ciphertext(&seeded, &params, NAME);
            assert_eq!(bytes.len(), ciphertext_bytes(&params, level, Form::Seeded));
            assert!(read_ciphertext(&bytes, &params, NAME) == Ok(seeded.expand(&params)));
            let public = public_key(&params, level);
            let bytes = write_public_key(&public);
            assert_eq!(bytes.len(), public_key_bytes(&params, level));
            assert!(read_public_key(&bytes) == Ok(public));
            assert_eq!(read_literal(&bytes), Ok(params.literal()));
            for kind in [PartKind::Relinearization, PartKind::Galois(5), PartKind::Galois(2 * n as u32 - 1)] {
                let head = read_key_head(&write_key_head(&params, NAME, &[(kind, level)])).unwrap();
                let digits = params.digits(kind, level).len();
                assert_eq!((head.rows as usize, head.bytes as usize), (digits, part_bytes(&params, kind, level)));
                let row = row(&params, kind, level, digits as u8 - 1);
                let bytes = write_row(&params, &row);
                assert_eq!(bytes.len(), row_bytes(&params, kind, level as u8));
                assert_eq!(read_row_header(&head, &bytes), Ok(row.header));
                assert_eq!(read_row(&head, &bytes), Ok(row));
            }
        }
    }
}

#[test]
fn masks_are_those_of_the_seed_by_the_number_of_the_prime() {
    let params = params(256, 40, 2);
    let mut expected = vec![0; 256];
    let mut check = |domain: u32, seed: u8, primes: &[usize], found: &[u32]| {
        for (&prime, found) in primes.iter().zip(found.chunks_exact(256)) {
            crate::xof::fill_residues(&[seed; 32], domain, prime as u64, params.primes()[prime], &mut expected);
            assert_eq!(found, expected);
        }
    };
    for level in 0..=2 {
        let primes = &params.level(level).primes;
        let expanded = seeded(&params, level).expand(&params);
        check(6, 9, primes, &expanded.words[primes.len() * 256..]);
        check(5, 8, primes, &public_key(&params, level).mask());
        let primes = params.key_primes(PartKind::Relinearization, level);
        let row = row(&params, PartKind::Relinearization, level, 0).expand(&params);
        check(4, 7, &primes, &row[primes.len() * 256..]);
    }
}

#[test]
fn k5_a_secret_key_is_recognised_by_every_reader_even_when_damaged() {
    let params = params(64, 30, 1);
    let ours = write_secret_key(&params, NAME, |out| out.extend([1; 64]));
    let of_gates = container::frame(Tag::SecretKey, Preset::Fast128, None, |out| out.extend([1; 100]));
    let mut of_the_future = ours.clone();
    of_the_future[4] = 99;
    let mut of_tfhe_rs = 700u64.to_le_bytes().to_vec();
    of_tfhe_rs.extend((0..700u32).flat_map(|i| (i % 2).to_le_bytes()));
    for secret in [ours.clone(), of_gates, of_the_future, of_tfhe_rs] {
        for cut in [secret.len(), secret.len() - 1] {
            let bytes = &secret[..cut];
            assert_eq!(read_ciphertext(bytes, &params, NAME), Err(Error::SecretKey));
            assert_eq!(read_public_key(bytes), Err(Error::SecretKey));
            assert_eq!(read_key_head(bytes), Err(Error::SecretKey));
            assert_eq!(read_literal(bytes), Err(Error::SecretKey));
        }
    }
    for cut in [7, HEADER_BYTES, ours.len()] {
        assert_eq!(container::read_evaluation_key(&ours[..cut]), Err(Error::SecretKey));
        assert_eq!(container::read_ciphertext(&ours[..cut], Preset::Fast128, None), Err(Error::SecretKey));
    }
    let (read, name, secret) = open_secret_key(&ours).unwrap();
    assert_eq!((read, name, secret), (params, NAME, &[1; 64][..]));
}

#[test]
fn c17_ciphertexts_of_another_key_level_form_or_number_are_refused_even_under_a_right_checksum() {
    let params = params(64, 30, 2);
    let good = write_ciphertext(&ciphertext(&params, 1), &params, NAME);
    let read = |bytes: &[u8]| read_ciphertext(bytes, &params, NAME);
    let changed = |at: usize, value: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        read(&resealed(bytes))
    };
    assert!(read(&good).is_ok() && changed(0, b"A").is_ok());
    assert!(matches!(read_ciphertext(&good, &params, [9; 8]), Err(Error::Params(_))), "another key");
    for (at, value) in
        [(7, 1), (32, 8), (32, 77), (33, 31), (34, 3), (35, 1), (35, 4), (36, 1), (36, 2), (37, 2), (40, 3)]
    {
        assert!(matches!(changed(at, &[value]), Err(Error::Params(_))), "byte {at} = {value}");
    }
    for (at, value) in [(6, 9), (38, 1), (39, 1), (40, 0), (40, 2), (41, 1), (41, 2), (42, 2), (43, 1)] {
        assert!(matches!(changed(at, &[value]), Err(Error::Malformed(_))), "byte {at} = {value}");
    }
    assert_eq!(changed(42, &[1]).unwrap().noise.tail, Tail::Mixed);
    let mut mixed = ciphertext(&params, 1);
    mixed.noise.tail = Tail::Mixed;
    assert_eq!(read(&write_ciphertext(&mixed, &params, NAME)), Ok(mixed));
    assert_eq!(changed(4, &[2]), Err(Error::UnknownVersion(2)));
    assert!(matches!(changed(6, &[6]), Err(Error::WrongType { .. })));
    assert!(matches!(changed(8, &[0; 8]), Err(Error::Malformed(_))), "no fingerprint");
    for bad in [f64::NAN, f64::INFINITY, -1.0, 0.0, 0.5, 1e-310, 1e300] {
        assert!(matches!(changed(44, &bad.to_le_bytes()), Err(Error::Malformed(_))), "scale {bad}");
    }
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -0.0, 1e-310] {
        assert!(matches!(changed(52, &bad.to_le_bytes()), Err(Error::Malformed(_))), "bound {bad}");
        assert!(matches!(changed(60, &bad.to_le_bytes()), Err(Error::Malformed(_))), "variance {bad}");
    }
    assert!(
        matches!(changed(CIPHERTEXT_HEAD_BYTES, &[0xff; 4]), Err(Error::Malformed(_))),
        "a residue above its prime"
    );
    assert!(matches!(changed(good.len() - 4, &[0xff; 4]), Err(Error::Malformed(_))), "the last residue");
    for length in [HEADER_BYTES, HEADER_BYTES + 5, 44, 60, CIPHERTEXT_HEAD_BYTES, good.len() - 1, good.len() + 1] {
        let mut bytes = good.clone();
        bytes.resize(length, 0);
        assert!(matches!(read(&resealed(bytes)), Err(Error::Malformed(_))), "{length} bytes");
    }
}

#[test]
fn public_keys_are_checked_even_under_a_right_checksum() {
    let params = params(64, 30, 2);
    let good = write_public_key(&public_key(&params, 2));
    let changed = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        read_public_key(&resealed(bytes))
    };
    for (at, value) in [(32, 7), (33, 51), (34, 0), (34, 15), (35, 1), (36, 2), (37, 0), (40, 3), (40, 255)] {
        assert!(matches!(changed(at, value), Err(Error::Params(_))), "byte {at} = {value}");
    }
    for (at, value) in [(38, 1), (40, 1), (41, 1), (43, 1)] {
        assert!(matches!(changed(at, value), Err(Error::Malformed(_))), "byte {at} = {value}");
    }
    let mut excessive = good.clone();
    excessive[good.len() - 4..].fill(255);
    assert!(matches!(read_public_key(&resealed(excessive)), Err(Error::Malformed(_))), "a residue above its prime");
    assert!(read_public_key(&resealed(good[..good.len() - 1].to_vec())).is_err());
}

#[test]
fn heads_and_rows_of_keys_are_checked() {
    let params = params(64, 30, 2);
    let parts = [(PartKind::Relinearization, 2), (PartKind::Galois(5), 1)];
    let good = write_key_head(&params, NAME, &parts);
    assert_eq!(good.len(), KEY_HEAD_BYTES);
    let head = read_key_head(&good).unwrap();
    assert_eq!(head.rows as usize, parts.iter().map(|&(kind, level)| params.digits(kind, level).len()).sum::<usize>());
    let sealed = |mut bytes: Vec<u8>| {
        let mut hash = Sha256::new();
        hash.update(&bytes[..24]);
        hash.update(&bytes[HEADER_BYTES..]);
        bytes[24..32].copy_from_slice(&hash.finalize()[..8]);
        bytes
    };
    // too many rows for the length; no rows; a length of 2^60 bytes; a length that is too short
    for (at, value) in [(43, 0x80), (40, 0), (23, 0x10), (17, 0)] {
        let mut bytes = good.clone();
        bytes[at] = value;
        assert!(matches!(read_key_head(&sealed(bytes.clone())), Err(Error::Malformed(_))), "byte {at} = {value}");
        assert!(read_key_head(&bytes).is_err());
    }
    for cut in 0..KEY_HEAD_BYTES {
        assert!(read_key_head(&good[..cut]).is_err());
    }

    let row = row(&params, PartKind::Galois(5), 1, 0);
    let good = write_row(&params, &row);
    let changed = |at: usize, value: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        let checksum = [&params_block(&params)[..], &bytes[..40], &bytes[ROW_HEADER_BYTES..]].concat();
        bytes[40..48].copy_from_slice(&Sha256::digest(checksum)[..CHECKSUM_BYTES]);
        (read_row(&head, &bytes), read_row_header(&head, &bytes))
    };
    assert!(changed(0, &[2]).0.is_ok());
    for (at, value) in [(0, 0), (0, 1), (0, 3), (0, 5), (1, 3), (2, 200), (3, 200), (4, 4), (4, 1), (4, 129), (7, 1)] {
        let (whole, header) = changed(at, &[value]);
        assert!(whole.is_err() && header.is_err(), "byte {at} = {value}");
    }
    assert!(changed(1, &[0]).0.is_err(), "the length of another level");
    assert!(matches!(changed(good.len() - 4, &[255; 4]).0, Err(Error::Malformed(_))), "a residue above its prime");
    for cut in [0, 1, ROW_HEADER_BYTES - 1, ROW_HEADER_BYTES, good.len() - 1] {
        assert!(read_row(&head, &good[..cut]).is_err());
    }
    let mut damaged = good.clone();
    for at in 0..good.len() {
        damaged[at] ^= 1;
        assert!(read_row(&head, &damaged).is_err(), "byte {at}");
        damaged[at] ^= 1;
    }
    let other = KeyHead { params: super::tests::params(64, 31, 2), ..head };
    assert!(read_row(&other, &good).is_err(), "a row of other parameters");
}

#[test]
fn a_part_to_the_sparse_secret_has_few_special_primes_and_is_refused_with_more() {
    for (poly_degree, scale_bits, max_depth, security) in [
        (64, 40, 4, SecurityLevel::Testing),
        (256, 30, 4, SecurityLevel::Testing),
        (32768, 30, 4, SecurityLevel::Bits128),
    ] {
        let literal = ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap: true };
        let params = Params::new(literal).unwrap();
        let kind = PartKind::ToSparse;
        let head = read_key_head(&write_key_head(&params, NAME, &[(kind, 0)])).unwrap();
        let good = row(&params, kind, 0, 0);
        let bytes = write_row(&params, &good);
        assert!(params.special_primes(kind).len() < params.special_count());
        assert_eq!(row_bytes_from(&params, &bytes[..8]), Ok(bytes.len()));
        assert!(read_row(&head, &bytes) == Ok(good.clone()));
        // the row of another part of level 0, which has all special primes
        let mut wide = write_row(&params, &row(&params, PartKind::Relinearization, 0, 0));
        assert!(wide.len() > bytes.len());
        wide[..8].copy_from_slice(&bytes[..8]);
        assert!(matches!(read_row(&head, &wide), Err(Error::Malformed(why)) if why.contains("bytes")));
        let high = write_row(
            &params,
            &KeyRow {
                header: RowHeader { level: 1, ..good.header },
                body: words(&params, &params.key_primes(kind, 1)),
            },
        );
        assert!(matches!(read_row_header(&head, &high), Err(Error::Params(why)) if why.contains("level 0")));
    }
    let params = params(64, 30, 2);
    for (header, is_row) in
        [([1, 2, 0, 0, 0, 0, 0, 0], true), ([3, 0, 0, 0, 0, 0, 0, 0], false), ([1, 3, 0, 0, 0, 0, 0, 0], false)]
    {
        assert_eq!(row_bytes_from(&params, &header).is_ok(), is_row, "{header:?}");
    }
    assert!(row_bytes_from(&params, &[1, 2, 0, 0, 0, 0, 0]).is_err());
}

#[test]
fn the_format_is_pinned_by_a_hash() {
    let params = params(64, 40, 2);
    let bytes = [
        write_ciphertext(&ciphertext(&params, 1), &params, NAME),
        write_seeded_ciphertext(&seeded(&params, 2), &params, NAME),
        write_public_key(&public_key(&params, 2)),
        write_key_head(&params, NAME, &[(PartKind::Relinearization, 2), (PartKind::Galois(3), 0)]),
        write_row(&params, &row(&params, PartKind::Relinearization, 2, 1)),
        write_row(&params, &row(&params, PartKind::Galois(3), 0, 0)),
        write_secret_key(&params, NAME, |out| out.extend([255; 64])),
    ]
    .concat();
    let digest: String = Sha256::digest(&bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest, "7522ea4fd5b628de", "the container format changed: raise its version");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_bytes_are_refused_without_a_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..600), tag in 5u8..9) {
        let params = params(64, 30, 1);
        if bytes.len() >= 40 {
            bytes[..8].copy_from_slice(&[b'A', b'N', b'G', b'O', 1, 0, tag, 0]);
            bytes[32..40].copy_from_slice(&params_block(&params));
            bytes = resealed(bytes);
        }
        prop_assert!(read_ciphertext(&bytes, &params, NAME).is_err());
        prop_assert!(read_public_key(&bytes).is_err());
        prop_assert!(read_key_head(&bytes).is_err());
        let head = KeyHead { params, fingerprint: NAME, rows: 1, bytes: 0 };
        let _ = read_row_header(&head, &bytes);
        prop_assert!(read_row(&head, &bytes).is_err());
    }
}
