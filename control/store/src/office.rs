//! The back office: charges for its operations, caps of keys, profiles of issuers, payments that a provider announced,
//! the documents of payments, and purchased keys.

mod caps;
mod charges;
mod documents;
mod payments;
mod profiles;
mod purchases;

pub use caps::{CAP_THRESHOLDS, CapAlert};
pub use charges::{OfficeCharge, OfficeCharged, OfficeTotal};
pub use documents::{DeliveryState, DocumentFilter, StoredDocument};
pub use payments::{Claimed as ClaimedPayment, IngestedPayment, NewPayment, PaymentState};
pub use profiles::IssuerProfile;
pub use purchases::{EndedPurchase, NewPurchase, Purchase};
