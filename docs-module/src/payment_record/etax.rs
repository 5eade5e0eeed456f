//! Form 309 as a text of records for electronic filing: 53 columns in Shift_JIS, with characters of JIS X 0208 only
//! (circular on statutory records on optical media; e-Tax standard form of January 2026). All that the file needs is
//! checked here ([`Filing`]).

mod text;

use encoding_rs::SHIFT_JIS;
pub use text::Unwritable;
use text::full_width;
use unicode_normalization::UnicodeNormalization;

use super::party_number::{NumberError, PartyNumber};
use crate::calendar::reiwa_year;
use crate::document::grouped;

/// Largest number of kinds of payments in a record; further kinds go into another record.
pub(super) const KINDS_OF_RECORD: usize = 6;
/// Largest numbers of characters of full-width items.
const ADDRESS_MAX: usize = 60;
const NAME_MAX: usize = 30;
const WORD_MAX: usize = crate::tax::withholding::WORD_MAX;
const DETAIL_MAX: usize = 20;
const NOTES_MAX: usize = 100;
/// Largest number of characters of a telephone number.
const PHONE_MAX: usize = 15;
/// Largest amount in yen: 10 digits.
const AMOUNT_MAX: i64 = 9_999_999_999;

/// The payer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payer {
    /// Address, beginning with the prefecture.
    pub address: String,
    /// Name.
    pub name: String,
    /// `03-3581-4161`; may be empty.
    pub phone: String,
    /// Corporate or personal number; may be empty.
    pub number: String,
}

/// A payee, and the payments to file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payee {
    /// Address, beginning with the prefecture.
    pub address: String,
    /// The name, without titles.
    pub name: String,
    /// Corporate or personal number; may be empty.
    pub number: String,
    /// Payments by kind. A payee without kinds has no record.
    pub kinds: Vec<Kind>,
}

/// Payments of a kind (支払内容), in yen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// 区分, for example 原稿料.
    pub word: String,
    /// 細目.
    pub detail: String,
    /// Payments, including the unpaid part.
    pub payment: i64,
    /// The unpaid part.
    pub unpaid: i64,
    /// Tax, including the part that is not collected yet.
    pub tax: i64,
    /// The part of the tax that is not collected yet.
    pub uncollected_tax: i64,
    /// Consumption tax beside the payments, which goes into 摘要.
    pub consumption_tax: i64,
}

/// An item of a record that the caller gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// Name of the payer (column 5).
    PayerName,
    /// Address of the payer (column 4).
    PayerAddress,
    /// Telephone number of the payer (column 6).
    PayerPhone,
    /// Number of the payer (column 52).
    PayerNumber,
    /// Name of the payee (column 14).
    Name,
    /// Address of the payee (column 12).
    Address,
    /// Number of the payee (column 53).
    Number,
    /// 区分 of a kind.
    Word,
    /// 細目 of a kind.
    Detail,
    /// An amount of a kind.
    Amount,
    /// 摘要 (column 51).
    Notes,
}

/// Why an item cannot be filed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The item is empty.
    Missing,
    /// JIS X 0208 lacks a character of the text.
    Character(Unwritable),
    /// The text has more characters than this number.
    TooLong(usize),
    /// The number or the telephone number has another form.
    Form,
    /// The check digit of the number is wrong.
    CheckDigit,
    /// The amount is negative or has more than 10 digits.
    TooLarge,
}

/// An item that cannot be filed, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The item.
    pub item: Item,
    /// The reason.
    pub why: Why,
}

/// The records of a year for filing, or all that is missing for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filing {
    /// Number of records (枚数).
    pub sheets: usize,
    /// Whether the year is one of the era Reiwa, which began in 2019.
    pub is_year_known: bool,
    /// Faults of the payer.
    pub payer: Vec<Fault>,
    /// Faults of each payee.
    pub payees: Vec<Vec<Fault>>,
    /// Indices of payees whose 細目 is cut to the form's width.
    pub cut: Vec<usize>,
    text: Vec<u8>,
}

