//! Keys that customers buy through a checkout page which the operator made at the payment provider (readings B6-B8,
//! B46).

use std::time::Duration;

use api::{AccountId, Code};
use store::{NewApiKey, NewPurchase, Purchase};

use super::Billing;
use super::payments::{FinishedCheckout, PaymentError};
use super::sync_error::SyncError;
use crate::access::api_key::FreshKey;
use crate::caller::{Environment, Plan, Role};
use crate::clock::Timestamp;
use crate::ids;
use crate::web::error::ApiError;

/// How long the key of a purchase is shown (readings B6).
const SHOWN: Duration = Duration::from_secs(24 * 3600);
/// Number of characters of a label that are stored.
const LABEL_CHARACTERS_MAX: usize = 200;

/// Plans that can be bought, and the plan of a purchase without a plan or with an unknown plan (readings B7).
const BOUGHT: [Plan; 6] = [Plan::Free, Plan::Payg, Plan::Starter, Plan::Pro, Plan::Scale, Plan::Enterprise];
const DEFAULT_PLAN: Plan = Plan::Payg;

/// The answer to a buyer.
pub enum Bought {
    /// The key and its plan.
    Key(zeroize::Zeroizing<String>, String),
    /// The payment is being processed.
    Pending,
}

/// Records a purchase with its key, once. False: the checkout is not a purchase, or is not paid yet.
pub async fn sync_purchase(
    billing: &Billing,
    session_id: &str,
    checkout: &FinishedCheckout,
) -> Result<bool, SyncError> {
    let is_purchase = checkout.is_complete && checkout.is_paid && !checkout.is_setup && checkout.account_id.is_none();
    if !is_purchase || !sells_key(billing, checkout) {
        return Ok(false);
    }
    if billing.store.purchase(session_id).await?.is_some() {
        return Ok(true);
    }
    let Wanted { plan, unknown_plan, label } = wanted(&checkout.plan, &checkout.reference);
    let now = billing.clock.now();
    let (key_id, lineage_id) = (ids::key(now), ids::lineage(now));
    let earlier = billing.store.account_of_buyer(&checkout.customer_id).await?;
    let account: AccountId = match earlier {
        Some(account_id) => account_id.parse().map_err(ApiError::internal)?,
        None => ids::account(now),
    };
    let fresh = FreshKey::generate(Environment::Live);
    let key = NewApiKey {
        key_id: key_id.as_str(),
        account_id: account.as_str(),
        lineage_id: lineage_id.as_str(),
        digest: &billing.access.api_keys.digest(&fresh.secret),
        key_prefix: &fresh.display_prefix,
        role: Role::AccountAdmin,
        environment: Environment::Live,
        office: true,
        plan,
        created_at: now.0,
        expires_at: None,
    };
    let purchase = NewPurchase {
        session_id,
        customer_id: &checkout.customer_id,
        subscription_id: checkout.subscription_id.as_deref().unwrap_or_default(),
        unknown_plan: &unknown_plan,
        sealed_key: &billing.seals.of(&account).seal(session_id, fresh.secret.as_bytes()),
    };
    let is_new = billing
        .store
        .write(async |tx| {
            if !tx.insert_purchase(&purchase, &key).await? {
                return Ok::<_, store::Error>(false);
            }
            tx.label_key(key.lineage_id, &label).await?;
            Ok(true)
        })
        .await?;
    if is_new {
        billing.access.forget_account(key.account_id).await;
        tracing::info!(target: "security", account_id = key.account_id, key_id = key.key_id, plan = plan.as_str(), "key bought");
        if !unknown_plan.is_empty() {
            tracing::warn!(
                account_id = key.account_id,
                session_id,
                unknown_plan,
                "a purchase named an unknown plan, so its key has the plan payg; change the plan with `ango admin set-plan`"
            );
        }
    }
    Ok(true)
}

/// Whether a checkout sells a key (readings B7). Operators who sell other things too name the prices and payment links
/// that sell keys; without such names, every checkout sells a key.
fn sells_key(billing: &Billing, checkout: &FinishedCheckout) -> bool {
    let named = &billing.payments.key_prices;
    named.is_empty() || checkout.sold.iter().any(|sold| named.contains(sold))
}

/// Revokes the keys of a subscription that has ended. False: no key was bought with the subscription yet. A key that is
/// bought with the subscription later is revoked from the start.
pub async fn end_purchases(billing: &Billing, subscription_id: &str) -> Result<bool, SyncError> {
    let now = billing.clock.now();
    let ended = billing.store.write(async |tx| tx.end_purchases(subscription_id, now.0).await).await?;
    for store::EndedPurchase { account_id, lineage_id } in &ended {
        billing.access.forget_keys(lineage_id).await;
        billing.access.forget_account(account_id).await;
        tracing::info!(target: "security", account_id, lineage_id, "keys revoked because the subscription they were bought with has ended");
    }
    Ok(!ended.is_empty())
}

