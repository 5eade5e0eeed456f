//! Reservations. The price of work is reserved before the work begins (readings A14, P6, P8).

use std::collections::BTreeSet;

use super::balances::{Book, Changes, Standing};
use super::rows::{self, TransferRow};
use super::{Amounts, NO_MONTH, TransferPhase, lock};
use crate::database::{Tx, values};
use crate::work::Work;
use crate::{Result, Store};

/// A reservation to make.
#[derive(Clone, Debug)]
pub struct NewReservation {
    /// The transfer's id, which is also the id of the operation or usage row that the transfer pays for.
    pub transfer_id: String,
    /// The account that pays.
    pub account_id: String,
    /// The node that does the work.
    pub node_id: String,
    /// The month in which the work was accepted (readings P10): months since year 0.
    pub month: i64,
    /// The present rate: thousandths of a yen for a dollar.
    pub usd_milli_jpy: i64,
    /// Now, in microseconds since 1970.
    pub created_at: i64,
    /// The amount to reserve.
    pub wanted: Wanted,
}

/// The amount to reserve, in one of three units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Operations of a trial.
    TrialOperations {
        /// Number of operations.
        count: i64,
        /// Largest number of operations that the trial may have altogether.
        max: i64,
    },
    /// Compute units.
    Fcu {
        /// Number of compute units.
        fcu: i64,
        /// Number of compute units that the plan includes in a month. `None`: no limit. An allowance of the month itself
        /// replaces this number (readings P11).
        allowance: Option<i64>,
        /// How compute units beyond the allowance are treated.
        beyond: BeyondAllowance,
    },
    /// The price of gates, in thousandths of a yen.
    MilliYen(i64),
}

/// How compute units beyond the allowance are treated (readings P5, P6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeyondAllowance {
    /// Refused.
    Refused,
    /// Counted only.
    Free,
    /// Each compute unit beyond the allowance costs this many billionths of a dollar.
    Charged(i64),
}

/// The result of a reservation. If the result is not `Made`, nothing was reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// These amounts are reserved.
    Made(Amounts),
    /// The trial has ended, or has too few operations left.
    TrialExhausted,
    /// The account's compute units in the month would exceed the allowance.
    QuotaExceeded {
        /// Number of compute units that are used or reserved.
        fcu: i64,
        /// Number of compute units that are included in the month.
        allowance: i64,
    },
    /// The account's spending would exceed its cap.
    CapReached {
        /// The cap in billionths of a dollar.
        cap_nano_usd: i64,
    },
}

impl Store {
    /// Reserves the price of work. The reservation is durable when this returns.
    pub async fn reserve(&self, reservation: NewReservation) -> Result<Reserved> {
        self.writers.submit(reservation).await
    }

    /// Tells how [`Store::reserve`] would answer at this moment. Reserves nothing.
    pub async fn would_reserve(&self, reservation: &NewReservation) -> Result<Reserved> {
        let account = &reservation.account_id;
        if let Wanted::TrialOperations { count, max } = reservation.wanted {
            let trial = self.trial(account).await?;
            if trial.is_none_or(|trial| trial.operations_used > max.saturating_sub(count)) {
                return Ok(Reserved::TrialExhausted);
            }
            return Ok(reservation.amounts(&Standing::default()));
        }
        let mut tx = self.db.begin().await?;
        let standing = Standing::read(&mut tx, &BTreeSet::from([reservation.book()])).await?;
        Ok(reservation.amounts(&standing))
    }
}

