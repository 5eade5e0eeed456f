//! The ledger. Before work begins, its price is reserved: operations of a trial, compute units, yen. When the work
//! ends, the reservation is posted with the results, or given back (readings A14, P5-P8, P24).

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use api::{AccountId, Code};
use parking_lot::Mutex;
use store::{
    BeyondAllowance, LostReservation, NewReservation, OperationCounts, Posting, Reserved, Store, Unit, Wanted,
};

use crate::access::limits::Period;
use crate::access::trials;
use crate::billing::compute_units::{OperationPrice, UsdRate};
use crate::billing::plans::{allowance, beyond_allowance, pays_for_gates};
use crate::billing::tariff::Price;
use crate::caller::{Caller, Environment, Plan};
use crate::clock::{Clock, Timestamp};
use crate::ids;
use crate::in_flight::InFlight;
use crate::resource::Payer;
use crate::web::error::ApiError;

/// Largest number of reservations that one query reads.
const LOST_AT_ONCE: i64 = 256;

/// The ledger in the database, as this node reads and writes it.
pub struct Ledger {
    store: Store,
    node_id: String,
    rate: UsdRate,
    clock: Clock,
    /// Reservations that are being given back. The node waits for them before it stops.
    unfinished: InFlight,
    /// The transfers of the reservations that this process holds. An open reservation of this node that is not among
    /// them was not given back, for example because the database did not answer.
    held: Mutex<HashSet<String>>,
}

/// The payer of work.
#[derive(Clone, Debug)]
pub struct PaidBy {
    /// The account.
    pub account: AccountId,
    /// Environment of the request's key.
    pub environment: Environment,
    /// The account's plan.
    pub plan: Plan,
}

impl From<&PaidBy> for Payer {
    fn from(by: &PaidBy) -> Payer {
        let account = by.account.clone();
        if by.plan == Plan::Trial { Payer::trial(account) } else { Payer::account(account) }
    }
}

impl From<&Caller> for PaidBy {
    fn from(caller: &Caller) -> Self {
        PaidBy { account: caller.account.clone(), environment: caller.environment, plan: caller.plan }
    }
}

/// The price of work, reserved before the work began. Dropping this value gives the reservation back, unless
/// [`Reservation::book`] has succeeded.
pub struct Reservation {
    ledger: Arc<Ledger>,
    account: AccountId,
    /// The month in which the work was accepted (readings P10).
    month: i64,
    /// Whether the work is of a trial. Trials' operations are not counted by name (readings P5).
    is_of_trial: bool,
    /// The number of compute units that the plan includes in a month. `None`: any number.
    allowance: Option<i64>,
    /// Price of a compute unit beyond the allowance, in billionths of a dollar. 0: not charged.
    nano_usd_of_unit: i64,
    /// The transfer in the ledger. `None`: nothing is to be paid.
    transfer_id: Option<String>,
    settled: AtomicBool,
}

impl Ledger {
    /// Gives access to the ledger of this database. The node waits for `unfinished` before it stops.
    pub fn new(store: Store, node_id: String, rate: UsdRate, clock: Clock, unfinished: InFlight) -> Ledger {
        Ledger { store, node_id, rate, clock, unfinished, held: Mutex::default() }
    }

    /// Returns the present exchange rate, in yen for a dollar.
    pub fn rate(&self) -> UsdRate {
        self.rate
    }

    /// Returns the reservation of an operation that the fleet holds. Dropping it gives nothing back, because another node may
    /// hold the operation meanwhile: [`Reservation::void`] does.
    pub fn of_fleet(self: &Arc<Self>, by: &PaidBy, month: i64, transfer_id: Option<String>) -> Reservation {
        let mut reservation = self.settled(by, month);
        reservation.transfer_id = transfer_id;
        reservation
    }

