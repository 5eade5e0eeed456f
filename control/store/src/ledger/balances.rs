//! Balances: the sums of transfers, by account, month and rate; budgets beside them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Amounts, Spend};
use crate::database::{Tx, from_row, values};
use crate::{Result, Store};

/// Sums of an account in a month at a rate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// The account.
    pub account_id: String,
    /// Months since year 0.
    pub month: i64,
    /// Thousandths of a yen for a dollar.
    pub usd_milli_jpy: i64,
    /// Compute units of posted transfers.
    pub fcu: i64,
    /// The same of open reservations.
    pub fcu_reserved: i64,
    /// What compute units beyond the allowance cost.
    pub nano_usd: i64,
    /// The same of open reservations.
    pub nano_usd_reserved: i64,
    /// What gates cost.
    pub milli_yen: i64,
    /// The same of open reservations.
    pub milli_yen_reserved: i64,
}

from_row!(Balance {
    account_id,
    month,
    usd_milli_jpy,
    fcu,
    fcu_reserved,
    nano_usd,
    nano_usd_reserved,
    milli_yen,
    milli_yen_reserved
});

/// An account's monthly cap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The account.
    pub account_id: String,
    /// Billionths of a dollar.
    pub cap_nano_usd: i64,
    /// Operations are blocked at it.
    pub hard_cap: bool,
    /// False: operations are blocked at it too (readings P7).
    pub allow_soft_overage: bool,
    /// Where alerts go; may be empty.
    pub alert_email: String,
    /// When it was set, in microseconds since 1970.
    pub updated_at: i64,
}

from_row!(Budget { account_id, cap_nano_usd, hard_cap, allow_soft_overage, alert_email, updated_at });

/// What an account used in a month.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsedInMonth {
    /// Compute units of completed operations.
    pub fcu: i64,
    /// What those beyond the allowance cost: billionths of a dollar.
    pub overage_nano_usd: i64,
    /// All that is charged.
    pub spend: Spend,
    /// Completed operations by name.
    pub operations: BTreeMap<String, i64>,
}

macro_rules! balance_columns {
    () => {
        "account_id, month, usd_milli_jpy, fcu, fcu_reserved, nano_usd, nano_usd_reserved, milli_yen, milli_yen_reserved"
    };
}

macro_rules! budget_columns {
    () => {
        "account_id, cap_nano_usd, hard_cap, allow_soft_overage, alert_email, updated_at"
    };
}

impl Store {
    /// What an account used in a month.
    pub async fn used_in_month(&self, account_id: &str, month: i64) -> Result<UsedInMonth> {
        let sql = concat!("SELECT ", balance_columns!(), " FROM ledger_balances WHERE account_id = $1 AND month = $2");
        let balances: Vec<Balance> = self.db.fetch_all(sql, values![account_id, month]).await?;
        let sql = "SELECT operation, count FROM operation_counts WHERE account_id = $1 AND month = $2";
        let operations: Vec<(String, i64)> = self.db.fetch_all(sql, values![account_id, month]).await?;
        let mut used = UsedInMonth { operations: operations.into_iter().collect(), ..UsedInMonth::default() };
        for balance in balances {
            used.fcu += balance.fcu;
            used.overage_nano_usd += balance.nano_usd;
            used.spend.add(balance.nano_usd, balance.milli_yen, balance.usd_milli_jpy);
        }
        Ok(used)
    }

    /// An account's budget.
    pub async fn budget(&self, account_id: &str) -> Result<Option<Budget>> {
        let sql = concat!("SELECT ", budget_columns!(), " FROM budgets WHERE account_id = $1");
        self.db.fetch_optional(sql, values![account_id]).await
    }
}

impl Tx {
    /// Sets an account's budget in place of the one before.
    pub async fn set_budget(&mut self, budget: &Budget) -> Result<()> {
        let sql = "INSERT INTO budgets (account_id, cap_nano_usd, hard_cap, allow_soft_overage, alert_email, updated_at) \
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (account_id) DO UPDATE SET cap_nano_usd = excluded.cap_nano_usd, \
             hard_cap = excluded.hard_cap, allow_soft_overage = excluded.allow_soft_overage, \
             alert_email = excluded.alert_email, updated_at = excluded.updated_at";
        let of = values![
            &budget.account_id,
            budget.cap_nano_usd,
            budget.hard_cap,
            budget.allow_soft_overage,
            &budget.alert_email,
            budget.updated_at
        ];
        self.execute(sql, of).await.map(drop)
    }
}

/// An account and a month.
pub(super) type Book<'a> = (&'a str, i64);

/// What balances are at this moment of a transaction that has their accounts locked, and the caps on them.
#[derive(Default)]
pub(super) struct Standing {
    balances: BTreeMap<(String, i64), Vec<Balance>>,
    /// Of accounts whose operations are blocked at their cap.
    caps: BTreeMap<String, i64>,
}

