//! Allowances of months: after a change of plan in the middle of a month, the month includes another number of compute
//! units than the plan (readings P11).

use crate::database::{Tx, values};
use crate::{Result, Store};

impl Store {
    /// Returns the number of compute units that are included in an account's month (months since year 0). `None`: the
    /// number of the plan.
    pub async fn month_allowance(&self, account_id: &str, month: i64) -> Result<Option<i64>> {
        let sql = "SELECT fcu FROM month_allowances WHERE account_id = $1 AND month = $2";
        Ok(self.db.fetch_optional::<(i64,)>(sql, values![account_id, month]).await?.map(|(fcu,)| fcu))
    }
}

impl Tx {
    /// Like [`Store::month_allowance`], as part of a transaction.
    pub async fn month_allowance(&mut self, account_id: &str, month: i64) -> Result<Option<i64>> {
        let sql = "SELECT fcu FROM month_allowances WHERE account_id = $1 AND month = $2";
        Ok(self.fetch_optional::<(i64,)>(sql, values![account_id, month]).await?.map(|(fcu,)| fcu))
    }

    /// Sets the number of compute units, at least 0, that are included in an account's month. This number replaces the
    /// plan's number in reservations, charges and alerts.
    pub async fn put_month_allowance(&mut self, account_id: &str, month: i64, fcu: i64) -> Result<()> {
        let sql = "INSERT INTO month_allowances (account_id, month, fcu) VALUES ($1, $2, $3) \
             ON CONFLICT (account_id, month) DO UPDATE SET fcu = excluded.fcu";
        self.execute(sql, values![account_id, month, fcu]).await.map(drop)
    }

    /// Gives an account's month the plan's number of compute units again.
    pub async fn forget_month_allowance(&mut self, account_id: &str, month: i64) -> Result<()> {
        let sql = "DELETE FROM month_allowances WHERE account_id = $1 AND month = $2";
        self.execute(sql, values![account_id, month]).await.map(drop)
    }
}
