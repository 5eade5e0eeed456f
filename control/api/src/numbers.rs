//! Reads whole numbers as JSON Schema defines them: 64.0 is a whole number too.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

/// Reads a whole number of at least 0. A number that is too large saturates at the largest `u64`, which callers refuse
/// as too large.
pub(crate) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_u64(Whole)
}

/// Like [`whole`], but also accepts null, for `#[serde(default, deserialize_with)]`. Null means absent (readings X7).
pub(crate) fn some_whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    struct Number(u64);

    impl<'de> Deserialize<'de> for Number {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            whole(deserializer).map(Number)
        }
    }

    Ok(Option::<Number>::deserialize(deserializer)?.map(|Number(number)| number))
}

/// Reads a whole number of either sign, or null, for `#[serde(default, deserialize_with)]`. Null means absent (readings
/// X7).
pub(crate) fn some_integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    struct Number(i64);

    impl<'de> Deserialize<'de> for Number {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_i64(Integer).map(Number)
        }
    }

    Ok(Option::<Number>::deserialize(deserializer)?.map(|Number(number)| number))
}

/// For `#[serde(skip_serializing_if)]`.
pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}

struct Whole;

struct Integer;

impl Visitor<'_> for Integer {
    type Value = i64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("i64")
    }

    fn visit_i64<E>(self, number: i64) -> Result<i64, E> {
        Ok(number)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<i64, E> {
        i64::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<i64, E> {
        // a double holds whole numbers exactly up to 2^53
        match number.fract() == 0.0 && number.abs() <= (1u64 << 53) as f64 {
            true => Ok(number as i64),
            false => Err(E::invalid_value(Unexpected::Float(number), &self)),
        }
    }
}

impl Visitor<'_> for Whole {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("u64")
    }

    fn visit_u64<E>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<u64, E> {
        match number.fract() == 0.0 && number >= 0.0 {
            true => Ok(number as u64),
            false => Err(E::invalid_value(Unexpected::Float(number), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_may_be_written_with_a_fraction_of_nothing() {
        let read = |text: &str| whole(&mut serde_json::Deserializer::from_str(text)).ok();
        assert_eq!(["0", "64", "64.0", "1e30"].map(read), [Some(0), Some(64), Some(64), Some(u64::MAX)]);
        assert_eq!(["64.5", "-1", "-1.0", "\"64\"", "null"].map(read), [None; 5]);
        let read = |text: &str| some_whole(&mut serde_json::Deserializer::from_str(text)).ok();
        assert_eq!(["64.0", "null", "-1"].map(read), [Some(Some(64)), Some(None), None]);
    }
}
