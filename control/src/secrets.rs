//! The server's secret, and the keys derived from it, one for each purpose.
//!
//! Nodes on one database need the same secret: `ANGO_SECRET`. A single node makes its own and stores it in its data
//! folder.

use anyhow::bail;
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use store::Store;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::data_dir::DataDir;

/// A 256-bit key, overwritten on drop.
pub type Key = Zeroizing<[u8; 32]>;

/// The server's secret: 256 bits. `Debug` hides the value.
#[derive(Clone)]
pub struct ServerSecret(pub Zeroizing<[u8; 32]>);

impl ServerSecret {
    /// Reads the secret. The error does not quote the text, because the text may be almost right.
    ///
    /// # Errors
    /// The form that the text must have.
    pub fn read(text: &str) -> Result<ServerSecret, &'static str> {
        let mut secret = ServerSecret(Zeroizing::default());
        hex::decode_to_slice(text, &mut secret.0[..])
            .map_err(|_| "must be 64 hexadecimal characters, as `openssl rand -hex 32` prints")?;
        Ok(secret)
    }
}

impl std::fmt::Debug for ServerSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerSecret(..)")
    }
}

/// A digest of a text: HMAC-SHA-256 under a key of the server, or SHA-256.
pub type Digest = [u8; 32];

/// The key under which secrets are digested.
pub struct Pepper(pub Key);

impl Pepper {
    /// Computes the digest of a secret. The database stores the digest in place of the secret.
    pub fn digest(&self, key: &str) -> Digest {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0[..]).expect("HMAC takes any key length");
        mac.update(key.as_bytes());
        mac.finalize().into_bytes().into()
    }
}

/// The server's secret, from which keys are derived.
pub struct Secrets {
    root: Key,
}

/// The purpose of a derived key. The names below are part of the derivation, so they never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Root of the accounts' keys, which encrypt stored answers (readings I5) and objects.
    Accounts,
    /// Authenticates page cursors (readings I7).
    Cursors,
    /// Encrypts the signing keys of the embedded issuer (readings A10).
    SigningKeys,
    /// Digests tokens of sessions and links (readings A10, A11).
    Tokens,
    /// Digests stored client addresses (readings X16).
    Addresses,
    /// Digests e-mails for the counts of wrong passwords.
    Emails,
    /// Encrypts the ids of gate sessions, which every node of a database lists (readings X16).
    SessionIds,
    /// Encrypts the next refresh token, for the grace period in which the old refresh token still returns it.
    RefreshTokens,
    /// Authenticates the addresses of invoice pages.
    InvoicePages,
    /// Digests the ids of accounts for workers.
    WorkAccounts,
    /// Seals the data keys of sessions of a fleet. Workers have this key and no other.
    Fleet,
    /// Stored in the database, so that nodes can check that they have the same secret.
    Recognition,
}

impl Purpose {
    fn name(self) -> &'static str {
        match self {
            Purpose::Accounts => "ango accounts",
            Purpose::Cursors => "ango page cursors",
            Purpose::SigningKeys => "ango signing keys",
            Purpose::Tokens => "ango tokens",
            Purpose::Addresses => "ango addresses",
            Purpose::Emails => "ango e-mails",
            Purpose::SessionIds => "ango session ids",
            Purpose::RefreshTokens => "ango refresh tokens",
            Purpose::InvoicePages => "ango invoice pages",
            Purpose::WorkAccounts => "ango accounts of work",
            Purpose::Fleet => "ango fleet",
            Purpose::Recognition => "ango recognition",
        }
    }
}

