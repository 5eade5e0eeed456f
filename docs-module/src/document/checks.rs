//! Checks a draft and computes its sums. All problems are found at once, each with the path of its field in a request.

use std::collections::BTreeSet;

use rust_decimal::Decimal;
use unicode_normalization::UnicodeNormalization;

use super::{BankAccount, Document, Draft, Kind, LINES_MAX, Warning, Withholding};
use crate::drawing::text::{drawable, safe};
use crate::rounding::YEN_MAX;
use crate::tax::consumption::{Basis, Rate, Totals, of_sum, totals};
use crate::tax::withholding::{Circumstances, tax};

/// Largest number of characters of a name or another short text.
const SHORT_MAX: usize = 200;
/// Largest number of characters, and of lines, of an address or the footer. These limits leave room for the table on a
/// page.
pub(crate) const ASIDE_MAX: usize = 200;
const ASIDE_LINES_MAX: usize = 6;
/// Largest number of characters of a free text of several lines.
const LONG_MAX: usize = 5_000;
/// Largest number of lines of a free text.
const TEXT_LINES_MAX: usize = 200;
/// Largest number of digits before the point of a price or a quantity, and after the point (B24).
const WHOLE_DIGITS: u32 = 12;
const FRACTION_DIGITS: u32 = 6;

/// A step of the path to a value in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A member of an object, by name.
    Field(&'static str),
    /// An element of a list, by index from 0.
    Index(usize),
}

/// A problem of a draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The path to the value at fault.
    pub at: Vec<Step>,
    /// A message that says what is allowed.
    pub message: String,
}

/// The problems and warnings that were found so far.
#[derive(Default)]
struct Findings {
    problems: Vec<Problem>,
    /// Characters that the PDF cannot show, by member.
    missing: Vec<(String, BTreeSet<char>)>,
}

impl Findings {
    fn problem(&mut self, at: impl Into<Vec<Step>>, message: impl Into<String>) {
        self.problems.push(Problem { at: at.into(), message: message.into() });
    }

    /// Makes a text of one line safe, and checks its length.
    fn line(&mut self, at: &[Step], text: &mut String, max: usize) {
        *text = safe(text).replace('\n', " ").trim().to_owned();
        self.bound(at, text, max);
        self.draw(at, text);
    }

    /// Makes a text of several lines safe, and checks its length and its number of lines.
    fn lines(&mut self, at: &[Step], text: &mut String, max: usize, lines_max: usize) {
        *text = safe(text).trim().to_owned();
        self.bound(at, text, max);
        self.draw(at, text);
        if text.lines().count() > lines_max {
            self.problem(at, format!("should have at most {lines_max} lines"));
        }
    }

    fn bound(&mut self, at: &[Step], text: &str, max: usize) {
        if text.chars().count() > max {
            self.problem(at, format!("should have at most {max} characters"));
        }
    }

    /// Notes the characters that the PDF cannot show.
    fn draw(&mut self, at: &[Step], text: &str) {
        let mut missing = BTreeSet::new();
        drawable(text, &mut missing);
        if !missing.is_empty() {
            let steps = at.iter().map(|step| match step {
                Step::Field(name) => (*name).to_owned(),
                Step::Index(at) => at.to_string(),
            });
            self.missing.push((steps.collect::<Vec<_>>().join("."), missing));
        }
    }

    fn required(&mut self, at: &[Step], text: &str) {
        if text.is_empty() {
            self.problem(at, "should not be empty");
        }
    }
}

/// Checks a draft and computes its document.
pub(super) fn complete(mut draft: Draft) -> Result<Document, Vec<Problem>> {
    let mut findings = Findings::default();
    texts(&mut draft, &mut findings);
    if let Some(bank) = &mut draft.bank {
        check_bank(bank, &mut findings);
    }
    if draft.kind.needs_original() && draft.original_date.is_empty() {
        let message = format!("is required when document_type is {}", draft.kind.name());
        findings.problem([Step::Field("original_date")], message);
    }
    let amounts = amounts(&draft, &mut findings);
    let totals = sums(&draft, &amounts, &mut findings);
    let withheld = match (&draft.withholding, &totals) {
        (Some(withholding), Some(totals)) => withheld(&draft, withholding, &amounts, totals, &mut findings),
        _ => None,
    };
    match totals {
        Some(totals) if findings.problems.is_empty() => {
            let warnings = warnings(&draft, findings.missing);
            Ok(Document { draft, amounts, totals, withheld, warnings })
        }
        _ => Err(findings.problems),
    }
}

