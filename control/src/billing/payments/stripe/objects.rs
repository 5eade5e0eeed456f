//! The members of Stripe's objects that this service reads. Unknown members and words are ignored (readings W7).

use std::collections::HashMap;

use api::billing::BillingCycle;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use store::InvoiceState;

use super::super::{
    FinishedCheckout, Page, PaymentError, ProvidedCustomer, ProvidedInvoice, ProvidedStatus, ProvidedSubscription,
};
use super::refused;
use crate::billing::plans::SUBSCRIBED;
use crate::caller::Plan;
use crate::clock::Timestamp;

/// Makes the lookup key of a price of this service.
pub fn lookup_key(plan: Plan, cycle: BillingCycle) -> String {
    format!("ango_{}_{}", plan.as_str(), cycle.as_str())
}

#[derive(Deserialize)]
pub struct List<T> {
    pub data: Vec<T>,
    #[serde(default)]
    has_more: bool,
}

impl List<Value> {
    /// Reads each object of the list with `read`.
    pub fn page<O: DeserializeOwned, T>(self, read: impl Fn(&O) -> Result<T, PaymentError>) -> Page<T> {
        let id = |object: &Value| object["id"].as_str().unwrap_or_default().to_owned();
        let next = self.data.last().filter(|_| self.has_more).map(id);
        let (mut items, mut unreadable) = (Vec::new(), Vec::new());
        for object in self.data {
            let id = id(&object);
            let known: Result<O, _> = serde_json::from_value(object).map_err(refused);
            match known.and_then(|object| read(&object)) {
                Ok(item) => items.push(item),
                Err(why) => unreadable.push((id, why.to_string())),
            }
        }
        Page { items, unreadable, next }
    }
}

#[derive(Deserialize)]
pub struct Price {
    pub id: String,
    lookup_key: Option<String>,
}

impl Price {
    /// Returns the plan and billing cycle that the price is for.
    fn plan(&self) -> Option<(Plan, BillingCycle)> {
        let key = self.lookup_key.as_deref()?;
        let all = SUBSCRIBED.into_iter().flat_map(|plan| BillingCycle::ALL.map(|cycle| (plan, cycle)));
        all.into_iter().find(|(plan, cycle)| lookup_key(*plan, *cycle) == key)
    }
}

#[derive(Deserialize)]
pub struct Customer {
    pub id: String,
    /// Seconds since 1970.
    #[serde(default)]
    pub created: i64,
    #[serde(default)]
    pub invoice_settings: InvoiceSettings,
    metadata: Option<HashMap<String, String>>,
}

impl Customer {
    pub fn provided(&self) -> ProvidedCustomer {
        ProvidedCustomer { customer_id: self.id.clone(), account_id: named(&self.metadata, "account_id") }
    }
}

#[derive(Default, Deserialize)]
pub struct InvoiceSettings {
    pub default_payment_method: Option<String>,
}

#[derive(Deserialize)]
pub struct PaymentMethod {
    pub id: String,
}

#[derive(Deserialize)]
pub struct Portal {
    pub url: String,
}

#[derive(Deserialize)]
pub struct Schedule {
    pub id: String,
}

#[derive(Deserialize)]
pub struct Checkout {
    pub id: String,
    pub url: Option<String>,
    pub client_secret: Option<String>,
    customer: Option<String>,
    status: Option<String>,
    payment_status: Option<String>,
    mode: Option<String>,
    client_reference_id: Option<String>,
    subscription: Option<String>,
    /// The id of the setup intent, or the whole object if the request expanded it.
    #[serde(default)]
    setup_intent: Value,
    metadata: Option<HashMap<String, String>>,
    payment_link: Option<String>,
    /// The lines, if the request expanded them.
    line_items: Option<List<CheckoutLine>>,
}

#[derive(Deserialize)]
struct CheckoutLine {
    price: Option<Price>,
}