    fn settled(self: &Arc<Self>, by: &PaidBy, month: i64) -> Reservation {
        Reservation {
            ledger: self.clone(),
            account: by.account.clone(),
            month,
            is_of_trial: by.environment == Environment::Trial,
            allowance: included(by.plan),
            nano_usd_of_unit: match beyond_allowance(by.plan, by.environment) {
                BeyondAllowance::Charged(nano_usd) => nano_usd,
                BeyondAllowance::Refused | BeyondAllowance::Free => 0,
            },
            transfer_id: None,
            settled: AtomicBool::new(true),
        }
    }

    /// Refuses compute units that [`Ledger::reserve`] would refuse at this moment. Reserves nothing.
    pub async fn check_units(&self, by: &PaidBy, price: &OperationPrice, now: Timestamp) -> Result<(), ApiError> {
        let Some(wanted) = wanted_units(by, price) else { return Ok(()) };
        let asked = self.new_reservation(by, wanted, now);
        match self.refusal(by, wanted, self.store.would_reserve(&asked).await?).await? {
            None => Ok(()),
            Some(refused) => Err(refused),
        }
    }

    /// Reserves what work takes ([`wanted_gates`], [`wanted_units`]). `None`: nothing is to be paid.
    pub async fn reserve(
        self: &Arc<Self>,
        by: &PaidBy,
        wanted: Option<Wanted>,
        now: Timestamp,
    ) -> Result<Reservation, ApiError> {
        let month = Period::of(now).month;
        let mut reservation = self.settled(by, month);
        let Some(wanted) = wanted else { return Ok(reservation) };
        let new = self.new_reservation(by, wanted, now);
        // set before the write, because the reservation may exist even if the caller leaves before the database answers
        self.held.lock().insert(new.transfer_id.clone());
        reservation.transfer_id = Some(new.transfer_id.clone());
        reservation.settled = AtomicBool::new(false);
        let reserved = self.store.reserve(new).await?;
        let Some(refused) = self.refusal(by, wanted, reserved).await? else { return Ok(reservation) };
        reservation.keep();
        Err(refused)
    }

    fn new_reservation(&self, by: &PaidBy, wanted: Wanted, now: Timestamp) -> NewReservation {
        NewReservation {
            transfer_id: ids::transfer(now).as_str().to_owned(),
            account_id: by.account.as_str().to_owned(),
            node_id: self.node_id.clone(),
            month: Period::of(now).month,
            usd_milli_jpy: self.rate.0,
            created_at: now.0,
            wanted,
        }
    }

    /// Returns the error for a reservation that was refused. `None`: the reservation was made.
    async fn refusal(&self, by: &PaidBy, wanted: Wanted, reserved: Reserved) -> Result<Option<ApiError>, ApiError> {
        Ok(match reserved {
            Reserved::Made(_) => None,
            Reserved::TrialExhausted => Some(self.trial_exhausted(&by.account, wanted).await?),
            Reserved::QuotaExceeded { fcu, allowance } => Some(quota_exceeded(allowance, fcu, wanted)),
            Reserved::CapReached { cap_nano_usd } => Some(cap_reached(cap_nano_usd)),
        })
    }

    async fn trial_exhausted(&self, account: &AccountId, wanted: Wanted) -> Result<ApiError, ApiError> {
        let wanted = if let Wanted::TrialOperations { count, .. } = wanted { count } else { 0 };
        let max = trials::OPERATIONS_MAX;
        let trial = self.store.trial(account.as_str()).await?;
        let left = trial.map_or(0, |trial| max.saturating_sub(trial.operations_used.unsigned_abs()));
        let message = match left {
            0 => format!("the trial key has used its {max} operations"),
            _ => format!(
                "the request has {wanted} operations, but the trial key has {left} of its {max} left; nothing was done"
            ),
        };
        Ok(ApiError::new(Code::TrialOpsExhausted, message))
    }

