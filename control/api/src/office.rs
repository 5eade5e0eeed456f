//! The back office (specification, Back-Office Documents Service): its bodies as they are described. `docs_module::request` reads them, finds all faults
//! of a body at once, and is tested against these types member by member. Clients may use these types or their own.

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

/// Defaults of members.
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

/// An invoice, receipt or another document of its kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InvoiceIn {
    /// Name of the issuer.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    pub issuer: String,
    /// T and 13 digits. The check digit is not enforced; a wrong one brings `X-Document-Warning`.
    pub registration_number: RegistrationNumber,
    /// Lines.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 1000))]
    pub items: Vec<LineItemIn>,
    /// To whom the document is given; empty when absent.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub recipient: String,
    /// The date of the document; today in Tokyo when absent.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub issue_date: Option<String>,
    /// Until when it is to be paid; of a quote, until when it holds.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub due_date: Option<String>,
    /// How parts of a yen are rounded; `floor` when absent.
    #[serde(default = "defaults::floor")]
    pub rounding: Rounding,
    /// What the document is; `invoice` when absent.
    #[serde(default = "defaults::invoice")]
    pub document_type: DocumentType,
    /// Whether prices hold the tax; false when absent.
    #[serde(default)]
    pub tax_inclusive: bool,
    /// The number of the document; made when absent.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 50))]
    pub invoice_number: Option<String>,
    /// Free text, at most 200 lines.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 5000))]
    pub notes: Option<String>,
    /// Address of the issuer, at most 6 lines.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub issuer_address: Option<String>,
    /// Telephone number of the issuer.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 50))]
    pub issuer_tel: Option<String>,
    /// What follows the recipient's name; `御中` when absent.
    #[serde(default = "defaults::company")]
    #[cfg_attr(feature = "openapi", schema(max_length = 10))]
    pub recipient_honorific: String,
    /// Where to pay.
    #[serde(default)]
    pub bank_transfer: Option<BankTransferIn>,
    /// Who bears the fee of a transfer, at most 200 lines.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 5000))]
    pub transfer_fee_note: Option<String>,
    /// Income tax that the recipient withholds.
    #[serde(default)]
    pub withholding: Option<InvoiceWithholdingIn>,
    /// The time of the sales.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 100))]
    pub period: Option<String>,
    /// How it was or is paid: `credit_card`, `bank_transfer`, `konbini`, `cash`, `paypay`, `direct_debit`, or free text.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 100))]
    pub payment_method: Option<String>,
    /// Date or period of the sale that is returned or corrected.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 100))]
    pub original_date: Option<String>,
    /// Number of the document that is returned or corrected (our addition).
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 50))]
    pub original_number: Option<String>,
    /// Registration number of the recipient, for `format=xml` (our addition).
    #[serde(default)]
    pub recipient_number: Option<RegistrationNumber>,
    /// For whom the issuer sells. Required with `consignor_registration_number`.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub consignor: Option<String>,
    /// Registration number of the consignor.
    #[serde(default)]
    pub consignor_registration_number: Option<RegistrationNumber>,
    /// Colour, pictures and the text at the foot.
    #[serde(default)]
    pub theme: Option<ThemeIn>,
}

/// A line of a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LineItemIn {
    /// What was sold.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 200))]
    pub name: String,
    /// Yen a piece, with or without tax as `tax_inclusive` says. Negative for a discount.
    pub unit_price: Decimal,
    /// The rate of consumption tax in percent.
    pub tax_rate: TaxRate,
    /// Pieces; 1 when absent.
    #[serde(default = "defaults::one")]
    pub qty: Decimal,
}

/// An account of a bank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BankTransferIn {
    /// 銀行名.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 200))]
    pub bank_name: String,
    /// 統一金融機関コード: up to 4 digits.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 4))]
    pub bank_code: Option<String>,
    /// 支店名.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 200))]
    pub branch_name: String,
    /// 支店コード: up to 3 digits.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 3))]
    pub branch_code: Option<String>,
    /// The kind of account; `普通` when absent.
    #[serde(default)]
    pub account_type: Option<BankAccountType>,
    /// Up to 7 digits; a shorter number gets zeros in front.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 7))]
    pub account_number: String,
    /// 口座名義.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 200))]
    pub account_holder: String,
    /// The same in half-width katakana, as banks show it.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub account_holder_kana: Option<String>,
    /// Free text.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub note: Option<String>,
}

