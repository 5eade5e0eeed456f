//! Returns of sales: refunds, credit notes, and objects that say how much of their sale was given back.

use std::collections::{BTreeMap, BTreeSet};

use time::Date;

use super::facts::{amount_of, rates, split};
use super::itemized::UNNAMED;
use super::{Fullness, NamedBy, Payment, Sale, Wishes, line};
use crate::document::{Line, Problem, Step};
use crate::object::Node;
use crate::tax::consumption::Rate;

/// A return of a sale, or of a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Return {
    /// Id of the refund or the credit note; empty for what an object of the sale tells in total.
    pub id: String,
    /// Names of this return: the ids of its refunds and of its credit note. Two returns that share a name are the same
    /// return. Empty when [`Return::is_cumulative`].
    pub ids: BTreeSet<String>,
    /// Ids of the sale.
    pub sale_ids: BTreeSet<String>,
    /// Refunds that a cumulative amount contains, as far as the object lists them.
    pub covers: BTreeSet<String>,
    /// The amount that was given back, in yen; 0 only if an object of the sale says that nothing was given back.
    pub amount: i64,
    /// Whether [`Return::amount`] is all that was given back of the sale so far.
    pub is_cumulative: bool,
    /// The day of the return in Tokyo; `None`: the object does not say it.
    pub date: Option<Date>,
    /// The date or period of the sale, as documents print it; `None`: the object does not say it.
    pub original_date: Option<String>,
    /// Negative lines that say what was returned; empty when the object does not say it.
    pub lines: Vec<ReturnedLine>,
    /// The sale, if the object holds it.
    pub sale: Option<Sale>,
    /// Rate of a return without lines whose sale is not known.
    pub rate: Rate,
    /// The provider's id of the customer; may be empty.
    pub customer: String,
    /// The recipient's name; empty when the object contains none.
    pub recipient: String,
    /// The merchant's wishes in the object's metadata.
    pub wishes: Wishes,
    /// Warnings about the document of this return, each one line of ASCII.
    pub warnings: Vec<String>,
}

/// A line of a return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReturnedLine {
    /// The line. The amount is negative, except for a discount that is taken back.
    pub line: Line,
    /// Whether the object says the rate of this line. Otherwise the rate of the sale counts, if the sale is known.
    pub is_rated: bool,
}

impl Return {
    /// Makes the return of all that an object of a sale says was given back. The object does not say the day.
    pub fn of_refunds(payment: &Payment) -> Return {
        let sale = Sale::of_payment(&payment.clone().without_refunds());
        Return {
            id: String::new(),
            ids: BTreeSet::new(),
            sale_ids: payment.ids.clone(),
            covers: BTreeSet::new(),
            amount: payment.refunded,
            is_cumulative: true,
            date: None,
            original_date: Some(sale.day.clone()).filter(|day| !day.is_empty()),
            lines: Vec::new(),
            rate: payment.lines.first().map_or(Rate::Standard, |line| line.rate),
            sale: Some(sale),
            customer: payment.customer.clone(),
            recipient: payment.recipient.clone(),
            wishes: payment.wishes.clone(),
            warnings: payment.warnings.clone(),
        }
    }

    /// Adds what the list of refunds of a charge says: the names of the refunds, and the day of the last one. Newer
    /// versions of Stripe's interface leave the list out.
    pub(super) fn with_refunds_of(mut self, charge: &Node<'_>) -> Result<Return, Problem> {
        for refund in charge.member("refunds").items() {
            self.covers.extend(refund.id().map(str::to_owned));
            self.date = self.date.max(refund.member("created").day()?);
        }
        Ok(self)
    }

    /// Makes the payment with negative lines that stands for this return among other payments.
    pub(super) fn payment(self) -> Result<Payment, Problem> {
        let lines = lines_of(&self, self.amount, None)?;
        Ok(Payment {
            // the ids of the sale are left out, because the sale is a payment of its own
            ids: self.ids,
            id: self.id,
            sale_ids: self.sale_ids,
            fullness: Fullness::Invoice,
            is_final: true,
            invoice_id: None,
            customer: self.customer,
            lines,
            refund_lines: 0,
            gross: -self.amount,
            refunded: 0,
            total: -self.amount,
            is_refunded: false,
            is_return: true,
            date: self.date,
            paid_at: None,
            original_date: self.original_date,
            named_by: if self.recipient.is_empty() { NamedBy::Nobody } else { NamedBy::Payer },
            recipient: self.recipient,
            email: None,
            payment_method: None,
            wishes: self.wishes,
            unexplained: 0,
            warnings: self.warnings,
        })
    }
}

