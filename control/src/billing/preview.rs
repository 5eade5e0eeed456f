//! A dry run of a month's bills. Nothing is written and the payment provider is not asked.

use store::{InvoiceItem, Store};

use super::months::customer_of;

/// Largest number of accounts that one query reads.
const AT_ONCE: i64 = 100;

/// The bill of an account's month, if the month were billed now.
#[derive(Clone, Debug)]
pub struct PreviewedBill {
    /// The account.
    pub account_id: String,
    /// The lines with fees and credits that are on no invoice yet.
    pub items: Vec<InvoiceItem>,
    /// Use beyond the plan, and gates, in US cents.
    pub use_cents: i64,
    /// The amount in US cents. Zero or less: no bill is made, and a credit stays open.
    pub total_cents: i64,
    /// The provider's customer who pays. Empty: this service makes the invoice.
    pub customer_id: String,
    /// Whether the amount was decided earlier, because the month's billing has begun for this account.
    pub is_begun: bool,
    /// Whether all work of the month has ended. Otherwise the amount may still rise.
    pub is_ready: bool,
}

/// Returns the next bills of a month, sorted by account, at most 100. `after`: the account after which the part begins;
/// empty for the first part. `has_provider`: whether the node has a payment provider.
pub async fn previewed_bills(
    store: &Store,
    has_provider: bool,
    month: i64,
    after: &str,
) -> Result<Vec<PreviewedBill>, store::Error> {
    let mut bills = Vec::new();
    for account_id in store.unbilled_accounts(month, after, AT_ONCE).await? {
        bills.push(previewed(store, has_provider, month, account_id).await?);
    }
    Ok(bills)
}

async fn previewed(
    store: &Store,
    has_provider: bool,
    month: i64,
    account_id: String,
) -> Result<PreviewedBill, store::Error> {
    let customer_id = if has_provider { customer_of(store, &account_id).await? } else { String::new() };
    let intended = store.usage_bill(&account_id, month).await?.filter(|_| !customer_id.is_empty());
    let items = store.open_items(&account_id, month).await?;
    let use_cents = store.used_in_month(&account_id, month).await?.spend.cents();
    let sum = use_cents + items.iter().map(|item| item.amount_usd_cents).sum::<i64>();
    Ok(PreviewedBill {
        is_ready: !store.has_open_reservations(&account_id, month).await?,
        is_begun: intended.is_some(),
        total_cents: intended.map_or(sum, |bill| bill.cents),
        account_id,
        items,
        use_cents,
        customer_id,
    })
}