impl NewReservation {
    fn book(&self) -> Book<'_> {
        let month = if matches!(self.wanted, Wanted::TrialOperations { .. }) { NO_MONTH } else { self.month };
        (&self.account_id, month)
    }

    /// Returns the amounts to reserve, or the reason why nothing can be reserved. Does not check the limit of a trial:
    /// [`take_trial_operations`] checks this limit when it updates the trial's row.
    fn amounts(&self, standing: &Standing) -> Reserved {
        let mut amounts = Amounts::default();
        match self.wanted {
            Wanted::TrialOperations { count, .. } => amounts.trial_operations = count,
            Wanted::MilliYen(milli_yen) => amounts.milli_yen = milli_yen,
            Wanted::Fcu { fcu, allowance, beyond } => {
                let used = standing.fcu(self.book());
                amounts.fcu = fcu;
                if let Some(allowance) = standing.allowance(self.book(), allowance) {
                    let over = fcu - allowance.saturating_sub(used).clamp(0, fcu);
                    match beyond {
                        BeyondAllowance::Refused if over > 0 => {
                            return Reserved::QuotaExceeded { fcu: used, allowance };
                        }
                        // the worst case, in which all work in flight succeeds; `Posting` says what is charged
                        BeyondAllowance::Charged(each) => amounts.nano_usd = each.saturating_mul(over),
                        _ => {}
                    }
                }
            }
        }
        // a cap does not block work that costs nothing
        if (amounts.nano_usd > 0 || amounts.milli_yen > 0)
            && let Some(cap_nano_usd) = standing.cap(self.book())
        {
            let mut spend = standing.spend(self.book());
            spend.add(amounts.nano_usd, amounts.milli_yen, self.usd_milli_jpy);
            if !spend.is_at_most(cap_nano_usd) {
                return Reserved::CapReached { cap_nano_usd };
            }
        }
        Reserved::Made(amounts)
    }

    fn row(&self, amounts: Amounts) -> TransferRow {
        TransferRow {
            transfer_id: self.transfer_id.clone(),
            account_id: self.account_id.clone(),
            month: self.book().1,
            usd_milli_jpy: self.usd_milli_jpy,
            trial_operations: amounts.trial_operations,
            fcu: amounts.fcu,
            nano_usd: amounts.nano_usd,
            milli_yen: amounts.milli_yen,
            node_id: self.node_id.clone(),
            created_at: self.created_at,
        }
    }
}

impl Work for NewReservation {
    type Answer = Reserved;

    fn shard(&self) -> &[u8] {
        self.account_id.as_bytes()
    }

    async fn run(tx: &mut Tx, works: &[&Self]) -> Result<Vec<Reserved>> {
        lock(tx, works.iter().map(|work| work.account_id.as_str()).collect()).await?;
        let of_months: BTreeSet<Book<'_>> =
            works.iter().map(|work| work.book()).filter(|(_, month)| *month != NO_MONTH).collect();
        let mut standing =
            if of_months.is_empty() { Standing::default() } else { Standing::read(tx, &of_months).await? };
        let (mut answers, mut made, mut changes) = (Vec::with_capacity(works.len()), Vec::new(), Changes::default());
        for work in works {
            let mut answer = work.amounts(&standing);
            if let Reserved::Made(amounts) = answer {
                match work.wanted {
                    Wanted::TrialOperations { count, max } => {
                        if !take_trial_operations(tx, &work.account_id, count, max).await? {
                            answer = Reserved::TrialExhausted;
                        }
                    }
                    _ if standing.reserve(work.book(), work.usd_milli_jpy, amounts) => {
                        changes.reserve(&work.account_id, work.month, work.usd_milli_jpy, amounts);
                    }
                    // a sum of the account would overflow 64 bits; in practice no account's sums become that large
                    _ => answer = Reserved::CapReached { cap_nano_usd: i64::MAX },
                }
            }
            if let Reserved::Made(amounts) = answer {
                made.push(work.row(amounts));
            }
            answers.push(answer);
        }
        if !made.is_empty() {
            rows::append(tx, TransferPhase::Pending, &made).await?;
            rows::open(tx, &made).await?;
            if !changes.is_empty() {
                changes.add(tx).await?;
            }
        }
        Ok(answers)
    }
}

/// Adds `count` to the number of a trial's operations. False: nothing was added, because the number would exceed `max`
/// or the trial does not exist.
async fn take_trial_operations(tx: &mut Tx, account_id: &str, count: i64, max: i64) -> Result<bool> {
    let sql =
        "UPDATE trials SET operations_used = operations_used + $2 WHERE account_id = $1 AND operations_used <= $3";
    Ok(tx.execute(sql, values![account_id, count, max.saturating_sub(count)]).await? == 1)
}
