//! The records of a year in four forms: JSON, CSV, PDF and the text for the tax office (B31b, B32).

use std::collections::BTreeSet;

use serde_json::{Value, json};
use time::Date;

use super::etax::{self, Fault, Filing, Item, Payer};
use super::pages::{self, CLAUSES, Named};
use super::transfers::Skipped;
use super::{Payment, Records, Row, SummaryRow, Totals};
use crate::csv::Table;
use crate::document::DISCLAIMER;
use crate::drawing::Colour;
use crate::limit::{Limit, Stopped};

/// The first year in which 30 records must be filed electronically, not 100 (income tax act, article 228-4).
const EFILING_OF_THIRTY_FROM: i32 = 2027;

/// A payee.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payee {
    /// Name. May be empty if the payee is a connected account.
    pub name: String,
    /// Address.
    pub address: String,
    /// Corporate or personal number; may be empty. Only the text for the tax office contains it.
    pub number: String,
    /// Whether the payee is an individual, from whom tax is withheld.
    pub is_individual: bool,
    /// The connected account, if the payments are transfers to it.
    pub account: Option<String>,
    /// Whether the caller declared nothing about the account (B33).
    pub needs_declaration: bool,
}

impl Payee {
    /// The name, or the account's id where the caller declared no name (B33).
    pub fn shown_name(&self) -> &str {
        if self.name.trim().is_empty() { self.account.as_deref().unwrap_or(&self.name) } else { &self.name }
    }
}

/// The records of a year, with the payments from which they are computed.
#[derive(Clone, Debug)]
pub struct Yearly {
    /// The year.
    pub year: i32,
    /// The payer.
    pub payer: Payer,
    /// The payees.
    pub payees: Vec<Payee>,
    /// The payments. Each payment refers to its payee by index.
    pub payments: Vec<Payment>,
    /// The records.
    pub records: Records,
    /// Transfers that are not counted as payments.
    pub skipped: Vec<Skipped>,
    /// Warnings for the caller.
    pub warnings: Vec<String>,
}

impl Yearly {
    /// Writes the records as JSON. Numbers of the payer and of payees are masked.
    pub fn json(&self) -> Value {
        let filing = self.filing();
        json!({
            "year": self.year,
            "payer": {
                "name": self.payer.name, "address": self.payer.address, "tel": self.payer.phone, "number": masked(&self.payer.number),
                "missing_for_filing": members(&filing.payer),
            },
            "payees": (0..self.payees.len()).map(|at| self.payee(at, &filing)).collect::<Vec<_>>(),
            "summary_table": self.summary(),
            "records_to_file": filing.sheets,
            "efiling_line": self.efiling_line(),
            "efiling_required": filing.sheets >= self.efiling_line(),
            "excluded": self.records.excluded.iter().map(|at| self.excluded(*at)).collect::<Vec<_>>(),
            "skipped": self.skipped.iter().map(|one| json!({"index": one.at, "id": one.id, "reason": one.reason})).collect::<Vec<_>>(),
            "warnings": self.warnings,
            "disclaimer": DISCLAIMER,
        })
    }

    /// The number of records from which on filing must be electronic, at the time when the year's records are filed:
    /// January of the next year. The law counts the records of the year before last; the caller alone knows that number,
    /// so the year's own number stands for it.
    fn efiling_line(&self) -> usize {
        if self.year + 1 >= EFILING_OF_THIRTY_FROM { 30 } else { 100 }
    }

    /// Finds the rows of a payee by search, because rows are sorted by payee.
    fn rows_of(&self, payee: usize) -> &[Row] {
        let rows = &self.records.rows;
        &rows[rows.partition_point(|row| row.payee < payee)..rows.partition_point(|row| row.payee <= payee)]
    }

    fn payee(&self, at: usize, filing: &Filing) -> Value {
        let payee = &self.payees[at];
        let mut value = json!({
            "name": payee.shown_name(), "address": payee.address, "number": masked(&payee.number),
            "is_individual": payee.is_individual, "categories": self.rows_of(at).iter().map(category).collect::<Vec<_>>(),
            "missing_for_filing": members(&filing.payees[at]),
        });
        if let Some(account) = &payee.account {
            value["account"] = json!(account);
            value["needs_declaration"] = json!(payee.needs_declaration);
        }
        value
    }

    fn summary(&self) -> Value {
        let summary = &self.records.summary;
        let clause = |(at, (name, row)): (usize, (&str, &SummaryRow))| {
            let mut value = summary_row(row);
            value["clause"] = json!(at + 1);
            value["name"] = json!(name);
            value
        };
        json!({
            "clauses": CLAUSES.into_iter().zip(&summary.clauses).enumerate().map(clause).collect::<Vec<_>>(),
            "all": summary_row(&summary.all),
            "filed": summary_row(&summary.filed),
            "corporate_prizes": summary_row(&summary.corporate_prizes),
        })
    }

