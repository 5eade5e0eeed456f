//! What the back office answers.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::sign_in::Hidden;

/// A key that was issued. It is shown once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IssuedKey {
    /// The key.
    pub api_key: Hidden,
    /// The same.
    pub key: Hidden,
    /// `ak_...`
    pub key_id: String,
    /// The key's first 16 characters.
    pub key_prefix: String,
    /// The plan.
    pub plan: String,
    /// The label.
    pub customer: String,
    /// Monthly cap in yen; 0: none.
    pub cap_yen: i64,
    /// When it was issued.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub created_at: String,
}

/// A key that was bought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PurchasedKey {
    /// `ready`, or `pending`: the payment is being processed, and the key comes later.
    pub status: String,
    /// The key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<Hidden>,
    /// The same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Hidden>,
    /// The plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
}

/// A profile as it is set.
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
    /// Where copies of sent documents go.
    pub delivery_email: String,
    /// 8 or 10.
    pub default_tax_rate: i64,
    /// What the documents are.
    pub document_type: String,
    /// `#RRGGBB`, or empty.
    pub brand_color: String,
    /// The logo that is set.
    pub logo: Option<ImageFacts>,
    /// The seal that is set.
    pub seal: Option<ImageFacts>,
    /// Whether events must be signed.
    pub signature_required: bool,
    /// Where the payment provider sends its events. The address is a secret.
    pub ingest_url: Hidden,
    /// When it was first set.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub created_at: String,
    /// When it was last set.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub updated_at: String,
}

/// A picture that is set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ImageFacts {
    /// SHA-256 of the `data:` URI, in hexadecimal.
    pub sha256: String,
    /// Its bytes.
    pub bytes: u64,
}

/// What became of an event of a payment provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IngestResult {
    /// `created`, `duplicate`, `held` (the cap is reached; the document is made later) or `ignored`.
    pub status: String,
    /// The document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invoice_id: Option<String>,
}

/// A document that is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StoredInvoice {
    /// Its id.
    pub invoice_id: String,
    /// Its number.
    pub invoice_number: String,
    /// What it is.
    pub document_type: String,
    /// To whom it is given.
    pub recipient: String,
    /// Its total with tax.
    pub total_yen: i64,
    /// Its date.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub issue_date: String,
    /// The day of the sale.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub transaction_date: String,
    /// The provider's id of the payment; empty for a correction.
    pub payment_id: String,
    /// The document that it corrects.
    pub original_invoice_id: Option<String>,
    /// `stored`, `not_sent`, `pending`, `sent` or `failed`.
    pub delivery_status: String,
    /// SHA-256 of the PDF, in hexadecimal.
    pub pdf_sha256: String,
    /// When it was made.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub created_at: String,
}

/// A page of documents that are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StoredInvoicePage {
    /// Newest first.
    pub items: Vec<StoredInvoice>,
    /// Leads to the next page.
    pub next_cursor: Option<String>,
    /// Whether there is one.
    pub has_more: bool,
    /// Documents on all pages.
    pub total_count: u64,
}

/// A monthly cap, and what it leaves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CapStanding {
    /// Yen; 0: none.
    pub cap_yen: i64,
    /// What the key has spent in this month.
    pub charge_yen: i64,
    /// What is left; null without a cap.
    pub remaining_yen: Option<i64>,
}

/// What the calling key did in this month.
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
    /// The first moment after it.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub period_end: String,
    /// By operation: `document`, `withholding`, `verify`, `monitor`.
    pub usage: std::collections::BTreeMap<String, OperationUse>,
    /// What the key has spent.
    pub charge_yen: i64,
    /// The same for the whole month, at the pace of the time that has passed.
    pub projected_charge_yen: i64,
    /// Monthly cap; 0: none.
    pub cap_yen: i64,
    /// What it leaves; null without a cap.
    pub remaining_yen: Option<i64>,
    /// Thresholds of the cap that were reached.
    pub alerts: Vec<CapAlert>,
    /// What the plan allows.
    pub limits: OfficeLimits,
}

/// Completed calls of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OperationUse {
    /// Calls.
    pub count: i64,
    /// Documents, payees or numbers of these calls.
    pub units: i64,
    /// What they cost.
    pub yen: i64,
}

/// A threshold of a cap that was reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CapAlert {
    /// 80 or 100.
    pub threshold_pct: i64,
    /// When.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub reached_at: String,
}

/// What a plan allows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OfficeLimits {
    /// Requests of the account a day.
    pub requests_a_day: u64,
    /// Requests of the account a month.
    pub requests_a_month: u64,
    /// Calls of the account a month that would cost something on other plans; null: any number.
    pub billable_calls_a_month: Option<i64>,
    /// Such calls of the account in this month.
    pub billable_calls_used: i64,
}

/// Faults of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HTTPValidationError {
    /// All of them.
    pub detail: Vec<ValidationError>,
}

/// A fault of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ValidationError {
    /// Where: `body`, `query` or `header`, then members and places in lists.
    pub loc: Vec<Location>,
    /// What is wrong, in words.
    pub msg: String,
    /// What is wrong, for programs.
    #[serde(rename = "type")]
    pub kind: String,
    /// What was there, if it is short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// What is allowed, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ctx: Option<Map<String, Value>>,
}

/// A step of the way to a fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Location {
    /// A member.
    Name(String),
    /// A place in a list, counted from 0.
    Index(u64),
}

/// An error other than faults of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OfficeError {
    /// What happened, for people.
    pub detail: String,
    /// The same for programs.
    pub error: crate::ErrorBody,
}