impl Standing {
    pub async fn read(tx: &mut Tx, books: &BTreeSet<Book<'_>>) -> Result<Standing> {
        let mut standing = Standing::default();
        let accounts: BTreeSet<&str> = books.iter().map(|(account, _)| *account).collect();
        let (balances, budgets) = if tx.has_arrays() && accounts.len() > 1 {
            let ids = || accounts.iter().map(|account| Some(*account)).collect::<Vec<_>>();
            let months: Vec<i64> = books.iter().map(|(_, month)| *month).collect::<BTreeSet<_>>().into_iter().collect();
            let sql = concat!(
                "SELECT ",
                balance_columns!(),
                " FROM ledger_balances WHERE account_id = ANY($1) AND month = ANY($2)"
            );
            let balances: Vec<Balance> = tx.fetch_all(sql, values![ids(), months]).await?;
            let sql = concat!("SELECT ", budget_columns!(), " FROM budgets WHERE account_id = ANY($1)");
            (balances, tx.fetch_all::<Budget>(sql, values![ids()]).await?)
        } else {
            let (mut balances, mut budgets) = (Vec::new(), Vec::new());
            for (account, month) in books {
                let sql = concat!(
                    "SELECT ",
                    balance_columns!(),
                    " FROM ledger_balances WHERE account_id = $1 AND month = $2"
                );
                balances.extend(tx.fetch_all::<Balance>(sql, values![*account, *month]).await?);
            }
            for account in accounts {
                let sql = concat!("SELECT ", budget_columns!(), " FROM budgets WHERE account_id = $1");
                budgets.extend(tx.fetch_optional::<Budget>(sql, values![account]).await?);
            }
            (balances, budgets)
        };
        for balance in balances {
            standing.balances.entry((balance.account_id.clone(), balance.month)).or_default().push(balance);
        }
        for budget in budgets.into_iter().filter(|budget| budget.hard_cap || !budget.allow_soft_overage) {
            standing.caps.insert(budget.account_id, budget.cap_nano_usd);
        }
        Ok(standing)
    }

    fn of(&self, (account, month): Book<'_>) -> &[Balance] {
        self.balances.get(&(account.to_owned(), month)).map_or(&[], Vec::as_slice)
    }

    /// Compute units that are used or reserved.
    pub fn fcu(&self, book: Book<'_>) -> i64 {
        self.of(book)
            .iter()
            .fold(0, |sum, balance| sum.saturating_add(balance.fcu).saturating_add(balance.fcu_reserved))
    }

    /// What is spent or reserved.
    pub fn spend(&self, book: Book<'_>) -> Spend {
        let mut spend = Spend::default();
        for balance in self.of(book) {
            spend.add(balance.nano_usd, balance.milli_yen, balance.usd_milli_jpy);
            spend.add(balance.nano_usd_reserved, balance.milli_yen_reserved, balance.usd_milli_jpy);
        }
        spend
    }

    /// Where operations of this account are blocked.
    pub fn cap(&self, account: &str) -> Option<i64> {
        self.caps.get(account).copied()
    }

    /// Counts a reservation. False: a number would be too large, and nothing was counted.
    pub fn reserve(&mut self, (account, month): Book<'_>, rate: i64, amounts: Amounts) -> bool {
        let balances = self.balances.entry((account.to_owned(), month)).or_default();
        let at = balances.iter().position(|balance| balance.usd_milli_jpy == rate).unwrap_or_else(|| {
            let new = Balance { account_id: account.to_owned(), month, usd_milli_jpy: rate, ..Balance::default() };
            balances.push(new);
            balances.len() - 1
        });
        let balance = &mut balances[at];
        // what is posted later must fit too
        let sum = |posted: i64, reserved: i64, more: i64| -> Option<i64> {
            let reserved = reserved.checked_add(more)?;
            posted.checked_add(reserved).map(|_| reserved)
        };
        let sums = (
            sum(balance.fcu, balance.fcu_reserved, amounts.fcu),
            sum(balance.nano_usd, balance.nano_usd_reserved, amounts.nano_usd),
            sum(balance.milli_yen, balance.milli_yen_reserved, amounts.milli_yen),
        );
        let (Some(fcu), Some(nano_usd), Some(milli_yen)) = sums else { return false };
        (balance.fcu_reserved, balance.nano_usd_reserved, balance.milli_yen_reserved) = (fcu, nano_usd, milli_yen);
        true
    }
}

/// Changes of balances in a transaction, by account, month and rate.
#[derive(Default)]
pub(super) struct Changes(BTreeMap<(String, i64, i64), Change>);

#[derive(Clone, Copy, Default)]
struct Change {
    posted: Amounts,
    reserved: Amounts,
}

impl Changes {
    fn of(&mut self, account: &str, month: i64, rate: i64) -> &mut Change {
        self.0.entry((account.to_owned(), month, rate)).or_default()
    }

    pub fn reserve(&mut self, account: &str, month: i64, rate: i64, amounts: Amounts) {
        let change = self.of(account, month, rate);
        change.reserved = change.reserved.plus(amounts).expect("balances that fit");
    }

