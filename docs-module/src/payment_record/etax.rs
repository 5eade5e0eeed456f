//! Form 309 as a text of records for electronic filing: 53 columns in Shift_JIS, with characters of JIS X 0208 only
//! (circular on statutory records on optical media; e-Tax standard form of January 2026).

use encoding_rs::SHIFT_JIS;
use unicode_normalization::UnicodeNormalization;

use crate::calendar::reiwa_year;

/// Largest number of kinds of payments in a record; further kinds go into another record.
const KINDS_OF_RECORD: usize = 6;
/// Largest numbers of characters of full-width items.
const ADDRESS_MAX: usize = 60;
const NAME_MAX: usize = 30;
const KIND_MAX: usize = 10;
const DETAIL_MAX: usize = 20;
const NOTES_MAX: usize = 100;
/// Largest amount in yen: 10 digits.
const AMOUNT_MAX: i64 = 9_999_999_999;
/// Variant forms of kanji and their standard forms.
const VARIANTS: [(char, char); 11] = [
    ('髙', '高'),
    ('﨑', '崎'),
    ('德', '徳'),
    ('齋', '斎'),
    ('齊', '斉'),
    ('邊', '辺'),
    ('邉', '辺'),
    ('濵', '浜'),
    ('藏', '蔵'),
    ('瀨', '瀬'),
    ('增', '増'),
];

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

/// A payee, and the payments by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payee {
    /// Address, beginning with the prefecture.
    pub address: String,
    /// Whether the address is outside Japan.
    pub is_abroad: bool,
    /// The name, without titles.
    pub name: String,
    /// Corporate or personal number; may be empty.
    pub number: String,
    /// Payments by kind.
    pub kinds: Vec<Kind>,
    /// 摘要.
    pub notes: String,
}

/// Payments of a kind, in yen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// 区分, for example 原稿料.
    pub name: String,
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
}

