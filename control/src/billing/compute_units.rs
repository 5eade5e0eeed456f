//! Compute units (FCU): the prices of operations on encrypted numbers, in integers (specification, FCU weights; readings P1, P2).

use std::str::FromStr;

use api::{MicroYen, NanoUsd};

use crate::parsers::parsed;
use crate::work::numbers::Operation;

/// The list price of one compute unit: 0.000002 US dollars.
pub const NANO_USD_OF_UNIT: i64 = 2000;

/// Settings for prices.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct BillingConfig {
    // readings P2
    /// Yen for one US dollar, with up to three decimals. Prices in dollars are shown in yen at this rate, and every
    /// charge records the rate of its time.
    #[arg(env = "ANGO_USD_JPY", default_value = "150")]
    #[arg(value_parser = parsed::<UsdRate>("a number of yen from 1 to 100000, with up to three decimals"))]
    pub usd_jpy: UsdRate,
}

/// Thousandths of a yen for one US dollar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsdRate(pub i64);

impl FromStr for UsdRate {
    type Err = ();

    fn from_str(text: &str) -> Result<UsdRate, ()> {
        let yen: f64 = text.parse().map_err(drop)?;
        let milli = (yen * 1000.0).round();
        let is_exact = (milli / 1000.0 - yen).abs() < 1e-9 * yen.abs();
        if (1000.0..=1e8).contains(&milli) && is_exact { Ok(UsdRate(milli as i64)) } else { Err(()) }
    }
}

/// The price of an operation on encrypted numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationPrice {
    /// Compute units of the operation.
    pub units: u64,
    /// The list price of these compute units.
    pub cost: NanoUsd,
    /// The exchange rate, in yen for a dollar, at the time of the operation.
    pub rate: UsdRate,
}

impl OperationPrice {
    /// Computes the price of an operation at this rate.
    pub fn of(operation: Operation, rate: UsdRate) -> OperationPrice {
        let units = weight(operation);
        OperationPrice { units, cost: NanoUsd(units as i64 * NANO_USD_OF_UNIT), rate }
    }

    /// Returns the price in yen.
    pub fn cost_jpy(&self) -> MicroYen {
        self.cost.at_rate(self.rate.0)
    }
}

/// Returns the number of compute units that an operation costs. The weights of `key_switch`, `infer_7b` and `infer_70b`
/// (5, 100 and 1000) belong to no operation of this service (readings C16).
fn weight(operation: Operation) -> u64 {
    match operation {
        Operation::Add | Operation::Negate | Operation::Rescale | Operation::AddPlain => 1,
        Operation::MultiplyPlain => 2,
        Operation::Multiply | Operation::Rotate => 5,
        Operation::PolyEval => 10,
        // our addition has the weight of `matmul`
        Operation::Matmul | Operation::MatmulPlain => 20,
        Operation::Bootstrap => 50,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_cost_what_the_specification_lists() {
        for (operation, units, nano_usd, micro_yen) in [
            (Operation::Add, 1, 2_000, 300),
            (Operation::Negate, 1, 2_000, 300),
            (Operation::Rescale, 1, 2_000, 300),
            (Operation::AddPlain, 1, 2_000, 300),
            (Operation::MultiplyPlain, 2, 4_000, 600),
            (Operation::Multiply, 5, 10_000, 1_500),
            (Operation::Rotate, 5, 10_000, 1_500),
            (Operation::PolyEval, 10, 20_000, 3_000),
            (Operation::Matmul, 20, 40_000, 6_000),
            (Operation::MatmulPlain, 20, 40_000, 6_000),
            (Operation::Bootstrap, 50, 100_000, 15_000),
        ] {
            let price = OperationPrice::of(operation, "150".parse().unwrap());
            assert_eq!((price.units, price.cost, price.cost_jpy()), (units, NanoUsd(nano_usd), MicroYen(micro_yen)));
        }
    }

    #[test]
    fn p2_the_rate_is_a_number_of_yen_with_up_to_three_decimals() {
        let read = |text: &str| text.parse::<UsdRate>().ok().map(|rate| rate.0);
        assert_eq!(
            ["150", "149.75", "1", "100000", "0.1e3"].map(read),
            [150_000, 149_750, 1_000, 100_000_000, 100_000].map(Some)
        );
        assert_eq!(["0", "-150", "100001", "149.7512", "NaN", "inf", "", "150 yen"].map(read), [None; 8]);
    }
}
