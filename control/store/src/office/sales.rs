//! Sales that payment providers announced. Each sale has one row and one document, however many events announce the sale
//! and in whatever order (readings B14-B16). The fullest object of a sale makes the document.

use super::announcement::{Announcement, DocumentState, NewSale, Verdict};
use super::joining::{Joined, SaleRow, join};
use crate::database::{Sql, Tx, from_row, locking, values};
use crate::{Result, Store};

/// The outcome of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The caller makes the document now.
    Issue {
        /// The document's id.
        document_id: String,
    },
    /// The event needs no work now.
    Known {
        /// The document's id.
        document_id: String,
        /// The state of the sale or the return.
        state: DocumentState,
        /// Why no document can be made. Empty: none.
        error: String,
    },
}

/// A sale or a return whose document is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueDocument {
    /// The document's id.
    pub document_id: String,
    /// The owner's account.
    pub account_id: String,
    /// The key's lineage.
    pub lineage_id: String,
    /// The provider's name.
    pub provider: String,
    /// The event's type.
    pub event_type: String,
    /// The event's object, encrypted.
    pub sealed_event: Vec<u8>,
    /// Counts the objects that came.
    pub revision: i64,
    /// The document of the sale that is returned. Empty: this is a sale.
    pub sale_id: String,
    /// The returned amount, in yen, or the amount of the sale.
    pub yen: i64,
    /// When the first event came, in microseconds since 1970.
    pub received_at: i64,
}

from_row!(DueDocument {
    document_id,
    account_id,
    lineage_id,
    provider,
    event_type,
    sealed_event,
    revision,
    sale_id,
    yen,
    received_at
});

/// A sale, as a return needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedSale {
    /// The state.
    pub state: DocumentState,
    /// The facts of the document, encrypted. `None`: there is no document, or a release before this one made it.
    pub sealed_sale: Option<Vec<u8>>,
    /// The object that is recorded, encrypted. Of an announced sale, the charge of which a sum was given back. May be empty.
    pub sealed_event: Option<Vec<u8>>,
    /// The provider's name.
    pub provider: String,
    /// Type of the event with the object.
    pub event_type: String,
}

from_row!(RecordedSale { state as word, sealed_sale, sealed_event, provider, event_type });

/// Largest time between the payments of an invoice and of an intent that are one sale although neither names the
/// other, in microseconds.
const JOINED_WITHIN: i64 = 600_000_000;

/// Sales and returns that meet a condition.
macro_rules! select_due {
    ($condition:literal, $rest:literal) => {
        concat!(
            "SELECT document_id, account_id, lineage_id, provider, event_type, sealed_event, revision, '' AS sale_id, \
             total_yen AS yen, due_at, received_at FROM ingested_payments WHERE state IN ('waiting', 'held') AND ",
            $condition,
            " UNION ALL SELECT document_id, account_id, lineage_id, provider, event_type, sealed_event, revision, sale_id, \
             amount_yen AS yen, due_at, received_at FROM payment_returns WHERE state IN ('waiting', 'held') AND ",
            $condition,
            $rest
        )
    };
}

macro_rules! select_sales {
    ($rest:literal) => {
        concat!(
            "SELECT document_id, state, fullness, total_yen, invoice_id, received_at, error FROM ingested_payments ",
            $rest
        )
    };
}

impl Store {
    /// Returns sales and returns whose documents are to be made now, at most `limit`.
    pub async fn due_documents(&self, now: i64, limit: i64) -> Result<Vec<DueDocument>> {
        let sql = select_due!("due_at <= $1", " ORDER BY due_at, document_id LIMIT $2");
        self.db.fetch_all(sql, values![now, limit]).await
    }

    /// Returns a sale or a return whose document is not made yet.
    pub async fn due_document(&self, document_id: &str) -> Result<Option<DueDocument>> {
        self.db.fetch_optional(select_due!("document_id = $1", ""), values![document_id]).await
    }

