//! Converts between numbers as people write them and the bits that are encrypted. Bit 0, the least significant, comes
//! first.

/// Largest number of bits of a number.
pub const WIDTH_MAX: usize = 1 << 16;
/// Numbers with more bits are shown in hexadecimal, because they are blocks of bits rather than quantities.
const DECIMAL_WIDTH_MAX: usize = 64;

/// Why a text is not a number of the expected width.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// Neither decimal digits nor `0x` and hexadecimal digits.
    #[error("`{0}` is neither a decimal nor a 0x hexadecimal number")]
    NotANumber(String),
    /// The number needs more bits than the width has.
    #[error("the number does not fit in {0} bits")]
    TooLarge(usize),
    /// A decimal number of more than 128 bits.
    #[error("write numbers of more than 128 bits in hexadecimal, with 0x")]
    TooLongForDecimal,
    /// The text does not determine a width, or the width is out of range.
    #[error("say how many bits the number has (1 to {WIDTH_MAX})")]
    NoWidth,
}

/// The bits of a number, `[width]`. `text` is decimal, or hexadecimal after `0x`. Underscores between digits are
/// ignored.
///
/// # Errors
/// When the text is not a number, or the number does not fit in `width` bits.
pub fn parse(text: &str, width: usize) -> Result<Vec<bool>, ValueError> {
    if !(1..=WIDTH_MAX).contains(&width) {
        return Err(ValueError::NoWidth);
    }
    let mut bits = match hexadecimal(text) {
        Some(digits) => hexadecimal_bits(digits).ok_or_else(|| not_a_number(text))?,
        None => decimal_bits(text)?,
    };
    if bits.iter().skip(width).any(|&bit| bit) {
        return Err(ValueError::TooLarge(width));
    }
    bits.resize(width, false);
    Ok(bits)
}

/// The width that a text determines: four bits for each hexadecimal digit, one bit for `0` and `1`.
///
/// # Errors
/// [`ValueError::NoWidth`] for other decimal numbers, because their digits do not determine a width.
pub fn own_width(text: &str) -> Result<usize, ValueError> {
    match (hexadecimal(text), text) {
        (Some(digits), _) => Ok(4 * digits.bytes().filter(|&digit| digit != b'_').count()),
        (None, "0" | "1") => Ok(1),
        (None, _) => Err(ValueError::NoWidth),
    }
}

/// Writes a number: in decimal up to 64 bits, otherwise in hexadecimal with all its digits.
pub fn format(bits: &[bool]) -> String {
    if bits.len() > DECIMAL_WIDTH_MAX {
        return format_hexadecimal(bits);
    }
    bits.iter().rev().fold(0u64, |value, &bit| 2 * value + u64::from(bit)).to_string()
}

/// Writes a number as `0x` and a digit for each four bits of its width, with leading zeros.
pub fn format_hexadecimal(bits: &[bool]) -> String {
    let digits = bits.chunks(4).rev().map(|nibble| {
        let value = nibble.iter().rev().fold(0, |value, &bit| 2 * value + u32::from(bit));
        char::from_digit(value, 16).expect("four bits are one digit")
    });
    "0x".chars().chain(digits).collect()
}

/// A random number of `width` bits.
///
/// # Panics
/// When the operating system gives no randomness.
pub fn random(width: usize) -> Vec<bool> {
    let mut bytes = vec![0; width.div_ceil(8)];
    getrandom::fill(&mut bytes).expect("randomness from the operating system");
    (0..width).map(|bit| bytes[bit / 8] >> (bit % 8) & 1 == 1).collect()
}

fn hexadecimal(text: &str) -> Option<&str> {
    text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))
}

fn hexadecimal_bits(digits: &str) -> Option<Vec<bool>> {
    let nibbles: Option<Vec<u32>> =
        digits.chars().rev().filter(|&digit| digit != '_').map(|d| d.to_digit(16)).collect();
    let nibbles = nibbles.filter(|nibbles| !nibbles.is_empty())?;
    Some(nibbles.into_iter().flat_map(|nibble| (0..4).map(move |bit| nibble >> bit & 1 == 1)).collect())
}

fn decimal_bits(text: &str) -> Result<Vec<bool>, ValueError> {
    let digits: String = text.chars().filter(|&digit| digit != '_').collect();
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(not_a_number(text));
    }
    let value: u128 = digits.parse().map_err(|_| ValueError::TooLongForDecimal)?;
    Ok((0..128).map(|bit| value >> bit & 1 == 1).collect())
}

fn not_a_number(text: &str) -> ValueError {
    ValueError::NotANumber(text.chars().take(40).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bit_0_is_the_least_significant() {
        assert_eq!(parse("6", 4), Ok(vec![false, true, true, false]));
        assert_eq!(parse("0x6", 4), parse("6", 4));
        assert_eq!(parse("0x1_0", 5), Ok(vec![false, false, false, false, true]));
    }

    #[test]
    fn numbers_survive_bits_and_back() {
        for (text, width) in [("0", 1), ("1", 1), ("18446744073709551615", 64), ("1000", 10), ("5", 3)] {
            assert_eq!(format(&parse(text, width).unwrap()), text);
        }
        let block = "0x00112233445566778899aabbccddeeff";
        assert_eq!(format(&parse(block, 128).unwrap()), block);
        assert_eq!(format_hexadecimal(&parse("5", 6).unwrap()), "0x05");
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        assert_eq!(parse("16", 4), Err(ValueError::TooLarge(4)));
        assert_eq!(parse("0x10", 4), Err(ValueError::TooLarge(4)));
        assert!(parse("0x0f", 4).is_ok(), "leading zeros take no room");
        assert_eq!(parse("340282366920938463463374607431768211456", 200), Err(ValueError::TooLongForDecimal));
        assert_eq!(parse("1", 0), Err(ValueError::NoWidth));
        assert_eq!(parse("1", WIDTH_MAX + 1), Err(ValueError::NoWidth));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", "-1", "+1", "0x", "0xg", "1.5", "ten", "_", "0x_"] {
            assert!(matches!(parse(text, 8), Err(ValueError::NotANumber(_))), "{text}");
        }
    }

    #[test]
    fn only_hexadecimal_numbers_and_bits_say_their_own_width() {
        assert_eq!(own_width("0xff"), Ok(8));
        assert_eq!(own_width("1"), Ok(1));
        assert_eq!(own_width("255"), Err(ValueError::NoWidth));
    }

    #[test]
    fn random_numbers_have_their_width() {
        for width in [1, 7, 8, 64, 129] {
            assert_eq!(random(width).len(), width);
        }
        assert_ne!(random(128), random(128));
    }

    proptest! {
        #[test]
        fn every_number_survives_both_notations(value: u128, width in 1usize..=128) {
            let value = value >> (128 - width);
            let bits = parse(&value.to_string(), width).unwrap();
            prop_assert_eq!(parse(&format!("{value:#x}"), width).unwrap(), &bits[..]);
            prop_assert_eq!(parse(&super::format(&bits), width).unwrap(), bits);
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "(0x)?[0-9a-fg_]{0,60}|\\PC*", width in 0usize..200) {
            let _ = (parse(&text, width), own_width(&text));
        }
    }
}
