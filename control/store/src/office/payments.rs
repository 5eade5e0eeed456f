//! Payments that providers announced. Each payment has one row, however many events announce it (readings B15, B16).

use api::words;

use crate::database::{Tx, from_row, locking, values};
use crate::{Result, Store};

/// The state of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaymentState {
    /// The payment's document is being made, or could not be made yet.
    Waiting,
    /// The key's cap is reached. The document is made when the key may spend again (readings B16).
    Held,
    /// The payment's document is stored.
    Issued,
}

words!(PaymentState, "state of a payment", {
    Waiting = "waiting",
    Held = "held",
    Issued = "issued",
});

/// A payment that a provider announces.
#[derive(Clone, Debug)]
pub struct NewPayment {
    /// The id for the document of the payment, if the payment is new.
    pub document_id: String,
    /// The owner's account.
    pub account_id: String,
    /// The key's lineage.
    pub lineage_id: String,
    /// Ids of the event and of all objects that stand for the payment.
    pub names: Vec<String>,
    /// The event's object, encrypted.
    pub sealed_event: Vec<u8>,
    /// The provider's customer. May be empty.
    pub customer: String,
    /// The paid amount in yen.
    pub total_yen: i64,
    /// When the payment was made, in microseconds since 1970.
    pub paid_at: i64,
    /// Whether the payment's objects include an invoice.
    pub is_invoice: bool,
    /// Whether the payment's objects include a payment intent.
    pub is_intent: bool,
    /// When another node may take the payment over, in microseconds since 1970.
    pub due_at: i64,
    /// Now, in microseconds since 1970.
    pub received_at: i64,
}

/// Tells whether a payment is new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The payment is new, so the caller makes its document.
    New,
    /// The payment is known.
    Known {
        /// The document's id.
        document_id: String,
        /// The state of the payment.
        state: PaymentState,
    },
}

/// A payment whose document is not made yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestedPayment {
    /// The document's id.
    pub document_id: String,
    /// The owner's account.
    pub account_id: String,
    /// The key's lineage.
    pub lineage_id: String,
    /// The event's object, encrypted.
    pub sealed_event: Vec<u8>,
}

from_row!(IngestedPayment { document_id, account_id, lineage_id, sealed_event });

/// Largest time between the events of an invoice and of the payment intent that paid the invoice, in microseconds.
const JOINED_WITHIN: i64 = 600_000_000;

impl Store {
    /// Returns payments whose documents are to be made now, at most `limit`.
    pub async fn due_payments(&self, now: i64, limit: i64) -> Result<Vec<IngestedPayment>> {
        let sql = "SELECT document_id, account_id, lineage_id, sealed_event FROM ingested_payments \
             WHERE state IN ('waiting', 'held') AND due_at <= $1 ORDER BY due_at, document_id LIMIT $2";
        self.db.fetch_all(sql, values![now, limit]).await
    }

    /// Returns the number of an account's payments that have no document yet, and the bytes of their events.
    pub async fn unfinished_payments(&self, account_id: &str) -> Result<(i64, i64)> {
        let sql = "SELECT COUNT(*), CAST(COALESCE(SUM(LENGTH(sealed_event)), 0) AS BIGINT) FROM ingested_payments \
             WHERE account_id = $1 AND state <> 'issued'";
        self.db.fetch_one(sql, values![account_id]).await
    }

    /// Returns whether there is a payment whose document is to be made now.
    pub async fn has_due_payments(&self, now: i64) -> Result<bool> {
        let sql = "SELECT CAST(1 AS BIGINT) FROM ingested_payments WHERE state IN ('waiting', 'held') AND due_at <= $1 LIMIT 1";
        Ok(self.db.fetch_optional::<(i64,)>(sql, values![now]).await?.is_some())
    }

    /// Records that the document of a payment could not be made, for which reason, and when the next attempt is due.
    pub async fn put_payment_off(
        &self,
        document_id: &str,
        state: PaymentState,
        due_at: i64,
        error: &str,
    ) -> Result<()> {
        let sql = "UPDATE ingested_payments SET state = $2, due_at = $3, error = $4, attempts = attempts + 1 \
             WHERE document_id = $1 AND state IN ('waiting', 'held')";
        self.db.execute(sql, values![document_id, state.as_str(), due_at, error]).await.map(drop)
    }
}

