//! What things cost, and how that is booked.

pub mod tariff;
pub mod units;
pub(crate) mod usage;
