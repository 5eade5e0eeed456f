//! The back office (specification, Back-Office Documents Service): its bodies as they are described. The service reads requests with a reader of its
//! own, which finds all faults at once; clients may use these types or their own.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

mod answers;

pub use answers::*;

/// Defaults of members.
mod defaults {
    pub fn one() -> super::Decimal {
        super::Decimal(serde_json::json!("1"))
    }

    pub fn zero() -> super::Decimal {
        super::Decimal(serde_json::json!("0"))
    }

    macro_rules! texts {
        ($($name:ident = $text:literal;)*) => {$(
            pub fn $name() -> String {
                $text.to_owned()
            }
        )*};
    }

    texts! {
        floor = "floor";
        invoice = "invoice";
        company = "御中";
        stripe = "stripe";
        manuscript = "原稿料等";
        text = "text";
        payg = "payg";
        store = "store";
    }

    pub fn standard_rate() -> i64 {
        10
    }

    pub fn yes() -> bool {
        true
    }
}

/// An exact decimal: a number, or a text of one with up to 12 digits before the point and 6 after it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Decimal(pub Value);

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Decimal {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        use utoipa::openapi::schema::{AnyOfBuilder, ObjectBuilder, Type};
        let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some(r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"));
        AnyOfBuilder::new().item(ObjectBuilder::new().schema_type(Type::Number)).item(text).into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Decimal {}

/// An invoice, receipt or another document of its kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InvoiceIn {
    /// Name of the issuer.
    pub issuer: String,
    /// T and 13 digits. The check digit is not enforced; a wrong one brings `X-Document-Warning`.
    pub registration_number: String,
    /// Lines, 1 to 1000.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 1000))]
    pub items: Vec<LineItemIn>,
    /// To whom the document is given.
    #[serde(default)]
    pub recipient: String,
    /// The date of the document; today in Tokyo when absent.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub issue_date: Option<String>,
    /// Until when it is to be paid; of a quote, until when it holds.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub due_date: Option<String>,
    /// `floor`, `ceil` or `round` (`half_up`): how parts of a yen are rounded, once for each rate.
    #[serde(default = "defaults::floor")]
    pub rounding: String,
    /// `invoice`, `receipt`, `simplified_invoice`, `credit_note` (needs `original_date`), `corrected_invoice`, `delivery_note`, `quote`.
    #[serde(default = "defaults::invoice")]
    pub document_type: String,
    /// Whether prices hold the tax.
    #[serde(default)]
    pub tax_inclusive: bool,
    /// The number of the document; made when absent.
    #[serde(default)]
    pub invoice_number: Option<String>,
    /// Free text.
    #[serde(default)]
    pub notes: Option<String>,
    /// Address of the issuer.
    #[serde(default)]
    pub issuer_address: Option<String>,
    /// Telephone number of the issuer.
    #[serde(default)]
    pub issuer_tel: Option<String>,
    /// What follows the recipient's name.
    #[serde(default = "defaults::company")]
    pub recipient_honorific: String,
    /// `bank_name`, `bank_code`, `branch_name`, `branch_code`, `account_type`, `account_number`, `account_holder`, `account_holder_kana`, `note`.
    #[serde(default)]
    pub bank_transfer: Option<Map<String, Value>>,
    /// Who bears the fee of a transfer.
    #[serde(default)]
    pub transfer_fee_note: Option<String>,
    /// `category`, `basis` (`tax_exclusive` or `tax_inclusive`), `amount` (yen, instead of the computed tax), `lines` (places of items).
    #[serde(default)]
    pub withholding: Option<Map<String, Value>>,
    /// The time of the sales.
    #[serde(default)]
    pub period: Option<String>,
    /// How it was or is paid.
    #[serde(default)]
    pub payment_method: Option<String>,
    /// Date or period of the sale that is returned or corrected.
    #[serde(default)]
    pub original_date: Option<String>,
    /// Number of the document that is returned or corrected (our addition).
    #[serde(default)]
    pub original_number: Option<String>,
    /// Registration number of the recipient, for `format=xml` (our addition).
    #[serde(default)]
    pub recipient_number: Option<String>,
    /// For whom the issuer sells.
    #[serde(default)]
    pub consignor: Option<String>,
    /// Registration number of the consignor.
    #[serde(default)]
    pub consignor_registration_number: Option<String>,
    /// `brand_color` (`#RRGGBB`), `logo` and `seal` (`data:` URI of a PNG or JPEG, at most 512 KB and 4 megapixels), `footer`.
    #[serde(default)]
    pub theme: Option<Map<String, Value>>,
}

/// A line of a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LineItemIn {
    /// What was sold.
    pub name: String,
    /// Yen a piece, with or without tax as `tax_inclusive` says. Negative for a discount.
    pub unit_price: Decimal,
    /// 8 or 10.
    pub tax_rate: i64,
    /// Pieces.
    #[serde(default = "defaults::one")]
    pub qty: Decimal,
}

