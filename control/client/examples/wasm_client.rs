//! The client in a browser or in Node, behind a plain C interface: a key for bits (TFHE) and a key for numbers (CKKS),
//! with encryption and decryption. `wasm_client.mjs` runs it.
#![cfg(target_arch = "wasm32")]

use std::cell::RefCell;

use client::{Preset, SecretKey, ckks};
use kernels::tfhe::Lwe;

thread_local! {
    static KEY: RefCell<Option<SecretKey>> = const { RefCell::new(None) };
    /// The ciphertext of the last call, for the host to read.
    static WORDS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    static KEY_OF_NUMBERS: RefCell<Option<ckks::SecretKey>> = const { RefCell::new(None) };
    /// Numbers to encrypt, then decrypted numbers.
    static NUMBERS: RefCell<Vec<f64>> = const { RefCell::new(Vec::new()) };
}

#[link(wasm_import_module = "env")]
unsafe extern "C" {
    /// The host fills `length` bytes at `out` from its cryptographic generator.
    fn random_fill(out: *mut u8, length: usize);
}

/// The source of random bytes for `getrandom` (`--cfg getrandom_backend="custom"`).
#[unsafe(no_mangle)]
unsafe extern "Rust" fn __getrandom_v03_custom(out: *mut u8, length: usize) -> Result<(), getrandom::Error> {
    // SAFETY: the caller promises that `length` bytes at `out` may be written
    unsafe { random_fill(out, length) };
    Ok(())
}

/// Makes a secret key of the preset with this index in `Preset::ALL`. Returns `n + 1`, the number of words of a
/// ciphertext.
#[unsafe(no_mangle)]
pub extern "C" fn generate(preset: usize) -> usize {
    let preset = Preset::ALL[preset];
    KEY.replace(Some(SecretKey::generate(preset)));
    preset.params().lwe_dimension + 1
}

/// Makes the evaluation key. Returns its number of words.
#[unsafe(no_mangle)]
pub extern "C" fn evaluation_key() -> usize {
    let key = KEY.with_borrow(|key| key.as_ref().expect("a key was made").evaluation_key());
    key.bootstrap_bodies.len() + key.key_switch_bodies.len()
}

/// Encrypts a bit. Returns the address of the ciphertext's words.
#[unsafe(no_mangle)]
pub extern "C" fn encrypt(bit: u32) -> *const u32 {
    let ciphertext = KEY.with_borrow(|key| key.as_ref().expect("a key was made").encrypt(bit == 1));
    WORDS.set(ciphertext.words().to_vec());
    WORDS.with_borrow(|words| words.as_ptr())
}

/// Decrypts the words at the address that [`encrypt`] returned.
#[unsafe(no_mangle)]
pub extern "C" fn decrypt() -> u32 {
    let ciphertext = Lwe::new(WORDS.with_borrow(Clone::clone));
    KEY.with_borrow(|key| key.as_ref().expect("a key was made").decrypt(&ciphertext)).into()
}

/// Makes a CKKS secret key for tests only (no security), with a scale of 40 bits and two levels. Returns the address of
/// room for `poly_degree / 2` numbers, as many as a ciphertext holds.
#[unsafe(no_mangle)]
pub extern "C" fn generate_for_numbers(poly_degree: usize) -> *mut f64 {
    let security = ckks::SecurityLevel::Testing;
    let literal = ckks::ParamsLiteral { poly_degree, scale_bits: 40, max_depth: 2, security, bootstrap: false };
    let params = ckks::Params::new(literal).expect("parameters of the specification");
    NUMBERS.set(vec![0.0; params.slots()]);
    KEY_OF_NUMBERS.set(Some(ckks::SecretKey::generate(&params)));
    NUMBERS.with_borrow_mut(|numbers| numbers.as_mut_ptr())
}

/// Makes the part of the CKKS evaluation key for products. Returns the part's number of bytes.
#[unsafe(no_mangle)]
pub extern "C" fn relinearization_key() -> usize {
    KEY_OF_NUMBERS.with_borrow(|key| {
        let parts = [(ckks::PartKind::Relinearization, 2)];
        key.as_ref().expect("a key was made").evaluation_key(&parts).map(|piece| piece.len()).sum()
    })
}

/// Encrypts the numbers, with the secret key or with a public key, and decrypts them in place. Returns the number of
/// correct bits after the binary point.
#[unsafe(no_mangle)]
pub extern "C" fn encrypt_and_decrypt(by_public_key: bool) -> f64 {
    KEY_OF_NUMBERS.with_borrow(|key| {
        let key = key.as_ref().expect("a key was made");
        let numbers = NUMBERS.with_borrow(Clone::clone);
        let ciphertext = match by_public_key {
            true => ckks::Encryptor::new(key.public_key(2)).encrypt(&numbers, 1.0),
            false => key.encrypt(&numbers, 1.0).map(|seeded| seeded.expand(key.params())),
        };
        let decrypted = key.decrypt(&ciphertext.expect("numbers within 1")).expect("room");
        NUMBERS.with_borrow_mut(|numbers| numbers.copy_from_slice(&decrypted.values));
        decrypted.precision_bits
    })
}
