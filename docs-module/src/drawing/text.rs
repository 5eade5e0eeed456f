//! Texts as callers give them, made safe; texts as the faces can show them; and lines of text for a column.

use std::collections::BTreeSet;

use unicode_linebreak::{BreakOpportunity, linebreaks};
use unicode_normalization::UnicodeNormalization;

use super::face::Weight;

/// The geta mark of printers, which is drawn for a character that no face has.
pub const MISSING: char = '〓';

/// Makes a text safe to show and to keep: control characters become spaces, line ends become `\n`, and invisible
/// characters that let a text be read differently from how it is stored are left out ([`is_mark_of_direction`]). All
/// other characters stay as the caller wrote them.
pub fn safe(text: &str) -> String {
    let unified = text.replace("\r\n", "\n");
    let mut safe = String::with_capacity(unified.len());
    for character in unified.chars() {
        match character {
            '\n' | '\r' | '\u{2028}' | '\u{2029}' => safe.push('\n'),
            _ if is_mark_of_direction(character) => {}
            _ if character.is_control() || is_noncharacter(character) => safe.push(' '),
            _ => safe.push(character),
        }
    }
    safe
}

/// Makes a safe text that the faces can show. Marks are joined to their letters (NFC). A character that BIZ UDGothic
/// lacks is drawn in its compatibility form if BIZ UDGothic has that (a narrow space as a space, ⽇ as 日), or else from
/// a second face. A character that no face has becomes [`MISSING`] and is added to `missing`.
pub fn drawable(text: &str, missing: &mut BTreeSet<char>) -> String {
    let mut drawable = String::with_capacity(text.len());
    for character in joined(text) {
        if character == '\n' || Weight::Regular.has(character) {
            drawable.push(character);
        } else if is_invisible(character) {
        } else if let Some(form) = compatibility_form(character) {
            drawable.push_str(&form);
        } else if Weight::Regular.face(character).is_some() {
            drawable.push(character);
        } else {
            missing.insert(character);
            drawable.push(MISSING);
        }
    }
    drawable
}

/// Makes a text safe and drawable.
pub fn clean(text: &str, missing: &mut BTreeSet<char>) -> String {
    drawable(&safe(text), missing)
}

/// Joins marks to their letters. Compatibility ideographs stay, though NFC replaces them by other ideographs, because
/// some are the usual form of a name (塚 with a dot) and BIZ UDGothic has them.
fn joined(text: &str) -> impl Iterator<Item = char> {
    let pieces = text.split_inclusive(is_compatibility_ideograph);
    pieces.flat_map(|piece| {
        let ideograph = piece.chars().next_back().filter(|last| is_compatibility_ideograph(*last));
        let rest = &piece[..piece.len() - ideograph.map_or(0, char::len_utf8)];
        rest.nfc().chain(ideograph)
    })
}

fn is_compatibility_ideograph(character: char) -> bool {
    matches!(character, '\u{f900}'..='\u{faff}' | '\u{2f800}'..='\u{2fa1f}')
}

/// Returns the compatibility form (NFKC) of a character, if BIZ UDGothic has all of it. A form with digits changes a
/// number (m⁵ is not m5, ½ is not 1/2), so only digits of other styles have one.
fn compatibility_form(character: char) -> Option<String> {
    let form: String = std::iter::once(character).nfkc().collect();
    let is_digit = matches!(character, '\u{1d7ce}'..='\u{1d7ff}' | '\u{1fbf0}'..='\u{1fbf9}');
    let is_true = is_digit || !form.contains(|c: char| c.is_ascii_digit());
    (is_true && form.chars().all(|c| Weight::Regular.has(c))).then_some(form)
}

/// Whether a character is drawn as nothing: a variation selector for the character before it, or a soft hyphen.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' | '\u{ad}')
}

