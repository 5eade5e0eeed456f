//! Token buckets that nodes share (readings L6).

use std::time::Duration;

use super::{CacheStore, Unreachable};

pub const SCRIPT: &str = include_str!("bursts.lua");

impl CacheStore {
    /// Takes a token from a subject's bucket, which gets one token every `token_us` microseconds. Returns zero if a
    /// token was taken, otherwise the time until the next token.
    pub async fn take_token(&self, subject: &str, token_us: i64) -> Result<Duration, Unreachable> {
        let mut call = self.0.take_token.key(self.0.config.name(&format!("burst:{subject}")));
        call.arg(token_us);
        let wait_us: u64 = self.call(async |mut connection| call.invoke_async(&mut connection).await).await?;
        Ok(Duration::from_micros(wait_us))
    }
}
