//! How work names keys, accounts and operands. A worker learns no account's id: accounts are told apart by keyed
//! digests.

use api::{CiphertextId, EncryptionKeyId, HandleId};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::caller::Plan;
use crate::secrets::Key;

/// The name of a key at rest. The name follows from the key at rest, so all nodes of a database give the key this name,
/// and a worker finds the key by the name ([`KeysAtRest`](super::KeysAtRest)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyName {
    /// The account that owns the key.
    pub(super) account: AccountDigest,
    /// The key.
    pub(super) key: RestingId,
}

/// A key within its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RestingId {
    /// The key of a gate session: the first 128 bits of the digest that identifies the session in the database.
    Session(u128),
    /// A stored key for encrypted numbers: the 128 bits of its id.
    Numbers(u128),
}

impl KeyName {
    /// Names the key of the account's session with this digest.
    pub fn of_session(share: Share, digest: &[u8; 32]) -> KeyName {
        let (first, _) = digest.split_first_chunk().expect("32 bytes");
        KeyName { account: share.account, key: RestingId::Session(u128::from_be_bytes(*first)) }
    }

    /// Names a stored key of the account.
    pub fn of_numbers_key(share: Share, key_id: &EncryptionKeyId) -> KeyName {
        KeyName { account: share.account, key: RestingId::Numbers(key_id.bits()) }
    }

    /// Returns the id of the stored key that this name means. `None`: the name means the key of a session.
    pub fn numbers_key_id(&self) -> Option<EncryptionKeyId> {
        match self.key {
            RestingId::Session(_) => None,
            RestingId::Numbers(bits) => Some(EncryptionKeyId::from_bits(bits)),
        }
    }

    /// Returns the first bytes of the session's digest. `None`: the name means a stored key.
    pub fn session_bits(&self) -> Option<[u8; 16]> {
        match self.key {
            RestingId::Session(bits) => Some(bits.to_be_bytes()),
            RestingId::Numbers(_) => None,
        }
    }

    /// Returns the name as text: the account's digest, and the kind and the bits of the key. Also the flow of the key's work
    /// in a fleet.
    pub fn label(&self) -> String {
        let account = self.account.0;
        match self.key {
            RestingId::Session(bits) => format!("s{account:032x}{bits:032x}"),
            RestingId::Numbers(bits) => format!("n{account:032x}{bits:032x}"),
        }
    }

    /// Reads a name that [`KeyName::label`] wrote.
    pub fn of_label(label: &str) -> Option<KeyName> {
        let digits =
            label.get(1..).filter(|digits| digits.len() == 64 && digits.bytes().all(|c| c.is_ascii_hexdigit()))?;
        let number = |digits| u128::from_str_radix(digits, 16).ok();
        let (account, bits) = (AccountDigest(number(&digits[..32])?), number(&digits[32..])?);
        let key = match label.as_bytes()[0] {
            b's' => RestingId::Session(bits),
            b'n' => RestingId::Numbers(bits),
            _ => return None,
        };
        Some(KeyName { account, key })
    }

    /// Whether the name means a key of this account.
    pub fn is_of(&self, share: Share) -> bool {
        self.account == share.account
    }
}

/// Where the ciphertexts of operands are, beside the question.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operand {
    /// Only in the question.
    Words,
    /// Under this handle of the session whose key the work names. Only bits.
    Value(HandleId),
    /// In the vault, as the ciphertext with this id. Only numbers.
    Object(CiphertextId),
}

impl Operand {
    /// Whether the operand is stored under a name. What is stored under a name never changes.
    pub fn is_named(&self) -> bool {
        !matches!(self, Operand::Words)
    }
}

/// An account as workers know it: the first 128 bits of HMAC-SHA-256 of its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AccountDigest(pub(super) u128);

/// The share of the workers that an account's work gets when other accounts compute too. The plan decides the share, and
/// all keys of the account have this share together (readings P31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub(super) account: AccountDigest,
    pub(super) weight: u32,
}

/// Makes the names of accounts. All nodes of one secret make the same names.
pub struct AccountDigests {
    key: Key,
}

impl AccountDigests {
    /// `key`: derived from the server's secret, for nothing else.
    pub fn new(key: Key) -> AccountDigests {
        AccountDigests { key }
    }

    /// Returns the share of an account with this plan.
    pub fn share(&self, account: &api::ids::AccountId, plan: Plan) -> Share {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key[..]).expect("HMAC takes keys of any length");
        mac.update(&account.bits().to_be_bytes());
        let digest = mac.finalize().into_bytes();
        let (first, _) = digest.split_first_chunk().expect("SHA-256 has 32 bytes");
        Share { account: AccountDigest(u128::from_be_bytes(*first)), weight: plan.weight() }
    }
}

#[cfg(test)]
mod tests {
    use api::AccountId;

    use super::*;

    #[test]
    fn nodes_of_one_secret_name_an_account_alike_and_no_name_is_the_id() {
        let [one, same, other] = [1, 1, 2].map(|secret| AccountDigests::new(Key::new([secret; 32])));
        let account = AccountId::from_bits(7);
        let named = one.share(&account, Plan::Enterprise);
        assert_eq!(named, same.share(&account, Plan::Enterprise));
        assert_ne!(named.account, other.share(&account, Plan::Enterprise).account);
        assert_ne!(named.account, one.share(&AccountId::from_bits(8), Plan::Enterprise).account);
        assert_ne!(named.account.0, account.bits());
        // the plan changes the weight alone
        let trial = one.share(&account, Plan::Trial);
        assert_eq!(trial.account, named.account);
        assert!(trial.weight < named.weight);
    }

    #[test]
    fn a_key_has_the_same_name_on_all_nodes_and_no_other_key_has_it() {
        let [one, same] = [1, 1].map(|secret| AccountDigests::new(Key::new([secret; 32])));
        let [first, second] = [7, 8].map(AccountId::from_bits);
        let share = |digests: &AccountDigests, account| digests.share(account, Plan::Free);
        let digest = [3; 32];
        let name = KeyName::of_session(share(&one, &first), &digest);
        assert_eq!(name, KeyName::of_session(share(&same, &first), &digest));
        assert_ne!(name, KeyName::of_session(share(&one, &second), &digest));
        assert_ne!(name, KeyName::of_session(share(&one, &first), &[4; 32]));
        // ids of both kinds may have the same bits
        let key_id = EncryptionKeyId::from_bits(u128::from_be_bytes([3; 16]));
        let numbers = KeyName::of_numbers_key(share(&one, &first), &key_id);
        assert_ne!(name, numbers);
        assert_eq!((name.numbers_key_id(), numbers.numbers_key_id()), (None, Some(key_id)));
        assert!(name.is_of(share(&same, &first)) && !name.is_of(share(&same, &second)));
        for name in [name, numbers] {
            assert_eq!(KeyName::of_label(&name.label()), Some(name));
        }
        for wrong in ["", "s", "x00", &format!("x{}", &name.label()[1..]), &name.label()[..64]] {
            assert_eq!(KeyName::of_label(wrong), None);
        }
    }
}
