//! Stripe's events: their signature, and the object that each type is about (readings W1, W5).

use axum::http::HeaderMap;
use docs_module::request::any_value;
use serde_json::Value;
use store::ProviderEvent;

use super::super::signature::{is_signed, signature_header};
use super::super::{About, EventFault, PaymentError, PaymentSecret, SignedEvent};
use super::refused;
use crate::clock::Timestamp;

/// Longest id or type, in bytes.
const WORD_BYTES_MAX: usize = 255;

/// Checks an event's signature under one of these secrets, and reads id and type.
pub fn read(
    headers: &HeaderMap,
    body: &[u8],
    secrets: &[PaymentSecret],
    now: Timestamp,
) -> Result<SignedEvent, EventFault> {
    if !is_signed(signature_header(headers), body, secrets, now) {
        return Err(EventFault::NotSigned);
    }
    let event = any_value(body).map_err(|_| EventFault::Malformed)?;
    let word = |member: &str| {
        let word = event[member].as_str().filter(|word| (1..=WORD_BYTES_MAX).contains(&word.len()));
        word.map(str::to_owned).ok_or(EventFault::Malformed)
    };
    Ok(SignedEvent { event_id: word("id")?, event_type: word("type")? })
}

/// Reads which object an event is about.
pub fn about(event: &ProviderEvent) -> Result<About, PaymentError> {
    let content: Value = serde_json::from_str(&event.body)
        .map_err(|why| refused(format!("the event {} cannot be read: {why}", event.event_id)))?;
    let object = &content["data"]["object"];
    let Some(id) = object["id"].as_str().map(str::to_owned) else { return Ok(About::Nothing) };
    Ok(match event.event_type.as_str() {
        "checkout.session.completed" | "checkout.session.async_payment_succeeded" => About::Checkout(id),
        "customer.subscription.created" | "customer.subscription.updated" => About::Subscription(id),
        "customer.subscription.deleted" => About::EndedSubscription(id),
        "invoice.payment_failed" => {
            let attempt = object["attempt_count"].as_i64().unwrap_or(1);
            let said = &object["last_finalization_error"]["code"];
            About::Invoice { id, failed: Some((attempt, said.as_str().unwrap_or("payment_failed").to_owned())) }
        }
        "invoice.finalized" | "invoice.paid" | "invoice.voided" | "invoice.marked_uncollectible" => {
            About::Invoice { id, failed: None }
        }
        "payment_method.attached" => match object["customer"].as_str() {
            Some(customer) => About::PaymentMethod { id, customer: customer.to_owned() },
            None => About::Nothing,
        },
        // a removed payment method matters only when the next payment fails
        _ => About::Nothing,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(event_type: &str, object: Value) -> Result<About, PaymentError> {
        let body = json!({"id": "evt_1", "type": event_type, "data": {"object": object}}).to_string();
        about(&event(event_type, &body))
    }

    fn event(event_type: &str, body: &str) -> ProviderEvent {
        let (event_id, event_type, body) = ("evt_1".to_owned(), event_type.to_owned(), body.to_owned());
        ProviderEvent { event_id, event_type, body, sealed_body: None, attempts: 0, received_at: 0 }
    }

    #[test]
    fn w5_each_type_is_about_one_object() {
        let id = || "x_1".to_owned();
        let invoice = |failed| About::Invoice { id: id(), failed };
        let failed = |attempt, why: &str| invoice(Some((attempt, why.to_owned())));
        for (event_type, object, expected) in [
            ("checkout.session.completed", json!({"id": "x_1"}), About::Checkout(id())),
            ("checkout.session.async_payment_succeeded", json!({"id": "x_1"}), About::Checkout(id())),
            ("checkout.session.async_payment_failed", json!({"id": "x_1"}), About::Nothing),
            ("customer.subscription.created", json!({"id": "x_1"}), About::Subscription(id())),
            ("customer.subscription.updated", json!({"id": "x_1"}), About::Subscription(id())),
            ("customer.subscription.deleted", json!({"id": "x_1"}), About::EndedSubscription(id())),
            ("invoice.finalized", json!({"id": "x_1"}), invoice(None)),
            ("invoice.paid", json!({"id": "x_1"}), invoice(None)),
            ("invoice.voided", json!({"id": "x_1"}), invoice(None)),
            ("invoice.marked_uncollectible", json!({"id": "x_1"}), invoice(None)),
            ("invoice.payment_failed", json!({"id": "x_1"}), failed(1, "payment_failed")),
            (
                "invoice.payment_failed",
                json!({"id": "x_1", "attempt_count": 3, "last_finalization_error": {"code": "tax"}}),
                failed(3, "tax"),
            ),
            (
                "payment_method.attached",
                json!({"id": "x_1", "customer": "cus_1"}),
                About::PaymentMethod { id: id(), customer: "cus_1".to_owned() },
            ),
            ("payment_method.attached", json!({"id": "x_1"}), About::Nothing),
            ("payment_method.detached", json!({"id": "x_1"}), About::Nothing),
            ("of.a.later.version", json!({"id": "x_1"}), About::Nothing),
            ("invoice.paid", json!({}), About::Nothing),
            ("invoice.paid", json!(1), About::Nothing),
        ] {
            assert_eq!(of(event_type, object.clone()).unwrap(), expected, "{event_type} {object}");
        }
    }

    #[test]
    fn a_stored_event_that_is_no_json_needs_an_operator() {
        assert!(matches!(about(&event("invoice.paid", "{")), Err(PaymentError::Refused(_))));
    }
}
