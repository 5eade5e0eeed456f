//! `ango admin` commands for accounts that owe money.

use api::AccountId;
use clap::{Args, Subcommand};
use serde_json::json;

use super::common::Common;
use crate::admin::Operator;

/// The operator's commands for accounts that owe money.
#[derive(Debug, Subcommand)]
pub enum Unpaid {
    UnpaidAccounts(UnpaidAccounts),
    ShowMails(ShowMails),
    LiftSuspension(LiftSuspension),
    SetInvoiceTerm(SetInvoiceTerm),
}

/// List the accounts with an overdue payment, the oldest first. An account without an e-mail address gets events only.
#[derive(Debug, Args)]
pub struct UnpaidAccounts {
    #[command(flatten)]
    common: Common,
}

/// Print the e-mails about payments that an account would get, with their times. Nothing is sent. Without an unpaid
/// invoice, the e-mails are about an example.
#[derive(Debug, Args)]
pub struct ShowMails {
    /// The account's id, as `list-accounts` shows it.
    #[arg(value_name = "ACCOUNT_ID")]
    account: AccountId,
    #[command(flatten)]
    common: Common,
}

/// End the suspension of an account that has not paid, and let it go on for some days. Running nodes apply the change
/// within a second.
#[derive(Debug, Args)]
pub struct LiftSuspension {
    /// The account's id, as `unpaid-accounts` shows it.
    #[arg(value_name = "ACCOUNT_ID")]
    account: AccountId,
    /// Number of days in which the account is not suspended. 0 takes an earlier word back.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(0..=3650))]
    days: u32,
    #[command(flatten)]
    common: Common,
}

/// Set the number of days in which an account must pay the invoices that the node makes from now on.
#[derive(Debug, Args)]
pub struct SetInvoiceTerm {
    /// The account's id, as `list-accounts` shows it.
    #[arg(value_name = "ACCOUNT_ID")]
    account: AccountId,
    /// Number of days. When omitted, the number in ANGO_PAYMENTS_INVOICE_TERM_DAYS.
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=365))]
    days: Option<u32>,
    #[command(flatten)]
    common: Common,
}

/// Runs the command.
///
/// # Errors
/// When the database does not answer, or the account does not exist.
pub async fn run(command: Unpaid) -> anyhow::Result<()> {
    match command {
        Unpaid::UnpaidAccounts(args) => {
            let accounts = args.common.operator().await?.unpaid_accounts().await?;
            let columns =
                ["account_id", "status", "amount_usd_cents", "invoices", "overdue_since", "suspended_at", "email"];
            args.common.list(columns, accounts.iter().map(|one| json!(one)).collect());
        }
        Unpaid::ShowMails(args) => {
            let config = args.common.config()?;
            let base_url = config.public_url.clone().unwrap_or_else(|| format!("http://{}", config.listen));
            let letters = Operator::open(&config).await?.letters(&args.account, &base_url).await?;
            let texts: Vec<String> = letters
                .iter()
                .map(|letter| {
                    let at = letter.at.as_deref().unwrap_or("when the account has paid");
                    let to = letter.recipient.as_deref().unwrap_or("nobody: the account has no e-mail address");
                    format!("== {} ({at})\nTo: {to}\nSubject: {}\n\n{}", letter.notice, letter.subject, letter.body)
                })
                .collect();
            args.common.done(json!(letters), texts.join("\n"));
        }
        Unpaid::LiftSuspension(args) => {
            let until = args.common.operator().await?.lift_suspension(&args.account, args.days).await?;
            let line = format!("{} is not suspended before {until}", args.account);
            args.common.done(json!({ "account_id": args.account, "excused_until": until }), line);
        }
        Unpaid::SetInvoiceTerm(args) => {
            args.common.operator().await?.set_invoice_term(&args.account, args.days).await?;
            let days = args.days.map_or("the number in the settings".to_owned(), |days| days.to_string());
            let line = format!("days in which {} must pay its next invoices: {days}", args.account);
            args.common.done(json!({ "account_id": args.account, "days": args.days }), line);
        }
    }
    Ok(())
}
