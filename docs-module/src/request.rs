//! Reads the bodies of requests into the types of this crate. All faults of a body are found at once, each with its
//! place (specification, HTTPValidationError).

mod account;
#[cfg(test)]
mod description_tests;
mod document;
mod fault;
mod field;
#[cfg(test)]
mod limit_tests;
mod lists;
mod parts;
mod payments;
mod records;
mod structure;
#[cfg(test)]
mod structure_tests;
#[cfg(test)]
mod tests;

pub use account::{DeliveryMode, KeyOrder, Profile, cap, key_order, profile};
pub use document::{document, xml};
pub use fault::{Fault, Place, Refused};
pub use field::{any_value, escaped_nul, is_hidden};
pub use lists::{Published, Verification, Watch, reconciled, verification, watch};
pub use payments::{document_of_payment, document_of_payments};
pub use records::{RecordsOrder, records, records_of_transfers};
use time::Date;

use crate::limit::Limit;

/// Values of a document that its request may leave out.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// Today in Tokyo (B25).
    pub today: Date,
    /// The number of a document if its request states none (B25).
    pub number: &'a str,
    /// The number of the document that is corrected, if the request states none; may be empty.
    pub original_number: &'a str,
    /// For what the money of a payment's receipt was paid, if the request does not say so; may be empty.
    pub receipt_proviso: &'a str,
    /// When the work should stop.
    pub limit: Limit<'a>,
}

impl<'a> Given<'a> {
    /// Returns the values for today (in Tokyo), with empty texts and without a limit.
    pub const fn on(today: Date) -> Given<'a> {
        Given { today, number: "", original_number: "", receipt_proviso: "", limit: Limit::NONE }
    }
}
