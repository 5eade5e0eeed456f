//! Lists that are compared: the two sides of a reconciliation, and registration numbers with published records
//! (specification, ReconcileIn, RegistrationVerifyIn and RegistrationMonitorIn).

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use time::Date;

use super::Refused;
use super::field::{Field, Object, body_within};
use crate::document::DISCLAIMER;
use crate::limit::{Limit, Stopped};
use crate::reconcile::{Match, NameKind, Record, amount, key, reconcile};
use crate::registration::{Checked, Finding, Monitored, Snapshot, Status, check, monitor};

/// Largest number of records of a side (B35).
const ROWS_MAX: usize = 20_000;
/// Largest number of registration numbers in a request: to verify (B36), and to monitor.
const NUMBERS_MAX: usize = 1_000;
const WATCH_MAX: usize = 100_000;
/// Largest number of characters of a name that is compared. With the bound on the rows and the steps of the search for
/// groups (`crate::reconcile`), this bounds the work of a reconciliation.
const NAME_CHARACTERS_MAX: usize = 256;
/// Largest number of characters of `source`, which each entry of the audit log repeats.
const SOURCE_CHARACTERS_MAX: usize = 200;
/// Largest amount tolerance, in yen.
const TOLERANCE_MAX: i64 = 999_999_999_999;

/// Left and right records that belong together.
#[derive(Serialize)]
struct Group<'a> {
    left: Vec<Placed<'a>>,
    right: Vec<Placed<'a>>,
    normalized_key: &'a str,
    difference: Value,
}

/// A record with its index.
#[derive(Serialize)]
struct Placed<'a> {
    index: usize,
    record: &'a RawValue,
}

/// A record without a match on the other side.
#[derive(Serialize)]
struct Alone<'a> {
    index: usize,
    record: &'a RawValue,
    normalized_key: &'a str,
    reason: &'static str,
}

/// The answer to a reconciliation.
#[derive(Serialize)]
struct Answer<'a> {
    matched: Vec<Group<'a>>,
    amount_mismatch: Vec<Group<'a>>,
    left_only: Vec<Alone<'a>>,
    right_only: Vec<Alone<'a>>,
    summary: Value,
    disclaimer: &'static str,
}

/// A side of a request.
struct Side<'a> {
    rows: Vec<Field<'a>>,
    records: Vec<Record>,
    /// For each record: true if its amount could be read.
    is_readable: Vec<bool>,
}

/// Reconciles the two lists in a body of `POST /v1/reconcile` (B35), and returns the answer as JSON. `matched` and
/// `amount_mismatch` are lists of groups with `left`, `right`, `normalized_key` and `difference`. `left_only` and
/// `right_only` are lists of records with a `reason`. `summary` has counts and sums.
///
/// # Errors
/// All faults of the body, or that the work was stopped.
pub fn reconciled(bytes: &[u8], limit: Limit<'_>) -> Result<String, Refused> {
    let order = body_within(bytes, limit, |object| {
        let text = |name| object.nullable(name).and_then(|field| field.text());
        let left_key = object.required("left_key").and_then(|field| field.text());
        let (right_key, left_amount) = (text("right_key").or_else(|| left_key.clone()), text("left_amount"));
        let right_amount = left_amount.as_ref().and(text("right_amount")).or_else(|| left_amount.clone());
        let kind = object
            .optional("kind")
            .and_then(|field| field.choice(&NameKind::NAMES, NameKind::of_name))
            .unwrap_or_default();
        let tolerance =
            object.optional("amount_tolerance").and_then(|field| field.integer_within(0, TOLERANCE_MAX)).unwrap_or(0);
        let left = side(object, "left", left_key.as_deref(), left_amount.as_deref(), kind);
        let right = side(object, "right", right_key.as_deref(), right_amount.as_deref(), kind);
        let (left, right) = (left?, right?);
        object.faults().is_empty().then(|| answer(&left, &right, Decimal::from(tolerance), limit))
    });
    Ok(order??)
}

