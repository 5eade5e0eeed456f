//! Returns of sales: refunds and credit notes. What was given back has one document, whether a refund, a credit note, the
//! charge or all of them tell of the return (readings B14, B15). A charge tells the sum of all that was given back so far.
//! Refunds and credit notes tell their own amounts.

use super::announcement::{Announcement, DocumentState, NewSale, Verdict};
use super::sales::{Claim, claim};
use crate::Result;
use crate::database::{Tx, from_row, values};

/// An object that tells of a return.
#[derive(Clone, Debug)]
pub struct NewReturn {
    /// The event.
    pub told: Announcement,
    /// Ids of the event, of the refunds and of the credit note.
    pub names: Vec<String>,
    /// Ids of the sale's objects, without an invoice.
    pub sale_names: Vec<String>,
    /// The invoice of the sale. May be empty.
    pub invoice_id: String,
    /// Ids of refunds that a sum contains, if the object lists them. Empty for a refund or a credit note.
    pub covers: Vec<String>,
    /// The returned amount, in yen. Positive, or 0 if the object cannot be read.
    pub amount_yen: i64,
    /// Whether the amount is the sum of all returns of the sale so far.
    pub is_cumulative: bool,
}

/// A recorded return.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ReturnRow {
    document_id: String,
    state: DocumentState,
    amount_yen: i64,
    named_yen: i64,
    is_final: bool,
    error: String,
}

from_row!(ReturnRow { document_id, state as word, amount_yen, named_yen, is_final, error });

impl ReturnRow {
    /// The part of the amount of which only a sum was told.
    fn unnamed_yen(&self) -> i64 {
        self.amount_yen - self.named_yen
    }

    /// Whether the document may still change.
    fn is_open(&self) -> bool {
        self.state.is_open()
    }
}

macro_rules! select_returns {
    ($rest:literal) => {
        concat!("SELECT document_id, state, amount_yen, named_yen, is_final, error FROM payment_returns ", $rest)
    };
}

impl Tx {
    /// Records a return of a sale. Joins the object with recorded objects of the same return.
    pub async fn claim_return(&mut self, new: &NewReturn) -> Result<Claim> {
        let told = &new.told;
        self.lock_sales(&told.lineage_id).await?;
        let sale_id = self.sale_of(new).await?;
        let known = self.returns_of_names(&told.lineage_id, &new.names).await?;
        if !known.is_empty() {
            return self.join_return(new, &sale_id, known).await;
        }
        if new.is_cumulative {
            return self.claim_sum(new, &sale_id).await;
        }
        // refunds of a sum that has a document already
        let mut rest = new.amount_yen;
        let rows = self.returns_of(&sale_id).await?;
        let mut covering = None;
        for row in rows.iter().filter(|row| !row.is_open()) {
            let part = row.unnamed_yen().min(rest);
            if part > 0 {
                rest -= part;
                covering = Some(row);
                let sql = "UPDATE payment_returns SET named_yen = named_yen + $2 WHERE document_id = $1";
                self.execute(sql, values![&row.document_id, part]).await?;
            }
        }
        if rest == 0
            && let Some(row) = covering
        {
            self.name(&told.lineage_id, &new.names, &row.document_id).await?;
            return Ok(claim(false, &row.document_id, row.state, &row.error));
        }
        self.insert_return(new, &sale_id, rest, rest).await?;
        self.name(&told.lineage_id, &new.names, &told.document_id).await?;
        self.settle_returns(&sale_id).await?;
        Ok(claim(told.is_ready(), &told.document_id, told.state(), told.error()))
    }

