//! Balances, which are sums of transfers by account, month and rate, and the accounts' monthly caps.

use std::collections::{BTreeMap, BTreeSet};

use super::{Amounts, Spend};
use crate::database::{Column, Sql, Tx, from_row, values};
use crate::{Result, Store};

/// Sums of an account's transfers in a month at a rate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// The account.
    pub account_id: String,
    /// Months since year 0.
    pub month: i64,
    /// The rate: thousandths of a yen for a dollar.
    pub usd_milli_jpy: i64,
    /// Number of compute units of posted transfers.
    pub fcu: i64,
    /// Number of compute units of open reservations.
    pub fcu_reserved: i64,
    /// Price of compute units beyond the allowance, in billionths of a dollar.
    pub nano_usd: i64,
    /// Price of the compute units beyond the allowance in open reservations, in billionths of a dollar.
    pub nano_usd_reserved: i64,
    /// Price of gates, in thousandths of a yen.
    pub milli_yen: i64,
    /// Price of the gates in open reservations, in thousandths of a yen.
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
pub struct MonthlyCap {
    /// The account.
    pub account_id: String,
    /// The cap in billionths of a dollar.
    pub cap_nano_usd: i64,
    /// Whether the cap blocks operations.
    pub hard_cap: bool,
    /// If false, the cap blocks operations too, whatever `hard_cap` is (readings P7).
    pub allow_soft_overage: bool,
    /// The e-mail address for alerts. May be empty.
    pub alert_email: String,
    /// When the cap was set, in microseconds since 1970.
    pub updated_at: i64,
}

from_row!(MonthlyCap { account_id, cap_nano_usd, hard_cap, allow_soft_overage, alert_email, updated_at });

/// An account's use in a month.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsedInMonth {
    /// Number of compute units of completed operations.
    pub fcu: i64,
    /// Price of the compute units beyond the allowance, in billionths of a dollar.
    pub overage_nano_usd: i64,
    /// Price of gates and of the back office, in thousandths of a yen.
    pub milli_yen: i64,
    /// The sum of everything that is charged.
    pub spend: Spend,
    /// Number of completed operations, by name.
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

macro_rules! on_conflict_add {
    () => {
        "ON CONFLICT (account_id, month, usd_milli_jpy) DO UPDATE SET \
         fcu_reserved = ledger_balances.fcu_reserved + excluded.fcu_reserved, \
         nano_usd_reserved = ledger_balances.nano_usd_reserved + excluded.nano_usd_reserved, \
         milli_yen_reserved = ledger_balances.milli_yen_reserved + excluded.milli_yen_reserved"
    };
}

impl Store {
    /// Returns an account's use in a month.
    pub async fn used_in_month(&self, account_id: &str, month: i64) -> Result<UsedInMonth> {
        let sql = concat!("SELECT ", balance_columns!(), " FROM ledger_balances WHERE account_id = $1 AND month = $2");
        let balances: Vec<Balance> = self.db.fetch_all(sql, values![account_id, month]).await?;
        let sql = "SELECT operation, count FROM operation_counts WHERE account_id = $1 AND month = $2";
        let operations: Vec<(String, i64)> = self.db.fetch_all(sql, values![account_id, month]).await?;
        let mut used = UsedInMonth { operations: operations.into_iter().collect(), ..UsedInMonth::default() };
        for balance in balances {
            used.fcu += balance.fcu;
            used.overage_nano_usd += balance.nano_usd;
            used.milli_yen += balance.milli_yen;
            used.spend.add(balance.nano_usd, balance.milli_yen, balance.usd_milli_jpy);
        }
        Ok(used)
    }

    /// Returns an account's monthly cap.
    pub async fn monthly_cap(&self, account_id: &str) -> Result<Option<MonthlyCap>> {
        let sql = concat!("SELECT ", budget_columns!(), " FROM budgets WHERE account_id = $1");
        self.db.fetch_optional(sql, values![account_id]).await
    }
}

