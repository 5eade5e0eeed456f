//! Invoices: their list, the page of an invoice made here, and the bill of a month (readings P9, P19, P25).

use std::sync::Arc;

use api::billing::{InvoiceStatus, Invoices};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{Html, IntoResponse, Response};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use store::{Invoice, InvoiceItem, InvoiceState, Subscription, UsedInMonth};

use super::Billing;
use super::plan_change::Fee;
use super::provided::invoice_data;
use crate::access::limits::{Period, month_start};
use crate::caller::Caller;
use crate::clock::Timestamp;
use crate::events::{EventType, event};
use crate::ids;
use crate::web::error::ApiError;
use crate::web::path::PathParts;

/// Largest number of invoices in a list (readings P25).
const LISTED_MAX: i64 = 100;
/// Bytes of the code in the address of an invoice's page.
const CODE_BYTES: usize = 16;

/// An invoice's page runs no script, loads nothing, and sends no referrer.
const PAGE_HEADERS: [(HeaderName, HeaderValue); 3] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    ),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::CACHE_CONTROL, HeaderValue::from_static("private, no-store")),
];

/// The account's invoices, the newest first.
#[utoipa::path(
    get,
    path = "/api/v1/billing/invoices",
    operation_id = "listInvoices",
    tag = "Billing",
    responses((status = 200, description = "At most 100 invoices.", body = Invoices)),
    extensions(("x-errors" = json!([])))
)]
pub async fn list(State(billing): State<Arc<Billing>>, caller: Caller) -> Result<Json<Invoices>, ApiError> {
    let invoices = billing.store.invoices(caller.account.as_str(), LISTED_MAX).await?;
    Ok(Json(Invoices { invoices: invoices.into_iter().filter_map(told).collect() }))
}

fn told(invoice: Invoice) -> Option<api::billing::Invoice> {
    let status = match invoice.status {
        InvoiceState::Draft => return None,
        InvoiceState::Open => InvoiceStatus::Open,
        InvoiceState::Paid => InvoiceStatus::Paid,
        InvoiceState::Void => InvoiceStatus::Void,
        InvoiceState::Uncollectible => InvoiceStatus::Uncollectible,
    };
    Some(api::billing::Invoice {
        invoice_id: invoice.invoice_id,
        amount_usd_cents: invoice.amount_usd_cents,
        status,
        period: month_words(invoice.month),
        paid_at: (invoice.paid_at > 0).then(|| Timestamp(invoice.paid_at).rfc3339()),
        provider_invoice_url: invoice.url,
    })
}

/// Describes what an account used in a month, for a line of an invoice. Names both kinds of use: compute, and the back
/// office with its amount (readings P9).
pub(super) fn use_words(month: i64, used: &UsedInMonth, office_milli_yen: i64) -> String {
    let month = month_words(month);
    let has_compute = used.overage_nano_usd > 0 || used.milli_yen > office_milli_yen;
    let office = {
        let (yen, rest) = (office_milli_yen / 1000, office_milli_yen % 1000);
        let fraction = if rest == 0 { String::new() } else { format!(".{rest:03}") };
        format!("back office ({yen}{fraction} yen)")
    };
    match (has_compute, office_milli_yen > 0) {
        (true, true) => format!("Use in {month} beyond the plan, gates, and {office}"),
        (false, true) => format!("Use in {month}: {office}"),
        (_, false) => format!("Use in {month} beyond the plan, and gates"),
    }
}

/// The first moment after the last day (UTC) on which an invoice can be paid in time, if it is made now and must be paid
/// within `term` days.
fn due_at(now: Timestamp, term: i64) -> Timestamp {
    let day = 86_400_000_000;
    Timestamp((now.0.div_euclid(day) + term + 1) * day)
}

/// Writes a month as text, such as `2026-01`.
pub(crate) fn month_words(month: i64) -> String {
    format!("{:04}-{:02}", month.div_euclid(12), month.rem_euclid(12) + 1)
}

/// Makes lines of an invoice from fees. A line's id contains the version of the subscription's record, so each line is
/// written once.
pub(super) fn items_of(subscription: &Subscription, fees: &[Fee], now: Timestamp) -> Vec<InvoiceItem> {
    let item = |(at, fee): (usize, &Fee)| InvoiceItem {
        item_id: format!("{}:{}:{at}", subscription.account_id, subscription.version),
        account_id: subscription.account_id.clone(),
        month: fee.month,
        description: fee.description.clone(),
        amount_usd_cents: fee.cents,
        invoice_id: String::new(),
        created_at: now.0,
    };
    fees.iter().enumerate().map(item).filter(|item| item.amount_usd_cents != 0).collect()
}

