//! Texts of form 309: full-width characters of JIS X 0208.

use encoding_rs::SHIFT_JIS;
use unicode_normalization::UnicodeNormalization;

/// Variant and old forms of kanji that JIS X 0208 lacks, and their standard forms.
const VARIANTS: [(char, char); 46] = [
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
    ('栁', '柳'),
    ('桒', '桑'),
    ('淸', '清'),
    ('靑', '青'),
    ('黑', '黒'),
    ('綠', '緑'),
    ('橫', '横'),
    ('郞', '郎'),
    ('曻', '昇'),
    ('寬', '寛'),
    ('敎', '教'),
    // forms of JIS X 0213 whose shape is another one than in JIS X 0208
    ('俠', '侠'),
    ('剝', '剥'),
    ('噓', '嘘'),
    ('嚙', '噛'),
    ('塡', '填'),
    ('屛', '屏'),
    ('搔', '掻'),
    ('攢', '攅'),
    ('瀆', '涜'),
    ('焰', '焔'),
    ('瘦', '痩'),
    ('繡', '繍'),
    ('萊', '莱'),
    ('蔣', '蒋'),
    ('蟬', '蝉'),
    ('軀', '躯'),
    ('醬', '醤'),
    ('頰', '頬'),
    ('顚', '顛'),
    ('驒', '騨'),
    ('鷗', '鴎'),
    ('鹼', '鹸'),
    ('麴', '麹'),
    ('麵', '麺'),
];

/// A character that JIS X 0208 does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unwritable {
    /// Place of the character in the text, from 0.
    pub place: usize,
    /// The character.
    pub character: char,
}

/// Converts a text to full-width characters of JIS X 0208. Runs of spaces and line ends become one space.
///
/// # Errors
/// The first character that cannot be written.
pub fn full_width(text: &str) -> Result<String, Unwritable> {
    let mut wide = String::new();
    // NFKC replaces enclosed and unit signs by the characters that they stand for, and half-width kana by full-width
    // kana
    for (place, character) in text.trim().nfkc().enumerate() {
        let last = wide.chars().next_back();
        let is_after_digit = last.is_some_and(|last| ('０'..='９').contains(&last));
        let standard = VARIANTS.iter().find(|(variant, _)| *variant == character);
        let written = match standard.map_or(character, |(_, standard)| *standard) {
            c if c.is_whitespace() && last == Some('\u{3000}') => continue,
            c if c.is_whitespace() => '\u{3000}',
            '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' => '\u{FF0D}',
            'ー' if is_after_digit => '\u{FF0D}',
            '~' | '\u{301C}' => '\u{FF5E}',
            '"' => '\u{201D}',
            '\'' => '\u{2019}',
            c @ '!'..='}' => char::from_u32(c as u32 + 0xFEE0).expect("full-width forms of ASCII"),
            c => c,
        };
        if !is_jis(written) {
            return Err(Unwritable { place, character });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_made_full_width_and_what_cannot_be_written_is_told() {
        for (text, written) in [
            ("A-1 ｶﾞﾗｽ ①㈱", "Ａ－１　ガラス　１（株）"),
            ("髙﨑", "高崎"),
            ("1ー2 コーヒー", "１－２　コーヒー"),
            ("〜~", "～～"),
            ("a\"b'c,d", "ａ”ｂ’ｃ，ｄ"),
            ("−–—", "－－－"),
            (" 東京都\r\n\u{3000} 麴町 ", "東京都　麹町"),
        ] {
            assert_eq!(full_width(text).as_deref(), Ok(written), "{text}");
        }
        for (text, place, character) in
            [("山𠮷", 1, '𠮷'), ("a😀", 1, '😀'), ("한", 0, '한'), ("é", 0, 'é'), ("\u{200b}", 0, '\u{200b}')]
        {
            assert_eq!(full_width(text), Err(Unwritable { place, character }), "{text}");
        }
    }

    #[test]
    fn variants_are_needed_and_their_standard_forms_can_be_written() {
        for (variant, standard) in VARIANTS {
            assert!(is_jis(standard), "{standard}");
            // 齋, 齊, 邊, 邉 and 藏 are in JIS X 0208 as old forms, and the circular asks for the standard form
            assert!(!is_jis(variant) || "齋齊邊邉藏".contains(variant), "{variant}");
        }
    }
}
