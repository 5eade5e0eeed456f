//! Webhooks of accounts.

use crate::database::{Tx, from_row, values};
use crate::pages::{PageRows, page};
use crate::{Result, Store};

/// A webhook's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// `wh_...`
    pub webhook_id: String,
    /// The owner's account.
    pub account_id: String,
    /// The URL to which events are sent.
    pub url: String,
    /// Types of events, separated by commas. Empty: all types.
    pub events: String,
    /// The shared secret, encrypted.
    pub sealed_secret: Vec<u8>,
    /// When the webhook was created, in microseconds since 1970.
    pub created_at: i64,
}

from_row!(Webhook { webhook_id, account_id, url, events, sealed_secret, created_at });

macro_rules! select_webhooks {
    ($($rest:tt)*) => {
        concat!("SELECT webhook_id, account_id, url, events, sealed_secret, created_at", $($rest)*)
    };
}

impl Store {
    /// Returns a webhook of this account.
    pub async fn webhook(&self, account_id: &str, webhook_id: &str) -> Result<Option<Webhook>> {
        let sql = select_webhooks!(" FROM webhooks WHERE webhook_id = $1 AND account_id = $2");
        self.db.fetch_optional(sql, values![webhook_id, account_id]).await
    }

    /// Returns all webhooks of an account.
    pub async fn webhooks(&self, account_id: &str) -> Result<Vec<Webhook>> {
        let sql = select_webhooks!(" FROM webhooks WHERE account_id = $1 ORDER BY created_at, webhook_id");
        self.db.fetch_all(sql, values![account_id]).await
    }

    /// Returns a page of an account's webhooks.
    pub async fn webhooks_page(
        &self,
        account_id: &str,
        after: Option<(i64, &str)>,
        rows_max: i64,
    ) -> Result<PageRows<Webhook>> {
        let (created_at, webhook_id) = after.unwrap_or((i64::MAX, ""));
        page(
            &self.db,
            after.is_none(),
            (
                select_webhooks!(
                    ", (SELECT COUNT(*) FROM webhooks WHERE account_id = $1) AS total_count FROM webhooks \
                     WHERE account_id = $1 AND (created_at, webhook_id) < ($2, $3) \
                     ORDER BY created_at DESC, webhook_id DESC LIMIT $4"
                ),
                values![account_id, created_at, webhook_id, rows_max],
            ),
            ("SELECT COUNT(*) FROM webhooks WHERE account_id = $1", values![account_id]),
        )
        .await
    }
}

impl Tx {
    /// Writes a webhook. False: nothing was changed, because the account already has `max` webhooks.
    pub async fn insert_webhook(&mut self, new: &Webhook, max: i64) -> Result<bool> {
        // lock the account, so that the second of two concurrent requests counts the first one's webhook
        self.lock_account(&new.account_id).await?;
        let sql = "INSERT INTO webhooks (webhook_id, account_id, url, events, sealed_secret, created_at) \
             SELECT $1, $2, $3, $4, $5, $6 WHERE (SELECT COUNT(*) FROM webhooks WHERE account_id = $2) < $7";
        let of =
            values![&new.webhook_id, &new.account_id, &new.url, &new.events, &new.sealed_secret, new.created_at, max];
        Ok(self.execute(sql, of).await? == 1)
    }

    /// Changes a webhook's URL, and the types of events that the webhook gets. False: the webhook does not exist.
    pub async fn change_webhook(&mut self, changed: &Webhook) -> Result<bool> {
        let sql = "UPDATE webhooks SET url = $3, events = $4 WHERE webhook_id = $1 AND account_id = $2";
        let of = values![&changed.webhook_id, &changed.account_id, &changed.url, &changed.events];
        Ok(self.execute(sql, of).await? == 1)
    }

    /// Changes a webhook's secret. False: the webhook does not exist.
    pub async fn change_webhook_secret(&mut self, account_id: &str, webhook_id: &str, sealed: &[u8]) -> Result<bool> {
        let sql = "UPDATE webhooks SET sealed_secret = $3 WHERE webhook_id = $1 AND account_id = $2";
        Ok(self.execute(sql, values![webhook_id, account_id, sealed]).await? == 1)
    }

    /// Deletes a webhook with its deliveries. False: the webhook does not exist.
    pub async fn delete_webhook(&mut self, account_id: &str, webhook_id: &str) -> Result<bool> {
        let sql = "DELETE FROM webhooks WHERE webhook_id = $1 AND account_id = $2";
        if self.execute(sql, values![webhook_id, account_id]).await? == 0 {
            return Ok(false);
        }
        self.execute("DELETE FROM deliveries WHERE webhook_id = $1", values![webhook_id]).await?;
        Ok(true)
    }
}
