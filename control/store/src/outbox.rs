//! The outbox: events, each written in the transaction of its cause, and their deliveries to webhooks (readings H7,
//! H10-H13).
//!
//! The transaction writes the event, and a delivery for each webhook that subscribes to the event's type. Nodes take
//! due deliveries under a lease. If a node dies, other nodes take its deliveries when the lease ends. So an event may
//! arrive twice, with the same id and bytes.

use crate::database::{Column, PORTION, Sql, Tx, from_row, values};
use crate::pages::{PageRows, page};
use crate::{Result, Store};

/// An event to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// The event's id: `evt_...`. Also the id of its deliveries.
    pub event_id: String,
    /// The account that the event concerns.
    pub account_id: String,
    /// The event's type.
    pub event_type: String,
    /// The body, which is signed and sent.
    pub body: String,
    /// When the event happened, in microseconds since 1970.
    pub created_at: i64,
}

/// A delivery with everything needed to send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueDelivery {
    /// The webhook's id.
    pub webhook_id: String,
    /// The event's id.
    pub event_id: String,
    /// The account that the event concerns.
    pub account_id: String,
    /// The event's type.
    pub event_type: String,
    /// Number of attempts so far.
    pub attempts: i64,
    /// The webhook's URL.
    pub url: String,
    /// The shared secret, encrypted.
    pub sealed_secret: Vec<u8>,
    /// The body of the event.
    pub body: String,
}

from_row!(DueDelivery { webhook_id, event_id, account_id, event_type, attempts, url, sealed_secret, body });

/// Accounts and webhooks whose deliveries must wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct Busy<'b> {
    /// Ids of accounts.
    pub accounts: &'b [&'b str],
    /// Ids of webhooks.
    pub webhooks: &'b [&'b str],
}

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The webhook's id.
    pub webhook_id: String,
    /// The event's id.
    pub event_id: String,
    /// Number of earlier attempts. If the row has another number, another node has made an attempt.
    pub attempts_before: i64,
    /// The delivery's status afterwards. `Pending`: another attempt follows.
    pub status: DeliveryStatus,
    /// When the next attempt is due.
    pub due_at: i64,
    /// The status of the receiver's answer. 0: no answer.
    pub status_code: i64,
    /// Time to the answer, in milliseconds. 0: no answer.
    pub response_ms: i64,
    /// The cause of a failure. May be empty.
    pub error: String,
    /// When the attempt ended.
    pub delivered_at: i64,
}

/// The state of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryStatus {
    /// Another attempt follows.
    Pending,
    /// The receiver accepted the event.
    Succeeded,
    /// The delivery failed, and no attempt follows.
    Failed,
}

api::words!(DeliveryStatus, "status of a delivery", {
    Pending = "pending",
    Succeeded = "succeeded",
    Failed = "failed",
});

/// A delivery's row with its event. Times in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryRecord {
    /// The webhook's id.
    pub webhook_id: String,
    /// The event's id.
    pub event_id: String,
    /// The event's type.
    pub event_type: String,
    /// The delivery's status.
    pub status: DeliveryStatus,
    /// Number of attempts so far.
    pub attempts: i64,
    /// When the next attempt is due.
    pub due_at: i64,
    /// The status of the last answer. 0: no answer.
    pub status_code: i64,
    /// Time to the last answer, in milliseconds. 0: no answer.
    pub response_ms: i64,
    /// The cause of the last failure. May be empty.
    pub error: String,
    /// When the last attempt ended. 0: no attempt has ended yet.
    pub delivered_at: i64,
    /// When the event happened.
    pub created_at: i64,
    /// The body of the event.
    pub body: String,
}

from_row!(DeliveryRecord {
    webhook_id,
    event_id,
    event_type,
    status as word,
    attempts,
    due_at,
    status_code,
    response_ms,
    error,
    delivered_at,
    created_at,
    body
});

/// Builds a query for all columns of [`DeliveryRecord`]s. `$columns` are further columns, and `$rest` is the rest of
/// the statement, after the tables.
macro_rules! select_records {
    ($columns:literal, $($rest:tt)*) => {
        concat!(
            "SELECT d.webhook_id, d.event_id, d.event_type, d.status, d.attempts, d.due_at, d.status_code, d.response_ms, d.error, \
             d.delivered_at, d.created_at, e.body",
            $columns,
            " FROM deliveries d JOIN events e ON e.event_id = d.event_id ",
            $($rest)*
        )
    };
}

