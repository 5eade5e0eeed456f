//! Payment records of a year, from payments or from transfers (specification, WithholdingRecordsIn and
//! TransfersWithholdingIn; B31, B33).

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::json;

use super::fault::{Fault, Place};
use super::field::{Field, Object, body_within};
use super::{Given, Refused, parts};
use crate::document::Theme;
use crate::payment_record::etax::{self, Item, Payer, Unwritable, Why};
use crate::payment_record::party_number::{NumberError, PartyNumber};
use crate::payment_record::transfers::{self, Declaration};
use crate::payment_record::yearly::{Payee, Yearly};
use crate::payment_record::{DAYS_MAX, DETAIL_MAX, Payment, Records, records as records_of, undated};
use crate::rounding::YEN_MAX;
use crate::tax::consumption::Rate;
use crate::tax::withholding::{Category, Circumstances, Remuneration};

/// The first year with known rates, and the last accepted year.
const YEARS: (i64, i64) = (2013, 2999);
/// Largest number of values of a list. The size of a body is bounded separately.
const VALUES_MAX: usize = 200_000;
/// Largest number of characters of a name or an address. The forms have room for this much.
const TEXT_MAX: usize = 200;
/// Largest number of characters of a telephone number.
const PHONE_MAX: usize = 50;

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
    /// Writes the text for the tax office, with warnings about what the text cuts.
    ///
    /// # Errors
    /// All that keeps the records from being filed ([`Yearly::filing`]), each with its path.
    pub fn etax(&self) -> Result<(Vec<u8>, Vec<String>), Vec<Fault>> {
        let filing = self.yearly.filing();
        let of_payer = filing.payer.iter().map(|fault| self.etax_fault(None, fault));
        let mut faults: Vec<Fault> = of_payer.collect();
        if filing.sheets > 0 && !filing.is_year_known {
            let loc = vec!["body".into(), "year".into()];
            faults.push(Fault::new("value_error", loc, "should be 2019 or later when format is etax_csv"));
        }
        for (payee, of_payee) in filing.payees.iter().enumerate() {
            faults.extend(of_payee.iter().map(|fault| self.etax_fault(Some(payee), fault)));
        }
        let mut warnings: Vec<String> =
            filing.cut.iter().map(|payee| format!("payee {payee}: a detail is cut to 20 characters")).collect();
        if filing.sheets == 0 {
            warnings.push("no payment record must be filed, so the file is empty".to_owned());
        }
        filing.into_text().map(|text| (text, warnings)).ok_or(faults)
    }

    /// Writes a fault of the payer (`payee` is `None`) or of a payee. A fault never repeats a number.
    fn etax_fault(&self, payee: Option<usize>, fault: &etax::Fault) -> Fault {
        let mut at = match payee {
            None => vec!["body".into(), "payer".into()],
            Some(payee) => self.places[payee].clone(),
        };
        // payments of a connected account are elsewhere in the body
        let is_account = payee.is_some_and(|payee| self.yearly.payees[payee].account.is_some());
        match fault.item {
            Item::Detail if is_account => at.push("description".into()),
            Item::Word | Item::Amount | Item::Notes if is_account => at = vec!["body".into(), "transfers".into()],
            item => at.push(item.member().into()),
        }
        let expected = match (fault.why, fault.item) {
            (Why::Missing, _) => "is required when format is etax_csv".to_owned(),
            (Why::Character(Unwritable { place, character }), item) => {
                let text = if item == Item::Detail { "has a detail with" } else { "has" };
                let advice = if item == Item::Name { "write the name in kana" } else { "use other characters" };
                let code = u32::from(character);
                format!(
                    "{text} a character that JIS X 0208 lacks: '{character}' (U+{code:04X}) at place {place}: {advice}"
                )
            }
            (Why::TooLong(most), _) => format!("should have at most {most} characters when format is etax_csv"),
            (Why::Form, Item::PayerPhone) => "should have at most 15 characters, only digits, hyphens and brackets, \
                when format is etax_csv"
                .to_owned(),
            (Why::Form, _) => "should be 12 or 13 digits when format is etax_csv".to_owned(),
            (Why::CheckDigit, _) => "has a wrong check digit: correct the number, or leave it out".to_owned(),
            (Why::TooLarge, _) => {
                "should add up to at most 9,999,999,999 yen for each kind of payment when format is etax_csv".to_owned()
            }
        };
        let ctx = match fault.why {
            Why::Character(Unwritable { place, character }) => Some(json!({"position": place, "character": character})),
            _ => None,
        };
        Fault { ctx, ..Fault::new("value_error", at, &expected) }
    }
}

