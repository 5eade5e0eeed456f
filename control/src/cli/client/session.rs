//! `ango client session`.

use std::path::PathBuf;

use api::SessionId;
use clap::{Args, Subcommand};

use super::node::{self, NodeArgs, parse_session};

/// Open, show and close a gate session on a node.
#[derive(Debug, Args)]
pub struct SessionArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Open a session with an evaluation key and print its id.
    Open {
        #[command(flatten)]
        node: NodeArgs,
        /// File of the evaluation key.
        #[arg(long, value_name = "FILE", default_value = "ango-keys/evaluation.key")]
        evaluation_key: PathBuf,
        /// Print the node's answer as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print a session's figures.
    Show {
        #[command(flatten)]
        node: NodeArgs,
        /// The session's id.
        #[arg(env = "ANGO_SESSION", hide_env_values = true, value_parser = parse_session)]
        session: SessionId,
        /// Print the node's answer as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Close a session. The node erases the session's key.
    Close {
        #[command(flatten)]
        node: NodeArgs,
        /// The session's id.
        #[arg(env = "ANGO_SESSION", hide_env_values = true, value_parser = parse_session)]
        session: SessionId,
    },
}

pub async fn session(args: SessionArgs) -> anyhow::Result<()> {
    match args.command {
        Command::Open { node, evaluation_key, json } => {
            let session = node::open(&node.client()?, &evaluation_key).await?;
            if json {
                println!("{}", serde_json::to_string(&session)?)
            } else {
                println!("{}", session.session_id.as_str())
            }
        }
        Command::Show { node, session, json } => {
            let session = node.client()?.session(&session).await?;
            if json {
                println!("{}", serde_json::to_string(&session)?);
            } else {
                println!("preset      {}", session.preset);
                println!("gates used  {}", session.gates_used);
                println!("bill        {} yen", session.total_cost_jpy);
                println!("expires     {}", session.expires_at);
            }
        }
        Command::Close { node, session } => node.client()?.close(&session).await?,
    }
    Ok(())
}
