//! Settings of an account: an API key with a plan, the issuer's profile, the monthly cap (specification, IssueKeyIn,
//! ProfileIn and CapIn).

use rust_decimal::Decimal;
use time::Date;

use super::field::{Object, body, is_hidden};
use super::{Fault, Given, parts};
use crate::document::{Draft, Issuer, Kind, Line, Theme};
use crate::payment_import::Provider;
use crate::rounding::{Rounding, YEN_MAX};
use crate::tax::consumption::{Basis, Rate};

/// Plans of the interface (B4).
const PLANS: [&str; 6] = ["free", "payg", "starter", "pro", "scale", "enterprise"];
/// Largest number of characters of a label, and of an e-mail address (RFC 5321).
const LABEL_MAX: usize = 200;
const EMAIL_MAX: usize = 254;
/// Largest length of a provider's signing secret, in bytes.
const SECRET_MAX: usize = 200;

/// A request for an API key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyOrder {
    /// One of the plans.
    pub plan: String,
    /// Label of the key.
    pub customer: String,
    /// Monthly cap in yen; 0 means no cap.
    pub cap_yen: i64,
}

/// Delivery of the documents that are made from payments (B11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeliveryMode {
    /// Documents are stored.
    #[default]
    Store,
    /// Documents are sent to the buyer.
    Email,
    /// Documents are stored and sent.
    Both,
}

impl DeliveryMode {
    /// Values of `delivery_mode`.
    pub const NAMES: [&str; 3] = ["store", "email", "both"];

    /// Finds the mode that a value of `delivery_mode` names.
    pub fn of_name(name: &str) -> Option<DeliveryMode> {
        Some(match name {
            "store" => DeliveryMode::Store,
            "email" => DeliveryMode::Email,
            "both" => DeliveryMode::Both,
            _ => return None,
        })
    }

    /// The value of `delivery_mode` for this mode.
    pub fn name(self) -> &'static str {
        DeliveryMode::NAMES[self as usize]
    }
}

/// Settings for the documents of an account's payments.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The issuer of the documents.
    pub issuer: Issuer,
    /// Delivery of the documents to the buyer.
    pub delivery_mode: DeliveryMode,
    /// E-mail address for copies of sent documents; may be empty.
    pub delivery_email: String,
    /// The tax rate for payments and line items without their own rate.
    pub default_rate: Rate,
    /// The kind of the documents.
    pub kind: Kind,
    /// Colour, logo and seal.
    pub theme: Theme,
    /// `brand_color` as it was given; may be empty.
    pub brand_color: String,
    /// The provider whose events come to the ingest URL.
    pub provider: Provider,
    /// For what the money of receipts was paid (但し書き); empty: the first line's name.
    pub proviso: String,
    /// True if refunds below 10,000 yen get no return invoice.
    pub skip_small_returns: bool,
    /// True if the request asks for a new ingest URL (B9).
    pub rotate_token: bool,
    /// The secret with which the provider signs events (B13). Empty means no secret. `None` means that the request does
    /// not state a secret.
    pub provider_signing_secret: Option<String>,
}

/// Reads a body of `POST /v1/admin/keys`: the key to issue.
///
/// # Errors
/// All faults of the body.
pub fn key_order(bytes: &[u8]) -> Result<KeyOrder, Vec<Fault>> {
    body(bytes, |object| {
        let of_name = |name: &str| PLANS.contains(&name).then(|| name.to_owned());
        let plan = object.optional("plan").and_then(|field| field.choice(&PLANS, of_name));
        let customer = bounded(object, "customer", LABEL_MAX);
        // documents leave such characters out, but a label is stored as it is
        if customer.contains(is_hidden) {
            object.fault("customer", "should be one line without control characters and marks of direction");
        }
        Some(KeyOrder { plan: plan.unwrap_or_else(|| "payg".to_owned()), customer, cap_yen: cap_of(object) })
    })
}

/// Reads a body of `POST /v1/cap`: the new cap in yen. 0 means no cap.
///
/// # Errors
/// All faults of the body.
pub fn cap(bytes: &[u8]) -> Result<i64, Vec<Fault>> {
    body(bytes, |object| Some(cap_of(object)))
}

