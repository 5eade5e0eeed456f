//! The bodies of the back office (specification, Back-Office Documents Service), as the API page describes them.
//! `docs_module::request` reads the bodies and finds all faults of a body at once. Tests compare that reader with these
//! types, member by member. Clients may use these types or their own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

mod answers;
mod findings;
mod parts;
mod provider_objects;
mod published;

pub use answers::*;
pub use findings::*;
pub use parts::*;
pub use provider_objects::*;
pub use published::*;

/// Default values of members.
mod defaults {
    use super::*;

    pub fn one() -> Decimal {
        Decimal(serde_json::json!("1"))
    }

    pub fn zero() -> WholeYen {
        WholeYen(serde_json::json!("0"))
    }

    pub fn standard_rate() -> TaxRate {
        TaxRate(10)
    }

    pub fn yes() -> bool {
        true
    }

    pub fn company() -> String {
        "御中".to_owned()
    }

    macro_rules! words {
        ($($name:ident = $type:ident($text:literal);)*) => {$(
            pub fn $name() -> $type {
                $type($text.to_owned())
            }
        )*};
    }

    words! {
        floor = Rounding("floor");
        invoice = DocumentType("invoice");
        unsaid = ProfileDocumentType("");
        stripe = Provider("stripe");
        manuscript = Category("原稿料等");
        text = NameKind("text");
        payg = OfficePlan("payg");
        store = DeliveryMode("store");
    }
}

/// An invoice, receipt or other document for a sale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InvoiceIn {
    /// Name of the issuer.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    pub issuer: String,
    /// Registration number of the issuer: T and 13 digits. A wrong check digit is accepted, and the answer has a
    /// warning in `X-Document-Warning`.
    pub registration_number: RegistrationNumber,
    /// Line items.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 1000))]
    pub items: Vec<LineItemIn>,
    /// Name of the recipient. Absent means empty.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub recipient: String,
    /// Issue date of the document. Absent means today in Tokyo.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub issue_date: Option<String>,
    /// Payment due date; for a quote, the date on which its offer ends.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub due_date: Option<String>,
    /// Rounding of fractions of a yen. Absent means `floor`.
    #[serde(default = "defaults::floor")]
    pub rounding: Rounding,
    /// Type of the document. Absent means `invoice`.
    #[serde(default = "defaults::invoice")]
    pub document_type: DocumentType,
    /// True if prices include consumption tax. Absent means false.
    #[serde(default)]
    pub tax_inclusive: bool,
    /// Number of the document. Absent means that the service makes a number.
    #[cfg_attr(feature = "openapi", schema(max_length = 50))]
    pub invoice_number: Option<String>,
    /// Free text, at most 200 lines.
    #[cfg_attr(feature = "openapi", schema(max_length = 5000))]
    pub notes: Option<String>,
    /// Address of the issuer, at most 6 lines.
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub issuer_address: Option<String>,
    /// Telephone number of the issuer.
    #[cfg_attr(feature = "openapi", schema(max_length = 50))]
    pub issuer_tel: Option<String>,
    /// Honorific after the recipient's name. Absent means `御中`.
    #[serde(default = "defaults::company")]
    #[cfg_attr(feature = "openapi", schema(max_length = 10))]
    pub recipient_honorific: String,
    /// Bank account to which the recipient pays.
    pub bank_transfer: Option<BankTransferIn>,
    /// Note on who bears the fee of a bank transfer, at most 200 lines.
    #[cfg_attr(feature = "openapi", schema(max_length = 5000))]
    pub transfer_fee_note: Option<String>,
    /// Withholding tax: income tax that the recipient withholds.
    pub withholding: Option<InvoiceWithholdingIn>,
    /// Period of the sales, as a text.
    #[cfg_attr(feature = "openapi", schema(max_length = 100))]
    pub period: Option<String>,
    /// Payment method: `credit_card`, `bank_transfer`, `konbini`, `cash`, `paypay`, `direct_debit`, or free text.
    #[cfg_attr(feature = "openapi", schema(max_length = 100))]
    pub payment_method: Option<String>,
    /// Date or period of the original sale, for a credit note or a corrected invoice.
    #[cfg_attr(feature = "openapi", schema(max_length = 100))]
    pub original_date: Option<String>,
    /// Number of the original document, for a credit note or a corrected invoice (our addition).
    #[cfg_attr(feature = "openapi", schema(max_length = 50))]
    pub original_number: Option<String>,
    /// Number of the recipient: a registration number, or a corporate number of 13 digits. Required for `format=xml`
    /// (our addition).
    pub recipient_number: Option<RecipientNumber>,
    /// For what the money of a receipt was paid (但し書き), without 但し and として. Absent means the name of the first line
    /// item (our addition).
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub proviso: Option<String>,
    /// Name of the consignor, for whom the issuer sells. Required with `consignor_registration_number`.
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub consignor: Option<String>,
    /// Registration number of the consignor.
    pub consignor_registration_number: Option<RegistrationNumber>,
    /// Appearance of the document: colour, logo, seal and footer.
    pub theme: Option<ThemeIn>,
}

