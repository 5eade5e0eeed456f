//! Accounts. Keys, sessions and everything else belong to an account.

use api::Plan;

use crate::database::{Tx, from_row, values};
use crate::{Result, Store};

/// An account's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// `acct_...`
    pub account_id: String,
    /// The account's plan.
    pub plan: Plan,
    /// When the account was created, in microseconds since 1970.
    pub created_at: i64,
    /// Number of the account's API keys that are not revoked.
    pub keys: i64,
}

from_row!(Account { account_id, plan as word, created_at, keys });

/// An account's plan and whether it is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountStanding {
    /// The account's plan.
    pub plan: Plan,
    /// Whether the account is suspended because it has not paid (readings P18).
    pub is_suspended: bool,
}

from_row!(AccountStanding { plan as word, is_suspended });

impl Tx {
    /// Sets an account's plan as part of a transaction. False: the account does not exist.
    pub async fn set_plan(&mut self, account_id: &str, plan: Plan) -> Result<bool> {
        let sql = "UPDATE accounts SET plan = $2 WHERE account_id = $1";
        Ok(self.execute(sql, values![account_id, plan]).await? == 1)
    }
}

impl Store {
    /// Returns an account's plan, and whether the account is suspended. `None`: the account does not exist.
    pub async fn account_standing(&self, account_id: &str) -> Result<Option<AccountStanding>> {
        let sql = "SELECT plan, is_suspended FROM accounts WHERE account_id = $1";
        self.db.fetch_optional(sql, values![account_id]).await
    }

    /// Returns all accounts, the oldest first.
    pub async fn accounts(&self) -> Result<Vec<Account>> {
        let sql = "SELECT a.account_id, plan, a.created_at, COUNT(k.key_id) AS keys FROM accounts a \
             LEFT JOIN api_keys k ON k.account_id = a.account_id AND k.revoked_at IS NULL \
             GROUP BY a.account_id, plan, a.created_at ORDER BY a.created_at, a.account_id";
        self.db.fetch_all(sql, values![]).await
    }

    /// Returns whether the account exists.
    pub async fn has_account(&self, account_id: &str) -> Result<bool> {
        let sql = "SELECT CAST(1 AS BIGINT) FROM accounts WHERE account_id = $1";
        let row: Option<(i64,)> = self.db.fetch_optional(sql, values![account_id]).await?;
        Ok(row.is_some())
    }

    /// Sets an account's plan. False: the account does not exist.
    pub async fn set_plan(&self, account_id: &str, plan: Plan) -> Result<bool> {
        let sql = "UPDATE accounts SET plan = $2 WHERE account_id = $1";
        Ok(self.db.execute(sql, values![account_id, plan]).await? == 1)
    }
}
