//! Payment records of a year, from payments or from transfers (specification, WithholdingRecordsIn and
//! TransfersWithholdingIn; B31, B33).

use std::collections::BTreeMap;

use unicode_normalization::UnicodeNormalization;

use super::fault::{Fault, Place};
use super::field::{Field, Object, body};
use super::{Given, parts};
use crate::document::Theme;
use crate::payment_record::etax::{self, Payer};
use crate::payment_record::transfers::{self, Declaration};
use crate::payment_record::yearly::{Payee, Yearly};
use crate::payment_record::{Payment, records as records_of};
use crate::personal_number::is_personal_number;
use crate::registration::corporate_check_digit;
use crate::rounding::YEN_MAX;
use crate::tax::consumption::Rate;
use crate::tax::withholding::{Category, Circumstances};

/// The first year with known rates, and the last accepted year.
const YEARS: (i64, i64) = (2013, 2999);
/// Largest number of values of a list. The size of a body is bounded separately.
const VALUES_MAX: usize = 200_000;
/// Largest number of calendar days in the period that a payment covers.
const DAYS_MAX: i64 = 366;

/// The records that a body asks for.
#[derive(Clone, Debug)]
pub struct RecordsOrder {
    /// The records.
    pub yearly: Yearly,
    /// The colour of the PDF.
    pub theme: Theme,
    /// The path to each payee in the body.
    places: Vec<Vec<Place>>,
}

impl RecordsOrder {
    /// Writes the text for the tax office ([`Yearly::etax`]).
    ///
    /// # Errors
    /// The items that cannot be written, each with its path and the character at fault.
    pub fn etax(&self) -> Result<Vec<u8>, Vec<Fault>> {
        let payer = |name: &'static str| vec!["body".into(), "payer".into(), name.into()];
        let required = [("name", &self.yearly.payer.name), ("address", &self.yearly.payer.address)];
        let missing = required.into_iter().filter(|(_, text)| text.trim().is_empty());
        let missing: Vec<Fault> = missing
            .map(|(name, _)| Fault::new("value_error", payer(name), "is required when format is etax_csv"))
            .collect();
        if !missing.is_empty() {
            return Err(missing);
        }
        self.yearly.etax().map_err(|faults| {
            let mut told: Vec<Fault> = faults.into_iter().map(|(payee, fault)| self.etax_fault(payee, fault)).collect();
            // each record repeats the faults of the payer, so repeated faults are removed
            told.dedup();
            told
        })
    }

    fn etax_fault(&self, payee: usize, fault: etax::RecordError) -> Fault {
        let at = |item: &'static str| -> Vec<Place> {
            if let Some(name) = item.strip_prefix("payer.") {
                let name = if name == "phone" { "tel" } else { name };
                return vec!["body".into(), "payer".into(), name.into()];
            }
            let mut at = self.places[payee].clone();
            at.push(item.strip_prefix("payee.").unwrap_or("payments").into());
            at
        };
        match fault {
            etax::RecordError::Character(item, place, character) => {
                let expected = format!(
                    "has a character that JIS X 0208 lacks: '{character}' (U+{:04X}) at place {place}. Use other characters; write a name in kana",
                    u32::from(character)
                );
                let ctx = serde_json::json!({"position": place, "character": character});
                Fault { ctx: Some(ctx), ..Fault::new("value_error", at(item), &expected) }
            }
            etax::RecordError::TooLong(item, most) => Fault::new(
                "value_error",
                at(item),
                &format!("should have at most {most} characters when format is etax_csv"),
            ),
            etax::RecordError::Number("payer.phone") => Fault::new(
                "value_error",
                at("payer.phone"),
                "should have at most 15 characters, only digits, hyphens and brackets, when format is etax_csv",
            ),
            etax::RecordError::Number(item) if item.ends_with("number") => {
                Fault::new("value_error", at(item), "should be 12 or 13 digits when format is etax_csv")
            }
            etax::RecordError::Number(item) => Fault::new(
                "value_error",
                at(item),
                "should add up to at most 9,999,999,999 yen for each kind of payment when format is etax_csv",
            ),
            etax::RecordError::Year => {
                let loc = vec!["body".into(), "year".into()];
                Fault::new("value_error", loc, "should be 2019 or later when format is etax_csv")
            }
        }
    }
}

/// Makes the records that a body of `POST /v1/withholding-records` asks for. In addition to the members of the
/// specification, a payment may have `unpaid`, for a payment that became payable (支払の確定) in the year but is not made
/// yet, and `days` and `salary` of the period that the payment covers ([`Circumstances`]).
///
/// # Errors
/// All faults of the body.
pub fn records(bytes: &[u8], given: &Given<'_>) -> Result<RecordsOrder, Vec<Fault>> {
    body(bytes, |object| {
        let mut order = Reading::of(object);
        let fields = object.required("payees").and_then(|field| field.list(VALUES_MAX)).unwrap_or_default();
        for (at, field) in fields.iter().enumerate() {
            if let Some(object) = field.object() {
                order.payee(at, &object, field);
            }
        }
        let latest = order.payments.iter().filter_map(|payment| payment.paid_on).max();
        order.finish(object, latest.unwrap_or(given.today).year())
    })
}

