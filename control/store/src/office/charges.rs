//! Charges of the back office (readings B16-B18). The back office's operations take milliseconds and change nothing. So
//! an operation is done first, and then charged in the transaction that stores its result. No reservation is needed.

use std::collections::{BTreeMap, BTreeSet};

use api::Environment;

use super::caps::{caps_of, note_reached_caps};
use crate::database::{Column, Sql, Tx, from_row, values};
use crate::kept_answers::{KeptAnswer, keep_all};
use crate::ledger::{self, Amounts, Posted, PostedAtOnce};
use crate::operation_counts::{OperationCounts, count_all};
use crate::work::Work;
use crate::{Result, Store};

/// A completed call to charge.
#[derive(Clone, Debug)]
pub struct OfficeCharge {
    /// The id of the usage row, and of the transfer if something is to be paid.
    pub usage_id: String,
    /// The account that pays.
    pub account_id: String,
    /// The key's lineage, to which the cap belongs.
    pub lineage_id: String,
    /// The node that did the operation.
    pub node_id: String,
    /// Environment of the key.
    pub environment: Environment,
    /// The month in which the call was accepted: months since year 0.
    pub month: i64,
    /// The present rate: thousandths of a yen for a dollar.
    pub usd_milli_jpy: i64,
    /// Now, in microseconds since 1970.
    pub created_at: i64,
    /// The operation's name.
    pub operation: &'static str,
    /// Number of documents, payees or registration numbers.
    pub units: i64,
    /// The price in thousandths of a yen. 0: free.
    pub milli_yen: i64,
    /// Calls that the plan includes in a month. `None`: any number.
    pub calls_max: Option<i64>,
    /// The answer to store.
    pub keep: Option<KeptAnswer>,
}

/// The result of a charge. If the result is not `Made`, nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfficeCharged {
    /// The call was charged.
    Made,
    /// The account has used all calls of the month.
    QuotaExceeded,
    /// The key's spending would exceed its cap.
    CapReached {
        /// The cap in yen.
        cap_yen: i64,
    },
    /// The account's whole spending would exceed the cap of the account.
    BudgetReached {
        /// The cap in billionths of a dollar.
        cap_nano_usd: i64,
    },
}

/// A key's use of an operation in a month.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfficeTotal {
    /// The operation's name.
    pub operation: String,
    /// Number of calls.
    pub calls: i64,
    /// Number of documents, payees or registration numbers.
    pub units: i64,
    /// Price of the units, in thousandths of a yen.
    pub milli_yen: i64,
}

from_row!(OfficeTotal { operation, calls, units, milli_yen });

const TOTALS_OF_KEY: &str = "SELECT operation, calls, units, milli_yen FROM office_totals \
     WHERE account_id = $1 AND month = $2 AND lineage_id = $3 ORDER BY operation";

impl Store {
    /// Returns the amount in thousandths of a yen that an account was charged for calls of the back office in a month.
    pub async fn office_spending(&self, account_id: &str, month: i64) -> Result<i64> {
        let sql = "SELECT CAST(COALESCE(SUM(milli_yen), 0) AS BIGINT) FROM office_totals WHERE account_id = $1 AND month = $2";
        self.db.fetch_one::<(i64,)>(sql, values![account_id, month]).await.map(|(milli_yen,)| milli_yen)
    }

    /// Charges a completed call and stores its answer. Both are durable when this returns.
    pub async fn charge_office(&self, charge: OfficeCharge) -> Result<OfficeCharged> {
        self.writers.submit(charge).await
    }

    /// Returns a key's use in a month, by operation.
    pub async fn office_totals(&self, account_id: &str, lineage_id: &str, month: i64) -> Result<Vec<OfficeTotal>> {
        self.db.fetch_all(TOTALS_OF_KEY, values![account_id, month, lineage_id]).await
    }

    /// Returns the number of an account's calls in a month. The account's quota limits this number.
    pub async fn office_calls(&self, account_id: &str, month: i64) -> Result<i64> {
        let sql =
            "SELECT CAST(COALESCE(SUM(calls), 0) AS BIGINT) FROM office_totals WHERE account_id = $1 AND month = $2";
        self.db.fetch_one::<(i64,)>(sql, values![account_id, month]).await.map(|(calls,)| calls)
    }
}

impl Tx {
    /// Returns a key's use in a month, by operation. Locks the ledger, so that the account cannot be charged before
    /// this transaction ends.
    pub async fn lock_office_totals(
        &mut self,
        account_id: &str,
        lineage_id: &str,
        month: i64,
    ) -> Result<Vec<OfficeTotal>> {
        ledger::lock(self, BTreeSet::from([account_id])).await?;
        self.fetch_all(TOTALS_OF_KEY, values![account_id, month, lineage_id]).await
    }

