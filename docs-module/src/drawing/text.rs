//! Cleans text for the faces, and breaks text into lines.

use std::collections::BTreeSet;

use unicode_linebreak::{BreakOpportunity, linebreaks};
use unicode_normalization::UnicodeNormalization;

use super::face::Weight;

/// The geta mark of printers, which replaces a character for which the faces have no glyph.
pub const MISSING: char = '〓';

/// Cleans a text as documents show it: composed (NFC), control characters as spaces, line ends as `\n`, marks of
/// direction left out ([`is_mark_of_direction`]). A character for which the faces have no glyph becomes [`MISSING`] and
/// is added to `missing`.
pub fn clean(text: &str, missing: &mut BTreeSet<char>) -> String {
    let unified = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut cleaned = String::with_capacity(unified.len());
    for character in unified.nfc() {
        match character {
            '\n' => cleaned.push('\n'),
            _ if is_mark_of_direction(character) => {}
            _ if character.is_control() => cleaned.push(' '),
            _ if Weight::Regular.has(character) && Weight::Bold.has(character) => cleaned.push(character),
            // a variation selector for the character before it
            '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => {}
            _ => {
                missing.insert(character);
                cleaned.push(MISSING);
            }
        }
    }
    cleaned
}

/// Whether a character changes the direction of writing or has no width. With such characters a text can be read
/// differently from how it is stored.
pub fn is_mark_of_direction(character: char) -> bool {
    matches!(
        character,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{061c}' | '\u{feff}'
    )
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
    fn text_is_what_the_faces_can_show() {
        for (given, shown, missing) in [
            ("株式会社あんご", "株式会社あんご", ""),
            ("か\u{3099}", "が", ""),
            ("a\tb\u{0}c", "a b c", ""),
            ("a\r\nb\rc", "a\nb\nc", ""),
            ("𠮷野家😀", "〓野家〓", "😀𠮷"),
            ("\u{202e}100\u{202c}", "100", ""),
            ("葛\u{e0100}城", "葛城", ""),
            ("שלום", "〓〓〓〓", "ולםש"),
        ] {
            assert_eq!(cleaned(given), (shown.to_owned(), missing.to_owned()), "{given:?}");
        }
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
