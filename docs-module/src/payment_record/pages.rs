//! Payment records and their summary table as a PDF: two records per page, each a payee's copy, then the table.
//! Personal numbers are not printed, because a payee's copy must not carry them.

use std::collections::BTreeSet;

use time::Date;

use super::etax::Payer;
use super::{Records, Row, SummaryRow};
use crate::calendar::reiwa_year;
use crate::document::{DISCLAIMER, yen};
use crate::drawing::pdf::{self, About};
use crate::drawing::pen::{Pen, Style};
use crate::drawing::text::{clean, wrap};
use crate::drawing::{Colour, PAGE, Weight};

const LEFT: f32 = 18.0;
const RIGHT: f32 = PAGE.0 - 18.0;
const WIDTH: f32 = RIGHT - LEFT;
/// Tops of the two records of a page.
const TOPS: [f32; 2] = [16.0, 154.0];
const FOOT: f32 = PAGE.1 - 10.0;
const LINE: f32 = 0.2;
const CELL: f32 = 1.8;
/// Largest number of kinds in a record. A seventh kind goes into another record.
const KINDS: usize = 6;
const ROW_HEIGHT: f32 = 7.5;

/// Name and address of a payee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Name.
    pub name: String,
    /// Address.
    pub address: String,
}

/// The contents of a PDF of records.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// The payer.
    pub payer: &'a Payer,
    /// The payees, in the order of [`Row::payee`].
    pub payees: &'a [Named],
    /// The records.
    pub records: &'a Records,
    /// The year of the records.
    pub year: i32,
    /// Colour of the heads.
    pub colour: Colour,
    /// Date of the file.
    pub date: Date,
}

/// Draws the PDF. Also returns the characters for which the faces have no glyph.
pub fn pdf(report: &Report<'_>) -> (Vec<u8>, BTreeSet<char>) {
    let mut layout = Layout { report, pen: Pen::new(TOPS[0]), missing: BTreeSet::new() };
    let year = era(report.year);
    layout.records(&year);
    layout.summary(&year);
    layout.feet();
    let title = format!("{year}分 支払調書・合計表");
    let author = clean(&report.payer.name, &mut layout.missing);
    let bytes = pdf::write(&layout.pen.pages, &About { title: &title, author: &author, date: report.date });
    (bytes, layout.missing)
}

/// `令和7年`.
fn era(year: i32) -> String {
    match reiwa_year(year) {
        Some(1) => "令和元年".to_owned(),
        Some(year) => format!("令和{year}年"),
        None => format!("{year}年"),
    }
}

struct Layout<'a> {
    report: &'a Report<'a>,
    pen: Pen,
    missing: BTreeSet<char>,
}

