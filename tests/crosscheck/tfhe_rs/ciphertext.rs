//! Bits of each library can be read by the other.

use kernels::tfhe::Lwe;
use kernels::tfhe_rs::{looks_like_ciphertext, read_ciphertext, write_ciphertext};
use tfhe::boolean::prelude::*;

use crate::fixture::{FAST, bytes_of, clients};

#[test]
fn a_ciphertext_is_read_and_written_back_byte_for_byte() {
    for client in clients() {
        for bit in [false, true] {
            let bytes = bytes_of(&client.key.encrypt(bit));
            assert!(looks_like_ciphertext(&bytes));
            let lwe = read_ciphertext(&bytes, dimension(&client.key)).expect("the key's dimension");
            assert_eq!(write_ciphertext(&lwe), bytes, "{}", client.name);
        }
    }
}

#[test]
fn what_we_write_is_decrypted_by_the_crate() {
    for client in clients() {
        for bit in [false, true] {
            let lwe = read_ciphertext(&bytes_of(&client.key.encrypt(bit)), dimension(&client.key)).unwrap();
            let negated = Lwe::new(lwe.words().iter().map(|word| word.wrapping_neg()).collect());
            let back: Ciphertext = bincode::deserialize(&write_ciphertext(&negated)).expect("the crate's layout");
            assert_eq!(client.key.decrypt(&back), !bit, "{}", client.name);
        }
    }
}

#[test]
fn a_compressed_ciphertext_expands_to_what_the_crate_decompresses() {
    for client in clients() {
        let compressed = client.key.encrypt_compressed(true);
        let bytes = bytes_of(&compressed);
        assert!(looks_like_ciphertext(&bytes));
        let lwe = read_ciphertext(&bytes, dimension(&client.key)).expect("the key's dimension");
        assert_eq!(write_ciphertext(&lwe), bytes_of(&compressed.decompress()), "{}", client.name);
    }
}

#[test]
fn a_compressed_ciphertext_of_releases_1_0_to_1_5_expands_from_the_second_byte() {
    let today = bytes_of(&FAST.key.encrypt_compressed(true));
    let mut begins_at_byte_1 = today.clone();
    begins_at_byte_1[12 + 36] = 1;
    let by_the_crate: CompressedCiphertext = bincode::deserialize(&begins_at_byte_1).unwrap();
    let old_layout = [&today[..12], &today[16..32], &today[56..]].concat();
    assert_eq!(old_layout.len(), 52);
    assert!(looks_like_ciphertext(&old_layout));
    let lwe = read_ciphertext(&old_layout, dimension(&FAST.key)).expect("the older layout");
    assert_eq!(write_ciphertext(&lwe), bytes_of(&by_the_crate.decompress()));
}

#[test]
fn a_trivial_ciphertext_is_the_bit_without_a_mask() {
    for bit in [false, true] {
        let bytes = bytes_of(&Ciphertext::Trivial(bit));
        assert!(looks_like_ciphertext(&bytes));
        assert_eq!(read_ciphertext(&bytes, 636).unwrap(), Lwe::trivial(636, bit));
        let written: Ciphertext = bincode::deserialize(&write_ciphertext(&Lwe::trivial(636, bit))).unwrap();
        assert_eq!(FAST.key.decrypt(&written), bit);
    }
}

fn dimension(key: &ClientKey) -> usize {
    let (secret, _, _) = key.clone().into_raw_parts();
    secret.lwe_dimension().0
}
