//! The operator's commands for a fleet: its workers, and the operations that wait.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use api::Code;
use api::circuits::OperationStatus;
use fleet::broker::Topic;
use serde::Serialize;
use store::{LineEnd, Unit, Waiting};

use super::Operator;
use crate::config::Config;
use crate::work::fleet::{FleetConfig, Member, News};
use crate::{cache_store, ids};

/// How long workers are listened to. Each tells its presence every second.
const LISTENED: Duration = Duration::from_millis(2500);
/// Largest number of operations that are shown.
const SHOWN_MAX: i64 = 100;

/// A worker, as shown to an operator.
#[derive(Debug, Serialize)]
pub struct WorkerFacts {
    /// The worker's name, which is the name of its lane.
    pub worker: String,
    /// The worker's pool.
    pub pool: String,
    /// `ready`, `warming` (opens keys before it is used), or `draining`.
    pub state: &'static str,
    /// The worker's build.
    pub version: String,
    /// The versions of messages that the worker reads.
    pub speaks: String,
    /// The worker's share of the sessions, in proportion to the other workers.
    pub weight: u32,
    /// The backends that compute.
    pub devices: String,
    /// Requests and operations that the worker computes.
    pub taken: u64,
    /// Keys that are open.
    pub keys: u64,
    /// Memory of prepared keys in MB.
    pub key_mb: u64,
}

/// An operation in the waiting line, as shown to an operator.
#[derive(Debug, Serialize)]
pub struct WaitingFacts {
    /// The operation's id: `op_...`.
    pub op_id: String,
    /// The account's id: `acct_...`.
    pub account_id: String,
    /// `waiting`, `released` to the workers, or `cancelled`.
    pub state: &'static str,
    /// How often the operation was released.
    pub releases: i64,
    /// Units of work that are done.
    pub done: i64,
}

impl From<Waiting> for WaitingFacts {
    fn from(waiting: Waiting) -> WaitingFacts {
        let state = match (waiting.cancelled, waiting.released) {
            (true, _) => "cancelled",
            (false, true) => "released",
            (false, false) => "waiting",
        };
        let Waiting { op_id, account_id, epoch: releases, done, .. } = waiting;
        WaitingFacts { op_id, account_id, state, releases, done }
    }
}

impl Operator {
    /// Returns the workers that tell their presence, and the first operations of the waiting line. Listens for 2.5 seconds.
    ///
    /// # Errors
    /// When the node is in no fleet, or the broker or the database does not answer.
    pub async fn fleet(&self, config: &Config) -> anyhow::Result<(Vec<WorkerFacts>, Vec<WaitingFacts>)> {
        let member = member(&config.fleet).await?;
        tokio::time::sleep(LISTENED).await;
        let workers = heard(&member);
        let waiting = self.store.waiting_line(SHOWN_MAX).await?;
        Ok((workers, waiting.into_iter().map(WaitingFacts::from).collect()))
    }

    /// Lets a worker leave: it takes no more work, finishes what it has, and its process ends.
    ///
    /// # Errors
    /// When no worker of this name is there, or the broker does not answer.
    pub async fn drain_worker(&self, config: &Config, worker: &str) -> anyhow::Result<()> {
        let member = member(&config.fleet).await?;
        tokio::time::sleep(LISTENED).await;
        let is_there = member.ears.workers.lock().live(Instant::now()).any(|presence| presence.worker == worker);
        if !is_there {
            bail!("there is no worker {worker}: `ango admin fleet` shows the workers");
        }
        let news = News::Leave { worker: worker.to_owned() };
        member.tell_and_hear(Topic::News, news.write().into()).await?;
        tracing::info!(target: "security", worker, "a worker was told to leave by the operator");
        Ok(())
    }

    /// Lets the workers drop an operation of the waiting line and begin it again, from its last checkpoint.
    ///
    /// # Errors
    /// When the operation is not released, or the broker does not answer.
    pub async fn retry_operation(&self, config: &Config, op_id: &str) -> anyhow::Result<()> {
        let waiting = self.store.waiting(op_id).await?;
        if !waiting.is_some_and(|waiting| waiting.released) {
            bail!("the operation {op_id} is not with the workers: `ango admin fleet` shows the operations");
        }
        self.drop_work(config, op_id).await?;
        tracing::info!(target: "security", op_id, "an operation is tried again by the operator's word");
        Ok(())
    }

    /// Fails an operation of the waiting line. Nothing is charged.
    ///
    /// # Errors
    /// When the operation is not in the line, or the broker does not answer.
    pub async fn fail_operation(&self, config: &Config, op_id: &str) -> anyhow::Result<()> {
        let Some(waiting) = self.store.waiting(op_id).await? else {
            bail!("the operation {op_id} is not in the waiting line: `ango admin fleet` shows the operations");
        };
        let now = self.clock.now().0;
        self.fail(&waiting, now).await?;
        if let Some(transfer_id) = &waiting.transfer_id {
            self.store.void_reservation(transfer_id, &waiting.account_id, now).await?;
        }
        tracing::info!(target: "security", op_id, "an operation was failed by the operator");
        self.drop_work(config, op_id).await
    }

    async fn fail(&self, Waiting { op_id, account_id, .. }: &Waiting, now: i64) -> anyhow::Result<()> {
        let record = self.store.operation(account_id, op_id).await?;
        let (_, record) = record.context("the operation has no record")?;
        let message = "the operator ended the operation; nothing was charged".to_owned();
        let failed = (OperationStatus::Failed, Some((Code::ServiceUnavailable.as_str().to_owned(), message)));
        let end = record.ended_unbegun(op_id, failed, now, LineEnd::Operator);
        Ok(self.store.submit(Unit { operation_end: Some(end), ..Unit::default() }).await?)
    }

    async fn drop_work(&self, config: &Config, op_id: &str) -> anyhow::Result<()> {
        member(&config.fleet).await?.tell_and_hear(Topic::Cancel, op_id.to_owned().into()).await
    }
}

/// Tells the API nodes of a fleet which records have changed.
///
/// # Errors
/// When the broker does not answer.
pub(super) async fn tell_api_nodes(config: &FleetConfig, records: &[cache_store::News]) -> anyhow::Result<()> {
    let member = member(config).await?;
    let mut news: Vec<News> = records.iter().map(|records| News::changed(records, member.name.clone())).collect();
    // the news name no caller, so several records may have the same
    news.dedup();
    for news in news {
        member.tell_and_hear(Topic::News, news.write().into()).await?;
    }
    Ok(())
}

async fn member(config: &FleetConfig) -> anyhow::Result<Member> {
    let name = format!("operator-{}", hex::encode(ids::random::<8>()));
    Member::connect(config, &name, false).await?.context("ANGO_NATS_URL names no broker: this node is in no fleet")
}

/// Returns the workers that were heard a moment ago.
fn heard(member: &Member) -> Vec<WorkerFacts> {
    let workers = member.ears.workers.lock();
    let facts = workers.live(Instant::now()).map(|presence| WorkerFacts {
        worker: presence.worker.clone(),
        pool: presence.pool.clone(),
        state: match (presence.draining, presence.warming) {
            (true, _) => "draining",
            (false, true) => "warming",
            (false, false) => "ready",
        },
        version: presence.version.clone(),
        speaks: format!("{} to {}", presence.speaks[0], presence.speaks[1]),
        weight: presence.weight,
        devices: presence.load.devices.join(" "),
        taken: presence.load.taken,
        keys: presence.load.keys,
        key_mb: presence.load.resident_bytes / 1_000_000,
    });
    facts.collect()
}
