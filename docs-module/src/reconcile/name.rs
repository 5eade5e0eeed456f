//! Keys of names. Spellings that people and banks use for the same name have the same key.

mod forms;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick, is_nfkc_quick};

use crate::honorific::without_honorific;

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
    /// forms and offices, numbers of transfers, and characters after the 30th.
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

/// Latin legal forms at the end of a name, after a space or a comma.
const LATIN_FORMS: [&str; 10] = ["co., ltd", "co.,ltd", "co. ltd", "co ltd", "ltd", "inc", "k.k", "kk", "llc", "corp"];
const TRANSFER_WORDS: [&str; 3] = ["振込人", "フリコミ", "振込"];
/// Number of characters of a name that count. Folding makes up to 18 characters of one, so the length of a name alone
/// does not bound the work.
const CHARACTERS_MAX: usize = 300;
/// Banks cut names after this many characters.
const BANK_CHARACTERS: usize = 30;
/// Largest number of digits of the transfer number before a name.
const TRANSFER_DIGITS_MAX: usize = 10;
/// Digits of a corporate number.
const CORPORATE_DIGITS: usize = 13;

/// Computes the key of a name. Two names match if their keys of the same kind are equal and not empty. The key is empty
/// if nothing of the name counts.
pub fn key(kind: NameKind, name: &str) -> String {
    match kind {
        NameKind::Exact => name.trim().to_owned(),
        NameKind::Number => number(name),
        NameKind::Text => plain(&folded(name)),
        NameKind::Company => company(&named(name)),
        NameKind::Kana => forms::KANA.replaced_in(&large_kana(&company(&named(name)))),
        NameKind::Bank => bank(&named(name)),
    }
}

/// Converts a name to the compatibility form (NFKC) in lower case, with sound marks joined to their kana.
fn folded(name: &str) -> String {
    if name.is_ascii() {
        return name.chars().take(CHARACTERS_MAX).map(|c| c.to_ascii_lowercase()).collect();
    }
    let joined = name.chars().map(|c| match c {
        // NFKC would put a space before these sound marks, so replace them by their combining forms
        '\u{309B}' => '\u{3099}',
        '\u{309C}' => '\u{309A}',
        c => c,
    });
    let joined = joined.take(CHARACTERS_MAX);
    if is_nfkc_quick(joined.clone()) == IsNormalized::Yes {
        return joined.flat_map(char::to_lowercase).collect();
    }
    joined.nfkc().take(CHARACTERS_MAX).flat_map(char::to_lowercase).collect()
}

/// A name without its honorific and its Latin legal form, and without spaces and punctuation.
fn named(name: &str) -> String {
    let folded = folded(name);
    plain(without_latin_form(without_honorific(&folded)))
}

/// Removes spaces, punctuation and characters without an appearance. A dash after kana becomes a long vowel mark, any
/// other dash a hyphen.
fn plain(folded: &str) -> String {
    let mut plain = String::with_capacity(folded.len());
    for c in folded.chars() {
        match c {
            '・' | '･' | '\'' | '"' | '\u{2018}'..='\u{201F}' | ',' | '.' | '、' | '。' => {}
            // joiners, a byte-order mark, and selectors of variants
            '\u{200B}'..='\u{200D}' | '\u{2060}' | '\u{FEFF}' => {}
            c if c.is_whitespace() => {}
            // variation selectors: 葛城 is found whichever form of 葛 its owner writes
            '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => {}
            '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' | 'ー' => {
                let is_long = plain.chars().next_back().is_some_and(is_kana);
                plain.push(if is_long { 'ー' } else { '-' });
            }
            c => plain.push(c),
        }
    }
    // if a combining mark came after a space that was removed, NFC joins the mark to the letter before that space
    if is_nfc_quick(plain.chars()) == IsNormalized::Yes { plain } else { plain.nfc().collect() }
}

fn is_kana(c: char) -> bool {
    matches!(c, '\u{3041}'..='\u{3096}' | '\u{30A1}'..='\u{30FA}' | 'ー')
}

