//! What the back office finds out: records of withholding, reconciliation, states of registrations, the audit log.

use serde::{Deserialize, Serialize};

use super::{NumberOrText, Row};

/// Payment records of a year.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WithholdingRecords {
    /// The year.
    pub year: i64,
    /// Who paid.
    pub payer: RecordedPayer,
    /// The payees.
    pub payees: Vec<RecordedPayee>,
    /// The statutory summary table, section 3 (309).
    pub summary_table: SummaryTable,
    /// Payments that are in no record.
    pub excluded: Vec<ExcludedPayment>,
    /// Transfers that are no payments.
    pub skipped: Vec<SkippedTransfer>,
    /// What the payer should know.
    pub warnings: Vec<String>,
    /// That results are reference values and must be checked by official means.
    pub disclaimer: String,
}

/// Who paid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecordedPayer {
    /// Name.
    pub name: String,
    /// Address.
    pub address: String,
    /// Telephone number.
    pub tel: String,
    /// Individual or corporate number, masked.
    pub number: String,
}

/// A payee with the records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecordedPayee {
    /// Name; of an account without a declaration the account.
    pub name: String,
    /// Address.
    pub address: String,
    /// Individual or corporate number, masked.
    pub number: String,
    /// Whether the payee is a person.
    pub is_individual: bool,
    /// A record of each category.
    pub categories: Vec<RecordedCategory>,
    /// Of transfers: the connected account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Of transfers: whether `payee_map` lacks the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_declaration: Option<bool>,
}

/// Payments of a category to a payee.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecordedCategory {
    /// As in Category.
    pub category: String,
    /// Payments in yen, those not paid yet with them.
    pub payment_total: i64,
    /// The part that is not paid yet.
    pub unpaid_total: i64,
    /// Tax withheld in yen, that of payments not paid yet with it.
    pub tax_total: i64,
    /// The part that is not withheld yet.
    pub uncollected_tax_total: i64,
    /// Consumption tax in yen that was paid beside it.
    pub consumption_tax_total: i64,
    /// Payments.
    pub count: i64,
    /// Whether the record must be filed.
    pub must_be_filed: bool,
}

/// The summary table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SummaryTable {
    /// The eight clauses of article 204.
    pub clauses: Vec<SummaryClause>,
    /// All payees, each once.
    pub all: SummaryRow,
    /// Of these the payees whose records must be filed.
    pub filed: SummaryRow,
    /// Prizes to corporations (article 174, number 10).
    pub corporate_prizes: SummaryRow,
}

/// A row of the summary table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SummaryRow {
    /// Payees.
    pub count: i64,
    /// Of these persons.
    pub individuals: i64,
    /// Of these others.
    pub others: i64,
    /// Payments in yen.
    pub payment_total: i64,
    /// Tax withheld in yen.
    pub tax_total: i64,
}

/// A row of the summary table that is a clause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SummaryClause {
    /// 1 to 8.
    pub clause: i64,
    /// The name of the row.
    pub name: String,
    /// Payees.
    pub count: i64,
    /// Of these persons.
    pub individuals: i64,
    /// Of these others.
    pub others: i64,
    /// Payments in yen.
    pub payment_total: i64,
    /// Tax withheld in yen.
    pub tax_total: i64,
}

/// A payment that is in no record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExcludedPayment {
    /// Name of the payee.
    pub payee: String,
    /// Yen.
    pub amount: i64,
    /// As in Category.
    pub category: String,
    /// The day of the payment.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub paid_on: Option<String>,
    /// `other_year` or `not_recorded`.
    pub reason: String,
}

/// A transfer that is no payment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SkippedTransfer {
    /// Its place in the request, counted from 0.
    pub index: u64,
    /// Its id; empty: none.
    pub id: String,
    /// `unsupported_object`, `not_jpy`, `not_paid`, `reversed`, `no_payee`, `non_resident` or `no_gross_amount`.
    pub reason: String,
}

/// Two lists in four groups. Each record is in one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Reconciliation {
    /// Records that belong together.
    pub matched: Vec<ReconciledGroup>,
    /// Records of one name whose amounts differ.
    pub amount_mismatch: Vec<ReconciledGroup>,
    /// Left records without a partner.
    pub left_only: Vec<UnmatchedRow>,
    /// Right records without a partner.
    pub right_only: Vec<UnmatchedRow>,
    /// Counts and sums.
    pub summary: ReconciliationSummary,
    /// That results are reference values and must be checked by official means.
    pub disclaimer: String,
}

/// Records that belong together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReconciledGroup {
    /// Of the left side.
    pub left: Vec<PlacedRow>,
    /// Of the right side.
    pub right: Vec<PlacedRow>,
    /// The name as it was compared.
    pub normalized_key: String,
    /// Left less right in yen; a text where it is not whole.
    pub difference: NumberOrText,
}

/// A record and its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlacedRow {
    /// Its place in the request, counted from 0.
    pub index: u64,
    /// As it was sent.
    pub record: Row,
}