/// Makes the records that a body of `POST /v1/withholding-records/from_transfers` asks for.
///
/// # Errors
/// All faults of the body.
pub fn records_of_transfers(bytes: &[u8], given: &Given<'_>) -> Result<RecordsOrder, Vec<Fault>> {
    body(bytes, |object| {
        let mut order = Reading::of(object);
        let category = object.optional("default_category").and_then(|field| parts::category(&field));
        let declarations = declarations(object);
        let fields = object.required("transfers").and_then(|field| field.list(VALUES_MAX)).unwrap_or_default();
        let values: Vec<_> = fields.iter().filter_map(Field::free_object).collect();
        if values.len() < fields.len() {
            return None;
        }
        let asked = order.year.unwrap_or(given.today.year());
        let read = transfers::read(&values, &declarations, category.unwrap_or(Category::Manuscript), asked);
        let found = match read {
            Ok(found) => found,
            Err(problems) => {
                object.faults().add_problems(&object.at("transfers"), problems);
                return None;
            }
        };
        for payee in found.payees {
            let needs_declaration = payee.declaration.is_none();
            let declaration = payee.declaration.unwrap_or_default();
            let name = Some(declaration.name).filter(|name| !name.is_empty()).unwrap_or_else(|| payee.account.clone());
            let mut place = object.at("payee_map");
            place.push(Place::Name(payee.account.clone().into()));
            order.places.push(place);
            order.descriptions.push(declaration.description);
            order.payees.push(Payee {
                name,
                address: declaration.address,
                number: declaration.number,
                is_individual: declaration.is_individual,
                account: Some(payee.account),
                needs_declaration,
            });
        }
        order.details = found.payments.iter().map(|payment| order.descriptions[payment.payee].clone()).collect();
        order.payments = found.payments;
        order.skipped = found.skipped;
        let latest = order.payments.iter().filter_map(|payment| payment.paid_on).max();
        order.finish(object, latest.unwrap_or(given.today).year())
    })
}

/// The parts of the body that were read so far.
#[derive(Default)]
struct Reading {
    year: Option<i32>,
    payer: Payer,
    theme: Theme,
    payees: Vec<Payee>,
    places: Vec<Vec<Place>>,
    /// The description of each payee, for transfers.
    descriptions: Vec<String>,
    payments: Vec<Payment>,
    details: Vec<String>,
    skipped: Vec<transfers::Skipped>,
    warnings: Vec<String>,
}

impl Reading {
    fn of(object: &Object<'_>) -> Reading {
        let year = object.nullable("year").and_then(|field| field.integer_within(YEARS.0, YEARS.1));
        Reading {
            year: year.and_then(|year| i32::try_from(year).ok()),
            payer: object
                .nullable("payer")
                .and_then(|field| field.object())
                .map(|object| payer(&object))
                .unwrap_or_default(),
            theme: parts::theme(object),
            ..Reading::default()
        }
    }

    fn payee(&mut self, at: usize, object: &Object<'_>, field: &Field<'_>) {
        let name = object.required("name").and_then(|field| field.text()).unwrap_or_default();
        let is_individual = object.optional("is_individual").and_then(|field| field.boolean()).unwrap_or(true);
        let payments = object.required("payments").and_then(|field| field.list(VALUES_MAX)).unwrap_or_default();
        for payment in &payments {
            if let Some((payment, detail)) = payment.object().map(|object| read_payment(at, &object)) {
                self.payments.push(payment);
                self.details.push(detail);
            }
        }
        self.payees.push(Payee {
            name,
            address: object.text("address"),
            number: number(object),
            is_individual,
            account: None,
            needs_declaration: false,
        });
        self.places.push(field.at.clone());
    }

    /// Makes the records. `year`: the year of the records if the request states no year.
    fn finish(mut self, object: &Object<'_>, year: i32) -> Option<RecordsOrder> {
        if !object.faults().is_empty() {
            return None;
        }
        let year = self.year.unwrap_or(year);
        self.warn(year);
        let is_individual: Vec<bool> = self.payees.iter().map(|payee| payee.is_individual).collect();
        let Some(records) = records_of(&is_individual, &self.payments, year) else {
            let expected =
                format!("should be {} or later, and the sums of the payments should be at most {YEN_MAX} yen", YEARS.0);
            object.fault("year", &expected);
            return None;
        };
        let yearly = Yearly {
            year,
            payer: self.payer,
            payees: self.payees,
            payments: self.payments,
            details: self.details,
            records,
            skipped: self.skipped,
            warnings: self.warnings,
        };
        Some(RecordsOrder { yearly, theme: self.theme, places: self.places })
    }

