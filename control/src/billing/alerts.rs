//! Alerts: events and e-mails after an account reached a threshold of its monthly cap or of its plan (readings P21-P23,
//! H19).

use serde_json::json;
use store::{Alert, AlertKind, Email, MonthlyCap, is_reached};

use super::Billing;
use super::compute_units::NANO_USD_OF_UNIT;
use super::mail::Letter;
use crate::access::limits::{Period, month_start};
use crate::clock::Timestamp;
use crate::events::{EventType, event};

/// Largest number of alerts that one query reads.
const AT_ONCE: i64 = 100;
/// How long alerts are kept. The time is longer than a month, so each threshold is announced only once a month.
const KEPT: std::time::Duration = std::time::Duration::from_secs(100 * 24 * 3600);

/// Announces every alert that was not announced before. One transaction writes the event, the e-mail and the note that
/// the alert is announced.
pub(super) async fn tell(billing: &Billing) -> Result<(), store::Error> {
    loop {
        let untold = billing.store.untold_alerts(AT_ONCE).await?;
        if untold.is_empty() {
            return Ok(());
        }
        for alert in &untold {
            let now = billing.clock.now();
            let (kind, data, email) = match alert.kind {
                AlertKind::Usage => (EventType::UsageAlert, usage_data(alert), None),
                AlertKind::Operations => (EventType::LimitReached, limit_data(alert), None),
                AlertKind::Budget => {
                    let budget = billing.store.monthly_cap(&alert.account_id).await?;
                    let data = budget_data(alert, budget.as_ref().is_some_and(|budget| budget.hard_cap));
                    (EventType::BudgetAlert, data, budget_email(billing, alert, budget, now))
                }
            };
            // an alert whose account id cannot be parsed gets no event
            let account = alert.account_id.parse().ok();
            let event = account.map(|account| event(&account, kind, &data, Timestamp(alert.created_at)));
            billing
                .store
                .write(async |tx| {
                    if tx.tell_alert(alert).await? {
                        if let Some(event) = &event {
                            tx.emit(std::slice::from_ref(event)).await?;
                        }
                        if let Some(email) = &email {
                            tx.write_email(email).await?;
                        }
                    }
                    Ok::<_, store::Error>(())
                })
                .await?;
        }
    }
}

/// Deletes alerts and e-mails that are older than `KEPT`.
pub(super) async fn forget_old(billing: &Billing) -> Result<(), store::Error> {
    let before = billing.clock.now().0 - KEPT.as_micros() as i64;
    billing.store.forget_alerts(before).await?;
    billing.store.forget_emails(before).await.map(drop)
}

/// Makes an alert for each threshold, a part of `cap`, that `spent` has reached. Thresholds that were announced before
/// are included (readings P21).
pub(super) fn budget_alerts(account_id: &str, cap: i64, spent: i64, now: Timestamp) -> Vec<Alert> {
    let reached = store::BUDGET_THRESHOLDS.into_iter().filter(|threshold| is_reached(spent, cap, *threshold));
    reached
        .map(|threshold| Alert {
            account_id: account_id.to_owned(),
            period: Period::of(now).month,
            kind: AlertKind::Budget,
            threshold,
            of_limit: cap,
            used: spent,
            created_at: now.0,
        })
        .collect()
}

fn usage_data(alert: &Alert) -> serde_json::Value {
    let over = (alert.used - alert.of_limit).max(0);
    json!({
        "threshold_pct": alert.threshold,
        "monthly_fcu_used": alert.used,
        "monthly_fcu_limit": alert.of_limit,
        "estimated_overage_usd": dollars(over.saturating_mul(NANO_USD_OF_UNIT)),
    })
}

fn budget_data(alert: &Alert, blocks: bool) -> serde_json::Value {
    json!({
        "threshold_pct": alert.threshold,
        "monthly_cap_usd": dollars(alert.of_limit),
        "current_spend_usd": dollars(alert.used),
        "hard_cap": blocks,
    })
}

fn limit_data(alert: &Alert) -> serde_json::Value {
    let day_s = 86_400_000_000;
    json!({
        "limit_type": "daily_requests",
        "limit": alert.of_limit,
        "used": alert.used,
        "resets_at": Timestamp((alert.period + 1) * day_s).rfc3339(),
    })
}

/// Makes the e-mail about an alert to the address in the account's budget. `None`: the node sends no e-mail, or the
/// budget has no address.
fn budget_email(billing: &Billing, alert: &Alert, budget: Option<MonthlyCap>, now: Timestamp) -> Option<Email> {
    billing.mailer.as_ref()?;
    let MonthlyCap { alert_email, hard_cap, allow_soft_overage, .. } =
        budget.filter(|budget| !budget.alert_email.is_empty())?;
    let blocks = hard_cap || !allow_soft_overage;
    let then = match (alert.threshold, blocks) {
        (100.., true) => "Operations that cost money are refused until the month ends or the cap is raised.",
        (_, true) => "When all of it is spent, operations that cost money are refused.",
        _ => "The cap does not block: operations go on and are charged.",
    };
    let body = format!(
        "The account {} has spent {} USD in this month. That is {} % or more of its cap of {} USD.\n\n{then}\n\n\
         The month ends on {} UTC. The cap is set with POST {}/api/v1/billing/budget.\n",
        alert.account_id,
        dollars(alert.used),
        alert.threshold,
        dollars(alert.of_limit),
        &month_start(alert.period + 1).rfc3339()[..10],
        billing.base_url,
    );
    let subject = format!("{} % of your monthly budget is spent", alert.threshold);
    Some(Letter { recipient: alert_email, subject, body }.into_email(&billing.seals, "", now))
}

/// Converts billionths of a US dollar to a JSON number of dollars.
fn dollars(nano_usd: i64) -> serde_json::Value {
    serde_json::to_value(api::NanoUsd(nano_usd)).unwrap_or_default()
}