/// A record without a partner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UnmatchedRow {
    /// Its place in the request, counted from 0.
    pub index: u64,
    /// As it was sent.
    pub record: Row,
    /// The name as it was compared.
    pub normalized_key: String,
    /// `no_match` or `amount_unreadable`.
    pub reason: String,
}

/// Counts and sums of a reconciliation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReconciliationSummary {
    /// Left records.
    pub left: u64,
    /// Right records.
    pub right: u64,
    /// Groups that match.
    pub matched: u64,
    /// Groups whose amounts differ.
    pub amount_mismatch: u64,
    /// Left records without a partner.
    pub left_only: u64,
    /// Right records without a partner.
    pub right_only: u64,
    /// The sum of the left amounts in yen; null without amounts, a text where it is not whole.
    pub left_total: Option<NumberOrText>,
    /// The same of the right side.
    pub right_total: Option<NumberOrText>,
}

/// What was found of registration numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RegistrationResults {
    /// In the order of the request.
    pub results: Vec<RegistrationResult>,
    /// The day whose state was asked for.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub as_of: String,
    /// As the request says.
    pub source: Option<String>,
    /// That results are reference values and must be checked by official means.
    pub disclaimer: String,
}

/// What was found of a registration number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RegistrationResult {
    /// As it was sent.
    pub number: String,
    /// T and 13 digits, where it is one.
    pub normalized: String,
    /// Whether it is T and 13 digits.
    pub format_valid: bool,
    /// Whether its check digit is right; null where the format is not.
    pub check_digit_valid: Option<bool>,
    /// With records `active`, `not_found`, `revoked`, `expired` or `not_yet_effective`; without `format_ok`; in both cases `check_digit_mismatch` or `format_error`.
    pub status: String,
    /// The same in Japanese.
    pub status_ja: String,
    /// Name of the issuer.
    pub name: Option<String>,
    /// From when the registration holds.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub registered_on: Option<String>,
    /// From when it is revoked.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub revoked_on: Option<String>,
    /// From when it has lapsed.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub expired_on: Option<String>,
    /// Of an active one: from when it will not hold.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub ends_on: Option<String>,
    /// What the caller should know.
    pub warnings: Vec<String>,
    /// `records` or `format_only`.
    pub basis: String,
}

/// What was found of watched numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MonitorResult {
    /// Revoked or lapsed ones.
    pub alerts: Vec<WatchedRegistration>,
    /// Others.
    pub ok: Vec<WatchedRegistration>,
    /// Numbers that the records lack.
    pub not_found: Vec<WatchedRegistration>,
    /// Watched numbers.
    pub checked: u64,
    /// The day whose state was asked for.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub as_of: String,
    /// As the request says.
    pub source: Option<String>,
    /// That results are reference values and must be checked by official means.
    pub disclaimer: String,
}

/// What was found of a watched number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WatchedRegistration {
    /// As it was sent.
    pub number: String,
    /// T and 13 digits, where it is one.
    pub normalized: String,
    /// Whether it is T and 13 digits.
    pub format_valid: bool,
    /// Whether its check digit is right; null where the format is not.
    pub check_digit_valid: Option<bool>,
    /// With records `active`, `not_found`, `revoked`, `expired` or `not_yet_effective`; without `format_ok`; in both cases `check_digit_mismatch` or `format_error`.
    pub status: String,
    /// The same in Japanese.
    pub status_ja: String,
    /// Name of the issuer.
    pub name: Option<String>,
    /// From when the registration holds.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub registered_on: Option<String>,
    /// From when it is revoked.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub revoked_on: Option<String>,
    /// From when it has lapsed.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub expired_on: Option<String>,
    /// Of an active one: from when it will not hold.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub ends_on: Option<String>,
    /// What the caller should know.
    pub warnings: Vec<String>,
}

/// What an account had checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditTrail {
    /// The latest 10000 entries, the oldest first.
    pub entries: Vec<AuditEntry>,
    /// Entries in all.
    pub entries_total: u64,
    /// Whether the whole log is as it was written.
    pub chain_valid: bool,
    /// Number of the first line that is not; null: none.
    pub broken_at: Option<u64>,
    /// The end of what is whole, to be kept and compared.
    pub head: AuditHead,
    /// That results are reference values and must be checked by official means.
    pub disclaimer: String,
}

/// An end of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditHead {
    /// Number of its line.
    pub seq: u64,
    /// SHA-256 of that line, in hexadecimal.
    pub hash: String,
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    /// Number of its line.
    pub seq: u64,
    /// When.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub at: String,
    /// Whose: an account.
    pub account: String,
    /// `verify` or `monitor`.
    pub op: String,
    /// The number, normalised.
    pub number: String,
    /// What was found, as in RegistrationResult.
    pub status: String,
    /// The day whose state was asked for.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub as_of: String,
    /// Where the records came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// SHA-256 of the records, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records_sha256: Option<String>,
    /// SHA-256 of the line before.
    pub prev: String,
    /// SHA-256 of this entry without this member.
    pub hash: String,
}
