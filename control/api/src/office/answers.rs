//! Answers of the back office.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::sign_in::Hidden;

/// A key that was issued. The key is shown once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IssuedKey {
    /// The key.
    pub api_key: Hidden,
    /// The key again, under another name.
    pub key: Hidden,
    /// `ak_...`
    pub key_id: String,
    /// The key's first 16 characters.
    pub key_prefix: String,
    /// The plan.
    pub plan: String,
    /// The label.
    pub customer: String,
    /// Monthly cap in yen; 0: no cap.
    pub cap_yen: i64,
    /// When the key was issued.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub created_at: String,
}

/// A key that was bought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PurchasedKey {
    /// `ready`; or `pending` while the payment is being processed, before the key exists.
    pub status: String,
    /// The key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<Hidden>,
    /// The key again, under another name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Hidden>,
    /// The plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
}

/// The stored profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Profile {
    /// Name of the issuer.
    pub issuer: String,
    /// T and 13 digits.
    pub registration_number: String,
    /// Address of the issuer.
    pub issuer_address: String,
    /// Telephone number of the issuer.
    pub issuer_tel: String,
    /// `store`, `email` or `both`.
    pub delivery_mode: String,
    /// E-mail address for copies of sent documents.
    pub delivery_email: String,
    /// Default rate of consumption tax in percent: 8 or 10.
    pub default_tax_rate: i64,
    /// The kind of the documents.
    pub document_type: String,
    /// `#RRGGBB`, or empty.
    pub brand_color: String,
    /// The logo, if one is set.
    pub logo: Option<ImageFacts>,
    /// The seal, if one is set.
    pub seal: Option<ImageFacts>,
    /// Whether events must be signed.
    pub signature_required: bool,
    /// The URL to which the payment provider sends its events. The URL is a secret.
    pub ingest_url: Hidden,
    /// When the profile was first set.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub created_at: String,
    /// When the profile was last set.
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
    /// `created`, `duplicate`, `held` (the cap is reached, so the document is made later) or `ignored`.
    pub status: String,
    /// The document's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invoice_id: Option<String>,
}

/// A document that the service keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StoredInvoice {
    /// The document's id.
    pub invoice_id: String,
    /// The document's number.
    pub invoice_number: String,
    /// The kind of document.
    pub document_type: String,
    /// The recipient's name.
    pub recipient: String,
    /// The total with tax, in yen.
    pub total_yen: i64,
    /// The date of issue.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub issue_date: String,
    /// The date of the sale.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub transaction_date: String,
    /// The provider's id of the payment; empty for a correction.
    pub payment_id: String,
    /// The id of the document that this one corrects.
    pub original_invoice_id: Option<String>,
    /// `stored`, `not_sent`, `pending`, `sent` or `failed`.
    pub delivery_status: String,
    /// SHA-256 of the PDF, in hexadecimal.
    pub pdf_sha256: String,
    /// When the document was made.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub created_at: String,
}

/// A page of the documents that the service keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StoredInvoicePage {
    /// The documents, newest first.
    pub items: Vec<StoredInvoice>,
    /// Where the next page begins: the `cursor` of the next request. Null on the last page.
    pub next_cursor: Option<String>,
    /// Whether there is a next page.
    pub has_more: bool,
    /// Documents on all pages.
    pub total_count: u64,
}

/// A monthly cap, with the spending and the rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CapStanding {
    /// The cap in yen; 0: no cap.
    pub cap_yen: i64,
    /// Spending of the key in the current month, in yen.
    pub charge_yen: i64,
    /// The rest of the cap in yen; null without a cap.
    pub remaining_yen: Option<i64>,
}

/// Usage of the calling key in the current month.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Me {
    /// The account's plan.
    pub plan: String,
    /// The key's first 16 characters.
    pub key_prefix: String,
    /// The month's first moment, UTC.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub period_start: String,
    /// The first moment after the month, UTC.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub period_end: String,
    /// Usage by operation: `document`, `withholding`, `verify`, `monitor`.
    pub usage: std::collections::BTreeMap<String, OperationUse>,
    /// Spending of the key, in yen.
    pub charge_yen: i64,
    /// Projected spending of the whole month in yen, at the present pace.
    pub projected_charge_yen: i64,
    /// Monthly cap in yen; 0: no cap.
    pub cap_yen: i64,
    /// The rest of the cap in yen; null without a cap.
    pub remaining_yen: Option<i64>,
    /// Thresholds of the cap that were reached.
    pub alerts: Vec<CapAlert>,
    /// The plan's limits.
    pub limits: OfficeLimits,
}

/// Completed calls of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OperationUse {
    /// Number of calls.
    pub count: i64,
    /// Number of documents, payees or numbers in these calls.
    pub units: i64,
    /// Cost of the calls, in yen.
    pub yen: i64,
}

/// A threshold of a cap that was reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CapAlert {
    /// 80 or 100.
    pub threshold_pct: i64,
    /// When the threshold was reached.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub reached_at: String,
}

/// Limits of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OfficeLimits {
    /// Largest number of requests of the account per day.
    pub requests_a_day: u64,
    /// Largest number of requests of the account per month.
    pub requests_a_month: u64,
    /// Largest number of the account's calls per month that other plans charge for; null: no limit.
    pub billable_calls_a_month: Option<i64>,
    /// Number of such calls of the account in the current month.
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
    /// Path to the value at fault: `body`, `query` or `header`, then members and indices in lists.
    pub loc: Vec<Location>,
    /// What is wrong, in words.
    pub msg: String,
    /// What is wrong, for programs.
    #[serde(rename = "type")]
    pub kind: String,
    /// The value at fault, if it is short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// What is allowed, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ctx: Option<Map<String, Value>>,
}

/// A step of the path to a fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Location {
    /// A member.
    Name(String),
    /// An index in a list, from 0.
    Index(u64),
}

/// An error other than faults of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OfficeError {
    /// What happened, for people.
    pub detail: String,
    /// The error for programs.
    pub error: crate::ErrorBody,
}
