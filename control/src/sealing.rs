//! Seals of accounts, for secrets and objects at rest: under keys of the server's secret, so that the database and the bucket
//! alone do not give them away.

use api::AccountId;
pub use seal::Seal;

use crate::secrets::{Key, derived};

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
    fn accounts_do_not_open_what_another_sealed() {
        let seals = AccountSeals::new(Key::new([1; 32]));
        let [one, other] = [1, 2].map(|bits| seals.of(&AccountId::from_bits(bits)));
        let sealed = one.seal("n", b"secret");
        assert!(other.open("n", &sealed).is_none());
        assert!(seals.of(&AccountId::from_bits(1)).open("n", &sealed).is_some());
    }
}
