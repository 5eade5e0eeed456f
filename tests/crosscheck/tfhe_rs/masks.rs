//! An imported key with its masks written out equals the crate's key word for word, and its rows encrypt the same
//! values as the rows of Ango's keys.

use kernels::tfhe::EvaluationKey;
use kernels::tfhe::keys::Masks;
use kernels::tfhe::masks::{TfheRsSeed, bootstrap_masks, key_switch_masks};
use kernels::tfhe_rs::{looks_like_server_key, read_server_key};
use tfhe::boolean::server_key::CompressedServerKey;

use crate::fixture::{CONSERVATIVE, Client, FAST, clients};

#[test]
fn a_compressed_server_key_is_read_with_its_dimensions_bases_and_levels() {
    for client in clients() {
        assert!(looks_like_server_key(&client.server_key_bytes), "{}", client.name);
        let key = read(&client.server_key_bytes);
        let (_, _, parameters) = client.key.clone().into_raw_parts();
        assert_eq!(key.preset.name(), client.name.split(',').next().unwrap());
        assert_eq!(key.params.lwe_dimension, parameters.lwe_dimension.0);
        assert_eq!(key.params.glwe_dimension, parameters.glwe_dimension.0);
        assert_eq!(key.params.polynomial_size, parameters.polynomial_size.0);
        assert_eq!(key.params.bootstrap_base_log, parameters.pbs_base_log.0);
        assert_eq!(key.params.bootstrap_level_count, parameters.pbs_level.0);
        assert_eq!(key.params.key_switch_base, 1 << parameters.ks_base_log.0);
        assert_eq!(key.params.key_switch_level_count, parameters.ks_level.0);
        assert_eq!(key.fingerprint, None);
    }
}

#[test]
fn written_out_it_is_the_crates_own_key_word_for_word() {
    for client in clients() {
        let key = read(&client.server_key_bytes);
        assert_eq!(Expanded::of(&key), Expanded::by_the_crate(&client.server_key), "{}", client.name);
    }
}

#[test]
fn the_seeds_of_releases_1_0_to_1_5_begin_at_the_second_byte() {
    // In the old layout, a seed does not state the byte at which its stream begins: that is always byte 1. So the test
    // writes the same seeds in both layouts, in the new one with byte 1. The key that Ango reads from the old layout
    // must equal the key that the crate makes from the new layout.
    let begins_at_byte_1 = with_seeds(&FAST.server_key_bytes, |seed| {
        let mut seed = seed.to_vec();
        seed[36] = 1;
        seed
    });
    let old_layout = with_seeds(&FAST.server_key_bytes, |seed| seed[4..20].to_vec());
    assert_eq!(old_layout.len(), FAST.server_key_bytes.len() - 56);

    let by_the_crate: CompressedServerKey =
        bincode::deserialize(&begins_at_byte_1).expect("the crate reads its layout");
    assert!(looks_like_server_key(&old_layout));
    let ours = read(&old_layout);
    assert!(matches!(ours.masks, Masks::TfheRs { bootstrap: TfheRsSeed { first_byte: 1, .. }, .. }));
    assert_eq!(Expanded::of(&ours), Expanded::by_the_crate(&by_the_crate));
    assert_eq!(Expanded::of(&ours), Expanded::of(&read(&begins_at_byte_1)));
}

#[test]
fn rows_encrypt_what_our_own_keys_rows_encrypt() {
    for client in [&*FAST, &*CONSERVATIVE] {
        let key = read(&client.server_key_bytes);
        let expanded = Expanded::of(&key);
        let secrets = Secrets::of(client);
        let (k, size) = (key.params.glwe_dimension, key.params.polynomial_size);
        let row_words = (k + 1) * size;
        let rows = expanded.bootstrap.chunks_exact(row_words);
        // rows of the first and the last key bit suffice, because another test compares the whole stream word for word
        let (levels, last) = (key.params.bootstrap_level_count, key.params.lwe_dimension - 1);
        for (at, row) in rows.enumerate() {
            let (i, j, c) = (at / (levels * (k + 1)), at / (k + 1) % levels + 1, at % (k + 1));
            if i != 0 && i != last {
                continue;
            }
            let g = 1u32 << (32 - key.params.bootstrap_base_log * j);
            let bit = secrets.small[i] * g;
            let expected: Vec<u32> = match secrets.ring.chunks_exact(size).nth(c) {
                Some(polynomial) => polynomial.iter().map(|s| (s * bit).wrapping_neg()).collect(),
                None => (0..size).map(|t| if t == 0 { bit } else { 0 }).collect(),
            };
            // the standard deviation of the noise is 2^-24.8 of a turn, or 147 units of a word; ten deviations are
            // allowed
            assert_near(&ring_phase(row, &secrets.ring, size), &expected, 1500, client.name);
        }
        let levels = key.params.key_switch_level_count;
        for (at, row) in expanded.key_switch.chunks_exact(key.params.lwe_dimension + 1).enumerate() {
            let (i, j) = (at / levels, at % levels + 1);
            let g = ((1u64 << 32) / u64::from(key.params.key_switch_base).pow(j as u32)) as u32;
            let phase = phase(row, &secrets.small);
            // the standard deviation of the noise is 2^-13.65 of a turn, or 334,118 units of a word; ten deviations are
            // allowed
            assert_near(&[phase], &[secrets.ring[i] * g], 3_400_000, client.name);
        }
    }
}

