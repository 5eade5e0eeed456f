//! The back office: charges for its operations, caps of keys, profiles of issuers, sales and returns that a provider
//! announced, their documents, and purchased keys.

mod announcement;
mod caps;
mod charges;
mod documents;
mod families;
mod joining;
mod profiles;
mod purchases;
mod returns;
mod sales;
mod unissued;

pub use announcement::{Announcement, DocumentState, NewSale, Verdict};
pub use caps::{CAP_THRESHOLDS, CapAlert};
pub use charges::{OfficeCharge, OfficeCharged, OfficeTotal};
pub use documents::{DeliveryState, DocumentFilter, StoredDocument};
pub use families::{DocumentIssuer, FamilyDocument};
pub use profiles::IssuerProfile;
pub use purchases::{EndedPurchase, NewPurchase, Purchase};
pub use returns::NewReturn;
pub use sales::{Claim as DocumentClaim, DueDocument, RecordedSale};
pub use unissued::{UnissuedDocument, UnissuedFilter};
