//! Reads the events of payment providers into sales and returns (readings B14, B15, B45). [`KINDS`] says which events of
//! each provider count.

use docs_module::document::{Problem, Step};
use docs_module::payment_import::{self, Announced, Fullness, Identity, Payment, Provider, Return};
use serde_json::Value;
use sha2::{Digest, Sha256};
use store::Verdict;

use super::documents::new_number;
use super::payments::{document_of, reason};
use super::profile::SetProfile;
use crate::caller::Environment;
use crate::clock::Timestamp;

/// Types of Stripe's events that announce a sale or a return.
const STRIPE_TYPES: [&str; 9] = [
    "payment_intent.succeeded",
    "charge.succeeded",
    "checkout.session.completed",
    ASYNC_SESSION,
    "invoice.paid",
    "charge.refunded",
    "refund.created",
    "refund.updated",
    "credit_note.created",
];
/// The type of the event after which a session's delayed payment has succeeded. The event's time is the payment's.
const ASYNC_SESSION: &str = "checkout.session.async_payment_succeeded";
/// Types of PAY.JP's events that announce a sale or a return.
const PAYJP_TYPES: [&str; 3] = ["charge.succeeded", "charge.captured", REFUNDED];
/// The type of the event that tells how much of a charge was given back.
pub const REFUNDED: &str = "charge.refunded";
/// Members whose faults mean that nothing was paid, or that the payment was not in yen. An event with such a fault is
/// ignored, because a repetition of the event would change nothing.
const STATES: [&str; 5] = ["status", "payment_status", "paid", "captured", "currency"];
/// Largest length of an id, in bytes.
const ID_BYTES_MAX: usize = 255;
/// Below this amount in yen, with tax, a return invoice is not required (enforcement order of the consumption tax act,
/// article 70-9).
const SMALL_RETURN_YEN: i64 = 10_000;

/// An event that concerns a document.
#[derive(Clone, Debug)]
pub struct Event {
    /// The event's type, as the provider calls it.
    pub kind: String,
    /// The object of the event.
    pub object: Value,
    /// The sale or the return that the event announces.
    pub about: About,
}

/// The members of a sale or a return by which its events are joined.
#[derive(Clone, Debug)]
pub struct About {
    /// The object's id. May be empty.
    pub id: String,
    /// Ids of the event and of the sale or the return.
    pub names: Vec<String>,
    /// The invoice that the object names or is. May be empty.
    pub invoice_id: String,
    /// The amount in yen.
    pub yen: i64,
    /// Whether no fuller object can come.
    pub is_final: bool,
    /// Whether the object makes a document.
    pub verdict: Verdict,
    /// Whether the object is about a sale or a return, with the members that only this kind has.
    pub kind: AboutKind,
}

/// The kind of an announcement, with the members that only this kind has.
#[derive(Clone, Debug)]
pub enum AboutKind {
    /// A sale.
    Sale {
        /// How much the object knows: 1 charge to 5 invoice.
        fullness: i64,
        /// The provider's customer. May be empty.
        customer: String,
        /// When the sale was paid, in seconds since 1970.
        paid_at: Option<i64>,
        /// Whether the object names a payment, or is one.
        is_payment: bool,
        /// The return that the object reports together with the sale. `None`: the object reports no return.
        given_back: Option<Box<About>>,
    },
    /// A return.
    Return {
        /// Ids of the sale.
        sale_names: Vec<String>,
        /// Refunds that the amount contains.
        covers: Vec<String>,
        /// Whether the amount is all that was given back of the sale so far.
        is_cumulative: bool,
    },
}

/// Reads an event of a profile's provider. `None`: the event announces nothing that gets a document.
pub fn read(event: &Value, set: &SetProfile, environment: Environment, now: Timestamp) -> Option<Event> {
    let provider = set.profile.provider;
    let is_live = event["livemode"].as_bool();
    if is_live.is_some_and(|is_live| is_live != (environment == Environment::Live)) {
        return None;
    }
    let kind = event["type"].as_str().unwrap_or_default().to_owned();
    let object = match provider {
        Provider::Stripe if STRIPE_TYPES.contains(&&*kind) => &event["data"]["object"],
        Provider::Payjp if PAYJP_TYPES.contains(&&*kind) => &event["data"],
        Provider::Stripe | Provider::Payjp if event["type"].is_string() => return None,
        Provider::Stripe | Provider::Payjp => event,
        // an event of a provider of which we know nothing is the payment object, or has it in `data`
        Provider::Generic => {
            [&event["data"]["object"], &event["data"]].into_iter().find(|it| it.is_object()).unwrap_or(event)
        }
    };
    let event_id = event["id"].as_str().unwrap_or_default();
    let is_async = kind == ASYNC_SESSION;
    let mut about = match payment_import::announced(provider, &kind, object, set.profile.default_rate) {
        Err(problem) if is_of_state(&problem) => return None,
        Err(problem) => of_problem(object, &kind, reason(&[problem])),
        Ok(Announced::Return(returned)) if returned.amount == 0 => return None,
        Ok(Announced::Return(returned)) => of_return(provider, &returned, set),
        Ok(Announced::Sale(payment)) => of_sale(provider, payment, set, now),
    };
    let mut object = object.clone();
    if let AboutKind::Sale { paid_at, .. } = &mut about.kind
        && let Some(seconds) = event["created"].as_i64().filter(|_| is_async)
    {
        // the session was opened when the buyer ordered; the receipt has the day of the payment
        *paid_at = Some(seconds);
        object["created"] = seconds.into();
    }
    about.names.push(event_id.to_owned());
    about.keep_ids();
    if about.names.is_empty() {
        // an event without an id is the same event if it has the same contents
        about.names.push(hex::encode(Sha256::digest(event.to_string())));
    }
    Some(Event { kind, object, about })
}

