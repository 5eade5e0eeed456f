//! The payment provider: the methods that this service needs of it (readings section 7). The only implementation for
//! production is Stripe's.

mod pace;
pub(crate) mod signature;
mod stripe;

use std::sync::Arc;

use api::Code;
use api::billing::BillingCycle;
use axum::http::HeaderMap;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use futures_util::future::BoxFuture;
use reqwest::Url;
use store::ProviderEvent;
use zeroize::Zeroizing;

use crate::caller::Plan;
use crate::clock::Timestamp;
use crate::parsers::number;
use crate::web::error::ApiError;
pub(super) use pace::in_background;
use stripe::Stripe;

/// Settings of payments.
#[derive(Clone, Debug, clap::Args)]
pub struct PaymentsConfig {
    // readings P19
    /// The payment provider that collects money. With `none` subscriptions begin at once, and the node makes the invoices
    /// itself.
    #[arg(env = "ANGO_PAYMENTS_PROVIDER", default_value = "none", value_parser = choice())]
    pub payments_provider: ProviderChoice,
    /// Address of Stripe's API.
    #[arg(env = "ANGO_PAYMENTS_STRIPE_API_BASE", default_value = "https://api.stripe.com", value_parser = api_base)]
    pub stripe_api_base: Url,
    /// The secret key of the Stripe account. Give it in the variable or in the settings file.
    #[arg(env = "ANGO_PAYMENTS_STRIPE_SECRET_KEY", hide = true, value_parser = PaymentSecret::read)]
    pub stripe_secret_key: Option<PaymentSecret>,
    // readings W1
    /// Signing secrets of the webhook endpoints at Stripe that send events to this service, separated by commas. Two
    /// secrets are needed while one replaces the other. Give them in the variable or in the settings file.
    #[arg(env = "ANGO_PAYMENTS_STRIPE_WEBHOOK_SECRET", hide = true, value_delimiter = ',')]
    #[arg(value_parser = PaymentSecret::read)]
    pub stripe_webhook_secrets: Vec<PaymentSecret>,
    /// Largest number of calls to the provider in a second from this node, 1 to 1000. Further calls wait, first come,
    /// first served. Stripe answers 100 calls a second of a live account, and 25 in test mode.
    #[arg(env = "ANGO_PAYMENTS_CALLS_PER_SECOND", default_value = "80", value_parser = number::<u32>(1..=1000))]
    pub payments_calls_per_second: u32,
    // readings P26
    /// Domains to which the billing portal may send customers back, separated by commas. Their subdomains are included.
    /// The host of ANGO_PUBLIC_URL and localhost are always included.
    #[arg(env = "ANGO_PAYMENTS_RETURN_DOMAINS", value_delimiter = ',', value_parser = domain)]
    pub return_domains: Vec<String>,
    // readings B7
    /// Prices and payment links at Stripe that sell API keys, separated by commas: `price_...`, `plink_...`. When unset, every
    /// paid checkout sells a key, unless it is an account's own. Set this if you also sell other things.
    #[arg(env = "ANGO_PAYMENTS_KEY_PRICES", value_delimiter = ',', value_parser = sold_id)]
    pub key_prices: Vec<String>,
    // readings P18
    /// Number of days in which a customer must pay an invoice that the node made itself. `ango admin set-invoice-term` sets
    /// another number for an account.
    #[arg(env = "ANGO_PAYMENTS_INVOICE_TERM_DAYS", default_value = "30", value_parser = clap::value_parser!(u32).range(1..=365))]
    pub invoice_term_days: u32,
    // readings P14
    /// Address for customers who want a plan with a negotiated price. When unset, the address of the documentation.
    #[arg(env = "ANGO_PAYMENTS_CONTACT_URL", value_parser = contact)]
    pub contact_url: Option<Url>,
}

/// Who collects the money.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderChoice {
    /// Stripe.
    Stripe,
    /// No provider: this service makes the invoices itself.
    None,
}

fn choice() -> impl TypedValueParser<Value = ProviderChoice> {
    PossibleValuesParser::new(["stripe", "none"]).map(|word| match word.as_str() {
        "stripe" => ProviderChoice::Stripe,
        _ => ProviderChoice::None,
    })
}

