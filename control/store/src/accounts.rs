//! Accounts, which own keys, sessions and everything else.

use api::Plan;

use crate::database::{Tx, from_row, values};
use crate::{Result, Store};

/// An account as remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// `acct_...`
    pub account_id: String,
    /// Its plan.
    pub plan: Plan,
    /// When it came into being, in microseconds since 1970.
    pub created_at: i64,
    /// Its API keys that are not revoked.
    pub keys: i64,
}

from_row!(Account { account_id, plan as word, created_at, keys });

/// What an account may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountStanding {
    /// Its plan.
    pub plan: Plan,
    /// It did not pay (readings P18).
    pub is_suspended: bool,
}

from_row!(AccountStanding { plan as word, is_suspended });

impl Tx {
    /// Puts an account on a plan with the rest of a transaction. False: there is no such account.
    pub async fn set_plan(&mut self, account_id: &str, plan: Plan) -> Result<bool> {
        let sql = "UPDATE accounts SET plan = $2 WHERE account_id = $1";
        Ok(self.execute(sql, values![account_id, plan]).await? == 1)
    }
}

impl Store {
    /// What an account may do; `None`: there is no such account.
    pub async fn account_standing(&self, account_id: &str) -> Result<Option<AccountStanding>> {
        let sql = "SELECT plan, is_suspended FROM accounts WHERE account_id = $1";
        self.db.fetch_optional(sql, values![account_id]).await
    }

    /// All accounts, oldest first.
    pub async fn accounts(&self) -> Result<Vec<Account>> {
        let sql = "SELECT a.account_id, plan, a.created_at, COUNT(k.key_id) AS keys FROM accounts a \
             LEFT JOIN api_keys k ON k.account_id = a.account_id AND k.revoked_at IS NULL \
             GROUP BY a.account_id, plan, a.created_at ORDER BY a.created_at, a.account_id";
        self.db.fetch_all(sql, values![]).await
    }

    /// Whether there is such an account.
    pub async fn has_account(&self, account_id: &str) -> Result<bool> {
        let sql = "SELECT CAST(1 AS BIGINT) FROM accounts WHERE account_id = $1";
        let row: Option<(i64,)> = self.db.fetch_optional(sql, values![account_id]).await?;
        Ok(row.is_some())
    }

    /// Puts an account on a plan. False: there is no such account.
    pub async fn set_plan(&self, account_id: &str, plan: Plan) -> Result<bool> {
        let sql = "UPDATE accounts SET plan = $2 WHERE account_id = $1";
        Ok(self.db.execute(sql, values![account_id, plan]).await? == 1)
    }
}
