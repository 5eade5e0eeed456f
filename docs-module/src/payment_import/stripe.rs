//! Objects of Stripe's interface (fact sheet of the back office, section 4).

use std::collections::BTreeSet;

use time::Date;

use super::{Payment, Wishes, line, rate};
use crate::document::{Line, Problem};
use crate::object::{Node, sum};
use crate::tax::consumption::Rate;

/// Name of a line whose object has no description.
const UNNAMED: &str = "お支払い";

/// The values that are in different members for each kind of object. All other members are read in the same way for all
/// kinds.
struct Facts<'a> {
    /// Amount paid, with tax, in yen.
    gross: i64,
    /// Amount refunded, in yen.
    refunded: i64,
    /// The lines, each with its amount in yen; empty when the object has none.
    lines: Vec<(Line, i64)>,
    /// Other objects of the same payment.
    related: Vec<Node<'a>>,
    when: Node<'a>,
    /// Members of a return that may contain the sale as a whole object.
    returned: Vec<Node<'a>>,
    /// Members that may contain the buyer's name, in order of preference.
    names: Vec<Node<'a>>,
    emails: Vec<Node<'a>>,
    method: Option<&'a str>,
    is_return: bool,
}

pub(super) fn read(object: &Node<'_>, default_rate: Rate) -> Result<Payment, Problem> {
    let kind = object.member("object");
    match kind.text() {
        Some("payment_intent") => build(object, default_rate, intent),
        Some("charge") => read_charge(object, default_rate),
        Some("checkout.session") => build(object, default_rate, session),
        Some("invoice") => build(object, default_rate, invoice),
        Some("refund") => build(object, default_rate, refund),
        Some("credit_note") => build(object, default_rate, credit_note),
        _ => Err(kind.problem("should be payment_intent, charge, checkout.session, invoice, refund or credit_note")),
    }
}

pub(super) fn read_charge(object: &Node<'_>, default_rate: Rate) -> Result<Payment, Problem> {
    build(object, default_rate, charge)
}

fn build<'a>(
    object: &Node<'a>,
    default_rate: Rate,
    facts: fn(&Node<'a>, Rate) -> Result<Facts<'a>, Problem>,
) -> Result<Payment, Problem> {
    object.check_yen()?;
    let main = rate::wished(object)?.unwrap_or(default_rate);
    let facts = facts(object, main)?;
    let metadata = object.member("metadata");
    let wish = |name| metadata.member(name).text();

    let of_lines = sum(object, facts.lines.iter().map(|(_, amount)| *amount))?;
    let mut lines: Vec<Line> = facts.lines.into_iter().map(|(line, _)| line).collect();
    let has_lines = !lines.is_empty();
    let unexplained = if has_lines { facts.gross - of_lines } else { 0 };
    if !has_lines {
        let name = wish("item_name").or(wish("description")).or(object.member("description").text()).unwrap_or(UNNAMED);
        lines.push(line(name, None, facts.gross, main));
    } else if unexplained != 0 {
        lines.push(line("調整額（送料・値引きほか）", None, unexplained, main));
    }
    if !(0..=facts.gross.max(0)).contains(&facts.refunded) {
        return Err(object.problem("more was refunded than was paid"));
    }
    lines.extend(refund_lines(&lines, facts.refunded, facts.gross));

    let own = object.member("id");
    let ids: BTreeSet<String> =
        std::iter::once(&own).chain(&facts.related).filter_map(Node::id).map(str::to_owned).collect();
    let named = ["recipient", "invoice_recipient", "宛名"].into_iter().find_map(wish);
    let recipient = named.or_else(|| facts.names.iter().find_map(Node::text)).unwrap_or_default().to_owned();
    let wish = |name| wish(name).map(str::to_owned);
    Ok(Payment {
        id: own.text().unwrap_or_default().to_owned(),
        ids,
        lines,
        total: facts.gross - facts.refunded,
        is_refunded: facts.refunded > 0 && facts.refunded == facts.gross,
        is_return: facts.is_return,
        date: facts.when.day()?,
        original_date: first_day(&facts.returned)?,
        recipient,
        email: facts.emails.iter().find_map(Node::text).map(str::to_owned),
        payment_method: facts.method.map(str::to_owned),
        wishes: Wishes {
            honorific: wish("recipient_honorific"),
            invoice_number: wish("invoice_number"),
            document_type: wish("document_type"),
            consignor: wish("consignor"),
            consignor_registration_number: wish("consignor_registration_number"),
            do_not_invoice: wish("do_not_invoice").is_some_and(|value| value.eq_ignore_ascii_case("true")),
        },
        unexplained,
    })
}

