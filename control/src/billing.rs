//! What things cost.

pub mod tariff;
