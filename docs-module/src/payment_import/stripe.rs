//! Objects of Stripe's interface (fact sheet of the back office, section 4).

use super::facts::{self, Facts, only, succeeded};
use super::itemized::{self, Reading, UNNAMED};
use super::links::Identity;
use super::{Fullness, NamedBy, Payment, wishes};
use crate::document::Problem;
use crate::object::Node;
use crate::tax::consumption::Rate;

/// Reads an object that reports a sale.
pub(super) fn sale(object: &Node<'_>, default_rate: Rate) -> Result<Payment, Problem> {
    let kind = object.member("object");
    let facts = match kind.text() {
        Some("payment_intent") => intent,
        Some("charge") => charge,
        Some("checkout.session") => session,
        Some("invoice") => invoice,
        _ => {
            let message = "should be payment_intent, charge, checkout.session, invoice, refund or credit_note";
            return Err(kind.problem(message));
        }
    };
    object.check_yen()?;
    let mut facts = facts(object, default_rate)?;
    let customer = object.member("customer");
    facts.names.push((NamedBy::Payer, customer.member("name")));
    facts.emails.push(customer.member("email"));
    facts::payment(object, facts)
}

/// The refunded amount of a charge, in yen. The amount that a partial capture releases is in `amount_refunded` too, and
/// was never paid.
pub(super) fn refunded(charge: &Node<'_>) -> Result<i64, Problem> {
    let told = charge.member("amount_refunded");
    let refunded = match told.yen()? {
        Some(refunded) if refunded < 0 => return Err(told.problem("should be at least 0")),
        Some(refunded) => refunded,
        None => {
            let refunds = charge.member("refunds").items();
            let succeeded = refunds.iter().filter(|refund| refund.member("status").text() == Some("succeeded"));
            let amounts = succeeded.map(|refund| refund.first_yen(&["amount"])).collect::<Result<Vec<_>, _>>()?;
            crate::object::sum(charge, amounts)?
        }
    };
    let amount = charge.member("amount").yen()?;
    let released = amount.map_or(Ok(0), |amount| Ok((amount - paid(charge, ["amount_captured", "amount"])?).max(0)))?;
    Ok((refunded - released).max(0))
}

/// The amount that was paid: the first of two members, else the second. What succeeded was not a payment of 0 yen, so a
/// 0 means that the first member was not filled in.
pub(super) fn paid(object: &Node<'_>, names: [&'static str; 2]) -> Result<i64, Problem> {
    let exact = object.member(names[0]).yen()?.filter(|amount| *amount != 0);
    exact.map_or_else(|| object.first_yen(&[names[1], names[0]]), Ok)
}

/// The charge of an intent: the latest, or in older versions the paid one of its list.
fn charge_of_intent<'a>(intent: &Node<'a>) -> Node<'a> {
    let latest = intent.member("latest_charge");
    let charges = intent.member("charges").items();
    let paid = charges.into_iter().find(|charge| charge.member("paid").value.as_bool() == Some(true));
    if latest.value.is_object() { latest } else { paid.unwrap_or(latest) }
}

fn names_of_charge<'a>(charge: &Node<'a>) -> Vec<(NamedBy, Node<'a>)> {
    let billing = charge.member("billing_details");
    vec![(NamedBy::Payer, billing.member("name")), (NamedBy::Payer, charge.member("shipping").member("name"))]
}

fn intent<'a>(object: &Node<'a>, default_rate: Rate) -> Result<Facts<'a>, Problem> {
    let status = object.member("status");
    succeeded(status.text() == Some("succeeded"), &status)?;
    let charge = charge_of_intent(object);
    let billing = charge.member("billing_details");
    let gross = paid(object, ["amount_received", "amount"])?;
    let method = charge.member("payment_method_details").member("type").text();
    Ok(Facts {
        identity: Identity::of(object),
        gross,
        refunded: refunded(&charge)?,
        itemized: itemized::whole(object, facts::name(object).unwrap_or(UNNAMED), gross, default_rate)?,
        is_final: false,
        when: object.member("created"),
        names: [names_of_charge(&charge), vec![(NamedBy::Payer, object.member("shipping").member("name"))]].concat(),
        emails: vec![object.member("receipt_email"), billing.member("email")],
        method: method.or(only(&object.member("payment_method_types"))),
        warnings: Vec::new(),
    })
}

