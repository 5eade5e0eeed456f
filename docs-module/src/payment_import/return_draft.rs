//! Drafts of return invoices (適格返還請求書; consumption tax act, article 57-4, paragraph 3). What the law requires comes
//! from the document of the sale, from the object of the return, or from its metadata. No entry is guessed.

use super::honorific::honorific;
use super::order::{Order, base, consignor};
use super::returns::{lines_of, no_original_date};
use super::{Return, Sale};
use crate::document::{Draft, Kind, Problem};

/// Makes the draft of the return invoice for `amount` yen of a return. The amount may be less than the whole return,
/// because earlier documents cover the rest. `sale`: what the document of the sale says, if it has one. The kind in the
/// order does not count.
///
/// # Errors
/// When the day of the sale is not known, the amount is not positive, or more is returned than was sold. The path of
/// the problem begins at the object.
pub fn draft_of_return(returned: &Return, amount: i64, sale: Option<&Sale>, order: Order) -> Result<Draft, Problem> {
    let known = sale.or(returned.sale.as_ref());
    let day_of_sale = sale.map(|sale| sale.day.clone()).filter(|day| !day.is_empty());
    let original_date = day_of_sale.or_else(|| returned.original_date.clone()).ok_or_else(no_original_date)?;
    let lines = lines_of(returned, amount, sale)?;

    let of_sale = known.map(|sale| sale.recipient.clone()).unwrap_or_default();
    let given = [order.recipient.clone(), of_sale.clone(), returned.recipient.clone()];
    let recipient = given.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
    let wished = returned.wishes.honorific.clone();
    let of_sale = known.filter(|_| recipient == of_sale).map(|sale| sale.honorific.clone());
    let honorific = wished.or(of_sale).unwrap_or_else(|| honorific(&recipient).to_owned());
    let number = returned.wishes.invoice_number.clone().unwrap_or_else(|| order.number.clone());
    let consignor = match consignor(&order, &returned.wishes)? {
        Some(consignor) => Some(consignor),
        None => known.and_then(|sale| sale.consignor.clone()),
    };
    let rounding = sale.map_or(order.rounding, |sale| sale.rounding);
    let day = returned.date.unwrap_or(order.today);
    let draft = base(Order { recipient, consignor, number, rounding, ..order }, lines, Kind::CreditNote, day);
    let original_number = sale.map(|sale| sale.number.clone()).unwrap_or_default();
    Ok(Draft { honorific, original_date, original_number, ..draft })
}
