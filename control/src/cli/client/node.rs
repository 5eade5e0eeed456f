//! Options for the node, its API key and the session.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use api::SessionId;
use api::gates::{CreatedSession, EVALUATION_KEY_BYTES_MAX};
use clap::Args;
use client::http;
use zeroize::Zeroizing;

use crate::cli::files;

/// Name of the environment variable with the API key. The key is not a flag, because other users of the machine can
/// read flags.
const API_KEY: &str = "ANGO_API_KEY";
const API_KEY_BYTES_MAX: usize = 4096;

/// The node to talk to.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// Address of the node.
    #[arg(long, env = "ANGO_URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// File with the API key. When omitted, the variable ANGO_API_KEY.
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
}

impl NodeArgs {
    pub fn client(&self) -> anyhow::Result<http::Client> {
        let key = match (&self.api_key_file, std::env::var(API_KEY)) {
            (Some(path), _) => {
                let bytes = Zeroizing::new(files::read(path, API_KEY_BYTES_MAX)?);
                let text = std::str::from_utf8(&bytes).ok().map(str::trim);
                Zeroizing::new(text.with_context(|| format!("{} holds no API key", path.display()))?.to_owned())
            }
            (None, Ok(key)) => Zeroizing::new(key.trim().to_owned()),
            (None, Err(_)) => Zeroizing::new(String::new()),
        };
        if key.is_empty() {
            bail!("no API key: set {API_KEY} or name a file with --api-key-file (`ango admin create-key` makes one)");
        }
        let client = http::Client::new(&self.url, &key)?;
        if client.is_exposed() {
            eprintln!("ango: {} is plain HTTP: the API key can be read on its way there; use https", self.url);
        }
        Ok(client)
    }
}

/// Parses a session's id.
pub fn parse_session(text: &str) -> Result<SessionId, String> {
    text.parse().map_err(|_| "not a session id (sess_ and 26 characters)".to_owned())
}

/// Opens a session with the evaluation key in a file.
pub async fn open(client: &http::Client, evaluation_key: &Path) -> anyhow::Result<CreatedSession> {
    let key = files::read(evaluation_key, EVALUATION_KEY_BYTES_MAX)?;
    client.open_session(key).await.with_context(|| format!("cannot open a session on {}", evaluation_key.display()))
}