impl Layout<'_> {
    fn records(&mut self, year: &str) {
        let rows = &self.report.records.rows;
        let mut of_payees: Vec<&[Row]> =
            rows.chunk_by(|a, b| a.payee == b.payee).flat_map(|rows| rows.chunks(KINDS)).collect();
        of_payees.retain(|rows| !rows.is_empty());
        for (at, rows) in of_payees.iter().enumerate() {
            match at {
                0 => {}
                at if at % TOPS.len() == 0 => self.pen.turn(TOPS[0]),
                at => self.pen.y = TOPS[at % TOPS.len()],
            }
            self.record(year, rows);
        }
        if !of_payees.is_empty() {
            self.pen.turn(TOPS[0]);
        }
    }

    fn record(&mut self, year: &str, rows: &[Row]) {
        let report = self.report;
        let payee = &report.payees[rows[0].payee];
        self.title(&format!("{year}分　報酬、料金、契約金及び賞金の支払調書"));
        self.boxed("支払を受ける者", "住所又は所在地", &payee.address);
        self.boxed("", "氏名又は名称", &payee.name);
        self.kinds(rows);
        let tax: i64 = rows.iter().map(|row| row.totals.consumption_tax).sum();
        let notes = if tax > 0 { format!("消費税等の額 {}", yen(tax)) } else { String::new() };
        self.boxed("摘要", "", &notes);
        let payer = report.payer;
        self.boxed("支払者", "住所又は所在地", &payer.address);
        let phone = if payer.phone.is_empty() { String::new() } else { format!("　電話 {}", payer.phone) };
        self.boxed("", "氏名又は名称", &format!("{}{phone}", payer.name));
    }

    fn title(&mut self, title: &str) {
        let style = Style { size: 12.0, weight: Weight::Bold, colour: Colour::INK };
        self.pen.text(LEFT, self.pen.y, style, title);
        self.pen.y += style.leading() + 2.0;
        self.pen.fill([LEFT, self.pen.y, WIDTH, 0.6], self.report.colour);
        self.pen.y += 0.6;
    }

    /// Draws a row of two labels and a text, which is cut after two lines.
    fn boxed(&mut self, group: &str, label: &str, text: &str) {
        let text = clean(text, &mut self.missing).replace('\n', " ");
        let lines = wrap(&text, WIDTH - 64.0, Style::BODY.size, Style::BODY.weight);
        let lines = &lines[..lines.len().min(2)];
        let height = ROW_HEIGHT + (lines.len() - 1) as f32 * Style::BODY.leading();
        let y = self.pen.y + CELL;
        self.pen.text(LEFT + CELL, y, Style::LABEL, group);
        self.pen.text(LEFT + 28.0, y, Style::LABEL, label);
        for (at, line) in lines.iter().enumerate() {
            self.pen.text(LEFT + 62.0, y + at as f32 * Style::BODY.leading(), Style::BODY, line);
        }
        self.rule(height);
    }

    fn rule(&mut self, height: f32) {
        self.pen.y += height;
        self.pen.fill([LEFT, self.pen.y - LINE, WIDTH, LINE], Colour::LINE);
    }

    fn head(&mut self, cells: &[(f32, &str)]) {
        let colour = if self.report.colour.is_dark() { Colour::WHITE } else { Colour::INK };
        let style = Style { colour, ..Style::BOLD };
        self.pen.fill([LEFT, self.pen.y, WIDTH, ROW_HEIGHT], self.report.colour);
        self.cells(style, cells);
        self.pen.y += ROW_HEIGHT;
    }

    /// Draws texts that end at the given right edges. The first text begins at the left margin instead.
    fn cells(&mut self, style: Style, cells: &[(f32, &str)]) {
        let y = self.pen.y + CELL - 0.2;
        for (at, (right, text)) in cells.iter().enumerate() {
            if at == 0 {
                self.pen.text(LEFT + CELL, y, style, text);
            } else {
                self.pen.text_right(*right - CELL, y, style, text);
            }
        }
    }

    /// Draws a row for each kind. The unpaid and uncollected parts have their own columns, because the amounts beside
    /// them include these parts.
    fn kinds(&mut self, rows: &[Row]) {
        let rights = [0.0, LEFT + 62.0, LEFT + 96.0, LEFT + 122.0, LEFT + 150.0, RIGHT];
        let heads = ["区分", "件数", "支払金額", "うち未払", "源泉徴収税額", "うち未徴収"];
        self.head(&std::array::from_fn::<_, 6, _>(|at| (rights[at], heads[at])));
        for row in rows {
            let amount = |amount: i64| if amount == 0 { "－".to_owned() } else { yen(amount) };
            let cells = [
                row.category.name().to_owned(),
                row.totals.count.to_string(),
                yen(row.totals.payment),
                amount(row.totals.unpaid),
                yen(row.totals.tax),
                amount(row.totals.uncollected_tax),
            ];
            self.cells(Style::BODY, &std::array::from_fn::<_, 6, _>(|at| (rights[at], cells[at].as_str())));
            self.rule(ROW_HEIGHT);
        }
    }

    fn summary(&mut self, year: &str) {
        let summary = &self.report.records.summary;
        self.title(&format!("{year}分　報酬、料金、契約金及び賞金の支払調書合計表(309)"));
        self.boxed("提出者", "住所又は所在地", &self.report.payer.address);
        self.boxed("", "氏名又は名称", &self.report.payer.name);
        self.pen.y += 4.0;
        let rights = [0.0, LEFT + 92.0, LEFT + 112.0, LEFT + 144.0, RIGHT];
        let heads = ["区分", "個人", "個人以外", "支払金額", "源泉徴収税額"];
        self.head(&std::array::from_fn::<_, 5, _>(|at| (rights[at], heads[at])));
        let of_clauses = CLAUSES.into_iter().zip(&summary.clauses);
        let below = [
            ("A 計（人員は実人員）", &summary.all),
            ("B Aのうち、支払調書を提出するもの", &summary.filed),
            ("C Aのうち、内国法人に対する賞金", &summary.corporate_prizes),
        ];
        for (at, (label, row)) in of_clauses.chain(below).enumerate() {
            let SummaryRow { individuals, others, payment, tax } = row;
            let cells = [label.to_owned(), individuals.to_string(), others.to_string(), yen(*payment), yen(*tax)];
            let style = if at >= CLAUSES.len() { Style::BOLD } else { Style::BODY };
            let style = Style { size: 8.5, ..style };
            self.cells(style, &std::array::from_fn::<_, 5, _>(|at| (rights[at], cells[at].as_str())));
            self.rule(ROW_HEIGHT);
        }
    }

    fn feet(&mut self) {
        let count = self.pen.pages.len();
        for (at, page) in std::mem::take(&mut self.pen.pages).into_iter().enumerate() {
            self.pen.pages.push(page);
            self.pen.text(LEFT, FOOT, Style::FOOT, DISCLAIMER);
            self.pen.text_right(RIGHT, FOOT, Style::FOOT, &format!("{} / {count}", at + 1));
        }
    }
}