/// A line item of a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LineItemIn {
    /// Name of the goods or service.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 200))]
    pub name: String,
    /// Unit price in yen. The price includes consumption tax if `tax_inclusive` is true. Negative for a discount.
    pub unit_price: Decimal,
    /// Rate of consumption tax in percent.
    pub tax_rate: TaxRate,
    /// Quantity. Absent means 1.
    #[serde(default = "defaults::one")]
    pub qty: Decimal,
}

/// A bank account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BankTransferIn {
    /// Name of the bank (銀行名).
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 200))]
    pub bank_name: String,
    /// Bank code (統一金融機関コード): up to 4 digits.
    #[cfg_attr(feature = "openapi", schema(max_length = 4))]
    pub bank_code: Option<String>,
    /// Name of the branch (支店名).
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 200))]
    pub branch_name: String,
    /// Branch code (支店コード): up to 3 digits.
    #[cfg_attr(feature = "openapi", schema(max_length = 3))]
    pub branch_code: Option<String>,
    /// Type of the account. Absent means `普通`.
    pub account_type: Option<BankAccountType>,
    /// Account number: up to 7 digits. A shorter number gets zeros in front.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 7))]
    pub account_number: String,
    /// Name of the account holder (口座名義).
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 200))]
    pub account_holder: String,
    /// Name of the account holder in half-width katakana, as banks show it.
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub account_holder_kana: Option<String>,
    /// Free text.
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub note: Option<String>,
}

/// Withholding tax: income tax that the recipient withholds from the issuer, an individual.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InvoiceWithholdingIn {
    /// Category of the remuneration. Absent means `原稿料等`.
    pub category: Option<Category>,
    /// Amount from which the withholding tax is computed. Absent means `tax_exclusive`.
    pub basis: Option<WithholdingBasis>,
    /// Withholding tax in yen, in place of the computed tax. At most the total of the document.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 999_999_999_999i64))]
    pub amount: Option<i64>,
    /// Indexes of the line items that are subject to withholding tax, each at most once. Absent means all line items.
    #[cfg_attr(feature = "openapi", schema(max_items = 1000))]
    pub lines: Option<Vec<LinePlace>>,
}

/// Appearance of a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ThemeIn {
    /// Colour of lines and titles.
    pub brand_color: Option<BrandColor>,
    /// Logo.
    pub logo: Option<PictureUri>,
    /// Seal (角印).
    pub seal: Option<PictureUri>,
    /// Text at the foot of each page, at most 6 lines.
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub footer: Option<String>,
    /// Language of the document. Absent means `ja`.
    pub locale: Option<Locale>,
}