fn side<'a>(
    object: &Object<'a>,
    name: &'static str,
    key_name: Option<&str>,
    amount_name: Option<&str>,
    kind: NameKind,
) -> Option<Side<'a>> {
    let rows = object.required(name)?.list(ROWS_MAX)?;
    let (mut records, mut is_readable) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
    for row in &rows {
        let (Some(members), Some(key_name)) = (row.object(), key_name) else { continue };
        let Some(name) = members.named(key_name).and_then(plain) else {
            let expected = format!("should have the member '{key_name}' as a text or a number");
            let _: Option<()> = row.refuse("missing", &expected, None);
            continue;
        };
        if name.chars().nth(NAME_CHARACTERS_MAX).is_some() {
            let expected = format!("should have at most {NAME_CHARACTERS_MAX} characters in the member '{key_name}'");
            let ctx = json!({"max_length": NAME_CHARACTERS_MAX});
            let _: Option<()> = row.refuse("string_too_long", &expected, Some(ctx));
            continue;
        }
        let found = amount_name.map(|name| members.named(name).and_then(plain).and_then(|text| amount(&text)));
        is_readable.push(!matches!(found, Some(None)));
        records.push(Record { key: key(kind, &name), amount: found.flatten() });
    }
    (records.len() == rows.len()).then_some(Side { rows, records, is_readable })
}

/// Reads a text, or a number as written in the body.
fn plain(raw: &RawValue) -> Option<String> {
    let is_number = raw.get().starts_with(|first: char| first == '-' || first.is_ascii_digit());
    if is_number { Some(raw.get().to_owned()) } else { serde_json::from_str(raw.get()).ok() }
}

fn answer(left: &Side<'_>, right: &Side<'_>, tolerance: Decimal, limit: Limit<'_>) -> Result<String, Stopped> {
    let ((left_places, left_records), (right_places, right_records)) = (left.readable(), right.readable());
    let found = reconcile(&left_records, &right_records, tolerance, limit)?;
    let group = |one: &Match| Group {
        left: one.left.iter().map(|at| left.placed(left_places[*at])).collect(),
        right: one.right.iter().map(|at| right.placed(right_places[*at])).collect(),
        normalized_key: &left.records[left_places[one.left[0]]].key,
        difference: yen(one.difference),
    };
    let (matched, amount_mismatch): (Vec<_>, Vec<_>) =
        (found.matched.iter().map(group).collect(), found.amount_mismatch.iter().map(group).collect());
    let (left_only, right_only) =
        (left.alone(&left_places, &found.left_only), right.alone(&right_places, &found.right_only));
    let mut summary = json!({
        "left": left.rows.len(), "right": right.rows.len(), "matched": matched.len(), "amount_mismatch": amount_mismatch.len(),
        "left_only": left_only.len(), "right_only": right_only.len(), "left_total": left.total(), "right_total": right.total(),
    });
    if found.groups_cut > 0 {
        summary["groups_cut"] = json!(found.groups_cut);
    }
    let answer = Answer { matched, amount_mismatch, left_only, right_only, summary, disclaimer: DISCLAIMER };
    Ok(serde_json::to_string(&answer).expect("an answer is JSON"))
}

impl<'a> Side<'a> {
    /// Returns the indexes in the request of the records that can be compared, and these records.
    fn readable(&self) -> (Vec<usize>, Vec<Record>) {
        let kept = self.records.iter().enumerate().filter(|(at, _)| self.is_readable[*at]);
        kept.map(|(at, record)| (at, record.clone())).unzip()
    }