/// A secret of the payment provider. `Debug` hides the value.
#[derive(Clone)]
pub struct PaymentSecret(pub Zeroizing<String>);

impl PaymentSecret {
    fn read(text: &str) -> Result<PaymentSecret, &'static str> {
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("must be visible ASCII characters");
        }
        Ok(PaymentSecret(Zeroizing::new(text.to_owned())))
    }
}

impl std::fmt::Debug for PaymentSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PaymentSecret(..)")
    }
}

fn api_base(text: &str) -> Result<Url, &'static str> {
    let url: Url = text.parse().map_err(|_| "must be a URL")?;
    let is_local = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    if url.scheme() == "https" || url.scheme() == "http" && is_local {
        Ok(url)
    } else {
        Err("must begin with https:, except for localhost")
    }
}

fn domain(text: &str) -> Result<String, &'static str> {
    match url::Host::parse(text.trim()) {
        Ok(url::Host::Domain(domain)) => Ok(domain),
        _ => Err("must be a list of domains such as example.com"),
    }
}

fn sold_id(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    let is_id =
        (1..=255).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_id { Ok(text.to_owned()) } else { Err("must be a list of ids such as price_1 or plink_1") }
}

fn contact(text: &str) -> Result<Url, &'static str> {
    let url: Url = text.parse().map_err(|_| "must be a URL")?;
    if matches!(url.scheme(), "https" | "http" | "mailto") { Ok(url) } else { Err("must be an https: or mailto: URL") }
}

/// The future of a request to the provider. It is ready when the provider has answered or failed.
pub type Asked<'a, T> = BoxFuture<'a, Result<T, PaymentError>>;

/// Why a request to the provider failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaymentError {
    /// The customer's bank did not pay.
    Declined(String),
    /// The provider did not answer, so nobody knows whether the request had its effect. A retry with the same
    /// idempotency key is safe, and may succeed.
    Unavailable(String),
    /// The provider answered with a server error. The provider repeats this answer for a day to requests with the same
    /// idempotency key, so a retry needs another key. Read first whether the request had its effect.
    Failing(String),
    /// The provider refuses the request, or its answer cannot be used. Only an operator or a new version helps.
    Refused(String),
    /// The provider has no such object.
    Unknown(String),
}

impl std::fmt::Display for PaymentError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PaymentError::Declined(why) => write!(f, "the payment was declined: {why}"),
            PaymentError::Unavailable(why) | PaymentError::Failing(why) => {
                write!(f, "the payment provider failed: {why}")
            }
            PaymentError::Refused(why) => write!(f, "the payment provider refused: {why}"),
            PaymentError::Unknown(what) => write!(f, "the payment provider does not know {what}"),
        }
    }
}

impl std::error::Error for PaymentError {}

impl PaymentError {
    /// Whether a later attempt may succeed without anybody's help.
    pub fn may_pass(&self) -> bool {
        matches!(self, PaymentError::Unavailable(_) | PaymentError::Failing(_))
    }
}

impl From<PaymentError> for ApiError {
    fn from(error: PaymentError) -> ApiError {
        match error {
            PaymentError::Declined(_) => {
                let message = "the payment method was declined; store another one and try again";
                ApiError::new(Code::NoPaymentMethod, message)
            }
            PaymentError::Unavailable(why)
            | PaymentError::Failing(why)
            | PaymentError::Refused(why)
            | PaymentError::Unknown(why) => {
                tracing::error!(cause = %why, "the payment provider failed");
                unavailable()
            }
        }
    }
}

/// Makes the error 502: the provider did not answer. A retry is safe (readings W8).
pub fn unavailable() -> ApiError {
    ApiError::new(Code::ProviderUnavailable, "the payment provider did not answer; a retry is safe")
}

