//! The rate of consumption tax of a line (fact sheet of the back office, 4.3): from metadata, from the provider's rate,
//! or from the amount of tax.

use std::collections::BTreeMap;

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

/// The rates that a line's sources name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The rate.
    Rate(Rate),
    /// Nothing.
    Nothing,
    /// A tax that is neither that of 8 nor that of 10 percent.
    Unfit,
}

/// Finds the rate of a line. Sources, the preferred one first: metadata of the line, of its price and of its product; a
/// percentage in its taxes; the ratio of its tax to the taxable amount; a rate whose id other lines or sums explain.
///
/// # Errors
/// When a percentage is neither 8 nor 10, or the tax of the line is 0.
pub(super) fn of_line(line: &Node<'_>, known: &KnownRates) -> Result<Told, Problem> {
    let (price, plan) = (line.member("price"), line.member("plan"));
    for holder in [line, &price, &price.member("product"), &plan, &plan.member("product")] {
        if let Some(rate) = wished(holder)? {
            return Ok(Told::Rate(rate));
        }
    }
    if let Some(rate) = of_percentage(line, known)? {
        return Ok(Told::Rate(rate));
    }
    let (tax, taxable) = amounts(line)?;
    Ok(match ratio(tax, taxable, 100) {
        Ratio::Of(rate) => Told::Rate(rate),
        Ratio::OfNone if tax == 0 => {
            return Err(line.problem("should have a tax of 8 or 10 percent, because documents have no other rates"));
        }
        Ratio::OfNone => Told::Unfit,
        Ratio::Unclear => taxes(line).iter().find_map(|tax| known.ratio(tax)).map_or(Told::Nothing, Told::Rate),
    })
}

/// The taxes of a line. Versions of Stripe's interface have `taxes`, `tax_amounts`, or the same taxes in both.
pub(super) fn taxes<'a>(line: &Node<'a>) -> Vec<Node<'a>> {
    one_of(line, &["taxes", "tax_amounts"])
}

/// The sums of taxes of a whole object, one for each rate.
pub(super) fn sums_of_taxes<'a>(object: &Node<'a>) -> Vec<Node<'a>> {
    let sums = one_of(object, &["total_taxes", "total_tax_amounts"]);
    if sums.is_empty() { object.member("total_details").member("breakdown").member("taxes").items() } else { sums }
}

/// The items of the first of these lists that is not empty.
fn one_of<'a>(object: &Node<'a>, names: &[&'static str]) -> Vec<Node<'a>> {
    names.iter().map(|name| object.member(name).items()).find(|items| !items.is_empty()).unwrap_or_default()
}

/// Whether the tax comes on top of the amount that it is charged on.
pub(super) fn is_exclusive(tax: &Node<'_>) -> bool {
    match tax.member("tax_behavior").text() {
        Some(behaviour) => behaviour == "exclusive",
        None => {
            let says = [
                tax.member("inclusive"),
                tax.member("tax_rate").member("inclusive"),
                tax.member("rate").member("inclusive"),
            ];
            says.iter().find_map(|node| node.value.as_bool()) == Some(false)
        }
    }
}

/// Rates by the provider's ids, as far as an object explains them.
#[derive(Default)]
pub(super) struct KnownRates {
    /// Percentages that the object states.
    stated: BTreeMap<String, Result<Rate, Problem>>,
    /// Rates from ratios of taxes; `None` when two taxes of the same id differ.
    found: BTreeMap<String, Option<Rate>>,
}

impl KnownRates {
    /// Collects the rates that the lines and the sums of an object explain.
    pub fn collect(object: &Node<'_>, lines: &[Node<'_>]) -> KnownRates {
        let mut known = KnownRates::default();
        let rates = lines.iter().flat_map(|line| line.member("tax_rates").items());
        for rate in rates.chain(object.member("default_tax_rates").items()) {
            let percentage = rate.member("percentage");
            if let Some(id) = rate.id().filter(|_| !percentage.is_missing()) {
                known.stated.insert(id.to_owned(), parse(&percentage));
            }
        }
        for tax in lines.iter().flat_map(taxes).chain(sums_of_taxes(object)) {
            let (Some(id), Some(rate)) = (id(&tax), of_entry(&tax)) else { continue };
            let found = known.found.entry(id.to_owned()).or_insert(Some(rate));
            *found = found.filter(|found| *found == rate);
        }
        known
    }

    /// The percentage of a tax: its own, or the one that the object states for its id.
    fn percentage(&self, tax: &Node<'_>) -> Result<Option<Rate>, Problem> {
        let details = tax.member("tax_rate_details");
        for holder in [tax.member("rate"), tax.member("tax_rate"), details.member("tax_rate"), details] {
            let percentage = holder.member("percentage");
            if !percentage.is_missing() {
                return parse(&percentage).map(Some);
            }
        }
        id(tax).and_then(|id| self.stated.get(id)).cloned().transpose()
    }

    fn ratio(&self, tax: &Node<'_>) -> Option<Rate> {
        self.found.get(id(tax)?).copied().flatten()
    }
}

fn id<'a>(tax: &Node<'a>) -> Option<&'a str> {
    let holders = [tax.member("tax_rate_details").member("tax_rate"), tax.member("tax_rate"), tax.member("rate")];
    holders.iter().find_map(Node::id)
}

