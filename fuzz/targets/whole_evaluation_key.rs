//! Whole evaluation keys of both forms with a few bytes changed, cut off or added: an accepted key is sound.
#![no_main]

use std::sync::OnceLock;

use kernels::container::{Tag, frame, read_evaluation_key, write_evaluation_key};
use kernels::tfhe::keys::Masks;
use kernels::tfhe::{EvaluationKey, Preset, RING_MODULUS};
use libfuzzer_sys::fuzz_target;

/// Number of bytes that describe a change: the position (from the start or from the end), the kind, and the value.
const CHANGE_BYTES: usize = 5;

fuzz_target!(|bytes: &[u8]| {
    let Some((&which, changes)) = bytes.split_first() else { return };
    let keys = keys();
    let key = &keys[usize::from(which) % keys.len()];
    let reseal = which & 0x80 != 0;
    let mut changed = key.clone();
    for change in changes.chunks_exact(CHANGE_BYTES).take(16) {
        apply(&mut changed, change);
    }
    if reseal {
        changed = fuzz::sealed(&changed).unwrap_or(changed);
    }
    let Ok(read) = read_evaluation_key(&changed) else { return };
    check(&read);
    if matches!(read.masks, Masks::Ango(_)) {
        assert_eq!(write_evaluation_key(&read), changed, "an accepted container is written back unchanged");
    }
});

/// Makes one change: sets a byte, cuts bytes off or adds bytes.
fn apply(key: &mut Vec<u8>, change: &[u8]) {
    let [how, low, high, value, _] = *change else { unreachable!("chunks of five") };
    let at = usize::from(u16::from_le_bytes([low, high]));
    let place = match how % 4 {
        0 => at,
        1 => key.len().saturating_sub(1 + at),
        // near the place where the bodies of the first part of a tfhe-rs key end
        2 => (key.len() / 1000 * 997 + at).min(key.len().saturating_sub(1)),
        _ => {
            match how & 4 {
                0 => key.truncate(key.len().saturating_sub(at)),
                _ => key.resize(key.len() + at, value),
            }
            return;
        }
    };
    if let Some(byte) = key.get_mut(place) {
        *byte = value;
    }
}

/// Checks the properties that the kernels rely on.
fn check(key: &EvaluationKey) {
    let p = &key.params;
    let preset = key.preset.params();
    assert_eq!(
        (p.lwe_dimension, p.glwe_dimension, p.polynomial_size),
        (preset.lwe_dimension, preset.glwe_dimension, preset.polynomial_size)
    );
    assert_eq!(key.bootstrap_bodies.len(), p.bootstrap_body_words());
    assert_eq!(key.key_switch_bodies.len(), p.key_switch_body_words());
    let mut step = vec![0; p.rgsw_rows() * (p.glwe_dimension + 1) * p.polynomial_size];
    key.expand_bootstrap(p.lwe_dimension - 1, &mut step);
    assert!(step.iter().all(|&word| word < RING_MODULUS));
    let mut rows = vec![0; p.key_switch_level_count * (p.lwe_dimension + 1)];
    key.expand_key_switch(p.extracted_dimension() - 1, &mut rows);
}

/// Returns a sound key of each form, whose body words are all one.
fn keys() -> &'static [Vec<u8>; 2] {
    static KEYS: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    KEYS.get_or_init(|| [container(), compressed_server_key()])
}

fn container() -> Vec<u8> {
    let p = Preset::Fast128.params();
    let key = EvaluationKey {
        preset: Preset::Fast128,
        params: p,
        fingerprint: Some([1; 8]),
        masks: Masks::Ango([2; 32]),
        bootstrap_bodies: vec![1; p.bootstrap_body_words()],
        key_switch_bodies: vec![1; p.key_switch_body_words()],
    };
    let bytes = write_evaluation_key(&key);
    // the version differs, because it is newer
    assert_eq!(frame(Tag::EvaluationKey, key.preset, key.fingerprint, |_| ())[6..16], bytes[6..16]);
    bytes
}

/// Makes a `kernels::tfhe_rs` key that has one level in each part, so that it is small.
fn compressed_server_key() -> Vec<u8> {
    let p = Preset::Fast128.params();
    let (n, k, big_n) = (p.lwe_dimension, p.glwe_dimension, p.polynomial_size);
    let mut bytes = Vec::new();
    let mut put = |numbers: &[usize]| bytes.extend(numbers.iter().flat_map(|&number| (number as u64).to_le_bytes()));
    let bodies = n * (k + 1) * big_n;
    put(&[bodies]);
    put(&vec![0x0000_0001_0000_0001; bodies / 2]);
    // base 2^8, one level, seed, modulus
    put(&[k + 1, big_n, 8, 1, 5, 0, 0, 0, 32]);
    put(&[k * big_n]);
    put(&vec![0x0000_0001_0000_0001; k * big_n / 2]);
    put(&[2, 1, n + 1, 6, 0, 0, 0, 32]);
    bytes.extend(1u32.to_le_bytes());
    assert!(read_evaluation_key(&bytes).is_ok(), "the key to begin with is sound");
    bytes
}