/// The problem of a return whose sale has no known day.
pub(super) fn no_original_date() -> Problem {
    Problem {
        at: vec![Step::Field("metadata"), Step::Field("original_date")],
        message: "is required, because a return invoice states the day of the sale and the object does not hold the \
                  sale: send the day or the period of the sale, such as 2025-09-30 or 2025年9月分, or the object with \
                  its charge or invoice expanded"
            .to_owned(),
    }
}

/// The negative lines for `amount` yen of a return. The lines add up to the amount.
pub(super) fn lines_of(returned: &Return, amount: i64, sale: Option<&Sale>) -> Result<Vec<Line>, Problem> {
    let problem = |message: &str| Problem { at: Vec::new(), message: message.to_owned() };
    if amount <= 0 {
        return Err(problem("should say that something was given back"));
    }
    if amount > returned.amount {
        return Err(problem("should be a return of at least the amount of its document"));
    }
    let sale = sale.or(returned.sale.as_ref());
    if sale.is_some_and(|sale| amount > sale.total()) {
        return Err(problem("should return at most what was sold"));
    }
    let own = own_lines(&returned.lines, sale);
    if !own.is_empty() {
        let is_whole = amount == returned.amount;
        return Ok(if is_whole { own } else { shares(amount, &negated(&own)) });
    }
    Ok(match sale {
        Some(sale) if amount == sale.total() => negated(&sale.lines),
        Some(sale) => shares(amount, &sale.lines),
        None => vec![line(&returned_name(None), None, -amount, returned.rate)],
    })
}

/// The lines that the object of a return has. A line that does not say its rate has the rate of the sale, or is divided
/// among the rates of the sale.
fn own_lines(lines: &[ReturnedLine], sale: Option<&Sale>) -> Vec<Line> {
    let mut own = Vec::with_capacity(lines.len());
    for ReturnedLine { line: given, is_rated } in lines {
        let of_sale = sale.map(|sale| rates(&sale.lines)).unwrap_or_default();
        match (of_sale.first(), of_sale.len(), amount_of(given), sale) {
            (Some(rate), 1, _, _) if !is_rated => own.push(Line { rate: *rate, ..given.clone() }),
            (_, 2, Some(amount), Some(sale)) if !is_rated => {
                let shares = split(amount.abs(), &sale.lines).into_iter();
                own.extend(shares.map(|(rate, share)| line(&given.name, None, share * amount.signum(), rate)));
            }
            _ => own.push(given.clone()),
        }
    }
    own
}

fn negated(lines: &[Line]) -> Vec<Line> {
    lines.iter().map(|line| Line { unit_price: -line.unit_price, ..line.clone() }).collect()
}

/// Divides a return among the rates of what was sold, one line for each rate.
fn shares(amount: i64, sold: &[Line]) -> Vec<Line> {
    let mut names: BTreeMap<Rate, (&str, usize)> = BTreeMap::new();
    for line in sold.iter().filter(|line| amount_of(line).is_some_and(|amount| amount > 0)) {
        names.entry(line.rate).or_insert((&line.name, 0)).1 += 1;
    }
    let name = |rate: Rate| match names.get(&rate) {
        Some((name, 1)) => returned_name(Some(name)),
        Some((name, _)) => returned_name(Some(&format!("{name} ほか"))),
        None => returned_name(None),
    };
    split(amount, sold).into_iter().map(|(rate, share)| line(&name(rate), None, -share, rate)).collect()
}

/// Names what was returned: 返金, or 返金 with the name of what was sold.
pub(super) fn returned_name(sold: Option<&str>) -> String {
    /// Leaves room for more words within the longest name of a line.
    const CHARACTERS_MAX: usize = 150;
    match sold.filter(|sold| *sold != UNNAMED) {
        Some(sold) => format!("返金（{}）", sold.chars().take(CHARACTERS_MAX).collect::<String>()),
        None => "返金".to_owned(),
    }
}
