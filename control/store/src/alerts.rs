//! Alerts about thresholds that accounts reached, and e-mails. Every alert and every e-mail is written once, as a row,
//! and is sent from this row (readings P21-P23).

use crate::database::{Column, Sql, Tx, from_row, values};
use crate::{Result, Store};

/// The limit to which a threshold belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlertKind {
    /// The number of compute units that the plan includes in a month.
    Usage,
    /// The monthly cap.
    Budget,
    /// The number of operations in a day.
    Operations,
}

api::words!(AlertKind, "kind of an alert", { Usage = "usage", Budget = "budget", Operations = "operations" });

/// An alert: a threshold that an account reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// The account.
    pub account_id: String,
    /// The period, as the number of months since year 0. For operations in a day: days since 1970.
    pub period: i64,
    /// The limit to which the threshold belongs.
    pub kind: AlertKind,
    /// The threshold in percent.
    pub threshold: i64,
    /// The limit, as a number of compute units, billionths of a dollar, or operations.
    pub of_limit: i64,
    /// The use when the threshold was reached, in the same unit as the limit.
    pub used: i64,
    /// When the threshold was reached, in microseconds since 1970.
    pub created_at: i64,
}

from_row!(Alert { account_id, period, kind as word, threshold, of_limit, used, created_at });

impl Alert {
    /// Returns the cap, which is a part of the row's primary key. Returns 0 for other limits. When the cap changes, its
    /// thresholds are announced again (readings P21). When an allowance changes, its thresholds are not announced again
    /// (readings P23).
    fn for_cap(&self) -> i64 {
        if self.kind == AlertKind::Budget { self.of_limit } else { 0 }
    }
}

/// An e-mail in the outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Email {
    /// The e-mail's id.
    pub email_id: String,
    /// Recipients, subject and text, encrypted. `None`: an e-mail of the release before, whose texts are not encrypted.
    pub sealed: Option<Vec<u8>>,
    /// The recipients' addresses, if the e-mail is not encrypted.
    pub recipient: String,
    /// The subject, if the e-mail is not encrypted.
    pub subject: String,
    /// The text, if the e-mail is not encrypted.
    pub body: String,
    /// The attached document. Empty: none.
    pub document_id: String,
    /// Number of earlier attempts.
    pub attempts: i64,
    /// When the e-mail was written, in microseconds since 1970.
    pub created_at: i64,
}

from_row!(Email { email_id, sealed, recipient, subject, body, document_id, attempts, created_at });

impl Email {
    /// Whether the letter is in the outbox. False: a node took the letter and recorded no result.
    pub fn has_letter(&self) -> bool {
        self.sealed.is_some() || !self.recipient.is_empty()
    }
}

impl Store {
    /// Returns the alerts that are not announced yet, the oldest first, at most `limit`.
    pub async fn untold_alerts(&self, limit: i64) -> Result<Vec<Alert>> {
        let sql = "SELECT account_id, period, kind, threshold, of_limit, used, created_at FROM alerts WHERE is_told = FALSE \
             ORDER BY created_at, account_id, kind, threshold LIMIT $1";
        self.db.fetch_all(sql, values![limit]).await
    }

    /// Deletes the announced alerts that were written before this time.
    pub async fn forget_alerts(&self, before: i64) -> Result<u64> {
        self.db.execute("DELETE FROM alerts WHERE created_at < $1 AND is_told = TRUE", values![before]).await
    }

    /// Returns the e-mails that are due, at most `limit`.
    pub async fn due_emails(&self, now: i64, limit: i64) -> Result<Vec<Email>> {
        let sql = "SELECT email_id, sealed, recipient, subject, body, document_id, attempts, created_at FROM emails \
             WHERE status = 'pending' AND due_at <= $1 ORDER BY due_at, email_id LIMIT $2";
        self.db.fetch_all(sql, values![now, limit]).await
    }

    /// Takes the letter of an e-mail out of the outbox, before a node sends the letter. [`Store::note_email`] puts the
    /// letter back. If the node dies before that, the e-mail is due at `due_at` without its letter. Returns false if
    /// another node has taken the letter or recorded an attempt.
    pub async fn take_letter(&self, email: &Email, due_at: i64) -> Result<bool> {
        let sql = "UPDATE emails SET sealed = NULL, recipient = '', subject = '', body = '', due_at = $3 \
             WHERE email_id = $1 AND attempts = $2 AND status = 'pending' AND (sealed IS NOT NULL OR recipient <> '')";
        Ok(self.db.execute(sql, values![&email.email_id, email.attempts, due_at]).await? == 1)
    }

