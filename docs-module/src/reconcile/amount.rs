//! Amounts as people and banks write them.

use rust_decimal::Decimal;
use unicode_normalization::UnicodeNormalization;

/// Largest number of characters of an amount.
const CHARACTERS_MAX: usize = 40;

/// Reads `1,234`, `￥1,234`, `１２３４円`, `1,234.00`, `△1,234`, `(1,234)` and `-1,234`. `None`: the text is not a number.
pub fn amount(text: &str) -> Option<Decimal> {
    if text.chars().count() > CHARACTERS_MAX {
        return None;
    }
    let plain: String = text.nfkc().filter(|c| !c.is_whitespace() && *c != ',').collect();
    let (plain, in_brackets) = match plain.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        Some(inner) => (inner.to_owned(), true),
        None => (plain, false),
    };
    let (plain, currency) = without_any(&plain, &['¥', '￥', '\\']);
    let (plain, minus) = without_any(plain, &['-', '\u{2212}', '△', '▲']);
    let (plain, again) = if currency { (plain, false) } else { without_any(plain, &['¥', '￥', '\\']) };
    let plain = plain.strip_suffix('円').unwrap_or(plain);
    let is_number =
        plain.starts_with(|c: char| c.is_ascii_digit()) && plain.chars().all(|c| c.is_ascii_digit() || c == '.');
    // brackets and a minus sign together are refused, and so are two currency signs
    let number: Decimal =
        plain.parse().ok().filter(|_| is_number && !(in_brackets && minus) && !(currency && again))?;
    Some(if in_brackets || minus { -number } else { number })
}

/// Removes a leading sign from `signs`. Returns the remaining text, and whether a sign was removed.
fn without_any<'a>(text: &'a str, signs: &[char]) -> (&'a str, bool) {
    text.strip_prefix(signs).map_or((text, false), |rest| (rest, true))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_are_read_as_they_are_written() {
        for (text, yen) in [
            ("1,234", "1234"),
            ("￥1,234", "1234"),
            ("¥ 1,234", "1234"),
            ("１２３４円", "1234"),
            ("1,234.00", "1234"),
            ("△1,234", "-1234"),
            ("▲￥1,234", "-1234"),
            ("￥-1,234", "-1234"),
            ("(1,234)", "-1234"),
            ("（１，２３４）", "-1234"),
            ("-1,234", "-1234"),
            ("−1234円", "-1234"),
            ("0", "0"),
        ] {
            assert_eq!(amount(text), Some(yen.parse::<Decimal>().unwrap()), "{text}");
        }
        for text in
            ["", "-", "円", "abc", "1.2.3", "(-5)", "--5", "￥￥5", "NaN", "1e5", "٣", "5円5", "💴", &"9".repeat(41)]
        {
            assert_eq!(amount(text), None, "{text}");
        }
        assert_eq!(amount(&"9".repeat(40)), None);
    }

    proptest! {
        #[test]
        fn any_text_is_an_amount_or_none(text in ".{0,60}", yen in -1_000_000_000i64..1_000_000_000) {
            let _ = amount(&text);
            prop_assert_eq!(amount(&yen.to_string()), Some(Decimal::from(yen)));
        }
    }
}