impl Secrets {
    /// Loads the secret of the settings. If the settings have none, loads the secret of the data folder, which the
    /// first start makes.
    ///
    /// # Errors
    /// When the folder has another secret and the database has API keys made under it.
    pub fn load(given: Option<&ServerSecret>, folder: &DataDir, has_keys: bool) -> anyhow::Result<Secrets> {
        let Some(given) = given else {
            return Ok(Secrets { root: folder.pepper(has_keys)? });
        };
        if has_keys
            && let Some(kept) = folder.kept_pepper()?
            && !bool::from(kept[..].ct_eq(&given.0[..]))
        {
            bail!(
                "ANGO_SECRET: must be the secret in {}, in hexadecimal, because API keys were made under that secret",
                folder.pepper_path().display()
            );
        }
        Ok(Secrets { root: given.0.clone() })
    }

    /// Refuses a database whose keys were made under another secret.
    pub async fn check(&self, store: &Store, has_keys: bool) -> anyhow::Result<()> {
        if !has_keys {
            store.forget_server_secret().await?;
        }
        if !store.is_server_secret(&self.key(Purpose::Recognition)).await? {
            bail!(
                "ANGO_SECRET: the database's API keys were made under another secret; all nodes of a database need the same secret"
            );
        }
        Ok(())
    }

    /// Returns the key under which API keys are digested. This key is the secret itself, for compatibility with
    /// versions that derived no keys.
    pub fn pepper(&self) -> Pepper {
        Pepper(self.root.clone())
    }

    /// Derives the key for a purpose.
    pub fn key(&self, purpose: Purpose) -> Key {
        derived(&self.root, purpose.name())
    }
}

/// Derives a key for a name: HKDF-SHA-256 (RFC 5869) without salt, with the name as info.
pub fn derived(from: &Key, name: &str) -> Key {
    let mut key = Key::default();
    let hkdf = Hkdf::<Sha256>::new(None, &from[..]);
    hkdf.expand(name.as_bytes(), &mut key[..]).expect("32 bytes are fewer than 255 hashes");
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    const PURPOSES: [Purpose; 11] = [
        Purpose::Accounts,
        Purpose::Cursors,
        Purpose::SigningKeys,
        Purpose::Tokens,
        Purpose::Addresses,
        Purpose::Emails,
        Purpose::SessionIds,
        Purpose::RefreshTokens,
        Purpose::InvoicePages,
        Purpose::WorkAccounts,
        Purpose::Recognition,
    ];

    fn given(secret: [u8; 32]) -> ServerSecret {
        ServerSecret(Zeroizing::new(secret))
    }

    #[test]
    fn every_purpose_has_a_key_of_its_own_and_none_is_the_secret() {
        let secrets = Secrets { root: Zeroizing::new([7; 32]) };
        let mut keys: Vec<[u8; 32]> = PURPOSES.iter().map(|&purpose| *secrets.key(purpose)).collect();
        keys.push([7; 32]);
        keys.push(*Secrets { root: Zeroizing::new([8; 32]) }.key(Purpose::Cursors));
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), PURPOSES.len() + 2);
        assert_eq!(*secrets.key(Purpose::Cursors), *secrets.key(Purpose::Cursors));
    }

    #[test]
    fn a_given_secret_makes_no_file_and_works_in_every_folder() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let digests = [first.path(), second.path()].map(|path| {
            let folder = DataDir::open(path).unwrap();
            let secrets = Secrets::load(Some(&given([3; 32])), &folder, true).unwrap();
            assert!(!folder.pepper_path().exists());
            secrets.pepper().digest("k")
        });
        assert_eq!(digests[0], digests[1]);
    }

    #[test]
    fn a3_keys_that_were_made_under_the_folder_s_secret_go_on_under_the_same_one_given() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path()).unwrap();
        let own = Secrets::load(None, &data, false).unwrap();
        let same = Secrets::load(Some(&given(*own.root)), &data, true).unwrap();
        assert_eq!(own.pepper().digest("k"), same.pepper().digest("k"));
        let error = Secrets::load(Some(&given([1; 32])), &data, true).err().unwrap().to_string();
        assert!(error.starts_with("ANGO_SECRET: "), "{error}");
    }
}