/// Income tax that the recipient withholds from the issuer, an individual.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InvoiceWithholdingIn {
    /// What the fee is for; `原稿料等` when absent.
    #[serde(default)]
    pub category: Option<Category>,
    /// Of which amount the tax is taken; `tax_exclusive` when absent.
    #[serde(default)]
    pub basis: Option<WithholdingBasis>,
    /// The tax in yen, in place of the computed one. At most the total of the document.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 999_999_999_999i64))]
    pub amount: Option<i64>,
    /// Places of the items that are subject to it, each once; all when absent.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_items = 1000))]
    pub lines: Option<Vec<LinePlace>>,
}

/// How a document looks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ThemeIn {
    /// The colour of lines and titles.
    #[serde(default)]
    pub brand_color: Option<BrandColor>,
    /// The logo.
    #[serde(default)]
    pub logo: Option<PictureUri>,
    /// The seal (角印).
    #[serde(default)]
    pub seal: Option<PictureUri>,
    /// The text at the foot of each page, at most 6 lines.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub footer: Option<String>,
    /// The language of the document; `ja` when absent.
    #[serde(default)]
    pub locale: Option<Locale>,
}

/// One payment of a payment provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PaymentImportIn {
    /// Name of the issuer.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    pub issuer: String,
    /// T and 13 digits.
    pub registration_number: RegistrationNumber,
    /// The payment.
    pub payment_object: PaymentObject,
    /// Whose payment objects; `stripe` when absent.
    #[serde(default = "defaults::stripe")]
    pub provider: Provider,
    /// To whom the document is given; the buyer when absent.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub recipient: Option<String>,
    /// The rate of what has none of its own; 10 when absent.
    #[serde(default = "defaults::standard_rate")]
    pub default_tax_rate: TaxRate,
    /// What the document is; `receipt` when absent.
    #[serde(default)]
    pub document_type: Option<DocumentType>,
    /// How parts of a yen are rounded; `floor` when absent.
    #[serde(default = "defaults::floor")]
    pub rounding: Rounding,
    /// Address of the issuer, at most 6 lines (our addition).
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub issuer_address: Option<String>,
    /// Telephone number of the issuer (our addition).
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 50))]
    pub issuer_tel: Option<String>,
    /// For whom the issuer sells. Required with `consignor_registration_number`.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub consignor: Option<String>,
    /// Registration number of the consignor.
    #[serde(default)]
    pub consignor_registration_number: Option<RegistrationNumber>,
    /// Colour, pictures and the text at the foot.
    #[serde(default)]
    pub theme: Option<ThemeIn>,
}

/// Many payments for one invoice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PaymentsImportIn {
    /// Name of the issuer.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    pub issuer: String,
    /// T and 13 digits.
    pub registration_number: RegistrationNumber,
    /// The payments, each once.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 1000))]
    pub payment_objects: Vec<PaymentObject>,
    /// To whom the document is given.
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub recipient: String,
    /// Whose payment objects; `stripe` when absent.
    #[serde(default = "defaults::stripe")]
    pub provider: Provider,
    /// The time of the sales; that of the payments when absent.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 100))]
    pub period: Option<String>,
    /// The rate of what has none of its own; 10 when absent.
    #[serde(default = "defaults::standard_rate")]
    pub default_tax_rate: TaxRate,
    /// What the document is; `invoice` when absent.
    #[serde(default = "defaults::invoice")]
    pub document_type: DocumentType,
    /// How parts of a yen are rounded; `floor` when absent.
    #[serde(default = "defaults::floor")]
    pub rounding: Rounding,
    /// The number of the document; made when absent.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 50))]
    pub invoice_number: Option<String>,
    /// Until when it is to be paid; of a quote, until when it holds.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub due_date: Option<String>,
    /// Where to pay.
    #[serde(default)]
    pub bank_transfer: Option<BankTransferIn>,
    /// Who bears the fee of a transfer, at most 200 lines.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 5000))]
    pub transfer_fee_note: Option<String>,
    /// Free text, at most 200 lines.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 5000))]
    pub notes: Option<String>,
    /// Address of the issuer, at most 6 lines (our addition).
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub issuer_address: Option<String>,
    /// Telephone number of the issuer (our addition).
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 50))]
    pub issuer_tel: Option<String>,
    /// For whom the issuer sells. Required with `consignor_registration_number`.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub consignor: Option<String>,
    /// Registration number of the consignor.
    #[serde(default)]
    pub consignor_registration_number: Option<RegistrationNumber>,
    /// Colour, pictures and the text at the foot.
    #[serde(default)]
    pub theme: Option<ThemeIn>,
}