    /// Records the result of an attempt to send an e-mail. The e-mail was sent, or is tried again at `due_at`, or was
    /// given up if `due_at` is 0. The letter is in the outbox again. The attached document gets the same status. If
    /// another node recorded the end of this e-mail first, nothing changes, unless that node took this one for dead and
    /// the e-mail was sent.
    pub async fn note_email(&self, email: &Email, sent: bool, due_at: i64, error: &str) -> Result<()> {
        let status = if sent {
            "sent"
        } else if due_at > 0 {
            "pending"
        } else {
            "failed"
        };
        self.write(async |tx: &mut Tx| {
            let sql = "UPDATE emails SET status = $2, attempts = attempts + 1, due_at = $3, error = $4, sealed = $5, recipient = $6, \
                 subject = $7, body = $8 WHERE email_id = $1 AND (status = 'pending' OR status = 'failed' AND $2 = 'sent') \
                 RETURNING document_id";
            let of = values![
                &email.email_id,
                status,
                due_at,
                error,
                email.sealed.as_deref(),
                &email.recipient,
                &email.subject,
                &email.body
            ];
            let row: Option<(String,)> = tx.fetch_optional(sql, of).await?;
            let Some((document_id,)) = row.filter(|(document_id,)| !document_id.is_empty()) else { return Ok(()) };
            let sql = "UPDATE stored_documents SET delivery_status = $2 WHERE document_id = $1";
            tx.execute(sql, values![&document_id, status]).await.map(drop)
        })
        .await
    }

    /// Deletes the e-mails that were written before this time.
    pub async fn forget_emails(&self, before: i64) -> Result<u64> {
        let sql = "DELETE FROM emails WHERE email_id IN (SELECT email_id FROM emails WHERE created_at < $1 LIMIT $2)";
        self.db.delete_in_portions(sql, before).await
    }
}

impl Tx {
    /// Writes alerts. An alert that exists already stays as it is.
    pub async fn add_alerts(&mut self, alerts: &[Alert]) -> Result<()> {
        if alerts.is_empty() {
            return Ok(());
        }
        let sql = Sql {
            sqlite: "INSERT INTO alerts (account_id, period, kind, threshold, for_cap, of_limit, used, created_at, is_told) \
                 SELECT r.value->>0, r.value->>1, r.value->>2, r.value->>3, r.value->>4, r.value->>5, r.value->>6, r.value->>7, FALSE \
                 FROM json_each($1) r WHERE true ON CONFLICT (account_id, period, kind, threshold, for_cap) DO NOTHING",
            postgres: "INSERT INTO alerts (account_id, period, kind, threshold, for_cap, of_limit, used, created_at, is_told) \
                 SELECT a, p, k, t, f, l, u, c, FALSE FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], \
                 $6::bigint[], $7::bigint[], $8::bigint[]) AS r (a, p, k, t, f, l, u, c) \
                 ON CONFLICT (account_id, period, kind, threshold, for_cap) DO NOTHING",
        };
        let columns = [
            Column::texts(alerts, |alert| &alert.account_id),
            Column::integers(alerts, |alert| alert.period),
            Column::texts(alerts, |alert| alert.kind.as_str()),
            Column::integers(alerts, |alert| alert.threshold),
            Column::integers(alerts, Alert::for_cap),
            Column::integers(alerts, |alert| alert.of_limit),
            Column::integers(alerts, |alert| alert.used),
            Column::integers(alerts, |alert| alert.created_at),
        ];
        self.execute_rows(sql, &columns).await.map(drop)
    }

    /// Marks an alert as announced, as part of the transaction that writes its event. False: the alert was announced
    /// before.
    pub async fn tell_alert(&mut self, alert: &Alert) -> Result<bool> {
        let sql = "UPDATE alerts SET is_told = TRUE WHERE account_id = $1 AND period = $2 AND kind = $3 AND threshold = $4 \
             AND for_cap = $5 AND is_told = FALSE";
        let of = values![&alert.account_id, alert.period, alert.kind.as_str(), alert.threshold, alert.for_cap()];
        Ok(self.execute(sql, of).await? == 1)
    }

    /// Writes an e-mail that is due at once.
    pub async fn write_email(&mut self, email: &Email) -> Result<()> {
        let sql = "INSERT INTO emails (email_id, sealed, recipient, subject, body, document_id, status, attempts, due_at, error, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6, 'pending', 0, $7, '', $7)";
        let of = values![
            &email.email_id,
            email.sealed.as_deref(),
            &email.recipient,
            &email.subject,
            &email.body,
            &email.document_id,
            email.created_at
        ];
        self.execute(sql, of).await.map(drop)
    }
}
