//! Seals bytes at rest with XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03). A reader without the key learns only the
//! number of bytes.
//!
//! This code is a separate crate, so that tests use an optimised cipher: tests seal evaluation keys of many megabytes.

use chacha20poly1305::aead::{AeadInOut, KeyInit};
use chacha20poly1305::{Tag, XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

/// Bytes of the random nonce before the ciphertext.
const NONCE_BYTES: usize = 24;
/// Bytes of the tag after the ciphertext.
const TAG_BYTES: usize = 16;
/// Bytes that sealing adds.
pub const EXTRA_BYTES: usize = NONCE_BYTES + TAG_BYTES;

/// Seals and opens bytes. The key is overwritten on drop.
pub struct Seal {
    cipher: XChaCha20Poly1305,
}

impl Seal {
    /// A seal with this key.
    pub fn new(key: &[u8; 32]) -> Seal {
        Seal { cipher: XChaCha20Poly1305::new(key.into()) }
    }

    /// Seals bytes and binds them to a name. Sealed bytes open only under the same name.
    pub fn seal(&self, name: impl AsRef<[u8]>, secret: &[u8]) -> Vec<u8> {
        let mut sealed = Vec::with_capacity(secret.len() + EXTRA_BYTES);
        sealed.extend_from_slice(secret);
        self.sealed(name.as_ref(), sealed)
    }

    /// Like [`Seal::seal`], but in the secret's own memory, so that many megabytes are not in memory twice. If the
    /// vector's capacity is not at least [`EXTRA_BYTES`] larger than its length, the vector is moved, and its old
    /// memory is not overwritten.
    pub fn seal_in_place(&self, name: impl AsRef<[u8]>, secret: Vec<u8>) -> Vec<u8> {
        self.sealed(name.as_ref(), secret)
    }

    /// Opens sealed bytes. `None`: the bytes were altered, or sealed under another key or to another name.
    pub fn open(&self, name: impl AsRef<[u8]>, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        self.opened(name.as_ref(), sealed.to_vec())
    }

    /// Like [`Seal::open`], but in the memory of the sealed bytes.
    pub fn open_in_place(&self, name: impl AsRef<[u8]>, sealed: Vec<u8>) -> Option<Zeroizing<Vec<u8>>> {
        self.opened(name.as_ref(), sealed)
    }

    fn sealed(&self, name: &[u8], mut secret: Vec<u8>) -> Vec<u8> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).expect("the operating system gives random bytes");
        let length = secret.len();
        secret.reserve_exact(EXTRA_BYTES);
        secret.resize(NONCE_BYTES + length, 0);
        secret.copy_within(..length, NONCE_BYTES);
        secret[..NONCE_BYTES].copy_from_slice(&nonce);
        let text = (&mut secret[NONCE_BYTES..]).into();
        let tag = self.cipher.encrypt_inout_detached(&XNonce::from(nonce), name, text);
        secret.extend_from_slice(&tag.expect("a secret fits in memory"));
        secret
    }

    fn opened(&self, name: &[u8], sealed: Vec<u8>) -> Option<Zeroizing<Vec<u8>>> {
        // from here on the bytes may be decrypted, so they are overwritten on drop
        let mut sealed = Zeroizing::new(sealed);
        let (nonce, rest) = sealed.split_first_chunk_mut::<NONCE_BYTES>()?;
        let (text, tag) = rest.split_last_chunk_mut::<TAG_BYTES>()?;
        let (nonce, tag, length) = (XNonce::from(*nonce), Tag::from(*tag), text.len());
        self.cipher.decrypt_inout_detached(&nonce, name, text.into(), &tag).ok()?;
        sealed.copy_within(NONCE_BYTES..NONCE_BYTES + length, 0);
        sealed.truncate(length);
        Some(sealed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_opens_whole_under_the_same_key_and_name_only() {
        let seal = Seal::new(&[1; 32]);
        let sealed = seal.seal("n", b"secret");
        assert_eq!(sealed.len(), 6 + EXTRA_BYTES);
        assert!(!sealed.windows(6).any(|window| window == b"secret"));
        assert_ne!(sealed, seal.seal("n", b"secret"));
        assert_eq!(seal.open("n", &sealed).unwrap().as_slice(), b"secret");
        assert!(Seal::new(&[2; 32]).open("n", &sealed).is_none());
        assert!(seal.open("m", &sealed).is_none());
        for length in 0..sealed.len() {
            assert!(seal.open("n", &sealed[..length]).is_none());
        }
        for at in 0..sealed.len() {
            let mut altered = sealed.clone();
            altered[at] ^= 1;
            assert!(seal.open("n", &altered).is_none());
        }
    }

    #[test]
    fn what_has_room_for_its_seal_stays_where_it_is() {
        let seal = Seal::new(&[1; 32]);
        for length in [0, 1, 23, 24, 25, 1000] {
            let mut secret = Vec::with_capacity(length + EXTRA_BYTES);
            secret.extend((0..length).map(|i| i as u8));
            let (place, expected) = (secret.as_ptr(), secret.clone());
            let sealed = seal.seal_in_place("n", secret);
            assert_eq!((sealed.as_ptr(), sealed.len()), (place, length + EXTRA_BYTES));
            let opened = seal.open_in_place("n", sealed).unwrap();
            assert_eq!((opened.as_ptr(), opened.as_slice()), (place, &expected[..]));
        }
    }
}