fn texts(draft: &mut Draft, findings: &mut Findings) {
    use Step::{Field, Index};
    for (name, text, max) in [
        ("issuer", &mut draft.issuer.name, 100),
        ("recipient", &mut draft.recipient, SHORT_MAX),
        ("recipient_honorific", &mut draft.honorific, 10),
        ("invoice_number", &mut draft.number, 50),
        ("issuer_tel", &mut draft.issuer.tel, 50),
        ("period", &mut draft.period, 100),
        ("payment_method", &mut draft.payment_method, 100),
        ("original_date", &mut draft.original_date, 100),
        ("original_number", &mut draft.original_number, 50),
        ("proviso", &mut draft.proviso, SHORT_MAX),
    ] {
        findings.line(&[Field(name)], text, max);
    }
    findings.required(&[Field("issuer")], &draft.issuer.name);
    findings.required(&[Field("invoice_number")], &draft.number);
    findings.lines(&[Field("issuer_address")], &mut draft.issuer.address, ASIDE_MAX, ASIDE_LINES_MAX);
    findings.lines(&[Field("theme"), Field("footer")], &mut draft.theme.footer, ASIDE_MAX, ASIDE_LINES_MAX);
    for (name, text) in [("transfer_fee_note", &mut draft.transfer_fee_note), ("notes", &mut draft.notes)] {
        findings.lines(&[Field(name)], text, LONG_MAX, TEXT_LINES_MAX);
    }
    if let Some(consignor) = &mut draft.consignor {
        findings.line(&[Field("consignor")], &mut consignor.name, SHORT_MAX);
        if consignor.name.is_empty() {
            findings.problem([Field("consignor")], "is required with consignor_registration_number");
        }
    }
    for (at, line) in draft.lines.iter_mut().enumerate() {
        let place = [Field("items"), Index(at), Field("name")];
        findings.line(&place, &mut line.name, SHORT_MAX);
        findings.required(&place, &line.name);
    }
}

fn check_bank(bank: &mut BankAccount, findings: &mut Findings) {
    use Step::Field;
    let at = |name: &'static str| [Field("bank_transfer"), Field(name)];
    for (name, text, is_required) in [
        ("bank_name", &mut bank.bank_name, true),
        ("bank_code", &mut bank.bank_code, false),
        ("branch_name", &mut bank.branch_name, true),
        ("branch_code", &mut bank.branch_code, false),
        ("account_type", &mut bank.account_type, false),
        ("account_number", &mut bank.account_number, true),
        ("account_holder", &mut bank.account_holder, true),
        ("account_holder_kana", &mut bank.account_holder_kana, false),
        ("note", &mut bank.note, false),
    ] {
        findings.line(&at(name), text, SHORT_MAX);
        if is_required {
            findings.required(&at(name), text);
        }
    }
    for (name, text, digits) in [
        ("bank_code", &mut bank.bank_code, 4),
        ("branch_code", &mut bank.branch_code, 3),
        ("account_number", &mut bank.account_number, 7),
    ] {
        let plain: String = text.nfkc().collect();
        let is_number = plain.bytes().all(|byte| byte.is_ascii_digit()) && plain.len() <= digits;
        if !is_number {
            findings.problem(at(name), format!("should be a number of at most {digits} digits"));
        } else if !plain.is_empty() {
            *text = format!("{plain:0>digits$}");
        }
    }
    let known = [
        ("普通", ["", "ordinary", "futsu"]),
        ("当座", ["", "checking", "toza"]),
        ("貯蓄", ["", "savings", "chochiku"]),
    ];
    let given = bank.account_type.to_lowercase();
    match known.iter().find(|(name, others)| *name == given || others.contains(&given.as_str())) {
        Some((name, _)) => (*name).clone_into(&mut bank.account_type),
        None => findings.problem(at("account_type"), "should be 普通, 当座 or 貯蓄 (ordinary, checking or savings)"),
    }
}

