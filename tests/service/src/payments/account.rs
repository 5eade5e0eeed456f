//! The objects of the provider, and the effects of requests on them.

use std::collections::BTreeMap;

use axum::http::Method;
use serde_json::{Map, Value, json};

/// Lookup key, price of a whole period in cents, and number of months in the period.
const PRICES: [(&str, i64, i64); 6] = [
    ("ango_starter_monthly", 900, 1),
    ("ango_starter_annual", 8_964, 12),
    ("ango_pro_monthly", 4_900, 1),
    ("ango_pro_annual", 48_804, 12),
    ("ango_scale_monthly", 19_900, 1),
    ("ango_scale_annual", 198_204, 12),
];

/// The members of a form-encoded request.
#[derive(Debug, Default)]
pub(super) struct Form(BTreeMap<String, String>);

impl Form {
    pub(super) fn read(text: &str) -> Form {
        let decode = |part: &str| {
            let bytes = part.replace('+', " ");
            let mut out = Vec::new();
            let mut rest = bytes.as_bytes();
            while let [first, tail @ ..] = rest {
                match (first, tail) {
                    (b'%', [a, b, tail @ ..]) => {
                        let digits = [*a, *b];
                        let digits = std::str::from_utf8(&digits).expect("ASCII");
                        out.push(u8::from_str_radix(digits, 16).expect("hexadecimal"));
                        rest = tail;
                    }
                    _ => {
                        out.push(*first);
                        rest = tail;
                    }
                }
            }
            String::from_utf8(out).expect("UTF-8")
        };
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).filter_map(|pair| pair.split_once('='));
        Form(pairs.map(|(name, value)| (decode(name), decode(value))).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns a member's value. Refuses the request if the member is missing.
    pub(super) fn need(&self, name: &str) -> Result<&str, Refusal> {
        self.get(name).ok_or_else(|| refusal(400, "parameter_missing", name))
    }

    /// Refuses members other than these, because Stripe refuses unknown members.
    pub(super) fn only(&self, names: &[&str]) -> Result<(), Refusal> {
        let unknown = self.0.keys().find(|name| !names.contains(&name.as_str()) && !name.starts_with("metadata["));
        unknown.map_or(Ok(()), |name| Err(refusal(400, "parameter_unknown", name)))
    }
}

pub(super) type Refusal = (u16, Value);

pub(super) fn refusal(status: u16, code: &str, parameter: &str) -> Refusal {
    let kind = if status == 402 { "card_error" } else { "invalid_request_error" };
    (status, json!({"error": {"type": kind, "code": code, "param": parameter, "message": "a message of the provider"}}))
}

/// The state of the provider.
#[derive(Default)]
pub struct Account {
    pub(super) now_s: i64,
    made: u64,
    /// Whether cards are declined.
    pub declines: bool,
    /// Whether the search misses all customers, as the provider's search misses those of the last minute.
    pub search_lags: bool,
    objects: BTreeMap<String, Value>,
    cards: BTreeMap<String, Vec<String>>,
    events: Vec<Value>,
}

impl Account {
    fn id(&mut self, prefix: &str) -> String {
        self.made += 1;
        format!("{prefix}_{:06}", self.made)
    }

    /// Returns the present state of an object, or null if there is no such object.
    pub fn object(&self, id: &str) -> Value {
        self.objects.get(id).cloned().unwrap_or_default()
    }

    /// Stores an object as given.
    pub fn put(&mut self, object: Value) {
        let id = object["id"].as_str().expect("an id").to_owned();
        self.objects.insert(id, object);
    }

    /// Removes an object, as if the provider had never had it.
    pub fn remove(&mut self, id: &str) {
        self.objects.remove(id);
    }

    /// Replaces members of an object, without an event.
    pub fn amend(&mut self, id: &str, members: Value) {
        self.change(id, members);
    }

    /// Returns all objects whose id begins with this prefix, the oldest first.
    pub fn all(&self, prefix: &str) -> Vec<Value> {
        self.objects.iter().filter(|(id, _)| id.starts_with(prefix)).map(|(_, object)| object.clone()).collect()
    }

