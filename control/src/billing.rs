//! What things cost, who pays, and how that is booked.

pub(crate) mod budget;
pub(crate) mod charge;
pub mod ledger;
pub mod plans;
pub mod tariff;
pub mod units;
pub(crate) mod usage;

use store::Store;

use crate::clock::Clock;

/// What the endpoints of billing need.
pub struct Billing {
    pub(crate) clock: Clock,
    pub(crate) store: Store,
}
