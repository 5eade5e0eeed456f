//! The records of a year in four forms: JSON, CSV, PDF and the text for the tax office (B31b, B32).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use time::Date;

use super::etax::{self, Payer};
use super::pages::{self, CLAUSES, Named};
use super::transfers::Skipped;
use super::{Payment, Records, Row, SummaryRow, Totals};
use crate::csv::Table;
use crate::document::{DISCLAIMER, grouped};
use crate::drawing::Colour;
use crate::tax::withholding::Category;

/// A payee.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payee {
    /// Name.
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
    /// The caller's description of each payment; may be empty.
    pub details: Vec<String>,
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
        json!({
            "year": self.year,
            "payer": {
                "name": self.payer.name, "address": self.payer.address, "tel": self.payer.phone, "number": masked(&self.payer.number),
            },
            "payees": (0..self.payees.len()).map(|at| self.payee(at)).collect::<Vec<_>>(),
            "summary_table": self.summary(),
            "excluded": self.records.excluded.iter().map(|at| self.excluded(*at)).collect::<Vec<_>>(),
            "skipped": self.skipped.iter().map(|one| json!({"index": one.at, "id": one.id, "reason": one.reason})).collect::<Vec<_>>(),
            "warnings": self.warnings,
            "disclaimer": DISCLAIMER,
        })
    }

    /// Finds the rows of a payee by search, because rows are sorted by payee.
    fn rows_of(&self, payee: usize) -> &[Row] {
        let rows = &self.records.rows;
        &rows[rows.partition_point(|row| row.payee < payee)..rows.partition_point(|row| row.payee <= payee)]
    }

    fn payee(&self, at: usize) -> Value {
        let payee = &self.payees[at];
        let mut value = json!({
            "name": payee.name, "address": payee.address, "number": masked(&payee.number), "is_individual": payee.is_individual,
            "categories": self.rows_of(at).iter().map(category).collect::<Vec<_>>(),
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
            "payee": self.payees[payment.payee].name, "amount": payment.amount, "category": payment.category.name(),
            "paid_on": payment.paid_on.map(|date| date.to_string()), "reason": reason,
        })
    }

    /// Writes the records as CSV: a line for each payee and category.
    pub fn csv(&self) -> String {
        let mut table = Table::new(&[
            "年分",
            "氏名又は名称",
            "住所又は所在地",
            "個人・法人",
            "区分",
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
                &payee.name,
                &payee.address,
                form,
                row.category.name(),
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
    pub fn pdf(&self, colour: Colour, date: Date) -> (Vec<u8>, BTreeSet<char>) {
        let named = |payee: &Payee| Named { name: payee.name.clone(), address: payee.address.clone() };
        let payees: Vec<Named> = self.payees.iter().map(named).collect();
        let (payer, records) = (&self.payer, &self.records);
        pages::pdf(&pages::Report { payer, payees: &payees, records, year: self.year, colour, date })
    }

    /// Writes the records that must be filed, as the text for the tax office ([`etax::records`]).
    ///
    /// # Errors
    /// The payees whose records cannot be written: the index of each payee, and the first fault of that payee's record.
    pub fn etax(&self) -> Result<Vec<u8>, Vec<(usize, etax::RecordError)>> {
        let (mut bytes, mut faults) = (Vec::new(), Vec::new());
        let details = self.details_of_rows();
        for at in 0..self.payees.len() {
            let filed: Vec<&Row> = self.rows_of(at).iter().filter(|row| row.is_filed).collect();
            if filed.is_empty() {
                continue;
            }
            match etax::records(&self.payer, &[self.etax_payee(at, &filed, &details)], self.year) {
                Ok(record) => bytes.extend(record),
                Err(fault) => faults.push((at, fault)),
            }
        }
        if faults.is_empty() { Ok(bytes) } else { Err(faults) }
    }

    fn etax_payee(&self, at: usize, rows: &[&Row], details: &Details<'_>) -> etax::Payee {
        let payee = &self.payees[at];
        let tax: i64 = rows.iter().map(|row| row.totals.consumption_tax).sum();
        let kind = |row: &&Row| etax::Kind {
            name: row.category.name().to_owned(),
            // 細目: the description if all payments have the same one, otherwise the number of payments
            detail: match details[&(row.payee, row.category)].iter().collect::<Vec<_>>()[..] {
                [detail] if !detail.is_empty() => (*detail).to_owned(),
                _ => format!("{}回", row.totals.count),
            },
            payment: row.totals.payment,
            unpaid: row.totals.unpaid,
            tax: row.totals.tax,
            uncollected_tax: row.totals.uncollected_tax,
        };
        etax::Payee {
            address: payee.address.clone(),
            is_abroad: false,
            name: payee.name.clone(),
            number: payee.number.clone(),
            kinds: rows.iter().map(kind).collect(),
            notes: if tax > 0 {
                format!("消費税等の額　{}円", grouped(&tax.to_string()))
            } else {
                String::new()
            },
        }
    }

    fn details_of_rows(&self) -> Details<'_> {
        let mut details = Details::new();
        let mut excluded = self.records.excluded.iter().copied().peekable();
        for (at, (payment, detail)) in self.payments.iter().zip(&self.details).enumerate() {
            if excluded.next_if_eq(&at).is_none() {
                details.entry((payment.payee, payment.category)).or_default().insert(detail);
            }
        }
        details
    }
}

/// For each row, the distinct descriptions of its payments.
type Details<'a> = BTreeMap<(usize, Category), BTreeSet<&'a str>>;

fn category(row: &Row) -> Value {
    let Totals { payment, unpaid, tax, uncollected_tax, consumption_tax, count } = row.totals;
    json!({
        "category": row.category.name(), "payment_total": payment, "unpaid_total": unpaid, "tax_total": tax,
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