    /// Iterates over the objects whose id begins with this prefix, the oldest first.
    pub(super) fn objects_with(&self, prefix: &str) -> impl Iterator<Item = &Value> {
        let from_there = self.objects.range(prefix.to_owned()..);
        from_there.take_while(move |(id, _)| id.starts_with(prefix)).map(|(_, object)| object)
    }

    fn change(&mut self, id: &str, members: Value) {
        let object = self.objects.get_mut(id).expect("an object").as_object_mut().expect("an object");
        for (name, value) in members.as_object().expect("members") {
            object.insert(name.clone(), value.clone());
        }
    }

    fn tell(&mut self, kind: &str, id: &str) {
        let event_id = self.id("evt");
        let object = self.object(id);
        self.events.push(json!({
            "id": event_id, "object": "event", "type": kind, "created": self.now_s, "livemode": false, "data": {"object": object},
        }));
    }

    /// Returns the events that no earlier call has returned, the oldest first.
    pub fn take_events(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.events)
    }

    /// Stores a card of a customer. Returns the card's id.
    pub fn attach_card(&mut self, customer: &str) -> String {
        let card = self.id("pm");
        self.objects.insert(card.clone(), json!({"id": card, "object": "payment_method", "customer": customer}));
        self.cards.entry(customer.to_owned()).or_default().push(card.clone());
        self.tell("payment_method.attached", &card);
        card
    }

    /// Makes a customer for this account, without a request from the node. Returns the customer's id.
    pub fn new_customer_of(&mut self, account_id: &str) -> String {
        let id = self.id("cus");
        let customer = json!({
            "id": id, "object": "customer", "email": null, "metadata": {"account_id": account_id}, "created": self.now_s,
            "invoice_settings": {"default_payment_method": null},
        });
        self.objects.insert(id.clone(), customer);
        id
    }

    /// Makes an invoice that a customer has paid. The last event reports the payment. Returns the invoice's id.
    pub fn paid_invoice(&mut self, customer: &str) -> String {
        let id = self.id("in");
        self.objects.insert(
            id.clone(),
            json!({
                "id": id, "object": "invoice", "customer": customer, "status": "draft", "currency": "usd", "total": 500,
                "period_start": self.now_s, "period_end": self.now_s, "created": self.now_s, "attempt_count": 0,
                "next_payment_attempt": null, "status_transitions": {"paid_at": null}, "metadata": {}, "lines": {"data": []},
                "parent": null,
            }),
        );
        self.issue(&id);
        id
    }

    /// Begins a checkout of a subscription, without a request from the node. Returns the checkout's id.
    pub fn begin_checkout(&mut self, customer: &str, account_id: &str, price: &str) -> String {
        let price = self.price(price)["id"].clone();
        let (id, anchor) = (self.id("cs"), months_later(first_of_month(self.now_s), 1));
        let session = json!({
            "id": id, "object": "checkout.session", "customer": customer, "mode": "subscription", "status": "open",
            "metadata": {"account_id": account_id}, "price": price, "anchor": anchor,
        });
        self.objects.insert(id.clone(), session);
        id
    }

    /// Completes a checkout, as the customer would do.
    pub fn complete_checkout(&mut self, session: &str) {
        let found = self.object(session);
        let customer = found["customer"].as_str().expect("a customer").to_owned();
        let card = self.attach_card(&customer);
        if found["mode"] == "setup" {
            let intent = json!({"id": "seti_1", "payment_method": card});
            self.change(session, json!({"status": "complete", "setup_intent": intent}));
        } else {
            let price = found["price"].as_str().expect("a price").to_owned();
            let account = found["metadata"]["account_id"].as_str().expect("an account").to_owned();
            let anchor = found["anchor"].as_i64().expect("an anchor");
            let subscription = self.begin_subscription(&customer, &price, anchor, &account);
            self.change(session, json!({"status": "complete", "subscription": subscription}));
        }
        self.tell("checkout.session.completed", session);
    }