    /// Gives back the reservations of an earlier process of this node, because that process's work ended with it.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn give_back_lost(&self) -> Result<(), store::Error> {
        give_back_lost(&self.store, &self.node_id, self.clock.now()).await
    }

    /// Gives back the open reservations of this node that no work of this process holds. Work that ended while the
    /// database did not answer left them behind.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn give_back_left_behind(&self) -> Result<(), store::Error> {
        let mut after = String::new();
        loop {
            let open = self.store.reservations_of_node(&self.node_id, &after, LOST_AT_ONCE).await?;
            let Some(last) = open.last() else { return Ok(()) };
            after = last.transfer_id.clone();
            let left: Vec<LostReservation> = {
                let held = self.held.lock();
                open.into_iter().filter(|one| !held.contains(&one.transfer_id)).collect()
            };
            if !left.is_empty() {
                tracing::warn!(reservations = left.len(), "reservations that no work holds are given back");
            }
            self.void_all(&left).await?;
        }
    }

    /// Gives back the reservations of the fleet whose operations have ended. A node that died between the two steps left them.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn give_back_ended(&self) -> Result<(), store::Error> {
        let left = self.store.reservations_without_operation(LOST_AT_ONCE).await?;
        let left = left.into_iter().map(|(transfer_id, account_id)| LostReservation { transfer_id, account_id });
        self.void_all(&left.collect::<Vec<_>>()).await
    }

    /// Gives back the reservations of nodes whose last sign of life is older than `silent_since`.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn give_back_forsaken(&self, silent_since: Timestamp) -> Result<(), store::Error> {
        let lost = self.store.forsaken_reservations(&self.node_id, silent_since.0, LOST_AT_ONCE).await?;
        if !lost.is_empty() {
            tracing::warn!(
                reservations = lost.len(),
                "reservations are given back because their nodes no longer renew their leases"
            );
        }
        self.void_all(&lost).await
    }

    async fn void_all(&self, lost: &[LostReservation]) -> Result<(), store::Error> {
        void_all(&self.store, lost, self.clock.now()).await
    }

    async fn give_back(&self, account: &AccountId, transfer_id: &str) {
        let now = self.clock.now();
        if let Err(error) = self.store.void_reservation(transfer_id, account.as_str(), now.0).await {
            let account = account.as_str();
            tracing::error!(%error, account, transfer_id, "a reservation could not be given back and will be tried again");
        }
        self.held.lock().remove(transfer_id);
    }
}

impl Reservation {
    /// Returns the month in which the work was accepted.
    pub fn month(&self) -> i64 {
        self.month
    }

    /// Notes that the fleet holds the reservation, so that dropping it gives nothing back.
    pub fn hand_over(&self) {
        self.keep();
    }

    /// Gives a reservation of the fleet back, because the operation has ended without results.
    pub async fn void(&self) {
        if let Some(transfer_id) = &self.transfer_id {
            self.ledger.give_back(&self.account, transfer_id).await;
        }
    }

    /// Returns the id of the transfer, for the usage row. `None`: nothing is to be paid.
    pub fn transfer_id(&self) -> Option<String> {
        self.transfer_id.clone()
    }

    /// Writes a unit, the posting of this reservation, and the count of the completed operations by name: all or none. A
    /// reservation whose unit was not written is still to be given back.
    pub async fn book(&self, unit: Unit, operations: Vec<(String, i64)>, now: Timestamp) -> Result<(), store::Error> {
        let unit = Unit { posting: self.posting(now), counts: self.counts(operations), ..unit };
        self.ledger.store.submit(unit).await?;
        self.keep();
        Ok(())
    }

    /// Makes the step, of a unit of work, that posts this reservation. `None`: nothing is to be paid.
    fn posting(&self, now: Timestamp) -> Option<Posting> {
        let account_id = self.account.as_str().to_owned();
        let (allowance, nano_usd_of_unit) = (self.allowance, self.nano_usd_of_unit);
        let transfer_id = self.transfer_id.clone()?;
        Some(Posting { transfer_id, account_id, allowance, nano_usd_of_unit, at: now.0 })
    }

    /// Makes the step, of a unit of work, that counts completed operations by name. `None`: there is nothing to count.
    fn counts(&self, operations: Vec<(String, i64)>) -> Option<OperationCounts> {
        let account_id = self.account.as_str().to_owned();
        (!self.is_of_trial && !operations.is_empty()).then_some(OperationCounts {
            account_id,
            month: self.month,
            operations,
        })
    }

