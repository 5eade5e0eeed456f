//! Charges of PAY.JP.

use super::facts::{self, Facts, succeeded};
use super::itemized::{self, UNNAMED};
use super::links::Identity;
use super::{Fullness, NamedBy, Payment, stripe};
use crate::document::Problem;
use crate::object::Node;
use crate::tax::consumption::Rate;

/// Values of `three_d_secure_status` of a charge whose buyer was not authenticated.
const UNAUTHENTICATED: [&str; 3] = ["unverified", "failed", "error"];

/// Reads a charge. PAY.JP has no objects that know more about the sale.
pub(super) fn read(object: &Node<'_>, default_rate: Rate) -> Result<Payment, Problem> {
    object.check_yen()?;
    let is_true = |name| object.member(name).value.as_bool() == Some(true);
    succeeded(is_true("paid"), &object.member("paid"))?;
    succeeded(is_true("captured"), &object.member("captured"))?;
    let check = object.member("three_d_secure_status");
    let is_checked = check.text().is_none_or(|check| !UNAUTHENTICATED.contains(&check));
    succeeded(is_checked, &object.member("status"))?;
    let gross = stripe::paid(object, ["amount_captured", "amount"])?;
    let (billing, card) = (object.member("billing_details"), object.member("card"));
    let facts = Facts {
        identity: Identity { fullness: Fullness::Charge, ..Identity::of(object) },
        gross,
        refunded: stripe::refunded(object)?,
        itemized: itemized::whole(object, facts::name(object).unwrap_or(UNNAMED), gross, default_rate)?,
        is_final: true,
        when: object.member("created"),
        names: vec![(NamedBy::Payer, billing.member("name")), (NamedBy::Payer, card.member("name"))],
        emails: vec![billing.member("email"), card.member("email")],
        method: if card.value.is_object() { Some("card") } else { None },
        warnings: Vec::new(),
    };
    facts::payment(object, facts)
}