    /// Ends the period of a subscription. A cancelled subscription ends. Otherwise scheduled changes take effect, and
    /// the next period is paid or declined.
    pub fn renew(&mut self, subscription: &str) {
        let found = self.object(subscription);
        if found["cancel_at_period_end"] == true {
            self.change(subscription, json!({"status": "canceled"}));
            return self.tell("customer.subscription.deleted", subscription);
        }
        let item = found["items"]["data"][0].clone();
        let mut price = item["price"]["lookup_key"].as_str().expect("a key").to_owned();
        if let Some(schedule) = found["schedule"].as_str() {
            let next = self.object(schedule)["next"].as_str().expect("a price").to_owned();
            price = self.object(&next)["lookup_key"].as_str().expect("a key").to_owned();
            self.change(subscription, json!({"schedule": null}));
        }
        let start = item["current_period_end"].as_i64().expect("a time");
        let (_, cents, months) = *PRICES.iter().find(|(key, ..)| *key == price).expect("a price");
        let end = months_later(start, months);
        self.set_item(subscription, &price, start, end);
        self.invoice(subscription, cents, start, end);
        let status = if self.declines { "past_due" } else { "active" };
        self.change(subscription, json!({"status": status}));
        self.tell("customer.subscription.updated", subscription);
    }

    /// Pays an open invoice.
    pub fn pay(&mut self, invoice: &str) {
        let now_s = self.now_s;
        self.change(
            invoice,
            json!({"status": "paid", "status_transitions": {"paid_at": now_s}, "next_payment_attempt": null}),
        );
        self.tell("invoice.paid", invoice);
        let subscription = self.object(invoice)["parent"]["subscription_details"]["subscription"].clone();
        if let Some(subscription) = subscription.as_str() {
            self.change(subscription, json!({"status": "active"}));
            self.tell("customer.subscription.updated", subscription);
        }
    }

    /// Records another failed attempt to collect an open invoice.
    pub fn fail_payment(&mut self, invoice: &str) {
        let attempts = self.object(invoice)["attempt_count"].as_i64().expect("a count") + 1;
        self.change(invoice, json!({"attempt_count": attempts, "next_payment_attempt": self.now_s + 86_400}));
        self.tell("invoice.payment_failed", invoice);
    }

    /// Ends an invoice without a payment.
    pub fn end_invoice(&mut self, invoice: &str, status: &str) {
        self.change(invoice, json!({"status": status}));
        let kind = if status == "void" { "invoice.voided" } else { "invoice.marked_uncollectible" };
        self.tell(kind, invoice);
    }

    /// Changes the state of a subscription, without a request from the node.
    pub fn set_status(&mut self, subscription: &str, status: &str) {
        self.change(subscription, json!({"status": status}));
        let deleted = status == "canceled";
        self.tell(
            if deleted { "customer.subscription.deleted" } else { "customer.subscription.updated" },
            subscription,
        );
    }

    /// Issues all draft invoices and collects their payments.
    pub fn advance_drafts(&mut self) {
        let drafts: Vec<String> = self
            .all("in_")
            .iter()
            .filter(|invoice| invoice["status"] == "draft")
            .map(|invoice| invoice["id"].as_str().expect("an id").to_owned())
            .collect();
        for id in drafts {
            self.issue(&id);
        }
    }

    fn issue(&mut self, id: &str) {
        let page = format!("https://invoices.example/{id}");
        self.change(id, json!({"status": "open", "hosted_invoice_url": page}));
        self.tell("invoice.finalized", id);
        if self.declines {
            return self.fail_payment(id);
        }
        self.change(id, json!({"attempt_count": 1}));
        let now_s = self.now_s;
        self.change(id, json!({"status": "paid", "status_transitions": {"paid_at": now_s}}));
        self.tell("invoice.paid", id);
    }

