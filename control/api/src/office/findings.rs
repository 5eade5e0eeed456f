//! Results of the back office: withholding records, reconciliation, status of registrations, audit log.

use serde::{Deserialize, Serialize};

use super::{NumberOrText, Row};

/// Payment records of a year, for withholding tax.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WithholdingRecords {
    /// Calendar year of the records.
    pub year: i64,
    /// The payer.
    pub payer: RecordedPayer,
    /// The payees.
    pub payees: Vec<RecordedPayee>,
    /// Section 3 (form 309) of the statutory summary table.
    pub summary_table: SummaryTable,
    /// Number of payment records that must be filed. A payee with more than six kinds of payments has several.
    pub records_to_file: u64,
    /// Number of records from which filing must be electronic: 100, or 30 for records of 2026 and later, which are filed
    /// from January 2027 on.
    pub efiling_line: u64,
    /// True if `records_to_file` reaches `efiling_line`. The law counts the records of the year before last, which the
    /// payer alone knows; the year's own number stands for it here.
    pub efiling_required: bool,
    /// Payments that are in no record.
    pub excluded: Vec<ExcludedPayment>,
    /// Transfers that are not counted as payments.
    pub skipped: Vec<SkippedTransfer>,
    /// Warnings for the payer.
    pub warnings: Vec<String>,
    /// Notice that the results are reference values and must be checked by official means.
    pub disclaimer: String,
}

/// A payer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecordedPayer {
    /// Name of the payer.
    pub name: String,
    /// Address of the payer.
    pub address: String,
    /// Telephone number of the payer.
    pub tel: String,
    /// Individual or corporate number of the payer, masked.
    pub number: String,
    /// Members of the payer that keep the records from being filed (`etax_csv`). Empty if no record must be filed.
    pub missing_for_filing: Vec<String>,
}

/// A payee and the payee's payment records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecordedPayee {
    /// Name of the payee. For an account without a declaration, the id of the account.
    pub name: String,
    /// Address of the payee.
    pub address: String,
    /// Individual or corporate number of the payee, masked.
    pub number: String,
    /// True if the payee is an individual.
    pub is_individual: bool,
    /// Members of the payee that keep the payee's records from being filed (`etax_csv`): `name`, `address`, `number` or
    /// `payments`. Empty if none of the payee's records must be filed.
    pub missing_for_filing: Vec<String>,
    /// A row for each category and word.
    pub categories: Vec<RecordedCategory>,
    /// Id of the connected account. Present only for records made from transfers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// True if `payee_map` lacks the account. Present only for records made from transfers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs_declaration: Option<bool>,
}

/// Payments of one category and word to one payee.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecordedCategory {
    /// Category of the remuneration, as in `Category`.
    pub category: String,
    /// Word on the payment record (区分): the caller's word for the remuneration, such as 講演料 or 税理士報酬.
    pub word: String,
    /// Detail on the payment record (細目): the callers' details, or the number of payments.
    pub detail: String,
    /// Sum of the payments in yen, including unpaid payments.
    pub payment_total: i64,
    /// Unpaid part of `payment_total`, in yen.
    pub unpaid_total: i64,
    /// Withholding tax in yen, including the tax on unpaid payments.
    pub tax_total: i64,
    /// Part of `tax_total` that is not withheld yet, in yen.
    pub uncollected_tax_total: i64,
    /// Consumption tax in yen that was paid in addition to `payment_total`.
    pub consumption_tax_total: i64,
    /// Number of payments.
    pub count: i64,
    /// True if the payment record must be filed.
    pub must_be_filed: bool,
}

/// Summary table of payments and withholding tax.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SummaryTable {
    /// Rows of the eight clauses of article 204.
    pub clauses: Vec<SummaryClause>,
    /// Row of all payees. Each payee counts once.
    pub all: SummaryRow,
    /// Row of the payees whose records must be filed. These payees count in `all` too.
    pub filed: SummaryRow,
    /// Row of the prizes to corporations (article 174, number 10).
    pub corporate_prizes: SummaryRow,
}

/// A row of the summary table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SummaryRow {
    /// Number of payees.
    pub count: i64,
    /// Number of payees who are individuals.
    pub individuals: i64,
    /// Number of payees who are not individuals.
    pub others: i64,
    /// Sum of the payments in yen.
    pub payment_total: i64,
    /// Withholding tax in yen.
    pub tax_total: i64,
}

/// A row of the summary table for one clause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SummaryClause {
    /// Number of the clause: 1 to 8.
    pub clause: i64,
    /// Name of the row.
    pub name: String,
    /// Number of payees.
    pub count: i64,
    /// Number of payees who are individuals.
    pub individuals: i64,
    /// Number of payees who are not individuals.
    pub others: i64,
    /// Sum of the payments in yen.
    pub payment_total: i64,
    /// Withholding tax in yen.
    pub tax_total: i64,
}

