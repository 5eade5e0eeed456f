//! Parsers for the values of settings. Each error completes the sentence `the setting ..`; docs/settings.md shows the
//! same words.

use std::convert::Infallible;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use zeroize::Zeroizing;

/// A parser that clap accepts for a setting.
pub trait Parser<T>: Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {}

impl<T, P: Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static> Parser<T> for P {}

/// Parses with the type's `FromStr`. `wanted` describes the valid texts.
pub fn parsed<T: FromStr + 'static>(wanted: &'static str) -> impl Parser<T> {
    move |text| text.parse().map_err(|_| format!("must be {wanted}"))
}

/// Parses a whole number in this range.
pub fn number<T: TryFrom<u64> + 'static>(range: RangeInclusive<u64>) -> impl Parser<T> {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| format!("must be a whole number from {} to {}", range.start(), range.end()))
    }
}

/// Parses a time in whole seconds, in this range.
pub fn seconds(range: RangeInclusive<u64>) -> impl Parser<Duration> {
    let number = number(range);
    move |text| number(text).map(Duration::from_secs)
}

/// Parses a number of MB (2^20 bytes) in this range. The value is the number of bytes.
pub fn megabytes(range: RangeInclusive<u64>) -> impl Parser<u64> {
    let number = number(range);
    move |text| number(text).map(|megabytes: u64| megabytes << 20)
}

/// Like [`megabytes`], but also accepts `auto`, which means the number of bytes that `automatic` returns.
pub fn megabytes_or_auto(range: RangeInclusive<u64>, automatic: fn() -> u64) -> impl Parser<u64> {
    let megabytes = megabytes(range);
    move |text| if text == "auto" { Ok(automatic()) } else { megabytes(text).map_err(|why| format!("{why}, or auto")) }
}

/// Accepts any text. The value is overwritten on drop.
pub fn secret(text: &str) -> Result<Zeroizing<String>, Infallible> {
    Ok(Zeroizing::new(text.to_owned()))
}

/// Parses one of two words. The value is true for the first word.
pub fn either(words: [&'static str; 2]) -> impl TypedValueParser<Value = bool> {
    PossibleValuesParser::new(words).map(move |word| word == words[0])
}
