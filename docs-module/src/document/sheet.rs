//! The texts of a document in their order. PDF and HTML print the same texts.

use std::collections::BTreeSet;

use rust_decimal::Decimal;

use super::{BankAccount, Document, Draft, Kind, period};
use crate::calendar::date;
use crate::drawing::text::drawable;
use crate::honorific::has_honorific;
use crate::tax::consumption::{Basis, Rate};

/// Notice in answers in JSON, because the service is in its trial (B42). Documents do not have it, because they go to
/// the customers of the caller.
pub const DISCLAIMER: &str = "本書の記載内容は、提出・保存の前に公的な手段でご確認ください。";
/// Marks lines of the reduced rate.
const REDUCED_MARK: &str = "※";

/// The texts of a document.
pub struct Sheet {
    pub title: &'static str,
    pub by_law: Option<&'static str>,
    /// The recipient with the honorific.
    pub recipient: Option<String>,
    pub opening: Option<&'static str>,
    /// Label and amount of the sum.
    pub sum: (&'static str, String),
    /// Lines below the sum, each a label and a value.
    pub terms: Vec<(&'static str, String)>,
    /// Number and dates.
    pub identity: Vec<(&'static str, String)>,
    pub issuer: String,
    /// Lines below the issuer's name.
    pub issuer_lines: Vec<String>,
    /// Label of prices: 税抜 (without tax) or 税込 (with tax).
    pub price_label: &'static str,
    pub rows: Vec<Row>,
    /// Sums of the table: a label, an amount, and whether the row is emphasised.
    pub totals: Vec<(String, String, bool)>,
    /// Sums by rate: a label, the amount, the tax.
    pub rates: Vec<[String; 3]>,
    /// Note below the table when a line has the reduced rate.
    pub reduced_note: Option<&'static str>,
    /// Blocks below the sums: each a heading and lines.
    pub blocks: Vec<(&'static str, Vec<String>)>,
    /// Lines at the foot of each page.
    pub footer: Vec<String>,
}

/// A line of the table.
pub struct Row {
    pub name: String,
    pub quantity: String,
    pub unit_price: String,
    pub rate: String,
    pub amount: String,
}

pub(super) fn sheet(document: &Document) -> Sheet {
    let draft = &document.draft;
    let wording = draft.kind.wording();
    let has_reduced = draft.lines.iter().any(|line| line.rate == Rate::Reduced);
    Sheet {
        title: wording.title,
        by_law: wording.by_law,
        recipient: (!draft.recipient.is_empty()).then(|| with_honorific(&draft.recipient, &draft.honorific)),
        opening: wording.opening,
        sum: (wording.sum, yen(sum(document))),
        terms: terms(document),
        identity: identity(draft),
        issuer: draft.issuer.name.clone(),
        issuer_lines: issuer_lines(draft),
        price_label: match draft.basis {
            Basis::Exclusive => "税抜",
            Basis::Inclusive => "税込",
        },
        rows: rows(document),
        totals: totals(document),
        rates: rates(document),
        reduced_note: has_reduced.then_some("※は軽減税率対象"),
        blocks: blocks(draft),
        footer: draft.theme.footer.lines().map(str::to_owned).collect(),
    }
}

impl Sheet {
    /// Replaces the characters that no face has.
    pub(super) fn drawable(mut self) -> Sheet {
        let rows = self
            .rows
            .iter_mut()
            .flat_map(|row| [&mut row.name, &mut row.quantity, &mut row.unit_price, &mut row.rate, &mut row.amount]);
        let pairs = self.terms.iter_mut().chain(&mut self.identity).map(|(_, value)| value);
        let lines = self.issuer_lines.iter_mut().chain(&mut self.footer);
        let blocks = self.blocks.iter_mut().flat_map(|(_, lines)| lines);
        let names = self.recipient.iter_mut().chain([&mut self.issuer]);
        for text in names.chain(pairs).chain(lines).chain(rows).chain(blocks) {
            *text = drawable(text, &mut BTreeSet::new());
        }
        self
    }
}

/// The amount of the sum. A credit note names what is returned, so its amount has no sign.
fn sum(document: &Document) -> i64 {
    let payable = document.payable();
    if document.draft.kind == Kind::CreditNote { payable.abs() } else { payable }
}

/// Writes yen with a comma before each group of three digits.
pub fn yen(amount: i64) -> String {
    let sign = if amount < 0 { "-" } else { "" };
    format!("{sign}¥{}", grouped(&amount.unsigned_abs().to_string()))
}

pub(crate) fn grouped(digits: &str) -> String {
    let mut grouped = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Writes a number with a comma before each group of three digits of its whole part.
fn number(value: Decimal) -> String {
    let text = value.normalize().abs().to_string();
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), ""), |(whole, fraction)| (whole, fraction));
    let sign = if value.is_sign_negative() && !value.is_zero() { "-" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{fraction}", grouped(whole))
}

fn with_honorific(name: &str, honorific: &str) -> String {
    if honorific.is_empty() || has_honorific(name) { name.to_owned() } else { format!("{name} {honorific}") }
}

fn terms(document: &Document) -> Vec<(&'static str, String)> {
    let draft = &document.draft;
    let mut terms = Vec::new();
    if let Some(due) = draft.due_date {
        terms.push((draft.kind.wording().due, date(due)));
    }
    if !draft.payment_method.is_empty() {
        terms.push(("お支払方法", payment_method(&draft.payment_method).to_owned()));
    }
    if draft.kind == Kind::Receipt || !draft.proviso.is_empty() {
        terms.push(("但し", proviso(draft)));
    }
    terms
}

/// Writes for what the money was paid: the caller's words, or the first line's name. The frame 但し … として stands once.
fn proviso(draft: &Draft) -> String {
    let given = draft.proviso.trim_end_matches('。').trim_end_matches("として").trim_end();
    let apart = [':', '：', '、', ' ', '　'];
    let words = ["但し書き", "但し", "但", "ただし"].into_iter();
    // 但馬牛 begins with no frame
    let is_frame = |word: &str, rest: &str| word.starts_with("但し") || rest.starts_with(apart);
    let framed = words.filter_map(|word| given.strip_prefix(word).filter(|rest| is_frame(word, rest))).next();
    let given = framed.unwrap_or(given).trim_start_matches(apart);
    if !given.is_empty() {
        return format!("{given}　として");
    }
    let others = if draft.lines.len() > 1 { "ほか" } else { "" };
    format!("{}{others}　として", draft.lines[0].name)
}

/// Returns the printed words for a way of payment. A receipt on paper is exempt from stamp duty when it states payment
/// by card.
fn payment_method(given: &str) -> &str {
    match given {
        "credit_card" | "card" | "クレジットカード" => "クレジットカード利用",
        "bank_transfer" | "customer_balance" | "jp_bank_transfer" => "銀行振込",
        "konbini" => "コンビニ払い",
        "cash" => "現金",
        "paypay" => "PayPay",
        "direct_debit" => "口座振替",
        other => other,
    }
}

fn identity(draft: &Draft) -> Vec<(&'static str, String)> {
    let mut identity = vec![("番号", draft.number.clone()), (draft.kind.wording().issued, date(draft.issue_date))];
    // without a period, the sale was on the document's date
    if !draft.period.is_empty() {
        identity.push(("取引期間", period::in_words(&draft.period)));
    } else if !matches!(draft.kind, Kind::Quote | Kind::CreditNote) {
        identity.push(("取引日", date(draft.issue_date)));
    }
    if !draft.original_date.is_empty() {
        identity.push(("元の取引日", period::in_words(&draft.original_date)));
    }
    if !draft.original_number.is_empty() {
        identity.push(("元の番号", draft.original_number.clone()));
    }
    identity
}

fn issuer_lines(draft: &Draft) -> Vec<String> {
    let mut lines = vec![format!("登録番号 {}", draft.issuer.registration_number)];
    lines.extend(draft.issuer.address.lines().map(str::to_owned));
    if !draft.issuer.tel.is_empty() {
        lines.push(format!("TEL {}", draft.issuer.tel));
    }
    lines
}

fn rows(document: &Document) -> Vec<Row> {
    let rows = document.draft.lines.iter().zip(&document.amounts);
    rows.map(|(line, amount)| {
        let mark = if line.rate == Rate::Reduced { REDUCED_MARK } else { "" };
        Row {
            name: format!("{}{mark}", line.name),
            quantity: number(line.quantity),
            unit_price: number(line.unit_price),
            rate: format!("{}%", line.rate.percent()),
            amount: number(Decimal::from(*amount)),
        }
    })
    .collect()
}

fn totals(document: &Document) -> Vec<(String, String, bool)> {
    let total = document.totals.total;
    let mut totals = match document.draft.basis {
        Basis::Exclusive => vec![
            ("小計（税抜）".to_owned(), yen(total.net), false),
            ("消費税".to_owned(), yen(total.tax), false),
            ("合計（税込）".to_owned(), yen(total.gross), true),
        ],
        Basis::Inclusive => {
            vec![("合計（税込）".to_owned(), yen(total.gross), true), ("うち消費税".to_owned(), yen(total.tax), false)]
        }
    };
    if let Some(withheld) = document.withheld {
        totals.push(("源泉徴収税額".to_owned(), yen(-withheld), false));
        totals.push(("差引ご請求額".to_owned(), yen(document.payable()), true));
    }
    totals
}

fn rates(document: &Document) -> Vec<[String; 3]> {
    let by_rate = document.totals.by_rate.iter().rev();
    by_rate
        .map(|(rate, of_rate)| {
            let mark = if *rate == Rate::Reduced { REDUCED_MARK } else { "" };
            let (basis, amount) = match document.draft.basis {
                Basis::Exclusive => ("税抜", of_rate.net),
                Basis::Inclusive => ("税込", of_rate.gross),
            };
            [format!("{}%対象（{basis}）{mark}", rate.percent()), yen(amount), yen(of_rate.tax)]
        })
        .collect()
}

fn blocks(draft: &Draft) -> Vec<(&'static str, Vec<String>)> {
    let mut blocks = Vec::new();
    if let Some(bank) = &draft.bank {
        let mut lines = bank_lines(bank);
        lines.extend(draft.transfer_fee_note.lines().map(str::to_owned));
        blocks.push(("お振込先", lines));
    } else if !draft.transfer_fee_note.is_empty() {
        blocks.push(("振込手数料", draft.transfer_fee_note.lines().map(str::to_owned).collect()));
    }
    if let Some(consignor) = &draft.consignor {
        let number = consignor.registration_number.map(|number| format!("　登録番号 {number}")).unwrap_or_default();
        blocks.push(("媒介者交付特例による交付", vec![format!("委託者: {}{number}", consignor.name)]));
    }
    if draft.kind == Kind::Receipt && payment_method(&draft.payment_method) != "クレジットカード利用" {
        blocks.push(("収入印紙", vec!["電子発行のため収入印紙は不要です。".to_owned()]));
    }
    if !draft.notes.is_empty() {
        blocks.push(("備考", draft.notes.lines().map(str::to_owned).collect()));
    }
    blocks
}

fn bank_lines(bank: &BankAccount) -> Vec<String> {
    let coded = |name: &str, code: &str| if code.is_empty() { name.to_owned() } else { format!("{name}（{code}）") };
    let holder = if bank.account_holder_kana.is_empty() {
        bank.account_holder.clone()
    } else {
        format!("{}（{}）", bank.account_holder, bank.account_holder_kana)
    };
    let mut lines = vec![
        format!("{}　{}", coded(&bank.bank_name, &bank.bank_code), coded(&bank.branch_name, &bank.branch_code)),
        format!("{}　{}　{holder}", bank.account_type, bank.account_number),
    ];
    if !bank.note.is_empty() {
        lines.push(bank.note.clone());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_with_commas() {
        for (amount, text) in [(0, "¥0"), (999, "¥999"), (1_000, "¥1,000"), (-1_234_567, "-¥1,234,567")] {
            assert_eq!(yen(amount), text);
        }
        for (value, text) in [("1234.50", "1,234.5"), ("-0.001", "-0.001"), ("-0", "0"), ("100000", "100,000")] {
            assert_eq!(number(value.parse().unwrap()), text);
        }
    }

    #[test]
    fn a9_a_name_has_one_honorific() {
        for (name, shown) in [
            ("株式会社あんご", "株式会社あんご 御中"),
            ("みずほ銀行", "みずほ銀行 御中"),
            ("株式会社平行", "株式会社平行 御中"),
            ("行", "行 御中"),
            ("山田商事 行", "山田商事 行"),
            ("山田商事　行", "山田商事　行"),
            ("山田太郎様", "山田太郎様"),
            ("北野 先生", "北野 先生"),
            ("お客様各位", "お客様各位"),
        ] {
            assert_eq!(with_honorific(name, "御中"), shown);
        }
        assert_eq!(with_honorific("山田太郎", ""), "山田太郎");
    }
}
