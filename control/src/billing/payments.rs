//! The payment provider: what the service asks of it (readings section 7). One client is real, that of Stripe.

pub(crate) mod signature;
mod stripe;

use std::sync::Arc;

use api::Code;
use api::billing::BillingCycle;
use futures_util::future::BoxFuture;
use reqwest::Url;
use zeroize::Zeroizing;

use crate::caller::Plan;
use crate::clock::Timestamp;
use crate::parsers::either;
use crate::web::error::ApiError;
use stripe::Stripe;

/// Settings of payments.
#[derive(Clone, Debug, clap::Args)]
pub struct PaymentsConfig {
    // readings P19
    /// Who collects money. With `none` subscriptions begin at once, and the node makes the invoices itself.
    #[arg(env = "ANGO_PAYMENTS_PROVIDER", default_value = "none", value_parser = either(["stripe", "none"]))]
    pub payments_stripe: bool,
    /// Address of Stripe's API.
    #[arg(env = "ANGO_PAYMENTS_STRIPE_API_BASE", default_value = "https://api.stripe.com", value_parser = api_base)]
    pub stripe_api_base: Url,
    /// The secret key of the Stripe account. Give it in the variable or in the settings file.
    #[arg(env = "ANGO_PAYMENTS_STRIPE_SECRET_KEY", hide = true, value_parser = PaymentSecret::read)]
    pub stripe_secret_key: Option<PaymentSecret>,
    // readings W1
    /// Secrets of the webhook endpoints at Stripe that lead to this service, separated by commas: two while one replaces the
    /// other. Give them in the variable or in the settings file.
    #[arg(env = "ANGO_PAYMENTS_STRIPE_WEBHOOK_SECRET", hide = true, value_delimiter = ',')]
    #[arg(value_parser = PaymentSecret::read)]
    pub stripe_webhook_secrets: Vec<PaymentSecret>,
    // readings P26
    /// Domains that the billing portal may lead back to, separated by commas, with all below them. The host of ANGO_PUBLIC_URL is
    /// always one of them, and so is localhost.
    #[arg(env = "ANGO_PAYMENTS_RETURN_DOMAINS", value_delimiter = ',', value_parser = domain)]
    pub return_domains: Vec<String>,
    // readings P14
    /// Where customers go who want a plan whose price is agreed on. When unset, the documentation.
    #[arg(env = "ANGO_PAYMENTS_CONTACT_URL", value_parser = contact)]
    pub contact_url: Option<Url>,
}

/// A secret of the payment provider. It hides itself from logs.
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
        Err("must begin with https:, but for localhost")
    }
}

fn domain(text: &str) -> Result<String, &'static str> {
    match url::Host::parse(text.trim()) {
        Ok(url::Host::Domain(domain)) => Ok(domain),
        _ => Err("must be a list of domains such as example.com"),
    }
}

fn contact(text: &str) -> Result<Url, &'static str> {
    let url: Url = text.parse().map_err(|_| "must be a URL")?;
    if matches!(url.scheme(), "https" | "http" | "mailto") { Ok(url) } else { Err("must be an https: or mailto: URL") }
}

/// What the provider is asked for, and answers in its own time.
pub type Asked<'a, T> = BoxFuture<'a, Result<T, PaymentError>>;

/// Why the provider did not do it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaymentError {
    /// The customer's bank did not pay.
    Declined(String),
    /// It did not answer, or with an error. To ask again is safe.
    Unavailable(String),
    /// It has no such object.
    Unknown(String),
}

impl std::fmt::Display for PaymentError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PaymentError::Declined(why) => write!(f, "the payment was declined: {why}"),
            PaymentError::Unavailable(why) => write!(f, "the payment provider failed: {why}"),
            PaymentError::Unknown(what) => write!(f, "the payment provider does not know {what}"),
        }
    }
}

impl std::error::Error for PaymentError {}

