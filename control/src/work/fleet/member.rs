//! A process as a member of a fleet: its connection to the broker, and what it hears.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use fleet::broker::{Broker, Heard, Topic};
use fleet::member::Ears;
use tokio::sync::Notify;

use super::FleetConfig;

/// Longest time until a member hears its own word.
const HEARD_WAIT: Duration = Duration::from_secs(2);

/// The pool of all workers.
pub const POOL: &str = "default";

/// The addresses of a broker's servers. `Debug` hides passwords.
#[derive(Clone)]
pub struct BrokerUrl(#[cfg(feature = "nats")] String);

impl fmt::Debug for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BrokerUrl(..)")
    }
}

impl BrokerUrl {
    /// Reads the addresses.
    ///
    /// # Errors
    /// The form that the addresses must have.
    #[cfg(feature = "nats")]
    pub fn read(text: &str) -> Result<BrokerUrl, &'static str> {
        fleet::nats::read_servers(text).map(|_| BrokerUrl(text.to_owned()))
    }

    /// Refuses any address, because this build has no connection to a broker.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(feature = "nats"))]
    pub fn read(_: &str) -> Result<BrokerUrl, &'static str> {
        Err("this build has no connection to a broker")
    }
}

/// A process as a member of a fleet.
#[derive(Clone)]
pub struct Member {
    /// The connection to the broker.
    pub broker: Arc<dyn Broker>,
    /// Passes the words that the member hears to its parts.
    pub ears: Arc<Ears>,
    /// The member's name.
    pub name: String,
}

impl Member {
    /// Connects to the broker in the settings. `None`: the settings name no broker. `makes_queues`: whether the member makes
    /// the broker's queues, as API nodes do.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub async fn connect(config: &FleetConfig, name: &str, makes_queues: bool) -> anyhow::Result<Option<Member>> {
        let Some(url) = &config.broker else { return Ok(None) };
        let ears = Arc::<Ears>::default();
        let broker = connect(config, url, name, makes_queues, &ears).await?;
        Ok(Some(Member { broker, ears, name: name.to_owned() }))
    }

    /// Tells something to all members, and waits until this member hears it too. A process that ends after this has told it: the
    /// connection holds words back that the broker has not taken.
    ///
    /// # Errors
    /// When the broker does not answer within two seconds.
    pub async fn tell_and_hear(&self, topic: Topic, content: Bytes) -> anyhow::Result<()> {
        let (heard, wanted) = (Arc::new(Notify::new()), content.clone());
        let notified = heard.clone();
        self.ears.add(Box::new(move |word| {
            if matches!(word, Heard::Told(told, bytes) if *told == topic && *bytes == wanted) {
                notified.notify_one();
            }
        }));
        let telling = async {
            self.broker.tell(topic, content).await?;
            heard.notified().await;
            Ok(())
        };
        tokio::time::timeout(HEARD_WAIT, telling).await.context("the broker does not answer")?
    }
}

#[cfg(feature = "nats")]
async fn connect(
    config: &FleetConfig,
    BrokerUrl(url): &BrokerUrl,
    name: &str,
    makes_streams: bool,
    ears: &Arc<Ears>,
) -> anyhow::Result<Arc<dyn Broker>> {
    use fleet::nats::{NatsBroker, NatsConfig, read_servers};
    crate::tls::choose_cryptography();
    let config = NatsConfig {
        servers: read_servers(url).map_err(|why| anyhow::anyhow!("ANGO_NATS_URL: {why}"))?,
        credentials: config.broker_credentials.clone(),
        fleet: config.name.clone(),
        member: name.to_owned(),
        run_replicas: config.replicas,
        operations_replicas: config.replicas,
        makes_streams,
    };
    Ok(Arc::new(NatsBroker::connect(config, ears.listener()).await.context("ANGO_NATS_URL")?))
}

#[cfg(not(feature = "nats"))]
async fn connect(_: &FleetConfig, _: &BrokerUrl, _: &str, _: bool, _: &Arc<Ears>) -> anyhow::Result<Arc<dyn Broker>> {
    anyhow::bail!("this build has no connection to a broker")
}