/// Removes a Latin legal form at the end. Runs before punctuation is removed, because the space or comma before the
/// form must still be there.
fn without_latin_form(folded: &str) -> &str {
    let end = folded.trim_end_matches([' ', '.', ',']);
    for form in LATIN_FORMS {
        if let Some(rest) = end.strip_suffix(form)
            && rest.ends_with([' ', ','])
        {
            return rest;
        }
    }
    folded
}

/// Removes legal forms, and replaces variants of kanji.
fn company(name: &str) -> String {
    let name = forms::without_brackets(&forms::FULL.replaced_in(name), forms::short);
    name.chars().map(standard_kanji).collect()
}

/// Converts hiragana and small kana to large katakana, and ヲ to オ, because banks do not write ヲ.
fn large_kana(name: &str) -> String {
    let katakana = |c: char| match c {
        '\u{3041}'..='\u{3096}' => char::from_u32(c as u32 + 0x60).expect("katakana lie behind hiragana"),
        c => c,
    };
    name.chars().map(|c| large(katakana(c))).collect()
}

fn bank(name: &str) -> String {
    let digits = name.bytes().take_while(u8::is_ascii_digit).count();
    // a name of digits alone is no transfer number
    let name = if digits <= TRANSFER_DIGITS_MAX && digits < name.len() { &name[digits..] } else { name };
    let name = TRANSFER_WORDS.iter().fold(name.to_owned(), |name, word| name.replace(word, ""));
    let name = forms::without_brackets(&forms::FULL_OF_BANKS.replaced_in(&name), forms::short);
    let name: String = name.chars().map(standard_kanji).collect();
    let name = forms::KANA_OF_BANKS.replaced_in(&large_kana(&name));
    let name = forms::without_brackets(&name, forms::of_banks);
    forms::without_office(&name).chars().take(BANK_CHARACTERS).collect()
}

/// Keeps the digits of a name. A name without a digit has no number, so its key is empty.
fn number(name: &str) -> String {
    let folded = folded(name);
    let digits: String = folded.chars().filter(char::is_ascii_digit).collect();
    let Some(last) = digits.len().checked_sub(1) else { return digits };
    let significant = digits.trim_start_matches('0');
    let digits = match significant {
        _ if digits.len() == CORPORATE_DIGITS => &digits[..],
        "" => &digits[last..],
        significant => significant,
    };
    let prefix = if folded.trim_start().starts_with('t') { "T" } else { "" };
    format!("{prefix}{digits}")
}

/// The standard form of a kanji that names have in several forms.
fn standard_kanji(c: char) -> char {
    match c {
        '髙' => '高',
        '﨑' => '崎',
        '齋' | '齊' | '斎' => '斉',
        '邊' | '邉' => '辺',
        '澤' => '沢',
        '濱' | '濵' => '浜',
        '國' => '国',
        '廣' => '広',
        '德' => '徳',
        '櫻' => '桜',
        '眞' => '真',
        '嶋' => '島',
        c => c,
    }
}