impl Tx {
    /// Sets an account's monthly cap. The new cap replaces the old one.
    pub async fn set_monthly_cap(&mut self, budget: &MonthlyCap) -> Result<()> {
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

/// An account's id, and a month.
pub(super) type Book<'a> = (&'a str, i64);

/// An account's limits in a month: its monthly cap, and its allowance if the month has one of its own.
struct Limits {
    account_id: String,
    month: i64,
    cap_nano_usd: Option<i64>,
    hard_cap: Option<bool>,
    allow_soft_overage: Option<bool>,
    allowance_fcu: Option<i64>,
}

from_row!(Limits { account_id, month, cap_nano_usd, hard_cap, allow_soft_overage, allowance_fcu });

impl Limits {
    /// Whether the cap blocks operations (readings P7).
    fn blocks(&self) -> bool {
        self.hard_cap == Some(true) || self.allow_soft_overage == Some(false)
    }
}

macro_rules! limits_of_books {
    ($account:literal, $month:literal, $books:literal) => {
        concat!(
            "SELECT ",
            $account,
            " AS account_id, CAST(",
            $month,
            " AS BIGINT) AS month, b.cap_nano_usd, b.hard_cap, b.allow_soft_overage, a.fcu AS allowance_fcu FROM ",
            $books,
            " LEFT JOIN budgets b ON b.account_id = ",
            $account,
            " LEFT JOIN month_allowances a ON a.account_id = ",
            $account,
            " AND a.month = ",
            $month,
            " WHERE b.account_id IS NOT NULL OR a.account_id IS NOT NULL"
        )
    };
}

/// The balances and limits of accounts. They were read by a transaction that has locked the accounts.
#[derive(Default)]
pub(super) struct Standing {
    balances: BTreeMap<(String, i64), Vec<Balance>>,
    limits: BTreeMap<(String, i64), Limits>,
}

impl Standing {
    pub async fn read(tx: &mut Tx, books: &BTreeSet<Book<'_>>) -> Result<Standing> {
        let mut standing = Standing::default();
        let books: Vec<Book<'_>> = books.iter().copied().collect();
        let sql = Sql {
            sqlite: "SELECT b.account_id, b.month, b.usd_milli_jpy, b.fcu, b.fcu_reserved, b.nano_usd, b.nano_usd_reserved, \
                 b.milli_yen, b.milli_yen_reserved FROM json_each($1) r CROSS JOIN ledger_balances b \
                 ON b.account_id = r.value->>0 AND b.month = r.value->>1",
            postgres: "SELECT b.account_id, b.month, b.usd_milli_jpy, b.fcu, b.fcu_reserved, b.nano_usd, b.nano_usd_reserved, \
                 b.milli_yen, b.milli_yen_reserved FROM unnest($1::text[], $2::bigint[]) AS r (account_id, month) \
                 JOIN ledger_balances b ON b.account_id = r.account_id AND b.month = r.month",
        };
        let of = [Column::texts(&books, |(account, _)| account), Column::integers(&books, |(_, month)| *month)];
        let balances: Vec<Balance> = tx.fetch_rows(sql, &of).await?;
        let sql = Sql {
            sqlite: limits_of_books!("(r.value->>0)", "(r.value->>1)", "json_each($1) r"),
            postgres: limits_of_books!(
                "r.account_id",
                "r.month",
                "unnest($1::text[], $2::bigint[]) AS r (account_id, month)"
            ),
        };
        let limits: Vec<Limits> = tx.fetch_rows(sql, &of).await?;
        for balance in balances {
            standing.balances.entry((balance.account_id.clone(), balance.month)).or_default().push(balance);
        }
        standing.limits = limits.into_iter().map(|one| ((one.account_id.clone(), one.month), one)).collect();
        Ok(standing)
    }

