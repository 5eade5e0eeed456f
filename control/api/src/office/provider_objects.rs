//! Objects of payment providers: the members that the service reads. A client sends an object as the provider made it,
//! with all members.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{LooseText, NumberOrText};

/// A successful payment in yen, or a return of one. From Stripe: a payment intent, charge, checkout session, invoice,
/// refund or credit note. From PAY.JP: a charge. From another provider: an object with the members named here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PaymentObject {
    /// Currency: `jpy`.
    pub currency: String,
    /// Provider's id of the payment or the return. An event of a `generic` payment needs an id.
    pub id: Option<String>,
    /// For `generic`: `refund` makes the object a return. An object with a negative amount is a return too.
    pub r#type: Option<String>,
    /// For a `generic` return: id of the payment that is returned.
    pub original_id: Option<String>,
    /// For a `generic` return: date or period of the sale that is returned, such as `2025-09-30` or `2025年9月分`.
    pub original_date: Option<String>,
    /// Type of the object. Stripe's types are `payment_intent`, `charge`, `checkout.session`, `invoice`, `refund` and
    /// `credit_note`.
    pub object: Option<String>,
    /// Amount in yen, tax-inclusive. For `generic`, absent means the sum of `lines`.
    pub amount: Option<i64>,
    /// Time of the payment, in seconds since 1970.
    pub created: Option<i64>,
    /// Name of the goods or service, for a payment without line items.
    pub description: Option<String>,
    /// For `generic`: name of the buyer.
    pub customer_name: Option<String>,
    /// For `generic`: e-mail address to which a document may be sent.
    pub customer_email: Option<String>,
    /// For `generic`: payment method, as a text.
    pub payment_method: Option<TextOrObject>,
    /// For `generic`: rate of consumption tax for line items without their own rate.
    pub tax_rate: Option<NumberOrText>,
    /// Line items. For `generic`, a list.
    pub lines: Option<PaymentLines>,
    /// Metadata that the merchant wrote to the payment.
    pub metadata: Option<PaymentMetadata>,
    /// The provider's other members.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// Line items of a payment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum PaymentLines {
    /// For `generic`: a list of line items.
    Lines(Vec<PaymentLine>),
    /// A list object of Stripe, with the line items in `data`.
    List(Map<String, Value>),
}

/// A line item of a `generic` payment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PaymentLine {
    /// Amount of the whole line item in yen, tax-inclusive.
    pub amount: i64,
    /// Name of the goods or service.
    pub description: Option<String>,
    /// Name of the goods or service, used if `description` is absent.
    pub name: Option<String>,
    /// Quantity.
    pub quantity: Option<i64>,
    /// Rate of consumption tax.
    pub tax_rate: Option<NumberOrText>,
    /// Members that are not read.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// Metadata with which a merchant changes the document of a payment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PaymentMetadata {
    /// Rate of consumption tax for line items without their own rate: `8`, `10`, `8%` or `0.08`.
    pub tax_rate: Option<NumberOrText>,
    /// Name of the recipient. `invoice_recipient` and `宛名` are other names of this member. The last is among the other
    /// metadata here, because generators make names of programs of described names.
    pub recipient: Option<String>,
    /// Same as `recipient`.
    pub invoice_recipient: Option<String>,
    /// Honorific after the recipient's name.
    pub recipient_honorific: Option<String>,
    /// Name of the goods or service, for a payment without line items.
    pub item_name: Option<String>,
    /// Name of the goods or service, used if `item_name` is absent.
    pub description: Option<String>,
    /// Number of the document.
    pub invoice_number: Option<String>,
    /// Type of the document, as in `InvoiceIn`.
    pub document_type: Option<String>,
    /// Name of the consignor, for whom the issuer sells.
    pub consignor: Option<String>,
    /// Registration number of the consignor.
    pub consignor_registration_number: Option<String>,
    /// `true` means that an event of this payment makes no document.
    pub do_not_invoice: Option<BooleanOrText>,
    /// Of a return: date or period of the sale, such as `2025-09-30` or `2025年9月分`. Required when the object holds
    /// neither the sale nor its day, because a return invoice states the day of the sale.
    pub original_date: Option<String>,
    /// Other metadata of the merchant.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// A truth value, or its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum BooleanOrText {
    /// A truth value.
    Boolean(bool),
    /// `true` or `false`.
    Text(String),
}

/// A transfer or payout of a payment platform with connected accounts. A transfer is skipped if it is not a payment in
/// yen to a connected account. The answer states the reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TransferIn {
    /// Amount in yen.
    pub amount: i64,
    /// Provider's id of the transfer. Each id may occur once.
    pub id: Option<LooseText>,
    /// Type of the object: `transfer` or `payout`. Absent means `transfer`.
    pub object: Option<LooseText>,
    /// Currency: `jpy`.
    pub currency: Option<LooseText>,
    /// Reversed part of the amount, in yen.
    pub amount_reversed: Option<i64>,
    /// Time of the transfer, in seconds since 1970.
    pub created: Option<i64>,
    /// Arrival time of a payout, in seconds since 1970.
    pub arrival_date: Option<i64>,
    /// Connected account: its id, or its object. The destination of a payout is a bank account and is ignored.
    pub destination: Option<TextOrObject>,
    /// Connected account, used if `destination` names no connected account.
    pub account: Option<LooseText>,
    /// Status of a payout. Payouts with the status `canceled` or `failed` are skipped.
    pub status: Option<LooseText>,
    /// Payout that reversed this payout: the id or the object of the reversing payout.
    pub reversed_by: Option<TextOrObject>,
    /// Metadata that the platform wrote to the transfer.
    pub metadata: Option<TransferMetadata>,
    /// The provider's other members.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// Metadata of a transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TransferMetadata {
    /// Category of the remuneration, or a fee or an occupation such as 講演料 or 税理士.
    pub category: Option<String>,
    /// Detail (細目) on the payment record.
    pub detail: Option<String>,
    /// Number of calendar days in the period that the transfer covers, for `ホステス等`.
    pub days: Option<NumberOrText>,
    /// Salary in yen for the same month or period, for `外交員等` and `ホステス等`.
    pub salary: Option<NumberOrText>,
    /// Consumption tax in yen that the transfer includes.
    pub consumption_tax: Option<NumberOrText>,
    /// Connected account, used if neither `destination` nor `account` of the transfer names a connected account.
    pub account: Option<String>,
    /// Connected account, used if `account` of the metadata is absent too.
    pub payee: Option<String>,
    /// Other metadata of the platform.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// An event of a payment provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PaymentEvent {
    /// Type of the event. Events that do not announce a payment are ignored.
    pub r#type: String,
    /// Provider's id of the event.
    pub id: Option<String>,
    /// Data of the event. Required if the event announces a payment.
    pub data: Option<PaymentEventData>,
    /// The provider's other members.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// Data of an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PaymentEventData {
    /// Object of the event. If the event announces a payment, the object is this payment.
    pub object: Value,
}

/// A text, or an object of the provider in place of the text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum TextOrObject {
    /// A text.
    Text(String),
    /// An object.
    Object(IdentifiedObject),
}

/// An object of a provider, with its id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IdentifiedObject {
    /// Provider's id of the object.
    pub id: Option<String>,
    /// The provider's other members.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// A record to reconcile, with any members. The members that the request names hold texts or numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Row(pub Map<String, Value>);