    /// Takes a reservation back, and posts it or not.
    pub fn settle(&mut self, account: &str, month: i64, rate: i64, amounts: Amounts, posted: bool) {
        let change = self.of(account, month, rate);
        change.reserved = change.reserved.minus(amounts).expect("balances that fit");
        if posted {
            change.posted = change.posted.plus(amounts).expect("balances that fit");
        }
    }

    /// Adds reservations to balances, which are made if they are not there.
    pub async fn add(&self, tx: &mut Tx) -> Result<()> {
        let sql = concat!(
            "INSERT INTO ledger_balances (",
            balance_columns!(),
            ") ",
            "VALUES ($1, $2, $3, 0, $4, 0, $5, 0, $6) ON CONFLICT (account_id, month, usd_milli_jpy) DO UPDATE SET \
             fcu_reserved = ledger_balances.fcu_reserved + excluded.fcu_reserved, \
             nano_usd_reserved = ledger_balances.nano_usd_reserved + excluded.nano_usd_reserved, \
             milli_yen_reserved = ledger_balances.milli_yen_reserved + excluded.milli_yen_reserved"
        );
        if tx.has_arrays() && self.0.len() > 1 {
            let sql = concat!(
                "INSERT INTO ledger_balances (",
                balance_columns!(),
                ") ",
                "SELECT a, m, r, 0, f, 0, n, 0, y FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], \
                 $5::bigint[], $6::bigint[]) AS t (a, m, r, f, n, y) \
                 ON CONFLICT (account_id, month, usd_milli_jpy) DO UPDATE SET \
                 fcu_reserved = ledger_balances.fcu_reserved + excluded.fcu_reserved, \
                 nano_usd_reserved = ledger_balances.nano_usd_reserved + excluded.nano_usd_reserved, \
                 milli_yen_reserved = ledger_balances.milli_yen_reserved + excluded.milli_yen_reserved"
            );
            let amounts = |of: fn(&Change) -> i64| self.0.values().map(of).collect::<Vec<_>>();
            let of = values![
                self.accounts(),
                self.months(),
                self.rates(),
                amounts(|change| change.reserved.fcu),
                amounts(|change| change.reserved.nano_usd),
                amounts(|change| change.reserved.milli_yen)
            ];
            return tx.execute(sql, of).await.map(drop);
        }
        for ((account, month, rate), Change { reserved, .. }) in &self.0 {
            let of = values![account, *month, *rate, reserved.fcu, reserved.nano_usd, reserved.milli_yen];
            tx.execute(sql, of).await?;
        }
        Ok(())
    }

    /// Changes balances that are there.
    pub async fn apply(&self, tx: &mut Tx) -> Result<()> {
        let mut changed = 0;
        if tx.has_arrays() && self.0.len() > 1 {
            let sql = "UPDATE ledger_balances b SET fcu = fcu + f, fcu_reserved = fcu_reserved + fr, nano_usd = nano_usd + n, \
                 nano_usd_reserved = nano_usd_reserved + nr, milli_yen = milli_yen + y, \
                 milli_yen_reserved = milli_yen_reserved + yr FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], \
                 $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[]) AS t (a, m, r, f, fr, n, nr, y, yr) \
                 WHERE b.account_id = a AND b.month = m AND b.usd_milli_jpy = r";
            let amounts = |of: fn(&Change) -> i64| self.0.values().map(of).collect::<Vec<_>>();
            let of = values![
                self.accounts(),
                self.months(),
                self.rates(),
                amounts(|change| change.posted.fcu),
                amounts(|change| change.reserved.fcu),
                amounts(|change| change.posted.nano_usd),
                amounts(|change| change.reserved.nano_usd),
                amounts(|change| change.posted.milli_yen),
                amounts(|change| change.reserved.milli_yen)
            ];
            changed = tx.execute(sql, of).await?;
        } else {
            for ((account, month, rate), Change { posted, reserved }) in &self.0 {
                let sql = "UPDATE ledger_balances SET fcu = fcu + $4, fcu_reserved = fcu_reserved + $5, \
                     nano_usd = nano_usd + $6, nano_usd_reserved = nano_usd_reserved + $7, milli_yen = milli_yen + $8, \
                     milli_yen_reserved = milli_yen_reserved + $9 WHERE account_id = $1 AND month = $2 AND usd_milli_jpy = $3";
                let of = values![
                    account,
                    *month,
                    *rate,
                    posted.fcu,
                    reserved.fcu,
                    posted.nano_usd,
                    reserved.nano_usd,
                    posted.milli_yen,
                    reserved.milli_yen
                ];
                changed += tx.execute(sql, of).await?;
            }
        }
        // a reservation without a balance: the ledger was changed by hand
        if changed == self.0.len() as u64 { Ok(()) } else { Err(sqlx::Error::RowNotFound.into()) }
    }

    fn accounts(&self) -> Vec<Option<&str>> {
        self.0.keys().map(|(account, ..)| Some(account.as_str())).collect()
    }

    fn months(&self) -> Vec<i64> {
        self.0.keys().map(|(_, month, _)| *month).collect()
    }

    fn rates(&self) -> Vec<i64> {
        self.0.keys().map(|(_, _, rate)| *rate).collect()
    }
}