    /// Returns the balances of this account in this month.
    pub fn of(&self, (account, month): Book<'_>) -> &[Balance] {
        self.balances.get(&(account.to_owned(), month)).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of compute units that are used or reserved.
    pub fn fcu(&self, book: Book<'_>) -> i64 {
        self.of(book)
            .iter()
            .fold(0, |sum, balance| sum.saturating_add(balance.fcu).saturating_add(balance.fcu_reserved))
    }

    /// Returns the amount that is spent or reserved.
    pub fn spend(&self, book: Book<'_>) -> Spend {
        let mut spend = Spend::default();
        for balance in self.of(book) {
            spend.add(balance.nano_usd, balance.milli_yen, balance.usd_milli_jpy);
            spend.add(balance.nano_usd_reserved, balance.milli_yen_reserved, balance.usd_milli_jpy);
        }
        spend
    }

    fn limits(&self, (account, month): Book<'_>) -> Option<&Limits> {
        self.limits.get(&(account.to_owned(), month))
    }

    /// Returns the cap that blocks operations of this account, in billionths of a dollar. `None`: no cap blocks
    /// operations.
    pub fn cap(&self, book: Book<'_>) -> Option<i64> {
        self.limits(book).filter(|limits| limits.blocks())?.cap_nano_usd
    }

    /// Returns an account's cap in billionths of a dollar, whether the cap blocks operations or not.
    pub fn budget(&self, book: Book<'_>) -> Option<i64> {
        self.limits(book)?.cap_nano_usd
    }

    /// Returns the number of compute units that are included in this month: the month's own allowance, or that of the
    /// plan (readings P11). `None`: any number.
    pub fn allowance(&self, book: Book<'_>, of_plan: Option<i64>) -> Option<i64> {
        self.limits(book).and_then(|limits| limits.allowance_fcu).or(of_plan)
    }

    /// Returns the number of compute units of posted transfers, and what was charged for them in billionths of a
    /// dollar.
    pub fn posted_units(&self, book: Book<'_>) -> (i128, i128) {
        let add = |(fcu, nano_usd), one: &Balance| (fcu + i128::from(one.fcu), nano_usd + i128::from(one.nano_usd));
        self.of(book).iter().fold((0, 0), add)
    }

    /// Replaces a reservation by its posted amounts. The balance of the account, month and rate was read before.
    pub fn post(&mut self, (account, month): Book<'_>, rate: i64, reserved: Amounts, posted: Amounts) {
        let balances = self.balances.entry((account.to_owned(), month)).or_default();
        if let Some(balance) = balances.iter_mut().find(|balance| balance.usd_milli_jpy == rate) {
            balance.fcu += posted.fcu;
            balance.fcu_reserved -= reserved.fcu;
            balance.nano_usd += posted.nano_usd;
            balance.nano_usd_reserved -= reserved.nano_usd;
            balance.milli_yen += posted.milli_yen;
            balance.milli_yen_reserved -= reserved.milli_yen;
        }
    }

    /// Adds a reservation to the balance of an account, a month and a rate. False: a sum would overflow, and nothing
    /// was added.
    pub fn reserve(&mut self, (account, month): Book<'_>, rate: i64, amounts: Amounts) -> bool {
        let balances = self.balances.entry((account.to_owned(), month)).or_default();
        let at = balances.iter().position(|balance| balance.usd_milli_jpy == rate).unwrap_or_else(|| {
            let new = Balance { account_id: account.to_owned(), month, usd_milli_jpy: rate, ..Balance::default() };
            balances.push(new);
            balances.len() - 1
        });
        let balance = &mut balances[at];
        // posting the reservation later must not make the posted sum overflow either
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

/// The changes that a transaction makes to balances, by account, month and rate.
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

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn reserve(&mut self, account: &str, month: i64, rate: i64, amounts: Amounts) {
        let change = self.of(account, month, rate);
        change.reserved = change.reserved.plus(amounts).expect("balances that fit");
    }

    /// Removes the amounts of a reservation, and adds the amounts that were charged instead.
    pub fn settle(&mut self, account: &str, month: i64, rate: i64, reserved: Amounts, posted: Amounts) {
        let change = self.of(account, month, rate);
        change.reserved = change.reserved.minus(reserved).expect("balances that fit");
        change.posted = change.posted.plus(posted).expect("balances that fit");
    }

    /// Returns the amounts that were posted for an account in a month at a rate.
    pub fn posted(&self, account: &str, month: i64, rate: i64) -> Amounts {
        self.0.get(&(account.to_owned(), month, rate)).map_or_else(Amounts::default, |change| change.posted)
    }

    /// Returns the accounts and months that have changes.
    pub fn books(&self) -> BTreeSet<Book<'_>> {
        self.0.keys().map(|(account, month, _)| (account.as_str(), *month)).collect()
    }

    /// Adds the reserved amounts to the balances in the database. Creates the balances that do not exist.
    pub async fn add(&self, tx: &mut Tx) -> Result<()> {
        // `WHERE true`, because otherwise SQLite reads ON CONFLICT as the condition of a join
        let sql = Sql {
            sqlite: concat!(
                "INSERT INTO ledger_balances (",
                balance_columns!(),
                ") SELECT r.value->>0, r.value->>1, r.value->>2, 0, r.value->>3, 0, r.value->>4, 0, r.value->>5 \
                 FROM json_each($1) r WHERE true ",
                on_conflict_add!()
            ),
            postgres: concat!(
                "INSERT INTO ledger_balances (",
                balance_columns!(),
                ") SELECT a, m, r, 0, f, 0, n, 0, y FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], \
                 $5::bigint[], $6::bigint[]) AS t (a, m, r, f, n, y) ",
                on_conflict_add!()
            ),
        };
        let rows = self.rows();
        let mut columns = keys(&rows);
        columns.extend([
            Column::integers(&rows, |(_, change)| change.reserved.fcu),
            Column::integers(&rows, |(_, change)| change.reserved.nano_usd),
            Column::integers(&rows, |(_, change)| change.reserved.milli_yen),
        ]);
        tx.execute_rows(sql, &columns).await.map(drop)
    }

    /// Applies the changes to the balances in the database. Fails if a balance does not exist.
    pub async fn apply(&self, tx: &mut Tx) -> Result<()> {
        let sql = Sql {
            sqlite: "UPDATE ledger_balances SET fcu = fcu + (r.value->>3), fcu_reserved = fcu_reserved + (r.value->>4), \
                 nano_usd = nano_usd + (r.value->>5), nano_usd_reserved = nano_usd_reserved + (r.value->>6), \
                 milli_yen = milli_yen + (r.value->>7), milli_yen_reserved = milli_yen_reserved + (r.value->>8) \
                 FROM json_each($1) r WHERE account_id = r.value->>0 AND month = r.value->>1 AND usd_milli_jpy = r.value->>2",
            postgres: "UPDATE ledger_balances b SET fcu = fcu + f, fcu_reserved = fcu_reserved + fr, nano_usd = nano_usd + n, \
                 nano_usd_reserved = nano_usd_reserved + nr, milli_yen = milli_yen + y, \
                 milli_yen_reserved = milli_yen_reserved + yr FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], \
                 $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[]) AS t (a, m, r, f, fr, n, nr, y, yr) \
                 WHERE b.account_id = a AND b.month = m AND b.usd_milli_jpy = r",
        };
        let rows = self.rows();
        let mut columns = keys(&rows);
        columns.extend([
            Column::integers(&rows, |(_, change)| change.posted.fcu),
            Column::integers(&rows, |(_, change)| change.reserved.fcu),
            Column::integers(&rows, |(_, change)| change.posted.nano_usd),
            Column::integers(&rows, |(_, change)| change.reserved.nano_usd),
            Column::integers(&rows, |(_, change)| change.posted.milli_yen),
            Column::integers(&rows, |(_, change)| change.reserved.milli_yen),
        ]);
        // fewer rows than changes mean that a balance is missing, so the ledger was changed by hand
        let changed = tx.execute_rows(sql, &columns).await?;
        if changed == rows.len() as u64 { Ok(()) } else { Err(sqlx::Error::RowNotFound.into()) }
    }

    fn rows(&self) -> Vec<ChangeRow<'_>> {
        self.0.iter().map(|(key, change)| (key, *change)).collect()
    }
}

/// The account, month and rate of a balance, and the change of this balance.
type ChangeRow<'a> = (&'a (String, i64, i64), Change);

fn keys<'a>(rows: &'a [ChangeRow<'a>]) -> Vec<Column<'a>> {
    vec![
        Column::texts(rows, |((account, ..), _)| account),
        Column::integers(rows, |((_, month, _), _)| *month),
        Column::integers(rows, |((.., rate), _)| *rate),
    ]
}