/// Returns the key that was bought in a checkout. The checkout's id is the only permission needed. A purchase that is
/// not recorded yet is looked up at the provider (readings B6).
pub async fn bought(billing: &Billing, session_id: &str) -> Result<Bought, ApiError> {
    let unknown = || ApiError::new(Code::KeyNotFound, "no paid purchase has this session_id");
    if let Some(purchase) = billing.store.purchase(session_id).await? {
        return shown(billing, &purchase);
    }
    let Some(provider) = &billing.provider else { return Err(unknown()) };
    let checkout = match provider.checkout(session_id).await {
        Err(PaymentError::Unknown(_)) => return Err(unknown()),
        checkout => checkout?,
    };
    let is_other = checkout.account_id.is_some() || checkout.is_setup || !sells_key(billing, &checkout);
    if is_other || !checkout.is_complete {
        return Err(unknown());
    }
    if !checkout.is_paid {
        return Ok(Bought::Pending);
    }
    sync_purchase(billing, session_id, &checkout).await?;
    let purchase = billing.store.purchase(session_id).await?.ok_or_else(unknown)?;
    shown(billing, &purchase)
}

/// Erases the keys of purchases that were made more than `SHOWN` ago.
pub(super) async fn hide_old(billing: &Billing) -> Result<(), store::Error> {
    let before = billing.clock.now().0 - SHOWN.as_micros() as i64;
    billing.store.hide_purchased_keys(before).await.map(drop)
}

fn shown(billing: &Billing, purchase: &Purchase) -> Result<Bought, ApiError> {
    let gone = || {
        ApiError::new(Code::KeyNoLongerShown, "the key of this purchase was shown for 24 hours, and is not shown again")
    };
    let is_over = Timestamp(purchase.created_at).plus(SHOWN) <= billing.clock.now();
    let sealed = purchase.sealed_key.as_ref().filter(|_| !is_over).ok_or_else(gone)?;
    let account: AccountId = purchase.account_id.parse().map_err(ApiError::internal)?;
    let key = billing.seals.of(&account).open(&purchase.session_id, sealed);
    let key = key.ok_or_else(|| ApiError::internal("the API key of a purchase was sealed under another secret"))?;
    let text = std::str::from_utf8(&key).map_err(ApiError::internal)?;
    Ok(Bought::Key(text.to_owned().into(), purchase.plan.clone()))
}

/// The plan and label of a purchase.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    plan: Plan,
    unknown_plan: String,
    label: String,
}

/// Finds the plan and label of a purchase. The plan in `metadata.plan` comes first. The reference counts as a plan if
/// it equals a plan's name, otherwise as a label (readings B7).
fn wanted(plan: &str, reference: &str) -> Wanted {
    let known = |name: &str| Plan::from_name(name).filter(|plan| BOUGHT.contains(plan));
    let of_reference = known(reference);
    let label = if of_reference.is_some() { "" } else { reference };
    let unknown_plan = if plan.is_empty() || known(plan).is_some() { "" } else { plan };
    let short = |text: &str| text.chars().take(LABEL_CHARACTERS_MAX).collect();
    let plan = if plan.is_empty() { of_reference } else { known(plan) };
    Wanted { plan: plan.unwrap_or(DEFAULT_PLAN), unknown_plan: short(unknown_plan), label: short(label) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b7_the_plan_is_that_of_the_metadata_then_of_the_reference() {
        for (plan, reference, wanted_plan, unknown, label) in [
            ("pro", "starter", Plan::Pro, "", ""),
            ("", "starter", Plan::Starter, "", ""),
            ("", "Starter", Plan::Payg, "", "Starter"),
            ("pro", "shop 5", Plan::Pro, "", "shop 5"),
            ("gold", "shop 5", Plan::Payg, "gold", "shop 5"),
            ("trial", "", Plan::Payg, "trial", ""),
            ("", "", Plan::Payg, "", ""),
        ] {
            let found = wanted(plan, reference);
            let expected = Wanted { plan: wanted_plan, unknown_plan: unknown.to_owned(), label: label.to_owned() };
            assert_eq!(found, expected, "{plan:?} {reference:?}");
        }
        assert_eq!(wanted(&"x".repeat(500), "").unknown_plan.len(), 200);
    }
}
