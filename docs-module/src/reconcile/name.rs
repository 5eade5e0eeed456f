//! Keys of names. Spellings that people and banks use for the same name have the same key.

use unicode_normalization::UnicodeNormalization;

/// Which differences between names are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameKind {
    /// Ignores width, case, spaces, punctuation and forms of dashes.
    #[default]
    Text,
    /// Ignores only spaces at the ends.
    Exact,
    /// Ignores what `Text` ignores, and also honorifics, legal forms of companies, and variants of kanji.
    Company,
    /// Ignores what `Company` ignores, and also whether kana are hiragana or katakana, and whether they are large or
    /// small.
    Kana,
    /// For account holders as banks write them. Ignores what `Kana` ignores, and also banks' abbreviations of legal
    /// forms, numbers of transfers, and characters after the 30th.
    Bank,
    /// Keeps only digits and a leading `T`. Leading zeros are removed unless there are 13 digits.
    Number,
}

impl NameKind {
    /// All kinds.
    pub const ALL: [NameKind; 6] =
        [NameKind::Text, NameKind::Exact, NameKind::Company, NameKind::Kana, NameKind::Bank, NameKind::Number];
    /// Values of `kind` (B34), in the same order.
    pub const NAMES: [&str; 6] = ["text", "exact", "company", "kana", "bank", "number"];

    /// Finds the kind that a value of `kind` names.
    pub fn of_name(name: &str) -> Option<NameKind> {
        NameKind::NAMES.iter().position(|one| *one == name).map(|at| NameKind::ALL[at])
    }
}

const HONORIFICS: [&str; 5] = ["御中", "先生", "様", "殿", "行"];
/// Legal forms of companies in full; longer forms first.
const FORMS: [&str; 32] = [
    "特定非営利活動法人",
    "有限責任事業組合",
    "社会保険労務士法人",
    "一般社団法人",
    "公益社団法人",
    "一般財団法人",
    "公益財団法人",
    "医療法人社団",
    "医療法人財団",
    "独立行政法人",
    "国立大学法人",
    "農業協同組合",
    "漁業協同組合",
    "生活協同組合",
    "社会福祉法人",
    "行政書士法人",
    "司法書士法人",
    "弁護士法人",
    "税理士法人",
    "医療法人",
    "学校法人",
    "宗教法人",
    "監査法人",
    "npo法人",
    "株式会社",
    "有限会社",
    "合同会社",
    "合名会社",
    "合資会社",
    "相互会社",
    "社団法人",
    "財団法人",
];
/// Legal forms that are written in brackets. The outer bracket may be missing at either end of a name.
const SHORT_FORMS: [&str; 5] = ["株", "有", "同", "名", "資"];
/// Banks' abbreviations of legal forms, in large kana; longer abbreviations first.
const BANK_FORMS: [&str; 23] = [
    "ノウキヨウ",
    "ギヨキヨウ",
    "セイキヨウ",
    "シユウ",
    "シユツ",
    "トクヒ",
    "ザイ",
    "シヤ",
    "ガク",
    "フク",
    "ドク",
    "ベン",
    "ノウ",
    "ギヨ",
    "ホゴ",
    "エイ",
    "カ",
    "ユ",
    "メ",
    "シ",
    "ド",
    "イ",
    "ソ",
];
/// Latin legal forms at the end of a name, after a space or a comma.
const LATIN_FORMS: [&str; 10] = ["co., ltd", "co.,ltd", "co. ltd", "co ltd", "ltd", "inc", "k.k", "kk", "llc", "corp"];
const TRANSFER_WORDS: [&str; 3] = ["振込人", "フリコミ", "振込"];
const VARIANTS: [(char, char); 16] = [
    ('髙', '高'),
    ('﨑', '崎'),
    ('齋', '斉'),
    ('齊', '斉'),
    ('邊', '辺'),
    ('邉', '辺'),
    ('澤', '沢'),
    ('濱', '浜'),
    ('濵', '浜'),
    ('國', '国'),
    ('廣', '広'),
    ('德', '徳'),
    ('櫻', '桜'),
    ('眞', '真'),
    ('斎', '斉'),
    ('嶋', '島'),
];
const SMALL_KANA: [(char, char); 12] = [
    ('ァ', 'ア'),
    ('ィ', 'イ'),
    ('ゥ', 'ウ'),
    ('ェ', 'エ'),
    ('ォ', 'オ'),
    ('ッ', 'ツ'),
    ('ャ', 'ヤ'),
    ('ュ', 'ユ'),
    ('ョ', 'ヨ'),
    ('ヮ', 'ワ'),
    ('ヵ', 'カ'),
    ('ヶ', 'ケ'),
];
/// Banks cut names after this many characters.
const BANK_CHARACTERS: usize = 30;
/// Largest number of digits of the transfer number before a name.
const TRANSFER_DIGITS_MAX: usize = 10;
/// Digits of a corporate number.
const CORPORATE_DIGITS: usize = 13;

