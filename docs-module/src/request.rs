//! Reads the bodies of requests into the types of this crate. All faults of a body are found at once, each with its
//! place (specification, HTTPValidationError).

mod account;
#[cfg(test)]
mod description_tests;
mod document;
mod fault;
mod field;
mod lists;
mod parts;
mod payments;
mod records;
#[cfg(test)]
mod tests;

pub use account::{DeliveryMode, KeyOrder, Profile, cap, key_order, profile};
pub use document::document;
pub use fault::{Fault, Place};
pub use field::escaped_nul;
pub use lists::{Published, Verification, Watch, reconciled, verification, watch};
pub use payments::{document_of_payment, document_of_payments};
pub use records::{RecordsOrder, records, records_of_transfers};
use time::Date;

/// Values of a document that its request may leave out.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// Today in Tokyo (B25).
    pub today: Date,
    /// The number of a document if its request states none (B25).
    pub number: &'a str,
    /// The number of the document that is corrected, if the request states none; may be empty.
    pub original_number: &'a str,
}