    fn placed(&self, at: usize) -> Placed<'a> {
        Placed { index: at, record: self.rows[at].raw_value() }
    }

    /// Collects the records without a match and the records with an unreadable amount, in the order of the request.
    fn alone(&self, places: &[usize], found: &[usize]) -> Vec<Alone<'_>> {
        let unreadable = (0..self.rows.len()).filter(|at| !self.is_readable[*at]);
        let mut all: Vec<usize> = found.iter().map(|at| places[*at]).chain(unreadable).collect();
        all.sort_unstable();
        let alone = |at: usize| {
            let record = &self.records[at];
            let reason = match self.is_readable[at] {
                _ if record.key.is_empty() => "no_key",
                true => "no_match",
                false => "amount_unreadable",
            };
            Alone { index: at, record: self.rows[at].raw_value(), normalized_key: &record.key, reason }
        };
        all.into_iter().map(alone).collect()
    }

    /// Adds up the amounts. Null without amounts.
    fn total(&self) -> Value {
        let mut amounts = self.records.iter().filter_map(|record| record.amount).peekable();
        if amounts.peek().is_none() {
            return Value::Null;
        }
        amounts.try_fold(Decimal::ZERO, |sum, amount| sum.checked_add(amount)).map_or(Value::Null, yen)
    }
}

/// Writes a whole amount as a number, and any other amount as a text.
fn yen(amount: Decimal) -> Value {
    match amount.to_i64().filter(|_| amount.fract().is_zero()) {
        Some(whole) => json!(whole),
        None => json!(amount.normalize().to_string()),
    }
}

/// The published records in a request.
#[derive(Clone, Debug, Default)]
pub struct Published {
    /// The records. `None` means that the request has no records.
    pub snapshot: Option<Snapshot>,
    /// SHA-256 of the text of the records, in hexadecimal.
    pub sha256: Option<String>,
    /// The reference date, for which the status is determined.
    pub as_of: Option<Date>,
    /// Source of the records, in the caller's words.
    pub source: Option<String>,
}

impl Published {
    /// The value of `basis` in answers.
    fn basis(&self) -> &'static str {
        if self.snapshot.is_some() { "records" } else { "format_only" }
    }
}

/// Registration numbers to verify (B36).
#[derive(Clone, Debug)]
pub struct Verification {
    /// The registration numbers as sent.
    pub numbers: Vec<String>,
    /// The published records.
    pub published: Published,
}

/// Registration numbers to monitor (B38).
#[derive(Clone, Debug)]
pub struct Watch {
    /// The registration numbers as sent.
    pub numbers: Vec<String>,
    /// The published records.
    pub published: Published,
}

/// Reads a body of `POST /v1/registration/verify`.
///
/// # Errors
/// All faults of the body, or that the work was stopped.
pub fn verification(bytes: &[u8], limit: Limit<'_>) -> Result<Verification, Refused> {
    body_within(bytes, limit, |object| {
        let numbers = numbers(object, "numbers", NUMBERS_MAX);
        let published = published(object);
        Some(Verification { numbers: numbers?, published })
    })
}

/// Reads a body of `POST /v1/registration/monitor`.
///
/// # Errors
/// All faults of the body, or that the work was stopped.
pub fn watch(bytes: &[u8], limit: Limit<'_>) -> Result<Watch, Refused> {
    body_within(bytes, limit, |object| {
        let numbers = numbers(object, "watch", WATCH_MAX);
        let published = published(object);
        Some(Watch { numbers: numbers?, published })
    })
}

fn numbers(object: &Object<'_>, name: &'static str, most: usize) -> Option<Vec<String>> {
    let fields = object.required(name)?.list(most)?;
    Some(fields.iter().filter_map(Field::text).collect())
}

fn published(object: &Object<'_>) -> Published {
    let as_of = object.nullable("as_of").and_then(|field| field.date());
    let source = object.nullable("source").and_then(|field| {
        let text = field.line()?;
        if text.chars().nth(SOURCE_CHARACTERS_MAX).is_none() {
            return Some(text);
        }
        let expected = format!("should have at most {SOURCE_CHARACTERS_MAX} characters");
        field.refuse("string_too_long", &expected, Some(json!({"max_length": SOURCE_CHARACTERS_MAX})))
    });
    let Some(records) = object.nullable("records") else { return Published { as_of, source, ..Published::default() } };
    let sha256: String = Sha256::digest(records.raw()).iter().map(|byte| format!("{byte:02x}")).collect();
    let refused = |error: serde_json::Error| {
        let expected = format!("should hold published records: {error}");
        object.faults().goes_on().then(|| records.refuse("value_error", &expected, None))?
    };
    let snapshot = Snapshot::from_json(records.raw(), object.faults().limit()).map_or_else(refused, Some);
    Published { snapshot, sha256: Some(sha256), as_of, source }
}