    /// Records the sum that was given back of a sale so far.
    async fn claim_sum(&mut self, new: &NewReturn, sale_id: &str) -> Result<Claim> {
        let told = &new.told;
        let sql = "UPDATE ingested_payments SET returned_yen = $2, \
             sealed_event = CASE WHEN state = 'announced' THEN $3 ELSE sealed_event END, \
             event_type = CASE WHEN state = 'announced' THEN $4 ELSE event_type END WHERE document_id = $1 AND returned_yen < $2";
        self.execute(sql, values![sale_id, new.amount_yen, &told.sealed_event, &told.event_type]).await?;
        let rows = self.returns_of(sale_id).await?;
        let rest = new.amount_yen - rows.iter().map(|row| row.amount_yen).sum::<i64>();
        if rest > 0 {
            let sum = rows.iter().find(|row| row.is_open() && row.unnamed_yen() > 0);
            if let Some(sum) = sum {
                let sql = "UPDATE payment_returns SET amount_yen = amount_yen + $2, sealed_event = $3, revision = revision + 1 \
                     WHERE document_id = $1";
                self.execute(sql, values![&sum.document_id, rest, &told.sealed_event]).await?;
                self.name(&told.lineage_id, &new.names, &sum.document_id).await?;
                return Ok(claim(false, &sum.document_id, sum.state, &sum.error));
            }
            let named = if new.covers.is_empty() { 0 } else { rest };
            self.insert_return(new, sale_id, rest, named).await?;
            self.name(&told.lineage_id, &new.names, &told.document_id).await?;
            self.name(&told.lineage_id, &new.covers, &told.document_id).await?;
            return Ok(claim(told.is_ready(), &told.document_id, told.state(), told.error()));
        }
        let newest = rows.last().expect("returns with a sum that is not less than the new sum");
        self.name(&told.lineage_id, &new.names, &newest.document_id).await?;
        Ok(claim(false, &newest.document_id, newest.state, &newest.error))
    }

    /// Joins an object with a recorded return of the same name. A credit note tells more than its refund, so the credit
    /// note makes the document.
    async fn join_return(&mut self, new: &NewReturn, sale_id: &str, mut rows: Vec<ReturnRow>) -> Result<Claim> {
        let told = &new.told;
        rows.sort_by_key(|row| !row.is_open());
        let known = rows.remove(0);
        // other documents that cover a part of this return
        let elsewhere: i64 = rows.iter().map(|row| row.amount_yen).sum();
        let amount = new.amount_yen - elsewhere;
        self.name(&told.lineage_id, &new.names, &known.document_id).await?;
        let takes_object = known.is_open()
            && !new.is_cumulative
            && (told.is_final && !known.is_final || known.state == DocumentState::NotIssued);
        if takes_object {
            let sql = "UPDATE payment_returns SET sealed_event = $2, amount_yen = CASE WHEN amount_yen > $3 THEN amount_yen ELSE $3 END, \
                 named_yen = CASE WHEN named_yen > $3 THEN named_yen ELSE $3 END, is_final = $4, event_type = $5, payment_id = $6, \
                 state = CASE WHEN state = 'held' THEN state ELSE $7 END, error = $8, due_at = $9, revision = revision + 1 \
                 WHERE document_id = $1";
            let of = values![
                &known.document_id,
                &told.sealed_event,
                amount,
                told.is_final,
                &told.event_type,
                &told.payment_id,
                told.state().as_str(),
                told.error(),
                told.due_at()
            ];
            self.execute(sql, of).await?;
            self.settle_returns(sale_id).await?;
            let state = if known.state == DocumentState::Held { known.state } else { told.state() };
            let is_ready = told.is_ready() && state == DocumentState::Waiting;
            return Ok(claim(is_ready, &known.document_id, state, told.error()));
        }
        // a credit note may give back more than its refund, as a credit for later
        let more = amount - known.amount_yen;
        if !new.is_cumulative && known.state == DocumentState::Issued && told.is_final && more > 0 {
            self.insert_return(new, sale_id, more, more).await?;
            // the credit note names the new row too, so the same event again finds both rows
            let sql = "UPDATE payment_names SET document_id = $3 WHERE lineage_id = $1 AND name = $2";
            self.execute(sql, values![&told.lineage_id, &told.payment_id, &told.document_id]).await?;
            return Ok(claim(told.is_ready(), &told.document_id, told.state(), told.error()));
        }
        Ok(claim(false, &known.document_id, known.state, &known.error))
    }