impl From<PaymentError> for ApiError {
    fn from(error: PaymentError) -> ApiError {
        match error {
            PaymentError::Declined(_) => {
                let message = "the payment method was declined; store another one and try again";
                ApiError::new(Code::NoPaymentMethod, message)
            }
            PaymentError::Unavailable(why) | PaymentError::Unknown(why) => {
                tracing::error!(cause = %why, "the payment provider failed");
                unavailable()
            }
        }
    }
}

/// 502: to try again is safe (readings W8).
pub fn unavailable() -> ApiError {
    ApiError::new(Code::ProviderUnavailable, "the payment provider did not answer; to try again is safe")
}

/// A subscription as the provider has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvidedSubscription {
    /// The provider's id of it.
    pub subscription_id: String,
    /// Its customer.
    pub customer_id: String,
    /// The account that it is for; of a purchase of another kind none.
    pub account_id: Option<String>,
    /// Its state.
    pub status: ProvidedStatus,
    /// The plan in force; `None`: a price that is none of this service's.
    pub plan: Option<(Plan, BillingCycle)>,
    /// It ends with its period.
    pub ends: bool,
    /// The period that is paid.
    pub period_start: Timestamp,
    /// Its end.
    pub period_end: Timestamp,
    /// Something is scheduled.
    pub has_schedule: bool,
}

/// The provider's states of a subscription (readings P18).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProvidedStatus {
    /// Paid.
    Active,
    /// Not to be paid yet.
    Trialing,
    /// A payment failed.
    PastDue,
    /// It was not paid.
    Unpaid,
    /// The first payment is under way: customers do not see it.
    Incomplete,
    /// It is over.
    Ended,
    /// One that this service does not know.
    Other,
}

/// An invoice as the provider has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvidedInvoice {
    /// The provider's id of it.
    pub invoice_id: String,
    /// Its customer.
    pub customer_id: String,
    /// The subscription that it is for.
    pub subscription_id: Option<String>,
    /// The month of use that this service named.
    pub month: Option<i64>,
    /// Its state.
    pub status: store::InvoiceState,
    /// US cents.
    pub amount_usd_cents: i64,
    /// The first moment that it is for.
    pub period_start: Timestamp,
    /// The first moment after that.
    pub period_end: Timestamp,
    /// When it was made.
    pub issued_at: Timestamp,
    /// When it was paid.
    pub paid_at: Option<Timestamp>,
    /// Its page.
    pub url: String,
    /// Attempts to collect it.
    pub attempts: i64,
    /// When the next one is due.
    pub next_attempt_at: Option<Timestamp>,
}

/// What a checkout is for.
#[derive(Clone, Debug)]
pub struct NewCheckout<'a> {
    /// The customer.
    pub customer_id: &'a str,
    /// The account.
    pub account_id: &'a str,
    /// A subscription and the end of its first period; `None`: to store a payment method.
    pub plan: Option<(Plan, BillingCycle, Timestamp)>,
    /// It is shown within a page of the client's own.
    pub embedded: bool,
    /// Where the customer goes afterwards.
    pub return_url: &'a str,
    /// Names the request: repeated with the same key it has one effect.
    pub key: &'a str,
}

/// A checkout that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedCheckout {
    /// The provider's id of it.
    pub session_id: String,
    /// Its page; empty where it is embedded.
    pub url: String,
    /// For the provider's script; empty where it has a page.
    pub client_secret: String,
}

/// A checkout that a customer went through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedCheckout {
    /// The customer; empty for a guest.
    pub customer_id: String,
    /// The account; of a purchase of another kind none.
    pub account_id: Option<String>,
    /// The subscription that it made.
    pub subscription_id: Option<String>,
    /// The payment method that it stored.
    pub payment_method: Option<String>,
    /// It was gone through.
    pub is_complete: bool,
    /// It was paid, or nothing was to be paid.
    pub is_paid: bool,
    /// It only stored a payment method.
    pub is_setup: bool,
    /// `metadata.plan`; empty where it is not given.
    pub plan: String,
    /// `client_reference_id`; empty where it is not given.
    pub reference: String,
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
    /// How often it is paid.
    pub cycle: BillingCycle,
    /// The end of its first period.
    pub period_end: Timestamp,
    /// What pays.
    pub payment_method: &'a str,
    /// Names the request.
    pub key: &'a str,
}

