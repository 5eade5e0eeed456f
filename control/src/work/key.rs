//! How work names keys and accounts. A worker learns no account's id: accounts are told apart by keyed digests.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::caller::Plan;
use crate::ids;
use crate::secrets::Key;

/// The name of a key that is open for work. A name is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyName {
    /// The account that owns the key.
    pub(super) account: AccountDigest,
    /// 128 random bits.
    pub(super) key: u128,
}

impl KeyName {
    /// Makes the name of a key of this account that is about to open.
    pub(super) fn fresh(account: AccountDigest) -> KeyName {
        KeyName { account, key: u128::from_be_bytes(ids::random()) }
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
}
