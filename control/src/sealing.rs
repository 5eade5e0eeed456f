//! Secrets at rest that the service needs back: sealed with XChaCha20-Poly1305 under a key of the server's secret, so that
//! the database alone does not give them away.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

use crate::ids;
use crate::secrets::Key;

/// Bytes of the random nonce in front of what is sealed.
const NONCE_BYTES: usize = 24;

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
    pub fn seal(&self, name: &str, secret: &[u8]) -> Vec<u8> {
        let nonce = ids::random::<NONCE_BYTES>();
        let payload = Payload { msg: secret, aad: name.as_bytes() };
        let sealed = self.cipher.encrypt(&XNonce::from(nonce), payload).expect("a secret fits in memory");
        [&nonce[..], &sealed].concat()
    }

    /// Opens what [`Seal::seal`] made. `None`: it was altered, or sealed under another key or to another name.
    pub fn open(&self, name: &str, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>()?;
        let payload = Payload { msg: sealed, aad: name.as_bytes() };
        self.cipher.decrypt(&XNonce::from(*nonce), payload).ok().map(Zeroizing::new)
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
        assert_eq!(seal.open("n", &sealed).unwrap().as_slice(), b"secret");
        assert!(Seal::new(&Key::new([2; 32])).open("n", &sealed).is_none());
        assert!(seal.open("m", &sealed).is_none());
        assert!(seal.open("n", &sealed[..NONCE_BYTES - 1]).is_none());
        for at in 0..sealed.len() {
            let mut altered = sealed.clone();
            altered[at] ^= 1;
            assert!(seal.open("n", &altered).is_none());
        }
    }
}
