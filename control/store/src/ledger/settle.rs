//! The end of a reservation: it is posted with the results of the work, or voided (readings P24).

use std::collections::{BTreeMap, BTreeSet};

use super::balances::{Book, Changes, Standing};
use super::rows::{self, TransferRow};
use super::thresholds::{Allowances, note_reached};
use super::{Amounts, NO_MONTH, TransferPhase, lock};
use crate::database::{Sql, Tx, clock, values};
use crate::work::Work;
use crate::{Error, Result, Store};

/// A step of a unit: posts a reservation, because its work was completed.
#[derive(Clone, Debug)]
pub struct Posting {
    /// The transfer's id.
    pub transfer_id: String,
    /// The account that pays.
    pub account_id: String,
    /// Number of compute units that the plan includes in a month. `None`: any number. An allowance of the month itself
    /// replaces this number (readings P11).
    pub allowance: Option<i64>,
    /// Price of each compute unit beyond the allowance, in billionths of a dollar. 0: not charged.
    pub nano_usd_of_unit: i64,
    /// Now, in microseconds since 1970.
    pub at: i64,
}

/// Voids a reservation, because its work was not completed.
#[derive(Clone, Debug)]
pub(crate) struct Voiding {
    transfer_id: String,
    account_id: String,
    at: i64,
}

/// An open reservation that its node will not settle any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostReservation {
    /// The transfer's id.
    pub transfer_id: String,
    /// The account that would have paid.
    pub account_id: String,
}

impl Store {
    /// Voids a reservation. Does nothing if the reservation was settled before.
    pub async fn void_reservation(&self, transfer_id: &str, account_id: &str, at: i64) -> Result<()> {
        let (transfer_id, account_id) = (transfer_id.to_owned(), account_id.to_owned());
        self.writers.submit(Voiding { transfer_id, account_id, at }).await
    }

    /// Returns the open reservations of this node whose transfer ids come after `after`, in order, at most `limit`.
    pub async fn reservations_of_node(&self, node_id: &str, after: &str, limit: i64) -> Result<Vec<LostReservation>> {
        let sql = "SELECT transfer_id, account_id FROM open_reservations WHERE node_id = $1 AND transfer_id > $2 \
             ORDER BY transfer_id LIMIT $3";
        Ok(lost(self.db.fetch_all(sql, values![node_id, after, limit]).await?))
    }

    /// Returns the open reservations of those other nodes whose lease ended before `silent_since`, at most `limit`
    /// reservations. Leaves out reservations made after `silent_since`, because a node that has just started may not
    /// have a lease yet. Leaves out nodes whose process holds a generation, because this node's clock may be wrong.
    pub async fn forsaken_reservations(
        &self,
        node_id: &str,
        silent_since: i64,
        limit: i64,
    ) -> Result<Vec<LostReservation>> {
        macro_rules! forsaken {
            ($clock:expr) => {
                concat!(
                    "SELECT transfer_id, account_id FROM open_reservations o WHERE created_at < $1 AND NOT EXISTS ",
                    "(SELECT 1 FROM nodes n WHERE n.node_id = o.node_id AND (n.lease_until >= $1 OR n.alive_until > ",
                    $clock,
                    ")) AND node_id <> $3 ORDER BY transfer_id LIMIT $2"
                )
            };
        }
        let sql = Sql { sqlite: forsaken!(clock!(sqlite)), postgres: forsaken!(clock!(postgres)) };
        Ok(lost(self.db.fetch_all(sql, values![silent_since, limit, node_id]).await?))
    }
}

fn lost(rows: Vec<(String, String)>) -> Vec<LostReservation> {
    rows.into_iter().map(|(transfer_id, account_id)| LostReservation { transfer_id, account_id }).collect()
}

impl Voiding {
    /// Returns the id of the account that would have paid.
    pub fn account(&self) -> &str {
        &self.account_id
    }
}

impl Work for Voiding {
    type Answer = ();

    fn shard(&self) -> &[u8] {
        self.account_id.as_bytes()
    }

    async fn run(tx: &mut Tx, works: &[&Self]) -> Result<Vec<()>> {
        lock(tx, works.iter().map(|work| work.account_id.as_str()).collect()).await?;
        let ends: BTreeMap<&str, i64> = works.iter().map(|work| (work.transfer_id.as_str(), work.at)).collect();
        void_all(tx, &ends).await?;
        Ok(vec![(); works.len()])
    }
}