impl Checkout {
    pub fn finished(self) -> FinishedCheckout {
        let lines = self.line_items.map(|lines| lines.data).unwrap_or_default();
        let prices = lines.into_iter().filter_map(|line| line.price).map(|price| price.id);
        FinishedCheckout {
            sold: self.payment_link.into_iter().chain(prices).collect(),
            plan: named(&self.metadata, "plan").unwrap_or_default(),
            reference: self.client_reference_id.unwrap_or_default(),
            is_paid: matches!(self.payment_status.as_deref(), Some("paid" | "no_payment_required")),
            is_setup: self.mode.as_deref() == Some("setup"),
            customer_id: self.customer.unwrap_or_default(),
            account_id: named(&self.metadata, "account_id"),
            subscription_id: self.subscription,
            payment_method: self.setup_intent["payment_method"].as_str().map(str::to_owned),
            is_complete: self.status.as_deref() == Some("complete"),
        }
    }
}

#[derive(Deserialize)]
pub struct Subscription {
    id: String,
    customer: String,
    status: String,
    #[serde(default)]
    cancel_at_period_end: bool,
    pub schedule: Option<String>,
    items: List<Item>,
    latest_invoice: Option<String>,
    metadata: Option<HashMap<String, String>>,
}

/// An item of a subscription. Since 2025, the API has the subscription's period here, in the item (readings W7).
#[derive(Deserialize)]
pub struct Item {
    pub id: String,
    pub price: Price,
    pub current_period_start: i64,
    pub current_period_end: i64,
}

impl Subscription {
    pub fn item(&self) -> Result<&Item, PaymentError> {
        self.items.data.first().ok_or_else(|| refused(format!("the subscription {} has no item", self.id)))
    }

    pub fn cycle(&self) -> Result<BillingCycle, PaymentError> {
        let plan = self.item()?.price.plan();
        plan.map(|(_, cycle)| cycle)
            .ok_or_else(|| refused(format!("the price of the subscription {} is not a price of this service", self.id)))
    }

    pub fn provided(&self) -> Result<ProvidedSubscription, PaymentError> {
        let item = self.item()?;
        Ok(ProvidedSubscription {
            subscription_id: self.id.clone(),
            customer_id: self.customer.clone(),
            account_id: named(&self.metadata, "account_id"),
            status: match self.status.as_str() {
                "active" => ProvidedStatus::Active,
                "trialing" => ProvidedStatus::Trialing,
                "past_due" => ProvidedStatus::PastDue,
                "unpaid" => ProvidedStatus::Unpaid,
                "incomplete" => ProvidedStatus::Incomplete,
                "canceled" | "incomplete_expired" => ProvidedStatus::Ended,
                _ => ProvidedStatus::Other,
            },
            plan: item.price.plan(),
            ends: self.cancel_at_period_end,
            period_start: moment(item.current_period_start),
            period_end: moment(item.current_period_end),
            has_schedule: self.schedule.is_some(),
            latest_invoice: self.latest_invoice.clone(),
        })
    }
}

#[derive(Deserialize)]
pub struct Invoice {
    pub id: String,
    customer: Option<String>,
    status: Option<String>,
    currency: Option<String>,
    total: i64,
    period_start: i64,
    period_end: i64,
    created: i64,
    hosted_invoice_url: Option<String>,
    #[serde(default)]
    attempt_count: i64,
    next_payment_attempt: Option<i64>,
    #[serde(default)]
    status_transitions: StatusTransitions,
    metadata: Option<HashMap<String, String>>,
    lines: Option<List<Line>>,
    parent: Option<Value>,
}

#[derive(Default, Deserialize)]
struct StatusTransitions {
    paid_at: Option<i64>,
}

#[derive(Deserialize)]
struct Line {
    period: LinePeriod,
}

#[derive(Deserialize)]
struct LinePeriod {
    start: i64,
    end: i64,
}

