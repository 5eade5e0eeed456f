//! Many payments in one document: a return finds its sale among the other payments.

use std::collections::BTreeSet;

use serde_json::Value;

use super::returns::no_original_date;
use super::{Announced, Payment, Provider, Return, Sale, read_any};
use crate::document::{Line, Problem};
use crate::tax::consumption::Rate;

/// Reads payment objects of one provider, in their order. A return takes the day and the rates of its sale from the
/// sale's object, if this is one of the objects.
///
/// # Errors
/// All problems, each with the index of its object: those of [`super::read`], of a return whose sale has no known day,
/// and of a return that the object of its sale counts too.
pub fn read_all<'a>(
    provider: Provider,
    objects: impl IntoIterator<Item = &'a Value>,
    default_rate: Rate,
) -> Result<Vec<Payment>, Vec<(usize, Problem)>> {
    let read: Vec<_> = objects.into_iter().map(|object| read_any(provider, object, default_rate)).collect();
    let sales: Vec<Payment> = read.iter().filter_map(|found| sale(found.as_ref().ok()?)).cloned().collect();
    let mut payments = Vec::with_capacity(read.len());
    let mut problems = Vec::new();
    for (at, found) in read.into_iter().enumerate() {
        let payment = found.and_then(|found| match found {
            Announced::Sale(payment) => Ok(payment),
            Announced::Return(returned) => among(returned, &sales),
        });
        match payment {
            Ok(payment) => payments.push(payment),
            Err(problem) => problems.push((at, problem)),
        }
    }
    if problems.is_empty() { Ok(payments) } else { Err(problems) }
}

fn sale(found: &Announced) -> Option<&Payment> {
    match found {
        Announced::Sale(payment) => Some(payment),
        Announced::Return(_) => None,
    }
}

/// Makes the payment of a return among sales.
fn among(mut returned: Return, sales: &[Payment]) -> Result<Payment, Problem> {
    let own = sales.iter().filter(|sale| !sale.ids.is_disjoint(&returned.sale_ids));
    if let Some(sale) = own.max_by_key(|sale| sale.fullness) {
        if sale.refunded > 0 {
            let message = "is counted twice: the object of its sale says how much was given back";
            return Err(Problem { at: Vec::new(), message: message.to_owned() });
        }
        let sale = Sale::of_payment(sale);
        let day = Some(sale.day.clone()).filter(|day| !day.is_empty());
        returned.original_date = returned.original_date.or(day);
        returned.sale = returned.sale.or(Some(sale));
    }
    if returned.original_date.is_none() {
        return Err(no_original_date());
    }
    returned.payment()
}

/// Finds the index of the first payment that repeats an earlier payment: the two payments share an id (B30).
pub fn first_repeated(payments: &[Payment]) -> Option<usize> {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    payments.iter().position(|payment| {
        let is_repeated = payment.ids.iter().any(|id| seen.contains(id.as_str()));
        seen.extend(payment.ids.iter().map(String::as_str));
        is_repeated
    })
}

/// Collects the lines of many payments for one document, sorted by date. The name of each line begins with the month
/// and the day of the line's payment. The name of a returned line ends with the date of its sale, because the tax act
/// requires this date.
pub fn lines_of_all(payments: &[Payment]) -> Vec<Line> {
    let mut ordered: Vec<&Payment> = payments.iter().collect();
    ordered.sort_by_key(|payment| payment.date);
    let dated = |payment: &Payment, line: &Line| {
        let day = payment.date.map(|date| format!("{}/{} ", u8::from(date.month()), date.day())).unwrap_or_default();
        let sale = payment.original_date.as_ref().map(|sale| format!("（{sale}の取引）")).unwrap_or_default();
        Line { name: format!("{day}{}{sale}", line.name), ..line.clone() }
    };
    ordered.into_iter().flat_map(|payment| payment.lines.iter().map(|line| dated(payment, line))).collect()
}
