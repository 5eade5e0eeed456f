//! Decides to which recorded sale a new object belongs, and which object makes the document. Pure.

use super::announcement::{DocumentState, NewSale, Verdict, WHOLE};
use crate::database::from_row;

/// A recorded sale, as far as joining needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SaleRow {
    pub document_id: String,
    pub state: DocumentState,
    /// How much the object of the row knows. 0: no object came yet.
    pub fullness: i64,
    pub total_yen: i64,
    pub invoice_id: String,
    pub received_at: i64,
    pub error: String,
}

from_row!(SaleRow { document_id, state as word, fullness, total_yen, invoice_id, received_at, error });

impl SaleRow {
    /// Whether the row's object may be one of several payments of an invoice.
    pub fn is_part(&self) -> bool {
        self.fullness > 0 && self.fullness < WHOLE
    }

    fn is_issued(&self) -> bool {
        self.state == DocumentState::Issued
    }
}

/// Where a new object belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Joined {
    /// The object is the first of a sale.
    New,
    /// Parts of the invoice have documents of their own, and their sum is not the invoice's total.
    InParts { why: String },
    /// The object belongs to a recorded sale.
    Known {
        row: SaleRow,
        /// Other rows that turned out to be the same sale.
        merged: Vec<SaleRow>,
        /// Whether the new object makes the document in place of the recorded object.
        takes_object: bool,
    },
}

/// Joins a new object with the rows that share a name or an invoice with the object.
pub(super) fn join(new: &NewSale, mut rows: Vec<SaleRow>) -> Joined {
    if new.is_whole() && rows.iter().any(SaleRow::is_issued) && rows.iter().all(|row| row.is_part() || !row.is_issued())
    {
        return join_with_parts(new, rows);
    }
    rows.sort_by_key(|row| (!row.is_issued(), row.state != DocumentState::Declined, -row.fullness, row.received_at));
    let mut rows = rows.into_iter();
    let Some(row) = rows.next() else { return Joined::New };
    // a document that was issued is not undone
    let merged = rows.filter(|other| !other.is_issued()).collect();
    Joined::Known { takes_object: takes_object(new, &row), row, merged }
}

/// Joins an invoice or a session that came after documents were made for its payments.
fn join_with_parts(new: &NewSale, rows: Vec<SaleRow>) -> Joined {
    let (issued, open): (Vec<SaleRow>, Vec<SaleRow>) = rows.into_iter().partition(SaleRow::is_issued);
    let sum = |rows: &[SaleRow]| rows.iter().map(|row| row.total_yen).sum::<i64>();
    let issued_yen = sum(&issued);
    let row = issued.into_iter().next().expect("the caller saw one");
    if issued_yen == new.total_yen {
        Joined::Known { row, merged: open, takes_object: false }
    } else if issued_yen + sum(&open) == new.total_yen {
        // each payment gets a document of its own
        Joined::Known { row, merged: open.into_iter().filter(|row| !row.is_part()).collect(), takes_object: false }
    } else {
        let why = format!(
            "documents of {issued_yen} yen were made for payments of this sale of {} yen before this event came: \
             correct them if they do not suffice",
            new.total_yen
        );
        Joined::InParts { why }
    }
}

fn takes_object(new: &NewSale, row: &SaleRow) -> bool {
    match row.state {
        DocumentState::Issued | DocumentState::Declined => false,
        // the merchant's wish may stand in any object of the sale
        _ if new.told.verdict == Verdict::Decline => true,
        DocumentState::Announced => true,
        // the object of a faulty event may come again, whole
        DocumentState::NotIssued => new.fullness >= row.fullness,
        DocumentState::Waiting | DocumentState::Held => new.fullness > row.fullness,
    }
}
