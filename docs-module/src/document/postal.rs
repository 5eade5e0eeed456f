//! An address in its parts, for forms that have a field for each part.

use unicode_normalization::UnicodeNormalization;

use super::period::is_dash;

/// The parts of an address. A part that the address lacks is empty.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Address {
    /// 郵便番号: three digits, a hyphen and four digits.
    pub code: String,
    /// The first line.
    pub street: String,
    /// The second line.
    pub second: String,
    /// All further lines, joined.
    pub rest: String,
}

/// Splits an address. The postal code stands at the beginning of any line, with 〒 or without it.
pub(super) fn address(text: &str) -> Address {
    let mut code = String::new();
    let mut lines = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match postal_code(line).filter(|_| code.is_empty()) {
            Some((found, rest)) => {
                code = found;
                lines.extend(Some(rest).filter(|rest| !rest.is_empty()));
            }
            None => lines.push(line),
        }
    }
    let mut lines = lines.into_iter();
    let mut next = || lines.next().unwrap_or_default().to_owned();
    let (street, second) = (next(), next());
    Address { code, street, second, rest: lines.collect::<Vec<_>>().join(" ") }
}

/// Finds the postal code at the beginning of a line. Returns the code and the text behind it.
fn postal_code(line: &str) -> Option<(String, &str)> {
    let marked = line.strip_prefix('〒').map(str::trim_start);
    let (area, rest) = digits(marked.unwrap_or(line), 3)?;
    let (place, rest) = match (rest.strip_prefix(is_dash), marked) {
        (Some(rest), _) => digits(rest, 4)?,
        (None, Some(_)) => digits(rest, 4)?,
        // seven digits without a mark may be anything
        (None, None) => return None,
    };
    let is_whole = !rest.starts_with(|character| digit(character).is_some());
    is_whole.then(|| (format!("{area}-{place}"), rest.trim_start()))
}

/// Takes digits of either width from the beginning of a text. Returns them and the text behind them.
fn digits(text: &str, count: usize) -> Option<(String, &str)> {
    let found: String = text.chars().map_while(digit).take(count).collect();
    let end = text.char_indices().nth(count).map_or(text.len(), |(at, _)| at);
    (found.len() == count).then(|| (found, &text[end..]))
}

fn digit(character: char) -> Option<char> {
    char::from_digit(std::iter::once(character).nfkc().next()?.to_digit(10)?, 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a12_an_address_has_its_parts() {
        for (text, parts) in [
            ("〒100-8978\n東京都千代田区霞が関３－１－１", ["100-8978", "東京都千代田区霞が関３－１－１", "", ""]),
            (
                "〒１００－８９７８　東京都千代田区\n霞が関3-1-1\n中央ビル\n5階",
                ["100-8978", "東京都千代田区", "霞が関3-1-1", "中央ビル 5階"],
            ),
            ("東京都千代田区\n〒 1008978", ["100-8978", "東京都千代田区", "", ""]),
            ("100-8978 東京都", ["100-8978", "東京都", "", ""]),
            ("1008978東京都", ["", "1008978東京都", "", ""]),
            ("03-1234-5678", ["", "03-1234-5678", "", ""]),
            ("100-89781 東京都", ["", "100-89781 東京都", "", ""]),
            ("一\n\n二\n三\n四", ["", "一", "二", "三 四"]),
            ("", ["", "", "", ""]),
        ] {
            let found = address(text);
            assert_eq!([found.code, found.street, found.second, found.rest], parts, "{text}");
        }
    }
}