/// One payment of a payment provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PaymentImportIn {
    /// Name of the issuer.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    pub issuer: String,
    /// Registration number of the issuer: T and 13 digits.
    pub registration_number: RegistrationNumber,
    /// The payment.
    pub payment_object: PaymentObject,
    /// Payment provider that made the payment object. Absent means `stripe`.
    #[serde(default = "defaults::stripe")]
    pub provider: Provider,
    /// Name of the recipient. Absent means the buyer.
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub recipient: Option<String>,
    /// Rate of consumption tax in percent, for a payment or a line item without its own rate. Absent means 10.
    #[serde(default = "defaults::standard_rate")]
    pub default_tax_rate: TaxRate,
    /// Type of the document. Absent means `receipt`.
    pub document_type: Option<DocumentType>,
    /// Rounding of fractions of a yen. Absent means `floor`.
    #[serde(default = "defaults::floor")]
    pub rounding: Rounding,
    /// Address of the issuer, at most 6 lines (our addition).
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub issuer_address: Option<String>,
    /// Telephone number of the issuer (our addition).
    #[cfg_attr(feature = "openapi", schema(max_length = 50))]
    pub issuer_tel: Option<String>,
    /// Number of the recipient: a registration number, or a corporate number of 13 digits. Required for `format=xml`
    /// (our addition).
    pub recipient_number: Option<RecipientNumber>,
    /// For what the money of a receipt was paid (但し書き), without 但し and として. Absent means that of the profile,
    /// which only receipts have (our addition).
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub proviso: Option<String>,
    /// Name of the consignor, for whom the issuer sells. Required with `consignor_registration_number`.
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub consignor: Option<String>,
    /// Registration number of the consignor.
    pub consignor_registration_number: Option<RegistrationNumber>,
    /// Appearance of the document: colour, logo, seal and footer.
    pub theme: Option<ThemeIn>,
}

/// Many payments for one invoice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PaymentsImportIn {
    /// Name of the issuer.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    pub issuer: String,
    /// Registration number of the issuer: T and 13 digits.
    pub registration_number: RegistrationNumber,
    /// The payments. Each payment may occur once.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 1000))]
    pub payment_objects: Vec<PaymentObject>,
    /// Name of the recipient.
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub recipient: String,
    /// Payment provider that made the payment objects. Absent means `stripe`.
    #[serde(default = "defaults::stripe")]
    pub provider: Provider,
    /// Period of the sales, as a text. Absent means the period of the payments.
    #[cfg_attr(feature = "openapi", schema(max_length = 100))]
    pub period: Option<String>,
    /// Rate of consumption tax in percent, for a payment or a line item without its own rate. Absent means 10.
    #[serde(default = "defaults::standard_rate")]
    pub default_tax_rate: TaxRate,
    /// Type of the document. Absent means `invoice`.
    #[serde(default = "defaults::invoice")]
    pub document_type: DocumentType,
    /// Rounding of fractions of a yen. Absent means `floor`.
    #[serde(default = "defaults::floor")]
    pub rounding: Rounding,
    /// Number of the document. Absent means that the service makes a number.
    #[cfg_attr(feature = "openapi", schema(max_length = 50))]
    pub invoice_number: Option<String>,
    /// Payment due date; for a quote, the date on which its offer ends.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub due_date: Option<String>,
    /// Bank account to which the recipient pays.
    pub bank_transfer: Option<BankTransferIn>,
    /// Note on who bears the fee of a bank transfer, at most 200 lines.
    #[cfg_attr(feature = "openapi", schema(max_length = 5000))]
    pub transfer_fee_note: Option<String>,
    /// Free text, at most 200 lines.
    #[cfg_attr(feature = "openapi", schema(max_length = 5000))]
    pub notes: Option<String>,
    /// Address of the issuer, at most 6 lines (our addition).
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub issuer_address: Option<String>,
    /// Telephone number of the issuer (our addition).
    #[cfg_attr(feature = "openapi", schema(max_length = 50))]
    pub issuer_tel: Option<String>,
    /// Number of the recipient: a registration number, or a corporate number of 13 digits. Required for `format=xml`
    /// (our addition).
    pub recipient_number: Option<RecipientNumber>,
    /// For what the money of a receipt was paid (但し書き), without 但し and として. Absent means that of the profile,
    /// which only receipts have (our addition).
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub proviso: Option<String>,
    /// Name of the consignor, for whom the issuer sells. Required with `consignor_registration_number`.
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub consignor: Option<String>,
    /// Registration number of the consignor.
    pub consignor_registration_number: Option<RegistrationNumber>,
    /// Appearance of the document: colour, logo, seal and footer.
    pub theme: Option<ThemeIn>,
}