fn large(kana: char) -> char {
    match kana {
        'ァ' => 'ア',
        'ィ' => 'イ',
        'ゥ' => 'ウ',
        'ェ' => 'エ',
        'ォ' | 'ヲ' => 'オ',
        'ッ' => 'ツ',
        'ャ' => 'ヤ',
        'ュ' => 'ユ',
        'ョ' => 'ヨ',
        'ヮ' => 'ワ',
        'ヵ' => 'カ',
        'ヶ' => 'ケ',
        c => c,
    }
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

    #[test]
    fn a9_a_bank_keeps_its_last_character() {
        for kind in [NameKind::Company, NameKind::Kana, NameKind::Bank] {
            assert_ne!(key(kind, "みずほ銀行"), key(kind, "みずほ銀"), "{kind:?}");
            assert_eq!(key(kind, "みずほ銀行 御中"), key(kind, "みずほ銀行　行"), "{kind:?}");
            assert_eq!(key(kind, "みずほ銀行各位"), key(kind, "みずほ銀行"), "{kind:?}");
        }
        assert_eq!(key(NameKind::Company, "Acme Co., Ltd. 御中"), "acme");
        assert_eq!(key(NameKind::Company, "株式会社平行"), "平行");
    }

    #[test]
    fn e3_e4_forms_match_as_banks_abbreviate_them_and_as_they_are_written_out() {
        for (one, other) in [
            ("ゴウドウガイシヤ ミライ", "ド)ミライ"),
            ("ごうどうがいしゃ みらい", "ﾐﾗｲ(ﾄﾞ"),
            ("カブシキカイシャ ミライ", "㈱ミライ"),
            ("ﾐﾗｲ ﾕｳｹﾞﾝｶﾞｲｼﾔ", "ミライ（ユ）"),
            ("トクテイヒエイリカツドウホウジン ミライ", "NPO法人ミライ"),
            ("ゼイ)ミナト", "税理士法人ミナト"),
            ("ゼイリシホウジンミナト", "ミナト(ゼイ)"),
            ("チドク)ミナト", "地方独立行政法人ミナト"),
            ("ダイ)ミナト", "公立大学法人ミナト"),
            ("シホウ)ミナト", "ミナト司法書士法人"),
            ("ギヨウ)ミナト", "行政書士法人 ミナト"),
            ("ロウム)ミナト", "社会保険労務士法人ミナト"),
            ("カンリ)ミナト", "ミナト管理組合法人"),
            ("チユウ)ミナト", "有限責任中間法人ミナト"),
            ("ノウ)ミナト", "農事組合法人ミナト"),
            ("ミナト(ノウキヨウ)", "ミナト農業協同組合"),
            ("ｾｲｷﾖｳ)ﾐﾅﾄ", "生活協同組合ミナト"),
            ("イ)シヤ)ミナト", "医療法人社団ミナト"),
            ("カ)ミナト(エイ", "ミナト(株)営業所"),
            ("ミナト(シユツ", "ミナト出張所"),
            ("ミナト(ケンポ", "ミナト健康保険組合"),
            ("ミナトケンポ", "ミナトケンコウホケンクミアイ"),
            ("コクホレン)ミナト", "国民健康保険団体連合会ミナト"),
            ("ミナト(ロウクミ)", "ミナト労働組合"),
            ("(一社)ミナト", "シヤ)ミナト"),
            ("(株式会社)ミナト", "カ)ミナト"),
        ] {
            assert_eq!(key(NameKind::Bank, one), key(NameKind::Bank, other), "{one} {other}");
        }
        assert_eq!(key(NameKind::Kana, "ゴウドウガイシャ ミライ"), key(NameKind::Kana, "合同会社みらい"));
        // a union and a pension fund are not the company, and an abbreviation without a bracket is part of the name
        let bank = |name| key(NameKind::Bank, name);
        assert_ne!(bank("ミナト(ロウクミ)"), bank("カ)ミナト"));
        assert_ne!(bank("ミナト(ケンポ"), bank("ミナト(コウネン"));
        assert_eq!(
            ["ミナトカ", "ゼイミナト", "エイミナト", "ミナトド"].map(bank),
            ["ミナトカ", "ゼイミナト", "エイミナト", "ミナトド"]
        );
        assert_eq!(bank("ミナト(アオバ)"), "ミナト(アオバ)");
    }

    #[test]
    fn a11_names_in_which_nothing_counts_have_no_key() {
        for (kind, names) in [
            (NameKind::Text, &["", "  ", "　", "・。"][..]),
            (NameKind::Exact, &["", " \t"]),
            (NameKind::Company, &["株式会社", "有限会社", "(株)", "㈱"]),
            (NameKind::Kana, &["カブシキガイシャ"]),
            (NameKind::Bank, &["カ)", "(カ", "フリコミ", "振込"]),
            (NameKind::Number, &["請求書A", "T", "Toyota", ""]),
        ] {
            for name in names {
                assert_eq!(key(kind, name), "", "{kind:?} {name}");
            }
        }
        assert_eq!(["000", "T0", "No. 0"].map(|name| key(NameKind::Number, name)), ["0", "T0", "0"]);
    }

    #[test]
    fn a1_only_the_first_characters_of_a_name_count() {
        for kind in NameKind::ALL.into_iter().filter(|kind| *kind != NameKind::Exact) {
            assert!(key(kind, &"\u{FDFA}1".repeat(100_000)).chars().count() <= 2 * CHARACTERS_MAX, "{kind:?}");
        }
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
