//! Billing: prices of operations and plans, reservations, charges, subscriptions and invoices.

pub(crate) mod alerts;
mod allowances;
pub(crate) mod budget;
pub(crate) mod charge;
pub(crate) mod checkout;
pub mod compute_units;
pub(crate) mod invoices;
pub(crate) mod jobs;
pub(crate) mod leases;
pub mod ledger;
pub mod mail;
pub(crate) mod months;
pub mod notice;
pub mod notice_mails;
pub mod notices;
pub mod payments;
pub(crate) mod periods;
pub mod plan_change;
pub mod plans;
pub(crate) mod preview;
pub(crate) mod provided;
pub(crate) mod provider_events;
pub(crate) mod purchases;
pub mod reconcile;
pub mod standing;
pub(crate) mod subscriptions;
mod sync_error;
pub mod tariff;
pub(crate) mod usage;

use std::sync::Arc;

use store::Store;
use tokio::sync::Notify;

use crate::access::Access;
use crate::clock::Clock;
use crate::in_flight::InFlight;
use crate::sealing::AccountSeals;
use crate::secrets::Key;
use crate::telemetry::Telemetry;
use mail::Mailer;
use payments::{PaymentProvider, PaymentsConfig};

/// The state of billing's endpoints and jobs.
pub struct Billing {
    pub(crate) clock: Clock,
    pub(crate) store: Store,
    pub(crate) node_id: String,
    /// The public address of the service, for links.
    pub(crate) base_url: String,
    pub(crate) payments: PaymentsConfig,
    /// The payment provider that collects money. `None`: this service makes the invoices itself (readings P19).
    pub(crate) provider: Option<Arc<dyn PaymentProvider>>,
    pub(crate) access: Arc<Access>,
    pub(crate) mailer: Option<Mailer>,
    /// Counts running work that a stopping node waits for: here, e-mails with documents that are being sent.
    pub(crate) unfinished: InFlight,
    /// Opens the sealed documents that are attached to e-mails.
    pub(crate) seals: AccountSeals,
    pub(crate) telemetry: Arc<Telemetry>,
    /// The key for the codes in the addresses of invoice pages.
    pub(crate) pages: Key,
    /// Wakes the job for the provider's events about anything but invoices.
    pub(crate) told: Arc<Notify>,
    /// Wakes the job for the provider's events about invoices.
    pub(crate) told_of_invoices: Arc<Notify>,
}
