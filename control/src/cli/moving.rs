//! `ango admin move`.

use anyhow::ensure;
use clap::Args;
use serde_json::json;

use super::common::Common;
use crate::admin::moving::{self, Moved};

/// Move the node of the data folder, with its SQLite database and its objects, to the PostgreSQL in ANGO_DATABASE_URL and the
/// bucket in ANGO_OBJECTS_URL. The node must be stopped. The folder stays as it is. After a break, run the command again.
/// Exits with 1 if the two sides differ.
#[derive(Debug, Args)]
pub struct Move {
    /// The node's database, sqlite:FILE. When omitted, the file ango.db in the data folder.
    #[arg(long, value_name = "URL")]
    from_database: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// Runs the command. Prints the steps on stderr, and the checks on stdout.
///
/// # Errors
/// When the settings are refused, with the errors of [`moving::run`], or when the two sides differ.
pub async fn run(args: Move) -> anyhow::Result<()> {
    let config = args.common.config()?;
    let moved = moving::run(&config, args.from_database.as_deref(), &|line| eprintln!("{line}")).await?;
    let checks = match moved {
        Moved::Before(at) => {
            let at = at.rfc3339();
            let line = format!("the node was moved at {at}; nothing was changed");
            args.common.done(json!({ "moved_at": at, "checks": [] }), line);
            return Ok(());
        }
        Moved::Now(checks) => checks,
    };
    args.common.list(["what", "source", "target", "is_same"], checks.iter().map(|check| json!(check)).collect());
    let differ = checks.iter().filter(|check| !check.is_same).count();
    ensure!(differ == 0, "{differ} of {} checks differ, so the move is not finished", checks.len());
    eprintln!("the node was moved: all {} checks are the same on both sides", checks.len());
    if config.secret.is_none() {
        eprintln!(
            "set ANGO_SECRET of the API nodes to the secret of this node: od -An -v -tx1 {} | tr -d ' \\n'",
            config.data_dir.join("pepper").display()
        );
    }
    Ok(())
}
