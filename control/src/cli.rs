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
#[cfg(feature = "client-tools")]
mod progress;

mod admin;
mod backups;
mod common;
mod config;
mod serve;
mod users;

use std::io::Write;
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use store::Schema;

use crate::config::{Config, ConfigError, SETTINGS};
use crate::{database, router};

/// Computes on encrypted bits that the server cannot read.
#[derive(Debug, Parser)]
#[command(name = "ango", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Subcommands>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    /// Run a node. The same as no subcommand.
    Serve(Settings),
    /// Bring the database's schema up to date; make database and data folder if they are not there.
    Migrate(Settings),
    /// Work on a node's data folder or database, whether a node runs on it or not.
    #[command(subcommand)]
    Admin(admin::Admin),
    /// Look at settings.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    Devices(devices::DevicesArgs),
    /// Print the OpenAPI page.
    Openapi,
    #[cfg(feature = "client-tools")]
    Client(self::client::ClientArgs),
    #[cfg(feature = "client-tools")]
    Demo(demo::DemoArgs),
}

/// The settings of [`SETTINGS`] as flags; variables of the environment where a flag is not given.
#[derive(Clone, Debug, Default)]
struct Settings {
    given: Vec<(&'static str, String)>,
}

impl Settings {
    fn config(&self) -> Result<Config, ConfigError> {
        Config::from_lookup(|name| self.text(name))
    }

    /// What was given for a setting, if anything was.
    fn text(&self, name: &str) -> Option<String> {
        let flag = self.given.iter().find(|(given, _)| *given == name).map(|(_, text)| text.clone());
        flag.or_else(|| std::env::var(name).ok())
    }
}

impl Args for Settings {
    fn augment_args(command: Command) -> Command {
        SETTINGS.iter().fold(command, |command, setting| {
            let Some(flag) = setting.flag else { return command };
            let default = if setting.default.is_empty() { "unset" } else { setting.default };
            let help = format!("{} [env: {}] [default: {default}]", setting.why, setting.name);
            command.arg(Arg::new(setting.name).long(flag).value_name("VALUE").help(help).help_heading("Settings"))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Settings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut settings = Settings::default();
        settings.update_from_arg_matches(matches)?;
        Ok(settings)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let flags = SETTINGS.iter().filter(|setting| setting.flag.is_some());
        self.given
            .extend(flags.filter_map(|setting| Some((setting.name, matches.get_one::<String>(setting.name)?.clone()))));
        Ok(())
    }
}

/// The program. Errors go to the error stream in one line.
pub fn main() -> ExitCode {
    let cli = Cli::from_arg_matches(&Cli::command().get_matches()).unwrap_or_else(|error| error.exit());
    match run(cli) {
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
            None => serve::run(cli.settings.config()?).await,
            Some(Subcommands::Serve(settings)) => serve::run(settings.config()?).await,
            Some(Subcommands::Migrate(settings)) => migrate(&settings.config()?).await,
            Some(Subcommands::Admin(command)) => admin::run(command).await,
            Some(Subcommands::Devices(args)) => devices::run(args),
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
        Schema::Empty => println!("the schema is made"),
        Schema::Older(missing) => println!("done: {}", database::list(&missing)),
        Schema::Current => println!("the schema is up to date"),
        Schema::Newer(newer) => println!("the schema is newer than this program: {}", database::list(&newer)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_of_serve_and_of_the_bare_command_are_the_same_settings() {
        for line in [&["ango", "--session-ttl-s", "60"][..], &["ango", "serve", "--session-ttl-s", "60"]] {
            let cli = Cli::try_parse_from(line).unwrap();
            let settings = match cli.command {
                Some(Subcommands::Serve(settings)) => settings,
                _ => cli.settings,
            };
            assert_eq!(settings.given, [("ANGO_SESSION_TTL_S", "60".to_owned())]);
        }
    }

    #[test]
    fn secrets_have_no_flag() {
        assert!(Cli::try_parse_from(["ango", "--admin-key", "x"]).is_err());
        let secrets = ["ANGO_SECRET", "ANGO_S3_SECRET_ACCESS_KEY", "SERVICE_ADMIN_KEY"];
        assert!(SETTINGS.iter().all(|setting| setting.flag.is_some() != secrets.contains(&setting.name)));
    }
}
