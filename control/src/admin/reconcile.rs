//! The operator's comparison of the records with the payment provider.

use std::collections::HashSet;

use anyhow::Context;
use serde::Serialize;

use super::Operator;
use crate::billing::payments;
use crate::billing::provided::Books;
use crate::billing::reconcile::{self, Difference};
use crate::cache_store::News;

/// A difference between the records and the payment provider.
#[derive(Debug, Serialize)]
pub struct DifferenceFacts {
    /// The account. Empty: none is known.
    pub account_id: String,
    /// The kind, such as `invoice_differs`.
    pub kind: &'static str,
    /// The provider's id of the object, or the month of a bill.
    pub object: String,
    /// The value on record. `-`: none.
    pub here: String,
    /// The provider's value. `-`: none.
    pub there: String,
    /// Whether the object was read from the provider again and the difference is gone.
    pub mended: bool,
}

impl Operator {
    /// Compares the records with the payment provider: customers, subscriptions, the invoices of the last `days`, and
    /// the bills of months. With `apply`, reads the objects that differ from the provider again and writes their state
    /// to the records. `tell` is called with the kind and the number of objects that were read so far.
    ///
    /// # Errors
    /// When the settings name no provider, or the provider or the database does not answer.
    pub async fn reconcile_provider(
        &self,
        days: u32,
        apply: bool,
        tell: &dyn Fn(&str, usize),
    ) -> anyhow::Result<Vec<DifferenceFacts>> {
        let provider = payments::provider(&self.payments)?;
        let provider = provider.context("ANGO_PAYMENTS_PROVIDER: the settings name no payment provider")?;
        let books = Books { clock: &self.clock, store: &self.store, provider: &*provider };
        let found = reconcile::differences(&books, days, tell).await?;
        let mut left: Option<HashSet<Difference>> = None;
        if apply && !found.is_empty() {
            for account_id in reconcile::take(&books, &found).await? {
                tracing::info!(target: "security", account_id, "subscription read from the payment provider by the operator");
                self.tell_nodes(News::Account { account_id }).await;
            }
            left = Some(reconcile::differences(&books, days, tell).await?.into_iter().collect());
        }
        let facts = |one: Difference| DifferenceFacts {
            mended: left.as_ref().is_some_and(|left| !left.contains(&one)),
            account_id: one.account_id,
            kind: one.kind.as_str(),
            object: one.object,
            here: one.here,
            there: one.there,
        };
        Ok(found.into_iter().map(facts).collect())
    }
}
