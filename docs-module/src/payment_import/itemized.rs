//! The lines of an object, completed to its total (fact sheet of the back office, 4.2). No part of a total is put at a
//! guessed rate in silence: the object's sums of taxes say the rates, or a warning tells, or the object is refused.

use std::collections::BTreeMap;

use super::line;
use super::rate::{self, KnownRates, Told};
use crate::document::{Line, Problem};
use crate::object::{Node, sum};
use crate::tax::consumption::Rate;

/// Name of a line whose object has no description.
pub(super) const UNNAMED: &str = "お支払い";
const ADJUSTMENT: &str = "調整額（送料・値引きほか）";
const SHIPPING: &str = "送料";

/// A line with its amount in yen.
pub(super) struct Item {
    pub line: Line,
    pub amount: i64,
    /// Whether the object says the rate of this line. Otherwise the line has the main rate.
    pub is_rated: bool,
}

/// The lines of an object; their amounts add up to the total.
pub(super) struct Itemized {
    pub items: Vec<Item>,
    /// Whether the object has lines of its own.
    pub has_lines: bool,
    /// The part of the total that the object's lines do not explain, in yen.
    pub unexplained: i64,
    pub warnings: Vec<String>,
}

/// How the lines of a kind of object are read.
pub(super) struct Reading<'a> {
    pub list: Node<'a>,
    /// The amount of one line with tax, in yen.
    pub amount: fn(&Node<'a>) -> Result<i64, Problem>,
    /// Name of the one line of an object without lines.
    pub name: String,
    pub total: i64,
    /// Whether no other object of the sale can have the lines.
    pub is_final: bool,
    pub default_rate: Rate,
}

/// The amount of a session's line: with tax, after discounts.
pub(super) fn session_amount(item: &Node<'_>) -> Result<i64, Problem> {
    item.first_yen(&["amount_total"])
}

/// The amount of an invoice's line with tax: the item's amount, less discounts, plus the taxes that the item's amount
/// does not include.
pub(super) fn invoice_amount(item: &Node<'_>) -> Result<i64, Problem> {
    let mut parts = vec![item.first_yen(&["amount"])?];
    for discount in item.member("discount_amounts").items() {
        parts.push(-discount.first_yen(&["amount"])?);
    }
    for tax in rate::taxes(item).iter().filter(|tax| rate::is_exclusive(tax)) {
        parts.push(tax.first_yen(&["amount"])?);
    }
    sum(item, parts)
}

/// An object without lines: one line of the whole total.
pub(super) fn whole(object: &Node<'_>, name: &str, total: i64, default_rate: Rate) -> Result<Itemized, Problem> {
    let wished = rate::wished(object)?;
    let line = line(name, None, total, wished.unwrap_or(default_rate));
    let items = vec![Item { line, amount: total, is_rated: wished.is_some() }];
    Ok(Itemized { items, has_lines: false, unexplained: 0, warnings: Vec::new() })
}

