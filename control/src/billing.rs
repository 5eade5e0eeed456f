//! What things cost, and how that is booked.

pub mod ledger;
pub mod plans;
pub mod tariff;
pub mod units;
pub(crate) mod usage;
