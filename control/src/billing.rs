//! What things cost, and how that is booked.

pub mod tariff;
pub(crate) mod usage;
