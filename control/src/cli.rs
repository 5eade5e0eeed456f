//! The command line. Every setting of a node is a flag here and a variable in the environment.

#[cfg(feature = "client-tools")]
mod arguments;
#[cfg(feature = "client-tools")]
mod client;
#[cfg(feature = "client-tools")]
mod demo;
mod devices;
#[cfg(feature = "client-tools")]
mod files;
mod fleet;
mod invoices;
#[cfg(feature = "client-tools")]
mod progress;
mod provider_events;
mod reconcile;

mod admin;
mod backups;
mod common;
mod config;
mod moving;
mod run_job;
mod serve;
mod unpaid;
mod users;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use store::Schema;

use crate::config::{Config, Flags};
use crate::work::driver_trial;
use crate::{database, router};

/// Computes on encrypted bits that the server cannot read.
#[derive(Debug, Parser)]
#[command(name = "ango", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Subcommands>,
    #[command(flatten)]
    settings: Flags,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    /// Run a node. The same as no subcommand.
    Serve(Flags),
    /// Migrate the database's schema. Makes the database and the data folder if they do not exist.
    Migrate(Flags),
    /// Manage users, accounts, keys, plans, lockouts and backups. Works whether nodes are running or not.
    #[command(subcommand)]
    Admin(admin::Admin),
    /// Do a job once. For a timer of the system, such as cron.
    #[command(subcommand)]
    RunJob(run_job::Job),
    /// Check settings.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    Devices(devices::DevicesArgs),
    /// Try the driver of one kind of devices. A node runs this command before the node itself loads the driver.
    #[command(hide = true)]
    ProbeDevices(driver_trial::ProbeArgs),
    /// Print the OpenAPI description of the API.
    Openapi,
    #[cfg(feature = "client-tools")]
    Client(self::client::ClientArgs),
    #[cfg(feature = "client-tools")]
    Demo(demo::DemoArgs),
}

/// Runs the program. Errors are one line on stderr.
pub fn main() -> ExitCode {
    driver_trial::allow();
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("ango: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match cli.command {
            Some(Subcommands::Config(command)) => return config::run(command).await,
            Some(Subcommands::RunJob(job)) => return Ok(run_job::run(job)),
            None => serve::run(cli.settings.config()?).await,
            Some(Subcommands::Serve(settings)) => serve::run(settings.config()?).await,
            Some(Subcommands::Migrate(settings)) => migrate(&settings.config()?).await,
            Some(Subcommands::Admin(command)) => admin::run(command).await,
            Some(Subcommands::Devices(args)) => devices::run(args),
            Some(Subcommands::ProbeDevices(args)) => driver_trial::report(args),
            Some(Subcommands::Openapi) => Ok(std::io::stdout().write_all(router::openapi_json().as_bytes())?),
            #[cfg(feature = "client-tools")]
            Some(Subcommands::Client(args)) => self::client::run(args).await,
            #[cfg(feature = "client-tools")]
            Some(Subcommands::Demo(args)) => demo::run(args).await,
        }?;
        Ok(ExitCode::SUCCESS)
    })
}

async fn migrate(config: &Config) -> anyhow::Result<()> {
    match database::migrate(config).await? {
        Schema::Empty => println!("the schema was created"),
        Schema::Older(missing) => println!("migrated: {}", database::list(&missing)),
        Schema::Current => println!("the schema is up to date"),
        Schema::Newer(newer) => println!("the schema is newer than this program: {}", database::list(&newer)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::config::Origin;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_of_serve_and_of_the_bare_command_are_the_same_settings() {
        for line in [&["ango", "--session-ttl-s", "60"][..], &["ango", "serve", "--session-ttl-s", "60"]] {
            let cli = Cli::try_parse_from(line).unwrap();
            let flags = match cli.command {
                Some(Subcommands::Serve(flags)) => flags,
                _ => cli.settings,
            };
            let (_, settings) = flags.read().unwrap();
            let given: Vec<_> = settings.iter().filter(|setting| setting.origin == Origin::Flag).collect();
            assert_eq!((given.len(), given[0].name(), &*given[0].text), (1, "ANGO_SESSION_TTL_S", "60"));
        }
    }

    #[test]
    fn secrets_have_no_flag() {
        let secrets = [
            "ANGO_SECRET",
            "ANGO_FLEET_KEY",
            "ANGO_S3_SECRET_ACCESS_KEY",
            "ANGO_PAYMENTS_STRIPE_SECRET_KEY",
            "ANGO_PAYMENTS_STRIPE_WEBHOOK_SECRET",
            "SERVICE_ADMIN_KEY",
        ];
        let (_, settings) = Flags::default().read().unwrap();
        assert!(settings.iter().all(|setting| setting.is_secret() == secrets.contains(&setting.name())));
        for setting in settings.iter().filter(|setting| setting.is_secret()) {
            let line = ["ango".to_owned(), format!("--{}", setting.flag()), "hunter2".to_owned()];
            let error = Cli::try_parse_from(line).unwrap_err().to_string();
            assert!(
                error.contains(&format!("{} is a secret", setting.name())) && !error.contains("hunter2"),
                "{error}"
            );
        }
        assert!(!Cli::command().render_long_help().to_string().contains("s3-secret"));
    }
}