/// A payment that is in no record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExcludedPayment {
    /// Name of the payee.
    pub payee: String,
    /// Amount of the payment in yen.
    pub amount: i64,
    /// Category of the remuneration, as in `Category`.
    pub category: String,
    /// Date of the payment.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub paid_on: Option<String>,
    /// Reason for the exclusion: `other_year` or `not_recorded`.
    pub reason: String,
}

/// A transfer that is not counted as a payment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SkippedTransfer {
    /// Index of the transfer in the request, counted from 0.
    pub index: u64,
    /// Id of the transfer. Empty means that the transfer has no id.
    pub id: String,
    /// Reason for skipping the transfer: `unsupported_object`, `not_jpy`, `not_paid`, `reversed`, `no_payee`,
    /// `non_resident` or `no_gross_amount`.
    pub reason: String,
}

/// Two lists, reconciled into four groups. Each record is in exactly one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Reconciliation {
    /// Records that match.
    pub matched: Vec<ReconciledGroup>,
    /// Records that have the same name but different amounts.
    pub amount_mismatch: Vec<ReconciledGroup>,
    /// Left records without a match.
    pub left_only: Vec<UnmatchedRow>,
    /// Right records without a match.
    pub right_only: Vec<UnmatchedRow>,
    /// Counts and sums.
    pub summary: ReconciliationSummary,
    /// Notice that the results are reference values and must be checked by official means.
    pub disclaimer: String,
}

/// Left and right records that belong together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReconciledGroup {
    /// Records of the left side.
    pub left: Vec<PlacedRow>,
    /// Records of the right side.
    pub right: Vec<PlacedRow>,
    /// Name in the normalised form that was compared.
    pub normalized_key: String,
    /// Left amount minus right amount, in yen. A text if the difference is not a whole number.
    pub difference: NumberOrText,
}

/// A record and its index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlacedRow {
    /// Index of the record in the request, counted from 0.
    pub index: u64,
    /// The record as sent.
    pub record: Row,
}

/// A record without a match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UnmatchedRow {
    /// Index of the record in the request, counted from 0.
    pub index: u64,
    /// The record as sent.
    pub record: Row,
    /// Name in the normalised form that was compared.
    pub normalized_key: String,
    /// Reason for the missing match: `no_match`, `amount_unreadable`, or `no_key` if nothing of the name counts.
    pub reason: String,
}

/// Counts and sums of a reconciliation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReconciliationSummary {
    /// Number of left records.
    pub left: u64,
    /// Number of right records.
    pub right: u64,
    /// Number of groups that match.
    pub matched: u64,
    /// Number of groups whose amounts differ.
    pub amount_mismatch: u64,
    /// Number of left records without a match.
    pub left_only: u64,
    /// Number of right records without a match.
    pub right_only: u64,
    /// Sum of the left amounts in yen. Null without amounts. A text if the sum is not a whole number.
    pub left_total: Option<NumberOrText>,
    /// Sum of the right amounts in yen. Null without amounts. A text if the sum is not a whole number.
    pub right_total: Option<NumberOrText>,
    /// Number of names for which not all groups of records were tried, because the work of a request is bounded.
    /// Records of these names may be in `amount_mismatch` although a group of them fits. Absent means that all groups
    /// were tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups_cut: Option<u64>,
}

/// Results of a verification of registration numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RegistrationResults {
    /// One result for each number, in the order of the request.
    pub results: Vec<RegistrationResult>,
    /// Reference date of the results.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub as_of: String,
    /// Source of the records, as stated in the request.
    pub source: Option<String>,
    /// End of the audit log after the entries of this request. Null if the node keeps no log. Clients may keep this
    /// value and compare it with the log later.
    pub audit: Option<AuditHead>,
    /// Notice that the results are reference values and must be checked by official means.
    pub disclaimer: String,
}

/// Result of the verification of one registration number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RegistrationResult {
    /// The number as sent.
    pub number: String,
    /// The number in normal form: T and 13 digits, if the number has this form.
    pub normalized: String,
    /// True if the number has the form T and 13 digits.
    pub format_valid: bool,
    /// True if the check digit is right. Null if `format_valid` is false.
    pub check_digit_valid: Option<bool>,
    /// Status of the number. With records: `active`, `not_found`, `revoked`, `expired` or `not_yet_effective`. Without
    /// records: `format_ok`. In both cases: `check_digit_mismatch` or `format_error`.
    pub status: String,
    /// The status in Japanese.
    pub status_ja: String,
    /// Name of the issuer.
    pub name: Option<String>,
    /// Date from which the registration is effective.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub registered_on: Option<String>,
    /// Date from which the registration is revoked.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub revoked_on: Option<String>,
    /// Date from which the registration has lapsed.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub expired_on: Option<String>,
    /// For an active registration: date from which it will no longer be effective.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub ends_on: Option<String>,
    /// Warnings for the caller.
    pub warnings: Vec<String>,
    /// Basis of the result: `records` or `format_only`.
    pub basis: String,
}