/// Why a record cannot be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// A character that JIS X 0208 does not have: the item, the place of the character in the item's text, and the
    /// character.
    Character(&'static str, usize, char),
    /// A text that is too long: the item and its largest number of characters. Details and notes are cut instead.
    TooLong(&'static str, usize),
    /// A malformed number, or an amount that is negative or too large: the item.
    Number(&'static str),
    /// A year before 2019.
    Year,
}

/// Writes the records of a year in Shift_JIS. Lines end with CRLF.
///
/// # Errors
/// When an item cannot be written.
pub fn records(payer: &Payer, payees: &[Payee], year: i32) -> Result<Vec<u8>, RecordError> {
    let mut bytes = Vec::new();
    for payee in payees {
        for kinds in payee.kinds.chunks(KINDS_OF_RECORD) {
            let line = columns(payer, payee, kinds, year)?.join(",");
            // every character is in Shift_JIS, because `columns` has refused all others
            bytes.extend(SHIFT_JIS.encode(&line).0.as_ref());
            bytes.extend(b"\r\n");
        }
    }
    Ok(bytes)
}

fn columns(payer: &Payer, payee: &Payee, kinds: &[Kind], year: i32) -> Result<Vec<String>, RecordError> {
    let era = reiwa_year(year).filter(|era| *era < 100).ok_or(RecordError::Year)?;
    let empty = String::new;
    let mut columns = vec![
        "309".to_owned(),
        empty(),
        empty(),
        full("payer.address", &payer.address, ADDRESS_MAX)?,
        full("payer.name", &payer.name, NAME_MAX)?,
        phone(&payer.phone)?,
        empty(),
        empty(),
        empty(),
        "0".to_owned(),
        format!("{era:02}"),
        full("payee.address", &payee.address, ADDRESS_MAX)?,
        if payee.is_abroad { "1" } else { "0" }.to_owned(),
        full("payee.name", &payee.name, NAME_MAX)?,
    ];
    for at in 0..KINDS_OF_RECORD {
        match kinds.get(at) {
            None => columns.extend((0..6).map(|_| empty())),
            Some(kind) => {
                columns.push(full("kind", &kind.name, KIND_MAX)?);
                columns.push(cut("detail", &kind.detail, DETAIL_MAX)?);
                columns.push(yen("payment", kind.payment, true)?);
                columns.push(yen("unpaid", kind.unpaid, false)?);
                columns.push(yen("tax", kind.tax, true)?);
                columns.push(yen("uncollected_tax", kind.uncollected_tax, false)?);
            }
        }
    }
    columns.push(cut("notes", &payee.notes, NOTES_MAX)?);
    columns.push(number("payer.number", &payer.number)?);
    // the last column must not be empty
    let last = number("payee.number", &payee.number)?;
    columns.push(if last.is_empty() { " ".to_owned() } else { last });
    Ok(columns)
}

/// Converts a text to full-width characters. Each of them must be in JIS X 0208.
pub fn full(item: &'static str, text: &str, characters_max: usize) -> Result<String, RecordError> {
    let wide = wide(item, text)?;
    if wide.chars().count() > characters_max { Err(RecordError::TooLong(item, characters_max)) } else { Ok(wide) }
}

fn cut(item: &'static str, text: &str, characters_max: usize) -> Result<String, RecordError> {
    Ok(wide(item, text)?.chars().take(characters_max).collect())
}

fn wide(item: &'static str, text: &str) -> Result<String, RecordError> {
    let mut wide = String::new();
    // NFKC replaces enclosed and unit signs by the characters that they stand for, and half-width kana by full-width
    // kana
    for (at, c) in text.trim().nfkc().enumerate() {
        let after_digit = wide.chars().next_back().is_some_and(|last| ('０'..='９').contains(&last));
        let written = match VARIANTS.iter().find(|(variant, _)| *variant == c).map_or(c, |(_, standard)| *standard) {
            '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' => '\u{FF0D}',
            'ー' if after_digit => '\u{FF0D}',
            '~' | '\u{301C}' => '\u{FF5E}',
            '"' => '\u{201D}',
            '\'' => '\u{2019}',
            ' ' => '\u{3000}',
            c @ '!'..='}' => char::from_u32(c as u32 + 0xFEE0).expect("full-width forms of ASCII"),
            c => c,
        };
        if !is_jis(written) {
            return Err(RecordError::Character(item, at, c));
        }
        wide.push(written);
    }
    Ok(wide)
}

/// Whether JIS X 0208 has a character. Such a character has two bytes in Shift_JIS, and is in rows 1 to 8 or 16 to 84.
fn is_jis(c: char) -> bool {
    let mut buffer = [0; 4];
    let (bytes, _, unmappable) = SHIFT_JIS.encode(c.encode_utf8(&mut buffer));
    !unmappable && matches!(*bytes, [0x81..=0x84 | 0x88..=0x9F | 0xE0..=0xEA, _])
}

fn phone(text: &str) -> Result<String, RecordError> {
    let plain: String = text.trim().nfkc().collect();
    let is_phone = plain.len() <= 15 && plain.bytes().all(|byte| byte.is_ascii_digit() || b"-()".contains(&byte));
    if is_phone { Ok(plain) } else { Err(RecordError::Number("payer.phone")) }
}

/// Reads a corporate number of 13 digits, or a personal number of 12 digits, which gets a zero before it.
fn number(item: &'static str, text: &str) -> Result<String, RecordError> {
    let plain: String = text.trim().nfkc().collect();
    let is_number = plain.bytes().all(|byte| byte.is_ascii_digit());
    match plain.len() {
        0 => Ok(plain),
        12 if is_number => Ok(format!("0{plain}")),
        13 if is_number => Ok(plain),
        _ => Err(RecordError::Number(item)),
    }
}

/// Writes an amount. A zero becomes an empty text unless `writes_nought` is true.
fn yen(item: &'static str, amount: i64, writes_nought: bool) -> Result<String, RecordError> {
    match amount {
        0 if !writes_nought => Ok(String::new()),
        0..=AMOUNT_MAX => Ok(amount.to_string()),
        _ => Err(RecordError::Number(item)),
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
            is_abroad: false,
            name: "山田 太郎".to_owned(),
            number: "123456789018".to_owned(),
            kinds: vec![Kind {
                name: "原稿料".to_owned(),
                detail: "5回".to_owned(),
                payment: 500_000,
                tax: 51_050,
                ..Kind::default()
            }],
            notes: "消費税等の額50,000円".to_owned(),
        }
    }

    fn text(bytes: &[u8]) -> String {
        let (text, _, wrong) = SHIFT_JIS.decode(bytes);
        assert!(!wrong);
        text.into_owned()
    }

    #[test]
    fn the_record_of_the_fact_sheet() {
        let written = text(&records(&payer(), &[payee()], 2025).unwrap());
        let expected = format!(
            "309,,,東京都千代田区霞が関３－１－１,財務産業（株）,03-1234-5678,,,,0,07,東京都新宿区西新宿２－８－１,0,山田　太郎,\
             原稿料,５回,500000,,51050,,{}消費税等の額５０，０００円,7000012050002,0123456789018\r\n",
            ",".repeat(30)
        );
        assert_eq!(written, expected);
        assert_eq!(written.split(',').count(), COLUMNS);
    }

    #[test]
    fn a_seventh_kind_begins_another_record_and_the_last_column_is_never_empty() {
        let mut many = payee();
        many.number = String::new();
        many.kinds = vec![many.kinds[0].clone(); 7];
        let written = text(&records(&payer(), &[many], 2026).unwrap());
        let lines: Vec<&str> = written.split_terminator("\r\n").collect();
        assert_eq!(lines.len(), 2);
        for line in lines {
            assert_eq!((line.split(',').count(), line.split(',').next_back()), (COLUMNS, Some(" ")));
            assert_eq!(line.split(',').nth(10), Some("08"));
        }
    }

    #[test]
    fn texts_are_made_full_width_and_what_cannot_be_written_is_told() {
        let full = |text: &str| super::full("item", text, 60);
        for (text, written) in [
            ("A-1 ｶﾞﾗｽ ①㈱", "Ａ－１　ガラス　１（株）"),
            ("髙﨑", "高崎"),
            ("1ー2 コーヒー", "１－２　コーヒー"),
            ("〜~", "～～"),
            ("a\"b'c,d", "ａ”ｂ’ｃ，ｄ"),
            ("−–—", "－－－"),
        ] {
            assert_eq!(full(text).as_deref(), Ok(written), "{text}");
        }
        for (text, at, c) in [("山𠮷", 1, '𠮷'), ("a😀", 1, '😀'), ("한", 0, '한'), ("é", 0, 'é')] {
            assert_eq!(full(text), Err(RecordError::Character("item", at, c)), "{text}");
        }
        assert_eq!(super::full("item", &"あ".repeat(31), 30), Err(RecordError::TooLong("item", 30)));
        assert_eq!(cut("item", &"あ".repeat(31), 20).unwrap().chars().count(), 20);
    }

    #[test]
    fn wrong_numbers_amounts_and_years_are_refused() {
        let with = |change: fn(&mut Payer, &mut Payee)| {
            let (mut payer, mut payee) = (payer(), payee());
            change(&mut payer, &mut payee);
            records(&payer, &[payee], 2025).unwrap_err()
        };
        assert_eq!(with(|payer, _| payer.number = "123".to_owned()), RecordError::Number("payer.number"));
        assert_eq!(with(|payer, _| payer.phone = "call me".to_owned()), RecordError::Number("payer.phone"));
        assert_eq!(with(|_, payee| payee.number = "12345678901x".to_owned()), RecordError::Number("payee.number"));
        assert_eq!(with(|_, payee| payee.kinds[0].payment = 10_000_000_000), RecordError::Number("payment"));
        assert_eq!(with(|_, payee| payee.kinds[0].tax = -1), RecordError::Number("tax"));
        assert_eq!(records(&payer(), &[payee()], 2018), Err(RecordError::Year));
    }

    proptest! {
        #[test]
        fn any_text_is_written_in_full_width_or_told(text in ".{0,40}") {
            let mut given = payee();
            given.notes = text.clone();
            given.name = text;
            if let Ok(bytes) = records(&payer(), &[given], 2025) {
                let written = super::tests::text(&bytes);
                let line = written.strip_suffix("\r\n").unwrap();
                prop_assert_eq!(line.split(',').count(), COLUMNS);
                prop_assert!(!line.contains(['\r', '\n']));
                prop_assert!(line.split(',').nth(13).unwrap().chars().all(|c| !c.is_ascii()));
            }
        }
    }
}
