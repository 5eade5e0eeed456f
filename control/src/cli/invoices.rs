//! `ango admin` for invoices that the service made itself, and for wishes for plans.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use store::InvoiceState;

use super::common::Common;

/// What an operator may do with invoices.
#[derive(Debug, Subcommand)]
pub enum Invoices {
    EndInvoice(EndInvoice),
    PlanRequests(PlanRequests),
}

/// Say how an invoice ended that the node made itself: where no payment provider does it.
#[derive(Debug, Args)]
pub struct EndInvoice {
    /// As `GET /api/v1/billing/invoices` shows it.
    #[arg(value_name = "INVOICE_ID")]
    invoice: String,
    /// How it ended.
    #[arg(value_enum)]
    status: End,
    #[command(flatten)]
    common: Common,
}

/// How an invoice ends.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum End {
    /// It was paid.
    Paid,
    /// It is withdrawn.
    Void,
    /// It will not be paid.
    Uncollectible,
}

/// List the accounts that asked for a plan whose price is agreed on, the oldest wish first. `set-plan` grants it.
#[derive(Debug, Args)]
pub struct PlanRequests {
    #[command(flatten)]
    common: Common,
}

/// Runs the command.
///
/// # Errors
/// When the database does not answer, or the invoice is not open.
pub async fn run(command: Invoices) -> anyhow::Result<()> {
    match command {
        Invoices::EndInvoice(args) => {
            let status = match args.status {
                End::Paid => InvoiceState::Paid,
                End::Void => InvoiceState::Void,
                End::Uncollectible => InvoiceState::Uncollectible,
            };
            args.common.operator().await?.end_invoice(&args.invoice, status).await?;
            let line = format!("{} is {}", args.invoice, status.as_str());
            args.common.done(json!({ "invoice_id": args.invoice, "status": status.as_str() }), line);
        }
        Invoices::PlanRequests(args) => {
            let requests = args.common.operator().await?.plan_requests().await?;
            let columns = ["account_id", "plan", "email", "requested_at"];
            args.common.list(columns, requests.iter().map(|one| json!(one)).collect());
        }
    }
    Ok(())
}
