//! Answers of the back office.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::sign_in::Hidden;

/// An issued API key. Only this answer shows the key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IssuedKey {
    /// The API key.
    pub api_key: Hidden,
    /// Same value as `api_key`.
    pub key: Hidden,
    /// Id of the key: `ak_...`.
    pub key_id: String,
    /// First 16 characters of the key.
    pub key_prefix: String,
    /// Plan of the key.
    pub plan: String,
    /// Label of the key.
    pub customer: String,
    /// Monthly cap in yen. 0 means no cap.
    pub cap_yen: i64,
    /// Time at which the key was issued.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub created_at: String,
}

/// A purchased API key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PurchasedKey {
    /// `ready`, or `pending` while the payment is being processed and the key does not exist yet.
    pub status: String,
    /// The API key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<Hidden>,
    /// Same value as `api_key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Hidden>,
    /// Plan of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
}

/// The stored profile of an issuer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Profile {
    /// Name of the issuer.
    pub issuer: String,
    /// Registration number of the issuer: T and 13 digits.
    pub registration_number: String,
    /// Address of the issuer.
    pub issuer_address: String,
    /// Telephone number of the issuer.
    pub issuer_tel: String,
    /// Delivery of the documents: `store`, `email` or `both`.
    pub delivery_mode: String,
    /// E-mail address for copies of sent documents.
    pub delivery_email: String,
    /// Default rate of consumption tax in percent: 8 or 10.
    pub default_tax_rate: i64,
    /// Type of the documents.
    pub document_type: String,
    /// Colour of lines and titles: `#RRGGBB`, or empty.
    pub brand_color: String,
    /// Logo, if one is set.
    pub logo: Option<ImageFacts>,
    /// Seal (角印), if one is set.
    pub seal: Option<ImageFacts>,
    /// Payment provider whose events come to the ingest URL.
    pub provider: String,
    /// For what the money of receipts was paid (但し書き). Empty means the name of the first line item.
    pub proviso: String,
    /// True if refunds below 10,000 yen get no return invoice.
    pub skip_small_returns: bool,
    /// True if events must be signed.
    pub signature_required: bool,
    /// URL to which the payment provider sends its events. The URL is a secret.
    pub ingest_url: Hidden,
    /// Time at which the profile was first set.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub created_at: String,
    /// Time at which the profile was last set.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub updated_at: String,
}

/// A picture of the profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ImageFacts {
    /// SHA-256 of the `data:` URI, in hexadecimal.
    pub sha256: String,
    /// Size of the picture in bytes.
    pub bytes: u64,
}

/// The outcome of an event of a payment provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IngestResult {
    /// `created`; `accepted` (the document is made when an event comes that says more about the sale, or after a wait);
    /// `duplicate`; `held` (the cap is reached, so the document is made later); `not_issued` (no document can be made:
    /// see `GET /v1/invoices/stored?status=not_issued`); or `ignored`.
    pub status: String,
    /// Id of the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invoice_id: Option<String>,
    /// Reason of `not_issued`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A document that the service keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StoredInvoice {
    /// Id of the document.
    pub invoice_id: String,
    /// Number of the document.
    pub invoice_number: String,
    /// Type of the document.
    pub document_type: String,
    /// Name of the recipient.
    pub recipient: String,
    /// Total in yen, tax-inclusive.
    pub total_yen: i64,
    /// Issue date.
    #[cfg_attr(feature = "openapi", schema(pattern = r"^([0-9]{4}-[0-9]{2}-[0-9]{2})?$"))]
    pub issue_date: String,
    /// Transaction date: the date of the sale, or of the return.
    #[cfg_attr(feature = "openapi", schema(pattern = r"^([0-9]{4}-[0-9]{2}-[0-9]{2})?$"))]
    pub transaction_date: String,
    /// Provider's id of the payment. Empty for a correction.
    pub payment_id: String,
    /// Id of the original document: of the document that this one corrects, or of the sale that is returned. Null if
    /// there is none.
    pub original_invoice_id: Option<String>,
    /// Delivery status: `stored`, `not_sent`, `pending`, `sent` or `failed`.
    pub delivery_status: String,
    /// SHA-256 of the PDF, in hexadecimal.
    pub pdf_sha256: String,
    /// `issued`, `waiting`, `held` or `not_issued`. Without a document, the members that only a document has are empty.
    pub status: String,
    /// Why there is no document, or not yet. Null for an issued document.
    pub reason: Option<String>,
    /// Warnings about the document, such as a character that the PDF cannot show.
    pub warnings: Vec<String>,
    /// Time at which the document was made. Without a document, the time of the first event.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub created_at: String,
}