    /// Finds the sale of a return. A sale that was not announced yet gets a row without an object.
    async fn sale_of(&mut self, new: &NewReturn) -> Result<String> {
        let told = &new.told;
        let mut rows = self.sales_of_names(&told.lineage_id, &new.sale_names).await?;
        if rows.is_empty() {
            rows = self.sales_of_invoice(&told.lineage_id, &new.invoice_id).await?;
            rows.truncate(1);
        }
        if rows.is_empty() && !new.invoice_id.is_empty() {
            rows = self.sales_of_names(&told.lineage_id, std::slice::from_ref(&new.invoice_id)).await?;
        }
        rows.sort_by_key(|row| (row.state != DocumentState::Issued, -row.fullness, row.received_at));
        let Some(first) = rows.first() else {
            let document_id = format!("{}_sale", told.document_id);
            // a charge that tells a sum knows the day of the sale
            let sealed_event = if new.is_cumulative { told.sealed_event.clone() } else { Vec::new() };
            let sale = NewSale {
                told: Announcement { document_id: document_id.clone(), sealed_event, ..told.clone() },
                names: Vec::new(),
                invoice_id: new.invoice_id.clone(),
                fullness: 0,
                customer: String::new(),
                total_yen: 0,
                paid_at: told.received_at,
                is_intent: !new.sale_names.is_empty(),
            };
            self.insert_sale(&sale, DocumentState::Announced).await?;
            self.name(&told.lineage_id, &new.sale_names, &document_id).await?;
            return Ok(document_id);
        };
        for other in rows.iter().skip(1).filter(|row| row.state == DocumentState::Announced) {
            self.merge_sale(&other.document_id, first, told.received_at).await?;
        }
        self.name(&told.lineage_id, &new.sale_names, &first.document_id).await?;
        Ok(first.document_id.clone())
    }

    /// Returns the returns that have one of these names.
    async fn returns_of_names(&mut self, lineage_id: &str, names: &[String]) -> Result<Vec<ReturnRow>> {
        let mut rows: Vec<ReturnRow> = Vec::new();
        for name in names {
            let sql = select_returns!(
                "WHERE document_id = (SELECT document_id FROM payment_names WHERE lineage_id = $1 AND name = $2)"
            );
            let row: Option<ReturnRow> = self.fetch_optional(sql, values![lineage_id, name]).await?;
            rows.extend(row.filter(|row| rows.iter().all(|known| known.document_id != row.document_id)));
        }
        Ok(rows)
    }

    async fn returns_of(&mut self, sale_id: &str) -> Result<Vec<ReturnRow>> {
        let sql = select_returns!("WHERE sale_id = $1 ORDER BY received_at, document_id");
        self.fetch_all(sql, values![sale_id]).await
    }

    /// Makes the amounts of a sale's returns add up to what was given back: the sum that the charge told, or the sum of
    /// the refunds with ids if this sum is larger. Refunds with ids take their amounts from a sum without a document.
    pub(super) async fn settle_returns(&mut self, sale_id: &str) -> Result<()> {
        let sql = "SELECT returned_yen FROM ingested_payments WHERE document_id = $1";
        let (returned,): (i64,) = self.fetch_one(sql, values![sale_id]).await?;
        let rows = self.returns_of(sale_id).await?;
        let named: i64 = rows.iter().map(|row| row.named_yen).sum();
        let mut excess = rows.iter().map(|row| row.amount_yen).sum::<i64>() - returned.max(named);
        for row in rows.iter().filter(|row| row.is_open()) {
            let part = row.unnamed_yen().min(excess);
            if part <= 0 {
                continue;
            }
            excess -= part;
            if part == row.amount_yen {
                let heir = rows.iter().find(|other| other.document_id != row.document_id && other.named_yen > 0);
                if let Some(heir) = heir {
                    let sql = "UPDATE payment_names SET document_id = $2 WHERE document_id = $1";
                    self.execute(sql, values![&row.document_id, &heir.document_id]).await?;
                }
                let sql = "DELETE FROM payment_returns WHERE document_id = $1";
                self.execute(sql, values![&row.document_id]).await?;
            } else {
                let sql = "UPDATE payment_returns SET amount_yen = amount_yen - $2, revision = revision + 1 WHERE document_id = $1";
                self.execute(sql, values![&row.document_id, part]).await?;
            }
        }
        Ok(())
    }

    async fn insert_return(&mut self, new: &NewReturn, sale_id: &str, amount: i64, named: i64) -> Result<()> {
        let told = &new.told;
        let sql = "INSERT INTO payment_returns (document_id, sale_id, account_id, lineage_id, state, provider, event_type, sealed_event, \
             amount_yen, named_yen, is_final, payment_id, revision, attempts, due_at, error, received_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 0, 0, $13, $14, $15)";
        let sealed_event = (told.verdict != Verdict::Decline).then_some(&*told.sealed_event);
        let of = values![
            &told.document_id,
            sale_id,
            &told.account_id,
            &told.lineage_id,
            told.state().as_str(),
            &told.provider,
            &told.event_type,
            sealed_event,
            amount,
            named,
            told.is_final,
            &told.payment_id,
            told.due_at(),
            told.error(),
            told.received_at
        ];
        self.execute(sql, of).await.map(drop)
    }
}