/// Payments to payees of a year.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WithholdingRecordsIn {
    /// The payees.
    #[cfg_attr(feature = "openapi", schema(max_items = 200_000))]
    pub payees: Vec<WithholdingPayeeIn>,
    /// The year; that of the latest payment when absent.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(minimum = 2013, maximum = 2999))]
    pub year: Option<i64>,
    /// Who paid.
    #[serde(default)]
    pub payer: Option<PayerIn>,
    /// `brand_color` is the colour of the PDF. Its other members are not used.
    #[serde(default)]
    pub theme: Option<ThemeIn>,
}

/// A payee.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WithholdingPayeeIn {
    /// Name.
    pub name: String,
    /// What was paid.
    #[cfg_attr(feature = "openapi", schema(max_items = 200_000))]
    pub payments: Vec<WithholdingPaymentIn>,
    /// Address; empty when absent.
    #[serde(default)]
    pub address: String,
    /// Individual or corporate number; empty when absent. No answer repeats it.
    #[serde(default)]
    pub number: String,
    /// Whether the payee is a person: corporations have nothing withheld. True when absent.
    #[serde(default = "defaults::yes")]
    pub is_individual: bool,
}

/// A payment to a payee.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WithholdingPaymentIn {
    /// Yen of which the tax is taken: without consumption tax when that is clearly known.
    pub amount: WholeYen,
    /// What it was paid for; `原稿料等` when absent.
    #[serde(default = "defaults::manuscript")]
    pub category: Category,
    /// The day of the payment. A payment without a day counts in the year of the records.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub paid_on: Option<String>,
    /// Consumption tax in yen that was paid beside it; 0 when absent.
    #[serde(default = "defaults::zero")]
    pub consumption_tax: WholeYen,
    /// What was paid for, in the words of the payer; empty when absent.
    #[serde(default)]
    pub description: String,
    /// 細目 of the record; `description` when absent or empty (our addition).
    #[serde(default)]
    pub detail: String,
    /// Whether the payment became fixed in the year and is not paid yet; false when absent (our addition).
    #[serde(default)]
    pub unpaid: bool,
    /// Calendar days of the period that is paid, for `ホステス等` (our addition).
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 366, nullable = false))]
    pub days: Option<i64>,
    /// Salary of the same month or period in yen, for `外交員等` and `ホステス等` (our addition).
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 999_999_999_999i64, nullable = false))]
    pub salary: Option<i64>,
}

/// Who paid.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PayerIn {
    /// Name; empty when absent.
    #[serde(default)]
    pub name: String,
    /// Address; empty when absent.
    #[serde(default)]
    pub address: String,
    /// Individual or corporate number; empty when absent. No answer repeats it.
    #[serde(default)]
    pub number: String,
    /// Telephone number; empty when absent.
    #[serde(default)]
    pub tel: String,
}

/// Transfers of a platform with connected accounts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TransfersWithholdingIn {
    /// Transfers or payouts.
    #[cfg_attr(feature = "openapi", schema(max_items = 200_000))]
    pub transfers: Vec<TransferIn>,
    /// What is known of the payees, by connected account.
    #[serde(default)]
    pub payee_map: BTreeMap<String, DeclaredPayeeIn>,
    /// The category of transfers that name none; `原稿料等` when absent.
    #[serde(default = "defaults::manuscript")]
    pub default_category: Category,
    /// The year; that of the latest transfer when absent.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(minimum = 2013, maximum = 2999))]
    pub year: Option<i64>,
    /// Who paid.
    #[serde(default)]
    pub payer: Option<PayerIn>,
    /// `brand_color` is the colour of the PDF. Its other members are not used.
    #[serde(default)]
    pub theme: Option<ThemeIn>,
}

/// What a platform knows of a connected account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeclaredPayeeIn {
    /// Name.
    #[serde(default)]
    pub name: Option<String>,
    /// Address.
    #[serde(default)]
    pub address: Option<String>,
    /// Individual or corporate number; empty when absent. No answer repeats it.
    #[serde(default)]
    pub number: String,
    /// Whether the payee is a person: corporations have nothing withheld. True when absent.
    #[serde(default)]
    pub is_individual: Option<bool>,
    /// What the payee is paid for; `default_category` when absent.
    #[serde(default)]
    pub category: Option<Category>,
    /// 細目 of the record.
    #[serde(default)]
    pub description: Option<String>,
    /// How transfers hold consumption tax; `included` when absent.
    #[serde(default)]
    pub tax: Option<DeclaredTax>,
    /// False is `tax: separate`. Ignored beside `tax`.
    #[serde(default)]
    pub tax_included: Option<bool>,
    /// The rate of that tax; 10 when absent.
    #[serde(default)]
    pub tax_rate: Option<TaxRate>,
    /// What a transfer is; `gross` when absent.
    #[serde(default)]
    pub amount_is: Option<DeclaredAmount>,
    /// Whether the payee lives abroad, under other law: transfers to it are skipped. False when absent.
    #[serde(default)]
    pub non_resident: Option<bool>,
}

