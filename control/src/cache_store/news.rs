//! Messages between nodes through the cache store, so that no node must wait until it next reads the database.
//!
//! A message only says which records to read again from the database, which is the authority. So a message never locks,
//! admits or refuses a caller.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::{CacheStore, CacheStoreConfig, OPEN_PATIENCE, Unreachable};

/// Name of the channel.
pub const CHANNEL: &str = "news";
/// The version of the messages' format.
const VERSION: u32 = 1;
/// Largest size of a message in bytes.
const BYTES_MAX: usize = 1024;

/// A change on another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum News {
    /// Keys of this lineage were revoked or rotated.
    Keys {
        /// `lin_...`
        lineage: String,
    },
    /// The plan or the standing of this account changed.
    Account {
        /// `acct_...`
        account_id: String,
    },
    /// Session tokens ended.
    Tokens,
    /// Failed attempts were counted or cleared.
    Lockouts,
}

/// A way to tell news to the other nodes.
pub trait Teller: Send + Sync {
    /// Whether the other nodes can be told at the moment.
    fn is_open(&self) -> bool;

    /// Tells news to the other nodes. If this fails, the other nodes read the change from the database later.
    fn tell(&self, news: News) -> BoxFuture<'_, ()>;
}

impl Teller for CacheStore {
    fn is_open(&self) -> bool {
        CacheStore::is_open(self)
    }

    fn tell(&self, news: News) -> BoxFuture<'_, ()> {
        self.publish(news).boxed()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    version: u32,
    /// The node that sent the message. Empty: the operator.
    from: String,
    news: News,
}

impl Message {
    fn of(from: &str, news: News) -> String {
        let message = Message { version: VERSION, from: from.to_owned(), news };
        serde_json::to_string(&message).expect("a message is JSON")
    }
}

impl CacheStore {
    async fn publish(&self, news: News) {
        let message = Message::of(&self.0.name, news);
        let channel = self.0.config.name(CHANNEL);
        let publishing =
            async |mut connection| redis::cmd("PUBLISH").arg(channel).arg(message).exec_async(&mut connection).await;
        let _: Result<(), Unreachable> = self.call(publishing).await;
    }

    /// Reads a message. `None`: this node sent the message itself.
    pub(super) fn read(&self, message: &[u8]) -> Result<Option<News>, &'static str> {
        if message.len() > BYTES_MAX {
            return Err("the message is too long");
        }
        let message: Message =
            serde_json::from_slice(message).map_err(|_| "the message does not have the expected form")?;
        if message.version != VERSION {
            return Err("the message has another version");
        }
        Ok((message.from != self.0.name).then_some(message.news))
    }
}

/// Sends news once, from a program other than a node.
///
/// # Errors
/// When the cache store does not answer.
pub async fn publish_once(config: &CacheStoreConfig, news: News) -> anyhow::Result<()> {
    let publishing = async {
        let client = redis::Client::open(config.url.as_str())?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        let message = Message::of("", news);
        redis::cmd("PUBLISH").arg(config.name(CHANNEL)).arg(message).exec_async(&mut connection).await
    };
    Ok(timeout(OPEN_PATIENCE, publishing).await??)
}

/// Checks that the cache store answers, from a program other than a node.
///
/// # Errors
/// When the cache store does not answer.
pub async fn ping_once(config: &CacheStoreConfig) -> anyhow::Result<()> {
    let asking = async {
        let client = redis::Client::open(config.url.as_str())?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        redis::cmd("PING").exec_async(&mut connection).await
    };
    Ok(timeout(OPEN_PATIENCE, asking).await??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_by_everybody_but_its_sender_and_nothing_else_is_one() {
        let config = CacheStoreConfig::at("redis://127.0.0.1").unwrap();
        let [one, other] = [(); 2].map(|()| CacheStore::new(config.clone()).unwrap());
        let account = News::Account { account_id: "acct_1".to_owned() };
        for news in [News::Keys { lineage: "lin_1".to_owned() }, account, News::Tokens, News::Lockouts] {
            let message = Message::of(&one.0.name, news.clone());
            assert_eq!(one.read(message.as_bytes()), Ok(None));
            assert_eq!(other.read(message.as_bytes()), Ok(Some(news.clone())));
            let of_the_operator = Message::of("", news.clone());
            assert_eq!(one.read(of_the_operator.as_bytes()), Ok(Some(news)));
            assert!(one.read(message.replace(":1,", ":2,").as_bytes()).is_err());
            assert!(one.read(&message.as_bytes()[1..]).is_err());
        }
        let long = Message::of("", News::Keys { lineage: "x".repeat(BYTES_MAX) });
        assert!(one.read(long.as_bytes()).is_err());
    }
}
