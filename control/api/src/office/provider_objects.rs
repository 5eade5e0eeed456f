//! Objects of payment providers, as far as the service reads them. A client sends them as the provider made them, with all their members.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{LooseText, NumberOrText};

/// A payment: of Stripe a payment intent, charge, checkout session, invoice, refund or credit note; of PAY.JP a charge; of another provider an object with
/// the members named here. In yen, and successful.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PaymentObject {
    /// `jpy`.
    pub currency: String,
    /// The provider's id of it.
    #[serde(default)]
    pub id: Option<String>,
    /// Of Stripe: `payment_intent`, `charge`, `checkout.session`, `invoice`, `refund` or `credit_note`.
    #[serde(default)]
    pub object: Option<String>,
    /// Yen with tax. Of `generic` the sum of `lines` when absent.
    #[serde(default)]
    pub amount: Option<i64>,
    /// When, in seconds since 1970.
    #[serde(default)]
    pub created: Option<i64>,
    /// What was sold, when there are no lines.
    #[serde(default)]
    pub description: Option<String>,
    /// Of `generic`: the buyer.
    #[serde(default)]
    pub customer_name: Option<String>,
    /// Of `generic`: where a document may be sent.
    #[serde(default)]
    pub customer_email: Option<String>,
    /// Of `generic`: how it was paid, as a text.
    #[serde(default)]
    pub payment_method: Option<TextOrObject>,
    /// Of `generic`: the rate of lines that have none of their own.
    #[serde(default)]
    pub tax_rate: Option<NumberOrText>,
    /// What was sold: of `generic` a list of lines.
    #[serde(default)]
    pub lines: Option<PaymentLines>,
    /// What the merchant wrote to the payment.
    #[serde(default)]
    pub metadata: Option<PaymentMetadata>,
    /// The provider's other members.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// Lines of a payment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum PaymentLines {
    /// Of `generic`.
    Lines(Vec<PaymentLine>),
    /// A list object of Stripe, with the lines in `data`.
    List(Map<String, Value>),
}

/// A line of a payment of `generic`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PaymentLine {
    /// Yen of the whole line, with tax.
    pub amount: i64,
    /// What was sold.
    #[serde(default)]
    pub description: Option<String>,
    /// The same, where `description` is absent.
    #[serde(default)]
    pub name: Option<String>,
    /// Pieces.
    #[serde(default)]
    pub quantity: Option<i64>,
    /// The rate of consumption tax.
    #[serde(default)]
    pub tax_rate: Option<NumberOrText>,
    /// Members that are not read.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// What a merchant may write to a payment, so that the document follows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PaymentMetadata {
    /// The rate of lines that have none of their own: `8`, `10`, `8%` or `0.08`.
    #[serde(default)]
    pub tax_rate: Option<NumberOrText>,
    /// To whom the document is given. `invoice_recipient` and `宛名` are other names of this member.
    #[serde(default)]
    pub recipient: Option<String>,
    /// As `recipient`.
    #[serde(default)]
    pub invoice_recipient: Option<String>,
    /// As `recipient`.
    #[serde(default, rename = "宛名")]
    pub recipient_ja: Option<String>,
    /// What follows the recipient's name.
    #[serde(default)]
    pub recipient_honorific: Option<String>,
    /// What was sold, when there are no lines.
    #[serde(default)]
    pub item_name: Option<String>,
    /// The same, where `item_name` is absent.
    #[serde(default)]
    pub description: Option<String>,
    /// The number of the document.
    #[serde(default)]
    pub invoice_number: Option<String>,
    /// As in InvoiceIn.
    #[serde(default)]
    pub document_type: Option<String>,
    /// For whom the issuer sells.
    #[serde(default)]
    pub consignor: Option<String>,
    /// Registration number of the consignor.
    #[serde(default)]
    pub consignor_registration_number: Option<String>,
    /// `true`: an event of this payment makes no document.
    #[serde(default)]
    pub do_not_invoice: Option<String>,
    /// What the merchant wrote beside.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// A transfer or payout of a platform with connected accounts. What is no payment in yen to a known account is skipped, and the answer says why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TransferIn {
    /// Yen.
    pub amount: i64,
    /// The provider's id of it. Each comes once.
    #[serde(default)]
    pub id: Option<LooseText>,
    /// `transfer` (when absent) or `payout`.
    #[serde(default)]
    pub object: Option<LooseText>,
    /// `jpy`.
    #[serde(default)]
    pub currency: Option<LooseText>,
    /// Yen of it that came back.
    #[serde(default)]
    pub amount_reversed: Option<i64>,
    /// When, in seconds since 1970.
    #[serde(default)]
    pub created: Option<i64>,
    /// When a payout arrives, in seconds since 1970.
    #[serde(default)]
    pub arrival_date: Option<i64>,
    /// The connected account, or its object. Of a payout: an account of a bank, which is passed over.
    #[serde(default)]
    pub destination: Option<TextOrObject>,
    /// The connected account, where `destination` is none.
    #[serde(default)]
    pub account: Option<LooseText>,
    /// Of a payout. `canceled` and `failed` ones are skipped.
    #[serde(default)]
    pub status: Option<LooseText>,
    /// The payout that took this one back, or its object.
    #[serde(default)]
    pub reversed_by: Option<TextOrObject>,
    /// What the platform wrote to it.
    #[serde(default)]
    pub metadata: Option<TransferMetadata>,
    /// The provider's other members.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// What a platform may write to a transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TransferMetadata {
    /// A category of remuneration, or the name of a trade.
    #[serde(default)]
    pub category: Option<String>,
    /// Consumption tax in yen that it holds.
    #[serde(default)]
    pub consumption_tax: Option<NumberOrText>,
    /// The connected account, where `destination` and `account` are none.
    #[serde(default)]
    pub account: Option<String>,
    /// The same, where `account` is absent too.
    #[serde(default)]
    pub payee: Option<String>,
    /// What the platform wrote beside.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// An event of a payment provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PaymentEvent {
    /// What happened. Events of other things than payments are ignored.
    pub r#type: String,
    /// The provider's id of it.
    #[serde(default)]
    pub id: Option<String>,
    /// What it happened to. Required where the event tells of a payment.
    #[serde(default)]
    pub data: Option<PaymentEventData>,
    /// The provider's other members.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// What an event tells of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PaymentEventData {
    /// A payment, where the event tells of one.
    pub object: Value,
}

/// A text, or an object of the provider in its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum TextOrObject {
    /// A text.
    Text(String),
    /// An object.
    Object(IdentifiedObject),
}

/// An object of a provider by its id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IdentifiedObject {
    /// The provider's id of it.
    #[serde(default)]
    pub id: Option<String>,
    /// The provider's other members.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// A record of a list that is reconciled: any members. Those that the request names are texts or numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Row(pub Map<String, Value>);