/// Labels of section 3 of the summary table, by clause of article 204.
pub(super) const CLAUSES: [&str; 8] = [
    "原稿料、講演料等の報酬又は料金（1号該当）",
    "弁護士、税理士等の報酬又は料金（2号該当）",
    "診療報酬（3号該当）",
    "職業野球選手、騎手、外交員等の報酬又は料金（4号該当）",
    "芸能等に係る出演、演出等の報酬又は料金（5号該当）",
    "ホステス等の報酬又は料金（6号該当）",
    "契約金（7号該当）",
    "賞金（8号該当）",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payment_record::{Payment, records};
    use crate::tax::withholding::{Category, Circumstances};

    fn report_pdf(payees: usize) -> Vec<u8> {
        let payment = |payee, category, amount, consumption_tax| Payment {
            payee,
            category,
            amount,
            consumption_tax,
            paid_on: None,
            is_unpaid: amount == 20_000,
            circumstances: Circumstances::default(),
        };
        let payments: Vec<Payment> = (0..payees)
            .flat_map(|at| {
                [payment(at, Category::Manuscript, 500_000, 50_000), payment(at, Category::Professional, 20_000, 0)]
            })
            .collect();
        let named: Vec<Named> = (0..payees)
            .map(|at| Named {
                name: format!("山田　太郎{at}"),
                address: "東京都新宿区西新宿２－８－１　第一本庁舎　北塔　四十五階　展望室　受付気付".to_owned(),
            })
            .collect();
        let records = records(&vec![true; payees], &payments, 2025).unwrap();
        let payer = Payer {
            address: "東京都千代田区霞が関３－１－１".to_owned(),
            name: "財務産業株式会社".to_owned(),
            phone: "03-3581-4161".to_owned(),
            number: "7000012050002".to_owned(),
        };
        let report = Report {
            payer: &payer,
            payees: &named,
            records: &records,
            year: 2025,
            colour: Colour(0x2b, 0x4c, 0x7e),
            date: time::macros::date!(2026 - 01 - 15),
        };
        let (bytes, missing) = pdf(&report);
        assert!(missing.is_empty());
        bytes
    }

    #[test]
    fn two_records_are_on_a_page_and_the_table_on_the_last() {
        for (payees, pages) in [(0, 1), (1, 2), (2, 2), (3, 3), (5, 4)] {
            let bytes = report_pdf(payees);
            assert!(bytes == report_pdf(payees));
            assert_eq!(lopdf::Document::load_mem(&bytes).unwrap().get_pages().len(), pages);
        }
    }
}