/// Reads the date of the first of these members that is a whole object, not just an id.
fn first_day(objects: &[Node<'_>]) -> Result<Option<Date>, Problem> {
    for object in objects {
        if let Some(day) = object.member("created").day()? {
            return Ok(Some(day));
        }
    }
    Ok(None)
}

/// Makes the negative lines of a refund. If the sale has two rates, the refund is apportioned by the sums of the rates,
/// because the provider does not say what was refunded.
fn refund_lines(lines: &[Line], refunded: i64, gross: i64) -> Vec<Line> {
    if refunded == 0 {
        return Vec::new();
    }
    let of_rate = |rate: Rate| -> i64 {
        let amounts = lines.iter().filter(|line| line.rate == rate).map(|line| line.unit_price * line.quantity);
        amounts.filter_map(|amount| i64::try_from(amount).ok()).sum()
    };
    let sums = Rate::ALL.map(of_rate);
    let shares = crate::tax::consumption::apportion(refunded, &sums).unwrap_or_else(|| {
        // `apportion` refuses negative sums: the sum of one rate is negative, so the other rate takes the whole refund
        let main = if sums[0] >= gross { 0 } else { 1 };
        let mut shares = vec![0, 0];
        shares[main] = refunded;
        shares
    });
    let shared = Rate::ALL.into_iter().zip(shares).filter(|(_, share)| *share != 0);
    shared.map(|(rate, share)| line("返金", None, -share, rate)).collect()
}

fn succeeded(is_so: bool, node: &Node<'_>) -> Result<(), Problem> {
    if is_so { Ok(()) } else { Err(node.problem("should say that the payment succeeded")) }
}

fn intent<'a>(object: &Node<'a>, _: Rate) -> Result<Facts<'a>, Problem> {
    let status = object.member("status");
    succeeded(status.text() == Some("succeeded"), &status)?;
    let latest = object.member("latest_charge");
    let billing = latest.member("billing_details");
    let types = object.member("payment_method_types").value.as_array().map(Vec::as_slice).unwrap_or_default();
    let only = match types {
        [only] => only.as_str(),
        _ => None,
    };
    Ok(Facts {
        gross: object.first_yen(&["amount_received", "amount"])?,
        refunded: latest.member("amount_refunded").yen()?.unwrap_or(0),
        lines: Vec::new(),
        when: object.member("created"),
        returned: Vec::new(),
        names: vec![billing.member("name"), object.member("shipping").member("name")],
        emails: vec![object.member("receipt_email"), billing.member("email")],
        method: latest.member("payment_method_details").member("type").text().or(only),
        related: vec![latest, object.member("invoice")],
        is_return: false,
    })
}

fn charge<'a>(object: &Node<'a>, _: Rate) -> Result<Facts<'a>, Problem> {
    let is_true = |name| object.member(name).value.as_bool() == Some(true);
    let status = object.member("status");
    // charges of PAY.JP have no status
    let has_status = status.is_missing() || status.text() == Some("succeeded");
    succeeded(is_true("paid") && is_true("captured") && has_status, &status)?;
    let billing = object.member("billing_details");
    Ok(Facts {
        gross: object.first_yen(&["amount_captured", "amount"])?,
        refunded: object.member("amount_refunded").yen()?.unwrap_or(0),
        lines: Vec::new(),
        related: vec![object.member("payment_intent"), object.member("invoice")],
        when: object.member("created"),
        returned: Vec::new(),
        names: vec![billing.member("name"), object.member("shipping").member("name")],
        emails: vec![billing.member("email"), object.member("receipt_email")],
        method: object.member("payment_method_details").member("type").text(),
        is_return: false,
    })
}

fn session<'a>(object: &Node<'a>, main: Rate) -> Result<Facts<'a>, Problem> {
    let status = object.member("payment_status");
    let gross = object.first_yen(&["amount_total"])?;
    let is_free = status.text() == Some("no_payment_required") && gross == 0;
    succeeded(status.text() == Some("paid") || is_free, &status)?;
    let mut lines = Vec::new();
    for item in object.member("line_items").items() {
        let amount = item.first_yen(&["amount_total"])?;
        lines.push((sold(&item, amount, main)?, amount));
    }
    let details = object.member("customer_details");
    let types = object.member("payment_method_types").value.as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(Facts {
        gross,
        refunded: 0,
        lines,
        related: vec![object.member("payment_intent"), object.member("invoice")],
        when: object.member("created"),
        returned: Vec::new(),
        names: vec![details.member("business_name"), details.member("name")],
        emails: vec![details.member("email"), object.member("customer_email")],
        method: match types {
            [only] => only.as_str(),
            _ => None,
        },
        is_return: false,
    })
}

