//! Japanese documents and tax rules: values in, values and bytes out. No clock, no database, no network.
//!
//! Amounts are whole yen. Prices and quantities are exact decimals, never binary floating-point numbers. Rates are
//! integer fractions: a product is computed first, then divided once and rounded once. Rules that the law changes on a
//! certain date are in tables with dates.

#[cfg(test)]
mod asked;
pub mod audit;
pub mod calendar;
pub mod csv;
pub mod document;
pub mod drawing;
mod honorific;
pub mod limit;
mod object;
pub mod payment_import;
pub mod payment_record;
pub mod personal_number;
pub mod reconcile;
pub mod registration;
pub mod request;
pub mod rounding;
pub mod tax;
