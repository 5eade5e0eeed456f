//! The client in a browser or in Node, by a plain C interface: one key, bits in and out. `wasm_client.mjs` runs it.
#![cfg(target_arch = "wasm32")]

use std::cell::RefCell;

use client::{Preset, SecretKey};
use kernels::tfhe::Lwe;

thread_local! {
    static KEY: RefCell<Option<SecretKey>> = const { RefCell::new(None) };
    /// The ciphertext of the last call, for the host to read.
    static WORDS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

#[link(wasm_import_module = "env")]
unsafe extern "C" {
    /// The host fills `length` bytes at `out` from its cryptographic generator.
    fn random_fill(out: *mut u8, length: usize);
}

/// Where `getrandom` gets its bytes (`--cfg getrandom_backend="custom"`).
#[unsafe(no_mangle)]
unsafe extern "Rust" fn __getrandom_v03_custom(out: *mut u8, length: usize) -> Result<(), getrandom::Error> {
    // SAFETY: the caller owns these bytes
    unsafe { random_fill(out, length) };
    Ok(())
}

/// Makes a secret key of preset number `preset`; answers its ciphertexts' words, `n + 1`.
#[unsafe(no_mangle)]
pub extern "C" fn generate(preset: usize) -> usize {
    let preset = Preset::ALL[preset];
    KEY.replace(Some(SecretKey::generate(preset)));
    preset.params().lwe_dimension + 1
}

/// Makes the evaluation key; answers its words.
#[unsafe(no_mangle)]
pub extern "C" fn evaluation_key() -> usize {
    let key = KEY.with_borrow(|key| key.as_ref().expect("a key was made").evaluation_key());
    key.bootstrap_bodies.len() + key.key_switch_bodies.len()
}

/// Encrypts a bit; answers where its words lie.
#[unsafe(no_mangle)]
pub extern "C" fn encrypt(bit: u32) -> *const u32 {
    let ciphertext = KEY.with_borrow(|key| key.as_ref().expect("a key was made").encrypt(bit == 1));
    WORDS.set(ciphertext.words().to_vec());
    WORDS.with_borrow(|words| words.as_ptr())
}

/// Decrypts the words where [`encrypt`] left them.
#[unsafe(no_mangle)]
pub extern "C" fn decrypt() -> u32 {
    let ciphertext = Lwe::new(WORDS.with_borrow(Clone::clone));
    KEY.with_borrow(|key| key.as_ref().expect("a key was made").decrypt(&ciphertext)).into()
}
