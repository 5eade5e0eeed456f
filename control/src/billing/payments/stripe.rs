//! A client for the part of Stripe's HTTP API that this service needs (readings W7, W8). Prices are found by lookup
//! keys such as `ango_pro_monthly`.

mod events;
mod objects;

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context;
use api::billing::BillingCycle;
use axum::http::HeaderMap;
use parking_lot::Mutex;
use reqwest::{Client, Method, StatusCode, Url, header};
use serde::de::DeserializeOwned;
use serde_json::Value;
use store::ProviderEvent;

use super::pace::Pace;
use super::{
    About, Asked, EventFault, FinishedCheckout, NewCheckout, NewSubscription, Page, PaymentError, PaymentProvider,
    PaymentSecret, PaymentsConfig, ProvidedCustomer, ProvidedInvoice, ProvidedStatus, ProvidedSubscription,
    SignedEvent, StartedCheckout, UsageBill,
};
use crate::access::limits::month_start;
use crate::caller::Plan;
use crate::clock::Timestamp;
use crate::ids;
use objects::{Checkout, Customer, Invoice, List, PaymentMethod, Portal, Price, Schedule, Subscription, lookup_key};

/// The API version that this client was written against. Requests and answers have the shape of this version, so it is
/// not a setting.
const API_VERSION: &str = "2025-09-30.clover";
/// Timeouts: for an answer, and for a connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Waits before the second and the third attempt. A random jitter of up to the same length is added.
const WAITS: [Duration; 2] = [Duration::from_millis(250), Duration::from_millis(1000)];
/// Longest wait before a further attempt that Stripe may ask for in `Retry-After`.
const ASKED_WAIT_MAX: Duration = Duration::from_secs(2);
/// Largest number of pages, of 100 objects each, of a list of one customer's objects.
const PAGES_MAX: usize = 100;
/// Longest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// A client of Stripe.
pub struct Stripe {
    http: Client,
    base: Url,
    secret_key: PaymentSecret,
    /// The secrets that sign events.
    webhook_secrets: Vec<PaymentSecret>,
    /// The pace of all calls.
    pace: Pace,
    /// Cache of the prices' ids, by lookup key.
    prices: Mutex<HashMap<String, String>>,
}

/// The members of a request, in form encoding.
type Form<'a> = Vec<(&'a str, String)>;

/// How a request failed: `Final` if a retry would fail too, `Again` if a retry may succeed.
enum Failed {
    Final(PaymentError),
    Again {
        why: String,
        /// The wait that Stripe asks for.
        wait: Duration,
        /// Whether Stripe answered with a server error, which it repeats for the same idempotency key.
        is_stored: bool,
    },
}

impl Failed {
    fn again(why: impl std::fmt::Display) -> Failed {
        Failed::Again { why: why.to_string(), wait: Duration::ZERO, is_stored: false }
    }

    /// The connection failed, or the answer could not be read to its end.
    fn lost(error: reqwest::Error) -> Failed {
        Failed::again(error.without_url())
    }
}