impl Store {
    /// Returns whether there is a delivery that is due and that no node has leased.
    pub async fn has_due_deliveries(&self, now: i64) -> Result<bool> {
        let sql = "SELECT 1 FROM deliveries WHERE status = 'pending' AND due_at <= $1 AND leased_until <= $1 LIMIT 1";
        Ok(self.db.fetch_optional::<(i32,)>(sql, values![now]).await?.is_some())
    }

    /// Leases due deliveries, the most overdue first, and returns them. Leaves out deliveries of accounts and to
    /// webhooks in `busy`.
    pub async fn take_deliveries(
        &self,
        busy: &Busy<'_>,
        now: i64,
        leased_until: i64,
        limit: i64,
    ) -> Result<Vec<DueDelivery>> {
        let sql = Sql {
            sqlite: "UPDATE deliveries SET leased_until = $2 WHERE (webhook_id, event_id) IN ( \
                 SELECT webhook_id, event_id FROM deliveries WHERE status = 'pending' AND due_at <= $1 AND leased_until <= $1 \
                 AND instr($4, webhook_id) = 0 AND instr($5, account_id) = 0 ORDER BY due_at LIMIT $3) RETURNING webhook_id, event_id",
            postgres: "UPDATE deliveries SET leased_until = $2 WHERE (webhook_id, event_id) IN ( \
                 SELECT webhook_id, event_id FROM deliveries WHERE status = 'pending' AND due_at <= $1 AND leased_until <= $1 \
                 AND strpos($4, webhook_id) = 0 AND strpos($5, account_id) = 0 ORDER BY due_at LIMIT $3 FOR UPDATE SKIP LOCKED) RETURNING webhook_id, event_id",
        };
        let (webhooks, accounts) = (busy.webhooks.join(","), busy.accounts.join(","));
        self.write(async |tx| {
            let taken: Vec<(String, String)> = tx.fetch_all(sql, values![now, leased_until, limit, &webhooks, &accounts]).await?;
            if taken.is_empty() {
                return Ok(Vec::new());
            }
            let sql = Sql {
                sqlite: "SELECT d.webhook_id, d.event_id, d.account_id, d.event_type, d.attempts, w.url, w.sealed_secret, e.body \
                     FROM json_each($1) r CROSS JOIN deliveries d ON d.webhook_id = r.value->>0 AND d.event_id = r.value->>1 \
                     JOIN webhooks w ON w.webhook_id = d.webhook_id JOIN events e ON e.event_id = d.event_id",
                postgres: "SELECT d.webhook_id, d.event_id, d.account_id, d.event_type, d.attempts, w.url, w.sealed_secret, e.body \
                     FROM unnest($1::text[], $2::text[]) AS r (w, e) JOIN deliveries d ON d.webhook_id = r.w AND d.event_id = r.e \
                     JOIN webhooks w ON w.webhook_id = d.webhook_id JOIN events e ON e.event_id = d.event_id",
            };
            let of = [Column::texts(&taken, |(webhook, _)| webhook), Column::texts(&taken, |(_, event)| event)];
            tx.fetch_rows(sql, &of).await
        })
        .await
    }

    /// Ends the leases of deliveries for which no attempt was made.
    pub async fn give_deliveries_back(&self, taken: &[DueDelivery]) -> Result<()> {
        let sql = Sql {
            sqlite: "UPDATE deliveries SET leased_until = 0 FROM json_each($1) r \
                 WHERE webhook_id = r.value->>0 AND event_id = r.value->>1",
            postgres: "UPDATE deliveries d SET leased_until = 0 FROM unnest($1::text[], $2::text[]) AS r (w, e) \
                 WHERE d.webhook_id = r.w AND d.event_id = r.e",
        };
        let of = [Column::texts(taken, |one| &one.webhook_id), Column::texts(taken, |one| &one.event_id)];
        self.write(async |tx| tx.execute_rows(sql, &of).await.map(drop)).await
    }