impl Invoice {
    pub fn provided(&self) -> Result<ProvidedInvoice, PaymentError> {
        let status = match self.status.as_deref() {
            None | Some("draft") => InvoiceState::Draft,
            Some("open") => InvoiceState::Open,
            Some("paid") => InvoiceState::Paid,
            Some("void") => InvoiceState::Void,
            Some("uncollectible") => InvoiceState::Uncollectible,
            Some(other) => return Err(refused(format!("the invoice {} has the unknown status {other}", self.id))),
        };
        // The period in the invoice itself is the period before the period of the invoice's lines. Use the line whose
        // period ends last, because the line of a credit may come before the line of the charge.
        let lines = self.lines.as_ref().map(|lines| lines.data.as_slice()).unwrap_or_default();
        let last = lines.iter().max_by_key(|line| line.period.end);
        let (start, end) =
            last.map_or((self.period_start, self.period_end), |line| (line.period.start, line.period.end));
        let subscription = self.parent.as_ref().map(|parent| &parent["subscription_details"]["subscription"]);
        Ok(ProvidedInvoice {
            invoice_id: self.id.clone(),
            customer_id: self.customer.clone().unwrap_or_default(),
            account_id: named(&self.metadata, "account_id"),
            currency: self.currency.clone().unwrap_or_else(|| "usd".to_owned()),
            subscription_id: subscription.and_then(Value::as_str).map(str::to_owned),
            month: named(&self.metadata, "month").and_then(|month| month.parse().ok()),
            status,
            amount: self.total,
            period_start: moment(start),
            period_end: moment(end),
            issued_at: moment(self.created),
            paid_at: self.status_transitions.paid_at.map(moment),
            url: self.hosted_invoice_url.clone().unwrap_or_default(),
            attempts: self.attempt_count,
            next_attempt_at: self.next_payment_attempt.map(moment),
        })
    }
}

/// Returns the value that this service noted under `name` in an object's metadata.
fn named(metadata: &Option<HashMap<String, String>>, name: &str) -> Option<String> {
    metadata.as_ref()?.get(name).cloned()
}

fn moment(seconds: i64) -> Timestamp {
    Timestamp(seconds.saturating_mul(1_000_000))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn w7_unknown_members_and_words_are_passed_over() {
        let subscription: Subscription = serde_json::from_value(json!({
            "id": "sub_1", "customer": "cus_1", "status": "hibernating", "new": {"a": [1]},
            "items": {"data": [{"id": "si_1", "price": {"id": "price_1", "lookup_key": "other"},
                "current_period_start": 1, "current_period_end": i64::MAX}]},
        }))
        .unwrap();
        let provided = subscription.provided().unwrap();
        assert_eq!((provided.status, provided.plan), (ProvidedStatus::Other, None));
        assert!(subscription.cycle().is_err());
        let none: Subscription =
            serde_json::from_value(json!({"id": "sub_1", "customer": "c", "status": "active", "items": {"data": []}}))
                .unwrap();
        assert!(none.provided().is_err());
    }

    #[test]
    fn prices_are_named_by_plan_and_cycle() {
        for (key, plan) in [
            ("ango_starter_monthly", Some((Plan::Starter, BillingCycle::Monthly))),
            ("ango_scale_annual", Some((Plan::Scale, BillingCycle::Annual))),
            ("ango_free_monthly", None),
            ("", None),
        ] {
            assert_eq!(Price { id: String::new(), lookup_key: Some(key.to_owned()) }.plan(), plan, "{key}");
        }
    }

    #[test]
    fn an_invoice_is_of_the_month_of_its_last_line_and_has_a_currency() {
        let mut object = json!({
            "id": "in_1", "customer": "cus_1", "status": "open", "currency": "usd", "total": 4900, "period_start": 1,
            "period_end": 2, "created": 3, "lines": {"data": [{"period": {"start": 4, "end": 5}}, {"period": {"start": 6, "end": 7}}]},
            "parent": {"subscription_details": {"subscription": "sub_1"}},
        });
        let read = |object: &Value| serde_json::from_value::<Invoice>(object.clone()).unwrap().provided();
        let invoice = read(&object).unwrap();
        assert_eq!((invoice.period_start, invoice.period_end), (moment(6), moment(7)));
        assert_eq!(invoice.subscription_id.as_deref(), Some("sub_1"));
        assert_eq!(invoice.currency, "usd");
        object["currency"] = json!("jpy");
        assert_eq!(read(&object).unwrap().currency, "jpy");
    }
}