impl Filing {
    /// Prepares the records of a year. Without records, nothing is missing.
    pub fn of(payer: &Payer, payees: &[Payee], year: i32) -> Filing {
        let era = reiwa_year(year).filter(|era| *era < 100);
        let mut filing = Filing { is_year_known: era.is_some(), ..Filing::default() };
        let of_payer = Columns::of_payer(payer);
        for (at, payee) in payees.iter().enumerate() {
            let mut faults = Vec::new();
            for kinds in payee.kinds.chunks(KINDS_OF_RECORD) {
                let of_payee = Columns::of_payee(payee, kinds);
                if of_payee.is_cut && filing.cut.last() != Some(&at) {
                    filing.cut.push(at);
                }
                filing.write(&record(&of_payer.texts, era.unwrap_or(0), &of_payee.texts));
                // a second record of the payee repeats the faults of the first
                faults.extend(of_payee.faults.into_iter().filter(|fault| !faults.contains(fault)).collect::<Vec<_>>());
            }
            filing.payees.push(faults);
        }
        if filing.sheets > 0 {
            filing.payer = of_payer.faults;
        }
        filing
    }

    /// Whether the records may be filed.
    pub fn is_allowed(&self) -> bool {
        self.sheets == 0 || self.is_year_known && self.payer.is_empty() && self.payees.iter().all(Vec::is_empty)
    }

    /// The text of the records in Shift_JIS, in which lines end with CRLF. `None`: the records may not be filed.
    pub fn into_text(self) -> Option<Vec<u8>> {
        self.is_allowed().then_some(self.text)
    }

    fn write(&mut self, line: &str) {
        self.sheets += 1;
        // a record without faults has only characters of Shift_JIS
        self.text.extend(SHIFT_JIS.encode(line).0.as_ref());
        self.text.extend(b"\r\n");
    }
}

/// Puts the 53 columns of a record in order.
fn record(of_payer: &[String], era: i32, of_payee: &[String]) -> String {
    let [payer_address, payer_name, payer_phone, payer_number] = of_payer else { unreachable!("four columns") };
    let [address, name, rest @ .., number] = of_payee else { unreachable!("payee, kinds, notes, number") };
    let mut columns =
        ["309", "", "", payer_address, payer_name, payer_phone, "", "", "", "0"].map(str::to_owned).to_vec();
    columns.extend([format!("{era:02}"), address.clone(), "0".to_owned(), name.clone()]);
    columns.extend_from_slice(rest);
    // the last column must not be empty
    columns.extend([payer_number.clone(), if number.is_empty() { " ".to_owned() } else { number.clone() }]);
    columns.join(",")
}

/// Columns of a record in their order, with their faults.
#[derive(Default)]
struct Columns {
    texts: Vec<String>,
    faults: Vec<Fault>,
    is_cut: bool,
}

impl Columns {
    fn of_payer(payer: &Payer) -> Columns {
        let mut columns = Columns::default();
        columns.required(Item::PayerAddress, &payer.address, ADDRESS_MAX);
        columns.required(Item::PayerName, &payer.name, NAME_MAX);
        columns.add(Item::PayerPhone, phone(&payer.phone));
        columns.add(Item::PayerNumber, number(&payer.number));
        columns
    }

    fn of_payee(payee: &Payee, kinds: &[Kind]) -> Columns {
        let mut columns = Columns::default();
        columns.required(Item::Address, &payee.address, ADDRESS_MAX);
        columns.required(Item::Name, &payee.name, NAME_MAX);
        for kind in kinds {
            columns.required(Item::Word, &kind.word, WORD_MAX);
            columns.cut(Item::Detail, &kind.detail, DETAIL_MAX);
            columns.add(Item::Amount, yen(kind.payment, true));
            columns.add(Item::Amount, yen(kind.unpaid, false));
            columns.add(Item::Amount, yen(kind.tax, true));
            columns.add(Item::Amount, yen(kind.uncollected_tax, false));
        }
        columns.texts.extend((6 * kinds.len()..6 * KINDS_OF_RECORD).map(|_| String::new()));
        columns.cut(Item::Notes, &notes(kinds.iter().map(|kind| kind.consumption_tax).sum()), NOTES_MAX);
        columns.add(Item::Number, number(&payee.number));
        columns
    }

    fn add(&mut self, item: Item, column: Result<String, Why>) {
        let text = column.unwrap_or_else(|why| {
            let fault = Fault { item, why };
            // several amounts of a payee can be too large
            if !self.faults.contains(&fault) {
                self.faults.push(fault);
            }
            String::new()
        });
        self.texts.push(text);
    }