/// What an account used beyond its plan in a month.
#[derive(Clone, Debug)]
pub struct UsageBill<'a> {
    /// The customer.
    pub customer_id: &'a str,
    /// The account.
    pub account_id: &'a str,
    /// The month.
    pub month: i64,
    /// US cents.
    pub cents: i64,
    /// In words.
    pub description: &'a str,
    /// Names the request.
    pub key: &'a str,
}

/// A payment provider. Each method that changes something takes a key that names the request: repeated with the same key it has one effect
/// (readings W8). Errors: when the provider does not answer within 10 seconds three times, or refuses.
pub trait PaymentProvider: Send + Sync {
    /// Whether it is there.
    fn probe(&self) -> Asked<'_, ()>;
    /// The customer of an account, which is made once.
    fn customer<'a>(&'a self, account_id: &'a str) -> Asked<'a, String>;
    /// Says how a customer is written to.
    fn set_email<'a>(&'a self, customer_id: &'a str, email: &'a str) -> Asked<'a, ()>;
    /// A customer's payment method.
    fn payment_method<'a>(&'a self, customer_id: &'a str) -> Asked<'a, Option<String>>;
    /// Has invoices of a customer paid with this.
    fn set_payment_method<'a>(&'a self, customer_id: &'a str, payment_method: &'a str) -> Asked<'a, ()>;
    /// Begins a checkout.
    fn start_checkout<'a>(&'a self, checkout: &'a NewCheckout<'a>) -> Asked<'a, StartedCheckout>;
    /// A checkout as it is now.
    fn checkout<'a>(&'a self, session_id: &'a str) -> Asked<'a, FinishedCheckout>;
    /// A page on which a customer sees and changes what the provider has; for one visit.
    fn portal<'a>(&'a self, customer_id: &'a str, return_url: &'a str) -> Asked<'a, String>;
    /// Begins a subscription.
    fn subscribe<'a>(&'a self, new: &'a NewSubscription<'a>) -> Asked<'a, ProvidedSubscription>;
    /// Puts a subscription on a higher plan now; the difference is paid at once.
    fn upgrade<'a>(&'a self, subscription_id: &'a str, plan: Plan, key: &'a str) -> Asked<'a, ()>;
    /// Has another plan or cycle follow at the period's end.
    fn schedule<'a>(&'a self, subscription_id: &'a str, plan: Plan, cycle: BillingCycle, key: &'a str)
    -> Asked<'a, ()>;
    /// Takes that back.
    fn unschedule<'a>(&'a self, subscription_id: &'a str, key: &'a str) -> Asked<'a, ()>;
    /// Has a subscription end with its period, or not.
    fn set_ending<'a>(&'a self, subscription_id: &'a str, ends: bool, key: &'a str) -> Asked<'a, ()>;
    /// Ends a subscription now; what was paid for the rest is credited.
    fn end_now<'a>(&'a self, subscription_id: &'a str, key: &'a str) -> Asked<'a, ()>;
    /// A subscription as it is now.
    fn subscription<'a>(&'a self, subscription_id: &'a str) -> Asked<'a, ProvidedSubscription>;
    /// An invoice as it is now.
    fn invoice<'a>(&'a self, invoice_id: &'a str) -> Asked<'a, ProvidedInvoice>;
    /// Makes an invoice of what was used.
    fn bill_usage<'a>(&'a self, bill: &'a UsageBill<'a>) -> Asked<'a, ProvidedInvoice>;
}

/// The provider of these settings, if there is one.
///
/// # Errors
/// When its client cannot be made.
pub fn provider(config: &PaymentsConfig) -> anyhow::Result<Option<Arc<dyn PaymentProvider>>> {
    let Some(secret_key) = config.stripe_secret_key.clone().filter(|_| config.payments_stripe) else { return Ok(None) };
    Ok(Some(Arc::new(Stripe::new(config.stripe_api_base.clone(), secret_key)?)))
}
