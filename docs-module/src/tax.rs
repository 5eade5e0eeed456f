//! Consumption tax, and income tax that is withheld.

pub mod consumption;
pub mod withholding;
