//! Stored documents of payments, and their corrections (readings B40). Only a document's delivery status ever changes.

use api::words;

use crate::database::{Sql, Tx, from_row, values};
use crate::pages::{PageRows, page};
use crate::{Result, Store};

/// The delivery status of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryState {
    /// The document is only stored.
    Stored,
    /// The document should be sent by e-mail, but the buyer's address is not known or the service sends no e-mail
    /// (readings B11).
    NotSent,
    /// The e-mail with the document waits in the outbox.
    Pending,
    /// The e-mail was sent.
    Sent,
    /// The service stopped trying to send the e-mail.
    Failed,
}

words!(DeliveryState, "state of a delivery", {
    Stored = "stored",
    NotSent = "not_sent",
    Pending = "pending",
    Sent = "sent",
    Failed = "failed",
});

/// A stored document without its PDF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDocument {
    /// The document's id.
    pub document_id: String,
    /// The owner's account.
    pub account_id: String,
    /// The key's lineage.
    pub lineage_id: String,
    /// The document's number.
    pub number: String,
    /// The kind of document.
    pub kind: String,
    /// The recipient's name. May be empty.
    pub recipient: String,
    /// The recipient's name in the form for searches.
    pub recipient_key: String,
    /// The total with tax.
    pub total_yen: i64,
    /// The document's date: YYYY-MM-DD.
    pub issue_date: String,
    /// The transaction date: YYYY-MM-DD.
    pub transaction_date: String,
    /// The payment's id. Empty: none.
    pub payment_id: String,
    /// The id of the document that this one corrects. Empty: none.
    pub original_id: String,
    /// SHA-256 of the PDF, in hexadecimal.
    pub pdf_sha256: String,
    /// The delivery status.
    pub delivery_status: DeliveryState,
    /// Warnings to the shop about the document: a JSON array of texts.
    pub warnings: String,
    /// When the document was made, in microseconds since 1970.
    pub created_at: i64,
}

from_row!(StoredDocument {
    document_id,
    account_id,
    lineage_id,
    number,
    kind,
    recipient,
    recipient_key,
    total_yen,
    issue_date,
    transaction_date,
    payment_id,
    original_id,
    pdf_sha256,
    delivery_status as word,
    warnings,
    created_at
});

/// The filter of a search. A document is found if it meets all conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentFilter {
    /// The earliest transaction date: YYYY-MM-DD.
    pub from: String,
    /// The latest transaction date.
    pub to: String,
    /// The lowest total in yen.
    pub min: i64,
    /// The highest total in yen.
    pub max: i64,
    /// Part of the recipient's name, in the form for searches.
    pub recipient_key: String,
}

impl Default for DocumentFilter {
    /// Returns the filter that every document meets.
    fn default() -> DocumentFilter {
        let (from, to) = ("0000-00-00".to_owned(), "9999-99-99".to_owned());
        DocumentFilter { from, to, min: i64::MIN, max: i64::MAX, recipient_key: String::new() }
    }
}

macro_rules! select_documents {
    ($($rest:tt)*) => {
        concat!(
            "SELECT document_id, account_id, lineage_id, number, kind, recipient, recipient_key, total_yen, issue_date, \
             transaction_date, payment_id, original_id, pdf_sha256, delivery_status, warnings, created_at",
            $($rest)*
        )
    };
}

/// The conditions of a filter, in SQL. `$position` is the SQL function that finds a text in another text.
macro_rules! found {
    ($position:literal) => {
        concat!(
            "WHERE lineage_id = $1 AND transaction_date >= $2 AND transaction_date <= $3 AND total_yen >= $4 AND total_yen <= $5 AND ",
            $position,
            "(recipient_key, $6) > 0"
        )
    };
}

macro_rules! select_page {
    ($position:literal) => {
        select_documents!(
            ", (SELECT COUNT(*) FROM stored_documents ",
            found!($position),
            ") AS total_count FROM stored_documents ",
            found!($position),
            " AND (created_at, document_id) < ($7, $8) ORDER BY created_at DESC, document_id DESC LIMIT $9"
        )
    };
}

impl Store {
    /// Returns a page of those documents of a key that meet a filter.
    pub async fn stored_documents_page(
        &self,
        lineage_id: &str,
        filter: &DocumentFilter,
        after: Option<(i64, &str)>,
        rows_max: i64,
    ) -> Result<PageRows<StoredDocument>> {
        let (created_at, document_id) = after.unwrap_or((i64::MAX, ""));
        let DocumentFilter { from, to, min, max, recipient_key } = filter;
        let rows = Sql { sqlite: select_page!("instr"), postgres: select_page!("strpos") };
        let count = Sql {
            sqlite: concat!("SELECT COUNT(*) FROM stored_documents ", found!("instr")),
            postgres: concat!("SELECT COUNT(*) FROM stored_documents ", found!("strpos")),
        };
        let of_filter = values![lineage_id, from, to, *min, *max, recipient_key];
        let of_rows = values![lineage_id, from, to, *min, *max, recipient_key, created_at, document_id, rows_max];
        page(&self.db, after.is_none(), (rows, of_rows), (count, of_filter)).await
    }

    /// Returns a document of a key.
    pub async fn stored_document(&self, lineage_id: &str, document_id: &str) -> Result<Option<StoredDocument>> {
        let sql = select_documents!(" FROM stored_documents WHERE document_id = $1 AND lineage_id = $2");
        self.db.fetch_optional(sql, values![document_id, lineage_id]).await
    }

    /// Returns the record of a document of any account.
    pub async fn stored_document_of_id(&self, document_id: &str) -> Result<Option<StoredDocument>> {
        let sql = select_documents!(" FROM stored_documents WHERE document_id = $1");
        self.db.fetch_optional(sql, values![document_id]).await
    }

    /// Returns the encrypted PDF of a document.
    pub async fn document_file(&self, document_id: &str) -> Result<Option<Vec<u8>>> {
        let sql = "SELECT sealed_pdf FROM document_files WHERE document_id = $1";
        let row: Option<(Vec<u8>,)> = self.db.fetch_optional(sql, values![document_id]).await?;
        Ok(row.map(|(sealed,)| sealed))
    }
}

impl Tx {
    /// Stores a document with its encrypted PDF. If a document with the same id exists, the transaction fails.
    pub async fn insert_document(&mut self, new: &StoredDocument, sealed_pdf: &[u8]) -> Result<()> {
        let sql = "INSERT INTO stored_documents (document_id, account_id, lineage_id, number, kind, recipient, recipient_key, \
             total_yen, issue_date, transaction_date, payment_id, original_id, pdf_sha256, delivery_status, warnings, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";
        let of = values![
            &new.document_id,
            &new.account_id,
            &new.lineage_id,
            &new.number,
            &new.kind,
            &new.recipient,
            &new.recipient_key,
            new.total_yen,
            &new.issue_date,
            &new.transaction_date,
            &new.payment_id,
            &new.original_id,
            &new.pdf_sha256,
            new.delivery_status.as_str(),
            &new.warnings,
            new.created_at
        ];
        self.execute(sql, of).await?;
        let sql = "INSERT INTO document_files (document_id, sealed_pdf) VALUES ($1, $2)";
        self.execute(sql, values![&new.document_id, sealed_pdf]).await.map(drop)
    }
}