fn charge<'a>(object: &Node<'a>, default_rate: Rate) -> Result<Facts<'a>, Problem> {
    let is_true = |name| object.member(name).value.as_bool() == Some(true);
    let status = object.member("status");
    succeeded(is_true("paid") && is_true("captured") && status.text() == Some("succeeded"), &status)?;
    let gross = paid(object, ["amount_captured", "amount"])?;
    let billing = object.member("billing_details");
    Ok(Facts {
        identity: Identity::of(object),
        gross,
        refunded: refunded(object)?,
        itemized: itemized::whole(object, facts::name(object).unwrap_or(UNNAMED), gross, default_rate)?,
        is_final: false,
        when: object.member("created"),
        names: names_of_charge(object),
        emails: vec![billing.member("email"), object.member("receipt_email")],
        method: object.member("payment_method_details").member("type").text(),
        warnings: Vec::new(),
    })
}

fn session<'a>(object: &Node<'a>, default_rate: Rate) -> Result<Facts<'a>, Problem> {
    let status = object.member("payment_status");
    let gross = object.first_yen(&["amount_total"])?;
    let is_free = status.text() == Some("no_payment_required") && gross == 0;
    succeeded(status.text() == Some("paid") || is_free, &status)?;
    let identity = Identity::of(object);
    // a subscription always has an invoice, which sessions of older versions do not name
    let is_final = identity.invoice_id.is_none() && object.member("mode").text() != Some("subscription");
    let reading = Reading {
        list: object.member("line_items"),
        amount: itemized::session_amount,
        name: facts::name(object).unwrap_or(UNNAMED).to_owned(),
        total: gross,
        is_final,
        default_rate,
    };
    let itemized = itemized::read(object, &reading)?;
    let fullness = if itemized.has_lines { Fullness::ItemizedSession } else { Fullness::Session };
    let details = object.member("customer_details");
    let charge = charge_of_intent(&object.member("payment_intent"));
    let method = charge.member("payment_method_details").member("type").text();
    let mut names: Vec<_> = wishes::filled_in(object).into_iter().collect();
    names.push((NamedBy::Business, details.member("business_name")));
    names.push((NamedBy::Payer, details.member("name")));
    names.extend(names_of_charge(&charge));
    Ok(Facts {
        gross,
        refunded: refunded(&charge)?,
        is_final,
        identity: Identity { fullness, ..identity },
        itemized,
        when: object.member("created"),
        names,
        emails: vec![details.member("email"), object.member("customer_email")],
        method: method.or(only(&object.member("payment_method_types"))),
        warnings: Vec::new(),
    })
}

fn invoice<'a>(object: &Node<'a>, default_rate: Rate) -> Result<Facts<'a>, Problem> {
    let status = object.member("status");
    // invoices of 2018 have no status
    let is_paid = if status.is_missing() {
        object.member("paid").value.as_bool() == Some(true)
    } else {
        status.text() == Some("paid")
    };
    succeeded(is_paid, &status)?;
    let gross = object.first_yen(&["total"])?;
    let reading = Reading {
        list: object.member("lines"),
        amount: itemized::invoice_amount,
        name: facts::name(object).unwrap_or(UNNAMED).to_owned(),
        total: gross,
        is_final: true,
        default_rate,
    };
    let paid_at = object.member("status_transitions").member("paid_at");
    // invoices of 2018 have their time in `date`
    let times = [paid_at, object.member("effective_at"), object.member("created"), object.member("date")];
    Ok(Facts {
        identity: Identity::of(object),
        gross,
        refunded: object.member("post_payment_credit_notes_amount").yen()?.unwrap_or(0),
        itemized: itemized::read(object, &reading)?,
        is_final: true,
        when: times.iter().find(|time| !time.is_missing()).unwrap_or(&times[2]).clone(),
        names: wishes::filled_in(object)
            .into_iter()
            .chain([(NamedBy::Payer, object.member("customer_name"))])
            .collect(),
        emails: vec![object.member("customer_email")],
        method: object.member("charge").member("payment_method_details").member("type").text(),
        warnings: unpaid_part(object, gross)?,
    })
}

/// Warns of an invoice that was paid with less money than it charges, for example because a balance was used.
fn unpaid_part(object: &Node<'_>, total: i64) -> Result<Vec<String>, Problem> {
    let paid = object.member("amount_paid").yen()?;
    let differing = paid.filter(|paid| *paid != total);
    Ok(differing.map(|paid| format!("the invoice charges {total} yen, and {paid} yen were paid")).into_iter().collect())
}