/// Payments of one year to payees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WithholdingRecordsIn {
    /// The payees.
    #[cfg_attr(feature = "openapi", schema(max_items = 200_000))]
    pub payees: Vec<WithholdingPayeeIn>,
    /// Calendar year of the records. Absent means the year of the latest payment.
    #[cfg_attr(feature = "openapi", schema(minimum = 2013, maximum = 2999))]
    pub year: Option<i64>,
    /// The payer.
    pub payer: Option<PayerIn>,
    /// Appearance of the PDF: `brand_color` is its colour. The other members are not used.
    pub theme: Option<ThemeIn>,
}

/// A payee.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WithholdingPayeeIn {
    /// Name of the payee.
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub name: String,
    /// Payments to the payee.
    #[cfg_attr(feature = "openapi", schema(max_items = 200_000))]
    pub payments: Vec<WithholdingPaymentIn>,
    /// Address of the payee. Absent means empty.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub address: String,
    /// Individual or corporate number of the payee. Absent means empty. Only an answer in the format `etax_csv`
    /// contains the number.
    #[serde(default)]
    pub number: String,
    /// True if the payee is an individual. No tax is withheld from a corporation, except from `競馬賞金`. Absent means
    /// true.
    #[serde(default = "defaults::yes")]
    pub is_individual: bool,
}

/// A payment to a payee.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WithholdingPaymentIn {
    /// Amount in yen from which the withholding tax is computed: tax-exclusive if the tax-exclusive amount is clearly
    /// known, otherwise tax-inclusive.
    pub amount: WholeYen,
    /// Category of the remuneration, or a fee or an occupation such as 講演料 or 税理士, which the payment record then
    /// shows (区分). Absent means `原稿料等`.
    #[serde(default = "defaults::manuscript")]
    pub category: Category,
    /// Date of the payment. A payment without a date counts in the year of the records. Required for `外交員等` and
    /// `診療報酬` if the payee has several such payments, because each month has one deduction.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub paid_on: Option<String>,
    /// Consumption tax in yen that was paid in addition to `amount`. Absent means 0.
    #[serde(default = "defaults::zero")]
    pub consumption_tax: WholeYen,
    /// Subject of the payment, in the payer's words. Absent means empty.
    #[serde(default)]
    pub description: String,
    /// Detail (細目) on the payment record. Absent or empty means `description` (our addition). Details of a record's
    /// row are joined and cut to 60 characters, in the format `etax_csv` to 20.
    #[serde(default)]
    pub detail: String,
    /// True if the payment was fixed (支払の確定) in the year but is not made yet. Absent means false (our addition).
    #[serde(default)]
    pub unpaid: bool,
    /// Number of calendar days in the period that the payment covers, for `ホステス等` (our addition). Absent means 1,
    /// with a warning.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 366, nullable = false))]
    pub days: Option<i64>,
    /// Salary in yen for the same month or period, for `外交員等` and `ホステス等` (our addition).
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 999_999_999_999i64, nullable = false))]
    pub salary: Option<i64>,
}

