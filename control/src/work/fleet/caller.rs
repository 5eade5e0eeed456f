//! The worker's calls to the internal listeners of API nodes.

use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use reqwest::StatusCode;
use zeroize::Zeroizing;

use super::access::KeyAccess;
use super::content::Callback;

/// Timeout for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Largest body in bytes that a worker reads: operands of the largest operation.
const BODY_BYTES_MAX: u64 = 256 << 20;
/// Number of attempts to return an end, and the pause between them.
const ENDS_TRIED: usize = 5;
const END_PAUSE: Duration = Duration::from_millis(200);

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// The token is spent or unknown: the request has ended, or must be published again.
    #[error("the token is of no use")]
    Token,
    /// The key does not exist any more.
    #[error("the key has ended")]
    Gone,
    /// The API node does not answer.
    #[error("the API node does not answer: {0}")]
    Away(String),
}

/// Calls API nodes.
#[derive(Clone)]
pub struct Caller {
    client: reqwest::Client,
}

impl Caller {
    /// Makes a caller.
    ///
    /// # Errors
    /// When the TLS library does not start.
    pub fn new() -> anyhow::Result<Caller> {
        crate::tls::choose_cryptography();
        let client = reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT).timeout(CALL_TIMEOUT).no_proxy();
        Ok(Caller { client: client.build().context("a client for the API nodes of the fleet")? })
    }

    /// Fetches the operands of a request.
    ///
    /// # Errors
    /// Why they are not there.
    pub async fn operands(&self, callback: &Callback) -> Result<Bytes, NoAnswer> {
        self.get(format!("{}/requests/{}", callback.url, callback.token), NoAnswer::Token).await
    }

    /// Reads the access to the key of a request.
    ///
    /// # Errors
    /// Why it is not there.
    pub async fn key(&self, callback: &Callback) -> Result<KeyAccess, NoAnswer> {
        let bytes = self.get(format!("{}/keys/{}", callback.url, callback.token), NoAnswer::Gone).await?;
        serde_json::from_slice(&bytes).map_err(|error| NoAnswer::Away(error.to_string()))
    }

    /// Reads a row of the key of a request.
    ///
    /// # Errors
    /// Why it is not there.
    pub async fn row(&self, callback: &Callback, row_index: i64) -> Result<Zeroizing<Vec<u8>>, NoAnswer> {
        let url = format!("{}/keys/{}/rows/{row_index}", callback.url, callback.token);
        Ok(Zeroizing::new(self.get(url, NoAnswer::Gone).await?.to_vec()))
    }

    /// Reads the last checkpoint of an operation. `None`: there is none.
    ///
    /// # Errors
    /// When the API node does not answer, or the token is of no use.
    pub async fn checkpoint(&self, callback: &Callback) -> Result<Option<Bytes>, NoAnswer> {
        match self.get(format!("{}/checkpoints/{}", callback.url, callback.token), NoAnswer::Gone).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(NoAnswer::Gone) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Hands a checkpoint to the API node.
    ///
    /// # Errors
    /// When the API node does not keep it.
    pub async fn keep_checkpoint(&self, callback: &Callback, bytes: Vec<u8>) -> Result<(), NoAnswer> {
        let url = format!("{}/checkpoints/{}", callback.url, callback.token);
        match self.client.post(&url).body(bytes).send().await {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) => Err(NoAnswer::Away(answer.status().to_string())),
            Err(error) => Err(NoAnswer::Away(error.without_url().to_string())),
        }
    }

    /// Returns the end of a request.
    ///
    /// # Errors
    /// When no API node took it.
    pub async fn end(&self, callback: &Callback, end: Bytes) -> Result<(), NoAnswer> {
        let url = format!("{}/requests/{}", callback.url, callback.token);
        let mut last = NoAnswer::Away(String::new());
        for _ in 0..ENDS_TRIED {
            match self.client.post(&url).body(end.clone()).send().await {
                Ok(answer) if answer.status().is_success() => return Ok(()),
                Ok(answer) if answer.status() == StatusCode::NOT_FOUND => return Err(NoAnswer::Token),
                Ok(answer) => last = NoAnswer::Away(answer.status().to_string()),
                Err(error) => last = NoAnswer::Away(error.without_url().to_string()),
            }
            tokio::time::sleep(END_PAUSE).await;
        }
        Err(last)
    }

    async fn get(&self, url: String, gone: NoAnswer) -> Result<Bytes, NoAnswer> {
        let away = |error: reqwest::Error| NoAnswer::Away(error.without_url().to_string());
        let answer = self.client.get(url).send().await.map_err(away)?;
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::GONE => return Err(gone),
            StatusCode::NOT_FOUND => return Err(NoAnswer::Token),
            other => return Err(NoAnswer::Away(other.to_string())),
        }
        if answer.content_length().is_none_or(|bytes| bytes > BODY_BYTES_MAX) {
            return Err(NoAnswer::Away("a body without a length, or too long".to_owned()));
        }
        answer.bytes().await.map_err(away)
    }
}