    /// Returns whether there is a document to be made now.
    pub async fn has_due_documents(&self, now: i64) -> Result<bool> {
        let sql = "SELECT CAST(1 AS BIGINT) WHERE EXISTS (SELECT 1 FROM ingested_payments WHERE state IN ('waiting', 'held') \
             AND due_at <= $1) OR EXISTS (SELECT 1 FROM payment_returns WHERE state IN ('waiting', 'held') AND due_at <= $1)";
        Ok(self.db.fetch_optional::<(i64,)>(sql, values![now]).await?.is_some())
    }

    /// Returns whether a document waits until after `latest`.
    pub async fn has_documents_due_after(&self, latest: i64) -> Result<bool> {
        let sql = "SELECT CAST(1 AS BIGINT) WHERE EXISTS (SELECT 1 FROM ingested_payments WHERE state IN ('waiting', 'held') \
             AND due_at > $1) OR EXISTS (SELECT 1 FROM payment_returns WHERE state IN ('waiting', 'held') AND due_at > $1)";
        Ok(self.db.fetch_optional::<(i64,)>(sql, values![latest]).await?.is_some())
    }

    /// Makes documents due that were received after `now` or wait until after `latest`, because the clock went back.
    pub async fn hasten_future_documents(&self, now: i64, latest: i64) -> Result<()> {
        for sql in [
            "UPDATE ingested_payments SET due_at = $1 WHERE state IN ('waiting', 'held') AND due_at > $1 \
             AND (received_at > $1 OR due_at > $2)",
            "UPDATE payment_returns SET due_at = $1 WHERE state IN ('waiting', 'held') AND due_at > $1 \
             AND (received_at > $1 OR due_at > $2)",
        ] {
            self.db.execute(sql, values![now, latest]).await?;
        }
        Ok(())
    }

    /// Returns the number of an account's documents that wait, and the bytes of their events.
    pub async fn waiting_documents(&self, account_id: &str) -> Result<(i64, i64)> {
        macro_rules! both {
            ($of:literal) => {
                concat!(
                    "(SELECT ",
                    $of,
                    " FROM ingested_payments WHERE account_id = $1 AND state IN ('waiting', 'held')) + (SELECT ",
                    $of,
                    " FROM payment_returns WHERE account_id = $1 AND state IN ('waiting', 'held'))"
                )
            };
        }
        let sql = concat!(
            "SELECT ",
            both!("COUNT(*)"),
            ", CAST(",
            both!("COALESCE(SUM(LENGTH(sealed_event)), 0)"),
            " AS BIGINT)"
        );
        self.db.fetch_one(sql, values![account_id]).await
    }

    /// Records that a document could not be made, for which reason, and when the next attempt is due. False: another
    /// object came meanwhile, or the document of the sale was stored.
    pub async fn put_document_off(
        &self,
        of: &DueDocument,
        state: DocumentState,
        due_at: i64,
        error: &str,
    ) -> Result<bool> {
        let sql = if of.sale_id.is_empty() {
            "UPDATE ingested_payments SET state = $2, due_at = $3, error = $4, attempts = attempts + 1 \
             WHERE document_id = $1 AND state IN ('waiting', 'held') AND revision = $5"
        } else {
            "UPDATE payment_returns SET state = $2, due_at = $3, error = $4, attempts = attempts + 1 \
             WHERE document_id = $1 AND state IN ('waiting', 'held') AND revision = $5"
        };
        Ok(self.db.execute(sql, values![&of.document_id, state.as_str(), due_at, error, of.revision]).await? == 1)
    }

    /// Returns the sale of a return. `None`: the sale is not on record.
    pub async fn sale_of_return(&self, sale_id: &str) -> Result<Option<RecordedSale>> {
        let sql = "SELECT state, sealed_sale, sealed_event, provider, event_type FROM ingested_payments WHERE document_id = $1";
        self.db.fetch_optional(sql, values![sale_id]).await
    }
}