    fn excluded(&self, at: usize) -> Value {
        let payment = &self.payments[at];
        let reason = if payment.category.clause().is_none() { "not_recorded" } else { "other_year" };
        json!({
            "payee": self.payees[payment.payee].shown_name(), "amount": payment.amount, "category": payment.category.name(),
            "paid_on": payment.paid_on.map(|date| date.to_string()), "reason": reason,
        })
    }

    /// Writes the records as CSV: a line for each payee, category and word.
    pub fn csv(&self) -> String {
        let mut table = Table::new(&[
            "年分",
            "氏名又は名称",
            "住所又は所在地",
            "個人・法人",
            "分類",
            "区分",
            "細目",
            "件数",
            "支払金額",
            "うち未払",
            "源泉徴収税額",
            "うち未徴収",
            "消費税等の額",
            "支払調書の提出",
        ]);
        for row in &self.records.rows {
            let (payee, totals) = (&self.payees[row.payee], &row.totals);
            let amounts = [totals.payment, totals.unpaid, totals.tax, totals.uncollected_tax, totals.consumption_tax];
            let [payment, unpaid, tax, uncollected, consumption] = amounts.map(|amount| amount.to_string());
            let (year, count) = (self.year.to_string(), totals.count.to_string());
            let form = if payee.is_individual { "個人" } else { "法人" };
            let filed = if row.is_filed { "要" } else { "不要" };
            table.row([
                year.as_str(),
                payee.shown_name(),
                &payee.address,
                form,
                row.category.name(),
                &row.word,
                &row.detail,
                &count,
                &payment,
                &unpaid,
                &tax,
                &uncollected,
                &consumption,
                filed,
            ]);
        }
        table.finish()
    }

    /// Draws the records and the summary table as a PDF. Also returns the characters for which the faces have no glyph.
    /// `date`: the date of the file.
    ///
    /// # Errors
    /// When the limit stops the work.
    pub fn pdf(&self, colour: Colour, date: Date, limit: Limit<'_>) -> Result<(Vec<u8>, BTreeSet<char>), Stopped> {
        let named = |payee: &Payee| Named { name: payee.shown_name().to_owned(), address: payee.address.clone() };
        let payees: Vec<Named> = self.payees.iter().map(named).collect();
        let (payer, records) = (&self.payer, &self.records);
        pages::pdf(&pages::Report { payer, payees: &payees, records, year: self.year, colour, date }, limit)
    }

    /// Prepares the records that must be filed for the tax office, and finds all that is missing for that. Payees whose
    /// records need not be filed have no faults.
    pub fn filing(&self) -> Filing {
        let payees: Vec<etax::Payee> = (0..self.payees.len()).map(|at| self.filed_payee(at)).collect();
        Filing::of(&self.payer, &payees, self.year)
    }

    fn filed_payee(&self, at: usize) -> etax::Payee {
        let payee = &self.payees[at];
        let kind = |row: &Row| etax::Kind {
            word: row.word.clone(),
            detail: row.detail.clone(),
            payment: row.totals.payment,
            unpaid: row.totals.unpaid,
            tax: row.totals.tax,
            uncollected_tax: row.totals.uncollected_tax,
            consumption_tax: row.totals.consumption_tax,
        };
        etax::Payee {
            address: payee.address.clone(),
            name: payee.name.clone(),
            number: payee.number.clone(),
            kinds: self.rows_of(at).iter().filter(|row| row.is_filed).map(kind).collect(),
        }
    }
}

/// The names of the members at fault, each once.
fn members(faults: &[Fault]) -> Vec<&'static str> {
    let mut names = Vec::new();
    for name in faults.iter().map(|fault| fault.item.member()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

impl Item {
    /// The member of a payer or a payee that the item comes from.
    pub fn member(self) -> &'static str {
        match self {
            Item::PayerName | Item::Name => "name",
            Item::PayerAddress | Item::Address => "address",
            Item::PayerPhone => "tel",
            Item::PayerNumber | Item::Number => "number",
            Item::Word | Item::Detail | Item::Amount | Item::Notes => "payments",
        }
    }
}

fn category(row: &Row) -> Value {
    let Totals { payment, unpaid, tax, uncollected_tax, consumption_tax, count } = row.totals;
    json!({
        "category": row.category.name(), "word": row.word, "detail": row.detail, "payment_total": payment, "unpaid_total": unpaid, "tax_total": tax,
        "uncollected_tax_total": uncollected_tax, "consumption_tax_total": consumption_tax, "count": count, "must_be_filed": row.is_filed,
    })
}

fn summary_row(row: &SummaryRow) -> Value {
    json!({
        "count": row.individuals + row.others, "individuals": row.individuals, "others": row.others, "payment_total": row.payment,
        "tax_total": row.tax,
    })
}

/// Replaces each character of the number with an asterisk.
fn masked(number: &str) -> String {
    "*".repeat(number.chars().count())
}