/// Reads the lines of an object and completes them to its total.
pub(super) fn read<'a>(object: &Node<'a>, reading: &Reading<'a>) -> Result<Itemized, Problem> {
    let entries = reading.list.items();
    let known = KnownRates::collect(object, &entries);
    let told = entries.iter().map(|entry| rate::of_line(entry, &known)).collect::<Result<Vec<_>, _>>()?;
    let sums = sums(object, reading, &known)?;
    let wished = rate::wished(object)?;
    let is_needed = told.is_empty() || told.iter().any(|told| !matches!(told, Told::Rate(_)));
    let said = match wished {
        None if is_needed => main_rate(object, sums.as_ref())?,
        wished => wished,
    };
    let main = said.unwrap_or(reading.default_rate);

    let mut found =
        Itemized { items: Vec::new(), has_lines: !entries.is_empty(), unexplained: 0, warnings: Vec::new() };
    for (entry, told) in entries.iter().zip(told) {
        if told == Told::Unfit && said.is_none() {
            let rate = main.percent();
            found.warnings.push(format!("the tax of a line fits neither 8 nor 10 percent: {rate} percent was used"));
        }
        let rate = match told {
            Told::Rate(rate) => Some(rate),
            Told::Nothing | Told::Unfit => said,
        };
        let amount = (reading.amount)(entry)?;
        let name = name(entry).unwrap_or(UNNAMED);
        let line = line(name, entry.member("quantity").value.as_i64(), amount, rate.unwrap_or(main));
        found.items.push(Item { line, amount, is_rated: rate.is_some() });
    }
    let explained = sums.filter(|sums| sums.values().sum::<i64>() == reading.total);
    if is_cut(&reading.list, entries.len()) {
        complete_cut(&mut found, object, reading, explained.as_ref())?;
    } else if found.has_lines {
        add_shipping(&mut found, object, reading, &known, main)?;
        add_adjustment(&mut found, object, reading, explained.as_ref(), main)?;
    } else {
        let is_rated = said.is_some() || explained.is_some();
        let by_rate = match (wished, explained) {
            (None, Some(sums)) => sums,
            _ => {
                if said.is_none() {
                    found.warnings.extend(check_one_rate(object, reading, main)?);
                }
                BTreeMap::from([(main, reading.total)])
            }
        };
        let lines = by_rate.into_iter().map(|(rate, amount)| (line(&reading.name, None, amount, rate), amount));
        found.items.extend(lines.map(|(line, amount)| Item { line, amount, is_rated }));
    }
    Ok(found)
}

fn name<'a>(entry: &Node<'a>) -> Option<&'a str> {
    let price = entry.member("price");
    let names = [entry.member("description"), price.member("product").member("name"), price.member("nickname")];
    names.iter().find_map(Node::text)
}

/// The sums of an object with tax, by rate. `None`: the object does not say them, or does not say all of their rates.
fn sums(object: &Node<'_>, reading: &Reading<'_>, known: &KnownRates) -> Result<Option<BTreeMap<Rate, i64>>, Problem> {
    let entries = rate::sums_of_taxes(object);
    let lines = count(&reading.list).max(reading.list.items().len());
    let mut sums = BTreeMap::new();
    for entry in &entries {
        let only = (entries.len() == 1).then_some(reading.total);
        let Some((rate, amount)) = rate::of_sum(entry, only, lines, known)? else { return Ok(None) };
        let sum = sums.entry(rate).or_insert(0i64);
        *sum = crate::object::sum(entry, [*sum, amount])?;
    }
    Ok(Some(sums).filter(|sums| !sums.is_empty()))
}

/// The rate of lines that say none, if the object says one rate for all: in its sums of taxes, or as the rate of all
/// lines without their own.
fn main_rate(object: &Node<'_>, sums: Option<&BTreeMap<Rate, i64>>) -> Result<Option<Rate>, Problem> {
    if let Some(sums) = sums {
        return Ok(sums.keys().next().copied().filter(|_| sums.len() == 1));
    }
    if let [only] = object.member("default_tax_rates").items().as_slice() {
        return rate::parse(&only.member("percentage")).map(Some);
    }
    let percentage = object.member("tax_percent");
    if !percentage.is_missing() {
        return rate::parse(&percentage).map(Some);
    }
    let (tax, total) =
        (object.member("total_details").member("amount_tax").yen()?, object.member("amount_total").yen()?);
    Ok(match (tax, total) {
        (Some(tax), Some(total)) if tax != 0 => rate::of_total(tax, total, 0),
        _ => None,
    })
}

/// A session without lines whose tax lies between those of 8 and of 10 percent was taxed at both rates, so only the
/// lines say what is due. If another object has them, this one gives no more than a warning.
fn check_one_rate(object: &Node<'_>, reading: &Reading<'_>, main: Rate) -> Result<Option<String>, Problem> {
    let tax = i128::from(object.member("total_details").member("amount_tax").yen()?.unwrap_or(0));
    let taxable = i128::from(reading.total) - tax;
    let is_mixed = 100 * tax > 8 * taxable && 100 * tax < 10 * taxable;
    // the tax of a small amount fits both rates
    if !is_mixed || taxable < 200 {
        return Ok(None);
    }
    if reading.is_final {
        return Err(reading
            .list
            .problem("should hold all lines, because the tax of the total is that of several rates"));
    }
    Ok(Some(format!("the total was taxed at several rates: {} percent was used", main.percent())))
}