/// Finds the rate that the amounts of one tax show.
fn of_entry(tax: &Node<'_>) -> Option<Rate> {
    let amounts = (tax.member("amount").yen().ok()??, tax.member("taxable_amount").yen().ok()??);
    ratio(amounts.0.into(), amounts.1.into(), 100).rate()
}

/// The sum of what a tax was charged on and the tax, with its rate. `total`: the sum of an object that has no other
/// tax. `lines`: the object's number of lines; 0: not known.
/// `None`: the entry does not say both, or its rate is unclear.
///
/// # Errors
/// When the percentage is neither 8 nor 10.
pub(super) fn of_sum(
    tax: &Node<'_>,
    total: Option<i64>,
    lines: usize,
    known: &KnownRates,
) -> Result<Option<(Rate, i64)>, Problem> {
    let Some(amount) = tax.member("amount").yen()? else { return Ok(None) };
    let taxable = tax.member("taxable_amount").yen()?;
    let Some(sum) = taxable.map(|taxable| amount + taxable).or(total) else { return Ok(None) };
    let rate = known.percentage(tax)?.or_else(|| of_entry(tax)).or_else(|| known.ratio(tax));
    Ok(rate.or_else(|| of_total(amount, sum, lines)).map(|rate| (rate, sum)))
}

/// Finds a percentage in the taxes of a line, in either shape, or in its rates.
fn of_percentage(line: &Node<'_>, known: &KnownRates) -> Result<Option<Rate>, Problem> {
    for tax in ["taxes", "tax_amounts"].iter().flat_map(|name| line.member(name).items()) {
        if let Some(rate) = known.percentage(&tax)? {
            return Ok(Some(rate));
        }
    }
    for rate in line.member("tax_rates").items() {
        let percentage = rate.member("percentage");
        if !percentage.is_missing() {
            return parse(&percentage).map(Some);
        }
    }
    Ok(None)
}

/// The taxes of a line and the amount that they are charged on; both are 0 if the line says no tax. Several taxes on
/// the same amount, such as a national and a local one, count together. Older versions of Stripe's interface do not
/// state the amount, which follows from the line then. Lines of sessions have one sum of their taxes in `amount_tax`,
/// which is 0 if the shop computes no tax.
fn amounts(line: &Node<'_>) -> Result<(i128, i128), Problem> {
    let (mut tax, mut included, mut taxable) = (0i128, 0i128, None);
    for entry in taxes(line) {
        let Some(amount) = entry.member("amount").yen()? else { continue };
        tax += i128::from(amount);
        included += if is_exclusive(&entry) { 0 } else { i128::from(amount) };
        let stated = entry.member("taxable_amount").yen()?.map(i128::from);
        taxable = [taxable, stated].into_iter().flatten().max_by_key(|amount: &i128| amount.abs());
    }
    if tax != 0 && taxable.is_none() {
        let mut base = i128::from(line.member("amount").yen()?.unwrap_or(0)) - included;
        for discount in line.member("discount_amounts").items() {
            base -= i128::from(discount.member("amount").yen()?.unwrap_or(0));
        }
        return Ok(if base == 0 { (0, 0) } else { (tax, base) });
    }
    if tax == 0
        && taxable.is_none()
        && let (Some(amount), Some(total)) = (line.member("amount_tax").yen()?, line.member("amount_total").yen()?)
        && amount != 0
    {
        return Ok((amount.into(), i128::from(total) - i128::from(amount)));
    }
    Ok((tax, taxable.unwrap_or(0)))
}

/// Finds the rate of a sum of taxes from the total that includes it. The taxes were rounded line by line, so the sum
/// may differ from its rate by a yen for each of the `lines`. 0: the number of lines is not known, and lines of 1,000 yen
/// are assumed.
pub(super) fn of_total(tax: i64, total: i64, lines: usize) -> Option<Rate> {
    let taxable = i128::from(total) - i128::from(tax);
    let tolerance = if lines == 0 { 1 + taxable.abs() / 1000 } else { lines as i128 };
    ratio(tax.into(), taxable, 100 * tolerance).rate()
}

/// Which rate the ratio of a tax to its taxable amount shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ratio {
    Of(Rate),
    /// Neither rate fits.
    OfNone,
    /// So small amounts that both rates fit.
    Unclear,
}

impl Ratio {
    fn rate(self) -> Option<Rate> {
        match self {
            Ratio::Of(rate) => Some(rate),
            Ratio::OfNone | Ratio::Unclear => None,
        }
    }
}

/// Finds the rate at which `tax` times 100 differs from `taxable` times the percentage by at most `tolerance`.
fn ratio(tax: i128, taxable: i128, tolerance: i128) -> Ratio {
    let fits = |rate: &Rate| (tax * 100 - taxable * i128::from(rate.percent())).abs() <= tolerance;
    let mut fitting = Rate::ALL.into_iter().filter(fits);
    match (fitting.next(), fitting.next()) {
        (Some(rate), None) => Ratio::Of(rate),
        (None, _) => Ratio::OfNone,
        (Some(_), Some(_)) => Ratio::Unclear,
    }
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
