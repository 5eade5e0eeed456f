//! Sales and returns without a document: those that wait, those that a cap holds up, and those of which no document can
//! be made (readings B15, B16).

use super::announcement::DocumentState;
use crate::database::{Sql, from_row, values};
use crate::pages::{PageRows, page};
use crate::{Result, Store};

/// A sale or a return without a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnissuedDocument {
    /// The id that the document gets.
    pub document_id: String,
    /// The id of the provider's object.
    pub payment_id: String,
    /// The state: waiting, held or not issued.
    pub state: DocumentState,
    /// The amount in yen, below 0 for a return.
    pub total_yen: i64,
    /// Why there is no document. Empty: the document waits for another event.
    pub error: String,
    /// When the first event came, in microseconds since 1970.
    pub received_at: i64,
}

from_row!(UnissuedDocument { document_id, payment_id, state as word, total_yen, error, received_at });

/// Which of a key's sales and returns without a document to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnissuedFilter(pub DocumentState);

macro_rules! count {
    () => {
        "(SELECT COUNT(*) FROM ingested_payments WHERE lineage_id = $1 AND state = $2 AND state IN ('waiting', 'held', 'not_issued')) \
         + (SELECT COUNT(*) FROM payment_returns WHERE lineage_id = $1 AND state = $2 AND state IN ('waiting', 'held', 'not_issued'))"
    };
}

const COUNT: &str = concat!("SELECT ", count!());

impl Store {
    /// Returns a page of a key's sales and returns without a document, newest first.
    pub async fn unissued_documents_page(
        &self,
        lineage_id: &str,
        filter: UnissuedFilter,
        after: Option<(i64, &str)>,
        rows_max: i64,
    ) -> Result<PageRows<UnissuedDocument>> {
        let (received_at, document_id) = after.unwrap_or((i64::MAX, ""));
        let state = filter.0.as_str();
        let rows = concat!(
            "SELECT document_id, payment_id, state, total_yen, error, received_at, ",
            count!(),
            " AS total_count FROM ingested_payments WHERE lineage_id = $1 AND state = $2 AND state IN ('waiting', 'held', 'not_issued') \
             AND (received_at, document_id) < ($3, $4) UNION ALL \
             SELECT document_id, payment_id, state, -amount_yen AS total_yen, error, received_at, ",
            count!(),
            " AS total_count FROM payment_returns WHERE lineage_id = $1 AND state = $2 AND state IN ('waiting', 'held', 'not_issued') \
             AND (received_at, document_id) < ($3, $4) ORDER BY received_at DESC, document_id DESC LIMIT $5"
        );
        let of_rows = values![lineage_id, state, received_at, document_id, rows_max];
        page(&self.db, after.is_none(), (Sql::from(rows), of_rows), (Sql::from(COUNT), values![lineage_id, state]))
            .await
    }

    /// Returns how many sales and returns of a key have no document and get none.
    pub async fn count_not_issued(&self, lineage_id: &str) -> Result<i64> {
        let state = DocumentState::NotIssued.as_str();
        let (count,): (i64,) = self.db.fetch_one(COUNT, values![lineage_id, state]).await?;
        Ok(count)
    }
}