impl Tx {
    /// Locks the sales of a key until the transaction ends, so that each event sees what earlier events stored.
    pub(super) async fn lock_sales(&mut self, lineage_id: &str) -> Result<()> {
        let sql = locking!("SELECT lineage_id FROM issuer_profiles WHERE lineage_id = $1");
        self.fetch_optional::<(String,)>(sql, values![lineage_id]).await.map(drop)
    }

    /// Records an object of a sale. Joins the object with the recorded objects of the same sale.
    pub async fn claim_sale(&mut self, new: &NewSale) -> Result<Claim> {
        let told = &new.told;
        self.lock_sales(&told.lineage_id).await?;
        let mut rows = self.sales_of_names(&told.lineage_id, &new.names).await?;
        for row in self.sales_of_invoice(&told.lineage_id, &new.invoice_id).await? {
            // parts of an invoice are different payments
            let is_other_part = !new.is_whole() && row.is_part();
            if !is_other_part && rows.iter().all(|known| known.document_id != row.document_id) {
                rows.push(row);
            }
        }
        if rows.is_empty() {
            rows.extend(self.counterpart(new).await?);
        }
        match join(new, rows) {
            Joined::New => {
                self.insert_sale(new, told.state()).await?;
                self.name_sale(new, &told.document_id).await?;
                Ok(claim(told.is_ready(), &told.document_id, told.state(), told.error()))
            }
            Joined::InParts { why } => {
                let refused = Announcement { verdict: Verdict::Refuse(why), ..told.clone() };
                let refused = NewSale { told: refused, invoice_id: String::new(), ..new.clone() };
                self.insert_sale(&refused, DocumentState::NotIssued).await?;
                self.name_sale(&refused, &told.document_id).await?;
                Ok(claim(false, &told.document_id, DocumentState::NotIssued, refused.told.error()))
            }
            Joined::Known { row, merged, takes_object } => {
                for other in merged {
                    self.merge_sale(&other.document_id, &row, told.received_at).await?;
                }
                self.name_sale(new, &row.document_id).await?;
                let (state, is_ready) = if takes_object {
                    let state = if row.state == DocumentState::Held { row.state } else { told.state() };
                    self.replace_object(new, &row, state).await?;
                    (state, told.is_ready() && state == DocumentState::Waiting)
                } else {
                    (row.state, false)
                };
                let sql = "UPDATE ingested_payments SET is_invoice = is_invoice OR $2, is_intent = is_intent OR $3, \
                     customer = CASE WHEN customer = '' THEN $4 ELSE customer END, \
                     invoice_id = CASE WHEN invoice_id = '' THEN $5 ELSE invoice_id END WHERE document_id = $1";
                let is_invoice = !new.invoice_id.is_empty();
                let of = values![&row.document_id, is_invoice, new.is_intent, &new.customer, &new.invoice_id];
                self.execute(sql, of).await?;
                self.settle_returns(&row.document_id).await?;
                let error = if takes_object { told.error() } else { &row.error };
                Ok(claim(is_ready, &row.document_id, state, error))
            }
        }
    }

    /// Returns the sales that have one of these names.
    pub(super) async fn sales_of_names(&mut self, lineage_id: &str, names: &[String]) -> Result<Vec<SaleRow>> {
        let mut rows: Vec<SaleRow> = Vec::new();
        for name in names {
            let sql = select_sales!(
                "WHERE document_id = (SELECT document_id FROM payment_names WHERE lineage_id = $1 AND name = $2)"
            );
            let row: Option<SaleRow> = self.fetch_optional(sql, values![lineage_id, name]).await?;
            rows.extend(row.filter(|row| rows.iter().all(|known| known.document_id != row.document_id)));
        }
        Ok(rows)
    }

    /// Returns the sales whose objects name this invoice.
    pub(super) async fn sales_of_invoice(&mut self, lineage_id: &str, invoice_id: &str) -> Result<Vec<SaleRow>> {
        if invoice_id.is_empty() {
            return Ok(Vec::new());
        }
        let sql = select_sales!(
            "WHERE lineage_id = $1 AND invoice_id = $2 AND invoice_id <> '' ORDER BY received_at, document_id"
        );
        self.fetch_all(sql, values![lineage_id, invoice_id]).await
    }