    fn invoice(&mut self, subscription: &str, cents: i64, start: i64, end: i64) -> String {
        let (id, customer) = (self.id("in"), self.object(subscription)["customer"].clone());
        self.objects.insert(
            id.clone(),
            json!({
                "id": id, "object": "invoice", "customer": customer, "status": "draft", "currency": "usd", "total": cents,
                "period_start": self.now_s, "period_end": self.now_s, "created": self.now_s, "attempt_count": 0,
                "next_payment_attempt": null, "status_transitions": {"paid_at": null}, "metadata": {},
                "lines": {"data": [{"period": {"start": start, "end": end}}]},
                "parent": {"type": "subscription_details", "subscription_details": {"subscription": subscription}},
            }),
        );
        self.change(subscription, json!({"latest_invoice": id}));
        self.issue(&id);
        id
    }

    fn set_item(&mut self, subscription: &str, price: &str, start: i64, end: i64) {
        let price = self.price(price);
        let item = json!({
            "id": format!("si_of_{subscription}"), "price": price, "current_period_start": start, "current_period_end": end,
        });
        self.change(subscription, json!({"items": {"data": [item]}}));
    }

    fn price(&mut self, key: &str) -> Value {
        let id = format!("price_{key}");
        let price = json!({"id": id, "object": "price", "lookup_key": key, "currency": "usd", "active": true});
        self.objects.insert(id, price.clone());
        price
    }

    fn begin_subscription(&mut self, customer: &str, price: &str, anchor: i64, account: &str) -> String {
        let key = self.object(price)["lookup_key"].as_str().expect("a key").to_owned();
        let id = self.id("sub");
        self.objects.insert(
            id.clone(),
            json!({
                "id": id, "object": "subscription", "customer": customer, "status": "active", "cancel_at_period_end": false,
                "schedule": null, "metadata": {"account_id": account}, "items": {"data": []},
            }),
        );
        let now = self.now_s;
        self.set_item(&id, &key, now, anchor);
        self.tell("customer.subscription.created", &id);
        self.invoice(&id, part_of(&key, now, anchor), now, anchor);
        id
    }

    pub(super) fn answer(&mut self, method: &Method, path: &str, form: &Form) -> (u16, Value) {
        let parts: Vec<&str> = path.trim_start_matches("/v1/").split('/').collect();
        let answered = match (method.as_str(), parts.as_slice()) {
            ("GET", ["balance"]) => Ok(json!({"object": "balance"})),
            ("GET", ["prices"]) => self.prices(form),
            ("GET", ["customers"]) => self.customers(form),
            ("POST", ["customers"]) => self.new_customer(form),
            ("GET", ["customers", "search"]) => self.found_customers(form),
            ("POST", ["customers", id]) => self.change_customer(id, form),
            ("GET", ["customers", id, "payment_methods"]) => Ok(self.payment_methods(id)),
            ("POST", ["checkout", "sessions"]) => self.new_checkout(form),
            ("GET", ["checkout", "sessions", id]) => self.found(id),
            ("POST", ["billing_portal", "sessions"]) => self.portal(form),
            ("GET", ["subscriptions"]) => self.subscriptions_of(form),
            ("POST", ["subscriptions"]) => self.new_subscription(form),
            ("POST", ["subscriptions", id]) => self.change_subscription(id, form),
            ("DELETE", ["subscriptions", id]) => self.end_subscription(id, form),
            ("POST", ["subscription_schedules"]) => self.new_schedule(form),
            ("POST", ["subscription_schedules", id, "release"]) => self.release(id),
            ("POST", ["subscription_schedules", id]) => self.change_schedule(id, form),
            ("GET", ["invoices"]) => self.invoices_of(form),
            ("POST", ["invoices"]) => self.new_invoice(form),
            ("POST", ["invoiceitems"]) => self.new_line(form),
            ("GET", ["customers" | "subscriptions" | "invoices", id]) => self.found(id),
            _ => Err(refusal(404, "no_such_route", path)),
        };
        answered.map_or_else(|(status, value)| (status, value), |value| (200, value))
    }

    fn found(&self, id: &str) -> Result<Value, Refusal> {
        self.objects.get(id).cloned().ok_or_else(|| refusal(404, "resource_missing", "id"))
    }