fn cap_of(object: &Object<'_>) -> i64 {
    object.optional("cap_yen").and_then(|field| field.integer_within(0, YEN_MAX)).unwrap_or(0)
}

fn bounded(object: &Object<'_>, name: &'static str, most: usize) -> String {
    let text = object.text(name);
    if text.chars().count() > most {
        object.fault(name, &format!("should have at most {most} characters"));
    }
    text
}

/// Reads a body of `POST /v1/account/profile`: the new profile. In addition to the members of the specification, the
/// body may have `issuer_address`, `issuer_tel` and `proviso`.
///
/// # Errors
/// All faults of the body, including those that would make documents with this profile invalid.
pub fn profile(bytes: &[u8], given: &Given<'_>) -> Result<Profile, Vec<Fault>> {
    body(bytes, |object| {
        let mode = object
            .optional("delivery_mode")
            .and_then(|field| field.choice(&DeliveryMode::NAMES, DeliveryMode::of_name));
        let filled = |name| object.optional(name).filter(|field| field.raw() != "\"\"");
        let kind = filled("document_type").and_then(|field| parts::kind(&field)).unwrap_or(Kind::Receipt);
        let profile = Profile {
            issuer: parts::issuer(object),
            delivery_mode: mode.unwrap_or_default(),
            delivery_email: email(object),
            default_rate: parts::default_rate(object),
            kind,
            theme: parts::looks(object, Object::optional),
            brand_color: object.text("brand_color"),
            provider: parts::provider(object),
            proviso: object.text("proviso"),
            skip_small_returns: object
                .optional("skip_small_returns")
                .and_then(|field| field.boolean())
                .unwrap_or(false),
            rotate_token: object.optional("rotate_token").and_then(|field| field.boolean()).unwrap_or(false),
            provider_signing_secret: secret(object),
        };
        let sample = sample(&profile, given.today);
        if let Err(problems) = sample.complete() {
            object.faults().add_problems(&["body".into()], problems);
        }
        Some(profile)
    })
}

/// Reads an e-mail address: a text with one `@` between other characters, or an empty text. Only sending an e-mail
/// shows whether the address works.
fn email(object: &Object<'_>) -> String {
    let text = bounded(object, "delivery_email", EMAIL_MAX);
    let is_address = match text.split_once('@') {
        None => text.is_empty(),
        Some((name, domain)) => !name.is_empty() && !domain.is_empty() && !domain.contains('@'),
    };
    // these characters separate or enclose addresses, so a text with them could stand for several addresses
    let is_odd = |c: char| c.is_whitespace() || is_hidden(c) || matches!(c, ',' | ';' | '<' | '>');
    if !is_address || text.chars().any(is_odd) {
        object.fault("delivery_email", "should be an e-mail address, or empty");
    }
    text
}

fn secret(object: &Object<'_>) -> Option<String> {
    let field = object.nullable("provider_signing_secret")?;
    // a line end that was copied with the secret would make every signature wrong
    let fits = |text: &String| text.len() <= SECRET_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
    let text = serde_json::from_str::<String>(field.raw()).ok().filter(fits);
    let expected = format!("should be a text of at most {SECRET_MAX} visible ASCII characters");
    text.or_else(|| field.refuse_unseen("string_type", &expected))
}

/// Makes the draft of a sample document with the settings of a profile.
fn sample(profile: &Profile, today: Date) -> Draft {
    let line =
        Line { name: "-".to_owned(), unit_price: Decimal::ONE, quantity: Decimal::ONE, rate: profile.default_rate };
    Draft {
        kind: profile.kind,
        number: "-".to_owned(),
        issue_date: today,
        due_date: None,
        issuer: profile.issuer.clone(),
        recipient: String::new(),
        recipient_number: None,
        honorific: String::new(),
        lines: vec![line],
        basis: Basis::Inclusive,
        rounding: Rounding::Floor,
        withholding: None,
        period: String::new(),
        payment_method: String::new(),
        // only a payment has the date of the sale, and this sample is made without a payment
        original_date: "-".to_owned(),
        original_number: String::new(),
        proviso: profile.proviso.clone(),
        bank: None,
        transfer_fee_note: String::new(),
        consignor: None,
        notes: String::new(),
        theme: profile.theme.clone(),
    }
}
