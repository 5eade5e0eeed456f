//! Registration numbers of issuers of qualified invoices (登録番号): `T` and 13 digits.

mod check;
mod history;
mod snapshot;
mod status;

pub use check::{Checked, Finding, Monitored, check, monitor};
pub use history::Entry;
pub use snapshot::Snapshot;
pub use status::{Registration, Status, status_on};

use unicode_normalization::UnicodeNormalization;

/// A registration number that is well formed. Its check digit may be wrong: [`RegistrationNumber::has_valid_check_digit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegistrationNumber([u8; 13]);

/// A number that names a business: a registration number, or the corporate number (法人番号) of a corporation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartyNumber {
    /// `T` and 13 digits.
    Registration(RegistrationNumber),
    /// 13 digits. A corporation that is registered has the same digits in its registration number.
    Corporate(RegistrationNumber),
}

impl PartyNumber {
    /// Reads `T1234567890123` or `1234567890123`: half-width, without spaces or hyphens.
    ///
    /// # Errors
    /// When the text has another form.
    pub fn read(text: &str) -> Result<PartyNumber, NotANumber> {
        if text.starts_with('T') {
            RegistrationNumber::read(text).map(PartyNumber::Registration)
        } else {
            RegistrationNumber::read(&format!("T{text}")).map(PartyNumber::Corporate)
        }
    }
}

impl std::fmt::Display for PartyNumber {
    /// Writes the number as [`PartyNumber::read`] reads it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PartyNumber::Registration(number) => number.fmt(f),
            PartyNumber::Corporate(number) => f.write_str(&number.to_string()[1..]),
        }
    }
}

/// The error of [`RegistrationNumber::read`]: the text is not a registration number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotANumber;

impl std::fmt::Display for NotANumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a registration number is T and 13 digits")
    }
}

impl std::error::Error for NotANumber {}

impl RegistrationNumber {
    /// T0000000000000: fills a draft whose number has a fault. No issuer has this number, because no number begins with
    /// 0.
    pub(crate) const FILLER: RegistrationNumber = RegistrationNumber([0; 13]);

    /// Reads `T1234567890123`: half-width, without spaces or hyphens.
    ///
    /// # Errors
    /// When the text has another form.
    pub fn read(text: &str) -> Result<RegistrationNumber, NotANumber> {
        let digits: [u8; 13] =
            text.strip_prefix('T').ok_or(NotANumber)?.as_bytes().try_into().map_err(|_| NotANumber)?;
        if digits.iter().all(u8::is_ascii_digit) {
            Ok(RegistrationNumber(digits.map(|digit| digit - b'0')))
        } else {
            Err(NotANumber)
        }
    }

    /// Whether the first digit is the check digit of the other twelve digits. The law defines the check digit for
    /// corporations. The published numbers of individuals all have a valid check digit too, so a wrong check digit
    /// means a typing error.
    pub fn has_valid_check_digit(self) -> bool {
        let [check, base @ ..] = self.0;
        corporate_check_digit(base) == check
    }

    /// Computes the check digit that belongs to the last twelve digits, 1 to 9.
    pub fn expected_check_digit(self) -> u8 {
        let [_, base @ ..] = self.0;
        corporate_check_digit(base)
    }
}

impl std::fmt::Display for RegistrationNumber {
    /// Writes `T1234567890123`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("T")?;
        self.0.iter().try_for_each(|digit| write!(f, "{digit}"))
    }
}

/// Computes the check digit of a corporate number, 1 to 9: 9 minus the sum of the twelve digits modulo 9, where each
/// second digit from the right counts twice (ordinance of the Ministry of Finance on corporate numbers).
pub fn corporate_check_digit(base: [u8; 12]) -> u8 {
    let weighted = base.iter().rev().enumerate().map(|(at, digit)| u32::from(*digit) * (1 + at as u32 % 2));
    9 - (weighted.sum::<u32>() % 9) as u8
}

/// Converts a number to half-width and upper case, without spaces and hyphens. A number of only 13 digits gets its `T`.
/// At most 64 characters count. The audit log has numbers in this form.
pub fn normalized(text: &str) -> String {
    let is_kept = |character: &char| !character.is_whitespace() && !is_hyphen(*character);
    let kept: String = text.nfkc().filter(is_kept).take(64).collect::<String>().to_uppercase();
    let is_bare = kept.len() == 13 && kept.bytes().all(|byte| byte.is_ascii_digit());
    if is_bare { format!("T{kept}") } else { kept }
}

fn is_hyphen(character: char) -> bool {
    matches!(character, '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' | 'ー')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn check_digits_are_those_of_known_numbers() {
        for (digits, valid) in [
            ("7000012050002", true),
            ("1000011000005", true),
            ("1180301018771", true),
            ("9011001029597", true),
            ("1000020012131", true),
            ("2180001011843", false),
            ("1234567890123", false),
            ("7123456789012", true),
            ("9999999999999", true),
            ("0000012050002", false),
            // two neighbouring digits are swapped
            ("7000012005002", false),
        ] {
            let number = RegistrationNumber::read(&format!("T{digits}")).unwrap();
            assert_eq!(number.has_valid_check_digit(), valid, "{digits}");
            assert_eq!(number.to_string(), format!("T{digits}"));
        }
        let expected = |digits: &str| RegistrationNumber::read(&format!("T{digits}")).unwrap().expected_check_digit();
        assert_eq!((expected("2180001011843"), expected("1234567890123")), (3, 9));
    }

    #[test]
    fn of_single_slips_in_a_number_only_a_nine_for_a_nought_passes() {
        let right = "7000012050002";
        let mut passed = 0;
        for at in 0..13 {
            for digit in '0'..='9' {
                let mut slip: Vec<char> = right.chars().collect();
                if slip[at] == digit {
                    continue;
                }
                let was = std::mem::replace(&mut slip[at], digit);
                let text: String = slip.into_iter().collect();
                if RegistrationNumber::read(&format!("T{text}")).unwrap().has_valid_check_digit() {
                    assert_eq!((was, digit), ('0', '9'));
                    passed += 1;
                }
            }
        }
        assert_eq!(passed, 8);
    }

    #[test]
    fn what_is_not_a_number_is_refused() {
        for text in [
            "",
            "T",
            "7000012050002",
            "t7000012050002",
            "T700001205000",
            "T70000120500021",
            "T700001205000x",
            "Ｔ7000012050002",
            "T７000012050002",
            " T7000012050002",
            "T7000-0120-50002",
        ] {
            assert_eq!(RegistrationNumber::read(text), Err(NotANumber), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_number_or_refused(text in ".{0,20}", digits in "[0-9]{13}") {
            if let Ok(number) = RegistrationNumber::read(&text) {
                prop_assert_eq!(number.to_string(), text);
            }
            let number = format!("T{digits}");
            prop_assert!(RegistrationNumber::read(&number).is_ok());
        }
    }
}
