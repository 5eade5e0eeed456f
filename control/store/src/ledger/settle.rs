//! The end of a reservation: it is posted with the results of the work, or voided (readings P24).

use std::collections::{BTreeMap, BTreeSet};

use super::balances::Changes;
use super::rows;
use super::thresholds::{Allowances, note_reached};
use super::{NO_MONTH, TransferPhase, lock};
use crate::database::{Tx, values};
use crate::work::Work;
use crate::{Error, Result, Store};

/// A step of a unit: posts a reservation, because its work was completed.
#[derive(Clone, Debug)]
pub struct Posting {
    /// The transfer's id.
    pub transfer_id: String,
    /// The account that pays.
    pub account_id: String,
    /// Number of compute units that the plan includes in a month. `None`: no alerts are written about the account's
    /// use.
    pub allowance: Option<i64>,
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
    /// have a lease yet.
    pub async fn forsaken_reservations(
        &self,
        node_id: &str,
        silent_since: i64,
        limit: i64,
    ) -> Result<Vec<LostReservation>> {
        let sql = "SELECT transfer_id, account_id FROM open_reservations o WHERE created_at < $1 AND NOT EXISTS \
             (SELECT 1 FROM nodes n WHERE n.node_id = o.node_id AND n.lease_until >= $1) AND node_id <> $3 ORDER BY transfer_id LIMIT $2";
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
        settle(tx, TransferPhase::Voided, &ends, &Allowances::new()).await?;
        Ok(vec![(); works.len()])
    }
}

/// Posts transfers. A transfer that is not open fails the whole group ([`Error::ReservationLost`]).
pub(crate) async fn post_all(tx: &mut Tx, postings: Vec<&Posting>) -> Result<()> {
    if postings.is_empty() {
        return Ok(());
    }
    lock(tx, postings.iter().map(|posting| posting.account_id.as_str()).collect::<BTreeSet<_>>()).await?;
    let ends: BTreeMap<&str, i64> = postings.iter().map(|posting| (posting.transfer_id.as_str(), posting.at)).collect();
    let allowances: Allowances<'_> =
        postings.iter().filter_map(|posting| Some((posting.account_id.as_str(), posting.allowance?))).collect();
    match settle(tx, TransferPhase::Posted, &ends, &allowances).await? {
        settled if settled == postings.len() => Ok(()),
        _ => Err(Error::ReservationLost),
    }
}

/// Settles those transfers in `ends` that are still open. Returns how many were open. `ends` contains, for each
/// transfer id, the time at which the transfer ends.
async fn settle(
    tx: &mut Tx,
    phase: TransferPhase,
    ends: &BTreeMap<&str, i64>,
    allowances: &Allowances<'_>,
) -> Result<usize> {
    let mut closed = rows::close(tx, ends.keys().copied().collect()).await?;
    let posted = phase == TransferPhase::Posted;
    let mut changes = Changes::default();
    for row in &mut closed {
        row.created_at = ends[row.transfer_id.as_str()];
        let amounts = row.amounts();
        if row.month != NO_MONTH {
            changes.settle(&row.account_id, row.month, row.usd_milli_jpy, amounts, posted);
        }
        if amounts.trial_operations > 0 && !posted {
            // changes no row if the trial was erased after the reservation
            let sql = "UPDATE trials SET operations_used = operations_used - $2 WHERE account_id = $1";
            tx.execute(sql, values![&row.account_id, amounts.trial_operations]).await?;
        }
    }
    if !closed.is_empty() {
        rows::append(tx, phase, &closed).await?;
        if !changes.is_empty() {
            changes.apply(tx).await?;
            if posted {
                let now = ends.values().copied().max().unwrap_or_default();
                note_reached(tx, &changes, allowances, now).await?;
            }
        }
    }
    Ok(closed.len())
}