/// Whether a character changes the direction of writing, or has no width and no meaning in names and amounts. With
/// such characters a text can be read differently from how it is stored.
pub fn is_mark_of_direction(character: char) -> bool {
    matches!(
        character,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{061c}' | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// Whether a code point is reserved as no character. XML allows no U+FFFE and U+FFFF.
fn is_noncharacter(character: char) -> bool {
    matches!(character, '\u{fdd0}'..='\u{fdef}') || u32::from(character) & 0xfffe == 0xfffe
}

/// Breaks a text into lines for a column of `width` millimetres. Lines break where Unicode (annex 14) allows, so that
/// no line begins with a closing bracket or a full stop; a word that is wider than the column is broken inside. Returns
/// at least one line.
pub fn wrap(text: &str, width: f32, size: f32, weight: Weight) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut line, mut used) = (String::new(), 0.0);
    let mut from = 0;
    for (to, opportunity) in linebreaks(text) {
        let piece = text[from..to].trim_end_matches('\n');
        from = to;
        if !line.is_empty() && used + weight.width(piece.trim_end(), size) > width {
            lines.push(take(&mut line, &mut used));
        }
        for character in piece.chars() {
            let advance = weight.width(character.encode_utf8(&mut [0; 4]), size);
            if used + advance > width && !line.is_empty() && character != ' ' {
                lines.push(take(&mut line, &mut used));
            }
            line.push(character);
            used += advance;
        }
        if opportunity == BreakOpportunity::Mandatory && to < text.len() {
            lines.push(take(&mut line, &mut used));
        }
    }
    // a line end at the very end of the text begins no further line
    if !line.is_empty() || lines.is_empty() {
        lines.push(take(&mut line, &mut used));
    }
    lines
}

fn take(line: &mut String, used: &mut f32) -> String {
    *used = 0.0;
    let mut taken = std::mem::take(line);
    taken.truncate(taken.trim_end().len());
    taken
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cleaned(text: &str) -> (String, String) {
        let mut missing = BTreeSet::new();
        (clean(text, &mut missing), missing.into_iter().collect())
    }

    #[test]
    fn a6_text_is_what_the_faces_can_show() {
        for (given, shown, missing) in [
            ("株式会社あんご", "株式会社あんご", ""),
            ("か\u{3099}ハ\u{309a}", "がパ", ""),
            ("a\tb\u{0}c", "a b c", ""),
            ("a\r\nb\rc\u{2028}d", "a\nb\nc\nd", ""),
            ("𠮷野家😀", "𠮷野家〓", "😀"),
            ("\u{202e}100\u{202c}", "100", ""),
            ("葛\u{e0100}城、辻\u{e0101}", "葛城、辻", ""),
            ("שלום", "〓〓〓〓", "ולםש"),
            // from word processors and copied PDF files
            ("A\u{2011}B\u{2003}C\u{2009}D\u{202f}E", "A‐B C D E", ""),
            ("⽇本⽀店", "日本支店", ""),
            ("𝟏𝐀", "1A", ""),
            // a number stays the same number
            ("m⁵", "m⁵", ""),
            ("½⅐", "½⅐", ""),
            ("🄁", "〓", "🄁"),
            // letters of macOS are decomposed
            ("홍길동 é", "홍길동 é", ""),
            ("홍".nfd().collect::<String>().as_str(), "홍", ""),
            ("塚\u{fa10}", "塚\u{fa10}", ""),
            ("软件有限公司", "软件有限公司", ""),
        ] {
            assert_eq!(cleaned(given), (shown.to_owned(), missing.to_owned()), "{given:?}");
        }
    }

    #[test]
    fn a6_a_safe_text_is_the_caller_s() {
        for same in
            ["𠮷野家", "か\u{3099}", "葛\u{e0100}城", "A\u{2011}B\u{2003}", "⽇本", "שלום😀", "홍길동", "\u{fa10}"]
        {
            assert_eq!(safe(same), same);
        }
        assert_eq!(safe("a\u{200b}b\u{feff}\u{2066}c\u{e0041}\u{ffff}\u{85}d"), "abc  d");
    }

    #[test]
    fn lines_end_where_they_may() {
        // wide enough for ten characters of ten points
        let width = 100.0 * super::super::POINT + 0.01;
        let wrapped = |text| wrap(text, width, 10.0, Weight::Regular);
        assert_eq!(wrapped(""), [""]);
        assert_eq!(wrapped("一二三四五六七八九十"), ["一二三四五六七八九十"]);
        // a full stop must not begin a line, so the tenth character and the full stop both go to the next line
        assert_eq!(wrapped("一二三四五六七八九十。次"), ["一二三四五六七八九", "十。次"]);
        assert_eq!(wrapped("the design of a logotype"), ["the design of a", "logotype"]);
        assert_eq!(wrapped("一\n\n二\n"), ["一", "", "二"]);
        assert_eq!(wrapped(&"x".repeat(45)), ["x".repeat(20), "x".repeat(20), "x".repeat(5)]);
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_its_column_and_nothing_is_lost(text in "[a-z0-9 あ-んア-ン一-鿿。、（）\n]{0,200}") {
            let text = cleaned(&text).0;
            let lines = wrap(&text, 40.0, 9.0, Weight::Regular);
            for line in &lines {
                prop_assert!(Weight::Regular.width(line, 9.0) <= 40.0 + 1e-3);
            }
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(letters(&lines.concat()), letters(&text));
        }
    }
}