/// Whether a list holds only its first lines.
fn is_cut(list: &Node<'_>, held: usize) -> bool {
    list.member("has_more").value.as_bool() == Some(true) || count(list) > held
}

/// The number of lines that a list says it has; 0 if it does not say it.
fn count(list: &Node<'_>) -> usize {
    list.member("total_count").value.as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
}

/// Completes the first lines of an object with one line for each rate, from the object's sums of taxes.
fn complete_cut(
    found: &mut Itemized,
    object: &Node<'_>,
    reading: &Reading<'_>,
    explained: Option<&BTreeMap<Rate, i64>>,
) -> Result<(), Problem> {
    let rest = match explained {
        Some(sums) => rest(found, object, sums)?,
        None => Vec::new(),
    };
    // a rest with the wrong sign shows that the sums and the lines do not fit
    let fits = explained.is_some() && rest.iter().all(|(_, amount)| amount.signum() == reading.total.signum());
    if !fits {
        let message =
            "should hold all lines: has_more says that some are missing, so send the object with all its lines";
        return Err(reading.list.problem(message));
    }
    for (rate, amount) in rest {
        let name = format!("そのほかの明細（{}%対象）", rate.percent());
        found.items.push(Item { line: line(&name, None, amount, rate), amount, is_rated: true });
    }
    found.warnings.push("the object holds only its first lines: the rest is one line for each rate".to_owned());
    Ok(())
}

/// The difference between the sums of an object and its lines, by rate, without zeros.
fn rest(found: &Itemized, object: &Node<'_>, sums: &BTreeMap<Rate, i64>) -> Result<Vec<(Rate, i64)>, Problem> {
    let mut rest = Vec::new();
    for rate in Rate::ALL {
        let of_lines = found.items.iter().filter(|item| item.line.rate == rate).map(|item| -item.amount);
        let left = sum(object, of_lines.chain(sums.get(&rate).copied()))?;
        if left != 0 {
            rest.push((rate, left));
        }
    }
    Ok(rest)
}

/// Adds the shipping cost, which is not among the lines.
fn add_shipping(
    found: &mut Itemized,
    object: &Node<'_>,
    reading: &Reading<'_>,
    known: &KnownRates,
    main: Rate,
) -> Result<(), Problem> {
    let shipping = object.member("shipping_cost");
    let amount = shipping.member("amount_total").yen()?.unwrap_or(0);
    let of_lines = sum(object, found.items.iter().map(|item| item.amount))?;
    if amount == 0 || of_lines == reading.total {
        return Ok(());
    }
    let rate = match rate::of_line(&shipping, known)? {
        Told::Rate(rate) => Some(rate),
        Told::Nothing | Told::Unfit => None,
    };
    if rate.is_none() {
        found.warnings.push(format!("the rate of the shipping cost is not known: {} percent was used", main.percent()));
    }
    let line = line(SHIPPING, None, amount, rate.unwrap_or(main));
    found.items.push(Item { line, amount, is_rated: rate.is_some() });
    Ok(())
}

/// Adds lines for what the lines do not explain: at the rates that the object's sums say, else at the main rate.
fn add_adjustment(
    found: &mut Itemized,
    object: &Node<'_>,
    reading: &Reading<'_>,
    explained: Option<&BTreeMap<Rate, i64>>,
    main: Rate,
) -> Result<(), Problem> {
    let of_lines = sum(object, found.items.iter().map(|item| item.amount))?;
    found.unexplained = sum(object, [reading.total, -of_lines])?;
    if found.unexplained == 0 {
        return Ok(());
    }
    let rest = match explained {
        Some(sums) => rest(found, object, sums)?,
        None => vec![(main, found.unexplained)],
    };
    for (rate, amount) in rest {
        found.items.push(Item { line: line(ADJUSTMENT, None, amount, rate), amount, is_rated: explained.is_some() });
        found.warnings.push(adjusted(amount, rate));
    }
    Ok(())
}

/// The warning about a line that was added because the lines do not add up to the total.
pub(super) fn adjusted(amount: i64, rate: Rate) -> String {
    format!("the lines do not add up to the total: a line of {amount} yen at {} percent was added", rate.percent())
}
