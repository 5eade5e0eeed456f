//! Keys that customers bought through the payment provider (readings B6-B8, B46).

use api::Plan;

use crate::api_keys::{NewApiKey, insert, revoke_in_lineage};
use crate::database::{Tx, from_row, values};
use crate::{Result, Store};

/// A purchase of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purchase {
    /// The provider's id for the checkout.
    pub session_id: String,
    /// The account of the key.
    pub account_id: String,
    /// The key's lineage.
    pub lineage_id: String,
    /// The plan's name.
    pub plan: String,
    /// The key, encrypted. `None`: the key is no longer shown.
    pub sealed_key: Option<Vec<u8>>,
    /// When the purchase was recorded, in microseconds since 1970.
    pub created_at: i64,
}

from_row!(Purchase { session_id, account_id, lineage_id, plan, sealed_key, created_at });

/// A purchase whose subscription has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedPurchase {
    /// The account of the key.
    pub account_id: String,
    /// The key's lineage.
    pub lineage_id: String,
}

from_row!(EndedPurchase { account_id, lineage_id });

/// A purchase to record.
#[derive(Clone, Debug)]
pub struct NewPurchase<'a> {
    /// The provider's id for the checkout.
    pub session_id: &'a str,
    /// The provider's customer. May be empty.
    pub customer_id: &'a str,
    /// The provider's subscription. May be empty.
    pub subscription_id: &'a str,
    /// The plan that was requested, if the service does not know this plan. Empty otherwise.
    pub unknown_plan: &'a str,
    /// The key, encrypted.
    pub sealed_key: &'a [u8],
}

impl Store {
    /// Returns the purchase that belongs to a checkout.
    pub async fn purchase(&self, session_id: &str) -> Result<Option<Purchase>> {
        let sql = "SELECT session_id, account_id, lineage_id, plan, sealed_key, created_at FROM purchases WHERE session_id = $1";
        self.db.fetch_optional(sql, values![session_id]).await
    }

    /// Returns the account of a customer of the provider, if the customer has bought a key before.
    pub async fn account_of_buyer(&self, customer_id: &str) -> Result<Option<String>> {
        let sql =
            "SELECT account_id FROM purchases WHERE customer_id = $1 AND customer_id <> '' ORDER BY created_at LIMIT 1";
        let row: Option<(String,)> = self.db.fetch_optional(sql, values![customer_id]).await?;
        Ok(row.map(|(account_id,)| account_id))
    }

    /// Returns the provider's id of the customer who bought the newest key of this account. Empty: no key was bought, or
    /// the buyer is a guest.
    pub async fn buyer_of_account(&self, account_id: &str) -> Result<String> {
        let sql = "SELECT customer_id FROM purchases WHERE account_id = $1 AND customer_id <> '' ORDER BY created_at DESC LIMIT 1";
        let row: Option<(String,)> = self.db.fetch_optional(sql, values![account_id]).await?;
        Ok(row.map(|(customer_id,)| customer_id).unwrap_or_default())
    }

    /// Erases the encrypted copies of keys that were bought before this time. Returns the number of keys.
    pub async fn hide_purchased_keys(&self, bought_before: i64) -> Result<u64> {
        let sql = "UPDATE purchases SET sealed_key = NULL WHERE sealed_key IS NOT NULL AND created_at < $1";
        self.db.execute(sql, values![bought_before]).await
    }
}

impl Tx {
    /// Records a purchase, writes its key, and computes the standing of the account. If the subscription has already ended, the key is revoked at once
    /// (readings B8). False: nothing was changed, because the purchase was recorded before.
    pub async fn insert_purchase(&mut self, new: &NewPurchase<'_>, key: &NewApiKey<'_>) -> Result<bool> {
        let sql = "INSERT INTO purchases (session_id, customer_id, subscription_id, account_id, lineage_id, plan, unknown_plan, sealed_key, \
             created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (session_id) DO NOTHING";
        let of = values![
            new.session_id,
            new.customer_id,
            new.subscription_id,
            key.account_id,
            key.lineage_id,
            key.plan,
            new.unknown_plan,
            new.sealed_key,
            key.created_at
        ];
        if self.execute(sql, of).await? == 0 {
            return Ok(false);
        }
        // The account of a first purchase begins on the free plan: the purchase brings its plan as long as it lasts.
        self.insert_account(key.account_id, Plan::Free, key.created_at).await?;
        insert(self, key).await?;
        let sql = "SELECT ended_at FROM ended_purchases WHERE subscription_id = $1";
        let ended: Option<(i64,)> = self.fetch_optional(sql, values![new.subscription_id]).await?;
        if ended.is_some() {
            revoke_in_lineage(self, key.lineage_id, key.created_at).await?;
        }
        self.update_standing(key.account_id, key.created_at).await?;
        Ok(true)
    }

    /// Revokes the keys of a subscription, records that the subscription has ended, and takes the plans back that the
    /// purchases brought (readings B7, B8). Returns what was bought with the subscription.
    pub async fn end_purchases(&mut self, subscription_id: &str, now: i64) -> Result<Vec<EndedPurchase>> {
        let sql = "INSERT INTO ended_purchases (subscription_id, ended_at) VALUES ($1, $2) ON CONFLICT (subscription_id) DO NOTHING";
        self.execute(sql, values![subscription_id, now]).await?;
        let sql = "SELECT account_id, lineage_id FROM purchases WHERE subscription_id = $1 AND subscription_id <> '' \
             ORDER BY account_id, lineage_id";
        let purchases: Vec<EndedPurchase> = self.fetch_all(sql, values![subscription_id]).await?;
        for purchase in &purchases {
            revoke_in_lineage(self, &purchase.lineage_id, now).await?;
        }
        for purchase in &purchases {
            self.update_standing(&purchase.account_id, now).await?;
        }
        Ok(purchases)
    }
}
