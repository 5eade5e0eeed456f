//! `ango admin backup` and `ango admin restore`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use super::common::Common;
use crate::admin::backup::{self, Manifest};

/// The operator's commands for backups.
#[derive(Debug, Subcommand)]
pub enum Backups {
    Backup(Backup),
    Restore(Restore),
}

/// Copy a node's database, secret and stored answers to a new folder. The node may run. The copy contains the secret:
/// keep it private.
#[derive(Debug, Args)]
pub struct Backup {
    /// The new folder, which must not exist.
    #[arg(value_name = "FOLDER")]
    to: PathBuf,
    /// Leave the database out, because it is PostgreSQL and pg_dump copies it.
    #[arg(long)]
    without_database: bool,
    #[command(flatten)]
    common: Common,
}

/// Make the data folder from a backup. The data folder must not exist or must be empty.
#[derive(Debug, Args)]
pub struct Restore {
    /// A folder that `backup` made.
    #[arg(value_name = "FOLDER")]
    from: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// Runs the command.
///
/// # Errors
/// When the settings are refused, or with the errors of [`backup::backup`] and [`backup::restore`].
pub async fn run(command: Backups) -> anyhow::Result<()> {
    match command {
        Backups::Backup(args) => {
            let config = args.common.config()?;
            let manifest = backup::backup(&config, &args.to, args.without_database).await?;
            told(&args.common, &manifest, format!("backed up to {}", args.to.display()));
        }
        Backups::Restore(args) => {
            let config = args.common.config()?;
            let manifest = backup::restore(&config, &args.from)?;
            told(
                &args.common,
                &manifest,
                format!("restored {} as it was at {}", config.data_dir.display(), manifest.created_at),
            );
        }
    }
    Ok(())
}

fn told(common: &Common, manifest: &Manifest, line: String) {
    if !manifest.secret {
        eprintln!(
            "the server's secret is not in the backup: keep ANGO_SECRET, because API keys do not work without it"
        );
    }
    if !manifest.database {
        eprintln!("the database is not in the backup: copy it with pg_dump at the same time");
    }
    let Manifest { version, created_at, database, secret, .. } = manifest;
    let done = json!({ "version": version, "created_at": created_at, "database": database, "secret": secret });
    common.done(done, line);
}