/// Computes the key of a name. Two names match if their keys of the same kind are equal.
pub fn key(kind: NameKind, name: &str) -> String {
    match kind {
        NameKind::Exact => name.trim().to_owned(),
        NameKind::Number => number(name),
        NameKind::Text => plain(&folded(name)),
        NameKind::Company => without_forms(&plain(&without_latin_form(&folded(name)))),
        NameKind::Kana => large_kana(&without_forms(&plain(&without_latin_form(&folded(name))))),
        NameKind::Bank => bank(name),
    }
}

/// Converts a name to the compatibility form (NFKC) in lower case, with sound marks joined to their kana.
fn folded(name: &str) -> String {
    let joined = name.chars().map(|c| match c {
        // NFKC would put a space before these sound marks, so replace them by their combining forms
        '\u{309B}' => '\u{3099}',
        '\u{309C}' => '\u{309A}',
        c => c,
    });
    joined.nfkc().flat_map(char::to_lowercase).collect()
}

/// Removes spaces and punctuation. A dash after kana becomes a long vowel mark, any other dash a hyphen.
fn plain(folded: &str) -> String {
    let mut plain = String::with_capacity(folded.len());
    for c in folded.chars() {
        match c {
            '・' | '･' | '\'' | '"' | '\u{2018}'..='\u{201F}' | ',' | '.' | '、' | '。' => {}
            c if c.is_whitespace() => {}
            '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' | 'ー' => {
                let is_long = plain.chars().next_back().is_some_and(is_kana);
                plain.push(if is_long { 'ー' } else { '-' });
            }
            c => plain.push(c),
        }
    }
    // if a combining mark came after a space that was removed, NFC joins the mark to the letter before that space
    plain.nfc().collect()
}

fn is_kana(c: char) -> bool {
    matches!(c, '\u{3041}'..='\u{3096}' | '\u{30A1}'..='\u{30FA}' | 'ー')
}

/// Removes a Latin legal form at the end. Runs before punctuation is removed, because the space or comma before the
/// form must still be there.
fn without_latin_form(folded: &str) -> String {
    let end = folded.trim_end_matches([' ', '.', ',']);
    for form in LATIN_FORMS {
        if let Some(rest) = end.strip_suffix(form)
            && rest.ends_with([' ', ','])
        {
            return rest.to_owned();
        }
    }
    folded.to_owned()
}

fn without_forms(plain: &str) -> String {
    let mut name = plain.to_owned();
    for honorific in HONORIFICS {
        if let Some(rest) = name.strip_suffix(honorific).filter(|rest| !rest.is_empty()) {
            name = rest.to_owned();
            break;
        }
    }
    let name = FORMS.iter().fold(name, |name, form| name.replace(form, ""));
    let name = without_bracketed(name, &SHORT_FORMS);
    name.chars().map(|c| replaced(c, &VARIANTS)).collect()
}

/// Removes these forms in brackets. The opening bracket may be missing at the beginning of the name, and the closing
/// bracket at the end.
fn without_bracketed(name: String, forms: &[&str]) -> String {
    let mut name = name;
    for form in forms {
        name = name.replace(&format!("({form})"), "");
        if let Some(rest) = name.strip_prefix(&format!("{form})")) {
            name = rest.to_owned();
        }
        if let Some(rest) = name.strip_suffix(&format!("({form}")) {
            name = rest.to_owned();
        }
    }
    name
}

/// Converts hiragana and small kana to large katakana, and ヲ to オ, because banks do not write ヲ.
fn large_kana(name: &str) -> String {
    let katakana = |c: char| match c {
        '\u{3041}'..='\u{3096}' => char::from_u32(c as u32 + 0x60).expect("katakana lie behind hiragana"),
        c => c,
    };
    let large = |c: char| match replaced(katakana(c), &SMALL_KANA) {
        'ヲ' => 'オ',
        c => c,
    };
    name.chars().map(large).collect()
}

