//! Checks `.env.sample`, docs/ango.toml and docs/settings.md, which are made from the settings. With
//! `UPDATE_SNAPSHOTS=1`, writes these files.

use clap::{Arg, Command};
use control::caller::{Plan, PlanTable, UNLIMITED};
use control::config::{Config, Origin, command};

fn flag(arg: &Arg) -> &str {
    arg.get_long().unwrap()
}

fn variable(arg: &Arg) -> &str {
    arg.get_env().unwrap().to_str().unwrap()
}

fn default(arg: &Arg) -> &str {
    arg.get_default_values().first().map_or("", |text| text.to_str().unwrap())
}

fn help(arg: &Arg) -> String {
    arg.get_help().unwrap().to_string()
}

/// Describes the allowed values of a setting, by the list of words or by the parser's message about a wrong value.
fn takes(arg: &Arg, command: &Command) -> String {
    let words = arg.get_possible_values();
    if !words.is_empty() {
        return words.iter().map(|word| word.get_name()).collect::<Vec<_>>().join(" or ");
    }
    let refused =
        command.clone().mut_args(|arg| arg.required(false)).try_get_matches_from([format!("--{}=\u{1}", flag(arg))]);
    let why = refused.err().and_then(|error| Some(std::error::Error::source(&error)?.to_string())).unwrap_or_default();
    why.strip_prefix("must be ").or(why.strip_prefix("must ")).unwrap_or_default().to_owned()
}

fn number(limit: u64) -> String {
    if limit == UNLIMITED { "\"unlimited\"".to_owned() } else { limit.to_string() }
}

/// Returns the tables of the sample settings file that contain the limits of every plan.
fn plans() -> String {
    let table = PlanTable::default();
    let plans =
        Plan::ALL.map(|plan| (plan.as_str(), table.of(plan))).into_iter().chain([("anonymous", table.anonymous)]);
    plans.fold(String::new(), |text, (name, limits)| {
        let fixed = name == Plan::Trial.as_str();
        let counts = [("requests-a-day", limits.requests_a_day), ("requests-a-month", limits.requests_a_month)];
        let counts = counts.iter().filter(|_| !fixed).map(|(key, limit)| format!("#{key} = {}\n", number(*limit)));
        let sessions = Some(limits.open_sessions).filter(|_| name != "anonymous");
        let sessions = sessions.map(|limit| format!("#open-sessions = {}\n", number(limit))).unwrap_or_default();
        let burst = limits.burst_a_second;
        let of_keys = [
            ("encryption-keys", limits.encryption_keys),
            ("encryption-key-mb", limits.encryption_key_mb),
            ("ciphertext-cache-mb", limits.ciphertext_cache_mb),
        ];
        let of_keys = of_keys.iter().filter(|_| name != "anonymous");
        let of_keys: String = of_keys.map(|(key, limit)| format!("#{key} = {}\n", number(*limit))).collect();
        let counts: String = counts.collect();
        format!("{text}\n#[plans.{name}]\n{counts}#burst-a-second = {burst}\n{sessions}{of_keys}")
    })
}

fn env_sample() -> String {
    let head = "# Every setting of ango with its default, as an environment variable. The node does not read this file: name it to\n\
                # systemd or to the container's runtime. docs/settings.md says more.\n";
    command()
        .get_arguments()
        .fold(head.to_owned(), |text, arg| text + &format!("\n# {}\n#{}={}\n", help(arg), variable(arg), default(arg)))
}

fn toml_sample() -> String {
    let head = "# Every setting of ango with its default, for the settings file: `--config FILE`, ANGO_CONFIG, or ango.toml in the data\n\
                # folder. A file that holds a secret or a password must be readable by the node's user only (mode 0600).\n";
    let settings = command().get_arguments().filter(|arg| flag(arg) != "config").fold(head.to_owned(), |text, arg| {
        let value = default(arg);
        let is_bare = value.parse::<u64>().is_ok() || value.parse::<bool>().is_ok();
        let value = if is_bare { value.to_owned() } else { format!("{value:?}") };
        text + &format!("\n# {}\n#{} = {value}\n", help(arg), flag(arg))
    });
    settings
        + "\n# What plans allow. A limit is a number or \"unlimited\". The operations of trial keys are fixed.\n"
        + &plans()
}

fn page() -> String {
    let head = "\
# Settings

Made of the program's settings: do not edit.

A setting is a flag of `ango serve`, an environment variable, or a key of the settings file. A flag comes before a variable, a
variable before the file, the file before the default. `ango config check` prints the settings that a node would have, and where each
comes from. [.env.sample](../.env.sample) lists the variables, [ango.toml](ango.toml) the keys.

The settings file is TOML. `--config FILE` or `ANGO_CONFIG` names it; without them it is `ango.toml` in the data folder, if that is there.
A key is the flag without its dashes: `session-ttl-s = 600`. An unknown key is an error. A list may be a list:
`trusted-proxies = [\"10.0.0.0/8\"]`. Backups do not hold the file.

A secret is a variable or a key of the file and has no flag, because other users of the machine can read flags.

| Flag and key | Variable | Default | Takes | What it is for |
|---|---|---|---|---|
";
    let command = command();
    let table = command.get_arguments().fold(head.to_owned(), |text, arg| {
        let name = if arg.is_hide_set() { format!("`{}` (no flag)", flag(arg)) } else { format!("`--{}`", flag(arg)) };
        let default =
            Some(default(arg)).filter(|text| !text.is_empty()).map(|text| format!("`{text}`")).unwrap_or_default();
        text + &format!("| {name} | `{}` | {default} | {} | {} |\n", variable(arg), takes(arg, command), help(arg))
    });
    let plans = plans().replace('#', "");
    table
        + "\n## Plans\n\nOnly the settings file changes what plans allow, by a table a plan. What it does not name keeps its default. A limit\n\
           is a number or `\"unlimited\"`. `anonymous` is for callers without a key, by network. The operations of trial keys are fixed.\n\
           These are the defaults:\n\n```toml"
        + &plans
        + "```\n"
}

#[test]
fn the_pages_say_every_setting() {
    for (name, text) in [(".env.sample", env_sample()), ("docs/ango.toml", toml_sample()), ("docs/settings.md", page())]
    {
        let path = format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(committed == text, "{name} is not up to date: run this test with UPDATE_SNAPSHOTS=1");
    }
}

/// Every setting in the sample is valid after its comment mark is removed.
#[test]
fn the_sample_of_the_settings_file_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ango.toml");
    let is_setting = |line: &&str| line.starts_with('#') && !line.starts_with("# ");
    let lines: Vec<String> = toml_sample().lines().filter(is_setting).map(|line| line[1..].to_owned() + "\n").collect();
    std::fs::write(&path, lines.concat()).unwrap();
    let named = |name: &str| (name == "ANGO_CONFIG").then(|| path.to_str().unwrap().to_owned());
    let (config, settings) = Config::read(|_| None, named).unwrap();
    assert_eq!(config.plan_limits, PlanTable::default());
    let from_file = |name: &str| settings.iter().any(|one| one.name() == name && matches!(one.origin, Origin::File(_)));
    assert!(from_file("ANGO_LISTEN") && from_file("ANGO_CONNECTIONS_MAX") && !from_file("ANGO_TLS_KEY"));
}