impl Stripe {
    /// Makes a client with these settings.
    ///
    /// # Errors
    /// When the secret key is not set, or the HTTP client cannot be made.
    pub fn new(config: &PaymentsConfig) -> anyhow::Result<Stripe> {
        let secret_key = config.stripe_secret_key.clone().context("ANGO_PAYMENTS_STRIPE_SECRET_KEY must be set")?;
        crate::tls::choose_cryptography();
        let http = Client::builder()
            .timeout(ANSWER_TIMEOUT)
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("Ango/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Stripe {
            http,
            base: config.stripe_api_base.clone(),
            secret_key,
            webhook_secrets: config.stripe_webhook_secrets.clone(),
            pace: Pace::new(config.payments_calls_per_second),
            prices: Mutex::default(),
        })
    }

    async fn get<T: DeserializeOwned>(&self, path: &str, query: Form<'_>) -> Result<T, PaymentError> {
        self.ask(Method::GET, path, query, None).await
    }

    /// Sends a request that changes something. The idempotency key makes retries safe (readings W8).
    async fn post<T: DeserializeOwned>(&self, path: &str, form: Form<'_>, key: &str) -> Result<T, PaymentError> {
        self.ask(Method::POST, path, form, Some(key)).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        form: Form<'_>,
        key: Option<&str>,
    ) -> Result<T, PaymentError> {
        let (mut tries, mut has_stored) = (0, false);
        loop {
            self.pace.wait().await;
            let (why, asked) = match self.try_once(&method, path, &form, key).await {
                Ok(value) => {
                    return serde_json::from_value(value)
                        .map_err(|error| refused(format!("{method} {path}: the answer cannot be read: {error}")));
                }
                Err(Failed::Final(error)) => return Err(error),
                Err(Failed::Again { why, wait, is_stored }) => {
                    has_stored |= is_stored;
                    (why, wait)
                }
            };
            let Some(wait) = WAITS.get(tries) else {
                let why = format!("{method} {path} failed {} times, the last time with: {why}", tries + 1);
                return Err(if has_stored { PaymentError::Failing(why) } else { PaymentError::Unavailable(why) });
            };
            tries += 1;
            tokio::time::sleep(jittered(*wait).max(asked.min(ASKED_WAIT_MAX))).await;
        }
    }

    async fn try_once(
        &self,
        method: &Method,
        path: &str,
        form: &[(&str, String)],
        key: Option<&str>,
    ) -> Result<Value, Failed> {
        let mut url = self.base.join(path).map_err(|error| Failed::Final(refused(error)))?;
        let encoded = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let mut request = match *method {
            Method::GET => {
                url.set_query((!encoded.is_empty()).then_some(&encoded));
                self.http.get(url)
            }
            _ => self
                .http
                .request(method.clone(), url)
                .header("Content-Type", "application/x-www-form-urlencoded")
                .body(encoded),
        };
        request = request.bearer_auth(self.secret_key.0.as_str()).header("Stripe-Version", API_VERSION);
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        let mut answer = request.send().await.map_err(Failed::lost)?;
        let (status, mut body) = (answer.status(), Vec::new());
        let wait = asked_wait(answer.headers());
        while let Some(part) = answer.chunk().await.map_err(Failed::lost)? {
            if body.len() + part.len() > ANSWER_BYTES_MAX {
                return Err(Failed::Final(refused("the answer is too long")));
            }
            body.extend_from_slice(&part);
        }
        let value: Value = serde_json::from_slice(&body).unwrap_or_default();
        if status.is_success() {
            return if value.is_object() { Ok(value) } else { Err(Failed::again("the answer is not an object")) };
        }
        let said = |member: &str| value["error"][member].as_str().unwrap_or_default().to_owned();
        match status {
            StatusCode::PAYMENT_REQUIRED => {
                let why = [said("decline_code"), said("code"), said("type")].into_iter().find(|word| !word.is_empty());
                Err(Failed::Final(PaymentError::Declined(why.unwrap_or_default())))
            }
            // 409: another request with this idempotency key is running
            StatusCode::CONFLICT | StatusCode::TOO_MANY_REQUESTS => {
                Err(Failed::Again { why: format!("Stripe answered {status}"), wait, is_stored: false })
            }
            status if status.is_server_error() => {
                Err(Failed::Again { why: format!("Stripe answered {status}"), wait, is_stored: true })
            }
            StatusCode::NOT_FOUND => Err(Failed::Final(PaymentError::Unknown(path.to_owned()))),
            _ => {
                let (kind, parameter) = (said("type"), said("param"));
                Err(Failed::Final(refused(format!(
                    "{path}: Stripe answered {status}: {kind} {} {parameter}",
                    said("code")
                ))))
            }
        }
    }

    /// Returns the id of a price. The id never changes, so it is cached.
    async fn price(&self, plan: Plan, cycle: BillingCycle) -> Result<String, PaymentError> {
        let key = lookup_key(plan, cycle);
        if let Some(price) = self.prices.lock().get(&key) {
            return Ok(price.clone());
        }
        let query = vec![("lookup_keys[]", key.clone()), ("active", "true".to_owned())];
        let found: List<Price> = self.get("v1/prices", query).await?;
        let price = found.data.into_iter().next();
        let price = price.ok_or_else(|| refused(format!("there is no price with the lookup key {key}")))?;
        self.prices.lock().insert(key, price.id.clone());
        Ok(price.id)
    }

    /// Reads a page of a list that begins after the object with the id `after`, or at its start.
    async fn list(&self, path: &str, mut query: Form<'_>, after: &str) -> Result<List<Value>, PaymentError> {
        query.push(("limit", "100".to_owned()));
        if !after.is_empty() {
            query.push(("starting_after", after.to_owned()));
        }
        self.get(path, query).await
    }

    /// Reads all pages of a list of one customer's objects.
    ///
    /// # Errors
    /// Also when an object cannot be read, or the list has more than `PAGES_MAX` pages.
    async fn whole_list<O: DeserializeOwned, T>(
        &self,
        path: &str,
        query: &Form<'_>,
        read: impl Fn(&O) -> Result<T, PaymentError>,
    ) -> Result<Vec<T>, PaymentError> {
        let (mut all, mut after) = (Vec::new(), String::new());
        for _ in 0..PAGES_MAX {
            let page = self.list(path, query.clone(), &after).await?.page(&read);
            if let Some((id, why)) = page.unreadable.first() {
                return Err(refused(format!("{path}: the object {id} cannot be read: {why}")));
            }
            all.extend(page.items);
            match page.next {
                Some(next) => after = next,
                None => return Ok(all),
            }
        }
        Err(refused(format!("{path}: the customer has more than {PAGES_MAX} pages")))
    }

    async fn read_subscription(&self, subscription_id: &str) -> Result<Subscription, PaymentError> {
        self.get(&path(&["subscriptions", subscription_id]), vec![]).await
    }
}