impl Verification {
    /// Verifies each number, in the order of the request. `today`: the date in Tokyo.
    ///
    /// # Errors
    /// When the limit stops the work.
    pub fn checked(&self, today: Date, limit: Limit<'_>) -> Result<Vec<Checked<'_>>, Stopped> {
        let as_of = self.published.as_of.unwrap_or(today);
        let checked = |number: &String| limit.check().map(|()| check(number, self.published.snapshot.as_ref(), as_of));
        self.numbers.iter().map(checked).collect()
    }

    /// Makes the answer. Its `results` come from [`Verification::checked`]; `audit` is null until the caller has logged
    /// them.
    pub fn answer(&self, checked: &[Checked<'_>], today: Date) -> Value {
        let basis = self.published.basis();
        json!({
            "results": checked.iter().map(|one| result(one, basis)).collect::<Vec<_>>(),
            "as_of": self.published.as_of.unwrap_or(today).to_string(),
            "source": self.published.source,
            "audit": null,
            "disclaimer": DISCLAIMER,
        })
    }
}

impl Watch {
    /// Checks each number. `today`: the date in Tokyo. Without published records, only the form is checked.
    ///
    /// # Errors
    /// When the limit stops the work.
    pub fn found(&self, today: Date, limit: Limit<'_>) -> Result<Monitored<'_>, Stopped> {
        monitor(&self.numbers, self.published.snapshot.as_ref(), self.published.as_of.unwrap_or(today), limit)
    }

    /// Makes the answer: the numbers from [`Watch::found`] in `alerts`, `ok`, `not_found` and `format_only`; `audit`
    /// is null until the caller has logged them.
    pub fn answer(&self, found: &Monitored<'_>, today: Date) -> Value {
        let basis = self.published.basis();
        let group = |checked: &[Checked<'_>]| checked.iter().map(|one| result(one, basis)).collect::<Vec<_>>();
        json!({
            "alerts": group(&found.alerts),
            "ok": group(&found.ok),
            "not_found": group(&found.not_found),
            "format_only": group(&found.format_only),
            "basis": basis,
            "checked": self.numbers.len(),
            "as_of": self.published.as_of.unwrap_or(today).to_string(),
            "source": self.published.source,
            "audit": null,
            "disclaimer": DISCLAIMER,
        })
    }
}

fn result(checked: &Checked<'_>, basis: &str) -> Value {
    let date = |date: Option<Date>| date.map(|date| date.to_string());
    let registration = checked.entry.map(|entry| entry.registration);
    let ends_on = match checked.finding {
        Finding::Status(Status::Active { ends_on }) => ends_on,
        _ => None,
    };
    json!({
        "number": checked.given,
        "normalized": checked.normalized,
        "format_valid": checked.is_check_digit_valid.is_some(),
        "check_digit_valid": checked.is_check_digit_valid,
        "status": checked.finding.name(),
        "status_ja": checked.finding.name_ja(),
        "name": checked.entry.map(|entry| entry.name.as_str()).filter(|name| !name.is_empty()),
        "registered_on": date(registration.map(|dates| dates.registered_on)),
        "revoked_on": date(registration.and_then(|dates| dates.revoked_on)),
        "expired_on": date(registration.and_then(|dates| dates.expired_on)),
        "ends_on": date(ends_on),
        "warnings": checked.warnings,
        "basis": basis,
    })
}

#[cfg(test)]
mod tests;