/// Two lists that are to be reconciled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReconcileIn {
    /// Records of the left side.
    #[cfg_attr(feature = "openapi", schema(max_items = 20_000))]
    pub left: Vec<Row>,
    /// Records of the right side.
    #[cfg_attr(feature = "openapi", schema(max_items = 20_000))]
    pub right: Vec<Row>,
    /// The member of left records by which they match: a text or a number that each record has.
    pub left_key: String,
    /// The same of right records; `left_key` when absent.
    #[serde(default)]
    pub right_key: Option<String>,
    /// How names are compared; `text` when absent.
    #[serde(default = "defaults::text")]
    pub kind: NameKind,
    /// The member of left records with an amount; without it amounts are not compared.
    #[serde(default)]
    pub left_amount: Option<String>,
    /// The same of right records; `left_amount` when absent.
    #[serde(default)]
    pub right_amount: Option<String>,
    /// Yen by which matched amounts may differ; 0 when absent.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 999_999_999_999i64))]
    pub amount_tolerance: i64,
}

/// Registration numbers that are to be checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RegistrationVerifyIn {
    /// The numbers, in any form.
    #[cfg_attr(feature = "openapi", schema(max_items = 1000))]
    pub numbers: Vec<String>,
    /// Published records. Without them form and check digit are checked.
    #[serde(default)]
    pub records: Option<PublishedRecords>,
    /// The day whose state is asked for; today in Tokyo when absent.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub as_of: Option<String>,
    /// Where the records come from.
    #[serde(default)]
    pub source: Option<String>,
}

/// Registration numbers that are watched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RegistrationMonitorIn {
    /// The numbers, in any form.
    #[cfg_attr(feature = "openapi", schema(max_items = 100_000))]
    pub watch: Vec<String>,
    /// Published records: a current snapshot.
    #[serde(default)]
    pub records: Option<PublishedRecords>,
    /// The day whose state is asked for; today in Tokyo when absent.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub as_of: Option<String>,
    /// Where the records come from.
    #[serde(default)]
    pub source: Option<String>,
}

/// A key that is to be issued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IssueKeyIn {
    /// Its plan; `payg` when absent.
    #[serde(default = "defaults::payg")]
    pub plan: OfficePlan,
    /// A label; empty when absent.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub customer: String,
    /// Monthly cap in yen; 0 or absent: none.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 999_999_999_999i64))]
    pub cap_yen: i64,
}

/// What documents of payments have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProfileIn {
    /// Name of the issuer.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    pub issuer: String,
    /// T and 13 digits.
    pub registration_number: RegistrationNumber,
    /// How documents are given to the buyer; `store` when absent.
    #[serde(default = "defaults::store")]
    pub delivery_mode: DeliveryMode,
    /// Where copies of sent documents go; empty or absent: nowhere.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 254, pattern = r"^([^@\s,;<>]+@[^@\s,;<>]+)?$"))]
    pub delivery_email: String,
    /// The rate of what has none of its own; 10 when absent.
    #[serde(default = "defaults::standard_rate")]
    pub default_tax_rate: TaxRate,
    /// What the documents are; `receipt` when empty or absent.
    #[serde(default = "defaults::unsaid")]
    pub document_type: ProfileDocumentType,
    /// The colour of lines and titles.
    #[serde(default)]
    pub brand_color: BrandColor,
    /// The logo.
    #[serde(default)]
    pub logo: PictureUri,
    /// The seal (角印).
    #[serde(default)]
    pub seal: PictureUri,
    /// Address of the issuer, at most 6 lines (our addition).
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub issuer_address: Option<String>,
    /// Telephone number of the issuer (our addition).
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 50))]
    pub issuer_tel: Option<String>,
    /// Whether the ingest URL is replaced by a new one; false when absent.
    #[serde(default)]
    pub rotate_token: bool,
    /// The secret of the webhook at the payment provider. With it, events must be signed. Empty: none; absent: the one before.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub provider_signing_secret: Option<String>,
}

/// A monthly cap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CapIn {
    /// Yen; 0 or absent: none.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 999_999_999_999i64))]
    pub cap_yen: i64,
}
