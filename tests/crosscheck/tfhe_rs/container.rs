//! The service's reader of containers distinguishes the forms of tfhe-rs from Ango's forms.

use kernels::container::{Error, Form, read_ciphertext, read_evaluation_key, write_ciphertext};
use kernels::tfhe_rs::read_server_key;
use tfhe::boolean::prelude::*;

use crate::fixture::{CONSERVATIVE, FAST, bytes_of, clients};

#[test]
fn a_server_key_comes_in_as_an_evaluation_key() {
    for client in clients() {
        let key = read_evaluation_key(&client.server_key_bytes).expect("a preset's dimensions");
        assert!(key == read_server_key(&client.server_key_bytes).unwrap(), "{}", client.name);
    }
}

#[test]
fn a_client_key_is_refused_as_a_secret_wherever_it_is_sent() {
    let secret = bytes_of(&FAST.key);
    assert_eq!(read_evaluation_key(&secret).unwrap_err(), Error::SecretKey);
    let preset = read_server_key(&FAST.server_key_bytes).unwrap().preset;
    assert_eq!(read_ciphertext(&secret, preset, None).unwrap_err(), Error::SecretKey);
}

#[test]
fn other_objects_of_the_crate_are_no_evaluation_keys() {
    // the service does not accept the expanded key, which is four times as large and depends on the crate's transform
    let expanded = bytes_of(&FAST.server_key.decompress());
    assert_eq!(read_evaluation_key(&expanded).unwrap_err(), Error::UnknownForm);
    let public = bytes_of(&CompressedPublicKey::new(&FAST.key));
    assert!(read_evaluation_key(&public).is_err());
    assert!(read_evaluation_key(&bytes_of(&FAST.key.encrypt(true))).is_err());
}

#[test]
fn ciphertexts_of_all_three_forms_go_back_as_the_crate_reads_them() {
    for client in [&*FAST, &*CONSERVATIVE] {
        let preset = read_server_key(&client.server_key_bytes).unwrap().preset;
        for bytes in [
            bytes_of(&client.key.encrypt(true)),
            bytes_of(&client.key.encrypt_compressed(true)),
            bytes_of(&Ciphertext::Trivial(true)),
        ] {
            // the forms of tfhe-rs carry no fingerprint, so the session's fingerprint is not compared
            let (lwe, form) = read_ciphertext(&bytes, preset, Some([7; 8])).expect("a bit under this key");
            assert_eq!(form, Form::TfheRs);
            let back = write_ciphertext(&lwe, preset, None, form);
            assert!(client.key.decrypt(&bincode::deserialize(&back).expect("the crate's layout")), "{}", client.name);
        }
    }
}
