//! Secrets and objects at rest that the service needs back: sealed with XChaCha20-Poly1305 under keys of the server's secret,
//! so that the database and the bucket alone do not give them away.

use api::AccountId;
use chacha20poly1305::aead::{AeadInOut, KeyInit};
use chacha20poly1305::{Tag, XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

use crate::ids;
use crate::secrets::{Key, derived};

/// Bytes of the random nonce in front of what is sealed.
const NONCE_BYTES: usize = 24;
/// Bytes of the tag behind it.
const TAG_BYTES: usize = 16;

/// Seals and opens secrets.
pub struct Seal {
    cipher: XChaCha20Poly1305,
}

impl Seal {
    /// The seal of a key.
    pub fn new(key: &Key) -> Seal {
        Seal { cipher: XChaCha20Poly1305::new(&(**key).into()) }
    }

    /// Seals bytes to a name: they open under the same name only.
    pub fn seal(&self, name: impl AsRef<[u8]>, secret: &[u8]) -> Vec<u8> {
        let nonce = ids::random::<NONCE_BYTES>();
        let mut sealed = Vec::with_capacity(NONCE_BYTES + secret.len() + TAG_BYTES);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(secret);
        let secret = (&mut sealed[NONCE_BYTES..]).into();
        let tag = self.cipher.encrypt_inout_detached(&XNonce::from(nonce), name.as_ref(), secret);
        sealed.extend_from_slice(&tag.expect("a secret fits in memory"));
        sealed
    }

    /// Opens what [`Seal::seal`] made. `None`: it was altered, or sealed under another key or to another name.
    pub fn open(&self, name: impl AsRef<[u8]>, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>()?;
        let (sealed, tag) = sealed.split_last_chunk::<TAG_BYTES>()?;
        let mut secret = Zeroizing::new(sealed.to_vec());
        let (nonce, tag) = (XNonce::from(*nonce), Tag::from(*tag));
        self.cipher.decrypt_inout_detached(&nonce, name.as_ref(), secret.as_mut_slice().into(), &tag).ok()?;
        Some(secret)
    }
}

/// The seals of accounts. Each has a key of its own: what an account gave is of no use under another's.
#[derive(Clone)]
pub struct AccountSeals {
    root: Key,
}

impl AccountSeals {
    /// Derived from this key.
    pub fn new(root: Key) -> AccountSeals {
        AccountSeals { root }
    }

    /// The seal of an account.
    pub fn of(&self, account: &AccountId) -> Seal {
        Seal::new(&derived(&self.root, account.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_opens_whole_under_the_same_key_and_name_only() {
        let seal = Seal::new(&Key::new([1; 32]));
        let sealed = seal.seal("n", b"secret");
        assert!(!sealed.windows(6).any(|window| window == b"secret"));
        assert_ne!(sealed, seal.seal("n", b"secret"));
        assert_eq!(seal.open("n", &sealed).unwrap().as_slice(), b"secret");
        assert!(Seal::new(&Key::new([2; 32])).open("n", &sealed).is_none());
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
    fn accounts_do_not_open_what_another_sealed() {
        let seals = AccountSeals::new(Key::new([1; 32]));
        let [one, other] = [1, 2].map(|bits| seals.of(&AccountId::from_bits(bits)));
        let sealed = one.seal("n", b"secret");
        assert!(other.open("n", &sealed).is_none());
        assert!(seals.of(&AccountId::from_bits(1)).open("n", &sealed).is_some());
    }
}