fn invoice<'a>(object: &Node<'a>, main: Rate) -> Result<Facts<'a>, Problem> {
    let status = object.member("status");
    succeeded(status.text() == Some("paid"), &status)?;
    let transitions = object.member("status_transitions");
    let times = [transitions.member("paid_at"), object.member("effective_at"), object.member("created")];
    let mut related = vec![object.member("charge"), object.member("payment_intent")];
    for payment in object.member("payments").items() {
        related.push(payment.member("payment").member("payment_intent"));
        related.push(payment.member("payment").member("charge"));
    }
    Ok(Facts {
        gross: object.first_yen(&["total"])?,
        refunded: object.member("post_payment_credit_notes_amount").yen()?.unwrap_or(0),
        lines: invoice_lines(object, main)?,
        related,
        when: first(times),
        returned: Vec::new(),
        names: vec![object.member("customer_name")],
        emails: vec![object.member("customer_email")],
        method: None,
        is_return: false,
    })
}

/// Returns the first node that is present, or the last node if all are missing.
fn first<'a, const N: usize>(nodes: [Node<'a>; N]) -> Node<'a> {
    let mut last = None;
    for node in nodes {
        let is_there = !node.is_missing();
        last = Some(node);
        if is_there {
            break;
        }
    }
    last.expect("at least one")
}

/// Reads the lines of an invoice with tax. The amount of a line is the item's amount, less discounts, plus the taxes
/// that the item's amount does not include.
fn invoice_lines(object: &Node<'_>, main: Rate) -> Result<Vec<(Line, i64)>, Problem> {
    let mut lines = Vec::new();
    for item in object.member("lines").items() {
        let mut parts = vec![item.first_yen(&["amount"])?];
        for discount in item.member("discount_amounts").items() {
            parts.push(-discount.first_yen(&["amount"])?);
        }
        for tax in ["taxes", "tax_amounts"].iter().flat_map(|name| item.member(name).items()) {
            let behaviour = tax.member("tax_behavior").text();
            let is_exclusive = behaviour == Some("exclusive") || tax.member("inclusive").value.as_bool() == Some(false);
            if is_exclusive {
                parts.push(tax.first_yen(&["amount"])?);
            }
        }
        let amount = sum(&item, parts)?;
        lines.push((sold(&item, amount, main)?, amount));
    }
    Ok(lines)
}

fn sold(item: &Node<'_>, amount: i64, main: Rate) -> Result<Line, Problem> {
    let name = item.member("description").text().unwrap_or(UNNAMED);
    let rate = rate::of_line(item)?.unwrap_or(main);
    Ok(line(name, item.member("quantity").value.as_i64(), amount, rate))
}

fn refund<'a>(object: &Node<'a>, main: Rate) -> Result<Facts<'a>, Problem> {
    let status = object.member("status");
    succeeded(status.text() == Some("succeeded"), &status)?;
    let gross = -object.first_yen(&["amount"])?;
    Ok(Facts {
        gross,
        refunded: 0,
        lines: vec![(line("返金", None, gross, main), gross)],
        // the ids of the sale are left out, because the sale has its own document
        related: Vec::new(),
        returned: vec![object.member("charge"), object.member("payment_intent")],
        when: object.member("created"),
        names: Vec::new(),
        emails: Vec::new(),
        method: None,
        is_return: true,
    })
}

fn credit_note<'a>(object: &Node<'a>, main: Rate) -> Result<Facts<'a>, Problem> {
    let status = object.member("status");
    succeeded(status.text() == Some("issued"), &status)?;
    let lines = invoice_lines(object, main)?.into_iter().map(|(mut line, amount)| {
        line.unit_price = -line.unit_price;
        (line, -amount)
    });
    Ok(Facts {
        gross: -object.first_yen(&["total"])?,
        refunded: 0,
        lines: lines.collect(),
        related: Vec::new(),
        returned: vec![object.member("invoice")],
        when: first([object.member("effective_at"), object.member("created")]),
        names: vec![object.member("customer_name")],
        emails: Vec::new(),
        method: None,
        is_return: true,
    })
}