/// A subscription as the provider has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvidedSubscription {
    /// The provider's id of the subscription.
    pub subscription_id: String,
    /// The provider's id of the customer.
    pub customer_id: String,
    /// The account that the subscription is for. `None`: a purchase of another kind.
    pub account_id: Option<String>,
    /// Its state.
    pub status: ProvidedStatus,
    /// The plan in force. `None`: the subscription has a price that this service does not know.
    pub plan: Option<(Plan, BillingCycle)>,
    /// Whether the subscription ends with its period.
    pub ends: bool,
    /// The start of the period that is paid.
    pub period_start: Timestamp,
    /// The end of the period that is paid.
    pub period_end: Timestamp,
    /// Whether a change is scheduled.
    pub has_schedule: bool,
    /// The provider's id of the newest invoice.
    pub latest_invoice: Option<String>,
}

/// The provider's states of a subscription (readings P18).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProvidedStatus {
    /// Paid.
    Active,
    /// The trial period, in which nothing is to be paid.
    Trialing,
    /// A payment failed.
    PastDue,
    /// The provider no longer tries to collect the payment.
    Unpaid,
    /// The first payment is under way. Customers do not see the subscription yet.
    Incomplete,
    /// The subscription has ended.
    Ended,
    /// A state that this service does not know.
    Other,
}

/// An invoice as the provider has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvidedInvoice {
    /// The provider's id of the invoice.
    pub invoice_id: String,
    /// The provider's id of the customer.
    pub customer_id: String,
    /// The account that this service wrote into the invoice's metadata.
    pub account_id: Option<String>,
    /// The currency, in lower case.
    pub currency: String,
    /// The subscription that the invoice is for.
    pub subscription_id: Option<String>,
    /// The month whose usage is billed. This service wrote the month into the invoice's metadata.
    pub month: Option<i64>,
    /// The invoice's state.
    pub status: store::InvoiceState,
    /// The amount in the currency's smallest unit.
    pub amount: i64,
    /// The first moment of the period that the invoice is for.
    pub period_start: Timestamp,
    /// The first moment after the period that the invoice is for.
    pub period_end: Timestamp,
    /// When the invoice was made.
    pub issued_at: Timestamp,
    /// When the invoice was paid.
    pub paid_at: Option<Timestamp>,
    /// The address of the invoice's page.
    pub url: String,
    /// How often the provider tried to collect the amount.
    pub attempts: i64,
    /// When the provider will try again.
    pub next_attempt_at: Option<Timestamp>,
}

/// A customer as the provider has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvidedCustomer {
    /// The provider's id of the customer.
    pub customer_id: String,
    /// The account that this service wrote into the customer's metadata.
    pub account_id: Option<String>,
}

/// A part of a list of the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The objects, at most 100, the newest first.
    pub items: Vec<T>,
    /// Objects that this service cannot read: their ids, and the reasons.
    pub unreadable: Vec<(String, String)>,
    /// The id after which the next page begins. `None`: this is the last page.
    pub next: Option<String>,
}

/// A checkout to begin.
#[derive(Clone, Debug)]
pub struct NewCheckout<'a> {
    /// The customer.
    pub customer_id: &'a str,
    /// The account.
    pub account_id: &'a str,
    /// The subscription and the end of its first period. `None`: the checkout only stores a payment method.
    pub plan: Option<(Plan, BillingCycle, Timestamp)>,
    /// Whether a page of the client embeds the checkout.
    pub embedded: bool,
    /// The address to which the customer returns afterwards.
    pub return_url: &'a str,
    /// Idempotency key: a repetition with the same key has no further effect.
    pub key: &'a str,
}

/// A checkout that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedCheckout {
    /// The provider's id of the checkout.
    pub session_id: String,
    /// The address of the checkout's page. Empty if the checkout is embedded.
    pub url: String,
    /// The secret for the provider's script. Empty if the checkout is not embedded.
    pub client_secret: String,
}

/// A checkout as the provider reports it, completed or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedCheckout {
    /// The customer; empty for a guest.
    pub customer_id: String,
    /// The account. `None`: a purchase of another kind.
    pub account_id: Option<String>,
    /// The subscription that the checkout began.
    pub subscription_id: Option<String>,
    /// The payment method that the checkout stored.
    pub payment_method: Option<String>,
    /// Whether the customer completed the checkout.
    pub is_complete: bool,
    /// Whether the checkout was paid, or nothing was to be paid.
    pub is_paid: bool,
    /// Whether the checkout only stored a payment method.
    pub is_setup: bool,
    /// `metadata.plan`. Empty if absent.
    pub plan: String,
    /// `client_reference_id`. Empty if absent.
    pub reference: String,
    /// The provider's ids of the payment link and of the prices.
    pub sold: Vec<String>,
}

