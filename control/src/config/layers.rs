//! Layers of settings: a flag comes before a variable, a variable before the settings file, the file before the
//! default.

use std::error::Error;
use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Args, Command, FromArgMatches};
use toml::{Table, Value};

use super::Config;
use crate::caller::PlanTable;

/// The settings file of a data folder.
const FILE_NAME: &str = "ango.toml";

/// A refused setting or settings file. The message is one line that names the variable or the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(String);

impl ConfigError {
    pub(super) fn new(name: &str, why: impl Display) -> ConfigError {
        ConfigError(format!("{name}: {why}"))
    }

    pub(super) fn needs(name: &str, missing: &str) -> ConfigError {
        ConfigError::new(name, format_args!("has no effect without {missing}"))
    }
}

impl Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for ConfigError {}

/// The origin of a setting's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The command line.
    Flag,
    /// The environment.
    Environment,
    /// This settings file.
    File(PathBuf),
    /// The default, because the setting was not given.
    Default,
}

impl Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag => f.write_str("flag"),
            Origin::Environment => f.write_str("environment"),
            Origin::File(path) => write!(f, "file {}", path.display()),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// A setting and its text.
pub struct Setting {
    arg: Arg,
    /// The given text, otherwise the default text. Empty if the setting has no default either.
    pub text: String,
    /// The origin of the text.
    pub origin: Origin,
}

impl Setting {
    /// Returns the name of the setting's variable. Messages use this name for the setting.
    pub fn name(&self) -> &str {
        variable(&self.arg)
    }

    /// Returns the setting's flag without the dashes, which is also the setting's name in the settings file.
    pub fn flag(&self) -> &str {
        self.arg.get_long().expect("every setting has a flag")
    }

    /// Whether the setting is a secret. A secret cannot be given as a flag and is never shown.
    pub fn is_secret(&self) -> bool {
        self.arg.is_hide_set()
    }

    fn is_given(&self) -> bool {
        self.origin != Origin::Default
    }

    fn refused(&self, why: impl Display) -> ConfigError {
        // do not repeat a text that may be or contain a secret
        let is_shown = !self.is_secret() && !self.arg.is_hide_env_values_set();
        let text = if is_shown { format!(", not {:?}", self.text) } else { String::new() };
        let flag = if self.origin == Origin::Flag { format!(" --{}", self.flag()) } else { String::new() };
        ConfigError::new(self.name(), format_args!("{why}{text} (from the {}{flag})", self.origin))
    }
}

/// Returns the name of a setting's variable.
pub(super) fn variable(arg: &Arg) -> &str {
    arg.get_env().and_then(|name| name.to_str()).expect("every setting has a variable")
}

/// Returns a command whose arguments are all settings, each with its parser, in the order of docs/settings.md. The flag
/// of a setting is the name of its variable without the prefix, unless the setting names another flag because a command has
/// an argument of that name.
pub fn command() -> &'static Command {
    static COMMAND: LazyLock<Command> = LazyLock::new(|| {
        let command = Command::new("settings").no_binary_name(true).disable_help_flag(true);
        Config::augment_args(command).mut_args(|arg| {
            let name = variable(&arg);
            let flag =
                || name.trim_start_matches("ANGO_").trim_start_matches("SERVICE_").to_lowercase().replace('_', "-");
            let flag = arg.get_long().map_or_else(flag, str::to_owned);
            // clap removes the full stop at the end of a doc comment, so add it again
            let help = format!("{}.", help(&arg).trim_end_matches('.'));
            // a switch takes the values true and false
            arg.long(flag).help(help).action(ArgAction::Set)
        })
    });
    &COMMAND
}

/// Returns the help text of an argument. Without the call of `ansi`, clap would search the texts of all commands for
/// colours, which was a third of an unoptimised start.
pub(super) fn help(arg: &Arg) -> String {
    arg.get_help().map(|text| text.ansi().to_string()).unwrap_or_default()
}