    /// Charges a call as part of a transaction.
    ///
    /// # Errors
    /// If the database does not answer. A refused charge is not an error.
    pub async fn charge_office(&mut self, charge: &OfficeCharge) -> Result<OfficeCharged> {
        let charged = charge_all(self, &[charge]).await?;
        charged.first().copied().ok_or_else(|| sqlx::Error::RowNotFound.into())
    }
}

impl Work for OfficeCharge {
    type Answer = OfficeCharged;

    fn shard(&self) -> &[u8] {
        self.account_id.as_bytes()
    }

    async fn run(tx: &mut Tx, works: &[&Self]) -> Result<Vec<OfficeCharged>> {
        charge_all(tx, works).await
    }
}

/// An account and a month; for spending, a lineage and a month.
type Book<'a> = (&'a str, i64);

/// The number of calls, by account and month, and the spending. Updated with each charge of a group.
#[derive(Default)]
struct Used<'a> {
    calls: BTreeMap<Book<'a>, i64>,
    /// Spending in thousandths of a yen, by lineage and month.
    spent: BTreeMap<Book<'a>, i64>,
}

async fn charge_all(tx: &mut Tx, charges: &[&OfficeCharge]) -> Result<Vec<OfficeCharged>> {
    ledger::lock(tx, charges.iter().map(|charge| charge.account_id.as_str()).collect()).await?;
    let books: BTreeSet<Book<'_>> = charges.iter().map(|charge| (charge.account_id.as_str(), charge.month)).collect();
    let rows = read_totals(tx, &books).await?;
    let mut used = Used::default();
    for (account_id, month, lineage_id, calls, milli_yen) in &rows {
        *used.calls.entry((account_id, *month)).or_default() += calls;
        *used.spent.entry((lineage_id, *month)).or_default() += milli_yen;
    }
    let lineages: BTreeSet<&str> = charges.iter().map(|charge| charge.lineage_id.as_str()).collect();
    let caps = caps_of(tx, &lineages).await?;
    let spent_before = used.spent.clone();
    let mut postings = PostedAtOnce::read(tx, &books).await?;
    let mut answers = Vec::with_capacity(charges.len());
    let mut made = Vec::new();
    for charge in charges.iter().copied() {
        let calls = used.calls.entry((&charge.account_id, charge.month)).or_default();
        let spent = used.spent.entry((&charge.lineage_id, charge.month)).or_default();
        let cap = caps.get(charge.lineage_id.as_str()).filter(|_| charge.milli_yen > 0);
        let answer = if charge.calls_max.is_some_and(|max| *calls >= max) {
            OfficeCharged::QuotaExceeded
        } else if let Some(&cap_yen) = cap.filter(|cap| spent.saturating_add(charge.milli_yen) > **cap * 1000) {
            OfficeCharged::CapReached { cap_yen }
        } else {
            match postings.post(&charge.transfer()) {
                Posted::Made => OfficeCharged::Made,
                Posted::CapReached { cap_nano_usd } => OfficeCharged::BudgetReached { cap_nano_usd },
            }
        };
        if answer == OfficeCharged::Made {
            *calls += 1;
            *spent += charge.milli_yen;
            made.push(charge);
        }
        answers.push(answer);
    }
    if made.is_empty() {
        return Ok(answers);
    }
    postings.write(tx).await?;
    insert_usage(tx, &made).await?;
    add_totals(tx, &made).await?;
    let now = made.iter().map(|charge| charge.created_at).max().unwrap_or_default();
    note_reached_caps(tx, &caps, &spent_before, &used.spent, now).await?;
    let counts: Vec<OperationCounts> = made.iter().map(|charge| charge.counts()).collect();
    count_all(tx, counts.iter()).await?;
    keep_all(tx, made.iter().filter_map(|charge| charge.keep.as_ref()).collect()).await?;
    Ok(answers)
}

impl OfficeCharge {
    fn transfer(&self) -> ledger::WholeTransfer<'_> {
        ledger::WholeTransfer {
            transfer_id: &self.usage_id,
            account_id: &self.account_id,
            node_id: &self.node_id,
            month: self.month,
            usd_milli_jpy: self.usd_milli_jpy,
            created_at: self.created_at,
            amounts: Amounts { milli_yen: self.milli_yen, ..Amounts::default() },
        }
    }

    fn counts(&self) -> OperationCounts {
        let operations = vec![(format!("office_{}", self.operation), 1)];
        OperationCounts { account_id: self.account_id.clone(), month: self.month, operations }
    }

    /// Returns the id of the transfer. Empty: nothing is to be paid.
    fn transfer_id(&self) -> &str {
        if self.milli_yen > 0 { &self.usage_id } else { "" }
    }
}

/// Account, month, lineage, calls, thousandths of a yen.
type TotalRow = (String, i64, String, i64, i64);