impl Billing {
    /// Makes the invoice of a month that is over: the open lines and the use of that month. Makes no invoice if nothing
    /// is to be paid or the month was billed before.
    pub(super) async fn bill_here(&self, account_id: &str, month: i64) -> Result<(), ApiError> {
        let now = self.clock.now();
        let mut items = self.store.open_items(account_id, month).await?;
        let used = self.store.used_in_month(account_id, month).await?;
        let office_milli_yen = self.store.office_spending(account_id, month).await?;
        let spent = used.spend.cents();
        if spent > 0 {
            items.push(InvoiceItem {
                item_id: InvoiceItem::usage_id(account_id, month),
                account_id: account_id.to_owned(),
                month,
                description: use_words(month, &used, office_milli_yen),
                amount_usd_cents: spent,
                invoice_id: String::new(),
                created_at: now.0,
            });
        }
        let total: i64 = items.iter().map(|item| item.amount_usd_cents).sum();
        let invoice_id = ids::invoice(now).as_str().to_owned();
        let term = self.store.invoice_term(account_id).await?.unwrap_or(i64::from(self.payments.invoice_term_days));
        let invoice = Invoice {
            url: self.invoice_page(&invoice_id),
            invoice_id,
            account_id: account_id.to_owned(),
            month,
            status: InvoiceState::Open,
            amount_usd_cents: total,
            period_start: month_start(month).0,
            period_end: month_start(month + 1).0,
            issued_at: now.0,
            paid_at: 0,
            failures: 0,
            is_provided: false,
            due_at: due_at(now, term).0,
        };
        let account = account_id.parse().map_err(ApiError::internal)?;
        let created = event(&account, EventType::InvoiceCreated, &invoice_data(&invoice), now);
        let on_it: Vec<&str> = items.iter().map(|item| item.item_id.as_str()).collect();
        self.store
            .write(async |tx| {
                if !tx.close_month(account_id, month, now.0).await? {
                    return Ok::<_, store::Error>(());
                }
                for item in &items {
                    tx.add_invoice_item(item).await?;
                }
                if total <= 0 {
                    // a negative total stays open as a credit and goes to the next invoice
                    return Ok(());
                }
                tx.put_items_on(&invoice.invoice_id, &on_it).await?;
                tx.put_invoice(&invoice, now.0).await?;
                tx.emit(std::slice::from_ref(&created)).await
            })
            .await?;
        Ok(())
    }

    /// Makes the address of an invoice's page. The address ends with a code that cannot be guessed.
    fn invoice_page(&self, invoice_id: &str) -> String {
        format!("{}/invoices/{invoice_id}/{}", self.base_url, hex::encode(&self.page_mac(invoice_id)[..CODE_BYTES]))
    }

    fn page_mac(&self, invoice_id: &str) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&*self.pages).expect("HMAC takes any key length");
        mac.update(invoice_id.as_bytes());
        mac.finalize().into_bytes().into()
    }
}

/// Returns the page of an invoice that this service made. Only the code in the address permits reading the page, so the
/// code is checked.
pub async fn page(State(billing): State<Arc<Billing>>, path: PathParts) -> Result<Response, ApiError> {
    let unknown = || ApiError::new(api::Code::NotFound, "there is no such invoice");
    let invoice_id = path.get("invoice_id");
    let code = hex::decode(path.get("code")).map_err(|_| unknown())?;
    let is_right = subtle::ConstantTimeEq::ct_eq(code.as_slice(), &billing.page_mac(invoice_id)[..CODE_BYTES]);
    if !bool::from(is_right) {
        return Err(unknown());
    }
    let invoice = billing.store.invoice(invoice_id).await?.ok_or_else(unknown)?;
    let items = billing.store.items_of_invoice(invoice_id).await?;
    Ok((PAGE_HEADERS, Html(invoice_html(&invoice, &items))).into_response())
}

fn invoice_html(invoice: &Invoice, items: &[InvoiceItem]) -> String {
    let dollars = |cents: i64| {
        let sign = if cents < 0 { "\u{2212}" } else { "" };
        format!("{sign}{}.{:02} USD", cents.abs() / 100, cents.abs() % 100)
    };
    let day = |moment: i64| Timestamp(moment).rfc3339()[..10].to_owned();
    // the texts need no escaping, because this service made them of words and numbers
    let lines: String = items
        .iter()
        .map(|item| format!("<tr><td>{}</td><td>{}</td></tr>", item.description, dollars(item.amount_usd_cents)))
        .collect();
    let state = match (invoice.status, invoice.paid_at) {
        (InvoiceState::Paid, paid_at) if paid_at > 0 => format!("paid on {}", day(paid_at)),
        (state, _) => state.as_str().to_owned(),
    };
    format!(
        include_str!("invoice.html"),
        id = invoice.invoice_id,
        account = invoice.account_id,
        period = month_words(invoice.month),
        issued = day(invoice.issued_at),
        due = if invoice.due_at > 0 { day(invoice.due_at - 1) } else { "-".to_owned() },
        state = state,
        lines = lines,
        total = dollars(invoice.amount_usd_cents),
    )
}

/// Makes the event which says that an invoice was paid.
///
/// # Errors
/// When `account_id` of the invoice is not an account id.
pub fn invoice_paid_event(invoice: &Invoice, now: Timestamp) -> anyhow::Result<store::NewEvent> {
    let account =
        invoice.account_id.parse().map_err(|_| anyhow::anyhow!("{} is not an account id", invoice.account_id))?;
    Ok(event(&account, EventType::InvoicePaid, &invoice_data(invoice), now))
}

/// The month before the month of `now`.
pub(super) fn month_before(now: Timestamp) -> i64 {
    Period::of(now).month - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p9_a_line_names_both_kinds_of_use() {
        let words = |overage_nano_usd: i64, milli_yen: i64, office_milli_yen: i64| {
            let used = UsedInMonth { overage_nano_usd, milli_yen, ..UsedInMonth::default() };
            use_words(2026 * 12, &used, office_milli_yen)
        };
        assert_eq!(words(2_000, 100, 0), "Use in 2026-01 beyond the plan, and gates");
        assert_eq!(words(0, 10_000, 10_000), "Use in 2026-01: back office (10 yen)");
        assert_eq!(words(0, 10_100, 10_000), "Use in 2026-01 beyond the plan, gates, and back office (10 yen)");
        assert_eq!(words(1, 10_500, 10_500), "Use in 2026-01 beyond the plan, gates, and back office (10.500 yen)");
    }

    #[test]
    fn p25_a_month_is_written_as_year_and_month() {
        assert_eq!([2026 * 12, 2026 * 12 + 11].map(month_words), ["2026-01", "2026-12"]);
    }
}
