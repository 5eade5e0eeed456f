//! The back office: what its operations cost, caps of keys, profiles of issuers, payments of which a provider told, their documents, and keys that
//! were bought.

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
pub use purchases::{NewPurchase, Purchase};
