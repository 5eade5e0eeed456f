//! The ends of the periods of subscriptions.

use futures_util::stream::{self, StreamExt as _};
use store::Subscription;

use super::allowances::put_subscription;
use super::leases::{Job, holds_lease};
use super::plan_change::renew;
use super::provided::sync_subscription;
use super::{Billing, invoices};
use crate::web::error::ApiError;

/// Largest number of subscriptions that one query reads.
const AT_ONCE: i64 = 100;
/// Largest number of subscriptions that are read from the payment provider side by side.
const SIDE_BY_SIDE: usize = 8;

/// Subscriptions that are past due are read from the payment provider again this long before they are suspended, in
/// microseconds, because a payment may have arrived without an event.
const BEFORE_SUSPENSION: i64 = 600_000_000;

/// Returns subscriptions whose period is over, and subscriptions that are past due and will be suspended soon. If `provided` is true, returns the subscriptions at the payment provider, otherwise those without a provider.
pub(super) async fn due(billing: &Billing, provided: bool, limit: i64) -> Result<Vec<Subscription>, store::Error> {
    let now = billing.clock.now();
    billing.store.due_subscriptions(now.0, now.0 - store::GRACE, BEFORE_SUSPENSION, provided, limit).await
}

/// Begins the next periods of subscriptions that the node holds itself, or ends the subscriptions.
pub(super) async fn end(billing: &Billing) -> Result<(), ApiError> {
    for mut subscription in due(billing, false, AT_ONCE).await? {
        let now = billing.clock.now();
        let fees = renew(&mut subscription, now);
        subscription.updated_at = now.0;
        let items = invoices::items_of(&subscription, &fees, now);
        billing
            .store
            .write(async |tx| {
                // if another request changed the subscription meanwhile, nothing is written; the next look for work
                // reads the subscription again
                if put_subscription(tx, &subscription, now).await?.is_some() {
                    for item in &items {
                        tx.add_invoice_item(item).await?;
                    }
                }
                Ok::<_, store::Error>(())
            })
            .await?;
        billing.access.forget_account(&subscription.account_id).await;
    }
    Ok(())
}

/// Reads the subscriptions again that the payment provider holds.
pub(super) async fn read_again(billing: &Billing) -> Result<(), ApiError> {
    let due = due(billing, true, AT_ONCE).await?;
    stream::iter(due)
        .for_each_concurrent(SIDE_BY_SIDE, async |subscription| {
            if !holds_lease(billing, Job::ProvidedPeriods).await.unwrap_or(false) {
                return;
            }
            if let Err(error) = sync_subscription(billing, &subscription.provider_subscription_id).await {
                let (account_id, cause) = (subscription.account_id, ApiError::from(error).message);
                tracing::warn!(account_id, cause, "a subscription could not be read and will be read again");
            }
        })
        .await;
    Ok(())
}
