//! Numbers of payers and payees (columns 52 and 53 of form 309): a corporate number of 13 digits, or a personal number
//! of 12 digits.

use unicode_normalization::UnicodeNormalization;

use crate::personal_number::is_personal_number;
use crate::registration::corporate_check_digit;

/// A number of a payer or a payee, with a right check digit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartyNumber {
    /// No number was given.
    Missing,
    /// A personal number: 12 digits.
    Personal(String),
    /// A corporate number: 13 digits.
    Corporate(String),
}

/// Why a number cannot be filed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberError {
    /// The text is not 12 or 13 digits.
    Form,
    /// The check digit is wrong.
    CheckDigit,
}

impl PartyNumber {
    /// Reads a number. Width, spaces and hyphens do not matter. A personal number may have the zero before it that the
    /// record has.
    ///
    /// # Errors
    /// If the text is no number, or the check digit is wrong.
    pub fn read(text: &str) -> Result<PartyNumber, NumberError> {
        let plain: String = text.nfkc().filter(|c| !c.is_whitespace() && !is_hyphen(*c)).collect();
        if plain.is_empty() {
            return Ok(PartyNumber::Missing);
        }
        if !plain.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(NumberError::Form);
        }
        let personal = if plain.len() == 13 { plain.strip_prefix('0').unwrap_or("") } else { &plain };
        if is_personal_number(personal) {
            return Ok(PartyNumber::Personal(personal.to_owned()));
        }
        match plain.len() {
            13 if is_corporate_number(&plain) => Ok(PartyNumber::Corporate(plain)),
            12 | 13 => Err(NumberError::CheckDigit),
            _ => Err(NumberError::Form),
        }
    }
}

fn is_hyphen(character: char) -> bool {
    matches!(character, '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' | 'ー')
}

/// Whether 13 digits have the right check digit of a corporate number.
fn is_corporate_number(digits: &str) -> bool {
    let digits: Vec<u8> = digits.bytes().map(|digit| digit - b'0').collect();
    matches!(<[u8; 13]>::try_from(digits), Ok([check, base @ ..]) if corporate_check_digit(base) == check)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a5_numbers_are_read_with_their_check_digits() {
        let personal = Ok(PartyNumber::Personal("123456789018".to_owned()));
        for text in ["123456789018", " 1234-5678-9018 ", "１２３４ ５６７８ ９０１８", "0123456789018"] {
            assert_eq!(PartyNumber::read(text), personal, "{text}");
        }
        let corporate = PartyNumber::Corporate("7000012050002".to_owned());
        assert_eq!(PartyNumber::read("7000012050002"), Ok(corporate));
        assert_eq!(PartyNumber::read(" \u{3000}"), Ok(PartyNumber::Missing));
        for text in ["123456789010", "7000012050003", "0123456789010", "2180001011843"] {
            assert_eq!(PartyNumber::read(text), Err(NumberError::CheckDigit), "{text}");
        }
        for text in ["12", "T7000012050002", "12345678901x", "12345678901234"] {
            assert_eq!(PartyNumber::read(text), Err(NumberError::Form), "{text}");
        }
    }
}
