//! The settings as flags of a command. Flags are taken as texts and parsed together with the environment and the
//! settings file.

use std::sync::LazyLock;

use clap::builder::ValueParser;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};

use super::layers::{command, help, variable};
use super::{Config, ConfigError, Setting};

/// The settings that a command line gives, by the names of their variables.
#[derive(Clone, Debug, Default)]
pub struct Flags(Vec<(String, String)>);

impl Flags {
    /// Reads the settings from these flags, the environment and the settings file. Returns also the origin of each
    /// setting.
    ///
    /// # Errors
    /// The errors of [`Config::read`].
    pub fn read(&self) -> Result<(Config, Vec<Setting>), ConfigError> {
        let flag = |name: &str| self.0.iter().find(|(given, _)| given == name).map(|(_, text)| text.clone());
        Config::read(flag, |name| std::env::var(name).ok())
    }

    /// Reads the settings without their origins.
    ///
    /// # Errors
    /// The errors of [`Config::read`].
    pub fn config(&self) -> Result<Config, ConfigError> {
        Ok(self.read()?.0)
    }
}

fn as_text(arg: &Arg) -> Arg {
    // use the variable's name as id, because it differs from the ids of a command's own arguments
    arg.clone()
        .id(variable(arg).to_owned())
        .env(None::<&'static str>)
        .required(false)
        .value_delimiter(None)
        .value_parser(ValueParser::string())
        .value_name("VALUE")
        .num_args(1)
        .help(format!("{} [env: {}]", help(arg), variable(arg)))
        .help_heading("Settings")
        // `-h` shows only a command's own arguments, `--help` the settings too
        .hide_short_help(true)
}

impl Args for Flags {
    fn augment_args(onto: Command) -> Command {
        // the arguments are made once and shared, because every command for operators has an argument for each setting
        static FLAGS: LazyLock<Vec<Arg>> = LazyLock::new(|| command().get_arguments().map(as_text).collect());
        onto.args(FLAGS.iter())
    }

    fn augment_args_for_update(onto: Command) -> Command {
        Self::augment_args(onto)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut flags = Flags::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for arg in command().get_arguments() {
            let name = variable(arg);
            if matches.value_source(name) != Some(ValueSource::CommandLine) {
                continue;
            }
            if arg.is_hide_set() {
                let why = "is a secret, and other users of the machine can read flags";
                let instead = "set the variable, or put it in the settings file";
                return Err(Error::raw(ErrorKind::ArgumentConflict, format!("{name} {why}: {instead}")));
            }
            self.0.extend(matches.get_one::<String>(name).map(|text| (name.to_owned(), text.clone())));
        }
        Ok(())
    }
}
