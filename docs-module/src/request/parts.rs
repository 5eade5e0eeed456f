//! Values that several requests share: registration numbers, issuers, colours and pictures, bank accounts, withholding
//! tax.

use std::sync::Arc;

use unicode_normalization::UnicodeNormalization;

use super::field::{Field, Object};
use crate::document::{ASIDE_MAX, BankAccount, Consignor, Issuer, Kind, LINES_MAX, Theme, Withholding};
use crate::drawing::{Colour, Picture};
use crate::payment_import::Provider;
use crate::registration::{PartyNumber, RegistrationNumber};
use crate::rounding::{Rounding, YEN_MAX};
use crate::tax::consumption::{Basis, Rate};
use crate::tax::withholding::{Category, Remuneration};

/// Allowed rates of consumption tax, in percent.
const RATES: [i64; 2] = [8, 10];

/// Reads a registration number. Full-width characters and spaces are normalised first (B26).
pub(super) fn registration_number(field: &Field<'_>) -> Option<RegistrationNumber> {
    RegistrationNumber::read(&plain_number(&field.text()?)).ok().or_else(|| {
        let ctx = serde_json::json!({"pattern": "^T[0-9]{13}$"});
        field.refuse("string_pattern_mismatch", "should be T and 13 digits", Some(ctx))
    })
}

/// Reads `recipient_number`: a registration number, or a corporate number, which is 13 digits.
pub(super) fn recipient_number(object: &Object<'_>) -> Option<PartyNumber> {
    let field = object.nullable("recipient_number")?;
    PartyNumber::read(&plain_number(&field.text()?)).ok().or_else(|| {
        let ctx = serde_json::json!({"pattern": "^T?[0-9]{13}$"});
        field.refuse("string_pattern_mismatch", "should be T and 13 digits, or 13 digits", Some(ctx))
    })
}

fn plain_number(text: &str) -> String {
    text.nfkc().filter(|character| !character.is_whitespace()).take(20).collect()
}

/// Reads `issuer`, `registration_number`, `issuer_address` and `issuer_tel` of a request. A filler replaces each value
/// that has a fault.
pub(super) fn issuer(object: &Object<'_>) -> Issuer {
    let name = object.required("issuer").and_then(|field| field.text());
    let number = object.required("registration_number").and_then(|field| registration_number(&field));
    Issuer {
        name: name.unwrap_or_else(|| "-".to_owned()),
        registration_number: number.unwrap_or(RegistrationNumber::FILLER),
        address: object.nullable_text("issuer_address"),
        tel: object.nullable_text("issuer_tel"),
    }
}

/// Reads `consignor` and `consignor_registration_number`.
pub(super) fn consignor(object: &Object<'_>) -> Option<Consignor> {
    let name = object.nullable_text("consignor");
    let number = object.nullable("consignor_registration_number").and_then(|field| registration_number(&field));
    (!name.is_empty() || number.is_some()).then_some(Consignor { name, registration_number: number })
}

/// Reads `rounding`.
pub(super) fn rounding(object: &Object<'_>) -> Rounding {
    let field = object.optional("rounding");
    field.and_then(|field| field.choice(&Rounding::NAMES, Rounding::of_name)).unwrap_or_default()
}

/// Reads a value of `document_type`.
pub(super) fn kind(field: &Field<'_>) -> Option<Kind> {
    field.choice(&Kind::names(), Kind::of_name)
}

/// Reads `provider`.
pub(super) fn provider(object: &Object<'_>) -> Provider {
    let field = object.optional("provider");
    field.and_then(|field| field.choice(&Provider::NAMES, Provider::of_name)).unwrap_or_default()
}

/// Reads a rate of consumption tax.
pub(super) fn rate(field: &Field<'_>) -> Option<Rate> {
    field.integer_choice(&RATES, Rate::of_percent)
}

/// Reads `default_tax_rate`.
pub(super) fn default_rate(object: &Object<'_>) -> Rate {
    object.optional("default_tax_rate").and_then(|field| rate(&field)).unwrap_or(Rate::Standard)
}