    fn required(&mut self, item: Item, text: &str, characters_max: usize) {
        self.add(
            item,
            wide(text).and_then(|wide| match wide.chars().count() {
                0 => Err(Why::Missing),
                count if count > characters_max => Err(Why::TooLong(characters_max)),
                _ => Ok(wide),
            }),
        );
    }

    /// Adds a text that is cut when it is too long.
    fn cut(&mut self, item: Item, text: &str, characters_max: usize) {
        let wide = wide(text);
        self.is_cut |= wide.as_ref().is_ok_and(|wide| wide.chars().count() > characters_max);
        self.add(item, wide.map(|wide| wide.chars().take(characters_max).collect()));
    }
}

/// 摘要: the consumption tax, if it is not part of the payments.
pub(super) fn notes(consumption_tax: i64) -> String {
    match consumption_tax {
        0 => String::new(),
        tax => format!("消費税等の額　{}円", grouped(&tax.to_string())),
    }
}

fn wide(text: &str) -> Result<String, Why> {
    full_width(text).map_err(Why::Character)
}

fn phone(text: &str) -> Result<String, Why> {
    let plain: String = text.trim().nfkc().collect();
    let is_phone =
        plain.len() <= PHONE_MAX && plain.bytes().all(|byte| byte.is_ascii_digit() || b"-()".contains(&byte));
    if is_phone { Ok(plain) } else { Err(Why::Form) }
}

/// Writes a number. A personal number gets a zero before it.
fn number(text: &str) -> Result<String, Why> {
    match PartyNumber::read(text) {
        Ok(PartyNumber::Missing) => Ok(String::new()),
        Ok(PartyNumber::Personal(digits)) => Ok(format!("0{digits}")),
        Ok(PartyNumber::Corporate(digits)) => Ok(digits),
        Err(NumberError::Form) => Err(Why::Form),
        Err(NumberError::CheckDigit) => Err(Why::CheckDigit),
    }
}

