//! `ango admin` commands for invoices that the service made itself, and for requests for enterprise plans.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use store::InvoiceState;

use super::common::Common;

/// The operator's commands for invoices.
#[derive(Debug, Subcommand)]
pub enum Invoices {
    EndInvoice(EndInvoice),
    PlanRequests(PlanRequests),
}

/// Record the final status of an invoice that the node made itself. For nodes without a payment provider.
#[derive(Debug, Args)]
pub struct EndInvoice {
    /// The invoice's id, as `GET /api/v1/billing/invoices` shows it.
    #[arg(value_name = "INVOICE_ID")]
    invoice: String,
    /// The invoice's final status.
    #[arg(value_enum)]
    status: End,
    #[command(flatten)]
    common: Common,
}

/// The final status of an invoice.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum End {
    /// The customer paid.
    Paid,
    /// The invoice is withdrawn.
    Void,
    /// The customer will not pay.
    Uncollectible,
}

/// List the accounts that asked for a plan with a negotiated price, the oldest request first. `set-plan` grants the
/// plan.
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