impl Tx {
    /// Writes a payment, unless a recorded payment has one of the same names or is the counterpart.
    pub async fn claim_payment(&mut self, new: &NewPayment) -> Result<Claimed> {
        // lock the profile, so that the payments of one key are claimed one after another, and each claim sees the
        // names that earlier claims stored
        let sql = locking!("SELECT lineage_id FROM issuer_profiles WHERE lineage_id = $1");
        self.fetch_optional::<(String,)>(sql, values![&new.lineage_id]).await?;
        let mut known = None;
        for name in &new.names {
            let sql = "SELECT document_id FROM payment_names WHERE lineage_id = $1 AND name = $2";
            let row: Option<(String,)> = self.fetch_optional(sql, values![&new.lineage_id, name]).await?;
            known = known.or(row.map(|(document_id,)| document_id));
        }
        if known.is_none() {
            known = self.counterpart(new).await?;
        }
        let document_id = known.as_deref().unwrap_or(&new.document_id);
        for name in &new.names {
            let sql = "INSERT INTO payment_names (lineage_id, name, document_id) VALUES ($1, $2, $3) \
                 ON CONFLICT (lineage_id, name) DO NOTHING";
            self.execute(sql, values![&new.lineage_id, name, document_id]).await?;
        }
        if let Some(document_id) = known {
            let sql = "UPDATE ingested_payments SET is_invoice = is_invoice OR $2, is_intent = is_intent OR $3 WHERE document_id = $1";
            self.execute(sql, values![&document_id, new.is_invoice, new.is_intent]).await?;
            let sql = "SELECT state FROM ingested_payments WHERE document_id = $1";
            let row: Option<(String,)> = self.fetch_optional(sql, values![&document_id]).await?;
            let state =
                row.and_then(|(word,)| <PaymentState as api::Word>::of_word(&word)).unwrap_or(PaymentState::Issued);
            return Ok(Claimed::Known { document_id, state });
        }
        let sql = "INSERT INTO ingested_payments (document_id, account_id, lineage_id, state, sealed_event, customer, total_yen, paid_at, \
             is_invoice, is_intent, attempts, due_at, error, received_at) \
             VALUES ($1, $2, $3, 'waiting', $4, $5, $6, $7, $8, $9, 0, $10, '', $11)";
        let of = values![
            &new.document_id,
            &new.account_id,
            &new.lineage_id,
            &new.sealed_event,
            &new.customer,
            new.total_yen,
            new.paid_at,
            new.is_invoice,
            new.is_intent,
            new.due_at,
            new.received_at
        ];
        self.execute(sql, of).await?;
        Ok(Claimed::New)
    }

    /// Finds the recorded counterpart of a new invoice or payment intent. Newer intents do not contain the id of the
    /// invoice that they pay. So an invoice and an intent of the same customer and amount within ten minutes are one
    /// payment, if neither has a counterpart yet.
    async fn counterpart(&mut self, new: &NewPayment) -> Result<Option<String>> {
        if new.customer.is_empty() || new.is_invoice == new.is_intent {
            return Ok(None);
        }
        let sql = "SELECT document_id FROM ingested_payments WHERE lineage_id = $1 AND customer = $2 AND customer <> '' AND total_yen = $3 \
             AND is_invoice <> $4 AND is_intent <> $5 AND paid_at >= $6 AND paid_at <= $7 ORDER BY received_at LIMIT 1";
        let (from, to) = (new.paid_at.saturating_sub(JOINED_WITHIN), new.paid_at.saturating_add(JOINED_WITHIN));
        let of = values![&new.lineage_id, &new.customer, new.total_yen, new.is_invoice, new.is_intent, from, to];
        let row: Option<(String,)> = self.fetch_optional(sql, of).await?;
        Ok(row.map(|(document_id,)| document_id))
    }

    /// Records that the document of a payment is stored, as part of the transaction that stores the document. False:
    /// the document was stored before.
    pub async fn finish_payment(&mut self, document_id: &str) -> Result<bool> {
        let sql = "UPDATE ingested_payments SET state = 'issued', sealed_event = NULL, error = '' \
             WHERE document_id = $1 AND state IN ('waiting', 'held')";
        Ok(self.execute(sql, values![document_id]).await? == 1)
    }

    /// Makes the held payments of a key due now, because the key's cap was changed.
    pub async fn hasten_payments(&mut self, lineage_id: &str, now: i64) -> Result<()> {
        let sql = "UPDATE ingested_payments SET due_at = $2 WHERE lineage_id = $1 AND state = 'held' AND due_at > $2";
        self.execute(sql, values![lineage_id, now]).await.map(drop)
    }
}