/// One payment of a payment provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PaymentImportIn {
    /// Name of the issuer.
    pub issuer: String,
    /// T and 13 digits.
    pub registration_number: String,
    /// A payment object: of Stripe a payment intent, charge, checkout session, invoice, refund or credit note.
    pub payment_object: Map<String, Value>,
    /// `stripe`, `payjp` or `generic`.
    #[serde(default = "defaults::stripe")]
    pub provider: String,
    /// To whom the document is given; the buyer when absent.
    #[serde(default)]
    pub recipient: Option<String>,
    /// 8 or 10: the rate of what has none of its own.
    #[serde(default = "defaults::standard_rate")]
    pub default_tax_rate: i64,
    /// As in InvoiceIn; `receipt` when absent.
    #[serde(default)]
    pub document_type: Option<String>,
    /// As in InvoiceIn.
    #[serde(default = "defaults::floor")]
    pub rounding: String,
    /// Address of the issuer (our addition).
    #[serde(default)]
    pub issuer_address: Option<String>,
    /// Telephone number of the issuer (our addition).
    #[serde(default)]
    pub issuer_tel: Option<String>,
    /// For whom the issuer sells.
    #[serde(default)]
    pub consignor: Option<String>,
    /// Registration number of the consignor.
    #[serde(default)]
    pub consignor_registration_number: Option<String>,
    /// As in InvoiceIn.
    #[serde(default)]
    pub theme: Option<Map<String, Value>>,
}

/// Many payments for one invoice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PaymentsImportIn {
    /// Name of the issuer.
    pub issuer: String,
    /// T and 13 digits.
    pub registration_number: String,
    /// Payment objects, at least one; each payment once.
    #[cfg_attr(feature = "openapi", schema(min_items = 1))]
    pub payment_objects: Vec<Map<String, Value>>,
    /// To whom the document is given.
    pub recipient: String,
    /// As in PaymentImportIn.
    #[serde(default = "defaults::stripe")]
    pub provider: String,
    /// The time of the sales; that of the payments when absent.
    #[serde(default)]
    pub period: Option<String>,
    /// As in PaymentImportIn.
    #[serde(default = "defaults::standard_rate")]
    pub default_tax_rate: i64,
    /// As in InvoiceIn.
    #[serde(default = "defaults::invoice")]
    pub document_type: String,
    /// As in InvoiceIn.
    #[serde(default = "defaults::floor")]
    pub rounding: String,
    /// As in InvoiceIn.
    #[serde(default)]
    pub invoice_number: Option<String>,
    /// As in InvoiceIn.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub due_date: Option<String>,
    /// As in InvoiceIn.
    #[serde(default)]
    pub bank_transfer: Option<Map<String, Value>>,
    /// As in InvoiceIn.
    #[serde(default)]
    pub transfer_fee_note: Option<String>,
    /// As in InvoiceIn.
    #[serde(default)]
    pub notes: Option<String>,
    /// Address of the issuer (our addition).
    #[serde(default)]
    pub issuer_address: Option<String>,
    /// Telephone number of the issuer (our addition).
    #[serde(default)]
    pub issuer_tel: Option<String>,
    /// For whom the issuer sells.
    #[serde(default)]
    pub consignor: Option<String>,
    /// Registration number of the consignor.
    #[serde(default)]
    pub consignor_registration_number: Option<String>,
    /// As in InvoiceIn.
    #[serde(default)]
    pub theme: Option<Map<String, Value>>,
}

/// Payments to payees of a year.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WithholdingRecordsIn {
    /// The payees.
    pub payees: Vec<WithholdingPayeeIn>,
    /// The year; that of the latest payment when absent.
    #[serde(default)]
    pub year: Option<i64>,
    /// Who paid.
    #[serde(default)]
    pub payer: Option<PayerIn>,
    /// `brand_color` of the PDF.
    #[serde(default)]
    pub theme: Option<Map<String, Value>>,
}

/// A payee.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WithholdingPayeeIn {
    /// Name.
    pub name: String,
    /// What was paid.
    pub payments: Vec<WithholdingPaymentIn>,
    /// Address.
    #[serde(default)]
    pub address: String,
    /// Individual or corporate number. No answer repeats it.
    #[serde(default)]
    pub number: String,
    /// Whether the payee is a person: corporations have nothing withheld.
    #[serde(default = "defaults::yes")]
    pub is_individual: bool,
}

/// A payment to a payee.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WithholdingPaymentIn {
    /// Yen of which the tax is taken: without consumption tax when that is clearly known.
    pub amount: Decimal,
    /// What it was paid for.
    #[serde(default = "defaults::manuscript")]
    pub category: String,
    /// The day of the payment.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub paid_on: Option<String>,
    /// Consumption tax in yen that was paid beside it.
    #[serde(default = "defaults::zero")]
    pub consumption_tax: Decimal,
    /// Free text.
    #[serde(default)]
    pub description: String,
}

/// Who paid.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PayerIn {
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Address.
    #[serde(default)]
    pub address: String,
    /// Individual or corporate number. No answer repeats it.
    #[serde(default)]
    pub number: String,
    /// Telephone number.
    #[serde(default)]
    pub tel: String,
}

