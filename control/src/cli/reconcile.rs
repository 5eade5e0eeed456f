//! `ango admin` commands that compare billing's records with the payment provider, and that compute bills in advance.

use std::cell::Cell;

use anyhow::ensure;
use clap::{Args, Subcommand};
use serde_json::json;

use super::common::Common;

/// Number of objects between two lines about the progress.
const TOLD_EVERY: usize = 1000;

/// The operator's commands for the books.
#[derive(Debug, Subcommand)]
pub enum Reconcile {
    ReconcileProvider(ReconcileProvider),
    PreviewMonth(PreviewMonth),
}

/// Compare customers, subscriptions, invoices and bills with the payment provider. Exits with 1 if anything differs.
///
/// A change that a node makes meanwhile may show as a difference: run the command again.
#[derive(Debug, Args)]
pub struct ReconcileProvider {
    /// Number of days whose invoices are compared.
    #[arg(long, default_value_t = 70, value_parser = clap::value_parser!(u32).range(1..=3660))]
    days: u32,
    /// Read the objects that differ from the provider again, and write their state to the records, as their events do.
    /// For example after the database was restored from a backup.
    #[arg(long)]
    apply: bool,
    #[command(flatten)]
    common: Common,
}

/// Show what each account's bill of a month would be now. Changes nothing.
#[derive(Debug, Args)]
pub struct PreviewMonth {
    /// The month (UTC). When omitted, this month.
    #[arg(value_name = "YYYY-MM", value_parser = month)]
    month: Option<i64>,
    #[command(flatten)]
    common: Common,
}

/// Runs the command.
///
/// # Errors
/// When the settings are refused, the database or the provider does not answer, or something differs.
pub async fn run(command: Reconcile) -> anyhow::Result<()> {
    match command {
        Reconcile::ReconcileProvider(args) => reconcile(args).await,
        Reconcile::PreviewMonth(args) => preview(args).await,
    }
}

async fn reconcile(args: ReconcileProvider) -> anyhow::Result<()> {
    let operator = args.common.operator().await?;
    let told = Cell::new(0);
    let tell = |what: &str, read: usize| {
        if read < told.get() || read >= told.get() + TOLD_EVERY {
            told.set(read);
            eprintln!("{what}: {read} read");
        }
    };
    let differences = operator.reconcile_provider(args.days, args.apply, &tell).await?;
    let columns = ["account_id", "kind", "object", "here", "there", "mended"];
    if differences.is_empty() && !args.common.json {
        println!("the records and the provider agree");
    } else {
        args.common.list(columns, differences.iter().map(|one| json!(one)).collect());
    }
    let left = differences.iter().filter(|one| !one.mended).count();
    ensure!(left == 0, "{left} differences between the records and the provider");
    Ok(())
}

async fn preview(args: PreviewMonth) -> anyhow::Result<()> {
    let operator = args.common.operator().await?;
    let tell = |accounts: usize| {
        if accounts.is_multiple_of(TOLD_EVERY) {
            eprintln!("{accounts} accounts");
        }
    };
    let bills = operator.preview_month(args.month, &tell).await?;
    let mut rows: Vec<serde_json::Value> = bills.iter().map(|one| json!(one)).collect();
    if !args.common.json {
        for (row, bill) in rows.iter_mut().zip(&bills) {
            let lines = bill.lines.iter().map(|line| format!("{}: {}", line.description, line.cents));
            row["lines"] = json!(lines.collect::<Vec<_>>().join("; "));
        }
    }
    let columns = ["account_id", "use_cents", "fees_cents", "total_cents", "collected_by", "ready", "begun", "lines"];
    args.common.list(columns, rows);
    Ok(())
}

/// Reads a month such as `2026-01` as months since year 0.
fn month(text: &str) -> Result<i64, &'static str> {
    let read = || {
        let (year, month) = text.split_once('-')?;
        if (year.len(), month.len()) != (4, 2) || !text.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit()) {
            return None;
        }
        let (year, month): (u32, u32) = (year.parse().ok()?, month.parse().ok()?);
        (1..=12).contains(&month).then(|| i64::from(year) * 12 + i64::from(month) - 1)
    };
    read().ok_or("must be a month such as 2026-01")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_is_a_year_and_a_month() {
        assert_eq!(month("2026-01"), Ok(2026 * 12));
        assert_eq!(month("2026-12"), Ok(2026 * 12 + 11));
        for text in ["2026", "2026-00", "2026-13", "2026-1", "26-01", "2026-01-01", "", "+026-01"] {
            assert!(month(text).is_err(), "{text}");
        }
    }
}
