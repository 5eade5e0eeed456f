//! `ango admin` commands for a fleet.

use clap::{Args, Subcommand};
use serde_json::json;

use super::common::Common;
use crate::admin::{self, Operator};

/// The operator's commands for a fleet.
#[derive(Debug, Subcommand)]
pub enum FleetCommands {
    FleetKey(FleetKey),
    Fleet(Fleet),
}

/// Print the key for the workers of a fleet (ANGO_FLEET_KEY), which follows from the server's secret. With this key a worker
/// opens the keys of sessions, and nothing else.
#[derive(Debug, Args)]
pub struct FleetKey {
    #[command(flatten)]
    common: Common,
}

/// Show the workers of a fleet and the operations that wait; or let a worker leave, or try or fail an operation. Needs the
/// settings of an API node.
#[derive(Debug, Args)]
pub struct Fleet {
    /// Let this worker leave: it takes no more work, finishes what it has, and its process ends.
    #[arg(long, value_name = "WORKER", conflicts_with_all = ["retry", "fail"])]
    drain: Option<String>,
    /// Let the workers begin this operation again, from its last checkpoint.
    #[arg(long, value_name = "OP_ID", conflicts_with = "fail")]
    retry: Option<String>,
    /// Fail this operation. Nothing is charged.
    #[arg(long, value_name = "OP_ID")]
    fail: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// Runs the command.
///
/// # Errors
/// When the broker or the database does not answer, or there is no such worker or operation.
pub async fn run(command: FleetCommands) -> anyhow::Result<()> {
    match command {
        FleetCommands::FleetKey(args) => fleet_key(args),
        FleetCommands::Fleet(args) => fleet(args).await,
    }
}

fn fleet_key(args: FleetKey) -> anyhow::Result<()> {
    let key = admin::fleet_key(&args.common.config()?)?;
    args.common.done(json!({ "fleet_key": *key }), key.to_string());
    Ok(())
}

async fn fleet(Fleet { drain, retry, fail, common }: Fleet) -> anyhow::Result<()> {
    let config = common.config()?;
    let operator = Operator::open(&config).await?;
    if let Some(worker) = drain {
        operator.drain_worker(&config, &worker).await?;
        common.done(json!({ "draining": worker }), format!("the worker {worker} leaves when its work has ended"));
    } else if let Some(op_id) = retry {
        operator.retry_operation(&config, &op_id).await?;
        common
            .done(json!({ "retried": op_id }), format!("the operation {op_id} begins again from its last checkpoint"));
    } else if let Some(op_id) = fail {
        operator.fail_operation(&config, &op_id).await?;
        common.done(json!({ "failed": op_id }), format!("the operation {op_id} has failed; nothing was charged"));
    } else {
        let (workers, operations) = operator.fleet(&config).await?;
        if common.json {
            println!("{}", json!({ "workers": workers, "operations": operations }));
            return Ok(());
        }
        let columns = ["worker", "pool", "state", "version", "speaks", "weight", "devices", "taken", "keys", "key_mb"];
        common.list(columns, workers.iter().map(|one| json!(one)).collect());
        println!();
        let columns = ["op_id", "account_id", "state", "releases", "done"];
        common.list(columns, operations.iter().map(|one| json!(one)).collect());
    }
    Ok(())
}