/// Results of monitoring registration numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MonitorResult {
    /// Numbers whose registration is revoked or has lapsed.
    pub alerts: Vec<WatchedRegistration>,
    /// Numbers whose registration is active.
    pub ok: Vec<WatchedRegistration>,
    /// All other numbers: without a record, not effective yet, or not valid.
    pub not_found: Vec<WatchedRegistration>,
    /// Without records, all numbers: only their form and check digit were checked. Empty with records.
    pub format_only: Vec<WatchedRegistration>,
    /// Basis of the results: `records` or `format_only`.
    pub basis: String,
    /// Number of monitored registration numbers.
    pub checked: u64,
    /// Reference date of the results.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub as_of: String,
    /// Source of the records, as stated in the request.
    pub source: Option<String>,
    /// End of the audit log after the entries of this request. Null if the node keeps no log. Clients may keep this
    /// value and compare it with the log later.
    pub audit: Option<AuditHead>,
    /// Notice that the results are reference values and must be checked by official means.
    pub disclaimer: String,
}

/// Result for one monitored registration number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WatchedRegistration {
    /// The number as sent.
    pub number: String,
    /// The number in normal form: T and 13 digits, if the number has this form.
    pub normalized: String,
    /// True if the number has the form T and 13 digits.
    pub format_valid: bool,
    /// True if the check digit is right. Null if `format_valid` is false.
    pub check_digit_valid: Option<bool>,
    /// Status of the number. With records: `active`, `not_found`, `revoked`, `expired` or `not_yet_effective`. Without
    /// records: `format_ok`. In both cases: `check_digit_mismatch` or `format_error`.
    pub status: String,
    /// The status in Japanese.
    pub status_ja: String,
    /// Name of the issuer.
    pub name: Option<String>,
    /// Date from which the registration is effective.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub registered_on: Option<String>,
    /// Date from which the registration is revoked.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub revoked_on: Option<String>,
    /// Date from which the registration has lapsed.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub expired_on: Option<String>,
    /// For an active registration: date from which it will no longer be effective.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub ends_on: Option<String>,
    /// Warnings for the caller.
    pub warnings: Vec<String>,
    /// Basis of the result: `records` or `format_only`.
    pub basis: String,
}

/// Entries of the audit log for one account, and the state of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditTrail {
    /// The entries of the page, oldest first.
    pub entries: Vec<AuditEntry>,
    /// Number of the account's entries in the whole log, whatever the page and the number.
    pub entries_total: u64,
    /// `after_seq` of the next page. The last page has the `seq` of `head`; entries that are added later lie behind it.
    pub next_after_seq: u64,
    /// `before_seq` of the previous page. Null on the first page.
    pub previous_before_seq: Option<u64>,
    /// True if the whole log is unchanged.
    pub chain_valid: bool,
    /// Number of the first line that does not continue the line before it, or that is missing at the end. This is the
    /// changed line itself, or the line after it if the hash of the changed line was computed anew. Null if all lines
    /// are unchanged.
    pub broken_at: Option<u64>,
    /// End of the unchanged part of the log. Clients may keep this value and compare it later.
    pub head: AuditHead,
    /// Notice that the results are reference values and must be checked by official means.
    pub disclaimer: String,
}

/// An end of the audit log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditHead {
    /// Number of the last line.
    pub seq: u64,
    /// SHA-256 of the last line, in hexadecimal.
    pub hash: String,
}

/// An entry of the audit log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    /// Number of the line.
    pub seq: u64,
    /// Time of the entry.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub at: String,
    /// Id of the account.
    pub account: String,
    /// Operation: `verify` or `monitor`.
    pub op: String,
    /// Registration number, normalised.
    pub number: String,
    /// Status of the registration, as in `RegistrationResult`.
    pub status: String,
    /// Reference date of the status.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub as_of: String,
    /// Source of the records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// SHA-256 of the records, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records_sha256: Option<String>,
    /// SHA-256 of the previous line.
    pub prev: String,
    /// SHA-256 of this entry without this member.
    pub hash: String,
}