    /// Finds the recorded counterpart of an invoice or a payment intent that names no other object: an invoice and an
    /// intent of the same customer and amount that were paid within ten minutes are one sale, if neither has a
    /// counterpart yet.
    async fn counterpart(&mut self, new: &NewSale) -> Result<Option<SaleRow>> {
        let is_invoice = !new.invoice_id.is_empty();
        if new.customer.is_empty() || is_invoice == new.is_intent {
            return Ok(None);
        }
        let sql = select_sales!(
            "WHERE lineage_id = $1 AND customer = $2 AND customer <> '' AND total_yen = $3 AND is_invoice <> $4 AND is_intent <> $5 \
             AND paid_at >= $6 AND paid_at <= $7 ORDER BY received_at, document_id LIMIT 1"
        );
        let (from, to) = (new.paid_at.saturating_sub(JOINED_WITHIN), new.paid_at.saturating_add(JOINED_WITHIN));
        let of = values![&new.told.lineage_id, &new.customer, new.total_yen, is_invoice, new.is_intent, from, to];
        self.fetch_optional(sql, of).await
    }

    pub(super) async fn insert_sale(&mut self, new: &NewSale, state: DocumentState) -> Result<()> {
        let told = &new.told;
        let sql = "INSERT INTO ingested_payments (document_id, account_id, lineage_id, state, sealed_event, customer, total_yen, paid_at, \
             is_invoice, is_intent, attempts, due_at, error, received_at, provider, event_type, fullness, invoice_id, payment_id) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, $11, $12, $13, $14, $15, $16, $17, $18)";
        let sealed_event = (state != DocumentState::Declined).then_some(&*told.sealed_event);
        let of = values![
            &told.document_id,
            &told.account_id,
            &told.lineage_id,
            state.as_str(),
            sealed_event,
            &new.customer,
            new.total_yen,
            new.paid_at,
            !new.invoice_id.is_empty(),
            new.is_intent,
            told.due_at(),
            told.error(),
            told.received_at,
            &told.provider,
            &told.event_type,
            new.fullness,
            &new.invoice_id,
            &told.payment_id
        ];
        self.execute(sql, of).await.map(drop)
    }

    async fn name_sale(&mut self, new: &NewSale, document_id: &str) -> Result<()> {
        self.name(&new.told.lineage_id, &new.names, document_id).await
    }

    /// Gives a sale or a return these names, unless another one has them.
    pub(super) async fn name(&mut self, lineage_id: &str, names: &[String], document_id: &str) -> Result<()> {
        for name in names {
            let sql = "INSERT INTO payment_names (lineage_id, name, document_id) VALUES ($1, $2, $3) \
                 ON CONFLICT (lineage_id, name) DO NOTHING";
            self.execute(sql, values![lineage_id, name, document_id]).await?;
        }
        Ok(())
    }

    /// Moves the names and the returns of a sale to another sale, because both are one. The row goes if it has no
    /// document.
    pub(super) async fn merge_sale(&mut self, from: &str, sale: &SaleRow, now: i64) -> Result<()> {
        let to = sale.document_id.as_str();
        let sql = "UPDATE payment_names SET document_id = $2 WHERE document_id = $1";
        self.execute(sql, values![from, to]).await?;
        let sql = "UPDATE payment_returns SET sale_id = $2 WHERE sale_id = $1";
        self.execute(sql, values![from, to]).await?;
        if sale.state == DocumentState::Issued {
            self.hasten_returns(to, now).await?;
        }
        let sql = Sql {
            sqlite: "UPDATE ingested_payments SET returned_yen = MAX(returned_yen, (SELECT returned_yen FROM ingested_payments \
                 WHERE document_id = $1)) WHERE document_id = $2",
            postgres: "UPDATE ingested_payments SET returned_yen = GREATEST(returned_yen, (SELECT returned_yen FROM ingested_payments \
                 WHERE document_id = $1)) WHERE document_id = $2",
        };
        self.execute(sql, values![from, to]).await?;
        let sql = "DELETE FROM ingested_payments WHERE document_id = $1 AND state <> 'issued'";
        self.execute(sql, values![from]).await.map(drop)
    }