async fn read_totals(tx: &mut Tx, books: &BTreeSet<Book<'_>>) -> Result<Vec<TotalRow>> {
    let books: Vec<Book<'_>> = books.iter().copied().collect();
    let sql = Sql {
        sqlite: "SELECT t.account_id, t.month, t.lineage_id, SUM(t.calls), SUM(t.milli_yen) FROM json_each($1) r \
             CROSS JOIN office_totals t ON t.account_id = r.value->>0 AND t.month = r.value->>1 \
             GROUP BY t.account_id, t.month, t.lineage_id",
        postgres: "SELECT t.account_id, t.month, t.lineage_id, CAST(SUM(t.calls) AS BIGINT), CAST(SUM(t.milli_yen) AS BIGINT) \
             FROM unnest($1::text[], $2::bigint[]) AS r (account_id, month) \
             JOIN office_totals t ON t.account_id = r.account_id AND t.month = r.month \
             GROUP BY t.account_id, t.month, t.lineage_id",
    };
    tx.fetch_rows(sql, &[Column::texts(&books, |(account, _)| account), Column::integers(&books, |(_, month)| *month)])
        .await
}

async fn insert_usage(tx: &mut Tx, made: &[&OfficeCharge]) -> Result<()> {
    let sql = Sql {
        sqlite: "INSERT INTO office_usage (usage_id, transfer_id, account_id, lineage_id, environment, operation, units, \
             milli_yen, created_at) SELECT r.value->>0, NULLIF(r.value->>1, ''), r.value->>2, r.value->>3, r.value->>4, \
             r.value->>5, r.value->>6, r.value->>7, r.value->>8 FROM json_each($1) r",
        postgres: "INSERT INTO office_usage (usage_id, transfer_id, account_id, lineage_id, environment, operation, units, \
             milli_yen, created_at) SELECT u, NULLIF(t, ''), a, l, e, o, n, y, c FROM unnest($1::text[], $2::text[], $3::text[], \
             $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::bigint[]) AS r (u, t, a, l, e, o, n, y, c)",
    };
    let columns = [
        Column::texts(made, |charge| &charge.usage_id),
        Column::texts(made, |charge| charge.transfer_id()),
        Column::texts(made, |charge| &charge.account_id),
        Column::texts(made, |charge| &charge.lineage_id),
        Column::texts(made, |charge| charge.environment.as_str()),
        Column::texts(made, |charge| charge.operation),
        Column::integers(made, |charge| charge.units),
        Column::integers(made, |charge| charge.milli_yen),
        Column::integers(made, |charge| charge.created_at),
    ];
    tx.execute_rows(sql, &columns).await.map(drop)
}

macro_rules! on_conflict_add {
    () => {
        "ON CONFLICT (account_id, month, lineage_id, operation) DO UPDATE SET calls = office_totals.calls + excluded.calls, \
         units = office_totals.units + excluded.units, milli_yen = office_totals.milli_yen + excluded.milli_yen"
    };
}

/// Account, month, lineage, operation.
type TotalKey<'a> = (&'a str, i64, &'a str, &'a str);

async fn add_totals(tx: &mut Tx, made: &[&OfficeCharge]) -> Result<()> {
    // one sum for each row; the map sorts the rows, so that all transactions lock them in the same order
    let mut sums: BTreeMap<TotalKey<'_>, [i64; 3]> = BTreeMap::new();
    for charge in made {
        let key = (charge.account_id.as_str(), charge.month, charge.lineage_id.as_str(), charge.operation);
        let sum = sums.entry(key).or_default();
        *sum = [sum[0] + 1, sum[1] + charge.units, sum[2] + charge.milli_yen];
    }
    let sql = Sql {
        // `WHERE true`, because otherwise SQLite reads ON CONFLICT as the condition of a join
        sqlite: concat!(
            "INSERT INTO office_totals (account_id, month, lineage_id, operation, calls, units, milli_yen) \
             SELECT r.value->>0, r.value->>1, r.value->>2, r.value->>3, r.value->>4, r.value->>5, r.value->>6 \
             FROM json_each($1) r WHERE true ",
            on_conflict_add!()
        ),
        postgres: concat!(
            "INSERT INTO office_totals (account_id, month, lineage_id, operation, calls, units, milli_yen) \
             SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[]) ",
            on_conflict_add!()
        ),
    };
    let rows: Vec<(TotalKey<'_>, [i64; 3])> = sums.into_iter().collect();
    let columns = [
        Column::texts(&rows, |((account, ..), _)| account),
        Column::integers(&rows, |((_, month, ..), _)| *month),
        Column::texts(&rows, |((_, _, lineage, _), _)| lineage),
        Column::texts(&rows, |((.., operation), _)| operation),
        Column::integers(&rows, |(_, [calls, ..])| *calls),
        Column::integers(&rows, |(_, [_, units, _])| *units),
        Column::integers(&rows, |(_, [.., milli_yen])| *milli_yen),
    ];
    tx.execute_rows(sql, &columns).await.map(drop)
}
