//! Payment records and their summary table as a PDF: a page for each record, because a payee must get only the payee's
//! own, then a page with the table. Personal numbers are not printed, because a payee's copy must not carry them.

use std::collections::BTreeSet;

use time::Date;

use super::etax::{KINDS_OF_RECORD, Payer, notes};
use super::{Records, Row, SummaryRow};
use crate::calendar::reiwa_year;
use crate::document::yen;
use crate::drawing::pdf::{self, About};
use crate::drawing::pen::{Pen, Style};
use crate::drawing::text::{clean, wrap};
use crate::drawing::{Colour, PAGE, Weight};
use crate::limit::{Limit, Stopped};

const LEFT: f32 = 18.0;
const RIGHT: f32 = PAGE.0 - 18.0;
const WIDTH: f32 = RIGHT - LEFT;
const TOP: f32 = 16.0;
const FOOT: f32 = PAGE.1 - 10.0;
const LINE: f32 = 0.2;
const CELL: f32 = 1.8;
const ROW_HEIGHT: f32 = 7.5;
/// Where the text of a name or an address begins.
const BOX: f32 = LEFT + 62.0;
/// A name or an address with more lines than this is set smaller.
const LINES_OF_BODY: usize = 3;

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
///
/// # Errors
/// When the limit stops the work.
pub fn pdf(report: &Report<'_>, limit: Limit<'_>) -> Result<(Vec<u8>, BTreeSet<char>), Stopped> {
    let mut layout = Layout::of(report, limit)?;
    let title = format!("{}分 支払調書・合計表", era(report.year));
    let author = clean(&report.payer.name, &mut layout.missing);
    let about = About { title: &title, author: &author, date: report.date };
    let bytes = pdf::write(&layout.pen.pages, &about, limit)?;
    Ok((bytes, layout.missing))
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

impl<'a> Layout<'a> {
    fn of(report: &'a Report<'a>, limit: Limit<'_>) -> Result<Layout<'a>, Stopped> {
        let mut layout = Layout { report, pen: Pen::new(TOP), missing: BTreeSet::new() };
        let year = era(report.year);
        layout.records(&year, limit)?;
        layout.summary(&year);
        Ok(layout)
    }

    fn records(&mut self, year: &str, limit: Limit<'_>) -> Result<(), Stopped> {
        let records = self.report.records;
        for of_payee in records.rows.chunk_by(|a, b| a.payee == b.payee) {
            let sheets = of_payee.chunks(KINDS_OF_RECORD);
            let count = sheets.len();
            for (at, rows) in sheets.enumerate() {
                limit.check()?;
                self.record(year, rows);
                if count > 1 {
                    self.pen.text_right(RIGHT, FOOT, Style::FOOT, &format!("{} / {count}", at + 1));
                }
                self.pen.turn(TOP);
            }
        }
        Ok(())
    }

    fn record(&mut self, year: &str, rows: &[Row]) {
        let report = self.report;
        let payee = &report.payees[rows[0].payee];
        self.title(&format!("{year}分　報酬、料金、契約金及び賞金の支払調書"));
        self.boxed("支払を受ける者", "住所又は所在地", &payee.address);
        self.boxed("", "氏名又は名称", &payee.name);
        self.kinds(rows);
        self.boxed("摘要", "", &notes(rows.iter().map(|row| row.totals.consumption_tax).sum()));
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

    /// Draws a row of two labels and a text. A long text is set smaller.
    fn boxed(&mut self, group: &str, label: &str, text: &str) {
        let text = clean(text, &mut self.missing).replace('\n', " ");
        let lines = |style: Style| wrap(&text, RIGHT - BOX, style.size, style.weight);
        let body = lines(Style::BODY);
        let small = Style { size: 7.0, ..Style::BODY };
        let (style, lines) = if body.len() > LINES_OF_BODY { (small, lines(small)) } else { (Style::BODY, body) };
        let y = self.pen.y + CELL;
        self.pen.text(LEFT + CELL, y, Style::LABEL, group);
        self.pen.text(LEFT + 28.0, y, Style::LABEL, label);
        self.below(BOX, y, style, &lines);
        self.rule(ROW_HEIGHT + (lines.len() - 1) as f32 * style.leading());
    }

    /// Draws lines below each other.
    fn below(&mut self, x: f32, y: f32, style: Style, lines: &[String]) {
        for (at, line) in lines.iter().enumerate() {
            self.pen.text(x, y + at as f32 * style.leading(), style, line);
        }
    }

    fn rule(&mut self, height: f32) {
        self.pen.y += height;
        self.pen.fill([LEFT, self.pen.y - LINE, WIDTH, LINE], Colour::LINE);
    }

    fn head_colour(&self) -> Colour {
        if self.report.colour.is_dark() { Colour::WHITE } else { Colour::INK }
    }

    fn head(&mut self, cells: &[(f32, &str)]) {
        let style = Style { colour: self.head_colour(), ..Style::BOLD };
        self.pen.fill([LEFT, self.pen.y, WIDTH, ROW_HEIGHT], self.report.colour);
        self.cells(style, cells);
        self.pen.y += ROW_HEIGHT;
    }

    /// Draws texts that end at the given right edges. The first text begins at the left margin instead. A text that is
    /// wider than its column is set smaller.
    fn cells(&mut self, style: Style, cells: &[(f32, &str)]) {
        let y = self.pen.y + CELL - 0.2;
        for (at, (right, text)) in cells.iter().enumerate() {
            if at == 0 {
                self.pen.text(LEFT + CELL, y, style, text);
                continue;
            }
            // the first column has no right edge, so the second is taken to be wide enough
            let room = if at == 1 { f32::MAX } else { right - cells[at - 1].0 - 1.0 };
            let size = style.size * (room / style.width(text)).min(1.0);
            self.pen.text_right(*right - CELL, y, Style { size, ..style }, text);
        }
    }

    /// Draws a row for each kind. The unpaid and uncollected parts have their own columns, because the amounts beside
    /// them include these parts.
    fn kinds(&mut self, rows: &[Row]) {
        let detail = LEFT + 34.0;
        let rights = [0.0, LEFT + 84.0, LEFT + 108.0, LEFT + 129.0, LEFT + 154.0, RIGHT];
        let heads = ["区分", "件数", "支払金額", "うち未払", "源泉徴収税額", "うち未徴収"];
        self.head(&std::array::from_fn::<_, 6, _>(|at| (rights[at], heads[at])));
        let style = Style { colour: self.head_colour(), ..Style::BOLD };
        self.pen.text(detail, self.pen.y - ROW_HEIGHT + CELL - 0.2, style, "細目");
        for row in rows {
            let amount = |amount: i64| if amount == 0 { "－".to_owned() } else { yen(amount) };
            let cells = [
                row.word.clone(),
                row.totals.count.to_string(),
                yen(row.totals.payment),
                amount(row.totals.unpaid),
                yen(row.totals.tax),
                amount(row.totals.uncollected_tax),
            ];
            self.cells(Style::BODY, &std::array::from_fn::<_, 6, _>(|at| (rights[at], cells[at].as_str())));
            let text = clean(&row.detail, &mut self.missing).replace('\n', " ");
            let lines = wrap(&text, LEFT + 76.0 - detail, Style::SMALL.size, Style::SMALL.weight);
            self.below(detail, self.pen.y + CELL, Style::SMALL, &lines);
            self.rule(ROW_HEIGHT + (lines.len() - 1) as f32 * Style::SMALL.leading());
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
    use crate::drawing::Mark;
    use crate::payment_record::{Payment, records};
    use crate::tax::withholding::{Category, Circumstances};

    /// The texts of the pages, and the file.
    fn report(payees: &[Named], payments: &[Payment]) -> (Vec<String>, Vec<u8>) {
        let records = records(&vec![true; payees.len()], payments, 2025).unwrap();
        let payer = Payer {
            address: "東京都千代田区霞が関３－１－１".to_owned(),
            name: "財務産業株式会社".to_owned(),
            phone: "03-3581-4161".to_owned(),
            number: "7000012050002".to_owned(),
        };
        let report = Report {
            payer: &payer,
            payees,
            records: &records,
            year: 2025,
            colour: Colour(0x2b, 0x4c, 0x7e),
            date: time::macros::date!(2026 - 01 - 15),
        };
        let (bytes, missing) = pdf(&report, Limit::NONE).unwrap();
        assert!(missing.is_empty());
        let pages = Layout::of(&report, Limit::NONE).unwrap().pen.pages;
        assert_eq!(lopdf::Document::load_mem(&bytes).unwrap().get_pages().len(), pages.len());
        (pages.iter().map(|page| text(page)).collect(), bytes)
    }

    fn text(page: &[Mark]) -> String {
        let texts = page.iter().filter_map(|mark| match mark {
            Mark::Text { text, .. } => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    fn payment(payee: usize, word: &str, detail: &str, amount: i64) -> Payment {
        Payment {
            payee,
            category: Category::Manuscript,
            word: word.to_owned(),
            detail: detail.to_owned(),
            amount,
            consumption_tax: amount / 10,
            paid_on: None,
            is_unpaid: amount == 20_000,
            circumstances: Circumstances::default(),
        }
    }

    fn named(name: &str, address: &str) -> Named {
        Named { name: name.to_owned(), address: address.to_owned() }
    }

    #[test]
    fn b9_each_payee_has_a_page_and_the_table_is_the_last() {
        for count in [0, 1, 2, 3, 5] {
            let payees: Vec<Named> = (0..count).map(|at| named(&format!("山田{at}"), "東京都")).collect();
            let payments: Vec<Payment> = (0..count).map(|at| payment(at, "原稿料", "", 500_000)).collect();
            let (pages, bytes) = report(&payees, &payments);
            assert!(bytes == report(&payees, &payments).1);
            assert_eq!(pages.len(), count + 1);
            for (at, page) in pages.iter().enumerate() {
                let on_page: Vec<usize> = (0..count).filter(|payee| page.contains(&payees[*payee].name)).collect();
                assert_eq!(on_page, if at < count { vec![at] } else { vec![] });
            }
        }
    }

    #[test]
    fn b9_nothing_that_was_said_is_cut() {
        let name = "株式会社".to_owned() + &"長い名前の".repeat(30);
        let address = "東京都新宿区西新宿２－８－１　第一本庁舎　".repeat(9);
        let detail = "第一回から第十二回までの連載".repeat(4);
        let words = ["講演料", "原稿料", "デザイン料", "翻訳料", "通訳料", "校正料", "写真料"];
        let payments: Vec<Payment> = words.iter().map(|word| payment(0, word, &detail, 999_999_999_999)).collect();
        let (pages, _) = report(&[named(&name, &address)], &payments);
        assert_eq!(pages.len(), 3, "a seventh kind is on another page");
        let plain = |text: &str| text.replace(char::is_whitespace, "");
        for (page, words) in pages.iter().zip(words.chunks(6)) {
            assert!([&name, &address].iter().all(|text| plain(page).contains(&plain(text))), "{page}");
            assert!(words.iter().all(|word| page.contains(word)));
            assert_eq!(page.matches("第一回").count(), 4 * words.len(), "{page}");
        }
        assert!(pages[0].contains("1 / 2") && pages[1].contains("2 / 2"));
        assert!(pages[1].contains("消費税等の額　99,999,999,999円"), "{}", pages[1]);
    }

    #[test]
    fn b9_marks_stay_on_the_page() {
        let long = "長".repeat(200);
        let words = ["講演料", "原稿料", "デザイン料", "翻訳料", "通訳料", "校正料"];
        let payments: Vec<Payment> =
            words.iter().map(|word| payment(0, word, &"細".repeat(60), 999_999_999_999)).collect();
        let records = records(&[true], &payments, 2025).unwrap();
        let payer = Payer { address: long.clone(), name: long.clone(), ..Payer::default() };
        let payees = [named(&long, &long)];
        let report = Report {
            payer: &payer,
            payees: &payees,
            records: &records,
            year: 2025,
            colour: Colour(0, 0, 0),
            date: time::macros::date!(2026 - 01 - 15),
        };
        for mark in &Layout::of(&report, Limit::NONE).unwrap().pen.pages[0] {
            let (left, right, bottom) = match mark {
                Mark::Text { x, baseline, size, weight, text, .. } => (*x, x + weight.width(text, *size), *baseline),
                Mark::Fill { x, y, width, height, .. } => (*x, x + width, y + height),
                Mark::Picture { .. } => unreachable!("records have no pictures"),
            };
            assert!(left >= LEFT && right <= RIGHT + 0.01 && bottom <= FOOT, "{mark:?}");
        }
    }
}