    async fn replace_object(&mut self, new: &NewSale, row: &SaleRow, state: DocumentState) -> Result<()> {
        let told = &new.told;
        // a sale that waits already waits no longer for the new object
        let waits_already = row.state == DocumentState::Waiting && !told.is_ready();
        let sql = "UPDATE ingested_payments SET state = $2, sealed_event = $3, total_yen = $4, paid_at = $5, fullness = $6, \
             error = $7, provider = $8, event_type = $9, payment_id = $10, revision = revision + 1, \
             due_at = CASE WHEN $11 THEN due_at ELSE $12 END WHERE document_id = $1 AND state <> 'issued'";
        let sealed_event = (state != DocumentState::Declined).then_some(&*told.sealed_event);
        let of = values![
            &row.document_id,
            state.as_str(),
            sealed_event,
            new.total_yen,
            new.paid_at,
            new.fullness,
            told.error(),
            &told.provider,
            &told.event_type,
            &told.payment_id,
            waits_already || state == DocumentState::Held,
            told.due_at()
        ];
        self.execute(sql, of).await.map(drop)
    }

    /// Records that the document of a sale or a return is stored, as part of the transaction that stores the document.
    /// `sealed_sale` is what the document of a sale says. False: the document was stored before, or a fuller object
    /// came.
    pub async fn finish_document(&mut self, of: &DueDocument, sealed_sale: &[u8], now: i64) -> Result<bool> {
        self.lock_sales(&of.lineage_id).await?;
        if !of.sale_id.is_empty() {
            let sql = "UPDATE payment_returns SET state = 'issued', sealed_event = NULL, error = '' \
                 WHERE document_id = $1 AND state IN ('waiting', 'held') AND revision = $2";
            return Ok(self.execute(sql, values![&of.document_id, of.revision]).await? == 1);
        }
        let sql = "UPDATE ingested_payments SET state = 'issued', sealed_event = NULL, error = '', sealed_sale = $3 \
             WHERE document_id = $1 AND state IN ('waiting', 'held') AND revision = $2";
        if self.execute(sql, values![&of.document_id, of.revision, sealed_sale]).await? != 1 {
            return Ok(false);
        }
        self.hasten_returns(&of.document_id, now).await?;
        Ok(true)
    }

    /// Makes the returns due that came before the document of their sale. The new revision lets a node that has just found
    /// no document of the sale look again, instead of putting a return off.
    async fn hasten_returns(&mut self, sale_id: &str, now: i64) -> Result<()> {
        let sql = "UPDATE payment_returns SET state = 'waiting', revision = revision + 1, \
             due_at = CASE WHEN state = 'not_issued' OR attempts > 0 THEN $2 ELSE due_at END \
             WHERE sale_id = $1 AND state IN ('waiting', 'not_issued')";
        self.execute(sql, values![sale_id, now]).await.map(drop)
    }

    /// Makes the held documents of a key due now, because the key's cap was changed.
    pub async fn hasten_documents(&mut self, lineage_id: &str, now: i64) -> Result<()> {
        for sql in [
            "UPDATE ingested_payments SET due_at = $2 WHERE lineage_id = $1 AND state = 'held' AND due_at > $2",
            "UPDATE payment_returns SET due_at = $2 WHERE lineage_id = $1 AND state = 'held' AND due_at > $2",
        ] {
            self.execute(sql, values![lineage_id, now]).await?;
        }
        Ok(())
    }
}

/// Returns the claim of an event.
pub(super) fn claim(is_ready: bool, document_id: &str, state: DocumentState, error: &str) -> Claim {
    let document_id = document_id.to_owned();
    if is_ready { Claim::Issue { document_id } } else { Claim::Known { document_id, state, error: error.to_owned() } }
}