/// Reads a category of remuneration, or a caller's word for a remuneration.
pub(super) fn remuneration(field: &Field<'_>) -> Option<Remuneration> {
    field.choice(&Category::names().collect::<Vec<_>>(), Remuneration::of_name)
}

/// Reads `theme` (B12, B28).
pub(super) fn theme(object: &Object<'_>) -> Theme {
    let Some(given) = object.nullable("theme").and_then(|field| field.object()) else { return Theme::default() };
    let locale = given.nullable("locale");
    let _: Option<()> = locale.and_then(|field| field.choice(&["ja"], |name| (name == "ja").then_some(())));
    let footer = given.nullable_text("footer");
    if footer.trim().chars().count() > ASIDE_MAX {
        given.fault("footer", &format!("should have at most {ASIDE_MAX} characters"));
    }
    Theme { footer, ..looks(&given, Object::nullable) }
}

/// A function that looks up a member. Such functions differ in the meaning of null: a fault, or a missing member.
type Member<'a> = fn(&Object<'a>, &'static str) -> Option<Field<'a>>;

/// Reads `brand_color`, `logo` and `seal`. An empty text counts as missing.
pub(super) fn looks<'a>(object: &Object<'a>, member: Member<'a>) -> Theme {
    let given = |name| member(object, name).filter(|field| field.raw() != "\"\"");
    Theme {
        colour: given("brand_color").and_then(|field| colour(&field)).unwrap_or(Theme::default().colour),
        logo: given("logo").and_then(|field| picture(&field)),
        seal: given("seal").and_then(|field| picture(&field)),
        footer: String::new(),
    }
}

fn colour(field: &Field<'_>) -> Option<Colour> {
    let text = field.text()?;
    Colour::parse(&text).or_else(|| {
        let ctx = serde_json::json!({"pattern": "^(#[0-9A-Fa-f]{6})?$"});
        field.refuse("string_pattern_mismatch", "should be a colour of the form #2B4C7E", Some(ctx))
    })
}

fn picture(field: &Field<'_>) -> Option<Arc<Picture>> {
    let uri = field.text()?;
    Picture::from_data_uri(&uri).map_err(|error| field.refuse::<()>("value_error", error.message(), None)).ok()
}

/// Reads `bank_transfer`. [`crate::document`] checks the required members.
pub(super) fn bank(object: &Object<'_>) -> Option<BankAccount> {
    let given = object.nullable("bank_transfer")?.object()?;
    Some(BankAccount {
        bank_name: given.nullable_text("bank_name"),
        bank_code: given.nullable_text("bank_code"),
        branch_name: given.nullable_text("branch_name"),
        branch_code: given.nullable_text("branch_code"),
        account_type: given.nullable_text("account_type"),
        account_number: given.nullable_text("account_number"),
        account_holder: given.nullable_text("account_holder"),
        account_holder_kana: given.nullable_text("account_holder_kana"),
        note: given.nullable_text("note"),
    })
}

/// Reads `withholding` of a document.
pub(super) fn withholding(object: &Object<'_>) -> Option<Withholding> {
    let given = object.nullable("withholding")?.object()?;
    let lines = given.nullable("lines").and_then(|field| field.list(LINES_MAX));
    let place = |field: &Field<'_>| field.integer_within(0, LINES_MAX as i64 - 1).map(|place| place as usize);
    let basis = given.nullable("basis").and_then(|field| {
        let of_name = |name: &str| match name {
            "tax_exclusive" => Some(Basis::Exclusive),
            "tax_inclusive" => Some(Basis::Inclusive),
            _ => None,
        };
        field.choice(&["tax_exclusive", "tax_inclusive"], of_name)
    });
    Some(Withholding {
        category: given.nullable("category").and_then(|field| remuneration(&field)).unwrap_or_default().category,
        basis: basis.unwrap_or_default(),
        amount: given.nullable("amount").and_then(|field| field.integer_within(0, YEN_MAX)),
        lines: lines.map(|lines| lines.iter().filter_map(place).collect()),
    })
}
