//! The comparison of this service's records with the payment provider, in both directions (readings P18, W2, W4).
//!
//! The provider's lists are held in memory, the records are read in parts. A node that works meanwhile may show a
//! difference that is gone at the next comparison.

use std::collections::{BTreeMap, HashMap, HashSet};

use store::{Invoice, InvoiceState, Subscription, SubscriptionState, UsageBillRecord};

use super::invoices::{month_before, month_words};
use super::payments::{Page, PaymentError, ProvidedCustomer, ProvidedInvoice, ProvidedStatus, ProvidedSubscription};
use super::provided::{Books, CURRENCY, account_of, take_invoice, take_over, take_subscription};
use super::sync_error::SyncError;
use crate::access::limits::Period;
use crate::clock::Timestamp;

/// Largest number of records that one query reads.
const AT_ONCE: i64 = 500;
/// Largest number of objects of a kind that are read from the provider.
const OBJECTS_MAX: usize = 1_000_000;
/// Time after the last attempt to bill a month, in microseconds, after which a bill without an invoice is a difference.
const BILL_OVERDUE_US: i64 = 3600 * 1_000_000;
const DAY_US: i64 = 24 * 3600 * 1_000_000;

/// A kind of difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The provider has a customer of an account whose record names no customer.
    CustomerNotOnRecord,
    /// The provider has a customer of an account whose record names another customer. Such a customer costs nothing.
    SecondCustomer,
    /// The record names a customer whom the provider does not have.
    CustomerNotThere,
    /// The provider has an object of an account that this service does not have.
    AccountNotOnRecord,
    /// The provider has a subscription that the account's record does not name.
    SubscriptionNotOnRecord,
    /// The record names a subscription that has ended at the provider, or that the provider does not have.
    SubscriptionNotThere,
    /// Status, plan or period of a subscription differ.
    SubscriptionDiffers,
    /// The provider has an invoice that is not on record.
    InvoiceNotOnRecord,
    /// An invoice on record is not at the provider.
    InvoiceNotThere,
    /// Amount or status of an invoice differ.
    InvoiceDiffers,
    /// The provider has several invoices for one month of an account.
    MonthBilledTwice,
    /// The provider has an invoice for a month of an account, and no bill of the month is on record.
    BillNotOnRecord,
    /// A bill on record has no invoice at the provider.
    BillWithoutInvoice,
    /// The amounts of a bill and of its invoice differ.
    BillDiffers,
    /// The provider has an object that this version cannot read.
    Unreadable,
}

api::words!(Kind, "kind of difference", {
    CustomerNotOnRecord = "customer_not_on_record",
    SecondCustomer = "second_customer",
    CustomerNotThere = "customer_not_there",
    AccountNotOnRecord = "account_not_on_record",
    SubscriptionNotOnRecord = "subscription_not_on_record",
    SubscriptionNotThere = "subscription_not_there",
    SubscriptionDiffers = "subscription_differs",
    InvoiceNotOnRecord = "invoice_not_on_record",
    InvoiceNotThere = "invoice_not_there",
    InvoiceDiffers = "invoice_differs",
    MonthBilledTwice = "month_billed_twice",
    BillNotOnRecord = "bill_not_on_record",
    BillWithoutInvoice = "bill_without_invoice",
    BillDiffers = "bill_differs",
    Unreadable = "unreadable",
});

/// A difference between the records and the provider.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Difference {
    /// The account. Empty: none is known.
    pub account_id: String,
    /// Its kind.
    pub kind: Kind,
    /// The provider's id of the object, or the month of a bill.
    pub object: String,
    /// The value on record. `-`: none.
    pub here: String,
    /// The provider's value. `-`: none.
    pub there: String,
}