    /// Records the results of attempts. Leaves out a delivery if another node has recorded an attempt since this node
    /// took the delivery.
    pub async fn record_attempts(&self, attempts: &[Attempt]) -> Result<()> {
        let sql = Sql {
            sqlite: "UPDATE deliveries SET status = r.value->>3, attempts = attempts + 1, due_at = r.value->>4, leased_until = 0, \
                 status_code = r.value->>5, response_ms = r.value->>6, error = r.value->>7, delivered_at = r.value->>8 \
                 FROM json_each($1) r WHERE webhook_id = r.value->>0 AND event_id = r.value->>1 AND attempts = r.value->>2",
            postgres: "UPDATE deliveries d SET status = s, attempts = attempts + 1, due_at = u, leased_until = 0, status_code = c, \
                 response_ms = m, error = x, delivered_at = v FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], \
                 $5::bigint[], $6::bigint[], $7::bigint[], $8::text[], $9::bigint[]) AS r (w, e, a, s, u, c, m, x, v) \
                 WHERE d.webhook_id = w AND d.event_id = e AND d.attempts = a",
        };
        let of = [
            Column::texts(attempts, |one| &one.webhook_id),
            Column::texts(attempts, |one| &one.event_id),
            Column::integers(attempts, |one| one.attempts_before),
            Column::texts(attempts, |one| one.status.as_str()),
            Column::integers(attempts, |one| one.due_at),
            Column::integers(attempts, |one| one.status_code),
            Column::integers(attempts, |one| one.response_ms),
            Column::texts(attempts, |one| &one.error),
            Column::integers(attempts, |one| one.delivered_at),
        ];
        self.write(async |tx| tx.execute_rows(sql, &of).await.map(drop)).await
    }

    /// Returns the record of a delivery of this account.
    pub async fn delivery(&self, account_id: &str, webhook_id: &str, event_id: &str) -> Result<Option<DeliveryRecord>> {
        let sql = select_records!("", "WHERE d.webhook_id = $1 AND d.event_id = $2 AND d.account_id = $3");
        self.db.fetch_optional(sql, values![webhook_id, event_id, account_id]).await
    }

    /// Returns the newest deliveries to all webhooks of an account.
    pub async fn deliveries_of_account(&self, account_id: &str, limit: i64) -> Result<Vec<DeliveryRecord>> {
        let sql = select_records!(
            "",
            "WHERE d.account_id = $1 ORDER BY d.created_at DESC, d.event_id DESC, d.webhook_id DESC LIMIT $2"
        );
        self.db.fetch_all(sql, values![account_id, limit]).await
    }

    /// Returns a page of the deliveries to a webhook.
    pub async fn deliveries_page(
        &self,
        webhook_id: &str,
        after: Option<(i64, &str)>,
        rows_max: i64,
    ) -> Result<PageRows<DeliveryRecord>> {
        let (created_at, event_id) = after.unwrap_or((i64::MAX, ""));
        page(
            &self.db,
            after.is_none(),
            (
                select_records!(
                    ", (SELECT COUNT(*) FROM deliveries WHERE webhook_id = $1) AS total_count",
                    "WHERE d.webhook_id = $1 AND (d.created_at, d.event_id) < ($2, $3) \
                     ORDER BY d.created_at DESC, d.event_id DESC LIMIT $4"
                ),
                values![webhook_id, created_at, event_id, rows_max],
            ),
            ("SELECT COUNT(*) FROM deliveries WHERE webhook_id = $1", values![webhook_id]),
        )
        .await
    }

    /// Returns the number of deliveries that await another attempt.
    pub async fn pending_deliveries(&self) -> Result<i64> {
        let sql = "SELECT COUNT(*) FROM deliveries WHERE status = 'pending'";
        self.db.fetch_one::<(i64,)>(sql, values![]).await.map(|(pending,)| pending)
    }

    /// Deletes the events that happened before this time, with their deliveries, in portions. An event with a delivery
    /// that awaits another attempt stays, so a node that was away for long still delivers it. Returns the number of
    /// deleted events.
    pub async fn forget_events(&self, before: i64) -> Result<u64> {
        let mut all = 0;
        loop {
            let deleted = self
                .write(async |tx| {
                    let sql = "DELETE FROM events WHERE event_id IN \
                         (SELECT event_id FROM events WHERE created_at < $1 AND NOT EXISTS \
                         (SELECT 1 FROM deliveries WHERE deliveries.event_id = events.event_id AND status = 'pending') \
                         LIMIT $2) RETURNING event_id";
                    let deleted: Vec<(String,)> = tx.fetch_all(sql, values![before, PORTION]).await?;
                    let sql = Sql {
                        sqlite: "DELETE FROM deliveries WHERE event_id IN (SELECT r.value->>0 FROM json_each($1) r)",
                        postgres: "DELETE FROM deliveries WHERE event_id = ANY ($1::text[])",
                    };
                    tx.execute_rows(sql, &[Column::texts(&deleted, |(event_id,)| event_id)]).await?;
                    Ok::<_, crate::Error>(deleted.len())
                })
                .await?;
            all += deleted as u64;
            if deleted < PORTION as usize {
                return Ok(all);
            }
        }
    }
}