/// A payer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PayerIn {
    /// Name of the payer. Absent means empty.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub name: String,
    /// Address of the payer. Absent means empty.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub address: String,
    /// Individual or corporate number of the payer. Absent means empty. Only an answer in the format `etax_csv`
    /// contains the number.
    #[serde(default)]
    pub number: String,
    /// Telephone number of the payer. Absent means empty.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 50))]
    pub tel: String,
}

/// Transfers of a payment platform to connected accounts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TransfersWithholdingIn {
    /// Transfers or payouts.
    #[cfg_attr(feature = "openapi", schema(max_items = 200_000))]
    pub transfers: Vec<TransferIn>,
    /// Declarations about the payees. Each member name is the id of a connected account.
    #[serde(default)]
    pub payee_map: BTreeMap<String, DeclaredPayeeIn>,
    /// Category of the remuneration, for a transfer if neither its metadata nor the declaration about its payee states
    /// a category. Absent means `原稿料等`.
    #[serde(default = "defaults::manuscript")]
    pub default_category: Category,
    /// Calendar year of the records. Absent means the year of the latest transfer.
    #[cfg_attr(feature = "openapi", schema(minimum = 2013, maximum = 2999))]
    pub year: Option<i64>,
    /// The payer.
    pub payer: Option<PayerIn>,
    /// Appearance of the PDF: `brand_color` is its colour. The other members are not used.
    pub theme: Option<ThemeIn>,
}

/// A platform's declaration about the payee of a connected account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeclaredPayeeIn {
    /// Name of the payee.
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub name: Option<String>,
    /// Address of the payee.
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub address: Option<String>,
    /// Individual or corporate number of the payee. Absent means empty. Only an answer in the format `etax_csv`
    /// contains the number.
    #[serde(default)]
    pub number: String,
    /// True if the payee is an individual. No tax is withheld from a corporation, except from `競馬賞金`. Absent means
    /// true.
    pub is_individual: Option<bool>,
    /// Category of the remuneration. Absent means `default_category`.
    pub category: Option<Category>,
    /// Detail (細目) on the payment record, for transfers whose metadata state none.
    pub description: Option<String>,
    /// Treatment of the consumption tax in a transfer. Absent means `included`.
    pub tax: Option<DeclaredTax>,
    /// False means the same as `tax: separate`. Ignored if `tax` is present.
    pub tax_included: Option<bool>,
    /// Rate of the consumption tax in a transfer, in percent. Absent means 10.
    pub tax_rate: Option<TaxRate>,
    /// Meaning of a transfer's amount. Absent means `gross`.
    pub amount_is: Option<DeclaredAmount>,
    /// True if the payee lives abroad. Transfers to such a payee are skipped, because another law applies. Absent means
    /// false.
    pub non_resident: Option<bool>,
}

/// Two lists to reconcile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReconcileIn {
    /// Records of the left side.
    #[cfg_attr(feature = "openapi", schema(max_items = 20_000))]
    pub left: Vec<Row>,
    /// Records of the right side.
    #[cfg_attr(feature = "openapi", schema(max_items = 20_000))]
    pub right: Vec<Row>,
    /// Name of the member that identifies a left record in the comparison. Each left record has this member, as a text
    /// of at most 256 characters or a number.
    pub left_key: String,
    /// Name of the member that identifies a right record in the comparison. Each right record has this member, as a
    /// text of at most 256 characters or a number. Absent means `left_key`.
    pub right_key: Option<String>,
    /// Method of comparing names. Absent means `text`.
    #[serde(default = "defaults::text")]
    pub kind: NameKind,
    /// Name of the member that holds the amount of a left record. Absent means that amounts are not compared.
    pub left_amount: Option<String>,
    /// Name of the member that holds the amount of a right record. Absent means `left_amount`.
    pub right_amount: Option<String>,
    /// Largest difference in yen between matched amounts. Absent means 0.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 999_999_999_999i64))]
    pub amount_tolerance: i64,
}