/// A new subscription.
#[derive(Clone, Debug)]
pub struct NewSubscription<'a> {
    /// The customer.
    pub customer_id: &'a str,
    /// The account.
    pub account_id: &'a str,
    /// The plan.
    pub plan: Plan,
    /// The billing cycle.
    pub cycle: BillingCycle,
    /// The end of the subscription's first period.
    pub period_end: Timestamp,
    /// The payment method that pays.
    pub payment_method: &'a str,
    /// Idempotency key.
    pub key: &'a str,
}

/// A bill for what an account used in a month beyond its plan.
#[derive(Clone, Debug)]
pub struct UsageBill<'a> {
    /// The customer.
    pub customer_id: &'a str,
    /// The account.
    pub account_id: &'a str,
    /// The month.
    pub month: i64,
    /// The amount in US cents.
    pub cents: i64,
    /// The text of the invoice's line.
    pub description: &'a str,
    /// Number of the attempt, a part of the idempotency keys. A repetition with the same number has no further effect.
    pub attempt: i64,
}

/// An event whose signature is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedEvent {
    /// The provider's id of the event, 1 to 255 bytes.
    pub event_id: String,
    /// The provider's word for the event's type, 1 to 255 bytes.
    pub event_type: String,
}

/// Why an event is refused on arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventFault {
    /// The signature is missing, wrong or too old (readings W1).
    NotSigned,
    /// The signature is right, and the body has no id or no type.
    Malformed,
}

/// The object that an event is about. The object's state is read from the provider, never from the event (readings W4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// The checkout with this id was completed or paid.
    Checkout(String),
    /// The subscription with this id began or changed.
    Subscription(String),
    /// The subscription with this id has ended.
    EndedSubscription(String),
    /// An invoice.
    Invoice {
        /// The provider's id of the invoice.
        id: String,
        /// After a failed payment: the number of the attempt, and the provider's word for the reason.
        failed: Option<(i64, String)>,
    },
    /// A customer stored a payment method.
    PaymentMethod {
        /// The provider's id of the payment method.
        id: String,
        /// The provider's id of the customer.
        customer: String,
    },
    /// An object that changes nothing here.
    Nothing,
}