/// Posts transfers. A transfer that is not open fails the whole group ([`Error::ReservationLost`]).
pub(crate) async fn post_all(tx: &mut Tx, postings: Vec<&Posting>) -> Result<()> {
    if postings.is_empty() {
        return Ok(());
    }
    lock(tx, postings.iter().map(|posting| posting.account_id.as_str()).collect::<BTreeSet<_>>()).await?;
    let mut closed = rows::close(tx, postings.iter().map(|posting| posting.transfer_id.as_str()).collect()).await?;
    if closed.len() != postings.len() {
        return Err(Error::ReservationLost);
    }
    // in the order of the postings, because each one is charged for what those before it left
    let order: BTreeMap<&str, usize> =
        postings.iter().enumerate().map(|(at, posting)| (posting.transfer_id.as_str(), at)).collect();
    closed.sort_unstable_by_key(|row| order[row.transfer_id.as_str()]);
    let books: BTreeSet<Book<'_>> =
        closed.iter().filter(|row| row.month != NO_MONTH).map(|row| (row.account_id.as_str(), row.month)).collect();
    let mut standing = if books.is_empty() { Standing::default() } else { Standing::read(tx, &books).await? };
    let mut changes = Changes::default();
    for (row, posting) in closed.iter_mut().zip(&postings) {
        row.created_at = posting.at;
        if row.month != NO_MONTH {
            let reserved = row.amounts();
            row.nano_usd = posting.charge(row, &standing);
            let (book, posted) = ((row.account_id.as_str(), row.month), row.amounts());
            standing.post(book, row.usd_milli_jpy, reserved, posted);
            changes.settle(&row.account_id, row.month, row.usd_milli_jpy, reserved, posted);
        }
    }
    rows::append(tx, TransferPhase::Posted, &closed).await?;
    if changes.is_empty() {
        return Ok(());
    }
    changes.apply(tx).await?;
    let allowances: Allowances<'_> =
        postings.iter().map(|posting| (posting.account_id.as_str(), posting.allowance)).collect();
    let now = postings.iter().map(|posting| posting.at).max().unwrap_or_default();
    note_reached(tx, &standing, &changes, &allowances, now).await
}

impl Posting {
    /// Returns the charge for the transfer's compute units, in billionths of a dollar. The month's charge is the price
    /// of the posted compute units beyond the allowance (readings P33). So work in flight that failed does not make
    /// other work dearer. The charge is at most the reserved amount, which the cap permitted.
    fn charge(&self, row: &TransferRow, standing: &Standing) -> i64 {
        let book = (row.account_id.as_str(), row.month);
        let (posted, charged) = standing.posted_units(book);
        let allowance = standing.allowance(book, self.allowance).map_or(i128::MAX, i128::from);
        let beyond = (posted + i128::from(row.fcu)).saturating_sub(allowance).max(0);
        let due = beyond * i128::from(self.nano_usd_of_unit) - charged;
        due.clamp(0, i128::from(row.nano_usd)) as i64
    }
}

/// Voids those transfers in `ends` that are still open. `ends` contains, for each transfer id, the time at which the
/// transfer ends.
async fn void_all(tx: &mut Tx, ends: &BTreeMap<&str, i64>) -> Result<()> {
    let mut closed = rows::close(tx, ends.keys().copied().collect()).await?;
    let mut changes = Changes::default();
    for row in &mut closed {
        row.created_at = ends[row.transfer_id.as_str()];
        let amounts = row.amounts();
        if row.month != NO_MONTH {
            changes.settle(&row.account_id, row.month, row.usd_milli_jpy, amounts, Amounts::default());
        }
        if amounts.trial_operations > 0 {
            // changes no row if the trial was erased after the reservation
            let sql = "UPDATE trials SET operations_used = operations_used - $2 WHERE account_id = $1";
            tx.execute(sql, values![&row.account_id, amounts.trial_operations]).await?;
        }
    }
    if !closed.is_empty() {
        rows::append(tx, TransferPhase::Voided, &closed).await?;
        if !changes.is_empty() {
            changes.apply(tx).await?;
        }
    }
    Ok(())
}