/// Registration numbers to verify.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RegistrationVerifyIn {
    /// The registration numbers, in any spelling.
    #[cfg_attr(feature = "openapi", schema(max_items = 1000))]
    pub numbers: Vec<String>,
    /// Published records. Without records, only the form and the check digit are verified.
    pub records: Option<PublishedRecords>,
    /// Reference date, for which the status is determined. Absent means today in Tokyo.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub as_of: Option<String>,
    /// Source of the records, in the caller's words. At most 200 characters.
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub source: Option<String>,
}

/// Registration numbers to monitor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RegistrationMonitorIn {
    /// The registration numbers, in any spelling.
    #[cfg_attr(feature = "openapi", schema(max_items = 100_000))]
    pub watch: Vec<String>,
    /// Published records: a current snapshot.
    pub records: Option<PublishedRecords>,
    /// Reference date, for which the status is determined. Absent means today in Tokyo.
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub as_of: Option<String>,
    /// Source of the records, in the caller's words. At most 200 characters.
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub source: Option<String>,
}

/// An API key to issue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IssueKeyIn {
    /// Plan of the key. Absent means `payg`.
    #[serde(default = "defaults::payg")]
    pub plan: OfficePlan,
    /// Label of the key. Absent means empty.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub customer: String,
    /// Monthly cap in yen. 0 or absent means no cap.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 999_999_999_999i64))]
    pub cap_yen: i64,
}

/// Profile of an issuer: settings for the documents that are made from payments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProfileIn {
    /// Name of the issuer.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    pub issuer: String,
    /// Registration number of the issuer: T and 13 digits.
    pub registration_number: RegistrationNumber,
    /// Delivery of the documents to the buyer. Absent means `store`.
    #[serde(default = "defaults::store")]
    pub delivery_mode: DeliveryMode,
    /// E-mail address for copies of sent documents. Empty or absent means no copies.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 254, pattern = r"^([^@\s,;<>]+@[^@\s,;<>]+)?$"))]
    pub delivery_email: String,
    /// Rate of consumption tax in percent, for a payment or a line item without its own rate. Absent means 10.
    #[serde(default = "defaults::standard_rate")]
    pub default_tax_rate: TaxRate,
    /// Type of the documents. Empty or absent means `receipt`.
    #[serde(default = "defaults::unsaid")]
    pub document_type: ProfileDocumentType,
    /// Colour of lines and titles.
    #[serde(default)]
    pub brand_color: BrandColor,
    /// Logo.
    #[serde(default)]
    pub logo: PictureUri,
    /// Seal (角印).
    #[serde(default)]
    pub seal: PictureUri,
    /// Address of the issuer, at most 6 lines (our addition).
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub issuer_address: Option<String>,
    /// Telephone number of the issuer (our addition).
    #[cfg_attr(feature = "openapi", schema(max_length = 50))]
    pub issuer_tel: Option<String>,
    /// Payment provider whose events come to the ingest URL (our addition). Absent means `stripe`.
    #[serde(default = "defaults::stripe")]
    pub provider: Provider,
    /// For what the money of receipts was paid (但し書き), without 但し and として. Empty or absent means the name of the
    /// first line item (our addition).
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub proviso: String,
    /// True to make no return invoice for refunds below 10,000 yen, for which the law requires none (our addition). Absent means
    /// false.
    #[serde(default)]
    pub skip_small_returns: bool,
    /// True to replace the ingest URL with a new one. Absent means false.
    #[serde(default)]
    pub rotate_token: bool,
    /// Signing secret of the webhook at the payment provider. With a secret, events must be signed. Empty means no
    /// secret. Absent keeps the previous secret.
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub provider_signing_secret: Option<String>,
}

/// A monthly cap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CapIn {
    /// Monthly cap in yen. 0 or absent means no cap.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 999_999_999_999i64))]
    pub cap_yen: i64,
}