/// Transfers of a platform with connected accounts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TransfersWithholdingIn {
    /// Transfers or payouts: `id`, `amount`, `currency`, `destination`, `created` (`arrival_date`), `amount_reversed`, `metadata`.
    pub transfers: Vec<Map<String, Value>>,
    /// By connected account: `name`, `address`, `number`, `is_individual`, `category`, `tax_included`.
    #[serde(default)]
    pub payee_map: Map<String, Value>,
    /// The category of transfers that name none.
    #[serde(default = "defaults::manuscript")]
    pub default_category: String,
    /// The year; that of the latest transfer when absent.
    #[serde(default)]
    pub year: Option<i64>,
    /// Who paid.
    #[serde(default)]
    pub payer: Option<PayerIn>,
    /// `brand_color` of the PDF.
    #[serde(default)]
    pub theme: Option<Map<String, Value>>,
}

/// Two lists that are to be reconciled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReconcileIn {
    /// Records, at most 20000.
    #[cfg_attr(feature = "openapi", schema(max_items = 20000))]
    pub left: Vec<Map<String, Value>>,
    /// Records, at most 20000.
    #[cfg_attr(feature = "openapi", schema(max_items = 20000))]
    pub right: Vec<Map<String, Value>>,
    /// The member of left records by which they match.
    pub left_key: String,
    /// That of right records; `left_key` when absent.
    #[serde(default)]
    pub right_key: Option<String>,
    /// `text`, `exact`, `company`, `kana` or `bank`: how names are compared.
    #[serde(default = "defaults::text")]
    pub kind: String,
    /// The member of left records with an amount; without it amounts are not compared.
    #[serde(default)]
    pub left_amount: Option<String>,
    /// That of right records; `left_amount` when absent.
    #[serde(default)]
    pub right_amount: Option<String>,
    /// Yen by which matched amounts may differ.
    #[serde(default)]
    pub amount_tolerance: i64,
}

/// Registration numbers that are to be checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RegistrationVerifyIn {
    /// At most 1000 numbers.
    #[cfg_attr(feature = "openapi", schema(max_items = 1000))]
    pub numbers: Vec<String>,
    /// Published records: a list, an object with `announcement`, or a map from number to record.
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
    /// T and 13 digits each.
    pub watch: Vec<String>,
    /// As in RegistrationVerifyIn: a current snapshot.
    #[serde(default)]
    pub records: Option<PublishedRecords>,
    /// As in RegistrationVerifyIn.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(format = Date))]
    pub as_of: Option<String>,
    /// As in RegistrationVerifyIn.
    #[serde(default)]
    pub source: Option<String>,
}

/// Published records of the tax authority: a list of records, or an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PublishedRecords(pub Value);

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for PublishedRecords {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        use utoipa::openapi::schema::{AnyOfBuilder, ArrayBuilder, ObjectBuilder, Type};
        let object = || ObjectBuilder::new().schema_type(Type::Object);
        AnyOfBuilder::new().item(ArrayBuilder::new().items(object())).item(object()).into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for PublishedRecords {}

/// A key that is to be issued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IssueKeyIn {
    /// `free`, `payg`, `starter`, `pro`, `scale` or `enterprise`.
    #[serde(default = "defaults::payg")]
    pub plan: String,
    /// A label, at most 200 characters.
    #[serde(default)]
    pub customer: String,
    /// Monthly cap in yen; 0: none.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(minimum = 0))]
    pub cap_yen: i64,
}

/// What documents of payments have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProfileIn {
    /// Name of the issuer.
    pub issuer: String,
    /// T and 13 digits.
    pub registration_number: String,
    /// `store`, `email` or `both`.
    #[serde(default = "defaults::store")]
    pub delivery_mode: String,
    /// Where copies of sent documents go.
    #[serde(default)]
    pub delivery_email: String,
    /// 8 or 10: the rate of what has none of its own.
    #[serde(default = "defaults::standard_rate")]
    pub default_tax_rate: i64,
    /// As in InvoiceIn; `receipt` when empty.
    #[serde(default)]
    pub document_type: String,
    /// `#RRGGBB`.
    #[serde(default)]
    pub brand_color: String,
    /// `data:` URI of a PNG or JPEG, at most 512 KB and 4 megapixels.
    #[serde(default)]
    pub logo: String,
    /// The same, for the seal.
    #[serde(default)]
    pub seal: String,
    /// Address of the issuer (our addition).
    #[serde(default)]
    pub issuer_address: Option<String>,
    /// Telephone number of the issuer (our addition).
    #[serde(default)]
    pub issuer_tel: Option<String>,
    /// Whether the ingest URL is replaced by a new one.
    #[serde(default)]
    pub rotate_token: bool,
    /// The secret of the webhook at the payment provider. With it, events must be signed.
    #[serde(default)]
    pub provider_signing_secret: Option<String>,
}

/// A monthly cap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CapIn {
    /// Yen; 0: none.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(minimum = 0))]
    pub cap_yen: i64,
}
