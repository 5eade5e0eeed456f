//! `ango admin` commands for events of the payment provider that cannot be processed.

use clap::{Args, Subcommand};
use serde_json::json;

use super::common::Common;

/// The operator's commands for events of the payment provider.
#[derive(Debug, Subcommand)]
pub enum ProviderEvents {
    StuckEvents(StuckEvents),
    RetryEvent(RetryEvent),
    DropEvent(DropEvent),
}

/// List the payment provider's events that could not be processed, oldest first.
#[derive(Debug, Args)]
pub struct StuckEvents {
    #[command(flatten)]
    common: Common,
}

/// Process a stuck event of the payment provider again, after its cause was mended.
#[derive(Debug, Args)]
pub struct RetryEvent {
    /// The event's id, as `stuck-events` shows it.
    #[arg(value_name = "EVENT_ID")]
    event: String,
    #[command(flatten)]
    common: Common,
}

/// End a stuck event of the payment provider without processing it.
#[derive(Debug, Args)]
pub struct DropEvent {
    /// The event's id, as `stuck-events` shows it.
    #[arg(value_name = "EVENT_ID")]
    event: String,
    #[command(flatten)]
    common: Common,
}

/// Runs the command.
///
/// # Errors
/// When the database does not answer, or no stuck event has the id.
pub async fn run(command: ProviderEvents) -> anyhow::Result<()> {
    match command {
        ProviderEvents::StuckEvents(args) => {
            let events = args.common.operator().await?.stuck_events().await?;
            let columns = ["event_id", "event_type", "attempts", "error", "received_at"];
            args.common.list(columns, events.iter().map(|one| json!(one)).collect());
        }
        ProviderEvents::RetryEvent(args) => {
            args.common.operator().await?.retry_event(&args.event).await?;
            let line = format!("{} is due again", args.event);
            args.common.done(json!({ "event_id": args.event, "status": "pending" }), line);
        }
        ProviderEvents::DropEvent(args) => {
            args.common.operator().await?.drop_event(&args.event).await?;
            let line = format!("{} is dropped", args.event);
            args.common.done(json!({ "event_id": args.event, "status": "dropped" }), line);
        }
    }
    Ok(())
}