impl Tx {
    /// Writes events. Each event gets a delivery for every webhook of the account that subscribes to the event's type.
    /// An event without such a webhook is not written.
    pub async fn emit(&mut self, events: &[NewEvent]) -> Result<()> {
        emit_all(self, events.iter()).await
    }

    /// Writes an event for which first attempts were already made, and the results of these attempts.
    pub async fn record_sent(&mut self, event: &NewEvent, attempts: &[Attempt]) -> Result<()> {
        let sql = "INSERT INTO events (event_id, account_id, event_type, body, created_at) VALUES ($1, $2, $3, $4, $5)";
        let of = values![&event.event_id, &event.account_id, &event.event_type, &event.body, event.created_at];
        self.execute(sql, of).await?;
        for attempt in attempts {
            // a webhook that no longer exists gets no row
            let sql = "INSERT INTO deliveries (webhook_id, event_id, account_id, event_type, status, attempts, due_at, status_code, \
                 response_ms, error, delivered_at, created_at) SELECT webhook_id, $2, $3, $4, $5, 1, 0, $6, $7, $8, $9, $10 \
                 FROM webhooks WHERE webhook_id = $1";
            let of = values![
                &attempt.webhook_id,
                &event.event_id,
                &event.account_id,
                &event.event_type,
                attempt.status.as_str(),
                attempt.status_code,
                attempt.response_ms,
                &attempt.error,
                attempt.delivered_at,
                event.created_at
            ];
            self.execute(sql, of).await?;
        }
        Ok(())
    }
}

/// Writes events with their deliveries, as [`Tx::emit`] does.
pub(crate) async fn emit_all(tx: &mut Tx, events: impl Iterator<Item = &NewEvent>) -> Result<()> {
    let events: Vec<&NewEvent> = events.collect();
    if events.is_empty() {
        return Ok(());
    }
    let columns = [
        Column::texts(&events, |event| &event.event_id),
        Column::texts(&events, |event| &event.account_id),
        Column::texts(&events, |event| &event.event_type),
        Column::integers(&events, |event| event.created_at),
        Column::texts(&events, |event| &event.body),
    ];
    let sql = Sql {
        sqlite: "INSERT INTO deliveries (webhook_id, event_id, account_id, event_type, status, due_at, created_at) \
             SELECT w.webhook_id, r.value->>0, r.value->>1, r.value->>2, 'pending', r.value->>3, r.value->>3 \
             FROM json_each($1) r CROSS JOIN webhooks w ON w.account_id = r.value->>1 \
             WHERE w.events = '' OR instr(',' || w.events || ',', ',' || (r.value->>2) || ',') > 0",
        postgres: "INSERT INTO deliveries (webhook_id, event_id, account_id, event_type, status, due_at, created_at) \
             SELECT w.webhook_id, r.i, r.a, r.t, 'pending', r.c, r.c \
             FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS r (i, a, t, c) \
             JOIN webhooks w ON w.account_id = r.a \
             WHERE w.events = '' OR strpos(',' || w.events || ',', ',' || r.t || ',') > 0",
    };
    if tx.execute_rows(sql, &columns[..4]).await? == 0 {
        return Ok(());
    }
    tx.emitted().0 = true;
    let sql = Sql {
        sqlite: "INSERT INTO events (event_id, account_id, event_type, created_at, body) \
             SELECT r.value->>0, r.value->>1, r.value->>2, r.value->>3, r.value->>4 FROM json_each($1) r \
             WHERE EXISTS (SELECT 1 FROM deliveries d WHERE d.event_id = r.value->>0)",
        postgres: "INSERT INTO events (event_id, account_id, event_type, created_at, body) \
             SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[]) AS r (i, a, t, c, b) \
             WHERE EXISTS (SELECT 1 FROM deliveries d WHERE d.event_id = r.i)",
    };
    tx.execute_rows(sql, &columns).await.map(drop)
}