    /// Notes that the reservation was posted, so that dropping it gives nothing back.
    fn keep(&self) {
        self.settled.store(true, Ordering::Relaxed);
        if let Some(transfer_id) = &self.transfer_id {
            self.ledger.held.lock().remove(transfer_id);
        }
    }

    /// Gives the reservation back because the work failed. A reservation that was posted stays posted.
    pub async fn give_back(&self) {
        if let Some(transfer_id) = &self.transfer_id
            && !self.settled.swap(true, Ordering::Relaxed)
        {
            self.ledger.give_back(&self.account, transfer_id).await;
        }
    }
}

impl Drop for Reservation {
    /// Gives the reservation back if neither `keep` nor `give_back` was called: the client left before the work began,
    /// or a task panicked.
    fn drop(&mut self) {
        let Some(transfer_id) = self.transfer_id.take().filter(|_| !*self.settled.get_mut()) else { return };
        let (ledger, account) = (self.ledger.clone(), self.account.clone());
        let unfinished = ledger.unfinished.enter();
        tokio::spawn(async move {
            ledger.give_back(&account, &transfer_id).await;
            drop(unfinished);
        });
    }
}

/// Gives back the reservations of a node that does not run.
///
/// # Errors
/// When the database does not answer.
pub async fn give_back_lost(store: &Store, node_id: &str, now: Timestamp) -> Result<(), store::Error> {
    loop {
        let lost = store.reservations_of_node(node_id, "", LOST_AT_ONCE).await?;
        if lost.is_empty() {
            return Ok(());
        }
        tracing::info!(reservations = lost.len(), "reservations of an earlier process of this node are given back");
        void_all(store, &lost, now).await?;
    }
}

async fn void_all(store: &Store, lost: &[LostReservation], now: Timestamp) -> Result<(), store::Error> {
    for LostReservation { transfer_id, account_id } in lost {
        store.void_reservation(transfer_id, account_id, now.0).await?;
    }
    Ok(())
}

/// Returns what gates take: of a trial one operation for each gate (readings A14).
pub fn wanted_gates(by: &PaidBy, gates: u64, price: &Price) -> Option<Wanted> {
    match by.environment {
        Environment::Trial => trial_operations(gates),
        environment => {
            let pays = pays_for_gates(by.plan, environment) && price.cost.0 > 0;
            pays.then_some(Wanted::MilliYen(price.cost.0))
        }
    }
}

/// Returns what the compute units of an operation take: of a trial one operation.
pub fn wanted_units(by: &PaidBy, price: &OperationPrice) -> Option<Wanted> {
    match by.environment {
        Environment::Trial => trial_operations(1),
        environment => Some(Wanted::Fcu {
            fcu: price.units as i64,
            allowance: included(by.plan),
            beyond: beyond_allowance(by.plan, environment),
        }),
    }
}

fn trial_operations(count: u64) -> Option<Wanted> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    (count > 0).then_some(Wanted::TrialOperations { count, max: trials::OPERATIONS_MAX as i64 })
}

/// Returns the number of compute units that a plan includes in a month. `None`: any number.
fn included(plan: Plan) -> Option<i64> {
    allowance(plan).map(|units| i64::try_from(units).unwrap_or(i64::MAX))
}

/// `allowance` is the number of compute units in force: the plan's, or that of the month itself (readings P11).
fn quota_exceeded(allowance: i64, used: i64, wanted: Wanted) -> ApiError {
    let wanted = if let Wanted::Fcu { fcu, .. } = wanted { fcu } else { 0 };
    let message = format!(
        "the operation takes {wanted} compute units; of the {allowance} that this month includes, {used} are used or reserved"
    );
    ApiError::new(Code::QuotaExceeded, message)
}

fn cap_reached(cap_nano_usd: i64) -> ApiError {
    let dollars = cap_nano_usd as f64 / 1e9;
    let message = format!("the operation would exceed the monthly cap of {dollars} USD; nothing was done");
    ApiError::new(Code::BudgetHardCapHit, message)
}
