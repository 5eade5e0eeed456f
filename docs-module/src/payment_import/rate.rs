//! The rate of consumption tax of a line (fact sheet of the back office, 4.3): from metadata, from the provider's rate,
//! or from the amount of tax.

use rust_decimal::Decimal;
use unicode_normalization::UnicodeNormalization;

use crate::document::Problem;
use crate::object::Node;
use crate::tax::consumption::Rate;

/// Reads the rate that the metadata of an object asks for.
pub(super) fn wished(node: &Node<'_>) -> Result<Option<Rate>, Problem> {
    let wish = node.member("metadata").member("tax_rate");
    if wish.is_missing() { Ok(None) } else { parse(&wish).map(Some) }
}

/// Finds the rate of a line. Sources, the preferred one first: metadata of the line, of its price and of its product; a
/// percentage in its taxes; the ratio of a tax to its taxable amount.
pub(super) fn of_line(line: &Node<'_>) -> Result<Option<Rate>, Problem> {
    let price = line.member("price");
    let product = price.member("product");
    for holder in [line, &price, &product] {
        if let Some(rate) = wished(holder)? {
            return Ok(Some(rate));
        }
    }
    let mut of_amount = None;
    for tax in ["taxes", "tax_amounts"].iter().flat_map(|name| line.member(name).items()) {
        for holder in [tax.member("rate"), tax.member("tax_rate")] {
            let percentage = holder.member("percentage");
            if !percentage.is_missing() {
                return parse(&percentage).map(Some);
            }
        }
        let (amount, taxable) = (tax.member("amount").yen()?, tax.member("taxable_amount").yen()?);
        if let (Some(amount), Some(taxable), None) = (amount, taxable, of_amount) {
            of_amount = of_tax(amount, taxable);
        }
    }
    for rate in line.member("tax_rates").items() {
        let percentage = rate.member("percentage");
        if !percentage.is_missing() {
            return parse(&percentage).map(Some);
        }
    }
    Ok(of_amount)
}

/// Finds the rate at which the tax of `taxable` differs from `tax` by at most a yen. `None`: no rate fits, or both
/// rates fit because the amount is small.
fn of_tax(tax: i64, taxable: i64) -> Option<Rate> {
    let fits = |rate: &Rate| {
        let off = i128::from(tax) * 100 - i128::from(taxable) * i128::from(rate.percent());
        off.abs() <= 100
    };
    let mut fitting = Rate::ALL.into_iter().filter(fits);
    let rate = fitting.next();
    rate.filter(|_| fitting.next().is_none())
}

/// Reads a rate such as `8`, `"10"`, `"8%"` or `"0.08"`.
pub(super) fn parse(node: &Node<'_>) -> Result<Rate, Problem> {
    let text = match node.value {
        serde_json::Value::Number(number) => number.to_string(),
        serde_json::Value::String(text) => text.nfkc().collect(),
        _ => String::new(),
    };
    let (digits, is_percent) = match text.trim().strip_suffix('%') {
        Some(digits) => (digits.trim(), true),
        None => (text.trim(), false),
    };
    let number = digits.parse::<Decimal>().ok();
    let percent = number.map(|number| {
        let is_part = !is_percent && number < Decimal::ONE;
        if is_part { number * Decimal::ONE_HUNDRED } else { number }
    });
    let whole = percent.filter(|percent| percent.fract().is_zero()).and_then(|percent| i64::try_from(percent).ok());
    whole.and_then(Rate::of_percent).ok_or_else(|| node.problem("should be a rate of 8 or 10 percent"))
}