    fn prices(&mut self, form: &Form) -> Result<Value, Refusal> {
        form.only(&["lookup_keys[]", "active"])?;
        let key = form.need("lookup_keys[]")?;
        let known = PRICES.iter().any(|(known, ..)| *known == key);
        let data = if known { vec![self.price(key)] } else { vec![] };
        Ok(json!({"object": "list", "data": data}))
    }

    fn new_customer(&mut self, form: &Form) -> Result<Value, Refusal> {
        form.only(&[])?;
        let id = self.new_customer_of(form.need("metadata[account_id]")?);
        self.found(&id)
    }

    fn change_customer(&mut self, id: &str, form: &Form) -> Result<Value, Refusal> {
        form.only(&["email", "invoice_settings[default_payment_method]"])?;
        self.found(id)?;
        if let Some(email) = form.get("email") {
            self.change(id, json!({"email": email}));
        }
        if let Some(method) = form.get("invoice_settings[default_payment_method]") {
            if self.found(method)?["customer"] != id {
                return Err(refusal(400, "resource_missing", "default_payment_method"));
            }
            self.change(id, json!({"invoice_settings": {"default_payment_method": method}}));
        }
        self.found(id)
    }

    fn payment_methods(&self, customer: &str) -> Value {
        let cards = self.cards.get(customer).cloned().unwrap_or_default();
        json!({"object": "list", "data": cards.iter().map(|card| self.object(card)).collect::<Vec<_>>()})
    }

    fn new_checkout(&mut self, form: &Form) -> Result<Value, Refusal> {
        form.only(&[
            "customer",
            "client_reference_id",
            "ui_mode",
            "return_url",
            "success_url",
            "mode",
            "currency",
            "line_items[0][price]",
            "line_items[0][quantity]",
            "subscription_data[billing_cycle_anchor]",
            "subscription_data[proration_behavior]",
            "subscription_data[metadata][account_id]",
        ])?;
        let (customer, account) = (form.need("customer")?, form.need("metadata[account_id]")?);
        self.found(customer)?;
        let mode = form.need("mode")?;
        let id = self.id("cs");
        let mut session = json!({
            "id": id, "object": "checkout.session", "customer": customer, "mode": mode, "status": "open", "subscription": null,
            "setup_intent": null, "metadata": {"account_id": account}, "url": null, "client_secret": null,
        });
        if mode == "subscription" {
            let anchor: i64 = form.need("subscription_data[billing_cycle_anchor]")?.parse().expect("a time");
            let price = form.need("line_items[0][price]")?;
            self.check_anchor(price, anchor)?;
            form.need("subscription_data[metadata][account_id]")?;
            (session["price"], session["anchor"]) = (json!(price), json!(anchor));
        } else {
            session["setup_intent"] = json!("seti_1");
            form.need("currency")?;
        }
        if form.get("ui_mode") == Some("embedded") {
            form.need("return_url")?;
            session["client_secret"] = json!(format!("{id}_secret"));
        } else {
            form.need("success_url")?;
            session["url"] = json!(format!("https://checkout.example/{id}"));
        }
        self.objects.insert(id, session.clone());
        Ok(session)
    }

    /// Checks that the anchor of a billing cycle is in the future, at most one period ahead, as Stripe demands.
    fn check_anchor(&self, price: &str, anchor: i64) -> Result<(), Refusal> {
        let key = self.found(price)?["lookup_key"].as_str().expect("a key").to_owned();
        let (.., months) = *PRICES.iter().find(|(known, ..)| *known == key).expect("a price");
        let is_near = anchor > self.now_s && anchor <= self.now_s + months * 31 * 86_400;
        if is_near { Ok(()) } else { Err(refusal(400, "invalid_anchor", "billing_cycle_anchor")) }
    }

    fn portal(&mut self, form: &Form) -> Result<Value, Refusal> {
        form.only(&["customer", "return_url"])?;
        self.found(form.need("customer")?)?;
        form.need("return_url")?;
        let id = self.id("bps");
        Ok(json!({"id": id, "url": format!("https://portal.example/{id}")}))
    }