/// A payment provider. Each method that changes something takes an idempotency key: a repetition with the same key has
/// no further effect (readings W8). Errors: when three attempts of 10 seconds each bring no answer, or the provider
/// refuses.
pub trait PaymentProvider: Send + Sync {
    /// Checks the signature of an event, and reads the event's id and type. `body` are the bytes as they arrived.
    fn read_event(&self, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Result<SignedEvent, EventFault>;
    /// Reads which object a stored event is about. Errors: [`PaymentError::Refused`] if the event cannot be read.
    fn about(&self, event: &ProviderEvent) -> Result<About, PaymentError>;
    /// Checks that the provider answers.
    fn probe(&self) -> Asked<'_, ()>;
    /// Makes a customer for an account. Returns the customer's id.
    fn new_customer<'a>(&'a self, account_id: &'a str, key: &'a str) -> Asked<'a, String>;
    /// Returns the id of an account's oldest customer, found by the account's id in the metadata. A customer who was
    /// made in the last minutes may be missing.
    fn find_customer<'a>(&'a self, account_id: &'a str) -> Asked<'a, Option<String>>;
    /// Sets a customer's e-mail address.
    fn set_email<'a>(&'a self, customer_id: &'a str, email: &'a str) -> Asked<'a, ()>;
    /// Reads which payment method pays a customer's invoices.
    fn payment_method<'a>(&'a self, customer_id: &'a str) -> Asked<'a, Option<String>>;
    /// Sets the payment method that pays a customer's invoices.
    fn set_payment_method<'a>(&'a self, customer_id: &'a str, payment_method: &'a str) -> Asked<'a, ()>;
    /// Begins a checkout.
    fn start_checkout<'a>(&'a self, checkout: &'a NewCheckout<'a>) -> Asked<'a, StartedCheckout>;
    /// Reads a checkout as it is now.
    fn checkout<'a>(&'a self, session_id: &'a str) -> Asked<'a, FinishedCheckout>;
    /// Makes the address of a page where a customer sees and changes payment methods and invoices. The address works
    /// for one visit.
    fn portal<'a>(&'a self, customer_id: &'a str, return_url: &'a str) -> Asked<'a, String>;
    /// Begins a subscription.
    fn subscribe<'a>(&'a self, new: &'a NewSubscription<'a>) -> Asked<'a, ProvidedSubscription>;
    /// Puts a subscription on a higher plan now. The difference is paid at once.
    fn upgrade<'a>(&'a self, subscription_id: &'a str, plan: Plan, key: &'a str) -> Asked<'a, ()>;
    /// Schedules another plan or billing cycle for the period's end.
    fn schedule<'a>(&'a self, subscription_id: &'a str, plan: Plan, cycle: BillingCycle, key: &'a str)
    -> Asked<'a, ()>;
    /// Removes the scheduled change.
    fn unschedule<'a>(&'a self, subscription_id: &'a str, key: &'a str) -> Asked<'a, ()>;
    /// Sets whether a subscription ends with its period.
    fn set_ending<'a>(&'a self, subscription_id: &'a str, ends: bool, key: &'a str) -> Asked<'a, ()>;
    /// Ends a subscription now. The unused rest of the period is credited.
    fn end_now<'a>(&'a self, subscription_id: &'a str, key: &'a str) -> Asked<'a, ()>;
    /// Reads a subscription as it is now.
    fn subscription<'a>(&'a self, subscription_id: &'a str) -> Asked<'a, ProvidedSubscription>;
    /// Returns a customer's subscriptions that have not ended, the newest first.
    fn subscriptions_of<'a>(&'a self, customer_id: &'a str) -> Asked<'a, Vec<ProvidedSubscription>>;
    /// Reads an invoice as it is now.
    fn invoice<'a>(&'a self, invoice_id: &'a str) -> Asked<'a, ProvidedInvoice>;
    /// Returns the invoices that were made for what an account used in this month beyond its plan.
    fn usage_invoices<'a>(&'a self, bill: &'a UsageBill<'a>) -> Asked<'a, Vec<ProvidedInvoice>>;
    /// Makes an invoice for what an account used in a month beyond its plan. The invoice has no lines yet.
    fn make_usage_invoice<'a>(&'a self, bill: &'a UsageBill<'a>) -> Asked<'a, ProvidedInvoice>;
    /// Lists all customers. `after`: the id after which the page begins; empty for the first page.
    fn customers<'a>(&'a self, after: &'a str) -> Asked<'a, Page<ProvidedCustomer>>;
    /// Lists all subscriptions that have not ended, as [`PaymentProvider::customers`] does.
    fn subscriptions<'a>(&'a self, after: &'a str) -> Asked<'a, Page<ProvidedSubscription>>;
    /// Lists all invoices that were made since this moment, as [`PaymentProvider::customers`] does.
    fn invoices<'a>(&'a self, since: Timestamp, after: &'a str) -> Asked<'a, Page<ProvidedInvoice>>;
    /// Adds the line with the amount to such an invoice, which must be a draft.
    fn add_usage_line<'a>(&'a self, invoice_id: &'a str, bill: &'a UsageBill<'a>) -> Asked<'a, ()>;
}

/// Creates the client for the provider that the settings name, if they name one.
///
/// # Errors
/// When its client cannot be made.
pub fn provider(config: &PaymentsConfig) -> anyhow::Result<Option<Arc<dyn PaymentProvider>>> {
    Ok(match config.payments_provider {
        ProviderChoice::None => None,
        ProviderChoice::Stripe => Some(Arc::new(Stripe::new(config)?)),
    })
}