fn read(bytes: &[u8]) -> EvaluationKey {
    read_server_key(bytes).expect("a preset's dimensions")
}

/// Returns the object's bytes after `replace` has changed both seeds. A seed has 44 bytes in today's layout.
fn with_seeds(bytes: &[u8], replace: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    const SEED: usize = 44;
    let bodies = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let first = 8 + 4 * bodies + 32;
    let second = bytes.len() - 4 - 24 - SEED;
    let [a, b] = [first, second].map(|at| replace(&bytes[at..at + SEED]));
    [&bytes[..first], &a, &bytes[first + SEED..second], &b, &bytes[second + SEED..]].concat()
}

/// The bootstrapping key, `[n][l][k + 1][k + 1][N]`, and the key-switching key, `[kN][levels][n + 1]`. Both have masks
/// and bodies, level 1 first.
#[derive(PartialEq)]
struct Expanded {
    bootstrap: Vec<u32>,
    key_switch: Vec<u32>,
}

impl std::fmt::Debug for Expanded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x?}.., {:x?}..", &self.bootstrap[..4], &self.key_switch[..4])
    }
}

impl Expanded {
    fn of(key: &EvaluationKey) -> Self {
        let p = &key.params;
        let Masks::TfheRs { bootstrap, key_switch } = key.masks else { panic!("not an imported key") };
        let mut masks = vec![0; p.rgsw_rows() * p.extracted_dimension()];
        let mut expanded = Self { bootstrap: Vec::new(), key_switch: Vec::new() };
        for (i, bodies) in key.bootstrap_bodies.chunks_exact(p.rgsw_rows() * p.polynomial_size).enumerate() {
            bootstrap_masks(bootstrap, p, i, &mut masks);
            let rows = masks.chunks_exact(p.extracted_dimension()).zip(bodies.chunks_exact(p.polynomial_size));
            expanded.bootstrap.extend(rows.flat_map(|(mask, body)| [mask, body]).flatten());
        }
        let mut masks = vec![0; p.key_switch_level_count * p.lwe_dimension];
        for (i, bodies) in key.key_switch_bodies.chunks_exact(p.key_switch_level_count).enumerate() {
            key_switch_masks(key_switch, p, i, &mut masks);
            let rows = masks.chunks_exact(p.lwe_dimension).zip(bodies.chunks_exact(1));
            expanded.key_switch.extend(rows.flat_map(|(mask, body)| [mask, body]).flatten());
        }
        expanded
    }

    fn by_the_crate(key: &CompressedServerKey) -> Self {
        let (bootstrap, key_switch, _) = key.clone().into_raw_parts();
        let levels = bootstrap.decomposition_level_count().0;
        let bootstrap = bootstrap.decompress_into_lwe_bootstrap_key();
        let level = bootstrap.glwe_size().0 * bootstrap.glwe_size().0 * bootstrap.polynomial_size().0;
        let key_switch_levels = key_switch.decomposition_level_count().0;
        let key_switch = key_switch.decompress_into_lwe_keyswitch_key();
        let row = key_switch.output_lwe_size().0;
        Self {
            bootstrap: reversed(&bootstrap.into_container(), levels, level),
            key_switch: reversed(&key_switch.into_container(), key_switch_levels, row),
        }
    }
}

/// The words with the levels of each item in reverse order.
fn reversed(words: &[u32], levels: usize, level: usize) -> Vec<u32> {
    words.chunks_exact(levels * level).flat_map(|item| item.chunks_exact(level).rev()).flatten().copied().collect()
}

struct Secrets {
    /// `[n]`
    small: Vec<u32>,
    /// `[k][N]`
    ring: Vec<u32>,
}

impl Secrets {
    fn of(client: &Client) -> Self {
        let (small, ring, _) = client.key.clone().into_raw_parts();
        Self { small: small.into_container(), ring: ring.into_container() }
    }
}

/// `b - <a, s>`
fn phase(row: &[u32], secret: &[u32]) -> u32 {
    let (body, mask) = row.split_last().unwrap();
    mask.iter().zip(secret).fold(*body, |phase, (a, s)| phase.wrapping_sub(a.wrapping_mul(*s)))
}

/// `B - sum A_c S_c` modulo `X^N + 1`, schoolbook.
fn ring_phase(row: &[u32], secret: &[u32], size: usize) -> Vec<u32> {
    let (masks, body) = row.split_at(row.len() - size);
    let mut phase = body.to_vec();
    for (mask, secret) in masks.chunks_exact(size).zip(secret.chunks_exact(size)) {
        for (u, &s) in secret.iter().enumerate().filter(|(_, s)| **s == 1) {
            for (v, &a) in mask.iter().enumerate() {
                let (at, negative) = ((u + v) % size, u + v >= size);
                let product = a.wrapping_mul(s);
                phase[at] = if negative { phase[at].wrapping_add(product) } else { phase[at].wrapping_sub(product) };
            }
        }
    }
    phase
}

fn assert_near(words: &[u32], expected: &[u32], bound: i32, what: &str) {
    for (word, expected) in words.iter().zip(expected) {
        let error = word.wrapping_sub(*expected) as i32;
        assert!(error.abs() < bound, "{what}: {word:#x} is {error} from {expected:#x}");
    }
}