fn bank(name: &str) -> String {
    let plain = plain(&without_latin_form(&folded(name)));
    let digits = plain.bytes().take_while(u8::is_ascii_digit).count();
    let mut name = if digits <= TRANSFER_DIGITS_MAX { plain[digits..].to_owned() } else { plain };
    for word in TRANSFER_WORDS {
        name = name.replace(word, "");
    }
    let name = without_bracketed(large_kana(&without_forms(&name)), &BANK_FORMS);
    name.chars().take(BANK_CHARACTERS).collect()
}

fn number(name: &str) -> String {
    let folded: String = name.nfkc().collect();
    let digits: String = folded.chars().filter(char::is_ascii_digit).collect();
    let digits = if digits.len() == CORPORATE_DIGITS { &digits } else { digits.trim_start_matches('0') };
    let prefix = if folded.trim_start().starts_with('T') { "T" } else { "" };
    format!("{prefix}{digits}")
}

fn replaced(c: char, table: &[(char, char)]) -> char {
    table.iter().find(|(from, _)| *from == c).map_or(c, |(_, to)| *to)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn account_holders_have_the_keys_of_the_fact_sheet() {
        for (name, expected) in [
            ("ｶ)ﾔﾏﾀﾞｼﾖｳｼﾞ", "ヤマダシヨウジ"),
            ("ヤマダショウジ（カ", "ヤマダシヨウジ"),
            ("やまだしょうじ 株式会社 御中", "ヤマダシヨウジ"),
            ("ﾕ)ﾀｸﾐ", "タクミ"),
            ("ﾄｸﾋ)ﾐﾗｲ", "ミライ"),
            ("0000123456 ｶ)ｴｰﾋﾞｰｼｰ", "エービーシー"),
            ("ｴ-ﾋﾞ-ｼ-(ｶ", "エービーシー"),
            ("ヤマダ(カ)トウキヨウ", "ヤマダトウキヨウ"),
            // カ without a bracket is part of the name, not an abbreviation
            ("ヤマダカ", "ヤマダカ"),
            ("カ゛ク", "ガク"),
        ] {
            assert_eq!(key(NameKind::Bank, name), expected, "{name}");
        }
        let long = "ア".repeat(48);
        assert_eq!(key(NameKind::Bank, &long), key(NameKind::Bank, &"ア".repeat(30)));
    }

    #[test]
    fn companies_are_their_names() {
        for name in ["株式会社髙田商事", "高田商事㈱", "（株）高田　商事 御中", "高田・商事㍿", "株)高田商事"]
        {
            assert_eq!(key(NameKind::Company, name), "高田商事", "{name}");
        }
        for name in ["Acme Co., Ltd.", "ACME Inc.", "Ａｃｍｅ K.K.", "acme, LLC"] {
            assert_eq!(key(NameKind::Company, name), "acme", "{name}");
        }
        // "Zinc" only ends like the legal form "inc"
        assert_eq!(key(NameKind::Company, "Zinc"), "zinc");
        assert_eq!(key(NameKind::Company, "様"), "様");
    }

    #[test]
    fn other_kinds_pass_over_what_they_say() {
        assert_eq!(key(NameKind::Text, " Ａ－Ｂ・ﾀﾞ、 "), "a-bダ");
        assert_eq!(key(NameKind::Text, "株式会社A"), "株式会社a");
        assert_eq!(key(NameKind::Exact, "　Ａ b "), "Ａ b");
        assert_eq!(key(NameKind::Kana, "きゃっと を"), "キヤツトオ");
        assert_eq!(key(NameKind::Number, "Ｔ7000-0120-50002"), "T7000012050002");
        assert_eq!(key(NameKind::Number, "No. 00123"), "123");
        assert_eq!(key(NameKind::Number, "0000012050002"), "0000012050002");
    }

    proptest! {
        #[test]
        fn a_key_of_a_key_is_the_key_of_its_width_and_case(name in ".{0,40}") {
            for kind in [NameKind::Text, NameKind::Exact, NameKind::Company, NameKind::Kana, NameKind::Bank, NameKind::Number] {
                let once = key(kind, &name);
                // computing the key of a key gives the same key
                if kind == NameKind::Text || kind == NameKind::Exact {
                    prop_assert_eq!(key(kind, &once), once);
                }
            }
        }
    }
}
