//! Seals of accounts, for secrets and objects at rest. The keys of the seals are derived from the server's secret, so
//! that the database and the bucket alone do not reveal the contents.

use api::AccountId;
pub use seal::Seal;

use crate::secrets::{Key, derived};

/// The seals of accounts. Each account has its own key, so sealed bytes of one account do not open under the key of
/// another account.
#[derive(Clone)]
pub struct AccountSeals {
    root: Key,
}

impl AccountSeals {
    /// Creates seals whose keys are derived from this key.
    pub fn new(root: Key) -> AccountSeals {
        AccountSeals { root }
    }

    /// Makes the seal of the service itself, for records that belong to no account.
    pub fn of_service(&self) -> Seal {
        Seal::new(&derived(&self.root, "service"))
    }

    /// Makes the seal of an account.
    pub fn of(&self, account: &AccountId) -> Seal {
        Seal::new(&derived(&self.root, account.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_do_not_open_what_another_sealed() {
        let seals = AccountSeals::new(Key::new([1; 32]));
        let [one, other] = [1, 2].map(|bits| seals.of(&AccountId::from_bits(bits)));
        let sealed = one.seal("n", b"secret");
        assert!(other.open("n", &sealed).is_none());
        assert!(seals.of(&AccountId::from_bits(1)).open("n", &sealed).is_some());
    }
}
