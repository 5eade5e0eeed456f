//! The texts of notices about payments, in Japanese and English.

use store::{Invoice, InvoiceState};

use super::notice::Notice;
use super::standing::AccountView;
use crate::clock::Timestamp;

/// The subject and text of an e-mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// The subject.
    pub subject: String,
    /// The text.
    pub body: String,
}

/// Writes the letter about an invoice.
pub(super) fn invoice_letter(notice: Notice, invoice: &Invoice, view: &AccountView, base_url: &str) -> Words {
    let amount = dollars(invoice.amount_usd_cents);
    let due = last_day(invoice.due_at);
    let suspended = day(store::suspended_from(invoice.due_at, view.standing.excused_until));
    let (subject_ja, subject_en, ja, en) = match notice {
        Notice::Issued => (
            format!("ご請求書発行のお知らせ（{amount}、お支払期限 {due}）"),
            format!("Invoice of {amount}, due {due}"),
            format!("請求書を発行しました。{due}（UTC）までにお支払いください。"),
            format!("We have issued an invoice. Please pay it by {due} (UTC)."),
        ),
        Notice::Reminder => (
            format!("お支払期限のお知らせ（{amount}、{due}）"),
            format!("Reminder: {amount} due {due}"),
            format!("次の請求書のお支払期限は {due}（UTC）です。お支払い済みの場合は、本メールをご放念ください。"),
            format!("The invoice below is due on {due} (UTC). If you have paid it, please disregard this e-mail."),
        ),
        Notice::Overdue => (
            format!("お支払いが確認できておりません（{amount}）"),
            format!("Overdue: {amount}"),
            format!(
                "次の請求書のお支払いが確認できておりません。サービスは引き続きご利用いただけますが、\
                 お支払いがない場合は {suspended}（UTC）から計算、ゲート演算および鍵の生成を停止いたします。"
            ),
            format!(
                "The invoice below has not been paid. The service goes on. If the invoice is not paid, compute operations, \
                 gates and key generation stop on {suspended} (UTC)."
            ),
        ),
        Notice::Last => (
            format!("ご利用停止の予告（{suspended}、{amount}）"),
            format!("Last reminder: suspension on {suspended}, {amount} overdue"),
            format!(
                "次の請求書のお支払いが確認できない場合、{suspended}（UTC）から計算、ゲート演算および鍵の生成を停止いたします。"
            ),
            format!(
                "If the invoice below is not paid, compute operations, gates and key generation stop on {suspended} (UTC)."
            ),
        ),
    };
    let list = [invoice.clone()];
    letter(view, &format!("{subject_ja} / {subject_en}"), [&ja, &en], &list, base_url)
}

/// Writes the letter about the suspension of an account, or about its end.
pub(super) fn account_letter(view: &AccountView, base_url: &str) -> Words {
    if view.standing.is_suspended {
        let ja = "お支払いが確認できないため、計算、ゲート演算および鍵の生成を停止いたしました。データの読み出しと削除、\
                  お支払いの手続きは引き続きご利用いただけます。お支払いが確認でき次第、停止を解除いたします。";
        let en = "Compute operations, gates and key generation have stopped because a payment is overdue. You can still read \
                  and delete your data, and pay. The service goes on as soon as the payment has arrived.";
        letter(view, "ご利用停止のお知らせ / Your account is suspended", [ja, en], &view.owed, base_url)
    } else {
        let ja = "お支払いに関する停止を解除いたしました。すべての機能をご利用いただけます。";
        let en = "The suspension because of an overdue payment has ended. The whole service is available again.";
        letter(view, "ご利用再開のお知らせ / Your account is available again", [ja, en], &[], base_url)
    }
}

fn letter(view: &AccountView, subject: &str, [ja, en]: [&str; 2], invoices: &[Invoice], base_url: &str) -> Words {
    let account_id = &view.subscription.account_id;
    let lines = |ja: bool| -> String {
        let line = |invoice: &Invoice| {
            let (amount, due) = (dollars(invoice.amount_usd_cents), last_day(invoice.due_at));
            let state = match (invoice.status, ja) {
                (InvoiceState::Uncollectible, true) => "（回収不能として処理済み）",
                (InvoiceState::Uncollectible, false) => " (given up for collection)",
                _ => "",
            };
            let page = if invoice.url.is_empty() { String::new() } else { format!("\n  {}", invoice.url) };
            if ja {
                format!("・{}　{amount}　お支払期限 {due}{state}{page}\n", invoice.invoice_id)
            } else {
                format!("- {}  {amount}, due {due}{state}{page}\n", invoice.invoice_id)
            }
        };
        invoices.iter().map(line).collect()
    };
    let block = |lines: String| if lines.is_empty() { String::new() } else { format!("\n{lines}") };
    let body = format!(
        "{ja}\n{}\nアカウント: {account_id}\n請求書の一覧: GET {base_url}/api/v1/billing/invoices\n\n\
         ----\n\n{en}\n{}\nAccount: {account_id}\nAll invoices: GET {base_url}/api/v1/billing/invoices\n",
        block(lines(true)),
        block(lines(false)),
    );
    Words { subject: subject.to_owned(), body }
}

fn dollars(cents: i64) -> String {
    format!("{}.{:02} USD", cents / 100, cents % 100)
}

/// The date of a moment, UTC.
fn day(moment: i64) -> String {
    Timestamp(moment).rfc3339()[..10].to_owned()
}

/// The last date (UTC) on which an invoice can be paid in time.
fn last_day(due_at: i64) -> String {
    day(due_at - 1)
}