    fn new_subscription(&mut self, form: &Form) -> Result<Value, Refusal> {
        form.only(&[
            "customer",
            "items[0][price]",
            "billing_cycle_anchor",
            "proration_behavior",
            "payment_behavior",
            "default_payment_method",
        ])?;
        let customer = form.need("customer")?;
        let method = form.need("default_payment_method")?;
        if self.found(method)?["customer"] != customer {
            return Err(refusal(400, "resource_missing", "default_payment_method"));
        }
        let anchor: i64 = form.need("billing_cycle_anchor")?.parse().expect("a time");
        let price = form.need("items[0][price]")?;
        self.check_anchor(price, anchor)?;
        if self.declines {
            assert_eq!(form.need("payment_behavior")?, "error_if_incomplete");
            return Err(refusal(402, "card_declined", ""));
        }
        let account = form.need("metadata[account_id]")?.to_owned();
        let id = self.begin_subscription(customer, price, anchor, &account);
        self.found(&id)
    }

    fn change_subscription(&mut self, id: &str, form: &Form) -> Result<Value, Refusal> {
        form.only(&[
            "items[0][id]",
            "items[0][price]",
            "proration_behavior",
            "payment_behavior",
            "cancel_at_period_end",
        ])?;
        let found = self.found(id)?;
        if found["status"] == "canceled" {
            return Err(refusal(400, "resource_missing", "id"));
        }
        if let Some(price) = form.get("items[0][price]") {
            let item = found["items"]["data"][0].clone();
            if form.need("items[0][id]")? != item["id"] {
                // Stripe would add a second item if the id of the existing item is missing; this stand-in refuses that
                return Err(refusal(400, "parameter_invalid", "items[0][id]"));
            }
            if self.declines {
                return Err(refusal(402, "card_declined", ""));
            }
            let key = self.found(price)?["lookup_key"].as_str().expect("a key").to_owned();
            let before = item["price"]["lookup_key"].as_str().expect("a key").to_owned();
            let (start, end) = (item["current_period_start"].as_i64(), item["current_period_end"].as_i64());
            let (start, end) = (start.expect("a time"), end.expect("a time"));
            self.set_item(id, &key, start, end);
            let now = self.now_s;
            self.invoice(id, part_of(&key, now, end) - part_of(&before, now, end), now, end);
        }
        if let Some(ends) = form.get("cancel_at_period_end") {
            if ends == "true" && !found["schedule"].is_null() {
                return Err(refusal(400, "managed_by_schedule", "cancel_at_period_end"));
            }
            self.change(id, json!({"cancel_at_period_end": ends == "true"}));
        }
        self.tell("customer.subscription.updated", id);
        self.found(id)
    }

    fn end_subscription(&mut self, id: &str, form: &Form) -> Result<Value, Refusal> {
        form.only(&["invoice_now", "prorate"])?;
        self.found(id)?;
        self.set_status(id, "canceled");
        self.found(id)
    }

    fn new_schedule(&mut self, form: &Form) -> Result<Value, Refusal> {
        form.only(&["from_subscription"])?;
        let subscription = form.need("from_subscription")?;
        if !self.found(subscription)?["schedule"].is_null() {
            return Err(refusal(400, "already_scheduled", "from_subscription"));
        }
        let id = self.id("sub_sched");
        let schedule = json!({"id": id, "object": "subscription_schedule", "subscription": subscription});
        self.objects.insert(id.clone(), schedule.clone());
        self.change(subscription, json!({"schedule": id}));
        Ok(schedule)
    }