/// Computes the amount of each line, in yen.
fn amounts(draft: &Draft, findings: &mut Findings) -> Vec<i64> {
    use Step::{Field, Index};
    if draft.lines.is_empty() || draft.lines.len() > LINES_MAX {
        findings.problem([Field("items")], format!("should have between 1 and {LINES_MAX} lines"));
    }
    let limit = Decimal::from(10u64.pow(WHOLE_DIGITS));
    let mut amounts = Vec::with_capacity(draft.lines.len());
    for (at, line) in draft.lines.iter().enumerate().take(LINES_MAX) {
        let mut is_in_range = true;
        for (name, value) in [("unit_price", line.unit_price), ("qty", line.quantity)] {
            if value.abs() >= limit || value.normalize().scale() > FRACTION_DIGITS {
                is_in_range = false;
                let message = format!(
                    "should have at most {WHOLE_DIGITS} digits before the point and {FRACTION_DIGITS} after it"
                );
                findings.problem([Field("items"), Index(at), Field(name)], message);
            }
        }
        let amount = draft.rounding.product(line.unit_price, line.quantity);
        if amount.is_none() && is_in_range {
            let message = format!("price times quantity should be at most {YEN_MAX} yen");
            findings.problem([Field("items"), Index(at)], message);
        }
        amounts.push(amount.unwrap_or(0));
    }
    amounts
}

fn sums(draft: &Draft, amounts: &[i64], findings: &mut Findings) -> Option<Totals> {
    let lines: Vec<(Rate, i64)> = draft.lines.iter().zip(amounts).map(|(line, amount)| (line.rate, *amount)).collect();
    let found = totals(&lines, draft.basis, draft.rounding).filter(|found| found.total.gross.abs() <= YEN_MAX);
    match &found {
        None => findings.problem([Step::Field("items")], format!("the total should be at most {YEN_MAX} yen")),
        Some(totals) if totals.total.gross < 0 && draft.kind != Kind::CreditNote => {
            findings.problem(
                [Step::Field("items")],
                "the total should not be negative unless document_type is credit_note",
            );
        }
        Some(_) => {}
    }
    found
}

/// Computes the income tax to withhold, in yen. The tax is on the fee. The fee is the sum of the chosen lines, without
/// or with consumption tax.
fn withheld(
    draft: &Draft,
    withholding: &Withholding,
    amounts: &[i64],
    totals: &Totals,
    findings: &mut Findings,
) -> Option<i64> {
    use Step::Field;
    let at = |name: &'static str| [Field("withholding"), Field(name)];
    let chosen = withholding.lines.clone().unwrap_or_else(|| (0..amounts.len()).collect());
    let distinct: BTreeSet<usize> = chosen.iter().copied().collect();
    if distinct.len() != chosen.len() || distinct.last().is_some_and(|last| *last >= amounts.len()) {
        findings.problem(at("lines"), "should be indices of lines, from 0, each at most once");
        return None;
    }
    let of_rate = |rate: Rate| {
        let sum = distinct.iter().filter(|at| draft.lines[**at].rate == rate).map(|at| amounts[*at]).sum();
        of_sum(sum, rate, draft.basis, draft.rounding)
    };
    let fee: i64 = Rate::ALL
        .into_iter()
        .map(|rate| match withholding.basis {
            Basis::Exclusive => of_rate(rate).net,
            Basis::Inclusive => of_rate(rate).gross,
        })
        .sum();
    let taken = match withholding.amount {
        Some(amount) => Some(amount),
        None => tax(withholding.category, fee, Circumstances::default(), draft.issue_date.year()),
    };
    let Some(taken) = taken else {
        findings.problem([Field("withholding")], "needs a fee of at least 0 yen and an issue date in 2013 or later");
        return None;
    };
    if !(0..=totals.total.gross.max(0)).contains(&taken) {
        findings.problem(at("amount"), "should be between 0 and the document's total");
    }
    Some(taken)
}

fn warnings(draft: &Draft, missing: Vec<(String, BTreeSet<char>)>) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let of_consignor = draft.consignor.as_ref().map(|consignor| consignor.registration_number);
    for number in [Some(draft.issuer.registration_number), of_consignor.flatten()].into_iter().flatten() {
        if !number.has_valid_check_digit() {
            warnings.push(Warning::CheckDigit(number));
        }
    }
    if draft.kind.needs_recipient() && draft.recipient.is_empty() {
        warnings.push(Warning::NoRecipient);
    }
    if draft.kind == Kind::SimplifiedInvoice {
        warnings.push(Warning::Simplified);
    }
    if of_consignor == Some(None) {
        warnings.push(Warning::ConsignorWithoutNumber);
    }
    if !missing.is_empty() {
        warnings.push(Warning::MissingCharacters(missing));
    }
    warnings
}