/// Makes the records that a body of `POST /v1/withholding-records` asks for. In addition to the members of the
/// specification, a payment may have `unpaid`, for a payment that became payable (支払の確定) in the year but is not made
/// yet, and `days` and `salary` of the period that the payment covers ([`Circumstances`]).
///
/// # Errors
/// All faults of the body, or that the work was stopped.
pub fn records(bytes: &[u8], given: &Given<'_>) -> Result<RecordsOrder, Refused> {
    body_within(bytes, given.limit, |object| {
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
/// All faults of the body, or that the work was stopped.
pub fn records_of_transfers(bytes: &[u8], given: &Given<'_>) -> Result<RecordsOrder, Refused> {
    body_within(bytes, given.limit, |object| {
        let mut order = Reading::of(object);
        let default = object.optional("default_category").and_then(|field| parts::remuneration(&field));
        let declarations = declarations(object);
        let fields = object.required("transfers").and_then(|field| field.list(VALUES_MAX)).unwrap_or_default();
        let values: Vec<_> = fields.iter().filter_map(Field::free_object).collect();
        if values.len() < fields.len() {
            return None;
        }
        let asked = order.year.unwrap_or(given.today.year());
        let read = transfers::read(&values, &declarations, &default.unwrap_or_default(), asked);
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
            let mut place = object.at("payee_map");
            place.push(Place::Name(payee.account.clone().into()));
            order.places.push(place);
            order.payees.push(Payee {
                name: declaration.name,
                address: declaration.address,
                number: declaration.number,
                is_individual: declaration.is_individual,
                account: Some(payee.account),
                needs_declaration,
            });
        }
        (order.payments, order.places_of_payments) = (found.payments, found.places);
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
    payments: Vec<Payment>,
    /// For each payment, the index in the list of the payee's payments, or in the list of transfers.
    places_of_payments: Vec<usize>,
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
        let name = object.required("name").map(|field| bounded(&field, TEXT_MAX)).unwrap_or_default();
        let is_individual = object.optional("is_individual").and_then(|field| field.boolean()).unwrap_or(true);
        let payments = object.required("payments").and_then(|field| field.list(VALUES_MAX)).unwrap_or_default();
        for (place, payment) in payments.iter().enumerate() {
            if let Some(object) = payment.object() {
                self.payments.push(read_payment(at, &object));
                self.places_of_payments.push(place);
            }
        }
        self.payees.push(Payee {
            name,
            address: text_of(object, "address", TEXT_MAX),
            number: number(object),
            is_individual,
            account: None,
            needs_declaration: false,
        });
        self.places.push(field.at.clone());
    }

    /// Makes the records. `year`: the year of the records if the request states no year.
    fn finish(mut self, object: &Object<'_>, year: i32) -> Option<RecordsOrder> {
        if !object.faults().goes_on() || !object.faults().is_empty() {
            return None;
        }
        let year = self.year.unwrap_or(year);
        let undated = undated(&self.payments, year);
        if !undated.is_empty() {
            undated.into_iter().for_each(|at| object.faults().add(self.needs_date(at)));
            return None;
        }
        let is_individual: Vec<bool> = self.payees.iter().map(|payee| payee.is_individual).collect();
        let Some(records) = records_of(&is_individual, &self.payments, year) else {
            let expected =
                format!("should be {} or later, and the sums of the payments should be at most {YEN_MAX} yen", YEARS.0);
            object.fault("year", &expected);
            return None;
        };
        self.warn(year, &records);
        let yearly = Yearly {
            year,
            payer: self.payer,
            payees: self.payees,
            payments: self.payments,
            records,
            skipped: self.skipped,
            warnings: self.warnings,
        };
        Some(RecordsOrder { yearly, theme: self.theme, places: self.places })
    }

    /// The fault of a payment whose tax depends on its month.
    fn needs_date(&self, at: usize) -> Fault {
        let (payment, place) = (&self.payments[at], Place::Index(self.places_of_payments[at]));
        let loc = match self.payees[payment.payee].account {
            Some(_) => vec!["body".into(), "transfers".into(), place, "created".into()],
            None => [self.places[payment.payee].as_slice(), &["payments".into(), place, "paid_on".into()]].concat(),
        };
        let expected = format!(
            "is required for {} if a payee has several payments, because each month has one deduction",
            payment.category.name()
        );
        Fault::new("missing", loc, &expected)
    }

    /// Adds the warnings, in ASCII because response headers repeat them.
    fn warn(&mut self, year: i32, records: &Records) {
        let undated = self.payments.iter().filter(|payment| payment.paid_on.is_none()).count();
        if undated > 0 {
            self.warnings.push(format!("{undated} payments without a date are counted as payments of {year}"));
        }
        match PartyNumber::read(&self.payer.number) {
            Ok(_) => {}
            Err(error) => self.warnings.push(format!("the payer has a number {}", number_warning(error))),
        }
        let mut without_days = vec![0usize; self.payees.len()];
        for (at, payment) in self.payments.iter().enumerate() {
            let lacks_days = payment.category == Category::Hostess && payment.circumstances.days == 0;
            let is_counted = records.excluded.binary_search(&at).is_err() && self.payees[payment.payee].is_individual;
            without_days[payment.payee] += usize::from(lacks_days && is_counted);
        }
        for (at, payee) in self.payees.iter().enumerate() {
            match PartyNumber::read(&payee.number) {
                Ok(PartyNumber::Personal(_)) if !payee.is_individual => self
                    .warnings
                    .push(format!("payee {at} has the number of an individual, and is_individual is false")),
                Ok(PartyNumber::Corporate(_)) if payee.is_individual => {
                    self.warnings.push(format!("payee {at} has the number of a corporation, and is_individual is true"))
                }
                Ok(_) => {}
                Err(error) => self.warnings.push(format!("payee {at} has a number {}", number_warning(error))),
            }
            if without_days[at] > 0 {
                self.warnings.push(format!(
                    "payee {at}: hostess fees without days, of which 5,000 yen for one day are deducted: {}",
                    without_days[at]
                ));
            }
        }
        let is_cut = |payee: &usize| {
            let rows = &records.rows;
            let from = rows.partition_point(|row| row.payee < *payee);
            rows[from..].iter().take_while(|row| row.payee == *payee).any(|row| row.is_detail_cut)
        };
        let cut = (0..self.payees.len()).filter(is_cut);
        self.warnings.extend(cut.map(|at| format!("payee {at}: details are cut to {DETAIL_MAX} characters")));
        let undeclared = self.payees.iter().filter(|payee| payee.needs_declaration).count();
        if undeclared > 0 {
            self.warnings
                .push(format!("{undeclared} accounts are not in payee_map: their names and addresses are missing"));
        }
    }
}

fn number_warning(error: NumberError) -> &'static str {
    match error {
        NumberError::Form => "that is neither a personal nor a corporate number",
        NumberError::CheckDigit => "with a wrong check digit",
    }
}

/// Reads a text of at most this many characters.
fn bounded(field: &Field<'_>, characters_max: usize) -> String {
    let text = field.text().unwrap_or_default();
    if text.trim().chars().count() > characters_max {
        let ctx = json!({"max_length": characters_max});
        field.refuse::<()>("string_too_long", &format!("should have at most {characters_max} characters"), Some(ctx));
    }
    text
}

fn text_of(object: &Object<'_>, name: &'static str, characters_max: usize) -> String {
    object.optional(name).map(|field| bounded(&field, characters_max)).unwrap_or_default()
}

fn nullable_text_of(object: &Object<'_>, name: &'static str, characters_max: usize) -> String {
    object.nullable(name).map(|field| bounded(&field, characters_max)).unwrap_or_default()
}

fn payer(object: &Object<'_>) -> Payer {
    Payer {
        address: text_of(object, "address", TEXT_MAX),
        name: text_of(object, "name", TEXT_MAX),
        phone: text_of(object, "tel", PHONE_MAX),
        number: number(object),
    }
}

/// Reads an individual or corporate number. A fault never repeats the number.
fn number(object: &Object<'_>) -> String {
    let Some(field) = object.optional("number") else { return String::new() };
    let text = serde_json::from_str::<String>(field.raw()).ok();
    text.or_else(|| field.refuse_unseen("string_type", "should be a text")).unwrap_or_default()
}

fn read_payment(payee: usize, object: &Object<'_>) -> Payment {
    let amount = object.required("amount").and_then(|field| field.yen());
    let remuneration = object.optional("category").and_then(|field| parts::remuneration(&field));
    let Remuneration { category, word } = remuneration.unwrap_or_default();
    let whole = |name, least, most| object.optional(name).and_then(|field| field.integer_within(least, most));
    let (detail, description) = (object.text("detail"), object.text("description"));
    Payment {
        payee,
        category,
        word,
        detail: if detail.trim().is_empty() { description } else { detail },
        amount: amount.unwrap_or(0),
        consumption_tax: object.optional("consumption_tax").and_then(|field| field.yen()).unwrap_or(0),
        paid_on: object.nullable("paid_on").and_then(|field| field.date()),
        is_unpaid: object.optional("unpaid").and_then(|field| field.boolean()).unwrap_or(false),
        circumstances: Circumstances {
            days: whole("days", 1, DAYS_MAX).unwrap_or(0) as u32,
            salary: whole("salary", 0, YEN_MAX).unwrap_or(0),
        },
    }
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
        name: nullable_text_of(object, "name", TEXT_MAX),
        address: nullable_text_of(object, "address", TEXT_MAX),
        number: number(object),
        is_individual: is_true("is_individual").unwrap_or(true),
        remuneration: object.nullable("category").and_then(|field| parts::remuneration(&field)),
        description: object.nullable_text("description"),
        is_tax_separate: tax.map_or(!is_included, |tax| tax == "separate"),
        tax_rate: object.nullable("tax_rate").and_then(|field| parts::rate(&field)).unwrap_or(Rate::Standard),
        is_net: amount_is.is_some_and(|amount| amount == "net_of_withholding"),
        is_non_resident: is_true("non_resident").unwrap_or(false),
    }
}