/// Compares customers, subscriptions, the invoices of the last `days`, and the bills of months that ended in these days.
/// `tell` is called with the kind and the number of objects that were read so far.
///
/// # Errors
/// When the database or the provider does not answer, or the provider has more than a million objects of a kind.
pub async fn differences(
    books: &Books<'_>,
    days: u32,
    tell: &dyn Fn(&str, usize),
) -> Result<Vec<Difference>, SyncError> {
    let since = Timestamp(books.clock.now().0 - i64::from(days) * DAY_US);
    let mut found = Found { all: Vec::new() };
    let customers =
        read_all("customers", tell, &mut found, async |after| books.provider.customers(after).await).await?;
    let subscriptions =
        read_all("subscriptions", tell, &mut found, async |after| books.provider.subscriptions(after).await).await?;
    let customers: HashMap<String, Option<String>> =
        customers.into_iter().map(|ProvidedCustomer { customer_id, account_id }| (customer_id, account_id)).collect();
    let of_customers = compare_subscriptions(books, &mut found, &customers, subscriptions, tell).await?;
    let invoices =
        read_all("invoices", tell, &mut found, async |after| books.provider.invoices(since, after).await).await?;
    let listed = compare_invoices(books, &mut found, invoices, &of_customers).await?;
    compare_recorded_invoices(books, &mut found, &listed, since).await?;
    compare_bills(books, &mut found, &listed, since).await?;
    // an object that is on record is named with its account, so its place in the list is left out
    let named: HashSet<String> = found
        .all
        .iter()
        .filter(|one| one.kind == Kind::Unreadable && !one.account_id.is_empty())
        .map(|one| one.object.clone())
        .collect();
    found.all.retain(|one| !one.account_id.is_empty() || !named.contains(&one.object));
    found.all.sort();
    found.all.dedup();
    Ok(found.all)
}

