//! Links between the objects of one sale (fact sheet of the back office, 4.5). Old and new versions of Stripe's
//! interface name the other objects in different members. Each link is an id, or the whole object.

use std::collections::BTreeSet;

use super::Fullness;
use crate::object::Node;

/// Members of any object that name another object of the same sale.
const LINKS: [&str; 4] = ["payment_intent", "latest_charge", "charge", "invoice"];
/// Largest number of objects within objects that are followed: session, intent, charge, invoice.
const DEPTH_MAX: usize = 4;

/// Finds the ids of all objects of the same sale, without the object's own id.
pub(super) fn links(object: &Node<'_>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    follow(object, DEPTH_MAX, &mut found);
    found
}

/// Names by which a sale is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Ids of the object and of the other objects of the sale.
    pub ids: BTreeSet<String>,
    /// The invoice that the object names, or is.
    pub invoice_id: Option<String>,
    /// The provider's id of the customer; may be empty.
    pub customer: String,
    /// How much an object of this kind knows.
    pub fullness: Fullness,
}

impl Identity {
    /// Reads the id of the object and all its links.
    pub(super) fn of(object: &Node<'_>) -> Identity {
        let own = object.member("id").text().map(str::to_owned);
        let fullness = match object.member("object").text() {
            Some("invoice") => Fullness::Invoice,
            Some("checkout.session") => Fullness::Session,
            Some("charge") => Fullness::Charge,
            _ => Fullness::Intent,
        };
        let mut ids = links(object);
        ids.extend(own.clone());
        Identity {
            ids,
            invoice_id: if fullness == Fullness::Invoice { own } else { invoice(object) },
            customer: object.member("customer").id().unwrap_or_default().to_owned(),
            fullness,
        }
    }
}

/// Finds the invoice that an object of a sale names.
pub(super) fn invoice(object: &Node<'_>) -> Option<String> {
    let direct = |object: &Node<'_>| {
        let named = object.member("invoice").id().map(str::to_owned);
        named.or_else(|| ordered_invoice(object).and_then(|node| node.id().map(str::to_owned)))
    };
    let intent = object.member("payment_intent");
    let others = [object.member("latest_charge"), object.member("charge"), intent.member("latest_charge"), intent];
    direct(object).or_else(|| others.iter().find_map(direct))
}

fn follow(object: &Node<'_>, depth: usize, found: &mut BTreeSet<String>) {
    if depth == 0 || !object.value.is_object() {
        return;
    }
    let mut others: Vec<Node<'_>> = LINKS.iter().map(|name| object.member(name)).collect();
    others.extend(object.member("charges").items());
    others.extend(ordered_invoice(object));
    for part in object.member("payments").items() {
        let payment = part.member("payment");
        others.extend([payment.member("payment_intent"), payment.member("charge")]);
    }
    for other in others {
        found.extend(other.id().map(str::to_owned));
        follow(&other, depth - 1, found);
    }
}

/// Newer intents name their invoice as the reference of an order. Merchants write references of their own there too.
fn ordered_invoice<'a>(object: &Node<'a>) -> Option<Node<'a>> {
    let reference = object.member("payment_details").member("order_reference");
    reference.text().is_some_and(|id| id.starts_with("in_")).then_some(reference)
}
