//! Amounts of money: integers in a named unit, which become decimal numbers only in JSON (readings P1).

use std::iter::Sum;
use std::ops::{Add, Mul};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Thousandths of a yen. On the wire: an exact number of yen with up to three decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MilliYen(pub i64);

impl Add for MilliYen {
    type Output = MilliYen;

    fn add(self, other: MilliYen) -> MilliYen {
        MilliYen(self.0 + other.0)
    }
}

impl Mul<i64> for MilliYen {
    type Output = MilliYen;

    fn mul(self, times: i64) -> MilliYen {
        MilliYen(self.0 * times)
    }
}

impl Sum for MilliYen {
    fn sum<I: Iterator<Item = MilliYen>>(costs: I) -> MilliYen {
        costs.fold(MilliYen(0), Add::add)
    }
}

impl std::fmt::Display for MilliYen {
    /// Yen with as many decimals as needed: `0.1`, `21.49`, `3`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (sign, whole, rest) =
            (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs() / 1000, self.0.unsigned_abs() % 1000);
        let decimals = format!("{rest:03}");
        match decimals.trim_end_matches('0') {
            "" => write!(f, "{sign}{whole}"),
            decimals => write!(f, "{sign}{whole}.{decimals}"),
        }
    }
}

impl Serialize for MilliYen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 % 1000 == 0 {
            return serializer.serialize_i64(self.0 / 1000);
        }
        // The quotient is the double nearest to the amount. Of all texts that read back as this double, an amount of at
        // most 15 digits is the shortest, and the serializer writes the shortest. So amounts far above a billion yen
        // are still exact.
        serializer.serialize_f64(self.0 as f64 / 1000.0)
    }
}

impl<'de> Deserialize<'de> for MilliYen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let yen = f64::deserialize(deserializer)?;
        let milli = (yen * 1000.0).round();
        if !milli.is_finite() || milli.abs() > 9e15 || (milli / 1000.0 - yen).abs() > 1e-9 * yen.abs().max(1.0) {
            return Err(D::Error::custom("not an amount of whole milli-yen"));
        }
        Ok(MilliYen(milli as i64))
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for MilliYen {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::Number)
            .description(Some("Yen, exact to three decimals."))
            .multiple_of(Some(0.001))
            .examples([0.1])
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for MilliYen {
    fn name() -> std::borrow::Cow<'static, str> {
        "Yen".into()
    }
}

/// Billionths of a US dollar: the ledger's unit for compute units (readings P1). On the wire: a number of dollars with
/// up to nine decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NanoUsd(pub i64);

/// Millionths of a yen: for showing prices that were converted from dollars (readings P2). On the wire: a number of yen
/// with up to six decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MicroYen(pub i64);

impl NanoUsd {
    /// Rounds a number of dollars to the nearest billionth. `None`: the amount is more than nine billion dollars.
    pub fn of_dollars(dollars: f64) -> Option<NanoUsd> {
        let nano = (dollars * 1e9).round();
        (nano.is_finite() && nano.abs() <= 9e18).then_some(NanoUsd(nano as i64))
    }

    /// Converts to yen at a rate in thousandths of a yen per dollar, to the nearest millionth of a yen. Halves are
    /// rounded up.
    pub fn at_rate(self, usd_milli_jpy: i64) -> MicroYen {
        // the unit of this product is 10^-12 yen, because the factors are in 10^-9 dollars and in 10^-3 yen per dollar
        let exact = i128::from(self.0) * i128::from(usd_milli_jpy);
        MicroYen(i64::try_from((exact + 500_000).div_euclid(1_000_000)).unwrap_or(i64::MAX))
    }
}

impl Serialize for NanoUsd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 % 1_000_000_000 == 0 {
            return serializer.serialize_i64(self.0 / 1_000_000_000);
        }
        // exact up to 15 digits, so up to a million dollars
        serializer.serialize_f64(self.0 as f64 / 1e9)
    }
}