    fn change_schedule(&mut self, id: &str, form: &Form) -> Result<Value, Refusal> {
        form.only(&[
            "end_behavior",
            "phases[0][items][0][price]",
            "phases[0][start_date]",
            "phases[0][end_date]",
            "phases[1][items][0][price]",
            "phases[1][duration][interval]",
            "phases[1][duration][interval_count]",
            "phases[1][proration_behavior]",
            "phases[1][billing_cycle_anchor]",
        ])?;
        let found = self.found(id)?;
        let subscription = found["subscription"].as_str().expect("a subscription").to_owned();
        let item = self.object(&subscription)["items"]["data"][0].clone();
        let same = form.need("phases[0][end_date]")?.parse().ok() == item["current_period_end"].as_i64()
            && form.need("phases[0][items][0][price]")? == item["price"]["id"];
        if !same {
            return Err(refusal(400, "parameter_invalid", "phases[0]"));
        }
        let next = form.need("phases[1][items][0][price]")?;
        self.found(next)?;
        self.change(id, json!({"next": next}));
        self.tell("customer.subscription.updated", &subscription);
        self.found(id)
    }

    fn release(&mut self, id: &str) -> Result<Value, Refusal> {
        let found = self.found(id)?;
        let subscription = found["subscription"].as_str().expect("a subscription").to_owned();
        self.change(&subscription, json!({"schedule": null}));
        self.tell("customer.subscription.updated", &subscription);
        Ok(found)
    }

    fn new_invoice(&mut self, form: &Form) -> Result<Value, Refusal> {
        form.only(&["customer", "auto_advance", "collection_method", "pending_invoice_items_behavior"])?;
        self.found(form.need("customer")?)?;
        let id = self.id("in");
        let mut metadata = Map::new();
        for name in ["account_id", "month"] {
            metadata.insert(name.to_owned(), json!(form.need(&format!("metadata[{name}]"))?));
        }
        let invoice = json!({
            "id": id, "object": "invoice", "customer": form.need("customer")?, "status": "draft", "currency": "usd", "total": 0,
            "period_start": self.now_s, "period_end": self.now_s, "created": self.now_s, "attempt_count": 0,
            "next_payment_attempt": null, "status_transitions": {"paid_at": null}, "metadata": metadata, "lines": {"data": []},
            "parent": null,
        });
        self.objects.insert(id, invoice.clone());
        Ok(invoice)
    }

    fn new_line(&mut self, form: &Form) -> Result<Value, Refusal> {
        form.only(&["customer", "invoice", "currency", "amount", "description"])?;
        let invoice = form.need("invoice")?;
        let found = self.found(invoice)?;
        if found["customer"] != form.need("customer")? || form.need("currency")? != "usd" {
            return Err(refusal(400, "parameter_invalid", "customer"));
        }
        let amount: i64 = form.need("amount")?.parse().expect("cents");
        let line =
            json!({"period": {"start": self.now_s, "end": self.now_s}, "description": form.need("description")?});
        let total = found["total"].as_i64().expect("cents") + amount;
        let mut lines = found["lines"]["data"].as_array().expect("lines").clone();
        lines.push(line.clone());
        self.change(invoice, json!({"total": total, "lines": {"data": lines}}));
        Ok(line)
    }
}

/// Returns the part of a period's price for the time from `now` to the period's end, in cents.
fn part_of(key: &str, now: i64, end: i64) -> i64 {
    let (_, cents, months) = *PRICES.iter().find(|(known, ..)| *known == key).expect("a price");
    let whole = end - months_later(end, -months);
    let rest = (end - now).min(whole);
    (2 * cents * rest + whole) / (2 * whole)
}

/// Returns the first moment of the month that contains this moment.
fn first_of_month(moment_s: i64) -> i64 {
    let text = control::clock::Timestamp(moment_s * 1_000_000).rfc3339();
    let (year, month): (i64, i64) = (text[..4].parse().expect("a year"), text[5..7].parse().expect("a month"));
    control::access::limits::month_start(year * 12 + month - 1).seconds() as i64
}

/// Returns the first moment of the month that is `months` months after the month of `first_s`.
fn months_later(first_s: i64, months: i64) -> i64 {
    let text = control::clock::Timestamp(first_s * 1_000_000).rfc3339();
    let (year, month): (i64, i64) = (text[..4].parse().expect("a year"), text[5..7].parse().expect("a month"));
    let month = year * 12 + month - 1 + months;
    control::access::limits::month_start(month).seconds() as i64
}