impl About {
    /// Removes what no provider uses as an id, because the ids are stored as they are.
    fn keep_ids(&mut self) {
        let is_id = |id: &String| !id.is_empty() && id.len() <= ID_BYTES_MAX && !id.chars().any(char::is_control);
        let clean = |ids: &mut Vec<String>| {
            ids.retain(is_id);
            ids.sort_unstable();
            ids.dedup();
        };
        clean(&mut self.names);
        let customer = match &mut self.kind {
            AboutKind::Sale { customer, given_back, .. } => {
                given_back.iter_mut().for_each(|about| about.keep_ids());
                Some(customer)
            }
            AboutKind::Return { sale_names, covers, .. } => {
                clean(sale_names);
                clean(covers);
                None
            }
        };
        for id in [&mut self.id, &mut self.invoice_id].into_iter().chain(customer).filter(|id| !is_id(id)) {
            id.clear();
        }
    }
}

fn of_sale(provider: Provider, payment: Payment, set: &SetProfile, now: Timestamp) -> About {
    // an event that is sent again may tell of refunds that came later
    let given_back = (payment.refunded > 0).then(|| Box::new(of_return(provider, &Return::of_refunds(&payment), set)));
    let sale = payment.without_refunds();
    let verdict = if sale.wishes.do_not_invoice || sale.total == 0 {
        Verdict::Decline
    } else {
        match document_of(&sale, &set.profile, new_number(now), super::today(now)) {
            Ok(_) => Verdict::Issue,
            Err(problems) => Verdict::Refuse(reason(&problems)),
        }
    };
    let identity =
        Identity { ids: sale.ids, invoice_id: sale.invoice_id, customer: sale.customer, fullness: sale.fullness };
    let about = About { id: sale.id, yen: sale.gross, is_final: sale.is_final, ..of_identity(identity, verdict) };
    let AboutKind::Sale { fullness, customer, is_payment, .. } = about.kind else { return about };
    About { kind: AboutKind::Sale { fullness, customer, is_payment, paid_at: sale.paid_at, given_back }, ..about }
}

/// Says what the names of a sale's object tell.
fn of_identity(identity: Identity, verdict: Verdict) -> About {
    let invoice_id = identity.invoice_id.unwrap_or_default();
    // several payments may pay one invoice, so an invoice that a payment only names is no name of the payment
    let is_part = identity.fullness < Fullness::Session;
    let is_payment = identity.ids.iter().any(|id| ["pi_", "ch_", "py_"].iter().any(|prefix| id.starts_with(prefix)));
    let names = identity.ids.into_iter().filter(|id| !is_part || *id != invoice_id).collect();
    let fullness = fullness(identity.fullness);
    let kind = AboutKind::Sale { fullness, customer: identity.customer, paid_at: None, is_payment, given_back: None };
    About { id: String::new(), names, invoice_id, yen: 0, is_final: true, verdict, kind }
}

fn of_return(provider: Provider, returned: &Return, set: &SetProfile) -> About {
    let small = set.profile.skip_small_returns && returned.amount < SMALL_RETURN_YEN;
    let verdict = if small || returned.wishes.do_not_invoice { Verdict::Decline } else { Verdict::Issue };
    let (invoices, sale_names): (Vec<String>, Vec<String>) =
        returned.sale_ids.iter().cloned().partition(|id| id.starts_with("in_"));
    About {
        id: returned.id.clone(),
        names: returned.ids.iter().cloned().collect(),
        invoice_id: invoices.into_iter().next().unwrap_or_default(),
        yen: returned.amount,
        // a credit note says more about a return than a refund
        is_final: provider != Provider::Stripe || returned.id.starts_with("cn_"),
        verdict,
        kind: AboutKind::Return {
            sale_names,
            covers: returned.covers.iter().cloned().collect(),
            is_cumulative: returned.is_cumulative,
        },
    }
}

/// Reads the names of an object of which no document can be made, so that no other object of the same sale makes one
/// that says less than the truth.
fn of_problem(object: &Value, kind: &str, why: String) -> About {
    let identity = payment_import::identity(object);
    let id = object["id"].as_str().unwrap_or_default().to_owned();
    let verdict = Verdict::Refuse(why);
    if kind != REFUNDED && !kind.starts_with("refund.") && !kind.starts_with("credit_note.") {
        return About { id, ..of_identity(identity, verdict) };
    }
    let invoice_id = identity.invoice_id.unwrap_or_default();
    let sale_names = identity.ids.into_iter().filter(|name| *name != id && *name != invoice_id).collect();
    let names = if kind == REFUNDED { Vec::new() } else { vec![id.clone()] };
    let kind = AboutKind::Return { sale_names, covers: Vec::new(), is_cumulative: false };
    About { id, names, invoice_id, yen: 0, is_final: true, verdict, kind }
}

fn fullness(of: Fullness) -> i64 {
    match of {
        Fullness::Charge => 1,
        Fullness::Intent => 2,
        Fullness::Session => 3,
        Fullness::ItemizedSession => 4,
        Fullness::Invoice => 5,
    }
}

fn is_of_state(problem: &Problem) -> bool {
    matches!(problem.at.last(), Some(Step::Field(name)) if STATES.contains(name))
}