/// Writes an amount. A zero becomes an empty text unless `writes_nought` is true.
fn yen(amount: i64, writes_nought: bool) -> Result<String, Why> {
    match amount {
        0 if !writes_nought => Ok(String::new()),
        0..=AMOUNT_MAX => Ok(amount.to_string()),
        _ => Err(Why::TooLarge),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COLUMNS: usize = 53;

    fn payer() -> Payer {
        Payer {
            address: "東京都千代田区霞が関3-1-1".to_owned(),
            name: "財務産業㈱".to_owned(),
            phone: "03-1234-5678".to_owned(),
            number: "7000012050002".to_owned(),
        }
    }

    fn payee() -> Payee {
        Payee {
            address: "東京都新宿区西新宿２－８－１".to_owned(),
            name: "山田 太郎".to_owned(),
            number: "123456789018".to_owned(),
            kinds: vec![Kind {
                word: "原稿料".to_owned(),
                detail: "5回".to_owned(),
                payment: 500_000,
                tax: 51_050,
                consumption_tax: 50_000,
                ..Kind::default()
            }],
        }
    }

    /// The records as text, if they may be filed.
    fn text(payer: &Payer, payees: &[Payee], year: i32) -> Option<String> {
        let bytes = Filing::of(payer, payees, year).into_text()?;
        let (text, _, wrong) = SHIFT_JIS.decode(&bytes);
        assert!(!wrong);
        Some(text.into_owned())
    }

    #[test]
    fn the_record_of_the_fact_sheet() {
        let written = text(&payer(), &[payee()], 2025).unwrap();
        let expected = format!(
            "309,,,東京都千代田区霞が関３－１－１,財務産業（株）,03-1234-5678,,,,0,07,東京都新宿区西新宿２－８－１,0,山田　太郎,\
             原稿料,５回,500000,,51050,,{}消費税等の額　５０，０００円,7000012050002,0123456789018\r\n",
            ",".repeat(30)
        );
        assert_eq!(written, expected);
        assert_eq!(written.split(',').count(), COLUMNS);
    }

    #[test]
    fn a4_a_seventh_kind_begins_another_record_and_the_last_column_is_never_empty() {
        let mut many = payee();
        many.number = String::new();
        many.kinds = vec![many.kinds[0].clone(); 7];
        assert_eq!(Filing::of(&payer(), &[many.clone(), payee()], 2026).sheets, 3);
        let written = text(&payer(), &[many], 2026).unwrap();
        let lines: Vec<Vec<&str>> = written.split_terminator("\r\n").map(|line| line.split(',').collect()).collect();
        // each record states the consumption tax of its own kinds
        assert_eq!(
            lines.iter().map(|line| line[50]).collect::<Vec<_>>(),
            ["消費税等の額　３００，０００円", "消費税等の額　５０，０００円"]
        );
        for line in lines {
            assert_eq!((line.len(), line[52], line[10]), (COLUMNS, " ", "08"));
        }
    }

    #[test]
    fn a5_all_that_is_missing_for_the_file_is_told() {
        let wrong = |change: fn(&mut Payer, &mut Payee)| {
            let (mut payer, mut payee) = (payer(), payee());
            change(&mut payer, &mut payee);
            let filing = Filing::of(&payer, &[payee], 2025);
            assert_eq!(filing.clone().into_text(), None);
            let faults = filing.payer.iter().chain(&filing.payees[0]);
            faults.map(|fault| (fault.item, fault.why)).collect::<Vec<_>>()
        };
        assert_eq!(wrong(|payer, _| payer.number = "123".to_owned()), [(Item::PayerNumber, Why::Form)]);
        assert_eq!(wrong(|payer, _| payer.phone = "call me".to_owned()), [(Item::PayerPhone, Why::Form)]);
        assert_eq!(wrong(|_, payee| payee.number = "123456789010".to_owned()), [(Item::Number, Why::CheckDigit)]);
        assert_eq!(wrong(|_, payee| payee.kinds[0].payment = 10_000_000_000), [(Item::Amount, Why::TooLarge)]);
        assert_eq!(wrong(|_, payee| payee.kinds[0].tax = -1), [(Item::Amount, Why::TooLarge)]);
        assert_eq!(wrong(|_, payee| payee.name = "あ".repeat(31)), [(Item::Name, Why::TooLong(30))]);
        let everything = wrong(|payer, payee| {
            *payer = Payer { number: "7000012050003".to_owned(), ..Payer::default() };
            (payee.name, payee.address) = ("山田🍣".to_owned(), "\u{3000}".to_owned());
            payee.kinds = vec![payee.kinds[0].clone(); 7];
        });
        let character = Why::Character(Unwritable { place: 2, character: '🍣' });
        assert_eq!(
            everything,
            [
                (Item::PayerAddress, Why::Missing),
                (Item::PayerName, Why::Missing),
                (Item::PayerNumber, Why::CheckDigit),
                (Item::Address, Why::Missing),
                (Item::Name, character),
            ]
        );
        assert_eq!(text(&payer(), &[payee()], 2018), None);
    }

    #[test]
    fn a5_who_has_no_record_blocks_no_file() {
        let nobody = Payee::default();
        let filing = Filing::of(&payer(), &[nobody.clone(), payee()], 2025);
        assert_eq!((filing.sheets, &filing.payees[0]), (1, &vec![]));
        assert!(filing.into_text().is_some());
        let empty = Filing::of(&Payer::default(), &[nobody], 2018);
        assert_eq!((empty.payer.len(), empty.into_text()), (0, Some(Vec::new())));
    }

    #[test]
    fn a4_a_detail_that_is_too_long_is_cut_and_told() {
        let mut long = payee();
        long.kinds[0].detail = "あ".repeat(21);
        let filing = Filing::of(&payer(), &[payee(), long.clone()], 2025);
        assert_eq!(filing.cut, [1]);
        let written = text(&payer(), &[long], 2025).unwrap();
        assert_eq!(written.split(',').nth(15), Some("あ".repeat(20).as_str()));
    }

    proptest! {
        #[test]
        fn any_text_is_written_in_full_width_or_told(given in ".{0,40}") {
            let mut of = payee();
            of.kinds[0].detail = given.clone();
            of.name = given;
            if let Some(written) = text(&payer(), &[of], 2025) {
                let line = written.strip_suffix("\r\n").unwrap();
                prop_assert_eq!(line.split(',').count(), COLUMNS);
                prop_assert!(!line.contains(['\r', '\n']));
                prop_assert!(line.split(',').nth(13).unwrap().chars().all(|c| !c.is_ascii()));
            }
        }
    }
}
