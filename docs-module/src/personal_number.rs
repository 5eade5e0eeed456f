//! Personal numbers (個人番号): 12 digits, of which the last is the check digit (act on numbers, article 8; ordinance of
//! 2014). Personal numbers are written only to filings.

/// Whether a text is a personal number: 12 half-width digits with a valid check digit.
pub fn is_personal_number(text: &str) -> bool {
    let Ok(digits) = <[u8; 12]>::try_from(text.as_bytes()) else { return false };
    if !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let [base @ .., check] = digits.map(|digit| digit - b'0');
    check_digit(base) == check
}

/// Computes the check digit: 11 minus the weighted sum of the digits modulo 11, or 0 if the remainder is 0 or 1. The
/// weights from the right are 2 to 7, then 2 to 6.
pub fn check_digit(base: [u8; 11]) -> u8 {
    let weighted = base.iter().rev().enumerate().map(|(at, digit)| u32::from(*digit) * (at as u32 % 6 + 2));
    match weighted.sum::<u32>() % 11 {
        0 | 1 => 0,
        remainder => 11 - remainder as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_personal_number_has_its_check_digit() {
        assert!(is_personal_number("123456789018"));
        for text in ["123456789010", "12345678901", "1234567890188", "12345678901x", "１２３４５６７８９０１８", ""]
        {
            assert!(!is_personal_number(text), "{text}");
        }
        // counted from the right, the weight of digit n is n + 1 up to the sixth digit and n - 5 after it
        let weights: Vec<u32> = (1..=11).map(|n: u32| if n <= 6 { n + 1 } else { n - 5 }).collect();
        assert_eq!((0..11).map(|at: u32| at % 6 + 2).collect::<Vec<_>>(), weights);
    }

    #[test]
    fn most_single_slips_are_found() {
        let right = *b"123456789018";
        let mut passed = 0;
        for at in 0..12 {
            for digit in b'0'..=b'9' {
                let mut slip = right;
                slip[at] = digit;
                passed += usize::from(slip != right && is_personal_number(std::str::from_utf8(&slip).unwrap()));
            }
        }
        // a wrong digit stays unnoticed only if it changes the remainder from 0 to 1 or from 1 to 0; no wrong digit in
        // this number does that
        assert_eq!(passed, 0);
    }
}