impl Config {
    /// Reads the settings. `flag` and `variable` take the name of a setting's variable, and return the text that the
    /// flag or the variable gives. An empty text counts as unset.
    ///
    /// # Errors
    /// The first setting that is refused, or why the settings file cannot be used.
    pub fn read(
        flag: impl Fn(&str) -> Option<String>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<(Config, Vec<Setting>), ConfigError> {
        let mut settings = settings(flag, variable);
        let text = |name: &str| &*settings.iter().find(|setting| setting.name() == name).expect("a setting").text;
        let file = match text("ANGO_CONFIG") {
            "" => Some(Path::new(text("ANGO_DATA_DIR")).join(FILE_NAME)).filter(|path| path.exists()),
            path => Some(path.into()),
        };
        let mut plan_limits = PlanTable::default();
        if let Some(path) = &file {
            let added = add_file(&mut settings, path);
            plan_limits = added.map_err(|why| ConfigError::new(&path.display().to_string(), why))?;
        }
        Ok((Config { plan_limits, file, ..parse(&settings)? }, settings))
    }
}

pub(super) fn settings(
    flag: impl Fn(&str) -> Option<String>,
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<Setting> {
    let clean = |text: String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let setting = |arg: &Arg| {
        let name = self::variable(arg);
        let flag = flag(name).and_then(clean).map(|text| (text, Origin::Flag));
        let given = flag.or_else(|| Some((variable(name).and_then(clean)?, Origin::Environment)));
        let default = arg.get_default_values().first().and_then(|text| text.to_str()).unwrap_or_default();
        let (text, origin) = given.unwrap_or_else(|| (default.to_owned(), Origin::Default));
        Setting { arg: arg.clone(), text, origin }
    };
    command().get_arguments().map(setting).collect()
}

/// Takes the values of the settings file for the settings that were not given otherwise. Returns the limits of plans in
/// the file.
fn add_file(settings: &mut [Setting], path: &Path) -> Result<PlanTable, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    // only the error's message: the rest would quote lines of the file, which may contain secrets
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        let before = &text[..error.span().map_or(0, |span| span.start)];
        format!("line {}: {}", before.matches('\n').count() + 1, error.message().replace('\n', " "))
    })?;
    let is_named = settings.iter().any(|setting| setting.flag() == "config" && setting.is_given());
    let mut plan_limits = PlanTable::default();
    for (key, value) in table {
        match (settings.iter_mut().find(|setting| setting.flag() == key), value) {
            (None, plans) if key == "plans" => {
                plan_limits = plans.try_into().map_err(|error| format!("plans: {}", error.message()))?;
            }
            (None, _) => return Err(unknown(&key, settings)),
            // a setting that decides which file is read cannot be in the file
            (Some(_), _) if key == "config" || key == "data-dir" && !is_named => {
                return Err(format!("{key} decides where this file is: give {key} as a flag or a variable"));
            }
            (Some(setting), value) => {
                let text =
                    text_of(value).ok_or_else(|| format!("{key} must be a text, a number, true, false or a list"))?;
                if !setting.is_given() && !text.is_empty() {
                    (setting.text, setting.origin) = (text, Origin::File(path.to_owned()));
                }
            }
        }
    }
    Ok(plan_limits)
}

fn unknown(key: &str, settings: &[Setting]) -> String {
    let names = settings.iter().map(Setting::flag).chain(["plans"]);
    let nearest = names.max_by(|a, b| strsim::jaro(a, key).total_cmp(&strsim::jaro(b, key))).unwrap_or_default();
    format!("there is no setting {key:?}; did you mean {nearest:?}?")
}

/// Converts a value in the settings file to the text that a variable would have. Members of a list are separated by
/// commas.
fn text_of(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Boolean(is) => Some(is.to_string()),
        Value::Array(members) => Some(members.into_iter().map(text_of).collect::<Option<Vec<_>>>()?.join(",")),
        _ => None,
    }
}

pub(super) fn parse(settings: &[Setting]) -> Result<Config, ConfigError> {
    let command = command();
    let mut given: Vec<&Setting> = settings.iter().filter(|setting| setting.is_given()).collect();
    for group in command.get_groups() {
        let is_member = |setting: &Setting| group.get_args().any(|id| setting.arg.get_id() == id);
        let is_missing = |setting: &Setting| setting.arg.is_required_set() && !setting.is_given();
        let Some(missing) = settings.iter().find(|setting| is_member(setting) && is_missing(setting)) else { continue };
        // leave out the defaults of a group that is not used
        given.retain(|setting| !is_member(setting) || setting.arg.get_default_values().is_empty());
        if let Some(given) = given.iter().find(|setting| is_member(setting)) {
            return Err(ConfigError::needs(given.name(), missing.name()));
        }
    }
    // clap must not read the variables again, because they were read above
    let command = command.clone().mut_args(|arg| arg.required(false).env(None::<&'static str>));
    let matches =
        command.try_get_matches_from(given.iter().map(|setting| format!("--{}={}", setting.flag(), setting.text)));
    let config =
        matches.and_then(|matches| Config::from_arg_matches(&matches)).map_err(|error| refusal(&error, settings))?;
    config.complete()
}

/// Converts an error of clap to a message of this program.
fn refusal(error: &clap::Error, settings: &[Setting]) -> ConfigError {
    let flag = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(usage)) => usage.split(' ').next().unwrap_or_default().trim_start_matches('-'),
        _ => "",
    };
    let Some(setting) = settings.iter().find(|setting| setting.flag() == flag) else {
        return ConfigError::new("settings", error.kind());
    };
    match (error.source(), error.get(ContextKind::ValidValue)) {
        (Some(why), _) => setting.refused(why),
        (None, Some(ContextValue::Strings(words))) => setting.refused(format_args!("must be {}", words.join(" or "))),
        _ => setting.refused(error.kind()),
    }
}
