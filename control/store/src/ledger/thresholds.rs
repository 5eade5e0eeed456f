//! Thresholds of the plan's compute units and of the monthly cap. The posting that reaches a threshold writes an alert,
//! so that each threshold is announced exactly once (readings P21-P23).

use std::collections::BTreeMap;

use super::Spend;
use super::balances::{Balance, Changes, Standing};
use crate::Result;
use crate::alerts::{Alert, AlertKind};
use crate::database::Tx;

/// Alerts are written at these percentages of the plan's compute units.
pub const USAGE_THRESHOLDS: [i64; 3] = [50, 80, 100];
/// Alerts are written at these percentages of the monthly cap.
pub const BUDGET_THRESHOLDS: [i64; 2] = [80, 100];

/// Number of compute units that each account's plan includes in a month, by account. `None`: any number.
pub(super) type Allowances<'a> = BTreeMap<&'a str, Option<i64>>;

/// Returns whether `used` is at least this many percent of a limit.
pub fn is_reached(used: i64, limit: i64, percent: i64) -> bool {
    i128::from(used) * 100 >= i128::from(limit) * i128::from(percent)
}

/// Writes alerts for the thresholds that these postings reached. `standing` already includes the postings. The caller
/// has locked the accounts.
pub(super) async fn note_reached(
    tx: &mut Tx,
    standing: &Standing,
    changes: &Changes,
    allowances: &Allowances<'_>,
    now: i64,
) -> Result<()> {
    let books = changes.books();
    let mut alerts = Vec::new();
    for book in books {
        let (account, period) = book;
        let after = standing.of(book);
        let before = |balance: &Balance| {
            let posted = changes.posted(account, period, balance.usd_milli_jpy);
            let fcu = balance.fcu - posted.fcu;
            (fcu, balance.nano_usd - posted.nano_usd, balance.milli_yen - posted.milli_yen)
        };
        let mut note = |kind, thresholds: &[i64], limit: i64, [before, after]: [i64; 2]| {
            for threshold in thresholds {
                if is_reached(after, limit, *threshold) && !is_reached(before, limit, *threshold) {
                    alerts.push(Alert {
                        account_id: account.to_owned(),
                        period,
                        kind,
                        threshold: *threshold,
                        of_limit: limit,
                        used: after,
                        created_at: now,
                    });
                }
            }
        };
        let allowance = allowances.get(account).and_then(|of_plan| standing.allowance(book, *of_plan));
        if let Some(limit) = allowance.filter(|limit| *limit > 0) {
            let used = [after.iter().map(|balance| before(balance).0).sum(), after.iter().map(|one| one.fcu).sum()];
            note(AlertKind::Usage, &USAGE_THRESHOLDS, limit, used);
        }
        if let Some(cap) = standing.budget(book) {
            let (mut spent_before, mut spent) = (Spend::default(), Spend::default());
            for balance in after {
                let (_, nano_usd, milli_yen) = before(balance);
                spent_before.add(nano_usd, milli_yen, balance.usd_milli_jpy);
                spent.add(balance.nano_usd, balance.milli_yen, balance.usd_milli_jpy);
            }
            note(AlertKind::Budget, &BUDGET_THRESHOLDS, cap, [spent_before.nano_usd(), spent.nano_usd()]);
        }
    }
    tx.add_alerts(&alerts).await
}