    fn warn(&mut self, year: i32) {
        let undated = self.payments.iter().filter(|payment| payment.paid_on.is_none()).count();
        if undated > 0 {
            self.warnings.push(format!("{undated} payments without a date are counted as payments of {year}"));
        }
        for (at, payee) in self.payees.iter().enumerate() {
            let digits: String = payee.number.trim().nfkc().collect();
            let warning = match digits.len() {
                0 => continue,
                12 if !payee.is_individual => "has the number of an individual, and is_individual is false",
                13 if payee.is_individual => "has the number of a corporation, and is_individual is true",
                12 if is_personal_number(&digits) => continue,
                13 if is_corporate_number(&digits) => continue,
                _ => "has a number that is neither a personal nor a corporate number",
            };
            self.warnings.push(format!("payee {at} {warning}"));
        }
        let undeclared = self.payees.iter().filter(|payee| payee.needs_declaration).count();
        if undeclared > 0 {
            self.warnings
                .push(format!("{undeclared} accounts are not in payee_map: their names and addresses are missing"));
        }
    }
}

/// Whether a text is 13 digits with the right check digit.
fn is_corporate_number(digits: &str) -> bool {
    let digits: Option<Vec<u8>> = digits.chars().map(|digit| digit.to_digit(10).map(|digit| digit as u8)).collect();
    let digits: Option<[u8; 13]> = digits.and_then(|digits| digits.try_into().ok());
    digits.is_some_and(|[check, base @ ..]| corporate_check_digit(base) == check)
}

fn payer(object: &Object<'_>) -> Payer {
    Payer {
        address: object.text("address"),
        name: object.text("name"),
        phone: object.text("tel"),
        number: number(object),
    }
}

/// Reads an individual or corporate number. A fault never repeats the number.
fn number(object: &Object<'_>) -> String {
    let Some(field) = object.optional("number") else { return String::new() };
    let text = serde_json::from_str::<String>(field.raw()).ok();
    text.or_else(|| field.refuse_unseen("string_type", "should be a text")).unwrap_or_default()
}

fn read_payment(payee: usize, object: &Object<'_>) -> (Payment, String) {
    let amount = object.required("amount").and_then(|field| field.yen());
    let category = object.optional("category").and_then(|field| parts::category(&field));
    let whole = |name, least, most| object.optional(name).and_then(|field| field.integer_within(least, most));
    let circumstances = Circumstances {
        days: whole("days", 1, DAYS_MAX).unwrap_or(0) as u32,
        salary: whole("salary", 0, YEN_MAX).unwrap_or(0),
    };
    let payment = Payment {
        payee,
        category: category.unwrap_or(Category::Manuscript),
        amount: amount.unwrap_or(0),
        consumption_tax: object.optional("consumption_tax").and_then(|field| field.yen()).unwrap_or(0),
        paid_on: object.nullable("paid_on").and_then(|field| field.date()),
        is_unpaid: object.optional("unpaid").and_then(|field| field.boolean()).unwrap_or(false),
        circumstances,
    };
    let description = object.text("description");
    (payment, Some(object.text("detail")).filter(|detail| !detail.is_empty()).unwrap_or(description))
}

/// Reads the declarations about connected accounts, by account id (fact sheet of the back office, 7).
fn declarations(object: &Object<'_>) -> BTreeMap<String, Declaration> {
    let Some(map) = object.optional("payee_map").and_then(|field| field.object()) else { return BTreeMap::new() };
    map.all().filter_map(|(account, field)| Some((account.to_owned(), declaration(&field.object()?)))).collect()
}

fn declaration(object: &Object<'_>) -> Declaration {
    let word = |name, allowed: &[&str]| {
        let of_name = |word: &str| allowed.contains(&word).then(|| word.to_owned());
        object.nullable(name).and_then(|field| field.choice(allowed, of_name))
    };
    let is_true = |name| object.nullable(name).and_then(|field| field.boolean());
    let tax = word("tax", &["separate", "included", "none"]);
    // `tax_included` is the readings' name for `tax` (B28b)
    let is_included = is_true("tax_included").unwrap_or(true);
    let amount_is = word("amount_is", &["gross", "net_of_withholding"]);
    Declaration {
        name: object.nullable_text("name"),
        address: object.nullable_text("address"),
        number: number(object),
        is_individual: is_true("is_individual").unwrap_or(true),
        category: object.nullable("category").and_then(|field| parts::category(&field)),
        description: object.nullable_text("description"),
        is_tax_separate: tax.map_or(!is_included, |tax| tax == "separate"),
        tax_rate: object.nullable("tax_rate").and_then(|field| parts::rate(&field)).unwrap_or(Rate::Standard),
        is_net: amount_is.is_some_and(|amount| amount == "net_of_withholding"),
        is_non_resident: is_true("non_resident").unwrap_or(false),
    }
}
