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

impl Tx {
    /// Writes a new account. Its plan counts as granted by the operator. Does nothing if the account exists.
    pub(crate) async fn insert_account(&mut self, account_id: &str, plan: Plan, now: i64) -> Result<()> {
        let sql = "INSERT INTO accounts (account_id, created_at, plan, granted_plan) VALUES ($1, $2, $3, $3) \
             ON CONFLICT (account_id) DO NOTHING";
        self.execute(sql, values![account_id, now, plan]).await.map(drop)
    }

    /// Sets the number of days in which an account must pay the invoices that this service makes. `None`: the number
    /// in the settings. False: the account does not exist.
    pub async fn set_invoice_term(&mut self, account_id: &str, days: Option<i64>) -> Result<bool> {
        let sql = "UPDATE accounts SET invoice_term_days = $2 WHERE account_id = $1";
        Ok(self.execute(sql, values![account_id, days]).await? == 1)
    }
}

impl Store {
    /// Returns the number of days in which an account must pay the invoices that this service makes. `None`: the number
    /// in the settings.
    pub async fn invoice_term(&self, account_id: &str) -> Result<Option<i64>> {
        let sql = "SELECT invoice_term_days FROM accounts WHERE account_id = $1";
        let row: Option<(Option<i64>,)> = self.db.fetch_optional(sql, values![account_id]).await?;
        Ok(row.and_then(|(days,)| days))
    }

    /// Returns the e-mail address for messages about payments: the billing contact, or else the address for budget
    /// alerts, or else the address of the account's first user. Empty: the account has no address.
    pub async fn contact_of_account(&self, account_id: &str) -> Result<String> {
        let sql = "SELECT COALESCE(NULLIF((SELECT email FROM subscriptions WHERE account_id = $1), ''), \
             NULLIF((SELECT alert_email FROM budgets WHERE account_id = $1), ''), \
             (SELECT email FROM users WHERE account_id = $1 AND disabled_at IS NULL AND email IS NOT NULL ORDER BY created_at, user_id LIMIT 1), '')";
        self.db.fetch_one::<(String,)>(sql, values![account_id]).await.map(|(email,)| email)
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

    /// Grants a plan to an account. False: the account does not exist.
    pub async fn grant_plan(&self, account_id: &str, plan: Plan, now: i64) -> Result<bool> {
        self.write(async |tx: &mut Tx| Ok(tx.grant_plan(account_id, plan, now).await?.is_some())).await
    }
}