impl PaymentProvider for Stripe {
    fn read_event(&self, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Result<SignedEvent, EventFault> {
        events::read(headers, body, &self.webhook_secrets, now)
    }

    fn about(&self, event: &ProviderEvent) -> Result<About, PaymentError> {
        events::about(event)
    }

    fn probe(&self) -> Asked<'_, ()> {
        Box::pin(async move { self.get::<Value>("v1/balance", vec![]).await.map(drop) })
    }

    fn new_customer<'a>(&'a self, account_id: &'a str, key: &'a str) -> Asked<'a, String> {
        Box::pin(async move {
            // send only the account's id, which never changes, because a repetition must send the same body
            let form = vec![("metadata[account_id]", account_id.to_owned())];
            let customer: Customer = self.post("v1/customers", form, key).await?;
            Ok(customer.id)
        })
    }

    fn find_customer<'a>(&'a self, account_id: &'a str) -> Asked<'a, Option<String>> {
        Box::pin(async move {
            // an account's id has no character that the query language treats in a special way
            let query = vec![("query", format!("metadata['account_id']:'{account_id}'")), ("limit", "100".to_owned())];
            let found: List<Customer> = self.get("v1/customers/search", query).await?;
            Ok(found.data.into_iter().min_by_key(|customer| customer.created).map(|customer| customer.id))
        })
    }

    fn set_email<'a>(&'a self, customer_id: &'a str, email: &'a str) -> Asked<'a, ()> {
        Box::pin(async move {
            let form = vec![("email", email.to_owned())];
            // a fresh key each time, because with the same key only the first address would be set
            self.post::<Value>(&path(&["customers", customer_id]), form, &fresh_key()).await.map(drop)
        })
    }

    fn payment_method<'a>(&'a self, customer_id: &'a str) -> Asked<'a, Option<String>> {
        Box::pin(async move {
            let customer: Customer = self.get(&path(&["customers", customer_id]), vec![]).await?;
            if let Some(chosen) = customer.invoice_settings.default_payment_method {
                return Ok(Some(chosen));
            }
            let query = vec![("limit", "1".to_owned())];
            let methods: List<PaymentMethod> =
                self.get(&path(&["customers", customer_id, "payment_methods"]), query).await?;
            Ok(methods.data.into_iter().next().map(|method| method.id))
        })
    }

    fn set_payment_method<'a>(&'a self, customer_id: &'a str, payment_method: &'a str) -> Asked<'a, ()> {
        Box::pin(async move {
            let form = vec![("invoice_settings[default_payment_method]", payment_method.to_owned())];
            self.post::<Value>(&path(&["customers", customer_id]), form, &fresh_key()).await.map(drop)
        })
    }

    fn start_checkout<'a>(&'a self, checkout: &'a NewCheckout<'a>) -> Asked<'a, StartedCheckout> {
        Box::pin(async move {
            let mut form = vec![
                ("customer", checkout.customer_id.to_owned()),
                ("client_reference_id", checkout.account_id.to_owned()),
                ("metadata[account_id]", checkout.account_id.to_owned()),
            ];
            if checkout.embedded {
                form.push(("ui_mode", "embedded".to_owned()));
                form.push(("return_url", checkout.return_url.to_owned()));
            } else {
                form.push(("success_url", checkout.return_url.to_owned()));
            }
            match checkout.plan {
                None => {
                    form.push(("mode", "setup".to_owned()));
                    form.push(("currency", "usd".to_owned()));
                }
                Some((plan, cycle, period_end)) => {
                    form.push(("mode", "subscription".to_owned()));
                    form.push(("line_items[0][price]", self.price(plan, cycle).await?));
                    form.push(("line_items[0][quantity]", "1".to_owned()));
                    form.push(("subscription_data[billing_cycle_anchor]", period_end.seconds().to_string()));
                    form.push(("subscription_data[proration_behavior]", "create_prorations".to_owned()));
                    form.push(("subscription_data[metadata][account_id]", checkout.account_id.to_owned()));
                }
            }
            let made: Checkout = self.post("v1/checkout/sessions", form, checkout.key).await?;
            Ok(StartedCheckout {
                session_id: made.id,
                url: made.url.unwrap_or_default(),
                client_secret: made.client_secret.unwrap_or_default(),
            })
        })
    }

    fn checkout<'a>(&'a self, session_id: &'a str) -> Asked<'a, FinishedCheckout> {
        Box::pin(async move {
            let query = vec![("expand[]", "setup_intent".to_owned()), ("expand[]", "line_items".to_owned())];
            let found: Checkout = self.get(&path(&["checkout", "sessions", session_id]), query).await?;
            Ok(found.finished())
        })
    }

    fn portal<'a>(&'a self, customer_id: &'a str, return_url: &'a str) -> Asked<'a, String> {
        Box::pin(async move {
            let form = vec![("customer", customer_id.to_owned()), ("return_url", return_url.to_owned())];
            // a fresh key, so that each visit gets a new page (readings W9)
            let made: Portal = self.post("v1/billing_portal/sessions", form, &fresh_key()).await?;
            Ok(made.url)
        })
    }

    fn subscribe<'a>(&'a self, new: &'a NewSubscription<'a>) -> Asked<'a, ProvidedSubscription> {
        Box::pin(async move {
            let form = vec![
                ("customer", new.customer_id.to_owned()),
                ("items[0][price]", self.price(new.plan, new.cycle).await?),
                ("billing_cycle_anchor", new.period_end.seconds().to_string()),
                ("proration_behavior", "create_prorations".to_owned()),
                ("payment_behavior", "error_if_incomplete".to_owned()),
                ("default_payment_method", new.payment_method.to_owned()),
                ("metadata[account_id]", new.account_id.to_owned()),
            ];
            self.post::<Subscription>("v1/subscriptions", form, new.key).await?.provided()
        })
    }

    fn upgrade<'a>(&'a self, subscription_id: &'a str, plan: Plan, key: &'a str) -> Asked<'a, ()> {
        Box::pin(async move {
            let found = self.read_subscription(subscription_id).await?;
            let (item, cycle) = (found.item()?, found.cycle()?);
            let form = vec![
                ("items[0][id]", item.id.clone()),
                ("items[0][price]", self.price(plan, cycle).await?),
                ("proration_behavior", "always_invoice".to_owned()),
                ("payment_behavior", "error_if_incomplete".to_owned()),
            ];
            self.post::<Value>(&path(&["subscriptions", subscription_id]), form, key).await.map(drop)
        })
    }

    fn schedule<'a>(
        &'a self,
        subscription_id: &'a str,
        plan: Plan,
        cycle: BillingCycle,
        key: &'a str,
    ) -> Asked<'a, ()> {
        Box::pin(async move {
            let found = self.read_subscription(subscription_id).await?;
            let item = found.item()?;
            let interval = if cycle == BillingCycle::Annual { "year" } else { "month" };
            let schedule = match &found.schedule {
                // an earlier attempt made the schedule, and failed before the phases were set
                Some(schedule) => schedule.clone(),
                None => {
                    let form = vec![("from_subscription", subscription_id.to_owned())];
                    self.post::<Schedule>("v1/subscription_schedules", form, &format!("{key}:make")).await?.id
                }
            };
            let form = vec![
                ("end_behavior", "release".to_owned()),
                ("phases[0][items][0][price]", item.price.id.clone()),
                ("phases[0][start_date]", item.current_period_start.to_string()),
                ("phases[0][end_date]", item.current_period_end.to_string()),
                ("phases[1][items][0][price]", self.price(plan, cycle).await?),
                ("phases[1][duration][interval]", interval.to_owned()),
                ("phases[1][duration][interval_count]", "1".to_owned()),
                ("phases[1][proration_behavior]", "none".to_owned()),
                ("phases[1][billing_cycle_anchor]", "phase_start".to_owned()),
            ];
            self.post::<Value>(&path(&["subscription_schedules", &schedule]), form, key).await.map(drop)
        })
    }

    fn unschedule<'a>(&'a self, subscription_id: &'a str, key: &'a str) -> Asked<'a, ()> {
        Box::pin(async move {
            let Some(schedule) = self.read_subscription(subscription_id).await?.schedule else { return Ok(()) };
            self.post::<Value>(&path(&["subscription_schedules", &schedule, "release"]), vec![], key).await.map(drop)
        })
    }

    fn set_ending<'a>(&'a self, subscription_id: &'a str, ends: bool, key: &'a str) -> Asked<'a, ()> {
        Box::pin(async move {
            let form = vec![("cancel_at_period_end", ends.to_string())];
            self.post::<Value>(&path(&["subscriptions", subscription_id]), form, key).await.map(drop)
        })
    }

    fn end_now<'a>(&'a self, subscription_id: &'a str, key: &'a str) -> Asked<'a, ()> {
        Box::pin(async move {
            let form = vec![("invoice_now", "true".to_owned()), ("prorate", "true".to_owned())];
            self.ask::<Value>(Method::DELETE, &path(&["subscriptions", subscription_id]), form, Some(key))
                .await
                .map(drop)
        })
    }

    fn subscription<'a>(&'a self, subscription_id: &'a str) -> Asked<'a, ProvidedSubscription> {
        Box::pin(async move { self.read_subscription(subscription_id).await?.provided() })
    }

    fn subscriptions_of<'a>(&'a self, customer_id: &'a str) -> Asked<'a, Vec<ProvidedSubscription>> {
        Box::pin(async move {
            let query = vec![("customer", customer_id.to_owned())];
            let mut all = self.whole_list("v1/subscriptions", &query, Subscription::provided).await?;
            all.retain(|one| one.status != ProvidedStatus::Ended);
            Ok(all)
        })
    }

    fn invoice<'a>(&'a self, invoice_id: &'a str) -> Asked<'a, ProvidedInvoice> {
        Box::pin(async move { self.get::<Invoice>(&path(&["invoices", invoice_id]), vec![]).await?.provided() })
    }

    fn usage_invoices<'a>(&'a self, bill: &'a UsageBill<'a>) -> Asked<'a, Vec<ProvidedInvoice>> {
        Box::pin(async move {
            let query = vec![
                ("customer", bill.customer_id.to_owned()),
                // a month is billed after it has ended
                ("created[gte]", month_start(bill.month + 1).seconds().to_string()),
            ];
            let mut invoices = self.whole_list("v1/invoices", &query, Invoice::provided).await?;
            invoices.retain(|invoice| {
                invoice.month == Some(bill.month) && invoice.account_id.as_deref() == Some(bill.account_id)
            });
            Ok(invoices)
        })
    }

    fn customers<'a>(&'a self, after: &'a str) -> Asked<'a, Page<ProvidedCustomer>> {
        Box::pin(async move {
            let list = self.list("v1/customers", vec![], after).await?;
            Ok(list.page(|customer: &Customer| Ok(customer.provided())))
        })
    }

    fn subscriptions<'a>(&'a self, after: &'a str) -> Asked<'a, Page<ProvidedSubscription>> {
        Box::pin(async move {
            let mut page = self.list("v1/subscriptions", vec![], after).await?.page(Subscription::provided);
            page.items.retain(|one| one.status != ProvidedStatus::Ended);
            Ok(page)
        })
    }

    fn invoices<'a>(&'a self, since: Timestamp, after: &'a str) -> Asked<'a, Page<ProvidedInvoice>> {
        Box::pin(async move {
            let query = vec![("created[gte]", since.seconds().to_string())];
            Ok(self.list("v1/invoices", query, after).await?.page(Invoice::provided))
        })
    }

    fn make_usage_invoice<'a>(&'a self, bill: &'a UsageBill<'a>) -> Asked<'a, ProvidedInvoice> {
        Box::pin(async move {
            let form = vec![
                ("customer", bill.customer_id.to_owned()),
                ("auto_advance", "true".to_owned()),
                ("collection_method", "charge_automatically".to_owned()),
                // the invoice gets no lines but the line of this bill
                ("pending_invoice_items_behavior", "exclude".to_owned()),
                ("metadata[account_id]", bill.account_id.to_owned()),
                ("metadata[month]", bill.month.to_string()),
            ];
            self.post::<Invoice>("v1/invoices", form, &usage_key(bill, "invoice")).await?.provided()
        })
    }

    fn add_usage_line<'a>(&'a self, invoice_id: &'a str, bill: &'a UsageBill<'a>) -> Asked<'a, ()> {
        Box::pin(async move {
            let form = vec![
                ("customer", bill.customer_id.to_owned()),
                ("invoice", invoice_id.to_owned()),
                ("currency", "usd".to_owned()),
                ("amount", bill.cents.to_string()),
                ("description", bill.description.to_owned()),
            ];
            self.post::<Value>("v1/invoiceitems", form, &usage_key(bill, "line")).await.map(drop)
        })
    }
}

