//! Options and output that all commands of an operator share.

use clap::Args;
use comfy_table::Table;
use serde_json::Value;
use tracing::Level;
use tracing_subscriber::filter::Targets;

use super::serve;
use crate::admin::Operator;
use crate::config::{Config, Flags, LogConfig};

/// Options that all commands of an operator share.
#[derive(Debug, Args)]
pub struct Common {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    settings: Flags,
}

impl Common {
    /// Reads the settings and starts the log. The operator's actions are logged under `security`, on stderr.
    pub fn config(&self) -> anyhow::Result<Config> {
        let config = self.settings.config()?;
        let filter = Targets::new().with_default(Level::WARN).with_target("security", Level::INFO);
        serve::start_log(&LogConfig { filter, ..config.log })?;
        Ok(config)
    }

    /// Opens the database.
    pub async fn operator(&self) -> anyhow::Result<Operator> {
        Operator::open(&self.config()?).await
    }

    /// Prints the outcome of a command: `done` if JSON is wanted, otherwise `line`.
    pub fn done(&self, done: Value, line: String) {
        if self.json { println!("{done}") } else { println!("{line}") }
    }

    /// Prints a list: as JSON if JSON is wanted, otherwise as a table with these columns.
    pub fn list<const N: usize>(&self, columns: [&str; N], rows: Vec<Value>) {
        if self.json {
            println!("{}", Value::from(rows));
            return;
        }
        let mut table = Table::new();
        table.load_preset(comfy_table::presets::NOTHING).set_header(columns);
        for row in &rows {
            table.add_row(columns.map(|column| match &row[column] {
                Value::Null => "-".to_owned(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            }));
        }
        println!("{table}");
    }
}