impl<'de> Deserialize<'de> for NanoUsd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let dollars = f64::deserialize(deserializer)?;
        NanoUsd::of_dollars(dollars).ok_or_else(|| D::Error::custom("not an amount of dollars"))
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for NanoUsd {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::Number)
            .description(Some("US dollars, with up to nine decimals."))
            .examples([0.01])
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for NanoUsd {
    fn name() -> std::borrow::Cow<'static, str> {
        "Dollars".into()
    }
}

impl Serialize for MicroYen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 % 1_000_000 == 0 {
            return serializer.serialize_i64(self.0 / 1_000_000);
        }
        // exact up to 15 digits, as for `MilliYen`
        serializer.serialize_f64(self.0 as f64 / 1e6)
    }
}

impl<'de> Deserialize<'de> for MicroYen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let yen = f64::deserialize(deserializer)?;
        let micro = (yen * 1e6).round();
        if !micro.is_finite() || micro.abs() > 9e15 {
            return Err(D::Error::custom("not an amount of yen"));
        }
        Ok(MicroYen(micro as i64))
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for MicroYen {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::Number)
            .description(Some("Yen, with up to six decimals."))
            .examples([0.0015])
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for MicroYen {
    fn name() -> std::borrow::Cow<'static, str> {
        "ConvertedYen".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_print_without_float_noise_and_read_back() {
        for (milli, text) in [
            (100, "0.1"),
            (70, "0.07"),
            (21_490, "21.49"),
            (0, "0"),
            (3_000, "3"),
            (300, "0.3"),
            (2_240, "2.24"),
            (1, "0.001"),
            (123_456_789_123, "123456789.123"),
            (-1_100, "-1.1"),
        ] {
            assert_eq!(serde_json::to_string(&MilliYen(milli)).unwrap(), text);
            assert_eq!(MilliYen(milli).to_string(), text);
            assert_eq!(serde_json::from_str::<MilliYen>(text).unwrap(), MilliYen(milli));
        }
    }

    #[test]
    fn every_small_amount_has_at_most_three_decimals() {
        for milli in 0..100_000 {
            let text = serde_json::to_string(&MilliYen(milli)).unwrap();
            assert_eq!(text, MilliYen(milli).to_string());
        }
    }

    #[test]
    fn dollars_are_told_in_yen_to_six_decimals() {
        // compute units at 2,000 nano-dollars each, 150 yen a dollar (readings P2)
        for (units, text) in [(1, "0.0003"), (5, "0.0015"), (50, "0.015"), (10_000, "3"), (0, "0")] {
            let told = NanoUsd(2000 * units).at_rate(150_000);
            assert_eq!(serde_json::to_string(&told).unwrap(), text);
            assert_eq!(serde_json::from_str::<MicroYen>(text).unwrap(), told);
        }
        assert_eq!(NanoUsd(2000).at_rate(150_123), MicroYen(300), "300.246");
        assert_eq!(NanoUsd(2000).at_rate(149_750), MicroYen(300), "299.5");
        assert_eq!(NanoUsd(i64::MAX).at_rate(i64::MAX), MicroYen(i64::MAX));
    }

    #[test]
    fn dollars_print_without_float_noise_and_read_back() {
        for (nano, text) in [
            (0, "0"),
            (2_000, "2e-6"),
            (10_000_000, "0.01"),
            (9_000_000_000, "9"),
            (123_456_789_012_345, "123456.789012345"),
        ] {
            assert_eq!(serde_json::to_string(&NanoUsd(nano)).unwrap(), text);
            assert_eq!(serde_json::from_str::<NanoUsd>(text).unwrap(), NanoUsd(nano));
        }
        assert!(serde_json::from_str::<NanoUsd>("1e10").is_err());
    }

    #[test]
    fn fractions_of_a_milli_yen_are_refused() {
        assert!(serde_json::from_str::<MilliYen>("0.0005").is_err());
    }
}