/// Makes the idempotency key of a step of a usage bill.
fn usage_key(bill: &UsageBill<'_>, step: &str) -> String {
    format!("usage:{}:{}:{}:{step}", bill.account_id, bill.month, bill.attempt)
}

/// Joins these parts to a URL path. Each part is encoded because ids come from outside.
fn path(parts: &[&str]) -> String {
    let encoded = parts.iter().map(|part| url::form_urlencoded::byte_serialize(part.as_bytes()).collect::<String>());
    format!("v1/{}", encoded.collect::<Vec<_>>().join("/"))
}

/// Makes a fresh idempotency key, for a request that may be carried out twice.
fn fresh_key() -> String {
    ids::random_hex::<16>("once:").to_string()
}

/// Reads the wait that `Retry-After` asks for, in whole seconds. Zero: none.
fn asked_wait(headers: &HeaderMap) -> Duration {
    let seconds = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    Duration::from_secs(seconds.unwrap_or(0))
}

fn jittered(wait: Duration) -> Duration {
    wait + wait.mul_f64(f64::from(u16::from_be_bytes(ids::random())) / f64::from(u16::MAX))
}

fn refused(why: impl std::fmt::Display) -> PaymentError {
    PaymentError::Refused(why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_that_stripe_asks_for_is_read() {
        for (value, seconds) in [("2", 2), ("0", 0), ("", 0), ("-1", 0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0)] {
            let headers = HeaderMap::from_iter([(header::RETRY_AFTER, value.parse().unwrap())]);
            assert_eq!(asked_wait(&headers), Duration::from_secs(seconds), "{value}");
        }
        assert_eq!(asked_wait(&HeaderMap::new()), Duration::ZERO);
    }
}