/// Reads the objects of these differences from the provider again and writes their state to the records. Returns the
/// accounts whose subscription records changed.
///
/// # Errors
/// When the database or the provider does not answer. Objects that were read before stay written.
pub async fn take(books: &Books<'_>, differences: &[Difference]) -> Result<HashSet<String>, SyncError> {
    let mut changed = HashSet::new();
    // Subscriptions come first, because an account that has several customers gets the one with the subscription.
    // Customers come before invoices, because an invoice is recorded for the account of its customer.
    let turn = |one: &&Difference| match one.kind {
        Kind::CustomerNotOnRecord => 1,
        Kind::InvoiceNotOnRecord | Kind::InvoiceDiffers => 2,
        _ => 0,
    };
    let mut in_turn: Vec<&Difference> = differences.iter().collect();
    in_turn.sort_by_key(turn);
    for Difference { account_id, kind, object, .. } in in_turn {
        let taken = match kind {
            Kind::CustomerNotOnRecord => {
                if put_customer(books, account_id, object).await? {
                    changed.insert(account_id.clone());
                }
                continue;
            }
            Kind::SubscriptionNotOnRecord | Kind::SubscriptionDiffers | Kind::SubscriptionNotThere => {
                take_subscription(books, object).await
            }
            Kind::InvoiceNotOnRecord | Kind::InvoiceDiffers => take_invoice(books, object, None).await,
            _ => continue,
        };
        match taken {
            Ok(taken) => changed.extend(taken.changed_account),
            // the object is gone or cannot be read: the difference stays, and an operator decides
            Err(SyncError::Provider(PaymentError::Unknown(_) | PaymentError::Refused(_))) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(changed)
}

/// Records an account's customer, if the account exists and has none. False: nothing was changed.
async fn put_customer(books: &Books<'_>, account_id: &str, customer_id: &str) -> Result<bool, SyncError> {
    let Some(mut subscription) = books.store.subscription(account_id).await? else { return Ok(false) };
    if !subscription.customer_id.is_empty() {
        return Ok(false);
    }
    subscription.customer_id = customer_id.to_owned();
    subscription.updated_at = books.clock.now().0;
    Ok(books.store.write(async |tx| tx.put_subscription(&subscription).await).await?.is_some())
}

/// The differences found so far.
struct Found {
    all: Vec<Difference>,
}

impl Found {
    fn add(&mut self, account_id: &str, kind: Kind, object: &str, here: impl Into<String>, there: impl Into<String>) {
        let (account_id, object) = (account_id.to_owned(), object.to_owned());
        self.all.push(Difference { account_id, kind, object, here: here.into(), there: there.into() });
    }
}

/// Reads all pages of a list.
async fn read_all<T>(
    what: &str,
    tell: &dyn Fn(&str, usize),
    found: &mut Found,
    read: impl AsyncFn(&str) -> Result<Page<T>, PaymentError>,
) -> Result<Vec<T>, SyncError> {
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let page = read(&after).await?;
        all.extend(page.items);
        for (id, why) in page.unreadable {
            found.add("", Kind::Unreadable, &id, "-", why);
        }
        tell(what, all.len());
        match page.next {
            Some(next) if all.len() < OBJECTS_MAX => after = next,
            Some(_) => {
                let why = format!("the provider has more than {OBJECTS_MAX} {what}");
                return Err(SyncError::Provider(PaymentError::Refused(why)));
            }
            None => return Ok(all),
        }
    }
}

/// Compares customers and subscriptions. Returns the account of each customer, by the records or, for a customer who is
/// not on record, by the customer's metadata.
async fn compare_subscriptions(
    books: &Books<'_>,
    found: &mut Found,
    customers: &HashMap<String, Option<String>>,
    subscriptions: Vec<ProvidedSubscription>,
    tell: &dyn Fn(&str, usize),
) -> Result<HashMap<String, String>, SyncError> {
    let mut living: HashMap<String, ProvidedSubscription> =
        subscriptions.into_iter().map(|one| (one.subscription_id.clone(), one)).collect();
    let mut of_customers = HashMap::new();
    let (mut after, mut read) = (String::new(), 0);
    loop {
        let records = books.store.subscriptions_after(&after, AT_ONCE).await?;
        let Some(last) = records.last() else { break };
        after = last.account_id.clone();
        read += records.len();
        tell("records of subscriptions", read);
        for record in records {
            if !record.customer_id.is_empty() {
                if !customers.contains_key(&record.customer_id) {
                    found.add(
                        &record.account_id,
                        Kind::CustomerNotThere,
                        &record.customer_id,
                        &record.customer_id,
                        "-",
                    );
                }
                of_customers.insert(record.customer_id.clone(), record.account_id.clone());
            }
            if record.provider_subscription_id.is_empty() || record.status == SubscriptionState::None {
                continue;
            }
            let (account_id, id) = (&record.account_id, &record.provider_subscription_id);
            let Some(provided) = living.remove(id) else {
                found.add(account_id, Kind::SubscriptionNotThere, id, words_of(&record), "-");
                continue;
            };
            let mut wanted = record.clone();
            take_over(&mut wanted, &provided, books.clock.now());
            if words_of(&wanted) != words_of(&record) {
                found.add(account_id, Kind::SubscriptionDiffers, id, words_of(&record), words_of(&wanted));
            }
        }
    }
    for (customer_id, account_id) in customers {
        let Some(account_id) = account_id else { continue };
        if of_customers.contains_key(customer_id) {
            continue;
        }
        of_customers.insert(customer_id.clone(), account_id.clone());
        match books.store.subscription(account_id).await? {
            None => found.add(account_id, Kind::AccountNotOnRecord, customer_id, "-", customer_id),
            Some(record) if record.customer_id.is_empty() => {
                found.add(account_id, Kind::CustomerNotOnRecord, customer_id, "-", customer_id);
            }
            Some(record) => found.add(account_id, Kind::SecondCustomer, customer_id, record.customer_id, customer_id),
        }
    }
    // a subscription whose first payment is under way is not on record yet (readings P18)
    let is_begun = |status| !matches!(status, ProvidedStatus::Incomplete | ProvidedStatus::Other);
    for (id, provided) in living.iter().filter(|(_, one)| is_begun(one.status)) {
        let Some(account_id) = &provided.account_id else { continue };
        match account_of(books.store, &provided.customer_id, Some(account_id)).await? {
            Some(record) => {
                let mut wanted = Subscription::none(account_id);
                take_over(&mut wanted, provided, books.clock.now());
                let here = if record.status == SubscriptionState::None { "-".to_owned() } else { words_of(&record) };
                found.add(account_id, Kind::SubscriptionNotOnRecord, id, here, words_of(&wanted));
            }
            None if books.store.has_account(account_id).await? => {
                found.add(account_id, Kind::SubscriptionNotOnRecord, id, "-", "of another customer");
            }
            None => found.add(account_id, Kind::AccountNotOnRecord, id, "-", id),
        }
    }
    Ok(of_customers)
}

/// Describes a subscription in the words that are compared: status, plan, billing cycle, period.
fn words_of(subscription: &Subscription) -> String {
    let Subscription { plan, status, billing_cycle, period_start, period_end, .. } = subscription;
    let day = |moment: i64| Timestamp(moment).rfc3339()[..10].to_owned();
    format!(
        "{} {} {} {} to {}",
        status.as_str(),
        plan.as_str(),
        billing_cycle.as_str(),
        day(*period_start),
        day(*period_end)
    )
}

/// The provider's invoices of this service's accounts.
#[derive(Default)]
struct Listed {
    by_id: HashMap<String, ProvidedInvoice>,
    /// The invoices of each billed month of an account, without void ones.
    of_months: BTreeMap<(String, i64), Vec<String>>,
}

async fn compare_invoices(
    books: &Books<'_>,
    found: &mut Found,
    invoices: Vec<ProvidedInvoice>,
    of_customers: &HashMap<String, String>,
) -> Result<Listed, SyncError> {
    let mut listed = Listed::default();
    for invoice in invoices.into_iter().filter(|one| one.currency == CURRENCY) {
        let record = books.store.invoice(&invoice.invoice_id).await?;
        let of_record = record.as_ref().map(|record| record.account_id.clone());
        let of_customer = || of_customers.get(&invoice.customer_id).cloned();
        let Some(account_id) = of_record.or_else(of_customer).or_else(|| invoice.account_id.clone()) else { continue };
        if let Some(month) = invoice.month.filter(|_| invoice.status != InvoiceState::Void && invoice.amount > 0) {
            listed.of_months.entry((account_id.clone(), month)).or_default().push(invoice.invoice_id.clone());
        }
        let id = &invoice.invoice_id;
        match &record {
            Some(record) => compare_invoice(found, record, &invoice),
            None if !books.store.has_account(&account_id).await? => {
                found.add(&account_id, Kind::AccountNotOnRecord, id, "-", words_of_provided(&invoice));
            }
            // the provider makes a draft an hour before it tells of the invoice
            None if invoice.status == InvoiceState::Draft && invoice.month.is_none() => {}
            None => found.add(&account_id, Kind::InvoiceNotOnRecord, id, "-", words_of_provided(&invoice)),
        }
        listed.by_id.insert(id.clone(), invoice);
    }
    for ((account_id, month), ids) in &listed.of_months {
        if let [_, _, ..] = ids.as_slice() {
            let bill = books.store.usage_bill(account_id, *month).await?;
            let here = bill.map_or_else(|| "-".to_owned(), |bill| bill.invoice_id);
            found.add(account_id, Kind::MonthBilledTwice, &month_words(*month), here, ids.join(" "));
        }
    }
    Ok(listed)
}

fn compare_invoice(found: &mut Found, record: &Invoice, provided: &ProvidedInvoice) {
    if (record.status, record.amount_usd_cents) != (provided.status, provided.amount) {
        let (here, there) = (words(record.status, record.amount_usd_cents), words_of_provided(provided));
        found.add(&record.account_id, Kind::InvoiceDiffers, &record.invoice_id, here, there);
    }
}

fn words(status: InvoiceState, cents: i64) -> String {
    format!("{} {cents} cents", status.as_str())
}

fn words_of_provided(invoice: &ProvidedInvoice) -> String {
    words(invoice.status, invoice.amount)
}

/// An invoice that was looked up at the provider.
enum LookedUp {
    There(Box<ProvidedInvoice>),
    Gone,
    Unreadable(String),
}

/// Looks an invoice up in the list, or at the provider if the list does not have it.
async fn look_up(books: &Books<'_>, listed: &Listed, invoice_id: &str) -> Result<LookedUp, SyncError> {
    if let Some(invoice) = listed.by_id.get(invoice_id) {
        return Ok(LookedUp::There(Box::new(invoice.clone())));
    }
    match books.provider.invoice(invoice_id).await {
        Ok(invoice) => Ok(LookedUp::There(Box::new(invoice))),
        Err(PaymentError::Unknown(_)) => Ok(LookedUp::Gone),
        Err(PaymentError::Refused(why)) => Ok(LookedUp::Unreadable(why)),
        Err(error) => Err(error.into()),
    }
}

/// Looks for invoices on record that the provider does not have.
async fn compare_recorded_invoices(
    books: &Books<'_>,
    found: &mut Found,
    listed: &Listed,
    since: Timestamp,
) -> Result<(), SyncError> {
    let mut after = String::new();
    loop {
        let records = books.store.provided_invoices(since.0, &after, AT_ONCE).await?;
        let Some(last) = records.last() else { return Ok(()) };
        after = last.invoice_id.clone();
        for record in records.iter().filter(|record| !listed.by_id.contains_key(&record.invoice_id)) {
            let here = words(record.status, record.amount_usd_cents);
            match look_up(books, listed, &record.invoice_id).await? {
                LookedUp::There(provided) => compare_invoice(found, record, &provided),
                LookedUp::Gone => found.add(&record.account_id, Kind::InvoiceNotThere, &record.invoice_id, here, "-"),
                LookedUp::Unreadable(why) => {
                    found.add(&record.account_id, Kind::Unreadable, &record.invoice_id, here, why);
                }
            }
        }
    }
}

/// Compares the bills of the months that ended since a moment with their invoices.
async fn compare_bills(
    books: &Books<'_>,
    found: &mut Found,
    listed: &Listed,
    since: Timestamp,
) -> Result<(), SyncError> {
    let now = books.clock.now();
    for month in Period::of(since).month..=month_before(now) {
        let mut after = String::new();
        loop {
            let bills = books.store.usage_bills_of(month, &after, AT_ONCE).await?;
            let Some(last) = bills.last() else { break };
            after = last.account_id.clone();
            for bill in &bills {
                compare_bill(books, found, listed, bill, now).await?;
            }
        }
    }
    for ((account_id, month), ids) in &listed.of_months {
        // a month that was billed before bills were recorded is closed and has no bill
        let is_known = books.store.usage_bill(account_id, *month).await?.is_some()
            || books.store.is_month_closed(account_id, *month).await?;
        if !is_known {
            found.add(account_id, Kind::BillNotOnRecord, &month_words(*month), "-", ids.join(" "));
        }
    }
    Ok(())
}

async fn compare_bill(
    books: &Books<'_>,
    found: &mut Found,
    listed: &Listed,
    bill: &UsageBillRecord,
    now: Timestamp,
) -> Result<(), SyncError> {
    let (account_id, here) = (&bill.account_id, format!("{} {} cents", bill.invoice_id, bill.cents));
    let month = month_words(bill.month);
    let is_under_way = now.0 - bill.attempted_at < BILL_OVERDUE_US;
    if bill.invoice_id.is_empty() {
        if !is_under_way {
            found.add(account_id, Kind::BillWithoutInvoice, &month, format!("{} cents", bill.cents), "-");
        }
        return Ok(());
    }
    match look_up(books, listed, &bill.invoice_id).await? {
        LookedUp::Gone => found.add(account_id, Kind::BillWithoutInvoice, &month, here, "-"),
        LookedUp::Unreadable(why) => found.add(account_id, Kind::Unreadable, &bill.invoice_id, here, why),
        // an invoice without its line is a step of the billing
        LookedUp::There(invoice) if invoice.amount == 0 && is_under_way => {}
        LookedUp::There(invoice) if invoice.amount != bill.cents => {
            found.add(account_id, Kind::BillDiffers, &month, here, words_of_provided(&invoice));
        }
        LookedUp::There(_) => {}
    }
    Ok(())
}