/// A page of the documents that the service keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StoredInvoicePage {
    /// The documents, newest first.
    pub items: Vec<StoredInvoice>,
    /// Start of the next page: the `cursor` of the next request. Null on the last page.
    pub next_cursor: Option<String>,
    /// True if there is a next page.
    pub has_more: bool,
    /// Number of documents on all pages.
    pub total_count: u64,
}

/// A monthly cap, and the spending of the current month.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CapStanding {
    /// Monthly cap in yen. 0 means no cap.
    pub cap_yen: i64,
    /// Spending of the key in the current month, in yen.
    pub charge_yen: i64,
    /// Rest of the cap in yen. Null without a cap.
    pub remaining_yen: Option<i64>,
}

/// Usage of the calling key in the current month.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Me {
    /// Plan of the account.
    pub plan: String,
    /// First 16 characters of the key.
    pub key_prefix: String,
    /// First moment of the month, in UTC.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub period_start: String,
    /// First moment after the month, in UTC.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub period_end: String,
    /// Usage by operation: `document`, `withholding`, `verify`, `monitor`.
    pub usage: std::collections::BTreeMap<String, OperationUse>,
    /// Spending of the key, in yen.
    pub charge_yen: i64,
    /// Projected spending of the whole month in yen, at the present rate of spending.
    pub projected_charge_yen: i64,
    /// Monthly cap in yen. 0 means no cap.
    pub cap_yen: i64,
    /// Rest of the cap in yen. Null without a cap.
    pub remaining_yen: Option<i64>,
    /// Reached thresholds of the monthly cap.
    pub alerts: Vec<CapAlert>,
    /// Limits of the plan.
    pub limits: OfficeLimits,
}

/// Completed calls of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OperationUse {
    /// Number of calls.
    pub count: i64,
    /// Number of documents, payees or registration numbers in these calls.
    pub units: i64,
    /// Cost of the calls, in yen.
    pub yen: i64,
}

/// A threshold of the monthly cap, reached by the spending.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CapAlert {
    /// Threshold in percent of the cap: 80 or 100.
    pub threshold_pct: i64,
    /// Time at which the spending reached the threshold.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub reached_at: String,
}

/// Limits of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OfficeLimits {
    /// Largest number of requests of the account in a day.
    pub requests_a_day: u64,
    /// Largest number of requests of the account in a month.
    pub requests_a_month: u64,
    /// Largest number of billable calls of the account in a month. Other plans charge for these calls. Null means no
    /// limit.
    pub billable_calls_a_month: Option<i64>,
    /// Number of billable calls of the account in the current month.
    pub billable_calls_used: i64,
}

/// Faults of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HTTPValidationError {
    /// All faults that were found.
    pub detail: Vec<ValidationError>,
}

/// A fault of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ValidationError {
    /// Path to the value at fault: first `body`, `query` or `header`, then member names and list indexes.
    pub loc: Vec<Location>,
    /// Description of the fault, for people.
    pub msg: String,
    /// Kind of the fault, for programs.
    #[serde(rename = "type")]
    pub kind: String,
    /// Value at fault, if the value is short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Allowed values or limits, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ctx: Option<Map<String, Value>>,
}

/// A step of the path to a fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Location {
    /// A member name.
    Name(String),
    /// An index in a list, counted from 0.
    Index(u64),
}

/// An error other than a fault of the request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OfficeError {
    /// Description of the error, for people.
    pub detail: String,
    /// The error, for programs.
    pub error: crate::ErrorBody,
}
